/*
 * Model of two-phase commit. A transaction acks job 0 and enqueues job 1. (With CLAIM, it has claimed job 0 and done
 * the work, but not acked the job.) It is prepared, and ends without notice; there are watches, and there may be a
 * crash in between.
 */
#define JOBS 2
#define TIMES 3
#define WINDOW_SIZE 1
#define TIMER_SIZE 1
#define NOW 2
#include "engine.pml"

byte boot;
#include "refill.pml"

/* The prepared transaction as the server sees it. */
#define RUNNING 0
#define PREPARED 1
#define LOGGED 2 /* committed in pg_xact, but still in the ProcArray: it waits for its standby */
#define OVER 3
byte phase;
bool committed; /* what pg_xact says from LOGGED on */
#define XID 9
#define is_in_progress (phase < OVER)
#define did_commit (phase >= LOGGED && committed)

/* Watch */
#define FREE 0
#define ACTIVE 1
#define RESOLVING 2
byte watch;

/* The lease of job 0: lease->prepared, and its pins */
bool prepared_claimed, prepared_ended;
byte pins;
bool ended[JOBS];

/* The transaction's changes in the heap: job 0 is deleted, or locked at PRE_PREPARE; job 1 is inserted. */
inline write_first_row()
{
#if !defined(CLAIM)
	write_row(0, XID, 0)
#elif !defined(FAULT_PREPARED_CLAIM_UNLOCKED)
	write_row(0, XID, row[0])
#else
	skip
#endif
}

proctype session()
{
	byte mine = boot;
	{
		d_step { write_first_row() };
		d_step { write_row(1, XID, KEY(0, 1, 1)) };
		phase = PREPARED;
		/* hand_over_to_watch(); COMMIT PREPARED has to wait until this is done */
#ifdef CLAIM
		prepared_claimed = true;
#else
		d_step { prepared_ended = true; prepared_claimed = pins == 2 };
#endif
		watch = ACTIVE
	} unless { boot != mine }
}

inline visible()
{
	phase = OVER;
#ifndef CLAIM
	ended[0] = true;
	row[0] = 0;
#endif
	next_row[0] = 0; writer[0] = 0;
	row[1] = next_row[1]; next_row[1] = 0; writer[1] = 0; filed[1] = false
}

/* COMMIT PREPARED or ROLLBACK PREPARED, from any session */
proctype finisher()
{
	byte mine;
restart:
	atomic { mine = boot };
	{
end:	do
		:: d_step { phase == PREPARED && (watch == ACTIVE || boot > 0) -> phase = LOGGED; committed = true };
			d_step { visible() }
		:: d_step { phase == PREPARED && (watch == ACTIVE || boot > 0) -> phase = OVER; row_undone(0); row_undone(1) }
		od
	} unless { boot != mine -> goto restart }
}

inline unprepare_lease() { prepared_ended = false; prepared_claimed = false }

/* resolve_prepared */
proctype resolver()
{
	byte mine;
	bool commit;
restart:
	atomic { mine = boot; commit = false };
	{
end:	do
#ifdef FAULT_DID_COMMIT_FIRST
		:: d_step { watch == ACTIVE && (did_commit || !is_in_progress) -> commit = did_commit };
#else
		:: d_step { watch == ACTIVE && !is_in_progress -> commit = did_commit };
#endif
			if
			:: d_step { watch == ACTIVE -> watch = RESOLVING };
				/* settle_prepared_queue */
				d_step {
					if
					:: prepared_ended && commit -> end_lease(0); unprepare_lease(); pins = 0
					:: prepared_ended && !commit && prepared_claimed -> unprepare_lease(); pins = 0; lease_state[0] = LOST
					:: prepared_ended && !commit && !prepared_claimed -> unprepare_lease(); pins--
					:: !prepared_ended && prepared_claimed && commit -> unprepare_lease(); pins--
					:: !prepared_ended && prepared_claimed && !commit -> unprepare_lease(); pins = 0; lease_state[0] = LOST
					:: else
					fi;
					if
#ifndef FAULT_WATCH_FORGETS_HINTS
					:: commit -> pull_back(LOWEST, LOWEST); fire(NOW)
#endif
					:: else
					fi;
					filed[1] = true;
					check()
				};
				/* free_watch */
				d_step { watch = FREE; commit = false }
			:: watch != ACTIVE -> commit = false
			fi
		od
	} unless { boot != mine -> goto restart }
}

proctype claimer()
{
	byte mine, key, verdict, seen;
restart:
	atomic { mine = boot; key = 0; verdict = 0; seen = 0 };
	{
end:	do
		:: pop_chunk(key);
			if
			:: key == 0
			:: key != 0 ->
				verify_job(key, verdict, seen);
				if
				:: !fits(key, verdict, seen) -> settle_unfit(key, verdict, seen)
				:: fits(key, verdict, seen) ->
					/*
					 * hand_out: never while a transaction that has ended the job, or done its work, may still commit
					 */
					d_step {
						assert(writer[job_of(key)] == 0 && !ended[job_of(key)]);
						assert(job_of(key) != 0 || phase == RUNNING || phase == OVER);
						lease_state[job_of(key)] = CLAIMED;
						verdict = 0; seen = 0
					};
					/* ack */
					d_step { row[job_of(key)] = 0; ended[job_of(key)] = true };
					d_step { end_lease(job_of(key)); key = 0; check() }
				fi
			fi
		:: d_step { lease_state[0] == PARKED -> give_back(0); check() }
		:: d_step { lease_state[1] == PARKED -> give_back(1); check() }
		/* lost or expired; in this model it is handed out again uncounted */
		:: d_step { lease_state[0] == LOST -> give_back(0); check() }
		:: d_step { lease_state[0] == CLAIMED && pins == 0 && !ended[0] -> lease_state[0] = LOST }
		od
	} unless { boot != mine -> goto restart }
}

/*
 * Crash and recovery. Then the first process lists the prepared transactions, and attaches the database with the
 * queue, whose rows are then to be loaded.
 */
proctype crash()
{
	bool listed;
	d_step {
		if
		:: phase == LOGGED -> visible()
		:: phase == RUNNING -> phase = OVER
		:: else
		fi;
		hint = next_row[1];
		crash_now();
		if
		:: phase == PREPARED -> write_first_row(); write_row(1, XID, hint)
		:: else
		fi;
		watch = FREE; unprepare_lease(); pins = 0;
		/* while there is no slot, no process can do anything */
		cursor = HIGHEST; timer_cursor = HIGHEST; due_line = NOW
	};
#ifdef FAULT_LIST_AFTER_ATTACH
	d_step { cursor = LOWEST; timer_cursor = LOWEST };
	listed = is_in_progress;
	d_step { watch = (listed -> ACTIVE : FREE); filed[1] = !listed; check() }
#else
	listed = is_in_progress;
	d_step { cursor = LOWEST; timer_cursor = LOWEST; watch = (listed -> ACTIVE : FREE); filed[1] = !listed; check() }
#endif
}

init
{
	atomic {
		reset();
		/* job 0 is leased, by a claim that was committed or that belongs to the transaction */
		row[0] = KEY(0, 1, 0); filed[0] = true;
		enqueued_at[0] = 1; enqueued_at[1] = 1;
		lease_state[0] = CLAIMED; lease_hint[0] = row[0];
		if
		:: pins = 1
#ifndef CLAIM
		:: pins = 2
#endif
		fi;
		cursor = HIGHEST; timer_cursor = HIGHEST;
		run session();
		run finisher();
		run resolver();
		run resolver();
		run claimer();
		run refill_window();
#ifdef CRASH
		run crash();
#endif
		run monitor()
	}
}
