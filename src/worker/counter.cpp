#include "worker/counter.h"

#include "catalog/version.h"
#include "engine/hold.h"
#include "engine/registry.h"
#include "pg/wait_events.h"
#include "worker/queue_pass.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

/* ---- called by the scheduler ---- */

static constinit BackgroundWorkerHandle *counter = nullptr;

bool
counter_is_running()
{
	pid_t pid;
	return counter != nullptr && GetBackgroundWorkerPid(counter, &pid) != BGWH_STOPPED;
}

static void
end_counter(int, Datum)
{
	if (counter != nullptr)
		TerminateBackgroundWorker(counter);
}

void
start_counter(Oid tablespace)
{
	if (counter_is_running())
		return;
	static constinit bool registered = false;
	if (!registered)
		before_shmem_exit(end_counter, (Datum) 0);
	registered = true;
	if (counter != nullptr)
		pfree(counter);
	counter = nullptr;
	if (!start_process(kCounterType, "pgq_counter_main", MyDatabaseId, tablespace, &counter))
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("no background worker is free to count the jobs"),
						errhint("Raise max_worker_processes (now %d) and restart the server.",
								max_worker_processes)));
}

/* ---- the counter process ---- */

static Database *
find_database()
{
	Database *database = nullptr;
	worker_transaction([&] {
		if (extension_installed() && version_served() && lock_tables(AccessShareLock))
			database = tables().database;
	});
	return database;
}

/*
 * Count the queues whose counts are unknown. Return the monotonic time of the next try; INT64_MAX:
 * all counts are known.
 */
static int64
count_all(const Database *database, DutyState *states)
{
	int64 next = INT64_MAX;
	for_each_queue(database, [&](const QueueRef &ref) {
		QueuePass pass;
		TimestampTz now = wall_now();
		(void) look_at_queue(ref, [&](const Queue &queue) {
			pass.wants_count = wants_count(queue.count, now);
			pass.wants_part = wants_part(queue.count, now);
		});
		if (!pass.wants_count && !pass.wants_part)
			return;
		DutyState *state = &states[ref.queue - shared->queues];
		if (state->name == nullptr || state->ref.generation != ref.generation)
			*state = {.name = queue_duties[kCountsDuty].name,
					  .note = &ref.queue->duties[kCountsDuty],
					  .ref = ref};
		int64 again = state->not_before > monotonic_now()
						  ? state->not_before
						  : run_duty(state, [&] { return count_at_once(ref, pass); });
		next = Min(next, again);
	});
	return next;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PGDLLEXPORT void pgq_counter_main(Datum);

void
pgq_counter_main(Datum arg)
{
	auto tablespace = order_of_process<Oid>();
	start_worker(wait_events.scheduler);
	if (!connect_unnoticed(DatumGetObjectId(arg), tablespace))
		return;
	set_session_options();
	Database *database = find_database();
	auto *states = static_cast<DutyState *>(
		MemoryContextAllocZero(TopMemoryContext, mul_size(max_queues, sizeof(DutyState))));
	while (database != nullptr)
	{
		int64 next = count_all(database, states);
		if (next == INT64_MAX)
			return;
		nap((Max(0, next - monotonic_now()) + 999) / 1000);
	}
}
}
