/*
 * Functions that return the rows of the views queue_stats and queue_latency: counters of queues.
 */
#include "api/args.h"
#include "api/result_rows.h"
#include "catalog/reader.h"
#include "catalog/rights.h"
#include "catalog/tables.h"
#include "engine/copies.h"
#include "load/attach.h"

namespace pgq {

template <typename Put>
static void
for_each_stats(Put put)
{
	auto *copy = static_cast<StatsCopy *>(palloc(sizeof(StatsCopy)));
	for_each_visible_queue(tables().database, [&](const QueueRef &ref) {
		if (copy_stats(ref, copy))
			put(static_cast<const StatsCopy &>(*copy));
	});
	pfree(copy);
}

/* ---- queue_stats ---- */

namespace {

enum class StatColumn
{
	kQueueId,
	kLoadedAt,
	kEnqueued,
	kDeduplicated,
	kClaims,
	kEmptyClaims,
	kHandedOut,
	kAcked,
	kFailed,
	kReleased,
	kCancelled,
	kLost,
	kDeadLettered,
	kExpired,
	kUncounted,
	kStaleCalls,
	kRejected,
	kGhosts,
	kRepaired,
	kReconciled,
	kWaitP50,
	kWaitP95,
	kRunP50,
	kRunP95,
	kTotalP50,
	kTotalP95,
	kColumns
};

} // namespace

static void
set_counters(ResultRow<StatColumn> *row, const StatsCopy &copy, uint64 reconciled)
{
	using enum StatColumn;
	const QueueCounters &counters = copy.counters;
	row->set(kQueueId, copy.queue_id);
	row->set(kLoadedAt, copy.loaded_at);
	row->set(kEnqueued, counters.enqueued);
	row->set(kDeduplicated, counters.deduplicated);
	row->set(kClaims, copy.of(Call::kClaim));
	row->set(kEmptyClaims, copy.of(Call::kEmptyClaim));
	row->set(kHandedOut, counters.handed_out);
	row->set(kAcked, counters.acked);
	row->set(kFailed, counters.failed);
	row->set(kReleased, counters.released);
	row->set(kCancelled, counters.cancelled);
	row->set(kLost, counters.lost);
	row->set(kDeadLettered, counters.dead_lettered);
	row->set(kExpired, counters.expired);
	row->set(kUncounted, counters.uncounted);
	row->set(kStaleCalls, copy.of(Call::kStale));
	row->set(kRejected, copy.of(Call::kRejected));
	row->set(kGhosts, counters.ghosts);
	row->set(kRepaired, counters.repaired);
	row->set(kReconciled, reconciled);
}

static Datum
interval_of(int64 duration)
{
	auto *interval = static_cast<Interval *>(palloc0(sizeof(Interval)));
	interval->time = duration;
	return IntervalPGetDatum(interval);
}

/*
 * Set the columns p50 and p95: percentiles of the times that were measured in the last five to ten
 * minutes. Without a measurement in that time, the columns stay NULL.
 */
static void
set_percentiles(ResultRow<StatColumn> *row, const Latency &latency, StatColumn p50, StatColumn p95)
{
	Histogram::Counts counts = latency.recent.counts(monotonic_now());
	if (counts.count() == 0)
		return;
	row->set_datum(p50, interval_of(counts.percentile(50)));
	row->set_datum(p95, interval_of(counts.percentile(95)));
}

static void
put_stats(ResultRows *rows, const StatsCopy &copy, uint64 reconciled)
{
	using enum StatColumn;
	ResultRow<StatColumn> row;
	set_counters(&row, copy, reconciled);
	set_percentiles(&row, copy.latency.of(Phase::kWait), kWaitP50, kWaitP95);
	set_percentiles(&row, copy.latency.of(Phase::kRun), kRunP50, kRunP95);
	set_percentiles(&row, copy.latency.of(Phase::kTotal), kTotalP50, kTotalP95);
	rows->put(row);
}

/* ---- queue_latency ---- */

namespace {

enum class LatencyColumn
{
	kQueueId,
	kPhase,
	kLessThan,
	kCounts,
	kCount,
	kSum,
	kColumns
};

} // namespace

static const char *const phase_names[kPhases] = {"wait", "run", "total"};

/* Bucket boundaries are powers of two microseconds: from 128 us (2^7) to 9.5 hours (2^35). */
static constexpr int kFirstBoundary = 7;
static constexpr int kLastBoundary = 35;

static Datum
array_of(Datum *elements, int n, Oid type)
{
	static_assert(FLOAT8PASSBYVAL);
	return PointerGetDatum(
		construct_array(elements, n, type, sizeof(int64), true, TYPALIGN_DOUBLE));
}

static void
put_latency(ResultRows *rows, int32 queue_id, int phase, const Histogram &histogram)
{
	using enum LatencyColumn;
	const Histogram::Counts &counts = histogram.counts();
	Datum boundaries[kLastBoundary - kFirstBoundary + 1];
	Datum shorter[lengthof(boundaries)];
	int64 seen = 0;
	int bucket = 0;
	for (int i = 0; i < static_cast<int>(lengthof(boundaries)); i++)
	{
		int64 boundary = INT64CONST(1) << (kFirstBoundary + i);
		for (; bucket < Histogram::Counts::bucket_of(boundary); bucket++)
			seen += counts.at(bucket);
		boundaries[i] = Float8GetDatum(static_cast<double>(boundary) / USECS_PER_SEC);
		shorter[i] = Int64GetDatum(seen);
	}
	ResultRow<LatencyColumn> row;
	row.set(kQueueId, queue_id);
	row.set(kPhase, phase_names[phase]);
	row.set_datum(kLessThan, array_of(boundaries, lengthof(boundaries), FLOAT8OID));
	row.set_datum(kCounts, array_of(shorter, lengthof(shorter), INT8OID));
	row.set(kCount, counts.count());
	row.set(kSum, static_cast<double>(histogram.sum()) / USECS_PER_SEC);
	rows->put(row);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_stat_entries);
PG_FUNCTION_INFO_V1(pgq_latency_entries);

PGDLLEXPORT Datum
pgq_stat_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.stat_entries()");
	require_reader(fcinfo, {"queue_stats"});
	ResultRows rows(fcinfo);
	uint64 reconciled = value_of(tables().database->reconciled);
	for_each_stats([&](const StatsCopy &copy) { put_stats(&rows, copy, reconciled); });
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_latency_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.latency_entries()");
	require_reader(fcinfo, {"queue_latency"});
	ResultRows rows(fcinfo);
	for_each_stats([&](const StatsCopy &copy) {
		for (int phase = 0; phase < kPhases; phase++)
			put_latency(&rows, copy.queue_id, phase, copy.latency.latency[phase].all);
	});
	return (Datum) 0;
}
}
