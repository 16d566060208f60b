/*
 * Model of the callbacks of a batch: a closed batch with two members and three callbacks. A member is acked, dies,
 * or ends otherwise (cancelled, expired, purged, deleted: LOST). A dead letter is brought back once, or deleted. Two
 * schedulers look at the batch, since an old one may still be there. The queue of the failure callback may refuse the
 * callback for a while, or (GONE_QUEUE) forever. The server may crash.
 *
 * Each option of a loop is one step. A transaction is one step at its commit.
 *
 * Shown: each callback comes at most once. Failure comes if and only if a member has died, even if the dead letter is
 * gone. Success comes if and only if all members were acked. Finish comes when all have ended. A callback that
 * is refused stops no other one. The rules:
 * - one-snapshot: one snapshot of job, dead_job and batch_note decides about all callbacks.
 * - ends-leave-notes: each end but an ack leaves a note in its transaction. A death and the end of a dead letter leave
 *   a note too.
 * - finished-is-not-over: the batch is pending until no callback can come any more. A batch that is not pending is
 *   never looked at again.
 * - lock-then-snapshot: each callback has a mark. A scheduler locks the row of the batch before it takes the snapshot
 *   and reads the marks.
 * - callbacks-apart: each callback is enqueued in a subtransaction. A refused one comes again later.
 */
#define MEMBERS 2
#define SCHEDULERS 2
mtype = { LIVE, DEAD, ACKED, LOST };
mtype member[MEMBERS] = LIVE;
bool revived[MEMBERS];
bool died; /* a member has died */
bool over; /* no dead letter is touched any more */

byte dead_notes, lost_notes;
byte failures, finishes, successes; /* number of callbacks, and marks */
bool pending = true;

byte callbacks; /* transactions that have ended a member, and whose callbacks have not come */
bool told;
bool later;	  /* a refused callback is tried again */
bool refuses; /* the queue of the failure callback refuses it */

mtype = { IDLE, LOOKING, HALF, JUDGING };
mtype scheduler[SCHEDULERS] = IDLE;
bool sees_live[SCHEDULERS], sees_dead[SCHEDULERS], sees_died[SCHEDULERS], sees_lost[SCHEDULERS];
#ifdef FAULT_MARK_BY_SNAPSHOT
bool marked_failure[SCHEDULERS], marked_finish[SCHEDULERS], marked_success[SCHEDULERS];
#endif

/* the lock of the batch's row, which a look holds from before its snapshot until its commit */
#if defined(FAULT_SNAPSHOT_BEFORE_LOCK) || defined(FAULT_MARK_BY_SNAPSHOT)
#define is_unlocked true
#else
#define is_unlocked (scheduler[1 - s] == IDLE)
#endif

#define is_any(what) (member[0] == what || member[1] == what)
#define ends(m) callbacks < 2 && member[m]

inline end_member(m, to)
{
	member[m] = to;
	callbacks++
}

inline lose(m)
{
	end_member(m, LOST);
	lost_notes++
}

proctype living(byte m)
{
end:
	do
	:: d_step { ends(m) == LIVE -> end_member(m, ACKED) }
	:: d_step { ends(m) == LIVE -> end_member(m, DEAD); died = true; dead_notes++ }
#ifdef FAULT_LOSS_LEAVES_NO_NOTE
	:: d_step { ends(m) == LIVE -> end_member(m, LOST) }
#else
	:: d_step { ends(m) == LIVE -> lose(m) }
#endif
	:: d_step { ends(m) == DEAD && !revived[m] && !over -> end_member(m, LIVE); revived[m] = true }
#ifdef FAULT_DEAD_LETTER_GOES_SILENTLY
	:: d_step { ends(m) == DEAD && !over -> end_member(m, LOST) }
#else
	:: d_step { ends(m) == DEAD && !over -> lose(m) }
#endif
	od
}

proctype telling()
{
end:
	do
	:: d_step { callbacks > 0 -> callbacks--; told = true }
	:: d_step { !over -> over = true }
#ifndef GONE_QUEUE
	:: d_step { refuses -> refuses = false }
#endif
	:: d_step { later && !refuses -> later = false; told = true }
	od
}

inline see_notes(s)
{
	sees_died[s] = dead_notes > 0;
	sees_lost[s] = lost_notes > 0;
#ifdef FAULT_MARK_BY_SNAPSHOT
	marked_failure[s] = failures > 0;
	marked_finish[s] = finishes > 0;
	marked_success[s] = successes > 0
#endif
}

inline stop(s)
{
	scheduler[s] = IDLE;
	sees_live[s] = false; sees_dead[s] = false; sees_died[s] = false; sees_lost[s] = false;
#ifdef FAULT_MARK_BY_SNAPSHOT
	marked_failure[s] = false; marked_finish[s] = false; marked_success[s] = false
#endif
}

#ifdef FAULT_MARK_BY_SNAPSHOT
#define has_failure marked_failure[s]
#define has_finish marked_finish[s]
#define has_success marked_success[s]
#else
#define has_failure (failures > 0)
#define has_finish (finishes > 0)
#define has_success (successes > 0)
#endif
#ifdef FAULT_FAILURE_BY_ROW
#define wants_failure (sees_dead[s] && !has_failure)
#else
#define wants_failure (sees_died[s] && !has_failure)
#endif
#define wants_finish (!sees_live[s] && !has_finish)
#define wants_success (!sees_live[s] && !sees_dead[s] && !sees_lost[s] && !has_success)

/* The transaction that enqueues callbacks and marks them. */
inline fire(s)
{
	if
#ifdef FAULT_CALLBACKS_TOGETHER
	:: refuses && wants_failure -> later = true
#else
	:: false
#endif
	:: else ->
		if
		:: wants_finish -> finishes++
		:: else
		fi;
		if
		:: wants_success -> assert(member[0] == ACKED && member[1] == ACKED); successes++
		:: else
		fi;
		if
#ifdef FAULT_REFUSED_IS_FORGOTTEN
		:: wants_failure && refuses
#else
		:: wants_failure && refuses -> later = true
#endif
		:: wants_failure && !refuses -> assert(died); failures++
		:: else
		fi;
		assert(failures <= 1 && finishes <= 1 && successes <= 1);
#ifdef FAULT_FINISHED_IS_OVER
		pending = finishes == 0
#else
		pending = finishes == 0 || (sees_died[s] && failures == 0) ||
			(successes == 0 && !sees_lost[s] && (sees_live[s] || sees_dead[s]))
#endif
	fi
}

proctype scheduling(byte s)
{
end:
	do
	:: d_step {
			scheduler[s] == IDLE && told && is_unlocked ->
			told = false;
			scheduler[s] = (pending -> LOOKING : IDLE)
		}
	:: d_step {
			scheduler[s] == LOOKING ->
#ifdef FAULT_JOB_THEN_DEAD
			sees_live[s] = is_any(LIVE);
			scheduler[s] = HALF
#elif defined(FAULT_DEAD_THEN_JOB)
			sees_dead[s] = is_any(DEAD);
			scheduler[s] = HALF
#else
			sees_live[s] = is_any(LIVE);
			sees_dead[s] = is_any(DEAD);
			see_notes(s);
			scheduler[s] = JUDGING
#endif
		}
	:: d_step {
			scheduler[s] == HALF ->
#ifdef FAULT_JOB_THEN_DEAD
			sees_dead[s] = is_any(DEAD);
#else
			sees_live[s] = is_any(LIVE);
#endif
			see_notes(s);
			scheduler[s] = JUDGING
		}
	:: d_step { scheduler[s] == JUDGING -> fire(s); stop(s) }
	/* The process dies, and the next one begins. */
	:: d_step { scheduler[s] != IDLE -> stop(s); told = true }
	od
}

/* The server crashes, once or never. Then the scheduler looks at all batches that are pending. */
proctype crash()
{
	if
	:: d_step { callbacks = 0; told = true; later = false; stop(0); stop(1) }
	:: true
	fi
}

/* Check at the end: the right callbacks have come, and the number of acks is known. */
proctype monitor()
{
	timeout ->
	d_step {
		assert(finishes == 1);
		assert(failures == died || refuses);
		assert(successes == (member[0] == ACKED && member[1] == ACKED));
		/* acked = total - live - dead - lost */
		assert((member[0] == ACKED) + (member[1] == ACKED) ==
			MEMBERS - (member[0] == DEAD) - (member[1] == DEAD) - lost_notes)
	}
}

init
{
	atomic {
		if
		:: refuses = true
		:: true
		fi;
		run living(0);
		run living(1);
		run telling();
		run scheduling(0);
		run scheduling(1);
		run crash();
		run monitor()
	}
}
