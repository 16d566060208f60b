#!/bin/bash
# Compares the speed of pgq_ext with other queues in PostgreSQL, on throw-away servers.
#
#   bench/run.sh short [WORKLOAD...]    under 3 minutes: pgq_ext and the SKIP LOCKED table, the figures to watch every day
#   bench/run.sh full [WORKLOAD...]     70 to 150 minutes, depending on the machine: everything; writes docs/benchmarks.md when
#                                       no workload is named
#   bench/run.sh tiny [WORKLOAD...]     about a minute, to see whether it works; its figures mean nothing
#   bench/run.sh FORM libraries         the libraries for workers, in no form unless it is named: needs their packages, and npm
#   bench/run.sh rivals|rivals-tiny     runs bench/rivals.sh, which compares with more queues, in PostgreSQL and elsewhere
#
#   OUT=DIR        keep the results in DIR, a file for each workload; a workload that is run again replaces its file.
#                  bench/report.pl DIR prints the tables, bench/report.pl DIR docs writes docs/benchmarks.md, and
#                  bench/report.pl DIR docs WORKLOAD... replaces only the sections of these workloads there
#   PGMQ_DIR=DIR   let pgmq take part, whose pgmq.sql is somewhere below DIR; the workload pgmq, which only runs if it is named,
#                  compares the extension pgmq of this project with it
#
# The sides (bench/sides/*.sql) take turns in each round, with the same client (bench/load); the medians of the rounds
# count. Before its turn a side gets more jobs than it can work off, the tables are vacuumed, and the server makes a
# checkpoint. If a claim returns no job, the benchmark ends with an error.
set -uo pipefail

usage()
{
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

case ${1:-} in rivals*) exec "$(dirname "$0")/rivals.sh" "$@" ;; esac
arguments=("$@")
form=${1:-short}
sides=(pgq_ext table advisory)
also=(ack_claim at_once delivered returning ceiling) # where claim and ack count
rounds=3
case $form in
	full)
		workloads=(enqueue claim batch work held backlog scale latency wal life records limits groups order rotation locks schedules handlers scrape members fan_in chain open topics)
		seconds=4 warm_up=1 stock=300000 bulk_stock=2000000
		enqueuers=(1 32) bulks=(10 100 1000) clients=(1 8 32 100 200) batches=(10 100 500)
		workers=(10 50 100 200) work_stock=1100000
		held_seconds=60 held_stock=2000000
		backlogs=(10000 1000000 10000000) backlog_rounds=7 few=20000
		scale_jobs=20000
		scales=("queues "{1,100,10000} "waiters "{16,1000} "priorities "{1,10000} "leases "{0,100000})
		rates=(100 1000) latency_seconds=10
		wal_jobs=10000 life_clients=(1 32) records=("client 32" "bulk 500") tenant_jobs=1000000 group_jobs=1000000 order_jobs=5000000
		rotation_jobs=2000000 rotation_backlog=1000000 rotation_size=64MB rotation_rates=(400 1000) rotation_seconds=60
		lockers=(1 8 32) takeovers=200 idle_seconds=60
		handler_workers=(1 2 4 8) handled_jobs=200000 bulk_handled=1000000 noted_jobs=2000
		scraped_jobs=10000000 scrapes=50
		member_stock=150000 member_seconds=3 ready_children=20000 small_batches=20 large_batch=1000000 chain_jobs=1000
		open_batches=100000 open_rounds=2 open_seconds=60
		library_cases=("noop "{1,10,100} "update "{1,10}) library_stock=100000 ;;
	short)
		workloads=(enqueue claim batch latency wal)
		sides=(pgq_ext table) also=(ack_claim delivered returning ceiling)
		seconds=1.5 warm_up=0.5 stock=60000 bulk_stock=600000
		enqueuers=(32) bulks=(1000) clients=(32 200) batches=(500)
		workers=(200) work_stock=100000
		held_seconds=20 held_stock=600000
		backlogs=(10000 1000000) backlog_rounds=5 few=10000
		scale_jobs=20000
		scales=("queues "{1,1000} "waiters "{16,1000} "priorities "{1,10000} "leases "{0,100000})
		rates=(1000) latency_seconds=3
		wal_jobs=3000 life_clients=(32) records=("client 32" "bulk 500") tenant_jobs=100000 group_jobs=100000 order_jobs=200000
		rotation_jobs=400000 rotation_backlog=100000 rotation_size=8MB rotation_rates=(400 1000) rotation_seconds=20
		lockers=(1 8 32) takeovers=200 idle_seconds=20
		handler_workers=(1 4) handled_jobs=40000 bulk_handled=400000 noted_jobs=500
		scraped_jobs=1000000 scrapes=50
		member_stock=60000 member_seconds=1.5 ready_children=5000 small_batches=10 large_batch=100000 chain_jobs=300
		open_batches=10000 open_rounds=2 open_seconds=20
		library_cases=("noop "{1,10,100} "update "{1,10}) library_stock=50000 ;;
	tiny)
		workloads=(enqueue claim batch work held backlog scale latency wal life records limits groups order rotation locks schedules handlers scrape members fan_in chain open topics)
		rounds=1
		seconds=0.3 warm_up=0.1 stock=10000 bulk_stock=50000
		enqueuers=(1 32) bulks=(1000) clients=(1 32) batches=(10 500)
		workers=(10 50) work_stock=10000
		held_seconds=3 held_stock=50000
		backlogs=(1000 20000) backlog_rounds=1 few=1000
		scale_jobs=1000
		scales=("queues "{1,100} "waiters "{16,100} "priorities "{1,100} "leases "{0,1000})
		rates=(100 1000) latency_seconds=0.5
		wal_jobs=1000 life_clients=(1 32) records=("client 32" "bulk 500") tenant_jobs=20000 group_jobs=10000 order_jobs=30000
		rotation_jobs=20000 rotation_backlog=10000 rotation_size=1MB rotation_rates=(400) rotation_seconds=3
		lockers=(1 8) takeovers=20 idle_seconds=2
		handler_workers=(1) handled_jobs=2000 bulk_handled=10000 noted_jobs=20
		scraped_jobs=10000 scrapes=3
		member_stock=10000 member_seconds=0.3 ready_children=500 small_batches=2 large_batch=3000 chain_jobs=20
		open_batches=500 open_rounds=1 open_seconds=2
		library_cases=("noop 10" "update 10" "noop 1") library_stock=3000 ;;
	*) usage ;;
esac
shift
all=true
if [ $# -gt 0 ]; then
	all=false
	for workload in "$@"; do
		[[ " enqueue claim batch work held backlog scale latency wal life records limits groups order rotation locks schedules handlers scrape members fan_in chain open topics pgmq libraries " == *" $workload "* ]] || usage
	done
	workloads=("$@")
fi
[ -z "${PGMQ_DIR:-}" ] || PGMQ_DIR=$(realpath -- "$PGMQ_DIR")
[ -z "${OUT:-}" ] || { mkdir -p "$OUT" && OUT=$(realpath -- "$OUT"); } || exit

cd "$(dirname "$0")/.." || exit
script/setup.sh gnuplot-nox || exit
. script/version.sh
elsewhere bench/run.sh "${arguments[@]}"
. bench/race.sh
. bench/batches.sh
. bench/topics.sh
. bench/pgmq.sh
. bench/libraries.sh
find_pgmq || exit
. script/private_server.sh
. bench/server.sh
[ -z "$pgmq" ] || sides+=(pgmq)

work=$(mktemp -d "${TMPDIR:-/tmp}/pgq.XXXXXX") || exit
trap 'stop_servers "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
out=${OUT:-$work/results}
mkdir -p "$out"

run_enqueue()
{
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in "${enqueuers[@]/#/client }" "${bulks[@]/#/bulk }"; do
			for side in "${sides[@]}" ceiling; do
				case $case in
					client*) turn 0 do=enqueue clients="${case#* }" seconds=$seconds ;;
					bulk*) turn 0 do=enqueue clients=1 batch="${case#* }" seconds=$seconds ;;
				esac
			done
		done
	done
}

run_claim()
{
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in "${clients[@]}"; do
			for side in "${sides[@]}" "${also[@]}"; do
				verbs=claim,ack
				case $side in
					ack_claim) verbs=ack_claim ;;
					returning) verbs=claim ;;
				esac
				turn $stock do=$verbs clients="$case" seconds=$seconds jobs=$((stock - case))
			done
		done
	done
}

run_batch()
{
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in "${batches[@]}"; do
			for side in "${sides[@]}" ack_claim delivered returning ceiling; do
				verbs=claim,ack
				case $side in
					ack_claim) verbs=ack_claim ;;
					returning) verbs=claim ;;
				esac
				turn $bulk_stock do=$verbs clients=1 batch="$case" seconds=$seconds jobs=$((bulk_stock - case))
			done
		done
	done
}

run_work()
{
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in "${workers[@]}"; do
			for side in "${sides[@]}" ceiling; do
				turn $work_stock do=claim,ack clients="$case" seconds=$seconds work_ms=20 jobs=$((work_stock - case))
			done
		done
	done
}

run_held()
{
	fresh_server
	case=32
	for ((round = 1; round <= rounds; round++)); do
		for side in "${sides[@]}"; do
			turn $held_stock do=claim,ack clients=$case seconds=$held_seconds hold=1 series=1 jobs=$((held_stock - case))
		done
	done
}

run_backlog()
{
	local queue rounds=$backlog_rounds
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in "${backlogs[@]}"; do
			for side in "${sides[@]}"; do
				queue=${side}_$case
				turn $((case + few)) do=claim,ack clients=16 seconds=$seconds jobs=$few
			done
		done
	done
}

# stage QUEUE WHAT N: makes the queue, with N of those things (queues, priorities, leases)
stage()
{
	local jobs=$((scale_jobs + 16))
	prepare $side "$1" 0
	case $2 in
		queues)
			sql -c "SELECT count(pgq_create_queue('other_' || n)) FROM generate_series(2, $3) n" \
				-c "SELECT count(pgq_enqueue('other_' || n, '{}')) FROM generate_series(2, $3) n" ;;
		priorities)
			sql -c "SELECT count(pgq_enqueue('$1', '{}', priority => i % $3)) FROM generate_series(1, $jobs) i" &&
				queued[$1]=$jobs ;;
		leases)
			sql -c "SELECT count(pgq_enqueue('$1', '{}')) FROM generate_series(1, $3)" \
				-c "SELECT count(*) FROM generate_series(1, $3 / 1000), pgq_claim('$1', 1000 + 0 * generate_series, lease_time => '1 day')" &&
				queued[$1]=$3 ;;
	esac >/dev/null || die "cannot stage $2 $3"
}

# pgq_ext alone: how does the cost of a job grow with the number of queues, priorities or leases?
run_scale()
{
	local side=pgq_ext queue=scale case
	for ((round = 1; round <= rounds; round++)); do
		for case in "${scales[@]}"; do
			fresh_server 'pgq_ext.max_queues = 10100' 'pgq_ext.window_size = 256' 'pgq_ext.timer_size = 128' \
				'pgq_ext.max_leases = 120000' 'max_connections = 1100'
			queued=()
			# shellcheck disable=SC2086
			stage $queue $case
			case $case in
				waiters*) turn 0 do=wait rate=1000 clients="${case#* }" producers=8 seconds=$latency_seconds ;;
				*) turn $((queued[$queue] + scale_jobs + 16)) do=claim,ack clients=16 seconds=$seconds jobs=$scale_jobs ;;
			esac
			count_jobs
		done
	done
}

run_latency()
{
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in "${rates[@]}"; do
			for side in pgq_ext listen; do
				turn 0 do=wait rate="$case" clients=16 producers=8 seconds=$latency_seconds
			done
		done
	done
}

# written: prints what the server has written so far: bytes of WAL, transaction ids, dead rows. A session reports its
# share when it ends.
written()
{
	local others="SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
	while [ "$(sql -c "$others")" != 0 ]; do sleep 0.05; done
	sql -c "SELECT pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot()),
		(SELECT sum(n_tup_upd + n_tup_del) FROM pg_stat_user_tables)"
}

# for_each_job STEP BEFORE AFTER: records the cost of the step for one job
for_each_job()
{
	local metrics=(wal commits dead) before after n
	read -ra before <<<"$2"
	read -ra after <<<"$3"
	for n in 0 1 2; do
		record "${metrics[n]}_$1" "$(awk "BEGIN { print (${after[n]} - ${before[n]}) / $(measured 'done') }")"
	done
}

# run_wal: WAL of the two halves of a job's life, each measured alone. No other session may write WAL during that.
run_wal()
{
	local step before after
	fresh_server 'full_page_writes = off' 'autovacuum = off'
	for ((round = 1; round <= rounds; round++)); do
		for case in 1 100; do
			for side in "${sides[@]}"; do
				show
				prepare "$side" "$side" 0
				for step in enqueue claim,ack; do
					before=$(written) || die 'no figures'
					run_load "$side" do=$step clients=4 batch="$case" jobs=$wal_jobs
					after=$(written) || die 'no figures'
					for_each_job "${step/claim,ack/finish}" "$before" "$after"
				done
				echo
			done
		done
	done
}

run_life()
{
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in "${life_clients[@]}"; do
			for side in "${sides[@]}"; do
				turn 10000 do=enqueue,claim,ack clients="$case" seconds=$seconds
			done
		done
	done
}

# pgq_ext alone: what do records of attempts and finished jobs cost? Then the WAL of that, with no other session.
run_records()
{
	local side jobs before after arguments
	fresh_server 'full_page_writes = off' 'autovacuum = off'
	for ((round = 1; round <= rounds; round++)); do
		for case in "${records[@]}"; do
			case $case in
				client*) jobs=$stock arguments="clients=${case#* }" ;;
				bulk*) jobs=$bulk_stock arguments="clients=1 batch=${case#* }" ;;
			esac
			for side in pgq_ext recorded; do
				# shellcheck disable=SC2086
				turn "$jobs" do=claim,ack $arguments seconds=$seconds jobs=$((jobs - 500))
				prepare "$side" "$side" $wal_jobs
				before=$(written) || die 'no figures'
				# shellcheck disable=SC2086
				run_load "$side" do=claim,ack $arguments jobs=$((wal_jobs - 500))
				after=$(written) || die 'no figures'
				queued[$side]=$((queued[$side] - $(measured 'done')))
				for_each_job finish "$before" "$after"
			done
		done
	done
}

# pgq_ext alone: what do these cost: limits that are never reached, groups that are passed over, order, turns, and
# unique keys? And how long do tenants with ten jobs each wait beside a tenant with very many jobs?
run_limits()
{
	local side
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in 32 200; do
			for side in pgq_ext limited grouped fifo fair; do
				turn $stock do=claim,ack clients=$case seconds=$seconds jobs=$((stock - case))
			done
		done
	done
	tenants
	count_jobs
	fresh_server
	queued=()
	for ((round = 1; round <= rounds; round++)); do
		case=enqueue
		for side in pgq_ext keyed; do
			turn 0 do=enqueue clients=32 seconds=$seconds
		done
	done
}

tenants()
{
	local round=1 rounds=1 side=fair case=tenants
	show
	sql -c "SELECT pgq_create_queue('tenants', fair => true)" >/dev/null || die 'no queue'
	sql -c "SELECT count(pgq_enqueue('tenants', to_jsonb(i), group_key => 'big')) FROM generate_series(1, $tenant_jobs) i" \
		-c "SELECT count(pgq_enqueue('tenants', to_jsonb(i), group_key => 'tenant ' || i % 10)) FROM generate_series(1, 100) i" >/dev/null || die 'cannot fill'
	record hand_outs "$(sql -f bench/fair.sql)"
	echo " $(tail -n 1 "$out/$workload.tsv" | cut -f 5) hand-outs"
}

# pgq_ext alone: how long do a claim and an ack take with each rule for groups, in queues of $group_jobs jobs of few or many groups? A
# single consumer takes one job at a time. In the case "busy", all jobs but a hundredth are of one group, come first, and have to wait
# where the rule limits jobs in work, since a job of that group is in work.
run_groups()
{
	local side jobs=$((group_jobs / 100)) options group claim whole measured=$((group_jobs / 200))
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in busy ones tens mixed; do
			case $case in
				busy) group="CASE WHEN i <= $group_jobs - $jobs THEN 'busy' ELSE 'g' || i % ($jobs / 2) END" ;;
				ones) group="'g' || i" ;;
				tens) group="'g' || i % ($group_jobs / 10)" ;;
				mixed) group="CASE WHEN i % 2 = 0 THEN 'hot' || i % 20 ELSE 'cold' || i % 5000 END" ;;
			esac
			for side in none group_concurrency fifo fair fair_fifo group_rate_limit; do
				case $side in
					none) options='' ;;
					group_concurrency) options='group_concurrency => 1' ;;
					fifo) options='fifo => true' ;;
					fair) options='fair => true' ;;
					fair_fifo) options='fair => true, fifo => true' ;;
					group_rate_limit) options='group_rate_limit => 1000000' ;;
				esac
				show
				sql -c "SELECT pgq_create_queue('groups'${options:+, $options})" \
					-c "SELECT count(pgq_enqueue('groups', '{}', group_key => $group)) FROM generate_series(1, $group_jobs) i" \
					-c VACUUM -c CHECKPOINT >/dev/null || die 'cannot fill'
				if [[ $case = busy && $side =~ group_concurrency|fifo ]]; then
					sql -c "SELECT count(*) FROM pgq_claim('groups')" >/dev/null || die 'cannot claim'
				fi
				read -r claim whole < <(sql -v jobs="$measured" -f bench/groups.sql)
				record claim "$claim"
				record whole "$whole"
				echo " $claim microseconds for a claim, $whole with ack and commit"
				sql -c "SELECT pgq_drop_queue('groups', force => true)" >/dev/null || die 'cannot drop'
			done
		done
	done
}

# pgq_ext alone: jobs of five priorities, with times of the last hour, go through a window of 10,000.
run_order()
{
	local round=1 rounds=1 side=pgq_ext case=$order_jobs answer taken violations i
	memory()
	{
		record "memory_$1" "$(sql -c "SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name LIKE 'pgq_ext%'")"
	}
	fresh_server 'pgq_ext.window_size = 10000'
	show
	sql -c "SELECT pgq_create_queue('order')" >/dev/null || die 'no queue'
	memory before
	for ((i = 0; i < 10; i++)); do
		sql -c "SELECT count(pgq_enqueue('order', to_jsonb(i), i * 7 % 5, run_at => now() - i % 3600 * 7919 % 3600 * interval '1 s'))
			FROM generate_series(1, $order_jobs / 10) i" >/dev/null || die 'cannot fill'
		printf .
	done
	memory filled
	answer=$(sql -f bench/order.sql) || die 'cannot claim'
	read -r taken violations <<<"$answer"
	memory after
	record jobs "$taken"
	record violations "$violations"
	record left "$(sql -c 'SELECT count(*) FROM pgq_ext.job')"
	record faults "$(sql -c 'SELECT count(*) FROM pgq_check()' 2>/dev/null)"
	echo " $taken jobs, $violations out of order"
}

# size: prints the bytes of everything that belongs to the jobs
size()
{
	sql -c "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'pgq_ext.job'::regclass"
}

# short_queue: many jobs are enqueued and finished, while other jobs wait
short_queue()
{
	local sampler
	show
	while size; do sleep 0.2; done >"$work/sizes" 2>/dev/null &
	sampler=$!
	run_load "$side" do=enqueue,claim,ack clients=16 batch=100 jobs=$rotation_jobs
	kill $sampler
	wait $sampler 2>/dev/null
	record peak "$(sort -n "$work/sizes" | tail -n 1)"
	record rate "$(measured rate)"
	record truncations "$(sql -c 'SELECT sum(truncations) FROM pgq_ext.segment_entries()')"
	printf ' %9d/s\n' "$(measured rate)"
}

# hold_snapshot: holds a snapshot in the process $holder, and waits until it is old
hold_snapshot()
{
	psql -Xqc 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT pg_sleep(3600)' >/dev/null 2>&1 &
	holder=$!
	sleep 11 # a younger one could be a dump that has not locked its tables yet
}

let_snapshot_go()
{
	[ -z "$holder" ] || { kill "$holder"; wait "$holder" 2>/dev/null; }
	holder=''
}

# in_segments EXPRESSION: prints the expression over pg_stat_all_tables, for all segments of jobs and their TOAST
# tables
in_segments()
{
	sql -c "SELECT $1 FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_stat_all_tables s ON s.relid IN (c.oid, c.reltoastrelid)
		WHERE inhparent = 'pgq_ext.job'::regclass"
}

# slow_queue RATE: jobs come at that rate, and are done at once
slow_queue()
{
	local written="SELECT pg_current_wal_insert_lsn() - '0/0', pg_relation_size('pg_class')"
	local sampler jobs before after catalog catalog_after
	show
	read -r before catalog <<<"$(sql -c "$written")"
	while in_segments 'sum(n_dead_tup)'; do sleep 0.2; done >"$work/dead" 2>/dev/null &
	sampler=$!
	run_load "$side" do=wait rate="$1" clients=16 producers=8 seconds=$rotation_seconds
	kill $sampler
	wait $sampler 2>/dev/null
	read -r after catalog_after <<<"$(sql -c "$written")"
	jobs=$(in_segments 'sum(n_tup_del)')
	record jobs "$jobs"
	record dead "$(sort -n "$work/dead" | tail -n 1)"
	record truncations "$(sql -c 'SELECT sum(truncations) FROM pgq_ext.segment_entries()')"
	record wal $(((after - before) / jobs))
	record visits "$(in_segments 'sum(autovacuum_count + autoanalyze_count)')"
	record catalog $((catalog_after - catalog))
	record p99 "$(measured send_p99)"
	printf ' %9d dead rows\n' "$(sort -n "$work/dead" | tail -n 1)"
}

# pgq_ext alone: how much room do finished jobs take, with and without rotation? How many dead rows does a small load
# leave?
run_rotation()
{
	local side=pgq_ext case setting holder='' rate
	round=1
	for rate in "${rotation_rates[@]}"; do
		for case in "$rate" "$rate held" "$rate by size"; do
			[[ $case != *size ]] && setting=500 || setting=0
			fresh_server "pgq_ext.segment_dead_rows = $setting"
			queued=()
			prepare $side $side 0
			[ "$case" = "$rate" ] || hold_snapshot
			slow_queue "$rate"
			let_snapshot_go
			count_jobs
		done
	done
	for ((round = 1; round <= rounds; round++)); do
		for case in snapshot off backlog; do
			setting=$rotation_size
			[ "$case" != off ] || setting=1TB
			fresh_server "pgq_ext.segment_size = $setting"
			queued=()
			if [ "$case" = backlog ]; then
				prepare $side other $rotation_backlog
				record live "$(size)"
			fi
			prepare $side $side 10000
			[ "$case" = backlog ] || hold_snapshot
			short_queue
			let_snapshot_go
			count_jobs
		done
	done
}

# Session-bound locks against the server's advisory locks: the rate of taking and giving back, and how soon another
# process gets the lock of a process that was killed.
run_locks()
{
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		for case in "${lockers[@]}"; do
			for side in session_lock advisory_lock; do
				piece do=claim,ack clients="$case" seconds=$seconds warm_up=$warm_up
				printf ' %9d/s\n' "$(measured rate)"
			done
		done
		for case in 'takeover 0' 'takeover 64'; do
			for side in session_lock advisory_lock; do
				piece do=takeover rounds=$takeovers clients="${case#* }"
				printf ' %9.2f ms\n' "$(measured takeover_p99)"
			done
		done
	done
}

# wake_ups: prints the number of wake-ups of the scheduler so far
wake_ups()
{
	awk '/^voluntary_ctxt_switches/ { print $2 }' "/proc/$(sql -c "SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'pgq_ext scheduler' AND datname = current_database()")/status"
}

# pgq_ext alone: how often does the scheduler wake up while nothing happens, with and without schedules that are not
# due?
run_schedules()
{
	local side=pgq_ext case before
	fresh_server
	sql -c "SELECT pgq_create_queue('idle')" >/dev/null || die 'no queue'
	for ((round = 1; round <= rounds; round++)); do
		for case in 0 1000; do
			show
			sql -c 'SELECT count(pgq_unschedule(schedule)) FROM pgq_ext.schedule' \
				-c "SELECT count(pgq_schedule('idle-' || n, '@yearly', 'idle')) FROM generate_series(1, $case) n" >/dev/null ||
				die 'no schedules'
			sleep 5 # what follows from that
			before=$(wake_ups) || die 'no scheduler'
			sleep $idle_seconds
			record wake_ups $(($(wake_ups) - before))
			echo " $(tail -n 1 "$out/$workload.tsv" | cut -f 5) wake-ups"
		done
	done
	record seconds $idle_seconds
}

# queries: prints the queries of the exporter and of pgq-top, each after its name
queries()
{
	awk '/^pgq_/ { name = substr($1, 5, length($1) - 5) }
		/^  metrics:/ { print "\\echo view " name "\n" query ";"; query = "" }
		query != "" || /SELECT/ { query = query $0 }' monitoring/queries.yml
	printf '\\echo view %s\n%s;\n' queue 'SELECT queue FROM pgq_ext.queue' \
		lease 'SELECT * FROM pgq_ext.lease ORDER BY job_id LIMIT 1001' \
		dead_job 'SELECT job_id, died_at, last_error FROM pgq_ext.dead_job ORDER BY died_at DESC LIMIT 501'
}

# handle FUNCTION WORKERS BATCH JOBS: lets the handler run all jobs of the queue, which has that many. Records the rate.
handle()
{
	local begin end
	show
	prepare handler handler "$4"
	begin=$(date +%s%N)
	sql -c "SELECT pgq_set_handler('handler', '$1', workers => $2, batch => $3, run_as => 'worker_handler')" >/dev/null || die 'no handler'
	until [ "$(sql -c "SELECT ready + leased FROM pgq_ext.queue_status WHERE queue = 'handler'")" = 0 ]; do sleep 0.1; done
	end=$(date +%s%N)
	sql -c "SELECT pgq_drop_handler('handler')" >/dev/null || die 'no handler'
	queued[handler]=0
	record rate $(($4 * 1000000000 / (end - begin)))
	printf ' %9d/s\n' "$(tail -n 1 "$out/$workload.tsv" | cut -f 5)"
}

# Workers that call a handler, and as many clients that claim, do the same work and acknowledge: with commits that wait for the disk,
# and with commits that do not.
run_handlers()
{
	local side case level
	fresh_server 'pgq_ext.max_handler_workers = 8' 'max_worker_processes = 16'
	for ((round = 1; round <= rounds; round++)); do
		for level in on off; do
			sql -c "ALTER SYSTEM SET synchronous_commit = $level" -c 'SELECT pg_reload_conf()' >/dev/null || die 'no setting'
			for case in "${handler_workers[@]/%/ $level}"; do
				side=working
				turn "$handled_jobs" do=claim,ack clients="${case% *}" seconds=$seconds jobs=$((handled_jobs - ${case% *}))
				side=handler
				handle 'handle_handler(pgq_ext.claimed_job)' "${case% *}" 1 "$handled_jobs"
			done
		done
		sql -c 'ALTER SYSTEM RESET synchronous_commit' -c 'SELECT pg_reload_conf()' >/dev/null || die 'no setting'
		case='bulk 500'
		side=ceiling
		turn "$bulk_handled" do=claim,ack clients=1 batch=500 seconds=$seconds jobs=$((bulk_handled - 500))
		side=handler
		handle 'handle_all_handler(pgq_ext.claimed_job[])' 1 500 "$bulk_handled"
		case=latency
		show
		sql -c 'TRUNCATE done_handler' \
			-c "SELECT pgq_set_handler('handler', 'note_handler(pgq_ext.claimed_job)', run_as => 'worker_handler')" >/dev/null || die 'no handler'
		for ((i = 0; i < noted_jobs; i++)); do
			echo "SELECT pgq_enqueue('handler', to_jsonb(clock_timestamp())); SELECT pg_sleep(0.005);"
		done | sql >/dev/null || die 'no jobs'
		until [ "$(sql -c "SELECT count(*) FROM done_handler")" = "$noted_jobs" ]; do sleep 0.01; done
		record p50 "$(sql -c "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM at - (sent #>> '{}')::timestamptz) * 1000) FROM done_handler")"
		echo " $(tail -n 1 "$out/$workload.tsv" | cut -f 5) ms"
		sql -c "SELECT pgq_drop_handler('handler')" >/dev/null || die 'no handler'
	done
}

# pgq_ext alone: how many milliseconds does each monitored view take? There are 100 queues with jobs of three
# priorities; a fifth of the jobs are delayed, and each queue has one in work and one dead letter.
run_scrape()
{
	local side=pgq_ext case=$scraped_jobs round=1 rounds=1 words
	fresh_server
	show
	sql -f monitoring/role.sql -c 'GRANT SELECT ON pgq_ext.lease, pgq_ext.dead_job TO prometheus' \
		-c 'GRANT EXECUTE ON FUNCTION pgq_ext.lease_entries TO prometheus' \
		-c "SELECT pgq_create_queue('scraped_' || i) FROM generate_series(1, 100) i" >/dev/null || die 'no queues'
	sql -c "DO \$\$ BEGIN
			FOR part IN 1 .. 10 LOOP FOR q IN 1 .. 100 LOOP
				PERFORM pgq_enqueue('scraped_' || q, to_jsonb(i), i % 3, delay => CASE WHEN i % 5 = 0 THEN interval '1 min' * i END)
				FROM generate_series(1, $scraped_jobs / 1000) i;
				COMMIT;
			END LOOP; END LOOP; END \$\$" \
		-c "SELECT pgq_fail(job_id, lease, 'no', retry => false) FROM generate_series(1, 100) q, pgq_claim('scraped_' || q)" \
		-c "SELECT count(*) FROM generate_series(1, 100) q, pgq_claim('scraped_' || q)" >/dev/null || die 'cannot fill'
	sql -c 'VACUUM ANALYZE pgq_ext.job' -c CHECKPOINT || die 'cannot vacuum'
	{
		echo '\timing on'
		for ((round = 0; round <= scrapes; round++)); do queries; done
	} >"$work/scrape.sql"
	PGUSER=prometheus sql -f "$work/scrape.sql" >"$work/scraped" || die 'cannot scrape'
	round=0
	while read -ra words; do
		case ${words[0]:-} in
			view) side=pgq_ext view=${words[1]} ;;
			Time:) [ "$round" -eq 0 ] || record "$view" "${words[1]}" ;;
		esac
		[ "${words[*]:0:2}" != 'view dead_job' ] || round=$((round + 1))
	done <"$work/scraped"
	echo
}

echo "Building, then ${#workloads[@]} workloads: ${workloads[*]}"
build
machine >"$out/machine.txt"
$all || printf 'workloads\t%s\n' "$*" >>"$out/machine.txt"
for number in "${!workloads[@]}"; do
	workload=${workloads[number]}
	: >"$out/$workload.tsv"
	queued=()
	"run_$workload"
	count_jobs
done
bench/report.pl "$out" || exit
if $all && [ "$form" = full ]; then
	bench/report.pl "$out" docs || exit
fi
printf '%d:%02d minutes\n' $((SECONDS / 60)) $((SECONDS % 60))
