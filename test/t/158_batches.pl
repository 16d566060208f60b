# Batches across sessions and databases: whose state of a batch an enqueue sees, and what a dump keeps.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "wal_level = logical\nmax_prepared_transactions = 2\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
sub add { my ($batch) = @_; return qq{SELECT count(*) FROM pgq_enqueue_many('q', '[{"payload": 1, "batch": $batch}, {"payload": 2, "batch": $batch}]')} }

create_queue($node, 'q');
my $batch = sql(q{SELECT pgq_create_batch(on_finish => '{"queue": "q", "payload": "done"}', metadata => '"kept"')});

# ---- the newest state counts, in every isolation level ----

for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $closed = sql('SELECT pgq_create_batch()');
	my $session = session($node);
	ask($session, "BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM pgq_ext.job_batch");
	is((ask($session, add($closed)))[0], '2', "$level: added");
	sql("SELECT pgq_close_batch($closed)");
	like((ask($session, add($closed)))[1], qr/batch $closed is closed/, '... refused after a close that its snapshot does not see');
	ask($session, 'ROLLBACK');
	is(sql("SELECT count(*) FROM pgq_ext.batch_note WHERE batch_id = $closed"), '0', '... and undone with its note');
	end_session($session);
}

# ---- open and prepared transactions ----

my ($open, $closing) = map { session($node) } 1 .. 2;
ask($open, 'BEGIN; ' . add($batch));
is(sql(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 20546}), '0', 'an open enqueue has released the tag');
ask($closing, "BEGIN; SELECT pgq_close_batch($batch)");
is(sql(add($batch)), '2', 'a close that is not committed closes nothing, and nobody waits for it');
ask($closing, 'ROLLBACK');
ask($open, q{PREPARE TRANSACTION 'members'});
is(sql("SELECT sum(n) FROM pgq_ext.batch_note WHERE batch_id = $batch"), '2', 'prepared: not there yet');
$node->restart;
sql(q{COMMIT PREPARED 'members'});
is(sql("SELECT sum(n) FROM pgq_ext.batch_note WHERE batch_id = $batch"), '4', '... and there with the commit');
is(sql("SELECT count(*) FROM pgq_ext.job WHERE batch_id = $batch"), '4', '... as the members are');

# ---- dumps and publications ----

sql('CREATE DATABASE restored');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'dumped');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], '... and restored');
my $state = q{SELECT to_jsonb(b) - 'maker' - 'restored' - 'due_at' FROM pgq_ext.job_batch b UNION ALL SELECT to_jsonb(n) FROM pgq_ext.batch_note n ORDER BY 1};
is(sql($state, 'restored'), sql($state), '... with batches and notes');
is(sql(q{SELECT bool_and(restored), bool_and(maker = maker_name::regrole) FROM pgq_ext.job_batch}, 'restored') . sql('SELECT bool_or(restored) FROM pgq_ext.job_batch'), 't|tf', '... as restored ones, of the same roles');
cmp_ok(sql('SELECT pgq_create_batch()', 'restored') >> 16, '>', $batch >> 16, 'ids go on');
is(sql(add($batch), 'restored'), '2', '... and members can be added');

sql('CREATE PUBLICATION all_tables FOR ALL TABLES');
is((sqlstate($node, "DELETE FROM pgq_ext.batch_note WHERE batch_id = $batch; UPDATE pgq_ext.job_batch SET metadata = NULL, pending = false; DELETE FROM pgq_ext.job_batch WHERE batch_id <> $batch"))[0] // '', '', 'rows that are published can be deleted');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'pgq_check finds nothing');

$node->stop;
done_testing();
