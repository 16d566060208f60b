# shellcheck shell=bash
# The server is stopped in mode immediate, as by a crash: no job is lost, none that was done comes back, and what was in work
# goes out again. Needs --data DIRECTORY or --restart COMMAND.
drill()
{
	local before held id lease
	[ -n "$restart" ] || skip 'needs --data DIRECTORY or --restart COMMAND'
	create_queue
	ask "SELECT count(pgq_enqueue(:'queue', to_jsonb(i))) FROM generate_series(1, 100) i" >/dev/null
	is 'jobs that were done before' 10 "$(ask "SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim(:'queue', 10)")"
	held=$(ask "SELECT job_id, lease FROM pgq_claim(:'queue', lease_time => '1 h')")
	IFS='|' read -r id lease <<<"$held"
	before=$(ask 'SELECT pg_postmaster_start_time()')
	bash -c "$restart" >/dev/null 2>&1 || bad "failed: $restart"
	until_true 60 "SELECT pg_postmaster_start_time() <> '$before'" || bad 'the server was not restarted'
	say 'the server was stopped in mode immediate, and started'
	is 'jobs that are handed out then, different ones, and that which was in work' '90|90|t' "$(ask "
		SELECT count(*), count(DISTINCT job_id), bool_or(job_id = $id) FROM pgq_claim(:'queue', 1000)")"
	is 'what the worker from before is told' PQ001 "$(sqlstate_of "SELECT pgq_ack($id, $lease)")"
	good 'after a crash every job was there that was not done, each once'
}
