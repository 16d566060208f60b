/*
 * Claiming from several queues, and waiting for a job.
 */
#include "catalog/rights.h"
#include "catalog/tables.h"
#include "engine/hold.h"
#include "engine/share.h"
#include "engine/waiter.h"
#include "jobs/claim.h"
#include "load/attach.h"
#include "load/refill.h"
#include "pg/client.h"
#include "pg/wait_events.h"

namespace pgq {

static constexpr int64 kShortNap = 1000;

/*
 * When this process has to look again by itself: at the end, for the timers and rates it watches, for
 * parked jobs. If the clock is set meanwhile the scheduler wakes us; without one the nap is short.
 */
static int64
nap_of_claim(const QueueRef *refs, int n, const Alarm &alarm, int64 end)
{
	int64 monotonic = monotonic_now();
	TimestampTz now = wall_now();
	int64 nap = Min(end - monotonic, alarm.run_at > now ? alarm.run_at - now : 0);
	nap = Min(nap, alarm.start - monotonic);
	/* A timer may be due already while somebody else is still reading it in: then look again soon. */
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

/* No lease is left for this database: which bound is met, and what helps. */
[[noreturn]] static void
complain_of_bound()
{
	const Database *db = tables().database;
	int leases = leases_of(db->share);
	/* About: all of that can have changed since. */
	bool others = leases < max_leases - max_leases / 8;
	ereport(
		ERROR,
		(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
		 errmsg("too many jobs are claimed at the same time"),
		 errdetail(
			 "This database uses %d leases of at most %d. %d leases are reserved for this "
			 "database. All other leases are shared by all databases, and none of them is free.",
			 leases, max_leases, own_share()),
		 others ? errhint("Other databases use the shared leases: end jobs there. Or raise "
						  "pgq_ext.max_leases (now %d) or lower pgq_ext.max_databases (now %d), "
						  "and restart the server.",
						  max_leases, max_databases)
				: errhint("Raise pgq_ext.max_leases (now %d) and restart the server, or "
						  "claim fewer jobs at a time.",
						  max_leases)));
}

static void
complain(Shortage shortage, const char *name)
{
	if (shortage == Shortage::kDropped)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("queue \"%s\" was dropped", name)));
	if (shortage == Shortage::kLocked)
		ereport(
			ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("too many jobs of queue \"%s\" are locked by other transactions", name),
			 errdetail("A claim skips locked jobs, but at most %d in one database.", max_aside()),
			 errhint("End the transactions that have locked rows of pgq_ext.job. See pg_locks for "
					 "these transactions.")));
	if (shortage == Shortage::kLeases)
		complain_of_bound();
}

/* A claim that waits looks more than once. */
static void
note_look(const QueueRef &ref, int i, Claim *claim)
{
	if (i < claim->looked_at)
		return;
	count_call(ref, Call::kClaim);
	claim->looked_at++;
}

/* Its jobs are in the order of the queues: no look but the last one has found any. */
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
		require_right(Deed::kClaim, refs[i].queue_id, names[i]);
	/* We have heard what has happened while we waited. */
	if (n > 0 && !has_schema())
		complain(Shortage::kDropped, names[0]);
}

/* Go through the queues in their order. Returns the queue that gave the first job. */
static Queue *
claim_from_all(const QueueRef *refs, char *const *names, int n, Claim *claim)
{
	Queue *served = nullptr;
	Shortage worst = Shortage::kNone;
	int short_queue = 0;
	for (int i = 0; i < n && claim->n < claim->options->max_jobs; i++)
	{
		int before = claim->n;
		note_look(refs[i], i, claim);
		Shortage shortage = claim_from(refs[i], claim);
		if (claim->n > before && served == nullptr)
			served = refs[i].queue;
		if (shortage > Shortage::kHeld)
		{
			worst = shortage;
			short_queue = i;
		}
	}
	if (claim->options->for_more && worst != Shortage::kDropped)
		worst = Shortage::kNone;
	if (claim->n == 0 && worst != Shortage::kNone)
		complain(worst, names[short_queue]);
	return served;
}

static void
wait_for_jobs(const QueueRef *refs, char *const *names, int n, Claim *claim)
{
	Queue *served = nullptr;
	if (claim->end == 0)
		claim->end = end_of_wait(claim->options->wait);
	join_lines(refs, n);
	for (;;)
	{
		/* In line before looking, so that a commit meanwhile wakes us. */
		Alarm alarm;
		rejoin_lines(&alarm);
		require_rights(refs, names, n);
		served = claim_from_all(refs, names, n, claim);
		if (claim->n > 0 || monotonic_now() >= claim->end)
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
	if (claim->n == 0 && claim->options->wait > 0)
		wait_for_jobs(refs, names, n, claim);
}

} // namespace pgq
