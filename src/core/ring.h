/*
 * The rings of segments. A table of jobs or records is partitioned into segments, which are filled
 * and emptied in turn. How its segments are made, checked, locked, rotated and cleared follows from
 * its line in the table rings[] below, and from nothing else.
 *
 * One more ring of records: its name, its columns and its line here, and its table in
 * schema/15_records.sql.
 */
#pragma once

#include "core/column.h"

#include <iterator>

namespace pgq {

enum RingName : uint8_t
{
	kJobRing,
	kDeadRing,
	kAttemptRing,
	kFinishedRing,
};
inline constexpr RingName all_rings[] = {kJobRing, kDeadRing, kAttemptRing, kFinishedRing};

/* ---- columns, in their order ---- */

#define PGQ_JOB_COLUMNS(COLUMN)                                \
	COLUMN(kJobId, "job_id", kInt8)                            \
	COLUMN(kJobRunAt, "run_at", kTimestamptz)                  \
	COLUMN(kJobEnqueuedAt, "enqueued_at", kTimestamptz)        \
	COLUMN(kJobQueueId, "queue_id", kInt4)                     \
	COLUMN(kJobPriority, "priority", kInt4)                    \
	COLUMN(kJobAttempts, "attempts", kInt4)                    \
	COLUMN(kJobSegment, "segment", kInt2)                      \
	COLUMN(kJobPayload, "payload", kJsonb)                     \
	COLUMN(kJobMaxAttempts, "max_attempts", kInt4, kOrNull)    \
	COLUMN(kJobExpiresAt, "expires_at", kTimestamptz, kOrNull) \
	COLUMN(kJobFence, "fence", kInt8, kOrNull)                 \
	COLUMN(kJobGroupKey, "group_key", kText, kOrNull)          \
	COLUMN(kJobGroupId, "group_id", kInt8, kOrNull)            \
	COLUMN(kJobUniqueKey, "unique_key", kText, kOrNull)        \
	COLUMN(kJobUniqueHash, "unique_hash", kInt8, kOrNull)      \
	COLUMN(kJobHeaders, "headers", kJsonb, kOrNull)            \
	COLUMN(kJobLastError, "last_error", kText, kOrNull)        \
	COLUMN(kJobProgress, "progress", kJsonb, kOrNull)

#define PGQ_DEAD_COLUMNS(COLUMN)                             \
	COLUMN(kDeadJobId, "job_id", kInt8)                      \
	COLUMN(kDeadQueueId, "queue_id", kInt4)                  \
	COLUMN(kDeadAt, "died_at", kTimestamptz)                 \
	COLUMN(kDeadEnqueuedAt, "enqueued_at", kTimestamptz)     \
	COLUMN(kDeadRunAt, "run_at", kTimestamptz)               \
	COLUMN(kDeadPriority, "priority", kInt4)                 \
	COLUMN(kDeadAttempts, "attempts", kInt4)                 \
	COLUMN(kDeadSegment, "segment", kInt2)                   \
	COLUMN(kDeadMaxAttempts, "max_attempts", kInt4, kOrNull) \
	COLUMN(kDeadFence, "fence", kInt8, kOrNull)              \
	COLUMN(kDeadGroupKey, "group_key", kText, kOrNull)       \
	COLUMN(kDeadUniqueKey, "unique_key", kText, kOrNull)     \
	COLUMN(kDeadReason, "reason", kText)                     \
	COLUMN(kDeadLastError, "last_error", kText, kOrNull)     \
	COLUMN(kDeadHeaders, "headers", kJsonb, kOrNull)         \
	COLUMN(kDeadPayload, "payload", kJsonb)

#define PGQ_ATTEMPT_COLUMNS(COLUMN)                       \
	COLUMN(kAttemptJobId, "job_id", kInt8)                \
	COLUMN(kAttemptLease, "lease", kInt8)                 \
	COLUMN(kAttemptClaimedAt, "claimed_at", kTimestamptz) \
	COLUMN(kAttemptEndedAt, "ended_at", kTimestamptz)     \
	COLUMN(kAttemptQueueId, "queue_id", kInt4)            \
	COLUMN(kAttemptNumber, "attempt", kInt4)              \
	COLUMN(kAttemptSegment, "segment", kInt2)             \
	COLUMN(kAttemptOutcome, "outcome", kText)             \
	COLUMN(kAttemptWorker, "worker", kText, kOrNull)      \
	COLUMN(kAttemptReason, "reason", kText, kOrNull)      \
	COLUMN(kAttemptError, "error", kText, kOrNull)

#define PGQ_FINISHED_COLUMNS(COLUMN)                             \
	COLUMN(kFinishedJobId, "job_id", kInt8)                      \
	COLUMN(kFinishedAt, "finished_at", kTimestamptz)             \
	COLUMN(kFinishedEnqueuedAt, "enqueued_at", kTimestamptz)     \
	COLUMN(kFinishedRunAt, "run_at", kTimestamptz)               \
	COLUMN(kFinishedQueueId, "queue_id", kInt4)                  \
	COLUMN(kFinishedPriority, "priority", kInt4)                 \
	COLUMN(kFinishedAttempts, "attempts", kInt4)                 \
	COLUMN(kFinishedSegment, "segment", kInt2)                   \
	COLUMN(kFinishedOutcome, "outcome", kText)                   \
	COLUMN(kFinishedPayload, "payload", kJsonb)                  \
	COLUMN(kFinishedWorker, "worker", kText, kOrNull)            \
	COLUMN(kFinishedResult, "result", kJsonb, kOrNull)           \
	COLUMN(kFinishedMaxAttempts, "max_attempts", kInt4, kOrNull) \
	COLUMN(kFinishedGroupKey, "group_key", kText, kOrNull)       \
	COLUMN(kFinishedUniqueKey, "unique_key", kText, kOrNull)     \
	COLUMN(kFinishedLastError, "last_error", kText, kOrNull)     \
	COLUMN(kFinishedHeaders, "headers", kJsonb, kOrNull)

#define PGQ_NUMBER(number, name, ...) number,
#define PGQ_COLUMN(number, name, ...) {name, __VA_ARGS__},

enum JobColumn : int16_t
{
	kBeforeJobColumns,
	PGQ_JOB_COLUMNS(PGQ_NUMBER)
};
inline constexpr Column job_columns[] = {PGQ_JOB_COLUMNS(PGQ_COLUMN)};
inline constexpr int kJobColumns = std::size(job_columns);

enum DeadColumn : int16_t
{
	kBeforeDeadColumns,
	PGQ_DEAD_COLUMNS(PGQ_NUMBER)
};
inline constexpr Column dead_columns[] = {PGQ_DEAD_COLUMNS(PGQ_COLUMN)};
inline constexpr int kDeadColumns = std::size(dead_columns);

enum AttemptColumn : int16_t
{
	kBeforeAttemptColumns,
	PGQ_ATTEMPT_COLUMNS(PGQ_NUMBER)
};
inline constexpr Column attempt_columns[] = {PGQ_ATTEMPT_COLUMNS(PGQ_COLUMN)};
inline constexpr int kAttemptColumns = std::size(attempt_columns);

enum FinishedColumn : int16_t
{
	kBeforeFinishedColumns,
	PGQ_FINISHED_COLUMNS(PGQ_NUMBER)
};
inline constexpr Column finished_columns[] = {PGQ_FINISHED_COLUMNS(PGQ_COLUMN)};
inline constexpr int kFinishedColumns = std::size(finished_columns);

/* Of pgq_ext.unique_key, which is no ring: there is little in it, and it is deleted by time. */
enum KeyColumn : int16_t
{
	kBeforeKeyColumns,
	kKeyJobId,
	kKeyUntil,
	kKeyQueueId,
	kKeyUniqueKey,
	kKeyUniqueHash,
};
inline constexpr Column key_columns[] = {{"job_id", kInt8},
										 {"until", kTimestamptz},
										 {"queue_id", kInt4},
										 {"unique_key", kText},
										 {"unique_hash", kInt8, kOrNull}};

/* ---- indexes ---- */

enum IndexName : uint8_t
{
	kById,	  /* unique, and how subscribers know the row */
	kByOrder, /* what is looked for first: of a queue's jobs the next, of its records the oldest */
	kDelayed, /* of jobs only, as the next one */
	kExpiring,
	kByKey,
	kByGroup, /* of a group's jobs, as by_order of a queue's */
	kFifo,	  /* the same, the one that was enqueued first */
};
inline constexpr int kIndexes = 7;

struct IndexColumn
{
	int16_t number; /* 0: there are no more */
	bool descending;
};

struct IndexSpec
{
	const char *name;		/* behind that of the segment; NULL: there is none */
	IndexColumn columns[6]; /* and one behind the last */
	const char *predicate;	/* or NULL */
};

/*
 * A job that is not delayed was due when it was enqueued, and is due whatever the clock says
 * later. The predicate of the index of delayed rows is the same.
 */
inline constexpr char kDelayedRows[] = "run_at > enqueued_at OR attempts > 0";
constexpr bool
is_delayed(int64_t run_at, int64_t enqueued_at, int32_t attempts)
{
	return run_at > enqueued_at || attempts > 0;
}

inline constexpr char kGroupedRows[] = "group_id IS NOT NULL";

/* ---- the rings ---- */

struct RingSpec
{
	const char *table; /* its segments have its name and their number; it has a column queue_id */
	const char *rows;  /* what people call them */
	const Column *columns;
	int n_columns;
	IndexSpec indexes[kIndexes]; /* by IndexName */
	int segments;
	/*
	 * Rows that outlive their segment are moved when they are less than this part of it. Copying a
	 * twentieth of what is won costs a twentieth of the work that filled the segment.
	 */
	int few;
	/* Of records: the option of their queue that says how long they are kept, and from when. */
	const char *keep;
	int16_t born;
	/* And of which queue, if those whose time is over are not deleted: their segment is truncated when it is of all of them. */
	int16_t queue;
};

inline constexpr RingSpec rings[] = {
	{.table = "job",
	 .rows = "jobs",
	 .columns = job_columns,
	 .n_columns = kJobColumns,
	 .indexes = {{"by_id", {{kJobId}}},
				 {"by_order", {{kJobQueueId}, {kJobPriority, true}, {kJobRunAt}, {kJobId}}},
				 {"delayed", {{kJobQueueId}, {kJobRunAt}, {kJobId}}, kDelayedRows},
				 {"expiring", {{kJobExpiresAt}}, "expires_at IS NOT NULL"},
				 {"by_key", {{kJobUniqueHash}, {kJobId}}, "unique_key IS NOT NULL"},
				 {"by_group",
				  {{kJobQueueId}, {kJobGroupId}, {kJobPriority, true}, {kJobRunAt}, {kJobId}},
				  kGroupedRows},
				 {"fifo", {{kJobQueueId}, {kJobGroupId}, {kJobId}}, kGroupedRows}},
	 .segments = 8,
	 .few = 20},
	/* They are rare: what is kept long may be copied once, but not take twice its room. */
	{.table = "dead_job",
	 .rows = "dead letters",
	 .columns = dead_columns,
	 .n_columns = kDeadColumns,
	 .indexes = {{"by_id", {{kDeadJobId}}}, {"by_order", {{kDeadQueueId}, {kDeadAt}}}},
	 .segments = 4,
	 .few = 2,
	 .keep = "keep_dead",
	 .born = kDeadAt},
	/* One id and lease, one end of it. */
	{.table = "attempt",
	 .rows = "attempts",
	 .columns = attempt_columns,
	 .n_columns = kAttemptColumns,
	 .indexes = {{"by_id", {{kAttemptJobId}, {kAttemptLease}}}},
	 .segments = 4,
	 .few = 2,
	 .keep = "keep_attempts",
	 .born = kAttemptEndedAt,
	 .queue = kAttemptQueueId},
	/* An id can end twice, if somebody has brought its row back: the end of a job must not fail by that. */
	{.table = "finished_job",
	 .rows = "finished jobs",
	 .columns = finished_columns,
	 .n_columns = kFinishedColumns,
	 .indexes = {{"by_id", {{kFinishedJobId}, {kFinishedAt}}}},
	 .segments = 4,
	 .few = 2,
	 .keep = "keep_finished",
	 .born = kFinishedAt,
	 .queue = kFinishedQueueId},
};
inline constexpr int kRings = std::size(rings);
static_assert(std::size(all_rings) == kRings);

/* Segments are numbered through, ring after ring. */
constexpr int
first_in(int ring)
{
	int first = 0;
	for (int i = 0; i < ring; i++)
		first += rings[i].segments;
	return first;
}

constexpr int
segments_in(int ring)
{
	return rings[ring].segments;
}

inline constexpr int kMaxSegments = segments_in(kJobRing); /* of jobs, and these come first */
inline constexpr int kAllSegments = first_in(kRings);
inline constexpr uint32_t kNoSegment = UINT32_MAX;

constexpr bool
is_truncated_by_time(int ring)
{
	return rings[ring].queue != 0;
}

constexpr RingName
ring_of(int segment)
{
	int ring = 0;
	while (segment >= first_in(ring + 1))
		ring++;
	return static_cast<RingName>(ring);
}

} // namespace pgq
