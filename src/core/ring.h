/*
 * The rings of segments. A table of jobs or records is partitioned into segments, which are filled
 * and emptied in turn. The entry of a table in rings[] below has everything that is special about
 * its segments: how they are made, checked, locked, rotated and cleared.
 *
 * A new ring of records needs a name, columns and an entry here, and a table in
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
	COLUMN(kJobProgress, "progress", kJsonb, kOrNull)          \
	COLUMN(kJobBatch, "batch_id", kInt8, kOrNull)              \
	COLUMN(kJobBlocked, "blocked", kInt8, kOrNull)             \
	COLUMN(kJobParents, "parents", kInt2, kOrNull)

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
	COLUMN(kDeadPayload, "payload", kJsonb)                  \
	COLUMN(kDeadBatch, "batch_id", kInt8, kOrNull)           \
	COLUMN(kDeadParents, "parents", kInt2, kOrNull)

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
	COLUMN(kFinishedHeaders, "headers", kJsonb, kOrNull)         \
	COLUMN(kFinishedBatch, "batch_id", kInt8, kOrNull)           \
	COLUMN(kFinishedParents, "parents", kInt2, kOrNull)

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

/*
 * Columns of pgq_ext.unique_key. This table is not a ring: the table is small, and a row is deleted
 * when its time is over.
 */
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

/* Columns of pgq_ext.job_dependency and pgq_ext.job_outcome, which are no rings either. */
enum DependencyColumn : int16_t
{
	kBeforeDependencyColumns,
	kDependencyParent,
	kDependencyChild,
	kDependencyOnFailure,
	kDependencyRef,
};
inline constexpr Column dependency_columns[] = {
	{"parent_id", kInt8}, {"child_id", kInt8}, {"on_failure", kInt2}, {"ref", kText, kOrNull}};
inline constexpr int kDependencyColumns = std::size(dependency_columns);

enum OutcomeColumn : int16_t
{
	kBeforeOutcomeColumns,
	kOutcomeJobId,
	kOutcomeWhat,
	kOutcomeEndedAt,
	kOutcomeQueueId,
	kOutcomeResult,
	kOutcomeError,
};
inline constexpr Column outcome_columns[] = {
	{"job_id", kInt8},	 {"outcome", kInt2},		  {"ended_at", kTimestamptz},
	{"queue_id", kInt4}, {"result", kJsonb, kOrNull}, {"error", kText, kOrNull}};
inline constexpr int kOutcomeColumns = std::size(outcome_columns);

/* Columns of pgq_ext.job_batch, as far as the library reads them by position. */
enum BatchColumn : int16_t
{
	kBeforeBatchColumns,
	kBatchId,
	kBatchCreatedAt,
	kBatchClosedAt,
	kBatchFinishedAt,
	kBatchFailedAt,
	kBatchSucceededAt,
	kBatchCancelledAt,
	kBatchPending,
	kBatchRestored,
	kBatchMaker,
};
inline constexpr Column batch_columns[] = {{"batch_id", kInt8},
										   {"created_at", kTimestamptz},
										   {"closed_at", kTimestamptz, kOrNull},
										   {"finished_at", kTimestamptz, kOrNull},
										   {"failed_at", kTimestamptz, kOrNull},
										   {"succeeded_at", kTimestamptz, kOrNull},
										   {"cancelled_at", kTimestamptz, kOrNull},
										   {"pending", kBool},
										   {"restored", kBool},
										   {"maker", kOid, kOrNull}};

/* Columns of pgq_ext.batch_note. */
enum NoteColumn : int16_t
{
	kBeforeNoteColumns,
	kNoteBatch,
	kNoteWhat,
	kNoteN,
};
inline constexpr Column note_columns[] = {{"batch_id", kInt8}, {"what", kInt2}, {"n", kInt8}};

/* ---- indexes ---- */

enum IndexName : uint8_t
{
	kById,	  /* unique; identifies the row to subscribers of a publication */
	kByOrder, /* for jobs: the next job of a queue; for dead letters: the oldest dead letter */
	kDelayed, /* for jobs only, as all indexes below */
	kExpiring,
	kByKey,
	kByGroup, /* the next job of a group */
	kFifo,	  /* the job of a group that was enqueued first */
	kByBatch, /* for jobs and dead letters: the members of a batch */
	kBlocked, /* the blocked jobs */
};
inline constexpr int kIndexes = 9;

/*
 * Return whether the index is missing in a database that was updated from version 0.1, until
 * pgq_ext.add_batch_columns() is called.
 */
constexpr bool
is_new_index(int index)
{
	return index == kByBatch || index == kBlocked;
}

struct IndexColumn
{
	int16_t number; /* 0: end of the list */
	bool descending;
};

struct IndexSpec
{
	/*
	 * Suffix of the index's name, after the name of the segment; NULL: the ring has no such index.
	 */
	const char *name;
	IndexColumn columns[6]; /* ends with an entry whose number is 0 */
	const char *predicate;	/* NULL: the index is not partial */
};

/*
 * Return whether the job has to wait for its run_at. A job that was due when it was enqueued and
 * has not failed is due at once, even if the clock is set back. kDelayedRows is the same condition
 * in SQL, the predicate of the index of delayed rows.
 */
inline constexpr char kDelayedRows[] = "run_at > enqueued_at OR attempts > 0";
constexpr bool
is_delayed(int64_t run_at, int64_t enqueued_at, int32_t attempts)
{
	return run_at > enqueued_at || attempts > 0;
}

inline constexpr char kGroupedRows[] = "group_id IS NOT NULL";
inline constexpr char kMemberRows[] = "batch_id IS NOT NULL";
inline constexpr char kBlockedRows[] = "blocked IS NOT NULL";

/* ---- the rings ---- */

struct RingSpec
{
	/*
	 * Name of the table. Its segments have this name with their number appended. The table has a
	 * column queue_id.
	 */
	const char *table;
	const char *rows; /* the word for rows of this table in messages */
	const Column *columns;
	int n_columns;
	/*
	 * Number of columns before batch_id. A database that was updated from version 0.1 has only
	 * these columns, and no index of is_new_index(), until pgq_ext.add_batch_columns() is called.
	 */
	int n_columns_before;
	IndexSpec indexes[kIndexes]; /* indexed by IndexName */
	int segments;
	/*
	 * The live rows of a closed segment are moved when they are less than 1/few of the segment. So
	 * with few = 20, the moves cost at most a twentieth of the work that filled the segment.
	 */
	int few;
	/* For records: the queue option that says how long a record is kept. */
	const char *keep;
	/* For records: number of the column with the time from which on `keep` is counted. */
	int16_t born;
	/*
	 * The number of the column queue_id, for a ring whose segments are truncated when the time of
	 * all their rows is over. 0: the ring has no `keep`, or its rows are deleted one by one when
	 * their time is over.
	 */
	int16_t queue;
};

inline constexpr RingSpec rings[] = {
	{.table = "job",
	 .rows = "jobs",
	 .columns = job_columns,
	 .n_columns = kJobColumns,
	 .n_columns_before = kJobBatch - 1,
	 .indexes = {{"by_id", {{kJobId}}},
				 {"by_order", {{kJobQueueId}, {kJobPriority, true}, {kJobRunAt}, {kJobId}}},
				 {"delayed", {{kJobQueueId}, {kJobRunAt}, {kJobId}}, kDelayedRows},
				 {"expiring", {{kJobExpiresAt}}, "expires_at IS NOT NULL"},
				 {"by_key", {{kJobUniqueHash}, {kJobId}}, "unique_key IS NOT NULL"},
				 {"by_group",
				  {{kJobQueueId}, {kJobGroupId}, {kJobPriority, true}, {kJobRunAt}, {kJobId}},
				  kGroupedRows},
				 {"fifo", {{kJobQueueId}, {kJobGroupId}, {kJobId}}, kGroupedRows},
				 {"by_batch", {{kJobBatch}, {kJobId}}, kMemberRows},
				 {"blocked", {{kJobId}}, kBlockedRows}},
	 .segments = 8,
	 .few = 20},
	/*
	 * Dead letters are rare, so a row that is kept for long may be copied once. Segments that are
	 * at least half full of live rows are not copied, so the table takes at most about twice the
	 * room of its rows.
	 */
	{.table = "dead_job",
	 .rows = "dead letters",
	 .columns = dead_columns,
	 .n_columns = kDeadColumns,
	 .n_columns_before = kDeadBatch - 1,
	 .indexes = {{"by_id", {{kDeadJobId}}},
				 {"by_order", {{kDeadQueueId}, {kDeadAt}}},
				 {},
				 {},
				 {},
				 {},
				 {},
				 {"by_batch", {{kDeadBatch}, {kDeadJobId}}, kMemberRows}},
	 .segments = 4,
	 .few = 2,
	 .keep = "keep_dead",
	 .born = kDeadAt},
	/* The index is unique, since each lease of a job ends only once. */
	{.table = "attempt",
	 .rows = "attempts",
	 .columns = attempt_columns,
	 .n_columns = kAttemptColumns,
	 .n_columns_before = kAttemptColumns,
	 .indexes = {{"by_id", {{kAttemptJobId}, {kAttemptLease}}}},
	 .segments = 4,
	 .few = 2,
	 .keep = "keep_attempts",
	 .born = kAttemptEndedAt,
	 .queue = kAttemptQueueId},
	/*
	 * A job can finish twice, if its row was inserted again by SQL. The end of a job must not fail
	 * for that reason, so finished_at is a part of the unique index.
	 */
	{.table = "finished_job",
	 .rows = "finished jobs",
	 .columns = finished_columns,
	 .n_columns = kFinishedColumns,
	 .n_columns_before = kFinishedBatch - 1,
	 .indexes = {{"by_id", {{kFinishedJobId}, {kFinishedAt}}}},
	 .segments = 4,
	 .few = 2,
	 .keep = "keep_finished",
	 .born = kFinishedAt,
	 .queue = kFinishedQueueId},
};
inline constexpr int kRings = std::size(rings);
static_assert(std::size(all_rings) == kRings);

/*
 * Return the number of the ring's first segment. The segments of all rings are numbered
 * consecutively.
 */
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

/* Number of segments of jobs; their numbers are the lowest ones. */
inline constexpr int kMaxSegments = segments_in(kJobRing);
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
