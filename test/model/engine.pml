/*
 * Parts that the models share: job rows, and the schedule and leases of one queue. Names are those of the code. A
 * hold of the queue's lock is a d_step, so everything here runs inside of one. Between two holds any other process
 * may run.
 *
 * A model defines, before it includes this file: JOBS, TIMES (run_at is less), WINDOW_SIZE, TIMER_SIZE and NOW, the
 * clock. FAULT_... leaves out a rule.
 */

/* ---- keys (core/key.h): priority 0 is served first; times begin with 1 ---- */

#define LOWEST 0
#define HIGHEST 255
#define KEY(prio, run_at, job) (1 + ((prio) * TIMES + (run_at)) * JOBS + (job))
#define TIMER_KEY(run_at) (1 + (run_at) * JOBS)
#define job_of(key) (((key) - 1) % JOBS)
#define run_at_of(key) ((((key) - 1) / JOBS) % TIMES)
#define priority_of(key) ((((key) - 1) / JOBS) / TIMES)
#define timer_key(key) (1 + ((key) - 1) % (TIMES * JOBS))
#define least(a, b) ((a) < (b) -> (a) : (b))

/* Scratch variables of one d_step, which are not part of the state. */
hidden byte at, hint, job, other, count, found, taken;

/* ---- the heap: one live version a job, and the one that a running transaction makes of it ---- */

byte row[JOBS];		   /* key of the committed version; 0: none */
byte next_row[JOBS];   /* key that the running writer gives it; 0: none (a delete, or just a lock) */
byte writer[JOBS];	   /* the transaction that has locked or is writing the row; 0: none */
byte enqueued_at[JOBS];
bool attempted[JOBS];  /* the committed version says that an attempt has failed */
bool filed[JOBS];	   /* ghost: the transaction that has written the committed version has run its callback */

#ifdef FAULT_RETRY_NOT_DELAYED
#define delayed(key) (run_at_of(key) > enqueued_at[job_of(key)])
#else
#define delayed(key) (run_at_of(key) > enqueued_at[job_of(key)] || attempted[job_of(key)])
#endif

#define live(j) (row[j] != 0)

/* True for the committed version: an uncommitted insert is left out, an uncommitted delete is ignored. */
#define wanted(key) (row[job_of(key)] == (key))

inline write_row(j, me, key) { writer[j] = me; next_row[j] = key }

/* The transaction becomes visible as ended. Its callback comes later. */
inline row_visible(j)
{
	d_step { row[j] = next_row[j]; next_row[j] = 0; writer[j] = 0; filed[j] = false }
}

inline row_undone(j) { next_row[j] = 0; writer[j] = 0 }

/* ---- Schedule (core/schedule.h) ---- */

byte window[WINDOW_SIZE], window_size;
byte timer[TIMER_SIZE], timer_size; /* by timer_key */
byte cursor, timer_cursor, due_line, horizon;
bool window_refill, timer_refill; /* a refill is under way */
byte window_start, window_lowest, timer_start, timer_lowest;

inline reset()
{
	at = 0;
	do
	:: at < WINDOW_SIZE -> window[at] = 0; at++
	:: else -> break
	od;
	at = 0;
	do
	:: at < TIMER_SIZE -> timer[at] = 0; at++
	:: else -> break
	od;
	window_size = 0; timer_size = 0;
	cursor = LOWEST; timer_cursor = LOWEST; due_line = 0; horizon = 0;
	window_refill = false; window_start = 0; window_lowest = 0;
	timer_refill = false; timer_start = 0; timer_lowest = 0
}

#define due(key) (run_at_of(key) <= due_line || !delayed(key))

/* known_to */
#define known_window (window_refill -> least(window_lowest, window_start) : cursor)
#define known_timer (timer_refill -> least(timer_lowest, timer_start) : timer_cursor)
#define timer_hides_due (timer_refill && known_timer < TIMER_KEY(due_line + 1))
#define poppable (window_size > 0 && window[0] < known_window && !timer_hides_due)
#define ready_beyond_window (window_refill || cursor != HIGHEST)
#define exhausted (window_size == 0 && !ready_beyond_window && !timer_hides_due)
#define wants_window_refill (!window_refill && cursor != HIGHEST && (window_size <= WINDOW_SIZE / 2 || window[0] >= cursor))
#define wants_timer_refill (!timer_refill && timer_cursor != HIGHEST && (timer_size <= TIMER_SIZE / 2 || timer_key(timer[0]) >= timer_cursor))

inline lower_window(key)
{
	if
#ifdef FAULT_EVICT_LOWERS_CURSOR
	:: key < cursor -> cursor = key
#else
	:: window_refill && key < window_lowest -> window_lowest = key
	:: !window_refill && key < cursor -> cursor = key
#endif
	:: else
	fi
}

inline lower_timer(key)
{
	if
#ifdef FAULT_TIMER_WITHOUT_CURSOR
	:: true
#endif
	:: timer_refill && key < timer_lowest -> timer_lowest = key
	:: !timer_refill && key < timer_cursor -> timer_cursor = key
	:: else
	fi
}

/* The due line has passed the timer cursor: the window's scan will find these rows by their key. */
inline hand_over_due()
{
	if
	:: timer_cursor >= TIMER_KEY(due_line + 1)
	:: else -> timer_cursor = TIMER_KEY(due_line + 1); lower_window(LOWEST)
	fi
}

inline pull_back(key, time)
{
	lower_window(key);
	lower_timer(time);
	if
	:: !timer_refill -> hand_over_due()
	:: else
	fi
}

/*
 * Insert the hint in `hint`. A full window keeps the smallest hints; the one that has no room pulls the cursor back
 * to itself.
 */
inline insert_ready()
{
	if
	:: hint >= cursor
	:: else ->
		if
		:: window_size == WINDOW_SIZE && hint > window[WINDOW_SIZE - 1] -> lower_window(hint)
		:: window_size == WINDOW_SIZE && hint == window[WINDOW_SIZE - 1]
		:: else ->
			if
			:: window_size == WINDOW_SIZE ->
				lower_window(window[WINDOW_SIZE - 1]);
				window_size--;
				window[window_size] = 0
			:: else
			fi;
			at = 0;
			do
			:: at < window_size && window[at] < hint -> at++
			:: else -> break
			od;
			if
			:: at < window_size && window[at] == hint
			:: else ->
				other = window_size;
				do
				:: other > at -> window[other] = window[other - 1]; other--
				:: else -> break
				od;
				window[at] = hint;
				window_size++
			fi
		fi
	fi
}

/* Order by time; two hints of a job with the same time are ordered by key. */
#define by_run_at(a, b) (timer_key(a) < timer_key(b) || (timer_key(a) == timer_key(b) && (a) < (b)))

inline insert_timed()
{
	if
	:: timer_key(hint) >= timer_cursor
	:: else ->
		if
		:: timer_size == TIMER_SIZE && by_run_at(timer[TIMER_SIZE - 1], hint) -> lower_timer(timer_key(hint))
		:: timer_size == TIMER_SIZE && timer[TIMER_SIZE - 1] == hint
		:: else ->
			if
			:: timer_size == TIMER_SIZE ->
				lower_timer(timer_key(timer[TIMER_SIZE - 1]));
				timer_size--;
				timer[timer_size] = 0
			:: else
			fi;
			at = 0;
			do
			:: at < timer_size && by_run_at(timer[at], hint) -> at++
			:: else -> break
			od;
			if
			:: at < timer_size && timer[at] == hint
			:: else ->
				other = timer_size;
				do
				:: other > at -> timer[other] = timer[other - 1]; other--
				:: else -> break
				od;
				timer[at] = hint;
				timer_size++
			fi
		fi
	fi
}

inline raise_horizon(time)
{
	if
	:: time > horizon -> horizon = time
	:: else
	fi
}

/* Each step back of the clock is noticed; with SLACK none is. */
inline notice_step_back(now)
{
	if
#if defined(BACKS) && !defined(SLACK) && !defined(FAULT_NEVER_REWINDS)
	:: now < due_line ->
		raise_horizon(due_line);
		due_line = now;
		at = 0;
		do
		:: at < WINDOW_SIZE -> window[at] = 0; at++
		:: else -> break
		od;
		at = 0;
		do
		:: at < TIMER_SIZE -> timer[at] = 0; at++
		:: else -> break
		od;
		window_size = 0; timer_size = 0;
#ifndef FAULT_REWIND_LEAVES_CURSOR
		lower_window(LOWEST);
#endif
#ifndef FAULT_REWIND_LEAVES_TIMER_CURSOR
		lower_timer(TIMER_KEY(due_line + 1))
#endif
#endif
	:: else
	fi
}

inline fire(now)
{
	notice_step_back(now);
	if
#ifdef FAULT_WALL_CLOCK
	:: true -> due_line = now
#else
	:: now > due_line -> due_line = now
#endif
	:: else
	fi;
	do
	:: timer_size > 0 && run_at_of(timer[0]) <= due_line ->
		hint = timer[0];
		timer_size--;
		at = 0;
		do
		:: at < timer_size -> timer[at] = timer[at + 1]; at++
		:: else -> break
		od;
		timer[timer_size] = 0;
		insert_ready()
	:: else -> break
	od;
	if
	:: !timer_refill -> hand_over_due()
	:: else
	fi
}

inline file(key)
{
	hint = key;
	if
	:: !delayed(hint) -> raise_horizon(run_at_of(hint))
	:: else
	fi;
	if
	:: due(hint) -> insert_ready()
	:: else -> insert_timed()
	fi
}

inline pop()
{
	hint = window[0];
	window_size--;
	at = 0;
	do
	:: at < window_size -> window[at] = window[at + 1]; at++
	:: else -> break
	od;
	window[window_size] = 0
}

inline begin_window_refill(now)
{
	fire(now);
	window_refill = true;
	window_start = cursor;
	window_lowest = HIGHEST;
#ifndef FAULT_NO_RAISE
	cursor = HIGHEST
#endif
}

inline finish_window_refill(end)
{
	cursor = least(end, window_lowest);
	window_refill = false; window_start = 0; window_lowest = 0
}

inline abandon_window_refill()
{
#ifdef FAULT_ABANDON_LEAVES_CURSOR
	finish_window_refill(cursor)
#else
	finish_window_refill(window_start)
#endif
}

inline begin_timer_refill(now)
{
	fire(now);
	timer_refill = true;
	timer_start = timer_cursor;
	timer_lowest = HIGHEST;
#ifndef FAULT_TIMER_NO_RAISE
	timer_cursor = HIGHEST
#endif
}

inline finish_timer_refill(end)
{
	timer_cursor = least(end, timer_lowest);
	timer_refill = false; timer_start = 0; timer_lowest = 0;
	hand_over_due()
}

inline abandon_timer_refill()
{
#ifdef FAULT_TIMER_ABANDON_LEAVES_CURSOR
	finish_timer_refill(timer_cursor)
#else
	finish_timer_refill(timer_start)
#endif
}

/* ---- leases (engine/lease.cpp) ---- */

#define NONE 0
#define CLAIMING 1
#define CLAIMED 2
#define PARKED 3
#define LOST 4
#define REAPING 5

byte lease_state[JOBS];
byte lease_hint[JOBS];
byte missed[JOBS], missed_count[JOBS];

/* Take the lease for the popped hint. */
inline take_lease(j)
{
	taken = lease_state[j] == NONE;
	if
	:: taken -> lease_state[j] = CLAIMING; lease_hint[j] = hint
	:: else
	fi
}

inline note_missed(j, key)
{
	if
	:: key == lease_hint[j] || (missed_count[j] > 0 && key == missed[j])
	:: else ->
		if
		:: missed_count[j] == 0 -> missed[j] = key; missed_count[j] = 1
		:: else -> missed_count[j] = 2
		fi
	fi
}

inline clear_lease(j)
{
	lease_state[j] = NONE; lease_hint[j] = 0; missed[j] = 0; missed_count[j] = 0
}

inline end_lease(j)
{
	other = missed[j];
	count = missed_count[j];
	clear_lease(j);
	if
	:: count > 1 -> pull_back(LOWEST, LOWEST)
	:: else
	fi;
	if
#ifndef FAULT_MISSED_DROPPED
	:: count > 0 -> file(other)
#endif
	:: else
	fi
}

inline give_back(j)
{
	job = lease_hint[j];
	end_lease(j);
	file(job)
}

inline park_lease(j)
{
	assert(lease_state[j] == CLAIMING);
#ifdef FAULT_BUSY_DROPPED
	end_lease(j)
#else
	lease_state[j] = PARKED
#endif
}

/* ---- what must hold after every hold ---- */

/*
 * Check the invariant of schedule.h. A hint at or below its row's key is as good as a hint for the row itself: a
 * claim that pops it files the row, and an eviction of the hint pulls the cursor back to a place before the row.
 */
inline check()
{
	job = 0;
	do
	:: job < JOBS ->
		if
		:: live(job) && filed[job] && lease_state[job] == NONE && timer_key(row[job]) < known_timer ->
			found = due(row[job]) && row[job] >= known_window;
			at = 0;
			do
			:: at < WINDOW_SIZE ->
				found = found || (due(row[job]) && window[at] != 0 && job_of(window[at]) == job && window[at] <= row[job]);
				at++
			:: else -> break
			od;
			at = 0;
			do
			:: at < TIMER_SIZE ->
				found = found || (!due(row[job]) && timer[at] != 0 && job_of(timer[at]) == job && timer_key(timer[at]) <= timer_key(row[job]));
				at++
			:: else -> break
			od;
			assert(found)
		:: else
		fi;
		job++
	:: else -> break
	od;
	job = 0
}

/* Check (protocol: pop-is-exact): the popped hint is the smallest of all ready rows that were filed. */
inline check_order()
{
	job = 0;
	do
	:: job < JOBS ->
		assert(!(live(job) && filed[job] && lease_state[job] == NONE && due(row[job]) && row[job] < window[0]));
		job++
	:: else -> break
	od;
	job = 0
}

/* Check that the popped job is due by the present clock, or was due when it was enqueued. */
inline check_time()
{
#ifdef SLACK
	skip
#else
	assert(run_at_of(hint) <= NOW || row[job_of(hint)] != hint ||
		(run_at_of(hint) <= enqueued_at[job_of(hint)] && !attempted[job_of(hint)]))
#endif
}

/* ---- the claimer's part (claim/take.cpp) ---- */

#define LIVE 1
#define BUSY 2
#define DEAD 3

#ifndef may_pop
#define may_pop true
#endif

/* Pop one hint and take its lease. key: the hint, or 0 if its job has a lease already. */
inline pop_chunk(key)
{
	d_step {
		may_pop && (poppable || NOW != due_line) ->
		fire(NOW);
		if
		:: poppable ->
			check_order();
			pop();
			key = hint;
			check_time();
			take_lease(job_of(key));
			if
			:: taken
			:: else -> note_missed(job_of(key), key); key = 0
			fi
		:: else -> key = 0
		fi;
		check()
	}
}

/* verify_job: seen is the row's key */
inline verify_job_now(key, verdict, seen)
{
	if
#if defined(FAULT_NOT_VISIBLE_IS_GONE)
	:: writer[job_of(key)] != 0 -> verdict = DEAD
#elif defined(FAULT_VISIBLE_IS_LIVE)
	:: writer[job_of(key)] != 0 -> verdict = (live(job_of(key)) -> LIVE : DEAD)
#else
	:: writer[job_of(key)] != 0 -> verdict = BUSY
#endif
	:: else ->
		if
		:: live(job_of(key)) -> verdict = LIVE
		:: else -> verdict = DEAD
		fi
	fi;
	seen = row[job_of(key)]
}

inline verify_job(key, verdict, seen) { d_step { verify_job_now(key, verdict, seen) } }

#define fits(key, verdict, seen) (verdict == LIVE && seen == key)

inline settle_unfit(key, verdict, seen)
{
	d_step {
		if
		:: verdict == BUSY -> park_lease(job_of(key))
		:: verdict == DEAD -> end_lease(job_of(key))
		:: else -> lease_hint[job_of(key)] = seen; give_back(job_of(key))
		fi;
		key = 0; verdict = 0; seen = 0;
		check()
	}
}

inline unpark_due(j)
{
	d_step { lease_state[j] == PARKED -> give_back(j); check() }
}
