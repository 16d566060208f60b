#include "engine/group_pool.h"

#include "engine/lease_quota.h"
#include "pg/scope.h"

namespace pgq {

/* Entries of a dying queue that a hold gives back. */
static constexpr int kManySpares = 64;

struct GroupPool
{
	slock_t mutex;
	Group *unused; /* of the common ones; linked by by_id.parent */
	int few;	   /* spare entries that a queue takes at a time, and keeps */
	int most_idle; /* of the common ones: as many as there can be leases are left for groups in work */
	int fresh;	   /* entries from here on were never used (and never touched) */
	pg_atomic_uint32
		kept; /* of all, those that queues keep for rates: nothing of theirs is in work */
	pg_atomic_uint32
		idle; /* of all, those that queues have for groups with nothing in work, or spare */
	Group entries[FLEXIBLE_ARRAY_MEMBER];
};

/* One for each job in work, and as many for those that wait. */
int
common_groups()
{
	return 2 * max_leases;
}

int64
max_groups()
{
	return common_groups() + static_cast<int64>(kOwnGroups) * max_queues;
}

Size
group_pool_size()
{
	return add_size(offsetof(GroupPool, entries), mul_size(max_groups(), sizeof(Group)));
}

/* Fewer where queues may be many for the entries there are. */
static int
few_spares()
{
	static constexpr int kFew = 16;
	static constexpr int kPart = 8;
	return Min(kFew, common_groups() / kPart / max_queues);
}

/* The own ones of the queues are behind the common ones. */
void
place_group_pool(void *memory)
{
	auto *pool = static_cast<GroupPool *>(memory);
	shared->group_pool = pool;
	SpinLockInit(&pool->mutex);
	pool->unused = nullptr;
	pool->fresh = 0;
	pool->few = few_spares();
	pool->most_idle = common_groups() - shared_leases() - max_databases * reserved_leases();
	pg_atomic_init_u32(&pool->kept, 0);
	pg_atomic_init_u32(&pool->idle, 0);
	Group *own = &pool->entries[common_groups()];
	for (int i = 0; i < max_queues; i++)
		for (int n = 0; n < kOwnGroups; n++)
			shared->queues[i].schedule.groups().give(own++);
}

static Group *
take_entry(GroupPool *pool)
{
	Group *group = pool->unused;
	if (group != nullptr)
		pool->unused = reinterpret_cast<Group *>(group->by_id.parent);
	else if (pool->fresh < common_groups())
		group = &pool->entries[pool->fresh++];
	return group;
}

/* How many more of the common entries may be for groups with nothing in work, or spare. */
static int
room_for_idle(GroupPool *pool)
{
	return Max(0, pool->most_idle - static_cast<int>(pg_atomic_read_u32(&pool->idle)));
}

/* About: a queue says what it has after each hold. */
static void
limit_idle(GroupPool *pool, Groups &groups)
{
	bool many = pg_atomic_read_u32(&pool->kept) >= static_cast<uint32>(common_groups() / 2);
	groups.rates().keep_at_most(many ? kOwnGroups : INT_MAX);
	/* Without room some of the spare ones are left for groups that are to run. */
	int idle = groups.size() - groups.busy() + groups.spares() - kOwnGroups - pool->few;
	groups.put_aside_at_most(Max(kOwnGroups, idle + room_for_idle(pool)));
}

static void
note_change(pg_atomic_uint32 *sum, int *noted, int now)
{
	if (now != *noted)
		pg_atomic_fetch_add_u32(sum, now - *noted);
	*noted = now;
}

static void
note_idle(Queue *queue)
{
	const Groups &groups = queue->schedule.groups();
	int idle = groups.size() - groups.busy() + groups.spares() - kOwnGroups;
	note_change(&shared->group_pool->kept, &queue->groups_kept, groups.rates().timed());
	note_change(&shared->group_pool->idle, &queue->groups_idle, Max(idle, 0));
}

/* ---- taking ---- */

static void
take_entries(Queue *queue, int n)
{
	GroupPool *pool = shared->group_pool;
	if (n <= 0)
		return;
	SpinLockAcquire(&pool->mutex);
	for (int i = 0; i < n; i++)
		if (Group *group = take_entry(pool))
			queue->schedule.groups().give(group);
	SpinLockRelease(&pool->mutex);
	note_idle(queue);
}

/* May a row that is filed in this hold find no place in the window? In a queue with fair it then puts its group aside. */
static bool
may_leave_out(const Schedule &schedule)
{
	const Schedule::Window &window = schedule.window();
	return window.in_turn() && window.capacity() - window.size() < kHoldMax;
}

void
take_spare_groups(Queue *queue)
{
	GroupPool *pool = shared->group_pool;
	Groups &groups = queue->schedule.groups();
	limit_idle(pool, groups);
	bool many = may_leave_out(queue->schedule);
	if (groups.spares() >= (many ? kHoldMax : kOwnGroups))
		return;
	take_entries(queue, many ? Max(pool->few, Min(kHoldMax, room_for_idle(pool))) : pool->few);
}

void
take_spare_groups_to_run(Queue *queue, int n)
{
	take_entries(queue, n - queue->schedule.groups().spares());
}

/* ---- giving back ---- */

/*
 * Return up to `most` spare entries beyond `keep` to the pool, but leave the queue at least
 * kOwnGroups entries. It does not matter which ones are returned.
 */
static void
return_entries(Groups &groups, int keep, int most)
{
	GroupPool *pool = shared->group_pool;
	int surplus = Min(groups.spares() - keep, groups.size() + groups.spares() - kOwnGroups);
	Group *first = nullptr;
	Group *last = nullptr;
	for (int i = 0; i < surplus && i < most; i++)
	{
		Group *group = groups.take_spare();
		last = last == nullptr ? group : last;
		group->by_id.parent = reinterpret_cast<TreeNode *>(first);
		first = group;
	}
	if (first == nullptr)
		return;
	SpinLockAcquire(&pool->mutex);
	last->by_id.parent = reinterpret_cast<TreeNode *>(pool->unused);
	pool->unused = first;
	SpinLockRelease(&pool->mutex);
}

/* How many spare ones a queue keeps that may have nothing to do for long. */
static int
spares_to_keep(const Schedule &schedule)
{
	const Schedule::Window &window = schedule.window();
	GroupPool *pool = shared->group_pool;
	bool many =
		window.in_turn() && window.size() > window.capacity() / 2 && room_for_idle(pool) > 0;
	return many ? kHoldMax : pool->few;
}

void
return_spare_groups(Queue *queue)
{
	Groups &groups = queue->schedule.groups();
	int keep = spares_to_keep(queue->schedule);
	if (groups.spares() > 2 * keep && groups.size() + groups.spares() > kOwnGroups)
		return_entries(groups, keep, INT_MAX);
	note_idle(queue);
}

bool
return_some_groups(Queue *queue)
{
	Groups &groups = queue->schedule.groups();
	int n = 0;
	groups.for_each([&](Group *group) {
		if (n++ >= kManySpares)
			return;
		Assert(group->running == 0);
		groups.remove(group);
	});
	return_entries(groups, 0, kManySpares);
	note_idle(queue);
	return groups.size() > 0 || groups.spares() > kOwnGroups;
}

} // namespace pgq
