# shellcheck shell=bash
# A prepared transaction was forgotten: the view health names it, and its end brings the jobs back.
drill()
{
	[ "$(ask 'SHOW max_prepared_transactions')" != 0 ] || skip 'max_prepared_transactions is 0'
	create_queue
	ask "SELECT pgq_enqueue(:'queue', '\"work\"')" >/dev/null
	ask "BEGIN; SELECT pgq_ack(job_id, lease) FROM pgq_claim(:'queue'); PREPARE TRANSACTION :'queue'" >/dev/null || bad 'it cannot be prepared'
	is 'jobs that others get meanwhile' 0 "$(ask "SELECT count(*) FROM pgq_claim(:'queue')")"
	is 'does the view health name it, and its age' t "$(ask "
		SELECT coalesce(bool_or(detail LIKE '%\"' || :'queue' || '\", prepared for %'), false) FROM pgq_ext.health WHERE \"check\" = 'prepared'")"
	ask "ROLLBACK PREPARED :'queue'" || bad 'it cannot be rolled back'
	is 'the attempt of who gets the job then' 2 "$(ask "SELECT attempt FROM pgq_claim(:'queue', wait => '30 s')")"
	good 'what a prepared transaction holds can be found, and is back when it has ended'
}
