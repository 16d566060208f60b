/*
 * A group of jobs, as far as something has to be known of it; groups.h says what.
 */
#pragma once

#include "core/key.h"
#include "core/tree.h"

#include <cstdint>

namespace pgq {

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

	/* Rows of it from here on are not in the window, perhaps. */
	const Key &known() const
	{
		if (!probing)
			return cursor;
		return lowest < start ? lowest : start;
	}
};

/* How many jobs of a group may run, whether in the order in which they were enqueued, and whether groups take turns. */
struct GroupRules
{
	int32_t limit; /* 0: any number */
	bool fifo;	   /* one, then */
	bool fair;	   /* jobs without a group are one group */

	/* Do they say something of that group's jobs? 0: those without one. */
	bool concern(int64_t group) const { return fair || (group != 0 && count()); }
	bool any() const { return fair || count(); }
	/* Of what runs. */
	bool count() const { return limit > 0 || fifo; }
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
