/*
 * Status of the scheduler's duties for the view pgq_ext.duty: duties for the whole database, and
 * those for each queue.
 */
#pragma once

#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/*
 * Written by the scheduler of the database only, read by the view. Protected by the registry lock;
 * the note of a queue's duty by the queue's lock.
 */
struct DutyNote
{
	TimestampTz last_run_at;   /* 0: never */
	TimestampTz next_run_at;   /* 0: when there is something to do */
	TimestampTz failing_since; /* 0: the last run has not failed */
	int failures;			   /* errors since failing_since */
	char last_error[256];
};
static_assert(std::is_trivially_copyable_v<DutyNote> && std::is_standard_layout_v<DutyNote>);

/* Number of duties of a database, with some to spare, and of a queue. worker/shift.h lists them. */
inline constexpr int kDutyNotes = 10;
inline constexpr int kQueueDutyNotes = 4;

} // namespace pgq
