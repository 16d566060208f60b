#!/bin/bash
# Model checking: explores every interleaving of the models in this directory with spin.
#
#   test/model/run.sh DIR           in DIR, which is created
#   test/model/run.sh DIR NAME...   only runs whose name contains NAME
#   test/model/run.sh --quick DIR   without the long runs, and with one run with a fault of each model
#
# Prints "ok NAME: ..." or "not ok NAME: ..." for each run. A run must find no error in any state. A run with
# FAULT_... leaves out a rule: then spin must find the error that the rule prevents.
set -uo pipefail
models=$(cd "$(dirname "$0")" && pwd) || exit

# A run with more states than this is long, and its line ends with "long". The number of states is the same on every
# machine.
long=250000

# The runs, one per line: a model and its definitions.
runs()
{
	cat <<-'END'
		window RETRIES long
		window RETRIES JOBS=3 CLAIMERS=1 long
		window RETRIES CHANGES CLAIMERS=1 long
		window SHED CRASH long
		window FAULT_EVICT_LOWERS_CURSOR
		window FAULT_ABANDON_LEAVES_CURSOR
		window FAULT_SCAN_BEFORE_RAISE
		window FAULT_NO_RAISE
		window FAULT_APPEAR_BEFORE_END RETRIES
		window FAULT_NOT_VISIBLE_IS_GONE CHANGES
		window FAULT_MISSED_DROPPED CHANGES RETRIES JOBS=1
		timer RETRIES ABANDON PAGES BACKS=1 SLACK
		timer ABANDON BACKS=1 long
		timer RETRIES BACKS=2 JOBS=1 long
		timer JOBS=3 RETRIES long
		timer FAILOVER DELAY=0 long
		timer FAILOVER RETRIES BACKS=1 JOBS=1 long
		timer FAULT_WALL_CLOCK BACKS=1 SLACK
		timer FAULT_NEVER_REWINDS BACKS=1
		timer FAULT_REWIND_LEAVES_CURSOR BACKS=1
		timer FAULT_REWIND_LEAVES_TIMER_CURSOR BACKS=1
		timer FAULT_MERGES_WHAT_WAS_DUE BACKS=1 long
		timer FAULT_RETRY_NOT_DELAYED FAILOVER RETRIES DELAY=0
		timer FAULT_TIMER_WITHOUT_CURSOR
		timer FAULT_TIMER_NO_RAISE JOBS=3 LAST=3 DELAY=2
		timer FAULT_TIMER_ABANDON_LEAVES_CURSOR JOBS=3 LAST=3 DELAY=2 ABANDON long
		timer FAULT_NO_HORIZON FAILOVER DELAY=0
		slots
		slots LIMIT=2
		slots FAULT_FREE_AT_ACK
		slots FAULT_THROUGH_POOL
		slots FAULT_CHAIN_BREAKS
		keys
		keys UNTIL_CLAIMED long
		keys FLEETING
		keys FLEETING UNTIL_CLAIMED long
		keys FLEETING FAULT_LET_GO_UNLOCKED
		keys EMPTY
		keys EMPTY UNTIL_CLAIMED
		keys FAULT_NO_KEY_LOCK EMPTY
		keys FAULT_RELEASED_EARLY EMPTY
		keys FAULT_SKIP_INSERTING EMPTY
		keys FAULT_DELETING_IS_GONE
		keys FAULT_NO_HOLD
		keys FAULT_CLAIMING_IS_LEASED UNTIL_CLAIMED
		keys FAULT_NO_VERIFY
		lease TWIN
		lease CRASH long
		lease FAULT_EXPIRE_PINNED
		lease FAULT_UNFENCED
		lease CRASH GUESS MAX_ATTEMPTS=1 long
		lease CRASH EDIT MAX_ATTEMPTS=1 long
		lease CANCEL MAX_ATTEMPTS=1
		lease CANCEL
		lease CANCEL CRASH MAX_ATTEMPTS=1 long
		lease FINISH MAX_ATTEMPTS=1
		lease FINISH CANCEL MAX_ATTEMPTS=1
		lease FINISH
		lease FAULT_FINISH_USED FINISH MAX_ATTEMPTS=1
		lease RELEASE=1 MAX_ATTEMPTS=1
		lease RELEASE=1 CRASH MAX_ATTEMPTS=1 long
		lease ASSERT MAX_ATTEMPTS=1
		lease ASSERT CANCEL MAX_ATTEMPTS=1
		lease FAULT_RELEASE_UNFENCED RELEASE=1 CRASH MAX_ATTEMPTS=1 long
		lease FAULT_ASSERT_ONLY_LOOKS ASSERT MAX_ATTEMPTS=1
		lease FAULT_LOSE_USED CANCEL
		lease FAULT_TOKENS_REPEAT CRASH
		lease FAULT_GROWTH_PER_JOB TWIN
		lease FAULT_LATE_ACK_UNCHECKED CRASH GUESS MAX_ATTEMPTS=1
		lease FAULT_CHANGE_UNFENCED CRASH EDIT MAX_ATTEMPTS=1 long
		lease FAULT_LATE_ACK_WITHOUT_LEASE CRASH
		prepared
		prepared CRASH
		prepared CLAIM
		prepared CLAIM CRASH long
		prepared FAULT_PREPARED_CLAIM_UNLOCKED CLAIM CRASH
		prepared FAULT_DID_COMMIT_FIRST
		prepared FAULT_WATCH_FORGETS_HINTS
		prepared FAULT_VISIBLE_IS_LIVE CRASH
		prepared FAULT_LIST_AFTER_ATTACH CRASH
		saved
		saved FAULT_MARK_NOT_CLOSED
		saved FAULT_MARK_UNLOCKED
		saved FAULT_MARK_NOT_RAISED
		saved FAULT_MARK_NOT_COMPARED
		saved FAULT_UNPUBLISHED_REUSED
		saved FAULT_FENCE_NOT_ASKED
		waiters QUEUES=2 long
		waiters JOBS=2 CLAIMER CANCELS=1 long
		waiters TIMERS CANCELS=1 long
		waiters LIMIT=1 CLAIMER long
		waiters LIMIT=2 JOBS=2 long
		waiters LIMIT=1 CANCELS=1 long
		waiters FAULT_ROOM_IS_NO_NEWS LIMIT=1 JOBS=2
		waiters FAULT_CLAIM_LEAVES_JOBS LIMIT=2 JOBS=2
		waiters FAULT_REJOINED_OWES_NOTHING QUEUES=2 long
		waiters FAULT_LEAVE_WITHOUT_PASSING QUEUES=2
		waiters FAULT_CLAIM_LEAVES_JOBS QUEUES=2 long
		waiters FAULT_LOOK_BEFORE_JOINING
		waiters FAULT_WATCH_NOT_HANDED_OVER TIMERS CANCELS=1 long
		waiters FAULT_WATCHER_SLEEPS_ON TIMERS CANCELS=1 long
		segment JOBS=2 MOVES=1 long
		segment CRASH MOVES=1 long
		segment LATE_ACK long
		segment PURGE long
		segment ASK long
		segment BY_HAND long
		segment BY_HAND SEGMENTS=3 TRUNCATIONS=0 long
		segment ONLY_BY_HAND SEGMENTS=3 MOVES=3 TRUNCATIONS=0 long
		segment FAULT_TRUNCATE_UNVERIFIED
		segment FAULT_VERIFY_UNLOCKED
		segment FAULT_MOVE_WITHOUT_LEASE
		segment FAULT_MOVE_IN_TWO
		segment FAULT_APPEAR_BEFORE_END
		segment FAULT_LOOK_BEFORE_LOCKED LATE_ACK MOVES=1
		segment FAULT_LOOK_ONCE LATE_ACK
		segment FAULT_UNPINNED_IS_GONE LATE_ACK MOVES=1
		segment FAULT_MOVES_COUNTED ONLY_BY_HAND SEGMENTS=3 MOVES=3 TRUNCATIONS=0 long
		segment FAULT_STALE_WHILE_MOVED LATE_ACK
		segment FAULT_PURGE_WITHOUT_WAITING PURGE
		segment FAULT_EMPTY_WHILE_MOVED ASK
		segment FAULT_EMPTY_LOOKS_LATE ASK
		shares WORKERS=3 long
		shares WORKERS=3 COMMON=2 long
		shares FAULT_ADD_THEN_CHECK WORKERS=3
		shares FAULT_CHECK_THEN_ADD ROUNDS=1 long
		shares FAULT_LOOK_ONCE WORKERS=3
		shares FAULT_ASIDE_FORGETS WORKERS=3 COMMON=2
		lock
		lock CRASH long
		lock BOUND long
		lock BOUND CRASH long
		lock PREPARES CRASH long
		lock FAULT_TAG_NOT_ASKED
		lock FAULT_LOOK_BEFORE_TAG
		lock FAULT_FREED_AT_ONCE
		lock FAULT_ROW_LEFT BOUND CRASH
		lock FAULT_PREPARED_FORGOTTEN PREPARES CRASH long
		lock FAULT_PREPARED_TAG_FORGOTTEN PREPARES CRASH long
		tick
		tick CRASHES=3 HOURS=3
		tick FAULT_IN_TWO
		tick FAULT_UPSERT_BEGINS_ANEW
		tick FAULT_ANY_CLOCK
		depth COUNTS=1 long
		depth COUNTS=1 ROWS=2 long
		depth COUNTS=3 TRANSACTIONS=2
		depth FAULT_ALL_SINCE_BEGIN COUNTS=1
		depth FAULT_SNAPSHOT_FORGOTTEN COUNTS=1
		depth FAULT_NOT_LOGGED COUNTS=1
		depth FAULT_LOOK_BEFORE_VISIBLE COUNTS=1
		depth FAULT_NOT_RESERVED COUNTS=1
		depth FAULT_FREED_AT_ONCE COUNTS=1
		parts long
		parts TRANSACTIONS=2 PARTS=3
		parts FAULT_SEEN_COUNTS_IN_PART
		parts FAULT_SEEN_IS_DROPPED
		parts FAULT_PART_NOT_LOGGED
		parts FAULT_OLDER_IS_PLACED
		claim long
		claim FAULT_WAIT_FOR_TRANSACTION
		claim FAULT_EDGE_NOT_PUBLISHED
		claim FAULT_ALL_GIVE_UP
		claim FAULT_LOOK_ONCE
		claim FAULT_OWN_EDGE_IS_OLD long
		turns long
		turns BY_KEY CLAIMS=1 long
		turns FAULT_NO_TURN
		turns FAULT_HOLDER_PASSES
		turns FAULT_WAIT_UNDER_KEY
		turns FAULT_JOIN_WANTED
		turns FAULT_NO_GAP
		turns FAULT_GAP_BY_AN_OLD_LOOK
		call
		call BATCH long
		call USES long
		call ANSWERS long
		call CRASH long
		call USES ANSWERS CRASH long
		call USES BATCH long
		call FAULT_TOLD_WITH_OTHERS USES BATCH
		call FAULT_STALE_ACK
		call FAULT_STALE_COUNTS
		call FAULT_FAIL_WITHOUT_TOKEN
		call FAULT_ACK_AFTER_ANSWER ANSWERS
		call FAULT_UNDONE_CANCEL_FORGETS
		call FAULT_UNBEGUN_IS_LOST
		call FAULT_UNBEGUN_EXPIRES
		call FAULT_GIVEN_BACK_UNTOLD
		call FAULT_FAILURE_WAITS_FOR_CANCEL
		call FAULT_NO_LOOK
		batch_gate
		batch_gate MOVED=0 MOVES=2
		batch_gate CLOSED_ADMITS
		batch_gate UNTAGGED_IN_WORK MOVED=0 MOVES=2
		batch_gate TAG_TO_END
		batch_gate FAULT_NO_TAG
		batch_gate FAULT_RELEASED_BEFORE_INSERT
		batch_gate FAULT_LOOK_THEN_INSERT
		batch_gate FAULT_OPEN_IS_REMEMBERED
		batch_gate FAULT_TAG_OFF_BEFORE_COMMIT CLOSED_ADMITS
		batch_gate FAULT_BUSY_IS_FORGOTTEN
		batch_gate FAULT_SNAPSHOT_ONLY
		batch_gate FAULT_VERSIONS_ONLY
		batch_gate FAULT_SNAPSHOT_BEFORE_TAG
		batch_gate FAULT_SNAPSHOT_BEFORE_TAG TAG_TO_END
		batch_gate FAULT_SEGMENTS_UNLOCKED MOVES=2
		batch_gate FAULT_SEGMENTS_UNLOCKED TAG_TO_END
		batch_gate FAULT_OWN_SNAPSHOT
		batch_gate FAULT_TAKEN_AFTER_LOOK
		batch_gate FAULT_TELL_BEFORE_VISIBLE
		batch_gate FAULT_ABORT_TELLS_NOBODY
		batch_gate FAULT_SUBABORT_TELLS_NOBODY
		batch_gate FAULT_CLOSE_TELLS_NOBODY
		batch_gate FAULT_PREPARED_FORGOTTEN
		batch_gate FAULT_RESTART_LOOKS_AT_NOTHING
		batch_gate FAULT_DEAD_SCHEDULER_FORGETS
		batch_gate FAULT_MARK_IN_TWO
		batch_watch ADDS=1
		batch_watch long
		batch_watch IN_WORK ADDS=1
		batch_watch DEATHS ADDS=1 long
		batch_watch FAULT_LOOKING_IS_NOT_TOLD
		batch_watch FAULT_LOOK_THEN_TAKE
		batch_watch FAULT_CLOSE_IS_NO_NEWS
		batch_watch FAULT_DEATH_IS_NO_NEWS DEATHS ADDS=1
		batch_watch FAULT_FULL_IS_DROPPED
		batch_watch FAULT_SWEEP_CLEARS
		batch_watch FAULT_INSERT_LOWERS_NOTHING
		batch_watch FAULT_LOWERED_BEFORE_INSERT
		batch_watch FAULT_LOWERED_WITHOUT_TAG
		batch_watch FAULT_LOWERED_AFTER_COMMIT IN_WORK
		batch_watch FAULT_FLOOR_OVERWRITES
		batch_watch FAULT_FLOOR_OUTLIVES
		batch_watch FAULT_FIRES_WITHOUT_TAG
		batch_watch FAULT_DEAD_SCHEDULER_FORGETS
		batch_events
		batch_events GONE_QUEUE
		batch_events FAULT_JOB_THEN_DEAD
		batch_events FAULT_DEAD_THEN_JOB
		batch_events FAULT_LOSS_LEAVES_NO_NOTE
		batch_events FAULT_DEAD_LETTER_GOES_SILENTLY
		batch_events FAULT_FAILURE_BY_ROW
		batch_events FAULT_FINISHED_IS_OVER
		batch_events FAULT_SNAPSHOT_BEFORE_LOCK
		batch_events FAULT_MARK_BY_SNAPSHOT
		batch_events FAULT_CALLBACKS_TOGETHER GONE_QUEUE
		batch_events FAULT_REFUSED_IS_FORGOTTEN
		batch_cancel COMES_AGAIN
		batch_cancel COMES_AGAIN IN_CALL
		batch_cancel
		batch_cancel FAULT_SKIPPED_IS_FORGOTTEN COMES_AGAIN
		batch_cancel FAULT_IN_WORK_IS_LEFT
		batch_cancel FAULT_ADD_TELLS_NOBODY
		batch_cancel FAULT_CLAIM_TELLS_NOBODY
		batch_cancel FAULT_USE_TELLS_NOBODY
		batch_cancel FAULT_RETURN_TELLS_NOBODY
		batch_cancel FAULT_UNDONE_END_TELLS_NOBODY
		child CRASHES=2
		child QUEUES
		child FAULT_LOOK_THEN_INSERT
		child FAULT_ASK_THEN_DELETE
		child FAULT_VISIBLE_ONLY
		child FAULT_DELETING_IS_LIVE
		child FAULT_DELETED_OUTCOME_IS_KNOWN
		child FAULT_FLAG_LAST
		child FAULT_FLAG_THEN_LOCK
		child FAULT_LOWERED_UNLOCKED
		child FAULT_NO_CHILDREN_AT_START
		child FAULT_LOOKS_ONCE QUEUES
		child FAULT_MOVING_IS_THERE QUEUES
		child FAULT_MOVE_ASKS_FIRST QUEUES
		child FAULT_CHILD_TELLS_NOBODY
		child FAULT_END_TELLS_NOBODY
		child FAULT_SKIPPED_CHILD_FORGOTTEN
		child FAULT_PREPARED_FORGOTTEN
		child FAULT_RESTART_LOOKS_AT_NOTHING
		child FAULT_DEAD_SCHEDULER_FORGETS
		child FAULT_COLLECTOR_ASKS_FIRST
		child FAULT_COLLECTED_BY_SNAPSHOT
		parent
		parent FAULT_JOB_THEN_REST
		parent FAULT_PARENT_BY_PARENT
		parent FAULT_DEATH_WRITES_OUTCOME
		parent FAULT_DEAD_LETTER_GOES_SILENTLY
		parent FAULT_DEATH_TELLS_NOBODY
		incarnation
		incarnation CLEANERS=2 USES=0 long
		incarnation LAUNCHER USES=2
		incarnation FAULT_LOOK_UNLOCKED
		incarnation FAULT_LOOK_BEFORE_LOCK
		incarnation FAULT_OWN_LOCK_NOT_ASKED
		incarnation FAULT_GENERATION_NOT_COMPARED CLEANERS=2 USES=0
		incarnation FAULT_LOOK_BEFORE_NOTE LAUNCHER
		incarnation FAULT_KEY_BEFORE_WAIT
		incarnation FAULT_GENERATION_NOT_ASKED
	END
}

# passes RESULT: the run has the expected result, and is marked correctly as long or not
passes()
{
	local is=
	[ "$states" -le $long ] || is=long
	if [ "$marked" = "$is" ]; then
		echo "ok $name: $1, $(($(date +%s%3N) - start)) ms"
	else
		echo "not ok $name: ${is:-not long}, with $states states, which its line does not say"
	fi
}

# check DIR MODEL DEFINITION... [long]: makes one run
check()
{
	local dir=$1 model=$2 name marked='' definitions verdict=holds states error start
	start=$(date +%s%3N)
	[ "${*: -1}" != long ] || { marked=long; set -- "${@:1:$#-1}"; }
	definitions=("${@:3}")
	name=$(IFS=' '; echo "${*:2}")
	case $name in *FAULT_*) verdict=broken ;; esac
	dir=$dir/${name// /,}
	mkdir -p "$dir" && cd "$dir" || return
	# Without partial order reduction, since every step is visible to the other processes. Without optimization, which
	# takes longer than it saves.
	if ! { spin -a "${definitions[@]/#/-D}" "$models/$model.pml" &&
		cc -O0 -w -DSAFETY -DNOREDUCE -DMEMLIM=3000 -o pan pan.c &&
		./pan -m100000; } >out 2>&1
	then
		tail -n 20 out
		echo "not ok $name: does not run"
		return
	fi
	states=$(awk '/states, stored/ { print $1 }' out)
	error=$(sed -n 's/^pan:1: \(.*\) (at depth .*/\1/p' out | cut -c1-70)
	case $verdict-$error in
		holds-)
			if grep -q 'errors: 0' out && ! grep -qE 'not completed|max search depth' out; then
				passes "holds in all $states states"
				return
			fi ;;
		broken-assertion*'invalid array index'*) ;;
		broken-assertion* | broken-invalid\ end\ state*)
			passes "seen after $states states ($error)"
			return ;;
	esac
	sed '/^unreached/,$d' out | tail -n 20
	echo "not ok $name: ${error:-not seen in $states states}"
}

if [ "$1" = check ]; then
	check "${@:2}"
	exit
fi

# quick_runs: leaves out of the runs on the standard input the long ones, and all but one with a fault of each model
quick_runs()
{
	awk '/ long$/ || (/ FAULT_/ && faults[$1]++) { next } { print }'
}

chosen='cat'
[ "$1" != --quick ] || { chosen=quick_runs; shift; }
mkdir -p "$1" || exit
runs | $chosen | if [ $# -gt 1 ]; then grep -F "$(printf '%s\n' "${@:2}")"; else cat; fi |
	xargs -P 2 -I{} sh -c 'exec "$0" check "$1" $2' "$models/run.sh" "$1" {}
