#include "enqueue/parents.h"

#include "catalog/rights.h"
#include "engine/child_watch.h"
#include "load/attach.h"
#include "pg/scope.h"
#include "pg/stop_point.h"
#include "rows/ended_job.h"
#include "rows/insert.h"
#include "txn/effects.h"

#include <algorithm>

namespace pgq {

/* ---- names ---- */

ParentList *
new_parent_list(int n)
{
	if (n > kParentsMax)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("a job can have at most %d parents", kParentsMax),
						errdetail("The value of after has %d elements.", n),
						errhint("Let a job in between wait for some of the parents.")));
	auto *parents =
		static_cast<ParentList *>(palloc(offsetof(ParentList, names) + n * sizeof(ParentName)));
	parents->n = 0;
	return parents;
}

static bool
is_same_text(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		   memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

static bool
is_same_name(const ParentName &a, const ParentName &b)
{
	if (a.ref == nullptr || b.ref == nullptr)
		return a.ref == b.ref && a.job_id == b.job_id;
	return is_same_text(a.ref, b.ref);
}

void
add_parent(ParentList *parents, const ParentName &name)
{
	const ParentName *first = parents->names;
	const ParentName *end = first + parents->n;
	bool known =
		std::any_of(first, end, [&](const ParentName &other) { return is_same_name(name, other); });
	if (!known)
		parents->names[parents->n++] = name;
}

/* ---- insert ---- */

/*
 * The order matters: first lock the table, then raise the flag, then insert the rows (README of
 * dependencies/).
 */
void
depend(const Dependency *dependencies, int n)
{
	lock_dependencies();
	expect_children(tables().database);
	stop_point("children-expected");
	for (int done = 0; done < n; done += kInsertBatch)
		add_dependencies(dependencies + done, Min(n - done, kInsertBatch));
	for (int i = 0; i < n; i++)
		if (i == 0 || dependencies[i].child_id != dependencies[i - 1].child_id)
			tell_child_at_commit(dependencies[i].child_id);
	stop_point("dependencies-inserted");
}

/* ---- look ---- */

namespace {

/* The result of one look at a parent. */
enum class ParentLook : uint8
{
	kKnown,	 /* live, a dead letter, or ended with an outcome */
	kOpen,	 /* another transaction decides */
	kMoved,	 /* the job has moved between the steps of the look: look again */
	kEnded,	 /* the job has ended, and its outcome is still to be written */
	kNobody, /* there is no such job, or no row says how the job has ended */
};

struct Parent
{
	int64 job_id;
	int32 queue_id;
	TransactionId decider;
	OutcomeRow outcome; /* for kEnded */
};

} // namespace

static ParentLook
answer_of(const JobTrace &trace, Parent *parent)
{
	parent->queue_id = trace.queue_id;
	parent->decider = trace.decider;
	return trace.state == JobTrace::kThere ? ParentLook::kKnown : ParentLook::kOpen;
}

static bool
is_answer(const JobTrace &trace)
{
	return trace.state == JobTrace::kThere || trace.state == JobTrace::kOpen;
}

/*
 * Return how this transaction has ended the job. If an SQL statement has deleted the row, the effects
 * of the transaction do not say that.
 */
static JobOutcome
own_outcome_of(int64 job_id, bool was_dead)
{
	switch (own_end_of(job_id))
	{
		case JobEnd::kAcked:
			return JobOutcome::kAcked;
		case JobEnd::kCancelled:
			return JobOutcome::kCancelled;
		case JobEnd::kExpired:
			return JobOutcome::kExpired;
		default:
			return was_dead ? JobOutcome::kDead : JobOutcome::kDeleted;
	}
}

/*
 * Return whether a new snapshot sees the job or its dead letter, although the two searches before
 * found neither. In that case the job has died or was revived between the two searches.
 */
static bool
is_seen_at_once(SegmentSet &segments, int64 job_id)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool seen = is_visible(segments, job_id, snapshot) || is_dead_letter_visible(job_id, snapshot);
	UnregisterSnapshot(snapshot);
	return seen;
}

static ParentLook
look_once(SegmentSet &segments, Parent *parent)
{
	int64 job_id = parent->job_id;
	JobOutcome outcome;
	JobTrace live = trace_job(segments, job_id);
	if (is_answer(live))
		return answer_of(live, parent);
	JobTrace dead = trace_dead_letter(job_id);
	if (is_answer(dead))
		return answer_of(dead, parent);
	parent->decider = InvalidTransactionId;
	if (find_outcome(job_id, &outcome, &parent->decider, &parent->queue_id))
		return ParentLook::kKnown;
	/*
	 * Another transaction may be inserting or deleting an outcome. If there is a record of the job,
	 * do not wait for that transaction, and write an outcome from the record: otherwise two
	 * transactions that enqueue children of the same two parents could deadlock.
	 */
	if (find_finished(job_id, &parent->outcome))
	{
		parent->queue_id = parent->outcome.queue_id;
		return ParentLook::kEnded;
	}
	if (TransactionIdIsValid(parent->decider))
		return ParentLook::kOpen;
	bool was_dead = dead.state == JobTrace::kOursGone;
	if (!was_dead && live.state != JobTrace::kOursGone)
		return is_seen_at_once(segments, job_id) ? ParentLook::kMoved : ParentLook::kNobody;
	parent->queue_id = was_dead ? dead.queue_id : live.queue_id;
	outcome = own_outcome_of(job_id, was_dead);
	parent->outcome = {job_id, outcome, parent->queue_id,
					   outcome == JobOutcome::kAcked ? own_result_of(job_id) : nullptr, nullptr};
	return ParentLook::kEnded;
}

[[noreturn]] static void
complain_no_parent(int64 job_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("job %lld does not exist", static_cast<long long>(job_id)),
			 errdetail("A parent must be a job that waits, is in work, is a dead letter, or has "
					   "ended and is kept."),
			 errhint("Enqueue children together with their parents, or before the parents end, or "
					 "set keep_finished for the queue of the parents.")));
}

void
look_at_parent(SegmentSet &segments, int64 parent_id)
{
	for (;;)
	{
		Parent parent{};
		parent.job_id = parent_id;
		ParentLook look = look_once(segments, &parent);
		/*
		 * A caller without the right on the job must not learn whether the job exists, not even by
		 * a wait.
		 */
		if (look == ParentLook::kNobody ||
			(look != ParentLook::kMoved && !may(Permission::kAskResult, parent.queue_id)))
			complain_no_parent(parent_id);
		if (look == ParentLook::kEnded)
			add_outcomes(&parent.outcome, 1);
		if (look == ParentLook::kKnown || look == ParentLook::kEnded)
			return;
		if (look == ParentLook::kOpen)
		{
			segments.close();
			XactLockTableWait(parent.decider, nullptr, nullptr, XLTW_None);
			if (any_prepared())
				resolve_prepared();
		}
		CHECK_FOR_INTERRUPTS();
	}
}

void
look_at_parents(SegmentSet &segments, const Dependency *dependencies, int n)
{
	auto *ids =
		static_cast<int64 *>(MemoryContextAllocHuge(CurrentMemoryContext, n * sizeof(int64)));
	for (int i = 0; i < n; i++)
		ids[i] = dependencies[i].parent_id;
	std::sort(ids, ids + n);
	for (const int64 *id = ids, *end = std::unique(ids, ids + n); id < end; id++)
		look_at_parent(segments, *id);
	pfree(ids);
}

} // namespace pgq
