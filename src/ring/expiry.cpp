#include "ring/expiry.h"

#include "catalog/queue_row.h"

namespace pgq {

static int
compare_queues(const void *a, const void *b)
{
	int32 x = static_cast<const Expiry::Kept *>(a)->queue_id;
	int32 y = static_cast<const Expiry::Kept *>(b)->queue_id;
	return x < y ? -1 : x > y;
}

/* Return how long the queue keeps records, as its option `name` says. */
static int64
kept_time(const QueueOptions &options, const char *name)
{
	for (const QueueOption &option : queue_options)
		if (strcmp(option.name, name) == 0)
		{
			int64 time;
			memcpy(&time, reinterpret_cast<const char *>(&options) + option.place, sizeof(time));
			return time;
		}
	elog(ERROR, "there is no option %s", name);
}

const Expiry *
read_expiry(RingName ring, TimestampTz now)
{
	if (!is_truncated_by_time(ring) || now == 0)
		return nullptr;
	int n;
	QueueRow *rows = read_queue_rows(look_at_tables(), &n);
	auto *expiry = static_cast<Expiry *>(palloc(sizeof(Expiry)));
	*expiry = {now, &rings[ring],
			   static_cast<Expiry::Kept *>(palloc(Max(n, 1) * sizeof(Expiry::Kept))), n};
	for (int i = 0; i < n; i++)
		expiry->queues[i] = {rows[i].queue_id, kept_time(rows[i].options, rings[ring].keep)};
	qsort(expiry->queues, n, sizeof(Expiry::Kept), compare_queues);
	pfree(rows);
	return expiry;
}

int64
time_left(const Expiry &expiry, HeapTuple tuple, TupleDesc desc, int64 *age)
{
	bool is_null;
	Expiry::Kept wanted = {DatumGetInt32(heap_getattr(tuple, expiry.ring->queue, desc, &is_null)),
						   0};
	TimestampTz born = DatumGetTimestampTz(heap_getattr(tuple, expiry.ring->born, desc, &is_null));
	if (pg_sub_s64_overflow(expiry.now, born, age))
		*age = born < 0 ? INT64_MAX : INT64_MIN;
	const auto *kept = static_cast<const Expiry::Kept *>(
		bsearch(&wanted, expiry.queues, expiry.n, sizeof(wanted), compare_queues));
	int64 left;
	if (kept == nullptr || pg_sub_s64_overflow(kept->time, *age, &left))
		return INT64_MAX;
	return left;
}

bool
is_past(const Expiry *expiry, HeapTuple tuple, TupleDesc desc)
{
	int64 age;
	return expiry != nullptr && time_left(*expiry, tuple, desc, &age) <= 0;
}

} // namespace pgq
