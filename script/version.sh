# shellcheck shell=bash
# Sourced by scripts that need a PostgreSQL. Decides which major version, and where it is available.
#
# PG=17 in the environment names one. Without it: the newest that is installed, else that of this Debian release.

# The Debian releases that have the other versions.
declare -A debian_release=([15]=bookworm [17]=trixie [18]=forky [19]=experimental)

newest_installed()
{
	local server
	for server in /usr/lib/postgresql/*/bin/postgres; do
		[ ! -x "$server" ] || cut -d / -f 5 <<<"$server"
	done | sort -n | tail -n 1
}

# The version that this release calls PostgreSQL, by apt's lists, which may have to be downloaded first.
of_this_release()
{
	apt-cache depends postgresql 2>/dev/null | sed -n 's/^ *Depends: postgresql-\([0-9]*\)$/\1/p' | head -n 1
}

can_be_here()
{
	[ -x "/usr/lib/postgresql/$1/bin/postgres" ] || apt-cache show "postgresql-$1" >/dev/null 2>&1
}

# A release may have pgTAP for a version later than the server.
has_pgtap()
{
	[ -e "/usr/share/postgresql/$1/extension/pgtap.control" ] || apt-cache show "postgresql-$1-pgtap" >/dev/null 2>&1
}

# elsewhere COMMAND...: if this machine cannot have that PostgreSQL, runs the command in a root of the release that
# has it
elsewhere()
{
	[ -z "${PG:-}" ] || can_be_here "$PG" || exec script/debian_root.sh "$PG" "$@"
}
