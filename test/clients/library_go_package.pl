# The library for Go as a package: its modules, its unit tests, and the quickstart of its README. In the nightly tests the unit
# tests run with the race detector, for which everything must be compiled again.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use GoTest;
use IPC::Run;
use PgqTest;

my $library = 'clients/go';
my ($extension) = slurp_file('pgq_ext.control') =~ /^default_version = '(.*)'$/m;
my ($version) = slurp_file("$library/produce.go") =~ /^const Version = "(.*)"$/m;
is($version, "$extension.0", 'the version is that of the extension');
like(slurp_file("$library/CHANGELOG.md"), qr/^## \[\Q$version\E\] - /m, '... also in the changelog');
is(slurp_file("$library/LICENSE"), slurp_file('LICENSE'), 'the licence is that of the extension');
like(slurp_file("$library/$_/go.mod"), qr{\Q$GoTest::module v$version\E$}m, "$_ needs this version") for qw(pgx4 pgx5);

# pgx 5 is not packaged for Debian 12, so its adapter is compared with the one that is tested.
my $adapter = slurp_file("$library/pgx4/pgx4.go");
$adapter =~ s/pgx4/pgx5/g;
$adapter =~ s/pgx 4/pgx 5/g;
$adapter =~ s{\t"github.com/jackc/pgconn"\n\t"github.com/jackc/pgx/v4"}{\t"github.com/jackc/pgx/v5"\n\t"github.com/jackc/pgx/v5/pgconn"};
$adapter =~ s/statement_cache_mode=describe/default_query_exec_mode=cache_describe/;
$adapter =~ s{c\.BeginFunc\(ctx, }{pgx.BeginFunc(ctx, c.Conn, };
is(slurp_file("$library/pgx5/pgx5.go"), $adapter, 'the adapter for pgx 5 is that for pgx 4 with other names');

my ($dir, %modules) = go_modules("v$version");
ok(-e "$dir/src/$GoTest::module/$_", "the archive has $_") for qw(LICENSE README.md CHANGELOG.md worker.go);
ok(!-e "$dir/cache/$GoTest::module\@v$version/pgx4", 'the adapters are modules of their own');

# A program with the module alone
{
	local @ENV{keys %modules} = values %modules;
	GoTest::write_file("$dir/user/go.mod", "module user\n\ngo 1.18\n\nrequire $GoTest::module v$version\n");
	GoTest::write_file("$dir/user/user.go", qq(package main\n\nimport pgqext "$GoTest::module"\n\nfunc main() { println(pgqext.Version) }\n));
	is(go("$dir/user", 'run', '.'), "$version\n", 'a program that requires the module');
}

# A program in the way of the time before modules, with Debian's pgx 4
local @ENV{qw(GOPATH GO111MODULE GOCACHE)} = ("$dir:/usr/share/gocode", 'off', "$ENV{TESTDATADIR}/go");
is(go($dir, 'vet', map { "$GoTest::module$_" } '', '/pgx4', '/test/subject'), '', 'go vet');
like(go($dir, 'test', ($ENV{LONG_SCENARIOS} ? '-race' : ()), $GoTest::module), qr/^ok/, 'unit tests');
my $readme = slurp_file("$library/README.md");
my ($sql) = $readme =~ /^```sql\n(.*?)^```$/ms;
my ($program) = $readme =~ /^```go\n(.*?)^```$/ms;
cmp_ok($program =~ tr/\n//, '<', 15, 'the quickstart has fewer than 15 lines');
cmp_ok($readme =~ tr/\n//, '<=', 60, 'the README is one screen long');
GoTest::write_file("$dir/quickstart/quickstart.go", $program);
go($dir, 'build', '-o', "$dir/worker", "$dir/quickstart/quickstart.go");

my $node = pgq_node('main', conf => "listen_addresses = '127.0.0.1'\n");
$node->safe_psql('postgres', $sql);
my $output = '';
{
	local @ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ('127.0.0.1', $node->port, 'postgres', $node->safe_psql('postgres', 'SELECT current_user'));
	my $worker = IPC::Run::start([ "$dir/worker" ], '<', \undef, '>', \$output, '2>&1', IPC::Run::timeout(2 * $PostgreSQL::Test::Utils::timeout_default));
	ok($node->poll_query_until('postgres', q{SELECT mail ->> 'to' = 'ann@example.org' FROM sent}), 'the quickstart works') or diag($output);
	$worker->signal('TERM');
	ok($worker->finish, '... and ends on SIGTERM');
}
is($output, '', '... without a message');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.job'), '0', '... and the job has ended');
$node->stop;
done_testing();
