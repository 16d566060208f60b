#!/bin/bash
# Installs what the suite "tap" needs in addition to script/setup.sh: the drivers of the programs in docs/clients.md.
# The TAP tests with only one server, which "make check" runs, do not need them.
set -euo pipefail
cd "$(dirname "$0")/.."
script/setup.sh python3-psycopg python3-psycopg2 python3-asyncpg
