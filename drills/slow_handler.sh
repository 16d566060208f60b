# shellcheck shell=bash
# Two workers believe that a job is theirs: the one that was too slow commits nothing.
drill()
{
	local slow id lease state
	create_queue
	ask "SELECT pgq_enqueue(:'queue', '\"work\"')" >/dev/null
	slow=$(ask "SELECT job_id, lease FROM pgq_claim(:'queue', lease_time => '1 s', worker => 'slow')")
	IFS='|' read -r id lease <<<"$slow"
	is 'jobs that the fast worker got and acknowledged when the lease had run out' 1 "$(ask "
		SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim(:'queue', wait => '30 s', worker => 'fast')")"
	# Its write is a job of the same queue.
	state=$(sqlstate_of "BEGIN; SELECT pgq_enqueue(:'queue', '\"written by the slow one\"'); SELECT pgq_ack($id, $lease); COMMIT")
	is 'what the slow one is told' PQ001 "$state"
	is 'jobs left: what it wrote beside its ack' 0 "$(jobs_left)"
	good 'a stale ack is refused, and takes back what was written with it'
}
