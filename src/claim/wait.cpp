#include "claim/wait.h"

#include "catalog/rights.h"
#include "catalog/tables.h"
#include "claim/take.h"
#include "engine/hold.h"
#include "engine/lease_quota.h"
#include "engine/waiter.h"
#include "load/attach.h"
#include "load/refill.h"
#include "pg/client.h"
#include "pg/wait_events.h"

namespace pgq {

static constexpr int64 kShortNap = 1000;

/*
 * Return how long the claim may sleep, in milliseconds: until its wait ends; and, if this process
 * is the watcher of a queue, until the next scheduled job is due or a rate limit lets one more job
 * start (`alarm`). The sleep is short while a queue has set-aside jobs or rows to read again. It is
 * also short while no scheduler is running, since then no process wakes the claim if the clock is
 * set.
 */
static int64
nap_of_claim(const QueueRef *refs, int n, const Alarm &alarm, int64 end)
{
	int64 monotonic = monotonic_now();
	TimestampTz now = wall_now();
	int64 nap = Min(end - monotonic, alarm.run_at > now ? alarm.run_at - now : 0);
	nap = Min(nap, alarm.start - monotonic);
	/*
	 * Sleep for at least kShortNap: a scheduled job may be due while another process is still
	 * reading the job from the table.
	 */
	nap = Max(nap, kShortNap);
	for (int i = 0; i < n; i++)
	{
		(void) look_at_queue(refs[i], [&](const Queue &queue) {
			if (queue.parked_count > 0 || queue.recheck_at != 0 || !is_served(&queue, monotonic))
				nap = Min(nap, kParkTime);
		});
	}
	return (nap + 999) / 1000;
}

/*
 * Raise 53400 because no lease is left for this database. Say which bound is reached, and what
 * helps.
 */
[[noreturn]] static void
complain_of_bound()
{
	const Database *db = tables().database;
	int leases = leases_of(db->share);
	/* The numbers in this message are approximate: they can have changed since the claim failed. */
	bool others = leases < max_leases - max_leases / 8;
	ereport(
		ERROR,
		(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
		 errmsg("too many jobs are claimed at the same time"),
		 errdetail(
			 "This database uses %d leases of at most %d. %d leases are reserved for this "
			 "database. All other leases are shared by all databases, and none of them is free.",
			 leases, max_leases, reserved_leases()),
		 others ? errhint("Other databases use the shared leases: end jobs there. Or raise "
						  "pgq_ext.max_leases (now %d) or lower pgq_ext.max_databases (now %d), "
						  "and restart the server.",
						  max_leases, max_databases)
				: errhint("Raise pgq_ext.max_leases (now %d) and restart the server, or "
						  "claim fewer jobs at a time.",
						  max_leases)));
}

static void
complain(StopReason shortage, const char *name)
{
	if (shortage == StopReason::kDropped)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("queue \"%s\" was dropped", name)));
	if (shortage == StopReason::kLocked)
		ereport(
			ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("too many jobs of queue \"%s\" are locked by other transactions", name),
			 errdetail("Claims of one database skip at most %d locked jobs at the same time.",
					   max_aside()),
			 errhint("End the transactions that have locked rows of pgq_ext.job. See pg_locks for "
					 "these transactions.")));
	if (shortage == StopReason::kLeases)
		complain_of_bound();
}

/* Raise the error for a claim that has got no job because of a shortage, unless its options say otherwise. */
static void
complain_unless_accepted(StopReason shortage, const char *name, Claim *claim)
{
	bool accepted = claim->options->for_more || claim->options->stop_if_short;
	if (!accepted || shortage == StopReason::kDropped)
		complain(shortage, name);
	claim->fell_short = claim->options->stop_if_short;
}

/*
 * Count the call for queue i. A claim that waits searches each queue several times, but is counted
 * once.
 */
static void
note_look(const QueueRef &ref, int i, Claim *claim)
{
	if (i < claim->looked_at)
		return;
	count_call(ref, Call::kClaim);
	claim->looked_at++;
}

/*
 * claim.ready has the jobs in the order of the queues, since all of these jobs were taken in the last
 * search of the queues.
 */
void
note_empty(const QueueRef *refs, const Claim &claim)
{
	int job = 0;
	for (int i = 0; i < claim.looked_at; i++)
	{
		if (job == claim.n || claim.ready[job].ref.queue != refs[i].queue)
			count_call(refs[i], Call::kEmptyClaim);
		while (job < claim.n && claim.ready[job].ref.queue == refs[i].queue)
			job++;
	}
}

void
require_rights(const QueueRef *refs, char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		require_right(Permission::kClaim, refs[i].queue_id, names[i]);
	/*
	 * The check of the rights has processed invalidations, so this check sees a DROP EXTENSION that
	 * was committed during the wait.
	 */
	if (n > 0 && !has_schema())
		complain(StopReason::kDropped, names[0]);
}

/*
 * Claim from the queues in the given order. Returns the queue that gave the first job; NULL: none.
 */
static Queue *
claim_from_all(const QueueRef *refs, char *const *names, int n, Claim *claim)
{
	Queue *served = nullptr;
	StopReason worst = StopReason::kNone;
	int short_queue = 0;
	for (int i = 0; i < n && claim->n < claim->options->max_jobs; i++)
	{
		int before = claim->n;
		note_look(refs[i], i, claim);
		StopReason shortage = claim_from(refs[i], claim);
		if (claim->n > before && served == nullptr)
			served = refs[i].queue;
		if (shortage > StopReason::kHeld)
		{
			worst = shortage;
			short_queue = i;
		}
	}
	if (claim->n == 0 && worst != StopReason::kNone)
		complain_unless_accepted(worst, names[short_queue], claim);
	return served;
}

static void
wait_for_jobs(const QueueRef *refs, char *const *names, int n, Claim *claim)
{
	Queue *served = nullptr;
	if (claim->end == 0)
		claim->end = end_of_wait(claim->options->wait);
	join_lines(refs, n, false);
	for (;;)
	{
		/*
		 * Join the lines of waiters before the search for a job, so that a commit during the search
		 * wakes this process.
		 */
		Alarm alarm;
		rejoin_lines(&alarm);
		require_rights(refs, names, n);
		served = claim_from_all(refs, names, n, claim);
		if (claim->n > 0 || claim->fell_short || monotonic_now() >= claim->end)
			break;
		for (int i = 0; i < n; i++)
			refill_timer(refs[i], true);
		bool woken = rejoin_lines(&alarm);
		if (!woken)
			WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					  nap_of_claim(refs, n, alarm, claim->end), wait_events.claim);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		check_client();
	}
	leave_lines(served);
}

void
claim_jobs(const QueueRef *refs, char *const *names, int n, Claim *claim)
{
	claim_from_all(refs, names, n, claim);
	if (claim->n == 0 && !claim->fell_short && claim->options->wait > 0)
		wait_for_jobs(refs, names, n, claim);
}

} // namespace pgq
