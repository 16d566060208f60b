#include "rows/dead_job.h"

#include "pg/stop_point.h"
#include "rows/index.h"
#include "catalog/owner_sql.h"

namespace pgq {

/* The version that a delete would take. False: there is none. */
static bool
find_dead_job(Relation rel, Oid by_id, int64 job_id, ItemPointerData *tid)
{
	bool found = false;
	IndexLookup *lookup = begin_index_lookup(rel, by_id, job_id);
	while (!found && next_version(lookup))
	{
		TransactionId dead_after;
		HTSV_Result state =
			HeapTupleSatisfiesVacuumHorizon(lookup->tuple, lookup->buffer, &dead_after);
		found =
			state == HEAPTUPLE_LIVE || (state == HEAPTUPLE_DELETE_IN_PROGRESS &&
										!TransactionIdIsCurrentTransactionId(
											HeapTupleHeaderGetUpdateXid(lookup->tuple->t_data)));
		*tid = lookup->tuple->t_self;
		unlock_version(lookup);
	}
	end_index_lookup(lookup);
	return found;
}

void
remove_dead_job(int64 job_id, bool wait)
{
	for (int i = first_in(kDeadRing); i < kAllSegments; i++)
	{
		const Segment *known = segment_by_number(i);
		if (known == nullptr)
			continue;
		const Segment segment = *known;
		Relation rel = table_open(segment.heap, RowExclusiveLock);
		ItemPointerData tid;
		bool done = RelationGetNumberOfBlocks(rel) == 0;
		while (!done && find_dead_job(rel, segment.by_id, job_id, &tid))
		{
			TM_FailureData failure;
			TM_Result result = heap_delete(rel, &tid, GetCurrentCommandId(true), InvalidSnapshot,
										   wait, &failure, false);
			if (result == TM_BeingModified)
				ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
								errmsg("an older dead letter of job %lld is locked",
									   static_cast<long long>(job_id))));
			done = result == TM_Ok;
			CHECK_FOR_INTERRUPTS();
		}
		table_close(rel, NoLock);
	}
}

void
insert_dead_job(const JobRow &row, int32 attempts, const char *reason, bool has_error, Datum error)
{
	const Segment &segment = current_segment(kDeadRing);
	Relation rel = table_open(segment.heap, RowExclusiveLock);
	Datum values[kDeadColumns] = {};
	bool nulls[kDeadColumns];
	memset(nulls, true, sizeof(nulls));
	auto set = [&](DeadColumn column, Datum value) {
		values[column - 1] = value;
		nulls[column - 1] = false;
	};
	auto copy = [&](DeadColumn to, JobColumn from, bool varlena) {
		if (!row.is_null(from))
			/* A toasted value belongs to the row that is deleted. */
			set(to, varlena ? PointerGetDatum(PG_DETOAST_DATUM_COPY(row.value(from)))
							: row.value(from));
	};
	copy(kDeadJobId, kJobId, false);
	copy(kDeadQueueId, kJobQueueId, false);
	set(kDeadAt, TimestampTzGetDatum(wall_now()));
	copy(kDeadEnqueuedAt, kJobEnqueuedAt, false);
	copy(kDeadRunAt, kJobRunAt, false);
	copy(kDeadPriority, kJobPriority, false);
	set(kDeadAttempts, Int32GetDatum(attempts));
	set(kDeadSegment, Int16GetDatum(static_cast<int16>(segment.number)));
	copy(kDeadMaxAttempts, kJobMaxAttempts, false);
	copy(kDeadGroupKey, kJobGroupKey, true);
	copy(kDeadUniqueKey, kJobUniqueKey, true);
	set(kDeadReason, CStringGetTextDatum(reason));
	if (has_error)
		set(kDeadLastError, error);
	copy(kDeadHeaders, kJobHeaders, true);
	copy(kDeadPayload, kJobPayload, true);

	HeapTuple tuple = TupleFormer(rel).form(values, nulls, kDeadColumns);
	heap_insert(rel, tuple, GetCurrentCommandId(true), 0, nullptr);
	insert_index_entries(rel, tuple);
	table_close(rel, NoLock);
}

/* For the rest of the transaction. */
static void
set_options()
{
	static const struct
	{
		const char *name;
		const char *value;
	} options[] = {
		/* All locks that are known of are held; what else there may be ends in an error soon. */
		{"lock_timeout", "1s"},
		/* Rows are read by their place, or by (queue_id, died_at), whatever the statistics say. */
		{"enable_seqscan", "off"},
		{"enable_bitmapscan", "off"},
		{"enable_sort", "off"},
	};
	for (const auto &option : options)
		(void) set_config_option(option.name, option.value, PGC_SUSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
}

/* Their places from *next on, as an array; *next goes on behind them. */
static int
lock_rows(const Segment &segment, Position *next, int most, Datum *places)
{
	ItemPointerData from;
	ItemPointerSet(&from, next->block, next->offset);
	const SpiArgument arguments[] = {{TIDOID, PointerGetDatum(&from), false},
									 {INT4OID, Int32GetDatum(most), false}};
	spi_execute(psprintf("SELECT count(*)::int4, array_agg(ctid), max(ctid) "
						 "FROM (SELECT ctid FROM ONLY pgq_ext.%s WHERE ctid >= $1 LIMIT $2 "
						 "FOR UPDATE SKIP LOCKED) locked",
						 quote_identifier(get_rel_name(segment.heap))),
				arguments);
	bool is_null;
	int n = DatumGetInt32(spi_value(0, 1, &is_null));
	if (n == 0)
		return 0;
	*places = spi_value(0, 2, &is_null);
	auto *last = reinterpret_cast<ItemPointer>(DatumGetPointer(spi_value(0, 3, &is_null)));
	*next = {ItemPointerGetBlockNumber(last), OffsetNumberNext(ItemPointerGetOffsetNumber(last))};
	return n;
}

bool
move_dead_jobs(const Segment &from, const Segment &to, Position *next, int most, int *moved)
{
	const Tables &t = tables();
	*moved = 0;
	if (!ConditionalLockRelationOid(t.dead_job, RowExclusiveLock) ||
		!ConditionalLockRelationOid(t.queue, RowExclusiveLock))
		return true;
	bool at_end = false;
	set_options();
	as_owner([&] {
		Datum places;
		int n = lock_rows(from, next, most, &places);
		at_end = n < most;
		if (n == 0)
			return;
		const SpiArgument arguments[] = {
			{INT2OID, Int16GetDatum(static_cast<int16>(from.number)), false},
			{INT2OID, Int16GetDatum(static_cast<int16>(to.number)), false},
			{TIDARRAYOID, places, false}};
		*moved = static_cast<int>(spi_execute("UPDATE pgq_ext.dead_job SET segment = $2 "
											  "WHERE segment = $1 AND ctid = ANY ($3)",
											  arguments));
	});
	stop_point("rotation-dead-moved");
	return at_end;
}

int
expire_dead_jobs(TimestampTz now, int most)
{
	const Tables &t = tables();
	int expired = 0;
	if (!lock_with_indexes(t.queue, AccessShareLock))
		return 0;
	set_options();
	for (int i = t.segments; i < t.all_segments && expired < most; i++)
	{
		const Segment &segment = t.segment[i];
		if (is_bare(segment) || !lock_for_writing(segment))
			continue;
		const SpiArgument arguments[] = {{TIMESTAMPTZOID, TimestampTzGetDatum(now), false},
										 {INT4OID, Int32GetDatum(most - expired), false}};
		as_owner([&] {
			const char *name = quote_identifier(get_rel_name(segment.heap));
			expired += static_cast<int>(spi_execute(
				psprintf("DELETE FROM ONLY pgq_ext.%s WHERE ctid = ANY (ARRAY("
						 "SELECT e.ctid FROM pgq_ext.queue q CROSS JOIN LATERAL ("
						 "SELECT d.ctid FROM ONLY pgq_ext.%s d WHERE d.queue_id = q.queue_id "
						 "AND d.died_at <= $1 - q.keep_dead ORDER BY d.died_at LIMIT $2 "
						 "FOR UPDATE SKIP LOCKED) e "
						 "LIMIT $2))",
						 name, name),
				arguments));
		});
	}
	return expired;
}

} // namespace pgq
