#include "engine/lease.h"

#include "engine/share.h"
#include "engine/token.h"
#include "pg/scope.h"

namespace pgq {

static constinit HTAB *lease_table = nullptr;
static constinit LWLockPadded *partition_locks = nullptr;

Size
lease_table_size()
{
	return hash_estimate_size(lease_entries(), sizeof(Lease));
}

void
lease_table_create(LWLockPadded *locks)
{
	HASHCTL info{};
	info.keysize = sizeof(LeaseKey);
	info.entrysize = sizeof(Lease);
	info.num_partitions = kLeasePartitions;
	lease_table = ShmemInitHash("pgq_ext leases", lease_entries(), lease_entries(), &info,
								HASH_ELEM | HASH_BLOBS | HASH_PARTITION | HASH_FIXED_SIZE);
	partition_locks = locks;
}

static LWLock *
partition_lock(uint32 hash)
{
	return &partition_locks[hash % kLeasePartitions].lock;
}

static LeaseKey
lease_key(const Database *db, uint32 generation, int64 job_id)
{
	return {static_cast<uint32>(db - shared->databases), generation, job_id};
}

/* No two queues' serials are the same, so that an entry which is another queue's by now is known. */
static uint64
next_serial(Queue *queue)
{
	uint64 serial = queue->next_serial;
	queue->next_serial += shared->max_queues;
	return serial;
}

TakeResult
take_lease(Queue *queue, const Hint &hint, Lease **lease, bool to_end)
{
	LeaseKey key = lease_key(queue->database, queue->database_generation, hint.key.job_id);
	uint32 hash = get_hash_value(lease_table, &key);

	if (!charge_lease(queue->database, to_end))
	{
		*lease = holder_of(queue, hint.key.job_id);
		return *lease != nullptr ? TakeResult::kHeld : TakeResult::kFull;
	}

	bool found;
	LWLockAcquire(partition_lock(hash), LW_EXCLUSIVE);
	auto *entry = static_cast<Lease *>(
		hash_search_with_hash_value(lease_table, &key, hash, HASH_ENTER_NULL, &found));
	if (entry != nullptr && !found)
		entry->queue = queue;
	LWLockRelease(partition_lock(hash));

	if (entry == nullptr || found)
	{
		discharge_lease(queue->database);
		*lease = entry;
		return found ? TakeResult::kHeld : TakeResult::kFull;
	}

	pg_atomic_fetch_add_u32(&shared->leases, 1);
	/* After the entry is in, and so after the end of the lease that the job had before. */
	pg_atomic_write_u64(&entry->token, draw_token(queue->database, hint.key.job_id));
	pg_atomic_write_u64(&entry->serial, next_serial(queue));
	entry->hint = hint;
	entry->deadline = 0;
	entry->handed_out_at = 0;
	entry->claimed_at = 0;
	entry->expires_at = 0;
	entry->state = LeaseState::kClaiming;
	entry->loss = Loss::kUndone;
	entry->put_off = false;
	entry->failures = 0;
	entry->missed_count = 0;
	entry->pins = 1;
	entry->attempt = 0;
	entry->pid = MyProcPid;
	entry->claimer = my_virtual_xid();
	SetInvalidVirtualTransactionId(entry->ender);
	entry->prepared = {};
	entry->worker[0] = '\0';
	dlist_push_tail(&queue->leases, &entry->in_queue);
	*lease = entry;
	return TakeResult::kTaken;
}

Lease *
holder_of(const Queue *queue, int64 job_id)
{
	LeaseKey key = lease_key(queue->database, queue->database_generation, job_id);
	uint32 hash = get_hash_value(lease_table, &key);
	bool found;
	LWLockAcquire(partition_lock(hash), LW_SHARED);
	auto *lease = static_cast<Lease *>(
		hash_search_with_hash_value(lease_table, &key, hash, HASH_FIND, &found));
	LWLockRelease(partition_lock(hash));
	return lease;
}

bool
is_moving(const Lease *lease)
{
	return lease->state == LeaseState::kClaiming &&
		   VirtualTransactionIdIsValid(lease->queue->mover) &&
		   VirtualTransactionIdEquals(lease->claimer, lease->queue->mover);
}

void
note_missed(Queue *queue, Lease *lease, const Hint &hint)
{
	if (lease->queue != queue)
	{
		bool first = queue->recheck_at == 0;
		queue->recheck_key = first ? hint.key : Min(queue->recheck_key, hint.key);
		queue->recheck_timer_key =
			first ? hint.timer_key() : Min(queue->recheck_timer_key, hint.timer_key());
		queue->recheck_at = monotonic_now() + kParkTime;
		return;
	}
	/* The version that the lease is about, mostly: a refill reads leased rows too. */
	if (hint.key == lease->hint.key && hint.place == lease->hint.place)
		return;
	if (lease->missed_count > 0 && hint.key == lease->missed.key)
		return;
	if (lease->missed_count == 0)
		lease->missed = hint;
	lease->missed_count = lease->missed_count == 0 ? 1 : 2;
}

bool
find_lease(const Database *db, int64 job_id, Lease **lease, QueueRef *ref)
{
	LeaseKey key =
		lease_key(db, pg_atomic_read_u32(const_cast<pg_atomic_uint32 *>(&db->generation)), job_id);
	uint32 hash = get_hash_value(lease_table, &key);
	bool found;
	LWLockAcquire(partition_lock(hash), LW_SHARED);
	*lease = static_cast<Lease *>(
		hash_search_with_hash_value(lease_table, &key, hash, HASH_FIND, &found));
	if (found)
	{
		/* Until its leases have ended a slot keeps its number, and its generation but for the next one. */
		Queue *queue = (*lease)->queue;
		*ref = {queue, pg_atomic_read_u32(&queue->generation), queue->queue_id};
	}
	LWLockRelease(partition_lock(hash));
	return found;
}

bool
find_lease(const Database *db, int64 job_id, Lease **lease, Queue **queue)
{
	QueueRef ref{};
	bool found = find_lease(db, job_id, lease, &ref);
	*queue = ref.queue;
	return found;
}

static Lease *
lease_of_expiry(TreeNode *node)
{
	return container_of<Lease>(node, offsetof(Lease, expiry));
}

static Lease *
lease_in_line(dlist_node *node)
{
	return container_of<Lease>(node, offsetof(Lease, in_line));
}

static bool
can_expire(const Lease *lease)
{
	return lease->state == LeaseState::kClaimed && lease->pins == 0;
}

static void
start_expiring(Lease *lease)
{
	Tree::insert_equal_upper_bound(
		&lease->queue->expiry, &lease->expiry, [](TreeNode *a, TreeNode *b) {
			return lease_of_expiry(a)->deadline < lease_of_expiry(b)->deadline;
		});
}

static void
stop_expiring(Lease *lease)
{
	Tree::erase(&lease->queue->expiry, &lease->expiry);
}

void
prepare_lease(Lease *lease, TransactionId xid)
{
	Assert(lease->state == LeaseState::kClaimed || lease->state == LeaseState::kClaiming);
	if (!TransactionIdIsValid(lease->prepared.xid))
		dlist_push_tail(&lease->queue->prepared, &lease->in_line);
	lease->prepared.xid = xid;
}

void
unprepare_lease(Lease *lease)
{
	dlist_delete(&lease->in_line);
	lease->prepared = {};
}

/* Of a LOST lease: out of the line, or of the tree. */
static void
stop_waiting(Lease *lease)
{
	if (!lease->put_off)
	{
		dlist_delete(&lease->in_line);
		return;
	}
	stop_expiring(lease);
	lease->queue->failing -= lease->failures > 0;
	lease->put_off = false;
}

/* The one writer of the state. */
static void
leave_state(Lease *lease)
{
	switch (lease->state)
	{
		case LeaseState::kClaimed:
			if (lease->pins == 0)
				stop_expiring(lease);
			if (TransactionIdIsValid(lease->prepared.xid))
				unprepare_lease(lease);
			lease->queue->leased--;
			break;
		case LeaseState::kParked:
			lease->queue->parked_count--;
			dlist_delete(&lease->in_line);
			break;
		case LeaseState::kLost:
			stop_waiting(lease);
			break;
		case LeaseState::kClaiming:
			if (TransactionIdIsValid(lease->prepared.xid))
				unprepare_lease(lease);
			break;
		case LeaseState::kReaping:
			break;
	}
}

bool
set_deadline(Lease *lease, int64 lease_time, int64 monotonic, TimestampTz now)
{
	int64 max_runtime = lease->queue->options.max_runtime;
	int64 left = max_runtime > 0 ? lease->handed_out_at + max_runtime - monotonic : INT64_MAX;
	if (left <= 0)
		return false;
	lease_time = Min(lease_time, left);
	bool listed = can_expire(lease);
	if (listed)
		stop_expiring(lease);
	lease->deadline = monotonic + lease_time;
	lease->expires_at = now + lease_time;
	if (listed)
		start_expiring(lease);
	return true;
}

void
hand_out(Lease *lease, const HandOut &what, int64 monotonic, TimestampTz now)
{
	Assert(lease->state == LeaseState::kClaiming && lease->pins > 0);
	lease->attempt = what.attempt;
	lease->handed_out_at = monotonic;
	lease->claimed_at = now;
	lease->hint.place = what.place;
	strlcpy(lease->worker, what.worker, sizeof(lease->worker));
	(void) set_deadline(lease, what.lease_time, monotonic, now);
	lease->state = LeaseState::kClaimed;
	lease->queue->leased++;
	lease->queue->last_claim_at = now;
	lease->queue->counters.handed_out++;
}

void
park_lease(Lease *lease, int64 monotonic)
{
	Assert(lease->state == LeaseState::kClaiming);
	lease->state = LeaseState::kParked;
	lease->aside_common = charge_aside(lease->queue->database);
	lease->pins = 0;
	/* Many of them are somebody's long transaction. */
	Queue *queue = lease->queue;
	lease->deadline = monotonic + (queue->parked_count < kManyParked ? kParkTime : kLongParkTime);
	queue->parked_count++;
	dlist_push_tail(&lease->queue->parked, &lease->in_line);
}

void
lose_lease(Lease *lease, Loss loss, int64 monotonic)
{
	Assert(lease->state == LeaseState::kClaimed || lease->state == LeaseState::kReaping ||
		   loss == Loss::kUnreturnable);
	if (lease->state == LeaseState::kClaiming)
	{
		/* An attempt all the same, or the next claim would meet it again. */
		lease->queue->counters.handed_out++;
		lease->claimed_at = lease->expires_at = wall_now();
	}
	leave_state(lease);
	lease->state = LeaseState::kLost;
	lease->loss = loss;
	lease->pins = 0;
	SetInvalidVirtualTransactionId(lease->ender);
	lease->deadline = monotonic;
	dlist_push_tail(&lease->queue->lost, &lease->in_line);
}

/* Since when it waits stays as it is: claims go by it if nobody counts. */
void
put_back_lost(Lease *lease)
{
	Assert(lease->state == LeaseState::kReaping);
	lease->state = LeaseState::kLost;
	lease->pins = 0;
	dlist_push_tail(&lease->queue->lost, &lease->in_line);
}

void
put_off_lost(Lease *lease, bool failed, int64 monotonic)
{
	static constexpr int kMostDoublings = 6;
	Assert(lease->state == LeaseState::kReaping);
	lease->state = LeaseState::kLost;
	lease->pins = 0;
	if (failed)
		lease->failures = static_cast<uint8>(Min(lease->failures + 1, UINT8_MAX));
	int doublings = Min(Max(lease->failures - 1, 0), kMostDoublings);
	int64 delay = failed ? Min(USECS_PER_SEC << doublings, USECS_PER_MINUTE) : kParkTime;
	lease->deadline = monotonic + delay;
	lease->put_off = true;
	lease->queue->failing += lease->failures > 0;
	start_expiring(lease);
}

void
reap_lease(Lease *lease)
{
	Assert(lease->state == LeaseState::kLost);
	leave_state(lease);
	lease->state = LeaseState::kReaping;
	lease->pins = 1;
}

/* Whoever gets the job next must get a greater token. */
static void
let_token_grow(const Lease *lease)
{
	bool handed_out = lease->state != LeaseState::kClaiming && lease->state != LeaseState::kParked;
	if (handed_out)
		pass_prefix(prefix_of(token_of(lease)));
}

bool
end_lease(Lease *lease, bool gone)
{
	Queue *queue = lease->queue;
	if (!gone)
		let_token_grow(lease);
	Hint missed = lease->missed;
	uint8 missed_count = lease->missed_count;
	bool parked = lease->state == LeaseState::kParked;
	bool aside_common = lease->aside_common;
	leave_state(lease);
	dlist_delete(&lease->in_queue);

	LeaseKey key = lease->key;
	uint32 hash = get_hash_value(lease_table, &key);
	LWLockAcquire(partition_lock(hash), LW_EXCLUSIVE);
	pg_atomic_write_u64(&lease->serial, 0);
	pg_atomic_write_u64(&lease->token, 0);
	hash_search_with_hash_value(lease_table, &key, hash, HASH_REMOVE, nullptr);
	LWLockRelease(partition_lock(hash));
	pg_atomic_fetch_sub_u32(&shared->leases, 1);
	if (parked)
		discharge_aside(queue->database, aside_common);
	else
		discharge_lease(queue->database);

	if (missed_count == 0)
		return false;
	/* Which of several is right only the row can tell. */
	if (missed_count > 1)
		queue->schedule.pull_back(Key::lowest(), TimerKey::lowest());
	return queue->schedule.file(missed) || missed_count > 1;
}

bool
give_back(Lease *lease)
{
	Queue *queue = lease->queue;
	Hint hint = lease->hint;
	bool ready = end_lease(lease);
	return queue->schedule.file(hint) || ready;
}

void
pin_lease(Lease *lease)
{
	if (can_expire(lease))
		stop_expiring(lease);
	lease->pins++;
}

void
unpin_lease(Lease *lease)
{
	Assert(lease->pins > 0);
	lease->pins--;
	if (can_expire(lease))
		start_expiring(lease);
}

/* ---- saved and restored ---- */

static bool
is_to_be_saved(const Lease *lease)
{
	int prepared_pins = lease->prepared.claimed + lease->prepared.ended;
	return lease->state == LeaseState::kLost ||
		   (lease->state == LeaseState::kClaimed && lease->pins == prepared_pins);
}

int
copy_leases(const Queue *queue, SavedLease *copies, int most, int64 monotonic)
{
	int n = 0;
	const dlist_node *head = &queue->leases.head;
	for (dlist_node *node = head->next; node != head && n < most; node = node->next)
	{
		Lease *lease = container_of<Lease>(node, offsetof(Lease, in_queue));
		if (!is_to_be_saved(lease))
			continue;
		SavedLease &copy = copies[n++];
		copy.queue_id = queue->queue_id;
		copy.token = static_cast<int64>(pg_atomic_read_u64(&lease->token));
		copy.hint = lease->hint;
		copy.lost = lease->state == LeaseState::kLost;
		copy.loss = lease->loss;
		copy.attempt = lease->attempt;
		copy.remaining = Max(0, lease->deadline - monotonic);
		copy.claimed_at = lease->claimed_at;
		copy.prepared = lease->prepared;
		memcpy(copy.worker, lease->worker, sizeof(copy.worker));
	}
	return n;
}

/* Who wants the lease waits for that transaction, which has no session any more. */
static void
give_to_prepared(Lease *lease, const Prepared &prepared)
{
	VirtualTransactionId recovered = {InvalidBackendId, prepared.xid};
	if (prepared.claimed)
		lease->claimer = recovered;
	if (prepared.ended)
		lease->ender = recovered;
	lease->pins = prepared.claimed + prepared.ended;
	prepare_lease(lease, prepared.xid);
	lease->prepared = prepared;
}

bool
restore_lease(Queue *queue, const SavedLease &saved, int64 monotonic, TimestampTz now)
{
	Lease *lease;
	if (take_lease(queue, saved.hint, &lease) != TakeResult::kTaken)
		return false;
	pg_atomic_write_u64(&lease->token, static_cast<uint64>(saved.token));
	SetInvalidVirtualTransactionId(lease->claimer);
	lease->pid = 0;
	lease->attempt = saved.attempt;
	lease->claimed_at = saved.claimed_at;
	/* No monotonic clock goes through a restart. */
	lease->handed_out_at = monotonic - Max(0, now - saved.claimed_at);
	strlcpy(lease->worker, saved.worker, sizeof(lease->worker));
	lease->deadline = monotonic + saved.remaining;
	lease->expires_at = now + saved.remaining;
	lease->state = LeaseState::kClaimed;
	queue->leased++;
	queue->counters.handed_out++;
	if (saved.lost)
		lose_lease(lease, saved.loss, monotonic);
	else if (TransactionIdIsValid(saved.prepared.xid))
		give_to_prepared(lease, saved.prepared);
	else
		unpin_lease(lease);
	return true;
}

int
unpark_due(Queue *queue, int64 monotonic)
{
	int unparked = 0;
	while (unparked < kHoldMax && !dlist_is_empty(&queue->parked))
	{
		Lease *lease = lease_in_line(dlist_head_node(&queue->parked));
		if (lease->deadline > monotonic)
			break;
		give_back(lease);
		unparked++;
	}
	if (queue->recheck_at != 0 && queue->recheck_at <= monotonic)
	{
		queue->recheck_at = 0;
		queue->schedule.pull_back(queue->recheck_key, queue->recheck_timer_key);
		unparked++;
	}
	return unparked;
}

/* Rare, so for once all in one hold. */
int
enders_of(const QueueRef &ref, VirtualTransactionId *enders, int most)
{
	Queue *queue = ref.queue;
	return with_lwlock(queue->lock, LW_SHARED, [&] {
		int n = 0;
		dlist_node *head = &queue->leases.head;
		for (dlist_node *node = head->next; is_current(ref) && node != head; node = node->next)
		{
			VirtualTransactionId ender =
				container_of<Lease>(node, offsetof(Lease, in_queue))->ender;
			bool known = !VirtualTransactionIdIsValid(ender) ||
						 VirtualTransactionIdEquals(ender, my_virtual_xid());
			for (int i = 0; i < n && !known; i++)
				known = VirtualTransactionIdEquals(ender, enders[i]);
			if (!known && n < most)
				enders[n++] = ender;
		}
		return n;
	});
}

Lease *
first_lost(const Queue *queue)
{
	auto *lost = const_cast<dlist_head *>(&queue->lost);
	return dlist_is_empty(lost) ? nullptr : lease_in_line(dlist_head_node(lost));
}

int
expire_due(Queue *queue, int64 monotonic)
{
	int expired = 0;
	while (expired < kHoldMax)
	{
		TreeNode *first = Tree::begin_node(&queue->expiry);
		if (first == &queue->expiry || lease_of_expiry(first)->deadline > monotonic)
			break;
		Lease *lease = lease_of_expiry(first);
		if (lease->state == LeaseState::kClaimed)
			lose_lease(lease, Loss::kExpired, monotonic);
		else
		{
			stop_waiting(lease);
			dlist_push_tail(&queue->lost, &lease->in_line);
		}
		expired++;
	}
	return expired;
}

int64
next_lease_event(const Queue *queue)
{
	int64 next = INT64_MAX;
	const TreeNode *first = Tree::begin_node(&queue->expiry);
	if (first != &queue->expiry)
		next = lease_of_expiry(const_cast<TreeNode *>(first))->deadline;
	auto *parked = const_cast<dlist_head *>(&queue->parked);
	if (!dlist_is_empty(parked))
		next = Min(next, lease_in_line(dlist_head_node(parked))->deadline);
	if (queue->recheck_at != 0)
		next = Min(next, queue->recheck_at);
	return next;
}

} // namespace pgq
