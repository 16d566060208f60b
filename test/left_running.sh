# shellcheck shell=bash
# Sourced by the test runner: ends the processes that tests have left running.
#
# The runner sets PGQ_TEST_SUITE=DIR:SUITE for each suite, and every process that a test starts inherits the variable. DIR is
# the temporary directory of the run. A server may overwrite its own environment: stop_servers ends servers.

# left_running DIR SUITE: prints the processes of that suite. SUITE is a regular expression.
left_running()
(
	unset PGQ_TEST_SUITE # the programs that search must not find themselves
	grep -lszxE "PGQ_TEST_SUITE=$1:$2" /proc/[0-9]*/environ | cut -d / -f 3
)

# end_left_running DIR SUITE: kills these processes, and those that they start until then. Prints a line for each.
# Gives up if the same processes survive for $HANG seconds.
end_left_running()
{
	local left pid before='' rounds=0
	local -A told=()
	while left=$(left_running "$1" "$2"); [ -n "$left" ]; do
		[ "$left" = "$before" ] || rounds=0
		before=$left
		if [ $((rounds++)) -ge $((${HANG:-900} * 10)) ]; then
			echo "they go on, whatever is done: ${left//$'\n'/ }"
			return 1
		fi
		for pid in $left; do
			[ -n "${told[$pid]:-}" ] || echo "left running: $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | cut -c 1-200)"
			told[$pid]=1
			kill -KILL "$pid" 2>/dev/null
		done
		sleep 0.1
	done
}

# start_guard DIR: starts a process, $guard, that waits for the end of this shell and then ends what is left.
start_guard()
{
	(
		trap '' INT TERM HUP
		tail --pid=$$ -f /dev/null
		stop_servers "$1"
		end_left_running "$1" '[a-z_]*'
		[ -n "${KEEP:-}" ] || rm -rf "${1:?}"
	) </dev/null >/dev/null 2>&1 &
	guard=$!
	disown "$guard"
}
