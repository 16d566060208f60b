/*
 * Model of a named lock with one slot (engine/named/named_lock.h, sync/lock.cpp). Sessions take it, rely on it and give it
 * back, in transactions that are committed, rolled back, or prepared first. Its time may be over at any moment. A
 * crash leaves rows and prepared transactions. A step is one hold of the locks lock, one look at a tag, or the moment
 * at which a commit becomes visible.
 *
 * Shown: a transaction that has relied on a grant is never committed after another session has got the lock, and no
 * token is current once a later one was.
 */
#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef ACTIONS
#define ACTIONS 2
#endif
#define TOKENS (SESSIONS * ACTIONS + 1)
#define NOBODY 0

/* Memory: the token of the grant; 0: there is none. */
byte held;
bool bound; /* the grant is bound to its session, so it has no row */
bool over; /* the time of the grant is over */
bool unlocking;
byte changer; /* the session that has changed the entry, plus 1 */

byte row; /* the committed row */
byte shares[TOKENS], exclusive[TOKENS]; /* the tags of grants */

byte drawn; /* the last token drawn */
byte effective; /* the last token whose taking was committed */
byte epoch; /* number of crashes */
byte gone;

/* The changes of a prepared transaction, which outlive a crash. */
byte prepared_changer, prepared_token;
bool prepared_unlock;
byte prepared_shares[TOKENS], prepared_exclusive[TOKENS];

#define alive (epoch == born || prepared)
#define step(what) if :: atomic { alive -> what } :: !alive -> goto next fi
#define step_when(free, what) if :: atomic { alive && (free) -> what } :: !alive -> goto next fi

/* Possibly prepare a transaction that has changed the entry, or relies on it. */
inline maybe_prepare(change, unlock, token, share)
{
	if
	:: skip
#ifdef PREPARES
	:: !bound && !was_bound && epoch == born ->
		prepared = true;
		prepared_changer = (change -> me : prepared_changer);
		prepared_token = (change && !unlock -> token : prepared_token);
		prepared_unlock = (change && unlock -> true : prepared_unlock);
		prepared_shares[token] = prepared_shares[token] + share;
		prepared_exclusive[token] = prepared_exclusive[token] + (unlock -> 1 : 0)
#endif
	fi
}

/* After this commit, a crash finds nothing prepared. */
inline commit_prepared()
{
	commit = true;
	if
	:: prepared -> prepared_changer = NOBODY; prepared_token = 0; prepared_unlock = false
	:: else
	fi
}

inline end_prepared(change, token, share, excl)
{
	if
	:: prepared ->
		prepared_changer = (change -> NOBODY : prepared_changer);
		prepared_token = (change -> 0 : prepared_token);
		prepared_unlock = (change -> false : prepared_unlock);
		prepared_shares[token] = prepared_shares[token] - share;
		prepared_exclusive[token] = prepared_exclusive[token] - excl;
		prepared = false;
		born = epoch
	:: else
	fi
}

/* take_lock(): the lock is free, or has the given grant, whose time is over. */
inline take(unused)
{
	before = held;
	was_bound = bound;
	mine = 0;
	if
	:: changer == NOBODY && (held == 0 || (over && held == unused)) ->
		drawn++;
		mine = drawn;
		held = mine;
		over = false;
		changer = me;
#ifdef BOUND
		if
		:: bound = true
		:: bound = false
		fi
#else
		bound = false
#endif
	:: else
	fi
}

proctype session(byte me)
{
	byte left = ACTIONS, born, token, mine, before;
	bool prepared, was_bound, my_bound, current, commit;
	do
	:: left > 0 ->
		atomic { left--; born = epoch };
		if
		:: /* pgq_lock */
			step(token = 0; take(0); token = (mine == 0 && over && changer == NOBODY -> held : 0));
			if
			:: mine == 0 && token != 0 ->
#ifdef FAULT_TAG_NOT_ASKED
				step(take(token));
#else
				/* lock the tag without waiting */
				step(if
					:: shares[token] == 0 && exclusive[token] == 0 -> exclusive[token] = 1
					:: else -> token = 0
					fi);
				if
				:: token != 0 -> step(take(token); exclusive[token] = 0)
				:: else
				fi;
#endif
			:: else
			fi;
			if
			:: mine == 0 -> goto next
			:: else
			fi;
			/* pgq_lock() has returned: the row is written, but others do not see it yet */
			step(my_bound = bound; maybe_prepare(true, false, mine, 0));
			if
			:: step(commit_prepared();
#ifdef FAULT_ROW_LEFT
					row = (my_bound -> row : mine);
#else
					row = (my_bound -> 0 : mine);
#endif
					effective = mine)
			:: commit = false
			fi;
			step(if
				:: held != mine
				:: held == mine && commit -> changer = NOBODY
				:: held == mine && !commit -> held = before; bound = was_bound; over = true; changer = NOBODY
				fi;
				end_prepared(true, mine, 0, 0))
		:: /* pgq_assert_lock, or pgq_extend_lock */
			step(select (token : 1 .. TOKENS - 1));
#ifdef FAULT_LOOK_BEFORE_TAG
			step(current = (held == token && !unlocking && !over && changer == NOBODY));
			step_when(exclusive[token] == 0, shares[token]++);
#else
			step_when(exclusive[token] == 0, shares[token]++);
			step(current = (held == token && !unlocking && !over && changer == NOBODY));
#endif
			if
			:: current ->
				step(assert(token >= effective); was_bound = false; maybe_prepare(false, false, token, 1));
				if
				:: step(assert(held == token))
				:: skip
				fi
			:: else
			fi;
			step(shares[token]--; end_prepared(false, token, 1, 0))
		:: /* pgq_unlock */
			step(select (token : 1 .. TOKENS - 1));
			step_when(shares[token] == 0 && exclusive[token] == 0, exclusive[token] = 1);
			step(current = (held == token && !unlocking && !over && changer == NOBODY);
				if
				:: current -> unlocking = true; changer = me; my_bound = bound
				:: else
				fi);
			if
			:: current ->
				step(was_bound = my_bound; maybe_prepare(true, true, token, 0));
#ifdef FAULT_FREED_AT_ONCE
				step(held = 0; unlocking = false; changer = NOBODY);
#endif
				if
				:: step(commit_prepared(); row = (my_bound -> row : 0))
				:: commit = false
				fi;
				step(if
					:: held != token
					:: held == token && commit -> held = 0; bound = false; unlocking = false; changer = NOBODY
					:: held == token && !commit -> unlocking = false; changer = NOBODY
					fi;
					end_prepared(true, token, 0, 1))
			:: else
			fi;
			step(exclusive[token] = 0)
		fi;
next:
		atomic {
			prepared = false; was_bound = false; my_bound = false; current = false; commit = false;
			token = 0; mine = 0; before = 0; born = 0
		}
	:: left == 0 -> break
	od;
	gone++
}

/* The time of the grant may be over at any moment, even while a session uses it. That alone ends nothing. */
proctype time()
{
	do
	:: atomic { held != 0 && !over -> over = true }
	:: gone == SESSIONS -> break
	od
}

/* load(): rows, and the changes that prepared transactions have made to them. */
proctype server()
{
	byte i;
#ifdef CRASH
	atomic {
		epoch++;
		held = row;
		bound = false;
		over = false;
		unlocking = false;
		changer = NOBODY;
#ifndef FAULT_PREPARED_FORGOTTEN
		changer = prepared_changer;
		held = (prepared_token != 0 -> prepared_token : row);
		unlocking = prepared_unlock;
#endif
		for (i : 0 .. TOKENS - 1) {
#ifdef FAULT_PREPARED_TAG_FORGOTTEN
			shares[i] = 0;
#else
			shares[i] = prepared_shares[i];
#endif
			exclusive[i] = prepared_exclusive[i]
		}
		i = 0
	}
#endif
	skip
}

init
{
	byte i;
	atomic {
		for (i : 1 .. SESSIONS) { run session(i) }
		run time();
		run server()
	};
	atomic {
		gone == SESSIONS;
		assert(changer == NOBODY && !unlocking);
		assert(bound || held == row)
	}
}
