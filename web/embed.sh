#!/bin/sh
# Prints a C++ source with the files of a folder as arrays of bytes: embed.sh FOLDER > page_files.cpp
# Leaves out what browsers do not load: pages for developers.
set -eu
cd "$1"
find . -type f ! -name '*.md' | LC_ALL=C sort >"${TMPDIR:-/tmp}/pgq_web_files.$$"
trap 'rm -f "${TMPDIR:-/tmp}/pgq_web_files.$$"' EXIT
echo '/* Made by embed.sh. */'
echo '#include "files.h"'
echo
echo 'namespace web {'
echo
echo 'static const unsigned char kNothing[1] = {0};'
n=0
while IFS= read -r file; do
	n=$((n + 1))
	echo "static const unsigned char kFile$n[] = {"
	od -An -v -tu1 "$file" | sed 's/  */,/g; s/^,//; s/$/,/'
	echo '0};'
done <"${TMPDIR:-/tmp}/pgq_web_files.$$"
echo
echo 'extern const PageFile kPageFiles[] = {'
n=0
while IFS= read -r file; do
	n=$((n + 1))
	echo "	{\"${file#.}\", kFile$n, sizeof(kFile$n) - 1},"
done <"${TMPDIR:-/tmp}/pgq_web_files.$$"
echo '	{"", kNothing, 0},'
echo '};'
echo "extern const unsigned kPageFileCount = $n;"
echo
echo '} // namespace web'
