/*
 * Taking the lease of a waiting job, to change or end the job. Every such operation takes the lease
 * first (protocol: lease-before-row). While a transaction has the lease, no claim hands the job
 * out, and no other transaction changes the job.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

struct TakenLease
{
	QueueRef ref;
	/*
	 * NULL: another transaction has the lease and waits at the row, which this transaction has
	 * locked or written.
	 */
	Lease *lease;
	bool fleeting; /* call leave_to_row() as soon as the row is written or locked */
	bool earlier;  /* an earlier call of this transaction has taken the lease */
	bool lost;	   /* the lease was LOST, and its attempt is not counted yet */
	Loss loss;
};

/*
 * Take the lease of a waiting job. At commit the lease ends as `how` says; on abort the job is
 * given back. Waits for a transaction that changes the job or moves its row, and for a claim that
 * has not decided whether to hand the job out. Returns false if a worker has the job, or if the
 * queue does not exist; then taken->ref.queue is NULL. lost: also take a LOST lease, whose attempt
 * the caller then counts; otherwise a job with such a lease counts as leased. Raises 53400 if no
 * lease is left.
 */
bool take_waiting(const JobRow &row, LeaseEnd how, bool lost, TakenLease *taken);

/* Wait until the transaction `other` has ended. If `other` is invalid, sleep for a moment. */
void wait_for_transaction(const VirtualTransactionId &other);

/*
 * Wait until the claim in progress of that job has decided whether to hand the job out. The wait
 * does not last until the claiming transaction ends. Raises 40P01 if the claim waits for this
 * transaction (README.md, "Waiting for a claim").
 */
void wait_for_claim(int64 job_id, const VirtualTransactionId &claimer);

/* Raise 53400: no lease is left. */
[[noreturn]] void complain_of_leases();

/*
 * Give a fleeting lease back, because the row now shows that this transaction is changing the job,
 * or because nothing was done. At commit, waiting sessions are told `end`, and in a queue with fifo
 * the group of the job gets a marker.
 */
void leave_to_row(const TakenLease &taken, const JobRow &row, JobEnd end);

/*
 * Give back the lease that was taken last, because it is not needed, and forget the effects that
 * were registered for this lease.
 */
void give_back_taken(const TakenLease &taken);

/*
 * Like give_back_taken(), for a job that is gone. A lease that an earlier call has taken, or a
 * lease that was lost, stays until the transaction ends.
 */
void give_back_gone(const TakenLease &taken);

} // namespace pgq
