/*
 * Rows of pgq_ext.job_dependency (a child waits for a parent) and pgq_ext.job_outcome (how a parent
 * has ended). See the README of dependencies/.
 *
 * Rows are only inserted and deleted, never changed or moved. So an index scan with a snapshot of
 * the kind NonVacuumable misses no row. All functions here look at the newest state of the rows, at
 * every isolation level.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* What happens to a child if a parent ends in another way than by an ack. The numbers are stored. */
enum class OnFailure : int16
{
	kCancel = 1, /* the child is cancelled */
	kRun = 2,	 /* the child becomes ready, as after an ack */
	kHold = 3,	 /* while the parent is a dead letter, the child stays blocked */
};

struct Dependency
{
	int64 parent_id;
	int64 child_id;
	OnFailure on_failure;
	/* the name of the parent, if one call has enqueued parent and child; else NULL */
	const text *ref;
};

/*
 * Lock the table in RowExclusiveLock to the end of the transaction; then expect_children()
 * (engine/child_watch.h) may be called. Raises 55000 if the table is missing.
 */
void lock_dependencies();

/* Insert the rows and their index entries. The caller has called expect_children(). */
void add_dependencies(const Dependency *dependencies, int n);

/*
 * Return whether the job may have a child. That is so if any dependency on the job is not dead:
 * committed, or inserted or being deleted by an open transaction. A dependency that this
 * transaction has deleted counts as dead. Does not wait. Call this after the row of the parent is
 * deleted, without a buffer pinned, and only if may_have_children().
 */
bool has_children(int64 parent_id);

/* Return whether any row of the table is not dead. */
bool has_dependencies();

/* How a job has ended. The numbers are stored. */
enum class JobOutcome : int16
{
	kAcked = 1,
	kCancelled = 2, /* this outcome and those below: the parent has failed */
	kExpired = 3,
	kPurged = 4,
	kDropped = 5, /* with its queue */
	kDeleted = 6, /* by SQL */
	kDead = 7,	  /* the job was a dead letter, which was deleted */
};

/* Return the name of the outcome, as views show it. */
const char *name_of_outcome(JobOutcome outcome);

struct OutcomeRow
{
	int64 job_id;
	JobOutcome outcome;
	int32 queue_id;
	const Jsonb *result; /* or NULL */
	const text *error;	 /* or NULL */
};

/* Insert the rows and their index entries. A job may have several rows with the same outcome. */
void add_outcomes(const OutcomeRow *outcomes, int n);

/*
 * Return whether the job has an outcome. If another open transaction has inserted an outcome of the
 * job or is deleting one, *decider is set to that transaction, whose end decides; otherwise
 * *decider is unchanged. queue_id: set to the queue in which the job has ended, unless NULL.
 */
bool find_outcome(int64 job_id, JobOutcome *outcome, TransactionId *decider,
				  int32 *queue_id = nullptr);

} // namespace pgq
