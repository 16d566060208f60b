/*
 * Leases: which worker has which job, and the states of a lease.
 *
 * A job id is in the lease table at most once, and only the table decides (protocol:
 * one-lease-a-job). The states, and the functions that change them:
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
	kHeld, /* the job has a lease already: *lease, perhaps of another queue */
	kFull, /* the database has no lease left: see share.h */
};

/*
 * Take the lease of the job of the hint. The lease is then CLAIMING and pinned once. to_end: this
 * transaction takes the lease only to end it, so the lease may be charged to the reserve (share.h).
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
 * Return whether the lease was LOST when its present user took it, to count the lost attempt: such
 * a doomed lease has no slot (retake_lost()). A doomed lease that its worker uses has its slot, or
 * has lent it.
 */
inline bool
is_being_counted(const Lease *lease)
{
	return lease->doomed && !lease->slot;
}

/* Return whether the scheduler has taken the lease to move the row. Such a lease ends soon. */
bool is_moving(const Lease *lease);

/*
 * Note a hint that has met the lease of its job. The hint is not kept, but it may be newer than the
 * lease, since the row may have changed. So the lease remembers the hint and files it at its end.
 * If the lease belongs to another queue (the row was moved by SQL), this queue reads its rows again
 * a little later.
 */
void note_missed(Queue *queue, Lease *lease, const Hint &hint);

struct HandOut
{
	int32 attempt;
	int64 lease_time; /* microseconds */
	const char *worker;
	bool session_bound;
	Place place;			 /* place of the row version */
	int64 group;			 /* group of the row */
	TimestampTz enqueued_at; /* enqueued_at of the row */
};

void hand_out(Lease *lease, const HandOut &what, int64 monotonic, TimestampTz now);

void park_lease(Lease *lease, int64 monotonic);

/*
 * Make the lease LOST. No transaction may be using it. doom_lease() makes a lease that is used LOST
 * when its last use ends (protocol: lost-when-unused); until then the lease is doomed, and its
 * worker cannot use it any more.
 */
void lose_lease(Lease *lease, Loss loss, int64 monotonic);
void doom_lease(Lease *lease, Loss loss, int64 monotonic);
void reap_lease(Lease *lease);

/*
 * Let this transaction use a LOST lease, to count the attempt in place of the scheduler. The lease
 * becomes CLAIMED and doomed.
 */
void retake_lost(Lease *lease);

/*
 * Make a REAPING lease LOST again. put_off_lost() also delays the next try. failed: the row could
 * not be written; the delay grows with each failure in a row.
 */
void put_back_lost(Lease *lease);
void put_off_lost(Lease *lease, bool failed, int64 monotonic);

/*
 * Remove the lease from the table and free its entry. A remembered hint is filed; return true if a
 * job may be ready by that. gone: the job has ended for good. Otherwise later tokens must be
 * greater than this one, since another worker may get the job, so the token prefix is raised first.
 */
bool end_lease(Lease *lease, bool gone = false);

/* End the lease and file its hint again. Return true if the job is ready. */
bool give_back(Lease *lease);

/*
 * Pin or unpin the lease for an open transaction. A pinned lease is not ended by time (protocol:
 * used-is-pinned).
 */
void pin_lease(Lease *lease);
void unpin_lease(Lease *lease);

/*
 * Note that an open transaction asserts the lease, or (ends) will end it at commit; this pins the
 * lease. Only one transaction at a time can use a lease, but it may do so several times.
 * stop_using() takes back one use, when that is undone or over. ended: that use was to end the
 * lease.
 */
void use_lease(Lease *lease, const VirtualTransactionId &user, bool ends);
void stop_using(Lease *lease, bool ended);

/* Set what prepared transactions will do to the lease; {}: nothing. */
void set_prepared(Lease *lease, const Prepared &will);

/*
 * Give back PARKED leases whose deadline has passed, at most kHoldMax. Return how many jobs may
 * have become ready.
 */
int unpark_due(Queue *queue, int64 monotonic);

/*
 * Make CLAIMED leases LOST whose deadline has passed, and bring back LOST leases that were put off
 * until now; at most kHoldMax. Return their number.
 */
int expire_due(Queue *queue, int64 monotonic);

/*
 * Store the open transactions that use leases of the queue, at most `most`, without this one.
 * Return their number. Takes the queue's lock itself.
 */
int users_of(const QueueRef &ref, VirtualTransactionId *users, int most);

/*
 * Microseconds for which a job is set aside when its row is busy. With kManyParked or more parked
 * leases in the queue the longer time is used.
 */
inline constexpr int64 kParkTime = 100 * 1000;
inline constexpr int64 kLongParkTime = 1000 * 1000;
inline constexpr int kManyParked = 64;

} // namespace pgq
