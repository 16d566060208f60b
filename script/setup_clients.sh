#!/bin/bash
# Installs what the suite "clients" needs in addition to script/setup.sh, on Debian 12 and 13: other languages, their
# drivers, pgbouncer. If npm is installed, also installs the driver for Node, TypeScript, and the queues from
# which docs/migrate.md migrates. (Debian's packages of these cannot be installed beside a Node that is not Debian's.)
set -euo pipefail
cd "$(dirname "$0")/.."
. script/no_services.sh
. script/npm_modules.sh

packages=(
	pgbouncer
	python3-psycopg python3-psycopg2 python3-asyncpg
	python3-setuptools python3-wheel python3-pip mypy
	default-jdk-headless libpostgresql-jdbc-java
	golang-go golang-github-jackc-pgx-v4-dev golang-github-lib-pq-dev
	ruby ruby-pg
	php-cli php-pgsql
	python3-kombu python3-celery # for clients/kombu
	php-symfony-messenger php-symfony-console php-symfony-event-dispatcher # for clients/symfony
	ruby-activejob ruby-activerecord                                       # for clients/activejob
)

npm_modules || packages+=(nodejs node-pg node-typescript)

no_services pgbouncer # its package would start one
script/setup.sh "${packages[@]}"
