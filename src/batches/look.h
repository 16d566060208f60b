/*
 * Looking at a batch, for the scheduler: the state in its row, the state of its members, and which
 * callbacks are due. See README.md, "How a batch finishes".
 */
#pragma once

#include "core/batch_events.h"
#include "enqueue/job_spec.h"

namespace pgq {

/* What the batch waits for after the look. */
enum class LookEnd : uint8
{
	/*
	 * the time due_at in its row, or any end of a member; or nothing: the batch is settled or
	 * deleted
	 */
	kNothing,
	kWitness, /* the end of the member `witness` */
	kChange,  /* a close or a death, since the batch is open */
	kLock,	  /* a lock that was not free */
	/* its members, which the scheduler tries to end again, since the batch is cancelled */
	kMembers,
};

struct LookResult
{
	LookEnd end;
	int64 witness;	/* for kWitness, kMembers */
	bool has_fired; /* the row of the batch was written */
};

/* No batch is due later than this, in microseconds from now. */
inline constexpr int64 kLatestDue = 10 * USECS_PER_MINUTE;

/* A row of pgq_ext.job_batch. */
struct BatchState
{
	int64 batch_id;
	BatchMarks marks;
	bool pending;
	bool restored;
	TimestampTz due_at; /* time of the next try or look; DT_NOEND: none */
	int32 failures;		/* number of tries in a row in which a callback was refused */
	/* The fields from here on are set only if the row was locked. */
	Oid maker;
	char *maker_name;
	Jsonb *callbacks[kBatchEvents]; /* nullptr: none */
};

enum class RowSeen : uint8
{
	kFound,
	kGone,
	kLocked, /* another transaction has locked the row */
};

/* Read the newest committed state of the row. *died: a note says that a member has died. */
bool read_batch(int64 batch_id, BatchState *batch, bool *died);

/* Lock the row until the end of the transaction, and read it. Does not wait. */
RowSeen lock_batch_row(int64 batch_id, BatchState *batch);

/*
 * Look at members and notes with one new snapshot. The caller has locked the row of the batch, and all
 * segments against TRUNCATE. *member: the greatest id of a member in the table job, or 0.
 */
MemberSight look_at_members(int64 batch_id, int64 *member);

/* Find members in the table job whose ids are greater than `after`, in their order. */
int find_members(int64 batch_id, int64 after, int64 *job_ids, int most);

/*
 * Return the job to enqueue for the event. Its headers have the keys batch and event. *queue: the name of
 * its queue. Raises the errors of job_of_callback(), and 22023 if the headers are no object.
 */
JobSpec job_of_event(const Jsonb *callback, int64 batch_id, BatchEvent event, char **queue);

/*
 * Write to the row which events have happened (marks.done) since `before` was read, whether the batch is
 * pending, and due_at, failures and the error.
 */
void write_batch(const BatchState &batch, const BatchMarks &before, const char *error);

/*
 * Write due_at, the time of the first look, to the row of a restored batch. With DT_NOEND, clear
 * the mark `restored` instead: from then on the batch is looked at like any other batch.
 */
void write_restored(int64 batch_id, TimestampTz due_at);

/* Write to the row that a look has failed. The next try is a minute later. */
void write_look_error(int64 batch_id, const char *error);

/* Find batches for a sweep: pending ones with ids greater than `after`, in their order. */
int find_pending_batches(int64 after, int64 *batch_ids, int most);
/*
 * Find batches whose due_at is after *from and not in the future. *from: moved to the due_at of the
 * last batch found, or to DT_NOBEGIN if there are no more batches.
 */
int find_due_batches(TimestampTz *from, TimestampTz now, int64 *batch_ids, int most);
/* Return the earliest due_at of a batch; DT_NOEND if there is none. */
TimestampTz next_due_batch();

/* Return how long to wait after that number of failures: 1 s, 2 s ... 1 min, in microseconds. */
int64 rest_after_failures(int32 failures);

} // namespace pgq
