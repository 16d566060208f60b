#!/bin/bash
# Builds PostgreSQL with assertions, once, from the source package of the machine's own Debian repositories.
# Prints the path of its pg_config:
#
#   PG_CONFIG=$(script/assert_server.sh) test/run.sh
#
# The version is PG's (PG=17), or the newest that is installed. If there is no source package, the script ends with
# status 3. The build stays in ~/.cache/pgq_ext, one for each version of the installed server package. Changes nothing
# on the machine and needs no rights, once script/setup.sh has run.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
. "$here/version.sh"
pg=${PG:-$(newest_installed)}
installed=$(dpkg-query -W -f '${source:Version}' "postgresql-$pg")
configure=(--enable-cassert --enable-debug --enable-tap-tests --disable-rpath --without-readline --without-zlib
	CFLAGS=-O1 CXXFLAGS='-O1 -g')

cache=${XDG_CACHE_HOME:-$HOME/.cache}/pgq_ext
server=$cache/postgresql-${pg}_$installed-$(cksum <"$0" | cut -d ' ' -f 1)
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ -d "$server" ]; then
	echo "$server/bin/pg_config"
	exit
fi

build=$(mktemp -d "${TMPDIR:-/tmp}/pgq_server.XXXXXX")
trap 'rm -rf "$build"' EXIT
trap 'exit 130' INT TERM HUP
cd "$build"

# try COMMAND...: runs the command; its output is shown only if we have to give up
try()
{
	"$@" >>"$build/log" 2>&1 </dev/null
}

# give_up WHY [STATUS]
give_up()
{
	tail -n 30 "$build/log" >&2
	echo "$0: $1" >&2
	exit "${2:-1}"
}

# apt with lists of its own, which include the source packages of every repository that the machine uses.
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
	sort -u >sources.list
mkdir -p lists/partial cache/archives/partial
apt=(-o Dir::Etc::SourceList="$build/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$build/lists"
	-o Dir::Cache="$build/cache" -o APT::Sandbox::User="$(id -un)")

# The installed version if its source is available, else the newest: a repository may have dropped the installed
# version, or not have it yet.
fetch()
{
	local version
	try apt-get "${apt[@]}" update || true
	for version in "$installed" $(apt-cache "${apt[@]}" madison "postgresql-$pg" | awk '$NF == "Sources" { print $3 }'); do
		rm -f "postgresql-${pg}_"*
		! try apt-get "${apt[@]}" source --only-source --download-only "postgresql-$pg=$version" || return 0
	done
	return 1
}
echo "Fetching the source of PostgreSQL $installed" >&2
fetch || give_up "no source package of PostgreSQL $installed can be had" 3

# Without Debian's patches, which install into /usr/lib whatever the prefix is. DESTDIR keeps the files of a mistake
# in here.
tar -xf "postgresql-${pg}_"*.orig.tar.*
cd "postgresql-$pg"*/
echo "Building ${PWD##*/} with assertions" >&2
{ try ./configure --prefix="$server" "${configure[@]}" && try make -s -j"$(nproc)" &&
	try make -s install DESTDIR="$build/root" && try make -s -C contrib/amcheck install DESTDIR="$build/root" &&
	try make -s -C contrib/dblink install DESTDIR="$build/root"; } ||
	give_up 'the build failed'
! has_pgtap "$pg" || cp /usr/share/postgresql/$pg/extension/pgtap* "$("$build/root$server/bin/pg_config" --sharedir)/extension"
mv "$build/root$server" "$server"
echo "$server/bin/pg_config"
