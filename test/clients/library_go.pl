# The library for Go, with pgx 4; in the nightly tests with the race detector, for which everything must be compiled again
use strict;
use warnings;
use GoTest;
use LibraryTest;

my ($dir) = go_modules('v0.0.1');
{
	local @ENV{qw(GOPATH GO111MODULE GOCACHE)} = ("$dir:/usr/share/gocode", 'off', "$ENV{TESTDATADIR}/go");
	go($dir, 'build', ($ENV{LONG_SCENARIOS} ? '-race' : ()), '-o', "$dir/subject", "$GoTest::module/test/subject");
}
run_scenarios('Go', "$dir/subject");
