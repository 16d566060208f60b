#!/bin/bash
# Shows that nothing grows with the backlog, or with an old snapshot: a huge queue and a short one take turns on the
# same throw-away server; then 16 clients work for a minute beside an open REPEATABLE READ snapshot; then a lone consumer
# takes what is left and looks at its order.
#
#   bench/flat.sh [JOBS]          the backlog; default: 5000000
set -uo pipefail
jobs=${1:-5000000}
few=10000
clients=16
rounds=9
held=60 # seconds
CONF='pgq_ext.window_size = 10000'
. "$(dirname "$0")/server.sh"

# fill QUEUE JOBS: five priorities, and times of the last hour
fill()
{
	sql -c "SELECT count(pgq_enqueue('$1', to_jsonb(i), i * 7 % 5, run_at => now() - i * 7919 % 3600 * interval '1 s'))
		FROM generate_series(1, $2) i"
}

# claim QUEUE: prints the rate at which the clients take so many jobs
claim()
{
	echo "SELECT job_id, pgq_ack(job_id, lease) AS acked FROM pgq_claim('$1') \gset" >claim.sql
	pgbench -n -M prepared -c $clients -j 2 -t $((few / clients)) -f claim.sql >claim.log 2>&1 || die "no claims from $1"
	awk '/^tps = /{ printf "%.0f\n", $3 }' claim.log
}

median()
{
	sort -n "$1.rates" | sed -n "$(((rounds + 1) / 2))p"
}

memory()
{
	sql -c "SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name LIKE 'pgq_ext%'"
}

echo "Filling a queue with $jobs jobs"
sql -c "SELECT pgq_create_queue('few', notify => false), pgq_create_queue('many', notify => false)" >/dev/null || die 'no queues'
before=$(memory)
for ((i = 0; i < 10; i++)); do
	fill many $((jobs / 10)) >/dev/null && printf '  %d\n' $(((i + 1) * jobs / 10)) || die 'cannot fill'
done
sql -c 'VACUUM ANALYZE' -c CHECKPOINT

echo "Claim and acknowledge, $clients clients, $few jobs a turn"
for ((round = 1; round <= rounds; round++)); do
	fill few $few >/dev/null || die 'cannot fill'
	for queue in few many; do
		rate=$(claim $queue) || exit
		echo "$rate" >>$queue.rates
		printf '  round %d  %-5s %7d/s\n' "$round" $queue "$rate"
	done
done

echo "The same for $held s with an old snapshot open"
"${as_user[@]}" env PATH="$PATH" psql -XqAt >/dev/null <<-SQL &
	BEGIN ISOLATION LEVEL REPEATABLE READ;
	SELECT count(*) FROM pg_class;
	SELECT pg_sleep($held + 10);
SQL
sleep 1
pgbench -n -M prepared -c $clients -j 2 -T $held -P 5 -f claim.sql >held.log 2>&1 || die 'no claims under a snapshot'
sed -n 's/^progress: \([0-9]*\)\.. s, \([0-9]*\)\..*/  \1 s  \2\/s/p' held.log
wait

echo 'A lone consumer takes the rest'
cat >order.sql <<'SQL'
DO $$
DECLARE
	c record;
	last record;
	taken bigint := 0;
	batch bigint;
BEGIN
	LOOP
		batch := taken;
		FOR c IN SELECT priority, run_at, job_id, pgq_ack(job_id, lease) FROM pgq_claim('many', 10000) LOOP
			IF taken > 0 AND (-c.priority, c.run_at, c.job_id) <= (-last.priority, last.run_at, last.job_id) THEN
				RAISE 'job % came after job %', c.job_id, last.job_id;
			END IF;
			last := c;
			taken := taken + 1;
		END LOOP;
		EXIT WHEN taken = batch;
		COMMIT;
	END LOOP;
	RAISE NOTICE '% jobs, all in order', taken;
END $$;
SELECT 'left: ' || count(*) FROM pgq_ext.job;
SELECT 'pgq_check: ' || count(*) FROM pgq_check();
SQL
sql -f order.sql 2>&1 | sed 's/^psql:.*NOTICE:  //; s/^/  /'
[ "${PIPESTATUS[0]}" -eq 0 ] || die 'out of order'

echo
awk -v few="$(median few)" -v many="$(median many)" -v jobs="$jobs" -v queued="$few" 'BEGIN {
	printf "claim rate, %d jobs queued against %d: %d/s, %d/s, ratio %.2f\n", jobs, queued, many, few, many / few }'
awk '/^progress: /{ n++; rate[n] = $4 } END {
	printf "old snapshot, last 10 s against first 10 s: %d/s, %d/s, ratio %.2f\n", (rate[n] + rate[n - 1]) / 2, (rate[1] + rate[2]) / 2,
		(rate[n] + rate[n - 1]) / (rate[1] + rate[2]) }' held.log
echo "shared memory of pgq_ext: $before bytes before, $(memory) after"
