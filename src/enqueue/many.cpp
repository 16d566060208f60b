#include "enqueue/many.h"

#include "enqueue/enqueue.h"
#include "enqueue/member.h"
#include "rows/job_ids.h"
#include "rows/unique_key.h"

#include <algorithm>

namespace pgq {

namespace {

/* A job with a unique key, by its place in the list of the elements. */
struct KeyedElement
{
	uint32 place;
	int64 hash;
};

/* A call of enqueue_many(). */
struct Enqueuing
{
	const ManyJobs &jobs;
	MemoryContext caller;
	KeyedElement *keyed;
	uint32 n_keyed;
};

} // namespace

void
say_element(void *element)
{
	errcontext("element %u of jobs", *static_cast<uint32 *>(element) + 1);
}

static JobSpec
read_spec(const ManyJobs &jobs, uint32 element)
{
	return jobs.source.read(jobs.source.data, element);
}

/* ---- jobs without a unique key ---- */

/*
 * Add a job with a unique key to `keyed`. Such jobs are enqueued after all jobs without a unique
 * key.
 */
static void
put_aside(Enqueuing *enqueuing, uint32 place, const KeyRules &rules)
{
	if (enqueuing->keyed == nullptr)
		enqueuing->keyed = static_cast<KeyedElement *>(
			MemoryContextAllocHuge(enqueuing->caller, enqueuing->jobs.n * sizeof(KeyedElement)));
	enqueuing->keyed[enqueuing->n_keyed++] = {place,
											  hash_of_key(enqueuing->jobs.ref.queue_id, rules.key)};
}

/*
 * Read the next kInsertBatch jobs, from place *next on, and put those without a unique key into
 * batch. places[i]: the place of batch[i]. Draw ids for all jobs that were read, in their order,
 * unless the caller has drawn them. Return the number of jobs in batch.
 */
static int
read_batch(Enqueuing *enqueuing, uint32 *next, NewJob *batch, uint32 *places)
{
	const ManyJobs &jobs = enqueuing->jobs;
	int n = 0;
	uint32 first = *next;
	uint32 end = Min(jobs.n, first + kInsertBatch);
	uint32 element;
	CHECK_FOR_INTERRUPTS();
	/* Decode the jobs. Errors name the element. */
	for_element(&element, [&] {
		for (; *next < end; (*next)++)
		{
			element = jobs.element(*next);
			JobSpec spec = read_spec(jobs, element);
			KeyRules rules = key_rules(spec, jobs.now);
			if (rules.key != nullptr)
			{
				put_aside(enqueuing, *next, rules);
				continue;
			}
			places[n] = *next;
			batch[n++] = job_of(jobs.ref.queue_id, spec, jobs.now);
		}
	});
	/* Set the ids. */
	if (!jobs.ids_drawn)
		draw_job_ids(&jobs.ids[first], static_cast<int>(end - first));
	for (int i = 0; i < n; i++)
		batch[i].set(kJobId, Int64GetDatum(jobs.ids[places[i]]));
	return n;
}

static void
enqueue_plain(Enqueuing *enqueuing, MemoryContext scratch)
{
	NewJob batch[kInsertBatch];
	uint32 places[kInsertBatch];
	uint32 next = 0;
	while (next < enqueuing->jobs.n)
	{
		int n = read_batch(enqueuing, &next, batch, places);
		if (n > 0)
			enqueue_jobs(enqueuing->jobs.ref, batch, n, nullptr, enqueuing->jobs.added);
		MemoryContextReset(scratch);
	}
}

/* ---- jobs with a unique key ---- */

static KeyedRequest
request_of(const ManyJobs &jobs, uint32 place)
{
	uint32 element = jobs.element(place);
	JobSpec spec = read_spec(jobs, element);
	Room room =
		jobs.source.room != nullptr ? jobs.source.room(jobs.source.data, element) : Room::kTake;
	KeyedRequest request =
		keyed_request(jobs.ref.queue_id, spec, key_rules(spec, jobs.now), jobs.now, room);
	request.job.set(kJobId, Int64GetDatum(jobs.ids[place]));
	return request;
}

/*
 * Build requests for jobs that can be enqueued together, from `first` on: at most kKeysAtOnce jobs,
 * all with different keys. Return the number of requests.
 */
static int
read_group(const Enqueuing &enqueuing, const KeyedElement *first, KeyedRequest *requests)
{
	const KeyedElement *end = enqueuing.keyed + enqueuing.n_keyed;
	int n = 0;
	while (n < kKeysAtOnce && first + n < end && (n == 0 || first[n].hash != first[n - 1].hash))
	{
		uint32 element = enqueuing.jobs.element(first[n].place);
		for_element(&element, [&] { requests[n] = request_of(enqueuing.jobs, first[n].place); });
		n++;
	}
	return n;
}

static void
enqueue_group(const ManyJobs &jobs, SegmentSet &segments, const KeyedElement *group,
			  KeyedRequest *requests, int n)
{
	int64 ids[kKeysAtOnce];
	bool fresh = enqueue_fresh(jobs.ref, segments, requests, n, ids, jobs.added);
	for (int i = 0; i < n; i++)
	{
		uint32 element = jobs.element(group[i].place);
		if (!fresh)
			for_element(&element, [&] {
				ids[i] = enqueue_keyed(jobs.ref, segments, &requests[i], jobs.added);
			});
		jobs.ids[group[i].place] = ids[i];
	}
}

/*
 * Enqueue the jobs with unique keys. Of several elements with one key, only the first one makes a
 * job.
 */
static void
enqueue_those_with_key(Enqueuing &enqueuing, MemoryContext scratch)
{
	KeyedElement *keyed = enqueuing.keyed;
	KeyedRequest requests[kKeysAtOnce];
	SegmentSet segments(AccessShareLock);
	std::sort(keyed, keyed + enqueuing.n_keyed, [](const KeyedElement &a, const KeyedElement &b) {
		return a.hash != b.hash ? a.hash < b.hash : a.place < b.place;
	});
	for (uint32 done = 0; done < enqueuing.n_keyed;)
	{
		CHECK_FOR_INTERRUPTS();
		int n = read_group(enqueuing, keyed + done, requests);
		enqueue_group(enqueuing.jobs, segments, keyed + done, requests, n);
		done += n;
		MemoryContextReset(scratch);
	}
	segments.close();
}

void
enqueue_many(const ManyJobs &jobs)
{
	Enqueuing enqueuing = {jobs, CurrentMemoryContext, nullptr, 0};
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "pgq_enqueue_many", 0,
												  256 * 1024, ALLOCSET_DEFAULT_MAXSIZE);
	MemoryContextSwitchTo(scratch);
	enqueue_plain(&enqueuing, scratch);
	if (enqueuing.n_keyed > 0)
		enqueue_those_with_key(enqueuing, scratch);
	MemoryContextSwitchTo(enqueuing.caller);
	MemoryContextDelete(scratch);
	if (enqueuing.keyed != nullptr)
		pfree(enqueuing.keyed);
}

} // namespace pgq
