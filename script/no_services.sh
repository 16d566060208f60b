# shellcheck shell=bash
# Sourced by scripts that install packages which would start a service of their own.

root=()
[ "$(id -u)" -eq 0 ] || root=(sudo)
policy=/usr/sbin/policy-rc.d

# no_services PACKAGE...: until the script ends nothing is started, if one of these is still to be installed. A policy that is
# there already is somebody's, and stays.
no_services()
{
	local package
	for package in "$@"; do
		if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ] && [ ! -e $policy ]; then
			trap '"${root[@]}" rm -f $policy' EXIT
			printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null
			"${root[@]}" chmod 755 $policy
			return
		fi
	done
}
