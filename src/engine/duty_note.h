/*
 * What the scheduler says of its duties, for the view pgq_ext.duty: of those for the whole database,
 * and of what is done for each queue.
 */
#pragma once

#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/*
 * Written by the scheduler of that database alone, read by the view. Both under the registry
 * lock, or under that of the queue whose duty it is.
 */
struct DutyNote
{
	TimestampTz last_run_at;   /* 0: never */
	TimestampTz next_run_at;   /* 0: when there is something to do */
	TimestampTz failing_since; /* 0: it does not */
	int failures;			   /* errors since then */
	char last_error[256];
};
static_assert(std::is_trivially_copyable_v<DutyNote> && std::is_standard_layout_v<DutyNote>);

/* Room for those of a database, with some to spare, and of a queue; worker/shift.h says which there are. */
inline constexpr int kDutyNotes = 10;
inline constexpr int kQueueDutyNotes = 4;

} // namespace pgq
