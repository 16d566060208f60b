#include "rows/tuple.h"

#include <utility>

namespace pgq {

/* Make a descriptor of the first n columns of the table, in the current memory context. */
static TupleDesc
describe_first(Relation rel, int n)
{
	TupleDesc desc = CreateTemplateTupleDesc(n);
	for (int i = 1; i <= n; i++)
		TupleDescCopyEntry(desc, i, RelationGetDescr(rel), i);
	finish_descriptor(desc);
	return desc;
}

TupleDesc
KeptDescriptors::first(Relation rel, int n)
{
	if (table_ != RelationGetRelid(rel) || found_at_ != count_catalog_reads())
	{
		for (TupleDesc &desc : first_)
			if (TupleDesc old = std::exchange(desc, nullptr))
				FreeTupleDesc(old);
		table_ = RelationGetRelid(rel);
		found_at_ = count_catalog_reads();
	}
	if (first_[n] == nullptr)
	{
		MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
		first_[n] = describe_first(rel, n);
		MemoryContextSwitchTo(caller);
	}
	return first_[n];
}

HeapTuple
TupleFormer::form(const Datum *values, const bool *nulls, int n)
{
	while (nulls[n - 1])
		n--;
	if (desc_ == nullptr || desc_->natts != n)
		desc_ = kept_ != nullptr ? kept_->first(rel_, n) : describe_first(rel_, n);
	return heap_form_tuple(desc_, const_cast<Datum *>(values), const_cast<bool *>(nulls));
}

/*
 * Insert tuples by heap_multi_insert(), which needs slots with a descriptor that is not
 * reference-counted. Each slot refers to its tuple during the call, so that the tuple is not
 * copied.
 */
static void
insert_many_tuples(Relation rel, HeapTuple *tuples, int n)
{
	TupleDesc desc = CreateTupleDescCopy(RelationGetDescr(rel));
	auto **slots = static_cast<TupleTableSlot **>(palloc(n * sizeof(TupleTableSlot *)));
	for (int i = 0; i < n; i++)
	{
		slots[i] = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
		ExecStoreHeapTuple(tuples[i], slots[i], true);
	}
	heap_multi_insert(rel, slots, n, GetCurrentCommandId(true), 0, nullptr);
	for (int i = 0; i < n; i++)
	{
		tuples[i]->t_self = slots[i]->tts_tid;
		slots[i]->tts_flags &= ~TTS_FLAG_SHOULDFREE;
		ExecDropSingleTupleTableSlot(slots[i]);
	}
}

void
insert_tuples(Relation rel, HeapTuple *tuples, int n)
{
	if (n == 1)
		heap_insert(rel, tuples[0], GetCurrentCommandId(true), 0, nullptr);
	else
		insert_many_tuples(rel, tuples, n);
}

} // namespace pgq
