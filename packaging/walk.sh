#!/bin/bash
# Follows "From a package" of docs/install.md, as it is printed, on a machine with nothing but PostgreSQL. packaging/test.sh runs it in
# a root of its own, with the packages in the current directory and the tree in source/:
#
#   source/packaging/walk.sh PG
set -uo pipefail
. source/packaging/lib.sh
pg=$1
export DEBIAN_FRONTEND=noninteractive
out=$(mktemp -d)

# page N [LINES]: some lines (1, or 2,$) of the section's Nth block, for this PostgreSQL
page()
{
	awk -v n="$1" '/^#/ && !code { on = /^## From a package/ } /^```/ { code = !code; i += on && code; next } on && code && i == n' \
		source/docs/install.md | sed -n "${2:-1,\$}p" | sed "s/\b17\b/$pg/g"
}

# follow N [LINES]: what is said is in $out/said
follow()
{
	page "$@" >"$out/block"
	[ -s "$out/block" ] || { echo 'docs/install.md has no such block'; return 1; }
	bash -eux "$out/block" </dev/null >"$out/said" 2>&1 || { cat "$out/said"; return 1; }
}

said()
{
	grep -qE -- "$1" "$out/said" || { cat "$out/said"; return 1; }
}

# sql DATABASE STATEMENT
sql()
{
	sudo -u postgres psql -XAtq -v ON_ERROR_STOP=1 -d "$1" -c "$2"
}

# machine: files, packages and what the cluster is told; not what apt and the server keep for themselves
machine()
{
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path /root -o -path "$PWD" \
		-o -path '/var/lib/dpkg/*' -o -path '/var/lib/apt/*' -o -path '/var/cache/*' -o -path '/var/log/*' -o -path '/var/lib/postgresql/*' \) \
		-prune -o -print | sort
	find /var/lib/dpkg -name '*pgq*'
	dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n'
	settings
}

settings()
{
	grep -hv '^#' "/etc/postgresql/$pg/main/"*.conf
}

# The server's other clusters are not our business, nor is who else uses its port.
apt-get -qq update >/dev/null 2>&1
echo "127.0.0.1 $(hostname)" >>/etc/hosts # sudo would complain
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/yes
pg_conftool "$pg" main set listen_addresses ''
pg_ctlcluster "$pg" main start
machine >"$out/before"
settings=$(settings)

check 'the packages can be installed' follow 1 1
check 'installing says what to add to shared_preload_libraries' said 'shared_preload_libraries.*CREATE EXTENSION'
check 'installing changes no cluster' [ "$settings" = "$(settings)" ]
check 'every file that is told of is there' eval '! dpkg --verify | grep .'
check 'pgq-top has a manual page' [ -s /usr/share/man/man1/pgq-top.1.gz ]
check 'pgq-web has a manual page' [ -s /usr/share/man/man1/pgq-web.1.gz ]
check 'install.md: the library is preloaded' follow 1 '2,$'
check 'install.md: the first jobs' follow 2
check 'a job was handed out' said '\{"to": "ada@example.org"\}'
check 'pgq-top shows the queue' said '^ *mail +active +0 +0 +0 +0 '

# web_shows TEXT: starts pgq-web, and asks it for its page and for the queues
web_shows()
{
	local web status
	setpriv --reuid=postgres --regid=postgres --init-groups pgq-web --listen 127.0.0.1:0 jobs >"$out/web" 2>&1 </dev/null &
	web=$!
	until grep -q '^pgq-web: http' "$out/web"; do
		kill -0 $web || { cat "$out/web"; return 1; }
		sleep 0.1
	done
	TEXT=$1 perl -MHTTP::Tiny -e '
		my ($page) = <STDIN> =~ m{(http://\S+)} or die;
		for ([ "", "<title>" ], [ "api/overview", $ENV{TEXT} ]) {
			my $answer = HTTP::Tiny->new->get($page . $_->[0]);
			$answer->{success} && index($answer->{content}, $_->[1]) >= 0 or die "$answer->{status} $answer->{content}";
		}' <"$out/web"
	status=$?
	kill $web
	wait $web
	return $status
}
check 'pgq-web shows the queue' web_shows '"mail"'

for version in source/upgrade/pgq_ext--*.sql; do
	version=$(basename -s .sql "$version" | sed -n 's/^pgq_ext--\([^-]*\)$/\1/p')
	[ -n "$version" ] || continue
	sudo -u postgres createdb "from_$version"
	check "a database of $version is updated" eval "
		sql from_$version \"CREATE EXTENSION pgq_ext VERSION '$version'\" && sql from_$version 'ALTER EXTENSION pgq_ext UPDATE' &&
		[ \"\$(sql from_$version \"SELECT extversion = default_version FROM pg_extension JOIN pg_available_extensions ON extname = name WHERE name = 'pgq_ext'\")\" = t ]"
	sudo -u postgres dropdb "from_$version"
done

# The pgmq of this project has the files of the original.
mkdir -p "$out/pgmq/DEBIAN"
printf '%s\n' "Package: postgresql-$pg-pgmq" 'Version: 1.13.1-1' 'Architecture: all' 'Maintainer: nobody <nobody@example.org>' \
	'Description: has pgmq.control' >"$out/pgmq/DEBIAN/control"
dpkg-deb --build "$out/pgmq" "$out/pgmq.deb" >/dev/null
check 'pgmq.md: the extension pgmq is installed from its package' eval '
	apt-get -qq install ./postgresql-$pg-pgq-ext-pgmq_*.deb >"$out/said" 2>&1 && sudo -u postgres createdb messages &&
	sql messages "CREATE EXTENSION pgmq CASCADE" && sql messages "SELECT pgmq.create(\$\$orders\$\$)" &&
	sql messages "SELECT pgmq.send(\$\$orders\$\$, \$\${}\$\$)" && [ "$(sql messages "SELECT msg_id FROM pgmq.pop(\$\$orders\$\$)")" = 1 ]'
check 'the original pgmq is not installed beside it' eval 'apt-get -s install "$out/pgmq.deb" 2>&1 | grep "^Remv postgresql-$pg-pgq-ext-pgmq "'
sudo -u postgres dropdb messages
apt-get -qq purge "postgresql-$pg-pgq-ext-pgmq" >/dev/null

# PgQ from 3.3 on has its extension of the same name in another package.
mkdir -p "$out/pgq/DEBIAN"
printf '%s\n' "Package: postgresql-$pg-pgq3" 'Version: 3.2.6-1' 'Architecture: all' 'Maintainer: nobody <nobody@example.org>' \
	'Description: has pgq_ext.control' >"$out/pgq/DEBIAN/control"
dpkg-deb --build "$out/pgq" "$out/pgq.deb" >/dev/null
check 'the package with the files of PgQ of the same name is not installed beside ours' \
	eval 'apt-get -s install "$out/pgq.deb" 2>&1 | grep "^Remv postgresql-$pg-pgq-ext "'
check 'the PgQ of this release is' eval 'apt-get -s install "postgresql-$pg-pgq3" >"$out/said" && said "^Inst postgresql-$pg-pgq3 " && ! said "^Remv"'

check 'install.md: all is removed' follow 3
check 'the server runs on' [ "$(sql postgres 'SHOW shared_preload_libraries')" = '' ]
machine >"$out/after"
check 'purge leaves nothing' diff "$out/before" "$out/after"
pg_ctlcluster "$pg" main stop
