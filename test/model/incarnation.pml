/*
 * Model of the slots of incarnations of the extension (catalog/incarnation.cpp, engine/database_slots.cpp). An
 * administrator drops and creates the extension, in transactions that are committed or rolled back. Users take named
 * locks in memory. Several processes free the slots of incarnations that are gone. With LAUNCHER, an incarnation
 * stands for a database, which is created or dropped in one step, and the launcher looks for databases that are gone.
 *
 * Shown: a slot is freed only if its incarnation is certainly gone, and at the end no slot of such an incarnation is
 * left.
 */
#ifndef INCARNATIONS
#define INCARNATIONS 3
#endif
#define SLOTS 2
#ifndef USES
#define USES 1
#endif
#ifndef CLEANERS
#define CLEANERS 1
#endif
#define NONE 255
#define ADMIN 1
#define NOBODY 0

/* The table pgq_ext.queue of an incarnation, and the locks on it. */
mtype = { NEVER, MAKING, THERE, DROPPING, GONE };
mtype row[INCARNATIONS];
byte exclusive[INCARNATIONS]; /* the process that creates or drops it */
byte shared[INCARNATIONS];
byte current = 0; /* the committed incarnation */
byte made = 1;

/* Memory. */
mtype = { FREE, USED, DYING };
mtype slot[SLOTS];
byte incarnation[SLOTS];
byte generation[SLOTS];
bool locked[INCARNATIONS]; /* the incarnation has an entry of a named lock */
byte running;

#define is_gone(i) (row[i] == GONE)
#define is_visible(i) (row[i] == THERE || row[i] == DROPPING)

/* *s: the slot of that incarnation, which is attached now if it was not; NONE: all slots are in use. */
inline attach(i, s)
{
	s = NONE;
	if
	:: slot[0] == USED && incarnation[0] == i -> s = 0
	:: slot[1] == USED && incarnation[1] == i -> s = 1
	:: else ->
		if
		:: slot[0] == FREE -> s = 0
		:: slot[0] != FREE && slot[1] == FREE -> s = 1
		:: else
		fi;
		if
		:: s != NONE -> slot[s] = USED; incarnation[s] = i; generation[s]++
		:: else
		fi
	fi
}

/* free_database() */
inline free(s, noted)
{
	atomic {
		mine = false;
		if
#ifdef FAULT_GENERATION_NOT_COMPARED
		:: slot[s] == USED ->
#else
		:: slot[s] == USED && generation[s] == noted ->
#endif
			assert(is_gone(incarnation[s]));
			slot[s] = DYING;
			generation[s]++;
			mine = true
		:: else
		fi
	}
	if
	:: mine ->
		atomic { locked[incarnation[s]] = false }
		atomic { slot[s] = FREE }
	:: else
	fi
}

/* free_gone_incarnations(), for one slot */
inline free_if_gone(s)
{
#ifdef LAUNCHER
	gone = noted[s] != NONE && !seen[id[s]];
#else
	gone = false;
#ifdef FAULT_LOOK_BEFORE_LOCK
	seen_there = noted[s] != NONE && is_visible(id[s]);
#endif
	if
#ifdef FAULT_LOOK_UNLOCKED
	:: atomic { noted[s] != NONE -> gone = (me == ADMIN -> row[id[s]] != THERE && row[id[s]] != MAKING : !is_visible(id[s])) }
#else
#ifdef FAULT_OWN_LOCK_NOT_ASKED
	:: atomic { noted[s] != NONE && (exclusive[id[s]] == NOBODY || exclusive[id[s]] == me) ->
#else
	:: atomic { noted[s] != NONE && exclusive[id[s]] == NOBODY ->
#endif
			shared[id[s]]++ };
		atomic {
#ifdef FAULT_LOOK_BEFORE_LOCK
			gone = !seen_there;
#else
			gone = (me == ADMIN -> row[id[s]] != THERE && row[id[s]] != MAKING : !is_visible(id[s]));
#endif
			shared[id[s]]--
		}
#endif
	:: else
	fi;
#endif
	if
	:: gone -> free(s, noted[s])
	:: else
	fi
}

/* note_slots(), in one hold */
inline note_slot(s)
{
	noted[s] = (slot[s] == USED -> generation[s] : NONE);
	id[s] = (slot[s] == USED -> incarnation[s] : 0)
}

inline note_slots()
{
	d_step { note_slot(0); note_slot(1) }
}

#ifdef LAUNCHER
inline look_at_databases()
{
	d_step {
		seen[0] = is_visible(0);
		seen[1] = is_visible(1);
		seen[INCARNATIONS - 1] = is_visible(INCARNATIONS - 1)
	}
}
#endif

inline free_gone()
{
#ifdef LAUNCHER
#ifdef FAULT_LOOK_BEFORE_NOTE
	look_at_databases();
	note_slots();
#else
	note_slots();
	look_at_databases();
#endif
#else
	note_slots();
#endif
	free_if_gone(0);
	free_if_gone(1);
	d_step { noted[0] = NONE; noted[1] = NONE; id[0] = 0; id[1] = 0; gone = false; mine = false }
}

#define LOCALS \
	byte noted[SLOTS], id[SLOTS]; \
	bool gone, mine, seen_there, seen[INCARNATIONS]

/* Schedulers, the launcher, and sessions that find all slots taken. */
proctype cleaner(byte me)
{
	LOCALS;
	free_gone();
	running--
}

#ifdef LAUNCHER
/*
 * Creates and drops databases. (The rule that no session is connected to a dropped database is left out; users just
 * take the incarnation that they find.)
 */
proctype admin(byte me)
{
	do
	:: atomic { current != NONE -> row[current] = GONE; current = NONE }
	:: atomic { current == NONE && made < INCARNATIONS -> row[made] = THERE; current = made; made++ }
	:: made == INCARNATIONS -> break
	od;
	running--
}
#else
proctype admin(byte me)
{
	LOCALS;
	byte old = NONE, new = NONE, s, left = 2;
	do
	:: left > 0 ->
		left--;
		if
		/* DROP EXTENSION */
		:: atomic { current != NONE && shared[current] == 0 ->
				old = current;
				exclusive[old] = me;
				row[old] = DROPPING }
		:: skip
		fi;
		if
		/* CREATE EXTENSION, and a first use of it */
		:: atomic { (current == NONE || old != NONE) && made < INCARNATIONS ->
				new = made;
				made++;
				exclusive[new] = me;
				row[new] = MAKING }
			atomic { attach(new, s); s = 0 }
		:: skip
		fi;
		if
#if CLEANERS == 1
		:: free_gone() /* the session has found all slots taken */
#endif
		:: skip
		fi;
		if
		/* COMMIT or ROLLBACK: first it becomes visible, then the locks are released */
		:: atomic { true ->
				if
				:: old != NONE -> row[old] = GONE; current = NONE
				:: else
				fi;
				if
				:: new != NONE -> row[new] = THERE; current = new
				:: else
				fi }
		:: atomic { true ->
				if
				:: old != NONE -> row[old] = THERE
				:: else
				fi;
				if
				:: new != NONE -> row[new] = GONE
				:: else
				fi }
		fi;
		atomic {
			if
			:: old != NONE -> exclusive[old] = NOBODY
			:: else
			fi;
			if
			:: new != NONE -> exclusive[new] = NOBODY
			:: else
			fi;
			old = NONE;
			new = NONE
		}
	:: left == 0 -> break
	od;
	running--
}
#endif

/* Find the committed incarnation, when no process is changing it; and its slot, with the generation. */
inline find_incarnation()
{
	s = NONE;
	if
	:: current != NONE && exclusive[current] == NOBODY ->
		key = current;
		attach(current, s);
		noted = (s != NONE -> generation[s] : 0)
	:: else
	fi
}

/* Takes named locks, each after some wait. */
proctype user()
{
	byte s, key = NONE, noted, left = USES;
#ifdef FAULT_KEY_BEFORE_WAIT
	byte before;
#endif
	do
	:: left > 0 ->
		left--;
#ifdef FAULT_KEY_BEFORE_WAIT
		atomic { find_incarnation(); before = key }
#endif
again:
		atomic { find_incarnation() }
#ifdef FAULT_KEY_BEFORE_WAIT
		key = before;
#endif
		/* under the locks lock */
		if
#ifdef FAULT_GENERATION_NOT_ASKED
		:: atomic { s != NONE -> locked[key] = true }
#else
		:: atomic { s != NONE && generation[s] == noted -> locked[key] = true }
		:: s != NONE && generation[s] != noted -> goto again
#endif
		:: s == NONE -> skip
		fi;
		atomic { s = 0; key = NONE; noted = 0 }
	:: left == 0 -> break
	od;
	running--
}

init
{
	LOCALS;
	byte me = NOBODY, i;
	atomic {
		row[0] = THERE;
		for (i : 1 .. INCARNATIONS - 1) {
			row[i] = NEVER
		}
		i = 0;
		slot[0] = USED;
		incarnation[0] = 0;
		slot[1] = FREE;
		locked[0] = true;
		running = 2 + CLEANERS;
		run admin(ADMIN);
		run cleaner(2);
#if CLEANERS > 1
		run cleaner(3);
#endif
		run user()
	}
	running == 0;
	/* A cleaner looks once more at the end. */
	free_gone();
	d_step {
		assert(slot[0] == FREE || row[incarnation[0]] == THERE);
		assert(slot[1] == FREE || row[incarnation[1]] == THERE);
		for (i : 0 .. INCARNATIONS - 1) {
			assert(!locked[i] || row[i] == THERE)
		}
	}
}
