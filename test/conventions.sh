#!/bin/bash
# Checks conventions that no compiler checks. Prints "ok NAME" or "not ok NAME" for each, after a line for each
# violation.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export LC_ALL=C
shopt -s lastpipe
status=0

# convention NAME: succeeds if standard input is empty
convention()
{
	if grep . ; then
		echo "not ok $1"
		status=1
	else
		echo "ok $1"
	fi
}

# shape CHECK NAME: a check of test/shape.pl
shape()
{
	test/shape.pl "$1" 2>&1 | convention "$2"
}

# Works also if the tree belongs to another user.
git()
{
	command git -c safe.directory='*' "$@"
}

sources()
{
	find src shared top web test bench \( -name "*.cpp" -o -name "*.h" \) ! -name page_files.cpp 2>/dev/null
}

# scheduled FILE: prints the names of the tests in a schedule
scheduled()
{
	sed -n 's/^test: *//p' "$1" | tr -s ' ' '\n' | sort
}

# names DIR SUFFIX: prints the names of the files, without the suffix
names()
{
	find "$1" -name "*$2" -printf '%f\n' 2>/dev/null | sed "s/\\$2\$//" | sort
}

# Some of the checks below read the files that git lists.
git ls-files --error-unmatch README.md 2>&1 >/dev/null | convention 'git lists the files'

# Only src/pg knows the server's headers and versions.
sources | grep -v '^src/pg/' | xargs -r grep -n 'PG_VERSION_NUM' |
	convention 'server versions are told apart in src/pg only'

grep -rnH --exclude-dir=pg --include='*.cpp' --include='*.h' '^ *# *include *"' src | while IFS=: read -r file line text; do
	header=${text#*\"}
	header=${header%%\"*}
	[ -e "src/$header" ] || [ -e "${file%/*}/$header" ] || echo "$file:$line: $header"
done | convention 'server headers are included in src/pg only'

grep -rnE '# *include *"(\.\./)*(pg|engine|txn|catalog|rows|load|ring|jobs|worker|api)/' src/core test/unit 2>/dev/null |
	convention 'src/core knows nothing of the server'

grep -rnE '^# *include *<libpq-fe.h>|\bPQ[a-z][A-Za-z]+\(' test bench shared top web --include='*.cpp' --include='*.h' |
	grep -vE '^(test/pq/|top/link\.cpp:|web/connection\.cpp:)' | convention 'libpq is spoken in test/pq, top/link.cpp and web/connection.cpp only'
grep -rnE '^# *include *<n?curses.h>' shared top web test --include='*.cpp' --include='*.h' | grep -v '^top/terminal.cpp:' |
	convention 'ncurses is spoken in top/terminal.cpp only'
grep -rnE --include='*.p[lm]' -e '->\{(stdin|stdout|stderr|query_cnt)\}|background_psql' test | grep -v '^test/perl/Session.pm:' |
	convention 'the insides of BackgroundPsql are used in test/perl/Session.pm only'

grep -rnE '# *include *"(\.\./)*(top|web|src)/' shared | convention 'shared includes nothing of the programs'

# Released files do not change.
(cd upgrade && sha256sum --check --quiet released.sha256 2>&1) | convention 'released versions are what they were'
comm -3 <(find upgrade -name 'pgq_ext--*.sql' ! -name 'pgq_ext--*--*.sql' -printf '%f\n' | sort) <(cut -d ' ' -f 3 upgrade/released.sha256 | sort) |
	convention 'each released version has a checksum'

# The supported versions of PostgreSQL: packages are built and tested for the same ones that the pages name.
{
	comm -3 <(sort debian/pgversions) <(grep -oE '\[[0-9]+\]=' script/version.sh | tr -d '[]=' | sort)
	comm -3 <(sort debian/pgversions) <(sed -n 's/^| PostgreSQL \([0-9]*\) | Debian .*/\1/p' docs/install.md | sort)
	grep -qF "\"PostgreSQL\": \"$(sort -n debian/pgversions | head -n 1).0.0\"" META.json || echo 'META.json: another oldest one'
} | convention 'the versions of PostgreSQL are the same everywhere'

# The shape of the code.
shape rooms 'folders include what stands below them'
shape circles 'units of a folder do not include each other in a circle'
shape locks 'locks of queues are taken in src/engine only'
shape clocks 'clocks are read in src/pg/clock.* only'
shape functions 'functions are short'
shape comments 'long functions say their steps'
shape files 'files are short'
shape types 'types of a .cpp file are in an unnamed namespace'
shape names 'a name of a function is used in one file of a room'

# Every test runs.
comm -3 <(names sql .sql) <(names expected .out | sed 's/_[0-9]$//' | sort -u) |
	convention 'each sql/*.sql has an expected/*.out and the other way round'
comm -3 <(names sql .sql) <(cat test/{regress,before}.schedule | scheduled /dev/stdin | sort -u) |
	convention 'each sql/*.sql is in a schedule'
comm -3 <(names test/isolation/specs .spec) <(names test/isolation/expected .out | sed 's/_[0-9]$//' | sort -u) |
	convention 'each isolation spec has an expected output and the other way round'
comm -3 <(names test/isolation/specs .spec) <(scheduled test/isolation.schedule) |
	convention 'each isolation spec is in test/isolation.schedule'

# Symbols that the library needs from its process, and symbols that it exports.
if [ -e pgq_ext.so ]; then
	{
		nm -D --undefined-only pgq_ext.so | grep -v ' __cxa_finalize' |
			grep -E ' (_Z|__cxa|__gxx|_Unwind)|GLIBCXX|CXXABI'
		objdump -p pgq_ext.so | grep -E 'NEEDED.*(stdc\+\+|libgcc)'
	} | convention 'the library needs nothing of libstdc++'
	nm -D --defined-only pgq_ext.so | awk '{ print $NF }' |
		grep -vE '^(Pg_magic_func|_PG_init|pg_finfo_pgq_[a-z_0-9]+|pgq_[a-z_0-9]+)$' |
		convention 'the library exports entry points only'
else
	echo 'pgq_ext.so is not built' | convention 'the library is built'
fi

# Names in the documentation exist. (Tests 047 and 048 in test/t check that its statements are true.)
git ls-files '*.md' | while read -r page; do
	grep -oE '\]\([^): ]+\)' "$page" | sed 's/^](//; s/)$//' | sort -u | while read -r target; do
		file=$(dirname "$page")/${target%%#*}
		[ -n "${target%%#*}" ] || file=$page
		[ -e "$file" ] || echo "$page: $target"
		[[ $target != *#* ]] || sed -n 's/^##* *//p' "$file" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' |
			grep -cxF "${target#*#}" >/dev/null || echo "$page: $target"
	done
done | convention 'links lead to files and headings'
awk '/^## / && !/^## \[[0-9]+\.[0-9]+\.[0-9]+\] - (unreleased|[0-9]+-[0-9]+-[0-9]+)$/ { print FILENAME ":" FNR ": heading" }
	/^### / && !/^### (Added|Changed|Deprecated|Removed|Fixed|Security)$/ { print FILENAME ":" FNR ": heading" }
	/^- / && length > 200 { print FILENAME ":" FNR ": longer than 200" }
	/^- / && seen[$0]++ { print FILENAME ":" FNR ": twice" }
	/^ / { print FILENAME ":" FNR ": goes on" }' CHANGELOG.md | convention 'the changelog has one short fact a line'
awk 'function judge() { if (question != "" && (words > 80 || !leads)) print FILENAME ": " question }
	/^#/ { judge(); question = /^### / ? $0 : ""; words = leads = 0; next }
	{ words += NF; if (/\]\(/) leads = 1 }
	END { judge() }' docs/faq.md | convention 'answers of the FAQ are short and lead to a page'
codes=$(sed -n '/^## Errors/,$p' docs/reference.md)
errcodes=$(${PG_CONFIG:-pg_config} --sharedir)/errcodes.txt
grep -rhoE --include='*.cpp' --include='*.h' 'ERRCODE_[A-Z_]+' src | sort -u | while read -r name; do
	code=$(awk -v name="$name" '$3 == name { print $1 }' "$errcodes")
	grep -q "^|[^|]*\b$code\b" <<<"$codes" || echo "docs/reference.md: $code ($name)"
done | convention 'every SQLSTATE is in the reference'

grep -rnoE --include='*.cpp' --include='*.h' --include='*.md' --include='*.sql' --include='*.pl' --include='*.pml' --include='*.spec' \
	'\(protocol: [a-z-]+\)' src test bench sql docs README.md | while IFS=: read -r file line _ rule; do
	grep -qF "**${rule//[ )]/}.**" docs/protocol.md || echo "$file:$line: $rule"
done | convention 'rules that comments name are in docs/protocol.md'
grep -rnP --include='*.cpp' --include='*.h' --include='*.md' --include='*.sql' --include='*.pl' --include='*.pml' --include='*.spec' \
	'\b(?:[ABC](?:[1-9]|10)|I[1-9]|R[1-7]|L(?:[1-9]|1[0-6]))\b' src test bench sql docs README.md |
	convention 'rules are named, not numbered'
grep -oE '`[^`]+`' docs/protocol.md | tr -d '`' | sort -u | while read -r name; do
	[ -e "$name" ] || [ -e "src/$name" ] || grep -rqF --exclude-dir=t -- "${name##*::}" src test || find test -name "$name" | grep -q . ||
		echo "docs/protocol.md: $name"
done | convention 'what docs/protocol.md names is there'
awk -F '|' '/^\|/ { print $5 }' docs/glossary.md | grep -oE '`[^`]+`' | tr -d '`' | sort -u | while read -r name; do
	compgen -G "src/$name" >/dev/null || grep -rqF -- "${name##*::}" src || echo "docs/glossary.md: $name"
done | convention 'what docs/glossary.md names in the code is there'
comm -3 <(grep -oE '^\*\*[a-z-]+\.\*\*' docs/protocol.md | tr -d '*.' | sort) \
	<(sed -n 's/^| \([a-z, -]*\) | .*/\1/p' docs/servers.md | tr -s ', ' '\n' | grep '[a-z]-' | sort) |
	convention 'each rule is in docs/servers.md, once'
git ls-files '*README.md' 'src/*.md' CONTRIBUTING.md docs/architecture.md docs/protocol.md docs/servers.md | while read -r page; do
	awk -v page="$page" '/^```/ { code = !code } !code && length > 100 && !/^\|/ && / / { print page ":" FNR }' "$page"
done | convention 'pages on the inside are wrapped at 100 columns'

# Form.
{ sources; git ls-files '*.sql' '*.sh' '*.pl' '*.pml' '*.md' Makefile CMakeLists.txt; } 2>/dev/null | sort -u |
	xargs -r grep -nHP '[^\x00-\x7F]|[ \t]+$' -- 2>/dev/null |
	grep -v '^\(expected\|sql\)/' | convention 'text is ASCII, without trailing blanks'

grep -rlE '^#!/bin/(ba)?sh' script test quickstart bench drills examples packaging debian .ci 2>/dev/null | xargs -r -n 1 bash -n 2>&1 | convention 'shell scripts parse'

if command -v clang-format-14 >/dev/null; then
	sources | xargs -r clang-format-14 --dry-run 2>&1 | sed -n 's/:.*clang-format-violations.*//p' | sort -u |
		convention 'C++ is formatted (make format)'
fi

if command -v gofmt >/dev/null; then
	git ls-files 'clients/go/*.go' | xargs gofmt -l | convention 'the library for Go is formatted (gofmt)'
fi
# Exported names of the library for Go have comments.
git ls-files 'clients/go/*.go' 'clients/go/pgx*/*.go' | grep -v '_test\.go$' |
	xargs awk '/^(func|type|const) (\([a-z]+ \*?[A-Z][A-Za-z]*\) )?[A-Z]/ && last !~ /^\/\// { print FILENAME ":" FNR ": " $0 } { last = $0 }' |
	convention 'exported names of the library for Go have comments'

exit $status
