# shellcheck shell=bash
# Sourced by rivals.sh. Starts the brokers (servers other than PostgreSQL) and PgQ's ticker, each in a directory of its
# own in $work, as the user that runs PostgreSQL.

rabbitmq_programs=/usr/lib/rabbitmq/bin
rabbitmq_port=''
pgqd=''
started=()

# as_broker COMMAND...: runs the command in the broker's directory, in the background
as_broker()
{
	local directory=$work/$1
	mkdir -p "$directory"
	[ ${#as_user[@]} -eq 0 ] || chown -R "$unprivileged" "$directory"
	(cd "$directory" && exec "${as_user[@]}" "${@:2}") >"$work/$1.log" 2>&1 &
	started+=($!)
}

stop_all()
{
	stop_pgqd
	[ -z "$rabbitmq_port" ] || "${rabbitmq[@]}" $rabbitmq_programs/rabbitmqctl -q shutdown >/dev/null 2>&1
	[ ${#started[@]} -eq 0 ] || { kill "${started[@]}"; wait "${started[@]}"; } 2>/dev/null
	started=()
}

# until_there WHAT COMMAND...: waits until the command succeeds, for at most a minute
until_there()
{
	local i
	for ((i = 0; i < 600; i++)); do
		! "${@:2}" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	die "$1 does not start"
}

free_port()
{
	perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}

answers() { (: <"/dev/tcp/127.0.0.1/$1"); }

# start_rabbitmq: Erlang's port mapper and its distribution get ports of their own, so that no other RabbitMQ on this
# machine is disturbed
start_rabbitmq()
{
	local home=$work/rabbitmq epmd_port
	epmd_port=$(free_port)
	rabbitmq_port=$(free_port)
	mkdir "$home"
	: >"$home/rabbitmq.conf"
	: >"$home/environment"
	echo '[].' >"$home/plugins"
	rabbitmq=(env HOME="$home" ERL_EPMD_PORT="$epmd_port" ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODENAME=bench@localhost
		RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$rabbitmq_port" RABBITMQ_DIST_PORT="$(free_port)"
		RABBITMQ_MNESIA_BASE="$home/mnesia" RABBITMQ_LOG_BASE="$home/log" RABBITMQ_ENABLED_PLUGINS_FILE="$home/plugins"
		RABBITMQ_CONFIG_FILE="$home/rabbitmq.conf" RABBITMQ_CONF_ENV_FILE="$home/environment")
	rabbitmq=("${as_user[@]}" "${rabbitmq[@]}")
	as_broker rabbitmq "${rabbitmq[@]:${#as_user[@]}}" epmd -port "$epmd_port"
	until_there epmd answers "$epmd_port"
	as_broker rabbitmq "${rabbitmq[@]:${#as_user[@]}}" $rabbitmq_programs/rabbitmq-server
	until_there RabbitMQ answers "$rabbitmq_port"
}

# start_brokers: starts the servers of the sides that take part
start_brokers()
{
	if [ -n "$(among redis_list redis_stream)" ]; then
		as_broker redis redis-server --port 0 --unixsocket "$work/redis/socket" --unixsocketperm 777 --dir "$work/redis" \
			--appendonly yes --appendfsync always --save ''
		until_there Redis test -S "$work/redis/socket"
	fi
	if takes_part beanstalkd; then
		as_broker beanstalkd beanstalkd -l "unix:$work/beanstalkd/socket" -b "$work/beanstalkd" -f 0
		until_there beanstalkd test -S "$work/beanstalkd/socket"
	fi
	[ -z "$(among rabbitmq rabbitmq_quorum)" ] || start_rabbitmq
}

start_pgqd()
{
	mkdir -p "$work/pgqd"
	cat >"$work/pgqd/pgqd.ini" <<-INI
		[pgqd]
		base_connstr = host=$PGHOST user=$PGUSER
		initial_database = $PGDATABASE
		database_list = $PGDATABASE
		ticker_period = 0.1
		logfile = $work/pgqd/log
		pidfile = $work/pgqd/pid
	INI
	as_broker pgqd pgqd "$work/pgqd/pgqd.ini"
	pgqd=${started[-1]}
	unset 'started[-1]'
}

stop_pgqd()
{
	[ -z "$pgqd" ] || { kill "$pgqd"; wait "$pgqd"; } 2>/dev/null
	pgqd=''
}

# brokers_and_libraries: prints the versions of the servers and their libraries, for $out/machine.txt
brokers_and_libraries()
{
	local name package module
	for package in redis-server rabbitmq-server beanstalkd pgqd; do
		! dpkg-query -W "$package" >/dev/null 2>&1 || printf '%s\t%s\n' "$package" "$(dpkg-query -W -f '${Version}' "$package") of Debian"
	done
	for module in graphile-worker pg-boss pg; do
		name=build/node/node_modules/$module/package.json
		[ ! -e "$name" ] || printf '%s\t%s, Node %s\n' "$module" "$(sed -n 's/^ *"version": "\(.*\)",*$/\1/p' "$name" | head -n 1)" "$(node --version)"
	done
	[ -z "${NOTE:-}" ] || printf 'note\t%s\n' "$NOTE"
}
