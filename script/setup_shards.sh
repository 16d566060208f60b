#!/bin/bash
# Installs what the suite "shards" needs in addition to script/setup.sh: PL/Proxy for the PostgreSQL that is tested,
# and the driver of examples/worker_shards.py.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/version.sh
script/setup.sh python3-psycopg "postgresql-${PG:-$(newest_installed)}-plproxy"
