/*
 * Model of turns at a waiting job that has a unique key (enqueue/key_owner.cpp, take_waiting() in steps/waiting.cpp).
 * Requests come again and again. Each holds the job until its transaction ends, so there may never be a moment
 * without a holder. One session changes the job, by its id or by its key. A worker claims it. A step is all that
 * happens under one lock.
 *
 * Shown: a session with the turn is overtaken only by the one request that had looked before. A job that claims have
 * wanted for long gets no new holder before a claim could take it. Every process comes to an end.
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef CLAIMS
#define CLAIMS 2
#endif
#define REQUESTS 2
#define CHANGER REQUESTS
#define SESSIONS (REQUESTS + 1)
#define NONE 255

/* The lease. */
mtype = { FREE, HELD, CHANGED, CLAIMED };
mtype lease = FREE;
bool holder[SESSIONS];
byte changer = NONE;
mtype = { NO, NOW, LONG };
mtype wanted = NO; /* wanted by claims */

byte key_lock = NONE;

/* The turn, a heavyweight lock. Sessions that wait for it are served in the order in which they came. */
byte turn = NONE;
chan line = [SESSIONS] of { byte };
bool exclusive[SESSIONS]; /* lock mode for which a session in the line waits */
byte exclusives;          /* number of such sessions in the line */

bool claim_waits;
bool starved;   /* wanted for long, and no claim could take the job since */
bool has_turn;  /* the changer has the turn */
byte overtakes; /* number of holders that came since then */

#define is_in_turn(s) (turn == s || (turn == NONE && exclusives == 0))
#define nobody_holds (!holder[0] && !holder[1] && !holder[SESSIONS - 1])
#define others_hold(s) ((s != 0 && holder[0]) || (s != 1 && holder[1]) || (s != SESSIONS - 1 && holder[SESSIONS - 1]))

/* lock_turn() with wait: join the line, then get the lock; in share mode release it at once. */
inline wait_for_turn(excl)
{
	atomic {
		exclusive[me] = excl;
		exclusives = exclusives + excl;
		line!me
	}
	atomic {
		turn == NONE && line?[eval(me)] ->
		line?eval(me);
		exclusives = exclusives - exclusive[me];
		turn = (exclusive[me] -> me : turn);
		has_turn = has_turn || turn == CHANGER;
		exclusive[me] = false
	}
}

inline unlock_turn()
{
	turn = (turn == me -> NONE : turn)
}

inline unlock_key()
{
	key_lock = (key_lock == me -> NONE : key_lock)
}

/* The commit callback. The last holder gives the lease back, and files its hint. */
inline end_transaction()
{
	atomic {
		holder[me] = false;
		if
		:: lease == CHANGED && changer == me -> lease = FREE; changer = NONE
		:: lease == HELD && nobody_holds ->
			lease = FREE;
			wanted = NO;
			/* No session has asked to become a holder since, so claims get a chance anyway. */
			starved = starved && turn != NONE && turn != CHANGER
		:: else
		fi
	}
}

inline hold()
{
	assert(!starved);
	overtakes = overtakes + has_turn;
	assert(overtakes <= 1);
	lease = HELD;
	holder[me] = true
}

/* enqueue_keyed() with unique_until 'finished': repeat until the job is held, or is in work. */
inline ask()
{
	do
	:: atomic { key_lock == NONE -> key_lock = me };
		/* is_left_to_claims() */
		if
		:: atomic { starves && lease == FREE -> unlock_key() }
#ifndef FAULT_NO_GAP
			!claim_waits || lease != FREE; /* for a while */
			starved = false;
#endif
			starves = false;
			goto next
		:: else
		fi;
#ifndef FAULT_NO_TURN
#ifdef FAULT_HOLDER_PASSES
		passes = !is_in_turn(me);
#else
		passes = !is_in_turn(me) && !holder[me];
#endif
#endif
		if
		:: passes ->
#ifdef FAULT_WAIT_UNDER_KEY
			wait_for_turn(false);
			unlock_key();
#else
			unlock_key();
			wait_for_turn(false);
#endif
			passes = false;
			goto next
		:: else
		fi;
		/* take_hold() */
		if
		:: atomic { lease == CLAIMED -> unlock_key(); break }
		:: atomic { lease == CHANGED -> unlock_key() }
			lease != CHANGED
#ifdef FAULT_GAP_BY_AN_OLD_LOOK
		:: atomic { lease == FREE || (lease == HELD && (holder[me] || wanted != LONG)) ->
#else
		:: atomic { lease == FREE && starves -> unlock_key() } /* the holders have just ended */
		:: atomic { (lease == FREE && !starves) || (lease == HELD && (holder[me] || wanted != LONG)) ->
#endif
				if
				:: !holder[me] -> hold()
				:: else
				fi;
				unlock_key();
				break }
#ifdef FAULT_JOIN_WANTED
		:: atomic { lease == HELD && !holder[me] && wanted == LONG -> hold(); unlock_key(); break }
#else
		:: atomic { lease == HELD && !holder[me] && wanted == LONG -> starves = true; unlock_key() }
			if
			:: turn != me -> wait_for_turn(true)
			:: turn == me -> !others_hold(me)
			fi
#endif
		fi;
next:
		skip
	od;
	/* end_search() */
	atomic { unlock_turn(); starves = false }
}

proctype request(byte me)
{
	bool passes, starves, again;
	byte left = ROUNDS;
	do
	:: left > 0 ->
		left--;
		ask();
		if
		:: holder[me] && !again -> again = true; left++ /* the same transaction meets it once more */
		:: atomic { again = false } end_transaction()
		fi
	:: left == 0 -> break
	od
}

/* Wait for one of the holders, having the turn. */
inline wait_for_holder()
{
#ifdef FAULT_NO_TURN
	has_turn = true;
#else
	if
	:: turn != me -> wait_for_turn(true)
	:: turn == me
	fi;
#endif
	if
	:: holder[0] -> !holder[0]
	:: holder[1] -> !holder[1]
	:: !others_hold(me)
	fi
}

#ifdef BY_KEY
/* on_conflict => 'replace' */
inline change()
{
	do
	:: atomic { key_lock == NONE -> key_lock = me };
		if
		:: atomic { !is_in_turn(me) -> unlock_key() }
			wait_for_turn(false)
		:: atomic { is_in_turn(me) && lease == CLAIMED -> unlock_key(); break }
		:: atomic { is_in_turn(me) && lease == FREE -> lease = CHANGED; changer = me; unlock_key(); break }
		:: atomic { is_in_turn(me) && lease == HELD -> unlock_key() }
			wait_for_holder()
		fi
	od
}
#else
/* pgq_cancel, pgq_update, pgq_retry */
inline change()
{
	do
	:: lease == CLAIMED -> break
	:: atomic { lease == FREE -> lease = CHANGED; changer = me; break }
	:: lease == HELD -> wait_for_holder()
	od
}
#endif

proctype session(byte me)
{
	change();
	atomic { unlock_turn(); has_turn = false; overtakes = 0 }
	end_transaction()
}

/* A claim that waits for a while. */
proctype worker()
{
	byte left = CLAIMS;
	do
	:: left > 0 ->
		left--;
		claim_waits = true;
		do
		:: atomic { lease == FREE -> lease = CLAIMED; claim_waits = false; starved = false; break }
		:: atomic { lease == HELD && wanted == NO -> wanted = NOW }
		:: atomic { lease != FREE -> claim_waits = false; starved = false; break } /* the claim's time is over */
		od;
		if
		:: atomic { lease == CLAIMED -> lease = FREE } /* released */
		:: lease != CLAIMED
		fi
	:: left == 0 -> break
	od
}

proctype time()
{
end:
	do
	:: atomic { wanted == NOW && claim_waits -> wanted = LONG; starved = true }
	od
}

init
{
	atomic {
		run request(0);
		run request(1);
		run session(CHANGER);
		run worker();
		run time()
	}
}
