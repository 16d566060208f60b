#!/bin/bash
# Prints the output of a failed TAP test:
#
#   test/failed_log.sh DIR NAME
#
# From its log in DIR: each test point that failed, with 15 lines before and after it, and the end; and the ends of
# the logs of its servers, with the lines that say how a process was ended. Each part begins with a line "-- log of ...", by which .ci/run finds it.
set -u

# end_of FILE: prints the end of the file
end_of()
{
	echo "-- log of ${1##*/}: the end"
	tail -n 20 "$1"
}

log=$1/regress_log_$2
echo "-- log of ${log##*/}: what failed"
# "not ok 7 - name", perhaps after the time, or indented in a subtest
grep -E -B 15 -A 15 '^(\[[^]]*\]\([^)]*\))? *not ok ' "$log"
end_of "$log"
for server in "$1/$2"_*.log; do
	[ -e "$server" ] || continue
	end_of "$server"
	grep -E 'terminated by signal|exited with exit code|PANIC:|TRAP:|Failed process was running' "$server" | tail -n 5
done
