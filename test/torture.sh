#!/bin/bash
# The torture test for any time, on servers of its own in a temporary directory.
#
#   test/torture.sh --kills 200               until that many kills have been done
#   test/torture.sh --seconds 3600 --seed 7   for an hour, with the same random decisions as an earlier run with that seed
#
# Keeps the files of a violation. See test/torture/README.md.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. script/version.sh
elsewhere test/torture.sh "$@"
. script/private_server.sh

cleanup()
{
	[ -z "$child" ] || kill "$child" 2>/dev/null
	stop_servers "$work"
	if [ "$status" -eq 1 ]; then echo "kept: $work" >&2; else rm -rf "$work"; fi
}

status=1
child=
work=$(mktemp -d "${TMPDIR:-/tmp}/pgq.XXXXXX") || exit
trap cleanup EXIT
trap 'status=130; exit 130' INT TERM
trap 'status=129; exit 129' HUP

cmake_build torture >"$work/build.out" 2>&1 || { tail -n 60 "$work/build.out"; exit 1; }
private_install "$work/root" || exit 1
chmod 755 "$work"
cp build/unit/torture test/pgq_ext.conf "$work"
[ ${#as_user[@]} -eq 0 ] || chown -R "$unprivileged" "$work"
cd "$work" || exit 1

"${as_user[@]}" ./torture --dir "$work/servers" --settings "$work/pgq_ext.conf" "$@" </dev/null &
child=$!
wait "$child" && status=0
child=
cd "$OLDPWD" || exit
test/server_logs.pl test/expected_log_lines.txt "$work"/servers/*.log || status=1
exit "$status"
