#!/bin/bash
# As test/run.sh, on a server with assertions and with the library under the address and undefined behaviour sanitizers:
#
#   test/strict.sh SUITE [TEST...]
#   PG=18 test/strict.sh regress
set -euo pipefail
cd "$(dirname "$0")/.."
. script/version.sh
elsewhere test/strict.sh "$@"
script/setup.sh bzip2 bison flex libicu-dev pkg-config # from 17 on PostgreSQL's source comes without what these make
pg_config=$(script/assert_server.sh)
PG_CONFIG=$pg_config SANITIZE=address,undefined exec test/run.sh "$@"
