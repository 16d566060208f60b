/*
 * Model of unique keys (enqueue/unique_key.h): two sessions that enqueue with the same key, each in a transaction that
 * is committed or rolled back; and a worker. A step is all that happens under one lock. The lock of the key is a
 * variable, since other processes may act while it is held.
 *
 * Shown: two jobs with the same key never live at a time, if a job has its key until it is finished. If a job has its
 * key until it is claimed, two jobs that were never handed out never wait at a time. The data of a request is
 * processed with the job that carries it: a job that was met while it waited is neither handed out nor gone before
 * the transaction of the request is committed.
 */
#ifndef JOBS
#define JOBS 3
#endif
#define NONE 255
#ifdef UNTIL_CLAIMED
#define UNTIL true
#else
#define UNTIL false
#endif
#define WORKER 2

/* Rows: which transaction writes the row, and its committed state. */
mtype = { NOTHING, INSERTING, LIVE, DELETING, DEAD };
mtype row[JOBS];
byte writer[JOBS];
bool failed[JOBS];   /* an attempt of the job has failed */
bool returned[JOBS]; /* it was handed out and waits again, so a younger job with the key may exist */
bool hint[JOBS];

/* A lease. */
mtype = { FREE, CLAIMING, CLAIMED, HELD };
mtype lease[JOBS];
byte holders[JOBS];

byte key_lock = NONE;
byte lockers[JOBS]; /* number of transactions that have locked the row FOR KEY SHARE */
byte open_requests[JOBS]; /* number of open requests that have met the job while it waited */
byte made;
byte askers;
byte turns;

inline set_free(j)
{
	lease[j] = FREE;
	hint[j] = true
}

/*
 * Find the youngest job that has the key: *owner, or NONE. *decides: a row whose uncommitted transaction decides
 * about that, or NONE.
 */
inline look(owner, decides)
{
	owner = NONE;
	decides = NONE;
	i = 0;
	do
	:: i < JOBS ->
		if
#ifndef FAULT_SKIP_INSERTING
		:: row[i] == INSERTING && writer[i] != me -> decides = i
#else
		:: row[i] == INSERTING && writer[i] != me -> skip
#endif
		/* A row that is being deleted belongs to a job in work, whose worker ends it. */
#ifndef FAULT_DELETING_IS_GONE
#ifdef UNTIL_CLAIMED
		:: row[i] == DELETING -> skip
#else
		:: row[i] == DELETING -> owner = i
#endif
#else
		:: row[i] == DELETING -> skip
#endif
#ifdef UNTIL_CLAIMED
		:: row[i] == LIVE && (failed[i] || lease[i] == CLAIMED) -> skip
		:: row[i] == LIVE && !failed[i] && lease[i] != CLAIMED -> owner = i
#else
		:: row[i] == LIVE -> owner = i
#endif
		:: else
		fi;
		i++
	:: i >= JOBS -> break
	od;
	i = 0
}

inline unlock_key()
{
	if
	:: key_lock == me -> key_lock = NONE
	:: else
	fi
}

/* Check at a commit that no other job has the key in the same way. */
inline check_owners(j)
{
	i = 0;
	do
	:: i < JOBS ->
#ifdef UNTIL_CLAIMED
		assert(i == j || row[i] != LIVE || failed[i] || returned[i] || (lease[i] != FREE && lease[i] != HELD));
#else
		assert(i == j || (row[i] != LIVE && row[i] != DELETING));
#endif
		i++
	:: i >= JOBS -> break
	od;
	i = 0
}

inline let_go(j)
{
	holders[j]--;
	if
	:: holders[j] == 0 -> set_free(j)
	:: else
	fi
}

proctype asker(byte me)
{
	byte i, j, owner, decides;
	bool held, ours, locked;
again:
	held = false;
	locked = false;
	ours = false;
#ifndef FAULT_NO_KEY_LOCK
	atomic {
		key_lock == NONE ->
		key_lock = me
	}
#endif
	atomic { look(owner, decides) }
	atomic {
		if
		:: decides != NONE ->
			unlock_key();
		:: else
		fi
	}
	if
	:: decides != NONE ->
		/* Wait until that transaction has ended. */
		row[decides] != INSERTING || writer[decides] == me;
		goto again
	:: else
	fi;
	if
	:: owner == NONE ->
#ifdef FAULT_RELEASED_EARLY
		unlock_key();
#endif
		atomic {
			j = made;
			made++;
			assert(j < JOBS);
			row[j] = INSERTING;
			writer[j] = me;
			ours = true
		}
	:: else ->
		atomic {
			j = owner;
			if
			:: row[j] == DELETING || lease[j] == CLAIMED -> skip /* the job is in work */
#ifdef FAULT_CLAIMING_IS_LEASED
			:: row[j] != DELETING && lease[j] == CLAIMING -> skip
#endif
#ifndef FAULT_NO_HOLD
			:: row[j] != DELETING && (lease[j] == FREE || lease[j] == HELD) ->
				lease[j] = HELD;
				holders[j]++;
				held = true
#else
			:: row[j] != DELETING && lease[j] != CLAIMED -> open_requests[j]++
#endif
#if !defined(FAULT_CLAIMING_IS_LEASED) && !defined(FAULT_NO_HOLD)
			:: row[j] != DELETING && lease[j] == CLAIMING -> owner = NONE /* the claim has not decided yet */
#endif
			fi
		}
		if
		:: owner == NONE ->
			atomic { unlock_key(); i = 0 }
			lease[j] != CLAIMING;
			goto again
		:: else
		fi;
#ifdef UNTIL_CLAIMED
		/*
		 * A job in work does not have the key any more: look again. A claim that has not decided is treated as one in
		 * this case.
		 */
#ifdef FAULT_CLAIMING_IS_LEASED
		if
		:: !held && lease[j] == CLAIMING ->
			atomic {
				j = made;
				made++;
				assert(j < JOBS);
				row[j] = INSERTING;
				writer[j] = me;
				ours = true
			}
		:: else
		fi;
#endif
#ifndef FAULT_NO_HOLD
		if
		:: !held && !ours ->
			atomic { unlock_key() }
			goto again
		:: else
		fi;
#endif
#endif
#ifndef FAULT_NO_VERIFY
		if
		:: atomic { held && (row[j] != LIVE || (failed[j] && UNTIL)) ->
				let_go(j);
				unlock_key() }
			goto again
		:: else
		fi;
#endif
		atomic {
			if
			:: held -> open_requests[j]++
			:: else
			fi
		}
#ifdef FLEETING
		/* If there are not enough leases, lock the row and give the lease back. */
		if
		:: held ->
#ifdef FAULT_LET_GO_UNLOCKED
			atomic { let_go(j) }
			atomic { lockers[j]++; locked = true; held = false }
#else
			atomic { lockers[j]++; locked = true; held = false }
			atomic { let_go(j) }
#endif
		:: true
		fi
#endif
	fi;
	atomic { unlock_key() }
	/* The rest of the transaction, and its end: it becomes visible, then the callback runs. */
	if
	:: atomic { ours ->
			row[j] = LIVE;
			check_owners(j) }
		atomic {
			if
			:: row[j] == LIVE && lease[j] == FREE -> hint[j] = true
			:: else
			fi
		}
	:: atomic { ours -> row[j] = DEAD }
	:: atomic { !ours && (held || locked) ->
			/* A worker that gets the job from here on sees the data of the request. */
			assert(row[j] == LIVE && lease[j] != CLAIMED);
			open_requests[j]--;
			lockers[j] = lockers[j] - locked }
		if
		:: atomic { held -> let_go(j) }
		:: !held
		fi
#ifdef FAULT_NO_HOLD
	:: atomic { !ours && !held ->
			assert(open_requests[j] == 0 || (row[j] == LIVE && lease[j] != CLAIMED));
			open_requests[j] = 0 }
#else
	:: !ours && !held && !locked -> skip
#endif
	fi;
	askers--
}

proctype worker()
{
	byte i, j;
	do
	:: askers == 0 && turns >= 3 -> break
	:: turns < 3 ->
		/* take_lease */
		atomic {
			j = NONE;
			if
			:: hint[0] && lease[0] == FREE -> j = 0
			:: hint[1] && lease[1] == FREE -> j = 1
			:: hint[JOBS - 1] && lease[JOBS - 1] == FREE -> j = JOBS - 1
			:: askers == 0 -> turns = 3
			fi;
			if
			:: j != NONE ->
				hint[j] = false;
				lease[j] = CLAIMING;
				turns++
			:: else
			fi
		}
		if
		:: j == NONE -> goto next
		:: else
		fi;
		/* verify, settle */
		if
		:: atomic { row[j] != LIVE || lockers[j] > 0 ->
				lease[j] = FREE;
				hint[j] = (row[j] == INSERTING || row[j] == LIVE) }
			goto next
		:: else
		fi;
		if
		:: atomic { true ->
				assert(open_requests[j] == 0 || holders[j] == 0);
				lease[j] = CLAIMED }
		:: atomic { true -> set_free(j) } /* the claim is undone before it has returned */
			goto next
		fi;
		if
		:: /* acknowledged: deleted, committed, and then the lease goes */
			atomic { row[j] = DELETING; writer[j] = WORKER }
			if
			:: row[j] = DEAD;
				lease[j] = FREE
			:: row[j] = LIVE; /* rolled back; then the lease ends: */
				atomic { failed[j] = true; set_free(j) }
			fi
		:: atomic { failed[j] = true; set_free(j) }
		:: atomic { returned[j] = true; set_free(j) } /* released */
		fi;
next:
		skip
	od
}

init
{
	byte i;
	atomic {
		for (i : 0 .. JOBS - 1) {
			row[i] = NOTHING;
			lease[i] = FREE
		}
		askers = 2;
#ifndef EMPTY
		row[0] = LIVE;
		hint[0] = true;
		made = 1;
#endif
		run asker(0);
		run asker(1);
		run worker()
	}
}
