#!/bin/bash
# Drills: faults that are brought about on purpose, on a scratch queue of a server that runs, to see that it stands them.
#
#   drills/run.sh [OPTION] DRILL [PSQL OPTION...]      one of: worker_killed slow_handler poison
#                                                      failing_handler backlog prepared immediate_stop failover; or all
#   --data DIRECTORY     for immediate_stop: of the server, which is stopped and started by pg_ctl
#   --restart COMMAND    ... or what does that
#
# The last line of a drill is its verdict: GOOD (status 0), BAD (1), or SKIP (3) if it cannot be done here. Where to connect
# say psql's options and environment; the role may create and drop queues, and work.
set -uo pipefail

folder=$(dirname "$0")
drills=(worker_killed slow_handler poison failing_handler backlog prepared immediate_stop failover)

usage()
{
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d' >&2
	exit 2
}

restart=
while [[ ${1:-} == --* ]]; do
	[ $# -ge 2 ] || usage
	case $1 in
		--data) restart="pg_ctl -D $(printf %q "$2") -l $(printf %q "$2/drill.log") -m immediate -w restart" ;;
		--restart) restart=$2 ;;
		*) usage ;;
	esac
	shift 2
done
name=${1:-}
psql_options=("${@:2}")

if [ "$name" = all ]; then
	status=0
	for name in "${drills[@]}"; do
		"$0" ${restart:+--restart "$restart"} "$name" "${psql_options[@]}"
		case $? in 0 | 3) ;; *) status=1 ;; esac
	done
	exit $status
fi
[[ " ${drills[*]} " == *" $name "* ]] && [ -n "$name" ] || usage

queue=drill_${name}_$$
own_cluster=false
. "$folder/lib.sh"
. "$folder/$name.sh"
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
echo "$name:"
$own_cluster || ask 'SELECT 1' >/dev/null || bad 'the server cannot be reached'
drill
bad 'it has not come to its end'
