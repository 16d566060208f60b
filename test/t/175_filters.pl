# Filters of pgq_redrive and pgq_retry, and pgq_run_again, across sessions: what a dead letter is when it is brought back, not when
# it was found; who waits for whom; which plan is used; and what an update from 0.1 makes of calls that are there already.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest qw(send_and_block);

my $node = pgq_node('main', conf => "max_prepared_transactions = 2\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
create_queue($node, 'q', "keep_finished => '1 day'");
wait_for_scheduler($node);

# So many dead letters with ids from that number on, which died one second after the other.
sub bury
{
	my ($first, $n, $error, $group) = @_;
	sql(sprintf q{INSERT INTO pgq_ext.dead_job (job_id, queue_id, died_at, enqueued_at, run_at, priority, attempts, reason, last_error, group_key, payload)
		SELECT n, queue_id, '2030-01-01'::timestamptz + n * interval '1 s', '2029-01-01', '2029-01-01', 0, 1, 'test', '%s', %s, to_jsonb(n)
		FROM pgq_ext.queue, generate_series(%d, %d) n WHERE queue = 'q'}, $error, $group ? "'$group'" : 'NULL', $first, $first + $n - 1);
	return;
}
sub ids { return sql("SELECT coalesce(string_agg(job_id::text, ' ' ORDER BY job_id), '-') FROM pgq_ext.$_[0]") }
sub clear { sql(q{SELECT pgq_purge_queue('q'); DELETE FROM pgq_ext.dead_job}); return }
# The lock that keeps moves of records from beginning.
my $moves = q{SELECT count(*) FROM pg_locks WHERE classid = 'pgq_ext.queue'::regclass AND objsubid = 10};

# ---- what happens to dead letters that a redrive has found ----

my ($gate, $redriver, $other) = map { session($node) } 1 .. 3;
sub stand
{
	my ($call) = @_;
	ask($redriver, q{SET pgq_ext.stop_point = 'redrive-found'});
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	send_and_block($node, $redriver, $call);
	return;
}
sub go_on
{
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	return reply($redriver);
}

bury(1, 9, 'timeout', 'g');
stand(q{SELECT pgq_redrive('q', error_like => 'time%', group_key => 'g')});
is(sql($moves), '0', 'a redrive that looks for dead letters keeps no move from beginning');
sql('UPDATE pgq_ext.dead_job SET segment = CASE segment WHEN 8 THEN 9 ELSE 8 END WHERE job_id IN (1, 2)');
sql(q{UPDATE pgq_ext.dead_job SET last_error = 'another' WHERE job_id = 3});
sql(q{UPDATE pgq_ext.dead_job SET group_key = NULL WHERE job_id = 4});
is(sql('SELECT pgq_cancel(5), pgq_retry(6)'), 'dead|t', 'one is deleted and one retried');
ask($other, 'BEGIN; SELECT FROM pgq_ext.dead_job WHERE job_id = 7 FOR UPDATE');
sql(q{DELETE FROM pgq_ext.dead_job WHERE job_id = 8});
sql(q{UPDATE pgq_ext.queue SET keep_dead = '30 days' WHERE queue = 'q'});
bury(10, 1, 'timeout', 'g');
is((go_on())[0], '3', '... the rest comes back: those that were moved, too');
ask($other, 'ROLLBACK');
is(ids('dead_job'), '3 4 7 10', '... not one that matches no more, is locked, or has died since');
is(ids('job'), '1 2 6 9', '... each once');
is(sql($moves), '0', '... no lock stays');
clear();

# Two at the same time.
bury(1, 1500, 'a', 'g');
stand(q{SELECT pgq_redrive('q', error_like => 'a')});
is(sql(q{SELECT pgq_redrive('q', group_key => 'g', died_before => '2030-01-01 00:20')}), '1199', 'another redrive passes');
is((go_on())[0], '301', '... and the first one has the rest');
is(sql('SELECT count(*), count(DISTINCT job_id) FROM pgq_ext.job'), '1500|1500', '... each once');
clear();

# Both filters are judged when the row is unlocked.
bury(1, 2, 'before');
ask($other, q{BEGIN; UPDATE pgq_ext.dead_job SET last_error = 'after'});
send_and_block($node, $redriver, q{RESET pgq_ext.stop_point; SELECT pgq_retry(1, error_like => 'before')});
ask($other, 'COMMIT');
is((reply($redriver))[0], 'f', 'a retry judges the dead letter as it is when nobody has locked it');
is(sql(q{SELECT pgq_retry(2, error_like => 'after')}), 't', '... with its new error');
clear();

# ---- transactions ----

for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	ask($other, "BEGIN ISOLATION LEVEL $level; SELECT 1");
	bury(1, 2, 'new');
	is((ask($other, q{SELECT pgq_redrive('q', error_like => 'new')}))[0], '2', "$level: dead letters that the snapshot does not see");
	ask($other, 'COMMIT');
	clear();
}

bury(1, 4, 'a');
ask($other, q{BEGIN; SELECT pgq_redrive('q', 2, error_like => 'a'); PREPARE TRANSACTION 'redrive'});
is(sql(q{SELECT pgq_redrive('q', 1, error_like => 'a')}), '1', 'beside a prepared redrive another one takes the next');
is(ids('job'), '3', '... and only this one is back');
$node->stop('immediate');
$node->start;
($gate, $redriver, $other) = map { session($node) } 1 .. 3;
is(sql(q{SELECT pgq_redrive('q', error_like => 'a')}), '1', '... also after a crash');
sql(q{ROLLBACK PREPARED 'redrive'});
is(ids('dead_job'), '1 2', '... rolled back: dead letters');
ask($other, q{BEGIN; SELECT pgq_redrive('q', died_before => '2030-01-01 00:00:02'); PREPARE TRANSACTION 'redrive'});
sql(q{COMMIT PREPARED 'redrive'});
is(ids('job'), '1 3 4', '... committed: jobs');
wait_for_scheduler($node);
is(sql(q{SELECT count(*) FROM pgq_claim('q', 10, wait => '60 s')}), '3', '... that can be claimed');
sql(q{DELETE FROM pgq_ext.job});
clear();

# ---- a drop ----

bury(1, 1, 'a');
ask($other, q{BEGIN; SELECT pgq_redrive('q', error_like => 'a')});
send_and_block($node, $redriver, q{SELECT pgq_drop_queue('q', force => true)});
ask($other, 'ROLLBACK');
is((reply($redriver))[0], 't', 'a drop waits for a redrive');
create_queue($node, 'q', "keep_finished => '1 day'");
ask($other, q{BEGIN; SELECT pgq_drop_queue('q', force => true)});
send_and_block($node, $redriver, q{SELECT pgq_redrive('q', error_like => 'a')});
ask($other, 'COMMIT');
like((reply($redriver))[1], qr/queue "q" does not exist/, 'a redrive waits for a drop, and learns of it');
create_queue($node, 'q', "keep_finished => '1 day'");

# ---- a long search ----

bury(1, 3000, q{' || repeat('a', 8192) || '});
my $slow = q{SELECT pgq_redrive('q', error_like => '%' || repeat('a', 998) || 'b')};
is((sqlstate($node, "SET statement_timeout = '200 ms'; $slow"))[0], '57014', 'a search with the slowest pattern can be cancelled');
is(sql('SELECT count(*) FROM pgq_ext.dead_job'), '3000', '... nothing was changed');
send_sql($redriver, $slow);
wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%repeat%' AND state = 'active' AND pid <> pg_backend_pid()});
is(sql($moves), '0', '... while it runs it keeps no move from beginning');
sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%repeat%' AND state = 'active' AND pid <> pg_backend_pid()});
like((reply($redriver))[1], qr/canceling statement/, '... it is cancelled');
clear();

# ---- the plans ----

SKIP:
{
	skip 'no auto_explain', 4 if sqlstate($node, q{LOAD 'auto_explain'}) ne '';
	bury(1, 2000, 'a');
	sql('ANALYZE pgq_ext.dead_job');
	my $log = -s $node->logfile;
	ask($redriver, q{LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on});
	is((ask($redriver, q{SELECT pgq_redrive('q', error_like => 'a', died_since => '2030-01-01 00:10', group_key => NULL)}))[0], '1401', 'a time range');
	my ($search) = slurp_file($node->logfile, $log) =~ /(Query Text: SELECT d\.job_id FROM pgq_ext\.dead_job.*?)\n\S+ \S+ \S+ .*?(?:LOG|CONTEXT)/s;
	like($search // '', qr/Index Cond: \(\(queue_id = \d+\) AND \(died_at >= /, '... is searched for by the index');
	unlike($search // '', qr/->  Sort|\nSort|Seq Scan/, '... without a sort of all dead letters');
	unlike(slurp_file($node->logfile, $log), qr/Seq Scan on (dead_)?job_\d/, '... and no step reads a whole table');
	end_session($redriver);
	$redriver = session($node);
	clear();
}

# ---- run again ----

# Returns the id of a job that has finished.
sub finished
{
	my ($options) = @_;
	my $id = sql(q{SELECT pgq_enqueue('q', '"work"'} . ($options ? ", $options" : '') . ')');
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s')});
	return $id;
}
my $count = q{SELECT count(*) FROM pgq_ext.job};
{
	my $job = finished();
	ask($other, 'BEGIN');
	my ($first) = ask($other, "SELECT pgq_run_again($job)");
	my $second = sql("SELECT pgq_run_again($job)");
	ask($other, 'COMMIT');
	is(sql("SELECT string_agg(job_id::text, ' ' ORDER BY job_id) FROM pgq_ext.job"), "$first $second", 'two calls at the same time make two jobs');
	is(sql(q{SELECT count(DISTINCT job_id) FROM pgq_claim('q', 2, wait => '60 s')}), '2', '... and both are handed out');
	sql('DELETE FROM pgq_ext.job');

	ask($other, "BEGIN; SELECT pgq_run_again($job)");
	ask($other, 'ROLLBACK');
	is(sql($count), '0', 'rolled back: no job');
	ask($other, "BEGIN; SELECT pgq_run_again($job); PREPARE TRANSACTION 'again'");
	is(sql($count), '0', 'prepared: not yet');
	sql(q{COMMIT PREPARED 'again'});
	is(sql(q{SELECT headers ->> 'run_again_of' FROM pgq_claim('q', wait => '60 s')}), $job, '... committed: handed out');
	sql('DELETE FROM pgq_ext.job');
}
{
	my $job = finished(q{unique_key => 'k'});
	ask($other, "BEGIN; SELECT pgq_run_again($job)");
	send_and_block($node, $redriver, "SELECT pgq_run_again($job)");
	ask($other, 'COMMIT');
	like((reply($redriver))[1], qr/already has unique key "k".*HINT:  Wait until that job has ended/s, 'with a unique key one of two calls makes a job');
	is(sql($count), '1', '... and only one');
	clear();
	ask($other, "BEGIN; SELECT pgq_run_again($job)");
	send_and_block($node, $redriver, "SELECT pgq_run_again($job)");
	ask($other, 'ROLLBACK');
	like((reply($redriver))[0], qr/^\d+$/, '... the other one if the first is rolled back');
	clear();
}
{
	my $job = finished();
	ask($other, q{BEGIN; SELECT pgq_drop_queue('q', force => true)});
	send_and_block($node, $redriver, "SELECT pgq_run_again($job)");
	ask($other, 'COMMIT');
	like((reply($redriver))[1], qr/the queue of job $job does not exist any more/, 'a queue that is dropped meanwhile');
	is(sql("SELECT coalesce(pgq_run_again($job)::text, 'none')"), 'none', '... whose finished jobs are gone with it');
	is(sql($count), '0', '... and no job is left behind');
	create_queue($node, 'q', "keep_finished => '1 day'");
}
is(sql('SELECT * FROM pgq_check()'), '', 'all is well');

# ---- an update from 0.1, whose functions have fewer arguments ----

sql('CREATE DATABASE updated');
sql(q{CREATE ROLE operator; CREATE EXTENSION pgq_ext VERSION '0.1'; CREATE SCHEMA app}, 'updated');
create_queue($node, 'q', '', 'updated');
sql(q{GRANT EXECUTE ON FUNCTION pgq_retry, pgq_redrive TO operator;
	CREATE VIEW app.redriven AS SELECT pgq_redrive('q', 1) AS n, pgq_retry(0) AS retried;
	CREATE FUNCTION app.redrive() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT pgq_redrive('q', max_jobs => 1); END}, 'updated');
my $what = q{SELECT oid, proacl, (SELECT count(*) FROM pg_depend WHERE refobjid = p.oid) FROM pg_proc p WHERE proname IN ('pgq_retry', 'pgq_redrive') ORDER BY proname};
my $was  = sql($what, 'updated');
my $session = session($node, 'updated');
ask($session, q{PREPARE redrive AS SELECT pgq_redrive('q', 1)});
my @calls = ('TABLE app.redriven', 'SELECT app.redrive()', 'EXECUTE redrive', q{SELECT pgq_redrive('q'), pgq_retry(0, '1 s')});
my $kill  = q{SELECT pgq_enqueue('q', '1') FROM generate_series(1, 4); SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q', 4)};
for my $when ('before the update', 'after it')
{
	sql($kill, 'updated');
	is((ask($session, $_))[0] =~ s/\|.*//r, '1', "$_ redrives $when") for @calls;
	sql(q{ALTER EXTENSION pgq_ext UPDATE; SELECT pgq_purge_queue('q')}, 'updated') if $when =~ /before/;
}
is(sql($what, 'updated'), $was, 'the functions are the same, with their grants and what depends on them');
my $arguments = q{SELECT pg_get_function_arguments(oid), pg_get_functiondef(oid) FROM pg_proc WHERE proname IN ('pgq_retry', 'pgq_redrive') ORDER BY proname};
is(sql($arguments, 'updated'), sql($arguments), '... with the arguments that new ones have');
is(sql(q{SET ROLE operator; SELECT pgq_redrive('q', error_like => 'none'), pgq_retry(0, group_key => 'g')}, 'updated'), '0|f', '... for the role to which they were granted');
is(sql(q{SELECT count(*) FROM pg_proc WHERE proname ~ '_with_more_arguments'}, 'updated'), '0', '... and nothing is left over');
sql(q{SELECT pgq_alter_queue('q', keep_finished => '1 day'), pgq_enqueue('q', '1'); SELECT pgq_ack(job_id, lease) FROM pgq_claim('q')}, 'updated');
is(sql(q{SELECT pgq_run_again(job_id) > job_id FROM pgq_ext.finished_job}, 'updated'), 't', 'a job is run again, without the columns of batches');
end_session($session);

end_session($_) for $gate, $redriver, $other;
$node->stop;
done_testing();
