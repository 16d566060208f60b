/*
 * The pending effects of the transaction of this backend: what effects.cpp
 * registers and settle.cpp applies.
 */
#pragma once

#include "engine/lease.h"
#include "engine/named_lock.h"
#include "engine/named_rate.h"
#include "engine/watch.h"

namespace pgq {

class QueueHold;

/*
 * sub is the subtransaction the effect belongs to; from the one it was last
 * promoted from: COMMIT_SUB(s) can be followed by ABORT_SUB(s), which must undo
 * what was just promoted.
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
	RowsGone gone; /* of kRow */
	Tag tag;
	QueueRef ref;
	Lease *lease;
	uint64 serial;

	bool ends() const { return kind == kEnd || kind == kReap; }
};

/* jobs: new jobs this hint stands for in the counters (0 for a retry, more where others were shed). */
struct HintEffect
{
	Tag tag;
	int32 jobs;
	Hint hint;
};

/* One for each queue and subtransaction, or two. */
struct CountEffect
{
	Tag tag;
	QueueRef ref;
	Oid incarnation; /* of the extension; see distrust() */
	int64 rows;		 /* added, or (negative) ended: counted at commit */
	int64 dead;		 /* dead letters, likewise */
	int64 reserved;	 /* room taken, which counts until the end */
	bool recount;	 /* there are too many of its jobs that wait to say when */
};

/* Jobs that become due in that second. */
struct DueEffect
{
	Tag tag;
	QueueRef ref;
	int64 second;
	int64 n;
};

/* So many enqueues were answered with a job that was there. One for each queue and subtransaction, or more. */
struct DuplicateEffect
{
	Tag tag;
	QueueRef ref;
	int64 jobs;
};

/* The lease of that job was given back early (early.cpp): what is to be told, and which group to be looked at. */
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
	QueueOptions options; /* of kOptions: from the commit on */
	QueueName name;		  /* of kName: the same */

	bool describes() const { return kind == kOptions || kind == kName; }
};

/* The lock of that number has got the grant of that token; before: what it had. */
struct LockEffect
{
	Tag tag;
	int number;
	int64 token;
	bool was_open;
	Grant before;
};

/* What a rate is has changed, or may not have. */
struct RateEffect
{
	Tag tag;
	RateKey key;
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
		int wanted = Max(Max(16, capacity * 2), size + more);
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

/* Hints of one queue. Of those that do not fit into its window only the smallest keys are remembered. */
struct QueueHints
{
	QueueRef ref;
	Oid incarnation; /* of the extension; see distrust() */
	List<HintEffect> hints;
	int shed_at; /* length from which shedding is tried */
	bool shed;
	Key shed_key;
	TimerKey shed_timer_key;
	int64 shed_horizon; /* greatest run_at of those that were due at once */
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
	bool announce;
	bool announce_queue;
	bool unfiled;
	bool deleted;
	bool uncounted;
	bool schedules;

	bool empty() const
	{
		return leases.size == 0 && jobs.size == 0 && counts.size == 0 && duplicates.size == 0 &&
			   early.size == 0 && queues.size == 0 && locks.size == 0 && rates.size == 0 &&
			   !announce && !announce_queue && !unfiled && !deleted && !uncounted && !schedules;
	}
};

struct Pending
{
	Effects effects;
	const LeaseEffect *settling; /* the first of the list of which some are settled or undone */
	const Lease *verifying;		 /* see note_verifying() */
	bool unreturnable;			 /* see note_unreturnable() */
	int first_unreturned; /* number, from 1, of the first lease effect of a claim that has not returned; 0: none */
	Watch *watch; /* reserved by PREPARE TRANSACTION */
	VirtualTransactionId
		holder; /* this transaction, if it holds jobs: at its end it has no such id any more */

	bool is_unreturnable(const Lease *lease) const { return unreturnable && lease == verifying; }
	bool is_unreturned(const LeaseEffect &effect) const
	{
		return first_unreturned > 0 && &effect - settling >= first_unreturned - 1;
	}
};

extern Pending pending;

/* Of what is done now. */
Tag current_tag();

/*
 * If the list of hints has grown long: shed those of sub, which end at run_end;
 * what follows them moves up. Cannot fail.
 */
void shed_hints(QueueHints *jobs, int run_end, SubTransactionId sub);

/* Is the lease still the one of the effect? Under its queue's lock. */
bool still_ours(const LeaseEffect &effect);

/* What who waits for the end of the job is told. */
JobEnd end_of(LeaseEnd how, bool dead);

/* How the lease ends is counted and told; the caller ends it in the same hold. */
void count_end(Lease *lease, LeaseEnd how, bool dead, int64 monotonic, QueueHold &hold);

/* The lease ends if no row of its job is left. Returns whether that is so. */
bool end_if_rows_gone(Lease *lease, int64 monotonic, QueueHold &hold);

/* A job is not held by this transaction any more. */
void let_go(Lease *lease, QueueHold &hold);

/* The claim, or the cancel, of a handed out lease is undone. */
void lose_claimed(Lease *lease, int64 monotonic, QueueHold &hold);
void undo_revocation(Lease *lease, int64 monotonic, QueueHold &hold);

/* ---- count.cpp: how many jobs there are. None of them can fail ---- */

/*
 * At the end: room is given back at once. The rest is counted in the holds that are made for other
 * reasons, each of which says settle_counts_of(); finish_counts() makes those that are left.
 */
void begin_counts(const Effects &ending, bool commit);
void settle_counts_of(QueueHold &hold);
void finish_counts();

void promote_counts(SubTransactionId mine, SubTransactionId parent);
void undo_counts(SubTransactionId mine);

/* What a prepared transaction leaves, and when it has ended. */
void hand_over_count(Touched *touched, const CountEffect &effect);
void hand_over_due(Touched *touched, const DueEffect &effect);
void settle_prepared_count(QueueHold &hold, const Touched &touched, uint64 xid, bool commit);

/* Of a transaction that is not older than half of all ids. */
uint64 xid_with_epoch(TransactionId xid);

/* ---- stats.cpp: what is counted when a transaction commits. None of them can fail ---- */

/* Its claim is committed, or its end. Once. Under its queue's lock. */
void note_wait(Lease *lease, int64 monotonic);
/* The same of its end. */
void note_end(const Lease *lease, LeaseEnd how, int64 monotonic);
void settle_duplicates(const List<DuplicateEffect> &duplicates);
void undo_duplicates(SubTransactionId mine);

/* ---- early.cpp. None of them can fail ---- */

void settle_early(const List<EarlyEffect> &early);
void undo_early(SubTransactionId mine);

/* ---- lock.cpp: named locks and rates. None of them can fail, but for the first ---- */

/* At PRE_PREPARE. Error 0A000 for a lock that is bound to the session. */
void check_locks_for_prepare(const Effects &effects);
void hand_over_locks(const Effects &effects, TransactionId xid);

void settle_locks(const LockEffect *first, const LockEffect *last, bool commit);
void forget_rates(const RateEffect *first, const RateEffect *last);

/* ---- prepared.cpp: PREPARE TRANSACTION ---- */

/* At PRE_PREPARE: an entry for what is pending. Errors: 0A000 for queue DDL. */
void reserve_watch();

/* At PREPARE: what is pending goes to the entry. Cannot fail. */
void hand_over_to_watch();

/* At the end of a transaction that was not prepared after all. Cannot fail. */
void release_watch();

} // namespace pgq
