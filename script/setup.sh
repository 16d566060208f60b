#!/bin/bash
# Installs on Debian 12, 13, 14 and sid what "make check" needs, and the packages named as arguments. First the script
# lists them, then it installs them. Does nothing if all of them are installed. For the packages that one suite needs
# besides, see script/setup_SUITE.sh.
#
#   script/setup.sh [PACKAGE...]     a compiler, PostgreSQL and its test tools
#   script/setup.sh --run            what building and running pgq_ext needs, and no test tools
#
# PG=17 names a PostgreSQL. If this release does not have it, it is used in a root of one that has:
# script/debian_root.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/version.sh

root=()
[ "$(id -u)" -eq 0 ] || root=(sudo)
updated=false

tools=true
[ "${1:-}" != --run ] || { tools=false; shift; }

# apt ARGUMENT...: apt-get without questions. The output is shown only if apt-get fails. Waits for the lock of another
# apt, as on a machine that has just started. Not every version waits for the lock of the lists by itself.
apt()
{
	local log start=$SECONDS
	until log=$("${root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=60 "$@" 2>&1 </dev/null)
	do
		if [[ $log != *'Could not get lock'* ]] || [ $((SECONDS - start)) -ge 1800 ]; then
			printf '%s\n' "$log" | tail -n 40 >&2
			echo "setup: apt-get failed" >&2
			exit 1
		fi
		echo "setup: waiting for another apt to end, for $((SECONDS - start)) s"
		sleep 2
	done
}

# Update apt's lists, once.
update()
{
	$updated && return
	if ! command -v "${root[0]:-true}" >/dev/null; then
		echo "setup: needs root or sudo to install packages" >&2
		exit 1
	fi
	apt update
	updated=true
}

pg=${PG:-$(newest_installed)}
[ -n "$pg" ] || { update; pg=$(of_this_release); }
[ -z "${PG:-}" ] || can_be_here "$pg" || update

packages=(
	g++ make libboost-dev perl                      # build, quickstart
	"postgresql-$pg" "postgresql-server-dev-$pg"
)
! $tools || packages+=(
	libpq-dev libncurses-dev tmux                   # pgq-top, and a terminal for its test
	cmake libgtest-dev                              # unit tests of src/core and top
	spin                                            # models of the protocol
	libipc-run-perl                                 # TAP tests
	libtap-parser-sourcehandler-pgtap-perl
	git                                             # copies of the tree
)
if $tools && has_pgtap "$pg"; then packages+=("postgresql-$pg-pgtap"); fi
# for make format: other versions format differently
! $tools || [ "$(. /etc/os-release && echo "${VERSION_ID:-}")" != 12 ] || packages+=(clang-format-14)
can_be_here "$pg" || packages=(debootstrap util-linux git)

packages+=("$@")

missing=()
for package in "${packages[@]}"; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || true
	[ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "setup: will install ${missing[*]}"
update
count=$(apt-get -s install --no-install-recommends "${missing[@]}" 2>/dev/null | grep -c '^Inst') || true
echo "setup: installing $count packages, with those they depend on"

# A fresh PostgreSQL package would start a cluster of its own, which is not needed here. The drop-in file must exist
# only during the installation.
drop_in=/etc/postgresql-common/createcluster.d/pgq_ext_setup.conf
"${root[@]}" mkdir -p "${drop_in%/*}"
echo 'create_main_cluster = false' | "${root[@]}" tee "$drop_in" >/dev/null
trap '"${root[@]}" rm -f "$drop_in"' EXIT

start=$SECONDS
apt install --no-install-recommends "${missing[@]}"
echo "setup: installed, after $((SECONDS - start)) s"
