#!/bin/bash
# Counts the instructions of calls, with callgrind, in a backend in a steady state. The counts of two runs differ by less than 1 %,
# whatever else the machine does. Instructions of the kernel are not counted.
#
#   bench/instructions.sh [CALL]      prints thousands of instructions for a job, beside the baseline. CALL: only calls whose names
#                                     begin with it. Fails if a call takes over 3 % more than the baseline
#   bench/instructions.sh baseline    writes what it has counted to bench/instructions.tsv, the baseline, and to docs/benchmarks.md
#
#   PG=19       counts on that version. If that runs in a root (script/debian_root.sh), nothing is written: give what it prints, without
#               its heading and with a tab before each number, to bench/instructions.pl
#   KEEP=DIR    keeps the files of callgrind, for callgrind_annotate
set -uo pipefail
arguments=("$@")
call=${1:-}
[ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && KEEP=$(realpath -- "$KEEP"); } || exit
cd "$(dirname "$0")/.." || exit
script/setup_instructions.sh || exit
. script/version.sh
elsewhere bench/instructions.sh "${arguments[@]}"
. script/private_server.sh
. bench/server.sh
pgmq=''
baseline=bench/instructions.tsv
version=$("$pg_config" --version | sed 's/PostgreSQL \([0-9]*\).*/\1/')

work=$(mktemp -d "${TMPDIR:-/tmp}/pgq.XXXXXX") || exit
trap 'stop_servers "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
build
install_pgmq "$work/root" || die 'the extension pgmq cannot be installed'
g++ -std=c++20 -O2 -fPIC -shared -I"$("$pg_config" --includedir-server)" -o "$work/counter.so" bench/instructions/counter.cpp \
	2>"$work/counter.log" || die 'the counter cannot be built'
counts=${KEEP:-$work/counts}
mkdir -p "$counts"
[ ${#as_user[@]} -eq 0 ] || chown "$unprivileged" "$counts"

# start: starts a new server under callgrind
start()
{
	stop_servers "$work"
	rm -rf "$work/data"
	"${as_user[@]}" cp -R "$work/empty" "$work/data" || die 'cannot copy the data directory'
	printf '%s\n' 'autovacuum = off' 'checkpoint_timeout = 1d' "pgq_ext.segment_size = '1TB'" 'pgq_ext.segment_dead_rows = 0' >>"$work/data/postgresql.conf"
	(cd "$work" && exec "${as_user[@]}" valgrind -q --tool=callgrind --trace-children=yes --instr-atstart=no \
		--callgrind-out-file="$counts/out.%p" "$(command -v postgres)" -D data) >"$work/server.log" 2>&1 &
	until pg_isready -q; do
		kill -0 $! 2>/dev/null || die 'the server does not start'
		sleep 1
	done
	sql -c 'CREATE EXTENSION pgq_ext' || die 'the extension cannot be created'
	for function in 'count_from_now()' 'write_count(text)'; do
		sql -c "CREATE FUNCTION $function RETURNS void STRICT LANGUAGE c AS '$work/counter.so'" || die 'no counter'
	done
}

# count CALL: counts the calls whose names begin with CALL, and writes all counts so far to $work/counted. Of two counts of a call the
# smaller one is right: now and then the server tells all backends to look at a table again, which costs the next call a million
# instructions. The baseline has the larger one if the difference is small: then it was chance whether the session or the scheduler has
# read the next jobs of the backlog. In a file of callgrind, the line "desc: Trigger:" says for which call it is, and "summary:" is the
# count.
count()
{
	start
	build/bench/calls "$1" >>"$work/calls" || die 'a call failed'
	awk -F '\t' -v larger="$larger" '
		FILENAME ~ /calls$/ { if (!($1 in jobs)) order[++n] = $1; jobs[$1] = $2; next }
		sub(/^desc: Trigger: Client Request: /, "") { call = $0 }
		sub(/^summary: /, "") && call != "" {
			each = $1 / jobs[call] / 1000
			if (!(call in low) || each < low[call])
				low[call] = each
			if (each > high[call])
				high[call] = each
			call = ""
		}
		END {
			for (i = 1; i <= n; i++)
				printf "%s\t%.1f\n", order[i], larger && high[order[i]] < 1.15 * low[order[i]] ? high[order[i]] : low[order[i]]
		}' "$work/calls" "$counts"/out.*.* >"$work/counted"
}

# compare: prints the counts beside the baseline
compare()
{
	awk -F '\t' -v version="$version" '
		FILENAME ~ /tsv$/ && FNR == 1 { for (i = 2; i <= NF; i++) if ($i == version) column = i; next }
		FILENAME ~ /tsv$/ { base[$1] = column ? $column : ""; next }
		FNR == 1 { printf "%-50s %9s %9s\n", "thousand instructions for a job", "", "baseline" }
		{ printf "%-50s %9.1f %9s%s\n", $1, $2, base[$1], $2 == 0 || (column && base[$1] == "") ? "  unknown" : (base[$1] != "" && $2 > 1.03 * base[$1]) ? "  over 3 % more" : "" }' \
		"$baseline" "$work/counted"
}

larger=
if [ "$call" = baseline ]; then
	larger=yes
	count ''
	count ''
	bench/instructions.pl "$version" "$work/counted" || exit
else
	count "$call"
	for _ in 1 2 3; do
		mapfile -t grown < <(compare | sed -n 's/ \+[0-9.]\+ \+[0-9.]\+  over 3 % more$//p')
		for call in "${grown[@]}"; do
			count "$call"
		done
	done
fi
compare | tee "$work/compared"
! grep -qE '  (over 3 % more|unknown)$' "$work/compared"
