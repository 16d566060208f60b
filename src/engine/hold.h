/*
 * The door to a queue: the only way to its lock for whoever is not of this folder.
 *
 *     change_queue(ref, [&](QueueHold &hold) { hold.file(hint); });
 *     look_at_queue(ref, [&](const Queue &queue) { holds = queue.holds; });
 *     change_lease(db, job_id, [&](QueueHold &hold, Lease *lease) { pin_lease(lease); });
 *
 * The body runs under the queue's lock if the slot is still the one of ref, and the lease still
 * that of the job; otherwise it does not run, and the answer is false. In it nothing may fail,
 * wait, allocate, take any other lock but that of a lease partition, or handle more than kHoldMax
 * entries.
 *
 * What may give somebody something to do goes through the hold. When the lock has been released
 * they are woken: a waiter for each job that became ready; the waiter that watches the timer, if
 * the next timer moved forward (the hold sees that itself); the scheduler, for a NOTIFY, a lost
 * lease, or where the body says so. Copies for views and the like are in copies.h.
 */
#pragma once

#include "engine/concurrency.h"
#include "engine/group.h"
#include "engine/lease.h"
#include "engine/rate_limit.h"
#include "engine/result_wait.h"
#include "engine/share.h"
#include "engine/wakeup.h"
#include "pg/scope.h"

namespace pgq {

class QueueHold
{
public:
	/* What gives nobody anything to do is done directly. */
	Queue *operator->() const { return queue_; }
	Queue *queue() const { return queue_; }
	Schedule &schedule() const { return queue_->schedule; }
	QueueRef ref() const
	{
		return {queue_, pg_atomic_read_u32(&queue_->generation), queue_->queue_id};
	}

	/* A job waits. */
	void file(const Hint &hint) { ready_ += queue_->schedule.file(hint); }

	/* There may be jobs from these keys on that memory does not know: they are read from the table. */
	void read_from(const Key &key, const TimerKey &timer_key)
	{
		queue_->schedule.pull_back(key, timer_key);
		queue_->schedule.fire(wall_now());
		ready_ = kHoldMax;
	}

	/* There may be any, but of those that were due when enqueued none with a run_at beyond bound. */
	void read_all(TimestampTz bound)
	{
		queue_->schedule.doubt_horizon(bound);
		read_from(Key::lowest(), TimerKey::lowest());
	}

	/* As the functions of lease.h. */
	void end(Lease *lease, bool gone = false) { ready_ += end_lease(lease, gone); }
	/* Whoever waits for that job; before its lease ends. */
	void tell(int64 job_id, JobEnd end)
	{
		if (end != JobEnd::kUnknown && may_be_waited_for(job_id))
			told_ |= tell_waiting(queue_->database, queue_->queue_id, job_id, end);
	}
	/* A job has left it, or waits in another way. */
	void look_at_group(int64 group) { queue_->schedule.look_at_group(group); }
	/*
	 * The lease of a job that waits, to hold or change it; a PARKED one is nobody's. There is a bound for such leases:
	 * *fleeting, if it has been reached, and then the lease must end as soon as the row says who is at it.
	 */
	TakeResult take_waiting(const Hint &hint, Lease **lease, bool *fleeting)
	{
		LeaseShare &share = queue_->database->share;
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

	/* So many jobs may be ready by what was done directly. */
	void may_be_ready(int jobs) { ready_ += jobs; }

	/* Jobs are left, or may be: the next in line looks. */
	void pass_on() { pgq::pass_on(queue_, &wakeups_); }

	/* It is open again, or another one: whoever waits looks. */
	void all_may_look() { wake_waiters(queue_, kHoldMax, &wakeups_); }

	/* Jobs that were there while it was paused are news to who listens. */
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

	void lose_doomed(Lease *lease, int64 monotonic)
	{
		if (lease->doomed && lease->pins == 0)
			lose(lease, lease->loss, monotonic);
	}
	/* How many more may be claimed. */
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
		/* Its time has come: that is news once, whoever notices. */
		if (queue->next_start != INT64_MAX && queue->next_start <= monotonic_now())
			ready_ += Min(room_before_, kHoldMax);
	}
	/*
	 * If there are jobs, room is as good as jobs that have come. Only the first room is news: who takes it passes on
	 * what is left.
	 */
	void note_room()
	{
		int room = room_in(queue_);
		if (room_before_ == 0 && room > 0 && !queue_->schedule.exhausted())
			ready_ += Min(room, kHoldMax);
	}
	/* A group that has room again is as good as a job that has come. */
	void note_groups()
	{
		if (uint32 news = queue_->schedule.take_news())
			ready_ += Min(static_cast<int>(news), kHoldMax);
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

/* What find_lease() has found. False: it is not the job's lease any more. */
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

/* The lease that the job has, in whatever queue. False: none. */
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
