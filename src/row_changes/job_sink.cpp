#include "row_changes/job_sink.h"

#include "enqueue/coalesce.h"
#include "enqueue/enqueue.h"
#include "load/attach.h"
#include "pg/clock.h"
#include "rows/job_ids.h"
#include "steps/depth.h"
#include "topics/topic_header.h"

namespace pgq {

/* ---- the queues ---- */

void
JobSink::add_queue(const Binding &binding)
{
	Target queue{};
	queue.binding = binding;
	if (queue_for_publish(binding.queue_id, &queue.ref))
		queues_[n_queues_++] = queue;
	else if (!watch_.target.is_topic)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("queue \"%s\" of the watch does not exist", watch_.target.name),
				 errhint("Call pgq_watch_table for the table and target again, or stop the watch "
						 "with pgq_unwatch_table.")));
}

/* Lock the queues in the order of their ids, as a publish does. */
void
JobSink::find_queues()
{
	if (!watch_.target.is_topic)
	{
		queues_ = static_cast<Target *>(palloc(sizeof(Target)));
		add_queue({watch_.target.queue_id, false, {}});
		return;
	}
	Targets targets = copy_targets(route_to_publish(watch_.target.name));
	queues_ =
		static_cast<Target *>(palloc_extended((targets.n + 1) * sizeof(Target), MCXT_ALLOC_HUGE));
	for (int i = 0; i < targets.n; i++)
		add_queue(targets.bindings[i]);
}

JobSink::JobSink(const Watch &watch)
	: watch_(watch),
	  now_(wall_now()),
	  spec_{},
	  segments_(AccessShareLock),
	  scratch_(AllocSetContextCreate(CurrentMemoryContext, "pgq_ext row changes", 0, 256 * 1024,
									 ALLOCSET_DEFAULT_MAXSIZE))
{
	if (watch.target.is_topic)
		set_topic_header(&spec_, topic_object(watch.target.name));
	if (watch.columns.coalescing)
		(void) segments_.open_all();
	find_queues();
	require_right_on_target(watch.target);
}

/* ---- batches ---- */

void
JobSink::put(Jsonb *payload)
{
	payloads_[n_++] = payload;
	bytes_ += VARSIZE(payload);
	if (n_ == kInsertBatch || bytes_ >= kBatchBytes)
		flush();
}

void
JobSink::put_coalesced(Jsonb *payload, text *key)
{
	keys_[n_] = key;
	payloads_[n_++] = payload;
	bytes_ += VARSIZE(payload);
	if (n_ == kKeysAtOnce || bytes_ >= kBatchBytes)
		flush();
}

/* If the queue is full, and may be skipped, enqueue only as many jobs as it has room for. */
void
JobSink::flush_plain(const Target &queue)
{
	int n = n_;
	if (room_by(queue.binding) == Room::kTakeOrSkip)
		n = static_cast<int>(enter_queue_or_skip(queue.ref, n));
	else
		enter_queue(queue.ref, n);
	if (n == 0)
		return;
	NewJob jobs[kInsertBatch];
	int64 ids[kInsertBatch];
	JobSpec spec = spec_;
	set_attribute(&spec, "payload", JsonbPGetDatum(payloads_[0]));
	NewJob job = job_of(queue.ref.queue_id, spec, now_);
	draw_job_ids(ids, n);
	for (int i = 0; i < n; i++)
	{
		jobs[i] = job;
		jobs[i].set(kJobPayload, JsonbPGetDatum(payloads_[i]));
		jobs[i].set(kJobId, Int64GetDatum(ids[i]));
	}
	enqueue_jobs(queue.ref, jobs, n, nullptr);
}

void
JobSink::flush_coalesced(const Target &queue)
{
	KeyedRequest requests[kKeysAtOnce];
	for (int i = 0; i < n_; i++)
	{
		JobSpec spec = spec_;
		set_attribute(&spec, "payload", JsonbPGetDatum(payloads_[i]));
		set_attribute(&spec, "unique_key", PointerGetDatum(keys_[i]));
		set_attribute(&spec, "unique_until", CStringGetTextDatum("claimed"));
		requests[i] = keyed_request(queue.ref.queue_id, spec, key_rules(spec, now_), now_,
									room_by(queue.binding));
	}
	enqueue_coalesced(queue.ref, segments_, requests, n_);
}

void
JobSink::flush()
{
	if (n_ == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	MemoryContext caller = MemoryContextSwitchTo(scratch_);
	auto enqueue = [&](const Target &queue) {
		if (watch_.columns.coalescing)
			flush_coalesced(queue);
		else
			flush_plain(queue);
	};
	for (int i = 0; i < n_queues_; i++)
		if (watch_.target.is_topic)
			for_binding(queues_[i].binding, [&] { enqueue(queues_[i]); });
		else
			enqueue(queues_[i]);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(scratch_);
	n_ = 0;
	bytes_ = 0;
}

void
JobSink::finish()
{
	flush();
	segments_.close();
	MemoryContextDelete(scratch_);
}

} // namespace pgq
