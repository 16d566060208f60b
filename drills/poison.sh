# shellcheck shell=bash
# A job that always fails: it is a dead letter after max_attempts, and the others go on.
drill()
{
	local i done=0 n
	create_queue 'max_attempts => 3'
	ask "SELECT pgq_enqueue(:'queue', '\"poison\"', priority => 1);
		SELECT count(pgq_enqueue(:'queue', '\"good\"')) FROM generate_series(1, 20)" >/dev/null
	for ((i = 0; i < 20; i++)); do
		n=$(ask "WITH c AS MATERIALIZED (SELECT * FROM pgq_claim(:'queue', 5, wait => '1 s'))
			SELECT count(*) FROM (SELECT CASE payload WHEN '\"poison\"' THEN pgq_fail(job_id, lease, 'it cannot be digested')
				ELSE pgq_ack(job_id, lease)::text END FROM c) ended") || bad 'the worker cannot work'
		done=$((done + n))
		[ "$(jobs_left)" != 0 ] || break
	done
	is 'jobs left' 0 "$(jobs_left)"
	is 'attempts: one each, and three' 23 $done
	is 'dead letters, their attempts and errors' '1|3|it cannot be digested' "$(ask "
		SELECT count(*), max(attempts), max(last_error) FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = :'queue'")"
	good 'poison has ended as a dead letter, and the others were done'
}
