#include "engine/group_pool.h"

#include "engine/lease_quota.h"
#include "pg/scope.h"

namespace pgq {

struct GroupPool
{
	slock_t mutex; /* protects unused and fresh */
	Group *unused; /* list of returned entries, linked through by_id.parent */
	int fresh;	   /* entries from this number on were never used */
	/* number of entries of the common half that queues have taken */
	pg_atomic_uint32 common;
	Group entries[FLEXIBLE_ARRAY_MEMBER];
};

/* Return how many groups each queue may remember without an entry of the common half. */
static int
own_memory()
{
	return max_leases / 2 / max_queues;
}

/* Return the size of the common half, in groups. */
static int
common_memory()
{
	return max_leases - own_memory() * max_queues;
}

int
max_groups()
{
	return lease_entries() + max_leases;
}

Size
group_pool_size()
{
	return add_size(offsetof(GroupPool, entries), mul_size(max_groups(), sizeof(Group)));
}

void
place_group_pool(void *memory)
{
	auto *pool = static_cast<GroupPool *>(memory);
	shared->group_pool = pool;
	SpinLockInit(&pool->mutex);
	pool->unused = nullptr;
	pool->fresh = 0;
	pg_atomic_init_u32(&pool->common, 0);
}

static Group *
take_group()
{
	GroupPool *pool = shared->group_pool;
	SpinLockAcquire(&pool->mutex);
	Group *group = pool->unused;
	if (group != nullptr)
		pool->unused = reinterpret_cast<Group *>(group->by_id.parent);
	else
		group = &pool->entries[pool->fresh++];
	SpinLockRelease(&pool->mutex);
	Assert(group < pool->entries + max_groups());
	return group;
}

void
bring_group(Queue *queue, int64 group)
{
	Groups &groups = queue->schedule.groups();
	if (groups.find(group) == nullptr && groups.spares() == 0)
		groups.give(take_group());
}

/* Count one more entry of the common half as taken. Return false if none is left. */
static bool
charge_memory()
{
	pg_atomic_uint32 *common = &shared->group_pool->common;
	uint32 used = pg_atomic_read_u32(common);
	while (used < static_cast<uint32>(common_memory()))
		if (pg_atomic_compare_exchange_u32(common, &used, used + 1))
			return true;
	return false;
}

void
init_memory(Queue *queue)
{
	queue->groups_common = 0;
	queue->schedule.groups().remember_at_most(own_memory());
}

void
reserve_memory(Queue *queue)
{
	Groups &groups = queue->schedule.groups();
	if (!groups.rates().on() || groups.remembered() < groups.most_remembered() || !charge_memory())
		return;
	queue->groups_common++;
	groups.remember_at_most(groups.most_remembered() + 1);
}

void
return_groups(Queue *queue)
{
	GroupPool *pool = shared->group_pool;
	Groups &groups = queue->schedule.groups();
	while (Group *group = groups.take_spare())
	{
		SpinLockAcquire(&pool->mutex);
		group->by_id.parent = reinterpret_cast<TreeNode *>(pool->unused);
		pool->unused = group;
		SpinLockRelease(&pool->mutex);
	}
	int surplus = Min(groups.most_remembered() - groups.remembered(), queue->groups_common);
	if (surplus <= 0)
		return;
	pg_atomic_fetch_sub_u32(&pool->common, surplus);
	queue->groups_common -= surplus;
	groups.remember_at_most(groups.most_remembered() - surplus);
}

bool
forget_some_groups(Queue *queue)
{
	Groups &groups = queue->schedule.groups();
	for (int i = 0; i < kHoldMax && groups.size() > 0; i++)
		groups.remove_first();
	return_groups(queue);
	return groups.size() > 0;
}

} // namespace pgq
