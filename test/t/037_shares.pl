# All databases share the leases: no database, and no session that locks jobs, can take all of them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

# Each of the four databases has 16 of its own; 240 are anybody's.
my $node = pgq_node('main', conf => "pgq_ext.max_leases = 256\npgq_ext.max_databases = 4\npgq_ext.segment_size = '1 GB'\npgq_ext.segment_dead_rows = 0");
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other',    'CREATE EXTENSION pgq_ext');

sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
sub used { return sql("SELECT used FROM pgq_ext.capacity WHERE name = '$_[0]'") }
my $common = 'leases beyond the own shares of databases';
my $aside  = 'jobs set aside, fullest database';

for my $db ('postgres', 'other')
{
	create_queue($node, 'q', "lease_time => '7 days'", $db);
	sql("SELECT count(pgq_enqueue('q', '1')) FROM generate_series(1, 400)", $db);
}

# ---- one database takes all it can get ----

is(sql("SELECT count(*) FROM pgq_claim('q', 400)"), 256, 'one database alone can have max_leases');
my ($state, $said) = sqlstate($node, "SELECT pgq_claim('q')");
is($state, '53400', '... and not one more');
like($said, qr/uses 256 leases of at most 256\. 16 leases are reserved for this database.*Raise pgq_ext\.max_leases/s, '... and is told what to do');
is(sql("SELECT count(*) FROM pgq_claim('q', 400)", 'other'), 16, 'another one still has its own share');
($state, $said) = sqlstate($node, "SELECT pgq_claim('q')", 'other');
is($state, '53400', '... and not one more');
like($said, qr/uses 16 leases of at most 256.*Other databases use the shared leases/s, '... and is told why');
is(used($common), 240, 'the common part is in use');
sql('SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease ORDER BY job_id LIMIT 1', 'other');
is(sql("SELECT count(*) FROM pgq_claim('q', 400)", 'other'), 1, 'a lease that ends comes back to its database');
sql('SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease ORDER BY job_id LIMIT 56');
is(sql("SELECT count(*) FROM pgq_claim('q', 400)", 'other'), 56, 'what one gives back any one can have');
sql('SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease', $_) for 'postgres', 'other';
is(used('leases'), 0, 'all leases have come back');
is(used($common), 0, '... to the common part too');

# ---- many at once, of both databases, at the bound all the time ----

{
	sql("SELECT count(pgq_enqueue('q', '1')) FROM generate_series(1, 3000)", $_) for 'postgres', 'other';
	# They take some, acknowledge most of them, and undo it now and then.
	my $script = $node->basedir . '/claim.sql';
	append_to_file($script, <<'SQL');
DO $$ BEGIN
	PERFORM pgq_ack(job_id, lease) FROM pgq_claim('q', (random() * 150)::int + 1) WHERE job_id % 3 > 0;
	IF random() < 0.3 THEN RAISE EXCEPTION 'undo'; END IF;
EXCEPTION WHEN raise_exception OR configuration_limit_exceeded THEN
END $$
SQL
	my @runs;
	for my $db ('postgres', 'other')
	{
		my ($out, $err) = ('', '');
		push @runs, [ IPC::Run::start([ 'pgbench', '-n', '-c', '4', '-t', '60', '-f', $script, '-d', $node->connstr($db) ],
				'>', \$out, '2>', \$err), \$err ];
	}
	$_->[0]->finish for @runs;
	is(${ $_->[1] } =~ /(aborted.*)/ ? $1 : '', '', 'no claim fails but for the bound') for @runs;
	is(sql("SELECT used BETWEEN 0 AND bound AND peak <= bound FROM pgq_ext.capacity WHERE name = '$common'"), 't', 'the common part was never overdrawn');
	sql('DELETE FROM pgq_ext.job', $_) for 'postgres', 'other';
	for my $db ('postgres', 'other')
	{
		sql("SELECT pgq_drop_queue('q', force => true)", $db);
	}
	wait_for($node, q{bool_and(used = 0) FROM pgq_ext.capacity WHERE name LIKE 'leases%'});
	pass('and nothing of it was lost');
}

# ---- jobs that somebody has locked ----

{
	my @queues = map { "locked$_" } 1 .. 8;
	for my $queue (@queues)
	{
		create_queue($node, $queue);
		sql("SELECT count(pgq_enqueue('$queue', '1')) FROM generate_series(1, 50)");
	}
	create_queue($node, 'free');
	my $locker = session($node);
	ask($locker, 'BEGIN');
	my (undef, $refused) = ask($locker, 'UPDATE pgq_ext.job SET priority = 1');
	is($refused, '', 'a transaction locks the jobs of eight queues');
	sql("SELECT count(pgq_enqueue('free', '1')) FROM generate_series(1, 20)");
	for my $queue (@queues, @queues)
	{
		my ($out, $error) = ('', '');
		$node->psql('postgres', "SELECT count(*) FROM pgq_claim('$queue', 50)", stdout => \$out, stderr => \$error);
		$out eq '0' || $error =~ /too many jobs of queue "$queue" are locked/ or fail("claim of $queue: $out$error");
	}
	# A quarter of all, and what the claims had in hand beyond that.
	cmp_ok(used($aside), '<=', 64 + 64, 'not more than a quarter of the leases is for jobs that are locked');
	cmp_ok(sql("SELECT peak FROM pgq_ext.capacity WHERE name = '$aside'"), '>=', 50, '... though many are');
	is(sql("SELECT count(*) FROM pgq_claim('free', 20)"), 20, 'a queue whose jobs are not locked goes on');
	is(sql(q{SELECT peak FROM pgq_ext.capacity WHERE guc = 'pgq_ext.max_queues'}), scalar @queues + 1, 'the peak of queues is the number of queues that were there at the same time');
	ask($locker, 'ROLLBACK');
	end_session($locker);
	# Until then a claim may still be refused.
	wait_for($node, "used = 0 FROM pgq_ext.capacity WHERE name = '$aside'");
	is(scalar drain($node, $_), 50, "$_: all of its jobs go out in the end") for @queues;
	sql('SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease');
	wait_for($node, q{bool_and(used = 0) FROM pgq_ext.capacity WHERE name LIKE 'leases%' OR name LIKE 'jobs set aside%'});
	is(sql('SELECT * FROM pgq_check()'), '', 'nothing is wrong afterwards');
}

done_testing();
