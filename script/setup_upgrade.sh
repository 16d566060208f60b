#!/bin/bash
# Installs PostgreSQL 15 of Debian 12 beside that of a later release: what test/run.sh pg_upgrade upgrades from. Both run with
# the C library of that release. Meant for a root that script/debian_root.sh has made. Does nothing when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

old=15
release=bookworm
[ ! -e "/usr/lib/postgresql/$old/lib/pgxs" ] || [ ! -x "/usr/lib/postgresql/$old/bin/postgres" ] || exit 0

# Only while it is needed: nothing else shall come from there. Not its security updates: their minor release may be younger than that
# of the newer version in its release, and have things in the catalog that this does not know.
list=/etc/apt/sources.list.d/pgq_ext_$release.list
download=$(mktemp -d)
trap 'rm -rf "$list" "$download"' EXIT
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n 1p)
echo "deb ${mirror:-http://deb.debian.org/debian} $release main" >"$list"
apt-get -qq update
script/setup.sh "postgresql-$old"

# Of the headers the files alone: the package asks for a compiler of that release as well.
(cd "$download" && apt-get -qq -o APT::Sandbox::User=root download "postgresql-server-dev-$old" >/dev/null && dpkg -x ./*.deb /)
