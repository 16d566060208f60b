#!/bin/bash
# Works off the queue "mail". SIGTERM to this process alone: the job in hand is finished, what has not begun is given back.
stopping=''
trap 'stopping=yes' TERM

query() { psql -XqAt -v ON_ERROR_STOP=1 -v id="$id" -v lease="$lease" -v payload="$payload" -v error="$error"; }

work() { # the work: committed with the ack, or not at all
	query <<-'SQL'
		BEGIN;
		INSERT INTO sent (job_id, address) VALUES (:id, :'payload'::jsonb ->> 'to');
		SELECT pgq_ack(:id, :lease);
		COMMIT;
	SQL
}

heartbeat() { # well within the queue's lease_time, until the pipe it reads from has no writer: the work is over, or this shell dead
	while read -r -t 3; [ $? -gt 128 ]; do query <<<'SELECT pgq_extend(:id, :lease)'; done
}

while [ -z "$stopping" ]; do
	# one job, or none after a while
	job=$(psql -XqAt -F $'\t' -c "SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')") || exit
	[ -n "$job" ] || continue
	IFS=$'\t' read -r id lease payload <<<"$job"
	[ -z "$stopping" ] || { query <<<'SELECT pgq_release(:id, :lease)'; break; }
	exec {beat}> >(heartbeat)
	error=$(work 2>&1) || query <<<"SELECT pgq_fail(:id, :lease, error => :'error')"
	exec {beat}>&-
done >/dev/null
