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

heartbeat() { # well within the queue's lease_time, and no longer than the worker lives
	while sleep 3 && kill -0 $$; do query <<<'SELECT pgq_extend(:id, :lease)'; done
}

while [ -z "$stopping" ]; do
	# one job, or none after a while
	IFS=$'\t' read -r id lease payload < <(psql -XqAt -F $'\t' -c "SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')")
	wait $! || exit
	[ -n "$id" ] || continue
	if [ -n "$stopping" ]; then
		query <<<'SELECT pgq_release(:id, :lease)'
		break
	fi
	heartbeat & beat=$!
	error=$(work 2>&1) || query <<<"SELECT pgq_fail(:id, :lease, error => :'error')"
	kill $beat
done >/dev/null
