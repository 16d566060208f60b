#!/bin/bash
# Compares enqueue + claim + ack of members of a batch with that of plain jobs, on a throw-away server.
#
#   bench/member.sh [ROUNDS [SECONDS]]    prints how long a job of each kind takes in each round, and the median of the ratios
#
# One connection, one job in each call, prepared statements. The kind of each job is drawn by lot, so that both kinds meet the same
# disturbances. The median of all jobs of a kind counts. All members of a round are of one batch.
set -uo pipefail
rounds=${1:-7} seconds=${2:-10}
cd "$(dirname "$0")/.." || exit
. script/private_server.sh
. bench/server.sh
pgmq=''
work=$(mktemp -d "${TMPDIR:-/tmp}/pgq.XXXXXX") || exit
trap 'stop_servers "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
build

# life NAME ARGUMENT: writes a script that takes a job through its life
life()
{
	cat >"$work/$1.sql" <<-SQL
		SELECT pgq_enqueue('$1', '{"a": 1, "b": "hello world", "c": [1, 2, 3, 4]}'$2);
		SELECT job_id, lease FROM pgq_claim('$1') \gset
		SELECT pgq_ack(:job_id, :lease);
	SQL
	sql -c "SELECT pgq_create_queue('$1')" >/dev/null || die 'no queue'
}

# round: the median times of a plain job and of a member, in microseconds
round()
{
	local batch script
	batch=$(sql -c 'SELECT pgq_create_batch()') || die 'no batch'
	rm -f "$work"/log.*
	pgbench -n -M prepared -T "$seconds" -D batch="$batch" -f "$work/plain.sql" -f "$work/member.sql" -l --log-prefix="$work/log" \
		>"$work/pgbench.log" 2>&1 || die 'pgbench failed'
	for script in 0 1; do
		awk -v script=$script '$4 == script { print $3 }' "$work"/log.* | sort -n |
			awk '{ time[NR] = $1 } END { printf "%d ", time[int((NR + 1) / 2)] }'
	done
	echo
}

# Without waits for the disk, which would hide the work.
fresh_server 'fsync = off'
life plain ''
life member ', batch => :batch'
round >/dev/null # fills caches
for ((i = 0; i < rounds; i++)); do
	round
done | tee "$work/rounds" | awk '{ printf "plain %d us  member %d us  ratio %.3f\n", $1, $2, $1 / $2; fflush() }'
awk '{ print $1 / $2 }' "$work/rounds" | sort -n | awk '{ ratio[NR] = $1 } END { printf "median ratio %.3f\n", ratio[int((NR + 1) / 2)] }'
