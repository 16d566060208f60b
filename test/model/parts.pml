/*
 * Model of waiting jobs, counted by the second in which they become due (engine/count.h, core/due_seconds.h). Jobs
 * that are due later are one number, `beyond`, and parts of them are read by the second while transactions add more.
 * Seconds are 1 to PARTS + 1, and a part is one second. A job becomes visible in one step, and the callback comes at
 * any later time. Shown: at the end each number equals the number of jobs, or it is known that all must be counted
 * anew.
 */
#ifndef TRANSACTIONS
#define TRANSACTIONS 3
#endif
#ifndef PARTS
#define PARTS 2
#endif
#define IDLE 0
#define LOGGING 1
#define READING 2

byte state = IDLE;
byte known; /* number of parts that were read */
short beyond;
short second[PARTS + 2];
byte due[TRANSACTIONS]; /* second in which the transaction's job becomes due */
bool visible[TRANSACTIONS];
bool seen[TRANSACTIONS]; /* the snapshot of the last part, or of the part that is being read, sees the transaction */
bool seen_before[TRANSACTIONS]; /* the snapshot of the part before sees the transaction */
bool logged[TRANSACTIONS];
bool forgotten;
byte gone;
bool all_read;

inline add_by_value(t)
{
	if
	:: due[t] <= known -> second[due[t]]++
	:: else -> beyond++
	fi
}

inline add_due(t)
{
	if
#ifndef FAULT_OLDER_IS_PLACED
	:: seen_before[t] -> forgotten = true
#endif
	:: else ->
		if
		:: seen[t] && state != READING && due[t] == known ->
#ifdef FAULT_SEEN_COUNTS_IN_PART
			second[due[t]]++
#elif defined(FAULT_SEEN_IS_DROPPED)
			skip
#else
			beyond++
#endif
		:: else ->
			add_by_value(t);
			if
#ifndef FAULT_PART_NOT_LOGGED
			:: state == LOGGING -> logged[t] = true
#endif
			:: state == READING && !seen[t] && due[t] == known + 1 -> second[due[t]]++
			:: else
			fi
		fi
	fi
}

proctype transaction(byte t)
{
	atomic { /* commit */
		if
		:: due[t] = 1
		:: due[t] = 2
		:: due[t] = PARTS + 1
		fi;
		visible[t] = true
	};
	atomic { add_due(t); gone++ }
}

proctype reader()
{
	byte i, n;
	bool sees[TRANSACTIONS];
	do
	:: known < PARTS ->
		atomic {
			state = LOGGING;
			second[known + 1] = 0;
			for (i : 0 .. TRANSACTIONS - 1) { logged[i] = false }
			i = 0
		};
		atomic {
			for (i : 0 .. TRANSACTIONS - 1) {
				sees[i] = visible[i];
				n = n + (visible[i] && due[i] == known + 1 -> 1 : 0)
			}
			i = 0
		};
		atomic {
			state = READING;
			for (i : 0 .. TRANSACTIONS - 1) {
				seen_before[i] = seen[i];
				seen[i] = sees[i];
				if
				:: logged[i] && !seen[i] && due[i] == known + 1 -> second[known + 1]++
				:: else
				fi
			}
			i = 0
		};
		atomic {
			known++;
			second[known] = second[known] + n;
			beyond = beyond - second[known];
			n = 0;
			state = IDLE
		}
	:: known == PARTS -> break
	od;
	all_read = true
}

init
{
	byte t, there, part;
	atomic {
		run reader();
		for (t : 0 .. TRANSACTIONS - 1) { run transaction(t) }
	};
	atomic {
		gone == TRANSACTIONS && all_read;
		for (part : 1 .. PARTS + 1) {
			there = 0;
			for (t : 0 .. TRANSACTIONS - 1) { there = there + (due[t] == part -> 1 : 0) }
			assert(forgotten || (part <= PARTS -> second[part] : beyond) == there)
		}
	}
}
