/*
 * Reading rows into the window and the timer (load/refill.cpp). There is one process for each, which stands for all
 * processes that may have the refill role. With ABANDON it may give up at any step.
 */

byte clock_mark; /* no row was enqueued at a later time, as far as known at the load */

#define HELD (lease_state[job_of(hint)] != NONE)

/*
 * The entries of an index page are read at once and judged one by one. With PAGES the scan may read again at any
 * time, which stands for reading the next page.
 */
#define read_page(page) \
	at = 0; \
	do \
	:: at < JOBS -> page[at] = row[at]; page[JOBS + at] = next_row[at]; at++ \
	:: else -> break \
	od; \
	at = 0

/* hint: the next entry from `last` on, in the given order; HIGHEST: there is none */
#define next_entry(page, order) \
	hint = HIGHEST; \
	at = 0; \
	do \
	:: at < 2 * JOBS -> \
		if \
		:: page[at] != 0 && order(page[at]) < last -> page[at] = 0 \
		:: page[at] != 0 && (hint == HIGHEST || order(page[at]) < order(hint)) -> hint = page[at] \
		:: else \
		fi; \
		at++ \
	:: else -> break \
	od

/* Take the row if there is room for one more; otherwise it is the first row that is left out. */
#define take_row(rows, size, order) \
	if \
	:: n == size -> end_key = order(hint) \
	:: else -> rows[n] = hint; n++ \
	fi

#define forget(array, size) \
	at = 0; \
	do \
	:: at < size -> array[at] = 0; at++ \
	:: else -> break \
	od

byte window_page[2 * JOBS], window_rows[WINDOW_SIZE];

#define by_key(key) (key)

proctype refill_window()
{
	byte mine, last, n, end_key, merged, scan_due_line, scan_horizon;
restart:
	atomic {
		mine = boot;
		last = 0; n = 0; end_key = 0; merged = 0; scan_due_line = 0; scan_horizon = 0;
		forget(window_page, 2 * JOBS);
		forget(window_rows, WINDOW_SIZE)
	};
	{
end:	do
#ifdef FAULT_SCAN_BEFORE_RAISE
		:: d_step { wants_window_refill && last == 0 -> last = 1; read_page(window_page) }
		:: d_step {
			last != 0 ->
#else
		:: d_step {
			wants_window_refill ->
#endif
			begin_window_refill(NOW);
			last = window_start;
#ifdef FAULT_WALL_CLOCK
			scan_due_line = NOW;
#else
			scan_due_line = due_line;
#endif
#ifdef FAULT_NO_HORIZON
			scan_horizon = due_line;
#else
			scan_horizon = (horizon > due_line -> horizon : due_line);
			scan_horizon = (clock_mark > scan_horizon -> clock_mark : scan_horizon);
#endif
			check()
		   } -> break
		od;
#ifndef FAULT_SCAN_BEFORE_RAISE
		atomic { read_page(window_page) };
#endif
		/* merge_streams() */
		do
		:: d_step { end_key == 0 ->
				next_entry(window_page, by_key);
				if
				:: hint == HIGHEST -> end_key = HIGHEST
				:: else ->
					last = hint + 1;
					if
					:: wanted(hint) && (run_at_of(hint) <= scan_due_line || (!delayed(hint) && run_at_of(hint) <= scan_horizon)) ->
						take_row(window_rows, WINDOW_SIZE, by_key)
					:: else
					fi
				fi }
#ifdef PAGES
		:: d_step { end_key == 0 -> read_page(window_page) }
#endif
#ifdef ABANDON
		:: d_step { end_key == 0 -> abandon_window_refill(); check() }; goto restart
#endif
		:: end_key != 0 -> break
		od;
		/* publish, one row in each hold */
		do
		:: d_step {
				window_refill ->
				if
				:: merged < n ->
					hint = window_rows[merged];
					window_rows[merged] = 0;
					merged++;
					if
					:: HELD -> note_missed(job_of(hint), hint)
#ifdef FAULT_MERGES_WHAT_WAS_DUE
					:: else -> insert_ready()
#else
					/* the row was due when it was read, but the clock may have been set back since */
					:: else -> file(hint)
#endif
					fi
				:: else
				fi;
				if
				:: merged == n -> finish_window_refill(end_key)
				:: else
				fi;
				check()
			}
#ifdef ABANDON
		:: d_step { window_refill -> abandon_window_refill(); check() }; goto restart
#endif
		:: !window_refill -> goto restart
		od
	} unless { boot != mine -> goto restart }
}

#ifdef TIMERS
byte timer_page[2 * JOBS], timer_rows[TIMER_SIZE];

proctype refill_timer()
{
	byte mine, last, n, end_key, merged;
restart:
	atomic {
		mine = boot;
		last = 0; n = 0; end_key = 0; merged = 0;
		forget(timer_page, 2 * JOBS);
		forget(timer_rows, TIMER_SIZE)
	};
	{
end:	do
		:: d_step { wants_timer_refill -> begin_timer_refill(NOW); last = timer_start; check() } -> break
		od;
		atomic { read_page(timer_page) };
		do
		:: d_step { end_key == 0 ->
				next_entry(timer_page, timer_key);
				if
				:: hint == HIGHEST -> end_key = HIGHEST
				:: else ->
					last = timer_key(hint) + 1;
					if
					/* the index contains delayed rows only */
					:: wanted(hint) && delayed(hint) -> take_row(timer_rows, TIMER_SIZE, timer_key)
					:: else
					fi
				fi }
#ifdef PAGES
		:: d_step { end_key == 0 -> read_page(timer_page) }
#endif
#ifdef ABANDON
		:: d_step { end_key == 0 -> abandon_timer_refill(); check() }; goto restart
#endif
		:: end_key != 0 -> break
		od;
		do
		:: d_step {
				timer_refill ->
				if
				:: merged < n ->
					hint = timer_rows[merged];
					timer_rows[merged] = 0;
					merged++;
					if
					:: HELD -> note_missed(job_of(hint), hint)
					:: else -> file(hint)
					fi
				:: else
				fi;
				if
				:: merged == n -> finish_timer_refill(end_key)
				:: else
				fi;
				check()
			}
#ifdef ABANDON
		:: d_step { timer_refill -> abandon_timer_refill(); check() }; goto restart
#endif
		:: !timer_refill -> goto restart
		od
	} unless { boot != mine -> goto restart }
}
#endif

/* The server crashes: shared memory starts empty, and open transactions are undone. */
inline crash_now()
{
	reset();
	job = 0;
	do
	:: job < JOBS ->
		clear_lease(job);
		row_undone(job);
		filed[job] = true;
		job++
	:: else -> break
	od;
	job = 0;
	boot++
}

/* Check at the end, when no process can go on: nothing is left to do. */
proctype monitor()
{
	timeout ->
	d_step {
		at = 0;
		do
		:: at < JOBS -> assert(!live(at) && lease_state[at] == NONE); at++
		:: else -> break
		od
	}
}
