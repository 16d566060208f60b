#!/bin/bash
# Installs what the suite "monitoring" needs in addition to script/setup.sh, on Debian 12 and 13: Prometheus with
# promtool, and the exporter. Keeps their packages from starting services.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/no_services.sh
no_services prometheus prometheus-postgres-exporter
script/setup.sh prometheus prometheus-postgres-exporter
