/*
 * Members of batches, and dead letters of members, whose rows SQL statements delete. The triggers of
 * pgq_ext.job and pgq_ext.dead_job gather the notes of these ends (rows/batch_note.h) in the memory
 * of the transaction, one for each batch and kind of end. So a statement that deletes a million
 * members writes one note for each batch.
 */
#pragma once

#include "rows/batch_note.h"

namespace pgq {

/* What a statement of the extension does. The triggers of the tables that it changes ask for this. */
enum class StatementKind : uint8
{
	kNone,	  /* no statement of the extension runs */
	kPurge,	  /* deletes the waiting jobs of a queue */
	kCancel,  /* deletes the waiting members of a cancelled batch */
	kDrop,	  /* deletes the jobs and records of a dropped queue */
	kRevive,  /* makes jobs of dead letters */
	kRecords, /* changes, moves or deletes dead letters or other records */
	kBatch,	  /* creates or changes a batch, and tells the scheduler itself */
};

/* Return the kind of the innermost running statement; kNone: SQL of a user changes the rows. */
StatementKind running_statement();

/* For with_statement_kind(). */
void begin_statement(StatementKind kind);
void end_statement();

/*
 * Run body(), which runs a statement of the extension that changes rows of jobs, dead letters or
 * batches, and then write the notes that the triggers have gathered.
 */
template <typename Body>
void
with_statement_kind(StatementKind kind, Body body)
{
	begin_statement(kind);
	body();
	end_statement();
}

/*
 * Gather a note of one member. The note is written when the statement of the extension has ended, or
 * else when the transaction commits or is prepared. Without the library's shared memory the note is
 * written at once.
 */
void gather_note(int64 batch_id, Note what);

/* Write a note of one member to each batch that can still get a callback. */
void note_all_batches(Note what);

void member_notes_init();

} // namespace pgq
