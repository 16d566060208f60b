#!/bin/bash
# Compares the speed of pgq_ext with other queues in PostgreSQL and in other servers, each with its most durable
# settings, on throw-away servers.
#
#   bench/run.sh rivals [WORKLOAD...]        about 25 minutes; writes docs/benchmarks-rivals.md when no workload is named
#   bench/run.sh rivals-tiny [WORKLOAD...]   about three minutes, to see whether it works; its figures mean nothing
#
#   WORKLOAD       enqueue claim life latency held
#   OUT=DIR        keep the results in DIR; bench/rivals.pl DIR prints the tables, bench/rivals.pl DIR docs writes the page
#   PGMQ_DIR=DIR   let pgmq take part, whose pgmq.sql is somewhere below DIR
#   NOTE=TEXT      text about the machine, for the page
#   SIDES='...'    run only these sides (see the list below)
#
# A side that is not available on this machine is named, and left out. As in run.sh, the sides take turns in each
# round, and the medians of the rounds count.
set -uo pipefail

usage()
{
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

arguments=("$@")
form=${1:-rivals}
rounds=3
workloads=(enqueue claim life latency held)
in_sql=(rows pgq_ext pgmq pgq graphile_worker pg_boss) # by bench/load, so also while a snapshot is held
others=(graphile_worker_node pg_boss_node redis_list redis_stream rabbitmq rabbitmq_quorum beanstalkd)
case $form in
	rivals)
		seconds=1 warm_up=0.3 stock=20000 bulk_stock=50000 more=2 bulk_more=6
		rates=(100 500) latency_seconds=2
		aged_jobs=100000 age=11 ;; # a younger snapshot could be of a dump that has not locked its tables yet
	rivals-tiny)
		rounds=1
		seconds=0.2 warm_up=0.05 stock=2000 bulk_stock=5000 more=2 bulk_more=3
		rates=(100) latency_seconds=0.5
		aged_jobs=1000 age=1 ;;
	*) usage ;;
esac
shift
all=true
[ $# -eq 0 ] || all=false workloads=("$@")
for workload in "${workloads[@]}"; do
	[[ " enqueue claim life latency held " == *" $workload "* ]] || usage
done
[ -z "${PGMQ_DIR:-}" ] || PGMQ_DIR=$(realpath -- "$PGMQ_DIR")
[ -z "${OUT:-}" ] || { mkdir -p "$OUT" && OUT=$(realpath -- "$OUT"); } || exit

cd "$(dirname "$0")/.." || exit
script/setup_rivals.sh || exit
. script/version.sh
elsewhere bench/rivals.sh "${arguments[@]}"
. bench/race.sh
find_pgmq || exit
. script/private_server.sh
. bench/server.sh
. bench/brokers.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/pgq.XXXXXX") || exit
trap 'stop_all; stop_servers "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
out=${OUT:-$work/results}
mkdir -p "$out"

# driver SIDE: sets driver as in race.sh, for all kinds of sides
driver()
{
	case $1 in
		redis_*) driver=("$brokers" "$1" "socket=$work/redis/socket") ;;
		rabbitmq*) driver=("$brokers" "$1" "port=$rabbitmq_port") ;;
		beanstalkd) driver=("$brokers" "$1" "socket=$work/beanstalkd/socket") ;;
		*_node) driver=(node "bench/node/${1%_node}.mjs") ;;
		graphile_worker | pg_boss) driver=("$load" "$work/$1.sql") ;;
		*) driver=("$load" "bench/sides/$1.sql") ;;
	esac
}

# missing SIDE: says why the side cannot take part; fails if it can
missing()
{
	case $1 in
		pgmq) [ -n "$pgmq" ] || echo 'PGMQ_DIR names no directory with its pgmq.sql' ;;
		pgq) command -v pgqd >/dev/null && [ -e "$("$pg_config" --sharedir)/extension/pgq.control" ] ||
			echo 'pgqd, or the extension pgq of this PostgreSQL, is not installed' ;;
		graphile_worker* | pg_boss*) command -v node >/dev/null && [ -d build/node/node_modules/graphile-worker ] ||
			echo 'Node, or its module, is not installed' ;;
		redis_*) [ -x "$brokers" ] && command -v redis-server >/dev/null ||
			echo 'redis-server, or the library of its client, is not installed' ;;
		rabbitmq*) [ -x "$brokers" ] && [ -x $rabbitmq_programs/rabbitmq-server ] ||
			echo 'rabbitmq-server, or the library of its client, is not installed' ;;
		beanstalkd) [ -x "$brokers" ] && command -v beanstalkd >/dev/null || echo 'beanstalkd is not installed' ;;
		*) false ;;
	esac | grep .
}

# choose: sets in_sql and others to the sides that take part, and left_out to the others
choose()
{
	local list side why
	left_out=()
	for list in in_sql others; do
		local -n chosen=$list
		local here=()
		for side in "${chosen[@]}"; do
			if [ -n "${SIDES:-}" ] && [[ " $SIDES " != *" $side "* ]]; then
				continue
			elif why=$(missing "$side"); then
				echo "left out: $side: $why"
				left_out+=("$side ($why)")
			else
				here+=("$side")
			fi
		done
		chosen=("${here[@]}")
	done
}

# among SIDE...: prints those of the sides that take part
among()
{
	local side
	for side in "$@"; do
		[[ " ${in_sql[*]} ${others[*]} " != *" $side "* ]] || echo "$side"
	done
}

takes_part() { [ -n "$(among "$1")" ]; }

# fresh_rivals: starts a new server with all queues that run in PostgreSQL
fresh_rivals()
{
	local side
	fresh_server
	! takes_part pgq || sql -c 'CREATE EXTENSION pgq' || die 'PgQ cannot be installed'
	for side in $(among graphile_worker pg_boss); do
		node bench/node/statements.mjs "$side" >"$work/$side.sql" || die "$side cannot be installed"
	done
}

# stock_of SIDE JOBS FACTOR: prints the number of jobs to begin with; a fast side needs more for the same time
stock_of()
{
	case $1 in
		rabbitmq_prefetch) echo $(($2 * $3 * 2)) ;;
		rows | pgq_ext | ack_claim | redis_* | pgq) echo $(($2 * $3)) ;;
		*) echo "$2" ;;
	esac
}

# race VERBS [FORM]: $side runs the verbs in the form of $case
race()
{
	local queue=${workload}_$side form=${2:-$case} jobs clients=1 batch=1 least
	[ "$side $1" != 'pgq enqueue' ] || queue+=_unclaimed # without ticks they would be one batch
	case $form in
		client*) clients=${form#* } jobs=$(stock_of "$side" $stock $more) ;;
		bulk*) batch=${form#* } jobs=$(stock_of "$side" $bulk_stock $bulk_more) ;;
	esac
	least=$((clients * batch * 2)) # what is left, so that no claim comes back empty
	if [ "$side" = rabbitmq_prefetch ]; then
		least=$((clients * 200))
		jobs=$((jobs + least))
	fi
	case $1 in
		enqueue) turn 0 do=enqueue clients="$clients" batch="$batch" seconds=$seconds ;;
		enqueue,*) turn $stock do="$1" clients="$clients" batch="$batch" seconds=$seconds ;;
		*) turn "$jobs" do="$1" clients="$clients" batch="$batch" seconds=$seconds jobs=$((jobs - least)) ;;
	esac
}

run_enqueue()
{
	for ((round = 1; round <= rounds; round++)); do
		for case in 'client 1' 'client 32' 'bulk 100'; do
			for side in "${in_sql[@]}" "${others[@]}"; do
				race enqueue
			done
		done
	done
}

# verbs STEPS: prints the steps by the names that $side has for them
verbs()
{
	case $side in
		ack_claim) echo "${1/claim,ack/ack_claim}" ;;
		*) echo "$1" ;;
	esac
}

run_claim()
{
	local also=()
	! takes_part pgq_ext || also=(ack_claim)
	! takes_part rabbitmq || also+=(rabbitmq_prefetch)
	for ((round = 1; round <= rounds; round++)); do
		for case in 'client 1' 'client 32' 'bulk 100'; do
			for side in "${in_sql[@]}" "${also[@]}" "${others[@]}"; do
				case "$side $case" in
					pgq\ client* | rabbitmq_prefetch\ bulk*) continue ;; # PgQ has batches only
				esac
				race "$(verbs claim,ack)"
			done
		done
	done
}

run_life()
{
	local also=()
	! takes_part pgq_ext || also=(ack_claim)
	for ((round = 1; round <= rounds; round++)); do
		for case in 'client 1' 'client 32' 'bulk 100'; do
			for side in "${in_sql[@]}" "${also[@]}" "${others[@]}"; do
				case "$side $case" in
					pgq\ * | graphile_worker_node\ bulk*) continue ;; # batches come when their ticker wants it
				esac
				race "$(verbs enqueue,claim,ack)"
			done
		done
	done
}

# wait_for_jobs: measures how soon $side hands out jobs that come at the rate of $case
wait_for_jobs()
{
	local queue=waiting_$side clients=16
	[ "$side" != pgq ] || clients=1 # a consumer
	turn 0 do=wait rate="$case" clients=$clients producers=8 seconds=$latency_seconds poll_ms=20
	# End calls that poll inside the server: they do not notice that their client is gone, and would take a job of the
	# next turn.
	sql -c "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
		WHERE query LIKE '%read_with_poll%' AND pid <> pg_backend_pid()" >/dev/null || die 'they poll on'
}

run_latency()
{
	! takes_part pgq || start_pgqd
	for ((round = 1; round <= rounds; round++)); do
		for case in "${rates[@]}"; do
			for side in $(among pgq_ext pgmq pgq "${others[@]}"); do
				wait_for_jobs
			done
		done
	done
	stop_pgqd
}

# age_beside_snapshot: lets jobs of all sides come and go while a snapshot is held, so that VACUUM cannot clean up
age_beside_snapshot()
{
	local case=age queue
	for side in "${in_sql[@]}"; do
		queue=${workload}_$side
		if [ "$side" = pgq ]; then
			turn $aged_jobs do=claim,ack batch=100 jobs=$((aged_jobs - 100))
		else
			turn $stock do=enqueue,claim,ack clients=4 batch=100 jobs=$aged_jobs
		fi
	done
}

run_held()
{
	local holder round=1
	psql -Xqc 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT count(*) FROM pg_class' -c 'SELECT pg_sleep(3600)' >/dev/null 2>&1 &
	holder=$!
	sleep $age
	age_beside_snapshot
	for ((round = 1; round <= rounds; round++)); do
		for case in enqueue bulk claim life; do
			for side in "${in_sql[@]}"; do
				case "$side $case" in
					*\ enqueue) race enqueue 'client 32' ;;
					*\ bulk) race claim,ack 'bulk 100' ;;
					pgq\ *) ;;
					*\ claim) race claim,ack 'client 32' ;;
					*\ life) race enqueue,claim,ack 'client 32' ;;
				esac
			done
		done
	done
	! takes_part pgq || start_pgqd
	for ((round = 1; round <= rounds; round++)); do
		for side in $(among pgq_ext pgmq pgq); do
			case=${rates[-1]} wait_for_jobs
		done
	done
	stop_pgqd
	kill $holder
	wait $holder 2>/dev/null
}

echo "Building, then ${#workloads[@]} workloads: ${workloads[*]}"
build
brokers=$PWD/build/bench/brokers
choose
start_brokers
{
	machine
	brokers_and_libraries
	[ ${#left_out[@]} -eq 0 ] || printf 'left out\t%s\n' "$(printf '%s; ' "${left_out[@]}" | sed 's/; $//')"
} >"$out/machine.txt"
for number in "${!workloads[@]}"; do
	workload=${workloads[number]}
	: >"$out/$workload.tsv"
	queued=()
	fresh_rivals
	"run_$workload"
	count_jobs
done
bench/rivals.pl "$out" || exit
if $all && [ "$form" = rivals ]; then
	bench/rivals.pl "$out" docs || exit
fi
printf '%d:%02d minutes\n' $((SECONDS / 60)) $((SECONDS % 60))
