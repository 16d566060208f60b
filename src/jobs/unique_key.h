/*
 * Enqueuing jobs with a unique key. The request meets the owner of the key, or its job becomes the
 * owner; see README.md, "Unique keys".
 */
#pragma once

#include "jobs/job_spec.h"
#include "rows/segment_set.h"

namespace pgq {

/* A job to be enqueued, and the rules for its unique key. */
struct KeyedRequest
{
	NewJob job;
	KeyRules rules;
	int64 hash;
};

/* Build the request; the row gets the hash of the key. */
KeyedRequest keyed_request(int32 queue_id, const JobSpec &spec, const KeyRules &rules,
						   TimestampTz now);

/*
 * Enqueue the job or meet the owner of its key. Returns the id of the job that carries the request.
 * segments: opened for reading; the caller closes them. Waits for transactions whose outcome
 * decides. Raises 23505, 22023, 40001, 53400.
 */
int64 enqueue_keyed(const QueueRef &ref, SegmentSet &segments, KeyedRequest *request);

/*
 * Enqueue several jobs with different keys, sorted by the keys' hashes, if no job and no period has
 * any of these keys. Otherwise returns false and does nothing.
 */
inline constexpr int kKeysAtOnce = 64;
bool enqueue_fresh(const QueueRef &ref, SegmentSet &segments, KeyedRequest *requests, int n,
				   int64 *ids);

} // namespace pgq
