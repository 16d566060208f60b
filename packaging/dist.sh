#!/bin/bash
# Makes the zip for PGXN, of what is committed, and checks it by PGXN's rules:
#
#   packaging/dist.sh DIR      DIR/pgq_ext-VERSION.zip
#
# The install script, which make would put together of src/schema, is in it: it is what META.json calls the extension's file.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:?where to?}
mkdir -p "$dir"

git()
{
	command git -c safe.directory='*' "$@"
}

version=$(perl -MJSON::PP -0777 -ne 'print decode_json($_)->{version}' META.json)
zip=$dir/pgq_ext-$version.zip
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

git archive HEAD | tar -x -C "$tmp"
script=$(sed -n "s/^default_version *= *'\(.*\)'/pgq_ext--\1.sql/p" "$tmp/pgq_ext.control")
cat "$tmp"/src/schema/*.sql >"$tmp/$script"
git archive --format=zip --prefix="pgq_ext-$version/" --add-file="$tmp/$script" -o "$zip" HEAD
packaging/meta_check.pl "$zip"
echo "$zip"
