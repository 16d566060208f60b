# shellcheck shell=bash
# Sourced by run.sh: the workload "libraries". Each side is a program of one process, a worker with a library, or an example to copy.
# How many jobs are left is counted in the database. SIDES='...' runs only these.

library_sides=(node node_ahead node_example graphile_worker graphile_worker_many pg_boss pg_boss_many python asyncio python_example go go_example)

# missing_library SIDE: says why the side cannot take part; fails if it can
missing_library()
{
	case $1 in
		node* | graphile* | pg_boss*) command -v node >/dev/null && [ -d build/node/node_modules/graphile-worker ] || echo 'no Node with its modules' ;;
		python* | asyncio) /usr/bin/python3 -c 'import psycopg' 2>/dev/null || echo 'no python3-psycopg' ;;
		go) [ -x "$work/go/library" ] || echo 'clients/go cannot be built' ;;
		go_example) [ -x "$work/go/noop" ] || echo 'examples/worker.go cannot be built' ;;
	esac | grep .
}

# example FILE KIND: prints the example with another handler: one that does nothing, or one that updates a row
example()
{
	local update='UPDATE account SET n = n + 1 WHERE id = ($1 % 1000)::int'
	case $1-$2 in
		*.js-noop) sed "/INSERT INTO sent/d" "examples/$1" ;;
		*.js-update) sed "s/await db.query('INSERT INTO sent.*/await db.query('$update', [job_id]);/" "examples/$1" ;;
		*.py-noop) sed 's/db.execute("INSERT INTO sent.*/pass/' "examples/$1" ;;
		*.py-update) sed "s/db.execute(\"INSERT INTO sent.*/db.execute(\"${update/\$1 %/%s %%}\", [job_id])/" "examples/$1" ;;
		*.go-noop) sed 's/_, err := tx.Exec(ctx, "INSERT INTO sent.*/var err error/' "examples/$1" ;;
		*.go-update) sed "s/_, err := tx.Exec(ctx, \"INSERT INTO sent.*/_, err := tx.Exec(ctx, \"${update/\$1 %/\$1::bigint %}\", j.id)/" "examples/$1" ;;
	esac
}

# Builds the programs in Go, as far as that is possible here.
build_go()
{
	local kind module
	module=$(sed -n 's/^module //p' clients/go/go.mod 2>/dev/null)
	module=${module:-pgqext}
	mkdir -p "$work/go/src/$(dirname "$module")" "$work/go/src/library"
	ln -s "$PWD/clients/go" "$work/go/src/$module"
	sed "s|MODULE|$module|" bench/libraries/library.go >"$work/go/src/library/main.go"
	for kind in noop update; do
		example worker.go $kind >"$work/go/$kind.go"
		GOPATH=$work/go:/usr/share/gocode GO111MODULE=off go build -o "$work/go/$kind" "$work/go/$kind.go"
	done
	GOPATH=$work/go:/usr/share/gocode GO111MODULE=off go build -o "$work/go/library" library
} >"$work/go.log" 2>&1

# library_program SIDE KIND CONCURRENCY: sets program to the command that runs the side
library_program()
{
	local way=one
	case $1 in
		node) program=(node bench/libraries/library.js "$2" "$3") ;;
		node_ahead) program=(node bench/libraries/library.js "$2" "$3" 0.05) ;;
		graphile_worker* | pg_boss*)
			[[ $1 != *_many ]] || way=many
			program=(node "bench/libraries/${1%_many}.mjs" $way "$2" "$3") ;;
		python) program=(/usr/bin/python3 bench/libraries/library.py threads "$2" "$3") ;;
		asyncio) program=(/usr/bin/python3 bench/libraries/library.py asyncio "$2" "$3") ;;
		go) program=("$work/go/library" "$2" "$3") ;;
		node_example) program=(node "$work/example_$2.js") ;;
		python_example) program=(/usr/bin/python3 "$work/example_$2.py") ;;
		go_example) program=(env "DATABASE_URL=host=$PGHOST" "$work/go/$2") ;;
	esac
}

# library_jobs SIDE: sets table, and left to the query that counts its jobs, and add and after to what is around the jobs in one that adds some
library_jobs()
{
	after=''
	case $1 in
		graphile*) table=graphile_worker._private_jobs left='FROM graphile_worker._private_jobs'
			add="SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
				SELECT ('mail', payload::json, null, null, null, null, null, null)::graphile_worker.job_spec" after='))' ;;
		pg_boss*) table=pgboss.job left="FROM pgboss.job WHERE name = 'mail' AND state < 'completed'"
			add="INSERT INTO pgboss.job (name, data) SELECT 'mail', payload" ;;
		*) table=pgq_ext.job left='FROM pgq_ext.job'
			add="SELECT count(pgq_enqueue('mail', payload))" ;;
	esac
}

# sample: prints the time, and how many jobs are left
sample()
{
	sql -c "SELECT extract(epoch FROM clock_timestamp()), (SELECT count(*) $left)"
}

# run_library KIND CONCURRENCY: $side works for $seconds, or until a tenth of its jobs is left. Records the rate.
run_library()
{
	local table left add after program now count begin first pid library_stock=$library_stock
	[[ $side != pg_boss* || $library_stock -lt 5000 ]] || library_stock=5000 # each fetch sorts all waiting jobs
	show
	library_jobs "$side"
	library_program "$side" "$@"
	read -r now count < <(sample)
	sql -c "$add FROM (SELECT jsonb_build_object('to', 'somebody@example.com', 'template', i % 1000) AS payload
		FROM generate_series(1, $library_stock - $count) i) AS new $after" >/dev/null &&
		sql -c "VACUUM ANALYZE $table" -c 'VACUUM ANALYZE account' -c CHECKPOINT || die 'cannot fill'
	"${program[@]}" >"$work/library.log" 2>&1 &
	pid=$!
	until read -r now count < <(sample) && [ "$count" -lt "$library_stock" ]; do
		kill -0 $pid 2>/dev/null || die "$side has ended"
		sleep 0.05
	done
	sleep $warm_up
	read -r begin first < <(sample)
	for ((i = 0; i < seconds_in_tenths; i++)); do
		sleep 0.1
		read -r now count < <(sample)
		[ "$count" -gt $((library_stock / 10)) ] || break
	done
	kill $pid
	wait $pid 2>/dev/null
	record rate "$(awk -v a="$begin" -v b="$now" -v jobs=$((first - count)) 'BEGIN { print jobs / (b - a) }')"
	printf ' %9.0f/s\n' "$(tail -n 1 "$out/$workload.tsv" | cut -f 5)"
}

run_libraries()
{
	local side here=() why kind seconds_in_tenths
	seconds_in_tenths=$(awk -v s="$seconds" 'BEGIN { printf "%d", s * 10 }')
	script/setup_clients.sh || die 'their packages cannot be installed'
	export NODE_PATH=$PWD/build/node/node_modules
	build_go
	for kind in noop update; do
		example worker.js $kind >"$work/example_$kind.js"
		example worker_psycopg.py $kind >"$work/example_$kind.py"
	done
	for side in ${SIDES:-"${library_sides[@]}"}; do
		if why=$(missing_library "$side"); then echo "left out: $side: $why"; else here+=("$side"); fi
	done
	fresh_server
	sql -c "SELECT pgq_create_queue('mail', lease_time => '1 min')" -c 'CREATE TABLE account (id int PRIMARY KEY, n bigint) WITH (fillfactor = 50)' \
		-c 'INSERT INTO account SELECT i, 0 FROM generate_series(0, 999) i' >/dev/null || die 'no queue'
	for side in graphile_worker pg_boss; do
		missing_library $side >/dev/null || node bench/libraries/$side.mjs setup || die "$side cannot be installed"
	done
	for ((round = 1; round <= rounds; round++)); do
		for case in "${library_cases[@]}"; do
			for side in "${here[@]}"; do
				[[ $side$case != *_example*[0-9]0 ]] || continue # an example has one job at a time
				[[ "$side $case" != *_many\ *\ 1 ]] || continue
				run_library $case
			done
		done
	done
}
