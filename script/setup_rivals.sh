#!/bin/bash
# Installs the queues with which bench/rivals.sh compares pgq_ext, and their clients, as far as they are available;
# that script reports missing ones. Keeps their packages from starting services.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. script/no_services.sh
. script/npm_modules.sh
. script/version.sh
no_services redis-server rabbitmq-server beanstalkd pgqd
script/setup.sh || exit

for packages in redis-server rabbitmq-server beanstalkd 'libhiredis-dev librabbitmq-dev' \
	"postgresql-${PG:-$(newest_installed)}-pgq3 pgqd"; do
	# shellcheck disable=SC2086
	script/setup.sh $packages 2>/dev/null || echo "setup: $packages cannot be had" >&2
done
npm_modules || echo 'setup: graphile-worker and pg-boss cannot be had without Node and npm' >&2
