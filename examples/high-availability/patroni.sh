#!/bin/bash
# Two nodes, "a" and "b", with Patroni, and one etcd, on this machine, for trying out:
#
#   patroni.sh start DIR        creates everything in DIR, and prints the URL for clients
#   patroni.sh stop DIR         stops everything; DIR stays, and "start" continues with it
#   patroni.sh state DIR        shows which node is the primary
#   patroni.sh kill DIR NODE    simulates a machine that dies: kill -9 of all processes of the node
#   patroni.sh run DIR NODE     starts such a node again
#   patroni.sh pause DIR NODE   simulates a machine that hangs; "resume" ends that, "wake" only for its PostgreSQL: two primaries
#   patroni.sh whole DIR        prints yes or no: both nodes run, and the standby follows
#   patroni.sh switch DIR       makes a planned change of roles
#
# Run it as an unprivileged user, with PostgreSQL, pgq_ext, Patroni and etcd installed. With MODE=async in the environment, the
# primary does not wait for the standby. With FAST=1, a death is noticed within 20 seconds, as a test wants it; a busy machine may
# then take a slow node for dead. If its machine dies, a single etcd forgets which node leads: in production have three.
set -euo pipefail
# shellcheck source=examples/high-availability/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"
etcd_port='' peer_port=''
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2; }
[ $# -ge 2 ] || usage
command=$1
in_directory "$2"
node=${3:-}

run()
{
	if [ "$1" = etcd ]; then
		in_background etcd etcd --name etcd --data-dir "$dir/etcd" \
			--listen-client-urls "http://$host:$etcd_port" --advertise-client-urls "http://$host:$etcd_port" \
			--listen-peer-urls "http://$host:$peer_port" --initial-advertise-peer-urls "http://$host:$peer_port" \
			--initial-cluster "etcd=http://$host:$peer_port"
	else
		in_background "$1" patroni "$dir/$1.yml"
	fi
}

# configuration NODE: the settings that all nodes share are under dcs; the first node writes them to etcd
configuration()
{
	local synchronous=true ttl=30 loop=10
	[ "${MODE:-}" != async ] || synchronous=false
	[ -z "${FAST:-}" ] || ttl=20 loop=2
	cat <<-YAML
		scope: pgq
		name: $1
		restapi:
		  listen: $host:$(port_of "$1_rest")
		  connect_address: $host:$(port_of "$1_rest")
		etcd3:
		  host: $host:$etcd_port
		bootstrap:
		  dcs:
		    ttl: $ttl
		    loop_wait: $loop
		    retry_timeout: $((ttl / 3))
		    maximum_lag_on_failover: 1048576
		    synchronous_mode: $synchronous
		    postgresql:
		      use_pg_rewind: true
		      parameters:
		        wal_log_hints: 'on'
		  initdb:
		  - encoding: UTF8
		  - no-locale
		  - auth-local: trust
		  - auth-host: trust
		postgresql:
		  listen: $host:$(port_of "$1")
		  connect_address: $host:$(port_of "$1")
		  data_dir: $dir/$1
		  bin_dir: $(dirname "$(command -v pg_ctl)")
		  pgpass: $dir/$1.pass
		  authentication:
		    superuser: {username: postgres}
		    replication: {username: postgres}
		  parameters:
		    unix_socket_directories: $dir
	YAML
	pgq_conf | sed -n "s/^\([a-z_.]*\) = \('[^']*'\|[^ ]*\).*/    \1: \2/p"
	cat <<-YAML
		  pg_hba:
		  - local all all trust
		  - host all all $host/32 trust
		  - host replication all $host/32 trust
		watchdog:
		  mode: off
	YAML
}

# Print the nodes as Patroni knows them: role, state, and which of them is synchronous.
members() { patronictl -c a.yml list -f tsv; }
is_whole()
{
	if [ "${MODE:-}" = async ]; then
		members | grep -qE 'Replica\s+(running|streaming)'
	else
		members | grep -qE 'Sync Standby\s+(running|streaming)'
	fi
}
etcd_answers() { exec 9<>"/dev/tcp/$host/$etcd_port"; }

case $command in
start)
	if [ ! -e ports ]; then
		free_ports etcd peer a b a_rest b_rest
		for name in a b; do configuration $name >$name.yml; done
	fi
	run etcd
	until_true 'etcd answers' etcd_answers
	run a
	[ -d b ] || until_true 'there is a primary' is_writable
	run b
	until_true 'there is a primary' is_writable
	until_true 'the standby follows' is_whole
	psql -Xq -c 'SET client_min_messages = error; CREATE EXTENSION IF NOT EXISTS pgq_ext' "$(url)"
	url ;;
stop) stop b a etcd ;;
state) members ;;
whole) if is_whole; then echo yes; else echo no; fi ;;
kill) signal KILL "$node" ;;
pause) signal STOP "$node" ;;
wake) wake "$node" ;;
resume) signal CONT "$node" ;;
run) run "$node" ;;
switch) patronictl -c a.yml switchover --force ;;
url) url ;;
*) usage ;;
esac
