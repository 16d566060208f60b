#include "api/claim_rows.h"

namespace pgq {

void
ClaimRows::init(const int *columns, int n, TupleDesc desc, MemoryContext memory)
{
	columns_ = columns;
	n_columns_ = n;
	desc_ = desc;
	spilled_ = nullptr;
	expires_at_ = -1;
	for (int i = 0; i < n; i++)
		if (columns[i] == static_cast<int>(ClaimedColumn::kLeaseExpiresAt))
			expires_at_ = i;
	begin(memory);
}

void
ClaimRows::begin(MemoryContext memory)
{
	end();
	memory_ = memory;
	values_ = nullptr;
	nulls_ = nullptr;
	room_ = in_memory_ = rows_ = spilled_at_ = 0;
	at_ = -1;
	bytes_ = 0;
	ready_ = nullptr;
}

void
ClaimRows::end()
{
	if (spilled_ == nullptr)
		return;
	ExecDropSingleTupleTableSlot(spilled_slot_);
	tuplestore_end(spilled_);
	spilled_ = nullptr;
}

/* ---- receiving ---- */

void
ClaimRows::make_room()
{
	static constexpr int kGrowth = 8;
	int room = room_ == 0 ? 1 : room_ * kGrowth;
	auto *values = static_cast<Datum *>(
		MemoryContextAlloc(memory_, (sizeof(Datum) + sizeof(bool)) * Max(n_columns_, 1) * room));
	auto *nulls = reinterpret_cast<bool *>(values + static_cast<Size>(n_columns_) * room);
	if (room_ > 0)
	{
		memcpy(values, values_, sizeof(Datum) * n_columns_ * in_memory_);
		memcpy(nulls, nulls_, sizeof(bool) * n_columns_ * in_memory_);
		pfree(values_);
	}
	values_ = values;
	nulls_ = nulls;
	room_ = room;
}

ClaimRows::Values
ClaimRows::new_row()
{
	if (in_memory_ == room_)
		make_room();
	return row(in_memory_);
}

/* Copy a value of variable length to memory_, and add its size to bytes_. */
Datum
ClaimRows::copy(Datum value)
{
	Size size = VARSIZE_ANY(DatumGetPointer(value));
	void *copy = MemoryContextAlloc(memory_, size);
	memcpy(copy, DatumGetPointer(value), size);
	bytes_ += size;
	return PointerGetDatum(copy);
}

/* Put the row, which was formed in memory, into the tuplestore. */
void
ClaimRows::spill(Values row)
{
	/* kilobytes; small, since the rows in memory have used up work_mem already */
	static constexpr int kMemory = 64;
	MemoryContext caller = MemoryContextSwitchTo(memory_);
	if (spilled_ == nullptr)
	{
		spilled_slot_ = MakeSingleTupleTableSlot(desc_, &TTSOpsMinimalTuple);
		spilled_ = tuplestore_begin_heap(true, false, kMemory);
	}
	tuplestore_putvalues(spilled_, desc_, row.values, row.nulls);
	MemoryContextSwitchTo(caller);
}

void
ClaimRows::put(const ClaimedJob &job)
{
	Values to = new_row();
	bool spills = bytes_ / 1024 >= static_cast<Size>(work_mem);
	for (int i = 0; i < n_columns_; i++)
	{
		Datum value = claimed_value(static_cast<ClaimedColumn>(columns_[i]), job, &to.nulls[i]);
		bool copies = !spills && !to.nulls[i] && TupleDescAttr(desc_, i)->attlen == -1;
		to.values[i] = copies ? copy(value) : value;
	}
	if (spills)
		spill(to);
	else
		in_memory_++;
	bytes_ += (sizeof(Datum) + sizeof(bool)) * n_columns_;
	rows_++;
}

void
ClaimRows::give_row(void *rows, const QueueRef &ref, const QueueOptions &options, const JobRow &row,
					const Ready &ready)
{
	static_cast<ClaimRows *>(rows)->put({ref, options, row, ready});
}

void
ClaimRows::clear_rows(void *rows)
{
	auto *self = static_cast<ClaimRows *>(rows);
	self->begin(self->memory_);
}

void
ClaimRows::end_rows(void *rows, const Ready *ready, const HandedOut &)
{
	static_cast<ClaimRows *>(rows)->ready_ = ready;
}

/* ---- returning ---- */

/* Let spilled_slot_ have spilled row i. */
void
ClaimRows::seek(int i)
{
	for (; spilled_at_ <= i; spilled_at_++)
		(void) tuplestore_gettupleslot(spilled_, true, false, spilled_slot_);
	for (; spilled_at_ > i + 1; spilled_at_--)
		(void) tuplestore_gettupleslot(spilled_, false, false, spilled_slot_);
	slot_getallattrs(spilled_slot_);
}

/* Store row i in the slot. */
void
ClaimRows::load(int i, TupleTableSlot *slot)
{
	Values from;
	if (i < in_memory_)
		from = row(i);
	else
	{
		seek(i - in_memory_);
		from = {spilled_slot_->tts_values, spilled_slot_->tts_isnull};
	}
	memcpy(slot->tts_values, from.values, sizeof(Datum) * n_columns_);
	memcpy(slot->tts_isnull, from.nulls, sizeof(bool) * n_columns_);
	/*
	 * If the lease begins later than at the call of give_row(), this time differs from the stored
	 * one.
	 */
	if (expires_at_ >= 0)
		slot->tts_values[expires_at_] = TimestampTzGetDatum(ready_[i].lease_expires_at());
	ExecStoreVirtualTuple(slot);
}

bool
ClaimRows::next(bool forward, TupleTableSlot *slot)
{
	int step = forward ? 1 : -1;
	ExecClearTuple(slot);
	do
		at_ += step;
	while (at_ >= 0 && at_ < rows_ && !ready_[at_].handed_out);
	at_ = Max(-1, Min(at_, rows_));
	if (at_ < 0 || at_ == rows_)
		return false;
	load(at_, slot);
	return true;
}

void
ClaimRows::rewind()
{
	at_ = -1;
	spilled_at_ = 0;
	if (spilled_ != nullptr)
		tuplestore_rescan(spilled_);
}

} // namespace pgq
