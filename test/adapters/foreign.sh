# shellcheck shell=bash
# Sourced by the scripts of this folder, which run the tests of other projects with the adapters in clients/. The tests come
# from Debian's source packages, and are not a part of this repository.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
. script/private_server.sh

# begin PACKAGE...: installs the packages, and makes a folder for the output of the tests
begin()
{
	script/setup.sh "$@" || exit
	foreign=$(mktemp -d "${TMPDIR:-/tmp}/pgq_foreign.XXXXXX") || exit
	trap end EXIT
	trap 'exit 130' INT TERM HUP
	chmod 755 "$foreign"
}

end()
{
	stop_servers "$foreign"
	rm -rf "${foreign:?}"
}

# source_of NAME: fetches and unpacks the source package of that name into $foreign. Some repositories lack a file that
# their list names, so the function tries each repository.
source_of()
{
	local line apt
	mkdir -p "$foreign/lists/partial" "$foreign/cache/archives/partial"
	apt=(-o Dir::Etc::SourceList="$foreign/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$foreign/lists"
		-o Dir::Cache="$foreign/cache" -o APT::Sandbox::User="$(id -un)")
	while read -r line; do
		echo "$line" >"$foreign/sources.list"
		(cd "$foreign" && apt-get -qq "${apt[@]}" update && apt-get -qq "${apt[@]}" source --only-source --download-only "$1" &&
			tar -xf "$1"_*.orig.tar.*) >"$foreign/fetch.log" 2>&1 && return
	done < <(apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sort -u)
	cat "$foreign/fetch.log"
	echo "the source package $1 cannot be had"
	echo '0 passed, 1 failed'
	exit 1
}

# start_server: starts a server with pgq_ext, and sets PGHOST, PGPORT, PGUSER and PGDATABASE
start_server()
{
	TOP=no private_install "$foreign/root" >"$foreign/install.log" 2>&1 || { cat "$foreign/install.log"; exit 1; }
	mkdir "$foreign/server"
	[ ${#as_user[@]} -eq 0 ] || chown "$unprivileged" "$foreign/server"
	"${as_user[@]}" initdb -D "$foreign/server/data" -U postgres -A trust --no-locale -E UTF8 --no-sync >/dev/null || exit
	cat >>"$foreign/server/data/postgresql.conf" <<-CONF
		shared_preload_libraries = 'pgq_ext'
		listen_addresses = ''
		unix_socket_directories = '$foreign/server'
		fsync = off
	CONF
	"${as_user[@]}" pg_ctl -D "$foreign/server/data" -l "$foreign/server/log" -w start >/dev/null || { cat "$foreign/server/log"; exit 1; }
	export PGHOST=$foreign/server PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
	psql -Xqc 'CREATE EXTENSION pgq_ext' || exit
}
