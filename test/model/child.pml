/*
 * Model of a parent that ends while its children are enqueued. Two transactions enqueue a child each. Another one ends
 * the parent. Each may commit, roll back, or be prepared first. The scheduler judges children whose parent has
 * ended, deletes dependencies and outcomes that no child needs, and lowers the flag that says that there may be
 * children. The scheduler may die at any time, and the server CRASHES times.
 *
 * QUEUES: each queue has a flag of its own, and the parent is moved to another queue at any time.
 *
 * Each option of a loop is one step. A variable with the name of a process says where this process is.
 *
 * Shown: every child whose enqueue commits learns what has become of its parent, and no outcome is left at the end. The
 * rules:
 * - insert-then-look: an enqueue first inserts the dependency, and then looks at the parent and its outcome. It waits
 *   for a transaction that is ending the parent, or deleting the outcome.
 * - delete-then-ask: a transaction that ends the parent first deletes the parent's row, and then looks for
 *   dependencies, also uncommitted ones. If there is one, it writes the outcome in the same transaction.
 * - flag-first: an enqueue locks the table of dependencies, raises the flag, and then inserts. It keeps the lock to its
 *   end, also when prepared. The flag is lowered only under a lock that excludes these, and after a look. It is raised
 *   at every start.
 * - flag-of-the-queue (QUEUES): an enqueue waits for a transaction that moves the parent. If the parent is not in the
 *   queue whose flag was raised, the enqueue raises the other flag, and looks again. A transaction that moves a job
 *   first changes the row, then asks for the flag of the old queue, and raises the flag of the new one.
 * - told-twice: the commit of a child's enqueue tells of the child. The end of a parent that has children tells of the
 *   parent. The end of a prepared transaction tells too, and each start of a scheduler tells of all.
 * - skipped-comes-again: the scheduler waits for no transaction. A child that a session has in hand is judged later.
 * - outcomes-outlive-children: an outcome is deleted as a parent is: first deleted, then the question.
 */
#ifndef CRASHES
#define CRASHES 1
#endif
#define CHILDREN 2

mtype = { NONE, INSERTING, LIVE, DELETING, KNOWN, ENDED, BLOCKED, JUDGED };
mtype parent = LIVE;
mtype outcome = NONE;
mtype dependency[CHILDREN] = NONE;
mtype child[CHILDREN] = NONE;
bool flag[2]; /* jobs of this queue may have children */
bit queue;	  /* of the parent */

mtype = { BEFORE, LOCKED, FLAGGED, DEPENDS, LOOKED, DELETED, ASKED, OPEN, PREPARED, DONE, OVER, AGAIN, FOUND_NONE };
mtype adder[CHILDREN] = BEFORE;
mtype ender = BEFORE;
bool has_children; /* what the ender has found */
bit saw[CHILDREN]; /* the queue whose flag the enqueue raises */
mtype mover = BEFORE;
mtype change = BEFORE; /* of child 0 */
mtype lowerer = BEFORE;
mtype collector = BEFORE;

bool told_parent, told_child[CHILDREN];
mtype = { IDLE, JUDGING };
mtype scheduler = IDLE;
bool judges[CHILDREN];

byte crashes;

#define is_version(d) (d == INSERTING || d == LIVE)
#define is_any_version (is_version(dependency[0]) || is_version(dependency[1]))
#ifdef FAULT_VISIBLE_ONLY
#define any_dependency (dependency[0] == LIVE || dependency[1] == LIVE)
#else
#define any_dependency is_any_version
#endif
#define asks (flag[queue] && any_dependency)

/* who holds the lock on the table of dependencies */
#define holds_lock(a) (a != BEFORE && a != DONE && a != OVER && !(FLAG_COMES_FIRST && a == FLAGGED))
#ifdef FAULT_FLAG_THEN_LOCK
#define FLAG_COMES_FIRST 1
#else
#define FLAG_COMES_FIRST 0
#endif
#define is_locked (holds_lock(adder[0]) || holds_lock(adder[1]))

/* The state after a commit. */
#ifdef FAULT_PREPARED_FORGOTTEN
#define after(p, to) (p == PREPARED -> OVER : to)
#else
#define after(p, to) to
#endif

inline look(c, to)
{
	if
#ifdef FAULT_LOOKS_ONCE
	:: parent == LIVE -> adder[c] = to
#else
	:: parent == LIVE && queue == saw[c] -> adder[c] = to
	:: parent == LIVE && queue != saw[c] -> saw[c] = queue; adder[c] = AGAIN
#endif
#ifdef FAULT_DELETING_IS_LIVE
	:: parent == DELETING -> adder[c] = to
#endif
	:: parent == ENDED && outcome == KNOWN -> adder[c] = to
#ifdef FAULT_DELETED_OUTCOME_IS_KNOWN
	:: parent == ENDED && outcome == DELETING -> adder[c] = to
#endif
	/* no such job: the enqueue is refused */
	:: parent == ENDED && outcome == NONE -> dependency[c] = NONE; adder[c] = OVER
	fi
}
#ifdef FAULT_MOVING_IS_THERE
#define is_moving false
#else
#define is_moving (mover == OPEN || mover == ASKED)
#endif
#if defined(FAULT_DELETING_IS_LIVE)
#define can_look (parent != ENDED || outcome != DELETING)
#elif defined(FAULT_DELETED_OUTCOME_IS_KNOWN)
#define can_look (parent != DELETING)
#else
#define can_look (parent != DELETING && outcome != DELETING && !is_moving)
#endif

proctype adding(byte c)
{
end:
	do
#if defined(FAULT_FLAG_THEN_LOCK)
	:: d_step { adder[c] == BEFORE -> flag[0] = true; adder[c] = FLAGGED }
	:: d_step { adder[c] == FLAGGED && lowerer == BEFORE -> adder[c] = LOCKED }
	:: d_step { adder[c] == LOCKED -> dependency[c] = INSERTING; adder[c] = DEPENDS }
	:: d_step { adder[c] == DEPENDS && can_look -> look(c, LOOKED) }
#elif defined(FAULT_FLAG_LAST)
	:: d_step { adder[c] == BEFORE && lowerer == BEFORE -> adder[c] = LOCKED }
	:: d_step { adder[c] == LOCKED -> dependency[c] = INSERTING; adder[c] = DEPENDS }
	:: d_step { adder[c] == DEPENDS && can_look -> look(c, FLAGGED) }
	:: d_step { adder[c] == FLAGGED -> flag[saw[c]] = true; adder[c] = LOOKED }
#elif defined(FAULT_LOOK_THEN_INSERT)
	:: d_step { adder[c] == BEFORE && lowerer == BEFORE -> adder[c] = LOCKED }
	:: d_step { adder[c] == LOCKED -> flag[saw[c]] = true; adder[c] = FLAGGED }
	:: d_step { adder[c] == FLAGGED && can_look -> look(c, DEPENDS) }
	:: d_step { adder[c] == DEPENDS -> dependency[c] = INSERTING; adder[c] = LOOKED }
#else
#ifdef FAULT_LOWERED_UNLOCKED
	:: d_step { adder[c] == BEFORE -> adder[c] = LOCKED }
#else
	:: d_step { adder[c] == BEFORE && lowerer == BEFORE -> saw[c] = queue; adder[c] = LOCKED }
#endif
	:: d_step { adder[c] == LOCKED -> flag[saw[c]] = true; adder[c] = FLAGGED }
	:: d_step { adder[c] == FLAGGED -> dependency[c] = INSERTING; adder[c] = DEPENDS }
	:: d_step { adder[c] == DEPENDS && can_look -> look(c, LOOKED) }
	/* The parent was moved: raise the flag of its queue, and look again. */
	:: d_step { adder[c] == AGAIN -> flag[saw[c]] = true; adder[c] = DEPENDS }
#endif
	:: d_step { adder[c] == LOOKED -> child[c] = INSERTING; adder[c] = OPEN }
	:: d_step { adder[c] == OPEN -> adder[c] = PREPARED }
	:: d_step {
			adder[c] == OPEN || adder[c] == PREPARED ->
			child[c] = BLOCKED; dependency[c] = LIVE; adder[c] = after(adder[c], DONE)
		}
	:: d_step {
			adder[c] == OPEN || adder[c] == PREPARED ->
			child[c] = NONE; dependency[c] = NONE; adder[c] = OVER
		}
	:: d_step {
			adder[c] == DONE ->
#ifndef FAULT_CHILD_TELLS_NOBODY
			told_child[c] = true;
#endif
			adder[c] = OVER
		}
	/* the end of the child */
	:: d_step { child[c] == JUDGED -> child[c] = NONE }
	od
}

/* Another transaction has changed the row, and is open. */
#define is_moved (mover == OPEN || mover == ASKED)

proctype ending()
{
end:
	do
#ifdef FAULT_ASK_THEN_DELETE
	:: d_step { ender == BEFORE && parent == LIVE && !is_moved -> has_children = asks; ender = DELETED }
	:: d_step { ender == DELETED && !is_moved -> parent = DELETING; ender = ASKED }
#else
	:: d_step { ender == BEFORE && parent == LIVE && !is_moved -> parent = DELETING; ender = DELETED }
	:: d_step { ender == DELETED -> has_children = asks; ender = ASKED }
#endif
	:: d_step { ender == ASKED -> outcome = (has_children -> INSERTING : NONE); ender = OPEN }
	:: d_step { ender == OPEN -> ender = PREPARED }
	:: d_step {
			ender == OPEN || ender == PREPARED ->
			parent = ENDED;
			outcome = (outcome == INSERTING -> KNOWN : NONE);
			ender = (has_children -> after(ender, DONE) : OVER);
			has_children = false
		}
	:: d_step {
			ender == OPEN || ender == PREPARED ->
			parent = LIVE; outcome = NONE; has_children = false; ender = BEFORE
		}
	:: d_step {
			ender == DONE ->
#ifndef FAULT_END_TELLS_NOBODY
			told_parent = true;
#endif
			ender = OVER
		}
	od
}

#ifdef QUEUES
/* Moves the parent to another queue, once. */
proctype moving()
{
end:
	do
#ifdef FAULT_MOVE_ASKS_FIRST
	:: d_step { mover == BEFORE && parent == LIVE -> flag[1] = flag[1] || flag[0]; mover = FLAGGED }
	:: d_step { mover == FLAGGED -> mover = (parent == LIVE -> ASKED : OVER) }
#else
	:: d_step { mover == BEFORE && parent == LIVE -> mover = OPEN }
	:: d_step { mover == OPEN -> flag[1] = flag[1] || flag[0]; mover = ASKED }
#endif
	:: d_step { mover == ASKED -> queue = 1; mover = OVER }
	:: d_step { mover == ASKED -> mover = OVER }
	od
}
#endif

/* A session changes a blocked child, once. */
proctype changing()
{
end:
	do
	:: d_step { change == BEFORE && child[0] == BLOCKED -> change = OPEN }
	:: d_step { change == OPEN -> change = OVER }
	od
}
#define is_in_hand(c) (c == 0 && change == OPEN)

inline judge(c)
{
	if
	/* The child is skipped, and judged again later. */
#ifdef FAULT_SKIPPED_CHILD_FORGOTTEN
	:: judges[c] && is_in_hand(c)
#else
	:: judges[c] && is_in_hand(c) -> told_child[c] = true
#endif
	:: judges[c] && !is_in_hand(c) && child[c] == BLOCKED && parent == ENDED ->
		/* The snapshot sees an outcome that is being deleted. */
		assert(outcome == KNOWN || outcome == DELETING);
		child[c] = JUDGED
	:: else
	fi;
	judges[c] = false
}

proctype scheduling()
{
end:
	do
	:: d_step {
			scheduler == IDLE && (told_parent || told_child[0] || told_child[1]) ->
			judges[0] = told_parent || told_child[0];
			judges[1] = told_parent || told_child[1];
			told_parent = false; told_child[0] = false; told_child[1] = false;
			scheduler = JUDGING
		}
	:: d_step { scheduler == JUDGING -> judge(0); judge(1); scheduler = IDLE }
	/* The process dies, and the next one begins. */
	:: d_step {
			scheduler != IDLE ->
#ifndef FAULT_DEAD_SCHEDULER_FORGETS
			told_parent = true;
#endif
			judges[0] = false; judges[1] = false;
			scheduler = IDLE
		}
	/* A snapshot sees the dependency and no child. */
	:: d_step { dependency[0] == LIVE && child[0] == NONE -> dependency[0] = NONE }
	:: d_step { dependency[1] == LIVE && child[1] == NONE -> dependency[1] = NONE }
	od
}

/* Deletes an outcome that no child needs, as a snapshot says. */
proctype collecting()
{
end:
	do
	:: d_step {
			collector == BEFORE && outcome == KNOWN && dependency[0] != LIVE && dependency[1] != LIVE ->
#ifdef FAULT_COLLECTOR_ASKS_FIRST
			collector = (asks -> BEFORE : ASKED)
		}
	:: d_step {
			collector == ASKED && outcome == KNOWN ->
			outcome = DELETING;
			collector = OPEN
#else
			outcome = DELETING;
			collector = DELETED
#endif
		}
	:: d_step {
			collector == DELETED ->
#ifdef FAULT_COLLECTED_BY_SNAPSHOT
			collector = OPEN
#else
			if
			:: asks -> outcome = KNOWN; collector = BEFORE
			:: !asks -> collector = OPEN
			fi
#endif
		}
	:: d_step { collector == OPEN -> outcome = NONE; collector = OVER }
	od
}

/* Lowers the flag: a look, the lock, which is got conditionally, and another look. */
proctype lowering()
{
end:
	do
#ifdef FAULT_LOWERED_UNLOCKED
	:: d_step { lowerer == BEFORE && (flag[0] || flag[1]) && !is_any_version -> lowerer = LOCKED }
#else
	:: d_step { lowerer == BEFORE && (flag[0] || flag[1]) && !is_any_version && !is_locked -> lowerer = LOCKED }
#endif
	:: d_step {
			lowerer == LOCKED ->
			if
			:: is_any_version -> lowerer = BEFORE
			:: else -> lowerer = FOUND_NONE
			fi
		}
	:: d_step { lowerer == FOUND_NONE -> flag[0] = false; flag[1] = false; lowerer = BEFORE }
	od
}

/* The server crashes. Prepared transactions stay. */
proctype crash()
{
	byte c;
end:
	do
	:: d_step {
			crashes < CRASHES ->
			crashes++;
			for (c : 0 .. CHILDREN - 1) {
				if
				:: adder[c] == BEFORE || adder[c] == PREPARED
				:: else ->
					adder[c] = OVER;
					dependency[c] = (dependency[c] == INSERTING -> NONE : dependency[c]);
					child[c] = (child[c] == INSERTING -> NONE : child[c])
				fi;
				judges[c] = false;
				told_child[c] = false
			}
			c = 0;
			if
			:: ender == PREPARED || parent == ENDED
			:: else -> parent = LIVE; outcome = NONE; has_children = false; ender = BEFORE
			fi;
			ender = (ender == DONE -> OVER : ender);
			outcome = (outcome == DELETING -> KNOWN : outcome);
			collector = (collector == OVER -> OVER : BEFORE);
			lowerer = BEFORE;
			mover = (mover == BEFORE -> BEFORE : OVER);
			change = (change == BEFORE -> BEFORE : OVER);
			scheduler = IDLE;
#ifdef FAULT_NO_CHILDREN_AT_START
			flag[0] = false; flag[1] = false;
#else
			flag[0] = true; flag[1] = true;
#endif
#ifdef FAULT_RESTART_LOOKS_AT_NOTHING
			told_parent = false
#else
			told_parent = true
#endif
		}
	:: d_step { crashes < CRASHES -> crashes = CRASHES }
	od
}

/* Check at the end: the parent and all children have ended, and nothing is left of them. */
proctype monitor()
{
	timeout ->
	assert(parent == ENDED && child[0] == NONE && child[1] == NONE);
	assert(outcome == NONE && dependency[0] == NONE && dependency[1] == NONE)
}

init
{
	atomic {
		run adding(0);
		run adding(1);
		run ending();
		run changing();
		run scheduling();
		run collecting();
		run lowering();
#ifdef QUEUES
		run moving();
#endif
		run crash();
		run monitor()
	}
}
