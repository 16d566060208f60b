# The view batch and the column "batch" of other views: in a database that was updated from version 0.1 and has no column for
# batches, across transactions, in a restored database, on a standby, and after the extension was made again.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 2\n", init => { allows_streaming => 1 });
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
sub add { my ($batch, $n) = @_; return qq{SELECT count(*) FROM pgq_enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'batch', $batch)) FROM generate_series(1, $n) i))} }
my $numbers = q{SELECT total, waiting, leased, acked, dead FROM pgq_ext.batch};

# ---- without the column ----

sql("CREATE DATABASE $_") for qw(updated restored);
sql(q{CREATE EXTENSION pgq_ext VERSION '0.1'; SELECT pgq_create_queue('q', max_attempts => 1)}, 'updated');
my $session = session($node, 'updated');
ask($session, q{SELECT count(pgq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 3) i; SELECT count(pgq_fail(job_id, lease, 'broken')) FROM pgq_claim('q')});
sql('ALTER EXTENSION pgq_ext UPDATE', 'updated');
my $in_views = q{SELECT string_agg(COALESCE(batch::text, '-'), ' ') FROM (SELECT batch FROM pgq_ext.job_status UNION ALL SELECT batch FROM pgq_ext.dead_letter) b};
is((ask($session, $in_views))[0], '- - -', 'without the column no job has a batch');
is((ask($session, 'TABLE pgq_ext.batch'))[0], '', '... and there is no batch');
# only a row that SQL has written
ask($session, q{INSERT INTO pgq_ext.job_batch (batch_id, maker, maker_name, created_at) VALUES (7, (SELECT oid FROM pg_roles WHERE rolname = current_user), current_user, now() - interval '1 year')});
is((ask($session, $numbers))[0], '0|0|0|0|0', '... which then has no members');
is((ask($session, q{SELECT string_agg(status, ' ') FROM pgq_ext.health WHERE "check" IN ('batches', 'callbacks')}))[0], 'ok ok', 'health says nothing of it');
is((ask($session, 'SELECT * FROM pgq_check()'))[0], '', 'pgq_check finds nothing');
is((ask($session, q{SELECT step FROM pgq_explain((SELECT max(job_id) FROM pgq_ext.job))}))[0], 'behind', 'a job is explained');

sql('SELECT pgq_ext.add_batch_columns()', 'updated');
is((ask($session, $in_views))[0], '- - -', 'with the column they are of no batch');
ask($session, q{UPDATE pgq_ext.job_batch SET restored = false});
is((ask($session, add(7, 2)))[0], '2', 'members are added');
is((ask($session, $in_views))[0], '- - 7 7 -', '... the same session sees their batch');
is((ask($session, $numbers))[0], '2|2|0|0|0', '... and counts them');
end_session($session);

# ---- open, prepared and other transactions ----

create_queue($node, 'q', 'max_attempts => 1');
my $batch = sql(q{SELECT pgq_create_batch(metadata => '"kept"')});
sql(add($batch, 5));
my ($open, $reader) = map { session($node) } 1 .. 2;
ask($open, 'BEGIN; ' . add($batch, 10));
is((ask($reader, $numbers))[0], '5|5|0|0|0', 'members of an open transaction are not counted');
is((ask($open, $numbers))[0], '15|15|0|0|0', '... but for that transaction');
ask($open, q{PREPARE TRANSACTION 'members'});
is((ask($reader, $numbers))[0], '5|5|0|0|0', 'nor those of a prepared one');
sql(q{COMMIT PREPARED 'members'});
is((ask($reader, $numbers))[0], '15|15|0|0|0', '... before its commit');
ask($open, q{BEGIN; SELECT count(*) FROM pgq_claim('q', 3)});
is((ask($reader, $numbers))[0], '15|12|3|0|0', 'what a claim has is in work, before the commit of its transaction');
ask($open, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease});
is((ask($reader, $numbers))[0], '15|12|3|0|0', 'what is acknowledged is in work until the commit');
ask($open, 'COMMIT');
is((ask($reader, $numbers))[0], '15|12|0|3|0', '... and then acknowledged');

# A plan that is kept by the session sees what the index has now.
ask($reader, q{SELECT count(pgq_fail(job_id, lease, 'broken')) FROM pgq_claim('q', 2)});
is((ask($reader, $numbers))[0], '15|10|0|3|2', 'dead letters are counted');
sql('TRUNCATE pgq_ext.dead_job; ANALYZE pgq_ext.job');
is((ask($reader, 'SELECT waiting, dead FROM pgq_ext.batch'))[0], '10|0', '... as long as they are there');

# ---- the index is missing ----

my $index = sql(q{SELECT indexrelid::regclass FROM pg_index WHERE indexrelid::regclass::text ~ '^pgq_ext\.job_\d_by_batch$' LIMIT 1});
my $definition = sql("SELECT pg_get_indexdef('$index'::regclass)");
sql("DROP INDEX $index");
like((sqlstate($node, 'SELECT * FROM pgq_check()'))[1] // '', qr/indexes, are missing/, 'pgq_check refuses to work without the index');
is(sql(q{SELECT status FROM pgq_ext.health WHERE "check" = 'tables'}), 'fail', '... health, too');
sql($definition);
is(sql('SELECT * FROM pgq_check()'), '', '... until it is there again');

# ---- restored ----

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'dumped');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], '... and restored');
my $all = q{SELECT batch, total, waiting, metadata, maker, created_at FROM pgq_ext.batch};
is(sql($all, 'restored'), sql($all), '... with the same numbers');

# ---- a standby ----

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay');
is($standby->safe_psql('postgres', 'SELECT batch, state, metadata FROM pgq_ext.batch'), "$batch|open|\"kept\"", 'a standby shows the batches');
is((sqlstate($standby, $numbers))[0], '25006', '... but not their numbers, since it does not know what is in work');
$standby->stop;

# ---- made again ----

ask($reader, q{SET client_min_messages = warning; DROP EXTENSION pgq_ext CASCADE; CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('q')});
my ($again) = ask($reader, 'SELECT pgq_create_batch()');
is((ask($reader, add($again, 4)))[0], '4', 'the extension is made again');
is((ask($reader, $numbers))[0], '4|4|0|0|0', '... a session that knew the old tables counts in the new ones');

$node->stop;
done_testing();
