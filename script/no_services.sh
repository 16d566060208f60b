# shellcheck shell=bash
# Sourced by scripts that install packages which would start a service of their own.

root=()
[ "$(id -u)" -eq 0 ] || root=(sudo)
policy=/usr/sbin/policy-rc.d

# no_services PACKAGE...: if one of these is still to be installed, keeps services from being started until the script
# ends. An existing policy-rc.d is the administrator's, and stays.
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
