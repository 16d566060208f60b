#include "engine/group_pool.h"

#include "pg/scope.h"

namespace pgq {

/* What a queue takes at a time, and what it keeps: a claim needs one for each job that it takes, at most. */
static constexpr int kFewSpares = 16;
static constexpr int kManySpares = 64;

/* In a queue with fair each row that is filed may put a group aside. */
static int
few_spares(const Groups &groups)
{
	return groups.rules().fair ? kHoldMax : kFewSpares;
}

struct GroupPool
{
	slock_t mutex;
	Group *unused; /* of the common ones; linked by by_id.parent */
	int fresh;	   /* entries from here on were never used (and never touched) */
	pg_atomic_uint32
		kept; /* of all, those that queues keep for rates: nothing of theirs is in work */
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

/* The own ones of the queues are behind the common ones. */
void
place_group_pool(void *memory)
{
	auto *pool = static_cast<GroupPool *>(memory);
	shared->group_pool = pool;
	SpinLockInit(&pool->mutex);
	pool->unused = nullptr;
	pool->fresh = 0;
	pg_atomic_init_u32(&pool->kept, 0);
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

/* Half of the common ones is for what is in work, or to be looked at. About: a queue says what it keeps after each hold. */
static void
limit_kept(GroupPool *pool, Groups &groups)
{
	bool many = pg_atomic_read_u32(&pool->kept) >= static_cast<uint32>(common_groups() / 2);
	groups.rates().keep_at_most(many ? kOwnGroups : INT_MAX);
}

static void
note_kept(Queue *queue)
{
	int kept = queue->schedule.groups().rates().timed();
	if (kept != queue->groups_kept)
		pg_atomic_fetch_add_u32(&shared->group_pool->kept, kept - queue->groups_kept);
	queue->groups_kept = kept;
}

void
take_spare_groups(Queue *queue)
{
	GroupPool *pool = shared->group_pool;
	Groups &groups = queue->schedule.groups();
	int few = few_spares(groups);
	limit_kept(pool, groups);
	if (groups.spares() >= (groups.rules().fair ? few : kOwnGroups))
		return;
	SpinLockAcquire(&pool->mutex);
	for (int i = 0; i < few; i++)
		if (Group *group = take_entry(pool))
			groups.give(group);
	SpinLockRelease(&pool->mutex);
}

/* Any entry is as good as any other: what counts is how many the queue keeps. */
static void
return_entries(Groups &groups, int keep, int most)
{
	GroupPool *pool = shared->group_pool;
	int surplus = Min(groups.spares() - keep, groups.size() + groups.spares() - kOwnGroups);
	SpinLockAcquire(&pool->mutex);
	for (int i = 0; i < surplus && i < most; i++)
	{
		Group *group = groups.take_spare();
		group->by_id.parent = reinterpret_cast<TreeNode *>(pool->unused);
		pool->unused = group;
	}
	SpinLockRelease(&pool->mutex);
}

void
return_spare_groups(Queue *queue)
{
	Groups &groups = queue->schedule.groups();
	int few = few_spares(groups);
	note_kept(queue);
	if (groups.spares() > kManySpares / kFewSpares * few)
		return_entries(groups, few, kManySpares);
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
	note_kept(queue);
	return_entries(groups, 0, kManySpares);
	return groups.size() > 0 || groups.spares() > kOwnGroups;
}

} // namespace pgq
