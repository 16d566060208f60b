# shellcheck shell=bash
# What the two examples share: a directory with everything in it, free ports on 127.0.0.1, processes by their number.

host=127.0.0.1
a_port='' b_port=''

say() { echo "$(basename "$0"): $*" >&2; }

# in_directory DIR: becomes what the rest works in
in_directory()
{
	[ "$(id -u)" -ne 0 ] || { say 'PostgreSQL refuses to run as root: be somebody else'; exit 1; }
	mkdir -p "$1" && cd "$1" || exit
	dir=$PWD
	[ ${#dir} -le 80 ] || { say "$dir is too long a path for sockets"; exit 1; }
	# Debian keeps these out of PATH.
	command -v initdb >/dev/null || PATH=$(echo /usr/lib/postgresql/*/bin | tr ' ' '\n' | sort -V | tail -n 1):$PATH
	for variable in "${!PG@}"; do unset "$variable"; done
	# shellcheck disable=SC1091
	[ ! -e ports ] || . ./ports
}

# free_ports NAME...: a port for each, kept in the file "ports"
free_ports()
{
	local name port taken=' '
	for name in "$@"; do
		port=$((20000 + RANDOM % 12000))
		while [[ $taken == *" $port "* ]] || { exec 9<>/dev/tcp/$host/$port; } 2>/dev/null; do
			exec 9>&-
			port=$((20000 + RANDOM % 12000))
		done
		taken+="$port "
		echo "${name}_port=$port"
	done >ports
	# shellcheck disable=SC1091
	. ./ports
}

port_of() { local variable=$1_port; echo "${!variable}"; }

# in_background NAME COMMAND...: writes NAME.log, and its number to NAME.pid
in_background()
{
	local name=$1
	shift
	setsid "$@" </dev/null >>"$name.log" 2>&1 9>&- &
	echo $! >"$name.pid"
}

# postmaster NAME: it works in its data directory; without that the file may be older than the machine's last start
postmaster()
{
	local pid
	pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) || return 0
	[ "$(readlink "/proc/$pid/cwd")" != "$dir/$1" ] || descendants "$pid"
}

# keeper NAME: what was put in the background, if it is still that
keeper()
{
	local pid
	pid=$(cat "$1.pid" 2>/dev/null) || return 0
	! grep -qsF "$dir/" "/proc/$pid/cmdline" || echo "$pid"
}

# processes NAME: all of it, also what has left its parent
processes()
{
	local pid
	for pid in $(keeper "$1"); do descendants "$pid"; done
	postmaster "$1"
}

descendants()
{
	local child
	echo "$1"
	for child in $(tr ' ' '\n' 2>/dev/null <"/proc/$1/task/$1/children"); do descendants "$child"; done
}

# signal SIGNAL NAME: everything of a node at once
signal()
{
	local pids
	pids=$(processes "$2" | sort -un)
	# shellcheck disable=SC2086
	[ -z "$pids" ] || kill -"$1" $pids 2>/dev/null || true
}

# wake NAME: its PostgreSQL, and not what looks after it
wake()
{
	# shellcheck disable=SC2046
	kill -CONT $(postmaster "$1")
}

# stop NAME...: as a service manager would, and after a while as none would
stop()
{
	local name pid
	for name in "$@"; do
		signal CONT "$name"
		for pid in $(keeper "$name"); do kill -TERM "$pid"; done
		for _ in {1..300}; do
			[ -n "$(processes "$name")" ] || break
			sleep 0.1
		done
		signal KILL "$name"
		rm -f "$name.pid"
	done
}

# until_true WHAT COMMAND...
until_true()
{
	local what=$1 end=$((SECONDS + ${TIMEOUT:-180}))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { say "waited in vain until $what: see $dir/*.log"; exit 1; }
		sleep 0.2
	done
}

# new_data_directory NAME: everybody on this machine may do everything in it: this is for trying
new_data_directory()
{
	initdb -D "$1" -U postgres -A trust --no-locale -E UTF8 >>"$1.log"
	echo "unix_socket_directories = '$dir'" >>"$1/postgresql.conf"
}

# What both nodes need. A crash of the whole machine is not tried here: tests may say fsync = off.
pgq_conf()
{
	cat <<-CONF
		shared_preload_libraries = 'pgq_ext'
		max_worker_processes = 16
		wal_log_hints = on # for pg_rewind
		${EXTRA_CONF:-}
	CONF
}

# What clients connect with.
url() { echo "postgresql://postgres@$host:$a_port,$host:$b_port/postgres?target_session_attrs=read-write"; }

is_writable() { psql -XAtqc 'SELECT' "$(url)&connect_timeout=2"; }
