# shellcheck shell=bash
# A worker dies with a job in hand: its lease runs out, the attempt is counted, another worker gets the job.
drill()
{
	local worker got
	create_queue
	ask "SELECT pgq_enqueue(:'queue', '\"work\"')" >/dev/null
	sql -c "SELECT job_id FROM pgq_claim('$queue', lease_time => '2 s')" -c 'SELECT pg_sleep(3600)' >/dev/null 2>&1 &
	worker=$!
	until_true 30 "SELECT count(*) = 1 FROM pgq_ext.lease WHERE queue = :'queue'" || bad 'no worker has got the job'
	kill -KILL $worker
	wait $worker 2>/dev/null
	say 'a worker has claimed the job, and was killed'
	got=$(ask "SELECT attempt FROM pgq_claim(:'queue', wait => '30 s')")
	is 'the attempt of who gets it next' 2 "$got"
	is 'why, by the job' 'the lease expired' "$(ask "SELECT last_error FROM pgq_ext.job_status WHERE queue = :'queue'")"
	ask "SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE queue = :'queue'" >/dev/null
	is 'jobs left' 0 "$(jobs_left)"
	good 'the job of a dead worker was counted, and done by another one'
}
