#!/bin/bash
# Checks that the test runner ends processes that tests leave running, and tests that hang. Prints "ok NAME" or
# "not ok NAME".
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. test/left_running.sh
dir=$(mktemp -d) || exit
trap 'HANG=1 end_left_running "$dir" "[a-z_]*" >/dev/null; rm -rf "$dir"' EXIT

# check NAME COMMAND...: prints the result of the command
check()
{
	if "${@:2}"; then echo "ok $1"; else echo "not ok $1"; fi
}

# start SUITE: starts a daemon as a test may leave it: it ignores SIGTERM and has no parent.
start()
{
	PGQ_TEST_SUITE=$dir:$1 setsid bash -c 'trap "" TERM; sleep 1000 & echo started; wait' >"$dir/$1.out" 2>&1 &
	disown
	until grep -qs started "$dir/$1.out"; do sleep 0.1; done
}

is_left() { [ -n "$(left_running "$dir" "$1")" ]; }
is_gone() { ! is_left "$1"; }
ends_soon()
{
	local _
	for _ in {1..600}; do
		is_gone "$1" && return
		sleep 0.1
	done
	return 1
}

start one
start other
check 'a daemon of a suite is found' is_left one
end_left_running "$dir" one >"$dir/ended"
check 'each process that is ended is named' grep -q '^left running: .*sleep 1000' "$dir/ended"
check 'a daemon of a suite is ended' is_gone one
check 'a daemon of another suite goes on' is_left other
(
	kill() { :; }
	HANG=1 end_left_running "$dir" other
) >"$dir/ended"
check 'what cannot be ended is a failure' test $? -eq 1
check '... and is told' grep -q '^they go on, whatever is done: [0-9]' "$dir/ended"

# The guard of a runner that is killed.
mkdir "$dir/run"
bash -c '. test/left_running.sh; stop_servers() { :; }; start_guard "$1"; echo ready >"$1/ready"; exec sleep 1000' bash "$dir/run" &
runner=$!
disown
until [ -e "$dir/run/ready" ]; do sleep 0.1; done
dir=$dir/run
start killed
kill -KILL "$runner"
check 'the guard of a runner that was killed ends what is left' ends_soon killed
dir=${dir%/run}

# A command that hangs, and one that does not.
test/watch.pl 5 '' bash -c 'trap "" TERM; echo begun; sleep 1000' >"$dir/hangs" && echo 'succeeded' >>"$dir/hangs"
check 'a command that hangs is ended' grep -q '^timeout: nothing has happened for 5 s' "$dir/hangs"
check '... and named' grep -q '^timeout: sleep 1000' "$dir/hangs"
check '... and has failed' test -z "$(grep succeeded "$dir/hangs")"
test/watch.pl 1000 '' bash -c 'echo said; exit 7' >"$dir/ends"
check 'the exit status of a command that ends is kept' test $?-"$(cat "$dir/ends")" = 7-said

# The log of a failed TAP test.
{
	seq -f 'before %g' 100
	echo '[19:20:21.123](0.004s) not ok 77 - in the middle'
	echo "#          got: '1'"
	seq -f 'after %g' 100
} >"$dir/regress_log_007_some"
seq -f 'of the server %g' 100 >"$dir/007_some_main.log"
echo 'of another' >"$dir/008_other_main.log"
test/failed_log.sh "$dir" 007_some >"$dir/failed"
check 'a failure in the middle of a log is shown' grep -q "got: '1'" "$dir/failed"
check '... with what is around it, and the ends of all logs' test "$(grep -v '^#\|not ok' "$dir/failed" | tr '\n' ' ')" = "$({
	echo '-- log of regress_log_007_some: what failed'
	seq -f 'before %g' 86 100
	seq -f 'after %g' 14
	echo '-- log of regress_log_007_some: the end'
	seq -f 'after %g' 81 100
	echo '-- log of 007_some_main.log: the end'
	seq -f 'of the server %g' 81 100
} | tr '\n' ' ')"

# A strict run of a PostgreSQL whose source cannot be had, with stubs of what strict.sh calls.
mkdir -p "$dir/tree/test" "$dir/tree/script"
cp test/strict.sh "$dir/tree/test"
echo 'elsewhere() { :; }' >"$dir/tree/script/version.sh"
echo '#!/bin/bash' >"$dir/tree/script/setup.sh"
cat >"$dir/tree/script/assert_server.sh" <<'STUB'
#!/bin/bash
[[ $WITHOUT_SOURCE != *$PG* ]] || exit 3
echo "PostgreSQL $PG"
STUB
cat >"$dir/tree/test/run.sh" <<'STUB'
#!/bin/bash
echo "$PG_CONFIG: $*"
exit "$TESTS"
STUB
chmod 755 "$dir"/tree/*/*.sh

# strict VERSIONS STATUS: of VERSIONS there is no source, and the tests end with STATUS. Prints what is said, and the exit status.
strict() { WITHOUT_SOURCE=$1 TESTS=$2 PG=19 "$dir/tree/test/strict.sh" --or 18 regress queue; echo $?; }
instead='PostgreSQL 19 cannot be built with assertions, for want of its source: with 18 instead'
check 'a strict run takes the PostgreSQL that it was asked for' test "$(strict '' 0)" = $'PostgreSQL 19: regress queue\n0'
check '... and no other when tests fail' test "$(strict '' 1)" = $'PostgreSQL 19: regress queue\n1'
check '... the other when there is no source, and says so' test "$(strict 19 0)" = "$instead"$'\nPostgreSQL 18: regress queue\n0'
check '... and fails when tests fail there' test "$(strict 19 1)" = "$instead"$'\nPostgreSQL 18: regress queue\n1'
check '... or when there is no source of that either' test "$(strict '19 18' 0)" = "$instead"$'\n3'
