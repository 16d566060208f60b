#!/bin/bash
# Counts the instructions of calls, with callgrind, in a backend in a steady state. The counts of two runs differ by less than 1 %,
# whatever else the machine does; instructions of the kernel are not in them.
#
#   bench/instructions.sh [CALL]      prints thousands of instructions for a job, beside the baseline; CALL: only the calls whose
#                                     names begin with it. Fails if a call takes over 3 % more than the baseline
#   bench/instructions.sh baseline    also writes bench/instructions.tsv, the baseline, for PostgreSQL 15
#
#   PG=19       count on that version, without a baseline
#   KEEP=DIR    keep what callgrind wrote, for callgrind_annotate
set -uo pipefail
arguments=("$@")
what=${1:-}
[ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && KEEP=$(realpath -- "$KEEP"); } || exit
cd "$(dirname "$0")/.." || exit
script/setup.sh valgrind || exit
. script/version.sh
elsewhere bench/instructions.sh "${arguments[@]}"
. script/private_server.sh
. bench/server.sh
pgmq=''
[ -n "$what" ] && [ "$what" != baseline ] || what=''
baseline=bench/instructions.tsv

work=$(mktemp -d "${TMPDIR:-/tmp}/pgq.XXXXXX") || exit
trap 'stop_servers "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
build
g++ -std=c++20 -O2 -fPIC -shared -I"$("$pg_config" --includedir-server)" -o "$work/counter.so" bench/instructions/counter.cpp 2>"$work/counter.log" ||
	die 'the counter cannot be built'
counts=${KEEP:-$work/counts}
mkdir -p "$counts"
[ ${#as_user[@]} -eq 0 ] || chown "$unprivileged" "$counts"

"${as_user[@]}" cp -R "$work/empty" "$work/data" || die 'cannot copy the data directory'
printf '%s\n' 'autovacuum = off' 'checkpoint_timeout = 1d' >>"$work/data/postgresql.conf"
(cd "$work" && exec "${as_user[@]}" valgrind -q --tool=callgrind --trace-children=yes --instr-atstart=no \
	--callgrind-out-file="$counts/out.%p" "$(command -v postgres)" -D data) >"$work/server.log" 2>&1 &
for ((i = 0; i < 300; i++)); do
	! pg_isready -q || break
	sleep 1
done
sql -c 'CREATE EXTENSION pgq_ext' || die 'the extension cannot be created'
for function in 'count_from_now()' 'write_count(text)'; do
	sql -c "CREATE FUNCTION $function RETURNS void STRICT LANGUAGE c AS '$work/counter.so'" || die 'no counter'
done
build/bench/calls ${what:+"$what"} >"$work/calls" || die 'a call failed'

# The first line says which call the file is for; the line "summary:" is what was counted.
awk -F '\t' '
	FILENAME ~ /calls$/ { jobs[$1] = $2; order[++n] = $1; next }
	FILENAME ~ /tsv$/ { base[$1] = $2; next }
	sub(/^desc: Trigger: Client Request: /, "") { call = $0 }
	sub(/^summary: /, "") && call != "" { k[call] = $1 / jobs[call] / 1000; call = "" }
	END {
		for (i = 1; i <= n; i++)
			printf "%s\t%.1f\t%s\n", order[i], k[order[i]], base[order[i]]
	}' "$work/calls" "$baseline" "$counts"/out.*.* >"$work/counted"
awk -F '\t' '
	BEGIN { printf "%-50s %9s %9s\n", "thousand instructions for a job", "", "baseline" }
	{
		grown = $3 != "" && $2 > 1.03 * $3
		failed = failed || grown
		printf "%-50s %9.1f %9s%s\n", $1, $2, $3, grown ? "  more than 3 % above" : ""
	}
	END { exit failed }' "$work/counted"
status=$?
