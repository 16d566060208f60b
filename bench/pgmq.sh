# shellcheck shell=bash
# Sourced by run.sh: the workload pgmq compares the extension pgmq of this project (the side mq) with the original (the side pgmq, if
# PGMQ_DIR is set). Both get the same calls, in databases of the same server. The cases:
#
#   send, read_delete    8 clients: one message in a call
#   batch                1 client: read and delete 100 messages in a call
#   life                 8 clients send, read and delete, beside a backlog of 2,000 messages
#   held                 the same, while another session keeps an old snapshot open
#   empty                8 clients read from an empty queue

database+=([mq]=mq)

# empty_reads: records how often per second $side reads from a queue without messages
empty_reads()
{
	local queue="empty_$side"
	show
	[ -v "queued[$queue]" ] || prepare "$side" "$queue" 0
	echo "SELECT msg_id, message FROM pgmq.read('$queue', 30, 1)" >"$work/empty.sql"
	pgbench -n -M prepared -c 8 -j 2 -T "${seconds%.*}" -f "$work/empty.sql" "${database[$side]:-$PGDATABASE}" >"$work/measured" 2>"$work/empty.log" ||
		die 'pgbench failed'
	record rate "$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$work/measured")"
	printf ' %9.0f/s\n' "$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$work/measured")"
}

# ratios: prints for each case the median of the rounds' ratios of mq to pgmq
ratios()
{
	awk -F '\t' '$4 == "rate" { rate[$1, $2, $3] = $5; if (!($1 in seen)) order[++n] = $1; seen[$1] = 1; if ($3 > rounds) rounds = $3 }
		END {
			for (i = 1; i <= n; i++) {
				m = 0
				for (r = 1; r <= rounds; r++) if (rate[order[i], "pgmq", r] > 0) {
					x = rate[order[i], "mq", r] / rate[order[i], "pgmq", r]
					for (j = m++; j > 0 && sorted[j] > x; j--) sorted[j + 1] = sorted[j]
					sorted[j + 1] = x
				}
				printf "%-12s %.2f times the rate of pgmq (%.2f to %.2f)\n", order[i], (sorted[int((m + 1) / 2)] + sorted[int(m / 2) + 1]) / 2, sorted[1], sorted[m]
			}
		}' "$out/pgmq.tsv"
}

run_pgmq()
{
	local both=(mq)
	[ -z "$pgmq" ] || both+=(pgmq)
	install_pgmq "$work/root" || die 'the extension pgmq cannot be installed'
	fresh_server
	sql -c 'CREATE DATABASE mq' && PGDATABASE=mq sql -c 'SET client_min_messages = warning' -c 'CREATE EXTENSION pgmq CASCADE' ||
		die 'the extension pgmq cannot be created'
	for ((round = 1; round <= rounds; round++)); do
		for case in send read_delete batch life held empty; do
			for side in "${both[@]}"; do
				case $case in
					send) queue=send_$side turn 0 do=enqueue clients=8 seconds=$seconds ;;
					read_delete) queue=read_$side turn $stock do=claim,ack clients=8 seconds=$seconds jobs=$((stock - 8)) ;;
					batch) queue=batch_$side turn $bulk_stock do=claim,ack clients=1 batch=100 seconds=$seconds jobs=$((bulk_stock - 100)) ;;
					life) queue=life_$side turn 2000 do=enqueue,claim,ack clients=8 seconds=$seconds ;;
					held) queue=held_$side turn 2000 do=enqueue,claim,ack clients=8 seconds=$held_seconds hold=1 series=1 ;;
					empty) empty_reads ;;
				esac
			done
		done
	done
	[ -z "$pgmq" ] || ratios
}
