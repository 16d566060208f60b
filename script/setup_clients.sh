#!/bin/bash
# Installs what the suite "clients" needs beside script/setup.sh, on Debian 12 and 13: other languages, their drivers, pgbouncer.
# Where npm is, it brings the driver, and the queues whose jobs docs/migrate.md moves: a node that is not Debian's cannot have
# Debian's packages beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/no_services.sh

packages=(
	pgbouncer
	default-jdk-headless libpostgresql-jdbc-java
	golang-go golang-github-jackc-pgx-v4-dev golang-github-lib-pq-dev
	ruby ruby-pg
	php-cli php-pgsql
)

# npm_modules MODULE@VERSION...: into build/node
npm_modules()
{
	local stamp
	stamp=build/node/stamp.$(cksum <<<"$*" | cut -d ' ' -f 1)
	[ ! -e "$stamp" ] || return 0
	command -v npm >/dev/null && mkdir -p build/node &&
		npm install --prefix build/node --no-audit --no-fund --silent --no-save "$@" >/dev/null 2>&1 &&
		touch "$stamp"
}

npm_modules pg@8.23.1 graphile-worker@0.17.3 pg-boss@10.4.2 || packages+=(nodejs node-pg)

no_services pgbouncer # its package would start one
script/setup.sh "${packages[@]}"
