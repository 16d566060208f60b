#!/bin/bash
# Installs what the suite "shards" needs beside script/setup.sh: PL/Proxy for the PostgreSQL that is tested.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/version.sh
script/setup.sh "postgresql-${PG:-$(newest_installed)}-plproxy"
