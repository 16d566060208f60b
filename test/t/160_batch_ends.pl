# The notes that ends of members leave where more than one session, server process or database is involved: the scheduler, prepared
# transactions, a restart, replication, a server without the library.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', init => { allows_streaming => 'logical' }, conf => "pgq_ext.segment_size = 64kB\nmax_prepared_transactions = 5\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }

# Returns the id of a new batch with that many members in the queue.
sub batch
{
	my ($queue, $members, $options) = @_;
	my $batch = sql('SELECT pgq_create_batch()');
	$options //= '{}';
	sql(qq{SELECT count(*) FROM pgq_enqueue_many('$queue', (SELECT jsonb_agg('$options'::jsonb || '{"payload": "member", "batch": $batch}') FROM generate_series(1, $members)))});
	return $batch;
}

# The notes of the batch, in the order in which they were written.
my $what = q{(ARRAY['added', 'dead', 'cancelled', 'expired', 'purged', 'dropped', 'deleted', 'dead letter deleted'])[what]};
sub notes { my ($batch, $db) = @_; return sql("SELECT string_agg($what || ' ' || n, ', ' ORDER BY ctid) FROM pgq_ext.batch_note WHERE batch_id = $batch", $db) }
sub wait_for_note { my ($batch, $kind) = @_; return wait_for($node, "count(*) > 0 FROM pgq_ext.batch_note WHERE batch_id = $batch AND $what = '$kind'") }
sub first_of { my ($batch) = @_; return "(SELECT min(job_id) FROM pgq_ext.job WHERE batch_id = $batch)" }

create_queue($node, 'q', "max_attempts => 1, keep_dead => '1 year'");
create_queue($node, 'churn');
create_queue($node, 'brief', "keep_dead => '0'");
wait_for_scheduler($node);

# ---- for the end of this test: the scheduler expires nothing in the first minute ----

my $expiring = batch('brief', 3, '{"expires_in": "1 s"}');
my $gone = batch('brief', 2);
wait_for($node, "count(*) = 3 FROM pgq_ext.job WHERE batch_id = $expiring AND expires_at < clock_timestamp()");
is(sql(q{SELECT string_agg(pgq_fail(job_id, lease, 'broken', retry => false), ' ') FROM pgq_claim('brief', 2)}), 'dead dead', 'dead letters whose time is over soon');

# ---- prepared transactions ----

my $prepared = batch('q', 6);
sql("BEGIN; DELETE FROM pgq_ext.job WHERE job_id = " . first_of($prepared) . "; SELECT pgq_cancel(" . first_of($prepared) . "); PREPARE TRANSACTION 'kept'");
sql("BEGIN; SAVEPOINT a; DELETE FROM pgq_ext.job WHERE job_id IN (SELECT job_id FROM pgq_ext.job WHERE batch_id = $prepared ORDER BY job_id OFFSET 2 LIMIT 1);
	ROLLBACK TO a; SELECT pgq_cancel((SELECT max(job_id) FROM pgq_ext.job WHERE batch_id = $prepared)); PREPARE TRANSACTION 'undone'");
is(notes($prepared), 'added 6', 'prepared ends have no note yet');
$node->stop('immediate');
$node->start;
sql("COMMIT PREPARED 'kept'");
sql("ROLLBACK PREPARED 'undone'");
is(notes($prepared), 'added 6, cancelled 1, deleted 1', '... but have one after COMMIT PREPARED, also beyond a crash');
is(sql("SELECT count(*) FROM pgq_ext.job WHERE batch_id = $prepared"), '4', '... as the members');
sql("SELECT pgq_purge_queue('q')");

# ---- attempts that the scheduler counts, and acks after a restart ----

my $lost = batch('q', 1);
wait_for_scheduler($node);
my $session = session($node);
ask($session, 'BEGIN; LOCK TABLE pgq_ext.batch_note IN SHARE MODE');
sql(q{BEGIN; SELECT job_id FROM pgq_claim('q'); ROLLBACK});
my $locked = sql('SELECT clock_timestamp()');
wait_for($node, "bool_and(last_run_at > '$locked') FROM pgq_ext.duty WHERE duty IN ('presence', 'queues')");
is(sql("SELECT count(*) FROM pg_locks WHERE NOT granted"), '0', 'the scheduler does not wait for the table of notes');
is(notes($lost), 'added 1', '... and counts the lost attempt later');
ask($session, 'COMMIT');
end_session($session);
wait_for_note($lost, 'dead');
is(notes($lost), 'added 1, dead 1', '... with a note');

my $late = batch('q', 1);
my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')});
$node->restart;
sql("SELECT pgq_ack($id, $lease)");
is(notes($late) . sql("SELECT count(*) FROM pgq_ext.job WHERE batch_id = $late"), 'added 10', 'a late ack leaves no note');

# ---- rotation moves members and their dead letters ----

my $moved = batch('q', 2);
is(sql(q{SELECT pgq_fail(job_id, lease, 'broken') FROM pgq_claim('q')}), 'dead', 'a member waits, and one is dead');
my $places = "SELECT (SELECT segment FROM pgq_ext.job WHERE batch_id = $moved), (SELECT segment FROM pgq_ext.dead_job WHERE batch_id = $moved)";
my ($job, $dead) = split /\|/, sql($places);
# A row that has been moved twice may be where it was at first.
my ($job_moved, $dead_moved);
for (my $ending = monotonic() + $PostgreSQL::Test::Utils::timeout_default; monotonic() < $ending && !($job_moved && $dead_moved);)
{
	sql(q{SELECT count(pgq_enqueue('churn', to_jsonb(i))) FROM generate_series(1, 500) i;
		SELECT count(pgq_fail(job_id, lease, repeat('broken ', 50), retry => false)) FROM pgq_claim('churn', 1000);
		DELETE FROM pgq_ext.dead_job USING pgq_ext.queue q WHERE q.queue = 'churn' AND dead_job.queue_id = q.queue_id});
	my ($job_now, $dead_now) = split /\|/, sql($places);
	$job_moved ||= $job_now != $job;
	$dead_moved ||= $dead_now != $dead;
}
ok($job_moved, 'the member was moved to another segment');
ok($dead_moved, '... and the dead letter, too');
is(notes($moved), 'added 2, dead 1', '... without a note');
sql(q{SELECT pgq_purge_queue('q'); DELETE FROM pgq_ext.dead_job USING pgq_ext.queue q WHERE q.queue = 'q' AND dead_job.queue_id = q.queue_id});
is(notes($moved), 'added 2, dead 1, purged 1, dead letter deleted 1', '... which their ends leave');

# ---- replication: an ack arrives as a DELETE ----

sql('CREATE DATABASE subscriber');
$node->command_ok([ 'pg_dump', '--schema-only', '-f', $node->basedir . '/schema.sql', $node->connstr('postgres') ], 'pg_dump --schema-only');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $node->basedir . '/schema.sql', $node->connstr('subscriber') ], '... loaded');
my $replicated = batch('q', 4);
my $connection = $node->connstr . ' dbname=postgres';
sql(q{CREATE PUBLICATION p FOR TABLE pgq_ext.job, pgq_ext.dead_job, pgq_ext.queue, pgq_ext.job_batch, pgq_ext.batch_note});
sql(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
sql("CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p WITH (create_slot = false, slot_name = 's')", 'subscriber');
$node->poll_query_until('subscriber', q{SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')});
is(notes($replicated, 'subscriber'), 'added 4', 'the subscriber has the notes');
is(sql("SELECT restored, maker = maker_name::regrole FROM pgq_ext.job_batch WHERE batch_id = $replicated", 'subscriber'), 't|t', '... and the batch, as restored');
sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', 2)});
sql('SELECT pgq_cancel(' . first_of($replicated) . ')');
sql("DELETE FROM pgq_ext.job WHERE batch_id = $replicated");
$node->wait_for_catchup('s');
is(sql("SELECT count(*) FROM pgq_ext.job WHERE batch_id = $replicated", 'subscriber'), '0', '... all members have ended there');
is(notes($replicated, 'subscriber'), 'added 4, cancelled 1, deleted 1', '... with the notes of the publisher alone');
is(notes($replicated), 'added 4, cancelled 1, deleted 1', '... which are these');
sql('ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE)', 'subscriber');
sql('DROP SUBSCRIPTION s', 'subscriber');
wait_for($node, q{NOT active FROM pg_replication_slots});
sql(q{SELECT pg_drop_replication_slot('s'); DROP PUBLICATION p});

# ---- databases without the column ----

sql('CREATE DATABASE updated');
sql(q{CREATE EXTENSION pgq_ext VERSION '0.1'}, 'updated');
for my $label ('the objects of 0.1', 'an updated database')
{
	sql(q{SELECT pgq_create_queue('q')}, 'updated');
	is(sql(q{SELECT count(pgq_enqueue('q', '1')) FROM generate_series(1, 4)}, 'updated'), '4', "$label: jobs");
	sql('DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(job_id) FROM pgq_ext.job); UPDATE pgq_ext.job SET priority = 1', 'updated');
	is(sql(q{SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('q')}, 'updated'), 'dead', '... one is dead');
	is(sql(q{SELECT pgq_retry(job_id) FROM pgq_ext.dead_job}, 'updated'), 't', '... and comes back');
	is(sql(q{SELECT pgq_purge_queue('q')}, 'updated'), '3', '... purged');
	sql(q{TRUNCATE pgq_ext.job, pgq_ext.dead_job; SELECT pgq_drop_queue('q', force => true)}, 'updated');
	is(sql('SELECT count(*) FROM pgq_check()', 'updated'), '0', '... and pgq_check finds nothing');
	sql('ALTER EXTENSION pgq_ext UPDATE', 'updated');
}

# ---- the scheduler expires members, and deletes dead letters ----

wait_for_note($expiring, 'expired');
wait_for($node, "sum(n) = 3 FROM pgq_ext.batch_note WHERE batch_id = $expiring AND $what = 'expired'");
is(notes($expiring), 'added 3, expired 1, expired 1, expired 1', 'members that have expired');
wait_for_note($gone, 'dead letter deleted');
is(notes($gone), 'added 2, dead 1, dead 1, dead letter deleted 2', 'dead letters whose time is over');

# ---- without the library's shared memory ----

my $silent = batch('q', 3);
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
sql('BEGIN; DELETE FROM pgq_ext.job WHERE job_id = ' . first_of($silent) . '; ROLLBACK');
is(notes($silent), 'added 3', 'not preloaded: undone');
sql("DELETE FROM pgq_ext.job WHERE batch_id = $silent");
is(notes($silent), 'added 3, deleted 1, deleted 1, deleted 1', '... a deletion leaves its note');
is((sqlstate($node, "DELETE FROM pgq_ext.job_batch WHERE batch_id = $silent"))[0], '55006', '... and the batch stays');
sql('TRUNCATE pgq_ext.dead_job');
is(notes($silent), 'added 3, deleted 1, deleted 1, deleted 1, deleted 1', '... a truncation, too');

$node->stop;
done_testing();
