/*
 * The role with whose rights the scheduler enqueues jobs that the role has asked for earlier: the maker
 * of a schedule or of a batch.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* What the role has created, for messages. */
struct Made
{
	const char *what;
	const char *remedy; /* what to do if the role is gone */
};
inline constexpr Made of_schedule = {"schedule", "Call pgq_schedule again, as another role."};
inline constexpr Made of_batch = {
	"batch",
	"Let the owner of the extension write the name of another role to the column maker_name of "
	"pgq_ext.job_batch."};

/* Check that the role exists and may call pgq_enqueue. Raises 42704, 42501. */
void require_enqueuer(Oid role, const char *name, const Made &made);

} // namespace pgq
