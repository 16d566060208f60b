# shellcheck shell=bash
# Sourced by the test runner and the quickstart: builds pgq_ext and puts it into a private copy of the installed
# PostgreSQL. So neither needs rights on the machine, nor changes anything on it.
#
# Two environment variables choose another PostgreSQL, PG_CONFIG=/path/to/its/pg_config, and another build of pgq_ext,
# SANITIZE=address,undefined. Such a build is made from a copy of the sources, beside the usual one. Two others say which
# programs are built: TOP=no leaves pgq-top out; an empty WEB builds pgq-web, too, if its library is there.

. script/version.sh
pg_config=/usr/lib/postgresql/${PG:-$(newest_installed)}/bin/pg_config
[ -x "$pg_config" ] || pg_config=pg_config
build_directory=.
[ -z "${PG_CONFIG:-}${SANITIZE:-}" ] ||
	build_directory=build/$(tr -c '[:alnum:]\n' _ <<<"pgq_ext ${SANITIZE:-} ${PG_CONFIG:-}")
pg_config=${PG_CONFIG:-$pg_config}

# Keep settings of the caller's environment from the servers and clients that are started here.
for variable in "${!PG@}"; do
	unset "$variable"
done
# PostgreSQL::Test::Utils removes LC_ALL; the remaining variables decide about the encoding.
unset "${!LC_@}"
export LC_ALL=C LANG=C.UTF-8

# PostgreSQL refuses to run as root: as root, prefix server and client commands with "${as_user[@]}".
as_user=()
if [ "$(id -u)" -eq 0 ]; then
	unprivileged=nobody
	! id postgres >/dev/null 2>&1 || unprivileged=postgres
	as_user=(setpriv --reuid="$(id -u $unprivileged)" --regid="$(id -g $unprivileged)" --init-groups
		env HOME=/nonexistent)
fi

# build_and_install DESTDIR
build_and_install()
{
	local sources=(Makefile pgq_ext.control src shared top web)
	if [ "$build_directory" != . ]; then
		[ ! -d upgrade ] || sources+=(upgrade)
		mkdir -p "$build_directory" &&
			find "$build_directory" -type f ! -name '*.[od]' ! -name built_with -delete &&
			tar -c --exclude='*.[od]' "${sources[@]}" | tar -x -C "$build_directory" || return
	fi
	# A private copy needs only line numbers. Without full debug information, compiling takes two thirds of the time.
	local build=(make --no-print-directory -C "$build_directory" PG_CONFIG="$pg_config" WEB="${WEB-no}" COPT="${COPT--g1}")
	compile "${build[@]}" && MAKE_TMPDIR=$1 "${build[@]}" -s install DESTDIR="$1"
}

# compile MAKE...: runs make and shows its progress, since the first build on a machine takes minutes
compile()
{
	local files start=$SECONDS
	files=$("$@" -n all | grep -cE -- ' -c .*-o [^ ]+\.o ')
	[ "$files" -gt 0 ] || { "$@" -s all; return; }
	echo "Compiling $files files and folders"
	( set -o pipefail; "$@" -j"$(nproc)" all |
		awk -v files="$files" '/ -c / && match($0, /-o [^ ]+\.o /) && ++n % 5 == 0 { print "  " n " of " files; fflush() }' ) || return
	echo "Compiled in $((SECONDS - start)) s"
}

# private_install DIR: makes DIR a relocated installation, and puts its programs first in PATH. PostgreSQL finds its
# libraries and files relative to the program that runs.
private_install()
{
	local root=$1 bindir libdir sharedir
	bindir=$($pg_config --bindir)
	libdir=$($pg_config --pkglibdir)
	sharedir=$($pg_config --sharedir)
	mkdir -p "$root$bindir" "$root$libdir" "$root$sharedir" &&
		cp -R "$bindir/." "$root$bindir" &&
		cp -R "$libdir"/*.so "$libdir/pgxs" "$root$libdir" &&
		rm -f "$root$libdir/llvmjit.so" && # it would want more files than these
		cp -R "$sharedir/." "$root$sharedir" &&
		mkdir -p build &&
		{ flock 8 && build_and_install "$root"; } 8>build/lock &&
		{ [[ ${SANITIZE:-} != *address* ]] || preload_asan "$root$bindir"; } &&
		export PATH="$root$bindir:$PATH"
}

# install_router DIR: installs pgq_router into that installation
install_router()
{
	make --no-print-directory -s -C router install PG_CONFIG="$pg_config" DESTDIR="$1"
}

# install_pgmq DIR: installs the extension pgmq of this project into that installation
install_pgmq()
{
	make --no-print-directory -s -C pgmq install PG_CONFIG="$pg_config" DESTDIR="$1"
}

# preload_asan BINDIR: loads AddressSanitizer, which must come before all other libraries, into the server. Debian's
# server cannot start with it (it hangs in bindtextdomain); a server built without NLS can, such as that of
# assert_server.sh. An error that it finds ends the process with SIGABRT, as a failed assertion does.
# UndefinedBehaviorSanitizer needs no preloading, and exits.
preload_asan()
{
	mv "$1/postgres" "$1/postgres.bin" &&
		cat >"$1/postgres" <<-WRAPPER &&
			#!/bin/bash
			export LD_PRELOAD='$(g++ -print-file-name=libasan.so)'\${LD_PRELOAD:+:\$LD_PRELOAD}
			export ASAN_OPTIONS=abort_on_error=1:detect_leaks=0
			exec -a "\$0" "\$0.bin" "\$@"
		WRAPPER
		chmod 755 "$1/postgres"
}

# cmake_build TARGET: builds a program of the tests in build/unit
cmake_build()
{
	mkdir -p build &&
		flock build/lock cmake -S . -B build/unit &&
		flock build/lock cmake --build build/unit --target "$1" -j2
}

# stop_servers DIR: stops every server whose data directory is below DIR, in whatever state it is. The pid file of a
# dead server may name an unrelated process by now, so check that the process works in that data directory.
stop_servers()
{
	local file pid
	while IFS= read -r -d '' file; do
		pid=$(head -n 1 "$file" 2>/dev/null) || continue
		[ "$(readlink "/proc/$pid/cwd")" = "$(readlink -f "${file%/*}")" ] || continue
		"${as_user[@]}" pg_ctl -D "${file%/*}" -m immediate -t 10 stop >/dev/null 2>&1 ||
			"${as_user[@]}" sh -c 'kill -KILL "$1"' sh "$pid" 2>/dev/null
	done < <(find "$1" -name postmaster.pid -print0)
}
