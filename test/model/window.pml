/*
 * Model of the window: cursor, refill, late callbacks, leases that are given back, parked jobs, rows changed by SQL,
 * shed hints, crash. All jobs are due.
 */
#ifndef JOBS
#define JOBS 2
#endif
#ifndef CLAIMERS
#define CLAIMERS 2
#endif
#define PRIORITIES 3
#define TIMES 3
#ifndef WINDOW_SIZE
#define WINDOW_SIZE 1
#endif
#define TIMER_SIZE 1
#define PAGES
#define ABANDON
#define SOON 1 /* the run_at with which jobs are enqueued */
#define NOW 2  /* the run_at of retries */
#include "engine.pml"

byte boot; /* number of crashes */
#include "refill.pml"

bool ended[JOBS];	/* acked: the row was deleted, visibly */
bool retried[JOBS]; /* one attempt has failed */

proctype enqueuer(byte j)
{
	byte mine = boot;
	{
		d_step { write_row(j, 10 + j, KEY(1, SOON, j)) };
		row_visible(j);
		/* file_hints */
		if
		:: d_step { fire(NOW); file(KEY(1, SOON, j)); filed[j] = filed[j] || row[j] == KEY(1, SOON, j); check() }
#ifdef SHED
		:: d_step { pull_back(KEY(1, SOON, j), timer_key(KEY(1, SOON, j))); fire(NOW); filed[j] = filed[j] || row[j] == KEY(1, SOON, j); check() }
#endif
		fi
	} unless { boot != mine }
}

/* UPDATE by a user's SQL; the trigger files the row */
proctype changer(byte j)
{
	byte key, mine = boot;
	{
		if
		:: d_step { live(j) && writer[j] == 0 -> key = KEY(0, run_at_of(row[j]), j); write_row(j, 20, key) }
		:: d_step { live(j) && writer[j] == 0 -> key = KEY(2, run_at_of(row[j]), j); write_row(j, 20, key) }
		:: true
		fi;
		if
		:: key == 0
		:: key != 0 -> d_step { row_undone(j) }
		:: key != 0 ->
			row_visible(j);
			d_step { fire(NOW); file(key); filed[j] = filed[j] || row[j] == key; check() }
		fi
	} unless { boot != mine }
}

proctype claimer(byte me)
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
				/* the claim fails: undo_lease, CLAIMING */
				:: fits(key, verdict, seen) ->
					d_step { give_back(job_of(key)); key = 0; verdict = 0; seen = 0; check() }
				:: fits(key, verdict, seen) ->
					/* hand_out */
					d_step {
						assert(lease_state[job_of(key)] == CLAIMING && !ended[job_of(key)]);
						lease_state[job_of(key)] = CLAIMED;
						verdict = 0;
						seen = 0
					};
					if
					/* ack: delete_job() waits for a transaction that has locked the row */
					:: d_step { writer[job_of(key)] == 0 -> write_row(job_of(key), me, 0) };
						d_step { row[job_of(key)] = 0; writer[job_of(key)] = 0; ended[job_of(key)] = true };
						d_step { end_lease(job_of(key)); key = 0; check() }
#ifdef RETRIES
					/* fail */
					:: d_step { writer[job_of(key)] == 0 && !retried[job_of(key)] ->
							retried[job_of(key)] = true;
							seen = KEY(priority_of(row[job_of(key)]), NOW, job_of(key));
							write_row(job_of(key), me, seen) };
						row_visible(job_of(key));
#ifdef FAULT_APPEAR_BEFORE_END
						/* is leased, skip */
						d_step { filed[job_of(key)] = true; end_lease(job_of(key)); key = 0; seen = 0; check() }
#else
						d_step { end_lease(job_of(key)); check() };
						d_step {
							fire(NOW);
							file(seen);
							filed[job_of(key)] = filed[job_of(key)] || row[job_of(key)] == seen;
							key = 0; seen = 0;
							check()
						}
#endif
#endif
					/* the claim is rolled back, and the attempt is not counted */
					:: d_step { give_back(job_of(key)); key = 0; check() }
					fi
				fi
			fi
		:: unpark_due(0)
#if JOBS > 1
		:: unpark_due(1)
#endif
#if JOBS > 2
		:: unpark_due(2)
#endif
		od
	} unless { boot != mine -> goto restart }
}

proctype crash() { d_step { crash_now() } }

init
{
	atomic {
		reset();
		at = 0;
		do
		:: at < JOBS -> enqueued_at[at] = SOON; run enqueuer(at); at++
		:: else -> break
		od;
		at = 0;
		run claimer(1);
#if CLAIMERS > 1
		run claimer(2);
#endif
		run refill_window();
#ifdef CHANGES
		run changer(JOBS - 1);
#endif
#ifdef CRASH
		run crash();
#endif
		run monitor()
	}
}
