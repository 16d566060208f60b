/*
 * A small world around the real Schedule of a queue with rules for groups. The world has a table of jobs, leases, commit callbacks
 * that run late, refills, visits and steps with their phases, two clocks, changes of rows by SQL, changes of the rules, and
 * restarts. Each event is an action; a test lets actions happen in every order or in random order. check() compares the Schedule
 * with the table after each action. drain() lets one consumer go on alone, and checks that it gets every job.
 *
 * A World works on a State. A test copies the State to return to it later. Single-threaded, so without locks.
 */
#pragma once

#include "core/schedule.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace group_world {

using pgq::GroupRules;
using pgq::Hint;
using pgq::Key;
using pgq::LapStep;
using pgq::Schedule;
using pgq::TimerKey;
using pgq::Visit;

inline constexpr int kMaxJobs = 12;
inline constexpr int kMaxNodes = 16;
inline constexpr int kMaxEntries = 20;
inline constexpr int64_t kPeriod = 16; /* of rates: one part of core/rate.h is one unit of time */

/* A job to be inserted. */
struct JobPlan
{
	int64_t group;
	int32_t priority = 0;
	int64_t delay = 0; /* run_at minus the time of the insert */
};

/* The size of a world, and the actions that may happen in it. */
struct Plan
{
	std::vector<JobPlan> jobs;
	std::vector<GroupRules> rules; /* kRules goes to the next ones, at the end to the first */
	int window = 1;				   /* number of places */
	int timer = 2;				   /* number of places */
	int leases = 2;				   /* most leases at a time */
	int remembered = 2;			   /* most entries of groups without a job in work */
	int batch = 2;				   /* most rows of a refill, and most groups of a visit or step */
	int skips =
		0; /* with fair, rows with a group that a visit of group 0 passes over; 0: any number */
	int64_t ticks = 0;	 /* latest time of the wall clock */
	int64_t passes = 0;	 /* most advances of the monotonic clock, which rates use */
	bool crosses = true; /* jobs are inserted in any order */
	bool back = false;	 /* the wall clock may be set back */
	bool retries = false;
	bool undoes = false; /* claims may be rolled back */
	bool prepares = false;
	bool deletes = false;
	bool regroups = false;
	bool moves = false; /* rotation moves rows to another segment */
	bool restarts = false;
	bool abandons = false;
	bool slow = false;	/* many actions happen while a process reads */
	bool strict = true; /* check that the job that goes out is the first that may */
};

enum Action : uint8_t
{
	kTick,
	kTickBack,
	kPass,
	kPop,
	kRead,		/* begin, read or publish the refill, visit or step that the next claim needs */
	kReadEarly, /* begin a refill that no claim needs yet */
	kAbandon,
	kTimer,
	kRules,
	kRestart,
	kResolveAll, /* COMMIT PREPARED of a transaction that has inserted or changed all unfiled rows, of too many groups to name them */
	/* Actions on one job: */
	kInsert,
	kFile,
	kResolve, /* COMMIT PREPARED of the transaction that has inserted or changed the row: rows of its group are read again */
	kVerify,
	kAck,
	kRetry,
	kRetryLater,
	kUndoClaim,
	kEnd, /* the commit callback ends the lease */
	kDelete,
	kRegroup,
	kMove,	/* rotation takes the lease of a waiting job, to move its row */
	kMoved, /* ... and commits. A reading that is under way misses the row: it has read the new segment before, the old one after that */
	kNotMoved, /* ... or fails */
	kActions
};
inline constexpr Action kFirstOfJob = kInsert;
inline constexpr const char *kNames[] = {
	"tick",	   "tick back", "pass",	   "pop",		  "read",		"read early", "abandon",
	"timer",   "rules",		"restart", "resolve all", "insert",		"file",		  "resolve",
	"verify",  "ack",		"retry",   "retry later", "undo claim", "end",		  "delete",
	"regroup", "move",		"moved",   "not moved"};

struct Job
{
	bool inserted, live, unfiled; /* unfiled: the callback that files the row has not run yet */
	bool ghost; /* the callback of a change by SQL has not called look_at_group(ghost_group) yet */
	int64_t ghost_group;
	Hint row; /* of the live row version */
	enum Lease : uint8_t
	{
		kFree,
		kClaiming,
		kOut,
		kEnding,
		kMoving,   /* the lease of a rotation */
		kHasMoved, /* ... which has committed; its callback has not ended the lease yet */
	} lease;
	Hint leased;			/* hint by which the lease was taken */
	pgq::Turns::Given turn; /* kClaiming: Schedule::last_turn() after the pop */
	Hint missed;			/* another hint, met while the job was leased */
	uint8_t missed_count;	/* number of missed hints; 2: at least two */
	bool missed_regrouped;	/* a missed hint has another group than `missed` */
	int64_t counted;		/* group in which the lease counts; 0: none */
	bool refile;			/* kEnding: the row is filed when the lease ends */
	uint8_t changes;		/* number of retries and changes of the group */
};

/* A refill, visit or step that is under way. */
struct Reading
{
	enum Kind : uint8_t
	{
		kNone,
		kRefill,
		kVisit,
		kStep
	} kind;
	bool read;			  /* the rows were read, but not published */
	uint32_t missed;	  /* bits of jobs whose rows were moved since the reading began */
	Key start;			  /* kRefill */
	int64_t due, horizon; /* of the Schedule, when the reading began */
	int n;				  /* number of groups */
	std::array<Visit, 4> visits;
	LapStep step;
	int64_t highest; /* kStep: highest priority of a due row, up to the lap's */
	bool rest;		 /* kStep: all groups of the step were read */
	struct Rows
	{
		int n;
		std::array<Hint, kMaxJobs> rows;
		Key next;
		int64_t head;
	};
	std::array<Rows, 4> of;
};

struct State
{
	Schedule schedule;
	Schedule::Node window[kMaxNodes];
	Schedule::Timer::Node timer[kMaxJobs];
	pgq::Group entries[kMaxEntries];
	int64_t clock, monotonic;
	uint8_t rules; /* index in Plan::rules */
	Job jobs[kMaxJobs];
	Reading reading;
	struct Start
	{
		int64_t group, at;
	};
	std::array<Start, 32> starts;
	int starts_n;
	int64_t rate_since; /* the rate counts starts from this time on */
};
static_assert(std::is_trivially_copyable_v<State>);

class World
{
public:
	explicit World(const Plan &plan, State &state) : p(plan), s(state), c(state.schedule)
	{
		s = State{};
		c.init(s.window, plan.window, s.timer, plan.timer, plan.back ? 0 : 100);
		for (auto &entry : s.entries)
			c.groups().give(&entry);
		start();
	}

	std::string wrong;	 /* the first violation */
	int most_rounds = 0; /* greatest number of rounds of a claim between two jobs */
	long looks = 0;		 /* number of index look-ups */
	bool tell = false;	 /* print each step of claim() */
	std::function<void()> on_tell = [] {};

	const GroupRules &rules() const { return p.rules[s.rules]; }
	int jobs() const { return static_cast<int>(p.jobs.size()); }

	/* Let an action happen. Return false if it cannot happen now. */
	bool act(Action action, int job);
	/* Check the invariants. Return false if any was violated so far. */
	bool check();
	/* Let all other processes finish. Then one consumer claims and ends jobs until there is none. */
	void drain(unsigned seed);
	/* Return a text that is the same for states that have the same future. */
	std::string code() const;

private:
	void fail(const std::string &what)
	{
		if (wrong.empty())
			wrong = what;
	}
	void start()
	{
		c.groups().for_each([&](pgq::Group *group) { c.groups().remove(group); });
		c.reset(rules());
		c.doubt_horizon(p.back ? p.ticks + 1 : INT64_MIN);
		c.groups().remember_at_most(p.remembered);
		c.groups().rates().pass(s.monotonic);
		if (c.groups().rates().on())
			c.groups().rates().assume_most(rules().period, s.monotonic);
		c.fire(s.clock);
	}
	Job &job_of(const Hint &hint) { return s.jobs[hint.key.job_id - 1]; }
	static bool same(const Hint &a, const Hint &b) { return a.key == b.key && a.group == b.group; }
	bool due(const Hint &h) const { return c.due(h); }
	bool counts(int64_t group) const { return group != 0 && rules().count(); }
	static bool is_moving(const Job &j)
	{
		return j.lease == Job::kMoving || j.lease == Job::kHasMoved;
	}
	/* Return the number of leases that claims have taken. Moves have leases of their own. */
	int leases() const
	{
		int n = 0;
		for (int i = 0; i < jobs(); i++)
			n += s.jobs[i].lease != Job::kFree && !is_moving(s.jobs[i]);
		return n;
	}
	int running(int64_t group) const
	{
		int n = 0;
		for (int i = 0; i < jobs(); i++)
			n += s.jobs[i].lease != Job::kFree && s.jobs[i].counted == group;
		return n;
	}
	/* Return how many starts and unfinished claims of the group count: by the State, not by the Schedule. */
	int started(int64_t group) const
	{
		int n = 0;
		for (int i = 0; i < s.starts_n; i++)
			n += s.starts[i].group == group && s.starts[i].at > s.monotonic - rules().period &&
				 s.starts[i].at >= s.rate_since;
		for (int i = 0; i < jobs(); i++)
			n += s.jobs[i].lease == Job::kClaiming && s.jobs[i].counted == group;
		return n;
	}
	int room(int64_t group) const
	{
		if (!counts(group))
			return INT32_MAX;
		int n = rules().most() - running(group);
		return std::max(rules().rate > 0 ? std::min(n, rules().rate - started(group)) : n, 0);
	}
	/* Return the live job of the group with the smallest id that is at least `from`; NULL: there is none. */
	const Hint *head_of(int64_t group, int64_t from = INT64_MIN) const
	{
		for (int i = 0; i < jobs(); i++)
			if (const Job &j = s.jobs[i]; j.live && j.row.group == group && i + 1 >= from)
				return &j.row;
		return nullptr;
	}
	/* Return whether no job of the group has a lease or a callback that has still to run. */
	bool group_is_settled(int64_t group) const
	{
		for (int i = 0; i < jobs(); i++)
		{
			const Job &j = s.jobs[i];
			if ((j.ghost && j.ghost_group == group) ||
				(j.live && j.unfiled && j.row.group == group) ||
				(j.lease != Job::kFree &&
				 (j.leased.group == group || j.counted == group ||
				  (j.missed_count > 0 && j.missed.group == group) || j.missed_count > 1)))
				return false;
		}
		return true;
	}
	/* Return whether the job may go out. */
	bool eligible(const Job &j) const
	{
		if (!j.live || j.unfiled || j.lease != Job::kFree || !due(j.row) || room(j.row.group) == 0)
			return false;
		/* A rate may keep a job back for longer than needed: all groups without an entry share one counter. */
		if (rules().rate > 0 && c.groups().room(j.row.group) == 0)
			return false;
		return !rules().in_order(j.row.group) ||
			   (head_of(j.row.group) == &j.row && group_is_settled(j.row.group));
	}
	bool comes_before(const Hint &a, const Hint &b) const
	{
		if (!rules().fair || a.key.priority != b.key.priority)
			return a.key < b.key;
		int64_t hand = pgq::after(c.turns().hand_of(a.key.priority));
		return a.group == b.group ? a.key < b.key
								  : pgq::distance(hand, a.group) < pgq::distance(hand, b.group);
	}
	/* Return the key from which on jobs without a group are unknown: a job of another group with the same priority may go before. */
	Key unknown_from() const
	{
		Key unknown = Key::highest();
		if (p.skips > 0 && rules().fair)
			c.turns().for_each_run([&](int64_t group, int, const Key *from, bool, const Key &) {
				if (group == 0 && from != nullptr)
					unknown = *from;
			});
		return unknown;
	}
	/* Return the first of the jobs that may go out, except unknown jobs without a group; NULL: there is none. */
	const Hint *best() const
	{
		const Hint *best = nullptr;
		Key unknown = unknown_from();
		for (int i = 0; i < jobs(); i++)
			if (const Hint &row = s.jobs[i].row; eligible(s.jobs[i]) &&
												 (row.group != 0 || row.key < unknown) &&
												 (best == nullptr || comes_before(row, *best)))
				best = &row;
		return best;
	}
	/* Return whether a job that may go out has a higher priority. */
	bool is_overtaking(int32_t priority) const
	{
		for (int i = 0; i < jobs(); i++)
			if (eligible(s.jobs[i]) && s.jobs[i].row.key.priority > priority)
				return true;
		return false;
	}
	void note_missed(Job &j, const Hint &hint)
	{
		if (same(hint, j.leased) || (j.missed_count > 0 && same(hint, j.missed)))
			return;
		if (j.missed_count == 0)
			j.missed = hint;
		j.missed_regrouped =
			j.missed_count > 0 && (j.missed_regrouped || hint.group != j.missed.group);
		j.missed_count = j.missed_count == 0 ? 1 : 2;
	}
	/* Add the row that a prepared transaction has written, and with fifo the row that has left its group. */
	void add_prepared(pgq::ChangedRows &rows, Job &j)
	{
		Hint left = j.row;
		left.group = j.ghost_group;
		left.delayed = false;
		if (j.ghost && rules().fifo)
			rows.add(left);
		rows.add(j.row);
		j.unfiled = j.ghost = false;
	}
	void take_entry(int64_t group)
	{
		if (c.groups().find(group) == nullptr && c.groups().spares() == 0)
			fail("no entry for a group that runs");
	}
	void let_time_pass()
	{
		c.fire(s.clock);
		if (c.groups().rates().on() || c.groups().rates().timed() > 0)
			c.let_time_pass(s.monotonic);
	}
	enum Candidate
	{
		kTaken,
		kNothing,
		kNoLease
	};
	Candidate pop();
	bool verify(Job &j);
	void end(Job &j);
	void begin_read(Reading::Kind kind);
	/* Return whether the reading misses the row of a job. With fifo a head is not missed, since it is read with a snapshot. */
	bool misses(int i) const { return (s.reading.missed >> i & 1) != 0; }
	void read_rows(const Key &from, int64_t group, size_t most, Reading::Rows &rows) const;
	void pass_over(const Key &from, Reading::Rows &rows) const;
	void read();
	void publish();
	void abandon();
	Reading::Kind wanted() const
	{
		return c.wants_visit()			 ? Reading::kVisit
			   : c.wants_step()			 ? Reading::kStep
			   : c.wants_window_refill() ? Reading::kRefill
										 : Reading::kNone;
	}
	int claim(int most);
	void read_alone(Reading::Kind kind);
	bool is_marked_up_to(const Visit &visit) const;
	int expected(int most) const;
	void refill_timer();

	const Plan &p;
	State &s;
	Schedule &c;
};

/* ---- claims ---- */

inline World::Candidate
World::pop()
{
	const Hint *first = best();
	Hint wanted = first != nullptr ? *first : Hint{};
	Hint hint = c.pop();
	Job &j = job_of(hint);
	bool real = j.live && same(j.row, hint) && eligible(j);
	if (p.strict && real && is_overtaking(hint.key.priority))
		fail("job " + std::to_string(hint.key.job_id) +
			 " goes out before one of a higher priority");
	if (p.strict && real && first != nullptr && !same(hint, wanted) && comes_before(wanted, hint))
		fail("job " + std::to_string(hint.key.job_id) + " goes out before " +
			 std::to_string(wanted.key.job_id));
	pgq::Turns::Given turn = c.last_turn();
	if (!c.admit(hint))
	{
		c.return_turn(hint);
		return kNothing;
	}
	if (j.lease != Job::kFree || leases() == p.leases)
	{
		bool full = j.lease == Job::kFree;
		full ? c.take_back(hint) : c.return_turn(hint);
		if (!full)
			note_missed(j, hint);
		c.left(hint);
		return full ? kNoLease : kNothing;
	}
	if (counts(hint.group) && running(hint.group) >= rules().most())
		fail("more jobs of a group run than may");
	if (counts(hint.group) && rules().rate > 0 && started(hint.group) >= rules().rate)
		fail("more jobs of a group start than may");
	j.lease = Job::kClaiming;
	j.leased = hint;
	j.turn = turn;
	j.missed_count = 0;
	j.counted = counts(hint.group) ? hint.group : 0;
	if (j.counted != 0)
	{
		take_entry(hint.group);
		c.took(hint);
	}
	return kTaken;
}

/* Verify the row of a claimed job, and hand the job out. Return false if the job cannot be handed out. */
inline bool
World::verify(Job &j)
{
	bool fits = j.live && same(j.row, j.leased);
	if (fits && rules().in_order(j.leased.group))
	{
		looks++;
		const Hint *head = head_of(j.leased.group, c.floor_of(j.leased.group));
		bool behind = head != nullptr && head->key.job_id < j.leased.key.job_id;
		if (head != head_of(j.leased.group) && j.counted != 0 && group_is_settled(j.leased.group))
			fail("a floor is above a live job");
		if (behind)
		{
			(void) c.return_turn_late(j.leased, j.turn);
			j.refile = !due(j.row);
			end(j);
			return false;
		}
	}
	if (!fits)
	{
		(void) c.return_turn_late(j.leased, j.turn);
		j.refile = j.live;
		end(j);
		return false;
	}
	j.lease = Job::kOut;
	j.turn = {};
	if (j.counted != 0 || j.leased.group != 0)
	{
		c.groups().note_start(j.counted != 0 ? j.counted : j.leased.group, j.counted != 0);
		if (s.starts_n < static_cast<int>(s.starts.size()))
			s.starts[s.starts_n++] = {j.leased.group, s.monotonic};
	}
	return true;
}

inline void
World::end(Job &j)
{
	Hint leased = j.leased;
	bool claiming = j.lease == Job::kClaiming;
	bool moved = is_moving(j);
	int64_t counted = j.counted;
	Hint missed = j.missed;
	int missed_count = j.missed_count;
	bool regrouped = j.missed_regrouped;
	bool refile = j.refile;
	j.lease = Job::kFree;
	j.turn = {};
	j.counted = 0;
	j.missed_count = 0;
	j.missed_regrouped = false;
	j.refile = false;
	if (counted != 0)
		c.release_group(counted, claiming);
	if (leased.group != 0 && rules().count() && !moved)
		c.look_at_group(leased.group);
	if (missed_count > 1)
		c.pull_back(regrouped ? pgq::ChangedRows::all() : pgq::ChangedRows::all_of(missed.group));
	if (missed_count > 0)
	{
		c.look_at_group(missed.group);
		c.file(missed);
	}
	if (refile && j.live)
	{
		j.unfiled = false;
		c.file(j.row);
	}
}

/* ---- reading ---- */

inline void
World::begin_read(Reading::Kind kind)
{
	Reading &r = s.reading;
	r = {};
	r.kind = kind;
	c.fire(s.clock);
	if (kind == Reading::kRefill)
		r.start = c.begin_window_refill(s.clock);
	if (kind == Reading::kVisit)
		r.n = c.begin_visits(r.visits.data(), p.batch);
	if (kind == Reading::kStep)
		r.step = c.begin_step();
	r.due = c.due_line();
	r.horizon = c.horizon();
}

/* Read at most `most` due rows of a group in key order, from the key `from` on. group: -1 stands for all groups. */
inline void
World::read_rows(const Key &from, int64_t group, size_t most, Reading::Rows &rows) const
{
	std::map<Key, Hint> order;
	for (int i = 0; i < jobs(); i++)
		if (const Job &j = s.jobs[i]; j.live && !misses(i) && (group < 0 || j.row.group == group) &&
									  !(j.row.key < from) &&
									  (j.row.key.run_at <= s.reading.due ||
									   (!j.row.delayed && j.row.key.run_at <= s.reading.horizon)))
			order[j.row.key] = j.row;
	rows.n = 0;
	rows.next = Key::highest();
	for (auto &[key, row] : order)
	{
		if (rows.n == static_cast<int>(most))
		{
			rows.next = key;
			return;
		}
		rows.rows[rows.n++] = row;
	}
}

/* End the rows of a visit of group 0 at the row of another group that is one too many to pass over. */
inline void
World::pass_over(const Key &from, Reading::Rows &rows) const
{
	Reading::Rows all;
	read_rows(from, -1, all.rows.size(), all);
	int skipped = 0;
	for (int i = 0; i < all.n; i++)
	{
		if (all.rows[i].group == 0 || ++skipped <= p.skips)
			continue;
		rows.next = std::min(rows.next, all.rows[i].key);
		while (rows.n > 0 && !(rows.rows[rows.n - 1].key < rows.next))
			rows.n--;
		return;
	}
}

inline void
World::read()
{
	Reading &r = s.reading;
	r.read = true;
	looks++;
	if (r.kind == Reading::kRefill)
		return read_rows(r.start, -1, p.batch, r.of[0]);
	if (r.kind == Reading::kStep)
	{
		Reading::Rows first;
		read_rows({r.step.priority, INT64_MIN, INT64_MIN}, -1, 1, first);
		r.highest = first.n > 0 ? first.rows[0].key.priority : INT64_MIN;
		std::map<int64_t, int> groups;
		for (int i = 0; i < jobs(); i++)
			if (const Job &j = s.jobs[i]; j.live && !misses(i) && j.row.group != 0 &&
										  j.row.group >= r.step.from && j.row.group <= r.step.to)
				groups[j.row.group]++;
		r.rest = true;
		for (auto &[group, n] : groups)
		{
			if (r.n == p.batch)
			{
				r.rest = false;
				break;
			}
			r.visits[r.n++] = {
				.group = group, .from = Key::lowest(), .floor = INT64_MIN, .room = 2};
		}
	}
	for (int i = 0; i < r.n; i++)
	{
		const Visit &visit = r.visits[i];
		Reading::Rows &rows = r.of[i];
		looks++;
		rows.head = INT64_MAX;
		if (!rules().in_order(visit.group))
		{
			read_rows(visit.from, visit.group, std::min(visit.room, 2) + 1, rows);
			if (visit.group == 0 && rules().fair && p.skips > 0)
				pass_over(visit.from, rows);
			continue;
		}
		const Hint *head = head_of(visit.group, visit.floor);
		rows.n = head != nullptr;
		rows.next = Key::highest();
		if (head != nullptr)
		{
			rows.rows[0] = *head;
			rows.head = head->key.job_id;
		}
	}
}

inline void
World::publish()
{
	Reading &r = s.reading;
	Reading::Kind kind = r.kind;
	r.kind = Reading::kNone;
	if (kind == Reading::kRefill)
	{
		for (int i = 0; i < r.of[0].n; i++)
		{
			Hint &row = r.of[0].rows[i];
			if (Job &j = job_of(row); j.lease != Job::kFree)
				note_missed(j, row);
			else
				c.merge_window_row(row);
		}
		return c.finish_window_refill(r.of[0].next);
	}
	bool valid = kind == Reading::kVisit || c.look_at_step(&r.step, r.highest);
	for (int i = 0; i < r.n && valid; i++)
	{
		Reading::Rows &rows = r.of[i];
		int n = 0;
		int k = 0;
		int most = std::min(r.visits[i].room, 2);
		for (; k < rows.n && n < most; k++)
		{
			if (Job &j = job_of(rows.rows[k]); j.lease != Job::kFree)
				note_missed(j, rows.rows[k]);
			else
				rows.rows[n++] = rows.rows[k];
		}
		Key next = k < rows.n ? rows.rows[k].key : rows.next;
		if (kind == Reading::kVisit)
			c.finish_visit(r.visits[i], rows.rows.data(), n, next, rows.head);
		else
			valid = c.take_group(r.step, r.visits[i].group, rows.rows.data(), n, next);
	}
	if (kind == Reading::kVisit)
		c.end_visits();
	else
	{
		if (valid && r.rest)
			c.take_rest(r.step);
		c.end_step();
	}
}

inline void
World::abandon()
{
	Reading::Kind kind = s.reading.kind;
	s.reading.kind = Reading::kNone;
	kind == Reading::kRefill  ? c.abandon_window_refill()
	: kind == Reading::kVisit ? c.end_visits()
							  : c.end_step();
}

inline void
World::refill_timer()
{
	looks++;
	TimerKey from = c.begin_timer_refill(s.clock);
	std::map<TimerKey, Hint, bool (*)(const TimerKey &, const TimerKey &)> order(
		[](const TimerKey &a, const TimerKey &b) { return a < b; });
	for (int i = 0; i < jobs(); i++)
		if (const Job &j = s.jobs[i]; j.live && j.row.delayed && !(j.row.timer_key() < from))
			order[j.row.timer_key()] = j.row;
	int n = 0;
	for (auto &[key, row] : order)
	{
		if (n++ == p.batch)
			return c.finish_timer_refill(key);
		if (Job &j = job_of(row); j.lease != Job::kFree)
			note_missed(j, row);
		else
			c.merge_timer_row(row);
	}
	c.finish_timer_refill(TimerKey::highest());
}

/* ---- actions ---- */

inline bool
World::act(Action action, int i)
{
	Job &j = s.jobs[i];
	bool out = j.lease == Job::kOut;
	switch (action)
	{
		case kTick:
			if (s.clock >= p.ticks)
				return false;
			s.clock++;
			c.fire(s.clock);
			return true;
		case kTickBack:
			if (!p.back || s.clock == 0)
				return false;
			s.clock--;
			c.fire(s.clock);
			return true;
		case kPass:
			if (s.monotonic >= p.passes * 9)
				return false;
			s.monotonic += 9;
			let_time_pass();
			return true;
		case kPop:
			let_time_pass();
			c.clear_way();
			return c.poppable() && (pop(), true);
		case kRead:
			let_time_pass();
			if (s.reading.kind != Reading::kNone)
				return s.reading.read ? (publish(), true) : (read(), true);
			if (wanted() == Reading::kNone || c.poppable())
				return false;
			begin_read(wanted());
			return true;
		case kReadEarly:
			if (s.reading.kind != Reading::kNone || !c.wants_window_refill() || !c.poppable())
				return false;
			begin_read(Reading::kRefill);
			return true;
		case kAbandon:
			return p.abandons && s.reading.kind != Reading::kNone && (abandon(), true);
		case kTimer:
			return c.wants_timer_refill() && (refill_timer(), true);
		case kRules:
		{
			if (p.rules.size() < 2)
				return false;
			GroupRules old = rules();
			s.rules = static_cast<uint8_t>((s.rules + 1) % p.rules.size());
			c.change_group_rules(rules(), s.monotonic);
			c.fire(s.clock);
			/* A new limit counts only later starts. A changed limit also counts the starts that counted before. */
			s.rate_since =
				std::max(s.rate_since, old.rate > 0 ? s.monotonic - old.period : s.monotonic + 1);
			for (int k = 0; k < jobs() && rules().count(); k++)
				if (Job &l = s.jobs[k];
					l.lease != Job::kFree && !is_moving(l) && l.counted == 0 && l.leased.group != 0)
				{
					take_entry(l.leased.group);
					l.counted = l.leased.group;
					c.took(l.leased, l.lease == Job::kClaiming);
				}
			return true;
		}
		case kRestart:
			if (!p.restarts)
				return false;
			for (int k = 0; k < jobs(); k++)
			{
				Job &l = s.jobs[k];
				l.lease = Job::kFree;
				l.counted = l.missed_count = 0;
				l.unfiled = l.ghost = l.refile = l.missed_regrouped = false;
			}
			s.reading.kind = Reading::kNone;
			s.starts_n = 0;
			start();
			return true;
		case kResolveAll:
		{
			if (!p.prepares)
				return false;
			pgq::ChangedRows rows = pgq::ChangedRows::none();
			for (int k = 0; k < jobs(); k++)
				if (Job &l = s.jobs[k]; l.unfiled && l.live && l.lease != Job::kEnding)
					add_prepared(rows, l);
			if (rows.groups == 0)
				return false;
			rows.groups = pgq::ChangedRows::kTooMany;
			c.pull_back(rows);
			return true;
		}
		case kInsert:
			if (j.inserted || (!p.crosses && i > 0 && !s.jobs[i - 1].inserted))
				return false;
			j.inserted = j.live = j.unfiled = true;
			j.row = {.key = {p.jobs[i].priority, s.clock + p.jobs[i].delay, i + 1},
					 .place = {},
					 .delayed = p.jobs[i].delay > 0,
					 .group = p.jobs[i].group};
			return true;
		case kFile:
			if (!(j.unfiled && j.live && j.lease != Job::kEnding) && !j.ghost)
				return false;
			if (j.ghost)
				c.look_at_group(j.ghost_group);
			j.ghost = false;
			if (!j.unfiled || !j.live)
				return true;
			j.unfiled = false;
			if (j.lease != Job::kFree)
				note_missed(j, j.row);
			else
				c.file(j.row);
			return true;
		case kResolve:
			if (!p.prepares || !j.unfiled || !j.live || j.lease == Job::kEnding)
				return false;
			{
				pgq::ChangedRows rows = pgq::ChangedRows::none();
				add_prepared(rows, j);
				c.pull_back(rows);
				return true;
			}
		case kMove:
			if (!p.moves || !j.live || j.unfiled || j.ghost || j.lease != Job::kFree ||
				j.changes > 1)
				return false;
			j.changes++;
			j.lease = Job::kMoving;
			j.leased = j.row;
			j.missed_count = 0;
			j.counted = 0;
			return true;
		case kMoved:
			if (j.lease != Job::kMoving)
				return false;
			if (s.reading.kind != Reading::kNone && !s.reading.read)
				s.reading.missed |= 1U << i;
			j.lease = Job::kHasMoved;
			return true;
		case kNotMoved:
			if (j.lease != Job::kMoving)
				return false;
			j.refile = true;
			end(j);
			return true;
		case kVerify:
			return j.lease == Job::kClaiming && (verify(j), true);
		case kAck:
			if (!out || !j.live)
				return out && (j.lease = Job::kEnding, true);
			j.live = false;
			j.lease = Job::kEnding;
			return true;
		case kRetry:
		case kRetryLater:
			if (!p.retries || !out || !j.live || j.changes > 1 ||
				(action == kRetryLater && p.ticks == 0))
				return false;
			j.changes++;
			j.row.key.run_at = s.clock + (action == kRetryLater);
			j.row.delayed = true;
			j.lease = Job::kEnding;
			j.refile = true;
			return true;
		case kUndoClaim:
			if (!p.undoes || j.lease != Job::kClaiming)
				return false;
			j.refile = true;
			end(j);
			return true;
		case kEnd:
			if (j.lease != Job::kEnding && j.lease != Job::kHasMoved)
				return false;
			/* The callback of a move ends the lease first. Later it files the row (kFile). */
			j.unfiled |= j.lease == Job::kHasMoved && j.live;
			end(j);
			return true;
		case kDelete:
			if (!p.deletes || !j.live || j.ghost || j.lease == Job::kEnding ||
				j.lease == Job::kMoving)
				return false;
			j.live = false;
			j.ghost = true;
			j.ghost_group = j.row.group;
			j.unfiled = false;
			return true;
		case kRegroup:
			if (!p.regroups || !j.live || j.unfiled || j.ghost || j.changes > 0 ||
				j.lease == Job::kEnding || j.lease == Job::kMoving)
				return false;
			j.changes++;
			j.ghost = j.unfiled = true;
			j.ghost_group = j.row.group;
			if (j.lease != Job::kFree)
			{
				j.missed = j.missed_count > 0 ? j.missed : j.leased;
				j.missed_count = 2;
				j.missed_regrouped = true;
			}
			j.row.group = 1 + j.row.group % 2;
			return true;
		default:
			return false;
	}
}

/* ---- checks ---- */

inline bool
World::check()
{
	for (int i = 0; i < jobs(); i++)
	{
		const Job &j = s.jobs[i];
		if (!j.live || j.unfiled || j.lease != Job::kFree || c.covers(j.row))
			continue;
		if (rules().in_order(j.row.group) &&
			(head_of(j.row.group) != &j.row || !group_is_settled(j.row.group)))
			continue;
		fail("job " + std::to_string(i + 1) + " is forgotten");
	}
	std::map<int64_t, int> groups;
	for (int i = 0; i < jobs(); i++)
		if (s.jobs[i].lease != Job::kFree && s.jobs[i].counted != 0)
			groups[s.jobs[i].counted]++;
	for (auto &[group, n] : groups)
		if (const pgq::Group *entry = c.groups().find(group);
			entry == nullptr || entry->running != n)
			fail("an entry counts wrongly");
	if (c.groups().remembered() > p.remembered)
		fail("too many groups are remembered");
	if (c.groups().rates().timed() == 0 && c.groups().rates().next_time() != INT64_MAX &&
		rules().rate == 0)
		fail("somebody waits for a rate that is off");
	return wrong.empty();
}

/* Return how many jobs a lone claim of up to `most` jobs must get. */
inline int
World::expected(int most) const
{
	std::map<int64_t, int> ready;
	int n = 0;
	for (int i = 0; i < jobs(); i++)
		if (eligible(s.jobs[i]))
			ready[s.jobs[i].row.group]++;
	for (auto &[group, jobs] : ready)
		n += std::min({jobs, room(group), c.groups().room(group)});
	return std::min({n, most, p.leases - leases()});
}

/* Return whether the group of the visit has a marker at the key of the visit or before. */
inline bool
World::is_marked_up_to(const Visit &visit) const
{
	bool marked = false;
	auto look = [&](int64_t group, const Key &from) {
		marked |= group == visit.group && !(visit.from < from);
	};
	if (!rules().fair)
		c.window().for_each([&](const Hint &h) { h.marker ? look(h.group, h.key) : void(); });
	else
		c.turns().for_each_run([&](int64_t group, int, const Key *from, bool, const Key &) {
			from != nullptr ? look(group, *from) : void();
		});
	return marked;
}

/*
 * Read while no other process does anything, and check the measure of progress (src/engine/groups.md, "Why claims make progress") for visits and
 * refills. A step of the lap has no such measure, since a step may exchange one run for another: claim() bounds its rounds instead.
 */
inline void
World::read_alone(Reading::Kind kind)
{
	begin_read(kind);
	Reading begun = s.reading;
	read();
	publish();
	/*
	 * Check only the first visit: jobs that a later visit has found may be evicted, and then be behind the same marker again. Also
	 * the job of the first visit may be evicted, if a later visit has found a job that goes out before.
	 */
	if (kind == Reading::kVisit && begun.n > 0 && is_marked_up_to(begun.visits[0]) &&
		!(rules().fair && c.turns().poppable()))
		fail("a visit leaves its marker where it was");
	if (kind == Reading::kRefill && !c.poppable() && !(begun.start < c.cursor()))
		fail("a refill raises no cursor");
}

/* Claim up to `most` jobs while no other process does anything. Return the number of jobs. */
inline int
World::claim(int most)
{
	int n = 0;
	for (int rounds = 0; n < most && wrong.empty(); rounds++)
	{
		most_rounds = std::max(most_rounds, rounds);
		if (rounds > 200)
			fail("a claim goes round in circles");
		let_time_pass();
		c.clear_way();
		if (c.poppable())
		{
			Candidate popped = pop();
			if (tell)
				printf("claim pops: %d\n", popped), on_tell();
			if (popped == kNoLease)
				return n;
			for (int i = 0; i < jobs() && popped == kTaken; i++)
				if (s.jobs[i].lease == Job::kClaiming)
					n += verify(s.jobs[i]);
			if (popped == kTaken)
				rounds = 0;
		}
		else if (Reading::Kind kind = wanted(); kind != Reading::kNone)
		{
			if (tell)
				printf("claim reads %d\n", kind), on_tell();
			read_alone(kind);
		}
		else if (c.wants_timer_refill())
			refill_timer();
		else if (c.exhausted())
		{
			c.note_exhausted();
			return n;
		}
		else
			fail("a claim has to wait for somebody, but it is alone");
	}
	return n;
}

inline void
World::drain(unsigned seed)
{
	for (bool any = true; any;)
	{
		any = s.reading.kind != Reading::kNone && act(kRead, 0);
		for (int i = 0; i < jobs(); i++)
			any |= act(kFile, i) || act(kVerify, i) || act(kMoved, i) || act(kEnd, i);
	}
	for (int k = 0; k < 200 && wrong.empty(); k++)
	{
		let_time_pass();
		int want = 1 + static_cast<int>(seed++ % 3);
		int exact = expected(want);
		long before = looks;
		int n = claim(want);
		/* If a remembered group loses its entry during the claim, its starts count for all groups without an entry. */
		if (n < exact && (rules().rate == 0 || p.remembered >= kMaxJobs))
			fail("a claim of " + std::to_string(want) + " gets " + std::to_string(n) +
				 " jobs, of " + std::to_string(exact));
		if (looks - before > 60 * (n + 2))
			fail("a claim looks too often");
		check();
		int ended = 0;
		for (int i = 0; i < jobs() && ended < 2; i++)
			if (s.jobs[i].lease == Job::kOut)
				ended += act(kAck, i) && act(kEnd, i);
		if (n > 0 || ended > 0)
			continue;
		bool live = false;
		for (int i = 0; i < jobs(); i++)
			live |= s.jobs[i].live;
		if (!live)
			return;
		if (rules().rate > 0)
			s.monotonic = std::max(s.monotonic + 1, std::min(c.groups().rates().next_time(),
															 s.monotonic + 2 * kPeriod));
		else if (c.next_timer() <= s.clock + 8)
			s.clock++;
		else
			fail("jobs are left");
		s.clock += rules().rate > 0;
	}
	fail("the queue is not drained");
}

inline std::string
World::code() const
{
	std::string out;
	auto put = [&](int64_t n) { out += static_cast<char>(std::clamp<int64_t>(n, -127, 127)); };
	auto put_key = [&](const Key &k) { put(k.priority), put(k.run_at), put(k.job_id); };
	auto put_hint = [&](const Hint &h) {
		put_key(h.key), put(h.group), put(h.delayed + 2 * h.marker + 4 * h.visited);
	};
	put(s.clock), put(s.monotonic), put(s.rules), put(c.due_line()), put(c.horizon()),
		put(c.survey().surveying()), put(c.survey().met()), put_key(c.survey().surveyed());
	put(s.rate_since);
	for (int i = 0; i < jobs(); i++)
	{
		const Job &j = s.jobs[i];
		put(j.inserted + 2 * j.live + 4 * j.unfiled + 8 * j.ghost + 16 * j.refile), put(j.lease),
			put(j.changes), put(j.missed_count + 4 * j.missed_regrouped);
		put_hint(j.row);
		if (j.ghost)
			put(j.ghost_group);
		if (j.lease != Job::kFree)
			put_hint(j.leased), put(j.counted);
		if (j.lease == Job::kClaiming && rules().fair)
			put(j.turn.before), put(static_cast<int16_t>(c.turns().turns_of(j.leased.key.priority) -
														 j.turn.number));
		if (j.missed_count > 0)
			put_hint(j.missed);
	}
	put(-1);
	rules().fair ? c.turns().for_each(put_hint) : c.window().for_each(put_hint);
	put(-2);
	if (rules().fair)
	{
		c.turns().for_each_run(
			[&](int64_t group, int size, const Key *from, bool visited, const Key &lowest) {
				put(group), put(size), put(from != nullptr), put(visited);
				if (from != nullptr)
					put_key(*from);
				if (visited)
					put_key(lowest);
			});
		const pgq::Lap &lap = c.turns().lap();
		put(lap.on()), put(lap.reading());
		if (lap.on())
			put(lap.priority()), put(lap.arc_begin()), put(lap.arc_end()), put(lap.left());
		if (lap.reading())
			put(lap.spoilt()), put(static_cast<int64_t>(lap.spoilt_from())),
				put(lap.serial() == s.reading.step.lap);
		for (int32_t i = 0; i < 4; i++)
			put(c.turns().hand_of(i));
	}
	put(c.window_refill_active()), put_key(c.cursor()), put(c.visiting());
	c.timer().for_each(put_hint);
	put(c.timer_cursor().run_at), put(c.timer_cursor().job_id), put(c.timer_read()),
		put(c.late_refills()), put(c.timer_pulled());
	const_cast<Schedule &>(c).groups().for_each([&](pgq::Group *g) {
		put(g->id), put(g->running), put_key(g->cursor), put(g->rate.wait), put(g->rate.claiming);
		if (rules().rate > 0)
			put(const_cast<Schedule &>(c).groups().rates().room(g)),
				put(g->rate.wait != 0 ? g->rate.at : 0);
	});
	if (rules().rate > 0)
		put(const_cast<Schedule &>(c).groups().rates().others_room()),
			put(c.groups().rates().others_are_aside()), put_key(c.groups().rates().others_cursor());
	for (int64_t g = 1; g < 8 && rules().fifo; g++)
		put(c.heads().floor_of(g)), put(c.heads().knows(g)), put(c.heads().lowest_of(g));
	const Reading &r = s.reading;
	put(r.kind);
	if (r.kind != Reading::kNone)
	{
		put(r.read), put(static_cast<int>(r.missed & 0x7f)), put_key(r.start), put(r.due), put(r.n),
			put(r.rest), put(r.highest), put(r.step.from), put(r.step.to), put(r.step.priority);
		for (int i = 0; i < std::max(r.n, r.kind == Reading::kRefill ? 1 : 0); i++)
		{
			put(r.visits[i].group), put_key(r.visits[i].from), put(r.of[i].n),
				put_key(r.of[i].next), put(r.of[i].head);
			for (int k = 0; k < r.of[i].n; k++)
				put_hint(r.of[i].rows[k]);
		}
	}
	for (int i = 0; i < s.starts_n && rules().rate > 0; i++)
		if (s.starts[i].at > s.monotonic - rules().period)
			put(s.starts[i].group), put(s.starts[i].at);
	return out;
}

} // namespace group_world
