# The index entries of jobs that are enqueued together are inserted together, whichever leaves they belong to: the
# indexes are complete, unique indexes stay unique, and a standby and a server after a crash have the same entries.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', init => { allows_streaming => 1 },
	conf => "autovacuum = off\nfull_page_writes = off\npgq_ext.segment_size = '1 GB'\npgq_ext.segment_dead_rows = 0\n");
$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
wait_for_scheduler($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Calls with so many jobs; their attributes are an expression of i.
sub enqueue
{
	my ($queue, $jobs, $attributes) = @_;
	return "SELECT count(*) FROM pgq_enqueue_many('$queue', (SELECT jsonb_agg(jsonb_build_object('payload', i, $attributes)) FROM generate_series(1, $jobs) i))";
}

# Every index of every segment, down to each row.
sub check_indexes
{
	my ($on, $what) = @_;
	my $function = $on->safe_psql('postgres', 'SELECT pg_is_in_recovery()') eq 't' ? 'bt_index_check(i.indexrelid, true)' : 'bt_index_parent_check(i.indexrelid, true, true)';
	my ($state, $error) = sqlstate($on, qq{SELECT $function FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent::regclass::text LIKE 'pgq_ext.%') AND c.relkind = 'i'});
	is($error, '', "$what: the indexes are whole");
	return;
}

sql('CREATE EXTENSION amcheck');
create_queue($node, $_) for qw(a b c);

# ---- together ----

my $plain = q{'priority', 0};
sql(enqueue('b', 20_000, $plain));
my $bytes = sql(qq{SELECT pg_current_wal_insert_lsn() AS before \\gset
	} . enqueue('b', 10_000, $plain) . qq{ \\g /dev/null
	SELECT pg_current_wal_insert_lsn() - :'before'});
note "WAL of a job: ", $bytes / 10_000, ' bytes';
cmp_ok($bytes, '<', 10_000 * 200, 'jobs that are enqueued together take little WAL');

# ---- at the end of the index, in its middle, here and there ----

my $calls = 12;
my %enqueued = (a => 0, b => 30_000, c => 0);
for my $call (1 .. $calls)
{
	my $queue = (qw(a b c))[$call % 3];
	my @kinds = ($plain, q{'priority', i % 3}, q{'priority', i % 1000}, q{'group_key', 'g' || i % 7},
		q{'delay', CASE WHEN i % 2 = 0 THEN '1 hour' END}, q{'unique_key', i || 'k' || } . $call, q{'expires_in', '1 hour'});
	sql(enqueue($queue, 700, $kinds[ $call % @kinds ]));
	$enqueued{$queue} += 700;
}
check_indexes($node, 'calls of all kinds');

# ---- several at a time ----

my @sessions = map { session($node) } 1 .. 4;
for my $round (1 .. 3)
{
	send_sql($sessions[$_], enqueue((qw(a b c b))[$_], 5_000, $plain)) for 0 .. $#sessions;
	is((reply($_))[0], 5_000, 'enqueued beside others') for @sessions;
}
$enqueued{$_} += 15_000 for qw(a b b c);
check_indexes($node, 'calls beside one another');

# Undone, and then in the place of what was undone.
sql('BEGIN; ' . enqueue('a', 3_000, $plain) . '; ROLLBACK; VACUUM pgq_ext.job; ' . enqueue('a', 3_000, $plain));
$enqueued{a} += 3_000;
check_indexes($node, 'after a rollback');

# ---- an id that is there already ----

my $taken = 'SELECT last_value + 400 FROM pgq_ext.job_id_seq';
my $current = 'SELECT segment FROM pgq_ext.job ORDER BY job_id DESC LIMIT 1';
# Into the segment that new jobs go to.
my $put = "INSERT INTO pgq_ext.job (job_id, queue_id, segment, payload) SELECT ($taken), queue_id, ($current), '1' FROM pgq_ext.queue WHERE queue = 'c' RETURNING job_id";
my $id = sql($put);
like((sqlstate($node, enqueue('a', 1_000, $plain)))[0], qr/^23505$/, 'an id is never there twice');
cmp_ok(sql('SELECT last_value FROM pgq_ext.job_id_seq'), '>=', $id, '... it was that one');
$enqueued{c}++;

# It waits for who has inserted it.
ask($sessions[0], 'BEGIN');
ask($sessions[0], $put);
send_sql($sessions[1], enqueue('a', 1_000, $plain));
$node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)})
  or BAIL_OUT('nobody waits');
ask($sessions[0], 'ROLLBACK');
is((reply($sessions[1]))[0], 1_000, 'an id whose insertion is undone was never there');
$enqueued{a} += 1_000;
end_session($_) for @sessions;
check_indexes($node, 'after duplicates');

# ---- records of many jobs ----

sql(q{SELECT pgq_alter_queue('c', log_attempts => 'all', keep_finished => '1 day')});
is(sql(q{SELECT count(*) FROM (SELECT array_agg(job_id) AS ids, array_agg(lease) AS leases FROM pgq_claim('c', 3000)) c, pgq_ack_many(ids, leases)}),
	3_000, 'many jobs end together');
$enqueued{c} -= 3_000;
check_indexes($node, 'with records');

# ---- elsewhere ----

$node->wait_for_catchup($standby);
check_indexes($standby, 'standby');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.job'), $enqueued{a} + $enqueued{b} + $enqueued{c}, '... which has all jobs');

$node->stop('immediate');
$node->start;
wait_for_scheduler($node);
check_indexes($node, 'after a crash');
is(sql("SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$_'"), $enqueued{$_}, "all jobs of $_ are there")
  for qw(a b c);

# By their order, and by their ids.
is(sql(q{SELECT count(DISTINCT pgq_cancel(job_id)) FROM (SELECT job_id FROM pgq_ext.job ORDER BY job_id DESC LIMIT 500) last}), '1', 'jobs are found by their ids');
sql(q{UPDATE pgq_ext.job SET run_at = enqueued_at WHERE run_at > enqueued_at});
my $left = sql(q{SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'a'});
my @ids = drain($node, 'a');
is(scalar @ids, $left, 'a queue is drained');
my %once = map { $_ => 1 } @ids;
is(scalar keys %once, $left, '... each job once');
check_indexes($node, 'in the end');

done_testing();
