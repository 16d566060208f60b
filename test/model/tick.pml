/*
 * The ticks of one schedule (docs/protocol.md: tick-is-one-transaction, ticks-stand-their-ground): two schedulers, one
 * after the other or both at once, a user who says the same schedule again, crashes, a clock that is set forward for a
 * while. Every tick has one job, none before its time, and none is left out.
 *
 * Hours are ticks. What is written is in `next` and `fired`; what a process has read is its own.
 */
#ifndef HOURS
#define HOURS 4
#endif
#ifndef CRASHES
#define CRASHES 1
#endif

byte hour = 1;          /* that it is */
byte ahead = 0;         /* how far the clock was set forward */
bool distrusted = false; /* for so long no schedule fires */
bool jumped = false;
byte next = 1;          /* durable */
byte fired[HOURS + 4];
byte crashes = 0;
byte locked = 0;        /* whose transaction has locked the row */

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

/* A scheduler, which is started again if it dies. */
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

/* An application that starts, and says what it wants. */
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
	/* An hour passes; a clock that has been right for so long is believed. */
	:: atomic { hour < HOURS -> hour++; if :: ahead == 0 -> distrusted = false :: else fi }
	/* It is set forward, and back before an hour has passed. */
	:: atomic { !jumped -> jumped = true; ahead = 2; distrusted = true };
		atomic { ahead = 0 }
	:: atomic { hour == HOURS && ahead == 0 -> distrusted = false; break }
	od
}

init
{
	atomic { run scheduler(1); run scheduler(2); run user(); run time() }
	/* When nothing happens any more, all have come. */
	timeout;
	byte t;
	for (t : 1 .. HOURS) { assert(fired[t] == 1) }
}
