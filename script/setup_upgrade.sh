#!/bin/bash
# Installs PostgreSQL 15 of Debian 12 beside the PostgreSQL of a later release: test/run.sh pg_upgrade upgrades from
# it. Both run with the C library of the later release. Meant for a root that script/debian_root.sh has made. Does
# nothing if everything is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

old=15
release=bookworm
[ ! -e "/usr/lib/postgresql/$old/lib/pgxs" ] || [ ! -x "/usr/lib/postgresql/$old/bin/postgres" ] || exit 0

# Add the repository only for this installation. Leave out its security updates: with them, the old PostgreSQL may be
# newer than the minor release of the new one, and have catalog contents that the new one does not know.
list=/etc/apt/sources.list.d/pgq_ext_$release.list
download=$(mktemp -d)
trap 'rm -rf "$list" "$download"' EXIT
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n 1p)
echo "deb ${mirror:-http://deb.debian.org/debian} $release main" >"$list"
apt-get -qq update
script/setup.sh "postgresql-$old"

# Unpack only the header files: the package itself depends on a compiler of that release.
(cd "$download" && apt-get -qq -o APT::Sandbox::User=root download "postgresql-server-dev-$old" >/dev/null && dpkg -x ./*.deb /)
