#include "topics/publish.h"

#include "enqueue/enqueue.h"
#include "pg/clock.h"
#include "rows/job_ids.h"
#include "topics/target.h"
#include "topics/topic_header.h"

namespace pgq {

static_assert(std::is_trivially_destructible_v<BulkPublish>);

/* Payloads of this size are enqueued together, even if there are fewer than kInsertBatch. */
static constexpr Size kPartBytes = 1024 * 1024;

BulkPublish::BulkPublish(const text *topic, const JobSpec &options)
	: memory_(AllocSetContextCreate(CurrentMemoryContext, "pgq_ext bulk publish",
									ALLOCSET_DEFAULT_SIZES)),
	  options_(options),
	  n_queues_(0),
	  n_payloads_(0),
	  bytes_(0)
{
	std::string_view bytes = checked_topic(topic);
	Targets targets = copy_targets(route_to_publish(bytes));
	Assert(unique_key_of(options) == nullptr && parents_of(options) == nullptr);
	set_topic_header(&options_, topic_object(bytes));
	queues_ =
		static_cast<Target *>(palloc_extended((targets.n + 1) * sizeof(Target), MCXT_ALLOC_HUGE));
	payloads_ = static_cast<Datum *>(palloc(kInsertBatch * sizeof(Datum)));
	for (int i = 0; i < targets.n; i++)
	{
		queues_[n_queues_].binding = targets.bindings[i];
		n_queues_ += queue_for_publish(targets.bindings[i].queue_id, &queues_[n_queues_].ref);
	}
}

void
BulkPublish::put(Datum payload)
{
	MemoryContext caller = MemoryContextSwitchTo(memory_);
	Jsonb *copy = DatumGetJsonbPCopy(payload);
	MemoryContextSwitchTo(caller);
	payloads_[n_payloads_++] = JsonbPGetDatum(copy);
	bytes_ += VARSIZE(copy);
	if (n_payloads_ == kInsertBatch || bytes_ >= kPartBytes)
		flush();
}

/* Enqueue the payloads into one queue, as many as it has room for if it may be skipped. */
void
BulkPublish::flush_to(const Target &target)
{
	int n = n_payloads_;
	for_binding(target.binding, [&] {
		if (target.binding.skip_if_full)
			n = static_cast<int>(enter_queue_or_skip(target.ref, n));
		else
			enter_queue(target.ref, n);
	});
	if (n == 0)
		return;
	auto *ids = static_cast<int64 *>(palloc(n * sizeof(int64)));
	auto *jobs = static_cast<NewJob *>(palloc(n * sizeof(NewJob)));
	JobSpec spec = options_;
	TimestampTz now = wall_now();
	draw_job_ids(ids, n);
	for (int i = 0; i < n; i++)
	{
		set_attribute(&spec, "payload", payloads_[i]);
		jobs[i] = job_of(target.ref.queue_id, spec, now);
		jobs[i].set(kJobId, Int64GetDatum(ids[i]));
	}
	enqueue_jobs(target.ref, jobs, n, nullptr);
}

void
BulkPublish::flush()
{
	MemoryContext caller = MemoryContextSwitchTo(memory_);
	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < n_queues_ && n_payloads_ > 0; i++)
		flush_to(queues_[i]);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(memory_);
	n_payloads_ = 0;
	bytes_ = 0;
}

void
BulkPublish::finish()
{
	flush();
	MemoryContextDelete(memory_);
}

} // namespace pgq
