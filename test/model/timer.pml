/*
 * Model of the timer, its cursor and its refill, and the due line. The clock may be set back, which is noticed unless
 * the step is within SLACK. There are retries, and a failover to a machine whose clock is behind.
 */
#ifndef JOBS
#define JOBS 2
#endif
#ifndef DELAY
#define DELAY 1 /* delay of all jobs except the first */
#endif
#ifndef LAST
#define LAST 2 /* the clock goes from 1 to this value, and back BACKS times */
#endif
#define TIMES (LAST + 2)
#define WINDOW_SIZE 1
#ifndef TIMER_SIZE
#define TIMER_SIZE 1
#endif
#define TIMERS
#define NOW now
byte now = 1, latest = 1; /* the clock, and its highest value so far, above which the token mark is */
#include "engine.pml"

byte boot;
bool ended[JOBS], retried[JOBS];
#include "refill.pml"

proctype clock()
{
	byte backs;
end:
	do
	:: d_step { now < LAST -> now++; latest = (now > latest -> now : latest) }
#ifdef BACKS
	:: d_step { now > 1 && backs < BACKS -> now--; backs++ }
#endif
	od
}

/* pgq_enqueue(..., delay) */
proctype enqueuer(byte j; byte delay)
{
	byte key, mine = boot;
	{
		d_step {
			enqueued_at[j] = now;
			key = KEY(0, least(now + delay, LAST), j);
			write_row(j, 10 + j, key)
		};
		row_visible(j);
		d_step { fire(now); file(key); filed[j] = filed[j] || row[j] == key; check() }
	} unless { boot != mine }
}

/* verify_job() in one step; window.pml has it in more steps. */
#define fits_now(key) (writer[job_of(key)] == 0 && row[job_of(key)] == key)

proctype claimer()
{
	byte mine, key;
restart:
	atomic { mine = boot; key = 0 };
	{
end:	do
		:: pop_chunk(key);
			if
			:: key == 0
			:: key != 0 ->
				if
				/* the row was found unchanged: handed out and acked in one step */
				:: d_step { fits_now(key) ->
						assert(!ended[job_of(key)]);
						row[job_of(key)] = 0;
						ended[job_of(key)] = true };
					d_step { end_lease(job_of(key)); key = 0; check() }
				:: d_step { !fits_now(key) ->
						if
						:: writer[job_of(key)] != 0 -> park_lease(job_of(key))
						:: !live(job_of(key)) -> end_lease(job_of(key))
						:: else -> lease_hint[job_of(key)] = row[job_of(key)]; give_back(job_of(key))
						fi;
						key = 0;
						check() }
				:: d_step { fits_now(key) -> give_back(job_of(key)); key = 0; check() }
#ifdef RETRIES
				:: d_step { fits_now(key) && !retried[job_of(key)] ->
						retried[job_of(key)] = true;
						attempted[job_of(key)] = true;
						/* The key differs from the old one, since the hint is now marked as delayed. */
						row[job_of(key)] = KEY(1, least(now + 1, LAST), job_of(key));
						filed[job_of(key)] = false };
					d_step { end_lease(job_of(key)); check() };
					d_step {
						fire(now);
						file(row[job_of(key)]);
						filed[job_of(key)] = true;
						key = 0;
						check()
					}
#endif
				fi
			fi
		od
	} unless { boot != mine -> goto restart }
}

/* A failover: the clock of the new machine is behind. */
proctype failover() { d_step { crash_now(); clock_mark = latest; now = 1 } }

init
{
	atomic {
		reset();
		/* the memory is loaded: the table was empty */
		cursor = HIGHEST;
		timer_cursor = HIGHEST;
		run enqueuer(0, 1);
#if JOBS > 1
		run enqueuer(1, DELAY);
#endif
#if JOBS > 2
		run enqueuer(2, DELAY);
#endif
		run claimer();
		run refill_window();
		run refill_timer();
		run clock();
#ifdef FAILOVER
		run failover();
#endif
		run monitor()
	}
}
