#include "steps/parent_end.h"

#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "engine/child_watch.h"
#include "pg/stop_point.h"
#include "txn/effects.h"

namespace pgq {

/* Return whether the job may have a child. */
static bool
has_any_child(int64 job_id)
{
	const Database *db = look_at_tables().database;
	if (db != nullptr && !may_have_children(db))
		return false;
	stop_point("parent-deleted");
	return has_children(job_id);
}

void
note_parent_ended(int64 job_id, int32 queue_id, JobOutcome how, const Datum *result,
				  const text *error)
{
	if (!has_any_child(job_id))
		return;
	const OutcomeRow outcome = {.job_id = job_id,
								.outcome = how,
								.queue_id = queue_id,
								.result = result != nullptr ? DatumGetJsonbP(*result) : nullptr,
								.error = error};
	add_outcomes(&outcome, 1);
	tell_parent_at_commit(job_id);
	stop_point("parent-ended");
}

void
note_parent_died(int64 job_id)
{
	if (has_any_child(job_id))
		tell_parent_at_commit(job_id);
}

void
note_parent_back(int64 job_id)
{
	JobOutcome outcome;
	TransactionId decider = InvalidTransactionId;
	if (!find_outcome(job_id, &outcome, &decider) && !TransactionIdIsValid(decider))
		return;
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(job_id), false}};
	as_owner([&] {
		find_by_index();
		(void) spi_execute("DELETE FROM pgq_ext.job_outcome WHERE job_id OPERATOR(pg_catalog.=) $1",
						   arguments);
	});
}

} // namespace pgq
