#!/bin/bash
# Shows pgq_ext at work on a throw-away server: every file below a directory is a job, four shell loops are the workers, and
# pgq-web serves a page.
#
#   quickstart/quickstart.sh [--keep] [--data FOLDER] [DIRECTORY]    default: /usr/share/doc
#   quickstart/quickstart.sh --stop [--data FOLDER]
#
#   --keep         leave the server and the page running, and tell how to reach them; not with a PG that takes a root of another release
#   --stop         stop what --keep left, and remove its folder
#   --data FOLDER  where the server lives; default: ./quickstart-data, or a new folder where the server's user
#                  cannot reach that
set -uo pipefail

arguments=("$@")
keep=false stop=false folder='' tree=/usr/share/doc
while [ $# -gt 0 ]; do
	case $1 in
		--keep) keep=true ;;
		--stop) stop=true ;;
		--data) shift; folder=${1:?--data needs a folder} ;;
		-*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
		*) tree=$1 ;;
	esac
	shift
done
tree=$(realpath -e -- "$tree") || exit
[ -z "$folder" ] || folder=$(realpath -- "$folder")
cd "$(dirname "$0")/.." || exit

say()
{
	printf '\n%s\n' "$*"
}

die()
{
	printf 'quickstart: %s\n' "$*" >&2
	[ ! -e "${folder:-}/run/server.log" ] || tail -n 20 "$folder/run/server.log" >&2
	exit 1
}

sql()
{
	psql -XqAt -v ON_ERROR_STOP=1 "$@"
}

# Stops the page in this folder. The number of its process may by now be that of another program.
stop_page()
{
	local pid
	{ read -r pid <"$folder/page.pid"; } 2>/dev/null || return 0
	[[ $(readlink "/proc/$pid/exe") != "$folder/root/"*/pgq-web ]] || kill -KILL "$pid"
	rm -f "$folder/page.pid"
}

script/setup.sh --run || exit
. script/version.sh
# A server in a root ends with the command.
[ -z "${PG:-}" ] || can_be_here "$PG" || ! $keep ||
	die "no --keep with PostgreSQL $PG: this release has not got it, and a server in a root of another ends with the command"
elsewhere quickstart/quickstart.sh "${arguments[@]}"
$stop || script/setup.sh --run libcpp-httplib-dev pkgconf || exit # for the page
. script/private_server.sh

# The folder is ours alone, for we run programs out of it: the server's user may write to data and run only.
if [ -z "$folder" ]; then
	folder=$PWD/quickstart-data
	if ! "${as_user[@]}" test -x "$PWD"; then
		! $stop || die 'say which folder with --data'
		folder=$(mktemp -d "${TMPDIR:-/tmp}/pgq_ext-quickstart.XXXXXX") || exit
		touch "$folder/pgq_ext-quickstart"
	fi
fi
if [ -e "$folder" ]; then
	[ -d "$folder" ] && [ ! -L "$folder" ] && [ "$(stat -c %u "$folder")" = "$(id -u)" ] &&
		[ -f "$folder/pgq_ext-quickstart" ] || die "$folder exists, and is none of mine"
	PATH=$folder/root$($pg_config --bindir):$PATH
	stop_page
	stop_servers "$folder"
	rm -rf "$folder"
fi
! $stop || exit 0

workers=() page=
clean_up()
{
	for pid in "${workers[@]}"; do
		kill -KILL -- "-$pid" 2>/dev/null
	done
	if $keep && [ -e "$folder/data/postmaster.pid" ]; then
		say "The server is still there:  psql -h $PGHOST -U postgres quickstart"
		[ -z "$page" ] || echo "So is the page:  $page"
		echo "They end with:  quickstart/quickstart.sh --stop --data $folder"
	else
		stop_page
		stop_servers "$folder"
		rm -rf "$folder"
		rm -rf "$PGHOST"
	fi
}

"${as_user[@]}" test -r "$tree" -a -x "$tree" || die "the user the workers run as cannot read $tree"
mkdir -p "$folder/data" "$folder/run" && chmod 755 "$folder" && touch "$folder/pgq_ext-quickstart" || exit
export PGHOST=$folder/run PGUSER=postgres PGDATABASE=postgres
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
[ ${#PGHOST} -lt 90 ] || PGHOST=$(mktemp -d /tmp/pgq.XXXXXX) # the name of a socket is limited to 107 bytes

say 'Building the extension, and starting a server for it in a folder of its own:'
echo "$folder"
export TOP=no WEB= # pgq-top is not shown
private_install "$folder/root" || die 'the build failed'
cp quickstart/worker.sh "$folder"
cd "$folder" || exit # the server's user need not be able to read the source tree
touch run/unreadable && chmod 000 run/unreadable
[ ${#as_user[@]} -eq 0 ] || chown -R "$unprivileged" "$folder/data" "$folder/run" "$PGHOST"
"${as_user[@]}" initdb -D "$folder/data" -U postgres -A trust --no-locale -E UTF8 >/dev/null || die 'initdb failed'
cat >>"$folder/data/postgresql.conf" <<-CONF
	shared_preload_libraries = 'pgq_ext'
	listen_addresses = ''
	unix_socket_directories = '$PGHOST'
CONF
"${as_user[@]}" pg_ctl -D "$folder/data" -l "$folder/run/server.log" -w start >/dev/null || die 'the server does not start'

sql -c 'CREATE DATABASE quickstart' || die 'cannot create a database'
PGDATABASE=quickstart
sql >/dev/null <<-'SQL' || die 'cannot create the queue'
	CREATE EXTENSION pgq_ext;
	SELECT pgq_create_queue('checksum', max_attempts => 3, backoff_base => '1 s', lease_time => '10 s');
	CREATE TABLE name (path text NOT NULL);
	CREATE TABLE file (job_id bigint PRIMARY KEY, path text NOT NULL,
	                   sha256 text, attempt int, worker text, done_at timestamptz);
SQL

say "Enqueueing every file below $tree, and one that nobody can read:"
{
	printf '%s\0' "$folder/run/unreadable"
	"${as_user[@]}" find "$tree" -path "$folder" -prune -o -type f -print0 2>/dev/null || true
} | perl -MEncode -0ne '
	chomp;
	eval { decode("UTF-8", my $copy = $_, Encode::FB_CROAK); 1 } or do { $skipped++; next };
	s/([\\\t\n\r])/{"\\" => "\\\\", "\t" => "\\t", "\n" => "\\n", "\r" => "\\r"}->{$1}/ge;
	print "$_\n";
	END { print STDERR "$skipped files skipped: their names are not UTF-8\n" if $skipped }' |
	sql -c 'COPY name FROM STDIN' || die 'cannot list the files'
sql <<-'SQL' || die 'cannot enqueue'
	\timing on
	INSERT INTO file (job_id, path)
	SELECT pgq_enqueue('checksum', jsonb_build_object('path', path)), path FROM name;
	\timing off
SQL
total=$(sql -c 'SELECT count(*) FROM file')
echo "$total jobs, enqueued in one transaction"

# A small directory would be over before there is anything to see.
batch=$((total / 40 + 1)) pause=0
[ $batch -le 25 ] || batch=25
if [ "$total" -lt 500 ]; then
	pause=$((15000 / (total + 15))) # ms
	[ $pause -lt 1000 ] && pause=$(printf 0.%03d $pause)
fi

# The page is shown to all users of this machine: it reads as a role that can do nothing, and an action takes a password.
password=$(od -An -N6 -tx1 /dev/urandom | tr -d ' ')
sql >/dev/null <<-SQL || die 'cannot create the roles of the page'
	CREATE ROLE visitor LOGIN IN ROLE pg_monitor;
	CREATE ROLE operator LOGIN PASSWORD '$password' IN ROLE pg_monitor;
	GRANT SELECT ON ALL TABLES IN SCHEMA pgq_ext TO operator;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO operator;
SQL
"${as_user[@]}" sed -i '1i local all operator scram-sha-256' "$folder/data/pg_hba.conf" && sql -c 'SELECT pg_reload_conf()' >/dev/null ||
	die 'cannot let a role log in'
program=$folder/root$("$pg_config" --bindir)/pgq-web
[ -x "$program" ] || die 'pgq-web was not built'
setsid "${as_user[@]}" "$program" --listen 127.0.0.1:0 -U visitor >"$folder/page.out" 2>"$folder/page.log" </dev/null &
echo $! >"$folder/page.pid"
disown
until page=$(sed -n 's/^pgq-web: //p' "$folder/page.out"); [ -n "$page" ]; do
	kill -0 "$(cat "$folder/page.pid")" 2>/dev/null || { cat "$folder/page.log" >&2; die 'pgq-web does not start'; }
	sleep 0.1
done
say "pgq-web shows the queue while the jobs run, at  $page"
echo "To pause the queue, cancel jobs and the like, log in as operator with the password $password."

say 'Four workers, each a shell loop around psql. One of them will not live long.'
for n in 1 2 3 4; do
	setsid "${as_user[@]}" ./worker.sh "worker $n" "$batch" "$pause" &
	workers+=($!)
	disown
done
victim=${workers[2]}

# Kills worker 3 while it holds jobs: it is halted first, to see that it does.
kill_victim()
{
	local held="SELECT count(*) FROM pgq_ext.lease WHERE worker = 'worker 3'"
	kill -STOP -- "-$victim" || die 'worker 3 has gone on its own'
	sleep 0.1
	if [ "$(sql -c "$held")" -eq 0 ]; then
		kill -CONT -- "-$victim"
		return
	fi
	kill -KILL -- "-$victim"
	sql -c "CREATE TABLE orphan AS SELECT job_id FROM pgq_ext.lease WHERE worker = 'worker 3'"
	echo "-- worker 3 killed with kill -9; it held $(sql -c 'SELECT count(*) FROM orphan') jobs, which come back when their leases end"
	victim=''
}

printf '\n%7s %9s %9s %9s %9s %9s\n' time ready scheduled leased 'done' dead
start=$SECONDS shown=-1 last='' changed=$SECONDS
while :; do
	state=$(sql -F ' ' -c "
		SELECT ready, scheduled, leased, (SELECT count(sha256) FROM file), dead
		FROM pgq_ext.queue_status WHERE queue = 'checksum'") || die 'the server is gone'
	read -r ready scheduled leased finished dead <<<"$state"
	now=$((SECONDS - start))
	left=$((ready + scheduled + leased))
	if [ $now -gt $shown ] || [ $left -eq 0 ]; then
		printf '%5d s %9d %9d %9d %9d %9d\n' $now "$ready" "$scheduled" "$leased" "$finished" "$dead"
		shown=$now
	fi
	[ $left -gt 0 ] || break
	[ -z "$victim" ] || [ $((finished * 2)) -lt "$total" ] || kill_victim
	[ "$state" = "$last" ] || changed=$SECONDS
	[ $((SECONDS - changed)) -lt 60 ] || die 'nothing has happened for a minute'
	last=$state
	sleep 0.2
done
[ -z "$victim" ] || echo '-- worker 3 was left alive: there were too few files to catch it at work'
sql -c 'CREATE TABLE IF NOT EXISTS orphan (job_id bigint)' 2>/dev/null

say 'Summary'
psql -Xq -P footer=off <<-'SQL'
	WITH tries AS (
		SELECT attempt AS n FROM file WHERE sha256 IS NOT NULL
		UNION ALL SELECT attempts FROM pgq_ext.dead_job)
	SELECT (SELECT count(*) FROM file) AS jobs,
	       (SELECT count(sha256) FROM file) AS done,
	       (SELECT sum(n) FROM tries) AS attempts,
	       (SELECT sum(n - 1) FROM tries) AS retries,
	       (SELECT count(*) FROM pgq_ext.dead_job) AS "dead letters",
	       (SELECT count(*) FROM orphan JOIN file USING (job_id) WHERE worker <> 'worker 3') AS "done for worker 3",
	       (SELECT round(count(*) / greatest(extract(epoch FROM max(done_at) - min(done_at)), 0.001))
	        FROM file WHERE attempt = 1) AS "jobs/s"
SQL
psql -Xq -P footer=off -c "SELECT attempts, last_error AS \"dead letter\" FROM pgq_ext.dead_job ORDER BY job_id LIMIT 10"

missed=0
while IFS= read -rd '' path; do
	"${as_user[@]}" test -r "$path" || continue
	missed=$((missed + 1))
	printf 'not done: %q\n' "$path"
done < <(sql -z0 -c 'SELECT path FROM file WHERE sha256 IS NULL')
[ $missed -eq 0 ] || die "$missed readable files were not done"
echo 'Each readable file was done.'
