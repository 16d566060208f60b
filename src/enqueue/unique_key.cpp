#include "enqueue/unique_key.h"

#include "catalog/queue_lock.h"
#include "engine/token.h"
#include "enqueue/enqueue.h"
#include "enqueue/key_owner_wait.h"
#include "enqueue/member.h"
#include "load/attach.h"
#include "pg/stop_point.h"
#include "rows/key_period.h"
#include "rows/look_up.h"
#include "steps/change_row.h"
#include "steps/waiting.h"
#include "txn/effects.h"

namespace pgq {

KeyedRequest
keyed_request(int32 queue_id, const JobSpec &spec, const KeyRules &rules, TimestampTz now,
			  Room room)
{
	KeyedRequest request = {job_of(queue_id, spec, now), rules, hash_of_key(queue_id, rules.key),
							room};
	request.job.set(kJobUniqueHash, Int64GetDatum(request.hash));
	return request;
}

/* ---- an owner was found ---- */

[[noreturn]] static void
complain_conflict(const KeyRules &rules, int64 job_id)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_UNIQUE_VIOLATION),
		 errmsg("job %lld already has unique key \"%s\"", static_cast<long long>(job_id),
				text_to_cstring(rules.key)),
		 errhint(
			 "Pass another value of on_conflict to keep, replace or extend that job instead.")));
}

/*
 * Raise 40001. The transaction's snapshot does not see the job with the key, so later statements of
 * this transaction could not find the job whose id this call would return.
 */
[[noreturn]] static void
complain_unseen(int64 job_id)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
		 errmsg("could not serialize access due to a concurrent enqueue"),
		 errdetail(
			 "Job %lld has the unique key, but the snapshot of this transaction does not see it.",
			 static_cast<long long>(job_id)),
		 errhint("Try the transaction again.")));
}

static void
require_visible(SegmentSet &segments, const KeyedJob &owner)
{
	if (IsolationUsesXactSnapshot() && owner.state != KeyedJob::kOurs &&
		!is_visible(segments, owner.job_id(), GetActiveSnapshot()))
		complain_unseen(owner.job_id());
}

static void
copy_column(JobChange *change, JobColumn column, const NewJob &from)
{
	if (from.nulls[column - 1])
		change->set_null(column);
	else
		change->set(column, from.values[column - 1]);
}

/*
 * Copy the columns of the new job to the owner, except id, key, enqueued_at and run_at. Clear
 * last_error and progress.
 */
static void
replace_all(JobChange *change, const NewJob &with)
{
	for (JobColumn column : {kJobPayload, kJobPriority, kJobGroupKey, kJobHeaders, kJobMaxAttempts,
							 kJobExpiresAt, kJobAttempts})
		copy_column(change, column, with);
	change->set_null(kJobLastError);
	change->set_null(kJobProgress);
}

static Datum
appended(const JobRow &row, Datum more)
{
	/* A payload can be NULL if the row is older than the NOT NULL constraint. */
	Jsonb *before = row.is_null(kJobPayload) ? nullptr : DatumGetJsonbP(row.value(kJobPayload));
	if (before == nullptr || !JB_ROOT_IS_ARRAY(before) || JB_ROOT_IS_SCALAR(before))
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("payload of job %lld is not a JSON array",
					static_cast<long long>(row.job_id())),
			 errhint("on_conflict => 'append' needs a JSON array as the payload of both jobs.")));
	return DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(before), more);
}

/*
 * Return the change that the request asks for, of the job that owns the key. The new fence refuses
 * late acks of workers that do not know the changed job.
 */
static JobChange
change_of(const JobRow &row, const KeyedRequest &request)
{
	JobChange change{};
	const NewJob &job = request.job;
	change.set(kJobFence, Int64GetDatum(cut_tokens(tables().database)));
	if (request.rules.on_conflict == OnConflict::kAppend)
	{
		change.set(kJobPayload, appended(row, job.values[kJobPayload - 1]));
		return change;
	}
	replace_all(&change, job);
	/* A blocked job becomes due when its parents have ended, with the delay that it was given. */
	if (request.rules.on_conflict == OnConflict::kReplace && !row.blocked())
	{
		TimestampTz run_at = DatumGetTimestampTz(job.values[kJobRunAt - 1]);
		change.set(kJobRunAt, TimestampTzGetDatum(put_off(row, run_at, wall_now())));
	}
	return change;
}

/*
 * Change the owner. Returns false if SQL has deleted the job. For 'append', lock the row before
 * reading the payload, so that no other change comes in between.
 */
static bool
change_owner(const KeyedJob &owner, const KeyedRequest &request)
{
	JobRow row;
	SegmentSet segments(RowExclusiveLock);
	if (request.rules.on_conflict == OnConflict::kAppend)
		(void) lock_job_to_change(segments, owner.hint.place, owner.job_id());
	bool done =
		locate_job(segments, owner.hint.place, owner.job_id(), true, &row) == WriteResult::kDone &&
		change_waiting(segments, row, change_of(row, request), nullptr);
	segments.close();
	return done;
}

/*
 * Raise 23505 if the new job was to be a member of a batch, and the owner is not. The owner does not
 * become a member, so the batch could finish before the work is done. A role that may not add to the
 * batch does not learn which jobs are its members: raise 42704.
 */
static void
require_same_batch(const KeyedJob &owner, OwnerAnswer how, const KeyedRequest &request)
{
	if (request.job.nulls[kJobBatch - 1])
		return;
	int64 wanted = DatumGetInt64(request.job.values[kJobBatch - 1]);
	require_batch_columns();
	(void) require_batch_to_add(wanted);
	if (how == OwnerAnswer::kOver || owner.batch_id != wanted)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("job %lld has unique key \"%s\", and is no member of batch %lld",
						static_cast<long long>(owner.job_id()), text_to_cstring(request.rules.key),
						static_cast<long long>(wanted)),
				 errhint("Enqueue the job without a batch, or with a unique key of its own.")));
}

/*
 * Raise 23505 if the new job has parents. The owner does not wait for them, so its work could be done
 * too early.
 */
static void
refuse_parents(const KeyedJob &owner, const KeyedRequest &request)
{
	if (!request.job.nulls[kJobParents - 1])
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("job %lld has unique key \"%s\", and cannot take the place of a job with "
						"parents",
						static_cast<long long>(owner.job_id()), text_to_cstring(request.rules.key)),
				 errhint("Enqueue the job without after, or with a unique key of its own.")));
}

/*
 * Answer the request with the owner, changing the owner if the request asks for it. Returns false
 * if the search must be repeated.
 */
static bool
meet_owner(SegmentSet &segments, const OwnerSearch &search, OwnerAnswer how,
		   const KeyedRequest &request)
{
	require_same_batch(search.owner, how, request);
	refuse_parents(search.owner, request);
	if (search.only_ask)
		complain_conflict(request.rules, search.owner.job_id());
	if (how != OwnerAnswer::kOver)
		require_visible(segments, search.owner);
	/* Change the owner only if it is a waiting job, not if it is in work or has ended. */
	bool met = true;
	if (how == OwnerAnswer::kHeld && search.alone)
	{
		segments.close();
		met = change_owner(search.owner, request);
		if (search.fleeting != nullptr)
			let_go_early(search.ref, search.fleeting, JobEnd::kUnknown);
		else if (search.by_row)
			note_early(search.ref, search.owner.job_id(), search.owner.hint.group,
					   JobEnd::kUnknown);
	}
	if (met)
		note_duplicate(search.ref);
	return met;
}

/* ---- the search ---- */

static OwnerSearch
begin_search(const QueueRef &ref, const KeyedRequest &request)
{
	OnConflict how = request.rules.on_conflict;
	OwnerSearch search{};
	search.ref = ref;
	search.key = {request.rules.key, request.hash, ref.queue_id};
	search.until_claimed = request.rules.until_claimed;
	search.only_ask = how == OnConflict::kError;
	search.alone = how != OnConflict::kKeep && how != OnConflict::kError;
	return search;
}

/*
 * Called when no job has the key: look whether the unique_for period of an ended job is still
 * running.
 */
static OwnerAnswer
look_at_period(OwnerSearch *search)
{
	KeyPeriod period = find_key_period(search->key, search->now);
	search->owner.hint.key.job_id = period.job_id;
	search->xid = period.xid;
	search->vxid = kNoVirtualXid;
	search->claiming = search->locked = search->wants_turn = search->passes = false;
	if (TransactionIdIsValid(period.xid))
		return OwnerAnswer::kNotYet;
	if (period.taken && !search->only_ask && period.unseen)
		complain_unseen(period.job_id);
	return period.taken ? OwnerAnswer::kOver : OwnerAnswer::kNobody;
}

/*
 * Insert the job, which becomes the owner of the key. Until this transaction ends, other requests
 * for the key find the new row and wait for this transaction. Returns 0 if a full queue was skipped.
 */
static int64
become_owner(const QueueRef &ref, KeyedRequest *request, AddedMembers *added)
{
	int64 id;
	if (!enter_queue_alone(ref, request->room))
		return 0;
	enqueue_jobs(ref, &request->job, 1, &id, added);
	return id;
}

static int64
with_period(const UniqueKey &key, const KeyRules &rules, int64 job_id)
{
	if (rules.until != 0 && job_id != 0)
		begin_key_period(key, job_id, rules.until);
	return job_id;
}

/*
 * Find the owner or insert the job, under the key's lock. The lock is released as soon as other
 * sessions can find the new job or the owner is held, and before any wait.
 */
int64
enqueue_keyed(const QueueRef &ref, SegmentSet &segments, KeyedRequest *request, AddedMembers *added)
{
	OwnerSearch search = begin_search(ref, *request);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		(void) segments.open_all();
		search.now = wall_now();
		lock_key(ref.queue_id, request->hash);
		/* With the key's lock: find the owner, or insert the job. */
		int64 id = 0;
		OwnerAnswer meeting = find_owner(segments, &search);
		if (meeting == OwnerAnswer::kNobody)
			meeting = look_at_period(&search);
		stop_point("key-found");
		if (meeting != OwnerAnswer::kNotYet)
			end_search(&search);
		if (meeting == OwnerAnswer::kNobody)
			id = become_owner(ref, request, added);
		unlock_key(ref.queue_id, request->hash);
		/* Without the key's lock: wait and search again, or answer the request. */
		if (meeting == OwnerAnswer::kNotYet)
			wait_for_decision(segments, &search);
		else if (meeting == OwnerAnswer::kNobody)
			return with_period(search.key, request->rules, id);
		else if (meet_owner(segments, search, meeting, *request))
			return search.owner.job_id();
	}
}

/* ---- many at once ---- */

/* Take room for the requests. Return how many of those with kTakeOrSkip have room. */
static int64
enter_fresh(const QueueRef &ref, const KeyedRequest *requests, int n)
{
	int64 wanted[3] = {};
	for (int i = 0; i < n; i++)
		wanted[static_cast<int>(requests[i].room)]++;
	if (wanted[static_cast<int>(Room::kTake)] > 0)
		enter_queue(ref, wanted[static_cast<int>(Room::kTake)]);
	int64 skippable = wanted[static_cast<int>(Room::kTakeOrSkip)];
	return skippable > 0 ? enter_queue_or_skip(ref, skippable) : 0;
}

/* Insert the jobs of the requests. If there is too little room, skip the last ones that may be skipped. */
static void
insert_fresh(const QueueRef &ref, const KeyedRequest *requests, int n, int64 *ids,
			 AddedMembers *added)
{
	auto *jobs = static_cast<NewJob *>(palloc(n * sizeof(NewJob)));
	int64 new_ids[kKeysAtOnce];
	int64 fit = enter_fresh(ref, requests, n);
	int inserted = 0;
	for (int i = 0; i < n; i++)
	{
		bool skipped = requests[i].room == Room::kTakeOrSkip && fit-- <= 0;
		ids[i] = skipped ? 0 : 1;
		if (!skipped)
			jobs[inserted++] = requests[i].job;
	}
	if (inserted > 0)
		enqueue_jobs(ref, jobs, inserted, new_ids, added);
	for (int i = 0, next = 0; i < n; i++)
		if (ids[i] != 0)
			ids[i] = new_ids[next++];
}

/*
 * Take the locks of the keys in ascending order of their hashes. So a session that has the lock of
 * a key waits only for locks with greater hashes, and no deadlock is possible.
 */
bool
enqueue_fresh(const QueueRef &ref, SegmentSet &segments, KeyedRequest *requests, int n, int64 *ids,
			  AddedMembers *added)
{
	UniqueKey keys[kKeysAtOnce];
	(void) segments.open_all();
	for (int i = 0; i < n; i++)
	{
		keys[i] = {requests[i].rules.key, requests[i].hash, ref.queue_id};
		lock_key(ref.queue_id, keys[i].hash);
	}
	bool fresh = !may_have_keys(segments, keys, n) && !have_key_periods(keys, n, wall_now());
	if (fresh)
		insert_fresh(ref, requests, n, ids, added);
	for (int i = 0; i < n; i++)
		unlock_key(ref.queue_id, keys[i].hash);
	for (int i = 0; i < n && fresh; i++)
		(void) with_period(keys[i], requests[i].rules, ids[i]);
	return fresh;
}

} // namespace pgq
