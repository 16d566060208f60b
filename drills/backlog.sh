# shellcheck shell=bash
# Nobody has worked for long: with 100,000 jobs waiting a claim costs what it costs with few, and all are done.
drill()
{
	local full few
	create_queue
	few=$(median 300)
	say "microseconds that a claim takes with 300 jobs waiting: $few"
	ask "SELECT count(pgq_enqueue(:'queue', to_jsonb(i))) FROM generate_series(1, 100000) i" >/dev/null
	full=$(median 0)
	say "... with 100,000: $full"
	is 'jobs that were done, in batches' 99799 "$(work_off)"
	is 'jobs left' 0 "$(jobs_left)"
	[ "$full" -le $((10 * few + 1000)) ] || bad "a claim is $((full / few)) times as slow with a backlog"
	good 'a backlog makes no claim slow, and was worked off'
}

# median JOBS: enqueues so many, and claims and acknowledges 201, one by one
median()
{
	sql <<-SQL
		SELECT count(pgq_enqueue(:'queue', '0')) FROM generate_series(1, $1) \gset
		SELECT set_config('drill.queue', :'queue', false) \gset
		DO \$\$
		DECLARE
		    took float8[]; began timestamptz; c record;
		BEGIN
		    FOR i IN 1 .. 201 LOOP
		        began := clock_timestamp();
		        SELECT * INTO STRICT c FROM pgq_claim(current_setting('drill.queue'));
		        took := took || extract(epoch FROM clock_timestamp() - began)::float8;
		        PERFORM pgq_ack(c.job_id, c.lease);
		    END LOOP;
		    PERFORM set_config('drill.median', (SELECT round(1e6 * percentile_cont(0.5) WITHIN GROUP (ORDER BY t))::text FROM unnest(took) t), false);
		END \$\$;
		SELECT current_setting('drill.median');
		SELECT NULL FROM pgq_claim(:'queue', 99) c, LATERAL pgq_ack(c.job_id, c.lease) WHERE $1 > 0 \g /dev/null
	SQL
}

work_off()
{
	local n all=0
	while
		n=$(ask "WITH c AS MATERIALIZED (SELECT job_id, lease FROM pgq_claim(:'queue', 5000))
			SELECT count(pgq_ack(job_id, lease)) FROM c") && [ "${n:-0}" -gt 0 ]
	do
		all=$((all + n))
	done
	echo $all
}
