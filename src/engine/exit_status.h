/*
 * The exit status of schedulers, for the launcher.
 *
 * The launcher gives each start of a scheduler a place and a number. The scheduler reports its
 * state in the place, together with that number. If the place has another number by now, because a
 * new launcher has used the place for another start, the scheduler reports nothing. A scheduler
 * that has reported neither its end nor a SIGQUIT has crashed, and the server with it. The
 * postmaster notes such a crash before it creates shared memory anew. The notes are in the
 * postmaster's own memory, which survives.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

enum class ExitState : uint8
{
	kStarted, /* registered; the process has reported nothing yet */
	kRunning, /* the scheduler finds out whether the database needs a scheduler */
	kServing,
	/* The scheduler has ended, with one of these states: */
	kAbsent, /* the extension is not installed in the database */
	kIdle,	 /* the database has no queues */
	kTaken,	 /* another scheduler serves the database */
	kWanted, /* a session wants to drop, rename or copy the database, or has done so */
	kAsked,	 /* SIGTERM has ended the scheduler */
	kFailed, /* an error has ended the scheduler */
	/* SIGQUIT has ended the scheduler: the server restarts after a crash, or stops at once */
	kQuit,
};

struct ExitStatus
{
	/* Atomic, no lock. */
	pg_atomic_uint64 said; /* number of the start, and state of its scheduler */
	/*
	 * Written by the launcher before it starts the scheduler. Read by the postmaster when all
	 * processes have ended.
	 */
	Oid database;
	int64 began; /* monotonic time of the start */
};
static_assert(std::is_trivially_copyable_v<ExitStatus> && std::is_standard_layout_v<ExitStatus>);

int exit_status_count();
Size exit_statuses_size();
void place_exit_statuses(void *memory);

/* The data of a start, passed to the scheduler in bgw_extra. */
struct StartOrder
{
	int place;
	uint32 start;
	Oid tablespace; /* tablespace of the database */
};

/*
 * For the launcher: begin_start() begins a start in that place; state_of() returns the state that
 * the scheduler of a start has reported.
 */
StartOrder begin_start(int place, Oid database);
ExitState state_of(const StartOrder &order);

/* For the scheduler: report a state. Safe in a signal handler. */
void say(const StartOrder &order, ExitState state);

/*
 * Return how often in a row the schedulers of the database have crashed soon after their start.
 * Five minutes without a crash reset this number to 0.
 */
int crashes_of(Oid database);

/* Let the postmaster note crashes. Called when shared memory has been created. */
void watch_for_crashes();

} // namespace pgq
