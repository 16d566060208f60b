/*
 * A group of jobs, as far as something has to be known of it; groups.h says what.
 */
#pragma once

#include "core/key.h"
#include "core/rate.h"
#include "core/tree.h"

#include <cstdint>

namespace pgq {

/* How many of it have started lately, where that is limited; group_rates.h says what it is good for. */
struct GroupRate
{
	enum Wait : uint8_t
	{
		kNone,
		kThrottled, /* the group is aside, and nothing but its rate keeps it there */
		kFading,	/* it is known for what has started of it only */
	};

	TreeNode timed; /* unless kNone: in the tree of those that wait so */
	int64_t at;		/* unless kNone: when that is over */
	Wait wait;
	int32_t claiming; /* of those that run: claims have them, and have not handed them out yet */
	SmallRate starts; /* where there is a limit */
};

struct Group
{
	TreeNode by_id;	  /* while it is spare, its parent is the next spare one */
	TreeNode waiting; /* in Groups::waiting_ iff pending or probing */
	int64_t id;
	int32_t running;
	bool aside;
	bool pending;
	bool probing;
	bool again; /* probing: it is to be probed once more */
	Key cursor; /* aside: +infinity while it is probed */
	Key start;	/* probing: the cursor when that began */
	Key lowest; /* probing: the first position filed since */
	int32_t
		rank; /* fifo, pending, probing: the priority of its first job, or the highest if nobody knows */
	int64_t since; /* pending, probing: how many jobs had been popped when it came to be */
	/*
	 * fifo, aside: jobs of the group below this id have ended, or are filed when they come. Probing: the smallest id that
	 * was filed since.
	 */
	int64_t floor;
	GroupRate rate;

	/* Rows of it from here on are not in the window, perhaps. */
	const Key &known() const
	{
		if (!probing)
			return cursor;
		return lowest < start ? lowest : start;
	}
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
	/* Of what runs, or has started. */
	bool count() const { return limit > 0 || fifo || rate > 0; }
	int32_t most() const { return fifo ? 1 : limit > 0 ? limit : INT32_MAX; }
	bool operator==(const GroupRules &) const = default;
};

/* A probe of one group, for whoever reads its rows. */
struct Probe
{
	int64_t group;
	Key start;
	int64_t floor;
	int32_t room; /* as many rows are wanted */
};

} // namespace pgq
