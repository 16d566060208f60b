# shellcheck shell=bash
# The primary is lost and its synchronous standby promoted: what was acknowledged to a client holds. On a cluster of its own,
# in a temporary directory; ASYNCHRONOUS=1 shows what replication loses that is not waited for.
own_cluster=true

drill()
{
	local dir enqueued done lost back
	[ "$(id -u)" -ne 0 ] || skip 'PostgreSQL does not run as root'
	dir=$(mktemp -d "${TMPDIR:-/tmp}/pgq_drill.XXXXXX") || bad 'no temporary directory'
	cluster=$dir
	start_cluster "$dir" >"$dir/log" 2>&1 || { tail -n 5 "$dir/log" >&2; bad 'the cluster cannot be started'; }
	on "$dir/primary" "SELECT pgq_create_queue('q')" >/dev/null
	trade "$dir" 30
	if [ -n "${ASYNCHRONOUS:-}" ]; then
		pg_ctl -D "$dir/standby" -m fast -w stop >/dev/null
		trade "$dir" 30
	fi
	pg_ctl -D "$dir/primary" -m immediate -w stop >/dev/null
	[ -z "${ASYNCHRONOUS:-}" ] || pg_ctl -D "$dir/standby" -l "$dir/standby.log" -w start >/dev/null
	pg_ctl -D "$dir/standby" -w promote >/dev/null || bad 'the standby cannot be promoted'
	say "jobs enqueued and jobs done when the primary was lost: $(wc -l <"$dir/enqueued") and $(wc -l <"$dir/done")"
	on "$dir/standby" 'SELECT job_id FROM pgq_ext.job' | sort >"$dir/there"
	enqueued=$(sort "$dir/enqueued" | comm -23 - <(sort "$dir/done"))
	lost=$(comm -23 <(echo "$enqueued") "$dir/there" | wc -l)
	back=$(comm -12 <(sort "$dir/done") "$dir/there" | wc -l)
	[ "$lost" -eq 0 ] || bad "$lost jobs were lost whose enqueue was committed"
	[ "$back" -eq 0 ] || bad "$back jobs are back whose ack was committed"
	is 'jobs that the new primary hands out' "$(wc -l <"$dir/there")" "$(on "$dir/standby" "SELECT count(*) FROM pgq_claim('q', 1000)")"
	good 'no acknowledged job was lost, none that was done is back'
}

# on DATA QUERY
on()
{
	PGHOST=${1%/*} PGPORT=$(port_of "$1") PGUSER=drill PGDATABASE=postgres psql -XqAt -v ON_ERROR_STOP=1 -c "$2"
}

port_of()
{
	case $1 in */primary) echo 5432 ;; *) echo 5433 ;; esac
}

start_cluster()
{
	initdb -D "$1/primary" -U drill -A trust --no-sync &&
		printf "%s\n" "shared_preload_libraries = 'pgq_ext'" "listen_addresses = ''" "unix_socket_directories = '$1'" >>"$1/primary/postgresql.conf" &&
		pg_ctl -D "$1/primary" -l "$1/primary.log" -o '-p 5432' -w start &&
		on "$1/primary" 'CREATE EXTENSION pgq_ext' &&
		pg_basebackup -h "$1" -p 5432 -U drill -D "$1/standby" -R --no-sync -c fast &&
		echo 'port = 5433' >>"$1/standby/postgresql.conf" &&
		pg_ctl -D "$1/standby" -l "$1/standby.log" -w start || return
	[ -n "${ASYNCHRONOUS:-}" ] || on "$1/primary" "ALTER SYSTEM SET synchronous_standby_names = '*'" &&
		on "$1/primary" 'SELECT pg_reload_conf()'
}

# trade DIR N: enqueues N jobs and does every third; what was acknowledged is written down
trade()
{
	local i
	for ((i = 0; i < $2; i++)); do
		on "$1/primary" "SELECT pgq_enqueue('q', '$i')" >>"$1/enqueued"
		[ $((i % 3)) -ne 0 ] || on "$1/primary" "WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('q'))
			SELECT job_id FROM (SELECT job_id, pgq_ack(job_id, lease) FROM c) acked" >>"$1/done"
	done
}

clean_up()
{
	[ -n "${cluster:-}" ] || return
	pg_ctl -D "$cluster/primary" -m immediate stop >/dev/null 2>&1
	pg_ctl -D "$cluster/standby" -m immediate stop >/dev/null 2>&1
	rm -rf "$cluster"
}
