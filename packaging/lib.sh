# shellcheck shell=bash
# Sourced by the scripts beside it.

# What building takes beside PostgreSQL, and debian/tests.
build_packages='build-essential debhelper lintian libboost-dev libcpp-httplib-dev libncurses-dev libpq-dev pkgconf postgresql-server-dev-all'

# copy_tree DIR: what git knows, and what is new
copy_tree()
{
	mkdir -p "$1"
	git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
		perl -0ne 'print if -e $_ || -l $_' | tar -c --null -T - | tar -x -C "$1" --no-same-owner
}

# check NAME COMMAND...: what the command says is shown only if it fails
check()
{
	local said
	if said=$("${@:2}" 2>&1); then
		echo "ok $1"
	else
		[ -z "$said" ] || printf '%s\n' "$said" | tail -n "${CHECK_LINES:-60}" | sed 's/^/# /'
		echo "not ok $1"
		false
	fi
}
