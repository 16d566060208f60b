#!/bin/bash
# Installs what the suite "pgmq" needs in addition to script/setup.sh: pg_partman, for the tests of partitions.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/version.sh
script/setup.sh "postgresql-${PG:-$(newest_installed)}-partman"
