# shellcheck shell=bash
# Sourced by scripts that need modules of Node: a driver, TypeScript, and the queues with which pgq_ext is compared; and
# the driver of a browser. The versions of the former are the newest that run with Node 20.

# npm_modules: installs them into build/node
npm_modules()
{
	npm_install build/node pg@8.23.1 graphile-worker@0.17.3 pg-boss@10.4.2 \
		typescript@5.9.3 @types/pg@8.23.1 @types/node@20.19.43
}

# npm_install FOLDER MODULE...: installs these modules, unless they are there
npm_install()
{
	local folder=$1 modules=("${@:2}")
	local stamp
	stamp=$folder/stamp.$(cksum <<<"${modules[*]}" | cut -d ' ' -f 1)
	[ ! -e "$stamp" ] || return 0
	command -v npm >/dev/null && mkdir -p "$folder" &&
		npm install --prefix "$folder" --no-audit --no-fund --silent --no-save "${modules[@]}" >/dev/null 2>&1 &&
		touch "$stamp"
}
