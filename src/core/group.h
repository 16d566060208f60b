/*
 * The rules that a queue has for its groups, and the entry of a group.
 *
 * A group has an entry while leases of its jobs count. In a queue with group_rate_limit the entry stays while starts that it counts
 * lie within the last period, unless there are too many such entries (group_rates.h). The caller supplies an entry before each
 * lease counts, so a group with jobs in work never lacks an entry. Entries are read and changed under the lock of their queue.
 */
#pragma once

#include "core/key.h"
#include "core/rate.h"
#include "core/tree.h"

#include <cstdint>

namespace pgq {

/* The starts of a group, and the time until which the group waits: group_rates.h. */
struct GroupRate
{
	enum Wait : uint8_t
	{
		kNone,
		kThrottled, /* until one more job may start: only the rate limit keeps jobs of the group back */
		kFading, /* until no start counts any more: the group has no job in work */
	};

	TreeNode timed; /* unless kNone: node of the tree of the groups with the same kind of wait */
	int64_t at;		/* unless kNone: end of the wait, monotonic, in microseconds */
	Wait wait;
	uint32_t rules;	  /* value of GroupRates::epoch_ when `starts` was adjusted to the rules */
	int32_t claiming; /* number of jobs in work that claims have not handed out yet */
	SmallRate starts; /* only in a queue with group_rate_limit */
};

/* The entry of a group. */
struct Group
{
	TreeNode by_id; /* node of the tree of entries; if spare, `parent` is the next spare entry */
	int64_t id;
	int32_t running; /* number of leases that count in the group */
	Key cursor; /* smallest key that was dropped while the group had no room; +infinity: none */
	GroupRate rate;
};

/* The rules of a queue: options group_concurrency, fifo, fair and group_rate_limit. */
struct GroupRules
{
	int32_t limit;		/* most jobs of a group in work at a time; 0: no limit */
	bool fifo;			/* one job of a group at a time, in the order of the ids */
	bool fair = false;	/* groups take turns; jobs without a group are group 0 */
	int32_t rate = 0;	/* most starts of a group in a period; 0: no limit */
	int64_t period = 0; /* period of `rate`, in microseconds; 0: no limit */

	/* Return whether there is a rule at all. */
	bool any() const { return fair || count(); }
	/* Return whether groups count the leases of their jobs. */
	bool count() const { return limit > 0 || fifo || rate > 0; }
	int32_t most() const { return fifo ? 1 : limit > 0 ? limit : INT32_MAX; }
	/* Return whether only the head of the group may go out. */
	bool in_order(int64_t group) const { return fifo && group != 0; }
	bool operator==(const GroupRules &) const = default;
};

/* Upper bound of the number of groups whose rows a process reads at a time, by visits or by a step of a lap. */
inline constexpr int kVisitsMax = 16;

/* A visit: the rows of a group that a process is to read, because memory may lack them. */
struct Visit
{
	int64_t group;
	Key from;	   /* first key to read; the key of the marker */
	int64_t floor; /* fifo: job_id from which on the head is looked for */
	int32_t room;  /* upper bound of the number of rows that are wanted */
};

} // namespace pgq
