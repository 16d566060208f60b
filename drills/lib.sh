# shellcheck shell=bash
# What drills share. Sourced by run.sh, which has set name, queue and psql_options.

# Each session of ours has the queue's name for its own: so clean_up finds them.
sql()
{
	PGAPPNAME=$queue psql -XqAt -v ON_ERROR_STOP=1 -v queue="$queue" "${psql_options[@]}" "$@"
}

# ask QUERY: its answer; :'queue' in it is the queue
ask()
{
	sql <<<"$1"
}

# sqlstate_of SCRIPT: the SQLSTATE of its first error, or nothing. It is run to its end.
sqlstate_of()
{
	PGAPPNAME=$queue psql -XqAt -v VERBOSITY=sqlstate -v queue="$queue" "${psql_options[@]}" 2>&1 >/dev/null <<<"$1" |
		sed -n 's/.*ERROR:  //p' | head -n 1
}

say()
{
	printf '  %s\n' "$*"
}

# The verdict: the last line of a drill.
good()
{
	printf 'GOOD  %s: %s\n' "$name" "$*"
	exit 0
}

bad()
{
	printf 'BAD   %s: %s\n' "$name" "$*"
	exit 1
}

# It cannot be done here: neither good nor bad.
skip()
{
	printf 'SKIP  %s: %s\n' "$name" "$*"
	exit 3
}

# is WHAT EXPECTED FOUND
is()
{
	[ "$2" = "$3" ] || bad "$1: expected '$2', found '$3'"
	say "$1: $3"
}

# until SECONDS QUERY: until the query says t
until_true()
{
	local end=$((SECONDS + $1))
	until [ "$(ask "$2" 2>/dev/null)" = t ]; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

create_queue()
{
	ask "SELECT pgq_create_queue(:'queue', backoff_base => '100 ms', backoff_jitter => 0, notify => false ${1:+, $1})" >/dev/null ||
		bad 'the queue cannot be created'
}

jobs_left()
{
	ask "SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = :'queue'"
}

# Nothing of a drill stays: neither sessions nor prepared transactions nor the queue, its schema and its role.
clean_up()
{
	local pid
	for pid in $(jobs -p); do
		kill -KILL "$pid" 2>/dev/null
	done
	ask "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = :'queue' AND datname = current_database() AND pid <> pg_backend_pid()" >/dev/null 2>&1
	sql >/dev/null 2>&1 <<-'SQL'
		SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE gid = :'queue' AND database = current_database() \gexec
	SQL
	ask "SELECT pgq_drop_queue(:'queue', if_exists => true, force => true)" >/dev/null 2>&1
	sql >/dev/null 2>&1 <<-'SQL'
		DROP SCHEMA IF EXISTS :"queue" CASCADE;
		SELECT format('DROP OWNED BY %1$I; DROP ROLE %1$I', rolname) FROM pg_roles WHERE rolname = :'queue' \gexec
	SQL
}
