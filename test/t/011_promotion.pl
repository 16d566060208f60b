# A standby is promoted while its queue has many waiting jobs: the new primary hands out the first rows at once, keeps
# the run_at that the old primary had planned, and accepts old leases only where that can do no harm.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $backlog = 300_000;
my $old = pgq_node('old', init => { allows_streaming => 1 }, conf => "autovacuum = off\n");
create_queue($old, 'q', "lease_time => '1 hour'");
create_queue($old, 'other');
create_queue($old, 'late', "lease_time => '1 hour'");
$old->backup('b');
my $node = PostgreSQL::Test::Cluster->new('new');
$node->init_from_backup($old, 'b', has_streaming => 1);
$node->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }

# ---- what the old primary leaves ----

$old->safe_psql('postgres', qq{
	INSERT INTO pgq_ext.job (queue_id, payload, priority) SELECT queue_id, to_jsonb(i), i % 5 FROM pgq_ext.queue, generate_series(1, $backlog) i WHERE queue = 'q';
	SELECT pgq_enqueue('other', '"soon"', delay => '1 s');
	SELECT pgq_enqueue('other', '"in a year"', delay => '1 year');
	SELECT pgq_enqueue('other', '"dead"', priority => 2);
	SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('other');
	SELECT pgq_enqueue('other', '"failed once"', priority => 1, headers => '{"h": 1}');
	SELECT pgq_fail(job_id, lease, 'once', retry_in => '1 s') FROM pgq_claim('other')});
my @held = map { [ split /\|/ ] } split /\n/, $old->safe_psql('postgres', q{SELECT job_id, lease FROM pgq_claim('q', 12)});
is(scalar @held, 12, 'the old primary has handed out some');
my $first = $held[0][0];
my @late = split /\|/, $old->safe_psql('postgres', q{SELECT pgq_enqueue('late', '"done"') \gset
	SELECT job_id, lease FROM pgq_claim('late')});
$old->wait_for_catchup($node);

# Its views and functions are tested elsewhere (001). Its rows can be read:
is(sql('SELECT count(*) FROM pgq_ext.job'), $backlog + 4, 'all of it is on the standby');
is(sql(q{SELECT string_agg(last_error, ' ') FROM pgq_ext.dead_job}), 'broken', '... dead letters, too');

# ---- promotion ----

$old->stop('immediate');
$node->promote;

# A look at a row is a look at a page at least. Whoever has read the queue, this claim or the scheduler, has seen few of them.
my $plan = sql(q{EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM pgq_claim('q')});
my ($hit, $read) = $plan =~ /"Shared Hit Blocks": (\d+),\s+"Shared Read Blocks": (\d+)/;
note "the first claim looked at $hit + $read pages";
cmp_ok($hit + $read, '<', $backlog / 50, 'the first claim does not look at the whole backlog');
wait_for_scheduler($node);
is(workers($node, 'launcher'), '1', 'the scheduler has come by itself');
my $looks = sql(q{SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = 'postgres'});
note "all have looked at $looks pages so far";
cmp_ok($looks, '<', $backlog / 3, '... nor has anybody else');

# In order: priority first, and within it as they came; those that were in work are the first again.
is(sql(q{SELECT string_agg((payload #>> '{}')::int % 5 || ':' || attempt, ' ') FROM pgq_claim('q', 20)}), join(' ', ('4:1') x 20), 'jobs come in order, as first attempts');
my ($again) = grep { sql("SELECT count(*) FROM pgq_ext.lease WHERE job_id = $_->[0]") } @held;
is($again->[0], $first, '... also those the old primary had handed out');

# ---- workers of the old primary ----

# Handed out again: theirs no more.
is(sqlstate($node, "SELECT pgq_ack($again->[0], $again->[1])"), 'PQ001', 'handed out again: the old lease cannot ack');
is(sql("SELECT pgq_fail($again->[0], $again->[1])"), 'stale', '... nor fail');
is(sql("SELECT pgq_extend($again->[0], $again->[1]) IS NULL"), 't', '... nor be extended');
is(sql("SELECT count(*) FROM pgq_ack_many('{$again->[0]}', '{$again->[1]}')"), '0', '... nor ack with many');
my ($token) = sql("SELECT lease FROM pgq_ext.lease WHERE job_id = $again->[0]");
cmp_ok($token, '>', (sort { $b <=> $a } map { $_->[1] } @held)[0], '... the new lease is greater than any old one');
is(sql("SELECT pgq_ack($again->[0], $token)"), '', '... and acks');

# Not handed out since: the work was done, so it counts.
is(sqlstate($node, "SELECT pgq_ack($late[0], $token + 1000000000)"), 'PQ001', 'a lease that never was is stale');
is(sqlstate($node, "SELECT pgq_ack($late[0], $late[1] # 1)"), 'PQ001', '... and so is one whose check bits are wrong');
is(sql("SELECT pgq_ack($late[0], $late[1])"), '', '... a lease of the old primary is honoured: late, but nobody has begun it again');
is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $late[0]"), '0', '... done');
is(sqlstate($node, "SELECT pgq_ack($late[0], $late[1])"), 'PQ001', '... once');

# ---- what was planned ----

my %got;
for (1 .. 60)
{
	for (split /\n/, sql(q{SELECT payload #>> '{}', attempt, headers, last_error FROM pgq_claim('other', 10, wait => '1 s')}))
	{
		my ($payload, @rest) = split /\|/, $_, -1;
		$got{$payload} = join '|', @rest;
	}
	last if keys %got >= 2;
}
is(join(' ', map { "$_=$got{$_}" } sort keys %got), 'failed once=2|{"h": 1}|once soon=1||', 'delayed and failed jobs come in their time, as they were');
wait_until_counted($node);
is(sql(q{SELECT scheduled, dead FROM pgq_ext.queue_status WHERE queue = 'other'}), '1|1', '... others wait, or are dead');

# ---- everything, once ----

my $left = sql(q{SELECT count(*) FROM pgq_ext.job WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'q')}) - sql(q{SELECT count(*) FROM pgq_ext.lease WHERE queue = 'q'});
sql(q{DO $$
DECLARE ids bigint[]; leases bigint[]; n int := 0;
BEGIN
	CREATE TABLE seen (job_id bigint);
	LOOP
		SELECT array_agg(job_id), array_agg(lease) INTO ids, leases FROM pgq_claim('q', 10000);
		EXIT WHEN ids IS NULL;
		INSERT INTO seen SELECT unnest(ids);
		PERFORM count(*) FROM pgq_ack_many(ids, leases);
		COMMIT;
	END LOOP;
END $$});
is(sql('SELECT count(*), count(DISTINCT job_id) FROM seen'), "$left|$left", 'the whole backlog is handed out, each job once');
$node->stop;
done_testing();
