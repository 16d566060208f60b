/*
 * Taking the lease of a waiting job, to change or end the job. Every such operation takes the lease
 * first (protocol: lease-before-row): no claim hands the job out meanwhile, and only one
 * transaction at a time changes it.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

struct TakenLease
{
	QueueRef ref;
	/*
	 * NULL: another transaction has the lease, and waits at the row, which this transaction has
	 * locked or written.
	 */
	Lease *lease;
	bool fleeting; /* give it back by leave_to_row() as soon as the row is written or locked */
	bool earlier;  /* an earlier call of this transaction has taken it */
	bool lost;	   /* the attempt of a lost lease, not counted yet */
	Loss loss;
};

/*
 * Take the lease, to end in that way at commit; on abort the job waits as before. Waits for a
 * transaction that changes the job or moves its row, and for a claim that has not decided whether
 * to hand the job out. Returns false if a worker has the job. lost: take a LOST lease, too, whose
 * attempt the caller then counts; otherwise such a job counts as leased. Raises 53400 if no lease
 * is left.
 */
bool take_waiting(const JobRow &row, LeaseEnd how, bool lost, TakenLease *taken);

/* Wait until the transaction has ended; if it is invalid, for a moment. */
void wait_for_transaction(const VirtualTransactionId &other);

/*
 * Wait until the claim in progress of that job has decided whether it hands the job out, not until
 * its transaction ends. Raises 40P01 if the claim waits for this transaction (README.md, "Waiting
 * for a claim").
 */
void wait_for_claim(int64 job_id, const VirtualTransactionId &claimer);

/* Raises 53400. */
[[noreturn]] void complain_of_leases();

/*
 * Give a fleeting lease back, when the row shows that this transaction is at the job, or nothing
 * was done. At commit waiting sessions are told `end`, and the group of the row is looked at.
 */
void leave_to_row(const TakenLease &taken, const JobRow &row, JobEnd end);

/* Give the lease back that was taken last, and forget its effects: it was not needed. */
void give_back_taken(const TakenLease &taken);

/*
 * As give_back_taken(), for a job that has gone. A lease from an earlier call, or a lost one, stays
 * until the transaction ends.
 */
void give_back_gone(const TakenLease &taken);

} // namespace pgq
