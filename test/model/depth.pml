/*
 * Model of the depth of a queue (engine/count.h): transactions that end and enqueue jobs, room that they have
 * reserved, and counts of the table that begin at any time. Shown: the number of live jobs that other sessions see is
 * never more than LIMIT, and at the end the count equals the number of live jobs. A job becomes visible in one step,
 * and the callback comes at any later time.
 */
#ifndef TRANSACTIONS
#define TRANSACTIONS 3
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef COUNTS
#define COUNTS 2
#endif
#define UNKNOWN 0
#define LOGGING 1
#define COUNTING 2
#define KNOWN 3

byte state = UNKNOWN;
short rows; /* number of jobs according to the count */
byte reserved;
byte visible = ROWS; /* number of live jobs */
byte free = ROWS; /* number of live jobs that no transaction is ending */
bool ended[TRANSACTIONS]; /* the end of the transaction is visible */
bool seen[TRANSACTIONS]; /* the snapshot of the count sees the transaction */
bool logged[TRANSACTIONS];
short log_rows[TRANSACTIONS];
byte gone; /* number of transactions that have ended */
bool counted;

inline forget()
{
	state = UNKNOWN
}

/* Change the count. The state is checked again, under the lock. */
inline count_rows(t, n)
{
	if
#ifndef FAULT_NOT_LOGGED
	:: state == LOGGING -> logged[t] = true; log_rows[t] = n
#endif
#ifdef FAULT_ALL_SINCE_BEGIN
	:: state >= COUNTING -> rows = rows + n
#elif defined(FAULT_SNAPSHOT_FORGOTTEN)
	:: state == KNOWN -> rows = rows + n
	:: state == COUNTING && !seen[t] -> rows = rows + n
#else
	:: state >= COUNTING && !seen[t] -> rows = rows + n
#endif
	:: else
	fi
}

/* Take room for one more job. A job that the transaction has ended itself makes room already. */
inline take_room()
{
	wanted = (done > taken -> 0 : 1);
	if
	:: state != KNOWN
	:: else ->
		if
		:: wanted == 0 || rows + reserved + wanted <= LIMIT ->
			in++;
			taken = taken + 1 - wanted;
#ifndef FAULT_NOT_RESERVED
			reserved = reserved + wanted;
			room = room + wanted
#endif
		:: else
		fi
	fi;
	wanted = 0
}

inline end_one()
{
	if
	:: free > 0 ->
		free--;
		done++;
#ifdef FAULT_FREED_AT_ONCE
		if
		:: state == KNOWN -> rows--; early++
		:: else
		fi
#endif
	:: else
	fi
}

proctype transaction(byte t)
{
	byte in; /* number of jobs that it enqueues */
	byte done; /* number of jobs that it ends */
	byte taken; /* number of jobs that it enqueues in place of those that it has ended */
	byte room, wanted, early;
	bool counts;

	if
	:: atomic { end_one() }
	:: skip
	fi;
	if
	:: atomic { take_room() }
	:: skip
	fi;
	if
	:: atomic { take_room() }
	:: skip
	fi;
#ifdef FAULT_LOOK_BEFORE_VISIBLE
	counts = state != UNKNOWN;
#endif
	if
	:: atomic { /* commit */
			visible = visible + in - done;
			free = free + in;
			ended[t] = true;
			assert(visible <= LIMIT)
		};
#ifndef FAULT_LOOK_BEFORE_VISIBLE
		counts = state != UNKNOWN;
#endif
		atomic {
			reserved = reserved - room;
			if
			:: room > 0 || counts -> count_rows(t, in - done + early)
			:: else
			fi
		}
	:: atomic { /* rollback */
			ended[t] = true;
			free = free + done;
			reserved = reserved - room;
			rows = rows + early
		}
	fi;
	atomic { in = 0; done = 0; taken = 0; room = 0; early = 0; counts = false; gone++ }
}

/* Begins a count, or forgets the last one. */
proctype counter()
{
	byte left = COUNTS, snapshot, i;
	bool sees[TRANSACTIONS];
	do
	:: left > 0 ->
		atomic {
			left--;
			state = LOGGING;
			rows = 0;
			for (i : 0 .. TRANSACTIONS - 1) { logged[i] = false; log_rows[i] = 0 }
			i = 0
		};
		atomic {
			snapshot = visible;
			for (i : 0 .. TRANSACTIONS - 1) { sees[i] = ended[i] }
			i = 0
		};
		atomic {
			state = COUNTING;
			for (i : 0 .. TRANSACTIONS - 1) {
				seen[i] = sees[i];
				if
#ifdef FAULT_ALL_SINCE_BEGIN
				:: logged[i] -> rows = rows + log_rows[i]
#else
				:: logged[i] && !seen[i] -> rows = rows + log_rows[i]
#endif
				:: else
				fi
			}
			i = 0
		};
		atomic { rows = rows + snapshot; state = KNOWN; snapshot = 0 }
	:: left > 0 -> atomic { left--; forget() }
	:: left == 0 -> break
	od;
	counted = true
}

init
{
	byte t;
	atomic {
		run counter();
		for (t : 0 .. TRANSACTIONS - 1) { run transaction(t) }
	};
	atomic {
		gone == TRANSACTIONS && counted;
		assert(reserved == 0);
		assert(state != KNOWN || rows == visible)
	}
}
