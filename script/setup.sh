#!/bin/bash
# Installs what building and testing pgq_ext needs on Debian 12, 13 and 14, and the packages named as arguments. Does nothing
# when all of it is there. PG=17 names a PostgreSQL; if this release has not got it, it will be had in a root of one that has:
# script/debian_root.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/version.sh

root=()
[ "$(id -u)" -eq 0 ] || root=(sudo)
updated=false

# apt's lists, once
update()
{
	$updated && return
	if ! command -v "${root[0]:-true}" >/dev/null; then
		echo "setup: needs root or sudo to install packages" >&2
		exit 1
	fi
	"${root[@]}" apt-get -qq update
	updated=true
}

pg=${PG:-$(newest_installed)}
[ -n "$pg" ] || { update; pg=$(of_this_release); }
[ -z "${PG:-}" ] || can_be_here "$pg" || update

packages=(
	g++ make                                        # build
	"postgresql-$pg" "postgresql-server-dev-$pg" libpq-dev
	libncurses-dev tmux                             # pgq-top, and a terminal for its test
	libboost-dev cmake libgtest-dev                 # unit tests of src/core and top
	spin                                            # models of the protocol
	perl libipc-run-perl                            # TAP tests
	"postgresql-$pg-pgtap" libtap-parser-sourcehandler-pgtap-perl
	python3-psycopg python3-psycopg2 python3-asyncpg # the examples of docs/clients.md
	bzip2                                           # make strict: PostgreSQL's source
	git                                             # copies of the tree
)
# make format: other versions write otherwise
[ "$(. /etc/os-release && echo "${VERSION_ID:-}")" != 12 ] || packages+=(clang-format-14)
can_be_here "$pg" || packages=(debootstrap util-linux git)

packages+=("$@")

missing=()
for package in "${packages[@]}"; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || true
	[ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "setup: installing ${missing[*]}"
update

# A fresh PostgreSQL package would start a cluster of its own, which nobody here needs.
# The drop-in file must be there only while the package is being installed.
drop_in=/etc/postgresql-common/createcluster.d/pgq_ext_setup.conf
"${root[@]}" mkdir -p "${drop_in%/*}"
echo 'create_main_cluster = false' | "${root[@]}" tee "$drop_in" >/dev/null
trap '"${root[@]}" rm -f "$drop_in"' EXIT

install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0
	install --no-install-recommends "${missing[@]}")
if ! log=$("${install[@]}" 2>&1 </dev/null); then
	printf '%s\n' "$log" | tail -n 40 >&2
	echo "setup: apt-get failed" >&2
	exit 1
fi
