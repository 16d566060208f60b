#!/bin/bash
# In a root with nothing but PostgreSQL 18, and the files of the image in image/: mounts them where CloudNativePG does, read-only,
# and has a server find them with the settings that it makes.
set -euo pipefail

volume=/extensions/pgq-ext
mkdir -p "$volume" /tmp/data
mount --bind image "$volume"
mount -o remount,bind,ro "$volume"
chown postgres /tmp/data
as_postgres=(setpriv --reuid=postgres --regid=postgres --init-groups env PATH="/usr/lib/postgresql/18/bin:$PATH" PGHOST=/tmp)
"${as_postgres[@]}" initdb -D /tmp/data -A trust >/dev/null
cat >>/tmp/data/postgresql.conf <<-CONF
	listen_addresses = ''
	unix_socket_directories = '/tmp'
	extension_control_path = '\$system:$volume/share'
	dynamic_library_path = '\$libdir:$volume/lib'
	shared_preload_libraries = 'pgq_ext'
CONF
"${as_postgres[@]}" pg_ctl -D /tmp/data -l /tmp/data/log -w start >/dev/null || { cat /tmp/data/log; exit 1; }
trap '"${as_postgres[@]}" pg_ctl -D /tmp/data -m fast stop >/dev/null' EXIT
answer=$("${as_postgres[@]}" psql -XAtq -v ON_ERROR_STOP=1 -d postgres -c "CREATE EXTENSION pgq_ext VERSION '0.1'" \
	-c 'ALTER EXTENSION pgq_ext UPDATE' -c "SELECT pgq_create_queue('mail')" -c "SELECT pgq_enqueue('mail', '{}')" \
	-c "SELECT 'handed out ' || (payload = '{}') FROM pgq_claim('mail', wait => '30 s')")
grep -x 'handed out true' <<<"$answer"
