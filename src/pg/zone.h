/* Time zones, interpreted as the server does. */
#pragma once

#include "pg/pg.h"

#include <cmath>

namespace pgq {

/*
 * Return whether the name is a number. SET TimeZone takes a number as hours east of Greenwich, but
 * in a POSIX zone of that name the hours would be west.
 */
inline bool
is_hours_east(const char *name, double *hours)
{
	char *end;
	*hours = strtod(name, &end);
	return end != name && *end == '\0';
}

/*
 * Return the zone that SET TimeZone would set for that name. Returns nullptr if SET would refuse
 * the name, or if the name is an INTERVAL. The zone lives as long as the process.
 */
inline pg_tz *
find_zone(const char *name)
{
	static constexpr double kMostHours = 167;
	static constexpr char kInterval[] = "interval";
	double hours;
	bool is_number = is_hours_east(name, &hours);
	bool is_interval = pg_strncasecmp(name, kInterval, sizeof(kInterval) - 1) == 0;
	if (is_interval || (is_number && !(std::fabs(hours) <= kMostHours)))
		return nullptr;
	pg_tz *zone =
		is_number ? pg_tzset_offset(static_cast<long>(-hours * SECS_PER_HOUR)) : pg_tzset(name);
	return zone != nullptr && pg_tz_acceptable(zone) ? zone : nullptr;
}

/*
 * Return how many seconds the zone's clocks are ahead of UTC at that moment. *until: the offset
 * does not change before this moment. Moments are seconds since 1970.
 */
inline int64
offset_in_zone(const pg_tz *zone, int64 moment, int64 *until)
{
	pg_time_t now = moment;
	pg_time_t end;
	long offset;
	long offset_after;
	int is_dst;
	int moves = pg_next_dst_boundary(&now, &offset, &is_dst, &end, &offset_after, &is_dst, zone);
	if (moves < 0)
		elog(ERROR, "time zone \"%s\" has no offset",
			 pg_get_timezone_name(const_cast<pg_tz *>(zone)));
	*until = moves > 0 ? end : PG_INT64_MAX;
	return offset;
}

} // namespace pgq
