/*
 * Leases: which worker has which job, and the states of a lease.
 *
 * A job id is in the lease table at most once, and only the table decides who has the job
 * (protocol: one-lease-a-job). The states, and the functions that change them:
 *
 *     (none) --take--> CLAIMING --hand_out--> CLAIMED --end--> (none)
 *                      CLAIMING --park--> PARKED --unpark--> (none), filed back
 *                      CLAIMING --give_back--> (none), filed back
 *                      CLAIMING --lose--> LOST  (its row cannot be returned)
 *                      CLAIMED --lose--> LOST --reap--> REAPING --end--> (none)
 *                                        LOST <--put back, put off-- REAPING (the reaper failed)
 *                      CLAIMING --hold--> HELD --give_back--> (none), filed back: see held.h
 *
 * Every function is called with the queue's lock held exclusively, unless its comment says
 * otherwise. None can fail.
 */
#pragma once

#include "engine/lease_table.h"
#include "engine/lease_time.h"
#include "engine/leased.h"
#include "engine/registry.h"

namespace pgq {

enum class TakeResult
{
	kTaken,
	kHeld, /* the job already has a lease: *lease, which may belong to another queue */
	kFull, /* the database may have no more leases: see lease_quota.h */
};

/*
 * Take the lease of the job of the hint. The new lease is CLAIMING and pinned once. to_end: this
 * transaction takes the lease only to end it, or to give it back early, so the lease may be charged to the
 * reserve (lease_quota.h).
 */
TakeResult take_lease(Queue *queue, const Hint &hint, Lease **lease, bool to_end = false);

/* Return whether a worker has got the job with this lease. */
inline bool
was_handed_out(const Lease *lease)
{
	return lease->state == LeaseState::kClaimed || lease->state == LeaseState::kLost ||
		   lease->state == LeaseState::kReaping;
}

/*
 * Return whether the lease is doomed and has no slot: a transaction uses the lease only to count
 * its lost attempt (retake_lost()), or the worker that uses the lease has lent its slot. In all
 * other cases a doomed lease has its slot.
 */
inline bool
is_being_counted(const Lease *lease)
{
	return lease->doomed && !lease->slot;
}

/* Return whether the scheduler has taken the lease to move the row. Such a lease ends soon. */
bool is_moving(const Lease *lease);

/*
 * Note a hint whose job has a lease. The hint is not filed, but it may be newer than the lease,
 * since the row may have changed. So the lease remembers the hint; end_lease() files it. If the
 * lease belongs to another queue (SQL has moved the row), the queue of the hint reads its rows
 * again a little later.
 */
void note_missed(Queue *queue, Lease *lease, const Hint &hint);

/*
 * Note that SQL changes the group of the row. A visit of the new group may find the row, and take its
 * job for the head of this group when the lease has ended. So end_lease() reads all rows again.
 */
inline void
note_regrouped(Lease *lease)
{
	if (lease->missed_count == 0)
		lease->missed = lease->hint;
	lease->missed_count = 2;
	lease->missed_regrouped = true;
}

struct HandOut
{
	int32 attempt;
	int64 lease_time; /* microseconds */
	const char *worker;
	bool session_bound;
	bool unbegun;			 /* Lease::unbegun */
	Place place;			 /* place of the row version */
	int64 group;			 /* group of the row */
	TimestampTz enqueued_at; /* enqueued_at of the row */
};

void hand_out(Lease *lease, const HandOut &what, int64 monotonic, TimestampTz now);

void park_lease(Lease *lease, int64 monotonic);

/*
 * lose_lease() makes the lease LOST; no transaction may be using the lease. doom_lease() is for a
 * lease that a transaction is using: the lease becomes LOST when its last use ends (protocol:
 * lost-when-unused). Until then the lease is doomed, and its worker cannot use it any more.
 */
void lose_lease(Lease *lease, Loss loss, int64 monotonic);
void doom_lease(Lease *lease, Loss loss, int64 monotonic);
void reap_lease(Lease *lease);

/*
 * Let this transaction use a LOST lease, to count the attempt instead of the scheduler. The lease
 * becomes CLAIMED and doomed.
 */
void retake_lost(Lease *lease);

/*
 * Make a REAPING lease LOST again. put_off_lost() also delays the next try. failed: the row could
 * not be written; the delay then grows with each failure in a row.
 */
void put_back_lost(Lease *lease);
void put_off_lost(Lease *lease, bool failed, int64 monotonic);

/*
 * Remove the lease from the table and free its entry. A hint that the lease remembers is filed;
 * return true if that may make a job ready. gone: the job has ended for good. If it has not,
 * another worker may get the job, and needs a greater token: so the token prefix is raised first.
 */
bool end_lease(Lease *lease, bool gone = false);

/* End the lease and file its hint again. Return true if the job is ready now. */
bool give_back(Lease *lease);

/*
 * Pin or unpin the lease for an open transaction. Time does not end a pinned lease
 * (protocol: used-is-pinned).
 */
void pin_lease(Lease *lease);
void unpin_lease(Lease *lease);

/*
 * Note that an open transaction asserts the lease or, with `ends`, will end the lease at commit.
 * The use pins the lease. Only one transaction at a time can use a lease, possibly several times.
 * stop_using() takes back one use, which was undone or is over. ended: the value of `ends` with
 * which this use began.
 */
void use_lease(Lease *lease, const VirtualTransactionId &user, bool ends);
void stop_using(Lease *lease, bool ended);

/* Store what prepared transactions will do to the lease; {}: nothing. */
void set_prepared(Lease *lease, const Prepared &will);

/*
 * Store the open transactions, except this one, that use leases of the queue, at most `most`.
 * Return their number. Takes the queue's lock itself.
 */
int users_of(const QueueRef &ref, VirtualTransactionId *users, int most);

/*
 * Time (microseconds) for which a job is set aside when its row is busy. kLongParkTime is used if
 * the queue has kManyParked or more parked leases.
 */
inline constexpr int64 kParkTime = 100 * 1000;
inline constexpr int64 kLongParkTime = 1000 * 1000;
inline constexpr int kManyParked = 64;

} // namespace pgq
