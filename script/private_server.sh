# shellcheck shell=bash
# Sourced by the test runner and the quickstart: builds pgq_ext and puts it into a private copy of the
# installed PostgreSQL, so that neither needs rights on the machine nor changes anything on it.

pg_config=/usr/lib/postgresql/15/bin/pg_config
[ -x "$pg_config" ] || pg_config=pg_config

# No setting of the caller may reach our servers and clients.
for variable in "${!PG@}"; do
	unset "$variable"
done
export LC_ALL=C

# PostgreSQL refuses to run as root: root prefixes server and client commands with "${as_user[@]}".
as_user=()
if [ "$(id -u)" -eq 0 ]; then
	unprivileged=nobody
	! id postgres >/dev/null 2>&1 || unprivileged=postgres
	as_user=(setpriv --reuid="$(id -u $unprivileged)" --regid="$(id -g $unprivileged)" --init-groups
		env HOME=/nonexistent)
fi

# private_install DIR: DIR becomes a relocated installation, with its programs first in PATH.
# PostgreSQL finds its libraries and files relative to the program that runs.
private_install()
{
	local root=$1 bindir libdir sharedir
	bindir=$($pg_config --bindir)
	libdir=$($pg_config --pkglibdir)
	sharedir=$($pg_config --sharedir)
	mkdir -p "$root$bindir" "$root$libdir" "$root$sharedir" &&
		cp -R "$bindir/." "$root$bindir" &&
		cp "$libdir"/*.so "$root$libdir" &&
		cp -R "$sharedir/." "$root$sharedir" &&
		mkdir -p build &&
		flock build/lock make --no-print-directory -s -j2 install DESTDIR="$root" &&
		export PATH="$root$bindir:$PATH"
}

# stop_servers DIR: stops every server whose data directory is below DIR, however badly it feels.
stop_servers()
{
	local file pid
	while IFS= read -r -d '' file; do
		pid=$(head -n 1 "$file" 2>/dev/null) || continue
		"${as_user[@]}" pg_ctl -D "${file%/*}" -m immediate -t 10 stop >/dev/null 2>&1 ||
			"${as_user[@]}" sh -c 'kill -KILL "$1"' sh "$pid" 2>/dev/null
	done < <(find "$1" -name postmaster.pid -print0)
}
