/*
 * Model of the end of a batch: when the scheduler may say that all members have ended. Member 0 is in work. Its worker
 * acks it, and may add member 2 in the same transaction. Member 1 is added from outside. A session closes the batch.
 * Members 1 and 2 are acked. One member is moved to another segment. Each transaction may commit, roll back, or be
 * prepared first. The scheduler or the server may die at any time.
 *
 * Each option of a loop is one step. A variable with the name of a process says where this process is.
 *
 * Shown: the callback comes exactly once, and only if the batch is closed and all its members have ended. The rules:
 * - tag-covers-insert: a transaction that adds a member has the tag of the batch, shared, from before its look at the
 *   batch until the row is in its indexes. The scheduler has the tag alone, from before its last look until its commit
 *   is visible. If the tag is taken, the scheduler comes again.
 * - insert-then-look: a transaction that adds a member without the tag looks at the row of the batch after the member is
 *   in its indexes. If no session has touched the row, the batch is open, and a look of the scheduler that may say that
 *   the batch has finished comes later. Otherwise the transaction takes the tag, and looks again.
 * - last-look-is-two: the scheduler looks for any version of a member that may live, and then with one snapshot. The
 *   snapshot does not see an open enqueue. The versions lack a row that is moved behind the scan.
 * - look-under-locks: the snapshot is newer than the tag, and no segment is truncated until it is used.
 * - adders-read-the-newest: a transaction that adds reads the newest state of the batch, whatever its snapshot says.
 * - every-end-tells: the scheduler is told of the batch after each end of a member, each close, each enqueue that is
 *   rolled back, and each end of a prepared transaction, when this is visible; and at each start of a scheduler.
 * - mark-with-job: the callback is enqueued in the transaction that marks the batch.
 * - in-work-admits: a transaction that has a member in work may add to the batch, closed or not. The batch never has
 *   fired then.
 *
 * TAG_TO_END: adders keep the tag until they end. Then one snapshot is enough.
 * CLOSED_ADMITS: a closed batch admits members from outside until the callback has come.
 * UNTAGGED_IN_WORK: a transaction that has a member in work adds without the tag.
 */
#ifndef MOVED
#define MOVED 1 /* the member that is moved */
#endif
#ifndef MOVES
#define MOVES 1
#endif

mtype = { NONE, INSERTING, LIVE, ENDING, GONE };
mtype member[3] = NONE;

mtype = { OPENED, CLOSING, CLOSED };
mtype batch = OPENED;
bool fired;		/* the batch is marked: the callback has come */
byte callbacks; /* number of callbacks */
bool told;

/* transactions: DONE and UNDONE are visible, and their callbacks are still to come */
mtype = { BEFORE, BEGUN, TAGGED, LOOKED, INSERTED, ADDED, UNSURE, TAGGED_LATE, OPEN, PREPARED, PARTLY_UNDONE, DONE, UNDONE, OVER };
mtype adder = BEFORE, worker = BEFORE, closer = BEFORE;
mtype ender[3] = BEFORE;
bool snapshot_admits; /* what the adder's own snapshot says about the batch */

/* the moved member */
bool moving;
bit place = 1; /* its segment */
byte moves;

mtype = { IDLE, TAKEN, EXCLUSIVE, LOOKING, SNAPSHOT, JUDGING, MARKED, MARKED_ONLY };
mtype scheduler = IDLE;
bit at; /* the segment at which the scheduler looks */
bool sees, sees_moved, sees_closed; /* what its snapshot sees; sees_moved: the member that is moved */
bit seen_at;						/* in which segment */

/* The tag. */
#ifdef FAULT_NO_TAG
#define is_shared false
#define is_exclusive false
#else
#ifdef FAULT_RELEASED_BEFORE_INSERT
#define shares(p) (p == TAGGED)
#elif defined(TAG_TO_END)
#define shares(p) (p == TAGGED || p == LOOKED || p == INSERTED || p == OPEN || p == PARTLY_UNDONE || p == PREPARED)
#else
#define shares(p) (p == TAGGED || p == LOOKED || p == INSERTED || p == TAGGED_LATE)
#endif
#define is_shared (shares(adder) || shares(worker))
#ifdef FAULT_TAG_OFF_BEFORE_COMMIT
#define is_exclusive (scheduler != IDLE && scheduler != TAKEN && scheduler != MARKED)
#else
#define is_exclusive (scheduler != IDLE && scheduler != TAKEN)
#endif
#endif

#define open_or_prepared(p) (p == BEGUN || p == OPEN || p == PREPARED)
#define may_live(m) (member[m] == LIVE || member[m] == ENDING)

/* The state after the end of a transaction. */
#ifdef FAULT_PREPARED_FORGOTTEN
#define after(p, to) (p == PREPARED -> OVER : to)
#else
#define after(p, to) to
#endif

#define is_admitted (batch != CLOSED && !fired)
#ifdef FAULT_OWN_SNAPSHOT
#define admits snapshot_admits
#elif defined(CLOSED_ADMITS)
#define admits (!fired)
#else
#define admits is_admitted
#endif

inline tell() { told = true }

/* An end of a member tells when it is visible. */
inline tell_early()
{
#ifdef FAULT_TELL_BEFORE_VISIBLE
	tell()
#else
	skip
#endif
}

inline tell_late()
{
#ifdef FAULT_TELL_BEFORE_VISIBLE
	skip
#else
	tell()
#endif
}

inline tell_undone()
{
#ifdef FAULT_ABORT_TELLS_NOBODY
	skip
#else
	tell()
#endif
}

/* A transaction from outside that adds member 1. */
proctype adding()
{
end:
	do
	:: d_step { adder == BEFORE -> adder = BEGUN; snapshot_admits = is_admitted }
	:: d_step { adder == BEGUN && !is_exclusive -> adder = TAGGED }
	:: d_step {
			adder == TAGGED ->
			adder = (admits -> LOOKED : OVER);
			snapshot_admits = false
		}
	:: d_step { adder == LOOKED -> member[1] = INSERTING; adder = INSERTED }
	:: d_step { adder == INSERTED -> adder = OPEN }
#ifndef TAG_TO_END
#ifdef FAULT_LOOK_THEN_INSERT
	:: d_step { adder == BEGUN && batch == OPENED -> adder = ADDED }
	:: d_step { adder == ADDED -> member[1] = INSERTING; adder = OPEN }
#else
	/* The session has seen earlier that the batch is open. */
	:: d_step { adder == BEGUN -> member[1] = INSERTING; adder = ADDED }
#ifdef FAULT_OPEN_IS_REMEMBERED
	:: d_step { adder == ADDED -> adder = OPEN }
#else
	:: d_step { adder == ADDED -> adder = (batch == OPENED -> OPEN : UNSURE) }
#endif
#endif
	:: d_step { adder == UNSURE && !is_exclusive -> adder = TAGGED_LATE }
	:: d_step { adder == TAGGED_LATE && admits -> adder = OPEN }
	:: d_step { adder == TAGGED_LATE && !admits -> member[1] = GONE; adder = UNDONE; snapshot_admits = false }
	:: d_step { adder == ADDED || adder == UNSURE -> member[1] = GONE; adder = UNDONE }
#endif
	:: d_step { adder == OPEN -> adder = PREPARED }
	:: d_step {
			adder == OPEN || adder == PREPARED ->
			assert(!fired);
			member[1] = LIVE;
			adder = OVER
		}
	:: d_step { adder == OPEN || adder == PREPARED -> member[1] = GONE; adder = after(adder, UNDONE) }
	/* ROLLBACK TO SAVEPOINT: the transaction may stay open, but the member has ended. */
	:: d_step { adder == OPEN -> member[1] = GONE; adder = PARTLY_UNDONE }
	:: d_step {
			adder == PARTLY_UNDONE ->
#ifndef FAULT_SUBABORT_TELLS_NOBODY
			tell();
#endif
			adder = OVER
		}
	:: d_step { adder == UNDONE -> tell_undone(); adder = OVER }
	od
}

/* The worker of member 0. */
proctype working()
{
end:
	do
	:: d_step {
			worker == BEFORE && member[0] == LIVE && !(MOVED == 0 && moving) ->
			member[0] = ENDING;
			tell_early();
			worker = BEGUN
		}
#ifdef UNTAGGED_IN_WORK
	:: d_step { worker == BEGUN && member[2] == NONE -> assert(!fired); member[2] = INSERTING; worker = OPEN }
#else
	:: d_step { worker == BEGUN && member[2] == NONE && !is_exclusive -> worker = TAGGED }
	/* A batch with a member in work has not fired. */
	:: d_step { worker == TAGGED -> assert(!fired); worker = LOOKED }
#endif
	:: d_step { worker == LOOKED -> member[2] = INSERTING; worker = INSERTED }
	:: d_step { worker == INSERTED -> worker = OPEN }
	:: d_step { worker == BEGUN || worker == OPEN -> worker = PREPARED }
	:: d_step {
			open_or_prepared(worker) ->
			assert(member[2] != INSERTING || !fired);
			member[0] = GONE;
			member[2] = (member[2] == INSERTING -> LIVE : member[2]);
			worker = after(worker, DONE)
		}
	:: d_step {
			open_or_prepared(worker) ->
			member[0] = LIVE;
			member[2] = (member[2] == INSERTING -> GONE : member[2]);
			worker = UNDONE
		}
	:: d_step { worker == DONE -> tell_late(); worker = OVER }
	:: d_step { worker == UNDONE -> tell_undone(); worker = BEFORE }
	od
}

/* The ack of another member. */
proctype ending(byte m)
{
end:
	do
	:: d_step {
			ender[m] == BEFORE && member[m] == LIVE && !(MOVED == m && moving) ->
			member[m] = ENDING;
			tell_early();
			ender[m] = OPEN
		}
	:: d_step { ender[m] == OPEN -> member[m] = GONE; ender[m] = DONE }
	:: d_step { ender[m] == OPEN -> member[m] = LIVE; ender[m] = BEFORE }
	:: d_step { ender[m] == DONE -> tell_late(); ender[m] = OVER }
	od
}

/* pgq_close_batch */
proctype closing()
{
end:
	do
	:: d_step { closer == BEFORE -> batch = CLOSING; closer = OPEN }
	:: d_step { closer == OPEN -> closer = PREPARED }
	:: d_step { closer == OPEN || closer == PREPARED -> batch = CLOSED; closer = after(closer, DONE) }
	:: d_step { closer == OPEN || closer == PREPARED -> batch = OPENED; closer = BEFORE }
	:: d_step {
			closer == DONE ->
#ifndef FAULT_CLOSE_TELLS_NOBODY
			tell();
#endif
			closer = OVER
		}
	od
}

#define is_used(m) (m == 0 -> worker != BEFORE : ender[m] != BEFORE)

/* Moves a member to the other segment. The old segment may be truncated, unless the scheduler has locked it. */
proctype mover()
{
end:
	do
	:: d_step { !moving && moves < MOVES && member[MOVED] == LIVE && !is_used(MOVED) -> moving = true; moves++ }
	:: d_step { moving -> moving = false; place = 1 - place }
	:: d_step { moving -> moving = false }
#ifdef FAULT_SEGMENTS_UNLOCKED
	:: d_step { scheduler == JUDGING && sees_moved && !moving && place != seen_at -> sees_moved = false }
#endif
	od
}

inline take_snapshot()
{
	sees_closed = (batch == CLOSED);
	sees_moved = may_live(MOVED);
	seen_at = (sees_moved -> place : 0);
	sees = may_live(2) || (may_live(0) && MOVED != 0) || (may_live(1) && MOVED != 1)
}

inline stop()
{
	scheduler = IDLE; at = 0;
	sees = false; sees_moved = false; sees_closed = false; seen_at = 0
}

inline not_yet()
{
#ifdef FAULT_TAKEN_AFTER_LOOK
	told = false;
#endif
	stop()
}

#define is_version(m) (member[m] == INSERTING || may_live(m))
/* A member that is being moved has a version in each segment. */
#define met_moved (is_version(MOVED) && (moving || place == at))
#define met_others (at == 0 && (is_version(2) || (is_version(0) && MOVED != 0) || (is_version(1) && MOVED != 1)))

proctype scheduling()
{
end:
	do
	:: d_step {
			scheduler == IDLE && told ->
#ifndef FAULT_TAKEN_AFTER_LOOK
			told = false;
#endif
#ifdef FAULT_SNAPSHOT_BEFORE_TAG
			take_snapshot();
#endif
			scheduler = TAKEN
		}
	:: d_step {
			scheduler == TAKEN ->
			if
			:: !is_shared -> scheduler = EXCLUSIVE
#ifdef FAULT_BUSY_IS_FORGOTTEN
			:: is_shared -> stop()
#else
			:: is_shared -> told = true; stop()
#endif
			fi
		}
	/* the newest state of the batch, with its row locked */
	:: d_step {
			scheduler == EXCLUSIVE ->
			if
			:: batch != CLOSED || fired -> not_yet()
#ifdef FAULT_SNAPSHOT_ONLY
			:: else -> scheduler = SNAPSHOT
#elif defined(TAG_TO_END)
			:: else -> scheduler = SNAPSHOT
#else
			:: else -> scheduler = LOOKING
#endif
			fi
		}
	:: d_step {
			scheduler == LOOKING ->
			if
			:: met_moved || met_others -> not_yet()
			:: else ->
				scheduler = (at == 0 -> LOOKING : SNAPSHOT);
				at = 1 - at
			fi
		}
	:: d_step {
			scheduler == SNAPSHOT ->
#ifndef FAULT_SNAPSHOT_BEFORE_TAG
			take_snapshot();
#endif
			scheduler = JUDGING
		}
	:: d_step {
			scheduler == JUDGING ->
			if
#ifdef FAULT_VERSIONS_ONLY
			:: true -> scheduler = MARKED
#else
			:: sees || sees_moved || !sees_closed -> not_yet()
			:: else -> scheduler = MARKED
#endif
			fi;
			sees = false; sees_moved = false; sees_closed = false; seen_at = 0
		}
	:: d_step {
			scheduler == MARKED ->
			assert(batch == CLOSED && !fired);
			assert(!may_live(0) && !may_live(1) && !may_live(2));
			fired = true;
#ifdef FAULT_MARK_IN_TWO
			scheduler = MARKED_ONLY
		}
	:: d_step {
			scheduler == MARKED_ONLY ->
#endif
			callbacks++;
			not_yet()
		}
	/* The process dies. The next scheduler is told of all batches. */
	:: d_step {
			scheduler != IDLE ->
#ifndef FAULT_DEAD_SCHEDULER_FORGETS
			told = true;
#endif
			stop()
		}
	od
}

/* The server crashes, once or never. Prepared transactions stay. */
proctype crash()
{
	byte m;
	if
	:: d_step {
			member[0] = (member[0] == ENDING && worker != PREPARED -> LIVE : member[0]);
			member[2] = (member[2] == INSERTING && worker != PREPARED -> GONE : member[2]);
			member[1] = (member[1] == INSERTING && adder != PREPARED -> GONE : member[1]);
			worker = (worker == PREPARED -> PREPARED : (member[0] == LIVE -> BEFORE : OVER));
			adder = (adder == PREPARED || adder == BEFORE -> adder : OVER);
			snapshot_admits = false;
			for (m : 1 .. 2) {
				member[m] = (member[m] == ENDING -> LIVE : member[m]);
				ender[m] = (member[m] == GONE -> OVER : BEFORE)
			}
			m = 0;
			batch = (batch == CLOSING && closer != PREPARED -> OPENED : batch);
			closer = (closer == PREPARED -> PREPARED : (batch == CLOSED -> OVER : BEFORE));
			moving = false;
			stop();
#ifdef FAULT_RESTART_LOOKS_AT_NOTHING
			told = false
#else
			told = true
#endif
		}
	:: true
	fi
}

/* Check at the end: the batch is closed, its members have ended, and the callback has come. */
proctype monitor()
{
	timeout ->
	assert(batch == CLOSED && member[0] == GONE && callbacks == 1)
}

init
{
	atomic {
		member[0] = LIVE;
		run adding();
		run working();
		run ending(1);
		run ending(2);
		run closing();
		run mover();
		run scheduling();
		run crash();
		run monitor()
	}
}
