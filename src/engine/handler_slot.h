/*
 * Slots of handlers' workers, and the line for these slots.
 *
 * A *handler's worker* is a background worker that runs the jobs of queues with a handler. It
 * serves one role in one database. pgq_ext.max_handler_workers of them may run at a time in the
 * whole server; each has a slot here. The scheduler of a database takes a slot before it registers
 * the worker. The worker gives the slot back when it exits. If the worker has not begun, the
 * scheduler gives the slot back.
 *
 * If no slot is free, the scheduler leaves a ticket for the role and database
 * (core/handler_tickets.h). A worker that has worked for 1 s ends after its call if another role
 * waits, so all roles get their turn.
 *
 * The handlers lock protects everything here except the atomics. No function can fail.
 */
#pragma once

#include "core/handler_suspects.h"
#include "core/handler_tickets.h"
#include "engine/queue.h"

namespace pgq {

struct HandlerSlot
{
	enum State : uint8
	{
		kFree,
		kStarting, /* registered; the process has not begun */
		kRunning,
	};
	State state;
	bool idle;	  /* the worker waits for a job */
	uint32 start; /* number of the start, never used again */
	Oid database;
	Oid role;
	QueueRef first; /* the queue for which the worker was started */
	int procno;
	int pid;
	int64 began; /* monotonic */
	/* Atomic, no lock: also read by the postmaster when all processes have ended. */
	pg_atomic_uint32 in_call; /* the worker is in the call that `call` describes */
	pg_atomic_uint32 quit;	  /* the worker has got SIGQUIT, so it has not crashed itself */
	HandlerCall call;		  /* written by the worker while in_call is 0 */
	bool soon; /* the call began soon after the start of the server; written as `call` */
	/* Atomic, no lock. Numbers of calls are never used again while the server runs. */
	pg_atomic_uint64 number;	/* number of the call that is running; 0: none */
	pg_atomic_uint64 cancelled; /* number of the last call that is or was to be cancelled */
	uint64 calls;				/* calls that have begun in this slot; written by the worker */
};

struct HandlerSlots
{
	uint64 tickets_drawn;
	uint32 starts;
	int64 began; /* monotonic: when the first worker was started; 0: none was */
	/*
	 * true: the last server has ended without a note (handler_crash.h). Set when shared memory is
	 * created.
	 */
	bool careful;
	/* Suspects of the last crash. A scheduler removes the suspects of its own database. */
	CrashSuspect suspects[kCrashSuspects];
	HandlerSlot slots[FLEXIBLE_ARRAY_MEMBER]; /* max_handler_workers */
};

Size handler_slots_size();
void place_handler_slots(void *memory);
Size handler_tickets_size();
void place_handler_tickets(void *memory);

/* The data of a start, passed to the worker in bgw_extra. */
struct HandlerOrder
{
	int slot;
	uint32 start;
	Oid role;
	Oid tablespace; /* tablespace of the database */
	QueueRef first;
};

/* ---- for schedulers ---- */

/*
 * Take a slot for a worker. Returns false, and leaves a ticket, if no slot is free or another role
 * goes first.
 */
bool take_handler_slot(Oid role, const QueueRef &first, HandlerOrder *order);

/* Leave a ticket, because the worker could not be registered. Gives the slot back. */
void return_handler_slot(const HandlerOrder &order);

/*
 * Give back one slot whose worker has not begun 10 s after its start. The slot may be of any
 * database, since that database may be dropped by now. all_own: also give back slots of this
 * database that were taken later. Returns true, and stores the queue for which the worker was
 * started, if there was such a slot; the caller then calls this again.
 */
bool drop_unbegun_slot(bool all_own, QueueRef *first);

/*
 * Drop the tickets of this database that were not renewed since the time `began`, when the last
 * pass over its queues began. The roles of these tickets want no slot any more, and would keep
 * other roles waiting.
 */
void drop_old_tickets(int64 began);

/* Return how many workers the role has in this database, and how many of them wait for jobs. */
struct RoleWorkers
{
	int all;
	int idle;
};
RoleWorkers workers_of_role(Oid role);

/* Wake all workers of this database. Returns their number. */
int wake_handler_workers();

/*
 * Wake the idle workers of all databases, since a role may wait for a slot. A worker that is woken
 * gives its slot back if another role waits for one.
 */
void wake_idle_workers();

/*
 * Take a suspect of this database out of the list. Returns false if there is none. return_suspect()
 * puts the suspect back, because the attempt of its job could not be counted.
 */
bool take_suspect(CrashSuspect *suspect);
void return_suspect(const CrashSuspect &suspect);

/* ---- for a worker ---- */

/* Take over the slot of the order. Returns false if the scheduler has given it back. */
bool begin_handler_worker(const HandlerOrder &order);

/* Give the slot back, and wake the schedulers that wait for one. */
void end_handler_worker();

/* Return whether another role waits for a slot. */
bool others_want_slot();

void set_handler_idle(bool idle);

/* Mark the begin of a call, and return its number. */
uint64 begin_handler_call(const HandlerCall &call);
void end_handler_call();

/* Return whether calls should have one job each, because the last server ended without a note. */
bool calls_are_careful();

/* Return whether the call that is running is to be cancelled. Safe in a signal handler. */
bool call_is_cancelled();

/* Note that the worker has got SIGQUIT. Safe in a signal handler. */
void note_handler_quit();

/* ---- for everybody ---- */

/*
 * Cancel the call with this number (Lease::call), if it is still running: send SIGUSR2 to its
 * process. Returns whether the call is still running. Called without a lock. Cannot fail.
 */
bool cancel_handler_call(uint64 number);

/* Let the postmaster note which workers were in a call when the server crashed. */
void watch_for_handler_crashes();

} // namespace pgq
