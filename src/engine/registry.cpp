#include "engine/registry.h"

#include "engine/lease.h"
#include "engine/token.h"
#include "engine/waiter.h"
#include "pg/scope.h"

namespace pgq {

static constexpr int64 kSchedulerSilence = 5 * USECS_PER_SEC;
/* How far ahead of ours the clock of a failed primary may have been when its mark was behind. */
static constexpr int64 kClockSlack = 5 * 60 * USECS_PER_SEC;

static Database *
database_slot(Oid oid, Oid incarnation)
{
	for (int i = 0; i < shared->max_databases; i++)
	{
		Database *db = &shared->databases[i];
		if (db->state == SlotState::kUsed && db->oid == oid && db->incarnation == incarnation)
			return db;
	}
	return nullptr;
}

Database *
find_database(Oid oid, Oid incarnation)
{
	return with_lwlock(shared->registry_lock, LW_SHARED,
					   [&] { return database_slot(oid, incarnation); });
}

/* Under the registry lock. */
static bool
is_load(const Database *db, uint32 generation)
{
	auto *current = const_cast<pg_atomic_uint32 *>(&db->generation);
	return db->state == SlotState::kUsed && pg_atomic_read_u32(current) == generation;
}

Load
read_load(const Database *db, uint32 generation)
{
	return with_lwlock(shared->registry_lock, LW_SHARED, [&]() -> Load {
		if (!is_load(db, generation))
			return {};
		return {db->base_prefix, db->token_key, db->failed_checks};
	});
}

uint32
note_failed_check(Database *db, uint32 generation)
{
	return with_lwlock(shared->registry_lock, LW_EXCLUSIVE,
					   [&] { return is_load(db, generation) ? ++db->failed_checks : 0; });
}

static bool
is_watched(TransactionId xid)
{
	for (int i = 0; i < max_prepared_xacts; i++)
		if (shared->watches[i].state == Watch::kActive && shared->watches[i].xid == xid)
			return true;
	return false;
}

/*
 * The server has no more prepared transactions than entries, but sessions that are
 * about to prepare one may have reserved them all for a moment.
 */
static bool
can_watch(const TransactionId *prepared, int n)
{
	int free_entries = 0;
	for (int i = 0; i < max_prepared_xacts; i++)
		free_entries += shared->watches[i].state == Watch::kFree;
	int wanted = 0;
	for (int i = 0; i < n; i++)
		wanted += !is_watched(prepared[i]);
	return wanted <= free_entries;
}

static void
list_recovered(Oid database, TransactionId xid)
{
	if (is_watched(xid))
		return;
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		Watch *watch = &shared->watches[i];
		if (watch->state != Watch::kFree)
			continue;
		watch->xid = xid;
		watch->database = database;
		watch->all_queues = true;
		watch->state = Watch::kListed;
		return;
	}
}

static void
forget_segment(SegmentNotes *notes)
{
	pg_atomic_write_u64(&notes->empty_since, 0);
	pg_atomic_write_u64(&notes->truncations, 0);
	pg_atomic_write_u64(&notes->moved_in, 0);
	pg_atomic_write_u64(&notes->moved_out, 0);
}

Database *
attach_database(Oid oid, Oid incarnation, const DurableTokens &tokens,
				const TransactionId *prepared, int n)
{
	bool watchable = true;
	Database *attached = with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&]() -> Database * {
		watchable = can_watch(prepared, n);
		if (!watchable)
			return nullptr;
		for (int i = 0; i < shared->max_databases; i++)
		{
			Database *db = &shared->databases[i];
			if (db->state != SlotState::kFree)
				continue;
			pg_atomic_fetch_add_u32(&db->generation, 1);
			db->oid = oid;
			db->incarnation = incarnation;
			db->base_prefix = begin_prefixes(tokens.mark);
			db->token_key = tokens.key;
			db->failed_checks = 0;
			pg_atomic_write_u64(&db->clock_mark, Max(time_of_prefix(prefix_of(tokens.mark)),
													 wall_now() + kClockSlack));
			pg_atomic_write_u32(&db->scheduler, 0);
			memset(db->duties, 0, sizeof(db->duties));
			pg_atomic_write_u64(&db->marked_token, tokens.mark);
			pg_atomic_write_u64(&db->reconciled, 0);
			for (RingName ring : all_rings)
			{
				pg_atomic_write_u32(&db->rings[ring].current, first_in(ring));
				pg_atomic_write_u32(&db->rings[ring].survivors, kNoSegment);
			}
			for (SegmentNotes &notes : db->segments)
				forget_segment(&notes);
			db->state = SlotState::kLoading;
			for (int p = 0; p < n; p++)
				list_recovered(oid, prepared[p]);
			return db;
		}
		return nullptr;
	});
	if (!watchable)
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("too many transactions are being prepared"),
						errhint("Try again, or raise max_prepared_transactions (now %d).",
								max_prepared_xacts)));
	if (attached == nullptr && free_other_incarnations(oid, incarnation) > 0)
		return attach_database(oid, incarnation, tokens, prepared, n);
	if (attached == nullptr)
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("pgq_ext is in use in too many databases"),
						errhint("Raise pgq_ext.max_databases (now %d) and restart the server.",
								max_databases)));
	return attached;
}

void
publish_database(Database *db)
{
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		db->state = SlotState::kUsed;
		for (int i = 0; i < max_prepared_xacts; i++)
		{
			Watch *watch = &shared->watches[i];
			if (watch->state != Watch::kListed || watch->database != db->oid)
				continue;
			watch->state = Watch::kActive;
			pg_atomic_fetch_add_u32(&shared->watched, 1);
		}
	});
}

static Queue *
queue_slot(const Database *db, uint32 db_generation, int32 queue_id)
{
	for (int i = 0; i < shared->max_queues; i++)
	{
		Queue *queue = &shared->queues[i];
		if (queue->state == SlotState::kUsed && queue->database == db &&
			queue->database_generation == db_generation && queue->queue_id == queue_id)
			return queue;
	}
	return nullptr;
}

void
raise_clock_mark(Database *db, TimestampTz run_at)
{
	uint64 mark = pg_atomic_read_u64(&db->clock_mark);
	/* Far ahead, so that this is rare. */
	while (run_at > static_cast<TimestampTz>(mark) &&
		   !pg_atomic_compare_exchange_u64(&db->clock_mark, &mark, run_at + kClockSlack))
		;
}

TimestampTz
clock_mark(const Queue *queue)
{
	return static_cast<TimestampTz>(pg_atomic_read_u64(&queue->database->clock_mark));
}

static void
fill_queue(Queue *queue, Database *db, const QueueRow &row)
{
	pg_atomic_fetch_add_u32(&queue->generation, 1);
	queue->database = db;
	queue->database_generation = pg_atomic_read_u32(&db->generation);
	queue->queue_id = row.queue_id;
	strlcpy(queue->name, row.name, sizeof(queue->name));
	queue->options = row.options;
	queue->schedule.reset();
	queue->schedule.doubt_horizon(clock_mark(queue));
	Tree::init_header(&queue->expiry);
	dlist_init(&queue->leases);
	dlist_init(&queue->parked);
	dlist_init(&queue->lost);
	dlist_init(&queue->prepared);
	queue->leased = 0;
	queue->parked_count = 0;
	queue->failing = 0;
	queue->served_at = 0;
	memset(queue->duties, 0, sizeof(queue->duties));
	queue->recheck_at = 0;
	SetInvalidVirtualTransactionId(queue->mover);
	dlist_init(&queue->waiters);
	queue->waiting = 0;
	queue->watcher = kNobody;
	queue->holds = 0;
	queue->dropping = false;
	queue->notify_pending = false;
	queue->last_claim_at = 0;
	queue->loaded_at = wall_now();
	queue->counters = {};
	queue->state = SlotState::kUsed;
}

bool
try_attach_queue(Database *db, uint32 db_generation, const QueueRow &row, QueueRef *ref)
{
	return with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		if ((db->state != SlotState::kUsed && db->state != SlotState::kLoading) ||
			pg_atomic_read_u32(&db->generation) != db_generation)
			return false;
		Queue *queue = queue_slot(db, db_generation, row.queue_id);
		if (queue == nullptr)
		{
			for (int i = 0; i < shared->max_queues && queue == nullptr; i++)
				if (shared->queues[i].state == SlotState::kFree)
					queue = &shared->queues[i];
			if (queue == nullptr)
				return false;
			with_lwlock(queue->lock, LW_EXCLUSIVE, [&] { fill_queue(queue, db, row); });
		}
		*ref = {queue, pg_atomic_read_u32(&queue->generation), row.queue_id};
		return true;
	});
}

QueueRef
attach_queue(Database *db, uint32 db_generation, const QueueRow &row)
{
	QueueRef ref;
	if (!try_attach_queue(db, db_generation, row, &ref))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many queues are in use"),
				 errhint("Raise pgq_ext.max_queues (now %d) and restart the server.", max_queues)));
	return ref;
}

bool
find_attached_queue(const Database *db, int32 queue_id, QueueRef *ref)
{
	return with_lwlock(shared->registry_lock, LW_SHARED, [&] {
		auto *generation = const_cast<pg_atomic_uint32 *>(&db->generation);
		Queue *queue = queue_slot(db, pg_atomic_read_u32(generation), queue_id);
		if (queue == nullptr)
			return false;
		*ref = {queue, pg_atomic_read_u32(&queue->generation), queue_id};
		return true;
	});
}

VirtualTransactionId
dropper_of(const QueueRef &ref)
{
	return with_lwlock(ref.queue->lock, LW_SHARED, [&] {
		VirtualTransactionId dropper = {InvalidBackendId, InvalidLocalTransactionId};
		if (is_current(ref) && ref.queue->dropping)
			dropper = ref.queue->dropper;
		return dropper;
	});
}

void
free_queue(const QueueRef &ref)
{
	Queue *queue = ref.queue;
	bool ours = with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(ref))
			return false;
		/* From here on every verb sees another generation; the slot stays taken until it is empty. */
		queue->state = SlotState::kDying;
		pg_atomic_fetch_add_u32(&queue->generation, 1);
		return true;
	});
	if (!ours)
		return;

	for (bool more = true; more;)
		more = with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
			for (int i = 0; i < kHoldMax; i++)
			{
				if (dlist_is_empty(&queue->leases))
					return false;
				end_lease(container_of<Lease>(dlist_head_node(&queue->leases),
											  offsetof(Lease, in_queue)));
			}
			return true;
		});
	for (bool more = true; more;)
	{
		Wakeups wakeups;
		more = with_lwlock(queue->lock, LW_EXCLUSIVE,
						   [&] { return wake_waiters(queue, kHoldMax, &wakeups) == kHoldMax; });
		wakeups.deliver();
	}
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] { queue->state = SlotState::kFree; });
}

void
free_database(Database *db, uint32 generation)
{
	bool ours = with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		if (db->state != SlotState::kUsed || pg_atomic_read_u32(&db->generation) != generation)
			return false;
		db->state = SlotState::kDying;
		pg_atomic_fetch_add_u32(&db->generation, 1);
		return true;
	});
	if (!ours)
		return;
	for_each_queue(db, [](const QueueRef &ref) { free_queue(ref); });
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] { db->state = SlotState::kFree; });
}

int
free_other_incarnations(Oid oid, Oid incarnation)
{
	int freed = 0;
	for (int i = 0; i < shared->max_databases; i++)
	{
		Database *db = &shared->databases[i];
		uint32 generation = pg_atomic_read_u32(&db->generation);
		if (db->state == SlotState::kUsed && db->oid == oid && db->incarnation != incarnation)
		{
			free_database(db, generation);
			freed++;
		}
	}
	return freed;
}

bool
is_attached(Oid oid)
{
	for (int i = 0; i < shared->max_databases; i++)
		if (shared->databases[i].state == SlotState::kUsed && shared->databases[i].oid == oid)
			return true;
	return false;
}

bool
has_queues(Oid oid)
{
	bool any = false;
	for_each_queue(nullptr, [&](const QueueRef &ref) {
		const Database *db = ref.queue->database;
		any |= db->state == SlotState::kUsed && db->oid == oid &&
			   ref.queue->database_generation ==
				   pg_atomic_read_u32(const_cast<pg_atomic_uint32 *>(&db->generation));
	});
	return any;
}

bool
has_scheduler(Oid oid)
{
	for (int i = 0; i < shared->max_databases; i++)
		if (shared->databases[i].state == SlotState::kUsed && shared->databases[i].oid == oid &&
			pg_atomic_read_u32(&shared->databases[i].scheduler) != 0)
			return true;
	return false;
}

bool
is_like(const QueueRef &ref, const QueueRow &row)
{
	return with_lwlock(ref.queue->lock, LW_SHARED, [&] {
		return strcmp(ref.queue->name, row.name) == 0 && ref.queue->options == row.options;
	});
}

void
make_like(const QueueRef &ref, const QueueRow &row)
{
	Wakeups wakeups;
	bool same_name = with_lwlock(ref.queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(ref))
			return true;
		ref.queue->options = row.options;
		wake_waiters(ref.queue, kHoldMax, &wakeups);
		return strcmp(ref.queue->name, row.name) == 0;
	});
	wakeups.deliver();
	/* Who remembers the slot by its old name must lose it. */
	if (!same_name)
		free_queue(ref);
}

static void
wake_process(uint32 procno_plus_one)
{
	if (procno_plus_one != 0)
		SetLatch(latch_of(procno_plus_one - 1));
}

/* bound: of what may be there, see clock_mark. */
static void
read_again(const QueueRef &ref, TimestampTz bound)
{
	Wakeups wakeups;
	with_lwlock(ref.queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(ref))
			return;
		Schedule &schedule = ref.queue->schedule;
		int64 timer_before = schedule.next_timer();
		schedule.doubt_horizon(bound);
		schedule.pull_back(Key::lowest(), TimerKey::lowest());
		schedule.fire(wall_now());
		note_filed(ref.queue, kHoldMax, timer_before, &wakeups);
	});
	wakeups.deliver();
	wake_scheduler(ref.queue->database);
}

void
distrust(Oid database, Oid incarnation, int32 queue_id)
{
	QueueRef ref{};
	bool found = with_lwlock(shared->registry_lock, LW_SHARED, [&] {
		Database *db = database_slot(database, incarnation);
		Queue *queue = db ? queue_slot(db, pg_atomic_read_u32(&db->generation), queue_id) : nullptr;
		if (queue != nullptr)
			ref = {queue, pg_atomic_read_u32(&queue->generation), queue_id};
		return queue != nullptr;
	});
	if (found)
		read_again(ref, clock_mark(ref.queue));
}

void
distrust_all(Oid database)
{
	for_each_queue(nullptr, [&](const QueueRef &ref) {
		if (ref.queue->database->oid == database)
			read_again(ref, PG_INT64_MAX);
	});
}

void
wake_launcher()
{
	wake_process(pg_atomic_read_u32(&shared->launcher));
}

void
announce_extension()
{
	pg_atomic_fetch_add_u32(&shared->announcements, 1);
	wake_launcher();
}

void
wake_scheduler(const Database *db)
{
	wake_process(pg_atomic_read_u32(const_cast<pg_atomic_uint32 *>(&db->scheduler)));
}

bool
is_served(const Queue *queue, int64 monotonic)
{
	return monotonic - queue->served_at < kSchedulerSilence;
}

} // namespace pgq
