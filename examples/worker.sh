#!/bin/bash
# Works off the queue "mail"; PGHOST, PGDATABASE and so on say where. SIGTERM to this process alone: the job in hand is finished,
# what has not begun is given back. If a job is not ours any more (it took too long, or was cancelled) pgq_ack fails, which undoes
# its work. A payload has to be smaller than 128 kB, what one argument of a program can be. Where there is a standby, PGHOST=one,two and PGTARGETSESSIONATTRS=read-write, and it goes on after a failover.
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

heartbeat() { # well within the queue's lease_time, until nobody has the other end of the pipe: the work is over, or this shell dead
	while read -r -t 3; [ $? -gt 128 ]; do
		while IFS=$'\t' read -r id lease _; do query <<<'SELECT pgq_extend(:id, :lease)'; done <<<"$jobs"
	done
}

psql -Xqc '' || exit # what is wrong from the start is an error
while [ -z "$stopping" ]; do
	jobs=$(psql -XqAt -F $'\t' -c "SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')") || { sleep 1; continue; }
	exec {beat}> >(heartbeat)
	while IFS=$'\t' read -r id lease payload && [ -n "$id" ]; do
		if [ -n "$stopping" ]; then
			query <<<'SELECT pgq_release(:id, :lease)'
		else # what fails is tried again after the queue's backoff
			error=$(work 2>&1) || payload='' error=${error:0:8000} query <<<"SELECT pgq_fail(:id, :lease, error => :'error')"
		fi
	done <<<"$jobs"
	exec {beat}>&-
done >/dev/null
