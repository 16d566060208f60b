/*
 * Records of attempts: rows of pgq_ext.attempt.
 */
#pragma once

#include "rows/record.h"

namespace pgq {

/* How an attempt has ended. */
enum class Outcome : uint8
{
	kAcked,
	kFailed,
	kReleased,
	kLost,
	kCancelled,
};

struct AttemptRecord
{
	int64 job_id;
	int64 token;
	int32 queue_id;
	int32 attempt;
	TimestampTz claimed_at;
	const char *worker;
	Outcome outcome;
	const char *reason; /* why the attempt ended; NULL: no reason was given */
	bool has_error;
	Datum error; /* text */
};

/*
 * Add the record of an attempt that ends now. If a record of that job and lease exists already, the
 * later write of the record raises 23505.
 */
void add_attempt(Records &records, const AttemptRecord &attempt);

} // namespace pgq
