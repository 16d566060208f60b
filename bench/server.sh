# shellcheck shell=bash
# Sourced by run.sh. Builds pgq_ext, a private PostgreSQL and the load generator, and starts throw-away servers in
# $work.

die()
{
	echo >&2
	tail -n 20 "$work"/*.log >&2
	printf 'bench: %s\n' "$*" >&2
	exit 1
}

sql()
{
	psql -XqAt -F ' ' -v ON_ERROR_STOP=1 "$@"
}

build()
{
	private_install "$work/root" || die 'the build failed'
	flock build/lock sh -c 'cmake -S bench/load -B build/bench && cmake --build build/bench -j2' >"$work/load.log" 2>&1 ||
		die 'the load generator cannot be built'
	load=$PWD/build/bench/load
	chmod 755 "$work"
	mkdir "$work/run"
	[ ${#as_user[@]} -eq 0 ] || chown "$unprivileged" "$work" "$work/run"
	export PGHOST=$work/run PGUSER=postgres PGDATABASE=postgres
	"${as_user[@]}" initdb -D "$work/empty" -U postgres -A trust --no-locale -E UTF8 --no-sync >/dev/null || die 'initdb failed'
	cat >>"$work/empty/postgresql.conf" <<-CONF
		shared_preload_libraries = 'pgq_ext'
		listen_addresses = ''
		unix_socket_directories = '$work/run'
		max_connections = 250
		synchronous_commit = on
		shared_buffers = 1GB
		max_wal_size = 16GB
		checkpoint_timeout = 1h
		log_checkpoints = off
		jit = off
	CONF
}

# fresh_server SETTING...: stops the present server, and starts a new one with these settings
fresh_server()
{
	stop_servers "$work"
	rm -rf "$work/data"
	"${as_user[@]}" cp -R "$work/empty" "$work/data" || die 'cannot copy the data directory'
	printf '%s\n' "$@" >>"$work/data/postgresql.conf"
	(cd "$work" && "${as_user[@]}" pg_ctl -D data -l server.log -w start) >/dev/null || die 'the server does not start'
	sql -c 'CREATE EXTENSION pgq_ext' || die 'the extension cannot be created'
	[ -z "$pgmq" ] || sql -c 'SET client_min_messages = warning' -f "$pgmq" >/dev/null || die 'pgmq cannot be installed'
}
