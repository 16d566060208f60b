# Children across sessions: an enqueue waits for a transaction that is ending or changing a parent, and learns what became of the parent.
# And what keeps a child: rewrites, deaths, moves, restarts, dumps.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest qw(send_and_block);

my $node = pgq_node('main', conf => "pgq_ext.segment_size = 64kB\nmax_prepared_transactions = 2\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }

create_queue($node, 'plain');
create_queue($node, 'kept', "keep_finished => '1 day'");
create_queue($node, $_) for 'children', 'chain';
my ($worker, $producer) = map { session($node) } 1 .. 2;

sub parent { my ($queue) = @_; return sql("SELECT pgq_enqueue('$queue', '\"parent\"')") }
sub child_of { my ($parent) = @_; return "SELECT pgq_enqueue('children', '\"child\"', after => ARRAY[$parent])" }
sub outcomes { my ($parent) = @_; return sql("SELECT string_agg(outcome::text, ' ') FROM pgq_ext.job_outcome WHERE job_id = $parent") }

# Claims the parent in a transaction of its own, and acknowledges it in one that stays open.
sub begin_ack
{
	my ($queue, $parent) = @_;
	my $lease = sql("SELECT lease FROM pgq_claim('$queue', 1) WHERE job_id = $parent");
	ask($worker, "BEGIN; SELECT pgq_ack($parent, $lease, '{\"n\": 1}')");
	return;
}

# Enqueues a child, which has to wait, ends the transaction of the worker so, and returns what the enqueue says.
sub after_wait
{
	my ($parent, $how) = @_;
	send_and_block($node, $producer, child_of($parent));
	ask($worker, $how);
	my ($id, $errors) = reply($producer);
	return $errors ? ($errors =~ /(job \d+ does not exist)/)[0] : $id =~ /^\d+$/ ? 'enqueued' : "$id";
}

# ---- what an enqueue waits for ----

my $parent = parent('kept');
begin_ack('kept', $parent);
is(after_wait($parent, 'COMMIT'), 'enqueued', 'a parent that is acknowledged meanwhile');
is(outcomes($parent), '1', '... the child has written the outcome, from the record');
is(sql("SELECT result FROM pgq_ext.job_outcome WHERE job_id = $parent"), '{"n": 1}', '... with the result');

$parent = parent('kept');
begin_ack('kept', $parent);
is(after_wait($parent, 'ROLLBACK'), 'enqueued', 'an ack that is rolled back');
is(outcomes($parent), '', '... is no end');
sql("SELECT pgq_cancel($parent)");

$parent = parent('plain');
begin_ack('plain', $parent);
is(after_wait($parent, 'COMMIT'), "job $parent does not exist", 'nothing says how the parent has ended: its end has not seen the child');
is(sql("SELECT count(*) FROM pgq_ext.job_dependency WHERE parent_id = $parent"), '0', '... and no dependency is left');

$parent = parent('kept');
begin_ack('kept', $parent);
ask($worker, q{PREPARE TRANSACTION 'ack'});
send_and_block($node, $producer, child_of($parent));
sql(q{COMMIT PREPARED 'ack'});
like((reply($producer))[0], qr/^\d+$/, 'a prepared ack is waited for');
is(outcomes($parent), '1', '... and its outcome known');

$parent = parent('plain');
ask($worker, "BEGIN; SELECT pgq_update($parent, priority => 7)");
is(after_wait($parent, 'COMMIT'), 'enqueued', 'a parent that is changed');
sql("SELECT pgq_cancel($parent)");

$parent = (ask($worker, q{BEGIN; SELECT pgq_enqueue('plain', '"open"')}))[0];
is(after_wait($parent, 'COMMIT'), 'enqueued', 'a parent whose enqueue is open');
sql("SELECT pgq_cancel($parent)");
$parent = (ask($worker, q{BEGIN; SELECT pgq_enqueue('plain', '"open"')}))[0];
is(after_wait($parent, 'ROLLBACK'), "job $parent does not exist", '... and then rolled back');

$parent = parent('plain');
sql(q{SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('plain')});
ask($worker, "BEGIN; SELECT pgq_retry($parent)");
is(after_wait($parent, 'COMMIT'), 'enqueued', 'a dead letter that is revived');
sql(q{SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('plain')});
ask($worker, "BEGIN; SELECT pgq_cancel($parent)");
is(after_wait($parent, 'ROLLBACK'), 'enqueued', '... and one whose deletion is rolled back');

# ---- results of parents that the same transaction has acknowledged ----

# Claims new parents in one transaction, and executes the statements in another one; ack(n, result) acknowledges the n-th, child(n) enqueues a child of it. Returns the results that are kept for the children.
sub results_of
{
	my ($n, $statements, $end) = @_;
	my @p = map { parent('plain') } 1 .. $n;
	my %lease = split /[|\n]/, sql("SELECT job_id, lease FROM pgq_claim('plain', 100)");
	$statements =~ s/\back\((\d+), (.*?)\)/"SELECT pgq_ack($p[$1], $lease{$p[$1]}, $2)"/ge;
	$statements =~ s/\bchild\((\d+)\)/child_of($p[$1])/ge;
	sql("BEGIN; $statements; " . ($end // 'COMMIT'));
	sql("COMMIT PREPARED 'ack'") if $end;
	my $results = join ' ', map { sql("SELECT COALESCE(left(result::text, 9), 'none') FROM pgq_ext.job_outcome WHERE job_id = $_ AND outcome = 1") || 'no ack' } @p;
	sql("SELECT pgq_cancel(job_id) FROM pgq_ext.job_status WHERE queue IN ('plain', 'children')");
	return $results;
}
is(results_of(1, q{ack(0, '{"n": 3}'); child(0); child(0)}), '{"n": 3}', 'a child that is enqueued after the ack of its parent, in the same transaction, gets the result');
is(results_of(3, q{ack(0, '[0]'); ack(1, NULL); ack(2, '[2]'); child(2); child(1); child(0)}), '[0] none [2]', '... also of one of several parents');
is(results_of(2, q{SAVEPOINT a; ack(0, '[0]'); ROLLBACK TO a; ack(0, '[1]'); SAVEPOINT b; ack(1, '[2]'); RELEASE b; child(0); child(1)}), '[1] [2]', '... the one that was not rolled back');
is(results_of(2, q{SAVEPOINT a; ack(0, '[0]'); SAVEPOINT b; ack(1, '[1]'); RELEASE b; ROLLBACK TO a; ack(0, NULL); ack(1, NULL); child(0); child(1)}), 'none none', '... and none if all were rolled back');
is(results_of(1, q{ack(0, '[0]'); child(0)}, q{PREPARE TRANSACTION 'ack'}), '[0]', '... also if the transaction is prepared');
is(results_of(4, q{SET LOCAL work_mem = '64kB'; ack(0, '[0]'); ack(1, to_jsonb(repeat('1', 40000))); ack(2, to_jsonb(repeat('2', 40000))); ack(3, to_jsonb(repeat('3', 80000))); child(0); child(1); child(2); child(3)}),
	'none none none "33333333', '... and the last one if they are too large for work_mem');
is(results_of(2, q{SET LOCAL work_mem = '64kB'; ack(0, to_jsonb(repeat('1', 30000))); ack(1, to_jsonb(repeat('2', 30000))); child(0); child(1)}), '"11111111 "22222222', '... or all that fit into it');

# Two transactions may both find the parent ended. Neither waits for the other one.
$parent = parent('kept');
sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('kept')});
ask($worker, 'BEGIN; ' . child_of($parent));
is(sql(child_of($parent) . ' IS NOT NULL'), 't', 'an open enqueue has written the outcome');
ask($worker, 'COMMIT');
is(outcomes($parent), '1 1', '... so another one writes it, too');
is(sql(child_of($parent) . ' IS NOT NULL'), 't', 'an outcome that is committed');
is(outcomes($parent), '1 1', '... is found');
sql("DELETE FROM pgq_ext.finished_job WHERE job_id = $parent");
ask($worker, "BEGIN; DELETE FROM pgq_ext.job_outcome WHERE job_id = $parent");
is(after_wait($parent, 'ROLLBACK'), 'enqueued', 'an outcome that is being deleted, without a record');

# ---- isolation levels, rights ----

for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	$parent = parent('kept');
	ask($producer, "BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM pgq_ext.job");
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('kept')});
	like((ask($producer, child_of($parent)))[0], qr/^\d+$/, "$level: a parent that has ended since the snapshot");
	ask($producer, 'COMMIT');
	is(outcomes($parent), '1', '... has an outcome');
}

sql(q{CREATE ROLE stranger LOGIN; GRANT EXECUTE ON FUNCTION pgq_enqueue TO stranger; SELECT pgq_grant('kept', 'postgres', '{inspect}')});
$parent = parent('kept');
begin_ack('kept', $parent);
ask($producer, 'SET ROLE stranger');
like((ask($producer, child_of($parent)))[1], qr/job $parent does not exist/, 'without the right to ask for its result a job is unknown, and not waited for');
ask($producer, 'RESET ROLE');
ask($worker, 'COMMIT');

# ---- large graphs ----

# A chain whose last element comes first: each waits for the next one.
is(sql(q{WITH jobs AS (SELECT jsonb_agg(jsonb_build_object('payload', i, 'ref', i::text, 'after', CASE WHEN i < 20000 THEN jsonb_build_array((i + 1)::text) END) ORDER BY i) AS jobs FROM generate_series(1, 20000) i),
	ids AS (SELECT n, id FROM jobs, pgq_enqueue_many('chain', jobs) WITH ORDINALITY t (id, n))
	SELECT count(*), corr(n, id)::numeric(4, 2) FROM ids}), '20000|-1.00', 'a chain of 20000 jobs, in the order of the graph');
is(sql(q{SELECT count(*) FROM pgq_ext.job_dependency d JOIN pgq_ext.job p ON p.job_id = d.parent_id JOIN pgq_ext.job c ON c.job_id = d.child_id
	WHERE c.queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'chain') AND (c.payload, p.payload) IN (SELECT to_jsonb(i), to_jsonb(i + 1) FROM generate_series(1, 19999) i) AND d.parent_id < d.child_id AND to_jsonb(d.ref::int) = p.payload}), '19999', '... with its dependencies');
is(sql(q{SELECT payload FROM pgq_claim('chain', 9)}), '20000', '... of which one can run');
sql(q{SELECT pgq_drop_queue('chain', force => true), pgq_purge_queue('children'); DELETE FROM pgq_ext.job_dependency d WHERE NOT EXISTS (SELECT FROM pgq_ext.job j WHERE j.job_id = d.child_id)});
is(sql(q{SELECT parents FROM pgq_ext.job WHERE job_id = (SELECT pgq_enqueue('children', '1', after => array_agg(id)) FROM pgq_enqueue_many('plain', (SELECT jsonb_agg(jsonb_build_object('payload', i)) FROM generate_series(1, 1000) i)) id)}), '', 'not seen by the same statement');
is(sql(q{SELECT max(parents), count(*) FROM pgq_ext.job WHERE blocked IS NOT NULL}), '1000|1', '1000 parents of one child');
sql(q{SELECT pgq_purge_queue(q) FROM unnest('{plain,children}'::text[]) q});

# ---- what keeps a child ----

$parent = parent('plain');
my $child = sql(qq{SELECT pgq_enqueue('children', '"kept"', after => ARRAY[$parent], delay => '5 s', priority => 100)});
my $kept = qq{SELECT blocked, parents, run_at = '9999-12-01 UTC' FROM pgq_ext.job WHERE job_id = $child};
my $segment = sql("SELECT segment FROM pgq_ext.job WHERE job_id = $child");
my $ending = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
create_queue($node, 'churn');
my $moved;
until ($moved || monotonic() > $ending)
{
	sql(q{SELECT count(pgq_enqueue('churn', to_jsonb(i))) FROM generate_series(1, 500) i; SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('churn', 1000)});
	$moved = sql("SELECT segment FROM pgq_ext.job WHERE job_id = $child") ne $segment;
}
ok($moved, 'moved to another segment');
is(sql($kept), '5000000|1|t', '... and blocked');
end_session($_) for $worker, $producer;
stop_and_start($node, 'immediate');
is(sql(q{SELECT pgq_enqueue('children', '"ready"') IS NOT NULL}), 't', 'after a crash');
is(sql(q{SELECT payload FROM pgq_claim('children', 5, wait => '30 s')}), '"ready"', '... a blocked job of a higher priority is not handed out');
is(sql($kept), '5000000|1|t', '... and blocked');
is(sql("SELECT state, waits_for FROM pgq_ext.job_status WHERE job_id = $child"), "blocked|the end of job $parent (waiting)", '... which its state says');

# As the scheduler will do it: the job is ready, and goes through a death, a redrive and an ack.
sql(q{SELECT pgq_alter_queue('children', keep_finished => '1 day')});
# The scheduler may be judging the job after the start, and have its row locked: then the claim waits.
sql("UPDATE pgq_ext.job SET blocked = NULL, run_at = now() WHERE job_id = $child");
is(sql(q{SELECT payload, pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('children', 5, wait => '60 s')}), '"kept"|dead', 'ready and dead');
is(sql("SELECT parents FROM pgq_ext.dead_job WHERE job_id = $child"), '1', '... with its number of parents');
is(sql(q{SELECT pgq_redrive('children')}), '1', '... redriven');
is(sql("SELECT blocked, parents FROM pgq_ext.job WHERE job_id = $child"), '|1', '... and still so');
sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('children', 5)});
is(sql("SELECT parents FROM pgq_ext.finished_job WHERE job_id = $child"), '1', '... also in the record');

# A parent that no claim gets, as an approval of docs/workflows.md.
my $unasked = sql(q{SELECT pgq_enqueue('plain', '"nobody answers"', delay => '8 days', expires_in => '10 ms')});
my %of = map { $_ => sql(qq{SELECT pgq_enqueue('children', '"of an expired job"', after => ARRAY[$unasked], on_parent_failure => '$_')}) } qw(cancel run hold);
$child = sql(qq{SELECT pgq_enqueue('children', '"expires"', after => ARRAY[$parent], expires_in => '10 ms')});
is(sql("SELECT state FROM pgq_result($child, '60 s')"), 'expired', 'a blocked job can expire');
wait_for($node, "(SELECT state FROM pgq_result($of{$_->[0]})) = '$_->[1]'") for [ 'cancel', 'cancelled' ], [ 'run', 'ready' ], [ 'hold', 'cancelled' ];
is(sql(q{SELECT p.state FROM pgq_claim('children') c, pgq_parents(c.job_id, c.lease) p}), 'expired', 'the children of a job that expires');

# ---- dumps, publications, databases that were updated ----

sql(child_of($parent));
$parent = parent('kept');
sql(q{SELECT pgq_ack(job_id, lease, '{"n": 2}') FROM pgq_claim('kept')});
my $judged = sql(child_of($parent));
wait_for($node, "count(*) = 1 FROM pgq_ext.job WHERE job_id = $judged AND blocked IS NULL");
sql('CREATE DATABASE restored');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'dumped');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], '... and restored');
# Without garbage, which either scheduler may delete.
my $state = q{WITH d AS (SELECT * FROM pgq_ext.job_dependency JOIN (SELECT job_id AS child_id FROM pgq_ext.job) j USING (child_id))
	SELECT to_jsonb(d) FROM d UNION ALL SELECT to_jsonb(o) FROM pgq_ext.job_outcome o WHERE job_id IN (SELECT parent_id FROM d) UNION ALL SELECT jsonb_build_array(job_id, blocked, parents, run_at) FROM pgq_ext.job WHERE parents > 0 ORDER BY 1};
is(sql($state, 'restored'), sql($state), '... with dependencies, outcomes and blocked jobs');
like(sql($state), qr/"n": 2/, '... of which there are some');
is(sql(child_of($parent) . ' IS NOT NULL', 'restored'), 't', '... and a child of a known parent can be enqueued');

sql('CREATE DATABASE updated');
sql(q{CREATE EXTENSION pgq_ext VERSION '0.1'; SELECT pgq_create_queue('children'), pgq_create_queue('plain')}, 'updated');
sql('ALTER EXTENSION pgq_ext UPDATE', 'updated');
$parent = sql(q{SELECT pgq_enqueue('plain', '1')}, 'updated');
like((sqlstate($node, child_of($parent), 'updated'))[1], qr/add_batch_columns/, 'a database without the columns says what it needs');
is(sql(q{SELECT pgq_ext.add_batch_columns()}, 'updated'), 't', '... gets it');
is(sql(child_of($parent) . ' IS NOT NULL', 'updated'), 't', '... and has children');
is(sql(q{SELECT count(*) FROM pg_index WHERE indexrelid::regclass::text ~ '^pgq_ext\.job_\d_blocked$' AND indisvalid}, 'updated'), '8', '... with their index');

is(sql('SELECT count(*) FROM pgq_check()', $_), '0', "$_: pgq_check finds nothing") for qw(postgres restored updated);
$node->stop;
done_testing();
