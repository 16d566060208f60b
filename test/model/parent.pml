/*
 * Model of a blocked child and the lives of its two parents. A parent is acked, dies, or ends otherwise (GONE). A dead
 * letter is brought back once, or deleted. The child has one of the three values of on_parent_failure: cancel, run,
 * hold. The scheduler or the server may die at any time. That outcomes are there when a child needs them is shown in
 * child.pml.
 *
 * Each option of a loop is one step. A transaction is one step at its commit.
 *
 * Shown: a child becomes ready only if all parents were acked, or (run) if there was a moment at which all had ended. A
 * child is cancelled only if a parent has died (cancel) or ended otherwise. Only a child with hold and a dead parent
 * stays blocked. The rules:
 * - parents-in-one-snapshot: one snapshot of job, dead_job and job_outcome judges all parents of a child.
 * - dead-letter-is-outcome: a death writes no outcome. A transaction that ends a dead letter asks for children and
 *   writes an outcome, as one that ends a job does. So a job that is brought back has no outcome.
 * - ends-tell: each end of a parent tells, and a death too.
 */
#define PARENTS 2
mtype = { LIVE, DEAD, ACKED, GONE };
mtype parent[PARENTS] = LIVE;
mtype = { NONE, SAYS_ACKED, SAYS_GONE };
mtype outcome[PARENTS] = NONE;
bool revived[PARENTS];
bool over; /* no dead letter is touched any more */

mtype = { BLOCKED, READY, CANCELLED };
mtype child = BLOCKED;
mtype = { CANCEL, RUN, HOLD };
mtype on_parent_failure = CANCEL;

byte callbacks;
bool told;

mtype = { IDLE, LOOKING, HALF, JUDGING };
mtype scheduler = IDLE;
bool sees_live[PARENTS], sees_dead[PARENTS];
mtype sees_outcome[PARENTS] = NONE;

/* ghosts: what was true at some moment of the look */
bool all_ended, one_dead, one_gone;

#define is_any(what) (parent[0] == what || parent[1] == what)

inline remember()
{
	if
	:: scheduler != IDLE ->
		all_ended = all_ended || !is_any(LIVE);
		one_dead = one_dead || is_any(DEAD);
		one_gone = one_gone || is_any(GONE)
	:: else
	fi
}

inline end_parent(p, to, says)
{
	parent[p] = to;
	/* A second outcome would not be found. */
	outcome[p] = (outcome[p] == NONE -> says : outcome[p]);
	callbacks++;
	remember()
}

#define ends(p) callbacks < 2 && parent[p]
#define can_revive(p) (callbacks < 2 && parent[p] == DEAD && !revived[p] && !over)

proctype living(byte p)
{
end:
	do
	:: d_step { ends(p) == LIVE -> end_parent(p, ACKED, SAYS_ACKED) }
	:: d_step { ends(p) == LIVE -> end_parent(p, GONE, SAYS_GONE) }
#ifdef FAULT_DEATH_WRITES_OUTCOME
	:: d_step { ends(p) == LIVE -> end_parent(p, DEAD, SAYS_GONE) }
#else
	:: d_step { ends(p) == LIVE -> end_parent(p, DEAD, NONE) }
#endif
#ifndef FAULT_DEATH_WRITES_OUTCOME
	:: d_step { can_revive(p) -> assert(outcome[p] == NONE); parent[p] = LIVE; revived[p] = true }
#else
	:: d_step { can_revive(p) -> parent[p] = LIVE; revived[p] = true }
#endif
#ifdef FAULT_DEAD_LETTER_GOES_SILENTLY
	:: d_step { ends(p) == DEAD && !over -> parent[p] = GONE; remember() }
#else
	:: d_step { ends(p) == DEAD && !over -> end_parent(p, GONE, SAYS_GONE) }
#endif
	od
}

proctype telling()
{
end:
	do
	:: d_step {
			callbacks > 0 ->
			callbacks--;
#ifdef FAULT_DEATH_TELLS_NOBODY
			told = told || !is_any(DEAD)
#else
			told = true
#endif
		}
	:: d_step { !over -> over = true }
	od
}

inline see(p)
{
	sees_live[p] = parent[p] == LIVE;
	sees_dead[p] = parent[p] == DEAD;
	sees_outcome[p] = outcome[p]
}

inline stop()
{
	scheduler = IDLE;
	all_ended = false; one_dead = false; one_gone = false;
	sees_live[0] = false; sees_dead[0] = false; sees_outcome[0] = NONE;
	sees_live[1] = false; sees_dead[1] = false; sees_outcome[1] = NONE
}

/* A parent that is in no table has ended otherwise. */
#define has_failed(p) (!sees_live[p] && !sees_dead[p] && sees_outcome[p] != SAYS_ACKED)
#define was_acked(p) (!sees_live[p] && !sees_dead[p] && sees_outcome[p] == SAYS_ACKED)
#define any_live (sees_live[0] || sees_live[1])
#define any_dead (sees_dead[0] || sees_dead[1])
#define any_failed (has_failed(0) || has_failed(1))

proctype scheduling()
{
end:
	do
	:: d_step { scheduler == IDLE && told -> told = false; scheduler = LOOKING; remember() }
	:: d_step {
			scheduler == LOOKING ->
#ifdef FAULT_JOB_THEN_REST
			sees_live[0] = parent[0] == LIVE;
			sees_live[1] = parent[1] == LIVE;
			scheduler = HALF
#elif defined(FAULT_PARENT_BY_PARENT)
			see(0);
			scheduler = HALF
#else
			see(0);
			see(1);
			scheduler = JUDGING
#endif
		}
	:: d_step {
			scheduler == HALF ->
#ifdef FAULT_JOB_THEN_REST
			sees_dead[0] = parent[0] == DEAD; sees_outcome[0] = outcome[0];
			sees_dead[1] = parent[1] == DEAD; sees_outcome[1] = outcome[1];
#else
			see(1);
#endif
			scheduler = JUDGING
		}
	:: d_step {
			scheduler == JUDGING ->
			if
			:: child != BLOCKED
			:: child == BLOCKED && was_acked(0) && was_acked(1) ->
				assert(parent[0] == ACKED && parent[1] == ACKED);
				child = READY
			:: child == BLOCKED && on_parent_failure == RUN && !any_live && !(was_acked(0) && was_acked(1)) ->
				assert(all_ended);
				child = READY
			:: child == BLOCKED && on_parent_failure == CANCEL && (any_dead || any_failed) ->
				assert(one_dead || one_gone);
				child = CANCELLED
			:: child == BLOCKED && on_parent_failure == HOLD && any_failed ->
				assert(one_gone);
				child = CANCELLED
			:: else
			fi;
			stop()
		}
	/* The process dies, and the next one begins. */
	:: d_step { scheduler != IDLE -> stop(); told = true }
	od
}

/* The server crashes, once or never. */
proctype crash()
{
	if
	:: d_step { callbacks = 0; told = true; stop() }
	:: true
	fi
}

/* Check at the end: no child is blocked without a reason. */
proctype monitor()
{
	timeout ->
	assert(child != BLOCKED || (on_parent_failure == HOLD && is_any(DEAD) && !is_any(GONE)))
}

init
{
	atomic {
		if
		:: true
		:: on_parent_failure = RUN
		:: on_parent_failure = HOLD
		fi;
		run living(0);
		run living(1);
		run telling();
		run scheduling();
		run crash();
		run monitor()
	}
}
