/*
 * Status of the scheduler's duties for the view pgq_ext.duty. Some duties serve the whole database,
 * others one queue each.
 */
#pragma once

#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/*
 * Status of a duty. Written only by the scheduler of the database, read by the view. Protected by
 * the registry lock; the note of a queue's duty by the queue's lock.
 */
struct DutyNote
{
	TimestampTz last_run_at;   /* 0: never */
	TimestampTz next_run_at;   /* 0: as soon as there is something to do */
	TimestampTz failing_since; /* 0: the last run was successful */
	int failures;			   /* number of errors since failing_since */
	char last_error[256];
};
static_assert(std::is_trivially_copyable_v<DutyNote> && std::is_standard_layout_v<DutyNote>);

/* Upper bounds for the number of duties of a database and of a queue. worker/shift.h lists them. */
inline constexpr int kDutyNotes = 10;
inline constexpr int kQueueDutyNotes = 4;

} // namespace pgq
