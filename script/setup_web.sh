#!/bin/bash
# Installs what the suite "web" needs in addition to script/setup.sh, on Debian 12, 13 and 14: the library of pgq-web,
# Chromium, and Node with the driver of a browser. This driver is the newest that runs with the Node of Debian 12.
set -euo pipefail
cd "$(dirname "$0")/.."
. script/npm_modules.sh

packages=(libcpp-httplib-dev pkgconf chromium)
# A Node that is not Debian's has its own npm.
command -v npm >/dev/null || packages+=(nodejs npm)
script/setup.sh "${packages[@]}" || {
	echo "setup: the suite web cannot run without these packages: ${packages[*]}" >&2
	exit 1
}
npm_install build/node_web playwright-core@1.60.0 || {
	echo 'setup: the suite web cannot run without playwright-core, which npm cannot install' >&2
	exit 1
}
