/*
 * A small world around the real HandlerPace and HandlerTickets: queues with handlers, their lines of
 * waiters, the slots and tickets of handlers' workers, schedulers, workers and waiting claims. The
 * processes are copies of src/worker/handler_worker.cpp, queue_pass.cpp, duty/handlers.cpp and
 * src/engine/handler_slot.cpp, waiter.cpp and hold.h, cut into steps. A step is at most one hold of
 * a lock, so processes can come between any two holds. Processes die where the server looks for
 * interrupts, and in transactions.
 *
 * A test lets actions happen in every order or in random order. check() checks after each action
 * that no place and no slot is lost or counted twice. drain() lets all processes go on without
 * further events, and checks that every job that can run is run in time, that no process stays awake
 * for nothing, and that at the end nothing is left behind.
 *
 * A fault takes a rule away; src/worker/handlers.md lists the rules. The clock stands still until
 * an action lets it pass to the next time for which a process waits.
 */
#pragma once

#include "core/handler_pace.h"
#include "core/handler_tickets.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

namespace handler_world {

using pgq::CallResult;
using pgq::HandlerPace;
using pgq::HandlerTicket;
using pgq::HandlerTickets;

inline constexpr int kMaxQueues = 4;
inline constexpr int kMaxDatabases = 3;
inline constexpr int kMaxWorkers = 5; /* processes, also those that have not begun or are leaving */
inline constexpr int kMaxClients = 2;
inline constexpr int kMaxSlots = 4;
inline constexpr int kFirstWorker = kMaxDatabases;
inline constexpr int kFirstClient = kFirstWorker + kMaxWorkers;
inline constexpr int kProcesses = kFirstClient + kMaxClients;
inline constexpr int64_t kSecond = HandlerPace::kSecond;
inline constexpr int64_t kNever = INT64_MAX;
inline constexpr int kNobody = -1;

/* What a fault takes away. */
enum class Fault : uint8_t
{
	kCountedWhenItRuns,		/* a place is counted when its worker runs, not when it is registered */
	kPlaceNotGivenBack,		/* the place of a worker that never began stays taken */
	kPlaceLeftByScheduler,	/* a scheduler that could not register a worker may end before it gives
								the place back */
	kStaleOrderRuns,		/* a worker whose slot was given to another one begins all the same */
	kDeathTellsNobody,		/* a worker that ends wakes no scheduler */
	kForeignSlotKept,		/* nobody frees the slot of a worker of a dropped database */
	kTakesAndTellsNobody,	/* a worker that takes a job does not care for the jobs that are left */
	kPlaceBackTellsNobody,	/* nor does one that gives its place back */
	kPassesBeforeItLooks,	/* an idle worker passes a wake-up on before it looks for jobs itself */
	kWorkersAreClaims,		/* idle workers stand between claims in the line */
	kPassesNothing,			/* an idle worker that ends or takes another job passes no wake-up on */
	kWaitsWithoutRoom,		/* an idle worker waits also in lines of queues where it has no room */
	kNoLastLook,			/* an idle worker sleeps without a look behind its place in the line */
	kIdleIsEnough,			/* the scheduler leaves jobs to idle workers */
	kPassedOnToNobody,		/* if no claim waits, a wake-up that is passed on reaches nobody */
	kDefinitionTellsNobody, /* the scheduler stores a definition and sleeps */
	kUnreadIsRead,			/* a change of definitions is forgotten if the table was locked */
	kLockedIsUrgent,		/* the scheduler tries again at once while tables are locked */
	kCallsOnAfterPause,		/* a worker does not ask between two calls */
	kNeverAsks,				/* a worker does not ask between claim and call */
	kTicketForEver,			/* the ticket of a scheduler that has ended stays valid */
	kTicketOutlivesNeed,	/* a ticket stays valid when its role does not want a slot any more */
	kNoTickets,				/* slots go to whoever comes first */
	kNoQuantum,				/* a worker does not leave for another role */
	kIdleKeepsSlot, /* an idle worker of another database is not woken if its slot is wanted */
};

constexpr uint64_t
only(Fault fault)
{
	return uint64_t{1} << static_cast<int>(fault);
}

struct QueuePlan
{
	int database = 0;
	int role = 1;
	int workers = 1;
	bool notify = true; /* else the scheduler does not watch for jobs that become due */
};

/* The size of a world, and the events that may happen in it. */
struct Plan
{
	std::vector<QueuePlan> queues = {{}};
	int slots = 1;
	std::vector<int> clients = {}; /* the queue of each claim that waits */
	int jobs = 2;				   /* most enqueues */
	int timed = 0;				   /* most enqueues of jobs with a delay */
	int taken = 0;				   /* most jobs that are taken by claims that do not wait */
	int failures = 0;			   /* calls of a queue that have failed in a row, at its start */
	int fails = 0;				   /* most calls that fail; the job is ready again at once */
	int deaths = 0;				   /* of workers and waiting claims */
	int scheduler_deaths = 0;
	int refusals = 0; /* most registrations and connections that fail */
	int changes = 0;  /* most changes of definitions: pause, resume, a fault that comes and goes */
	int locks = 0;	  /* most times that a session locks the tables */
	int drops = 0;	  /* most databases that are dropped */
	int passes = 2;	  /* most times that the clock passes while something else may happen */
	int batch = 1;	  /* jobs of a claim, which are called one by one */
	int64_t call = 300 * 1000;
	int64_t idle = 2 * kSecond;
	bool slow_starts = false;		/* the clock passes also while a process starts */
	bool polls = true;				/* processes wake each second, as in the code */
	int64_t turn = 20 * kSecond;	/* each role gets a slot so soon */
	int64_t patience = 5 * kSecond; /* all jobs are done so long after the last event */
	uint64_t faults = 0;			/* only(), or several of them */
};

enum Action : uint8_t
{
	kPass,
	kStep,		/* of a process */
	kStepFails, /* the other outcome of its step: a refusal, a call that fails */
	kDie,		/* a process */
	kEnqueue,	/* into a queue, as the following */
	kEnqueueLater,
	kTake,
	kWait, /* a client begins to wait */
	kPauseOrResume,
	kBreakOrMend,
	kLockOrUnlock, /* of a database: 1 the handlers' table, 2 all tables */
	kLockAll,
	kDrop,
	kActions
};
inline constexpr const char *kNames[] = {
	"pass", "step",			"fails",	  "dies",		 "enqueue",	 "enqueue later", "take",
	"wait", "pause/resume", "break/mend", "lock/unlock", "lock all", "drop"};

struct Line
{
	int8_t n;
	int8_t who[kMaxWorkers + kMaxClients];
	int8_t watcher;
};

enum Entry : uint8_t
{
	kOut,
	kListed,
	kWoken
};

struct QueueState
{
	HandlerPace pace;
	Line line;
	int8_t ready, in_work;
	int64_t due[2]; /* of delayed jobs; kNever: none */
	/* The committed definition. */
	bool paused, broken;
	int stopped_at; /* number of the event that has paused the handler or broken it; 0: it runs */
	int stored_at;	/* number of the event after which the scheduler has stored that; 0: it runs */
};

struct Slot
{
	enum State : uint8_t
	{
		kFree,
		kStarting,
		kRunning
	} state;
	bool idle;
	int8_t database, role, first, process;
	int start;
	int64_t began;
};

struct Order
{
	int8_t slot, database, role, first;
	int start;
};

struct SchedulerState
{
	enum Step : uint8_t
	{
		kLook, /* take_turn(), look_at_handler() */
		kAskIdle,
		kTakePlace,
		kTakeSlot,
		kRegister,
		kComplain, /* only here the scheduler may end between taking and giving back */
		kFinish,
		kDuty,
		kDropSlot,
		kDropPlace,
		kRead,
		kStore,
		kWake,
		kSleep,
	} step;
	bool alive, gone; /* gone: the database was dropped */
	bool known, placed, started, changed, stored, served;
	int8_t queue, first; /* kDropPlace: the queue of the slot */
	int8_t n, i;
	int changes, noted;
	unsigned asked;			 /* a bit for each role that has asked for a slot in this pass */
	bool active[kMaxQueues]; /* the definitions as read */
	Order order;
	int64_t next, duty_due, wake_at, since;
};

struct WorkerState
{
	enum Step : uint8_t
	{
		kNone,
		kBegin,
		kConnect,
		kLoop,
		kRefresh,
		kSwap, /* give the place back for another one */
		kTake,
		kGiveUp, /* give the place back, try the next queue */
		kClaim,
		kTell,
		kBusy,
		kAsk,
		kCall,
		kGiveAll,
		kIdle,
		kJoin,
		kRejoin,
		kLook,
		kNap,
		kLeaveLine,
		kEndLines,
		kEndJobs,
		kEndPlace,
		kEndOwed,
		kEndNote,
		kEndSlot,
		kEndWake,
	} step;
	Order order;
	bool has_place, is_idle, had_job, woken, claimable, in_call, waiting;
	int8_t place, i, jobs, job_queue, fruitless, list, n_order,
		home;				 /* list: a bit for each queue */
	int8_t turn[kMaxQueues]; /* queues of the list, the one served longest ago first */
	int changes;
	int64_t began, idle_since, alarm;
	int64_t until; /* kNap and kCall: the end */
	int asked_at;  /* number of the event after which the worker last could have asked */
};

struct ClientState
{
	enum Step : uint8_t
	{
		kNotBegun,
		kOff,
		kJoin,
		kRejoin,
		kClaim,
		kRejoinAgain,
		kNap,
		kLeave,
	} step;
	bool woken, got;
	int64_t alarm;
};

struct State
{
	int64_t now;
	int event; /* number of the last event */
	QueueState queues[kMaxQueues];
	Slot slots[kMaxSlots];
	HandlerTicket tickets[kMaxQueues];
	uint64_t drawn;
	int starts;
	SchedulerState schedulers[kMaxDatabases];
	WorkerState workers[kMaxWorkers];
	ClientState clients[kMaxClients];
	Entry entries[kProcesses][kMaxQueues];
	bool latch[kProcesses];
	int8_t served[kMaxQueues];	/* all queues, the one served longest ago first */
	int changes[kMaxDatabases]; /* Database::definition_changes */
	int8_t locked[kMaxDatabases];
	int8_t jobs, timed, taken, fails, deaths, scheduler_deaths, refusals, alterations, locks, drops,
		passes; /* how many events have happened */
};
static_assert(std::is_trivially_copyable_v<State>);

class World
{
public:
	World(const Plan &plan, State &state) : p(plan), s(state)
	{
		s = State{};
		s.now = 1000 * kSecond;
		for (int q = 0; q < queues(); q++)
		{
			s.queues[q].line.watcher = kNobody;
			s.queues[q].due[0] = s.queues[q].due[1] = kNever;
			s.served[q] = static_cast<int8_t>(q);
		}
		for (int d = 0; d < kMaxDatabases; d++)
		{
			s.changes[d] = 1;
			s.schedulers[d].gone = true;
		}
		for (const QueuePlan &queue : p.queues)
			begin_scheduler(queue.database);
	}

	std::string wrong; /* the first violation */
	bool tell = false; /* print each step */

	int queues() const { return static_cast<int>(p.queues.size()); }
	/* Return how many subjects the action may have. */
	int subjects(Action action) const
	{
		switch (action)
		{
			case kPass:
				return 1;
			case kStep:
			case kStepFails:
			case kDie:
				return kProcesses;
			case kLockOrUnlock:
			case kLockAll:
			case kDrop:
				return kMaxDatabases;
			case kWait:
				return static_cast<int>(p.clients.size());
			default:
				return queues();
		}
	}
	/* Let an action happen. Return false if it cannot happen now. */
	bool act(Action action, int subject);
	/* Check the invariants. Return false if any was violated so far. */
	bool check();
	/* Let all processes go on, in an order that depends on the seed. */
	void drain(unsigned seed);
	/* Return a text that is the same for states that have the same future. */
	std::string code() const;

private:
	void fail(const std::string &what)
	{
		if (wrong.empty())
			wrong = what;
	}
	bool is(Fault fault) const { return (p.faults & only(fault)) != 0; }
	int database_of(int q) const { return p.queues[q].database; }
	bool is_dropped(int q) const { return s.schedulers[database_of(q)].gone; }
	bool runs(int q) const { return !s.queues[q].paused && !s.queues[q].broken; }
	void wake_scheduler(int database)
	{
		if (!s.schedulers[database].gone)
			s.latch[database] = true;
	}
	static bool latched(bool *latch)
	{
		bool was = *latch;
		*latch = false;
		return was;
	}

	/* ---- queues and lines (hold.h, waiter.cpp) ---- */

	void fire(int q)
	{
		for (int64_t &due : s.queues[q].due)
			if (due <= s.now)
			{
				due = kNever;
				s.queues[q].ready++;
			}
	}
	int64_t next_timer(int q) const { return std::min(s.queues[q].due[0], s.queues[q].due[1]); }
	bool is_claimable(int q)
	{
		fire(q);
		return !is_dropped(q) && s.queues[q].ready > 0;
	}
	bool has_free_place(int q) const
	{
		return s.queues[q].pace.places < s.queues[q].pace.allowed();
	}
	bool has_room(int q) const { return has_free_place(q) && s.now >= s.queues[q].pace.call_after; }
	int wake_waiters(int q, int n)
	{
		Line &line = s.queues[q].line;
		int woken = 0;
		for (; woken < n && line.n > 0; woken++)
		{
			int who = line.who[0];
			for (int i = 1; i < line.n && who < kFirstClient; i++)
				if (line.who[i] >= kFirstClient)
					fail("a worker is woken, while a claim waits behind it");
			std::copy(line.who + 1, line.who + line.n--, line.who);
			s.entries[who][q] = kWoken;
			s.latch[who] = true;
		}
		return woken;
	}
	/* Wake the scheduler if it may start a worker for jobs of the queue, now or when they are due. */
	void tell_scheduler(int q)
	{
		bool later = !p.queues[q].notify && next_timer(q) != kNever;
		if (!is(Fault::kPassedOnToNobody) && has_free_place(q) && (is_claimable(q) || later))
			wake_scheduler(database_of(q));
	}
	/* Let another process care for jobs that are ready, or become due. */
	void hand_over(int q)
	{
		bool unwatched = s.queues[q].line.watcher == kNobody && next_timer(q) != kNever;
		if ((is_claimable(q) || unwatched) && wake_waiters(q, 1) == 0)
			tell_scheduler(q);
	}
	void note_filed(int q, int ready, bool sooner)
	{
		int woken = wake_waiters(q, ready);
		if (woken < ready && has_free_place(q))
			wake_scheduler(database_of(q));
		if (sooner && s.queues[q].line.watcher != kNobody)
			s.latch[s.queues[q].line.watcher] = true;
		if (sooner && p.queues[q].notify)
			wake_scheduler(database_of(q));
		else if (sooner && s.queues[q].line.n == 0)
			tell_scheduler(q);
	}
	void file(int q)
	{
		s.queues[q].ready++;
		note_filed(q, 1, false);
	}
	void pass_on(int q)
	{
		if (is_claimable(q) && wake_waiters(q, 1) == 0)
			tell_scheduler(q);
	}
	void care_for_rest(int q)
	{
		if (!is_claimable(q))
			return hand_over(q);
		if (wake_waiters(q, 1) == 0 && has_free_place(q))
			wake_scheduler(database_of(q));
	}
	/* Claims stand before all workers. */
	void list(int who, int q)
	{
		Line &line = s.queues[q].line;
		int8_t *end = line.who + line.n++;
		int8_t *place = std::find_if(line.who, end, [&](int8_t other) {
			return who >= kFirstClient && other < kFirstClient && !is(Fault::kWorkersAreClaims);
		});
		std::copy_backward(place, end, end + 1);
		*place = static_cast<int8_t>(who);
		s.entries[who][q] = kListed;
	}
	/* rejoin_lines(), for one queue. Returns whether the process was woken. */
	bool rejoin(int who, int q, int64_t *alarm)
	{
		bool woken = s.entries[who][q] == kWoken;
		Line &line = s.queues[q].line;
		if (s.entries[who][q] == kOut)
			return false;
		if (is_dropped(q))
			return true;
		if (woken)
			list(who, q);
		if (line.watcher == kNobody)
			line.watcher = static_cast<int8_t>(who);
		if (line.watcher == who)
			*alarm = std::min(*alarm, next_timer(q));
		return woken;
	}
	/*
	 * Take the process out of the line. Returns whether the line has woken it, or it was the
	 * watcher: then it owes the line a wake-up.
	 */
	bool take_out(int who, int q)
	{
		Line &line = s.queues[q].line;
		bool owes = s.entries[who][q] == kWoken;
		if (s.entries[who][q] == kListed)
		{
			int8_t *end = std::remove(line.who, line.who + line.n, static_cast<int8_t>(who));
			line.n = static_cast<int8_t>(end - line.who);
		}
		s.entries[who][q] = kOut;
		if (line.watcher == who)
		{
			owes = true;
			line.watcher = kNobody;
		}
		return owes;
	}
	/* leave_lines(), for one queue. */
	void leave_line(int who, int q, int served)
	{
		if (s.entries[who][q] == kOut)
			return;
		bool watched = s.queues[q].line.watcher == who;
		bool owes = take_out(who, q);
		if (!owes || (!watched && served == q))
			pass_on(q);
		else if (wake_waiters(q, 1) == 0)
			tell_scheduler(q);
	}

	/* ---- slots (handler_slot.cpp) ---- */

	HandlerTickets tickets() { return {s.tickets, kMaxQueues, &s.drawn}; }
	/* The number of a database in tickets, where 0 stands for a free entry. */
	static uint32_t oid(int database) { return static_cast<uint32_t>(database + 1); }
	bool has_worker(uint32_t database, uint32_t role) const
	{
		for (int i = 0; i < p.slots; i++)
			if (s.slots[i].state != Slot::kFree && oid(s.slots[i].database) == database &&
				static_cast<uint32_t>(s.slots[i].role) == role)
				return true;
		return false;
	}
	bool take_slot(SchedulerState &me, int d);
	void drop_tickets(const SchedulerState &me, int d);
	void set_idle(WorkerState &me, bool idle)
	{
		me.is_idle = idle;
		s.slots[me.order.slot].idle = idle;
	}
	/* Wake the idle workers of the database, or of all databases. */
	void wake_idle(int database)
	{
		for (int i = 0; i < p.slots; i++)
			if (const Slot &slot = s.slots[i]; slot.state == Slot::kRunning && slot.idle &&
											   (database == kNobody || slot.database == database))
				s.latch[slot.process] = true;
	}

	/* ---- processes ---- */

	void begin_scheduler(int d)
	{
		s.schedulers[d] = {};
		s.schedulers[d].alive = true;
		s.schedulers[d].step = SchedulerState::kDuty;
		s.schedulers[d].next = kNever;
		s.latch[d] = false;
	}
	bool is_runnable(int process) const;
	int64_t wakes_at(int process) const;
	void print(int process) const;
	bool step(int process, bool fails);
	bool step_scheduler(int d, bool fails);
	void look_at_queue(SchedulerState &me, int d);
	void next_queue(SchedulerState &me) { me.queue++, me.step = SchedulerState::kLook; }
	bool step_duty(SchedulerState &me, int d);
	void read_definitions(SchedulerState &me, int d);
	bool step_worker(int w, bool fails);
	void fall_asleep(WorkerState &me);
	bool step_idle(int w);
	bool step_end(int w);
	bool step_client(int c);
	bool die(int process);
	void end_worker(WorkerState &me)
	{
		me.step = WorkerState::kEndLines;
		me.i = 0;
	}
	void begin_turn(WorkerState &me);
	void next_turn(WorkerState &me);
	void try_queue(WorkerState &me);
	void refresh(WorkerState &me);
	void note_served(int q);
	bool is_of_role(const WorkerState &me, int q) const
	{
		return database_of(q) == me.order.database && p.queues[q].role == me.order.role;
	}
	bool pass();
	bool a_claim_sleeps();
	bool sleeps_too_long(int64_t before);
	bool a_role_starves(int64_t *since);
	std::string left_behind() const;
	int places_of(int q) const;
	bool waits(int q) const;

	const Plan &p;
	State &s;
};

/* ---- slots ---- */

/* take_handler_slot() */
inline bool
World::take_slot(SchedulerState &me, int d)
{
	uint32_t role = static_cast<uint32_t>(p.queues[me.queue].role);
	me.asked |= 1U << role;
	int free = 0;
	while (free < p.slots && s.slots[free].state != Slot::kFree)
		free++;
	bool waits = free == p.slots ||
				 (!is(Fault::kNoTickets) &&
				  tickets().another_goes_first(oid(d), role, s.now, [&](uint32_t o, uint32_t r) {
					  return has_worker(o, r);
				  }));
	if (waits)
	{
		if (!is(Fault::kNoTickets))
			tickets().keep(oid(d), role, s.now);
		return false;
	}
	tickets().remove(oid(d), role, s.now);
	int8_t slot = static_cast<int8_t>(free);
	int8_t database = static_cast<int8_t>(d);
	s.slots[free] = {.state = Slot::kStarting,
					 .idle = false,
					 .database = database,
					 .role = static_cast<int8_t>(role),
					 .first = me.queue,
					 .process = 0,
					 .start = ++s.starts,
					 .began = s.now};
	me.order = {slot, database, static_cast<int8_t>(role), me.queue, s.starts};
	return true;
}

/* At the end of a pass: drop the tickets of roles that have not asked for a slot in this pass. */
inline void
World::drop_tickets(const SchedulerState &me, int d)
{
	bool dropped = false;
	for (HandlerTicket &ticket : s.tickets)
		if (ticket.database == oid(d) && !(me.asked >> ticket.role & 1) &&
			!is(Fault::kTicketOutlivesNeed))
		{
			dropped = true;
			ticket.database = 0;
		}
	for (int other = 0; other < kMaxDatabases && dropped; other++)
		wake_scheduler(other);
}

/* ---- the scheduler ---- */

inline void
World::look_at_queue(SchedulerState &me, int d)
{
	while (me.queue < queues() && database_of(me.queue) != d)
		me.queue++;
	if (me.queue >= queues())
	{
		drop_tickets(me, d);
		me.step = SchedulerState::kDuty;
		return;
	}
	int q = me.queue;
	QueueState &queue = s.queues[q];
	int before = queue.ready;
	fire(q);
	if (queue.ready > before)
		note_filed(q, queue.ready - before, false);
	if (queue.pace.workers == 0)
		return next_queue(me);
	bool claimable = queue.line.n == 0 && is_claimable(q);
	int64_t at = queue.pace.start_at(claimable, s.now);
	if (at > s.now)
		me.next = std::min(me.next, at);
	if (p.queues[q].notify || (queue.line.n == 0 && has_free_place(q)))
		me.next = std::min(me.next, next_timer(q));
	if (at > s.now)
		return next_queue(me);
	me.step = SchedulerState::kAskIdle;
	me.since = queue.pace.claimable_since;
}

/* Read the definitions of handlers in a transaction. */
inline void
World::read_definitions(SchedulerState &me, int d)
{
	me.served = s.locked[d] != 2;
	me.i = 0;
	if (s.locked[d] != 0)
	{
		bool forget = me.served && me.known && is(Fault::kUnreadIsRead);
		if (forget)
			me.changes = me.noted;
		me.step = SchedulerState::kSleep;
		return;
	}
	me.n = 0;
	for (int q = 0; q < queues(); q++)
		if (database_of(q) == d)
		{
			me.active[q] = runs(q);
			me.n += runs(q);
		}
	me.step = SchedulerState::kStore;
	me.stored = false;
}

inline bool
World::step_duty(SchedulerState &me, int d)
{
	switch (me.step)
	{
		case SchedulerState::kDuty:
		{
			bool differ = me.known && me.changes != s.changes[d];
			me.step = SchedulerState::kSleep;
			bool locked = s.locked[d] != 0 && !is(Fault::kLockedIsUrgent);
			if (me.duty_due > s.now && (!differ || locked))
				return true;
			me.noted = s.changes[d];
			if (me.known && !differ && me.n == 0)
			{
				me.duty_due = p.polls ? s.now + kSecond : kNever;
				return true;
			}
			me.changed = !me.known || differ;
			me.duty_due = p.polls || s.locked[d] != 0 ? s.now + kSecond : kNever;
			for (int i = 0; i < p.slots && !p.polls; i++)
				if (s.slots[i].state == Slot::kStarting)
					me.duty_due = std::min(me.duty_due, s.now + 10 * kSecond);
			me.step = SchedulerState::kDropSlot;
			return true;
		}
		case SchedulerState::kDropSlot:
			for (Slot &slot : s.slots)
			{
				bool ours = slot.database == d && (!me.known || s.now - slot.began >= 10 * kSecond);
				bool foreign = s.now - slot.began >= 10 * kSecond && !is(Fault::kForeignSlotKept);
				if (slot.state != Slot::kStarting || !(ours || foreign))
					continue;
				me.first = slot.first;
				slot.state = Slot::kFree;
				me.step = SchedulerState::kDropPlace;
				return true;
			}
			me.step = SchedulerState::kRead;
			return true;
		case SchedulerState::kDropPlace:
			if (!is_dropped(me.first) && !is(Fault::kPlaceNotGivenBack))
			{
				s.queues[me.first].pace.places--;
				care_for_rest(me.first);
			}
			me.step = SchedulerState::kDropSlot;
			return true;
		case SchedulerState::kRead:
			read_definitions(me, d);
			return true;
		case SchedulerState::kStore:
			while (me.i < queues() && database_of(me.i) != d)
				me.i++;
			if (me.i < queues())
			{
				int workers = me.active[me.i] ? p.queues[me.i].workers : 0;
				HandlerPace &pace = s.queues[me.i].pace;
				if (pace.workers != workers)
				{
					pace.restart(workers);
					pace.failures_in_row = p.failures;
					pace.sqlstate = 1;
					s.queues[me.i].stored_at = workers == 0 ? ++s.event : 0;
					me.stored = true;
				}
				me.i++;
				return true;
			}
			me.known = true;
			me.changes = me.noted;
			if (me.stored && !is(Fault::kDefinitionTellsNobody))
				s.latch[d] = true;
			me.step = me.changed ? SchedulerState::kWake : SchedulerState::kSleep;
			me.i = 0;
			return true;
		case SchedulerState::kWake:
			for (; me.i < p.slots; me.i++)
				if (const Slot &slot = s.slots[me.i];
					slot.state == Slot::kRunning && slot.database == d)
				{
					s.latch[slot.process] = true;
					me.i++;
					return true;
				}
			me.step = SchedulerState::kSleep;
			return true;
		default:
			return false;
	}
}

inline bool
World::step_scheduler(int d, bool fails)
{
	SchedulerState &me = s.schedulers[d];
	QueueState *queue = me.queue < queues() ? &s.queues[me.queue] : nullptr;
	if (!me.alive)
	{
		begin_scheduler(d);
		return true;
	}
	if (fails && me.step != SchedulerState::kRegister)
		return false;
	switch (me.step)
	{
		case SchedulerState::kLook:
			look_at_queue(me, d);
			return true;
		case SchedulerState::kAskIdle:
		{
			bool idle = false;
			for (int i = 0; i < p.slots; i++)
				idle |= s.slots[i].state != Slot::kFree && s.slots[i].idle &&
						s.slots[i].database == d && s.slots[i].role == p.queues[me.queue].role;
			if (idle && (s.now < me.since + HandlerPace::kStartDelay || is(Fault::kIdleIsEnough)))
			{
				if (!is(Fault::kIdleIsEnough))
				{
					wake_idle(d);
					me.next = std::min(me.next, me.since + HandlerPace::kStartDelay);
				}
				next_queue(me);
				return true;
			}
			me.step = SchedulerState::kTakePlace;
			return true;
		}
		case SchedulerState::kTakePlace:
			me.placed =
				is(Fault::kCountedWhenItRuns) ? has_room(me.queue) : queue->pace.take_place(s.now);
			if (!me.placed)
			{
				next_queue(me);
				return true;
			}
			queue->pace.last_start = s.now;
			me.step = SchedulerState::kTakeSlot;
			return true;
		case SchedulerState::kTakeSlot:
			me.started = take_slot(me, d);
			me.step = me.started ? SchedulerState::kRegister : SchedulerState::kFinish;
			return true;
		case SchedulerState::kRegister:
		{
			int w = 0;
			while (w < kMaxWorkers && s.workers[w].step != WorkerState::kNone)
				w++;
			if (fails && s.refusals >= p.refusals)
				return false;
			if (!fails && w < kMaxWorkers)
			{
				s.workers[w] = {};
				s.workers[w].step = WorkerState::kBegin;
				s.workers[w].order = me.order;
				me.step = SchedulerState::kFinish;
				return true;
			}
			s.refusals += fails;
			me.started = false;
			if (s.slots[me.order.slot].start == me.order.start)
				s.slots[me.order.slot].state = Slot::kFree;
			tickets().keep(oid(d), static_cast<uint32_t>(me.order.role), s.now);
			me.step = is(Fault::kPlaceLeftByScheduler) ? SchedulerState::kComplain
													   : SchedulerState::kFinish;
			return true;
		}
		case SchedulerState::kComplain:
			me.step = SchedulerState::kFinish;
			return true;
		case SchedulerState::kFinish:
			if (!me.started)
			{
				queue->pace.places -= !is(Fault::kCountedWhenItRuns);
				/* One may have found the place taken. Others have slots that are wanted. */
				wake_idle(is(Fault::kIdleKeepsSlot) ? d : kNobody);
				me.next = std::min(me.next, s.now + kSecond);
			}
			me.placed = false;
			next_queue(me);
			return true;
		case SchedulerState::kSleep:
			s.latch[d] = false;
			me.queue = 0;
			me.asked = 0;
			me.next = kNever;
			me.step = SchedulerState::kLook;
			return true;
		default:
			return step_duty(me, d);
	}
}

/* ---- a worker ---- */

/* HandlerList::refresh() */
inline void
World::refresh(WorkerState &me)
{
	int changes = s.changes[me.order.database];
	if (me.changes == changes)
		return;
	me.changes = changes;
	me.list = 0;
	for (int q = 0; q < queues(); q++)
		if (is_of_role(me, q) && runs(q) && !is_dropped(q))
			me.list = static_cast<int8_t>(me.list | 1 << q);
}

inline void
World::note_served(int q)
{
	int8_t *end = std::remove(s.served, s.served + queues(), static_cast<int8_t>(q));
	*end = static_cast<int8_t>(q);
}

/* serve_next() */
inline void
World::begin_turn(WorkerState &me)
{
	me.n_order = 0;
	for (int i = 0; i < queues(); i++)
		if (me.list & 1 << s.served[i])
			me.turn[me.n_order++] = s.served[i];
	me.i = -1;
	next_turn(me);
}

inline void
World::next_turn(WorkerState &me)
{
	me.i++;
	me.step = me.i >= me.n_order						  ? WorkerState::kGiveAll
			  : me.has_place && me.place != me.turn[me.i] ? WorkerState::kSwap
														  : WorkerState::kTake;
}

inline bool
World::step_worker(int w, bool fails)
{
	WorkerState &me = s.workers[w];
	Slot &slot = s.slots[me.order.slot];
	int process = kFirstWorker + w;
	if (fails && me.step != WorkerState::kBegin && me.step != WorkerState::kConnect &&
		me.step != WorkerState::kCall)
		return false;
	switch (me.step)
	{
		case WorkerState::kBegin:
			if (fails) /* the postmaster could not start the process, and forgets it */
			{
				if (s.refusals >= p.refusals)
					return false;
				s.refusals++;
				me = {};
				return true;
			}
			if (slot.state == Slot::kStarting && slot.start == me.order.start)
			{
				slot.state = Slot::kRunning;
				slot.process = static_cast<int8_t>(process);
			}
			else if (!is(Fault::kStaleOrderRuns))
			{
				me = {};
				return true;
			}
			me.has_place = true;
			me.place = me.order.first;
			if (is(Fault::kCountedWhenItRuns))
				s.queues[me.place].pace.places++;
			me.began = me.idle_since = s.now;
			s.latch[process] = false;
			me.step = WorkerState::kConnect;
			return true;
		case WorkerState::kConnect:
			if (fails && s.refusals >= p.refusals)
				return false;
			s.refusals += fails;
			if (fails || s.schedulers[me.order.database].gone)
				end_worker(me);
			else
				me.step = WorkerState::kLoop;
			return true;
		case WorkerState::kLoop: /* end_if_due() */
			if (s.schedulers[me.order.database].gone ||
				(!is(Fault::kNoQuantum) && s.now - me.began > kSecond &&
				 tickets().another_waits(oid(me.order.database),
										 static_cast<uint32_t>(me.order.role), s.now)))
				end_worker(me);
			else
				me.step = WorkerState::kRefresh;
			return true;
		case WorkerState::kRefresh:
			refresh(me);
			if (me.list == 0)
				end_worker(me);
			else
				begin_turn(me);
			return true;
		case WorkerState::kSwap:
		case WorkerState::kGiveUp:
		case WorkerState::kGiveAll:
			if (me.has_place && !is_dropped(me.place))
			{
				s.queues[me.place].pace.places--;
				if (!is(Fault::kPlaceBackTellsNobody))
					care_for_rest(me.place);
			}
			me.has_place = false;
			if (me.step == WorkerState::kSwap)
				me.step = WorkerState::kTake;
			else if (me.step == WorkerState::kGiveUp)
				next_turn(me);
			else if (s.now >= me.idle_since + p.idle)
				end_worker(me);
			else
				me.step = WorkerState::kIdle;
			return true;
		case WorkerState::kTake:
		{
			int q = me.turn[me.i];
			bool taken = is_claimable(q) && (me.has_place ? s.queues[q].pace.may_call(s.now)
														  : s.queues[q].pace.take_place(s.now));
			if (taken)
			{
				me.has_place = true;
				me.place = static_cast<int8_t>(q);
				note_served(q);
				me.step = WorkerState::kClaim;
			}
			else if (me.has_place)
				me.step = WorkerState::kGiveUp;
			else
				next_turn(me);
			return true;
		}
		case WorkerState::kClaim:
		{
			QueueState &queue = s.queues[me.place];
			int n = is_claimable(me.place)
						? std::min<int>(queue.pace.next_batch(p.batch), queue.ready)
						: 0;
			if (n == 0)
			{
				next_turn(me);
				return true;
			}
			queue.ready = static_cast<int8_t>(queue.ready - n);
			queue.in_work = static_cast<int8_t>(queue.in_work + n);
			me.jobs = static_cast<int8_t>(n);
			me.job_queue = me.place;
			me.asked_at = s.event;
			me.had_job = true;
			me.fruitless = 0;
			if (queue.ready > 0 && !is(Fault::kTakesAndTellsNobody))
				wake_waiters(me.place, 1);
			me.step = WorkerState::kTell;
			me.i = 0;
			return true;
		}
		case WorkerState::kTell: /* tell_of_more() */
			for (; me.i < queues(); me.i++)
				if (me.list & 1 << me.i && (me.is_idle || me.i == me.place) && !is_dropped(me.i) &&
					!is(Fault::kTakesAndTellsNobody) &&
					!(is(Fault::kPassesNothing) && me.i != me.place))
				{
					care_for_rest(me.i);
					me.i++;
					return true;
				}
			me.step = WorkerState::kBusy;
			return true;
		case WorkerState::kBusy:
			set_idle(me, false);
			me.step = WorkerState::kAsk;
			return true;
		case WorkerState::kAsk: /* run_claimed(), and between two calls */
		{
			QueueState &queue = s.queues[me.job_queue];
			bool stopped = false;
			if (me.in_call)
				stopped = queue.pace.workers == 0 && !is(Fault::kCallsOnAfterPause);
			else if (!is(Fault::kNeverAsks))
			{
				refresh(me);
				stopped = !(me.list & 1 << me.job_queue);
			}
			if (stopped)
			{
				for (; me.jobs > 0; me.jobs--)
				{
					s.queues[me.job_queue].in_work--;
					if (!is_dropped(me.job_queue))
						file(me.job_queue);
				}
				me.in_call = false;
				me.step = WorkerState::kLoop;
				return true;
			}
			int at = me.in_call ? queue.stored_at : queue.stopped_at;
			if (at != 0 && at <= me.asked_at)
				fail("a call begins although its handler was stopped before");
			me.in_call = true;
			me.until = s.now + p.call;
			me.step = WorkerState::kCall;
			return true;
		}
		case WorkerState::kCall:
		{
			if (fails && s.fails >= p.fails)
				return false;
			s.fails += fails;
			int job = fails ? ++s.event : 0;
			QueueState &queue = s.queues[me.job_queue];
			if (!is_dropped(me.job_queue))
				queue.pace.note_call({fails, 1, job, "no"}, s.now, 0);
			queue.in_work--;
			me.jobs--;
			me.asked_at = s.event;
			me.idle_since = s.now;
			if (fails && !is_dropped(me.job_queue))
				file(me.job_queue);
			me.step = me.jobs > 0 ? WorkerState::kAsk : WorkerState::kLoop;
			me.in_call = me.jobs > 0;
			return true;
		}
		default:
			return me.step < WorkerState::kEndLines ? step_idle(w) : step_end(w);
	}
}

inline void
World::fall_asleep(WorkerState &me)
{
	int64_t poll = p.polls ? s.now + kSecond : kNever;
	me.until = std::max(std::min({me.idle_since + p.idle, me.alarm, poll}), s.now + 1000);
	if (me.woken)
		me.fruitless = 0;
	if (me.claimable)
		me.until = s.now + ((int64_t{1} << std::min<int>(me.fruitless++, 10)) - 1) * 1000;
	else if (me.woken)
		me.until = s.now;
}

/* wait_for_work() */
inline bool
World::step_idle(int w)
{
	WorkerState &me = s.workers[w];
	int process = kFirstWorker + w;
	auto next = [&](WorkerState::Step step) {
		me.i++;
		if (me.i >= queues())
		{
			me.i = 0;
			me.step = step;
		}
		return true;
	};
	switch (me.step)
	{
		case WorkerState::kIdle:
			set_idle(me, true);
			me.step = WorkerState::kJoin;
			me.i = 0;
			me.woken = me.claimable = false;
			me.alarm = kNever;
			return true;
		case WorkerState::kJoin:
			while (me.i < queues() - 1 && !(me.list & 1 << me.i))
				me.i++;
			if (me.list & 1 << me.i && !is_dropped(me.i))
			{
				if (has_room(me.i) || is(Fault::kWaitsWithoutRoom))
					list(process, me.i);
				else if (me.is_idle)
					hand_over(me.i);
			}
			return next(WorkerState::kRejoin);
		case WorkerState::kRejoin:
			while (me.i < queues() - 1 && s.entries[process][me.i] == kOut)
				me.i++;
			me.woken |= rejoin(process, me.i, &me.alarm);
			return next(WorkerState::kLook);
		case WorkerState::kLook:
			while (me.i < queues() - 1 && s.entries[process][me.i] == kOut)
				me.i++;
			if (s.entries[process][me.i] != kOut && !me.woken && !me.claimable &&
				!is(Fault::kNoLastLook))
				me.claimable = is_claimable(me.i) && has_room(me.i);
			(void) next(WorkerState::kNap);
			if (me.step == WorkerState::kNap)
				fall_asleep(me);
			return true;
		case WorkerState::kNap: /* the sleep is over */
			s.latch[process] = false;
			me.step = WorkerState::kLeaveLine;
			return true;
		case WorkerState::kLeaveLine:
			while (me.i < queues() - 1 && s.entries[process][me.i] == kOut)
				me.i++;
			if (is(Fault::kPassesBeforeItLooks))
				leave_line(process, me.i, kNobody);
			else if (s.entries[process][me.i] != kOut)
				(void) take_out(process, me.i);
			return next(WorkerState::kLoop);
		default:
			return false;
	}
}

/* leave() */
inline bool
World::step_end(int w)
{
	WorkerState &me = s.workers[w];
	int process = kFirstWorker + w;
	Slot &slot = s.slots[me.order.slot];
	switch (me.step)
	{
		case WorkerState::kEndLines:
			while (me.i < queues() && s.entries[process][me.i] == kOut)
				me.i++;
			if (me.i < queues())
			{
				if (is(Fault::kPassesNothing))
					(void) take_out(process, me.i);
				else
					leave_line(process, me.i, kNobody);
				return true;
			}
			me.step = WorkerState::kEndJobs;
			return true;
		case WorkerState::kEndJobs:
			/* An attempt that is lost is counted by the scheduler, which files the job again. */
			for (; me.jobs > 0; me.jobs--)
			{
				s.queues[me.job_queue].in_work--;
				if (!is_dropped(me.job_queue))
					file(me.job_queue);
			}
			me.step = WorkerState::kEndPlace;
			return true;
		case WorkerState::kEndPlace:
			if (me.has_place && !is_dropped(me.place))
			{
				s.queues[me.place].pace.places--;
				if (!is(Fault::kPlaceBackTellsNobody))
					care_for_rest(me.place);
			}
			me.has_place = false;
			me.step = WorkerState::kEndOwed;
			me.i = 0;
			return true;
		case WorkerState::kEndOwed:
			for (; me.is_idle && me.i < queues(); me.i++)
				if (me.list & 1 << me.i && !is_dropped(me.i) && !is(Fault::kPassesNothing))
				{
					hand_over(me.i);
					me.i++;
					return true;
				}
			me.step = WorkerState::kEndNote;
			return true;
		case WorkerState::kEndNote:
			if (!is_dropped(me.order.first))
				s.queues[me.order.first].pace.note_worker_end(me.had_job, s.now);
			me.step = WorkerState::kEndSlot;
			return true;
		case WorkerState::kEndSlot:
			if (slot.start == me.order.start)
			{
				slot.state = Slot::kFree;
				slot.idle = false;
			}
			me.waiting = tickets().any_waits(s.now);
			me.step = WorkerState::kEndWake;
			return true;
		case WorkerState::kEndWake:
		{
			for (int d = 0; d < kMaxDatabases && !is(Fault::kDeathTellsNobody); d++)
				if (me.waiting || d == me.order.database)
					wake_scheduler(d);
			me = {};
			return true;
		}
		default:
			return false;
	}
}

/* ---- a waiting claim of a client ---- */

inline bool
World::step_client(int c)
{
	ClientState &me = s.clients[c];
	int process = kFirstClient + c;
	int q = p.clients[c];
	QueueState &queue = s.queues[q];
	switch (me.step)
	{
		case ClientState::kJoin:
			list(process, q);
			me.step = ClientState::kRejoin;
			return true;
		case ClientState::kRejoin:
			me.alarm = kNever;
			(void) rejoin(process, q, &me.alarm);
			me.step = ClientState::kClaim;
			return true;
		case ClientState::kClaim:
			me.got = is_claimable(q);
			if (me.got)
			{
				queue.ready--;
				pass_on(q);
			}
			me.step = me.got ? ClientState::kLeave : ClientState::kRejoinAgain;
			return true;
		case ClientState::kRejoinAgain:
			me.alarm = kNever;
			me.woken = rejoin(process, q, &me.alarm);
			me.step = me.woken ? ClientState::kClaim : ClientState::kNap;
			return true;
		case ClientState::kNap:
			s.latch[process] = false;
			me.step = ClientState::kRejoin;
			return true;
		case ClientState::kLeave:
			leave_line(process, q, me.got ? q : kNobody);
			me.step = ClientState::kOff;
			return true;
		default:
			return false;
	}
}

/* ---- all processes ---- */

/* Return when the process wakes if nobody wakes it; 0: it does not sleep; kNever: nobody is there. */
inline int64_t
World::wakes_at(int process) const
{
	if (process < kFirstWorker)
	{
		const SchedulerState &me = s.schedulers[process];
		if (me.gone)
			return kNever;
		if (!me.alive)
			return me.wake_at;
		if (me.step != SchedulerState::kSleep)
			return 0;
		if (s.latch[process])
			return 0;
		bool differ = me.known && me.changes != s.changes[process] &&
					  (s.locked[process] == 0 || is(Fault::kLockedIsUrgent));
		return differ ? 0 : std::min(me.next, me.duty_due);
	}
	if (process < kFirstClient)
	{
		const WorkerState &me = s.workers[process - kFirstWorker];
		if (me.step == WorkerState::kNone)
			return kNever;
		if (me.step == WorkerState::kCall)
			return me.until;
		return me.step != WorkerState::kNap || s.latch[process] ? 0 : me.until;
	}
	const ClientState &me = s.clients[process - kFirstClient];
	if (me.step <= ClientState::kOff)
		return kNever;
	return me.step != ClientState::kNap || s.latch[process] ? 0 : me.alarm;
}

inline bool
World::is_runnable(int process) const
{
	return wakes_at(process) <= s.now;
}

inline void
World::print(int process) const
{
	printf("%8.3f ", static_cast<double>(s.now - 1000 * kSecond) / kSecond);
	if (process < kFirstWorker)
		printf("scheduler %d: %d queue %d", process, s.schedulers[process].step,
			   s.schedulers[process].queue);
	else if (process < kFirstClient)
		printf("worker %d: %d queue %d", process, s.workers[process - kFirstWorker].step,
			   s.workers[process - kFirstWorker].i);
	else
		printf("client %d: %d", process, s.clients[process - kFirstClient].step);
	for (int q = 0; q < queues(); q++)
		printf(" | %d: ready %d places %d/%d in line %d", q, s.queues[q].ready,
			   s.queues[q].pace.places, s.queues[q].pace.workers, s.queues[q].line.n);
	printf("\n");
}

inline bool
World::step(int process, bool fails)
{
	if (!is_runnable(process))
		return false;
	if (tell)
		print(process);
	if (process < kFirstWorker)
		return step_scheduler(process, fails);
	if (process < kFirstClient)
		return step_worker(process - kFirstWorker, fails);
	return !fails && step_client(process - kFirstClient);
}

/* A process dies where the server looks for interrupts. */
inline bool
World::die(int process)
{
	if (process < kFirstWorker)
	{
		SchedulerState &me = s.schedulers[process];
		bool may = me.alive && !me.gone &&
				   (me.step == SchedulerState::kSleep || me.step == SchedulerState::kRead ||
					me.step == SchedulerState::kStore || me.step == SchedulerState::kComplain);
		if (!may || s.scheduler_deaths >= p.scheduler_deaths)
			return false;
		s.scheduler_deaths++;
		me = {};
		me.wake_at = s.now + kSecond; /* the launcher starts the next one */
		return true;
	}
	if (s.deaths >= p.deaths)
		return false;
	if (process < kFirstClient)
	{
		WorkerState &me = s.workers[process - kFirstWorker];
		bool may = me.step == WorkerState::kConnect || me.step == WorkerState::kLoop ||
				   me.step == WorkerState::kRefresh || me.step == WorkerState::kClaim ||
				   me.step == WorkerState::kAsk || me.step == WorkerState::kCall ||
				   me.step == WorkerState::kNap;
		if (!may)
			return false;
		s.deaths++;
		end_worker(me);
		return true;
	}
	ClientState &me = s.clients[process - kFirstClient];
	if (me.step != ClientState::kNap && me.step != ClientState::kClaim)
		return false;
	s.deaths++;
	me.step = ClientState::kLeave;
	return true;
}

/* Let the clock pass to the next time for which a process waits. */
inline bool
World::pass()
{
	int64_t next = kNever;
	for (int i = 0; i < kProcesses; i++)
	{
		int64_t at = wakes_at(i);
		bool starting = i >= kFirstWorker && i < kFirstClient && p.slow_starts &&
						s.workers[i - kFirstWorker].step == WorkerState::kBegin;
		if (at <= s.now && !starting)
			return false;
		if (at > s.now)
			next = std::min(next, at);
	}
	if (next == kNever)
		return false;
	for (HandlerTicket &ticket : s.tickets)
		if (is(Fault::kTicketForEver))
			ticket.renewed += next - s.now;
	s.now = next;
	return true;
}

inline bool
World::act(Action action, int subject)
{
	int q = subject;
	auto event = [&](int8_t &n, int most) {
		if (n >= most)
			return false;
		n++;
		s.event++;
		return true;
	};
	switch (action)
	{
		case kPass:
			if (s.passes >= p.passes || !pass())
				return false;
			s.passes++;
			return true;
		case kStep:
		case kStepFails:
			return step(subject, action == kStepFails);
		case kDie:
			return die(subject);
		case kEnqueue:
			if (is_dropped(q) || !event(s.jobs, p.jobs))
				return false;
			file(q);
			return true;
		case kEnqueueLater:
		{
			int64_t *due = s.queues[q].due[0] == kNever ? &s.queues[q].due[0] : &s.queues[q].due[1];
			if (is_dropped(q) || *due != kNever || !event(s.timed, p.timed))
				return false;
			bool sooner = s.now + 3 * kSecond < next_timer(q);
			*due = s.now + 3 * kSecond;
			note_filed(q, 0, sooner);
			return true;
		}
		case kTake:
			if (!is_claimable(q) || !event(s.taken, p.taken))
				return false;
			s.queues[q].ready--;
			pass_on(q);
			return true;
		case kWait:
			if (s.clients[subject].step != ClientState::kNotBegun)
				return false;
			s.clients[subject].step = ClientState::kJoin;
			return true;
		case kPauseOrResume:
		case kBreakOrMend:
		{
			QueueState &queue = s.queues[q];
			if (is_dropped(q) || !event(s.alterations, p.changes))
				return false;
			bool &state = action == kPauseOrResume ? queue.paused : queue.broken;
			state = !state;
			queue.stopped_at = runs(q) ? 0 : queue.stopped_at != 0 ? queue.stopped_at : s.event;
			s.changes[database_of(q)]++;
			wake_scheduler(database_of(q));
			return true;
		}
		case kLockOrUnlock:
		case kLockAll:
			if (s.schedulers[subject].gone)
				return false;
			if (s.locked[subject] != 0)
			{
				if (action == kLockAll)
					return false;
				s.locked[subject] = 0;
				return true;
			}
			if (!event(s.locks, p.locks))
				return false;
			s.locked[subject] = action == kLockAll ? 2 : 1;
			return true;
		case kDrop:
			if (s.schedulers[subject].gone ||
				s.schedulers[subject].step != SchedulerState::kSleep || !event(s.drops, p.drops))
				return false;
			/* Both the scheduler and the workers have to end before the database is gone. */
			for (const WorkerState &worker : s.workers)
				if (worker.step > WorkerState::kConnect && worker.order.database == subject)
				{
					s.drops--;
					return false;
				}
			s.schedulers[subject].gone = true;
			s.schedulers[subject].alive = false;
			return true;
		default:
			return false;
	}
}

/* ---- checks ---- */

/* Return how many places of the queue are in somebody's hands. */
inline int
World::places_of(int q) const
{
	int n = 0;
	for (const SchedulerState &me : s.schedulers)
	{
		n += me.alive && me.placed && me.queue == q &&
			 (me.step == SchedulerState::kTakeSlot || me.step == SchedulerState::kComplain ||
			  (me.step == SchedulerState::kFinish && !me.started));
		n += me.alive && me.step == SchedulerState::kDropPlace && me.first == q;
	}
	for (int i = 0; i < p.slots; i++)
		n += s.slots[i].state == Slot::kStarting && s.slots[i].first == q;
	for (const WorkerState &me : s.workers)
		n += me.step != WorkerState::kNone && me.has_place && me.place == q;
	return n;
}

inline bool
World::check()
{
	for (int q = 0; q < queues() && wrong.empty(); q++)
	{
		const HandlerPace &pace = s.queues[q].pace;
		int working = 0;
		for (const WorkerState &me : s.workers)
			working += me.step > WorkerState::kBegin && me.has_place && me.place == q;
		if (working > p.queues[q].workers || pace.places > p.queues[q].workers)
			fail("queue " + std::to_string(q) + " has more workers than its handler allows");
		if (!is_dropped(q) && !is(Fault::kCountedWhenItRuns) && pace.places != places_of(q))
			fail("queue " + std::to_string(q) + " counts " + std::to_string(pace.places) +
				 " places, but " + std::to_string(places_of(q)) + " are taken");
	}
	for (int i = 0; i < p.slots && wrong.empty(); i++)
	{
		int owners = 0;
		for (const WorkerState &me : s.workers)
			owners += me.step > WorkerState::kBegin && me.step <= WorkerState::kEndSlot &&
					  me.order.slot == i;
		if (owners != (s.slots[i].state == Slot::kRunning))
			fail("slot " + std::to_string(i) + " has " + std::to_string(owners) + " workers");
	}
	return wrong.empty();
}

/* Return whether a job of the queue waits, and could run. */
inline bool
World::waits(int q) const
{
	const QueueState &queue = s.queues[q];
	return !is_dropped(q) && runs(q) && (queue.ready > 0 || next_timer(q) != kNever);
}

/* Return what is left behind when all workers have ended; empty: nothing. */
inline std::string
World::left_behind() const
{
	for (int i = 0; i < p.slots; i++)
		if (s.slots[i].state != Slot::kFree)
			return "slot " + std::to_string(i) + " is not free";
	for (int q = 0; q < queues(); q++)
	{
		if (!is_dropped(q) && s.queues[q].pace.places != 0)
			return "a place of queue " + std::to_string(q) + " is taken";
		if (s.queues[q].in_work != 0)
			return "a job of queue " + std::to_string(q) + " is in work";
	}
	for (int i = kFirstWorker; i < kFirstClient; i++)
		for (int q = 0; q < queues(); q++)
			if (s.entries[i][q] != kOut)
				return "a worker that has ended is in a line";
	return "";
}

/* Fails if a claim sleeps in the line of a queue that has a job for it. All processes sleep. */
inline bool
World::a_claim_sleeps()
{
	for (int c = 0; c < static_cast<int>(p.clients.size()); c++)
		if (s.clients[c].step == ClientState::kNap && s.queues[p.clients[c]].ready > 0)
			fail("a claim sleeps although there is a job for it");
	return !wrong.empty();
}

/*
 * Without polls: the clock has passed since `before`, while all processes slept. Fails if a job
 * could have begun in this time.
 */
inline bool
World::sleeps_too_long(int64_t before)
{
	for (int q = 0; q < queues(); q++)
	{
		const HandlerPace &pace = s.queues[q].pace;
		if (is_dropped(q) || !runs(q) || !has_free_place(q))
			continue;
		int64_t since = s.queues[q].ready > 0 ? before : next_timer(q);
		since = std::max({since, before, pace.call_after, pace.start_after});
		bool could = false;
		for (int i = 0; i < p.slots; i++)
		{
			const Slot &slot = s.slots[i];
			could |= slot.state == Slot::kFree ||
					 (slot.state == Slot::kRunning && slot.idle &&
					  slot.database == database_of(q) && slot.role == p.queues[q].role);
		}
		if (could && s.schedulers[database_of(q)].alive && since <= s.now &&
			s.now - since > HandlerPace::kStartDelay)
		{
			fail("a job waits, and all processes sleep for " +
				 std::to_string((s.now - since) / 1000) + " ms");
			return true;
		}
	}
	return false;
}

/* since: when each queue began to wait for a slot; 0: it does not wait. */
inline bool
World::a_role_starves(int64_t *since)
{
	for (int q = 0; q < queues(); q++)
	{
		bool waits = !is_dropped(q) && runs(q) && s.queues[q].ready > 0 &&
					 !has_worker(oid(database_of(q)), static_cast<uint32_t>(p.queues[q].role));
		since[q] = !waits ? 0 : since[q] == 0 ? s.now : since[q];
		if (waits && s.now - since[q] > p.turn)
			fail("queue " + std::to_string(q) + " waits for a slot since " +
				 std::to_string((s.now - since[q]) / 1000) + " ms");
	}
	return !wrong.empty();
}

inline void
World::drain(unsigned seed)
{
	constexpr int kMostSteps = 1500; /* without the clock */
	unsigned random = seed * 2654435761U + 1;
	auto pick = [&](int n) {
		random = random * 1664525U + 1013904223U;
		return static_cast<int>((random >> 8) % static_cast<unsigned>(n));
	};
	bool ordered = seed % 2 == 0; /* each process goes on until it sleeps */
	int64_t begin = s.now;
	int64_t since[kMaxQueues] = {};
	int steps = 0, last = pick(kProcesses);
	for (;;)
	{
		int awake[kProcesses], n = 0;
		for (int i = 0; i < kProcesses; i++)
			if (is_runnable(i))
				awake[n++] = i;
		bool jobs = false, workers = false;
		for (int q = 0; q < queues(); q++)
			jobs |= waits(q) || (!is_dropped(q) && s.queues[q].in_work > 0);
		for (const WorkerState &me : s.workers)
			workers |= me.step != WorkerState::kNone;
		if (n == 0 && !jobs && !workers && left_behind().empty())
			return;
		if (jobs && s.now - begin > p.patience)
			return fail("a job still waits after " + std::to_string((s.now - begin) / 1000) +
						" ms");
		if (s.now - begin > p.patience + 60 * kSecond)
			return fail(workers ? "a worker does not end" : left_behind());
		if (n == 0)
		{
			int64_t before = s.now;
			if (a_claim_sleeps())
				return;
			bool passed = pass();
			bool locked =
				std::any_of(s.locked, s.locked + kMaxDatabases, [](int8_t l) { return l != 0; });
			if (locked && (!passed || s.now - begin >= 2 * kSecond))
			{
				std::fill(s.locked, s.locked + kMaxDatabases, int8_t{0});
				begin = s.now;
				continue;
			}
			if (!passed)
				return fail(jobs	  ? "a job waits, and all processes sleep for ever"
							: workers ? "a worker sleeps for ever"
									  : left_behind());
			if ((!p.polls && sleeps_too_long(before)) || a_role_starves(since))
				return;
			steps = 0;
			continue;
		}
		int who = awake[pick(n)];
		for (int i = 0; i < n && ordered; i++)
			if (awake[i] == last)
				who = last;
		last = who;
		if (!step(who, false) || !check())
			return;
		if (++steps > kMostSteps)
			return fail("processes stay awake for nothing");
	}
}

/* ---- states ---- */

inline std::string
World::code() const
{
	std::string out;
	auto put = [&](int64_t value) { out.push_back(static_cast<char>(value)); };
	/* A time as far as it matters: how long ago, at most `past`, or how far ahead. */
	auto put_time = [&](int64_t time, int64_t past) {
		int64_t ago = time == kNever ? kNever : std::max(time - s.now, -past);
		out.append(reinterpret_cast<const char *>(&ago), 5);
	};
	auto put_all = [&](const void *bytes, size_t n) {
		out.append(static_cast<const char *>(bytes), n);
	};
	put_all(&s.jobs, 12);
	put_all(s.latch, sizeof(s.latch));
	put_all(s.locked, sizeof(s.locked));
	put_all(s.served, static_cast<size_t>(queues()));
	for (int i = 0; i < kProcesses; i++)
		put_all(s.entries[i], static_cast<size_t>(queues()));
	for (int q = 0; q < queues(); q++)
	{
		const QueueState &queue = s.queues[q];
		const HandlerPace &pace = queue.pace;
		put(queue.ready);
		put(queue.in_work);
		put(queue.paused * 2 + queue.broken);
		put(pace.workers * 16 + pace.places);
		put(pace.idle_starts * 32 + pace.failures_in_row);
		put_time(pace.claimable_since == 0 ? kNever : pace.claimable_since,
				 HandlerPace::kStartDelay);
		put_time(pace.last_start, HandlerPace::kStartDelay);
		put_time(pace.start_after, 0);
		put_time(pace.call_after, 0);
		put_time(std::min(queue.due[0], queue.due[1]), 0);
		put_time(std::max(queue.due[0], queue.due[1]), 0);
		put(queue.line.n);
		put(queue.line.watcher);
		put_all(queue.line.who, static_cast<size_t>(queue.line.n));
	}
	for (int i = 0; i < p.slots; i++)
	{
		const Slot &slot = s.slots[i];
		put(slot.state * 2 + slot.idle);
		put(slot.database * 16 + slot.role);
		put(slot.first * 16 + slot.process);
		put_time(slot.state == Slot::kStarting ? slot.began : kNever, 10 * kSecond);
	}
	for (const HandlerTicket &ticket : s.tickets)
	{
		int rank = 0;
		for (const HandlerTicket &other : s.tickets)
			rank += other.number < ticket.number;
		put(ticket.database * 16 + ticket.role);
		put(rank);
		put_time(ticket.database == 0 ? kNever : ticket.renewed, HandlerTickets::kVoidAfter);
	}
	for (int d = 0; d < kMaxDatabases; d++)
	{
		const SchedulerState &me = s.schedulers[d];
		if (me.gone)
			continue;
		put(me.step * 2 + me.alive);
		put(me.known * 16 + me.placed * 8 + me.started * 4 + me.changed * 2 + me.stored);
		put(me.queue * 16 + me.first);
		put(me.i * 16 + me.n);
		put(me.asked);
		put((me.changes == s.changes[d]) * 2 + (me.noted == s.changes[d]));
		for (int q = 0; q < queues(); q++)
			put(me.active[q]);
		put(me.order.slot * 16 + (me.order.start == s.slots[me.order.slot].start));
		put_time(me.next, 0);
		put_time(me.duty_due, 0);
		put_time(me.alive ? 0 : me.wake_at, 0);
		put_time(me.since, HandlerPace::kStartDelay);
	}
	for (const WorkerState &me : s.workers)
	{
		put(me.step);
		if (me.step == WorkerState::kNone)
			continue;
		put(me.order.slot * 16 + (me.order.start == s.slots[me.order.slot].start));
		put(me.order.database * 16 + me.order.role);
		put(me.order.first * 16 + me.place);
		put(me.has_place * 128 + me.is_idle * 64 + me.had_job * 16 + me.woken * 8 +
			me.claimable * 4 + me.in_call * 2 + me.waiting);
		put(me.i * 16 + me.jobs);
		put(me.job_queue * 16 + me.fruitless);
		put(me.list);
		put(me.n_order);
		put_all(me.turn, static_cast<size_t>(me.n_order));
		put(me.changes == s.changes[me.order.database]);
		const QueueState &of_job = s.queues[me.job_queue];
		put((of_job.stopped_at != 0 && of_job.stopped_at <= me.asked_at) * 2 +
			(of_job.stored_at != 0 && of_job.stored_at <= me.asked_at));
		put_time(me.began, kSecond + 1);
		put_time(me.idle_since, p.idle);
		put_time(me.until, 0);
		put_time(me.alarm, 0);
	}
	for (const ClientState &me : s.clients)
	{
		put(me.step * 4 + me.woken * 2 + me.got);
		put_time(me.alarm, 0);
	}
	return out;
}

} // namespace handler_world
