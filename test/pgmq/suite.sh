# shellcheck shell=bash
# Sourced by run.sh. The suite pgmq runs the regression and isolation tests of the original pgmq against the extension pgmq of this
# project. PGMQ_DIR is a checkout of the original, which has the tests: they are not a part of this repository. A test passes if
# test/pgmq/differences lists each difference of its output.

# original_tests KIND: prints the names of the original's tests of that kind (sql or specs)
original_tests()
{
	local file name
	for file in "$work/original/$1"/*; do
		name=$(basename "$file")
		name=${name%.*}
		if [ ${#selected[@]} -eq 0 ] || [[ " ${selected[*]} " == *" $name "* ]]; then echo "$name"; fi
	done
}

# run_original PROGRAM KIND: runs the original's tests of that kind with pg_regress or pg_isolation_regress, and compares their output
run_original()
{
	local names out=$work/pgmq/$2 growing="$work/pgmq/$2/results/*"
	mapfile -t names < <(original_tests "$2")
	[ ${#names[@]} -gt 0 ] || return 0
	run "$pgxs/src/test/$1" --inputdir="$work/original" --outputdir="$out" --bindir= --temp-instance="$out/instance" \
		--temp-config="$work/test/pgq_ext.conf" --encoding=UTF8 --no-locale --load-extension=pgq_ext "${names[@]}" >"$out.out"
	compgen -G "$out/results/*.out" >/dev/null || { tail -n 20 "$out.out" "$out"/log/*.log; return 1; }
	run test/pgmq/compare.pl test/pgmq/differences "$work/original" "$2" "$out/results" "${names[@]}" | tee -a "$work/pgmq.out"
}

run_pgmq()
{
	local base
	base=$(find "${pgmq_dir:-/nowhere}" -path '*/test/sql/base.sql' 2>/dev/null | head -n 1)
	if [ -z "$base" ]; then
		echo 'PGMQ_DIR names no directory with the tests of pgmq'
		suite_result 0 1
		return
	fi
	echo "pgmq $(sed -n "s/^default_version *= *'\(.*\)'/\1/p" "${base%/test/sql/base.sql}/pgmq.control")"
	cp -R "${base%/sql/base.sql}" "$work/original" && mkdir "$work/pgmq" || return
	[ ${#as_user[@]} -eq 0 ] || chown -R "$unprivileged" "$work/original" "$work/pgmq"
	run_original regress/pg_regress sql
	run_original isolation/pg_isolation_regress specs
	suite_result "$(grep -c '^ok ' "$work/pgmq.out")" "$(grep -c '^not ok ' "$work/pgmq.out")"
}
