/*
 * Model of the ticks of one schedule (docs/protocol.md: tick-is-one-transaction, ticks-stand-their-ground). There are
 * two schedulers, one after the other or both at once, a user who repeats the same schedule, crashes, and a clock
 * that is set forward for a while. Shown: every tick has one job, no job comes before its time, and no tick is left
 * out.
 *
 * Hours are ticks. Durable data is in `next` and `fired`; data that a process has read is local to it.
 */
#ifndef HOURS
#define HOURS 4
#endif
#ifndef CRASHES
#define CRASHES 1
#endif

byte hour = 1;          /* the true time */
byte ahead = 0;         /* by how much the clock was set forward */
bool distrusted = false; /* the clock is not trusted, so no schedule fires */
bool jumped = false;
byte next = 1;          /* durable: the next tick to fire */
byte fired[HOURS + 4];
byte crashes = 0;
byte locked = 0;        /* the process whose transaction has locked the row */

#define wall (hour + ahead)
#ifdef FAULT_ANY_CLOCK
#define trusted true
#else
#define trusted (!distrusted)
#endif

inline fire(tick)
{
	fired[tick]++;
	assert(fired[tick] == 1); /* once */
	assert(tick <= hour);     /* not before its time */
}

/* A scheduler, which is started again after a crash. */
proctype scheduler(byte me)
{
	byte tick;
end:
	do
	:: atomic { (locked == 0 && next <= wall && next <= HOURS && trusted) -> locked = me; tick = next }
#ifdef FAULT_IN_TWO
		atomic { fire(tick) }
		if
		:: atomic { crashes < CRASHES -> crashes++; locked = 0; goto end }
		:: true
		fi;
		atomic { next = tick + 1; locked = 0 }
#else
		if
		:: atomic { crashes < CRASHES -> crashes++; locked = 0 } /* nothing is committed */
		:: atomic { fire(tick); next = tick + 1; locked = 0 }
		fi
#endif
	od
}

/* An application that starts and makes the schedule again. */
proctype user()
{
	byte starts = 2;
	do
	:: starts > 0 ->
		atomic { locked == 0 -> starts--;
#ifdef FAULT_UPSERT_BEGINS_ANEW
			next = wall + 1;
#endif
		}
	:: starts == 0 -> break
	od
}

proctype time()
{
	do
	/* An hour passes. If the clock was right during that hour, it is trusted again. */
	:: atomic { hour < HOURS -> hour++; if :: ahead == 0 -> distrusted = false :: else fi }
	/* The clock is set forward, and back before an hour has passed. */
	:: atomic { !jumped -> jumped = true; ahead = 2; distrusted = true };
		atomic { ahead = 0 }
	:: atomic { hour == HOURS && ahead == 0 -> distrusted = false; break }
	od
}

init
{
	atomic { run scheduler(1); run scheduler(2); run user(); run time() }
	/* At the end, all ticks must have fired. */
	timeout;
	byte t;
	for (t : 1 .. HOURS) { assert(fired[t] == 1) }
}
