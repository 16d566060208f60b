#include "engine/audit.h"

#include "engine/batch_watch.h"
#include "engine/group_pool.h"
#include "engine/hold.h"
#include "engine/lease_quota.h"
#include "engine/named/named_lock.h"
#include "engine/named/named_rate.h"
#include "engine/prepared_entry.h"

#include <algorithm>

namespace pgq {

/* Visit each node of the list. The server's macro dlist_foreach does not compile as C++. */
template <typename Visit>
static void
for_each_node(const dlist_head &list, Visit visit)
{
	for (dlist_node *node = list.head.next; node != &list.head; node = node->next)
		visit(node);
}

/*
 * Visit all leases and waiters in a single hold, even if they are more than kHoldMax, so that all
 * figures are of the same moment.
 */
Audit
audit_queue(const QueueRef &ref, TimestampTz now)
{
	Audit audit{};
	audit.current = look_at_queue(ref, [&](const Queue &queue) {
		/*
		 * First count the leases and waiters one by one. Then copy the numbers of leases and
		 * waiters that memory keeps, which should be the same.
		 */
		for_each_node(queue.leases, [&](dlist_node *node) {
			auto *lease = container_of<Lease>(node, offsetof(Lease, in_queue));
			if (holder_of(&queue, lease->key.job_id) != lease)
				audit.foreign_job = lease->key.job_id;
			audit.claimed += lease->state == LeaseState::kClaimed;
			audit.unheld += lease->state == LeaseState::kClaimed && is_unheld(lease);
			audit.parked += lease->state == LeaseState::kParked;
			audit.slots += lease->slot;
			audit.grouped += lease->group != 0;
			audit.grouped_claims += lease->group != 0 && lease->state == LeaseState::kClaiming;
			audit.in_hand += was_handed_out(lease);
			audit.in_claims += lease->slot && lease->state == LeaseState::kClaiming;
		});
		for (const dlist_head *line : {&queue.waiters, &queue.workers})
			for_each_node(*line, [&](dlist_node *) { audit.listed++; });
		const QueueCounters &counters = queue.counters;
		audit.leased = queue.leased;
		audit.unheld_kept = queue.unheld;
		audit.parked_count = queue.parked_count;
		audit.waiting = queue.waiting;
		audit.running = queue.running;
		audit.claiming = queue.claiming;
		audit.in_groups = queue.schedule.groups().running();
		audit.in_group_claims = queue.schedule.groups().claiming();
		audit.counted = !wants_count(queue.count, now);
		audit.live = queue.count.live;
		audit.waiting_jobs = waiting_of(queue.count, now);
		audit.blocked_jobs = queue.count.blocked;
		audit.ahead = leased_ahead(queue, now);
		audit.dead = queue.count.dead;
		audit.reserved = queue.count.reserved;
		audit.count_serial = queue.count.serial;
		audit.handed_out = counters.handed_out;
		audit.ended = counters.ended();
	});
	return audit;
}

/*
 * Count the slots in use and the slots that were ever used. Each new user takes the lowest free
 * slot, so the number of the highest slot ever used is the peak.
 */
template <typename Slot, typename Used, typename EverUsed>
static void
count_slots(const Slot *slots, int n, Used used, EverUsed ever_used, Bound *bound)
{
	for (int i = 0; i < n; i++)
	{
		bound->used += used(slots[i]);
		if (ever_used(slots[i]))
			bound->peak = i + 1;
	}
}

/* Count the slots of databases and queues, and the entries of prepared transactions. */
static void
read_slots(Bound *databases, Bound *queues, Bound *prepared)
{
	auto in_use = [](const auto &slot) { return slot.state != SlotState::kFree; };
	with_lwlock(shared->registry_lock, LW_SHARED, [&] {
		count_slots(
			shared->databases, max_databases, in_use,
			[](const Database &slot) { return value_of(slot.generation) > 1; }, databases);
		queues->used = std::count_if(shared->queues, shared->queues + max_queues, in_use);
		queues->peak = shared->queues_peak;
		count_slots(
			shared->prepared_entries, max_prepared_xacts,
			[](const PreparedEntry &w) { return w.state != PreparedEntry::kFree; },
			[](const PreparedEntry &w) { return TransactionIdIsValid(w.xid); }, prepared);
	});
}

/*
 * Read the size of the fullest window and of the fullest timer. Each queue has a window and a timer
 * of its own.
 */
static void
read_schedules(Bound *window, Bound *timer)
{
	for_each_queue(nullptr, [&](const QueueRef &ref) {
		(void) look_at_queue(ref, [&](const Queue &queue) {
			const Schedule &schedule = queue.schedule;
			window->used = Max(window->used, Min(static_cast<int64>(schedule.size()), window_size));
			window->peak = Max(window->peak, Min(static_cast<int64>(schedule.peak()), window_size));
			timer->used = Max(timer->used, static_cast<int64>(schedule.timer().size()));
			timer->peak = Max(timer->peak, static_cast<int64>(schedule.timer().peak()));
		});
	});
}

/* Add up the group entries of all queues. */
static void
read_groups(Bound *groups)
{
	for_each_queue(nullptr, [&](const QueueRef &ref) {
		(void) look_at_queue(ref, [&](const Queue &queue) {
			groups->used += queue.schedule.groups().size();
			groups->peak += queue.schedule.groups().peak();
		});
	});
	/*
	 * The queues may have had their peaks at different times, so the sum can be greater than the
	 * bound.
	 */
	groups->peak = Min(groups->peak, groups->bound);
}

/*
 * Find the process that uses most of its places in lines of waiters. Reads the places without
 * locks.
 */
static void
read_waiters(Bound *bound)
{
	for (int process = 0; process < process_count(); process++)
	{
		const Waiter *places = &shared->waiters[static_cast<Size>(process) * max_claim_queues];
		Bound one{};
		count_slots(
			places, max_claim_queues, [](const Waiter &w) { return w.state != Waiter::kIdle; },
			[](const Waiter &w) { return w.queue != nullptr; }, &one);
		bound->used = Max(bound->used, one.used);
		bound->peak = Max(bound->peak, one.peak);
	}
}

/*
 * For each kind of lease, find the highest number in one database: of all leases, of PARKED leases,
 * and of leases taken to hold or change a job.
 */
static void
read_leases(Bound *leases, Bound *parked, Bound *held)
{
	auto read = [](const pg_atomic_uint32 &counter) -> int64 { return value_of(counter); };
	auto read_kind = [=](const AsideQuota &kind, Bound *bound) {
		bound->used = Max(bound->used, read(kind.common) + read(kind.own));
		bound->peak = Max(bound->peak, read(kind.peak));
	};
	for (int i = 0; i < shared->max_databases; i++)
	{
		const Database *db = &shared->databases[i];
		leases->used = Max(leases->used, static_cast<int64>(leases_of(db->share)));
		leases->peak = Max(leases->peak, read(db->share.peak));
		read_kind(db->share.parked, parked);
		read_kind(db->share.held, held);
	}
}

static Bound
bound_of(const char *name, int64 bound, const char *guc, int64 entry_bytes)
{
	return {name, 0, 0, bound, guc, entry_bytes};
}

/*
 * Read how many entries the database with the most entries uses, and how many entries all databases
 * use beyond their own parts. Takes no lock.
 */
static void
read_quotas(Quota Database::*quota, const Quota &common, Bound *fullest, Bound *beyond)
{
	for (int i = 0; i < shared->max_databases; i++)
	{
		const Quota &own = shared->databases[i].*quota;
		fullest->used = Max(fullest->used, int64{own.used});
		fullest->peak = Max(fullest->peak, int64{own.peak});
	}
	beyond->used = common.used;
	beyond->peak = common.peak;
}

/*
 * Bounds of named locks, sessions that wait for named locks, and named rates. common_lock and
 * common_rate: entries that databases use beyond their own parts.
 */
struct SyncBounds
{
	Bound common_lock, locks, waiters, common_rate, rates;
};

static SyncBounds
read_sync()
{
	SyncBounds sync;
	sync.locks = bound_of("locks and runs held", max_locks, "pgq_ext.max_locks", lock_bytes());
	sync.rates = bound_of("rates in use", max_rates, "pgq_ext.max_rates", rate_bytes());
	/*
	 * The next two bounds follow from the same settings as the two bounds above, which report the
	 * cost of an entry.
	 */
	sync.common_lock = bound_of("locks and runs beyond the own shares of databases",
								common_part(max_locks), "pgq_ext.max_locks", 0);
	sync.common_rate = bound_of("rates beyond the own shares of databases", common_part(max_rates),
								"pgq_ext.max_rates", 0);
	read_quotas(&Database::locks, common_locks(), &sync.locks, &sync.common_lock);
	read_quotas(&Database::rates, common_rates(), &sync.rates, &sync.common_rate);
	sync.waiters = bound_of("sessions that wait for a lock", process_count(), "max_connections",
							lock_waiter_bytes());
	int peak;
	with_locks([&](LockHold &) { sync.waiters.used = waiting_for_locks(&peak); });
	sync.waiters.peak = peak;
	return sync;
}

/* Bounds of watched batches: of the database with the most, and beyond the own parts. */
struct BatchBounds
{
	Bound watched, common;
};

static BatchBounds
read_batches()
{
	WatchedBatches read = read_watched_batches();
	int bound = max_watched_batches;
	BatchBounds batch;
	batch.watched =
		bound_of("batches watched", bound, "pgq_ext.max_watched_batches", watched_batch_bytes());
	batch.common = bound_of("batches watched beyond the own shares of databases",
							common_part(bound), "pgq_ext.max_watched_batches", 0);
	batch.watched.used = read.used;
	batch.watched.peak = read.peak;
	batch.common.used = read.common_used;
	batch.common.peak = read.common_peak;
	return batch;
}

void
read_bounds(Bound (&bounds)[kBounds])
{
	constexpr int64 ready = sizeof(Schedule::Node);
	constexpr int64 timed = sizeof(Schedule::Timer::Node);
	int64 queue = sizeof(Queue) + kKeptSnapshots * running_max() * sizeof(TransactionId) +
				  sizeof(LWLockPadded) + Schedule::nodes(window_size) * ready + timer_size * timed;
	int64 watch = sizeof(PreparedEntry) +
				  max_queues * static_cast<int64>(sizeof(Touched) + sizeof(TransactionId));
	int64 waiter = process_count() * static_cast<int64>(sizeof(Waiter));
	/*
	 * One more lease costs more than one entry, since the own shares of other databases grow, too.
	 */
	int64 lease = ((sizeof(Lease) + sizeof(HASHELEMENT)) * lease_entries() +
				   sizeof(Group) * static_cast<int64>(max_groups())) /
				  max_leases;

	Bound databases =
		bound_of("databases", max_databases, "pgq_ext.max_databases", sizeof(Database));
	Bound queues = bound_of("queues", max_queues, "pgq_ext.max_queues", queue);
	Bound window = bound_of("ready jobs in memory, fullest queue", window_size,
							"pgq_ext.window_size", max_queues * (ready + sizeof(Heads::Slot)));
	Bound timer = bound_of("scheduled jobs in memory, fullest queue", timer_size,
						   "pgq_ext.timer_size", max_queues * timed);
	Bound leases = bound_of("leases", max_leases, "pgq_ext.max_leases", lease);
	/*
	 * All bounds of leases follow from max_leases. So only `leases` reports the cost of one more
	 * lease.
	 */
	Bound common = bound_of("leases beyond the own shares of databases", shared_leases(),
							"pgq_ext.max_leases", 0);
	Bound parked =
		bound_of("jobs set aside, fullest database", max_aside(), "pgq_ext.max_leases", 0);
	Bound held =
		bound_of("jobs held or changed, fullest database", max_aside(), "pgq_ext.max_leases", 0);
	Bound groups = bound_of("groups in work or remembered", max_groups(), "pgq_ext.max_leases", 0);
	Bound waiters = bound_of("queues that one claim waits for", max_claim_queues,
							 "pgq_ext.max_claim_queues", waiter);
	Bound prepared =
		bound_of("prepared transactions", max_prepared_xacts, "max_prepared_transactions", watch);
	SyncBounds sync = read_sync();
	BatchBounds batch = read_batches();
	read_leases(&leases, &parked, &held);
	common.used = pg_atomic_read_u32(&shared->common);
	common.peak = pg_atomic_read_u32(&shared->common_peak);

	read_slots(&databases, &queues, &prepared);
	read_schedules(&window, &timer);
	read_waiters(&waiters);
	read_groups(&groups);
	const Bound all[] = {databases,		   queues,		 window,	 timer,
						 common,		   parked,		 held,		 groups,
						 leases,		   waiters,		 prepared,	 sync.locks,
						 sync.common_lock, sync.waiters, sync.rates, sync.common_rate,
						 batch.watched,	   batch.common};
	static_assert(lengthof(all) == kBounds);
	std::copy(all, all + kBounds, bounds);
}

} // namespace pgq
