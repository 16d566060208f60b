/*
 * Functions for code that writes rows of jobs or dead letters: they take room in queues with
 * max_depth, and keep the counts of the queues' rows up to date.
 */
#pragma once

#include "engine/queue.h"
#include "rows/job.h"

namespace pgq {

/*
 * Take room for new jobs: for all or for none. Count them as jobs of this transaction. Raises PQ002
 * if the queue is full. Counts the jobs of the queue first, if their number is not known.
 */
void enter_queue(const QueueRef &ref, int64 jobs);

/*
 * Like enter_queue(), for a caller that can leave jobs out: take room for as many of them as there is
 * room for. Return their number. Count the others as skipped.
 */
int64 enter_queue_or_skip(const QueueRef &ref, int64 jobs);

/* How a new job comes to its room in the queue. */
enum class Room : uint8
{
	kTake,		 /* enter_queue() */
	kTakeOrSkip, /* enter_queue_or_skip() */
	kTaken,		 /* the room was taken earlier */
};

/* Take room for one job. Returns false if the job is skipped. Raises PQ002. */
bool enter_queue_alone(const QueueRef &ref, Room room);

/*
 * ---- Noting rows that this transaction has written or ended. ref: a queue whose slot the caller
 * already knows, usually the queue of the row ----
 */

/*
 * Note that the row of a job has ended or was moved to another queue. was: the scheduling columns
 * before that.
 */
void leave_queue(const QueueRef &ref, const SchedulingColumns &was);

/*
 * Note that the row of a job was rewritten. was: the scheduling columns before that; now: the new
 * hint; queue_id: the queue of the new row.
 */
void note_rewritten(const QueueRef &ref, const SchedulingColumns &was, const Hint &now,
					int32 queue_id);

/* Note that dead letters of the queue were added (n > 0) or removed (n < 0). */
void note_dead_letter_of(const QueueRef &ref, int32 queue_id, int64 n);

} // namespace pgq
