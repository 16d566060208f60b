#!/bin/bash
# Installs what the suite "failover" and examples/high-availability need in addition to script/setup.sh, on Debian 12:
# pg_auto_failover, Patroni and etcd. Keeps their packages from starting services.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/no_services.sh
packages=(pg-auto-failover-cli postgresql-15-auto-failover patroni etcd-server)
no_services "${packages[@]}"
script/setup.sh "${packages[@]}" python3-psycopg
