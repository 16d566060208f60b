/*
 * Model of waiting claims (engine/waiter.cpp, claim/wait.cpp): lines, latches, watchers. The schedule is reduced to
 * numbers: jobs in the window, jobs beyond its cursor, and timers that fire when the clock ticks. There is no
 * scheduler that could help. Shown: at the end, no claim sleeps while there is a job for it.
 *
 * LIMIT: at most that many jobs of a queue are in work at a time, and each of them ends some time. Only the first
 * free slot wakes a waiter (QueueHold::note_room). That waiter passes the wake-up on if more slots are free.
 */
#ifndef QUEUES
#define QUEUES 1
#endif
#ifndef JOBS
#define JOBS 1
#endif
#ifndef WAITERS
#define WAITERS 2
#endif
#define WINDOW_SIZE 1

byte ready[QUEUES], beyond[QUEUES], timed[QUEUES];
bool window_refill[QUEUES];
bool ticked;  /* timers are due */
byte cancels; /* number of calls that were cancelled, at most CANCELS */

#ifdef LIMIT
byte running[QUEUES];
#define room(q) (LIMIT - running[q])
#else
#define room(q) 1
#endif

#define poppable(q) (ready[q] > 0)
#define exhausted(q) (ready[q] == 0 && beyond[q] == 0 && !window_refill[q])

inline insert_ready(q)
{
	if
	:: ready[q] < WINDOW_SIZE -> ready[q]++
	:: else -> beyond[q]++
	fi
}

inline fire(q)
{
	do
	:: ticked && timed[q] > 0 -> timed[q]--; insert_ready(q)
	:: else -> break
	od
}

/* ---- engine/waiter.cpp ---- */

#define IDLE 0
#define LISTED 1
#define WOKEN 2
#define of(w, q) ((w) * QUEUES + (q))
#define NOBODY 255

chan line[QUEUES] = [WAITERS] of { byte };
byte state[WAITERS * QUEUES];
byte watcher[QUEUES] = NOBODY;
bool latch[WAITERS];
hidden byte who, rest, was_woken, watched;

/* wakeups: the processes to wake, one bit each. */
inline wake_waiters(q, n, wakeups)
{
	rest = n;
	do
	:: rest > 0 && len(line[q]) > 0 ->
		line[q]?who;
		state[of(who, q)] = WOKEN;
		wakeups = wakeups | (1 << who);
		rest--
	:: rest == 0 || len(line[q]) == 0 -> break
	od
}

/* SetLatch, after the lock is released */
inline deliver(wakeups)
{
	do
	:: d_step { wakeups & 1 -> latch[0] = true; wakeups = wakeups & ~1 }
	:: d_step { wakeups & 2 -> latch[1] = true; wakeups = wakeups & ~2 }
#if WAITERS > 2
	:: d_step { wakeups & 4 -> latch[2] = true; wakeups = wakeups & ~4 }
#endif
	:: wakeups == 0 -> break
	od
}

inline pass_on(q, wakeups)
{
	if
#ifndef FAULT_CLAIM_LEAVES_JOBS
	:: !exhausted(q) -> wake_waiters(q, 1, wakeups)
#endif
	:: else
	fi
}

inline list(w, q) { state[of(w, q)] = LISTED; line[q]!w }

inline join_lines(w)
{
	d_step { list(w, 0) };
#if QUEUES > 1
	d_step { list(w, 1) }
#endif
}

inline rejoin_line(w, q)
{
	d_step {
		if
		:: state[of(w, q)] == WOKEN -> list(w, q); woken = true
		:: else
		fi;
		if
		:: watcher[q] == NOBODY -> watcher[q] = w
		:: else
		fi;
		if
		:: watcher[q] == w && timed[q] > 0 -> watch = true
		:: else
		fi
	}
}

inline rejoin_lines(w)
{
	d_step { woken = false; watch = false };
	rejoin_line(w, 0);
#if QUEUES > 1
	rejoin_line(w, 1)
#endif
}

inline leave_line(w, q, served)
{
	d_step {
		was_woken = state[of(w, q)] == WOKEN;
		if
		:: state[of(w, q)] == LISTED -> line[q]??eval(w)
		:: else
		fi;
		state[of(w, q)] = IDLE;
		watched = watcher[q] == w;
		if
		:: watched -> watcher[q] = NOBODY
		:: else
		fi;
		if
#ifdef FAULT_LEAVE_WITHOUT_PASSING
		:: !watched
#elif defined(FAULT_WATCH_NOT_HANDED_OVER)
		:: watched
#endif
		:: watched || (was_woken && served != q) -> wake_waiters(q, 1, wakeups)
		/* A process that has joined the line again since it was woken may also have to pass the wake-up on. */
#ifdef FAULT_REJOINED_OWES_NOTHING
		:: else ->
			if
			:: was_woken -> pass_on(q, wakeups)
			:: else
			fi
#else
		:: else -> pass_on(q, wakeups)
#endif
		fi
	};
	deliver(wakeups)
}

inline leave_lines(w, served)
{
	leave_line(w, 0, served);
#if QUEUES > 1
	leave_line(w, 1, served)
#endif
}

/*
 * Called under the queue's lock: n hints were filed as ready, or one as not ready. earlier: the next timer is earlier
 * now.
 */
inline note_filed(q, n, earlier, wakeups)
{
	if
	:: n > 0 -> wake_waiters(q, n, wakeups)
	:: else
	fi;
	if
#ifndef FAULT_WATCHER_SLEEPS_ON
	:: earlier && watcher[q] != NOBODY -> wakeups = wakeups | (1 << watcher[q])
#endif
	:: else
	fi
}

/* Called under the queue's lock. room_before: the free slots when the lock was taken. */
inline note_room(q, room_before, wakeups)
{
	if
#ifndef FAULT_ROOM_IS_NO_NEWS
	:: room_before == 0 && !exhausted(q) -> wake_waiters(q, room(q), wakeups)
#endif
	:: else
	fi
}

inline occupy_slot(q)
{
#ifdef LIMIT
	running[q]++
#else
	skip
#endif
}

/* ---- claiming (claim/take.cpp) ---- */

/* Claim one job of this queue, if there is one. */
inline claim_from(q)
{
	do
#ifdef CANCELS
	/* an error before the claim has looked at the queue */
	:: d_step { cancels < CANCELS -> cancels++; cancelled = true }; break
#endif
	:: d_step {
			fire(q);
			if
			:: poppable(q) && room(q) > 0 ->
				ready[q]--;
				got = true;
				occupy_slot(q);
				if
				:: room(q) > 0 -> pass_on(q, wakeups)
				:: else
				fi
			:: poppable(q) && room(q) == 0
			:: !poppable(q) ->
				waits = window_refill[q]; /* PopResult::kWaitForRefill */
				refills = beyond[q] > 0 && !waits;
				window_refill[q] = waits || refills
			fi
		};
		deliver(wakeups);
		if
		:: got -> break
		:: !got && refills ->
			if
			/* publish */
			:: d_step {
					do
					:: beyond[q] > 0 && ready[q] < WINDOW_SIZE -> beyond[q]--; ready[q]++
					:: else -> break
					od;
					window_refill[q] = false;
					refills = false;
					pass_on(q, wakeups)
				};
				deliver(wakeups)
#ifdef CANCELS
			/* abandon_refill: the call is cancelled */
			:: d_step { cancels < CANCELS -> cancels++; cancelled = true; window_refill[q] = false; refills = false }; break
#endif
			fi
		/* wait_for_refill */
		:: waits -> d_step { !window_refill[q] -> waits = false }
		:: !got && !refills && !waits -> break
		fi
	od
}

/* A waiting claim. */
proctype waiter(byte w)
{
	bool got, woken, watch, refills, waits, cancelled;
	byte served = NOBODY, wakeups;
#ifndef FAULT_LOOK_BEFORE_JOINING
	join_lines(w);
#endif
	do
	::
#ifndef FAULT_LOOK_BEFORE_JOINING
		rejoin_lines(w);
#endif
		claim_from(0);
		if
		:: got -> served = 0; break
		:: cancelled -> break
		:: else
		fi;
#if QUEUES > 1
		claim_from(1);
		if
		:: got -> served = 1; break
		:: cancelled -> break
		:: else
		fi;
#endif
#ifdef FAULT_LOOK_BEFORE_JOINING
		if
		:: state[of(w, 0)] == IDLE -> join_lines(w)
		:: else
		fi;
		rejoin_lines(w);
		woken = false;
		latch[w] = false;
#else
		rejoin_lines(w);
#endif
		if
		:: woken
		:: !woken ->
			/* WaitLatch */
end:		if
			:: latch[w]
			:: watch && ticked
#ifdef CANCELS
			/* or the claim's time is over, or its process dies */
			:: d_step { cancels < CANCELS -> cancels++; cancelled = true }
#endif
			fi
		fi;
		d_step { latch[w] = false; woken = false; watch = false };
		if
		:: cancelled -> break
		:: else
		fi
	od;
	atomic { woken = false; watch = false; got = false };
	leave_lines(w, served)
}

/* A claim that does not wait. */
proctype claimer(byte q)
{
	bool got, refills, waits, cancelled;
	byte wakeups;
	claim_from(q)
}

/* Commits n jobs that are due, or one with a delay. */
proctype enqueuer(byte q; byte n; bool delay)
{
	byte wakeups;
	d_step {
		if
		:: delay -> timed[q]++; fire(q); note_filed(q, ticked, timed[q] == 1, wakeups)
		:: else ->
			insert_ready(q);
			if
			:: n > 1 -> insert_ready(q)
			:: else
			fi;
			note_filed(q, n, false, wakeups)
		fi
	};
	deliver(wakeups)
}

proctype clock() { ticked = true }

#ifdef LIMIT
/* Leases end. If their claims are undone, their jobs are given back. */
proctype ender(byte q)
{
	byte wakeups;
end:
	do
	:: d_step { running[q] > 0 -> running[q]--; note_room(q, room(q) - 1, wakeups) };
		deliver(wakeups)
#ifdef CANCELS
	:: d_step {
			running[q] > 0 && cancels < CANCELS ->
			cancels++;
			running[q]--;
			insert_ready(q);
			note_filed(q, 1, false, wakeups);
			note_room(q, room(q) - 1, wakeups)
		};
		deliver(wakeups)
#endif
	od
}
#endif

/* Check at the end: a claim that still waits has no job in any queue. */
proctype monitor()
{
	bool asleep;
	timeout ->
	d_step {
		asleep = state[of(0, 0)] != IDLE || state[of(1, 0)] != IDLE;
#if WAITERS > 2
		asleep = asleep || state[of(2, 0)] != IDLE;
#endif
		assert(!asleep || ready[0] + beyond[0] + timed[0] == 0);
#if QUEUES > 1
		assert(!asleep || ready[1] + beyond[1] + timed[1] == 0)
#endif
	}
}

init
{
	atomic {
#ifdef LIMIT
		/* all slots are in use at the start */
		running[0] = LIMIT;
#endif
		run waiter(0);
		run waiter(1);
#if WAITERS > 2
		run waiter(2);
#endif
#ifdef TIMERS
		run enqueuer(0, 1, true);
		run enqueuer(0, 1, true);
		run clock();
#else
		run enqueuer(0, JOBS, false);
#if QUEUES > 1
		run enqueuer(1, 1, false);
#endif
#endif
#ifdef CLAIMER
		run claimer(0);
#endif
#ifdef LIMIT
		run ender(0);
#if QUEUES > 1
		run ender(1);
#endif
#endif
		run monitor()
	}
}
