/*
 * The part of a database's slot that knows about children: see child_watch.h.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

inline constexpr uint32 kToldJobs = 1024;

/* A set of job ids. A free place has the id 0. Atomics, no lock. */
struct ToldJobs
{
	pg_atomic_uint64 id[kToldJobs];
};

/* Atomics, no lock. */
struct alignas(kCacheLine) ChildWatch
{
	/*
	 * 1: the table of dependencies is known to have no row. 0: there may be rows. Set to 1 only by
	 * the scheduler, under a lock of the table that excludes inserts.
	 */
	pg_atomic_uint32 childless;
	/*
	 * Time (monotonic) at which SQL has last inserted rows of children or parents, for example a
	 * restore; 0: never.
	 */
	pg_atomic_uint64 rows_came_at;
	/*
	 * The fields from here on are written more often. So they are in other cache lines than
	 * `childless`, which each end of a job reads.
	 */
	alignas(kCacheLine)
		pg_atomic_uint32 told; /* 1: the sets below may have ids, or `all` or all_from is set */
	pg_atomic_uint32 all;	   /* 1: all blocked children are to be judged */
	/* All blocked children with this id or a greater one are to be judged; UINT64_MAX: none. */
	pg_atomic_uint64 all_from;
	ToldJobs children; /* children to judge */
	ToldJobs parents;  /* parents whose children are to be judged */
};

void init_child_watch(ChildWatch *watch);

} // namespace pgq
