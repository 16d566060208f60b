#!/bin/bash
# Runs the tests in a private copy of PostgreSQL, on servers of their own in a temporary directory.
#
#   test/run.sh                   every suite; those that start no server run beside the others, and are shown after them
#   test/run.sh quick             what "make check" runs: some of the suites, and a part of "model", "tap" and "torture"
#   test/run.sh SUITE             one of: unit model conventions runner odr clients monitoring failover shards web instructions regress before isolation tiny
#                                 tap pgtap torture,
#                                 or packages or pg_upgrade or pgmq, which "every suite" leaves out
#   test/run.sh SUITE TEST...     only tests whose name contains TEST
#   test/run.sh strict            regress and isolation: what CI runs by test/strict.sh
#   test/run.sh servers           the suites that depend on the server, to be run with every PostgreSQL; with versions after 15
#                                 also pg_upgrade, which installs packages of another release
#   test/run.sh servers-2/3       the same, but of the suite tap only every third file, from the second on
#   test/run.sh sql               regress, isolation and pgtap: the least that CI runs with a PostgreSQL
#   test/run.sh once              the other suites, which run with PostgreSQL 15 only
#
# PGMQ_DIR is a checkout of the original pgmq, whose tests the suite "pgmq" runs.
# PGQ_WEB is another build of pgq-web for the suite "web"; PGQ_FUZZ_SECONDS and PGQ_FUZZ_SEED are for its test fuzz.
# JOBS=200000 in the environment is the number of jobs of the suite "shards".
# PG=17 in the environment names a PostgreSQL. If this machine cannot have it, everything runs in a root of a Debian
# release that has it (script/debian_root.sh).
# HANG=900 is the number of seconds without output after which a suite is ended. There is no other time limit.
# The last line is "N passed, N failed". KEEP=1 keeps the temporary directory for inspection.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. script/version.sh
elsewhere test/run.sh "$@"
pgmq_dir=${PGMQ_DIR:-} # as for bench/run.sh
# private_server.sh unsets what begins with PG.
for_web=()
for variable in PGQ_WEB PGQ_FUZZ_SECONDS PGQ_FUZZ_SEED; do
	[ -z "${!variable:-}" ] || for_web+=("$variable=${!variable}")
done
. script/private_server.sh
. test/left_running.sh
. test/pgmq/suite.sh

# Suites that start no server run with the usual build only. clients, monitoring, failover, shards, web and instructions run with
# PostgreSQL 15, and so with the servers and drivers of Debian 12; of clients, the tests with pgbouncer also run with PostgreSQL 17,
# and those of Debian 13. pg_upgrade installs packages of another release, so it runs in a root only.
suites=(regress before isolation tiny tap pgtap torture)
beside=()
pg=$("$pg_config" --version | sed 's/PostgreSQL \([0-9]*\).*/\1/')
"$pg_config" --version
[ "$pg" -ne 17 ] || [ "$build_directory" != . ] || suites+=(clients)
share=
quick=
compiled=() # programs to compile, although no suite runs them
[ "${1:-}" != quick ] || quick=yes
case ${1:-} in
	'' | quick)
		if [ "$build_directory" = . ]; then
			beside=(unit model conventions runner)
			[ "$pg" -ne 15 ] || [ -n "$quick" ] || beside+=(odr)
			[ "$pg" -ne 15 ] || suites=(clients monitoring failover shards web instructions "${suites[@]}")
		fi
		# At the end, torture would leave a processor idle.
		if [ -n "$quick" ]; then
			suites=(regress isolation tap pgtap)
			if [ ${#beside[@]} -gt 0 ]; then beside=(torture "${beside[@]}"); else suites+=(torture); fi
		fi ;;
	servers | servers-[1-9]/[1-9])
		share=${1#servers}
		[[ ! $pg =~ ^(17|18)$ ]] || compiled=(web) # with the newer libraries of Debian 13 and 14
		[ "$pg" -eq 15 ] || [ "$build_directory" != . ] || suites+=(pg_upgrade) ;;
	once)
		beside=(unit model conventions runner odr)
		suites=(clients monitoring failover shards web instructions) ;;
	strict) suites=(regress isolation) ;;
	sql) suites=(regress isolation pgtap) ;;
	*) suites=("$1") ;;
esac
if [ ${#suites[@]} -gt 1 ] && ! has_pgtap "$pg"; then
	echo "There is no postgresql-$pg-pgtap: without the suite pgtap"
	mapfile -t suites < <(printf '%s\n' "${suites[@]}" | grep -vx pgtap)
fi
selected=("${@:2}")
hang=${HANG:-900}
# How long a test waits for what ought to happen: a build of a client, an alert, a restart. On a busy machine all of them can take
# minutes, and a test that waits in vain has failed anyway.
export PG_TEST_TIMEOUT_DEFAULT=${PG_TEST_TIMEOUT_DEFAULT:-$((hang * 2 / 3))}
export PGCTLTIMEOUT=${PGCTLTIMEOUT:-$PG_TEST_TIMEOUT_DEFAULT}
version_before=$(basename -s .sql upgrade/pgq_ext--*--"$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" pgq_ext.control)".sql |
	sed 's/pgq_ext--\(.*\)--.*/\1/')

passed=0
failed=0

# suite_result PASSED FAILED: adds and prints the result of a suite
suite_result()
{
	passed=$((passed + $1))
	failed=$((failed + $2))
	echo "== $suite: $1 ok, $2 not ok, $((SECONDS - suite_start)) s"
}

# finish: the only exit once tests have begun
finish()
{
	[ $((passed + failed)) -gt 0 ] || failed=1
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
}

# check_left_running: checks that all processes that the tests of this suite started have ended, also after a failure
# or a kill
check_left_running()
{
	local _ out
	for _ in {1..60}; do
		[ -n "$(left_running "$work" "$suite")" ] || return 0
		sleep 1
	done
	out=$(end_left_running "$work" "$suite")
	[ -n "$out" ] || return 0
	printf '%s\n' "$out"
	suite_result 0 1
}

cleanup()
{
	[ -z "$guard" ] || kill -KILL "$guard" 2>/dev/null
	stop_beside
	stop_servers "$work"
	end_left_running "$work" '[a-z_]*' >/dev/null
	if [ -n "${KEEP:-}" ]; then echo "kept: $work" >&2; else rm -rf "$work"; fi
}

# run COMMAND...: runs it as the unprivileged user in the copied tree, as long as it prints something or $growing
# grows
growing=
run()
(
	cd "$work" && exec test/watch.pl "$hang" "$growing" "${as_user[@]}" "$@" </dev/null 2>&1
)

# durations: reads test output, and notes milliseconds and name of each test
durations()
{
	sed -nE -e 's/^(test|ok [0-9]+|not ok [0-9]+|   ) +[-+. ]*([a-z_0-9]+) .* ([0-9]+) ms$/\3 \2/p' \
		-e 's/^\[[0-9:]*\] test\/[a-z]*\/([^ ]*)\.pl .* ([0-9]+) ms .*/\2 \1/p' \
		-e 's/^ok (.*): .* ([0-9]+) ms$/\2 \1/p' \
		-e 's/^\[       OK \] (.*) \(([0-9]+) ms\)$/\2 \1/p' |
		awk -v suite="$suite" '{ ms = $1; sub(/^[0-9]+ /, ""); printf "%10.1f s  %s: %s\n", ms / 1000, suite, $0 }' >>"$work/durations"
}

# matching DIR SUFFIX: prints the files in DIR that were asked for
matching()
{
	local file name
	for file in "$1"/*"$2"; do
		[ -e "$file" ] || continue
		[ ${#selected[@]} -gt 0 ] || echo "$file"
		for name in "${selected[@]}"; do
			case $file in *"$name"*) echo "$file"; break ;; esac
		done
	done
}

# Runs the unit tests and the explorers of the models side by side, one process each. A process that breaks off counts as a failure.
# Quick: only the unit tests.
run_unit()
{
	local out=$work/unit.out program programs=(unit explore) processes=() ok=0 not_ok=0 status broken filter='*' target=all
	compgen -G 'test/unit/*.cpp' >/dev/null || return 0
	[ -z "$quick" ] || { programs=(unit) target=unit; }
	[ ${#selected[@]} -eq 0 ] || filter=$(printf '*%s*:' "${selected[@]}")
	if ! cmake_build "$target" >"$out" 2>&1; then
		tail -n 60 "$out"
		suite_result 0 1
		return
	fi
	for program in "${programs[@]}"; do
		test/watch.pl "$hang" '' "build/unit/$program" --gtest_filter="$filter" >"$out.$program" 2>&1 &
		processes+=($!)
	done
	for program in "${programs[@]}"; do
		wait "${processes[0]}"
		status=$?
		processes=("${processes[@]:1}")
		broken=$(grep -cE '^\[  FAILED  \] .* \([0-9]+ ms\)$' "$out.$program")
		[ "$status" -eq 0 ] || [ "$broken" -gt 0 ] || broken=1
		[ "$broken" -eq 0 ] || grep -vE '^\[( RUN      |       OK )\]' "$out.$program"
		ok=$((ok + $(grep -cE '^\[       OK \] .* \([0-9]+ ms\)$' "$out.$program")))
		not_ok=$((not_ok + broken))
		durations <"$out.$program"
	done
	suite_result "$ok" "$not_ok"
}

# Explores every interleaving of the models of the protocol, and of those without one of its rules.
run_model()
{
	local out=$work/model.out
	test/model/run.sh ${quick:+--quick} "$work/model" "${selected[@]}" 2>&1 | tee "$out"
	durations <"$out"
	suite_result "$(grep -c '^ok ' "$out")" "$(grep -c '^not ok ' "$out")"
}

# Checks that the runner ends the processes that tests start.
run_runner()
{
	local out=$work/runner.out
	test/runner.sh >"$out" 2>&1
	cat "$out"
	suite_result "$(grep -c '^ok ' "$out")" "$(grep -c '^not ok ' "$out")"
}

# Types of the same name that differ between two files. All of them together are one failure.
run_odr()
{
	local out=$work/odr.out
	mkdir -p build
	if flock build/odr.lock make --no-print-directory -s -j2 odr PG_CONFIG="$pg_config" >"$out" 2>&1; then
		suite_result 1 0
	else
		cat "$out"
		suite_result 0 1
	fi
}

# Compares the instructions of each call with the stored count.
run_instructions()
{
	local out=$work/instructions.out
	bench/instructions.sh "${selected[@]}" >"$out" 2>&1
	cat "$out"
	suite_result "$(grep -cE ' [0-9.]+ +[0-9.]+$' "$out")" "$(grep -cE '  (over 3 % more|unknown)$' "$out")"
}

run_conventions()
{
	local out=$work/conventions.out
	test/conventions.sh >"$out" 2>&1
	grep -v '^ok ' "$out"
	suite_result "$(grep -c '^ok ' "$out")" "$(grep -c '^not ok ' "$out")"
}

# run_pg_regress PROGRAM INPUTDIR OPTION...: runs pg_regress or pg_isolation_regress, whose options are the same
run_pg_regress()
{
	local program=$1 input=$2 out=$work/$suite.out growing="$work/$suite/results/*"
	shift 2
	local tests=(--schedule="test/$suite.schedule")
	[ ${#selected[@]} -eq 0 ] || tests=("${selected[@]}")
	grep -q '^test:' "test/$suite.schedule" || return 0
	run "$pgxs/src/test/$program" --inputdir="$input" --outputdir="$work/$suite" --bindir= \
		--temp-instance="$work/$suite/instance" --temp-config="$work/test/pgq_ext.conf" --temp-config="$work/test/regress.conf" \
		--encoding=UTF8 --no-locale --load-extension=pgq_ext "$@" "${tests[@]}" | tee "$out" | grep -E '^(parallel|test|    |ok |not ok )'
	local status=${PIPESTATUS[0]}
	durations <"$out"
	cat "$work/$suite/regression.diffs" 2>/dev/null
	# "test name ... ok", "     name ... FAILED"; from PostgreSQL 16 on "ok 1     - name", "not ok 2     + name"
	local ok not_ok
	ok=$(grep -cE '\.\.\. +ok|^ok ' "$out")
	not_ok=$(grep -cE '\.\.\. +FAILED|^not ok ' "$out")
	if [ "$status" -ne 0 ] && [ "$not_ok" -eq 0 ]; then
		not_ok=1
		tail -n 20 "$out" "$work/$suite"/log/*.log
	fi
	suite_result "$ok" "$not_ok"
}

run_regress()
{
	run_pg_regress regress/pg_regress "$work"
}

# Runs as for users who have installed this library, and not yet updated the extension.
run_before()
{
	local control
	control=$work/root$("$pg_config" --sharedir)/extension/pgq_ext.control
	cp "$control" "$work/control" &&
		sed -i "s/^\(default_version = \).*/\1'$version_before'/" "$control" &&
		run_pg_regress regress/pg_regress "$work"
	cp "$work/control" "$control"
}

run_isolation()
{
	run_pg_regress isolation/pg_isolation_regress "$work/test/isolation"
}

# Runs some of the regression tests with very little shared memory.
run_tiny()
{
	run_pg_regress regress/pg_regress "$work" --temp-config="$work/test/tiny.conf"
}

# tap_result FILE: counts the test points in the output of prove. A test file that broke off counts as at least one
# failure.
tap_result()
{
	# shellcheck disable=SC2046
	suite_result $(awk '
		/^Files=/ { sub(",", "", $2); split($2, tests, "=") }
		/^Result: PASS|^Result: NOTESTS/ { good = 1 }
		/\(Wstat: .* Tests: / { n = $NF + 0; not_ok += n; broken += n == 0 }
		/^Bailout called|^FAILED--Further testing stopped/ { stopped = 1 }
		END {
			if (stopped) good = 0
			if (good) not_ok = broken = 0
			else if (not_ok + broken == 0) broken = 1
			print tests[2] - not_ok, not_ok + broken
		}' "$1")
}

# make_template: makes the data directory that TAP tests copy instead of running initdb, which is ten times as fast
# (test/perl/PgqTest.pm). Without LC_ALL, as PostgreSQL::Test::Utils calls initdb: LANG decides about the encoding.
make_template()
{
	[ -e "$work/template" ] || run env -u LC_ALL initdb -D "$work/template" -A trust -N >/dev/null
}

# is_quick FILE: succeeds for a TAP test that "make check" runs: it has one server, does not fill segments, starts no program that
# needs a driver, and does not say that it is long (about 25 s of processor time or more). Counts the calls that make a server;
# PgqTest.pm refuses a second one.
is_quick()
{
	! grep -q '^# Long: ' "$1" &&
		[ "$(grep -cE '\b(\w+_node|Cluster->new)\(' "$1")" -le 1 ] && ! grep -qE '^use RotationTest;|/usr/bin/python3' "$1"
}

# prove_all FOLDER N FILE...: runs the files, N at a time, since they mostly wait
prove_all()
{
	local folder=$1 at_once=$2 out=$work/$suite.out name checks=$work/${tmp_check:-tmp_check}
	local growing="$checks/log/regress_log_*"
	shift 2
	[ $# -gt 0 ] || return 0
	make_template
	# With two server versions, each node is made by the initdb of its own version.
	local template=("INITDB_TEMPLATE=$work/template")
	[ -z "${oldinstall:-}" ] || template=(-u INITDB_TEMPLATE)
	run env "${template[@]}" ${quick:+PGQ_ONE_SERVER=1} \
		 TESTDIR="$work" TESTDATADIR="$checks" TESTLOGDIR="$checks/log" TEMP_CONFIG="$work/test/pgq_ext.conf" PG_REGRESS="$pgxs/src/test/regress/pg_regress" \
		prove --timer -j "$at_once" -I "$pgxs/src/test/perl" -I test/perl "$@" | tee "$out" |
		perl -e '$| = 1; while (<STDIN>) { print ++$n, " of $ARGV[0], " if /^\[[0-9:]+\] /; print }' $#
	durations <"$out"
	sed -n "s/^test\/$folder\/\(.*\)\.pl .*(Wstat: .*/\1/p" "$out" | sort -u | while read -r name; do
		test/failed_log.sh "$checks/log" "$name"
	done
	tap_result "$out"
}

# Runs the slowest tests first.
run_tap()
{
	local file files all
	mapfile -t all < <(matching test/t .pl | sort -r)
	files=("${all[@]}")
	if [ -n "$quick" ]; then
		files=()
		for file in "${all[@]}"; do
			! is_quick "$file" || files+=("$file")
		done
		echo "${#files[@]} of ${#all[@]} files, short ones with one server"
	fi
	if [ -n "$share" ]; then
		local first=${share:1:1} step=${share:3:1} i
		files=()
		for ((i = first - 1; i < ${#all[@]}; i += step)); do files+=("${all[i]}"); done
	fi
	prove_all t 4 "${files[@]}"
}

# Workers in other languages, and other queues. Needs packages that no other suite needs. These tests wait for leases and
# for servers most of the time, so six run at a time. Those of the libraries take longest, and begin first.
run_clients()
{
	local all files selected=("${selected[@]}")
	[ "$pg" -eq 15 ] || [ ${#selected[@]} -gt 0 ] || selected=(pooler)
	mapfile -t all < <(matching test/clients .pl)
	mapfile -t files < <(printf '%s\n' "${all[@]}" | grep library; printf '%s\n' "${all[@]}" | grep -v library)
	[ ! -d build/node ] || cp -R build/node "$work"
	PGMQ_DIR=$pgmq_dir NODE_PATH=$work/node/node_modules:/usr/share/nodejs prove_all clients 6 "${files[@]}"
}

# The exporter and Prometheus, with the files of monitoring/.
run_monitoring()
{
	local files
	mapfile -t files < <(matching test/monitoring .pl)
	prove_all monitoring 4 "${files[@]}"
}

# Debian's packages on bare roots, PGXN's zip, the RPM spec, the image for CloudNativePG. Example for a part: packages
# bookworm dist.
run_packages()
{
	local out=$work/packages.out
	packaging/test.sh "$work/packages" "${selected[@]}" 2>&1 | tee "$out" | grep -v ' passed, .* failed$'
	suite_result "$(grep -c '^ok ' "$out")" "$(grep -c '^not ok ' "$out")"
}

# Several databases behind PL/Proxy.
run_shards()
{
	local files
	mapfile -t files < <(matching test/shards .pl)
	prove_all shards 2 "${files[@]}"
}

# pgq-web: its API, damaged requests, and its page in Chromium.
run_web()
{
	local files
	[ ! -d build/node_web ] || cp -R build/node_web "$work"
	# The tests would be skipped.
	local missing=''
	command -v pgq-web >/dev/null || missing=pgq-web
	[ -x "${CHROMIUM:-/usr/bin/chromium}" ] || missing+=' Chromium'
	NODE_PATH=$work/node_web/node_modules run node -e 'require("playwright-core")' >/dev/null || missing+=' playwright-core'
	if [ -n "$missing" ]; then
		echo "not ok web: script/setup_web.sh has to install what is missing:" $missing
		suite_result 0 1
		return
	fi
	mapfile -t files < <(matching test/web .pl)
	local -x NODE_PATH=$work/node_web/node_modules PGQ_WEB
	PGQ_WEB=$(command -v pgq-web)
	[ ${#for_web[@]} -eq 0 ] || local -x "${for_web[@]}"
	prove_all web 2 "${files[@]}"
}

# pg_auto_failover and Patroni, with the files of examples/high-availability.
run_failover()
{
	local files
	mapfile -t files < <(matching test/failover .pl)
	prove_all failover 2 "${files[@]}"
}

# Runs tests of test/t as upgrades from PostgreSQL 15 to this version.
run_pg_upgrade()
{
	local files selected=(024_upgrade 088_switch_over)
	[ "$pg" -gt 15 ] || { echo "an upgrade from 15 to $pg is none: PG=17 test/run.sh pg_upgrade"; return; }
	mapfile -t files < <(matching test/t .pl)
	# The old server only fills a data directory, so use the options that compile fastest.
	script/setup_upgrade.sh &&
		(PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config . script/private_server.sh && TOP=no COPT='-g0 -O1' private_install "$work/root") || return
	oldinstall=$work/root/usr/lib/postgresql/15 tmp_check=tmp_check_15 prove_all t 2 "${files[@]}"
}

run_pgtap()
{
	local out=$work/pgtap.out data=$work/pgtap files
	mapfile -t files < <(matching test/pgtap .sql)
	[ ${#files[@]} -gt 0 ] || return 0
	export PGHOST=$work PGUSER=postgres PGDATABASE=pgq_test
	if ! { run initdb -D "$data" -U postgres -A trust --no-locale -E UTF8 --no-sync &&
		cat test/pgq_ext.conf test/regress.conf >>"$data/postgresql.conf" &&
		run pg_ctl -D "$data" -l "$data/server.log" -o "-c listen_addresses='' -k '$work'" -w start &&
		run createdb pgq_test &&
		run psql -Xq -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION pgtap' -c 'CREATE EXTENSION pgq_ext'; } >"$out" 2>&1
	then
		cat "$out" "$data/server.log"
		suite_result 0 1
	else
		run pg_prove "${files[@]}" | tee "$out"
		tap_result "$out"
	fi
	run pg_ctl -D "$data" -m fast -w stop >/dev/null
	unset PGHOST PGUSER PGDATABASE
}

# The short form: every kind of kill, as often as one deck has it; quick: some of them. test/torture.sh runs for
# hours.
run_torture()
{
	local out=$work/torture.out ok not_ok
	if ! cmake_build torture >"$out" 2>&1; then
		tail -n 60 "$out"
		suite_result 0 1
		return
	fi
	mkdir "$work/torture" && cp build/unit/torture "$work/torture/torture"
	[ ${#as_user[@]} -eq 0 ] || chown -R "$unprivileged" "$work/torture"
	local from=()
	[ "$pg" -ne 17 ] || from=(--from "$version_before")
	local kills=31 growing="$work/torture/servers/*.log"
	[ -z "$quick" ] || kills=8
	run torture/torture --dir "$work/torture/servers" --settings "$work/test/pgq_ext.conf" --seed 1 --kills "$kills" "${from[@]}" >"$out"
	# Example: torture: 7 ok, 0 not ok, seed 1
	read -r ok not_ok < <(sed -n 's/^torture: \([0-9]*\) ok, \([0-9]*\) not ok, .*/\1 \2/p' "$out")
	[ "${not_ok:-1}" -eq 0 ] || cat "$out"
	suite_result "${ok:-0}" "${not_ok:-1}"
}

# Checks that the servers have logged no unexpected messages.
run_server_logs()
{
	local logs
	mapfile -t logs < <(find "$work" -name '*.log' -type f)
	[ ${#logs[@]} -gt 0 ] || return 0
	if test/server_logs.pl test/expected_log_lines.txt "${logs[@]}"; then
		suite_result 1 0
	else
		suite_result 0 1
	fi
}

# run_suites SUITE...: runs them one after the other
run_suites()
{
	local before n=0
	for suite in "$@"; do
		declare -F "run_$suite" >/dev/null || { echo "no suite named $suite" >&2; finish; }
		suite_start=$SECONDS
		export PGQ_TEST_SUITE=$work:$suite
		echo "== $suite: $((++n)) of $# suites, after $SECONDS s"
		before=$((passed + failed))
		[[ " ${not_set_up[*]} " == *" $suite "* ]] || "run_$suite"
		check_left_running
		# A suite without a single result has not been run.
		[ $((passed + failed)) -gt $before ] || suite_result 0 1
		[ -z "$progress" ] || echo "== $suite has ended, $n of $# beside the others, after $SECONDS s" >&"$progress"
	done
}

# Runs suites that only need processors beside those with servers, which mostly wait. The process group ends with this
# shell.
start_beside()
{
	[ ${#beside[@]} -gt 0 ] || return
	echo "== ${beside[*]}: beside the others"
	set -m
	exec {progress}>&1
	{
		run_suites "${beside[@]}"
		echo "$passed $failed" >"$work/beside.counts"
	} </dev/null >"$work/beside.out" 2>&1 &
	beside_group=$!
	exec {progress}>&-
	progress=
	set +m
}

# finish_beside: shows the output of these suites, and adds their results
finish_beside()
{
	local ok not_ok
	[ -n "$beside_group" ] || return
	wait "$beside_group" 2>/dev/null
	beside_group=
	cat "$work/beside.out"
	if ! read -r ok not_ok 2>/dev/null <"$work/beside.counts"; then
		ok=0 not_ok=1
		echo "not ok ${beside[*]}: broken off"
	fi
	passed=$((passed + ok))
	failed=$((failed + not_ok))
}

stop_beside()
{
	[ -n "$beside_group" ] || return
	kill -TERM -- "-$beside_group" 2>/dev/null
	wait "$beside_group" 2>/dev/null
	# Wait for the other processes of the group.
	for _ in {1..50}; do
		kill -0 -- "-$beside_group" 2>/dev/null || break
		sleep 0.1
	done
}

work=$(mktemp -d "${TMPDIR:-/tmp}/pgq.XXXXXX") || exit
beside_group=
guard=
progress=
trap cleanup EXIT
trap 'exit 130' INT TERM
trap 'exit 129' HUP

# Install packages before the private copy is made, since it copies what is installed.
not_set_up=()
for suite in "${suites[@]}"; do
	[ -z "$quick" ] || break
	[ ! -x "script/setup_$suite.sh" ] || "script/setup_$suite.sh" || not_set_up+=("$suite")
done
[ ${#compiled[@]} -eq 0 ] || script/setup.sh libcpp-httplib-dev pkgconf || finish

pgxs=$work/root$(dirname "$($pg_config --pgxs)")/../..
# Nothing else tests pgq-top and pgq-web. "make check" compiles pgq-web if its library is there.
top=no web=no
[[ " ${suites[*]} " != *' tap '* ]] || top=
[[ " ${quick:+web} ${compiled[*]} ${suites[*]} " != *' web '* ]] || web=
[[ "${suites[*]}" =~ ^(unit|model|packages|runner|odr)$ ]] || TOP=$top WEB=$web private_install "$work/root" || finish
[ ${#compiled[@]} -eq 0 ] || command -v pgq-web >/dev/null || { echo 'pgq-web was not built'; finish; }
[[ " ${suites[*]} " != *' shards '* ]] || install_router "$work/root" || finish
[[ ! " ${suites[*]} " =~ ' '(regress|isolation|tap|pgmq)' ' ]] || install_pgmq "$work/root" || finish
chmod 755 "$work"
cp -R sql expected test docs examples drills monitoring clients README.md CONTRIBUTING.md LICENSE META.json pgq_ext.control Makefile "$work"
[ ${#as_user[@]} -eq 0 ] || chown -R "$unprivileged" "$work"
export TMPDIR=$work PGTZ=America/Los_Angeles

start_guard "$work"
start_beside
run_suites "${suites[@]}"
finish_beside
suite=server_logs suite_start=$SECONDS
run_server_logs
echo "== the slowest tests"
sort -rn "$work/durations" 2>/dev/null | head -n 10
echo "== all of it took $SECONDS s"
finish
