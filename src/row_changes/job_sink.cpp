#include "row_changes/job_sink.h"

#include "engine/copies.h"
#include "enqueue/coalesce.h"
#include "enqueue/enqueue.h"
#include "load/attach.h"
#include "pg/clock.h"
#include "pg/survive.h"
#include "rows/job_ids.h"
#include "steps/depth.h"
#include "topics/publish.h"
#include "topics/route.h"

namespace pgq {

/* ---- the queues ---- */

void
JobSink::add_queue(const Binding &binding)
{
	SinkQueue queue{};
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
		queues_ = static_cast<SinkQueue *>(palloc(sizeof(SinkQueue)));
		add_queue({watch_.target.queue_id, false, {}});
		return;
	}
	Binding *bindings;
	int n = queues_of_topic(watch_.target.name, &bindings);
	queues_ = static_cast<SinkQueue *>(
		palloc_extended((n + 1) * sizeof(SinkQueue), MCXT_ALLOC_HUGE));
	for (int i = 0; i < n; i++)
		add_queue(bindings[i]);
}

JobSink::JobSink(const Watch &watch)
	: watch_(watch), now_(wall_now()), spec_{}, segments_(AccessShareLock),
	  scratch_(AllocSetContextCreate(CurrentMemoryContext, "pgq_ext row changes", 0, 256 * 1024,
									 ALLOCSET_DEFAULT_MAXSIZE))
{
	if (watch.target.is_topic)
		set_topic_header(&spec_, watch.target.name);
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
	if (n_ == kKeysAtOnce)
		flush();
}

void
JobSink::flush_plain(const SinkQueue &queue)
{
	NewJob jobs[kInsertBatch];
	int64 ids[kInsertBatch];
	JobSpec spec = spec_;
	set_attribute(&spec, "payload", JsonbPGetDatum(payloads_[0]));
	NewJob job = job_of(queue.ref.queue_id, spec, now_);
	draw_job_ids(ids, n_);
	for (int i = 0; i < n_; i++)
	{
		jobs[i] = job;
		jobs[i].set(kJobPayload, JsonbPGetDatum(payloads_[i]));
		jobs[i].set(kJobId, Int64GetDatum(ids[i]));
	}
	enter_queue(queue.ref, n_);
	enqueue_jobs(queue.ref, jobs, n_, nullptr);
}

void
JobSink::flush_coalesced(const SinkQueue &queue)
{
	KeyedRequest requests[kKeysAtOnce];
	for (int i = 0; i < n_; i++)
	{
		JobSpec spec = spec_;
		set_attribute(&spec, "payload", JsonbPGetDatum(payloads_[i]));
		set_attribute(&spec, "unique_key", PointerGetDatum(keys_[i]));
		set_attribute(&spec, "unique_until", CStringGetTextDatum("claimed"));
		requests[i] = keyed_request(queue.ref.queue_id, spec, key_rules(spec, now_), now_);
	}
	enqueue_coalesced(queue.ref, segments_, requests, n_);
}

/* Enqueue a batch. If the queue is full and its binding says skip, leave the batch out. */
template <typename Enqueue>
void
JobSink::into_queue(const SinkQueue &queue, Enqueue enqueue)
{
	if (watch_.target.is_topic)
		(void) publish_by(queue.binding, enqueue);
	else
		enqueue();
}

void
JobSink::flush()
{
	if (n_ == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	MemoryContext caller = MemoryContextSwitchTo(scratch_);
	for (int i = 0; i < n_queues_; i++)
		into_queue(queues_[i], [&] {
			if (watch_.columns.coalescing)
				flush_coalesced(queues_[i]);
			else
				flush_plain(queues_[i]);
		});
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
