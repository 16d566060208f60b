#include "engine/registry.h"

#include "engine/hold.h"
#include "engine/invalidate.h"
#include "engine/rate_limit.h"

#include <algorithm>

namespace pgq {

Size
queues_size()
{
	return mul_size(max_queues, sizeof(Queue));
}

void
place_queues(void *memory, LWLockPadded *locks)
{
	Assert(reinterpret_cast<uintptr_t>(memory) % alignof(Queue) == 0);
	shared->queues = static_cast<Queue *>(memory);
	memset(memory, 0, queues_size());
	for (int i = 0; i < max_queues; i++)
	{
		Queue *queue = &shared->queues[i];
		queue->lock = &locks[i].lock;
		pg_atomic_init_u32(&queue->generation, 1);
		pg_atomic_init_u32(&queue->namings, 0);
		for (pg_atomic_uint64 &calls : queue->calls)
			pg_atomic_init_u64(&calls, 0);
		queue->next_serial = i + 1;
	}
}

Size
windows_size()
{
	return mul_size(max_queues,
					add_size(mul_size(Schedule::nodes(window_size), sizeof(Schedule::Node)),
							 mul_size(timer_size, sizeof(Schedule::Timer::Node))));
}

void
place_windows(void *memory)
{
	auto *window = static_cast<Schedule::Node *>(memory);
	Size nodes = Schedule::nodes(window_size);
	auto *timer = reinterpret_cast<Schedule::Timer::Node *>(window + max_queues * nodes);
	for (int i = 0; i < max_queues; i++)
		shared->queues[i].schedule.init(window + i * nodes, window_size,
										timer + static_cast<Size>(i) * timer_size, timer_size);
}

Size
counts_size()
{
	return mul_size(max_queues,
					mul_size(kKeptSnapshots, mul_size(running_max(), sizeof(TransactionId))));
}

void
place_counts(void *memory)
{
	auto *running = static_cast<TransactionId *>(memory);
	for (int i = 0; i < max_queues; i++)
	{
		JobCount &count = shared->queues[i].count;
		for (SeenBy *kept : {&count.whole, &count.part, &count.before})
		{
			kept->running = running;
			running += running_max();
		}
	}
}

/*
 * Return the first slot for which is(queue) returns true; NULL: none. The search begins at the home
 * of the queue: the slot whose number is computed from the id. Most queues have their home as slot,
 * so they are found at once, even if there are many; only a search for a queue without a slot
 * visits all slots. Called under the registry lock.
 */
template <typename Is>
static Queue *
find_from_home(int32 queue_id, Is is)
{
	int home = static_cast<int>(static_cast<uint32>(queue_id) % shared->max_queues);
	for (int i = 0; i < shared->max_queues; i++)
	{
		int at = home + i;
		Queue *queue = &shared->queues[at < shared->max_queues ? at : at - shared->max_queues];
		if (is(queue))
			return queue;
	}
	return nullptr;
}

static bool
find_slot(const Database *db, uint32 db_generation, int32 queue_id, QueueRef *ref)
{
	return find_from_home(queue_id, [&](Queue *queue) {
			   return queue->queue_id == queue_id && queue->database == db &&
					  queue->database_generation == db_generation && ref_of(queue, ref);
		   }) != nullptr;
}

static void
open_gate(Gate *gate)
{
	gate->holds = 0;
	gate->dropping = false;
	SetInvalidVirtualTransactionId(gate->dropper);
	SetInvalidVirtualTransactionId(gate->mover);
	gate->mover_due = 0;
}

static void
init_service(QueueService *service)
{
	service->served_at = 0;
	service->notify_pending = false;
	memset(service->duties, 0, sizeof(service->duties));
}

static void
init_story(QueueStory *story)
{
	story->counters = {};
	for (pg_atomic_uint64 &calls : story->calls)
		pg_atomic_write_u64(&calls, 0);
	pg_atomic_write_u64(&story->last_skip_at, 0);
	story->last_claim_at = 0;
	story->loaded_at = wall_now();
}

/* Fill in the slot. Each part is initialized by its own function. */
static void
fill_queue(Queue *queue, Database *db, const QueueRow &row)
{
	pg_atomic_fetch_add_u32(&queue->generation, 1);
	queue->database = db;
	queue->database_generation = pg_atomic_read_u32(&db->generation);
	queue->queue_id = row.queue_id;
	set_name(queue, row.name);
	queue->options = row.options;
	queue->schedule.reset(group_rules_of(row.options));
	queue->schedule.doubt_horizon(clock_mark(queue));
	init_count(queue->count, row.options.max_depth);
	init_leases(queue);
	init_rate(queue);
	init_group_rates(queue);
	init_line(queue);
	open_gate(queue);
	init_service(queue);
	init_story(queue);
	queue->latency.clear();
	queue->handler = {};
	pg_write_barrier();
	queue->state = SlotState::kUsed;
}

static Queue *
free_queue_slot(int32 queue_id)
{
	return find_from_home(queue_id, [](Queue *queue) { return queue->state == SlotState::kFree; });
}

/* Return the number of slots in use. The caller holds the registry lock. */
static int
queue_slots_in_use()
{
	return static_cast<int>(
		std::count_if(shared->queues, shared->queues + shared->max_queues,
					  [](const Queue &queue) { return queue.state != SlotState::kFree; }));
}

bool
try_attach_queue(Database *db, uint32 db_generation, const QueueRow &row, QueueRef *ref)
{
	return with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		if ((db->state != SlotState::kUsed && db->state != SlotState::kLoading) ||
			pg_atomic_read_u32(&db->generation) != db_generation)
			return false;
		if (find_slot(db, db_generation, row.queue_id, ref))
			return true;
		Queue *queue = free_queue_slot(row.queue_id);
		if (queue == nullptr)
			return false;
		with_lwlock(queue->lock, LW_EXCLUSIVE, [&] { fill_queue(queue, db, row); });
		shared->queues_peak = Max(shared->queues_peak, queue_slots_in_use());
		return ref_of(queue, ref);
	});
}

QueueRef
attach_queue(Database *db, uint32 db_generation, const QueueRow &row)
{
	QueueRef ref;
	if (try_attach_queue(db, db_generation, row, &ref))
		return ref;
	if (pg_atomic_read_u32(&db->generation) != db_generation)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("extension \"pgq_ext\" was dropped"),
				 errhint("If the extension exists again, repeat the call.")));
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED), errmsg("too many queues are in use"),
			 errhint("Raise pgq_ext.max_queues (now %d) and restart the server.", max_queues)));
}

bool
find_attached_queue(const Database *db, int32 queue_id, QueueRef *ref)
{
	return with_lwlock(shared->registry_lock, LW_SHARED,
					   [&] { return find_slot(db, generation_of(db), queue_id, ref); });
}

VirtualTransactionId
dropper_of(const QueueRef &ref)
{
	VirtualTransactionId dropper = kNoVirtualXid;
	if (ref.queue->dropping)
		(void) look_at_queue(ref, [&](const Queue &queue) {
			if (queue.dropping)
				dropper = queue.dropper;
		});
	return dropper;
}

/*
 * Call some(), which releases a part of the slot's leases, groups or waiters under the queue's
 * lock, until it returns false. The slot is DYING, so no other code uses it any more.
 */
template <typename Some>
static void
empty_dying(Queue *queue, Some some)
{
	for (bool more = true; more;)
	{
		Wakeups wakeups;
		more = with_lwlock(queue->lock, LW_EXCLUSIVE, [&] { return some(&wakeups); });
		wakeups.deliver();
	}
}

void
free_queue(const QueueRef &ref)
{
	Queue *queue = ref.queue;
	bool ours = with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(ref))
			return false;
		/*
		 * From here on all other code sees another generation. The slot stays taken until it is
		 * empty.
		 */
		queue->state = SlotState::kDying;
		pg_atomic_fetch_add_u32(&queue->generation, 1);
		return true;
	});
	if (!ours)
		return;

	empty_dying(queue, [&](Wakeups *) {
		for (int i = 0; i < kHoldMax && !dlist_is_empty(&queue->leases); i++)
			end_lease(
				container_of<Lease>(dlist_head_node(&queue->leases), offsetof(Lease, in_queue)));
		return !dlist_is_empty(&queue->leases);
	});
	empty_dying(queue, [&](Wakeups *) { return forget_some_groups(queue); });
	empty_dying(queue, [&](Wakeups *wakeups) {
		return wake_waiters(queue, kHoldMax, wakeups) == kHoldMax;
	});
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] { queue->state = SlotState::kFree; });
}

bool
has_queues(Oid oid)
{
	bool any = false;
	for_each_queue(nullptr, [&](const QueueRef &ref) {
		const Database *db = ref.queue->database;
		any |= db->state == SlotState::kUsed && db->oid == oid &&
			   ref.queue->database_generation == generation_of(db);
	});
	return any;
}

bool
is_like(const QueueRef &ref, const QueueRow &row)
{
	bool like = false;
	(void) look_at_queue(ref, [&](const Queue &queue) {
		like = strcmp(queue.name, row.name) == 0 && queue.options == row.options;
	});
	return like;
}

void
rename_slot(const QueueRef &ref, const char *name)
{
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		with_lwlock(ref.queue->lock, LW_EXCLUSIVE, [&] {
			if (is_current(ref))
				set_name(ref.queue, name);
		});
	});
}

void
make_like(const QueueRef &ref, const QueueRow &row)
{
	bool same_name = true;
	(void) change_queue(ref, [&](QueueHold &hold) {
		hold.set_options(row.options);
		same_name = strcmp(hold->name, row.name) == 0;
	});
	if (!same_name)
		rename_slot(ref, row.name);
}

/*
 * Return whether the scheduler has counted the lost leases of the queue, or found none, within the
 * last 5 s. The scheduler looks at each queue every second.
 */
bool
is_served(const Queue *queue, int64 monotonic)
{
	static constexpr int64 kSilence = 5 * USECS_PER_SEC;
	return monotonic - queue->served_at < kSilence;
}

} // namespace pgq
