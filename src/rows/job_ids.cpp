#include "rows/job_ids.h"

#include "catalog/tables.h"
#include "pg/scope.h"

namespace pgq {

namespace {
/* What pg_sequence says of a sequence, as far as it matters here. */
struct Steps
{
	int64 step;
	int64 most;
};

/* The only row of a sequence, on its page. */
struct SequenceRow
{
	Buffer buffer; /* pinned and locked */
	HeapTupleData tuple;

	Form_pg_sequence_data data() const
	{
		return reinterpret_cast<Form_pg_sequence_data>(GETSTRUCT(&tuple));
	}
};

} // namespace

/* Values that nextval() logs ahead, beside those that it returns: SEQ_LOG_VALS of the server. */
static constexpr int64 kLoggedAhead = 32;

/*
 * Read the steps of the sequence. Returns false unless the sequence is a plain ascending one. The
 * caller has locked the sequence, so that ALTER SEQUENCE cannot change the steps.
 */
static bool
read_steps(Relation rel, Steps *steps)
{
	HeapTuple tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(RelationGetRelid(rel)));
	if (!HeapTupleIsValid(tuple))
		return false;
	auto *form = reinterpret_cast<Form_pg_sequence>(GETSTRUCT(tuple));
	bool plain = form->seqincrement > 0 && form->seqcache == 1 && !OidIsValid(rel->rd_rel->relam);
	*steps = {.step = form->seqincrement, .most = form->seqmax};
	ReleaseSysCache(tuple);
	return plain;
}

/*
 * Pin and lock the page of the sequence. Returns false, with no page locked, if the page or its row
 * is one that nextval() would mend or refuse.
 */
static bool
lock_sequence_row(Relation rel, SequenceRow *row)
{
	row->buffer = ReadBuffer(rel, 0);
	LockBuffer(row->buffer, BUFFER_LOCK_EXCLUSIVE);
	Page page = BufferGetPage(row->buffer);
	auto *magic = reinterpret_cast<const uint32 *>(PageGetSpecialPointer(page));
	ItemId item = PageGetItemId(page, FirstOffsetNumber);
	row->tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
	row->tuple.t_len = ItemIdGetLength(item);
	if (*magic == kSequenceMagic &&
		!TransactionIdIsValid(HeapTupleHeaderGetRawXmax(row->tuple.t_data)))
		return true;
	UnlockReleaseBuffer(row->buffer);
	return false;
}

/* Return whether n values, and those that are logged ahead, lie before the end of the sequence. */
static bool
has_values(const SequenceRow &row, const Steps &steps, int n)
{
	int64 last = row.data()->last_value;
	if (!row.data()->is_called || last > steps.most)
		return false;
	uint64 left = static_cast<uint64>(steps.most) - static_cast<uint64>(last);
	return left / static_cast<uint64>(steps.step) >= static_cast<uint64>(n + kLoggedAhead);
}

/*
 * Advance the sequence by n values, exactly as n calls of nextval_internal() would leave it, but
 * with at most one WAL record. The record has the value that is logged ahead, so a crash only loses
 * values. As in the server, the value on the page is not final before the lock is released, and the
 * first change after a checkpoint is always logged, because the redo begins with the page that the
 * checkpoint has written.
 */
static void
advance_sequence(Relation rel, SequenceRow *row, const Steps &steps, int n)
{
	Form_pg_sequence_data data = row->data();
	Page page = BufferGetPage(row->buffer);
	int64 last = data->last_value + n * steps.step;
	bool log = data->log_cnt < n || PageGetLSN(page) <= GetRedoRecPtr();
	int64 ahead = log ? kLoggedAhead : data->log_cnt - n;
	in_critical_section([&] {
		MarkBufferDirty(row->buffer);
		if (log && RelationNeedsWAL(rel))
		{
			data->last_value = last + kLoggedAhead * steps.step;
			data->log_cnt = 0;
			XLogRecPtr end = log_sequence(rel, row->buffer, &row->tuple);
			PageSetLSN(page, end); /* a macro, which reads `end` twice */
		}
		data->last_value = last;
		data->log_cnt = ahead;
	});
}

/*
 * Draw n values under one lock of the sequence's page (protocol: drawn-as-by-nextval). Returns
 * false, and draws nothing, if only nextval() can tell what to do.
 */
static bool
draw_at_once(Oid sequence, int64 *ids, int n)
{
	Steps steps;
	SequenceRow row;
	Relation rel = relation_open(sequence, RowExclusiveLock);
	bool drawn = read_steps(rel, &steps);
	if (drawn)
	{
		/* With an xid, the commit waits until the WAL record is on disk and on the standby. */
		(void) GetTopTransactionId();
		drawn = lock_sequence_row(rel, &row);
	}
	if (drawn)
	{
		int64 before = row.data()->last_value;
		drawn = has_values(row, steps, n);
		if (drawn)
			advance_sequence(rel, &row, steps, n);
		UnlockReleaseBuffer(row.buffer);
		for (int i = 0; drawn && i < n; i++)
			ids[i] = before + (i + 1) * steps.step;
	}
	relation_close(rel, NoLock);
	return drawn;
}

int64
new_job_id()
{
	return nextval_internal(look_at_tables().job_id_seq(), false);
}

/*
 * Draw the last value always by nextval_internal(). So currval() and lastval() return the same as if
 * all values were drawn in this way, and the transaction keeps the lock of the sequence to its end,
 * even if a subtransaction is rolled back.
 */
void
draw_values(Oid sequence, int64 *values, int n)
{
	int at_once = n - 1;
	int drawn = at_once > 1 && draw_at_once(sequence, values, at_once) ? at_once : 0;
	for (; drawn < n; drawn++)
		values[drawn] = nextval_internal(sequence, false);
}

void
draw_job_ids(int64 *ids, int n)
{
	draw_values(look_at_tables().job_id_seq(), ids, n);
}

} // namespace pgq
