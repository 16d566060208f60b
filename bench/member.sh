#!/bin/bash
# Compares enqueue + claim + ack of members of a batch with that of plain jobs, on a throw-away server.
#
#   bench/member.sh [ROUNDS [JOBS]]    prints jobs in a second, and jobs in a second of the backend's CPU time, of both kinds in each
#                                      round, and the medians of the ratios
#
# One connection, one job in each call, prepared statements. In each round the two kinds take turns, so that both meet the same
# disturbances. All members of a round are of one batch. The rates mean something only on a quiet machine.
set -uo pipefail
rounds=${1:-15} jobs=${2:-10000}
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

# cpu: ticks of the CPU that the server's processes have used that have ended, such as the backend of a session
cpu()
{
	cut -d ' ' -f 16,17 "/proc/$(head -n 1 "$work/data/postmaster.pid")/stat" | awk '{ print $1 + $2 }'
}

# rate NAME: jobs in a second, and jobs in a second of CPU time
rate()
{
	local batch before tps
	batch=$(sql -c 'SELECT pgq_create_batch()') || die 'no batch'
	sleep 0.2
	before=$(cpu)
	tps=$(pgbench -n -M prepared -t "$jobs" -D batch="$batch" -f "$work/$1.sql" 2>&1 | sed -n 's/^tps = \([0-9.]*\) .*/\1/p')
	until [ "$(sql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'")" = 0 ]; do :; done
	sleep 0.2
	echo "$tps $((jobs * $(getconf CLK_TCK) / ($(cpu) - before)))"
}

# Without waits for the disk, which would hide the work.
fresh_server 'fsync = off' 'autovacuum = off'
life plain ''
life member ', batch => :batch'
for ((round = 0; round <= rounds; round++)); do
	if ((round % 2)); then
		plain=$(rate plain) member=$(rate member)
	else
		member=$(rate member) plain=$(rate plain)
	fi
	# The first round fills caches.
	((round == 0)) || echo "$plain $member"
done | awk '
	{ printf "plain %6.0f %6.0f  member %6.0f %6.0f  ratio %.3f %.3f\n", $1, $2, $3, $4, $3 / $1, $4 / $2
	  rate[NR] = $3 / $1; cpu[NR] = $4 / $2 }
	function median(all,  i, j, swap) {
		for (i = 1; i <= NR; i++)
			for (j = i + 1; j <= NR; j++)
				if (all[j] < all[i]) { swap = all[i]; all[i] = all[j]; all[j] = swap }
		return (all[int((NR + 1) / 2)] + all[int((NR + 2) / 2)]) / 2
	}
	END { printf "median ratio: %.3f by time, %.3f by CPU time\n", median(rate), median(cpu) }'
