/*
 * Time zones, as the server knows them.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* One whose name SET TimeZone would take; NULL: there is none. It stays for as long as the process. */
inline pg_tz *
find_zone(const char *name)
{
	pg_tz *zone = pg_tzset(name);
	return zone != nullptr && pg_tz_acceptable(zone) ? zone : nullptr;
}

/* How far its clocks are ahead of UTC at that moment, in seconds, and until when at least. Moments are seconds since 1970. */
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
