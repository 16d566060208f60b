# shellcheck shell=bash
# Sourced by run.sh and rivals.sh. The sides take turns; the results are written to $out, one file for each workload.

# find_pgmq: sets pgmq to the path of pgmq.sql, if PGMQ_DIR is set
find_pgmq()
{
	pgmq=''
	[ -z "${PGMQ_DIR:-}" ] || {
		pgmq=$(find "$PGMQ_DIR" -path '*/sql/pgmq.sql' | head -n 1)
		[ -n "$pgmq" ] || { echo "bench: no pgmq.sql below $PGMQ_DIR" >&2; return 1; }
	}
}

declare -A statements # the file of a side in bench/sides, if it has another name than the side
declare -A database   # the database of a side, if it is not the first one

# driver SIDE: sets driver to the command that runs the side (its arguments: see bench/load/main.cpp)
driver()
{
	driver=("$load" "bench/sides/${statements[$1]:-$1}.sql")
}

# drive SIDE ARGUMENT...: runs the side
drive()
{
	driver "$1"
	PGDATABASE=${database[$1]:-${PGDATABASE:-}} "${driver[@]}" "${@:2}"
}

declare -A queued # how many jobs are in a queue
declare -A owner  # which side a queue belongs to

# fill SIDE QUEUE JOBS: adds jobs until the queue has that many
fill()
{
	local left=$(($3 - queued[$2])) part
	while [ "$left" -gt 0 ]; do
		part=$((left < 1000000 ? left : 1000000))
		drive "$1" do=fill queue="$2" jobs=$part >/dev/null || die "cannot fill $2"
		left=$((left - part))
		[ "$left" -le 0 ] || printf .
		queued[$2]=$((queued[$2] + part))
	done
}

# prepare SIDE QUEUE JOBS: brings the side into its best state, with that many jobs
prepare()
{
	if [ ! -v "queued[$2]" ]; then
		drive "$1" do=setup queue="$2" >/dev/null || die "cannot make $2"
		queued[$2]=0
		owner[$2]=$1
	fi
	fill "$@"
	drive "$1" do=vacuum queue="$2" >/dev/null && sql -c CHECKPOINT || die "cannot vacuum $2"
}

# show: begins the line of output for this turn of a side
show()
{
	printf '%3d:%02d  %2d/%d %-8s round %d/%d  %9s  %-9s' $((SECONDS / 60)) $((SECONDS % 60)) $((number + 1)) ${#workloads[@]} \
		"$workload" "$round" "$rounds" "$case" "$side"
}

# record METRIC VALUE: adds a result of this turn to the file. What failed has no value.
record()
{
	[ -n "$2" ] || die "no $1 of $side in $workload"
	printf '%s\t%s\t%s\t%s\t%s\n' "$case" "$side" "$round" "$1" "$2" >>"$out/$workload.tsv"
}

# run_load QUEUE ARGUMENT...: runs $side, and leaves the results in $work/measured
run_load()
{
	drive "$side" queue="$1" "${@:2}" >"$work/measured" || die "$side came to grief"
}

# measured METRIC: prints a result of the last run_load
measured()
{
	awk -F '\t' -v metric="$1" '$1 == metric { print $2 }' "$work/measured"
}

# turn JOBS LOAD-ARGUMENT...: $side does its work once, with that many jobs queued at the start
turn()
{
	local queue=${queue:-$side} metric value
	show
	prepare "$side" "$queue" "$1"
	run_load "$queue" warm_up=$warm_up "${@:2}"
	while IFS=$'\t' read -r metric value; do
		record "$metric" "$value"
	done <"$work/measured"
	case $* in
		*do=claim*|*do=ack_claim*) queued[$queue]=$((queued[$queue] - $(measured 'done'))) ;;
		*do=enqueue\ *) queued[$queue]=$((queued[$queue] + $(measured 'done'))) ;;
	esac
	printf ' %9d/s\n' "$(measured rate)"
}

# count_jobs: checks after a workload that no job was lost, and none was done twice
count_jobs()
{
	local queue left
	for queue in "${!queued[@]}"; do
		left=$(drive "${owner[$queue]}" do=count queue="$queue") || die "cannot count $queue"
		[ "$left" -eq "${queued[$queue]}" ] || die "$queue has $left jobs, but should have ${queued[$queue]}"
	done
}

# piece LOAD-ARGUMENT...: $side does its work once, in a workload without jobs in a queue
piece()
{
	local metric value
	show
	run_load "$side" "$@"
	while IFS=$'\t' read -r metric value; do
		record "$metric" "$value"
	done <"$work/measured"
}

# machine: prints the machine and the versions used, for $out/machine.txt
machine()
{
	printf 'form\t%s\n' "$form"
	printf 'date\t%s\n' "$(date -u +%F)"
	printf 'processor\t%s\n' "$(nproc) x $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
	printf 'memory\t%s\n' "$(awk '/^MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo)"
	printf 'system\t%s\n' "$(. /etc/os-release && echo "$PRETTY_NAME"), Linux $(uname -r)"
	printf 'PostgreSQL\t%s\n' "$(postgres --version | sed 's/^postgres (PostgreSQL) //')"
	printf 'settings\t%s\n' "$(sed -n "/^shared_preload/,\$p" "$work/empty/postgresql.conf" | grep -v '_director\|^log_' | paste -sd, | sed 's/,/, /g')"
	printf 'command\t%s\n' "${pgmq:+PGMQ_DIR=... }bench/run.sh $form"
	printf 'pgq_ext\t%s\n' "$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" pgq_ext.control), commit $(git rev-parse --short HEAD 2>/dev/null)"
	[ -z "$pgmq" ] || printf 'pgmq\t%s\n' "$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" "${pgmq%/sql/*}/pgmq.control")"
}
