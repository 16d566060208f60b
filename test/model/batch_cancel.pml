/*
 * Model of the cancel of a batch (pgq_cancel_batch) with three members. Member 0 is just being enqueued, member 1
 * waits, and member 2 is in work. The cancel marks the batch, and the scheduler ends its members. Claims do not look at
 * batches, so a member may be handed out at any time. Workers use, ack and fail members, and undo this. They may also
 * stop forever. The scheduler or the server may die at any time.
 *
 * Each option of a loop is one step. A variable with the name of a process says where this process is.
 *
 * Shown: after the cancel no member stays, whether it waits or is in work, and the finish callback comes once, when all
 * have ended. The rules:
 * - cancelled-until-empty: the scheduler ends members that wait or are in work, until none is left. It waits for
 *   no transaction: a member that another transaction has in hand is skipped.
 * - skipped-comes-again (COMES_AGAIN): after a look that has skipped a member, the scheduler looks again later.
 * - hands-tell (without COMES_AGAIN): each transaction tells the scheduler when it lets go of a member of a cancelled
 *   batch: an enqueue, a claim, a use, a fail, an end that is undone.
 * One of the last two rules is enough. With the first one, claims, uses and enqueues need to know nothing of cancels.
 *
 * IN_CALL: the call itself ends the members that wait.
 */
#define MEMBERS 3
mtype = { NONE, INSERTING, WAITS, CLAIMING, WORK, USED, ENDING, CANCELLING, GONE };
mtype member[MEMBERS] = NONE;
bool cancelled; /* the mark of the batch is visible */
byte fired;
bool told;
bool later; /* the scheduler looks again */
byte hand_outs;
bool used;	  /* a member was used */
bool stopped; /* workers do nothing any more */

mtype = { BEFORE, OPEN, DONE, UNDONE, OVER };
mtype adder = BEFORE, canceller = BEFORE;
mtype acked[MEMBERS] = BEFORE; /* DONE: the callback of the ack has not come */
mtype = { IDLE, TAKEN, EXCLUSIVE };
mtype scheduler = IDLE;

inline tell() { told = true }

#ifdef COMES_AGAIN
#define tell_of_hand(rule) skip
#else
#define tell_of_hand(rule) told = told || (cancelled && rule)
#endif
#ifdef FAULT_ADD_TELLS_NOBODY
#define adds_tell false
#else
#define adds_tell true
#endif
#ifdef FAULT_CLAIM_TELLS_NOBODY
#define claims_tell false
#else
#define claims_tell true
#endif
#ifdef FAULT_USE_TELLS_NOBODY
#define uses_tell false
#else
#define uses_tell true
#endif
#ifdef FAULT_RETURN_TELLS_NOBODY
#define returns_tell false
#else
#define returns_tell true
#endif
#ifdef FAULT_UNDONE_END_TELLS_NOBODY
#define undone_ends_tell false
#else
#define undone_ends_tell true
#endif

/* An enqueue. The look at the batch and the insert are one step: the tag covers both. */
proctype adding()
{
end:
	do
	:: d_step {
			adder == BEFORE && scheduler != EXCLUSIVE ->
			if
			:: cancelled -> adder = OVER
			:: !cancelled -> member[0] = INSERTING; adder = OPEN
			fi
		}
	:: d_step { adder == OPEN -> assert(fired == 0); member[0] = WAITS; adder = DONE }
	:: d_step { adder == OPEN -> member[0] = GONE; adder = UNDONE }
	:: d_step { adder == DONE -> tell_of_hand(adds_tell); adder = OVER }
	:: d_step { adder == UNDONE -> tell(); adder = OVER }
	od
}

inline in_call(from, to)
{
#ifdef IN_CALL
	for (m : 0 .. MEMBERS - 1) {
		member[m] = (member[m] == from -> to : member[m])
	}
	m = 0
#else
	skip
#endif
}

/* pgq_cancel_batch */
proctype cancelling()
{
	byte m;
end:
	do
	:: d_step { canceller == BEFORE -> canceller = OPEN; in_call(WAITS, CANCELLING) }
	:: d_step { canceller == OPEN -> cancelled = true; canceller = DONE; in_call(CANCELLING, GONE) }
	:: d_step { canceller == OPEN -> canceller = BEFORE; in_call(CANCELLING, WAITS) }
	:: d_step { canceller == DONE -> tell(); canceller = OVER }
	od
}

proctype working(byte m)
{
end:
	do
	:: d_step { member[m] == WAITS && hand_outs < 2 && !stopped -> member[m] = CLAIMING; hand_outs++ }
	:: d_step { member[m] == CLAIMING -> member[m] = WORK; tell_of_hand(claims_tell) }
	:: d_step { member[m] == CLAIMING -> member[m] = WAITS; tell_of_hand(claims_tell) }
	/* pgq_progress and others */
	:: d_step { member[m] == WORK && !used && !stopped -> member[m] = USED; used = true }
	:: d_step { member[m] == USED -> member[m] = WORK; tell_of_hand(uses_tell) }
	/* ack or fail */
	:: d_step { member[m] == WORK && !stopped -> member[m] = ENDING }
	:: d_step { member[m] == ENDING -> member[m] = GONE; acked[m] = DONE }
	:: d_step { acked[m] == DONE -> acked[m] = OVER; tell() }
	:: d_step { member[m] == ENDING -> member[m] = WAITS; tell_of_hand(returns_tell) }
	:: d_step { member[m] == ENDING -> member[m] = WORK; tell_of_hand(undone_ends_tell) }
	:: d_step { !stopped -> stopped = true }
	od
}

#ifdef FAULT_IN_WORK_IS_LEFT
#define can_end(m) (member[m] == WAITS)
#else
#define can_end(m) (member[m] == WAITS || member[m] == WORK)
#endif
#define may_live(m) (member[m] != NONE && member[m] != GONE)

proctype scheduling()
{
end:
	do
	:: d_step { scheduler == IDLE && told -> told = false; scheduler = TAKEN }
	:: d_step {
			scheduler == TAKEN ->
			scheduler = IDLE;
			if
			:: !cancelled || fired > 0
			:: cancelled && fired == 0 && can_end(0) -> member[0] = GONE; told = true
			:: cancelled && fired == 0 && !can_end(0) && can_end(1) -> member[1] = GONE; told = true
			:: cancelled && fired == 0 && !can_end(0) && !can_end(1) && can_end(2) -> member[2] = GONE; told = true
			:: else ->
				if
#ifndef FAULT_SKIPPED_IS_FORGOTTEN
				:: may_live(0) || may_live(1) || may_live(2) -> later = true
#endif
				:: else -> scheduler = EXCLUSIVE
				fi
			fi
		}
	/* the last look, with the tag */
	:: d_step {
			scheduler == EXCLUSIVE ->
			scheduler = IDLE;
			if
			:: may_live(0) || may_live(1) || may_live(2)
			:: else -> assert(fired == 0); fired++
			fi
		}
#ifdef COMES_AGAIN
	:: d_step { later -> later = false; told = true }
#else
	:: d_step { later -> later = false }
#endif
	/* The process dies, and the next one begins. */
	:: d_step { scheduler != IDLE -> scheduler = IDLE; told = true }
	od
}

/* The server crashes, once or never: members in work wait again. */
proctype crash()
{
	byte m;
	if
	:: d_step {
			for (m : 0 .. MEMBERS - 1) {
				member[m] = (member[m] == INSERTING -> GONE : member[m]);
				member[m] = (may_live(m) -> WAITS : member[m]);
				acked[m] = (acked[m] == DONE -> OVER : acked[m])
			}
			m = 0;
			adder = (adder == BEFORE -> BEFORE : OVER);
			canceller = (cancelled -> OVER : BEFORE);
			scheduler = IDLE;
			later = false;
			told = true
		}
	:: true
	fi
}

/* Check at the end: the batch is cancelled, no member is left, and the callback has come. */
proctype monitor()
{
	timeout ->
	assert(cancelled && !may_live(0) && !may_live(1) && !may_live(2) && fired == 1)
}

init
{
	atomic {
		member[1] = WAITS;
		member[2] = WORK;
		run adding();
		run cancelling();
		run working(0);
		run working(1);
		run working(2);
		run scheduling();
		run crash();
		run monitor()
	}
}
