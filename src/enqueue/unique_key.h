/*
 * Enqueuing jobs with a unique key. If a job already owns the key, the request is answered with
 * that job; otherwise the new job becomes the owner. See README.md, "Unique keys".
 */
#pragma once

#include "enqueue/job_spec.h"
#include "rows/segment_set.h"
#include "steps/depth.h"

namespace pgq {

class AddedMembers;

/* A job to be enqueued, and the rules for its unique key. */
struct KeyedRequest
{
	NewJob job;
	KeyRules rules;
	int64 hash;
	Room room;
};

/* Build the request, and store the hash of the key in the row of the new job. */
KeyedRequest keyed_request(int32 queue_id, const JobSpec &spec, const KeyRules &rules,
						   TimestampTz now, Room room = Room::kTake);

/*
 * Enqueue the job, or find the owner of its key. Returns the id of the new job or of the owner; 0 if
 * there is no owner, and a full queue was skipped.
 * segments: opened here for reading; the caller closes them. Waits for transactions that decide
 * about the key. added: as for enqueue_jobs(). Raises 23505, 22023, 40001, 53400.
 */
int64 enqueue_keyed(const QueueRef &ref, SegmentSet &segments, KeyedRequest *request,
					AddedMembers *added = nullptr);

/*
 * Enqueue at most kKeysAtOnce jobs with different keys, sorted by the hashes of the keys, if no job
 * has any of these keys and the unique_for period of none of them is running. Otherwise return
 * false and do nothing. ids: 0 for a job that was skipped, as enqueue_keyed() returns it.
 */
inline constexpr int kKeysAtOnce = 64;
bool enqueue_fresh(const QueueRef &ref, SegmentSet &segments, KeyedRequest *requests, int n,
				   int64 *ids, AddedMembers *added);

} // namespace pgq
