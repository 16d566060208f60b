#include "enqueue/member.h"

#include "catalog/queue_lock.h"
#include "catalog/rights.h"
#include "catalog/tables.h"
#include "pg/stop_point.h"
#include "txn/effects.h"

#include <algorithm>

namespace pgq {

void
require_batch_columns()
{
	if (!look_at_tables().has_batches)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("the tables of pgq_ext have no column for batches"),
						errdetail("This database was updated from version 0.1."),
						errhint("Let the owner of the extension call pgq_ext.add_batch_columns() "
								"at a quiet time.")));
}

BatchRow
require_batch(int64 batch_id)
{
	BatchRow batch;
	bool found = find_batch(batch_id, &batch);
	if (!found ||
		!(is_owner() || (OidIsValid(batch.maker) && has_privs_of_role(GetUserId(), batch.maker))))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("batch %lld does not exist", static_cast<long long>(batch_id)),
						errhint("Only members of the role that has created a batch can use it.")));
	return batch;
}

static void
require_open_batch(int64 batch_id)
{
	BatchRow batch = require_batch(batch_id);
	if (batch.finished || batch.closed)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("batch %lld is %s", static_cast<long long>(batch_id),
							   batch.finished ? "finished" : "closed"),
						errhint("Add the job to a new batch.")));
}

void
Members::add(int64 batch_id, int room)
{
	if (batches_ == nullptr)
		batches_ = static_cast<Joined *>(palloc(room * sizeof(Joined)));
	int i = 0;
	while (i < n_ && batches_[i].batch_id != batch_id)
		i++;
	if (i == n_)
		batches_[n_++] = {batch_id, 0};
	batches_[i].jobs++;
}

Members::Members(const NewJob *jobs, int n)
{
	for (int i = 0; i < n; i++)
		if (!jobs[i].nulls[kJobBatch - 1])
			add(DatumGetInt64(jobs[i].values[kJobBatch - 1]), n - i);
	std::sort(batches_, batches_ + n_,
			  [](const Joined &a, const Joined &b) { return a.batch_id < b.batch_id; });
}

void
Members::join() const
{
	if (n_ > 0)
		require_batch_columns();
	for (int i = 0; i < n_; i++)
	{
		(void) lock_batch(batches_[i].batch_id, ShareLock, true);
		require_open_batch(batches_[i].batch_id);
		tell_batch_at_abort(batches_[i].batch_id);
	}
	if (n_ > 0)
		stop_point("batch-joined");
}

void
Members::release() const
{
	for (int i = 0; i < n_; i++)
		unlock_batch(batches_[i].batch_id, ShareLock);
}

void
Members::note() const
{
	for (int i = 0; i < n_; i++)
		add_note(batches_[i].batch_id, Note::kAdded, batches_[i].jobs);
}

} // namespace pgq
