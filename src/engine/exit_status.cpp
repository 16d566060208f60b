#include "engine/exit_status.h"

namespace pgq {

int
exit_status_count()
{
	return max_databases + 1;
}

Size
exit_statuses_size()
{
	return mul_size(exit_status_count(), sizeof(ExitStatus));
}

void
place_exit_statuses(void *memory)
{
	shared->exit_statuses = static_cast<ExitStatus *>(memory);
	for (int i = 0; i < exit_status_count(); i++)
	{
		shared->exit_statuses[i] = {};
		pg_atomic_init_u64(&shared->exit_statuses[i].said, 0);
	}
}

static uint64
word_of(uint32 start, ExitState state)
{
	return (static_cast<uint64>(start) << 8) | static_cast<uint64>(state);
}

StartOrder
begin_start(int place, Oid database)
{
	ExitStatus &taken = shared->exit_statuses[place];
	StartOrder order = {
		.place = place,
		.start = pg_atomic_add_fetch_u32(&shared->starts, 1),
		.tablespace = InvalidOid,
	};
	taken.database = database;
	taken.began = monotonic_now();
	pg_atomic_write_u64(&taken.said, word_of(order.start, ExitState::kStarted));
	return order;
}

ExitState
state_of(const StartOrder &order)
{
	return static_cast<ExitState>(pg_atomic_read_u64(&shared->exit_statuses[order.place].said) &
								  0xFF);
}

void
say(const StartOrder &order, ExitState state)
{
	ExitStatus &place = shared->exit_statuses[order.place];
	uint64 before = pg_atomic_read_u64(&place.said);
	while ((before >> 8) == order.start &&
		   !pg_atomic_compare_exchange_u64(&place.said, &before, word_of(order.start, state)))
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
 * ended. Shared memory may be damaged, so only the exit statuses are read.
 */
static void
note_crashes(int, Datum)
{
	static constexpr int64 kSoon = 3 * USECS_PER_SEC;
	int64 now = monotonic_now();
	for (int i = 0; i < exit_status_count(); i++)
	{
		ExitStatus &place = shared->exit_statuses[i];
		auto state = static_cast<ExitState>(pg_atomic_read_u64(&place.said) & 0xFF);
		bool crashed = state == ExitState::kRunning || state == ExitState::kServing;
		bool soon = now - place.began < kSoon;
		if (crashed && soon)
			note_crash(place.database, now);
		else if ((crashed || state == ExitState::kQuit) && !soon)
			if (CrashNote *note = note_of(place.database, now))
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
