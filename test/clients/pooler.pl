# What docs/clients.md says of drivers and of leases behind pgbouncer.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use PgqTest;
use ClientTest;

my $here = 'test/clients/pooler';
my $dir  = PostgreSQL::Test::Utils::tempdir_short();
build_go("$dir/client", "$here/client.go");
build('javac', '-d', $dir, "$here/Client.java");
my %command = (
	psycopg  => [ '/usr/bin/python3', "$here/client.py", 'psycopg' ],
	psycopg2 => [ '/usr/bin/python3', "$here/client.py", 'psycopg2' ],
	asyncpg  => [ '/usr/bin/python3', "$here/client.py", 'asyncpg' ],
	node     => [ 'node',             "$here/client.js" ],
	ruby     => [ '/usr/bin/ruby',    "$here/client.rb" ],
	pdo      => [ '/usr/bin/php',     "$here/client.php" ],
	jdbc     => [ 'java', '-XX:+UseSerialGC', '-cp', "$dir:/usr/share/java/postgresql.jar", 'Client' ],
	pgx      => ["$dir/client"]);

# Two programs, "one" and "two", call a function, ten times when they are asked. In order:
#   one; two, through the same connection of the pooler; one again; one, through another connection.
my @good = ('one 0', 'two 0', 'one 0', 'one 0');

# From 1.21 on pgbouncer knows who has prepared what, and prepares it again where that is not. No more than one, here: each
# program takes the other one's away.
my ($minor) = qx{/usr/sbin/pgbouncer --version} =~ /^PgBouncer 1\.(\d+)/ or die 'which pgbouncer?';
my $tracks = $minor >= 21;

sub in_the_way { return ('one 0', qq(42P05 prepared statement "$_[0]" already exists), 'one 0', qq(26000 prepared statement "$_[1]" does not exist)) }

# driver, setting, what they answer in mode transaction if the pooler does not
my @cases = (
	[ 'psycopg',  'plain', in_the_way('_pg3_0', '_pg3_0') ],
	[ 'psycopg',  'set',   @good ],
	[ 'psycopg2', 'plain', @good ],
	[ 'asyncpg',  'plain', in_the_way('__asyncpg_stmt_1__', '__asyncpg_stmt_1__') ],
	[ 'asyncpg',  'set',   @good ],
	[ 'node',     'plain', @good ],
	[ 'node',     'named', in_the_way('claim', 'claim') ],
	[ 'ruby',     'plain', @good ],
	[ 'ruby',     'named', in_the_way('claim', 'claim') ],
	[ 'jdbc',     'plain', 'one 0', '42P05 prepared statement "S_1" already exists', 'one 0', 'one 0' ], # 26000 it mends, outside of transactions
	[ 'jdbc',     'set',   @good ],
	[ 'pgx',      'plain', in_the_way('lrupsc_1_0', 'lrupsc_1_0') ],
	[ 'pgx',      'set',   @good ],
	# It takes the name away from the other one, who then runs what is not its own.
	[ 'pdo', 'plain', 'one 0', 'two 0', 'two 0', '26000 prepared statement "pdo_stmt_00000001" does not exist' ],
	[ 'pdo', 'set',   @good ]);

my %pool = map { my $case = $_; map { ("$case->[0]_$case->[1]_$_" => [ $_, 3 ]) } 'session', 'transaction' } @cases;
start_servers(pools => { %pool, session => [ 'session', 1 ], transaction => [ 'transaction', 1 ] }, dbname => 'postgres',
	bouncer => $tracks ? 'max_prepared_statements = 1' : '');
$node->safe_psql('postgres', q{SELECT pgq_create_queue('mail', lease_time => '1 h')});

# A program that answers a line with a line.
sub start_program
{
	my (@command) = @_;
	my $program = { in => '', out => '' };
	$program->{run} = IPC::Run::start(\@command, '<', \$program->{in}, '>', \$program->{out}, '2>&1', IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return $program;
}

sub tell_program
{
	my ($program, $line) = @_;
	$program->{out} = '';
	$program->{in} .= "$line\n";
	$program->{run}->pump until $program->{out} =~ /\n/ || !$program->{run}->pumpable;
	chomp(my $answer = $program->{out});
	return $answer;
}

sub answers
{
	my ($pool, $setting, @command) = @_;
	my $url = database_url('pooled', 'prepared') =~ s/pooled/$pool/r;
	my ($one, $two) = map { start_program(@command, $setting, $_, $url) } 'one', 'two';
	my @answers = map { tell_program($_, 'go') } $one, $two, $one;
	my $holder = start_program('psql', '-XqAt', $url);
	tell_program($holder, q{BEGIN; SELECT 'held';});
	push @answers, tell_program($one, 'go');
	$_->{run}->finish for $holder, $one, $two;
	return @answers;
}

for my $case (@cases)
{
	my ($driver, $setting, @expected) = @$case;
	for my $mode ('session', 'transaction')
	{
		my @answers = answers("${driver}_${setting}_$mode", $setting, @{ $command{$driver} });
		is_deeply(\@answers, $mode eq 'session' || $tracks ? \@good : \@expected, "$driver, $setting, in mode $mode") or diag(join "\n", @answers);
	}
}

# ---- the name of a JDBC worker ----

sub through { return $node->safe_psql('postgres', $_[1], connstr => database_url($_[0], 'bound')) }

# The second one sets the name that the connection has already: an old pgbouncer is told of no change.
for my $case ([ 'without', $tracks ? 'worker 0' : 'bound 0' ], [ 'set', 'worker 0' ])
{
	my ($setting, $expected) = @$case;
	my @command = (@{ $command{jdbc} }, $setting, q{' || current_setting('application_name') || '}, database_url('transaction', 'worker'));
	my @workers = map { my $program = start_program(@command); tell_program($program, 'go'); $program } 1 .. 2;
	through('transaction', 'SELECT 1');
	is(tell_program($workers[1], 'go'), $expected, "the name of a worker by JDBC, $setting assumeMinServerVersion");
	$_->{run}->finish for @workers;
}

# ---- leases that are bound to a session ----

sub claim_bound
{
	my ($mode) = @_;
	$node->safe_psql('postgres', q{SELECT pgq_enqueue('mail', '1')});
	return split /\|/, through($mode, q{SELECT job_id, lease FROM pgq_claim('mail', session_bound => true)});
}

my ($id) = claim_bound('session');
wait_for($node, "last_error = 'the session of its worker ended' FROM pgq_ext.job WHERE job_id = $id");
pass('in mode session such a lease ends with the client');
($id, my $lease) = claim_bound('transaction');
is(through('transaction', "SELECT state FROM pgq_ext.job_status WHERE job_id = $id"), 'leased', '... in mode transaction it stays when the client is gone');
is(through('transaction', "SELECT pgq_extend($id, $lease) IS NOT NULL"), 't', '... for anybody who goes on with it');
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pgq_ext.lease WHERE job_id = $id");
wait_for($node, "last_error = 'the session of its worker ended' FROM pgq_ext.job WHERE job_id = $id");
is(through('transaction', "SELECT pgq_fail($id, $lease)"), 'retry', '... and is lost with the connection of the pooler, as long as nobody else has the job');

stop_servers();
