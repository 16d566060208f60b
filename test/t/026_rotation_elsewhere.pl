# Rotation and other servers: a standby replays the rotation of its primary, and rotates when it is promoted; a
# subscriber gets the changes of rows, and does not rotate while the subscription exists.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $jobs = q{SELECT job_id, md5(j::text) FROM pgq_ext.job j ORDER BY job_id};
my $bare = q{SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY 1) FROM pg_inherits
	WHERE inhparent = 'pgq_ext.job'::regclass AND pg_relation_size(inhrelid) = 0};
my $moved = 'SELECT sum(moved_out) FROM pgq_ext.segment';

# Jobs of different segments, some of them in another one than at first.
sub rotate_some
{
	my ($node) = @_;
	for (1 .. 4)
	{
		$node->safe_psql('postgres', q{
			SELECT pgq_enqueue('slow', to_jsonb(i), priority => i % 3) FROM generate_series(1, 10) i;
			SELECT pgq_ack(job_id, lease) FROM pgq_claim('slow', 3);
			SELECT pgq_enqueue('slow', '"later"', delay => '30 days')});
		fresh_segment($node);
	}
	cmp_ok($node->safe_psql('postgres', $moved), '>=', 10, 'jobs were moved');
	cmp_ok(truncations($node), '>=', 4, '... and segments truncated');
	return;
}

sub order { my ($node) = @_; return $node->safe_psql('postgres', q{SELECT string_agg(job_id::text, ' ' ORDER BY priority DESC, run_at, job_id)
	FROM pgq_ext.job WHERE run_at <= clock_timestamp()}) }

sub goes_on_ok
{
	my ($node, $what) = @_;
	my $order = order($node);
	my $later = 'SELECT count(*) FROM pgq_ext.job WHERE run_at > clock_timestamp()';
	my $waiting = $node->safe_psql('postgres', $later);
	is($node->safe_psql('postgres', q{SELECT string_agg(job_id::text, ' ') FROM pgq_claim('slow', 1000)}), $order, "$what: every job is handed out, in order");
	is($node->safe_psql('postgres', 'SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease'), scalar(split / /, $order), '... and done');
	my $before = truncations($node);
	fresh_segment($node) for 1 .. 2;
	cmp_ok(truncations($node), '>', $before, '... segments rotate');
	is($node->safe_psql('postgres', $later), $waiting, '... what is for later stays');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pgq_check()'), '0', '... all is well');
	return;
}

# ---- a standby ----

{
	my $primary = rotating_node('primary', init => { allows_streaming => 1 });
	create_queue($primary, 'slow');
	$primary->backup('b');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($primary, 'b', has_streaming => 1);
	$standby->start;
	rotate_some($primary);
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $jobs), $primary->safe_psql('postgres', $jobs), 'the same jobs on the standby');
	is($standby->safe_psql('postgres', $bare), $primary->safe_psql('postgres', $bare), '... the same segments are empty');
	is(sqlstate($standby, 'SELECT * FROM pgq_ext.segment'), '25006', '... the view refuses as others do');
	$primary->stop('immediate');
	$standby->promote;
	wait_for_scheduler($standby);
	goes_on_ok($standby, 'promoted');
	$standby->stop;
}

# ---- a subscriber ----

{
	my $publisher = rotating_node('publisher', init => { allows_streaming => 'logical' });
	create_queue($publisher, 'slow');
	my $schema = $publisher->basedir . '/schema.sql';
	$publisher->command_ok([ 'pg_dump', '--schema-only', '-f', $schema, $publisher->connstr('postgres') ], 'pg_dump --schema-only');
	my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
	$subscriber->init;
	$subscriber->append_conf('postgresql.conf', "pgq_ext.segment_size = '64kB'\nautovacuum = off\n");
	$subscriber->start;
	$subscriber->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $schema, $subscriber->connstr('postgres') ], '... loaded');

	$publisher->safe_psql('postgres', q{SELECT pgq_enqueue('slow', '"first"'); CREATE PUBLICATION p FOR ALL TABLES});
	my $connection = $publisher->connstr . ' dbname=postgres';
	$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p");
	$subscriber->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')}) or die 'the first copy takes too long';
	my $scheduler = wait_for_scheduler($subscriber);
	rotate_some($publisher);
	# Truncations are committed, but perhaps not written yet.
	$publisher->wait_for_catchup('s', 'replay', $publisher->lsn('insert'));
	is($subscriber->safe_psql('postgres', $jobs), $publisher->safe_psql('postgres', $jobs), 'the same jobs on the subscriber');
	is($subscriber->safe_psql('postgres', $bare), $publisher->safe_psql('postgres', $bare), '... the same segments are empty');

	# There is a full segment to close, and time for it: its scheduler goes round, as its care for triggers shows.
	$publisher->safe_psql('postgres', q{INSERT INTO pgq_ext.job (queue_id, run_at, payload, segment)
		SELECT queue_id, '2100-01-01', to_jsonb(repeat('x', 500)), 0 FROM pgq_ext.queue, generate_series(1, 300) WHERE queue = 'slow'});
	$publisher->wait_for_catchup('s');
	for (1 .. 3)
	{
		$subscriber->safe_psql('postgres', 'ALTER TABLE pgq_ext.job_3 ENABLE TRIGGER job_changed');
		wait_for($subscriber, q{tgenabled = 'A' FROM pg_trigger WHERE tgrelid = 'pgq_ext.job_3'::regclass AND tgname = 'job_changed'});
	}
	is($subscriber->safe_psql('postgres', q{SELECT segment FROM pgq_ext.segment WHERE state = 'current' AND size > 65536 AND parent = 'pgq_ext.job'::regclass}), '0', '... it closes no segment itself');
	is($subscriber->safe_psql('postgres', q{SELECT sum(truncations), sum(moved_out), sum(moved_in) FROM pgq_ext.segment}), '0|0|0', '... it moves and truncates nothing');
	is(scheduler_pid($subscriber), $scheduler, '... its scheduler is there');
	unlike(slurp_file($subscriber->logfile), qr/ERROR:  /, '... nobody has seen an error');

	$subscriber->safe_psql('postgres', q{DROP SUBSCRIPTION s; DELETE FROM pgq_ext.job WHERE run_at = '2100-01-01'; SELECT setval('pgq_ext.job_id_seq', (SELECT max(job_id) FROM pgq_ext.job))});
	goes_on_ok($subscriber, 'the subscription is dropped');
	$subscriber->stop;
	$publisher->stop;
}
done_testing();
