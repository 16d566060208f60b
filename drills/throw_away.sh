#!/bin/bash
# Runs drills on a server of their own: drills/throw_away.sh [DRILL...], all without arguments. See run.sh.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. script/version.sh
elsewhere drills/throw_away.sh "$@"
. script/private_server.sh
[ $# -gt 0 ] || set -- all

folder=$(mktemp -d "${TMPDIR:-/tmp}/pgq_ext-drills.XXXXXX") || exit
clean_up()
{
	stop_servers "$folder"
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

private_install "$folder/root" && mkdir "$folder/run" && cp -R drills "$folder" && chmod 755 "$folder" || exit
[ ${#as_user[@]} -eq 0 ] || chown -R "$unprivileged" "$folder/run" || exit
cd "$folder/run" || exit
export TMPDIR=$folder/run
"${as_user[@]}" initdb -D "$folder/run/data" -U postgres -A trust --no-sync >initdb.log || { cat initdb.log; exit 1; }
printf '%s\n' "shared_preload_libraries = 'pgq_ext'" 'max_prepared_transactions = 5' "listen_addresses = ''" \
	"unix_socket_directories = '$folder/run'" >>"$folder/run/data/postgresql.conf"
"${as_user[@]}" pg_ctl -D "$folder/run/data" -l "$folder/run/server.log" -w start >/dev/null || { tail "$folder/run/server.log"; exit 1; }
export PGHOST=$folder/run PGUSER=postgres PGDATABASE=postgres
"${as_user[@]}" psql -Xqc 'CREATE EXTENSION pgq_ext' || exit

status=0
for drill; do
	"${as_user[@]}" "$folder/drills/run.sh" --data "$folder/run/data" "$drill" || status=1
done
exit $status
