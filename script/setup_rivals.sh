#!/bin/bash
# Installs the queues beside which bench/rivals.sh puts pgq_ext, and what speaks to them, as far as they are to be had:
# that script says who is missing. Nothing is started that is not running: their packages would start services.
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
