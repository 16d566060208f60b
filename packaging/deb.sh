#!/bin/bash
# Builds the Debian packages of one PostgreSQL, without the network, in a bare root of the Debian release that has it, and
# shows them to lintian:
#
#   packaging/deb.sh DIR [PG]      the packages are in DIR; that it is given up is said by the exit status
#
# Needs root or sudo, as script/debian_root.sh does. PG is by default the PostgreSQL of this machine, or else of its release.
set -euo pipefail

# In the root, in the tree. That of dpkg-source is the upstream's: all but debian/.
if [ "${1:-}" = --here ]; then
	upstream=$(dpkg-parsechangelog -S Version | sed 's/-[^-]*$//')
	tar -czf "../pgq-ext_$upstream.orig.tar.gz" --exclude=./debian .
	# What comes from experimental is none of those that this release supports.
	pg_buildext supported-versions | grep -qx "$PG" || export PG_SUPPORTED_VERSIONS=$PG
	pg_buildext updatecontrol
	unshare --net dpkg-buildpackage -us -uc -J"$(nproc)"
	lintian --allow-root --fail-on error,warning ../*.changes
	exit
fi

cd "$(dirname "$0")/.."
. script/version.sh
. packaging/lib.sh
dir=${1:?where to?}
pg=${2:-${PG:-$(newest_installed)}}
pg=${pg:-$(of_this_release || true)}
[ "${debian_release[$pg]:-}" != experimental ] || build_packages+=" postgresql-server-dev-$pg"
mkdir -p "$dir"
rm -rf "$dir/source"
copy_tree "$dir/source"
script/debian_root.sh --with "$build_packages" "$dir" "$pg" sh -c 'cd source && packaging/deb.sh --here'
