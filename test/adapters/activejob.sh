#!/bin/bash
# Runs the tests of Active Job, of the version that Debian has, with clients/activejob. In the unit tests each job runs as soon as
# it is enqueued; the integration tests have a Rails application and its worker. Last line: N passed, N failed.
set -u
. "$(dirname "$0")/foreign.sh"
begin ruby ruby-pg ruby-activejob ruby-activerecord ruby-railties ruby-mocha ruby-sqlite3
source_of rails
start_server

suite=$(echo "$foreign"/rails-*/activejob)
shims=$PWD/test/adapters/activejob
client=$PWD/clients/activejob
cp -R "$shims/." "$suite/test"
# Some tests run only with the adapters that they name. They treat this adapter like that of que.
sed -i 's/adapter_is?(\(.*\):que\b/adapter_is?(\1:que, :pgq/' "$suite"/test/*/*_test.rb
# The application of the integration tests uses the packages of Debian, without Bundler.
sed -i 's|^require "#{dummy_app_path}/config/environment.rb"|File.write("#{dummy_app_path}/config/boot.rb", "")\
application = "#{dummy_app_path}/config/application.rb"\
File.write(application, File.read(application).sub(/^Bundler.require.*/, ""))\
&|
	s/"--skip-spring"/"--skip-spring", "--skip-bootsnap", "--skip-active-storage", "--skip-action-mailer", "--skip-action-mailbox", "--skip-action-text", "--skip-action-cable", "--skip-sprockets"/' "$suite/test/support/integration/helper.rb"
cd "$suite" || exit

# tests NAME FILE...: runs the files in one process, and adds their results
passed=0
failed=0
tests()
{
	local name=$1 good bad
	shift
	AJ_ADAPTER=pgq RAILS_ENV=test LANG=C.UTF-8 LC_ALL=C.UTF-8 timeout 600 \
		ruby -I"$client/lib" -Itest -e 'ARGV.each { |file| require "./#{file}" }' "$@" >"$foreign/out" 2>&1
	# Example: 330 runs, 700 assertions, 0 failures, 0 errors, 3 skips
	read -r runs failures errors skips < <(sed -n 's/^\([0-9]*\) runs, [0-9]* assertions, \([0-9]*\) failures, \([0-9]*\) errors, \([0-9]*\) skips.*/\1 \2 \3 \4/p' "$foreign/out")
	bad=$((${failures:-1} + ${errors:-0}))
	good=$((${runs:-0} - bad - ${skips:-0}))
	[ -n "${runs:-}" ] || good=0
	echo "$name: $good passed, $bad failed, ${skips:-0} skipped"
	[ "$bad" -eq 0 ] || tail -n 400 "$foreign/out"
	passed=$((passed + good))
	failed=$((failed + bad))
}

tests cases test/cases/*_test.rb
AJ_INTEGRATION_TESTS=1 SKIP_REQUIRE_WEBPACKER=true tests integration test/integration/*_test.rb
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
