/*
 * Jobs with a unique key. Whoever enqueues one meets the job that has the key, its owner, or becomes it; README.md,
 * "Unique keys".
 */
#pragma once

#include "jobs/job_spec.h"
#include "rows/segment_set.h"

namespace pgq {

/* A job to be enqueued, and what is to be done if there is one with its key. */
struct KeyedRequest
{
	NewJob job;
	KeyRules rules;
	int64 hash;
};

/* With the key's hash in its row. */
KeyedRequest keyed_request(int32 queue_id, const JobSpec &spec, const KeyRules &rules,
						   TimestampTz now);

/*
 * The id of the job that carries the request from here on: a new one, or that which has the key. segments: of a
 * reader, to be closed by the caller. Waits for transactions that decide whether there is one. Errors: 23505, 22023, 40001, 53400.
 */
int64 enqueue_keyed(const QueueRef &ref, SegmentSet &segments, KeyedRequest *request);

/*
 * The same of several with different keys, in the order of their hashes, if no job has any of these. False: nothing
 * was done.
 */
inline constexpr int kKeysAtOnce = 64;
bool enqueue_fresh(const QueueRef &ref, SegmentSet &segments, KeyedRequest *requests, int n,
				   int64 *ids);

} // namespace pgq
