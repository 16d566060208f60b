#include "rows/key_period.h"

#include "catalog/owner_sql.h"

namespace pgq {

/*
 * Set *period from this row version if the version is live or busy. Returns false if the version is
 * dead; a version that this transaction has deleted counts as dead.
 */
static bool
judge_period(HeapTuple tuple, Buffer buffer, KeyPeriod *period)
{
	TransactionId dead_after;
	TransactionId xid = InvalidTransactionId;
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			period->unseen = IsolationUsesXactSnapshot() &&
							 !HeapTupleSatisfiesVisibility(tuple, GetActiveSnapshot(), buffer);
			return true;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			xid = HeapTupleHeaderGetXmin(tuple->t_data);
			period->unseen = false;
			if (!TransactionIdIsCurrentTransactionId(xid))
				period->xid = xid;
			return true;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			xid = HeapTupleHeaderGetUpdateXid(tuple->t_data);
			if (TransactionIdIsCurrentTransactionId(xid))
				return false;
			period->xid = xid;
			return true;
		default:
			return false;
	}
}

static void
look_at_period(HeapTuple tuple, Buffer buffer, TupleDesc desc, const UniqueKey &key,
			   TimestampTz now, KeyPeriod *period)
{
	static constexpr KeyColumns columns = {kKeyQueueId, kKeyUniqueKey, kKeyUniqueHash};
	bool is_null;
	if (!has_key(tuple, desc, columns, key) ||
		DatumGetTimestampTz(heap_getattr(tuple, kKeyUntil, desc, &is_null)) <= now ||
		!judge_period(tuple, buffer, period))
		return;
	int64 job_id = DatumGetInt64(heap_getattr(tuple, kKeyJobId, desc, &is_null));
	period->job_id = Max(period->job_id, job_id);
	period->taken = true;
}

static constexpr IndexSpec by_hash = {"unique_key_by_hash", {{kKeyUniqueHash}}, nullptr};

static Relation
open_periods()
{
	Relation rel = table_open(look_at_tables().unique_key(), AccessShareLock);
	check_columns(rel, key_columns, std::size(key_columns));
	return rel;
}

void
require_period_index()
{
	Relation rel = open_periods();
	(void) index_of(rel, by_hash, false);
	table_close(rel, AccessShareLock);
}

/*
 * Open a lookup in the table of key periods and call visit(lookup, desc), unless the table is
 * empty.
 */
template <typename Visit>
static void
with_periods(Visit visit)
{
	Relation rel = open_periods();
	if (RelationGetNumberOfBlocks(rel) > 0)
	{
		IndexLookup lookup{};
		open_index_lookup(&lookup, rel, index_of(rel, by_hash, false), 1);
		visit(&lookup, RelationGetDescr(rel));
		end_index_lookup(&lookup);
	}
	table_close(rel, AccessShareLock);
}

static KeyPeriod
find_period(IndexLookup *lookup, TupleDesc desc, const UniqueKey &key, TimestampTz now)
{
	KeyPeriod period{};
	look_for_key(lookup, key);
	while (next_version(lookup))
	{
		look_at_period(lookup->tuple, lookup->buffer, desc, key, now, &period);
		unlock_version(lookup);
	}
	return period;
}

KeyPeriod
find_key_period(const UniqueKey &key, TimestampTz now)
{
	KeyPeriod period{};
	with_periods(
		[&](IndexLookup *lookup, TupleDesc desc) { period = find_period(lookup, desc, key, now); });
	return period;
}

bool
have_key_periods(const UniqueKey *keys, int n, TimestampTz now)
{
	bool taken = false;
	with_periods([&](IndexLookup *lookup, TupleDesc desc) {
		for (int i = 0; i < n && !taken; i++)
			taken = find_period(lookup, desc, keys[i], now).taken;
	});
	return taken;
}

void
begin_key_period(const UniqueKey &key, int64 job_id, TimestampTz until)
{
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(job_id), false},
									 {TIMESTAMPTZOID, TimestampTzGetDatum(until), false},
									 {INT4OID, Int32GetDatum(key.queue_id), false},
									 {TEXTOID, PointerGetDatum(key.key), false}};
	as_owner([&] {
		spi_execute("INSERT INTO pgq_ext.unique_key (job_id, until, queue_id, unique_key) "
					"VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
					arguments);
	});
}

int
end_key_periods(TimestampTz now, int most)
{
	const SpiArgument arguments[] = {{TIMESTAMPTZOID, TimestampTzGetDatum(now), false},
									 {INT4OID, Int32GetDatum(most), false}};
	int ended = 0;
	if (!ConditionalLockRelationOid(look_at_tables().unique_key(), RowExclusiveLock))
		return 0;
	read_few_rows();
	as_owner([&] {
		ended = static_cast<int>(spi_execute(
			"DELETE FROM pgq_ext.unique_key WHERE ctid = ANY (ARRAY(SELECT ctid "
			"FROM pgq_ext.unique_key WHERE until OPERATOR(pg_catalog.<=) $1 ORDER BY until LIMIT "
			"$2 FOR UPDATE SKIP LOCKED))",
			arguments));
	});
	return ended;
}

} // namespace pgq
