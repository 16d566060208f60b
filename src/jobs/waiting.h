/*
 * The lease of a job that nobody has, taken by this transaction to change the job or to end it. Whoever
 * does that takes it first (protocol: lease-before-row): no claim hands the job out meanwhile, and only
 * one transaction at a time changes it.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

struct TakenLease
{
	QueueRef ref;
	/* NULL: another transaction has the lease, and waits at the row, which this transaction has locked or written. */
	Lease *lease;
	bool fleeting; /* the row stands for it: leave_to_row() */
	bool earlier;  /* an earlier call of this transaction has taken it */
	bool lost;	   /* the job was lost, and nobody has counted that yet */
	Loss loss;
};

/*
 * Take it, for it to end that way at commit; undone, the job waits as before. It waits for who changes
 * the job or moves its row, and for a claim that has not decided yet whether it hands the job out.
 * False: somebody has the job. lost: LOST leases are taken, too, to be counted by the caller, as the
 * scheduler would; otherwise somebody has the job. Error 53400: no lease is left.
 */
bool take_waiting(const JobRow &row, LeaseEnd how, bool lost, TakenLease *taken);

/* Until it has ended; if it is invalid, for a moment. */
void wait_for_transaction(const VirtualTransactionId &other);

/*
 * Until the claim in progress of that job has decided whether it hands the job out, never for the rest of the claiming
 * transaction. Error 40P01 if the claim waits for this transaction (README.md, "Waiting for a claim").
 */
void wait_for_claim(int64 job_id, const VirtualTransactionId &claimer);

/* Error 53400. */
[[noreturn]] void complain_of_leases();

/*
 * The row says from here on that this transaction is at the job, or nothing was done: a fleeting lease is given back. At the
 * commit that end is told, and the group of the row is looked at.
 */
void leave_to_row(const TakenLease &taken, const JobRow &row, JobEnd end);

/* The lease that was taken last has been taken in vain. */
void give_back_taken(const TakenLease &taken);

/* The same of a job that has gone; but an earlier lease, or a lost one, is the transaction's to the end. */
void give_back_gone(const TakenLease &taken);

} // namespace pgq
