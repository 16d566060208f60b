# On a server that did not preload the library, and on a standby, each function raises an error that says why the
# queue does not work. After a restart with the library, or a promotion, the functions work at once.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

sub preload
{
	my ($node, $libraries) = @_;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$libraries'");
	return;
}

# ---- not preloaded ----

my $node = PostgreSQL::Test::Cluster->new('bare');
$node->init;
preload($node, '');
$node->start;

my ($state, $message) = sqlstate($node, 'CREATE EXTENSION pgq_ext');
is($state, '55000', 'CREATE EXTENSION without the library preloaded: 55000');
like($message, qr/HINT:.*shared_preload_libraries.*restart/, 'the hint names the setting and the restart');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_namespace WHERE nspname = 'pgq_ext'"),
	'0', 'CREATE EXTENSION has left nothing behind');

preload($node, 'pgq_ext');
$node->restart;
$node->safe_psql('postgres', 'CREATE EXTENSION pgq_ext');
create_queue($node, 'q');
$node->safe_psql('postgres', q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 10) i});
my @functions = user_functions($node, all => 1);
cmp_ok(scalar @functions, '>=', 15, 'the functions of the extension were found');

preload($node, '');
$node->restart;
for my $function (@functions)
{
	($state, $message) = sqlstate($node, "SELECT $function");
	is($state, '55000', "not preloaded: $function");
	like($message, qr/HINT:.*shared_preload_libraries.*restart/, '... with the fix') if $state eq '55000';
}

# Data can be looked at, saved, and written by any other door.
is($node->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.job'), '10', 'not preloaded: jobs can be read');
$node->command_ok([ 'pg_dump', '-f', '/dev/null', $node->connstr('postgres') ], 'not preloaded: pg_dump works');
is(sqlstate($node, q{INSERT INTO pgq_ext.job (job_id, run_at, enqueued_at, queue_id, priority, payload)
		SELECT nextval('pgq_ext.job_id_seq'), now(), now(), queue_id, -1, '"by hand"' FROM pgq_ext.queue}),
	'', 'not preloaded: a row can be inserted by hand');
is(sqlstate($node, q{INSERT INTO pgq_ext.job (queue_id, payload) VALUES (0, '1')}), '23503', '... not for a queue that is not there');
is(sqlstate($node, q{UPDATE pgq_ext.queue SET lease_time = '-1 s'}), '22023', '... nor an impossible option');
is(sqlstate($node, 'DELETE FROM pgq_ext.queue'), '55006', '... nor a queue with jobs deleted');
is(sqlstate($node, 'TRUNCATE pgq_ext.queue'), '55006', '... nor all of them');

preload($node, 'pgq_ext');
$node->restart;
is($node->safe_psql('postgres', q{SELECT string_agg(payload #>> '{}', ' ') FROM pgq_claim('q', 100)}),
	'1 2 3 4 5 6 7 8 9 10 by hand', 'preloaded again: all jobs are there');

preload($node, '');
$node->restart;
is(sqlstate($node, 'DROP EXTENSION pgq_ext'), '', 'not preloaded: DROP EXTENSION works');
$node->stop;

# ---- standby ----

my $primary = pgq_node('primary', init => { allows_streaming => 1 }, conf => 'max_connections = 30');
create_queue($primary, 'q');
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;

# Jobs of every kind arrive while the standby follows.
$primary->safe_psql('postgres', q{
	SELECT pgq_enqueue('q', to_jsonb(i), priority => i % 3) FROM generate_series(1, 300) i;
	SELECT pgq_enqueue('q', '"soon"', delay => '100 ms', priority => 9);
	SELECT pgq_enqueue('q', '"in a year"', delay => '1 year')});
my ($acked, $held, $token) = split /\|/, $primary->safe_psql('postgres', q{
	WITH c AS MATERIALIZED (SELECT job_id, lease FROM pgq_claim('q', 2))
	SELECT min(job_id), max(job_id), (array_agg(lease ORDER BY job_id))[2] FROM c});
$primary->safe_psql('postgres', qq{SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE job_id = $acked});
$primary->wait_for_catchup($standby);

for my $function (user_functions($standby))
{
	($state, $message) = sqlstate($standby, "SELECT $function");
	# pgq_route reads tables only, so it works there; here it refuses NULL.
	is($state, $function =~ /^pgq_route/ ? '22004' : '25006', "standby: $function");
	like($message, qr/during recovery/, '... and says why') if $state eq '25006';
}
is($standby->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.job'), '301', 'standby: jobs can be read');
is(sqlstate($standby, 'SELECT * FROM pgq_ext.queue_status'), '25006', 'standby: what memory knows is not there to be seen');
is(workers($standby, '%'), '0', 'standby: no launcher and no scheduler');

# ---- promotion ----

# A crash: a clean stop would save the lease and hand it over, see t/043.
$primary->stop('immediate');
$standby->promote;

# The first statement after it, whether a scheduler runs already or not; "soon" may take one more.
my (%token, @attempts);
for (1 .. 60)
{
	for (split /\n/, $standby->safe_psql('postgres', q{
		SELECT job_id, lease, attempt FROM pgq_claim('q', 1000, wait => '1 s')}))
	{
		my ($id, $lease, $attempt) = split /\|/;
		$token{$id} = $lease;
		push @attempts, $attempt;
	}
	is(scalar @attempts > 290, 1, 'promoted: the queue is served at once') if $_ == 1;
	last if @attempts >= 300;
}
is("@attempts", join(' ', (1) x 300), 'promoted: every job that is due is handed out once, as a first attempt');
ok(!exists $token{$acked}, 'promoted: an acknowledged job is gone');
cmp_ok($token{$held}, '>', $token, 'promoted: what the old primary had handed out comes again, with a greater token');
is(sqlstate($standby, "SELECT pgq_ack($held, $token)"), 'PQ001',
	'promoted: the lease of the old primary is stale once the job was handed out again');
wait_for_scheduler($standby);
is(workers($standby, 'launcher'), '1', 'promoted: launcher and scheduler run');

# The scheduler does its work: an expired lease is counted.
create_queue($standby, 'r', "lease_time => '1 s'");
$standby->safe_psql('postgres', q{SELECT pgq_enqueue('r', '1'); SELECT * FROM pgq_claim('r')});
is($standby->safe_psql('postgres', q{SELECT attempt FROM pgq_claim('r', wait => '60 s')}),
	'2', 'promoted: the scheduler counts a lost lease');
$standby->stop;

done_testing();
