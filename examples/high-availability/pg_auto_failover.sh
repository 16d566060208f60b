#!/bin/bash
# Two nodes, "a" and "b", and a monitor with pg_auto_failover, on this machine, for trying out:
#
#   pg_auto_failover.sh start DIR        creates everything in DIR, and prints the URL for clients
#   pg_auto_failover.sh stop DIR         stops everything; DIR stays, and "start" continues with it
#   pg_auto_failover.sh state DIR        shows which node is the primary
#   pg_auto_failover.sh kill DIR NODE    simulates a machine that dies: kill -9 of all processes of the node
#   pg_auto_failover.sh run DIR NODE     starts such a node again
#   pg_auto_failover.sh pause DIR NODE   simulates a machine that hangs; "resume" ends that, "wake" only for its PostgreSQL: two primaries
#   pg_auto_failover.sh whole DIR        prints yes or no: both nodes run, and the standby follows
#   pg_auto_failover.sh switch DIR       makes a planned change of roles
#
# Run it as an unprivileged user, with PostgreSQL, pgq_ext and pg_auto_failover installed. With MODE=async in the environment,
# the primary does not wait for the standby. With FAST=1, a death is noticed within some 20 seconds, as a test wants it; a
# busy machine may then take a slow node for dead.
set -euo pipefail
# shellcheck source=examples/high-availability/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"
monitor_port=''
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2; }
[ $# -ge 2 ] || usage
command=$1
in_directory "$2"
node=${3:-}
# The files of pg_autoctl and the sockets are in DIR as well.
export XDG_CONFIG_HOME=$dir/config XDG_DATA_HOME=$dir/share XDG_RUNTIME_DIR=$dir/run PGHOST=$dir
pgctl=$(command -v pg_ctl)
PG_CONFIG=${pgctl%/*}/pg_config
export PG_CONFIG

autoctl() { local name=$1; shift; pg_autoctl "$@" --pgdata "$dir/$name"; }

run() { in_background "$1" pg_autoctl run --pgdata "$dir/$1"; }

# create NAME KIND OPTION...: creates a node or the monitor
create()
{
	local name=$1 kind=$2
	shift 2
	pg_autoctl create "$kind" --pgdata "$dir/$name" --pgctl "$pgctl" --pgport "$(port_of "$name")" --hostname $host \
		--auth trust --no-ssl "$@" >>"$name.log" 2>&1 || { say "cannot make $name: see $dir/$name.log"; exit 1; }
}

on_monitor() { psql -XAtq -h "$host" -p "$monitor_port" -U autoctl_node -d pg_auto_failover -c "$1"; }

quorum=()
[ "${MODE:-}" != async ] || quorum=(--replication-quorum false)

create_monitor()
{
	new_data_directory monitor
	create monitor monitor
	[ -z "${FAST:-}" ] || cat >>monitor/postgresql.conf <<-CONF
		pgautofailover.health_check_period = 2000
		pgautofailover.health_check_timeout = 5000
		pgautofailover.health_check_retry_delay = 1000
		pgautofailover.node_considered_unhealthy_timeout = 15000
		pgautofailover.primary_demote_timeout = 5000
		pgautofailover.startup_grace_period = 5000
	CONF
}

create_node()
{
	if [ "$1" = a ]; then
		new_data_directory a
		pgq_conf >>a/postgresql.conf # b gets a copy
	fi
	create "$1" postgres --name "$1" --pghost "$dir" --listen $host --username postgres --dbname postgres \
		--monitor "postgresql://autoctl_node@$host:$monitor_port/pg_auto_failover?sslmode=disable" "${quorum[@]}"
}

states() { on_monitor "SELECT string_agg(reportedstate::text, ' ' ORDER BY reportedstate::text) FROM pgautofailover.node WHERE reportedstate = goalstate"; }
is_whole() { [ "$(states)" = 'primary secondary' ]; }
is_alone() { [ "$(states)" = single ]; }

case $command in
start)
	if [ ! -e ports ]; then
		free_ports monitor a b
		mkdir -p run
		chmod 700 run
		create_monitor
	fi
	run monitor
	until_true 'the monitor answers' on_monitor 'SELECT'
	[ -d a ] || create_node a
	run a
	until_true 'there is a primary' is_writable
	if [ ! -d b ]; then
		until_true 'the monitor knows it' is_alone
		create_node b
	fi
	run b
	until_true 'the standby follows' is_whole
	psql -Xq -c 'SET client_min_messages = error; CREATE EXTENSION IF NOT EXISTS pgq_ext' "$(url)"
	url ;;
stop) stop b a monitor ;;
whole) if is_whole; then echo yes; else echo no; fi ;;
state) autoctl monitor show state ;;
kill) signal KILL "$node" ;;
pause) signal STOP "$node" ;;
wake) wake "$node" ;;
resume) signal CONT "$node" ;;
run) run "$node" ;;
switch) autoctl monitor perform switchover ;;
url) url ;;
*) usage ;;
esac
