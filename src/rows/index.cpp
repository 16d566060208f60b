#include "rows/index.h"

#include "catalog/shape.h"
#include "pg/scope.h"
#include "rows/entries.h"

namespace pgq {

static IndexTuple
form_entry(Relation heap, Relation index, HeapTuple tuple)
{
	Datum values[INDEX_MAX_KEYS];
	bool nulls[INDEX_MAX_KEYS];
	for (int c = 0; c < IndexRelationGetNumberOfKeyAttributes(index); c++)
		values[c] = heap_getattr(tuple, index->rd_index->indkey.values[c], RelationGetDescr(heap),
								 &nulls[c]);
	IndexTuple entry = index_form_tuple(RelationGetDescr(index), values, nulls);
	entry->t_tid = tuple->t_self;
	return entry;
}

[[noreturn]] static void
refuse_twin(Relation index, IndexTuple entry)
{
	bool is_null;
	Datum job_id = index_getattr(entry, 1, RelationGetDescr(index), &is_null);
	ereport(
		ERROR,
		(errcode(ERRCODE_UNIQUE_VIOLATION),
		 errmsg("job %lld is in more than one segment",
				static_cast<long long>(DatumGetInt64(job_id))),
		 errhint(
			 "Find out which row of pgq_ext.job is right, and delete the other rows of the job.")));
}

/*
 * Insert the entries of the tuples for which wanted() is true into one of the extension's indexes.
 * All these indexes are btrees on plain columns of fixed width.
 */
template <typename Wanted>
static void
insert_entries(Relation heap, Oid oid, HeapTuple *tuples, int n, IndexUniqueCheck unique,
			   Wanted wanted)
{
	Relation index = index_open(oid, RowExclusiveLock);
	auto *entries = static_cast<IndexTuple *>(palloc(n * sizeof(IndexTuple)));
	int wanted_n = 0;
	for (int i = 0; i < n; i++)
		if (wanted(tuples[i]))
			entries[wanted_n++] = form_entry(heap, index, tuples[i]);
	insert_in_btree(heap, index, entries, wanted_n, unique, refuse_twin);
	index_close(index, NoLock);
}

template <typename Wanted>
static bool
is_any(HeapTuple *tuples, int n, Wanted wanted)
{
	for (int i = 0; i < n; i++)
		if (wanted(tuples[i]))
			return true;
	return false;
}

static bool
is_delayed(Relation heap, HeapTuple tuple)
{
	bool is_null;
	auto get = [&](JobColumn column) {
		return heap_getattr(tuple, column, RelationGetDescr(heap), &is_null);
	};
	return is_delayed(DatumGetTimestampTz(get(kJobRunAt)), DatumGetTimestampTz(get(kJobEnqueuedAt)),
					  DatumGetInt32(get(kJobAttempts)));
}

/*
 * Raise an error if a deferrable constraint may be violated: the server's trigger that checks such
 * constraints later does not fire for rows that are inserted without the executor.
 */
static void
refuse_conflict(List *indexes, const Relation rel)
{
	if (indexes == NIL)
		return;
	ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION),
					errmsg("a row may conflict with another row in index \"%s\" of table \"%s\"",
						   get_rel_name(linitial_oid(indexes)), RelationGetRelationName(rel))));
}

/*
 * Insert entries into all indexes of rel except the indexes in `skip`. The server's executor does
 * this, since an administrator may have added indexes with expressions, predicates and constraints.
 * Functions in these indexes run with the rights of the owner of rel, not of the session that
 * enqueues. Without wait, a possible duplicate raises an error.
 */
static void
insert_as_owner(Relation rel, HeapTuple *tuples, int n, const Oid *skip, int n_skip, bool wait,
				bool only_summarizing = false)
{
	with_rights_of(rel->rd_rel->relowner, [&] {
		EState *estate = CreateExecutorState();
		TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
		ResultRelInfo *result = makeNode(ResultRelInfo);
		InitResultRelInfo(result, rel, 0, nullptr, 0);
		ExecOpenIndices(result, false);
		for (int i = 0; i < result->ri_NumIndices; i++)
			for (int k = 0; k < n_skip; k++)
				if (RelationGetRelid(result->ri_IndexRelationDescs[i]) == skip[k])
					result->ri_IndexRelationInfo[i]->ii_ReadyForInserts = false;
		for (int i = 0; i < n; i++)
		{
			ResetPerTupleExprContext(estate);
			ExecStoreHeapTuple(tuples[i], slot, false);
			refuse_conflict(insert_index_tuples(result, slot, estate, !wait, only_summarizing),
							rel);
		}
		ExecCloseIndices(result);
		ExecDropSingleTupleTableSlot(slot);
		FreeExecutorState(estate);
	});
}

void
insert_job_index_entries(Relation rel, int segment_number, HeapTuple *tuples, int n, bool wait)
{
	/* Read the list of indexes after the segment is locked: from then on the list cannot change. */
	Shape shape = shape_of(rel, segment_number);
	auto every = [](HeapTuple) { return true; };
	insert_entries(rel, shape.index[kById], tuples, n,
				   wait ? UNIQUE_CHECK_YES : UNIQUE_CHECK_PARTIAL, every);
	insert_entries(rel, shape.index[kByOrder], tuples, n, UNIQUE_CHECK_NO, every);
	/*
	 * Each of the other indexes contains only a few rows of the table. Usually none of the new rows
	 * belongs in such an index, so the index need not be opened.
	 */
	auto insert_some = [&](IndexName index, auto wanted) {
		if (is_any(tuples, n, wanted))
			insert_entries(rel, shape.index[index], tuples, n, UNIQUE_CHECK_NO, wanted);
	};
	auto has = [&](JobColumn column) {
		return [rel, column](HeapTuple tuple) {
			return !heap_attisnull(tuple, column, RelationGetDescr(rel));
		};
	};
	insert_some(kDelayed, [&](HeapTuple tuple) { return is_delayed(rel, tuple); });
	insert_some(kExpiring, has(kJobExpiresAt));
	insert_some(kByKey, has(kJobUniqueKey));
	insert_some(kByGroup, has(kJobGroupId));
	insert_some(kFifo, has(kJobGroupId));
	if (shape.has_batches)
	{
		insert_some(kByBatch, has(kJobBatch));
		insert_some(kBlocked, has(kJobBlocked));
	}
	if (shape.has_others)
		insert_as_owner(rel, tuples, n, shape.index, lengthof(shape.index), wait);
}

void
insert_all_index_entries(Relation rel, HeapTuple *tuples, int n)
{
	insert_as_owner(rel, tuples, n, nullptr, 0, true);
}

void
insert_summaries(Relation rel, HeapTuple tuple)
{
	insert_as_owner(rel, &tuple, 1, nullptr, 0, true, true);
}

void
insert_record_index_entries(Relation rel, int segment_number, HeapTuple *tuples, int n)
{
	/* Read the list of indexes after the segment is locked: from then on the list cannot change. */
	Shape shape = shape_of(rel, segment_number);
	auto every = [](HeapTuple) { return true; };
	insert_entries(rel, shape.index[kById], tuples, n, UNIQUE_CHECK_YES, every);
	if (OidIsValid(shape.index[kByOrder]))
		insert_entries(rel, shape.index[kByOrder], tuples, n, UNIQUE_CHECK_NO, every);
	auto is_member = [&](HeapTuple tuple) {
		return !heap_attisnull(tuple, kDeadBatch, RelationGetDescr(rel));
	};
	if (OidIsValid(shape.index[kByBatch]) && is_any(tuples, n, is_member))
		insert_entries(rel, shape.index[kByBatch], tuples, n, UNIQUE_CHECK_NO, is_member);
	if (shape.has_others)
		insert_as_owner(rel, tuples, n, shape.index, lengthof(shape.index), true);
}

void
insert_index_entries(Relation rel, Oid own, HeapTuple *tuples, int n)
{
	insert_entries(rel, own, tuples, n, UNIQUE_CHECK_NO, [](HeapTuple) { return true; });
	List *indexes = RelationGetIndexList(rel);
	if (list_length(indexes) > 1)
		insert_as_owner(rel, tuples, n, &own, 1, true);
	list_free(indexes);
}

void
open_index_lookup(IndexLookup *lookup, Relation heap, Oid index, int keys)
{
	lookup->index = index_open(index, AccessShareLock);
	lookup->slot = table_slot_create(heap, nullptr);
	InitNonVacuumableSnapshot(lookup->snapshot, GlobalVisTestFor(heap));
	lookup->scan = begin_index_scan(heap, lookup->index, &lookup->snapshot, keys);
	lookup->buffer = InvalidBuffer;
}

IndexLookup *
begin_index_lookup(Relation heap, Oid by_id, int64 job_id)
{
	auto *lookup = static_cast<IndexLookup *>(palloc0(sizeof(IndexLookup)));
	open_index_lookup(lookup, heap, by_id, 1);
	ScanKeyData key;
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
	index_rescan(lookup->scan, &key, 1, nullptr, 0);
	return lookup;
}

static bool
step_to_version(IndexLookup *lookup, ScanDirection direction)
{
	Assert(lookup->buffer == InvalidBuffer);
	if (!index_getnext_slot(lookup->scan, direction, lookup->slot))
		return false;
	auto *slot = reinterpret_cast<BufferHeapTupleTableSlot *>(lookup->slot);
	lookup->tuple = slot->base.tuple;
	lookup->buffer = slot->buffer;
	LockBuffer(lookup->buffer, BUFFER_LOCK_SHARE);
	return true;
}

bool
next_version(IndexLookup *lookup)
{
	return step_to_version(lookup, ForwardScanDirection);
}

bool
previous_version(IndexLookup *lookup)
{
	return step_to_version(lookup, BackwardScanDirection);
}

void
unlock_version(IndexLookup *lookup)
{
	LockBuffer(lookup->buffer, BUFFER_LOCK_UNLOCK);
	lookup->buffer = InvalidBuffer;
}

void
end_index_lookup(IndexLookup *lookup)
{
	index_endscan(lookup->scan);
	ExecDropSingleTupleTableSlot(lookup->slot);
	index_close(lookup->index, AccessShareLock);
}

} // namespace pgq
