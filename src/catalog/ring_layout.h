/*
 * How the segments of pgq_ext.job and pgq_ext.dead_job look: their columns and indexes.
 */
#pragma once

#include "catalog/column.h"
#include "core/ring.h"

namespace pgq {

/* Columns of pgq_ext.job, in their order. */
enum JobColumn : AttrNumber
{
	kJobId = 1,
	kJobRunAt,
	kJobEnqueuedAt,
	kJobQueueId,
	kJobPriority,
	kJobAttempts,
	kJobSegment,
	kJobPayload,
	kJobMaxAttempts,
	kJobExpiresAt,
	kJobFence,
	kJobGroupKey,
	kJobUniqueKey,
	kJobHeaders,
	kJobLastError,
};
inline constexpr int kJobColumns = kJobLastError;

/* Columns of pgq_ext.dead_job, in their order. */
enum DeadColumn : AttrNumber
{
	kDeadJobId = 1,
	kDeadQueueId,
	kDeadAt,
	kDeadEnqueuedAt,
	kDeadRunAt,
	kDeadPriority,
	kDeadAttempts,
	kDeadSegment,
	kDeadMaxAttempts,
	kDeadGroupKey,
	kDeadUniqueKey,
	kDeadReason,
	kDeadLastError,
	kDeadHeaders,
	kDeadPayload,
};
inline constexpr int kDeadColumns = kDeadPayload;

/*
 * A job that is not delayed was due when it was enqueued, and is due whatever the clock says
 * later. The predicate of the index of delayed rows is the same.
 */
inline constexpr char kDelayed[] = "run_at > enqueued_at OR attempts > 0";
inline bool
is_delayed(TimestampTz run_at, TimestampTz enqueued_at, int32 attempts)
{
	return run_at > enqueued_at || attempts > 0;
}

inline constexpr Column job_columns[kJobColumns] = {
	{"job_id", INT8OID},
	{"run_at", TIMESTAMPTZOID},
	{"enqueued_at", TIMESTAMPTZOID},
	{"queue_id", INT4OID},
	{"priority", INT4OID},
	{"attempts", INT4OID},
	{"segment", INT2OID},
	{"payload", JSONBOID},
	{"max_attempts", INT4OID},
	{"expires_at", TIMESTAMPTZOID},
	{"fence", INT8OID},
	{"group_key", TEXTOID},
	{"unique_key", TEXTOID},
	{"headers", JSONBOID},
	{"last_error", TEXTOID},
};
inline constexpr Column dead_columns[kDeadColumns] = {
	{"job_id", INT8OID},		 {"queue_id", INT4OID},
	{"died_at", TIMESTAMPTZOID}, {"enqueued_at", TIMESTAMPTZOID},
	{"run_at", TIMESTAMPTZOID},	 {"priority", INT4OID},
	{"attempts", INT4OID},		 {"segment", INT2OID},
	{"max_attempts", INT4OID},	 {"group_key", TEXTOID},
	{"unique_key", TEXTOID},	 {"reason", TEXTOID},
	{"last_error", TEXTOID},	 {"headers", JSONBOID},
	{"payload", JSONBOID},
};

/* How the segments of a ring look. */
struct RingLayout
{
	const char *name; /* of a segment */
	const Column *columns;
	int n_columns;
	/* Of its indexes, up to a 0. */
	AttrNumber by_id[2];
	AttrNumber by_order[5];
	AttrNumber delayed[4];
};
inline constexpr RingLayout ring_layouts[kRings] = {
	{"job_%d",
	 job_columns,
	 kJobColumns,
	 {kJobId},
	 {kJobQueueId, kJobPriority, kJobRunAt, kJobId},
	 {kJobQueueId, kJobRunAt, kJobId}},
	{"dead_job_%d", dead_columns, kDeadColumns, {kDeadJobId}, {kDeadQueueId, kDeadAt}, {}},
};

} // namespace pgq
