#!/bin/bash
# Races pgq_ext against a plain table with FOR UPDATE SKIP LOCKED, on a throw-away server. The ratios are what counts.
#
#   bench/short.sh [SECONDS]      the length of one turn; default: 10, which makes under three minutes in all
#
# 32 clients of pgbench, prepared statements, one job a call, synchronous_commit = on. The sides take turns in each of
# 3 rounds, after a VACUUM each; the median of the rounds is reported. Before its turn each side is filled up with more
# jobs than it can take: a claim that comes back empty ends the bench.
set -uo pipefail
seconds=${1:-10}
clients=32
rounds=3
enough=$((50000 * seconds)) # jobs for one turn
. "$(dirname "$0")/server.sh"

sql <<-'SQL' >/dev/null || die 'cannot make the queue and the table'
	SELECT pgq_create_queue('mail');
	CREATE TABLE jobs (
		id bigserial PRIMARY KEY, queue_name text NOT NULL, priority int NOT NULL DEFAULT 0,
		run_at timestamptz NOT NULL DEFAULT now(), status text NOT NULL DEFAULT 'queued',
		attempts int NOT NULL DEFAULT 0, locked_until timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
		payload jsonb NOT NULL);
	CREATE INDEX ON jobs (queue_name, priority DESC, run_at, id) WHERE status = 'queued';
SQL

# ---- what one client does again and again; \gset stops it when there is no row ----

cat >pgq_enqueue.sql <<'SQL'
SELECT pgq_enqueue('mail', '{"to": "somebody@example.com", "template": 17}');
SQL
cat >table_insert.sql <<'SQL'
INSERT INTO jobs (queue_name, payload) VALUES ('mail', '{"to": "somebody@example.com", "template": 17}') RETURNING id;
SQL
cat >pgq_claim_ack.sql <<'SQL'
SELECT job_id, lease, payload FROM pgq_claim('mail') \gset
SELECT pgq_ack(:job_id, :lease);
SQL
cat >pgq_claim_ack_at_once.sql <<'SQL'
SELECT job_id, payload, pgq_ack(job_id, lease) AS acked FROM pgq_claim('mail') \gset
SQL
cat >table_claim_delete.sql <<'SQL'
UPDATE jobs SET status = 'running', attempts = attempts + 1, locked_until = now() + interval '5 min' WHERE id = (SELECT id FROM jobs WHERE queue_name = 'mail' AND status = 'queued' AND run_at <= now() ORDER BY priority DESC, run_at, id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id, payload \gset
DELETE FROM jobs WHERE id = :id;
SQL

fill()
{
	case $1 in
		pgq_claim*) sql -c "SELECT count(pgq_enqueue('mail', '{\"to\": \"somebody@example.com\", \"template\": 17}'))
			FROM generate_series(1, $enough - (SELECT count(*) FROM pgq_ext.job))" ;;
		table_claim*) sql -c "INSERT INTO jobs (queue_name, payload)
			SELECT 'mail', '{\"to\": \"somebody@example.com\", \"template\": 17}'
			FROM generate_series(1, $enough - (SELECT count(*) FROM jobs))" ;;
	esac >/dev/null && sql -c 'VACUUM ANALYZE' -c 'CHECKPOINT' || die "cannot fill up for $1"
}

# turn SCRIPT: prints its rate
turn()
{
	fill "$1"
	pgbench -n -M prepared -c $clients -j 2 -T "$seconds" -f "$1.sql" >"$1.log" 2>&1 || die "$1 came to grief"
	awk '/^tps = /{ printf "%.0f\n", $3 }' "$1.log"
}

# race SCRIPT...: the last one is what the others are compared with
race()
{
	local round script rate
	for ((round = 1; round <= rounds; round++)); do
		for script in "$@"; do
			rate=$(turn "$script") || exit
			echo "$rate" >>"$script.rates"
			printf '  round %d  %-22s %7d/s\n' "$round" "$script" "$rate"
		done
	done
}

median()
{
	sort -n "$1.rates" | sed -n "$(((rounds + 1) / 2))p"
}

# line TITLE SCRIPT TABLE-SCRIPT
line()
{
	awk -v title="$1" -v pgq="$(median "$2")" -v table="$(median "$3")" \
		'BEGIN { printf "%-34s %9d %9d %7.2f\n", title, pgq, table, pgq / table }'
}

echo "Enqueue, $rounds rounds of $seconds s a side"
race pgq_enqueue table_insert
echo "Claim and acknowledge, $rounds rounds of $seconds s a side, $enough jobs at the start of each"
race pgq_claim_ack pgq_claim_ack_at_once table_claim_delete

printf '\n%-34s %9s %9s %7s\n' "jobs/s, $clients clients, median" pgq_ext table ratio
line 'claim, ack: two statements' pgq_claim_ack table_claim_delete
line 'claim, ack: one (table: two)' pgq_claim_ack_at_once table_claim_delete
line 'enqueue' pgq_enqueue table_insert
echo 'No claim came back empty.'
