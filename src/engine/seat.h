/*
 * Seats: what a scheduler tells the launcher when it ends.
 *
 * The launcher gives each start of a scheduler a seat and a number. The scheduler says under
 * that number how it is; a scheduler whose launcher has ended may find its seat taken by
 * another start, and then says nothing. A scheduler that says nothing at its end, not even that
 * it was told to quit, has crashed, and the server with it: the postmaster notes that before
 * the shared memory goes, in memory of its own, which outlives that.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

enum class SeatState : uint8
{
	kStarted, /* registered: nothing is known yet */
	kRunning, /* it finds out whether it is wanted */
	kServing,
	/* Ended: */
	kAbsent, /* the extension is not installed in the database */
	kIdle,	 /* it has no queues */
	kTaken,	 /* another scheduler serves it */
	kWanted, /* somebody wants to drop, rename or copy it, or has done so */
	kAsked,	 /* by SIGTERM */
	kFailed, /* by an error */
	kQuit,	 /* by SIGQUIT: the server restarts, or stops at once */
};

struct Seat
{
	/* Without a lock. */
	pg_atomic_uint64 said; /* number of the start and state of its scheduler */
	/* Written by the launcher before it starts the scheduler; read by the postmaster when all processes have ended. */
	Oid database;
	int64 began; /* monotonic */
};
static_assert(std::is_trivially_copyable_v<Seat> && std::is_standard_layout_v<Seat>);

int seat_count();
Size seats_size();
void place_seats(void *memory);

/* A start, as the scheduler gets to know it (bgw_extra). */
struct SeatOrder
{
	int seat;
	uint32 start;
	Oid tablespace; /* of the database */
};

/* The launcher: begin a start. */
SeatOrder begin_start(int seat, Oid database);
SeatState state_of(const SeatOrder &order);

/* The scheduler: how it is. Safe in a signal handler. */
void say(const SeatOrder &order, SeatState state);

/* How often in a row the schedulers of that database have crashed soon after their start. Forgotten after some quiet minutes. */
int crashes_of(Oid database);

/* The postmaster, when shared memory has been made. */
void watch_for_crashes();

} // namespace pgq
