/*
 * The queue guard: the only way to a queue's lock for code outside this folder.
 *
 *     change_queue(ref, [&](QueueHold &hold) { hold.file(hint); });
 *     look_at_queue(ref, [&](const Queue &queue) { holds = queue.holds; });
 *     change_lease(db, job_id, [&](QueueHold &hold, Lease *lease) { pin_lease(lease); });
 *
 * The body runs under the queue's lock, if the slot still belongs to the queue of ref and the lease
 * still belongs to the job. Otherwise the body does not run, and the function returns false. The
 * body must not fail, wait, allocate memory or take a lock other than that of a lease partition or
 * the results lock, and handles at most kHoldMax entries.
 *
 * A change that may give another process something to do goes through the guard. After the release
 * of the lock the guard wakes
 *
 *   - a waiter for each job that became ready,
 *   - the watcher, if its sleep has to end earlier than before (end_under_lock()),
 *   - the scheduler, to send a NOTIFY, to count a lost lease, or because the body has asked for it.
 *
 * Copies for views and similar reports are in copies.h.
 */
#pragma once

#include "engine/concurrency.h"
#include "engine/group.h"
#include "engine/lease.h"
#include "engine/lease_expiry.h"
#include "engine/lease_quota.h"
#include "engine/rate_limit.h"
#include "engine/result_wait.h"
#include "engine/wakeup.h"
#include "pg/scope.h"

namespace pgq {

class QueueHold
{
public:
	/* Use these functions for reads, and for changes after which no other process has to act. */
	Queue *operator->() const { return queue_; }
	Queue *queue() const { return queue_; }
	Schedule &schedule() const { return queue_->schedule; }
	QueueRef ref() const
	{
		return {queue_, pg_atomic_read_u32(&queue_->generation), queue_->queue_id};
	}

	/* File the hint of a waiting job. */
	void file(const Hint &hint) { ready_ += queue_->schedule.file(hint); }

	/* Read rows from these keys on from the table again, because memory may lack jobs there. */
	void read_from(const Key &key, const TimerKey &timer_key)
	{
		queue_->schedule.pull_back(key, timer_key);
		queue_->schedule.fire(wall_now());
		ready_ = kHoldMax;
	}

	/* Read rows again that were changed, because memory may lack them. */
	void read_again(const ChangedRows &rows)
	{
		queue_->schedule.pull_back(rows);
		queue_->schedule.fire(wall_now());
		ready_ = kHoldMax;
	}

	/*
	 * Read all rows again. bound: an upper bound of the run_at of jobs that were due when they were
	 * enqueued.
	 */
	void read_all(TimestampTz bound)
	{
		queue_->schedule.doubt_horizon(bound);
		read_from(Key::lowest(), TimerKey::lowest());
	}

	/*
	 * end(), give_back(), lose(), doom(), unpin(), stop_using() and unpark_due() call the functions
	 * of lease.h (end_lease(), give_back(), lose_lease(), ...), and note whom to wake after the lock
	 * is released. unpin() and stop_using() also make a doomed lease LOST that is no longer pinned.
	 * Instead of making a lease LOST, doom(), unpin() and stop_using() may end it; see
	 * lose_or_give_back().
	 */
	void end(Lease *lease, bool gone = false) { ready_ += end_lease(lease, gone); }
	/*
	 * Tell the sessions that wait for the end of the job. Called before the lease of the job ends.
	 */
	void tell(int64 job_id, JobEnd end)
	{
		if (end != JobEnd::kUnknown && may_be_waited_for(job_id))
			told_ |= tell_waiting(queue_->database, queue_->queue_id, job_id, end);
	}
	/* Look for the next job of the group, because a row of the group is gone or has changed. */
	void look_at_group(int64 group) { queue_->schedule.look_at_group(group); }
	/*
	 * Take the lease of a waiting job, in order to hold or change the job. A PARKED lease belongs
	 * to no worker, so it is given back and taken anew. *fleeting: the database already has as many
	 * leases of this kind as it may have, so the caller must give the lease back as soon as the row
	 * shows that a transaction is changing it (steps/README.md, "Fleeting leases").
	 */
	TakeResult take_waiting(const Hint &hint, Lease **lease, bool *fleeting)
	{
		LeaseQuota &share = queue_->database->share;
		*fleeting = too_many_held(share);
		TakeResult result = take_lease(queue_, hint, lease, *fleeting);
		if (result == TakeResult::kHeld && (*lease)->queue == queue_ &&
			(*lease)->state == LeaseState::kParked)
		{
			give_back(*lease);
			result = take_lease(queue_, hint, lease, *fleeting);
		}
		if (result == TakeResult::kFull && !*fleeting)
		{
			*fleeting = true;
			result = take_lease(queue_, hint, lease, true);
		}
		if (result == TakeResult::kTaken && !*fleeting)
			set_lease_aside(*lease, &share.held);
		return result;
	}
	void give_back(Lease *lease) { ready_ += pgq::give_back(lease); }
	void lose(Lease *lease, Loss loss, int64 monotonic)
	{
		lose_lease(lease, loss, monotonic);
		wake_scheduler_ = true;
	}
	void doom(Lease *lease, Loss loss, int64 monotonic)
	{
		if (lease->pins == 0)
			return lose_or_give_back(lease, loss, monotonic);
		doom_lease(lease, loss, monotonic);
		wake_scheduler_ = true;
	}
	void unpin(Lease *lease, int64 monotonic)
	{
		unpin_lease(lease);
		lose_doomed(lease, monotonic);
	}
	void stop_using(Lease *lease, bool ended, int64 monotonic)
	{
		pgq::stop_using(lease, ended);
		lose_doomed(lease, monotonic);
	}
	void unpark_due(int64 monotonic) { ready_ += pgq::unpark_due(queue_, monotonic); }

	/* Note that `jobs` jobs may have become ready by changes other than those of this class. */
	void may_be_ready(int jobs) { ready_ += jobs; }

	/*
	 * Return whether a claim may find a job now. The claim may still find none, for example because
	 * the rows of all ready jobs are locked.
	 */
	bool is_claimable()
	{
		queue_->schedule.fire(wall_now());
		return queue_->holds == 0 && !queue_->options.paused && room_in(queue_) > 0 &&
			   !queue_->schedule.exhausted();
	}

	/*
	 * After a change that may leave jobs for which no process cares: wake a waiter or, if the
	 * handler of the queue may have one more worker, the scheduler.
	 */
	void care_for_rest()
	{
		if (is_claimable())
			wake_scheduler_ |= wake_one(queue_, &wakeups_);
		else
			hand_over();
	}

	/*
	 * Like care_for_rest(), for a worker that has nothing to do with the queue any more. Another
	 * process also has to watch for the jobs that become due.
	 */
	void hand_over()
	{
		queue_->schedule.fire(wall_now());
		wake_scheduler_ |= pgq::hand_over(queue_, &wakeups_);
	}

	/* Wake the next waiter in line, because jobs are left, or may be left. */
	void pass_on() { wake_scheduler_ |= pgq::pass_on(queue_, &wakeups_); }

	/*
	 * Wake the waiters of the queue to look for jobs: the queue was resumed, a purge or an undone
	 * drop has ended, or the options have changed.
	 */
	void all_may_look() { wake_waiters(queue_, kHoldMax, &wakeups_); }

	/*
	 * Store new options. If the queue was paused until now, or has other rules for groups, its jobs
	 * may be ready only now: wake waiters and send a NOTIFY, as for a filed job.
	 */
	void set_options(const QueueOptions &options)
	{
		bool resumed = queue_->options.paused && !options.paused;
		bool regrouped = !(group_rules_of(options) == queue_->schedule.groups().rules());
		change_rate(queue_, options);
		change_group_rules(queue_, options);
		queue_->options = options;
		queue_->options_set++;
		set_max_depth(queue_->count, options.max_depth);
		all_may_look();
		if ((resumed || regrouped) && !queue_->schedule.exhausted())
			may_be_ready(1);
	}

	void wake_scheduler() { wake_scheduler_ = true; }

private:
	template <typename Body> friend bool change_queue(const QueueRef &ref, Body body);

	/*
	 * End a lease that no transaction uses any more: it is lost, so an attempt will be counted. But
	 * if its claim was rolled back, and the queue has the option undo_rolled_back_claims, give the
	 * job back now, uncounted.
	 */
	void lose_or_give_back(Lease *lease, Loss loss, int64 monotonic)
	{
		if (loss != Loss::kUndone || !queue_->options.undo_rolled_back_claims)
			return lose(lease, loss, monotonic);
		queue_->counters.uncounted++;
		give_back(lease);
	}
	void lose_doomed(Lease *lease, int64 monotonic)
	{
		if (lease->doomed && lease->pins == 0)
			lose_or_give_back(lease, lease->loss, monotonic);
	}
	/* Return how many more jobs may be claimed now. */
	static int room_in(Queue *queue) { return Min(room_to_run(queue), room_to_start(queue)); }
	void begin(Queue *queue)
	{
		queue_ = queue;
		timer_before_ = queue->schedule.next_timer();
		start_before_ = earliest_start(*queue);
		room_before_ = room_in(queue);
		GroupRates &rates = queue->schedule.groups().rates();
		if (rates.on() || rates.timed() > 0)
			ready_ = queue->schedule.let_time_pass(monotonic_now());
		/*
		 * The time at which the rate limit lets jobs start has come. end_under_lock() then computes
		 * the next such time, so only one hold counts these jobs as ready.
		 */
		if (queue->next_start != INT64_MAX && queue->next_start <= monotonic_now())
			ready_ += Min(room_before_, kHoldMax);
	}
	/*
	 * If the limits of the queue let claims take jobs again, wake waiters, as if jobs were filed. A
	 * further increase of the number of allowed jobs wakes no waiter: a woken waiter passes the
	 * wake-up on if jobs are left.
	 */
	void note_room()
	{
		int room = room_in(queue_);
		if (room_before_ == 0 && room > 0 && !queue_->schedule.exhausted())
			ready_ += Min(room, kHoldMax);
	}
	/* A group that has room again has the effect of a filed job. */
	void note_groups()
	{
		if (uint32 news = queue_->schedule.take_news())
			ready_ += Min(static_cast<int>(news), kHoldMax);
		/* Most queues have no rules for groups, and nothing to return. */
		if (queue_->schedule.groups().spares() > 0 || queue_->groups_common > 0)
			return_groups(queue_);
	}
	void end_under_lock()
	{
		note_room();
		note_groups();
		plan_next_start(queue_);
		bool sooner = queue_->schedule.next_timer() < timer_before_ ||
					  earliest_start(*queue_) < start_before_;
		if (ready_ > 0 || sooner)
			wake_scheduler_ |= note_filed(queue_, ready_, sooner, &wakeups_);
	}
	void deliver(Database *db)
	{
		wakeups_.deliver();
		if (told_)
			wake_told();
		if (wake_scheduler_)
			pgq::wake_scheduler(db);
	}

	Queue *queue_ = nullptr;
	int64 timer_before_ = 0;
	int64 start_before_ = 0;
	int room_before_ = 0;
	int ready_ = 0;
	bool wake_scheduler_ = false;
	bool told_ = false;
	Wakeups wakeups_;
};
static_assert(std::is_trivially_destructible_v<QueueHold>);

template <typename Body>
inline bool
change_queue(const QueueRef &ref, Body body)
{
	QueueHold hold;
	LWLockAcquire(ref.queue->lock, LW_EXCLUSIVE);
	bool current = is_current(ref);
	Database *db = ref.queue->database;
	if (current)
	{
		hold.begin(ref.queue);
		body(hold);
		hold.end_under_lock();
	}
	LWLockRelease(ref.queue->lock);
	if (current)
		hold.deliver(db);
	return current;
}

template <typename Body>
inline bool
look_at_queue(const QueueRef &ref, Body body)
{
	LWLockAcquire(ref.queue->lock, LW_SHARED);
	bool current = is_current(ref);
	if (current)
		body(static_cast<const Queue &>(*ref.queue));
	LWLockRelease(ref.queue->lock);
	return current;
}

/*
 * Change the lease that find_lease() has found. Return false if the job does not have this lease
 * any more.
 */
template <typename Body>
inline bool
change_found_lease(const FoundLease &found, int64 job_id, Body body)
{
	bool current = false;
	(void) change_queue(found.ref, [&](QueueHold &hold) {
		current = is_lease_of(found.lease, found.ref, job_id);
		if (current)
			body(hold, found.lease);
	});
	return current;
}

/* Change the lease of the job, in whichever queue it is. Return false if the job has no lease. */
template <typename Body>
inline bool
change_lease(const Database *db, int64 job_id, Body body)
{
	FoundLease found;
	return find_lease(db, job_id, &found.lease, &found.ref) &&
		   change_found_lease(found, job_id, body);
}

template <typename Body>
inline bool
look_at_lease(const Database *db, int64 job_id, Body body)
{
	QueueRef ref;
	Lease *lease;
	bool found = false;
	(void) (find_lease(db, job_id, &lease, &ref) && look_at_queue(ref, [&](const Queue &) {
				found = is_lease_of(lease, ref, job_id);
				if (found)
					body(static_cast<const Lease &>(*lease));
			}));
	return found;
}

} // namespace pgq
