# The transport of kombu, with Celery: workers, a lost connection, a restart of the server, kills
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Cwd;
use PgqTest;

my $node = pgq_node('main', conf => "max_connections = 60\nshared_buffers = 32MB\n");
$node->safe_psql('postgres', 'CREATE TABLE noted (name text, value int); CREATE ROLE clerk LOGIN');
my $tree = getcwd();
my $dir  = PostgreSQL::Test::Utils::tempdir_short();

# The lines of the program are TAP; "restart" is for this test.
local $ENV{PYTHONPATH}                = "$tree/clients/kombu:$tree/test/clients/kombu";
local @ENV{qw(PGHOST PGPORT PGDATABASE)} = ($node->host, $node->port, 'postgres');
open(my $program, '-|', "cd $dir && exec /usr/bin/python3 $tree/test/clients/kombu/check.py 2>errors") or die $!;
my $done = 0;
while (my $line = <$program>)
{
	chomp $line;
	if    ($line =~ /^(not )?ok (.*)/) { ok(!$1, $2) }
	elsif ($line eq 'restart')         { $node->restart('immediate') }
	elsif ($line eq 'done')            { $done = 1 }
	else                               { diag($line) }
}
close($program);
ok($done, 'the program has run to its end')
  or diag(map { "$_: " . slurp_file($_) } glob("$dir/errors $dir/*.log"));
$node->stop;
done_testing();
