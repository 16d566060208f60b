# The number of rows that a claim reads does not grow with the number of other jobs: waiting jobs of the queue, jobs
# with the same run_at, jobs of other queues.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.window_size = 8\npgq_ext.timer_size = 8\nautovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

# Entries read of the indexes that refills read, by sessions that have ended.
sub entries_read
{
	wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
	return sql(q{SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'pgq_ext' AND indexrelname ~ '_(by_order|delayed)$'});
}

my $jobs = 4000;
create_queue($node, $_) for 'same_time', 'later', 'other';
sql(qq{SELECT pgq_enqueue_many('same_time', jsonb_agg('{"payload": 1}'::jsonb)) FROM generate_series(1, $jobs)});
sql(qq{SELECT pgq_enqueue('later', '1', 1, run_at => '2100-01-01') FROM generate_series(1, $jobs)});
is(sql("SELECT count(DISTINCT run_at) FROM pgq_ext.job WHERE priority = 0"), '1', 'a backlog of jobs with one run_at');

my $before = entries_read();
sql(q{DO $$ BEGIN
	FOR i IN 1 .. 400 LOOP
		PERFORM pgq_ack(job_id, lease) FROM pgq_claim('same_time', 5);
	END LOOP; END $$});
is(sql('SELECT count(*) FROM pgq_ext.job WHERE priority = 0'), $jobs - 2000, 'half of it is taken, piece by piece');
my $read = entries_read() - $before;
cmp_ok($read, '<', 20 * $jobs, '... and each job was read some few times, not as often as there are pieces') or diag "read $read entries";

$before = entries_read();
sql("SELECT count(*) FROM pgq_claim('other')");
sql("SELECT pgq_enqueue('other', to_jsonb(i)) FROM generate_series(1, 3) i");
is(sql("SELECT string_agg(payload::text, ' ') FROM pgq_claim('other', 10)"), '1 2 3', 'a short queue beside huge ones');
is(sql("SELECT count(*) FROM pgq_claim('later')"), '0', 'a queue of jobs that are not due');
cmp_ok(entries_read() - $before, '<', $jobs, '... reads next to nothing');
is(sql("SELECT used <= bound FROM pgq_ext.capacity WHERE guc = 'pgq_ext.window_size'"), 't', 'each queue has a window of its own');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'all is well');
$node->stop;

done_testing();
