#!/bin/bash
# Tests what packaging/ makes. test/run.sh packages runs it.
#
#   packaging/test.sh DIR [PART...]
#
#   bookworm trixie forky   Debian's packages: built in a bare root of that release, shown to lintian, tested as debian/tests says,
#                           installed on a machine that has nothing but PostgreSQL, used as docs/install.md says, purged
#   dist                    PGXN's zip
#   rpm                     the spec with Debian's rpmbuild, from that zip
#   image                   what the image for CloudNativePG has, mounted as CloudNativePG does; takes the packages of forky
#
# Prints "ok NAME" or "not ok NAME", and "N passed, N failed" at the end. Needs root or sudo.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. script/version.sh
. packaging/lib.sh
work=${1:?where to?}
mkdir -p "$work"
work=$(cd "$work" && pwd)
parts=("${@:2}")
[ ${#parts[@]} -gt 0 ] || parts=(dist rpm bookworm trixie forky image)

# in_root PACKAGES RELEASE COMMAND...
in_root()
{
	local pg of_release
	for pg in "${!debian_release[@]}"; do
		[ "${debian_release[$pg]}" != "$2" ] || of_release=$pg
	done
	script/debian_root.sh --with "$1" "$work/$2" "$of_release" "${@:3}"
}

# packages RELEASE PG
packages()
{
	local release=$1 pg=$2 dir=$work/$1
	rm -rf "$dir"
	check "$release: builds without the network, lintian has nothing to say" packaging/deb.sh "$dir" "$pg" || return
	check "$release: the packages of its PostgreSQL, and no others" \
		diff <(printf '%s\n' pgq-ext-common "postgresql-$pg-pgq-ext" "postgresql-$pg-pgq-ext-pgmq") <(cd "$dir" && printf '%s\n' ./*.deb | cut -c 3- | grep -v dbgsym | cut -d _ -f 1 | sort)
	in_root 'postgresql sudo' "$release" source/packaging/walk.sh "$pg" | sed "s/ok /&$release: /"
	[ "${PIPESTATUS[0]}" -eq 0 ] || echo "not ok $release: docs/install.md is followed to its end"
	# shellcheck disable=SC2016
	check "$release: debian/tests" in_root "$build_packages" "$release" sh -ec '
		apt-get -qq update
		apt-get -qq -y install ./postgresql-*-pgq-ext_*.deb ./postgresql-*-pgq-ext-pgmq_*.deb ./pgq-ext-common_*.deb
		cd source
		debian/tests/regress'
}

bookworm() { packages bookworm 15; }
trixie() { packages trixie 17; }
forky() { packages forky 18; }

# broken_zip PERL: the zip with a META.json that is changed
broken_zip()
{
	local zip
	zip=$work/broken/$(basename "$work"/pgq_ext-*.zip)
	rm -rf "$work/broken"
	mkdir "$work/broken"
	cp "$work"/pgq_ext-*.zip "$zip"
	(cd "$work/broken" && unzip -qo "$zip" '*/META.json' && perl -i -0pe "$1" */META.json && zip -q "$zip" */META.json)
	! packaging/meta_check.pl "$zip"
}

dist()
{
	script/setup.sh zip unzip
	check 'dist: the zip is what PGXN takes' packaging/dist.sh "$work" || return
	check 'dist: not without a license' broken_zip 's/"license".*?,//'
	check 'dist: not with an unknown license' broken_zip 's/"postgresql"/"pg"/'
	check 'dist: not with an unknown key' broken_zip 's/"tags"/"tag"/'
	check 'dist: not of another version' broken_zip 's/("version": "0\.)\d+\.0/${1}999.0/'
	check 'dist: not with a file that is not there' broken_zip 's/"file": "/$&no/'
}

# The layout of Debian's PostgreSQL, and none of the packages that the spec asks for: rpm does not know what is here.
rpm()
{
	local pg
	script/setup.sh rpm unzip
	compgen -G "$work/pgq_ext-*.zip" >/dev/null || packaging/dist.sh "$work" >/dev/null
	pg=$(newest_installed)
	check 'rpm: the spec builds, from the zip of PGXN' rpmbuild -bb --nodeps --define "_topdir $work/rpm" --define "_sourcedir $work" \
		--define "pgmajorversion $pg" --define "pginstdir /usr/lib/postgresql/$pg" --define 'debug_package %{nil}' \
		packaging/rpm/pgq_ext.spec || return
	check 'rpm: has the library, and what brings a database here' diff \
		<(find pgq_ext.control upgrade -name 'pgq_ext[.-]*' -printf '%f\n' | { cat; echo pgq_ext.so; sed -n "s/^default_version *= *'\(.*\)'/pgq_ext--\1.sql/p" pgq_ext.control; } | sort) \
		<(command rpm -qlp "$work"/rpm/RPMS/*/pgq_ext_[0-9][0-9]-[0-9]*.rpm | sed -n 's/.*\/\(pgq_ext\(--.*sql\|\.so\|\.control\)\)$/\1/p' | sort)
	check 'rpm: pgmq is one of its own' diff <(sed -n "s/^default_version *= *'\(.*\)'/pgmq--\1.sql/p" pgmq/pgmq.control; echo pgmq.control) \
		<(command rpm -qlp "$work"/rpm/RPMS/*/pgq_ext_*-pgmq-*.rpm | sed -n 's/.*\/\(pgmq[.-]*[^/]*\(sql\|control\)\)$/\1/p' | sort)
	check 'rpm: pgq-top is one of its own' eval 'command rpm -qlp "$work"/rpm/RPMS/*/pgq-top-*.rpm | grep -x /usr/bin/pgq-top'
}

# The files that Containerfile.cnpg copies, here from the package of forky.
image()
{
	[ -d "$work/forky/source" ] || packaging/deb.sh "$work/forky" 18 >"$work/image.log" 2>&1 || { tail -n 20 "$work/image.log"; echo 'not ok image: takes the package'; return; }
	rm -rf "$work/forky/out" "$work/forky/image"
	dpkg-deb -x "$work"/forky/postgresql-18-pgq-ext_*.deb "$work/forky/out"
	# shellcheck disable=SC2016
	sed -n 's/^COPY --from=build \(\/out[^ ]*\) \([^ ]*\)$/\1 \2/p' packaging/container/Containerfile.cnpg | sed 's/\${PG}/18/g' |
		while read -r from to; do
			mkdir -p "$work/forky/image$to" && cp -R "$work/forky$from." "$work/forky/image$to"
		done
	check 'image: the server finds all of it in the volume' in_root 'postgresql sudo' forky source/packaging/container/volume.sh
}

failed=0 passed=0
while IFS= read -r line; do
	printf '%s\n' "$line"
	case $line in
		'ok '*) passed=$((passed + 1)) ;;
		'not ok '*) failed=$((failed + 1)) ;;
	esac
done < <(for part in "${parts[@]}"; do
	started=$SECONDS
	"$part" 2>&1
	echo "# $part: $((SECONDS - started)) s"
done)
[ $((passed + failed)) -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
