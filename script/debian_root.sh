#!/bin/bash
# Runs a command in a copy of this tree in a bare root of the Debian release that has that PostgreSQL:
#
#   script/debian_root.sh 17 test/run.sh regress
#
# The root is made by debootstrap and script/setup.sh, once, and stays in ~/.cache/pgq_ext (2 to 3 GB). Needs root or sudo.
# What the command mounts and starts is gone when it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/version.sh

pg=${1:?which PostgreSQL?}
shift
release=${debian_release[$pg]:-}
[ -n "$release" ] || { echo "$0: no Debian release with PostgreSQL $pg is known" >&2; exit 1; }
if [ "$(id -u)" -ne 0 ]; then
	exec sudo HOME="$HOME" PG="$pg" "$0" "$pg" "$@"
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/pgq_ext
root=$cache/$release-$(cat script/debian_root.sh script/setup.sh script/version.sh | cksum | cut -d ' ' -f 1)
tree=/pgq_ext.$$

# repository LABEL: where the machine's own repository of that label is
repository()
{
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Label: $1" | sed -n 1p
}

# enter DIR COMMAND...: as process 1 of a namespace of its own, so that all it starts ends with it
enter()
{
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child bash -ec '
		root=$1 tree=$2
		shift 2
		mount --make-rprivate /
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
			DEBIAN_FRONTEND=noninteractive PG="$PG" CI="$CI" KEEP="$KEEP" SANITIZE="$SANITIZE" http_proxy="$http_proxy" \
			sh -c "cd $tree && exec \"\$@\"" sh "$@"
	' bash "$1" "$tree" "${@:2}"
}
export PG=$pg CI=${CI:-} KEEP=${KEEP:-} SANITIZE=${SANITIZE:-} http_proxy=${http_proxy:-}

# copy_tree DIR: what git knows, and what is new; git lists it there, too
copy_tree()
{
	mkdir "$1$tree"
	git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
		perl -0ne 'print if -e $_ || -l $_' | tar -c --null -T - | tar -x -C "$1$tree" --no-same-owner
	git -C "$1$tree" init -q
	git -C "$1$tree" add --all
}

make_root()
{
	local new=$root.new mirror security script=/usr/share/debootstrap/scripts/$release
	PG='' script/setup.sh debootstrap
	mirror=$(repository Debian)
	security=$(repository Debian-Security)
	[ -e "$script" ] || script=${script%/*}/sid # a release that this one has not heard of
	rm -rf "$new" "$cache/$release-"*
	debootstrap --variant=minbase "$release" "$new" "${mirror:-http://deb.debian.org/debian}" "$script"
	{
		echo "deb $mirror $release main"
		[ "$release" = forky ] || echo "deb $security $release-security main"
	} >"$new/etc/apt/sources.list"
	# A mirror may be a snapshot, of a release that is not out yet.
	echo 'Acquire::Check-Valid-Until "false";' >"$new/etc/apt/apt.conf.d/valid-until"
	printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d"
	chmod 755 "$new/usr/sbin/policy-rc.d"
	[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$new/etc/resolv.conf"
	copy_tree "$new"
	enter "$new" apt-get -qq update
	enter "$new" apt-get -qq -y -o Dpkg::Use-Pty=0 upgrade
	enter "$new" script/setup.sh
	enter "$new" apt-get -qq clean
	rm -rf "${new:?}$tree"
	mv "$new" "$root"
}

mkdir -p "$cache"
exec 9>"$cache/$release.lock"
flock 9
if [ ! -d "$root" ]; then
	echo "Making a root of Debian $release with PostgreSQL $pg" >&2
	# Not in a condition: there the first failure would not be the end.
	set +e
	log=$(set -e; make_root 2>&1 </dev/null 9>&-)
	made=$?
	set -e
	if [ $made -ne 0 ]; then
		printf '%s\n' "$log" | tail -n 40 >&2
		echo "$0: a root of Debian $release cannot be made" >&2
		exit 1
	fi
fi
flock -u 9

trap 'rm -rf "${root:?}$tree"' EXIT
copy_tree "$root"
enter "$root" "$@" </dev/null 9>&-
