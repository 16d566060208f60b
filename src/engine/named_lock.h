/*
 * Named locks: who holds which name, in which slot, until when. Runs (pgq_run_once) are locks too, of a name and a bucket
 * of time.
 *
 * One entry for each slot that is held, by hash of database and name; all under the locks lock, which is held for moments
 * only. What has a time to live has a row in pgq_ext.held_lock too, written by the transaction that changes the entry, so
 * it survives a restart (sync/lock_load.*); what is bound to a session has none.
 *
 *     (none) --take--> HELD, open --commit--> HELD --unlock--> UNLOCKING, open --commit--> (none)
 *
 * Open: the transaction of a process has changed it, and nobody else does before it has ended, whatever the deadline is;
 * undone, the entry is as it was (txn/lock_effects.*). A prepared transaction is known by its xid.
 *
 * Who relies on a lock in a transaction has its tag (sync/lock_tag.h), of which memory knows nothing. So who takes
 * over one whose time is over must have that tag for a moment.
 */
#pragma once

#include "engine/lock_line.h"
#include "engine/quota.h"
#include "engine/wakeup.h"

namespace pgq {

inline constexpr int kLockOwnerMax = 63;
inline constexpr int kSlotsMax = 1024;

enum class GrantState : uint8
{
	kNone,
	kHeld,
	kUnlocking, /* by a transaction that has not ended */
};

/* Somebody's hold of a slot. */
struct Grant
{
	GrantState state;
	bool session_bound;
	bool swept; /* UNLOCKING, by the scheduler: soon over */
	int32 slots;
	int64 token; /* of no other grant, ever */
	int64 ttl;
	int64 deadline; /* monotonic */
	TimestampTz acquired_at;
	int32 pid;	/* who has got it; 0: in another life of the server, or prepared */
	int procno; /* the same */
	char owner[kLockOwnerMax + 1];

	uint32 session; /* if bound: of those that have been that process */

	bool has_row() const { return state == GrantState::kHeld && !session_bound; }
	/* Its session ends: the number of its process is another one's from now on. */
	void end_with_session(int64 monotonic)
	{
		deadline = Min(deadline, monotonic);
		procno = kNobody;
	}
	/* The session that it is bound to has ended. */
	bool is_left() const { return session_bound && procno == kNobody; }
};

/* Under the locks lock. */
struct NamedLock
{
	LockKey key;
	int32 slot; /* 1 and more; 0: the entry is not in use */
	int home;	/* the slot of the database that it is charged to */
	int next;	/* of the same hash, or unused; -1: none */
	Grant now;
	int changer;		/* the process whose transaction has changed it, or kNobody */
	TransactionId xid;	/* of the prepared transaction that has */
	Grant before;		/* what is right if that is rolled back */
	int64 in_use_until; /* its time is over but somebody relies on it: when to ask again */

	bool is_open() const { return changer != kNobody || TransactionIdIsValid(xid); }
	bool is_over(int64 monotonic) const
	{
		return now.state == GrantState::kHeld && !is_open() && now.deadline <= monotonic;
	}
};
static_assert(std::is_trivially_copyable_v<NamedLock>);

/* ---- the door ---- */

/* Under the locks lock. Entries are known by their numbers. */
class LockHold
{
public:
	explicit LockHold(int64 monotonic) : monotonic_(monotonic) {}

	int64 monotonic() const { return monotonic_; }
	NamedLock &operator[](int number) const;

	/* The entry of that slot; a new one. -1: there is none, none is left for that database. */
	int find(const LockKey &key, int32 slot) const;
	int add(Database *db, const LockKey &key, int32 slot);

	/*
	 * Whose grant has that token, and is not over (or relied on, by who asks), -1 otherwise; also one that is just being
	 * given back.
	 */
	int find(const Database *db, const char *name, int64 token, bool relied_on) const;

	/* The entries of that name, of all its locks and runs, one after the other; -1: no more. */
	int first_of(const Database *db, const char *name) const;
	int next_of(const Database *db, const char *name, int number) const;

	/* Nobody has it any more. */
	void free(int number);

	/*
	 * Return the token below which memory knows all rows of that slot; 0: look at all rows. raise_row_floor() raises it after
	 * a look that has found no unknown row. cost: duration of a look at all rows, else 0; the floor is dropped again only so
	 * often that such looks take at most a hundredth of the time.
	 */
	int64 row_floor(const LockKey &key, int32 slot) const;
	void raise_row_floor(const LockKey &key, int32 slot, int64 token, int64 cost);

	/* The outcome of that transaction, which is no process's, decides between what is now and what was before. */
	void leave_to(int number, TransactionId xid, const Grant &before);
	void clear_xid(int number);

	/* The transaction that has brought the grant with that token has ended. */
	void confirm(int number, int64 token);
	void put_back(int number, int64 token, const Grant &before, bool was_open);

	/* Entries from here on were never used. */
	int end() const;

	/* Wake the first waiter that can have a slot while that many are held. */
	void wake_able(const LockKey &key, int held)
	{
		int procno = wake_able_in_line(key, held, monotonic_);
		if (procno != kNobody)
			wakeups_.add(procno);
	}
	/* There may be a slot for the first in line. */
	void wake_first(const LockKey &key)
	{
		int procno = wake_first_in_line(key, monotonic_);
		if (procno != kNobody)
			wakeups_.add(procno);
	}
	/* This process leaves the line. */
	void leave_line() { wake_first(leave_lock_line()); }

private:
	template <typename Body> friend void with_locks(Body body);

	int64 monotonic_;
	Wakeups wakeups_;
};

/* Run body(hold) under the lock; then those are woken who may go on. At most kHoldMax entries are changed in it. */
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

/* visit(hold, number) each entry in use from that number on, in as many holds as it takes, while it returns true. */
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

/* All of them. */
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

/* ---- taking ---- */

struct LockRequest
{
	Database *database;
	uint32 generation; /* of that slot when the key was made */
	LockKey key;
	int32 slots;
	bool session_bound;
	int64 ttl;
	const char *owner;
	int64 unused; /* a grant of which the caller knows that nobody relies on it, or 0 */
};

enum class TakeAnswer : uint8
{
	kTaken,
	kBusy,
	kOurs,		/* only this process can end what is in the way */
	kOver,		/* its time is over, but does anybody rely on it? */
	kFull,		/* no entry is left */
	kGone,		/* the slot of the database was freed */
	kAboveMark, /* its token would be: advance the mark, and ask again */
};

struct LockTaken
{
	TakeAnswer answer;
	int number;
	int32 slot;
	int64 token; /* kOver: of that grant */
	Grant before;
	bool was_open;
	int64 swept;	  /* kBusy: a grant that the scheduler is just about to end, or 0 */
	int64 look_again; /* kBusy: monotonic, INT64_MAX: when woken */
};

/* Take a slot, if more are free than are wanted by those who are in line before. */
LockTaken take_lock(LockHold &hold, Database *db, const LockRequest &request);

/* Which processes keep that one from the lock that it waits for; -1: it waits for none, or time will end that. */
int lock_blockers(int procno, int *procnos, int most);

/* ---- ends that no transaction decides. They cannot fail ---- */

void end_session_locks();
void free_locks(Oid database, Oid incarnation);

/* ---- what others ask ---- */

bool has_locks(Oid database);

/* Is any left to a transaction? */
bool any_lock_in_doubt();

/* Of locks, not of runs; at most `most`. Returns how many. */
struct LockCopy
{
	LockKey key;
	int32 slot;
	bool open;
	int waiting;
	Grant grant;
};
int copy_locks(const Database *db, LockCopy *copies, int most);

/* How many more the database can have. */
int room_for_locks(const Database *db);

/* What all databases use beyond their own parts. */
Quota common_locks();

/*
 * Ask the schedulers to remove locks that are over and whose entries this database can have. Return how long that takes at
 * most (microseconds); 0: there is none.
 */
int64 ask_for_sweep(const Database *db);

int64 lock_bytes(); /* of one more, about */
Size named_locks_size();
void place_named_locks(void *memory);

} // namespace pgq
