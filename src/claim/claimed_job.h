/* A job that a claim returns: the columns of the type pgq_ext.claimed_job, and their values. */
#pragma once

#include "catalog/column.h"
#include "claim/claim.h"

namespace pgq {

/* Attributes of pgq_ext.claimed_job, in order. */
enum class ClaimedColumn
{
	kJobId,
	kLease,
	kQueue,
	kPayload,
	kHeaders,
	kGroupKey,
	kPriority,
	kAttempt,
	kMaxAttempts,
	kEnqueuedAt,
	kRunAt,
	kLeaseExpiresAt,
	kLastError,
	kProgress,
	kColumns
};
inline constexpr int kClaimedColumns = static_cast<int>(ClaimedColumn::kColumns);

extern const Column claimed_columns[kClaimedColumns];

struct ClaimedJob
{
	const QueueRef &ref;
	const QueueOptions &options;
	const JobRow &row;
	const Ready &ready;
};

/*
 * Return the value of the column, which may point into the row. *is_null: set to whether the value
 * is NULL. A value of variable length is not toasted: a toast pointer must not outlive the lock on
 * its segment (protocol: detoast-then-unlock).
 */
Datum claimed_value(ClaimedColumn column, const ClaimedJob &job, bool *is_null);

} // namespace pgq
