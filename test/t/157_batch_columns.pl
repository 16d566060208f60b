# The column batch_id of jobs and dead letters and its index: what keeps the batch of a job, and a database that was updated from
# version 0.1, which has no such column before pgq_ext.add_batch_columns().
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.segment_size = 64kB\nmax_prepared_transactions = 2\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'updated', $sql) }

sql("CREATE DATABASE $_", 'postgres') for qw(updated dropped fresh restored unlike again);
for my $db (qw(updated dropped fresh))
{
	sql('CREATE EXTENSION pgq_ext' . ($db eq 'fresh' ? '' : q{ VERSION '0.1'}), $db);
	sql(q{SELECT pgq_create_queue('q', keep_finished => '1 day', log_attempts => 'all', max_attempts => 2, backoff_base => '0'), pgq_create_queue('churn')}, $db);
}

# ---- without the column ----

# All that reads or writes whole rows: retry, change, death, redrive, record, move.
sub use_all
{
	my ($db, $label) = @_;
	is(sql(q{SELECT count(pgq_enqueue('q', jsonb_build_object('n', i), group_key => 'g', unique_key => 'k' || i)) FROM generate_series(1, 4) i}, $db), '4', "$label: enqueued");
	is(sql(q{SELECT string_agg(pgq_fail(job_id, lease, 'broken', retry => false), ' ') FROM pgq_claim('q', 2)}, $db), 'dead dead', '... two are dead');
	is(sql(q{SELECT pgq_retry(min(job_id)), pgq_redrive('q') FROM pgq_ext.dead_job}, $db), 't|1', '... and come back');
	is(sql(q{SELECT string_agg(pgq_fail(job_id, lease, 'again'), ' ') FROM pgq_claim('q', 4)}, $db), 'retry retry retry retry', '... all are rewritten');
	is(sql(q{SELECT bool_and(pgq_update(job_id, priority => 3)) FROM pgq_ext.job}, $db), 't', '... and changed');
	is(sql(q{SELECT count(pgq_ack(job_id, lease, '1')) FROM pgq_claim('q', 4)}, $db), '4', '... and acknowledged');
	is(sql(q{SELECT count(*) FROM pgq_ext.finished_job}, $db), '4', '... with a record');
	is(sql(q{SELECT count(*) FROM pgq_check()}, $db), '0', '... and pgq_check finds nothing');
	sql(q{DELETE FROM pgq_ext.finished_job}, $db);
}
use_all('updated', 'objects of 0.1');
my ($session, $open) = map { session($node, 'updated') } 1 .. 2;
is((ask($session, q{SELECT count(pgq_enqueue('q', '"before"', priority => 9))}))[0], '1', 'a session that knows the old columns');
sql('ALTER EXTENSION pgq_ext UPDATE', $_) for 'updated', 'dropped';

# ---- the column is added ----

my $columns = q{SELECT count(*) FROM pg_attribute WHERE attname = 'batch_id' AND attrelid::regclass::text IN ('pgq_ext.job', 'pgq_ext.dead_job', 'pgq_ext.finished_job')};
ask($open, q{BEGIN; SELECT pgq_enqueue('q', '"open"')});
is((sqlstate($node, q{SET lock_timeout = '200ms'; SELECT pgq_ext.add_batch_columns()}, 'updated'))[0], '55P03', 'it waits for an open enqueue, as long as lock_timeout says');
is(sql($columns), '0', '... and has added nothing');
ask($open, 'ROLLBACK');

sql('ALTER TABLE pgq_ext.dead_job ADD more int; ALTER TABLE pgq_ext.dead_job DROP more', 'dropped');
is((sqlstate($node, 'SELECT pgq_ext.add_batch_columns()', 'dropped'))[0], '55000', 'refused after a dropped column, which keeps its number');
is(sql($columns, 'dropped'), '0', '... and has added nothing');
use_all('dropped', 'a dropped column');

is((sqlstate($node, 'SELECT pgq_create_batch()', 'updated'))[0], '55000', 'without it there are no batches');
is((sqlstate($node, q{SELECT pgq_enqueue_many('q', '[{"payload": 1, "batch": 1}]')}, 'updated'))[0], '55000', '... and no members');
is(sql('SELECT pgq_ext.add_batch_columns()'), 't', 'added');
is(sql('SELECT pgq_ext.add_batch_columns()'), 'f', '... once');
is((ask($session, q{SELECT count(pgq_enqueue('q', '"after"'))}))[0], '1', 'the session that knew the old columns goes on');
is((ask($open, q{SELECT string_agg(payload::text, ' ') FROM pgq_claim('q', 2) c, LATERAL (SELECT pgq_ack(c.job_id, c.lease)) a}))[0], '"before" "after"', '... and both jobs are found');
end_session($_) for $session, $open;
sql(q{DELETE FROM pgq_ext.finished_job});

# ---- what keeps the batch ----

my $indexes = q{SELECT count(*), bool_and(indisvalid) FROM pg_index WHERE indexrelid::regclass::text ~ '^pgq_ext\.(job|dead_job)_\d+_by_batch$'};
for my $db (qw(updated fresh))
{
	sql(q{INSERT INTO pgq_ext.job_batch (batch_id, maker_name) VALUES (7, current_user), (8, current_user)}, $db);
	is(sql($indexes, $db), '12|t', "$db: each segment of jobs and dead letters has the index");
	use_all($db, $db);
	sql(q{INSERT INTO pgq_ext.job (queue_id, payload, batch_id) SELECT queue_id, '"member"', 7 FROM pgq_ext.queue WHERE queue = 'q'}, $db);
	my $find = q{SET enable_seqscan = off; SELECT string_agg(payload::text, ' ') FROM pgq_ext.job WHERE batch_id = 7};
	is(sql($find, $db), '"member"', 'found by its batch');
	is(sql(q{SELECT pgq_fail(job_id, lease, 'again') FROM pgq_claim('q')}, $db), 'retry', 'failed');
	is(sql($find, $db), '"member"', '... and a member');
	is(sql(q{SELECT pgq_update(job_id, priority => 1, payload => '"changed"') FROM pgq_ext.job}, $db), 't', 'changed');
	is(sql($find, $db), '"changed"', '... and a member');
	is(sql(q{SELECT pgq_fail(job_id, lease, 'broken') FROM pgq_claim('q')}, $db), 'dead', 'dead');
	is(sql(q{SET enable_seqscan = off; SELECT payload FROM pgq_ext.dead_job WHERE batch_id = 7}, $db), '"changed"', '... and found by its batch');
	is(sql(q{SELECT pgq_redrive('q')}, $db), '1', 'redriven');
	is(sql($find, $db), '"changed"', '... and a member');
	sql(q{SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('q')}, $db);
	is(sql(q{SELECT pgq_retry(job_id, '1 year') FROM pgq_ext.dead_job}, $db), 't', 'retried');
	is(sql($find, $db), '"changed"', '... and a member');

	my $ending = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
	my $was = sql(q{SELECT segment FROM pgq_ext.job WHERE batch_id = 7}, $db);
	my $moved;
	until ($moved || monotonic() > $ending)
	{
		sql(q{SELECT count(pgq_enqueue('churn', to_jsonb(i))) FROM generate_series(1, 500) i; SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('churn', 1000)}, $db);
		$moved = sql(q{SELECT segment FROM pgq_ext.job WHERE batch_id = 7}, $db) ne $was;
	}
	ok($moved, 'moved to another segment');
	is(sql($find, $db), '"changed"', '... and a member');
	is(sql(q{SELECT pgq_retry(job_id) FROM pgq_ext.job WHERE batch_id = 7; SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q')}, $db), "t\n1", 'acknowledged');
	is(sql(q{SELECT batch_id FROM pgq_ext.finished_job WHERE batch_id IS NOT NULL}, $db), '7', '... the record names the batch');
	is(sql(q{SELECT count(*) FROM pgq_ext.job WHERE batch_id = 7}, $db), '0', '... which has no member left');
	is(sql(q{SELECT count(*) FROM pgq_check()}, $db), '0', 'pgq_check finds nothing');
}

# ---- restored ----

sql(q{INSERT INTO pgq_ext.job (queue_id, payload, batch_id) SELECT queue_id, to_jsonb(i), 8 FROM pgq_ext.queue, generate_series(1, 3) i WHERE queue = 'q'});
my $dump = $node->basedir . '/updated.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('updated') ], 'dumped');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], '... and restored where the column is part of the installation');
is(sql(q{SELECT string_agg(payload::text, ' ' ORDER BY job_id) FROM pgq_ext.job WHERE batch_id = 8}, 'restored'), '1 2 3', '... with the members');
is(sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q', 9)}, 'restored'), '3', '... which are handed out');

# Where the column is missing, the partitions of a dump do not fit the tables of a new installation.
sub restore { my ($db) = @_; return run_command([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr($db) ]) }
sql(q{INSERT INTO pgq_ext.job (queue_id, payload) SELECT queue_id, to_jsonb(i) FROM pgq_ext.queue, generate_series(1, 3) i WHERE queue = 'q'}, 'dropped');
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('dropped') ], 'a dump without the column');
like((restore('unlike'))[1], qr/missing column "batch_id"/, '... does not fit a new installation');
sql(q{CREATE EXTENSION pgq_ext VERSION '0.1'; ALTER EXTENSION pgq_ext UPDATE}, 'again');
is((restore('again'))[1], '', '... but one that was updated, too');
is(sql(q{SELECT string_agg(payload::text, ' ' ORDER BY job_id) FROM pgq_ext.job}, 'again'), '1 2 3', '... with the jobs');
is(sql(q{SELECT pgq_ext.add_batch_columns()}, 'again'), 't', '... and the column can be added, since a dropped column is not dumped');
is(sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q', 9)}, 'again'), '3', '... the jobs are handed out');

$node->stop;
done_testing();
