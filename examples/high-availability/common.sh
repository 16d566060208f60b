# shellcheck shell=bash
# Sourced by the two examples: a directory that contains everything, free ports on 127.0.0.1, and processes identified by their
# pid.

host=127.0.0.1
a_port='' b_port=''

say() { echo "$(basename "$0"): $*" >&2; }

# in_directory DIR: changes to the directory, in which everything else happens
in_directory()
{
	[ "$(id -u)" -ne 0 ] || { say 'PostgreSQL refuses to run as root: be somebody else'; exit 1; }
	mkdir -p "$1" && cd "$1" || exit
	dir=$PWD
	[ ${#dir} -le 80 ] || { say "$dir is too long a path for sockets"; exit 1; }
	# Debian does not put these programs into PATH.
	command -v initdb >/dev/null || PATH=$(echo /usr/lib/postgresql/*/bin | tr ' ' '\n' | sort -V | tail -n 1):$PATH
	for variable in "${!PG@}"; do unset "$variable"; done
	# shellcheck disable=SC1091
	[ ! -e ports ] || . ./ports
}

# free_ports NAME...: chooses a port for each name, and stores it in the file "ports"
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

# in_background NAME COMMAND...: runs the command, with its output in NAME.log and its pid in NAME.pid
in_background()
{
	local name=$1
	shift
	setsid "$@" </dev/null >>"$name.log" 2>&1 9>&- &
	echo $! >"$name.pid"
}

# postmaster NAME: prints the pids of the node's postmaster and of its processes. Checks that the process works in the data
# directory of the node, since the pid file may be from before the last start of the machine.
postmaster()
{
	local pid
	pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) || return 0
	[ "$(readlink "/proc/$pid/cwd")" != "$dir/$1" ] || descendants "$pid"
}

# keeper NAME: prints the pid of the command that in_background has started, if it is still running
keeper()
{
	local pid
	pid=$(cat "$1.pid" 2>/dev/null) || return 0
	! grep -qsF "$dir/" "/proc/$pid/cmdline" || echo "$pid"
}

# processes NAME: prints the pids of all processes of the node, including those that have left their parent
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

# signal SIGNAL NAME: sends the signal to all processes of a node at once
signal()
{
	local pids
	pids=$(processes "$2" | sort -un)
	# shellcheck disable=SC2086
	[ -z "$pids" ] || kill -"$1" $pids 2>/dev/null || true
}

# wake NAME: continues the node's PostgreSQL, but not the process that watches it
wake()
{
	# shellcheck disable=SC2046
	kill -CONT $(postmaster "$1")
}

# stop NAME...: stops the processes as a service manager does, and kills them if that takes too long
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

# until_true WHAT COMMAND...: waits until the command succeeds
until_true()
{
	local what=$1 end=$((SECONDS + ${TIMEOUT:-180}))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { say "waited in vain until $what: see $dir/*.log"; exit 1; }
		sleep 0.2
	done
}

# new_data_directory NAME: makes a data directory in which every user of this machine has all rights, since this is only for
# trying out
new_data_directory()
{
	initdb -D "$1" -U postgres -A trust --no-locale -E UTF8 >>"$1.log"
	echo "unix_socket_directories = '$dir'" >>"$1/postgresql.conf"
}

# Settings that both nodes need. A crash of the whole machine is not part of the example, so tests may set fsync = off.
pgq_conf()
{
	cat <<-CONF
		shared_preload_libraries = 'pgq_ext'
		max_worker_processes = 16
		wal_log_hints = on # for pg_rewind
		${EXTRA_CONF:-}
	CONF
}

# The URL for clients.
url() { echo "postgresql://postgres@$host:$a_port,$host:$b_port/postgres?target_session_attrs=read-write"; }

is_writable() { psql -XAtqc 'SELECT' "$(url)&connect_timeout=2"; }
