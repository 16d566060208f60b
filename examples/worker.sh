#!/bin/bash
# A worker for the queue "mail". PGHOST, PGDATABASE and so on name the database. With a standby, set PGHOST=one,two and
# PGTARGETSESSIONATTRS=read-write: then the worker goes on after a failover. On SIGTERM, sent to this process alone, the worker
# finishes the job that it is working on. If it has lost a job (the job took too long, or was cancelled), pgq_ack fails, which
# rolls the work back. A payload must be smaller than 128 kB, the longest argument of a program. Create the queue by SELECT
# pgq_create_queue('mail', lease_time => '1 min', max_runtime => '10 min'). The heartbeat extends the lease until max_runtime
# is over; then a job that hangs goes to another worker.
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

storable() { iconv -c -f UTF-8 -t UTF-8; } # PostgreSQL stores valid UTF-8 without NUL

heartbeat() { # well within the queue's lease_time, until the other end of the pipe is closed: the job has ended, or this shell
	while read -r -t 3; [ $? -gt 128 ]; do query <<<'SELECT pgq_extend(:id, :lease)'; done
}

psql -Xqc '' || exit # what is wrong from the start is an error
while [ -z "$stopping" ]; do
	job=$(psql -XqAt -F $'\t' -c "SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')") || { sleep 1; continue; }
	IFS=$'\t' read -r id lease payload <<<"$job"
	[ -n "$id" ] || continue
	if [ -n "$stopping" ]; then # the job has not begun: it is given back
		query <<<'SELECT pgq_release(:id, :lease)'
		break
	fi
	exec {beat}> >(heartbeat)
	# If the work fails, the job is tried again after the queue's backoff.
	error=$(set -o pipefail; work 2>&1 | tr '\0' '?') || payload='' error=$(storable <<<"${error:0:8000}") query <<<"SELECT pgq_fail(:id, :lease, error => :'error')"
	exec {beat}>&-
done >/dev/null
