#include "rows/tuple.h"

namespace pgq {

HeapTuple
TupleFormer::form(const Datum *values, const bool *nulls, int n)
{
	while (nulls[n - 1])
		n--;
	if (desc_ == nullptr || desc_->natts != n)
	{
		desc_ = CreateTemplateTupleDesc(n);
		for (int i = 1; i <= n; i++)
			TupleDescCopyEntry(desc_, i, RelationGetDescr(rel_), i);
		finish_descriptor(desc_);
	}
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
