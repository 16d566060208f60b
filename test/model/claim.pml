/*
 * Model of waiting for a claim (wait_for_claim in steps/waiting.cpp, txn/deadlock.cpp). Each worker claims a job, and
 * its transaction goes on afterwards; changers cancel jobs. A claim may wait for a changer's transaction before it
 * decides, and a transaction may wait for another one. A step is all that happens under one lock. A search for
 * circles reads what processes have published.
 *
 * Shown: no session waits for a claim that has decided; no circle of waits is left; only a session in a circle gives
 * up, and only one session of each circle does.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef CHANGERS
#define CHANGERS 2
#endif
#define SESSIONS (WORKERS + CHANGERS)
#define JOBS WORKERS
#ifndef ACTIONS
#define ACTIONS 1
#endif
#define NONE 255
#define is_worker(s) ((s) < WORKERS)

/* The leases of jobs. Worker j claims job j. */
mtype = { FREE, CLAIMING, CLAIMED, CHANGED };
mtype lease[JOBS];
byte changer[JOBS]; /* the session that uses the lease */

bool open[SESSIONS];    /* the session's transaction has not ended */
byte waits_for[SESSIONS];   /* waits in the lock manager, until that session's transaction has ended */
byte awaits[SESSIONS];      /* waits in memory, for the claim of that worker */
byte published[SESSIONS];   /* the worker in `awaits`, as other sessions see it */
bool gives_up[SESSIONS];
bool stale[SESSIONS];       /* has not looked at its lease since the other changer has found a circle */

bool over; /* the monitor has looked at the sessions that wait */

/* Something has changed, so a search for circles may find what the last one has not found. */
bool news[SESSIONS];
#define tell news[WORKERS] = true; news[SESSIONS - 1] = true

/* The session that keeps s from going on: in truth, and as another session sees it. NONE: s can go on. */
#define in_truth(s) (waits_for[s] != NONE && open[waits_for[s]] -> waits_for[s] : \
	(awaits[s] != NONE && lease[awaits[s]] == CLAIMING -> awaits[s] : NONE))
#define as_seen(s) (published[s] != NONE -> published[s] : \
	(waits_for[s] != NONE && open[waits_for[s]] -> waits_for[s] : NONE))

/* True for a circle of two or three sessions whose waits are all in the lock manager: the server finds it. */
#define to1(s) waits_for[s]
#define held_up(s) (waits_for[s] != NONE && open[waits_for[s]] && !gives_up[s])
#define server_sees(s) (held_up(s) && held_up(to1(s)) && (to1(to1(s)) == s || \
	(held_up(to1(to1(s))) && to1(to1(to1(s))) == s)))

/*
 * Go from session s to the session for which it waits, and on. *to: s, if that is a circle. *greatest: the greatest
 * session in the circle that waits in memory.
 */
#define follow(s, next) \
	to = s; \
	hops = 0; \
	greatest = 0; \
	do \
	:: hops < SESSIONS && to != NONE -> \
		greatest = (published[to] != NONE && to > greatest -> to : greatest); \
		to = next(to); \
		hops = (to == s -> SESSIONS : hops + 1) \
	:: else -> break \
	od; \
	to = (to == s -> s : NONE); \
	hops = 0

/* Check error 40P01: the session is in a circle, and no other session of the circle has given up. */
inline check_victim()
{
	follow(me, in_truth);
	assert(to == me);
	do
	:: true ->
		to = in_truth(to);
		assert(!gives_up[to]);
		if
		:: to == me -> break
		:: else
		fi
	od
}

/* Wait until the transaction of that session has ended. The server finds circles that consist of such waits only. */
inline wait_for_transaction(other)
{
	atomic { waits_for[me] = other; tell };
	if
	:: atomic { !open[other] -> waits_for[me] = NONE; tell }
	:: atomic { open[other] && server_sees(me) -> gives_up[me] = true; failed = true }
	:: over -> failed = true
	fi
}

#ifdef FAULT_EDGE_NOT_PUBLISHED
#define publish(worker) published[me] = NONE
#else
#define publish(worker) published[me] = worker
#endif
#define other_changer (me == WORKERS -> SESSIONS - 1 : WORKERS)
#ifdef FAULT_OWN_EDGE_IS_OLD
#define all_have_looked (!stale[other_changer] && napped)
#else
#define all_have_looked (!stale[other_changer])
#endif

/*
 * Search for a circle. If a search finds one, the next search must find it again before the session gives up. In
 * between, all sessions that wait in memory must have looked at the leases for which they wait. They do so all the
 * time, and the time between two searches is deadlock_timeout.
 */
inline look_for_circle()
{
	news[me] = false;
	published[me] = worker; /* a session knows for which worker it waits itself */
	follow(me, as_seen);
#ifdef FAULT_ALL_GIVE_UP
	circle = to == me;
#else
	circle = to == me && greatest == me;
#endif
	publish(worker);
#ifdef FAULT_LOOK_ONCE
	found = true;
	stale[other_changer] = false;
#endif
	if
	:: circle && found && all_have_looked ->
		check_victim();
		gives_up[me] = true;
		failed = true
	:: circle && found && !all_have_looked
	:: circle && !found ->
		found = true;
		napped = false;
		stale[other_changer] = awaits[other_changer] != NONE
	:: !circle -> found = false
	fi;
	circle = false;
	to = 0;
	greatest = 0
}

/* wait_for_claim() */
inline wait_for_claim()
{
#ifdef FAULT_WAIT_FOR_TRANSACTION
	other = worker;
	wait_for_transaction(other)
#else
	atomic { awaits[me] = worker; publish(worker); tell };
	do
	/* the nap is over: look at the lease */
	:: atomic { (stale[me] || !napped) && lease[worker] == CLAIMING -> stale[me] = false; napped = true; tell }
	:: atomic { lease[worker] != CLAIMING -> stop_waiting(); break }
#ifdef FAULT_OWN_EDGE_IS_OLD
	:: atomic { news[me] && !failed -> look_for_circle() }
#else
	:: atomic { news[me] && !failed && lease[worker] == CLAIMING -> look_for_circle() }
#endif
	:: over && !failed -> failed = true
	:: failed -> break
	od
#endif
}

inline stop_waiting()
{
	awaits[me] = NONE;
	published[me] = NONE;
	stale[me] = false;
	found = false;
	napped = true;
	tell
}

/* COMMIT or ROLLBACK: the leases end first, then the locks are released. */
inline end_transaction()
{
	atomic {
		stop_waiting();
		if
		:: is_worker(me) && (lease[me] == CLAIMING || lease[me] == CLAIMED) -> lease[me] = FREE
		:: else
		fi;
		if
		:: lease[0] == CHANGED && changer[0] == me -> lease[0] = FREE
		:: else
		fi;
		if
		:: lease[JOBS - 1] == CHANGED && changer[JOBS - 1] == me -> lease[JOBS - 1] = FREE
		:: else
		fi
	}
	atomic {
		open[me] = false;
		waits_for[me] = NONE;
		gives_up[me] = false;
		tell
	}
}

#define LOCALS \
	byte to, hops, greatest, other; \
	bool failed, found, circle, napped = true

proctype session(byte me)
{
	LOCALS;
	byte worker, left = ACTIONS;
	if
	/* a worker makes a claim */
	:: is_worker(me) ->
		if
		:: atomic { lease[me] == FREE -> lease[me] = CLAIMING }
			if
			/* wait for a segment that a changer has locked */
			:: other = WORKERS; wait_for_transaction(other)
			:: other = SESSIONS - 1; wait_for_transaction(other)
			:: skip
			fi;
			if
			:: failed
			:: atomic { !failed -> lease[me] = CLAIMED; tell } /* it has decided, and the call returns */
			fi
		:: lease[me] != FREE
		fi;
		/* the transaction goes on after the claim */
		if
		:: failed
		:: !failed -> goto idle /* the transaction never ends */
		:: !failed -> other = WORKERS; wait_for_transaction(other)
		:: !failed -> other = SESSIONS - 1; wait_for_transaction(other)
		:: !failed
		fi
	:: !is_worker(me) ->
		do
		:: left > 0 && !failed ->
			left--;
			if
			/* pgq_cancel of one of the two jobs */
			:: worker = 0
			:: worker = JOBS - 1
			fi;
			do
			:: atomic { lease[worker] == FREE -> lease[worker] = CHANGED; changer[worker] = me } break
			:: lease[worker] == CLAIMED -> break /* 'leased' */
			:: atomic { lease[worker] == CHANGED && changer[worker] == me } break
			:: atomic { lease[worker] == CHANGED && changer[worker] != me -> other = changer[worker] }
				wait_for_transaction(other);
				if
				:: failed -> break
				:: else
				fi
			:: lease[worker] == CLAIMING -> wait_for_claim();
				if
				:: failed -> break
				:: else
				fi
			od
		:: left == 0 || failed -> break
		od;
		if
		:: !failed -> goto idle /* the transaction never ends */
		:: true
		fi
	fi;
	end_transaction();
idle:
	other = 0
}

/* Checks at the end: a session that still waits does so for a session whose transaction never ends. */
proctype monitor()
{
	byte s, to, hops, greatest;
	timeout ->
	d_step {
		for (s : 0 .. SESSIONS - 1) {
			assert(is_worker(s) || waits_for[s] == NONE || !is_worker(waits_for[s]));
			assert(awaits[s] == NONE || lease[awaits[s]] == CLAIMING);
			follow(s, in_truth);
			assert(to != s)
		}
		over = true
	}
}

init
{
	byte s;
	atomic {
		for (s : 0 .. SESSIONS - 1) {
			open[s] = true;
			waits_for[s] = NONE;
			awaits[s] = NONE;
			published[s] = NONE;
			run session(s)
		}
		for (s : 0 .. JOBS - 1) {
			lease[s] = FREE
		}
		run monitor()
	}
}
