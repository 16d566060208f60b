# shellcheck shell=bash
# Sourced by the benchmarks: builds, and starts a throw-away server with the extension; changes to its directory.
# In CONF: more settings.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
script/setup.sh || exit
. script/private_server.sh

die()
{
	printf 'bench: %s\n' "$*" >&2
	tail -n 20 "$work"/*.log >&2
	exit 1
}

sql()
{
	psql -XqAt -v ON_ERROR_STOP=1 "$@"
}

work=$(mktemp -d "${TMPDIR:-/tmp}/pgq.XXXXXX") || exit
trap 'stop_servers "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

echo 'Building, and starting a server'
private_install "$work/root" || die 'the build failed'
chmod 755 "$work" && cd "$work" || exit
[ ${#as_user[@]} -eq 0 ] || chown -R "$unprivileged" "$work"
export PGHOST=$work PGUSER=postgres PGDATABASE=postgres
"${as_user[@]}" initdb -D "$work/data" -U postgres -A trust --no-locale -E UTF8 --no-sync >/dev/null || die 'initdb failed'
cat >>data/postgresql.conf <<-CONF
	shared_preload_libraries = 'pgq_ext'
	listen_addresses = ''
	unix_socket_directories = '$work'
	max_connections = 250
	synchronous_commit = on
	shared_buffers = '256MB'
	max_wal_size = '8GB'
	checkpoint_timeout = '1h'
	${CONF:-}
CONF
"${as_user[@]}" pg_ctl -D "$work/data" -l "$work/server.log" -w start >/dev/null || die 'the server does not start'
sql -c 'CREATE EXTENSION pgq_ext' || die 'the extension cannot be created'
