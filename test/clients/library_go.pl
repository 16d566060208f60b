# The library for Go, with pgx 4
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Cwd;
use IPC::Run;
use LibraryTest;

# In the way of the time before modules, which Debian's packages need.
my $dir = PostgreSQL::Test::Utils::tempdir();
mkdir "$dir/src";
symlink getcwd() . '/clients/go', "$dir/src/pgqext";
{
	local @ENV{qw(GOPATH GO111MODULE GOCACHE)} = ("$dir:/usr/share/gocode", 'off', "$ENV{TESTDATADIR}/go");
	my $out = '';
	IPC::Run::run([ 'go', 'build', '-o', "$dir/subject", 'pgqext/test/subject' ], '<', \undef, '>', \$out, '2>&1') or die $out;
}
run_scenarios('Go', "$dir/subject");
