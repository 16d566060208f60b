# Unique keys, limits, groups, order, rates and depth hold on a standby that was promoted, and on a subscriber that
# takes over.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $settings = "max_prepared_transactions = 10\n";
my $primary = pgq_node('primary', init => { allows_streaming => 'logical' }, conf => $settings);
sub on_primary { return $primary->safe_psql('postgres', $_[0]) }

# The schema goes to the subscriber, as for any table, before there are jobs.
on_primary(q{
	SELECT pgq_create_queue('keyed'), pgq_create_queue('periods');
	SELECT pgq_create_queue('limited', concurrency => 2);
	SELECT pgq_create_queue('rated', rate_limit => 1, rate_period => '1 hour');
	SELECT pgq_create_queue('group_rated', group_rate_limit => 1, rate_period => '1 hour');
	SELECT pgq_create_queue('grouped', group_concurrency => 1);
	SELECT pgq_create_queue('fifo', fifo => true);
	SELECT pgq_create_queue('fair', fair => true);
	SELECT pgq_create_queue('deep', max_depth => 3)});
my $schema = $primary->basedir . '/schema.sql';
$primary->command_ok([ 'pg_dump', '-f', $schema, $primary->connstr('postgres') ], 'pg_dump');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$primary->backup('b');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->append_conf('postgresql.conf', $settings);
$subscriber->start;
$subscriber->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $schema, $subscriber->connstr('postgres') ], '... loaded');
on_primary('CREATE PUBLICATION p FOR ALL TABLES');
my $connection = $primary->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p WITH (copy_data = false)");

# ---- what there is ----

my $waiting = on_primary(q{SELECT pgq_enqueue('keyed', '"waits"', unique_key => 'waits')});
my $in_work = on_primary(q{SELECT pgq_enqueue('keyed', '"in work"', priority => 1, unique_key => 'in work')});
is(on_primary(q{SELECT job_id FROM pgq_claim('keyed', lease_time => '1 hour')}), $in_work, 'a job with a key is in work');
my $gone = on_primary(q{SELECT pgq_enqueue('periods', '1', unique_key => 'once an hour', unique_for => '1 hour')});
on_primary(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('periods')});
on_primary(q{
	SELECT pgq_enqueue(queue, to_jsonb(i)) FROM generate_series(1, 5) i, unnest('{limited,rated}'::text[]) queue;
	SELECT pgq_enqueue(queue, to_jsonb(i), group_key => g) FROM generate_series(1, 3) i, unnest('{a,b}'::text[]) g, unnest('{group_rated,grouped,fifo}'::text[]) queue;
	SELECT pgq_enqueue('deep', to_jsonb(i)) FROM generate_series(1, 2) i;
	SELECT pgq_enqueue('fair', to_jsonb(i), group_key => 'big') FROM generate_series(1, 5000) i;
	SELECT pgq_enqueue('fair', to_jsonb(i), group_key => 'small') FROM generate_series(1, 5) i;
	SELECT pgq_claim('limited', 2), pgq_claim('rated'), pgq_claim('group_rated'), pgq_claim('grouped');
	SELECT pgq_fail(job_id, lease, 'later', retry_in => '1 hour') FROM pgq_claim('fifo')});
on_primary(q{BEGIN; SELECT pgq_enqueue('keyed', '"prepared"', unique_key => 'prepared'), pgq_enqueue('deep', '3'); PREPARE TRANSACTION 'p'});
my $failed_group = on_primary(q{SELECT group_key FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'fifo' AND last_error IS NOT NULL});

# ---- what is known of it ----

# is_held: by leases, periods, transactions that were prepared there.
sub holds
{
	my ($where, $node) = @_;
	my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
	my $many = sub { return $sql->("SELECT count(*) FROM pgq_claim('$_[0]', 100)") };
	is($sql->(q{SELECT pgq_enqueue('keyed', '2', unique_key => 'waits')}), $waiting, "$where: the key of a job that waits has its owner");
	is($sql->(q{SELECT pgq_enqueue('keyed', '2', unique_key => 'in work')}), $in_work, '... so has that of one in work');
	is($sql->(q{SELECT pgq_enqueue('periods', '2', unique_key => 'once an hour')}), $gone, '... and one whose period is not over, though the job is');
	is($many->('limited'), '2', '... as many run as may');
	is($many->('limited'), '0', '... and no more');
	is($many->('grouped'), '2', '... of a group one');
	is($many->('grouped'), '0', '... and no more');
	is($sql->(q{SELECT string_agg(group_key, ' ') FROM pgq_claim('fifo', 100)}), $failed_group eq 'a' ? 'b' : 'a', '... nothing overtakes the first of its group, which is retried later');
	is($sql->(q{SELECT count(*) FILTER (WHERE group_key = 'small') FROM pgq_claim('fair', 10)}), '5', '... tenants take turns');
	my ($state, $error) = sqlstate($node, q{SELECT pgq_enqueue('deep', '4')});
	is($state, 'PQ002', '... a full queue is full');
	is($sql->('SELECT * FROM pgq_check()'), '', '... all is well');
	return;
}

# ---- the standby ----

$primary->wait_for_catchup($standby);
$primary->wait_for_catchup('s');
$primary->stop('immediate');
$standby->promote;
wait_for_scheduler($standby);
# The prepared transaction is there, too, and decides who has its key, and how deep the queue is.
my $waiter = session($standby);
my $pid = pid_of($waiter);
send_sql($waiter, q{SELECT pgq_enqueue('keyed', '"other"', unique_key => 'prepared')});
wait_for($standby, "wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid");
holds('promoted', $standby);
$standby->safe_psql('postgres', q{COMMIT PREPARED 'p'});
my $met = reply($waiter);
is($met, $standby->safe_psql('postgres', q{SELECT job_id FROM pgq_ext.job WHERE unique_key = 'prepared'}), '... a prepared transaction has its key');
end_session($waiter);
is($standby->safe_psql('postgres', "SELECT count(*) FROM pgq_claim('$_', 5)"), '0', "... $_: nobody knows how many have started, so none does for a period") for 'rated', 'group_rated';
$standby->stop;

# ---- the subscriber: nothing of what was prepared ----

$subscriber->safe_psql('postgres', q{ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s;
	SELECT setval('pgq_ext.job_id_seq', (SELECT max(job_id) FROM pgq_ext.job)), pgq_enqueue('deep', '3')});
wait_for_scheduler($subscriber);
holds('took over', $subscriber);
cmp_ok($subscriber->safe_psql('postgres', "SELECT count(*) FROM pgq_claim('$_->[0]', 5)"), '<=', $_->[1], "... $_->[0]: no more than may") for [ 'rated', 1 ], [ 'group_rated', 2 ];
$subscriber->stop;
done_testing();
