/*
 * The rules for groups of a queue, and what is known of a group that runs.
 */
#pragma once

#include "core/key.h"
#include "core/rate.h"
#include "core/tree.h"

#include <cstdint>

namespace pgq {

/* How many jobs of a group have started lately, where that is limited: group_rates.h. */
struct GroupRate
{
	enum Wait : uint8_t
	{
		kNone,
		kThrottled, /* nothing but its rate keeps rows of the group back */
		kFading,	/* the group is remembered for what has started of it */
	};

	TreeNode timed; /* unless kNone: in the tree of those that wait so */
	int64_t at;		/* unless kNone: when the wait is over */
	Wait wait;
	uint32_t rules;	  /* starts are counted by these; GroupRates says whether they still hold */
	int32_t claiming; /* jobs in work that claims have not handed out yet */
	SmallRate starts; /* where there is a limit */
};

/*
 * An entry. A group has one while jobs of it are in work, and where there is a rate until what has started of it has
 * faded. The owner brings one with each lease that counts, so that no group which runs can lack it.
 */
struct Group
{
	TreeNode by_id; /* a spare entry: its parent is the next spare one */
	int64_t id;
	int32_t running;
	Key cursor; /* rows of the group from here on were dropped because it had no room; +infinity: none */
	GroupRate rate;
};

/*
 * How many jobs of a group may run, whether in the order in which they were enqueued, whether groups take turns, and how
 * many may start in a period.
 */
struct GroupRules
{
	int32_t limit;		/* 0: any number */
	bool fifo;			/* one, then */
	bool fair = false;	/* jobs without a group are one group; without a rate */
	int32_t rate = 0;	/* 0: any number */
	int64_t period = 0; /* microseconds, if there is a rate */

	/* Do they say something of that group's jobs? 0: those without one. */
	bool concern(int64_t group) const { return fair || (group != 0 && count()); }
	bool any() const { return fair || count(); }
	/* Do leases count? */
	bool count() const { return limit > 0 || fifo || rate > 0; }
	int32_t most() const { return fifo ? 1 : limit > 0 ? limit : INT32_MAX; }
	/* May only the first job of the group, its head, go out? */
	bool in_order(int64_t group) const { return fifo && group != 0; }
	bool operator==(const GroupRules &) const = default;
};

/* Most groups whose rows a process reads at a time. */
inline constexpr int kVisitsMax = 16;

/* Rows of a group that may be missing in memory, for whoever reads them. */
struct Visit
{
	int64_t group;
	Key from;
	int64_t floor; /* fifo: jobs of the group below this id need not be looked for */
	int32_t room;  /* as many rows are wanted */
};

} // namespace pgq
