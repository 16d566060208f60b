#!/bin/bash
# worker.sh NAME [BATCH [PAUSE]]: a complete worker. It needs nothing but psql, which finds the server by PGHOST etc.
# PAUSE: seconds to idle before each file, for those who want to watch.
set -u
name=$1 batch=${2:-25} pause=${3:-0}

query()
{
	psql -XqAt -v ON_ERROR_STOP=1 -v worker="$name" "$@"
}

while :; do
	ids='' leases='' sums='' attempts=''

	# Fields and records end with a zero byte: file names may contain anything else.
	while IFS= read -rd '' id && IFS= read -rd '' lease && IFS= read -rd '' attempt && IFS= read -rd '' path; do
		[ "$pause" = 0 ] || sleep "$pause"
		if sum=$(sha256sum -- "$path" 2>&1); then
			sum=${sum%% *}
			ids+=,$id leases+=,$lease attempts+=,$attempt
			sums+=,${sum#\\} # a backslash here says that the name has been escaped
		else
			query -v id="$id" -v lease="$lease" -v error="$sum" <<<"SELECT pgq_fail(:id, :lease, :'error')" >/dev/null ||
				exit
		fi
	done < <(query -z0 -v batch="$batch" <<-'SQL'
		SELECT job_id, lease, attempt, payload->>'path'
		FROM pgq_claim('checksum', :batch, wait => '2 s', worker => :'worker');
	SQL
	)
	wait $! || exit

	# One transaction stores the results and acknowledges the jobs. Where the lease was no longer ours, neither happens.
	[ -z "$ids" ] || query -v ids="{${ids#,}}" -v leases="{${leases#,}}" -v attempts="{${attempts#,}}" \
		-v sums="{${sums#,}}" <<-'SQL' || exit
		WITH acked AS (SELECT pgq_ack_many(:'ids', :'leases') AS job_id),
		     result AS (SELECT * FROM unnest(:'ids'::bigint[], :'attempts'::int[], :'sums'::text[]) AS r(job_id, attempt, sha256))
		UPDATE file SET sha256 = r.sha256, attempt = r.attempt, worker = :'worker', done_at = clock_timestamp()
		FROM result r JOIN acked USING (job_id)
		WHERE file.job_id = r.job_id;
	SQL
done
