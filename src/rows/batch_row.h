/*
 * Rows of pgq_ext.job_batch, one for each batch, and of pgq_ext.batch_note, which are only inserted.
 * See the README of batches/.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct BatchRow
{
	Oid maker; /* invalid: a dump has brought the batch, and there is no such role */
	bool closed;
	bool finished;
};

/*
 * Read the newest committed state of the batch, or the state that this transaction has written, at
 * every isolation level. Returns false if there is no such batch.
 */
bool find_batch(int64 batch_id, BatchRow *batch);

/* What a note says of n members. The numbers are stored. */
enum class Note : int16
{
	kAdded = 1, /* members were added */
	kDead = 2,	/* members have become dead letters */
	/* this kind and the kinds below: members have ended in another way than by an ack */
	kCancelled = 3,
	kExpired = 4,
	kPurged = 5,
	kDropped = 6, /* with their queue */
	kDeleted = 7, /* by SQL */
	kDeadLetterDeleted = 8,
};

struct NewNote
{
	int64 batch_id;
	Note what;
	int64 n;
};

/*
 * Insert notes, without the executor: triggers and constraints that users have added to the table
 * do not matter. The next statement of the transaction sees them.
 */
void add_notes(const NewNote *notes, int n);
void add_note(int64 batch_id, Note what, int64 n);

} // namespace pgq
