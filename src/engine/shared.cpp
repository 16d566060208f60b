#include "engine/shared.h"

#include "engine/lease.h"
#include "engine/seat.h"

namespace pgq {

constinit Shared *shared = nullptr;

constinit int max_databases = 0;
constinit int max_queues = 0;
constinit int window_size = 0;
constinit int timer_size = 0;
constinit int max_leases = 0;
constinit int max_claim_queues = 0;

static constinit shmem_request_hook_type next_shmem_request = nullptr;
static constinit shmem_startup_hook_type next_shmem_startup = nullptr;

static constexpr char kTranche[] = "pgq_ext";

static int
lock_count()
{
	return 1 + kLeasePartitions + max_queues;
}

/* Shared memory as a table: how much each part takes, where its address goes. */
struct Part
{
	const char *name;
	Size (*size)();
	void (*place)(void *memory);
};

static const Part parts[] = {
	{"pgq_ext databases", [] { return mul_size(max_databases, sizeof(Database)); },
	 [](void *memory) {
		 shared->databases = static_cast<Database *>(memory);
		 for (int i = 0; i < max_databases; i++)
		 {
			 Database *db = &shared->databases[i];
			 memset(db, 0, sizeof(*db));
			 pg_atomic_init_u32(&db->generation, 1);
			 pg_atomic_init_u32(&db->scheduler, 0);
			 pg_atomic_init_u64(&db->marked_token, 0);
			 pg_atomic_init_u64(&db->clock_mark, 0);
			 pg_atomic_init_u64(&db->reconciled, 0);
			 pg_atomic_init_u32(&db->share.used, 0);
			 pg_atomic_init_u32(&db->share.aside, 0);
			 pg_atomic_init_u32(&db->share.aside_own, 0);
			 pg_atomic_init_u32(&db->share.peak, 0);
			 pg_atomic_init_u32(&db->share.aside_peak, 0);
			 for (SegmentRing &ring : db->rings)
			 {
				 pg_atomic_init_u32(&ring.current, 0);
				 pg_atomic_init_u32(&ring.survivors, kNoSegment);
			 }
			 for (SegmentNotes &notes : db->segments)
			 {
				 pg_atomic_init_u64(&notes.empty_since, 0);
				 pg_atomic_init_u64(&notes.truncations, 0);
				 pg_atomic_init_u64(&notes.moved_in, 0);
				 pg_atomic_init_u64(&notes.moved_out, 0);
			 }
		 }
	 }},
	{"pgq_ext queues", [] { return mul_size(max_queues, sizeof(Queue)); },
	 [](void *memory) {
		 LWLockPadded *locks = GetNamedLWLockTranche(kTranche);
		 shared->queues = static_cast<Queue *>(memory);
		 for (int i = 0; i < max_queues; i++)
		 {
			 Queue *queue = &shared->queues[i];
			 memset(queue, 0, sizeof(*queue));
			 queue->lock = &locks[1 + kLeasePartitions + i].lock;
			 pg_atomic_init_u32(&queue->generation, 1);
			 queue->next_serial = i + 1;
		 }
	 }},
	{"pgq_ext windows",
	 [] {
		 return mul_size(max_queues, add_size(mul_size(window_size, sizeof(Schedule::Window::Node)),
											  mul_size(timer_size, sizeof(Schedule::Timer::Node))));
	 },
	 [](void *memory) {
		 auto *window = static_cast<Schedule::Window::Node *>(memory);
		 auto *timer = reinterpret_cast<Schedule::Timer::Node *>(
			 window + static_cast<Size>(max_queues) * window_size);
		 for (int i = 0; i < max_queues; i++)
			 shared->queues[i].schedule.init(window + static_cast<Size>(i) * window_size,
											 window_size, timer + static_cast<Size>(i) * timer_size,
											 timer_size);
	 }},
	{"pgq_ext seats", [] { return mul_size(seat_count(), sizeof(Seat)); },
	 [](void *memory) {
		 shared->seats = static_cast<Seat *>(memory);
		 for (int i = 0; i < seat_count(); i++)
		 {
			 shared->seats[i] = {};
			 pg_atomic_init_u64(&shared->seats[i].said, 0);
		 }
	 }},
	{"pgq_ext watches",
	 [] {
		 return mul_size(max_prepared_xacts,
						 add_size(sizeof(Watch), mul_size(max_queues, sizeof(Touched))));
	 },
	 [](void *memory) {
		 shared->watches = static_cast<Watch *>(memory);
		 auto *touched = reinterpret_cast<Touched *>(shared->watches + max_prepared_xacts);
		 for (int i = 0; i < max_prepared_xacts; i++)
		 {
			 shared->watches[i] = {};
			 shared->watches[i].touched = touched + static_cast<Size>(i) * max_queues;
		 }
	 }},
	{"pgq_ext waiters",
	 [] { return mul_size(process_count(), mul_size(max_claim_queues, sizeof(Waiter))); },
	 [](void *memory) {
		 shared->waiters = static_cast<Waiter *>(memory);
		 memset(memory, 0, static_cast<Size>(process_count()) * max_claim_queues * sizeof(Waiter));
	 }},
};

static void
request_shared_memory()
{
	if (next_shmem_request)
		next_shmem_request();
	RequestAddinShmemSpace(MAXALIGN(sizeof(Shared)));
	for (const Part &part : parts)
		RequestAddinShmemSpace(add_size(part.size(), PG_CACHE_LINE_SIZE));
	RequestAddinShmemSpace(lease_table_size());
	RequestNamedLWLockTranche(kTranche, lock_count());
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
		LWLockPadded *locks = GetNamedLWLockTranche(kTranche);
		memset(shared, 0, sizeof(*shared));
		shared->registry_lock = &locks[0].lock;
		shared->max_databases = max_databases;
		shared->max_queues = max_queues;
		shared->max_leases = max_leases;
		pg_atomic_init_u32(&shared->watched, 0);
		pg_atomic_init_u32(&shared->leases, 0);
		pg_atomic_init_u32(&shared->common, 0);
		pg_atomic_init_u32(&shared->common_peak, 0);
		pg_atomic_init_u64(&shared->last_prefix, 0);
		pg_atomic_init_u32(&shared->launcher, 0);
		pg_atomic_init_u32(&shared->announcements, 0);
		pg_atomic_init_u32(&shared->starts, 0);
		for (const Part &part : parts)
		{
			bool part_found;
			part.place(ShmemInitStruct(part.name, part.size(), &part_found));
		}
	}
	lease_table_create(&GetNamedLWLockTranche(kTranche)[1]);
	LWLockRelease(AddinShmemInitLock);
	watch_for_crashes();
}

static void
define_size(const char *name, const char *what, int *variable, int initial, int least, int most)
{
	DefineCustomIntVariable(name, what, nullptr, variable, initial, least, most, PGC_POSTMASTER, 0,
							nullptr, nullptr, nullptr);
}

int
seat_count()
{
	return max_databases + 1;
}

int
process_count()
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

void
engine_init()
{
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
	define_size("pgq_ext.max_leases",
				"Jobs of all queues together that may be claimed at the same time.", &max_leases,
				32768, 16, 1 << 24);
	define_size("pgq_ext.max_claim_queues", "Queues that one pgq_claim_any may name.",
				&max_claim_queues, 32, 1, 1024);

	next_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	next_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = create_shared_memory;
}

void
require_preloaded()
{
	if (shared == nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("pgq_ext must be loaded when the server starts"),
						errhint("Add pgq_ext to shared_preload_libraries, for example "
								"\"shared_preload_libraries = 'pgq_ext'\" in postgresql.conf, and "
								"restart the server.")));
}

} // namespace pgq
