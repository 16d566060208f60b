/*
 * Named locks: which session or owner holds which name, in which slot, until when. Runs
 * (pgq_run_once) are locks too: their key has a name and a period of time.
 *
 * Each slot that is held has an entry, which is found by a hash of database and name. Everything
 * here is protected by the locks lock, which is held only for moments. A grant with a time to live
 * also has a row in pgq_ext.held_lock. The transaction that changes the entry writes the row, so
 * the grant survives a restart (sync/lock_load.*). A grant bound to a session has no row.
 *
 *     (none) --take--> HELD, open --commit--> HELD --unlock--> UNLOCKING, open --commit--> (none)
 *
 * Open means: a transaction has changed the entry and has not ended. Until then no other
 * transaction changes the entry, even if its deadline has passed. A rollback restores the entry
 * (txn/lock.*). A prepared transaction is identified by its xid.
 *
 * A transaction that relies on a lock holds the tag of the grant, a heavyweight lock of the server
 * (sync/lock_tag.h). The entry does not show whether a transaction holds the tag. So a session that
 * takes over a grant whose time is over must get the tag itself for a moment.
 */
#pragma once

#include "engine/named/lock_line.h"
#include "engine/quota.h"
#include "engine/wakeup.h"

namespace pgq {

inline constexpr int kLockOwnerMax = 63;
inline constexpr int kSlotsMax = 1024;

enum class GrantState : uint8
{
	kNone,
	kHeld,
	kUnlocking, /* an open transaction gives the grant back */
};

/* A grant: the possession of a slot by one owner. */
struct Grant
{
	GrantState state;
	bool session_bound;
	/* the scheduler is ending the grant (UNLOCKING), because the grant's time is over */
	bool swept;
	int32 slots;
	int64 token; /* unique among all grants */
	int64 ttl;
	int64 deadline; /* monotonic */
	TimestampTz acquired_at;
	/* process of the holder; 0: the grant is from before a restart, or of a prepared transaction */
	int32 pid;
	int procno; /* procno of the holder, or kNobody */
	char owner[kLockOwnerMax + 1];

	uint32 session; /* if session_bound: value of session_of(procno) when the grant was made */

	bool has_row() const { return state == GrantState::kHeld && !session_bound; }
	/* End the grant because its session ends. The procno will belong to another session. */
	void end_with_session(int64 monotonic)
	{
		deadline = Min(deadline, monotonic);
		procno = kNobody;
	}
	/* Return whether the session to which the grant is bound has ended. */
	bool is_left() const { return session_bound && procno == kNobody; }
};

struct NamedLock
{
	LockKey key;
	int32 slot; /* number of the slot, from 1; 0: the entry is free */
	int home;	/* number of the database slot to which the entry is charged */
	int next;	/* number of the next entry in the bucket, or of the next free entry; -1: none */
	Grant now;
	int changer;	   /* process whose open transaction has changed the entry, or kNobody */
	TransactionId xid; /* xid of the prepared transaction that has changed the entry, or invalid */
	/* the grant to restore if the transaction that has changed the entry rolls back */
	Grant before;
	/*
	 * For a grant whose time is over, but on which a transaction relies: when to check this
	 * transaction again (monotonic).
	 */
	int64 in_use_until;

	bool is_open() const { return changer != kNobody || TransactionIdIsValid(xid); }
	bool is_over(int64 monotonic) const
	{
		return now.state == GrantState::kHeld && !is_open() && now.deadline <= monotonic;
	}
};
static_assert(std::is_trivially_copyable_v<NamedLock>);

/* ---- access under the lock ---- */

/*
 * Access to the entries while the locks lock is held; made by with_locks(). Entries are identified
 * by their numbers.
 */
class LockHold
{
public:
	explicit LockHold(int64 monotonic) : monotonic_(monotonic) {}

	int64 monotonic() const { return monotonic_; }
	NamedLock &operator[](int number) const;

	/*
	 * find() returns the entry of the slot, or -1 if there is none. add() makes an entry, and
	 * returns -1 if the database may have no more.
	 */
	int find(const LockKey &key, int32 slot) const;
	int add(Database *db, const LockKey &key, int32 slot);

	/*
	 * Return the entry whose grant has this token, even if it is being given back; -1: none. A
	 * grant whose time is over is found only with relied_on, by which the caller says that its
	 * transaction relies on the grant.
	 */
	int find(const Database *db, const char *name, int64 token, bool relied_on) const;

	/* Return the first or the next entry of all locks and runs with this name; -1: none. */
	int first_of(const Database *db, const char *name) const;
	int next_of(const Database *db, const char *name, int number) const;

	/* Free the entry, and wake the first waiter in line. */
	void free(int number);

	/*
	 * row_floor() returns the floor of the slot: memory knows each row of the slot whose token is
	 * smaller, so a search may leave out these rows; 0: a search must look at all rows.
	 * raise_row_floor() raises the floor after a search in which memory knew each row. cost: the
	 * duration of a search that has looked at all rows, otherwise 0. A floor stays valid for a
	 * hundred times that duration, so that such searches take at most a hundredth of the time.
	 */
	int64 row_floor(const LockKey &key, int32 slot) const;
	void raise_row_floor(const LockKey &key, int32 slot, int64 token, int64 cost);

	/*
	 * Leave the entry to a prepared transaction: its outcome decides between the present grant and
	 * `before`. clear_xid() ends this state.
	 */
	void leave_to(int number, TransactionId xid, const Grant &before);
	void clear_xid(int number);

	/*
	 * Called when the transaction that made the present grant has ended; `token` identifies the
	 * grant. confirm(): the transaction has committed. put_back(): the transaction was rolled back,
	 * so restore the entry. No effect if the entry has another grant.
	 */
	void confirm(int number, int64 token);
	void put_back(int number, int64 token, const Grant &before, bool was_open);

	/* Return the number of the first entry that was never used. */
	int end() const;

	/* Wake the first waiter that can take a slot while `held` slots are held. */
	void wake_able(const LockKey &key, int held)
	{
		int procno = wake_able_in_line(key, held, monotonic_);
		if (procno != kNobody)
			wakeups_.add(procno);
	}
	/* Wake the first waiter in line for the lock, because a slot may be free. */
	void wake_first(const LockKey &key)
	{
		int procno = wake_first_in_line(key, monotonic_);
		if (procno != kNobody)
			wakeups_.add(procno);
	}
	/* Let this process leave its line, and wake the next process in that line. */
	void leave_line() { wake_first(leave_lock_line()); }

private:
	template <typename Body> friend void with_locks(Body body);

	int64 monotonic_;
	Wakeups wakeups_;
};

/*
 * Run body(hold) under the locks lock, release the lock, and wake the waiters that the body has
 * noted. The body may change at most kHoldMax entries.
 */
template <typename Body>
inline void
with_locks(Body body)
{
	LockHold hold(monotonic_now());
	LWLockAcquire(shared->locks_lock, LW_EXCLUSIVE);
	body(hold);
	LWLockRelease(shared->locks_lock);
	hold.wakeups_.deliver();
}

/*
 * Call visit(hold, number) for each entry in use, from `next` on, until visit() returns false. The
 * lock is released and taken again after every kHoldMax entries.
 */
template <typename Visit>
inline void
for_locks_from(int next, Visit visit)
{
	for (bool more = true; more;)
		with_locks([&](LockHold &hold) {
			int end = Min(next + kHoldMax, hold.end());
			more = end < hold.end();
			for (; next < end; next++)
				if (hold[next].slot != 0 && !visit(hold, next))
				{
					more = false;
					return;
				}
		});
}

/* Visit all entries in use. */
template <typename Visit>
inline void
for_each_lock(Visit visit)
{
	for_locks_from(0, [&](LockHold &hold, int number) {
		visit(hold, number);
		return true;
	});
}

inline bool
is_of(const LockKey &key, const Database *db)
{
	return key.database == db->oid && key.incarnation == db->incarnation;
}

/*
 * Store the processes that keep process `procno` from getting the lock for which it waits, and
 * return their number. Return -1 if the process waits for no lock; if no slot of the lock is taken;
 * if more than `most` slots are taken; or if a grant can end by time alone, so that the wait may
 * end although these processes do nothing.
 */
int lock_blockers(int procno, int *procnos, int most);

/* ---- queries ---- */

/*
 * Return whether a prepared transaction has changed the entry of a lock or run, in any database, so
 * that its end decides which state the entry keeps.
 */
bool any_lock_in_doubt();

/* Return how many more locks the database can have. */
int room_for_locks(const Database *db);

/*
 * Return how many entries of locks and runs all databases together use beyond their own parts, and
 * the highest such number since the server's start.
 */
Quota common_locks();

int64 lock_bytes(); /* Return about how many bytes one more lock costs. */
Size named_locks_size();
void place_named_locks(void *memory);

} // namespace pgq
