#include "engine/count.h"

#include <algorithm>

namespace pgq {

int
running_max()
{
	return MaxBackends + max_prepared_xacts + 1;
}

bool
SeenBy::sees(uint64 xid) const
{
	TransactionId *end = running + n;
	return xid < xmax && std::find(running, end, static_cast<TransactionId>(xid)) == end;
}

void
SeenBy::set(uint64 new_xmax, const TransactionId *new_running, int new_n)
{
	Assert(new_n <= running_max());
	xmax = new_xmax;
	n = new_n;
	std::copy(new_running, new_running + new_n, running);
}

void
init_count(JobCount &count, int64 max_depth)
{
	count.reserved = 0;
	forget_count(count);
	set_max_depth(count, max_depth);
}

void
set_max_depth(JobCount &count, int64 max_depth)
{
	count.limited = max_depth > 0;
}

void
forget_count(JobCount &count)
{
	count.state = JobCount::kUnknown;
	count.part_state = JobCount::kIdle;
	count.serial++;
	count.part_serial++;
}

static void
begin_at_zero(JobCount &count, TimestampTz now)
{
	forget_count(count);
	count.live = count.dead = count.blocked = count.unresolved = 0;
	count.due.reset(DueSeconds::second_of(now));
	count.whole.forget();
	count.part.forget();
	count.before.forget();
	count.logged = 0;
}

void
begin_empty(JobCount &count, TimestampTz now)
{
	begin_at_zero(count, now);
	count.state = JobCount::kKnown;
}

/* ---- changes by transactions ---- */

static void
log_delta(JobCount &count, uint64 xid, const CountDelta &delta)
{
	if (count.logged < JobCount::kLogMax)
		count.log[count.logged] = {xid, delta};
	count.logged = Min(count.logged + 1, JobCount::kLogMax + 1);
}

/*
 * Add a change of the number of waiting jobs, made by a transaction that the snapshot of the count
 * does not see.
 */
static void
add_due(JobCount &count, uint64 xid, const CountDelta &delta)
{
	if (count.before.sees(xid))
		return forget_count(count);
	bool seen = count.part.sees(xid);
	/*
	 * finish_part() has already taken the jobs of this second out of `beyond`; see the top of
	 * count.h.
	 */
	if (seen && count.part_state != JobCount::kReading && count.due.in_last_part(delta.second))
		return count.due.add_beyond(delta.n);
	count.due.add(delta.second, delta.n);
	if (count.part_state == JobCount::kPartLogging)
		log_delta(count, xid, delta);
	else if (count.part_state == JobCount::kReading && !seen)
		count.due.add_to_part(delta.second, delta.n);
}

static void
add_unseen(JobCount &count, uint64 xid, const CountDelta &delta)
{
	switch (delta.what)
	{
		case CountDelta::kLive:
			count.live += delta.n;
			break;
		case CountDelta::kDead:
			count.dead += delta.n;
			break;
		case CountDelta::kDue:
			if (is_blocked_second(delta.second))
				count.blocked += delta.n;
			else
				add_due(count, xid, delta);
	}
}

void
add_to_count(JobCount &count, uint64 xid, const CountDelta &delta)
{
	switch (count.state)
	{
		case JobCount::kUnknown:
			break;
		case JobCount::kLogging:
			log_delta(count, xid, delta);
			break;
		case JobCount::kCounting:
		case JobCount::kKnown:
			if (!count.whole.sees(xid))
				add_unseen(count, xid, delta);
			break;
	}
}

/* ---- by time ---- */

bool
wants_count(const JobCount &count, TimestampTz now)
{
	return count.state != JobCount::kKnown || !count.due.knows(DueSeconds::second_of(now));
}

bool
wants_part(const JobCount &count, TimestampTz now)
{
	return count.state == JobCount::kKnown && count.due.wants_part(DueSeconds::second_of(now));
}

int64
waiting_of(const JobCount &count, TimestampTz now)
{
	return count.due.waiting(DueSeconds::second_of(now));
}

/* ---- the count ---- */

uint32
begin_count(JobCount &count, TimestampTz now, FoundRows *found)
{
	begin_at_zero(count, now);
	count.state = JobCount::kLogging;
	found->live = found->dead = found->blocked = found->unresolved = 0;
	found->due.begin_like(count.due);
	return count.serial;
}

bool
publish_snapshot(JobCount &count, uint32 serial, uint64 xmax, const TransactionId *running, int n)
{
	if (count.serial != serial || count.logged > JobCount::kLogMax)
		return false;
	Assert(count.state == JobCount::kLogging);
	count.whole.set(xmax, running, n);
	count.state = JobCount::kCounting;
	for (int i = 0; i < count.logged; i++)
		add_to_count(count, count.log[i].xid, count.log[i].delta);
	return true;
}

bool
finish_count(JobCount &count, uint32 serial, const FoundRows &found)
{
	if (count.serial != serial)
		return false;
	Assert(count.state == JobCount::kCounting);
	count.live += found.live;
	count.dead += found.dead;
	count.blocked += found.blocked;
	count.unresolved = found.unresolved;
	count.due.merge(found.due);
	count.state = JobCount::kKnown;
	return true;
}

/* ---- the next part ---- */

bool
begin_part(JobCount &count, TimestampTz now, uint32 *serial, DueSeconds *found)
{
	int64 second = DueSeconds::second_of(now);
	if (!wants_part(count, now))
		return false;
	*serial = ++count.part_serial;
	count.part_state = JobCount::kIdle;
	/*
	 * A transaction that the snapshot of the last part sees may add its change late. The change
	 * must not be counted in the new seconds, so keep that snapshot as `before`.
	 */
	if (count.due.slide(second))
	{
		std::swap(count.before, count.part);
		count.part.forget();
		return false;
	}
	count.due.begin_part(second);
	found->begin_like(count.due);
	count.part_state = JobCount::kPartLogging;
	count.logged = 0;
	return true;
}

bool
publish_part(JobCount &count, uint32 serial, uint64 xmax, const TransactionId *running, int n)
{
	if (count.part_serial != serial || count.logged > JobCount::kLogMax)
		return false;
	Assert(count.part_state == JobCount::kPartLogging);
	std::swap(count.before, count.part);
	count.part.set(xmax, running, n);
	count.part_state = JobCount::kReading;
	for (int i = 0; i < count.logged; i++)
		if (!count.part.sees(count.log[i].xid))
			count.due.add_to_part(count.log[i].delta.second, count.log[i].delta.n);
	return true;
}

bool
finish_part(JobCount &count, uint32 serial, const DueSeconds &found)
{
	if (count.part_serial != serial)
		return false;
	Assert(count.part_state == JobCount::kReading);
	count.due.finish_part(found);
	count.part_state = JobCount::kIdle;
	return true;
}

} // namespace pgq
