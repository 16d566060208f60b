/*
 * A model test of Schedule. The Schedule is the real one; actors do what sessions and workers do,
 * in every order (small worlds) or in random order (larger worlds): transactions that enqueue (the
 * row is visible first, the commit callback runs some time later), claims, refills step by step, a
 * clock that may go back. After each action the invariant at the top of core/schedule.h must hold,
 * and a single consumer that starts at that moment must get every live row, in order. One actor
 * asks for the oldest ready job, as find_oldest_ready() does: the answer from memory must be right.
 *
 * A Fault breaks one rule in the actors, never in Schedule. The test must notice each Fault, or it
 * would prove nothing.
 */
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using pgq::Hint;
using pgq::Key;
using pgq::Schedule;
using pgq::TimerKey;

constexpr int kMaxJobs = 6;
constexpr int kMaxSize = 3; /* of window, timer, batch */

enum class Fault
{
	kNone,
	kWindowForgetsLowest, /* publishes the end of the scan, whatever was evicted meanwhile */
	kTimerForgetsLowest,  /* the same for the timer */
	kErrorLeavesCursor,	  /* a refill that failed does not restore the cursor */
	kTimerErrorLeavesCursor,
	kCursorRaisedAfterScan, /* the rows are read before the refill begins */
	kScanGoesByClock,		/* due means run_at <= the clock, which may have gone back */
	kScanSkipsImmediate,	/* due means run_at <= D, also for a job that was due when enqueued */
	kFiledBeforeLeaseEnds,	/* "is leased: skip", and then the lease goes */
	kMovedRowIsDropped,		/* a hint whose row has another key now is thrown away with its lease */
	kBusyRowIsDropped,		/* a hint whose row is in somebody's hands is thrown away */
	kShedHintIsForgotten,	/* a hint that a large transaction did not keep pulls no cursor back */
	kMissedHintIsForgotten, /* a newer hint that met a lease is not filed when the lease ends unused */
	kPopIgnoresLeases,		/* a second hand-out of a leased job */
	kNeverRewinds,			/* the due line stays where a clock that was wrong has left it */
	kMergesWhatWasDue, /* a row that a refill has read is ready, though the clock was set back since */
	kRewindKeepsCursor, /* the cursor says after a rewind that what was behind it is in memory */
	kOldestReadFirst,	/* the rows are read before it is said that what comes be noted */
	kOldestOfSome, /* of jobs that go by no clock some are due, but yet to come: it is kept that there are none */
	kDoubtUnspoken, /* rows are there that were never filed, and nobody says up to when to look for them */
};

struct JobPlan
{
	int32_t priority;
	int64_t delay; /* 0: due when enqueued */
};

struct Plan
{
	std::vector<JobPlan> jobs;
	int window = 1;
	int timer = 1;
	int batch = 1;	   /* rows read in one refill */
	int64_t ticks = 0; /* how far the clock goes */
	bool clock_goes_back = false;
	int64_t slack = 100; /* the clock may be so far behind the due line */
	int64_t ahead =
		0; /* the jobs were enqueued while the clock was so far ahead, and their queue is to be loaded */
	int retries = 0; /* of each job */
	bool sheds = false;
	bool moves =
		false; /* of what may be retried: rows that are changed by another door, leased or not */
	bool deletes = false; /* rows that go away by another door */
	bool reset = false;	  /* begins unloaded: both cursors at -infinity */
	bool watched = false; /* the oldest ready job is asked for */
	Fault fault = Fault::kNone;
};

enum ActionKind : uint8_t
{
	/* of the world */
	kTick,
	kTickBack,
	kFire,
	kWindowBegin,
	kWindowRead,
	kWindowMerge,
	kWindowPublish,
	kWindowAbandon,
	kTimerBegin,
	kTimerRead,
	kTimerMerge,
	kTimerPublish,
	kTimerAbandon,
	kPop,
	kOldestBegin,
	kOldestRead,
	kOldestFinish,
	/* of a job */
	kInsert,
	kInsertCallback,
	kShedCallback,
	kVerify,
	kGiveBack,
	kAck,
	kRetryNow,
	kRetryLater,
	kMove,
	kSettle,
	kEndLease,
	kRetryCallback,
	kDelete,
	kActionKinds
};

constexpr const char *kActionNames[] = {"clock forward",
										"clock back",
										"fire",
										"window: begin",
										"window: read",
										"window: merge",
										"window: publish",
										"window: abandon",
										"timer: begin",
										"timer: read",
										"timer: merge",
										"timer: publish",
										"timer: abandon",
										"pop",
										"oldest: begin",
										"oldest: read",
										"oldest: finish",
										"insert",
										"file the insert",
										"shed the insert",
										"verify",
										"give back",
										"ack",
										"retry now",
										"retry later",
										"move",
										"settle",
										"end the lease",
										"file the retry",
										"delete"};
static_assert(std::size(kActionNames) == kActionKinds);

struct Action
{
	ActionKind kind;
	uint8_t job;
};

struct Job
{
	enum Row : uint8_t
	{
		kNotYet,
		kLive,
		kGone
	} row;
	enum LeaseState : uint8_t
	{
		kFree,
		kClaiming, /* popped, the row not yet looked at */
		kUnfit,	   /* looked at: the row has another key */
		kHeld,
		kAcked, /* the row is gone, the callback has not run */
		kRetried,
	} lease;
	bool insert_unfiled; /* the callback of its enqueue is still to come */
	bool retry_unfiled;
	uint8_t retries;
	bool failed; /* an attempt has */
	uint8_t holders;
	int64_t enqueued_at;
	Key key;				/* of the live version */
	Hint inserted, retried; /* what the callbacks will file */
	Hint leased;			/* what was popped; if kUnfit, what was found */
	Hint missed;			/* the first hint that met the lease and differs from it */
	uint8_t missed_count;	/* 2: more than one */

	bool delayed() const { return key.run_at > enqueued_at || failed; }
	Hint hint() const { return {.key = key, .place = {}, .delayed = delayed(), .group = 0}; }

	/* Live, unleased, and whoever wrote the row has run its callback: the invariant speaks of it. */
	bool filed() const
	{
		return row == kLive && lease == kFree && !(retries > 0 ? retry_unfiled : insert_unfiled);
	}
};

/* One refill, between the calls of Schedule. */
template <typename K> struct Scan
{
	enum Phase : uint8_t
	{
		kIdle,
		kReading,
		kMerging
	} phase;
	K start;
	K last; /* key of the last row read */
	K end;
	int64_t due_line;
	int64_t horizon;
	int n, merged;
	std::array<Hint, kMaxSize> rows;
};

/* The rows are read to find the oldest ready one. */
struct Watch
{
	enum Phase : uint8_t
	{
		kIdle,
		kBegun,
		kRead,
	} phase;
	uint32_t serial;
	int64_t below;
	int64_t due_line;
	int64_t horizon;
	bool any;
	Hint oldest;
};

/*
 * Everything there is. Its trees point into themselves, so only `world` below may
 * be used; a copy of it can be put back into its place.
 */
struct World
{
	Schedule schedule;
	Schedule::Node window[Schedule::nodes(kMaxSize)];
	Schedule::Timer::Node timer[kMaxSize];
	int64_t clock;
	Job jobs[kMaxJobs];
	Scan<Key> window_scan;
	Scan<TimerKey> timer_scan;
	Watch watch;
	bool early; /* a job was taken before its time */
};
static_assert(std::is_trivially_copyable_v<World>);

World world;

std::string
text(const Key &k)
{
	if (k == Key::lowest() || k == Key::highest())
		return k == Key::lowest() ? "-inf" : "+inf";
	std::ostringstream out;
	out << "(" << k.priority << " " << k.run_at << " #" << k.job_id << ")";
	return out.str();
}

std::string
text(const TimerKey &k)
{
	if (k == TimerKey::lowest() || k == TimerKey::highest())
		return k == TimerKey::lowest() ? "-inf" : "+inf";
	std::ostringstream out;
	out << "(" << k.run_at << " #" << k.job_id << ")";
	return out.str();
}

class Model
{
public:
	explicit Model(const Plan &plan) : plan_(plan), schedule_(world.schedule)
	{
		world = World{};
		schedule_.init(world.window, plan.window, world.timer, plan.timer,
					   faulty(Fault::kNeverRewinds) ? INT64_MAX : plan.slack);
		if (plan.ahead > 0)
			bring_from_the_future();
		schedule_.fire(world.clock);
		if (!plan.reset)
		{
			schedule_.begin_timer_refill(0);
			schedule_.finish_timer_refill(TimerKey::highest());
			schedule_.begin_window_refill(0);
			schedule_.finish_window_refill(Key::highest());
		}
		for (uint8_t kind = 0; kind < kActionKinds; kind++)
			for (uint8_t job = 0; job < (kind < kInsert ? 1 : plan.jobs.size()); job++)
				actions_.push_back({static_cast<ActionKind>(kind), job});
	}

	const std::vector<Action> &actions() const { return actions_; }

	/* False: it cannot happen now, and nothing has changed. */
	bool act(const Action &action)
	{
		switch (action.kind)
		{
			case kTick:
				return world.clock < plan_.ticks && (world.clock++, true);
			case kTickBack:
				return plan_.clock_goes_back && world.clock > 0 && (world.clock--, true);
			case kFire:
				schedule_.fire(world.clock);
				return true;
			case kWindowBegin:
				return begin_window();
			case kWindowRead:
				return read_window();
			case kWindowMerge:
				return merge(world.window_scan, [&](const Hint &h) { merge_window_row(h); });
			case kWindowPublish:
				return publish_window();
			case kWindowAbandon:
				return abandon_window();
			case kTimerBegin:
				return begin_timer();
			case kTimerRead:
				return read_timer();
			case kTimerMerge:
				return merge(world.timer_scan,
							 [&](const Hint &h) { schedule_.merge_timer_row(h); });
			case kTimerPublish:
				return publish_timer();
			case kTimerAbandon:
				return abandon_timer();
			case kPop:
			{
				bool rewound = step_back();
				return pop() || rewound;
			}
			case kOldestBegin:
				return plan_.watched && begin_watch();
			case kOldestRead:
				return read_watch();
			case kOldestFinish:
				return finish_watch();
			default:
				return act_on_job(action.kind, world.jobs[action.job], action.job);
		}
	}

	/* What is wrong with the world, if anything. */
	std::optional<std::string> violation() const
	{
		if (world.early)
			return complain("taken before its time");
		for (size_t i = 0; i < plan_.jobs.size(); i++)
		{
			const Job &job = world.jobs[i];
			if (job.holders > 1)
				return complain("two hold", job);
			if (!job.filed())
				continue;
			Hint hint = job.hint();
			if (schedule_.due(hint))
			{
				if (schedule_.poppable() && hint.key < schedule_.window().first().key)
					return complain("poppable, but smaller is", job);
				if (schedule_.exhausted())
					return complain("exhausted, but ready is", job);
			}
			else if (schedule_.next_timer() > hint.key.run_at && !schedule_.leads_to(hint))
				return complain("next_timer() misses", job);
			if (!schedule_.covers(hint) && !schedule_.leads_to(hint))
				return complain("forgotten", job);
		}
		return plan_.watched ? wrong_oldest() : std::nullopt;
	}

	/*
	 * Everybody else comes to an end, and a lone consumer takes what there is, waiting
	 * as long as next_timer() tells it to.
	 */
	std::optional<std::string> drain()
	{
		end_everything();
		for (int patience = 0; patience < 1000; patience++)
		{
			if (auto bad = violation())
				return bad;
			schedule_.fire(world.clock);
			if (schedule_.poppable())
			{
				if (auto bad = consume(schedule_.pop()))
					return bad;
				continue;
			}
			if (schedule_.wants_timer_refill())
			{
				refill_timer();
				continue;
			}
			if (schedule_.wants_window_refill())
			{
				refill_window();
				/* As a claimer does: pop before the due line moves again. */
				if (schedule_.poppable())
					if (auto bad = consume(schedule_.pop()))
						return bad;
				continue;
			}
			if (!schedule_.exhausted())
				return complain("neither poppable nor exhausted, and no refill is wanted");
			if (schedule_.next_timer() == INT64_MAX)
			{
				for (size_t i = 0; i < plan_.jobs.size(); i++)
					if (world.jobs[i].row == Job::kLive)
						return complain("never handed out", world.jobs[i]);
				return {};
			}
			if (schedule_.next_timer() <= schedule_.due_line())
				return complain("next_timer() is in the past and nothing came of it");
			world.clock = schedule_.next_timer();
		}
		return complain("the consumer goes round in circles");
	}

	/* The same string means the same future. */
	std::string encode() const
	{
		std::string code;
		auto put = [&](int64_t n) { code += static_cast<char>(std::clamp<int64_t>(n, -128, 127)); };
		auto put_key = [&](const Key &k) { put(k.priority), put(k.run_at), put(k.job_id); };
		auto put_timer_key = [&](const TimerKey &k) { put(k.run_at), put(k.job_id); };
		auto put_hint = [&](const Hint &h) { put_key(h.key), put(h.delayed); };
		auto put_rows = [&](const auto &scan) {
			put(scan.phase), put(scan.due_line), put(scan.horizon), put(scan.n), put(scan.merged);
			for (int i = scan.merged; i < scan.n; i++)
				put_hint(scan.rows[i]);
		};
		put(world.clock), put(schedule_.due_line()), put(schedule_.horizon());
		put(schedule_.survey().met()), put_key(schedule_.survey().surveyed()),
			put(schedule_.survey().surveying());
		schedule_.window().for_each(put_hint), put(-1);
		schedule_.timer().for_each(put_hint), put(-1);
		put_key(schedule_.cursor()), put_timer_key(schedule_.timer_cursor());
		put_rows(world.window_scan), put_rows(world.timer_scan);
		if (world.window_scan.phase != Scan<Key>::kIdle)
		{
			put_key(world.window_scan.start), put_key(world.window_scan.last),
				put_key(world.window_scan.end);
			put_key(lowest_in_window_refill());
		}
		if (world.timer_scan.phase != Scan<TimerKey>::kIdle)
		{
			put_timer_key(world.timer_scan.start), put_timer_key(world.timer_scan.last);
			put_timer_key(world.timer_scan.end), put_timer_key(lowest_in_timer_refill());
		}
		if (plan_.watched)
		{
			const Watch &watch = world.watch;
			const pgq::OldestReady &beyond = schedule_.oldest_beyond();
			put(watch.phase), put(watch.below), put(watch.due_line), put(watch.horizon);
			put(watch.any), put_hint(watch.any ? watch.oldest : Hint{});
			for (int64_t below : {int64_t{0}, int64_t{1}, int64_t{2}, pgq::OldestReady::kAll})
				put(beyond.knows(below)), put(finish_would_tell(below));
			put_hint(beyond.oldest() != nullptr ? *beyond.oldest() : Hint{});
		}
		for (size_t i = 0; i < plan_.jobs.size(); i++)
		{
			const Job &job = world.jobs[i];
			put(job.row), put(job.lease), put(job.retries), put(job.holders), put(job.enqueued_at);
			put(job.insert_unfiled), put(job.retry_unfiled), put(job.failed);
			put_key(job.key);
			if (job.insert_unfiled)
				put_hint(job.inserted);
			if (job.retry_unfiled)
				put_hint(job.retried);
			if (job.lease != Job::kFree)
				put_hint(job.leased), put(job.missed_count);
			if (job.missed_count > 0)
				put_hint(job.missed);
		}
		return code;
	}

	std::string describe() const
	{
		std::ostringstream out;
		auto put_hint = [&](const Hint &h) { out << " " << text(h.key); };
		out << "clock " << world.clock << ", D " << schedule_.due_line() << ", W";
		schedule_.window().for_each(put_hint);
		out << ", C " << text(schedule_.cursor())
			<< (schedule_.window_refill_active() ? " (refill)" : "") << ", T";
		schedule_.timer().for_each(put_hint);
		out << ", TC " << text(schedule_.timer_cursor())
			<< (schedule_.timer_refill_active() ? " (refill)" : "");
		return out.str();
	}

	static std::string describe(const Action &action)
	{
		std::string name = kActionNames[action.kind];
		return action.kind < kInsert ? name : name + " #" + std::to_string(action.job + 1);
	}

private:
	bool faulty(Fault fault) const { return plan_.fault == fault; }

	std::string complain(const char *what) const { return std::string(what) + ": " + describe(); }
	std::string complain(const char *what, const Job &job) const
	{
		return std::string(what) + " " + text(job.key) + (job.delayed() ? " delayed: " : ": ") +
			   describe();
	}

	/* ---- jobs ---- */

	/* A server that has failed over to a clock behind: the rows are there, memory is empty. */
	void bring_from_the_future()
	{
		for (size_t i = 0; i < plan_.jobs.size(); i++)
		{
			Job &job = world.jobs[i];
			job.enqueued_at = plan_.ahead;
			job.key = {plan_.jobs[i].priority, plan_.ahead + plan_.jobs[i].delay,
					   static_cast<int64_t>(i) + 1};
			job.row = Job::kLive;
		}
		if (!faulty(Fault::kDoubtUnspoken))
			schedule_.doubt_horizon(plan_.ahead);
	}

	bool act_on_job(ActionKind kind, Job &job, int index)
	{
		switch (kind)
		{
			case kInsert:
				if (job.row != Job::kNotYet)
					return false;
				job.enqueued_at = world.clock;
				job.key = {plan_.jobs[index].priority, world.clock + plan_.jobs[index].delay,
						   index + 1};
				job.row = Job::kLive;
				job.inserted = job.hint();
				job.insert_unfiled = true;
				return true;
			case kInsertCallback:
				return file(job, job.insert_unfiled, job.inserted);
			case kRetryCallback:
				return (job.lease != Job::kRetried || faulty(Fault::kFiledBeforeLeaseEnds)) &&
					   file(job, job.retry_unfiled, job.retried);
			case kShedCallback:
				if (!plan_.sheds || !job.insert_unfiled)
					return false;
				job.insert_unfiled = false;
				if (!faulty(Fault::kShedHintIsForgotten))
				{
					if (!job.inserted.delayed)
						schedule_.raise_horizon(job.inserted.key.run_at);
					schedule_.pull_back(job.inserted.key, job.inserted.timer_key());
				}
				schedule_.fire(world.clock);
				return true;
			case kVerify:
				return job.lease == Job::kClaiming && verify(job);
			case kGiveBack:
				return give_back(job);
			case kAck:
				if (job.lease != Job::kHeld)
					return false;
				job.row = Job::kGone;
				job.lease = Job::kAcked;
				return true;
			case kRetryNow:
				return retry(job, {job.key.priority, world.clock, job.key.job_id});
			case kRetryLater:
				return retry(job, {job.key.priority, world.clock + 1, job.key.job_id});
			case kMove:
				return plan_.moves && job.row == Job::kLive && job.lease != Job::kRetried &&
					   rewrite(job, {job.key.priority + 2, job.key.run_at, job.key.job_id});
			case kSettle:
				if (job.lease != Job::kUnfit)
					return false;
				file_back(job);
				return true;
			case kEndLease:
				return (job.lease == Job::kAcked || job.lease == Job::kRetried) && end_lease(job);
			case kDelete:
				if (!plan_.deletes || job.row != Job::kLive || job.lease != Job::kFree)
					return false;
				job.row = Job::kGone;
				return true;
			default:
				return false;
		}
	}

	/* A commit callback; that of a retry has ended the lease before. */
	bool file(const Job &job, bool &unfiled, const Hint &hint)
	{
		if (!unfiled)
			return false;
		unfiled = false;
		schedule_.fire(world.clock);
		if (job.lease == Job::kFree || !faulty(Fault::kFiledBeforeLeaseEnds))
			schedule_.file(hint);
		return true;
	}

	/* What met the lease meanwhile is filed, for the row may have been changed since. */
	bool end_lease(Job &job)
	{
		job.lease = Job::kFree;
		job.holders = 0;
		if (job.missed_count > 1)
			schedule_.pull_back(Key::lowest(), TimerKey::lowest());
		if (job.missed_count > 0)
			schedule_.file(job.missed);
		job.missed_count = 0;
		return true;
	}

	/* The claim failed, the row was busy for a while, or the holder rolled back. */
	bool give_back(Job &job)
	{
		if (job.lease != Job::kClaiming && job.lease != Job::kHeld)
			return false;
		if (job.lease == Job::kClaiming && faulty(Fault::kBusyRowIsDropped))
			return end_lease(job);
		file_back(job);
		return true;
	}

	/* The lease ends and the job is as it was: what was popped is filed. */
	void file_back(Job &job)
	{
		schedule_.file(job.leased);
		end_lease(job);
	}

	/* A failed job can have the run_at that it had when it was due at once. */
	static bool same(const Hint &a, const Hint &b)
	{
		return a.key == b.key && a.delayed == b.delayed;
	}

	void miss(Job &job, const Hint &hint)
	{
		if (faulty(Fault::kMissedHintIsForgotten) || same(hint, job.leased) ||
			(job.missed_count > 0 && same(hint, job.missed)))
			return;
		if (job.missed_count == 0)
			job.missed = hint;
		job.missed_count = job.missed_count == 0 ? 1 : 2;
	}

	bool retry(Job &job, const Key &key)
	{
		if (job.lease != Job::kHeld || !may_rewrite(job))
			return false;
		job.failed = true;
		rewrite(job, key);
		job.lease = Job::kRetried;
		return true;
	}

	bool may_rewrite(const Job &job) const
	{
		return job.retries < plan_.retries && !job.retry_unfiled;
	}

	bool rewrite(Job &job, const Key &key)
	{
		if (!may_rewrite(job))
			return false;
		job.key = key;
		job.retries++;
		job.retried = job.hint();
		job.retry_unfiled = true;
		return true;
	}

	/* What a claim does that must not move the due line forward. */
	bool step_back()
	{
		Key cursor = schedule_.cursor();
		int64_t before = schedule_.due_line();
		schedule_.notice_step_back(world.clock);
		if (faulty(Fault::kRewindKeepsCursor) && schedule_.due_line() < before &&
			!schedule_.window_refill_active())
		{
			schedule_.begin_window_refill(world.clock);
			schedule_.finish_window_refill(cursor);
		}
		return schedule_.due_line() < before;
	}

	bool pop()
	{
		if (!schedule_.poppable())
			return false;
		Hint hint = schedule_.pop();
		Job &job = world.jobs[hint.key.job_id - 1];
		bool delayed = faulty(Fault::kMergesWhatWasDue) ? job.delayed() : hint.delayed;
		world.early |= delayed && hint.key.run_at > world.clock + plan_.slack;
		if (job.lease != Job::kFree && !faulty(Fault::kPopIgnoresLeases))
		{
			miss(job, hint);
			return true;
		}
		job.lease = Job::kClaiming;
		job.leased = hint;
		return true;
	}

	bool verify(Job &job)
	{
		if (job.row != Job::kLive)
			return end_lease(job);
		if (same(job.hint(), job.leased))
		{
			job.lease = Job::kHeld;
			job.holders++;
			return true;
		}
		if (faulty(Fault::kMovedRowIsDropped))
		{
			job.missed_count = 0;
			return end_lease(job);
		}
		job.leased = job.hint();
		job.lease = Job::kUnfit;
		return true;
	}

	/* ---- refills ---- */

	/* As an index scan does: the next row by order, as it is at this moment. */
	template <typename K, typename KeyOf, typename Wanted>
	bool read(Scan<K> &scan, KeyOf key_of, Wanted wanted)
	{
		if (scan.phase != Scan<K>::kReading)
			return false;
		const Job *next = nullptr;
		for (size_t i = 0; i < plan_.jobs.size(); i++)
		{
			const Job &job = world.jobs[i];
			K key = key_of(job.key);
			if (job.row != Job::kLive || !wanted(job) || key < scan.start ||
				(scan.n > 0 && !(scan.last < key)))
				continue;
			if (next == nullptr || key < key_of(next->key))
				next = &job;
		}
		if (next != nullptr && scan.n < plan_.batch)
		{
			scan.last = key_of(next->key);
			scan.rows[scan.n++] = next->hint();
			return true;
		}
		scan.end = next != nullptr ? key_of(next->key) : K::highest();
		scan.phase = Scan<K>::kMerging;
		return true;
	}

	template <typename K, typename Merge> bool merge(Scan<K> &scan, Merge merge_row)
	{
		if (scan.phase != Scan<K>::kMerging || scan.merged == scan.n)
			return false;
		if (faulty(Fault::kCursorRaisedAfterScan) && !schedule_.window_refill_active())
			schedule_.begin_window_refill(world.clock);
		const Hint &row = scan.rows[scan.merged++];
		Job &job = world.jobs[row.key.job_id - 1];
		schedule_.note_met(row);
		if (job.lease == Job::kFree)
			merge_row(row);
		else
			miss(job, row);
		return true;
	}

	void merge_window_row(const Hint &row)
	{
		Hint as_read = row;
		/* Then it is due whatever the due line. */
		as_read.delayed &= !faulty(Fault::kMergesWhatWasDue);
		schedule_.merge_window_row(as_read);
	}

	bool begin_window()
	{
		auto &scan = world.window_scan;
		if (scan.phase != scan.kIdle || !schedule_.wants_window_refill())
			return false;
		scan = {};
		scan.phase = scan.kReading;
		scan.start = schedule_.cursor();
		if (!faulty(Fault::kCursorRaisedAfterScan))
			scan.start = schedule_.begin_window_refill(world.clock);
		scan.due_line = faulty(Fault::kScanGoesByClock) ? world.clock : schedule_.due_line();
		scan.horizon = faulty(Fault::kScanSkipsImmediate) ? scan.due_line : schedule_.horizon();
		return true;
	}

	bool read_window()
	{
		auto due = [&](const Job &job) {
			const auto &scan = world.window_scan;
			return job.key.run_at <= scan.due_line ||
				   (!job.delayed() && job.key.run_at <= scan.horizon);
		};
		return read(
			world.window_scan, [](const Key &k) { return k; }, due);
	}

	bool publish_window()
	{
		auto &scan = world.window_scan;
		if (scan.phase != scan.kMerging || scan.merged < scan.n)
			return false;
		Key end = scan.end;
		scan = {};
		if (!schedule_.window_refill_active())
			schedule_.begin_window_refill(world.clock);
		schedule_.finish_window_refill(end);
		if (faulty(Fault::kWindowForgetsLowest))
		{
			schedule_.begin_window_refill(schedule_.due_line());
			schedule_.finish_window_refill(end);
		}
		return true;
	}

	bool abandon_window()
	{
		auto &scan = world.window_scan;
		if (scan.phase == scan.kIdle)
			return false;
		scan = {};
		if (!schedule_.window_refill_active())
			return true;
		if (faulty(Fault::kErrorLeavesCursor))
			schedule_.finish_window_refill(Key::highest());
		else
			schedule_.abandon_window_refill();
		return true;
	}

	bool begin_timer()
	{
		auto &scan = world.timer_scan;
		if (scan.phase != scan.kIdle || !schedule_.wants_timer_refill())
			return false;
		scan = {};
		scan.phase = scan.kReading;
		scan.start = schedule_.begin_timer_refill(world.clock);
		return true;
	}

	bool read_timer()
	{
		return read(
			world.timer_scan,
			[](const Key &k) {
				return TimerKey{k.run_at, k.job_id};
			},
			[](const Job &job) { return job.delayed(); });
	}

	bool publish_timer()
	{
		auto &scan = world.timer_scan;
		if (scan.phase != scan.kMerging || scan.merged < scan.n)
			return false;
		TimerKey end = scan.end;
		scan = {};
		schedule_.finish_timer_refill(end);
		if (faulty(Fault::kTimerForgetsLowest))
		{
			schedule_.begin_timer_refill(schedule_.due_line());
			schedule_.finish_timer_refill(end);
		}
		return true;
	}

	bool abandon_timer()
	{
		auto &scan = world.timer_scan;
		if (scan.phase == scan.kIdle)
			return false;
		scan = {};
		if (faulty(Fault::kTimerErrorLeavesCursor))
			schedule_.finish_timer_refill(TimerKey::highest());
		else
			schedule_.abandon_timer_refill();
		return true;
	}

	/* Schedule does not show it, but to finish at +infinity does. */
	static Key lowest_in_window_refill()
	{
		if (!world.schedule.window_refill_active())
			return Key::highest();
		World saved = world;
		world.schedule.finish_window_refill(Key::highest());
		Key lowest = world.schedule.cursor();
		world = saved;
		return lowest;
	}
	static TimerKey lowest_in_timer_refill()
	{
		World saved = world;
		world.schedule.finish_timer_refill(TimerKey::highest());
		TimerKey lowest = world.schedule.timer_cursor();
		world = saved;
		return lowest;
	}

	/* ---- who asks for the oldest ready job: load/oldest.cpp ---- */

	bool knows_all_ready() const
	{
		for (size_t i = 0; i < plan_.jobs.size(); i++)
			if (world.jobs[i].lease == Job::kClaiming || world.jobs[i].lease == Job::kUnfit)
				return false;
		return !schedule_.hides_due();
	}

	bool is_ready(const Hint &hint) const
	{
		const Job &job = world.jobs[hint.key.job_id - 1];
		return job.row == Job::kLive && job.lease == Job::kFree && job.key == hint.key;
	}

	void announce_watch()
	{
		Watch &watch = world.watch;
		watch.below = schedule_.oldest_in_window(64).below;
		watch.serial = schedule_.oldest_beyond().begin(watch.below);
	}

	bool begin_watch()
	{
		Watch &watch = world.watch;
		schedule_.fire(world.clock);
		if (watch.phase != Watch::kIdle || !knows_all_ready())
			return false;
		watch.phase = Watch::kBegun;
		watch.due_line = schedule_.due_line();
		watch.horizon = schedule_.horizon();
		watch.below = schedule_.oldest_in_window(64).below;
		if (!faulty(Fault::kOldestReadFirst))
			announce_watch();
		return true;
	}

	bool read_watch()
	{
		Watch &watch = world.watch;
		if (watch.phase != Watch::kBegun)
			return false;
		watch.phase = Watch::kRead;
		for (size_t i = 0; i < plan_.jobs.size(); i++)
		{
			const Job &job = world.jobs[i];
			if (job.row != Job::kLive || job.lease != Job::kFree ||
				job.key.priority >= watch.below || job.key.run_at > watch.due_line ||
				(watch.any && watch.oldest.key.run_at <= job.key.run_at))
				continue;
			watch.any = true;
			watch.oldest = job.hint();
		}
		return true;
	}

	bool finish_watch()
	{
		Watch watch = world.watch;
		if (watch.phase != Watch::kRead)
			return false;
		if (faulty(Fault::kOldestReadFirst))
		{
			announce_watch();
			watch.serial = world.watch.serial;
		}
		world.watch = {};
		if (watch.any || watch.horizon == watch.due_line || faulty(Fault::kOldestOfSome))
			schedule_.oldest_beyond().finish(watch.serial, watch.any ? &watch.oldest : nullptr);
		return true;
	}

	/* Of the state: is the reading that is under way good for anything? */
	bool finish_would_tell(int64_t below) const
	{
		pgq::OldestReady beyond = schedule_.oldest_beyond();
		beyond.finish(world.watch.serial, nullptr);
		return beyond.knows(below);
	}

	/* If memory knows the oldest: is it? The due line has been moved to the clock. */
	std::optional<std::string> wrong_oldest() const
	{
		if (!knows_all_ready() || schedule_.next_timer() <= world.clock)
			return {};
		int64_t oldest = INT64_MAX;
		auto known = schedule_.oldest_in_window(64);
		const auto &beyond = schedule_.oldest_beyond();
		if (known.hint != nullptr && !is_ready(*known.hint))
			return {};
		if (known.hint != nullptr)
			oldest = known.hint->key.run_at;
		if (known.below > INT32_MIN)
		{
			if (!beyond.knows(known.below))
				return {};
			const Hint *hint = beyond.oldest();
			if (hint != nullptr && hint->key.run_at < oldest)
			{
				if (!is_ready(*hint))
					return {};
				oldest = hint->key.run_at;
			}
		}
		for (size_t i = 0; i < plan_.jobs.size(); i++)
		{
			const Job &job = world.jobs[i];
			bool ready = job.key.run_at <= std::max(schedule_.due_line(), world.clock);
			if (job.filed() && ready && job.key.run_at < oldest)
				return complain("older than what is said to be the oldest is", job);
		}
		return {};
	}

	/* ---- the lone consumer ---- */

	void end_everything()
	{
		auto all = [&](ActionKind kind) {
			for (size_t i = 0; i < plan_.jobs.size(); i++)
				act({kind, static_cast<uint8_t>(i)});
		};
		all(kGiveBack);
		all(kSettle);
		all(kEndLease);
		all(kInsertCallback);
		all(kRetryCallback);
		act({kWindowAbandon, 0});
		act({kTimerAbandon, 0});
	}

	void refill_window()
	{
		begin_window();
		while (read_window())
			;
		while (act({kWindowMerge, 0}))
			;
		publish_window();
	}

	void refill_timer()
	{
		begin_timer();
		while (read_timer())
			;
		while (act({kTimerMerge, 0}))
			;
		publish_timer();
	}

	std::optional<std::string> consume(const Hint &hint)
	{
		Job &job = world.jobs[hint.key.job_id - 1];
		if (job.row != Job::kLive)
			return {};
		if (!same(job.hint(), hint))
		{
			schedule_.file(job.hint());
			return {};
		}
		if (!schedule_.due(job.hint()))
			return complain("handed out before its time", job);
		for (size_t i = 0; i < plan_.jobs.size(); i++)
			if (world.jobs[i].row == Job::kLive && schedule_.due(world.jobs[i].hint()) &&
				world.jobs[i].key < job.key)
				return complain("out of order", job);
		job.row = Job::kGone;
		return {};
	}

	const Plan &plan_;
	Schedule &schedule_;
	std::vector<Action> actions_;
};

/* ---- every order of actions ---- */

struct Outcome
{
	size_t states = 0;
	bool complete = true;
	std::string violation; /* and how it came to it; empty: all is well */
};

Outcome
explore(const Plan &plan, size_t limit)
{
	struct Seen
	{
		size_t from;
		Action by;
	};
	std::vector<Seen> seen;
	std::unordered_map<std::string, size_t> known;
	std::deque<World> waiting; /* the last of seen, not yet continued */
	Model model(plan);

	auto trace = [&](size_t state, const std::string &what) {
		std::string way;
		for (; state != 0; state = seen[state].from)
			way = Model::describe(seen[state].by) + "; " + way;
		return what + "\n  after: " + way;
	};
	auto visit = [&](size_t from, Action by) {
		auto [place, is_new] = known.emplace(model.encode(), seen.size());
		if (is_new)
		{
			seen.push_back({from, by});
			waiting.push_back(world);
		}
		return is_new;
	};

	visit(0, {});
	for (size_t state = 0; !waiting.empty(); state++)
	{
		World before = waiting.front();
		waiting.pop_front();
		for (const Action &action : model.actions())
		{
			world = before;
			if (!model.act(action))
				continue;
			auto bad = model.violation();
			bool is_new = visit(state, action);
			if (is_new && !bad && seen.size() % 32 == 0)
				bad = model.drain();
			if (bad)
				return {seen.size(), true, trace(state, *bad) + Model::describe(action)};
		}
		if (seen.size() >= limit)
			return {seen.size(), false, {}};
	}
	return {seen.size(), true, {}};
}

/* ---- a random order of actions ---- */

Outcome
walk(const Plan &plan, unsigned seed, int walks, int steps)
{
	std::mt19937 random(seed);
	Outcome outcome;
	for (int n = 0; n < walks; n++)
	{
		Model model(plan);
		std::vector<Action> way;
		std::optional<std::string> bad;
		for (int i = 0; i < steps && !bad; i++)
		{
			Action action = model.actions()[random() % model.actions().size()];
			if (!model.act(action))
				continue;
			outcome.states++;
			way.push_back(action);
			bad = model.violation();
		}
		if (!bad)
			bad = model.drain();
		if (bad)
		{
			outcome.violation = *bad + "\n  seed " + std::to_string(seed) + ", after: ";
			for (const Action &action : way)
				outcome.violation += Model::describe(action) + "; ";
			break;
		}
	}
	return outcome;
}

/* ---- the tests ---- */

constexpr JobPlan kNow{.priority = 0, .delay = 0};
constexpr JobPlan kSoon{.priority = 0, .delay = 1};
constexpr JobPlan kUrgentSoon{.priority = 1, .delay = 1};
constexpr JobPlan kLater{.priority = 0, .delay = 3};
constexpr JobPlan kUrgent{.priority = 1, .delay = 0};

/* Worlds small enough to see all of; between them they have every action. */
const struct Small
{
	const char *name;
	Plan plan;
} kSmall[] = {
	{"four immediate jobs", {.jobs = {kNow, kNow, kNow, kNow}}},
	{"four immediate jobs, two in the window",
	 {.jobs = {kNow, kNow, kNow, kNow}, .window = 2, .batch = 2}},
	{"an immediate and a delayed job", {.jobs = {kNow, kUrgentSoon}, .ticks = 1, .sheds = true}},
	{"two immediate jobs, the clock may go back",
	 {.jobs = {kNow, kNow}, .ticks = 1, .clock_goes_back = true, .sheds = true}},
	{"three delayed jobs, the clock may go back",
	 {.jobs = {kSoon, kUrgentSoon, kSoon}, .ticks = 1, .clock_goes_back = true}},
	{"jobs of all kinds", {.jobs = {kNow, kSoon, kUrgentSoon}, .ticks = 1}},
	{"a retry each", {.jobs = {kNow, kUrgentSoon}, .ticks = 2, .retries = 1}},
	{"a retry each, the clock may go back",
	 {.jobs = {kNow, kNow}, .ticks = 1, .clock_goes_back = true, .retries = 1}},
	{"rows that move", {.jobs = {kNow, kNow}, .retries = 1, .moves = true}},
	{"delayed rows that move", {.jobs = {kNow, kSoon}, .ticks = 1, .retries = 1, .moves = true}},
	{"an unloaded queue",
	 {.jobs = {kNow, kUrgentSoon}, .ticks = 1, .deletes = true, .reset = true}},
	{"the oldest of two priorities", {.jobs = {kNow, kUrgent}, .ticks = 1, .watched = true}},
	{"the oldest of delayed jobs", {.jobs = {kSoon, kUrgentSoon}, .ticks = 1, .watched = true}},
	{"the oldest of rows that move",
	 {.jobs = {kNow}, .ticks = 1, .retries = 1, .moves = true, .deletes = true, .watched = true}},
	{"the oldest, the clock may go back",
	 {.jobs = {kSoon}, .ticks = 1, .clock_goes_back = true, .slack = 0, .watched = true}},
	{"a clock that is set right",
	 {.jobs = {kSoon}, .ticks = 1, .clock_goes_back = true, .slack = 0, .sheds = true}},
	{"a clock that is set right, or wrong by little",
	 {.jobs = {kSoon}, .ticks = 2, .clock_goes_back = true, .slack = 1}},
	{"jobs from the future",
	 {.jobs = {kNow, kNow}, .ticks = 1, .slack = 0, .ahead = 1, .reset = true}},
	{"jobs from the future, the clock is set right",
	 {.jobs = {kNow, kSoon},
	  .ticks = 1,
	  .clock_goes_back = true,
	  .slack = 0,
	  .ahead = 1,
	  .reset = true}},
};

void
PrintTo(const Small &small, std::ostream *out)
{
	*out << small.name;
}

class Explore : public testing::TestWithParam<Small>
{};

TEST_P(Explore, TheInvariantHoldsInEveryState)
{
	Outcome outcome = explore(GetParam().plan, 2000000);
	RecordProperty("states", static_cast<int>(outcome.states));
	EXPECT_EQ(outcome.violation, "");
	EXPECT_TRUE(outcome.complete);
}

INSTANTIATE_TEST_SUITE_P(Schedule, Explore, testing::ValuesIn(kSmall), [](const auto &info) {
	std::string name = info.param.name;
	std::erase(name, ',');
	std::replace(name.begin(), name.end(), ' ', '_');
	return name;
});

/* Larger worlds, everything at once, in random order. A failure tells its seed. */
class Walk : public testing::TestWithParam<unsigned>
{};

TEST_P(Walk, TheInvariantHolds)
{
	unsigned seed = GetParam();
	Plan plan{.jobs = {kNow, kSoon, kUrgentSoon, kNow, kLater, kUrgent},
			  .window = 1 + static_cast<int>(seed % 3),
			  .timer = 1 + static_cast<int>(seed / 3 % 3),
			  .batch = 1 + static_cast<int>(seed % 2),
			  .ticks = 5,
			  .clock_goes_back = true,
			  .slack = seed % 4 == 0 ? 100 : seed % 4 - 1,
			  .retries = 2,
			  .sheds = true,
			  .moves = true,
			  .deletes = true,
			  .reset = seed % 2 == 0,
			  .watched = seed % 3 != 0};
	Outcome outcome = walk(plan, seed, 5000, 1000);
	EXPECT_EQ(outcome.violation, "");
	EXPECT_GT(outcome.states, 200000u) << "the actors stand still";
}

INSTANTIATE_TEST_SUITE_P(Schedule, Walk, testing::Range(1u, 10u));

/* ---- what the checks are worth ---- */

struct Broken
{
	Fault fault;
	const char *name;
	Plan plan;
};

class Faulty : public testing::TestWithParam<Broken>
{};

TEST_P(Faulty, IsNoticed)
{
	Plan plan = GetParam().plan;
	EXPECT_EQ(explore(plan, 1000000).violation, "") << "without the fault";
	plan.fault = GetParam().fault;
	Outcome outcome = explore(plan, 1000000);
	EXPECT_NE(outcome.violation, "");
}

void
PrintTo(const Broken &broken, std::ostream *out)
{
	*out << broken.name;
}

INSTANTIATE_TEST_SUITE_P(
	Schedule, Faulty,
	testing::Values(
		Broken{Fault::kWindowForgetsLowest, "WindowForgetsLowest", {.jobs = {kNow, kNow, kNow}}},
		Broken{Fault::kTimerForgetsLowest,
			   "TimerForgetsLowest",
			   {.jobs = {kSoon, kLater, kLater}, .ticks = 1}},
		Broken{Fault::kErrorLeavesCursor, "ErrorLeavesCursor", {.jobs = {kNow, kNow}}},
		Broken{Fault::kTimerErrorLeavesCursor,
			   "TimerErrorLeavesCursor",
			   {.jobs = {kSoon, kLater}, .ticks = 1}},
		Broken{
			Fault::kCursorRaisedAfterScan, "CursorRaisedAfterScan", {.jobs = {kNow, kNow, kNow}}},
		Broken{Fault::kScanGoesByClock,
			   "ScanGoesByClock",
			   {.jobs = {kSoon, kSoon}, .ticks = 1, .clock_goes_back = true}},
		Broken{Fault::kScanSkipsImmediate,
			   "ScanSkipsImmediate",
			   {.jobs = {kNow, kNow}, .ticks = 1, .clock_goes_back = true}},
		Broken{
			Fault::kFiledBeforeLeaseEnds, "FiledBeforeLeaseEnds", {.jobs = {kNow}, .retries = 1}},
		Broken{Fault::kMovedRowIsDropped,
			   "MovedRowIsDropped",
			   {.jobs = {kNow}, .retries = 1, .moves = true}},
		Broken{Fault::kBusyRowIsDropped, "BusyRowIsDropped", {.jobs = {kNow}}},
		Broken{Fault::kMissedHintIsForgotten,
			   "MissedHintIsForgotten",
			   {.jobs = {kNow}, .retries = 1, .moves = true}},
		Broken{Fault::kShedHintIsForgotten,
			   "ShedHintIsForgotten",
			   {.jobs = {kNow, kSoon}, .sheds = true}},
		Broken{Fault::kPopIgnoresLeases, "PopIgnoresLeases", {.jobs = {kNow}, .reset = true}},
		Broken{Fault::kNeverRewinds,
			   "NeverRewinds",
			   {.jobs = {kSoon}, .ticks = 1, .clock_goes_back = true, .slack = 0}},
		Broken{Fault::kMergesWhatWasDue,
			   "MergesWhatWasDue",
			   {.jobs = {kSoon}, .ticks = 1, .clock_goes_back = true, .slack = 0}},
		Broken{Fault::kRewindKeepsCursor,
			   "RewindKeepsCursor",
			   {.jobs = {kNow}, .ticks = 1, .clock_goes_back = true, .slack = 0}},
		Broken{Fault::kOldestReadFirst,
			   "OldestReadFirst",
			   {.jobs = {kNow, kUrgent}, .ticks = 1, .watched = true}},
		Broken{Fault::kOldestOfSome,
			   "OldestOfSome",
			   {.jobs = {kNow, kUrgent},
				.ticks = 2,
				.slack = 100,
				.ahead = 1,
				.reset = true,
				.watched = true}},
		Broken{Fault::kDoubtUnspoken,
			   "DoubtUnspoken",
			   {.jobs = {kNow}, .slack = 0, .ahead = 2, .reset = true}}),
	[](const auto &info) { return info.param.name; });

} // namespace
