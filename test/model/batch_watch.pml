/*
 * Model of the memory about batches, which saves the scheduler from a look after each ack: two batches, and a table
 * with room for one entry. Batch A has members 0 and 1, and is closed at some time. Batch B has member 2, and is
 * closed. Member 0 is added, may end, and may be brought back (redrive). Members end, and the callbacks of these
 * transactions come later. The scheduler or the server may die at any time.
 *
 * Each option of a loop is one step. A variable with the name of a process says where this process is.
 *
 * Shown: each batch fires once, and only after all members have ended. So neither the entry nor its floor misses a
 * member, though the end of most members wakes no process. The rules:
 * - told-while-looking: the scheduler marks the entry as LOOKING before it looks. An end that comes then makes it
 *   AGAIN, and the look counts for nothing.
 * - witness: an entry that WAITS names a live member, and only the end of this member is news. An entry that is OPENED
 *   waits for the close.
 * - death-is-news (DEATHS): a death is news for every entry, since the failure callback waits for no other member. In
 *   this case members may stay alive forever.
 * - full-raises-all: if there is no room for an entry, the scheduler sweeps all batches. What comes during a sweep
 *   means another sweep.
 * - insert-lowers-the-floor: no member below the floor of an entry is alive. A transaction that brings a member lowers
 *   the floor after the row is in, and before the tag of the batch is released. The scheduler publishes the smaller of
 *   what it has found and what came in since its pass began. A new entry begins without a floor.
 *   A transaction that has a member in work (IN_WORK) needs no tag, and lowers the floor before it commits.
 * - last-look-has-the-tag: what a pass has found is looked at again, with the tag, from the floor on.
 * - scheduler-starts-anew: a new scheduler looks at all batches, and at those that the last one was looking at.
 */
#define MEMBERS 3
#ifndef ADDS
#define ADDS 2 /* how often member 0 comes */
#endif
#define NOTHING 9 /* greater than each member */
#define CLOSE 10
#define DEATH 11

mtype = { ABSENT, INSERTING, LIVE, GONE };
mtype member[MEMBERS] = LIVE;
byte callbacks[MEMBERS]; /* transactions that have ended the member, and whose callbacks have not come */

#define NONE 2
#define A 0
#define B 1
#define batch_of(m) (m == 2 -> B : A)
#define first_of(b) (b == B -> 2 : 0)
#define last_of(b) (b == B -> 2 : 1)
byte fired[2];
bool closed; /* batch A */
bool died, death_tells; /* Member 1 is a dead letter. The callback of that transaction has not come. */
bool failed;			/* the failure callback of batch A has come */
bool stopped;			/* no member ends any more */
mtype = { BEFORE, DONE, OVER };
mtype closer = BEFORE;

/* the entry */
mtype = { TOLD, LOOKING, AGAIN, WAITS, OPENED };
byte entry = NONE;
mtype state = TOLD;
byte witness;
byte floor; /* no member below is alive */
byte low = NOTHING; /* the lowest member that came in since the pass began */
bool all;

/* a transaction that brings member 0 */
mtype = { TAGGED, INSERTED, OPEN, COMMITTED };
mtype adder = BEFORE;
byte adds;

mtype = { IDLE, READING, PASSING, TAGGING, LAST_LOOK, PUBLISHING, SWEEPING };
mtype scheduler = IDLE;
byte looked_at; /* the batch */
bool by_sweep;	/* The look is one of a sweep, without an entry. */
byte next;		/* the member at which the pass is, or which it has found */

#ifdef IN_WORK
#define is_shared false
#elif defined(FAULT_LOWERED_WITHOUT_TAG)
#define is_shared (adder == TAGGED)
#else
#define is_shared (adder == TAGGED || adder == INSERTED)
#endif
#define is_alive(m) (member[m] == INSERTING || member[m] == LIVE)
#define min(x, y) (x < y -> x : y)

inline make_entry(b)
{
	entry = b;
	state = TOLD;
	witness = 0;
#ifndef FAULT_FLOOR_OUTLIVES
	floor = 0;
#endif
	low = NOTHING
}

inline free_entry()
{
	entry = NONE;
	state = TOLD;
	witness = 0;
#ifndef FAULT_FLOOR_OUTLIVES
	floor = 0;
#endif
	low = NOTHING
}

/* The callback of a transaction that has ended member m, closed the batch (CLOSE), or made a dead letter (DEATH). */
inline tell(b, m)
{
	if
#ifndef FAULT_LOOKING_IS_NOT_TOLD
	:: entry == b && (state == LOOKING || state == AGAIN) -> state = AGAIN
#endif
#ifndef FAULT_CLOSE_IS_NO_NEWS
	:: entry == b && state == OPENED && m == CLOSE -> state = TOLD
#endif
	:: entry == b && state == OPENED && m == DEATH -> state = TOLD
	:: entry == b && state == WAITS && (m == witness || m == DEATH) -> state = TOLD; witness = 0
	:: entry == NONE -> make_entry(b)
#ifndef FAULT_FULL_IS_DROPPED
	:: entry != NONE && entry != b -> all = true
#endif
	:: else
	fi
}

inline lower_floor()
{
#ifndef FAULT_INSERT_LOWERS_NOTHING
	if
	:: entry == A -> floor = 0; low = 0
	:: else
	fi
#else
	skip
#endif
}

#ifdef IN_WORK
/* The transaction has member 1 in work, so the batch has not fired. It has no tag. */
#define can_add (member[1] == LIVE)
#define is_pinned (adder == TAGGED || adder == INSERTED || adder == OPEN)
#else
#define can_add (!fired[A] && scheduler != LAST_LOOK)
#define is_pinned false
#endif

#ifdef FAULT_LOWERED_AFTER_COMMIT
#define after_commit COMMITTED
#else
#define after_commit BEFORE
#endif

/* Enqueue or redrive of member 0. */
proctype adding()
{
end:
	do
	:: d_step {
			adder == BEFORE && adds < ADDS && !is_alive(0) && can_add ->
			adder = TAGGED;
			adds++;
#ifdef FAULT_LOWERED_BEFORE_INSERT
			lower_floor()
#endif
		}
	:: d_step { adder == TAGGED -> member[0] = INSERTING; adder = INSERTED }
	:: d_step {
			adder == INSERTED ->
#if !defined(FAULT_LOWERED_BEFORE_INSERT) && !defined(FAULT_LOWERED_AFTER_COMMIT)
			lower_floor();
#endif
			adder = OPEN
		}
	:: d_step { adder == OPEN -> assert(!fired[A]); member[0] = LIVE; adder = after_commit }
#ifdef IN_WORK
	/* The same transaction acks the member that is in work. */
	:: d_step {
			adder == OPEN ->
			assert(!fired[A]);
			member[0] = LIVE;
			member[1] = GONE;
			callbacks[1]++;
			adder = after_commit
		}
#endif
#ifdef FAULT_LOWERED_AFTER_COMMIT
	:: d_step { adder == COMMITTED -> lower_floor(); adder = BEFORE }
#endif
	:: d_step { adder == OPEN -> member[0] = GONE; callbacks[0]++; adder = BEFORE }
	/* Nothing is added any more. */
	:: d_step { adder == BEFORE -> adder = OVER }
	od
}

proctype ending()
{
	byte m;
end:
	do
	:: d_step { member[0] == LIVE && !stopped -> member[0] = GONE; callbacks[0]++ }
	:: d_step { member[1] == LIVE && !stopped && !is_pinned -> member[1] = GONE; callbacks[1]++ }
	:: d_step { member[2] == LIVE && !stopped -> member[2] = GONE; callbacks[2]++ }
#ifdef DEATHS
	:: d_step { member[1] == LIVE && !stopped -> member[1] = GONE; died = true; death_tells = true }
#ifdef FAULT_DEATH_IS_NO_NEWS
	:: d_step { death_tells -> death_tells = false; tell(A, 1) }
#else
	:: d_step { death_tells -> death_tells = false; tell(A, DEATH) }
#endif
	:: d_step { !stopped -> stopped = true }
#endif
	:: d_step { callbacks[0] > 0 -> callbacks[0]--; tell(A, 0) }
	:: d_step { callbacks[1] > 0 -> callbacks[1]--; tell(A, 1) }
	:: d_step { callbacks[2] > 0 -> callbacks[2]--; tell(B, 2) }
	od
}

proctype closing()
{
	d_step { closer == BEFORE -> closed = true; closer = DONE };
	d_step {
		if
		:: closer == DONE -> closer = OVER; tell(A, CLOSE)
		:: else
		fi
	}
}

/* An entry that waits may be given up at any time, to make room for another one. */
proctype making_room()
{
end:
	do
	:: d_step { entry != NONE && (state == WAITS || state == OPENED) -> free_entry() }
	od
}

inline begin_look(b, sweeps)
{
	looked_at = b;
	by_sweep = sweeps;
	scheduler = READING;
	if
	:: !by_sweep -> low = NOTHING
	:: else
	fi
}

inline end_look()
{
	if
	:: by_sweep -> scheduler = SWEEPING; looked_at++
	:: else -> scheduler = IDLE; looked_at = 0
	fi;
	by_sweep = false;
	next = 0
}

/* The look has ended without a callback: the entry gets the state `to`, unless there was news. */
inline publish(to, m)
{
	if
	:: by_sweep
#ifdef FAULT_LOOK_THEN_TAKE
	:: !by_sweep && (to == WAITS || to == OPENED) -> state = to; witness = m
	:: !by_sweep && to == TOLD
#else
	:: !by_sweep && state == LOOKING -> state = to; witness = m
	:: !by_sweep && state == AGAIN -> state = TOLD
#endif
	fi
}

inline raise_floor()
{
	if
	:: by_sweep
#ifdef FAULT_FLOOR_OVERWRITES
	:: !by_sweep -> floor = next
#else
	:: !by_sweep -> floor = min(next, low)
#endif
	fi
}

/* Fires the failure callback, if the snapshot of the look has the note of a death. */
inline fire_failure()
{
	failed = failed || (looked_at == A && died)
}

inline fire()
{
	assert(!fired[looked_at] && (looked_at == B || closed));
	assert(!is_alive(first_of(looked_at)) && !is_alive(last_of(looked_at)));
	fired[looked_at]++;
	fire_failure();
	if
	:: entry == looked_at -> free_entry()
	:: else
	fi;
	end_look()
}

proctype scheduling()
{
end:
	do
	:: d_step {
			scheduler == IDLE && entry != NONE && state == TOLD ->
			if
			:: fired[entry] -> free_entry()
			:: else ->
#ifndef FAULT_LOOK_THEN_TAKE
				state = LOOKING;
#endif
				begin_look(entry, false)
			fi
		}
	:: d_step { scheduler == IDLE && all -> all = false; scheduler = SWEEPING; looked_at = A }
	:: d_step {
			scheduler == SWEEPING ->
			if
			:: looked_at == NONE ->
#ifdef FAULT_SWEEP_CLEARS
				all = false;
#endif
				scheduler = IDLE; looked_at = 0
			:: looked_at != NONE && (fired[looked_at] || entry == looked_at) -> looked_at++
			:: looked_at != NONE && !fired[looked_at] && entry == NONE -> make_entry(looked_at)
			:: looked_at != NONE && !fired[looked_at] && entry == 1 - looked_at ->
				if
				:: state == WAITS || state == OPENED -> free_entry()
				:: else -> begin_look(looked_at, true)
				fi
			fi
		}
	:: d_step {
			scheduler == READING ->
			fire_failure();
			if
			:: looked_at == A && !closed -> next = NOTHING; scheduler = PUBLISHING
			:: else -> next = (by_sweep || looked_at == B -> first_of(looked_at) : floor); scheduler = PASSING
			fi
		}
	/* the pass, which other steps may interrupt after each member */
	:: d_step {
			scheduler == PASSING && next <= last_of(looked_at) ->
			if
			:: is_alive(next) -> scheduler = PUBLISHING
			:: else -> next++
			fi
		}
	:: d_step {
			scheduler == PASSING && next > last_of(looked_at) ->
			raise_floor();
			scheduler = TAGGING
		}
	:: d_step {
			scheduler == TAGGING ->
#ifdef FAULT_FIRES_WITHOUT_TAG
			fire()
#else
			if
			:: !is_shared || looked_at == B -> scheduler = LAST_LOOK
			/* The tag is taken: come again. */
			:: else ->
				publish(TOLD, 0);
				all = all || by_sweep;
				end_look()
			fi
#endif
		}
	:: d_step {
			scheduler == LAST_LOOK ->
			next = (by_sweep || looked_at == B -> first_of(looked_at) : floor);
			if
			:: next <= last_of(looked_at) && is_alive(next) -> scheduler = PUBLISHING
			:: next < last_of(looked_at) && !is_alive(next) && is_alive(last_of(looked_at)) ->
				next = last_of(looked_at);
				scheduler = PUBLISHING
			:: else -> fire()
			fi
		}
	:: d_step {
			scheduler == PUBLISHING ->
			if
			:: next == NOTHING -> publish(OPENED, 0)
			:: else -> raise_floor(); publish(WAITS, next)
			fi;
			end_look()
		}
	/* The process dies, and the next scheduler begins. */
	:: d_step {
			scheduler != IDLE ->
#ifndef FAULT_DEAD_SCHEDULER_FORGETS
			all = true;
			if
			:: entry != NONE && (state == LOOKING || state == AGAIN) -> state = TOLD
			:: else
			fi;
#endif
			by_sweep = false;
			looked_at = 0;
			next = 0;
			scheduler = IDLE
		}
	od
}

/* The server crashes, once or never. */
proctype crash()
{
	if
	:: d_step {
			member[0] = (member[0] == INSERTING -> GONE : member[0]);
			callbacks[0] = 0; callbacks[1] = 0; callbacks[2] = 0;
			death_tells = false;
			adder = (adder == OVER -> OVER : BEFORE);
			closer = (closer == DONE -> OVER : closer);
			free_entry();
			floor = 0;
			all = true;
			by_sweep = false;
			looked_at = 0;
			next = 0;
			scheduler = IDLE
		}
	:: true
	fi
}

#define is_right(b) (fired[b] == 1 || (stopped && (is_alive(first_of(b)) || is_alive(last_of(b)))))

/* Check at the end: both batches have fired, unless a member is left, and the death is known. */
proctype monitor()
{
	timeout ->
	assert(is_right(A) && is_right(B));
	assert(failed == died)
}

init
{
	atomic {
		member[0] = ABSENT;
		run adding();
		run ending();
		run closing();
		run making_room();
		run scheduling();
		run crash();
		run monitor()
	}
}
