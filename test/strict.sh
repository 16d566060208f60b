#!/bin/bash
# Like test/run.sh, on a server with assertions, and with the library under the address and undefined behaviour
# sanitizers:
#
#   test/strict.sh SUITE [TEST...]
#   PG=18 test/strict.sh regress
#   PG=19 test/strict.sh --or 18 regress    with 18 if there is no source package of 19; the output says so
set -euo pipefail
cd "$(dirname "$0")/.."
. script/version.sh
if [ "${1:-}" = --or ]; then
	other=${2:?which PostgreSQL instead?}
	shift 2
	: "${PG:=$(newest_installed)}"
	status=0
	test/strict.sh "$@" || status=$?
	[ $status -eq 3 ] || exit $status
	echo "PostgreSQL $PG cannot be built with assertions, for want of its source: with $other instead"
	PG=$other exec test/strict.sh "$@"
fi
elsewhere test/strict.sh "$@"
script/setup.sh bzip2 bison flex libicu-dev pkg-config # from 17 on PostgreSQL's source comes without what these make
pg_config=$(script/assert_server.sh)
PG_CONFIG=$pg_config SANITIZE=address,undefined exec test/run.sh "$@"
