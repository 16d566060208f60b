/* Rows of pgq_ext.batch_note: notes of batches. See the README of batches/. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* What a note says of n members. The numbers are stored. */
enum class Note : int16
{
	kAdded = 1,		/* members were added */
	kDead = 2,		/* members have become dead letters */
	kCancelled = 3, /* this and the following: members have ended in another way than by an ack */
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
 * Write notes, without the executor: triggers and constraints that users have added to the table
 * do not matter. The next statement of the transaction sees them.
 */
void add_notes(const NewNote *notes, int n);
void add_note(int64 batch_id, Note what, int64 n);

} // namespace pgq
