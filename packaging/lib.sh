# shellcheck shell=bash
# Sourced by the scripts beside it.

# What building takes beside PostgreSQL, and debian/tests.
build_packages='build-essential debhelper lintian libncurses-dev libpq-dev postgresql-server-dev-all'

# copy_tree DIR: what git knows, and what is new
copy_tree()
{
	mkdir -p "$1"
	git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
		perl -0ne 'print if -e $_ || -l $_' | tar -c --null -T - | tar -x -C "$1" --no-same-owner
}
