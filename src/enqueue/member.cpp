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

static bool
may_use_batch(const BatchRow &batch)
{
	/* Usually the caller is the maker, so check that first. */
	return (OidIsValid(batch.maker) && has_privs_of_role(GetUserId(), batch.maker)) || is_owner();
}

BatchRow
require_batch(int64 batch_id)
{
	BatchRow batch;
	if (!find_batch(batch_id, &batch) || !may_use_batch(batch))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("batch %lld does not exist", static_cast<long long>(batch_id)),
						errhint("Only members of the role that has created a batch can use it.")));
	return batch;
}

BatchRow
require_batch_to_add(int64 batch_id)
{
	BatchRow batch;
	if (!find_batch(batch_id, &batch) || !(may_use_batch(batch) || has_member_in_hand(batch_id)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("batch %lld does not exist", static_cast<long long>(batch_id)),
				 errhint("Only members of the role that has created a batch can add to it, and "
						 "workers of its jobs, which call pgq_assert_lease first.")));
	return batch;
}

/* Raise 55000 unless this transaction may add to the batch now. */
static void
require_open_batch(int64 batch_id)
{
	BatchRow batch = require_batch_to_add(batch_id);
	if (batch.finished)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("batch %lld is finished", static_cast<long long>(batch_id)),
						errhint("Add the job to a new batch.")));
	if (batch.closed && !has_member_in_hand(batch_id))
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("batch %lld is closed", static_cast<long long>(batch_id)),
			 errdetail("Only a transaction that has the lease of a member in hand can add jobs "
					   "to a closed batch."),
			 errhint("Call pgq_assert_lease for that member first, in the same transaction, or add "
					 "the job to a new batch.")));
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
		batches_[n_++] = {batch_id, 0, false};
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

/* Take the tag, and check the newest state of the batch. */
static void
join_by_tag(int64 batch_id)
{
	(void) lock_batch(batch_id, ShareLock, true);
	require_open_batch(batch_id);
}

static bool
is_open_to_us(const BatchRow &batch)
{
	return !batch.closed && !batch.finished && may_use_batch(batch);
}

void
Members::join_all()
{
	require_batch_columns();
	for (int i = 0; i < n_; i++)
	{
		const BatchRow *last = last_seen(batches_[i].batch_id);
		batches_[i].tagged = last == nullptr || !is_open_to_us(*last);
		if (batches_[i].tagged)
			join_by_tag(batches_[i].batch_id);
		tell_batch_at_abort(batches_[i].batch_id);
	}
	stop_point("batch-joined");
}

void
Members::confirm_all() const
{
	stop_point("batch-added");
	for (int i = 0; i < n_; i++)
	{
		int64 batch_id = batches_[i].batch_id;
		BatchRow batch;
		if (!batches_[i].tagged)
		{
			if (find_again(batch_id, &batch) && is_open_to_us(batch))
				continue;
			join_by_tag(batch_id);
		}
		unlock_batch(batch_id, ShareLock);
	}
}

void
Members::note_all(AddedMembers *added) const
{
	/* The usual case. */
	if (added == nullptr && n_ == 1)
		return add_note(batches_[0].batch_id, Note::kAdded, batches_[0].jobs);
	AddedMembers mine;
	for (int i = 0; i < n_; i++)
		(added != nullptr ? added : &mine)->add(batches_[i].batch_id, batches_[i].jobs);
	mine.note();
}

/* ---- the notes of a call ---- */

void
AddedMembers::add(int64 batch_id, int64 jobs)
{
	if (n_ > 0 && notes_[n_ - 1].batch_id == batch_id)
	{
		notes_[n_ - 1].n += jobs;
		return;
	}
	if (n_ == size_)
	{
		size_ = Max(2 * size_, 4);
		Size bytes = mul_size(size_, sizeof(NewNote));
		notes_ = static_cast<NewNote *>(notes_ == nullptr ? MemoryContextAllocHuge(memory_, bytes)
														  : repalloc_huge(notes_, bytes));
	}
	notes_[n_++] = {batch_id, Note::kAdded, jobs};
}

void
AddedMembers::note()
{
	if (n_ == 0)
		return;
	std::sort(notes_, notes_ + n_,
			  [](const NewNote &a, const NewNote &b) { return a.batch_id < b.batch_id; });
	int batches = 0;
	for (int i = 1; i < n_; i++)
		if (notes_[i].batch_id == notes_[batches].batch_id)
			notes_[batches].n += notes_[i].n;
		else
			notes_[++batches] = notes_[i];
	add_notes(notes_, batches + 1);
	pfree(notes_);
	notes_ = nullptr;
	n_ = size_ = 0;
}

} // namespace pgq
