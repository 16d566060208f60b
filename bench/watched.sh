#!/bin/bash
# Compares COPY into a watched table with COPY into the same table without a watch, on a throw-away server.
#
#   bench/watched.sh [ROUNDS [ROWS]]    prints how long both take in each round, and the median of the ratios
#
# The table has the columns and indexes of a usual table of orders. In each round the kinds take turns: no watch, a watch of all columns, of
# two columns, and a coalescing watch whose keys are new.
set -uo pipefail
rounds=${1:-7} rows=${2:-100000}
cd "$(dirname "$0")/.." || exit
. script/private_server.sh
. bench/server.sh
pgmq=''
work=$(mktemp -d "${TMPDIR:-/tmp}/pgq.XXXXXX") || exit
trap 'stop_servers "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
build

# copy ARGUMENTS: prints the milliseconds of a COPY into a table that is watched with these arguments; '': not watched
copy()
{
	local watch=''
	[ -z "$1" ] || watch="SELECT pgq_create_queue('changes', if_not_exists => true), pgq_watch_table('orders', 'changes'$1);"
	psql -XqAt -v ON_ERROR_STOP=1 >"$work/copied" 2>&1 <<-SQL || { cat "$work/copied" >&2; die 'COPY failed'; }
		SELECT pgq_drop_queue('changes', if_exists => true, force => true);
		DROP TABLE IF EXISTS orders;
		CREATE TABLE orders (LIKE source INCLUDING ALL);
		$watch
		CHECKPOINT;
		\\timing on
		COPY orders FROM '$data/orders.copy';
	SQL
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$work/copied" | tail -n 1
}

# Without waits for the disk, which would hide the work.
fresh_server 'fsync = off'
data=$(sql -c 'SHOW data_directory')
sql -c "CREATE TABLE source (id bigint PRIMARY KEY, customer_id bigint NOT NULL, state text NOT NULL, amount numeric(12,2) NOT NULL,
		currency char(3) NOT NULL, note text, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL)" \
	-c 'CREATE INDEX ON source (customer_id)' -c 'CREATE INDEX ON source (created_at)' \
	-c "COPY (SELECT i, i % 1000, 'paid', i * 1.01, 'EUR', 'a note on order ' || i, now(), now() FROM generate_series(1, $rows) i) TO '$data/orders.copy'" ||
	die 'no table'
copy '' >/dev/null # fills caches
for ((i = 0; i < rounds; i++)); do
	echo "$(copy '') $(copy ', NULL') $(copy ", '{id,state}'") $(copy ", '{}'")"
done | tee "$work/rounds" |
	awk '{ printf "COPY %d ms  watched %d ms (%.2f)  two columns %d ms (%.2f)  coalescing %d ms (%.2f)\n", $1, $2, $2 / $1, $3, $3 / $1, $4, $4 / $1; fflush() }'
for column in 2 3 4; do
	awk -v column=$column '{ print $column / $1 }' "$work/rounds" | sort -n |
		awk -v column=$column 'BEGIN { split("- watched twocolumns coalescing", name, " ") } { ratio[NR] = $1 }
			END { printf "median ratio, %s: %.2f\n", name[column], ratio[int((NR + 1) / 2)] }'
done
