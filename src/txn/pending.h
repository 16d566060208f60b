/*
 * The pending effects of this backend's transaction: effects.cpp registers them, apply_effects.cpp applies
 * them.
 */
#pragma once

#include "core/changed_rows.h"
#include "engine/batch_watch.h"
#include "engine/lease.h"
#include "engine/named/named_lock.h"
#include "engine/named/named_rate.h"
#include "engine/prepared_entry.h"

namespace pgq {

class QueueHold;

/*
 * The owner of an effect. sub: the subtransaction to which the effect belongs. from: the child
 * subtransaction whose commit has promoted the effect to `sub`, or invalid. The server can call
 * ABORT_SUB(s) after COMMIT_SUB(s); ABORT_SUB must then undo the effects that COMMIT_SUB has
 * promoted.
 */
struct Tag
{
	SubTransactionId sub;
	SubTransactionId from;

	bool belongs_to(SubTransactionId s) const { return sub == s || from == s; }
};

struct LeaseEffect
{
	enum Kind : uint8
	{
		kClaim,
		kUse,
		kEnd,
		kReap,
		kRevoke,
		kTell,
		kHold,
		kRow,
	} kind;
	LeaseEnd how;
	bool dead;
	RowsGone gone; /* change of the lease's missing rows; only for kRow */
	Tag tag;
	QueueRef ref;
	Lease *lease;
	uint64 serial;

	bool ends() const { return kind == kEnd || kind == kReap; }
};

/*
 * A hint to file at commit. jobs: how many enqueued jobs the counters count for this hint; 0 for a
 * retry; more than 1 if the hint also stands for hints that were shed.
 */
struct HintEffect
{
	Tag tag;
	int32 jobs;
	Hint hint;
};

/*
 * A change of the counts of a queue. A subtransaction has at most two such effects for each queue.
 */
struct CountEffect
{
	Tag tag;
	QueueRef ref;
	Oid incarnation; /* incarnation of the extension; see invalidate_queue() */
	int64 rows;		 /* rows added, or (negative) ended */
	int64 dead;		 /* dead letters added, or (negative) removed */
	int64 reserved;	 /* room taken, which counts from now until the transaction ends */
	bool recount;	 /* too many due effects to keep: begin the count anew at commit */
};

/* A change by n of the number of jobs of the queue that become due in that second. */
struct DueEffect
{
	Tag tag;
	QueueRef ref;
	int64 second;
	int64 n;
};

/*
 * Number of enqueues that were answered with an existing job. A subtransaction may have several
 * such effects for one queue.
 */
struct DuplicateEffect
{
	Tag tag;
	QueueRef ref;
	int64 jobs;
};

/*
 * The lease of that job was given back early (early.cpp). At commit, sessions waiting in pgq_result
 * are told `end`, and the next job of the group is looked for (look_at_group()).
 */
struct EarlyEffect
{
	Tag tag;
	QueueRef ref;
	int64 job_id;
	int64 group;
	JobEnd end;
};

struct QueueEffect
{
	enum Kind : uint8
	{
		kCreated,
		kHold,
		kDrop,
		kOptions,
		kName,
	} kind;
	Tag tag;
	QueueRef ref;
	QueueOptions options; /* kOptions only: the options from the commit on */
	QueueName name;		  /* kName only: the name from the commit on */

	bool describes() const { return kind == kOptions || kind == kName; }
};

/*
 * The transaction has changed the entry `number` of a named lock. token: the token of the new
 * grant. before: the grant that the entry had before.
 */
struct LockEffect
{
	Tag tag;
	int number;
	int64 token;
	bool was_open;
	Grant before;
};

/*
 * The transaction has created or dropped the rate. When the transaction ends, memory forgets the
 * state of the rate.
 */
struct RateEffect
{
	Tag tag;
	RateKey key;
};

/*
 * What the transaction has done to a batch. ends: the commit tells the scheduler `told`; if false,
 * only told.batch_id is set. adds: the transaction has added members, so a rollback tells the
 * scheduler of the batch.
 */
struct BatchEffect
{
	Tag tag;
	bool ends;
	bool adds;
	BatchTold told;
};

/*
 * A job of which the commit tells the scheduler: a child that was enqueued, or a parent that has
 * ended. If the scheduler is told without need, it finds nothing to do. So the effect of a
 * subtransaction may stay when the subtransaction is rolled back.
 */
struct ToldEffect
{
	int64 job_id;
	bool is_parent;
};

/* This transaction has a lease of a member of the batch in hand; see note_member_in_hand(). */
struct MemberInHand
{
	Tag tag;
	int64 batch_id;
};

/* The result of a job that this transaction has acknowledged. */
struct OwnResult
{
	Tag tag;
	int64 job_id;
	const Jsonb *result;
};

/* A growing array in the transaction's memory. */
template <typename T> struct List
{
	T *items;
	int size;
	int capacity;

	void reserve(int more)
	{
		if (size + more <= capacity)
			return;
		/*
		 * Begin small: most transactions have few effects of each kind. Then all lists fit into the
		 * first block of the transaction's memory.
		 */
		int wanted = Max(Max(4, capacity * 2), size + more);
		Size bytes = mul_size(wanted, sizeof(T));
		items =
			static_cast<T *>(items == nullptr ? MemoryContextAllocHuge(TopTransactionContext, bytes)
											  : repalloc_huge(items, bytes));
		capacity = wanted;
	}
	void push(const T &item)
	{
		Assert(size < capacity);
		items[size++] = item;
	}
	T *begin() const { return items; }
	T *end() const { return items + size; }
};

/*
 * The pending hints of one queue. If there are more hints than a window holds, the greatest hints
 * are shed: only their smallest keys are kept (core/changed_rows.h).
 */
struct QueueHints
{
	QueueRef ref;
	Oid incarnation; /* incarnation of the extension; see invalidate_queue() */
	List<HintEffect> hints;
	int shed_at;	  /* number of hints from which shedding is tried */
	bool is_shed;	  /* there are shed hints */
	ChangedRows shed; /* if is_shed: the rows of the shed hints */
};

/* See keep_own_result(). */
struct OwnResults
{
	List<OwnResult> list;
	MemoryContext memory; /* has the copies; NULL: there are none yet */
	Size size;			  /* of the copies and their entries, in bytes */
};

struct Effects
{
	List<LeaseEffect> leases;
	List<QueueHints> jobs;
	List<CountEffect> counts;
	List<DueEffect> dues;
	List<DuplicateEffect> duplicates;
	List<EarlyEffect> early;
	List<QueueEffect> queues;
	List<LockEffect> locks;
	List<RateEffect> rates;
	List<BatchEffect> batches;
	List<ToldEffect> told; /* at most kJobsTold; more of them set one of the next two */
	bool all_children;
	int64 children_from;				/* not 0: all children with this id or a greater one */
	List<MemberInHand> members_in_hand; /* notes that need no action when the transaction ends */
	OwnResults results;					/* need no action when the transaction ends */
	bool announce;
	bool announce_queue;
	bool unfiled;
	bool deleted;
	bool uncounted;
	bool definitions;
	bool all_batches; /* the commit tells the scheduler of all batches */
	/* a rollback of any subtransaction tells the scheduler of all batches */
	bool all_undone_batches;

	bool empty() const
	{
		return leases.size == 0 && jobs.size == 0 && counts.size == 0 && duplicates.size == 0 &&
			   early.size == 0 && queues.size == 0 && locks.size == 0 && rates.size == 0 &&
			   batches.size == 0 && !all_batches && !all_undone_batches && told.size == 0 &&
			   !all_children && !announce && !announce_queue && !unfiled && !deleted &&
			   !uncounted && !definitions;
	}
};

struct Pending
{
	Effects effects;
	/* first lease effect of the list that is being applied or undone now */
	const LeaseEffect *settling;
	const Lease *verifying; /* see note_verifying() */
	bool unreturnable;		/* see note_unreturnable() */
	/*
	 * number, counted from 1, of the first lease effect of a claim call that has not returned; 0:
	 * there is no such call
	 */
	int first_unreturned;
	PreparedEntry *entry; /* reserved at PRE_PREPARE, or NULL */
	/*
	 * virtual xid of this transaction, if it holds jobs; a copy, since the server has already
	 * cleared the virtual xid when the callbacks run
	 */
	VirtualTransactionId holder;

	bool is_unreturnable(const Lease *lease) const { return unreturnable && lease == verifying; }
	bool is_unreturned(const LeaseEffect &effect) const
	{
		return first_unreturned > 0 && &effect - settling >= first_unreturned - 1;
	}
};

extern Pending pending;

/* Return the tag for an effect that is registered now. */
Tag current_tag();

/*
 * If the list has grown long, shed hints of `sub`, out of the contiguous run of its hints that ends
 * before index run_end. Hints behind the run move up. Cannot fail.
 */
void shed_hints(QueueHints *jobs, int run_end, SubTransactionId sub);

/*
 * Return whether the entry still has the lease of the effect, not a later lease. Caller holds the
 * queue's lock.
 */
bool still_ours(const LeaseEffect &effect);

/* Return how the job has ended, as sessions that wait in pgq_result are to be told. */
JobEnd end_of(LeaseEnd how, bool dead);

/*
 * Count the end of the lease, and tell sessions waiting in pgq_result. The caller ends the lease in
 * the same hold of the queue's lock.
 */
void count_end(Lease *lease, LeaseEnd how, bool dead, int64 monotonic, QueueHold &hold);

/* Interrupt the calls of handlers whose jobs this transaction has ended by their ids. Cannot fail. */
void interrupt_cancelled(const List<LeaseEffect> &leases);

/* End the lease if its job has no row left. Returns whether the lease has ended. */
bool end_if_rows_gone(Lease *lease, int64 monotonic, QueueHold &hold);

/* Remove this transaction from the holders of the job. The last holder gives the job back. */
void let_go(Lease *lease, QueueHold &hold);

/*
 * Undo an effect on a lease that was handed out: lose_claimed() undoes its claim, and
 * undo_revocation() undoes its revocation by a cancel.
 */
void lose_claimed(Lease *lease, int64 monotonic, QueueHold &hold);
void undo_revocation(Lease *lease, int64 monotonic, QueueHold &hold);

/* ---- count.cpp: counts of jobs. Nothing here can fail ---- */

/*
 * Settle the counts at the end of a transaction: add what it has changed, if it has committed.
 * begin_counts() gives unused room back at once. The commit locks queues for other reasons, and
 * calls settle_counts_of() in each of these holds. finish_counts() locks the queues whose counts
 * are still left.
 */
void begin_counts(const Effects &ending, bool commit);
void settle_counts_of(QueueHold &hold);
void finish_counts();

void promote_counts(SubTransactionId mine, SubTransactionId parent);
void undo_counts(SubTransactionId mine);

/*
 * hand_over_count() and hand_over_due() add the counts to the entry of a prepared transaction.
 * settle_prepared_count() applies these counts when that transaction has ended.
 */
void hand_over_count(Touched *touched, const CountEffect &effect);
void hand_over_due(Touched *touched, const DueEffect &effect);
void settle_prepared_count(QueueHold &hold, const Touched &touched, uint64 xid, bool commit);

/* Return the xid with its epoch. Valid for transactions younger than 2^31 transactions. */
uint64 xid_with_epoch(TransactionId xid);

/* ---- stats.cpp: counters that a commit changes. Nothing here can fail ---- */

/*
 * Record how long the job has waited, once: at the commit of its claim or of the end of its lease.
 * Caller holds the queue's lock.
 */
void note_wait(Lease *lease, int64 monotonic);
/*
 * Record how long the job has run, at the commit of the end of its lease. Caller holds the queue's
 * lock.
 */
void note_end(const Lease *lease, LeaseEnd how, int64 monotonic);
void settle_duplicates(const List<DuplicateEffect> &duplicates);
void undo_duplicates(SubTransactionId mine);

/* ---- child.cpp. Nothing here can fail ---- */

void settle_told(const Effects &ending);
/* ---- member_in_hand.cpp. Cannot fail ---- */

void undo_members_in_hand(SubTransactionId mine);

/* ---- own_result.cpp. Cannot fail ---- */

void undo_own_results(SubTransactionId mine);

/* ---- early.cpp. Nothing here can fail ---- */

void settle_early(const List<EarlyEffect> &early);
void undo_early(SubTransactionId mine);

/* ---- lock.cpp: named locks and rates. Only the first function can fail ---- */

/* At PRE_PREPARE: raise 0A000 if the transaction has changed a session-bound lock or a rate. */
void check_locks_for_prepare(const Effects &effects);
void hand_over_locks(const Effects &effects, TransactionId xid);

void settle_locks(const LockEffect *first, const LockEffect *last, bool commit);
void forget_rates(const RateEffect *first, const RateEffect *last);

/* ---- batch.cpp: batches that memory is told of. Nothing here can fail ---- */

void settle_batches(const Effects &ending, bool commit);
void promote_batches(SubTransactionId mine, SubTransactionId parent);
/* Tell the scheduler of the batches to which the subtransaction has added members. */
void undo_batches(SubTransactionId mine);

/* ---- prepared.cpp: PREPARE TRANSACTION ---- */

/* At PRE_PREPARE: reserve an entry for the pending effects. Raises 0A000 for queue DDL. */
void reserve_watch();

/* At PREPARE: hand the pending effects to the entry. Cannot fail. */
void hand_over_to_entry();

/* Free the reserved entry of a transaction that failed to prepare. Cannot fail. */
void release_watch();

} // namespace pgq
