# shellcheck shell=bash
# Sourced by run.sh: the workloads for batches and dependencies. pgq_ext takes part with several sides:
#
#   pgq_ext    plain jobs
#   member     members of a batch
#   child      jobs after another job, which is acknowledged
#   asked      plain jobs in a database with children, where each ack asks whether the job has children
#   counted    the SKIP LOCKED table with a row for each batch; each ack counts down in this row

database+=([child]=children [asked]=children)
statements[asked]=pgq_ext

# What does a job cost as a member or a child? In the cases "client" and "bulk" each client enqueues, claims and acknowledges. In the case
# "finish" the jobs are there before, and those of the side member belong to closed batches. In the case "ready" the scheduler makes
# children ready, and nothing else happens.
run_members()
{
	local side waiting
	fresh_server
	sql -c 'CREATE DATABASE children' || die 'no database'
	PGDATABASE=children sql -c 'CREATE EXTENSION pgq_ext' || die 'the extension cannot be created'
	prepare child child 0 # from here on, the database has children
	for ((round = 1; round <= rounds; round++)); do
		case='client 32'
		for side in pgq_ext asked member child counted; do
			# Children must not come from a stock, or their rate would not be the one at which they become ready.
			[ $side = child ] && waiting=32 || waiting=10000
			turn $waiting do=enqueue,claim,ack clients=32 seconds=$member_seconds
		done
		case='bulk 500'
		for side in pgq_ext asked member counted; do
			turn 10000 do=enqueue,claim,ack clients=1 batch=500 seconds=$member_seconds
		done
		case='finish 32'
		for side in pgq_ext asked member counted; do
			turn "$member_stock" do=claim,ack clients=32 seconds=$member_seconds jobs=$((member_stock - 32))
		done
		case=ready
		make_ready
	done
}

# make_ready: records how many children the scheduler makes ready in a second
make_ready()
{
	local side=child begin end
	show
	(
		PGDATABASE=children
		sql -c "SELECT pgq_create_queue('ready')" \
			-c "SELECT count(pgq_enqueue('ready', '{}', after => ARRAY[(SELECT min(parent_id) FROM pgq_ext.job_dependency)]))
				FROM generate_series(1, $ready_children)" >/dev/null || exit
		begin=$(date +%s%N)
		sql -c 'DO $$ BEGIN
			WHILE EXISTS (SELECT FROM pgq_ext.job WHERE blocked IS NOT NULL) LOOP PERFORM pg_sleep(0.005); END LOOP; END $$' || exit
		end=$(date +%s%N)
		sql -c "SELECT pgq_drop_queue('ready', force => true)" >/dev/null || exit
		record rate $((ready_children * 1000000000 / (end - begin)))
	) || die 'children do not become ready'
	printf ' %9d/s\n' "$(tail -n 1 "$out/$workload.tsv" | cut -f 5)"
}

# pgq_ext alone: how soon does a job come up that waits for many others? These are the members of a batch whose callback it is (side
# fire), or its parents (side fan_in). The side drained has plain jobs, and no job after them.
run_fan_in()
{
	local side
	fresh_server
	for ((round = 1; round <= rounds; round++)); do
		case=1000
		for side in drained fire fan_in; do
			prepare $side $side 0
			piece do=fire clients=8 jobs=1000 rounds="$small_batches"
			tell_fire
		done
		for case in "$large_batch" "$large_batch held"; do
			for side in drained fire; do
				[ "$side $case" != "drained $large_batch held" ] || continue
				prepare $side $side 0
				# shellcheck disable=SC2046
				piece do=fire clients=8 jobs="$large_batch" batch=500 $([[ $case != *held ]] || echo hold=1)
				tell_fire
			done
		done
	done
}

tell_fire()
{
	printf ' %9d/s, %s ms\n' "$(measured rate)" "$(measured fired_p50)"
}

# pgq_ext alone: a chain of jobs, each the child of the one before; the same work by hand, where the transaction of an ack enqueues the
# next job; and as many jobs that do not wait for each other. There is one worker.
run_chain()
{
	local side
	fresh_server
	case=$chain_jobs
	for ((round = 1; round <= rounds; round++)); do
		for side in chain next pgq_ext; do
			if [ $side = next ]; then
				turn 1 do=claim,ack clients=1 jobs=$chain_jobs warm_up=0
				queued[next]=1
			else
				turn $chain_jobs do=claim,ack clients=1 jobs=$chain_jobs warm_up=0
			fi
		done
	done
}

# scheduler_time: prints the nanoseconds of processor time that the scheduler has used so far
scheduler_time()
{
	cut -d ' ' -f 1 "/proc/$(sql -c "SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'pgq_ext scheduler' AND datname = current_database()")/schedstat"
}

# wait_for_rest: waits until the scheduler uses less than 2 % of a processor, at most a minute
wait_for_rest()
{
	local i before
	for ((i = 0; i < 60; i++)); do
		before=$(scheduler_time) || die 'no scheduler'
		sleep 1
		[ $(($(scheduler_time) - before)) -gt 20000000 ] || return 0
	done
}

# pgq_ext alone: what do open batches cost that wait for something? Each has one member, in a queue without workers. The processor time of
# the scheduler while nothing happens is measured in the first round.
run_open()
{
	local side=member rounds=$open_rounds before
	for ((round = 1; round <= rounds; round++)); do
		fresh_server
		queued=()
		for case in 0 "$open_batches"; do
			prepare $side $side 0
			[ "$case" = 0 ] ||
				sql -c "SELECT pgq_create_queue('elsewhere')" \
					-c "SELECT count(pgq_enqueue('elsewhere', '{}', batch => pgq_create_batch())) FROM generate_series(1, $open_batches)" >/dev/null ||
				die 'no batches'
			if [ "$round" = 1 ]; then
				show
				wait_for_rest
				before=$(scheduler_time) || die 'no scheduler'
				sleep "$open_seconds"
				record idle "$(awk "BEGIN { print ($(scheduler_time) - $before) / 1e6 / $open_seconds * 60 }")"
				echo " $(tail -n 1 "$out/$workload.tsv" | cut -f 5) ms of processor time in a minute"
			fi
			turn 10000 do=enqueue,claim,ack clients=32 seconds=$member_seconds
		done
		count_jobs
	done
}
