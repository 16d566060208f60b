/*
 * The rules that a queue has for its groups, and the entry of a group whose jobs are in work.
 *
 * A group has an entry while leases of its jobs count. In a queue with group_rate_limit the entry stays until none of the starts
 * that it counts lies within the last period. The owner of the queue supplies an entry with each lease that counts, so a group with
 * jobs in work never lacks an entry. Entries are read and changed under the lock of their queue.
 */
#pragma once

#include "core/key.h"
#include "core/rate.h"
#include "core/tree.h"

#include <cstdint>

namespace pgq {

/* The starts of a group, and the time for which the group waits: group_rates.h. */
struct GroupRate
{
	enum Wait : uint8_t
	{
		kNone,
		kThrottled, /* until one more job may start: only the rate keeps rows of the group back */
		kFading,	/* until no start counts any more: the group has no job in work */
	};

	TreeNode timed; /* unless kNone: in the tree of the groups with the same kind of wait */
	int64_t at;		/* unless kNone: end of the wait, monotonic, in microseconds */
	Wait wait;
	uint32_t rules;	  /* value of GroupRates::epoch_ when `starts` was adjusted to the rules */
	int32_t claiming; /* number of jobs in work that claims have not handed out yet */
	SmallRate starts; /* only in a queue with group_rate_limit */
};

/* The entry of a group. */
struct Group
{
	TreeNode by_id; /* node of the tree of entries; spare: `parent` is the next spare entry */
	int64_t id;
	int32_t running; /* number of leases that count in the group */
	Key cursor;		 /* smallest key that was dropped for want of room; +infinity: none */
	GroupRate rate;
};

/* The rules of a queue: options group_concurrency, fifo, fair and group_rate_limit. */
struct GroupRules
{
	int32_t limit;		/* most jobs of a group in work at a time; 0: no limit */
	bool fifo;			/* one job of a group at a time, in the order of the ids */
	bool fair = false;	/* groups take turns; jobs without a group are group 0 */
	int32_t rate = 0;	/* most starts of a group in a period; 0: no limit */
	int64_t period = 0; /* microseconds; 0: there is no rate */

	/* Return whether there is a rule at all. */
	bool any() const { return fair || count(); }
	/* Return whether groups count the leases of their jobs. */
	bool count() const { return limit > 0 || fifo || rate > 0; }
	int32_t most() const { return fifo ? 1 : limit > 0 ? limit : INT32_MAX; }
	/* Return whether only the head of the group may go out. */
	bool in_order(int64_t group) const { return fifo && group != 0; }
	bool operator==(const GroupRules &) const = default;
};

/* The most groups whose rows a process reads at a time, by visits or by a step of a lap. */
inline constexpr int kVisitsMax = 16;

/* A visit: the rows of a group that a process is to read, because memory may lack them. */
struct Visit
{
	int64_t group;
	Key from;	   /* first key to read; the key of the marker */
	int64_t floor; /* fifo: job_id from which on the head is looked for */
	int32_t room;  /* number of rows that are wanted */
};

} // namespace pgq
