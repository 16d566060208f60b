#!/bin/bash
# Plants faults, one at a time, in a copy of the headers of src/core. Checks that group_model_test.cpp fails with each fault.
#
#   test/unit/group_faults.sh             all faults
#   test/unit/group_faults.sh NAME...     only faults whose name contains NAME
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# fault NAME FILE OLD NEW: replace the first OLD in the file by NEW, and run the test. $walks multiplies the random walks.
fault()
{
	local name=$1 file=$2 wanted
	[ ${#selected[@]} -eq 0 ] || for wanted in "${selected[@]}" ''; do
		[ -n "$wanted" ] || return 0
		[[ $name != *"$wanted"* ]] || break
	done
	rm -rf "$work/src" && mkdir "$work/src" && cp -r src/core "$work/src/core"
	OLD=$3 NEW=$4 perl -0pi -e '$n = s/\Q$ENV{OLD}\E/$ENV{NEW}/; END { exit !$n }' "$work/src/core/$file" || {
		echo "not ok $name: $file does not have that text"
		failed=1
		return
	}
	g++ -std=c++20 -O1 -w -I"$work/src" -Itest/unit -o "$work/model" test/unit/group_model_test.cpp -lgtest -lgtest_main || exit
	if GROUP_WALKS=${walks:-1} timeout 600 "$work/model" --gtest_fail_fast >"$work/out" 2>&1; then
		echo "not ok $name: the model does not see it"
		failed=1
	else
		echo "ok $name: $(grep -oE '(remembered [0-9]+|Which is): .{0,70}|Assertion .*' "$work/out" | head -1)"
	fi
}
selected=("$@")

fault eviction-leaves-cursor ready_jobs.h '{ lower(window_refill_, cursor_, h.key); }' '{ }'
fault freed-group-unmarked groups.h ': group->cursor;
		if (open)' ': Key::highest();
		if (open)'
fault gone-head-unmarked ready_jobs.h 'if (groups_.room(id) > 0)
			look_from(id, Key::lowest());' ''
fault dropped-key-forgotten groups.h 'group->cursor = std::min(group->cursor, key);' ''
fault rest-of-visit-unmarked ready_jobs.h 'keep(Window::marker_of(group, next));' '{ }'
fault marker-does-not-block ready_jobs.h 'return !window_.empty() && !window_.first().marker && !comes_before_window();' 'return !window_.empty() && !comes_before_window();'
fault marker-level-ignored turns.h 'return add_run(group, std::min(from, first_of_priority(bound)));' 'return add_run(group, from);'
fault lowest-waiting-key-ignored turns.h 'Key from = std::min(next, lowest_of(r));' 'Key from = next;'
fault left-forgotten lap.h 'left_ = std::max<int64_t>(left_, priority);' 'left_ = left_;'
fault evicted-run-unknown turns.h 'lap_.lose(priority, group, hand_of(priority));' ''
walks=5 fault stale-step-taken lap.h 'return distance(read_from_, group) >= spoilt_;' 'return false;'
fault filed-under-a-step-dropped lap.h '!(reading_ && in_arc(group)) && ' ''
fault turn-before-lap lap.h '(priority == priority_ && ahead(group, hand))' 'priority == priority_'
fault ready-priority-unnoted ready_jobs.h 'turns_.note_ready(hint.key.priority);' ''
fault bound-lowered-under-a-lap turns.h 'if (step->priority >= top_)' 'if (true)'
fault ready-while-a-step-reads turns.h 'std::max(met_, static_cast<int32_t>(std::max<int64_t>(highest, INT32_MIN)))' 'static_cast<int32_t>(std::max<int64_t>(highest, INT32_MIN))'
walks=5 fault turn-goes-back-unseen turns.h 'lap_.reach_back(popped.key.priority, turn.before);' ''
fault turn-passed-out-of-turn turns.h 'if (run == next() && lets_go(run))' 'if (true)'
fault new-run-is-whole turns.h 'run->run.more = bound != Lap::kNone;' 'run->run.more = false;'
fault head-known-for-ever heads.h 'slot->known = false;
		slot->again = true;' ''
fault floor-not-lowered heads.h 'slot->floor = std::min(slot->floor, hint.key.job_id);' ''
fault full-group-runs-on groups.h 'std::max(rules_.most() - group->running, 0)' 'std::max(rules_.most() - group->running, 1)'
fault start-uncounted groups.h 'rates_.starts_of(group).note(1, rates_.now());' ''
fault merged-group-uncounted groups.h 'rates_.add_to_others(starts);' ''
fault throttled-for-ever groups.h 'rates_.throttle(group);' 'rates_.stop_timing(group);'
fault timer-passes-unseen schedule.h 'return known_to(timer_refill_, timer_cursor_).run_at <= due_line_;' 'return timer_refill_.active && known_to(timer_refill_, timer_cursor_).run_at <= due_line_;'
fault prepared-row-of-full-group ready_jobs.h 'else if (!groups_.drop(id, from))' 'else if (groups_.room(id) > 0)'
fault prepared-row-unmarked ready_jobs.h 'else if (!groups_.drop(id, from))
			look_from(id, from);' 'else
			groups_.drop(id, from);'
fault prepared-priority-unnoted ready_jobs.h 'turns_.note_ready(key.priority);
		Key from' 'Key from'
fault prepared-head-below-floor ready_jobs.h 'heads_.forget(id);' 'heads_.doubt(id);'
fault prepared-row-left-group ready_jobs.h 'Key from = in_order ? Key::lowest() : key;' 'Key from = key;'
fault prepared-row-without-group ready_jobs.h 'if (id == 0 && !fair())' 'if (id == 0)'
fault prepared-horizon-unraised schedule.h 'horizon_.raise(rows.horizon);' ''
[ $failed -eq 0 ]
