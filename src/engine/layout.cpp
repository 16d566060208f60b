#include "engine/layout.h"

#include "engine/batch_watch.h"
#include "engine/ended_jobs.h"
#include "engine/exit_status.h"
#include "engine/group_pool.h"
#include "engine/handler_slot.h"
#include "engine/lease_table.h"
#include "engine/named/named_lock.h"
#include "engine/named/named_rate.h"
#include "engine/prepared_entry.h"
#include "engine/result_wait.h"
#include "pg/wait_events.h"

namespace pgq {

static constinit shmem_request_hook_type next_shmem_request = nullptr;
static constinit shmem_startup_hook_type next_shmem_startup = nullptr;

static constexpr char kTranche[] = "pgq_ext";

/*
 * Number of locks other than those of lease partitions and queues: registry, results, named locks,
 * named rates, handlers, batches.
 */
static constexpr int kOtherLocks = 6;

static int
lock_count()
{
	return kOtherLocks + kLeasePartitions + max_queues;
}

namespace {
/* A part of shared memory: its size, and the function that initializes it at the given address. */
struct Part
{
	const char *name;
	Size (*size)();
	void (*place)(void *memory);
};

} // namespace

static const Part parts[] = {
	{"pgq_ext databases", databases_size, place_databases},
	{"pgq_ext queues", queues_size,
	 [](void *memory) {
		 place_queues(memory, GetNamedLWLockTranche(kTranche) + kOtherLocks + kLeasePartitions);
	 }},
	{"pgq_ext windows", windows_size, place_windows},
	{"pgq_ext groups", group_pool_size, place_group_pool},
	{"pgq_ext counts", counts_size, place_counts},
	{"pgq_ext exit statuses", exit_statuses_size, place_exit_statuses},
	{"pgq_ext prepared entries", prepared_entries_size, place_prepared_entries},
	{"pgq_ext waiters", waiters_size, place_waiters},
	{"pgq_ext results", result_waits_size, place_result_waits},
	{"pgq_ext lock lines", lock_lines_size, place_lock_lines},
	{"pgq_ext locks", named_locks_size, place_named_locks},
	{"pgq_ext rates", named_rates_size, place_named_rates},
	{"pgq_ext ended jobs", ended_jobs_size, place_ended_jobs},
	{"pgq_ext handlers", handler_slots_size, place_handler_slots},
	{"pgq_ext handler tickets", handler_tickets_size, place_handler_tickets},
	{"pgq_ext batches", batch_watch_size, place_batch_watch},
};

static void
request_shared_memory()
{
	if (next_shmem_request)
		next_shmem_request();
	RequestAddinShmemSpace(add_size(sizeof(Shared), PG_CACHE_LINE_SIZE));
	for (const Part &part : parts)
		RequestAddinShmemSpace(add_size(part.size(), PG_CACHE_LINE_SIZE));
	RequestAddinShmemSpace(lease_table_size());
	RequestNamedLWLockTranche(kTranche, lock_count());
}

static void
init_shared()
{
	memset(shared, 0, sizeof(*shared));
	shared->registry_lock = &GetNamedLWLockTranche(kTranche)[0].lock;
	shared->results_lock = &GetNamedLWLockTranche(kTranche)[1].lock;
	shared->locks_lock = &GetNamedLWLockTranche(kTranche)[2].lock;
	shared->rates_lock = &GetNamedLWLockTranche(kTranche)[3].lock;
	shared->handlers_lock = &GetNamedLWLockTranche(kTranche)[4].lock;
	shared->batches_lock = &GetNamedLWLockTranche(kTranche)[5].lock;
	shared->max_databases = max_databases;
	shared->max_queues = max_queues;
	shared->max_leases = max_leases;
	pg_atomic_init_u32(&shared->watched, 0);
	pg_atomic_init_u64(&shared->rows_came_at, 0);
	pg_atomic_init_u32(&shared->leases, 0);
	pg_atomic_init_u32(&shared->common, 0);
	pg_atomic_init_u32(&shared->common_peak, 0);
	pg_atomic_init_u32(&shared->reserve, 0);
	pg_atomic_init_u64(&shared->last_prefix, 0);
	pg_atomic_init_u64(&shared->last_lock_token, 0);
	pg_atomic_init_u32(&shared->launcher, 0);
	pg_atomic_init_u32(&shared->missing_schedulers, 0);
	pg_atomic_init_u64(&shared->starts_known_since, 0);
	pg_atomic_init_u32(&shared->announcements, 0);
	pg_atomic_init_u32(&shared->starts, 0);
}

static void
create_shared_memory()
{
	if (next_shmem_startup)
		next_shmem_startup();

	bool found;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = static_cast<Shared *>(ShmemInitStruct("pgq_ext", sizeof(Shared), &found));
	if (!found)
	{
		init_shared();
		for (const Part &part : parts)
		{
			bool part_found;
			part.place(ShmemInitStruct(part.name, part.size(), &part_found));
		}
	}
	lease_table_create(&GetNamedLWLockTranche(kTranche)[kOtherLocks]);
	LWLockRelease(AddinShmemInitLock);
	name_wait_events();
	watch_for_crashes();
	watch_for_handler_crashes();
}

static void
define_size(const char *name, const char *what, int *variable, int initial, int least, int most)
{
	DefineCustomIntVariable(name, what, nullptr, variable, initial, least, most, PGC_POSTMASTER, 0,
							nullptr, nullptr, nullptr);
}

void
engine_init()
{
	/*
	 * First define the settings that determine the sizes, then install the hooks that request and
	 * create the memory.
	 */
	define_size("pgq_ext.max_databases", "Databases that may have the extension at the same time.",
				&max_databases, 16, 1, 1024);
	define_size("pgq_ext.max_queues",
				"Queues of all databases together that are in use at the same time.", &max_queues,
				128, 1, 65536);
	define_size("pgq_ext.window_size", "Ready jobs of one queue that are kept in memory.",
				&window_size, 2048, 1, 1 << 20);
	define_size("pgq_ext.timer_size",
				"Jobs of one queue waiting for their time that are kept in memory.", &timer_size,
				1024, 1, 1 << 20);
	define_size("pgq_ext.max_leases", "Jobs of one database that may be claimed at the same time.",
				&max_leases, 32768, 16, 1 << 24);
	define_size("pgq_ext.max_claim_queues", "Queues that one pgq_claim_any may name.",
				&max_claim_queues, 32, 1, 1024);
	define_size("pgq_ext.max_locks",
				"Locks and runs of one database that may be held at the same time.", &max_locks,
				4096, 1, 1 << 20);
	define_size("pgq_ext.max_rates", "Rates of one database that may be in use at the same time.",
				&max_rates, 256, 1, 65536);
	define_size("pgq_ext.max_handler_workers",
				"Background workers of the server that run jobs of queues with a handler.",
				&max_handler_workers, 2, 0, kHoldMax);
	define_size("pgq_ext.max_watched_batches",
				"Batches of one database that shared memory may watch at the same time.",
				&max_watched_batches, 4096, 1, 1 << 20);

	next_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	next_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = create_shared_memory;
}

} // namespace pgq
