/*
 * The lease table: who holds which job.
 *
 * A job id is in the table at most once, and only the table decides (protocol: one-lease-a-job).
 * Each state of a lease has one way in and one way out:
 *
 *     (none) --take--> CLAIMING --hand_out--> CLAIMED --end--> (none)
 *                      CLAIMING --park--> PARKED --unpark--> (none), filed back
 *                      CLAIMING --give_back--> (none), filed back
 *                      CLAIMING --lose--> LOST  (its row cannot be returned)
 *                      CLAIMED --lose--> LOST --reap--> REAPING --end--> (none)
 *                                        LOST <--put back, put off-- REAPING (the reaper failed)
 *                      CLAIMING --hold--> HELD --give_back--> (none), filed back: see held.h
 *
 * Every function here wants the queue's lock held exclusively unless it says
 * otherwise, and cannot fail.
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
	kHeld, /* there is a lease for that job already: *lease, maybe of another queue */
	kFull, /* no lease left for that database: see share.h */
};

/*
 * Take the lease of the job that hint stands for. It starts CLAIMING, pinned once. to_end:
 * this transaction will end it, so that it may have one of the reserve.
 */
TakeResult take_lease(Queue *queue, const Hint &hint, Lease **lease, bool to_end = false);

/* Has somebody had the job by it? */
inline bool
was_handed_out(const Lease *lease)
{
	return lease->state == LeaseState::kClaimed || lease->state == LeaseState::kLost ||
		   lease->state == LeaseState::kReaping;
}

/* Was it LOST when its user took it, to count that? A doomed one that its worker uses has its slot, or has lent it. */
inline bool
is_being_counted(const Lease *lease)
{
	return lease->doomed && !lease->slot;
}

/* Is the lease the scheduler's, to move the row? Then it ends in a moment. */
bool is_moving(const Lease *lease);

/*
 * A hint of a leased job is not kept. But it may know better than the lease where
 * the job belongs (its row was changed meanwhile), so the lease remembers it, and
 * files it when it ends. If the lease is another queue's (the row was moved by hand),
 * this queue reads its rows again a little later.
 */
void note_missed(Queue *queue, Lease *lease, const Hint &hint);

struct HandOut
{
	int32 attempt;
	int64 lease_time; /* microseconds */
	const char *worker;
	bool session_bound;
	Place place;			 /* where the row was found */
	int64 group;			 /* as it says */
	TimestampTz enqueued_at; /* the same */
};

void hand_out(Lease *lease, const HandOut &what, int64 monotonic, TimestampTz now);

void park_lease(Lease *lease, int64 monotonic);

/*
 * Nobody may use it; doom_lease: or it is lost when nobody does any more (protocol: lost-when-unused).
 * A doomed one is no longer its worker's.
 */
void lose_lease(Lease *lease, Loss loss, int64 monotonic);
void doom_lease(Lease *lease, Loss loss, int64 monotonic);
void reap_lease(Lease *lease);

/* A LOST lease, for this transaction to use in the place of the scheduler: doomed. */
void retake_lost(Lease *lease);

/* The reaper has not ended it: LOST as before; or put off, for the longer the more often it has failed in a row. */
void put_back_lost(Lease *lease);
void put_off_lost(Lease *lease, bool failed, int64 monotonic);

/*
 * Remove the lease from the table; the entry is free afterwards. What it missed is
 * filed: true if a job may be ready by it. gone: and the job is, for good; otherwise tokens
 * grow beyond this one first, as somebody may get the job again.
 */
bool end_lease(Lease *lease, bool gone = false);

/* File the job back where it was and end the lease. True if the job is ready. */
bool give_back(Lease *lease);

/* A lease that an open transaction has used cannot be ended by time (protocol: used-is-pinned). */
void pin_lease(Lease *lease);
void unpin_lease(Lease *lease);

/*
 * An open transaction asserts the lease, or ends it when it commits: pinned. One at a time, but that
 * one may do it more than once. stop_using: as one use, that would have ended it or not, is undone or over.
 */
void use_lease(Lease *lease, const VirtualTransactionId &user, bool ends);
void stop_using(Lease *lease, bool ended);

/* What prepared transactions will do to the lease; nothing any more: {}. */
void set_prepared(Lease *lease, const Prepared &will);

/* PARKED leases whose time has come go back to the schedule; at most kHoldMax. Returns how many jobs may be ready by it. */
int unpark_due(Queue *queue, int64 monotonic);

/* CLAIMED leases whose deadline has passed become LOST, LOST ones that were put off come back; at most kHoldMax. Returns how many. */
int expire_due(Queue *queue, int64 monotonic);

/* The open transactions, at most `most`, that use leases of the queue; takes its lock itself. */
int users_of(const QueueRef &ref, VirtualTransactionId *users, int most);

/* How long a job whose row is busy is set aside. */
inline constexpr int64 kParkTime = 100 * 1000;
inline constexpr int64 kLongParkTime = 1000 * 1000;
inline constexpr int kManyParked = 64;

} // namespace pgq
