#!/bin/bash
# Runs a command in a copy of this tree in a bare root of the Debian release that has that PostgreSQL:
#
#   script/debian_root.sh 17 test/run.sh regress
#
# A PostgreSQL that no release has yet is taken from experimental, and only that, into a root of sid. The root is made
# by debootstrap and script/setup.sh, once, and stays in ~/.cache/pgq_ext (2 to 3 GB). Needs root or sudo. Mounts and
# processes of the command end with it. The other form uses a root with only the packages that are named, as a user
# may have it:
#
#   script/debian_root.sh --with 'postgresql sudo' DIR 17 ./command
#
# Then the command runs in DIR, and may write there; its changes of the root are dropped at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/version.sh

with=() packages='' directory=''
if [ "${1:-}" = --with ]; then
	packages=$2 directory=$(cd "$3" && pwd)
	with=(--with "$packages" "$directory")
	shift 3
fi
pg=${1:?which PostgreSQL?}
shift
release=${debian_release[$pg]:-}
[ -n "$release" ] || { echo "$0: no Debian release with PostgreSQL $pg is known" >&2; exit 1; }
if [ "$(id -u)" -ne 0 ]; then
	exec sudo HOME="$HOME" PG="$pg" "$0" "${with[@]}" "$pg" "$@"
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/pgq_ext
name=$release
[ -z "$packages" ] || name=with-$(cksum <<<"$packages" | cut -d ' ' -f 1)-$release
root=$cache/$name-$(cat script/debian_root.sh script/setup.sh script/version.sh | cksum | cut -d ' ' -f 1)
tree=/pgq_ext.$$

# repository LABEL: prints the address of the machine's own repository with that label
repository()
{
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Label: $1" | sed -n 1p
}

# enter DIR COMMAND...: runs the command as process 1 of a PID namespace, so that all its processes end with it
enter()
{
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child bash -ec '
		root=$1 tree=$2
		shift 2
		mount --make-rprivate /
		mount -t proc proc "$root/proc"
		mount -t sysfs sysfs "$root/sys"
		mount --rbind /dev "$root/dev" # with /dev/pts and /dev/shm
		[ -z "$DIRECTORY" ] || mount --bind "$DIRECTORY" "$root$tree"
		exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
			DEBIAN_FRONTEND=noninteractive PG="$PG" CI="$CI" KEEP="$KEEP" SANITIZE="$SANITIZE" http_proxy="$http_proxy" \
			sh -c "cd $tree && exec \"\$@\"" sh "$@"
	' bash "$1" "$tree" "${@:2}"
}
# The release for all other packages: experimental has single packages, for use with sid.
base=$release
[ "$release" != experimental ] || base=sid
export PG=$pg CI=${CI:-} KEEP=${KEEP:-} SANITIZE=${SANITIZE:-} http_proxy=${http_proxy:-} DIRECTORY=''

# copy_tree DIR: copies the files that git knows, and new ones; git can list them in the copy, too
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
	local new=$root.new mirror security script=/usr/share/debootstrap/scripts/$base
	PG='' script/setup.sh debootstrap
	mirror=$(repository Debian)
	security=$(repository Debian-Security)
	[ -e "$script" ] || script=${script%/*}/sid # a release that this one has not heard of
	# Mounts that a killed run has left.
	! mountpoint -q "$new/proc" || umount "$new/proc"
	rm -rf "$new" "$cache/$name-"[0-9]*
	debootstrap --variant=minbase "$base" "$new" "${mirror:-http://deb.debian.org/debian}" "$script"
	{
		echo "deb $mirror $base main"
		case $release in
			experimental) echo "deb $mirror experimental main" ;;
			forky) ;;
			*) echo "deb $security $release-security main" ;;
		esac
	} >"$new/etc/apt/sources.list"
	[ "$release" != experimental ] ||
		printf '%s\n' "Package: src:postgresql-$pg" 'Pin: release a=experimental' 'Pin-Priority: 990' >"$new/etc/apt/preferences"
	# A mirror may be a snapshot, of a release that is not out yet.
	echo 'Acquire::Check-Valid-Until "false";' >"$new/etc/apt/apt.conf.d/valid-until"
	printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d"
	chmod 755 "$new/usr/sbin/policy-rc.d"
	[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$new/etc/resolv.conf"
	copy_tree "$new"
	enter "$new" apt-get -qq update
	enter "$new" apt-get -qq -y -o Dpkg::Use-Pty=0 upgrade
	if [ -z "$packages" ]; then
		enter "$new" script/setup.sh
		if [ ! -x "$new/usr/lib/postgresql/$pg/bin/postgres" ]; then
			echo "$mirror has no PostgreSQL $pg in $release"
			return 1
		fi
	else
		# shellcheck disable=SC2086
		enter "$new" apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends $packages
	fi
	enter "$new" apt-get -qq clean
	rm -rf "${new:?}$tree"
	mv "$new" "$root"
}

mkdir -p "$cache"
exec 9>"$cache/$name.lock"
flock 9
if [ ! -d "$root" ]; then
	echo "Making a root of Debian $release with ${packages:-PostgreSQL $pg}" >&2
	# Not in a condition, in which set -e does not stop at the first failure.
	set +e
	log=$(set -e; make_root 2>&1 </dev/null 9>&-)
	made=$?
	set -e
	if [ $made -ne 0 ]; then
		printf '%s\n' "$log" | tail -n 40 >&2
		echo "$0: a root of Debian $release with ${packages:-PostgreSQL $pg} cannot be made" >&2
		exit 1
	fi
fi
flock -u 9

if [ -n "$directory" ]; then
	copy=$(mktemp -d "$cache/copy.XXXXXX")
	trap 'rm -rf "${copy:?}"' EXIT
	cp -a --reflink=auto "$root/." "$copy"
	mkdir "$copy$tree"
	DIRECTORY=$directory enter "$copy" "$@" </dev/null 9>&-
else
	trap 'rm -rf "${root:?}$tree"' EXIT
	copy_tree "$root"
	enter "$root" "$@" </dev/null 9>&-
fi
