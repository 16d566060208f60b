#include "engine/seat.h"

namespace pgq {

int
seat_count()
{
	return max_databases + 1;
}

Size
seats_size()
{
	return mul_size(seat_count(), sizeof(Seat));
}

void
place_seats(void *memory)
{
	shared->seats = static_cast<Seat *>(memory);
	for (int i = 0; i < seat_count(); i++)
	{
		shared->seats[i] = {};
		pg_atomic_init_u64(&shared->seats[i].said, 0);
	}
}

static uint64
word_of_seat(uint32 start, SeatState state)
{
	return (static_cast<uint64>(start) << 8) | static_cast<uint64>(state);
}

SeatOrder
begin_start(int seat, Oid database)
{
	Seat &taken = shared->seats[seat];
	SeatOrder order = {
		.seat = seat,
		.start = pg_atomic_add_fetch_u32(&shared->starts, 1),
		.tablespace = InvalidOid,
	};
	taken.database = database;
	taken.began = monotonic_now();
	pg_atomic_write_u64(&taken.said, word_of_seat(order.start, SeatState::kStarted));
	return order;
}

SeatState
state_of(const SeatOrder &order)
{
	return static_cast<SeatState>(pg_atomic_read_u64(&shared->seats[order.seat].said) & 0xFF);
}

void
say(const SeatOrder &order, SeatState state)
{
	Seat &seat = shared->seats[order.seat];
	uint64 before = pg_atomic_read_u64(&seat.said);
	while ((before >> 8) == order.start &&
		   !pg_atomic_compare_exchange_u64(&seat.said, &before, word_of_seat(order.start, state)))
		;
}

/* ---- crashes ---- */

namespace {
/*
 * Crashes of the schedulers of one database. Kept in the memory of the postmaster; a child process
 * has a copy as of its fork.
 */
struct CrashNote
{
	Oid database;
	int in_a_row;
	int64 last; /* monotonic */
};

} // namespace

static constinit CrashNote crash_notes[16] = {};

static constexpr int64 kForgottenAfter = 5 * USECS_PER_MINUTE;

static CrashNote *
note_of(Oid database, int64 now)
{
	for (CrashNote &note : crash_notes)
		if (note.database == database && note.in_a_row > 0 && now - note.last < kForgottenAfter)
			return &note;
	return nullptr;
}

static void
note_crash(Oid database, int64 now)
{
	CrashNote *note = note_of(database, now);
	if (note == nullptr)
	{
		note = &crash_notes[0];
		for (CrashNote &other : crash_notes)
			if (other.last < note->last)
				note = &other;
		*note = {.database = database, .in_a_row = 0, .last = now};
	}
	note->in_a_row++;
	note->last = now;
}

int
crashes_of(Oid database)
{
	const CrashNote *note = note_of(database, monotonic_now());
	return note == nullptr ? 0 : note->in_a_row;
}

/*
 * Note which schedulers have crashed. The postmaster calls this when all other processes have
 * ended. Shared memory may be damaged, so only the seats are read.
 */
static void
note_crashes(int, Datum)
{
	static constexpr int64 kSoon = 3 * USECS_PER_SEC;
	int64 now = monotonic_now();
	for (int i = 0; i < seat_count(); i++)
	{
		Seat &seat = shared->seats[i];
		auto state = static_cast<SeatState>(pg_atomic_read_u64(&seat.said) & 0xFF);
		bool crashed = state == SeatState::kRunning || state == SeatState::kServing;
		bool soon = now - seat.began < kSoon;
		if (crashed && soon)
			note_crash(seat.database, now);
		else if ((crashed || state == SeatState::kQuit) && !soon)
			if (CrashNote *note = note_of(seat.database, now))
				note->in_a_row = 0;
	}
}

void
watch_for_crashes()
{
	if (!IsUnderPostmaster)
		on_shmem_exit(note_crashes, (Datum) 0);
}

} // namespace pgq
