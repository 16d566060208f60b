/*
 * Model of segments: rows are moved from one segment to another, and segments are truncated. At the same time there
 * are a claimer, a straggler that writes to any segment, an ack from before the restart, a purge, a row that a user
 * moves by SQL, a claim that answers "empty", and a crash. All jobs are due, and a job's key never changes.
 */
#ifndef JOBS
#define JOBS 1
#endif
#ifndef SEGMENTS
#define SEGMENTS 2
#endif
#ifndef MOVES
#define MOVES 2 /* number of transactions that move a row, including those that are undone */
#endif
#ifndef TRUNCATIONS
#define TRUNCATIONS 1
#endif
/*
 * Refills and pruning are only included where they matter: one job fits into the window, and no other process makes a
 * claim look twice.
 */
#if JOBS > 1 || defined(CRASH)
#define REFILL
#endif
#ifdef ONLY_BY_HAND
#define BY_HAND
#endif
#ifdef BY_HAND
#define PRUNE
#endif
#define TIMES 2
#define WINDOW_SIZE 1
#define TIMER_SIZE 1
#define NOW 1
#define key_of(j) KEY(0, NOW, j)

byte holds; /* queue->holds */
#define may_pop (holds == 0)
#include "engine.pml"

byte boot;
#include "refill.pml"

/* The transactions. These numbers also say to which transaction a lease or a row belongs. */
#define CLAIMER 1
#define LATE 2
#define MOVER 3
#define USER 4
#define PURGER 5
#define STRAGGLER 6

/* ---- row versions: at most one a segment and job ---- */

#define ABSENT 0   /* never there, dead, or truncated */
#define INSERTED 1 /* inserted by a running transaction */
#define STANDING 2
#define DELETED 3  /* deleted by a running transaction */
#define REPLACED 4 /* plus the number of the move: a dead version which shows that the row moved on */
byte version[SEGMENTS * JOBS];
#define version_of(s, j) version[(s) * JOBS + (j)]

byte taken_by[JOBS]; /* the transaction that has the lease; is_moving() for that of the mover */

/* ghosts */
byte author[JOBS];	/* the transaction that has written the standing version */
bool ran[JOBS];		/* ... and its callback has run */
bool to_file[JOBS]; /* the mover has written this version or an earlier one, and is about to file it */
bool ended[JOBS];	/* acked, purged, or not inserted yet */
bool in_hand[JOBS]; /* a worker has it */
bool disturbed;		/* another transaction than the mover has taken job 0 */
#define nobody_has_it (lease_state[0] == NONE || taken_by[0] == MOVER)
#ifdef ASK
#define disturb() disturbed = true
#else
#define disturb() skip
#endif

/* ---- moves, and what snapshots keep from being pruned ---- */

byte moves;		   /* number of moves so far */
byte running;	   /* bit n: move n is in the ProcArray */
byte locked;	   /* bit n: move n holds its locks, so its callbacks may not have run yet */
byte mover_number; /* queue->mover: the last move under a lease, + 1 */
bool looked_again; /* the asker has waited for one mover, or is going to */
#define at_work(mover) ((mover) != 0 && (locked & flag((mover) - 1)))
#define flag(n) (1 << (n))
#define NEVER 255
/*
 * by transaction: the first move that the snapshot of its running statement does not see; versions replaced by it or
 * a later one are kept
 */
byte oldest_move[3];
#define oldest_running ((running & 1) -> 0 : ((running & 2) -> 1 : ((running & 4) -> 2 : moves)))
#ifdef PRUNE
#define take_snapshot(me) oldest_move[me] = oldest_running
#define end_snapshot(me) oldest_move[me] = NEVER
#else
#define take_snapshot(me) skip
#define end_snapshot(me) skip
#endif

/* ---- locks on segments ---- */

#define READ 0	/* AccessShareLock */
#define WRITE 1 /* RowExclusiveLock */
byte holders[2 * SEGMENTS];
#define holders_of(s, mode) holders[(mode) * SEGMENTS + (s)]
byte shut = SEGMENTS; /* the segment that is being truncated, under ShareLock */
bool exclusive;		  /* AccessExclusiveLock, too */
#define may_lock(s, mode) (shut != (s) || (mode == READ && !exclusive))

/* `locks`: the segments that this process has locked, as bits. */
inline lock(s, mode)
{
	if
	:: locks & flag(s)
	:: d_step { !(locks & flag(s)) && may_lock(s, mode) -> holders_of(s, mode)++; locks = locks | flag(s) }
	fi
}

inline lock_all(mode)
{
	lock(0, mode);
	lock(1, mode);
#if SEGMENTS > 2
	lock(2, mode)
#endif
}

/* Release all locks. Called inside of a step. */
inline unlock_all(mode)
{
	holders_of(0, mode) = holders_of(0, mode) - (locks & 1);
	holders_of(1, mode) = holders_of(1, mode) - ((locks >> 1) & 1);
#if SEGMENTS > 2
	holders_of(2, mode) = holders_of(2, mode) - ((locks >> 2) & 1);
#endif
	locks = 0
}

/* A place in memory is only a guess, so any segment is possible. */
inline guess(place)
{
	if
	:: place = 0
	:: place = 1
#if SEGMENTS > 2
	:: place = 2
#endif
	fi
}

/* ---- looking for a job (rows/job.cpp) ---- */

/*
 * judge_version() or is_writable(). A transaction that has the lease finds the row unchanged by others, or at least
 * not by the mover.
 */
inline judge(s, j, mode)
{
	assert(writer[j] != MOVER || taken_by[j] == MOVER || lease_state[j] == NONE);
	if
	:: version_of(s, j) == STANDING || (mode == WRITE && version_of(s, j) == DELETED) -> verdict = LIVE; place = s
	:: mode == READ && (version_of(s, j) == INSERTED || version_of(s, j) == DELETED) -> verdict = BUSY; place = s
	:: mode == WRITE && version_of(s, j) == INSERTED -> inserter = s + 1
	:: version_of(s, j) >= REPLACED -> moved = moved | flag(version_of(s, j) - REPLACED)
	:: else
	fi
}

/* look_up_once, or find_writable's */
inline look_up_once(j, mode)
{
	do
	:: atomic { next < SEGMENTS && verdict == DEAD ->
#ifdef FAULT_LOOK_BEFORE_LOCKED
			lock(next, mode);
#endif
			judge(next, j, mode);
			next++ }
	:: atomic { next == SEGMENTS || verdict != DEAD -> next = 0; break }
	od
}

#define moves_in(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))

/* verify_job(), and the search of write_job(): at the place, or anywhere. BUSY if the row is being moved. */
inline find(j, mode)
{
	lock(place, mode);
	d_step { verdict = DEAD; moved = 0; inserter = 0; next = 0; judge(place, j, mode) };
	if
	:: verdict != DEAD
	:: verdict == DEAD ->
#ifndef FAULT_LOOK_BEFORE_LOCKED
		lock_all(mode);
#endif
		moved = 0;
		look_up_once(j, mode);
#ifndef FAULT_LOOK_ONCE
		if
		:: atomic { verdict == DEAD && moved != 0 -> moved_before = moved; moved = 0 };
			look_up_once(j, mode);
			atomic {
				if
#ifdef FAULT_MOVES_COUNTED
				:: verdict == DEAD && moves_in(moved) > moves_in(moved_before) -> verdict = BUSY
#else
				:: verdict == DEAD && moved != moved_before -> verdict = BUSY
#endif
				:: else
				fi
			}
		:: verdict != DEAD || moved == 0
		fi
#endif
	fi;
	atomic { moved = 0; moved_before = 0 }
}

#define is_writable(s, j) (version_of(s, j) == STANDING || version_of(s, j) == DELETED)

/* locate_job(): the row is found and pinned, or gone; waits for a transaction that inserts it */
inline locate_job(j)
{
	do
	:: find(j, WRITE);
		if
		:: verdict == LIVE && is_writable(place, j) -> break
#ifdef FAULT_UNPINNED_IS_GONE
		:: verdict == LIVE && !is_writable(place, j) -> verdict = DEAD; break
#else
		:: verdict == LIVE && !is_writable(place, j)
#endif
		:: verdict == DEAD && inserter == 0 -> break
		:: verdict == DEAD && inserter != 0 && version_of(inserter - 1, j) != INSERTED
		:: verdict == BUSY
		fi
	od;
	inserter = 0
}

/*
 * delete_job(), waiting for transactions that have locked the row. verdict: LIVE if the row is deleted, DEAD if there
 * is none
 */
inline delete_job(j, me)
{
	do
	:: locate_job(j);
		if
		:: verdict == DEAD -> break
		:: d_step { verdict == LIVE && version_of(place, j) == STANDING -> version_of(place, j) = DELETED; writer[j] = me }; break
		:: verdict == LIVE && !is_writable(place, j)
		fi
	od
}

inline delete_visible(j)
{
	assert(row[j] != 0 && !ended[j]);
	version_of(place, j) = ABSENT; writer[j] = 0;
	row[j] = 0; ended[j] = true
}

inline delete_undone(j) { version_of(place, j) = STANDING; writer[j] = 0 }

inline written(j, me) { author[j] = me; ran[j] = false; filed[j] = false }

/*
 * file_hints(), of a transaction that has written a version. If the row has been moved on and the mover has its
 * lease, this hint meets that lease; then the mover's hint stands for both.
 */
inline file_version(j, me)
{
	fire(NOW);
	file(key_of(j));
	ran[j] = ran[j] || author[j] == me;
	filed[j] = filed[j] || (ran[j] && !to_file[j]);
	check()
}

/* ---- a worker: claim, then ack ---- */

proctype claimer()
{
	byte mine, key, place, verdict, seen, next, moved, moved_before, locks, inserter;
restart:
	atomic {
		mine = boot;
		key = 0; place = 0; verdict = 0; seen = 0; next = 0; moved = 0; moved_before = 0; locks = 0; inserter = 0
	};
	{
end:	do
		:: pop_chunk(key);
			if
			:: key == 0
			:: key != 0 ->
				atomic { taken_by[job_of(key)] = CLAIMER; disturb(); take_snapshot(CLAIMER); guess(place) };
				find(job_of(key), READ);
				atomic {
					/* the hint of a row that is not dead may not be dropped (protocol: busy-is-not-gone) */
					assert(verdict != DEAD || !live(job_of(key)));
					end_snapshot(CLAIMER);
					unlock_all(READ);
					taken_by[job_of(key)] = (verdict == LIVE -> CLAIMER : 0)
				};
				if
				:: verdict != LIVE -> place = 0; settle_unfit(key, verdict, seen)
				:: verdict == LIVE ->
					/* hand_out */
					d_step {
						assert(live(job_of(key)) && !in_hand[job_of(key)]);
						assert(lease_state[job_of(key)] == CLAIMING);
						lease_state[job_of(key)] = CLAIMED;
						in_hand[job_of(key)] = true;
						verdict = 0
					};
					if
					/* lost, and handed out again without being counted */
					:: skip
					/* ack */
					:: take_snapshot(CLAIMER);
						delete_job(job_of(key), CLAIMER);
						if
						/* never stale: no other transaction ends a job that is in work */
						:: d_step { assert(verdict == LIVE); end_snapshot(CLAIMER); delete_visible(job_of(key)); in_hand[job_of(key)] = false }
						:: d_step { end_snapshot(CLAIMER); delete_undone(job_of(key)) }
						fi
					fi;
					d_step {
						taken_by[job_of(key)] = 0;
						if
						:: in_hand[job_of(key)] -> in_hand[job_of(key)] = false; give_back(job_of(key))
						:: else -> end_lease(job_of(key))
						fi;
						key = 0; verdict = 0; place = 0;
						check();
						unlock_all(WRITE)
					}
				fi
			fi
		:: unpark_due(0)
#if JOBS > 1
		:: unpark_due(1)
#endif
		od
	} unless { boot != mine -> goto restart }
}

/* ---- an ack whose token is from before the restart (ack_late) ---- */

proctype late()
{
	byte mine = boot, place, verdict, next, moved, moved_before, locks, inserter;
	bool held;
	{
		take_snapshot(LATE);
		do
		:: guess(place);
			locate_job(0);
			if
			:: verdict == DEAD -> break
			:: d_step { verdict == LIVE && lease_state[0] == NONE -> hint = key_of(0); take_lease(0); taken_by[0] = LATE; held = true; disturb() };
				delete_job(0, LATE);
				break
#ifndef FAULT_STALE_WHILE_MOVED
			/* take_waiting() waits for the mover, until its callbacks have run */
			:: d_step { verdict == LIVE && lease_state[0] != NONE && taken_by[0] == MOVER -> verdict = BUSY }; !at_work(mover_number)
#endif
			/* another transaction has the lease: the ack is stale */
			:: d_step { verdict == LIVE && lease_state[0] != NONE && taken_by[0] != MOVER -> verdict = BUSY }; break
#ifdef FAULT_STALE_WHILE_MOVED
			:: d_step { verdict == LIVE && lease_state[0] != NONE && taken_by[0] == MOVER -> verdict = DEAD }; break
#endif
			fi
		od;
		if
		:: d_step { verdict == LIVE -> end_snapshot(LATE); delete_visible(0) };
			d_step { end_lease(0); taken_by[0] = 0; check() }
		:: d_step { verdict == LIVE -> end_snapshot(LATE); delete_undone(0) };
			d_step { taken_by[0] = 0; give_back(0); check() }
		:: d_step { verdict != LIVE ->
				/* never stale while the job lives and no worker has it */
				assert(verdict != DEAD || !live(0));
				end_snapshot(LATE);
				if
				:: held -> taken_by[0] = 0; give_back(0); check()
				:: else
				fi }
		fi;
		atomic { place = 0; verdict = 0; held = false; unlock_all(WRITE) }
	} unless { boot != mine }
}

/* ---- moves (ring/move.cpp) ---- */

/*
 * Both segments are locked. (The mover takes its locks only if they are free, which is the same here.) The row was
 * seen in s.
 */
#define can_move(s, t) (moves < MOVES && version_of(s, victim) == STANDING && may_lock(s, WRITE) && may_lock(t, WRITE))

inline begin_move(s, t)
{
	from = s; to = t;
	holders_of(s, WRITE)++; holders_of(t, WRITE)++;
	number = moves; moves++;
	running = running | flag(number);
	locked = locked | flag(number)
}

inline choose_move()
{
	if
	:: d_step { can_move(0, 1) -> begin_move(0, 1) }
	:: d_step { can_move(1, 0) -> begin_move(1, 0) }
#if SEGMENTS > 2
	:: d_step { can_move(0, 2) -> begin_move(0, 2) }
	:: d_step { can_move(1, 2) -> begin_move(1, 2) }
	:: d_step { can_move(2, 0) -> begin_move(2, 0) }
	:: d_step { can_move(2, 1) -> begin_move(2, 1) }
#endif
	fi
}

/* heap_delete() without a wait, and the copy; then the end of the transaction becomes visible. */
inline move_row(j, me)
{
	if
	:: d_step { version_of(from, j) != STANDING -> running = running & ~flag(number) }
	:: d_step { version_of(from, j) == STANDING -> version_of(from, j) = DELETED; writer[j] = me };
#ifdef FAULT_MOVE_IN_TWO
		d_step { version_of(from, j) = REPLACED + number; writer[j] = 0; row[j] = 0; running = running & ~flag(number) };
		if
		:: d_step { version_of(to, j) = STANDING; row[j] = key_of(j); written(j, me); to_file[j] = me == MOVER; done = true }
		:: skip
		fi
#else
		d_step { under = version_of(to, j); version_of(to, j) = INSERTED };
		if
		:: d_step {
				version_of(from, j) = REPLACED + number;
				version_of(to, j) = STANDING;
				writer[j] = 0;
				written(j, me);
				to_file[j] = to_file[j] || me == MOVER;
				running = running & ~flag(number)
			};
			done = true
		:: d_step {
				version_of(from, j) = STANDING;
				version_of(to, j) = under;
				writer[j] = 0;
				running = running & ~flag(number)
			}
		fi
#endif
	fi
}

/* The locks are released after the callbacks. */
inline end_move()
{
	holders_of(from, WRITE)--; holders_of(to, WRITE)--;
	locked = locked & ~flag(number);
	from = 0; to = 0; number = 0; under = 0; done = false; held = false
}

proctype mover(byte victim)
{
	byte mine, from, to, number, under;
	bool done, held;
restart:
	atomic { mine = boot; from = 0; to = 0; number = 0; under = 0; done = false; held = false };
	{
end:	do
		:: choose_move();
			/* take_lease_to_end */
#ifdef FAULT_MOVE_WITHOUT_LEASE
			move_row(victim, MOVER);
			d_step {
				if
				:: done -> to_file[victim] = false; file_version(victim, MOVER)
				:: else
				fi;
				end_move()
			}
#else
			d_step {
				held = holds == 0 && lease_state[victim] == NONE;
				if
				:: held -> hint = key_of(victim); take_lease(victim); taken_by[victim] = MOVER; mover_number = number + 1; disturbed = disturbed || looked_again
				:: else -> running = running & ~flag(number); end_move()
				fi
			};
			if
			:: !held
			:: held ->
				move_row(victim, MOVER);
				if
				:: done ->
#ifdef FAULT_APPEAR_BEFORE_END
					d_step { to_file[victim] = false; file_version(victim, MOVER) };
					d_step { taken_by[victim] = 0; end_lease(victim); check(); end_move() }
#else
					d_step { taken_by[victim] = 0; end_lease(victim); check() };
					d_step { to_file[victim] = false; file_version(victim, MOVER); end_move() }
#endif
				:: d_step { !done -> taken_by[victim] = 0; give_back(victim); check(); end_move() }
				fi
			fi
#endif
		od
	} unless { boot != mine -> goto restart }
}

/* UPDATE ... SET segment, by a user: the trigger files the row at commit */
proctype by_hand(byte victim)
{
	byte mine, from, to, number, under;
	bool done, held;
restart:
	atomic { mine = boot; from = 0; to = 0; number = 0; under = 0; done = false; held = false };
	{
end:	do
		:: choose_move();
			move_row(victim, USER);
			d_step {
				if
				:: done -> file_version(victim, USER)
				:: else
				fi;
				end_move()
			}
		od
	} unless { boot != mine -> goto restart }
}

/* Versions that no snapshot needs are removed. */
#define prunable(s) (version_of(s, 0) >= REPLACED && \
	version_of(s, 0) - REPLACED < oldest_running && \
	version_of(s, 0) - REPLACED < oldest_move[CLAIMER] && \
	version_of(s, 0) - REPLACED < oldest_move[LATE])

proctype prune()
{
end:
	do
	:: d_step { prunable(0) -> version_of(0, 0) = ABSENT }
	:: d_step { prunable(1) -> version_of(1, 0) = ABSENT }
#if SEGMENTS > 2
	:: d_step { prunable(2) -> version_of(2, 0) = ABSENT }
#endif
	od
}

/* ---- TRUNCATE (truncate_segment) ---- */

byte truncations;

inline inspect(s)
{
	bare = true;
	at = 0;
	do
	:: at < JOBS -> bare = bare && (version_of(s, at) == ABSENT || version_of(s, at) >= REPLACED); at++
	:: else -> break
	od
}

/*
 * Choose the segment to truncate: one that a pass has found empty. Any segment may be chosen, since nothing in the
 * protocol excludes it.
 */
inline choose_segment()
{
	if
	:: d_step { truncations < TRUNCATIONS -> s = 0; truncations++ }
	:: d_step { truncations < TRUNCATIONS -> s = 1; truncations++ }
#if SEGMENTS > 2
	:: d_step { truncations < TRUNCATIONS -> s = 2; truncations++ }
#endif
	fi
}

proctype truncate()
{
	byte mine, s;
	bool bare;
restart:
	atomic { mine = boot; s = 0; bare = false };
	{
end:	do
		:: choose_segment();
#if defined(FAULT_TRUNCATE_UNVERIFIED) || defined(FAULT_VERIFY_UNLOCKED)
			d_step { inspect(s) };
#endif
#ifdef FAULT_VERIFY_UNLOCKED
			skip;
#else
			/* ShareLock */
			d_step {
				if
				:: holders_of(s, WRITE) == 0 -> shut = s
				:: else
				fi
			};
#ifndef FAULT_TRUNCATE_UNVERIFIED
			d_step { inspect(s); bare = bare && shut == s };
#else
			d_step { bare = bare && shut == s };
#endif
#endif
			/* AccessExclusiveLock */
			d_step {
				if
				:: bare && holders_of(s, WRITE) == 0 && holders_of(s, READ) == 0 -> shut = s; exclusive = true
				:: else -> shut = SEGMENTS
				fi
			};
			if
			:: exclusive ->
				if
				:: d_step {
						inspect(s);
						assert(bare);
						at = 0;
						do
						:: at < JOBS -> version_of(s, at) = ABSENT; at++
						:: else -> break
						od;
						at = 0
					}
				:: skip /* undone */
				fi
			:: !exclusive
			fi;
			atomic { shut = SEGMENTS; exclusive = false; s = 0; bare = false }
		od
	} unless { boot != mine -> goto restart }
}

/* ---- an enqueue that has read an old current segment ---- */

proctype straggler(byte j)
{
	byte mine = boot, place, locks;
	{
		guess(place);
		lock(place, WRITE);
		d_step { version_of(place, j) = INSERTED; writer[j] = STRAGGLER };
		if
		:: d_step { version_of(place, j) = STANDING; row[j] = key_of(j); ended[j] = false; writer[j] = 0; written(j, STRAGGLER) };
			d_step { file_version(j, STRAGGLER) }
		:: d_step { version_of(place, j) = ABSENT; writer[j] = 0 }
		fi;
		atomic { place = 0; unlock_all(WRITE) }
	} unless { boot != mine }
}

/* ---- reading rows into the window (load/refill.cpp): a segment at a time ---- */

proctype refill()
{
	byte mine, locks, next, found_rows;
restart:
	atomic { mine = boot; locks = 0; next = 0; found_rows = 0 };
	{
end:	do
		:: d_step { wants_window_refill -> begin_window_refill(NOW); check() };
			lock_all(READ);
			do
			:: d_step {
					next < SEGMENTS ->
					at = 0;
					do
					:: at < JOBS ->
						if
						:: version_of(next, at) == STANDING || version_of(next, at) == DELETED -> found_rows = found_rows | flag(at)
						:: else
						fi;
						at++
					:: else -> break
					od;
					next++
				}
			:: next == SEGMENTS -> break
			od;
			atomic { next = 0; unlock_all(READ) };
			/* publish: one row, since the window has room for one, and the first row that was left out */
			d_step {
				window_refill ->
				next = (found_rows == 2 -> 1 : 0);
				if
				:: found_rows != 0 && lease_state[next] != NONE -> note_missed(next, key_of(next))
				:: found_rows != 0 && lease_state[next] == NONE -> hint = key_of(next); insert_ready()
				:: else
				fi;
				if
				:: found_rows == 3 -> finish_window_refill(key_of(1))
				:: else -> finish_window_refill(HIGHEST)
				fi;
				next = 0; found_rows = 0;
				check()
			}
		od
	} unless { boot != mine -> goto restart }
}

/* ---- pgq_purge_queue ---- */

proctype purge()
{
	byte mine = boot, place, locks;
	bool found_row, skipped, deleted;
	{
		d_step { holds++; disturb() };
#ifndef FAULT_PURGE_WITHOUT_WAITING
		!at_work(mover_number);
#endif
		lock_all(WRITE);
		/* DELETE: first the snapshot, then is_leased(), then the row */
		d_step {
			at = 0;
			do
			:: at < SEGMENTS ->
				if
				:: version_of(at, 0) == STANDING || version_of(at, 0) == DELETED -> place = at; found_row = true
				:: else
				fi;
				at++
			:: else -> break
			od;
			at = 0
		};
		d_step {
			skipped = lease_state[0] != NONE;
			/* leased jobs are in work and may be skipped, but no waiting job may be left out */
			assert(!found_row || !skipped || taken_by[0] != MOVER)
		};
		if
		:: !found_row || skipped
		:: found_row && !skipped ->
			if
			:: d_step { version_of(place, 0) == STANDING -> version_of(place, 0) = DELETED; writer[0] = PURGER; deleted = true }
			/* another transaction was faster: a late ack, but not the mover (40001) */
			:: d_step { !is_writable(place, 0) -> assert(!live(0)) }
			fi
		fi;
		if
		:: d_step { deleted -> delete_visible(0) }
		:: d_step { deleted -> delete_undone(0) }
		:: !deleted
		fi;
		d_step { holds--; place = 0; found_row = false; skipped = false; deleted = false; unlock_all(WRITE) }
	} unless { boot != mine }
}

/* ---- a claim without wait: it must not say "empty" of a job that nobody else has ---- */

inline say_empty()
{
	assert(!owed || disturbed || !live(0) || !nobody_has_it || holds > 0);
	answered = true
}

proctype asker()
{
	byte mine = boot, mover_seen;
	bool owed, answered, found_none;
	{
		/* the job exists, the callback of its insert has run, and at most the mover has it */
		d_step { owed = live(0) && holds == 0 && nobody_has_it && (filed[0] || author[0] == MOVER); disturbed = false };
		do
		:: d_step {
				!answered && holds == 0 && (poppable || exhausted || NOW > due_line) ->
				fire(NOW);
				if
				:: poppable ->
					pop();
					take_lease(job_of(hint));
					if
					:: taken -> answered = true; give_back(job_of(hint))
					:: else -> note_missed(job_of(hint), hint)
					fi
				:: else
				fi;
				found_none = !answered && exhausted;
				/* read in the hold that finds nothing: a mover that has ended before has filed its jobs */
				mover_seen = mover_number;
				if
#ifdef FAULT_EMPTY_WHILE_MOVED
				:: found_none -> say_empty()
#else
				:: found_none && (looked_again || mover_seen == 0) -> say_empty()
#endif
				:: else
				fi;
				looked_again = looked_again || found_none;
				check()
			};
#ifdef FAULT_EMPTY_LOOKS_LATE
			d_step {
				if
				:: found_none && !answered && !at_work(mover_number) -> say_empty()
				:: else
				fi
			};
#endif
			/* wait_for_mover, once */
			if
			:: found_none && !answered ->
				d_step { !at_work(mover_seen) -> mover_number = (mover_number == mover_seen -> 0 : mover_number) }
			:: !found_none || answered
			fi
		:: answered -> break
		od;
		atomic { owed = false; found_none = false; mover_seen = 0; looked_again = false }
	} unless { boot != mine }
}

/* ---- the server crashes ---- */

proctype crash()
{
	d_step {
		crash_now();
		at = 0;
		do
		:: at < SEGMENTS * JOBS ->
			if
			:: version[at] == INSERTED -> version[at] = ABSENT
			:: version[at] == DELETED -> version[at] = STANDING
			:: else
			fi;
			at++
		:: else -> break
		od;
		at = 0;
		do
		:: at < 2 * SEGMENTS -> holders[at] = 0; at++
		:: else -> break
		od;
		at = 0;
		do
		:: at < JOBS -> taken_by[at] = 0; in_hand[at] = false; to_file[at] = false; at++
		:: else -> break
		od;
		at = 0;
		shut = SEGMENTS; exclusive = false; holds = 0; running = 0; locked = 0; mover_number = 0;
		oldest_move[CLAIMER] = NEVER; oldest_move[LATE] = NEVER
	}
}

/* Check at the end, when no process can go on: every job has ended. */
proctype accountant()
{
	timeout ->
	d_step {
		at = 0;
		do
		:: at < JOBS -> assert(ended[at] && !live(at) && lease_state[at] == NONE); at++
		:: else -> break
		od
	}
}

init
{
	atomic {
		reset();
		oldest_move[CLAIMER] = NEVER; oldest_move[LATE] = NEVER;
		if
		:: version_of(SEGMENTS - 1, 0) = STANDING
#ifdef BY_HAND
		:: version_of(0, 0) = STANDING
#endif
		fi;
		row[0] = key_of(0); filed[0] = true; ran[0] = true;
		at = 0;
		do
		:: at < JOBS -> enqueued_at[at] = NOW; at++
		:: else -> break
		od;
		at = 0;
		run claimer();
#ifndef ONLY_BY_HAND
		run mover(0);
#endif
		run truncate();
#ifdef REFILL
		run refill();
#else
		/* loaded */
		d_step { fire(NOW); cursor = HIGHEST; timer_cursor = HIGHEST; file(row[0]) };
#endif
#ifdef PRUNE
		run prune();
#endif
#if JOBS > 1
		ended[1] = true;
		run straggler(1);
#endif
#ifdef LATE_ACK
		run late();
#endif
#ifdef PURGE
		run purge();
#endif
#ifdef BY_HAND
		run by_hand(0);
#endif
#ifdef ASK
		run asker();
#endif
#ifdef CRASH
		run crash();
#endif
		run accountant()
	}
}
