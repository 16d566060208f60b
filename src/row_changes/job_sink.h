/* Enqueues the jobs of a statement into the queues of the target, in batches. */
#pragma once

#include "enqueue/unique_key.h"
#include "row_changes/watch.h"
#include "topics/target.h"

namespace pgq {

class JobSink
{
public:
	/*
	 * Find the queues, lock them in the order of their ids, and check the rights of the current
	 * role. A coalescing watch first locks the segments for reading, in their order, as an enqueue
	 * with a unique key does. Raises 42704, 42501.
	 */
	explicit JobSink(const Watch &watch);

	/* Return whether no queue gets the jobs. */
	bool is_idle() const { return n_queues_ == 0; }

	/* Return the memory for payloads. It is reset when a batch is enqueued. */
	MemoryContext scratch() const { return scratch_; }

	/*
	 * Enqueue a job with this payload, in the memory scratch(). The enqueue may be delayed until
	 * finish().
	 */
	void put(Jsonb *payload);

	/*
	 * Enqueue a job with this payload and unique key, unless a job with the key waits. Never waits
	 * for another transaction (enqueue/coalesce.h). The caller passes each key once.
	 */
	void put_coalesced(Jsonb *payload, text *key);

	/* Enqueue the jobs that are left. Raises PQ002. */
	void finish();

private:
	void add_queue(const Binding &binding);
	void find_queues();
	void flush();
	void flush_plain(const Target &queue);
	void flush_coalesced(const Target &queue);

	/*
	 * A batch is enqueued when its payloads have that many bytes, or when it has kInsertBatch jobs.
	 */
	static constexpr Size kBatchBytes = 1024 * 1024;

	const Watch &watch_;
	TimestampTz now_;
	JobSpec spec_; /* what all jobs have */
	SegmentSet segments_;
	MemoryContext scratch_;
	Target *queues_ = nullptr;
	int n_queues_ = 0;
	Jsonb *payloads_[kInsertBatch];
	text *keys_[kInsertBatch];
	int n_ = 0;
	Size bytes_ = 0;
};

} // namespace pgq
