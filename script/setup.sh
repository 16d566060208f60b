#!/bin/bash
# Installs what building and testing pgq_ext needs on Debian 12, and the packages named as arguments. Does nothing when all
# of it is there.
set -euo pipefail

packages=(
	g++ make                                        # build
	postgresql-15 postgresql-server-dev-15 libpq-dev
	libboost-dev cmake libgtest-dev                 # unit tests of src/core
	spin                                            # models of the protocol
	perl libipc-run-perl                            # TAP tests
	postgresql-15-pgtap libtap-parser-sourcehandler-pgtap-perl
	python3-psycopg python3-psycopg2 python3-asyncpg # the examples of docs/clients.md
	bzip2                                           # make strict: PostgreSQL's source
	clang-format-14                                 # make format
)

packages+=("$@")

missing=()
for package in "${packages[@]}"; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || true
	[ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "setup: installing ${missing[*]}"
root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "setup: needs root or sudo to install packages" >&2; exit 1; }
	root=(sudo)
fi

# A fresh PostgreSQL package would start a cluster of its own, which nobody here needs.
# The drop-in file must be there only while the package is being installed.
drop_in=/etc/postgresql-common/createcluster.d/pgq_ext_setup.conf
"${root[@]}" mkdir -p "${drop_in%/*}"
echo 'create_main_cluster = false' | "${root[@]}" tee "$drop_in" >/dev/null
trap '"${root[@]}" rm -f "$drop_in"' EXIT

install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0
	install --no-install-recommends "${missing[@]}")
"${root[@]}" apt-get -qq update
if ! log=$("${install[@]}" 2>&1 </dev/null); then
	printf '%s\n' "$log" | tail -n 40 >&2
	echo "setup: apt-get failed" >&2
	exit 1
fi
