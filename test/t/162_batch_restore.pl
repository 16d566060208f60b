# Batches that come from a dump, and batches that are settled: when the scheduler looks at them, and when it deletes them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('main');
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
my $callback = q{'{"queue": "told", "payload": 1}'};

create_queue($node, 'work', 'max_attempts => 1');
create_queue($node, 'told');
my $batch = sql("SELECT pgq_create_batch(on_finish => $callback)");
sql(qq{SELECT count(*) FROM pgq_enqueue_many('work', '[{"payload": 1, "batch": $batch}]'); SELECT pgq_close_batch($batch)});

# ---- dump and restore: the row of the batch comes before its members ----

sql('CREATE DATABASE restored');
sql('CREATE EXTENSION pgq_ext', 'restored');
create_queue($node, 'work', undef, 'restored');
create_queue($node, 'told', undef, 'restored');
wait_for_scheduler($node, 'restored');
my $copy = $node->basedir . '/batch.copy';
sql("COPY (SELECT * FROM pgq_ext.job_batch) TO '$copy'");
sql("COPY pgq_ext.job_batch FROM '$copy'", 'restored');
wait_for($node, "due_at BETWEEN now() + interval '1 min' AND now() + interval '5 min' FROM pgq_ext.job_batch WHERE batch_id = $batch", 'restored');
is(sql("SELECT restored, pending, finished_at IS NULL FROM pgq_ext.job_batch WHERE batch_id = $batch", 'restored'), 't|t|t', 'a restored batch without members is not looked at yet');
is(sql('SELECT count(*) FROM pgq_ext.job', 'restored'), '0', '... and nothing is enqueued');
# As if the time had come.
sql("UPDATE pgq_ext.job_batch SET due_at = now() - interval '1 s' WHERE batch_id = $batch", 'restored');
wait_for($node, "finished_at IS NOT NULL AND NOT restored AND due_at IS NULL FROM pgq_ext.job_batch WHERE batch_id = $batch", 'restored');
is(sql('SELECT count(*) FROM pgq_ext.job', 'restored'), '1', '... but when its time has come');

# ---- retention ----

sql(q{ALTER SYSTEM SET pgq_ext.keep_batches = 0});
sql(q{SELECT pg_reload_conf()});
my $open = sql('SELECT pgq_create_batch()');
my $dead = sql('SELECT pgq_create_batch()');
sql(qq{SELECT count(*) FROM pgq_enqueue_many('work', '[{"payload": 1, "batch": $dead}]'); SELECT pgq_close_batch($dead)});
for (1 .. 2) { sql(q{SELECT pgq_fail(job_id, lease, 'bad') FROM pgq_claim('work', 1)}) }
wait_for($node, "finished_at IS NOT NULL FROM pgq_ext.job_batch WHERE batch_id = $dead");
my $settled = sql('SELECT pgq_create_batch()');
sql("SELECT pgq_close_batch($settled)");
wait_for($node, "count(*) = 0 FROM pgq_ext.job_batch WHERE batch_id = $settled");
is(sql("SELECT count(*) FROM pgq_ext.job_batch WHERE batch_id IN ($open, $dead)"), '2', 'only batches that are over are deleted');
sql("SELECT pgq_cancel(job_id) FROM pgq_ext.dead_job");
wait_for($node, "count(*) = 0 FROM pgq_ext.job_batch WHERE batch_id = $dead");
wait_for($node, "count(*) = 0 FROM pgq_ext.batch_note WHERE batch_id = $dead");
pass('... with their notes, when the last dead letter is gone');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'pgq_check finds nothing');

$node->stop;
done_testing();
