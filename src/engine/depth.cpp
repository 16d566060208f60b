#include "engine/depth.h"

#include <algorithm>

namespace pgq {

int
running_max()
{
	return MaxBackends + max_prepared_xacts + 1;
}

void
init_depth(DepthCount &depth, int64 max_depth)
{
	depth.rows = depth.reserved = 0;
	forget_depth(depth);
	set_max_depth(depth, max_depth);
}

void
set_max_depth(DepthCount &depth, int64 max_depth)
{
	depth.limited = max_depth > 0;
	if (max_depth == 0)
		forget_depth(depth);
}

void
forget_depth(DepthCount &depth)
{
	depth.state = DepthCount::kUnknown;
	depth.serial++;
}

/* Was it seen by the snapshot, so that the scan has counted what it did? */
static bool
is_seen(const DepthCount &depth, uint64 xid)
{
	TransactionId *end = depth.running + depth.running_count;
	return xid < depth.xmax &&
		   std::find(depth.running, end, static_cast<TransactionId>(xid)) == end;
}

void
count_rows(DepthCount &depth, uint64 xid, int64 rows)
{
	switch (depth.state)
	{
		case DepthCount::kUnknown:
			break;
		case DepthCount::kLogging:
			if (depth.logged < DepthCount::kLogMax)
				depth.log[depth.logged] = {xid, rows};
			depth.logged = Min(depth.logged + 1, DepthCount::kLogMax + 1);
			break;
		case DepthCount::kCounting:
		case DepthCount::kKnown:
			if (!is_seen(depth, xid))
				depth.rows += rows;
			break;
	}
}

uint32
begin_count(DepthCount &depth)
{
	forget_depth(depth);
	depth.state = DepthCount::kLogging;
	depth.may_be_high = false;
	depth.logged = 0;
	depth.rows = 0;
	return depth.serial;
}

bool
publish_snapshot(DepthCount &depth, uint32 serial, uint64 xmax, const TransactionId *running, int n)
{
	if (depth.serial != serial || depth.logged > DepthCount::kLogMax)
		return false;
	Assert(depth.state == DepthCount::kLogging && n <= running_max());
	depth.xmax = xmax;
	std::copy(running, running + n, depth.running);
	depth.running_count = n;
	depth.state = DepthCount::kCounting;
	for (int i = 0; i < depth.logged; i++)
		count_rows(depth, depth.log[i].xid, depth.log[i].rows);
	return true;
}

bool
finish_count(DepthCount &depth, uint32 serial, int64 rows)
{
	if (depth.serial != serial)
		return false;
	Assert(depth.state == DepthCount::kCounting);
	depth.rows += rows;
	depth.state = DepthCount::kKnown;
	return true;
}

} // namespace pgq
