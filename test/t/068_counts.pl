# The counts of queue_status equal the numbers of rows, whatever happens, and the view reads no job row to return
# them.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use ClockTest;
use Session;

my $node = clock_node('main', conf => "max_prepared_transactions = 10\nrestart_after_crash = on\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

# As the view said it when it read the rows: by their state in job_status.
my $rows = q{
SELECT q.queue,
       count(s.job_id) FILTER (WHERE s.state = 'ready') AS ready,
       count(s.job_id) FILTER (WHERE s.state = 'scheduled') AS scheduled,
       count(s.job_id) FILTER (WHERE s.state = 'blocked') AS blocked,
       count(s.job_id) FILTER (WHERE s.state = 'leased') AS leased,
       (SELECT count(*) FROM pgq_ext.dead_job d WHERE d.queue_id = q.queue_id) AS dead
FROM pgq_ext.queue q LEFT JOIN pgq_ext.job_status s USING (queue) GROUP BY q.queue, q.queue_id};
my $status = 'SELECT queue, ready, scheduled, blocked, leased, dead FROM pgq_ext.queue_status';

# Nothing is on its way, but perhaps a count. A job is due from the beginning of its second on, so for a moment they may differ.
sub agrees
{
	my ($what) = @_;
	wait_for($node, "NOT EXISTS ($status EXCEPT $rows) AND NOT EXISTS ($rows EXCEPT $status)");
	is(sql('SELECT * FROM pgq_check()'), '', "$what: the counts are those of the rows");
	return;
}
sub status { my ($queue) = @_; return sql("SELECT ready, scheduled, leased, dead FROM pgq_ext.queue_status WHERE queue = '$queue'") }
sub is_status { my ($queue, $expected, $what) = @_; is(status($queue), $expected, $what); return }
sub is_known { wait_for($node, 'bool_and(ready IS NOT NULL AND dead IS NOT NULL) FROM pgq_ext.queue_status'); return }
sub enqueue { my ($queue, $n, $more) = @_; $more //= ''; return sql("SELECT count(*) FROM pgq_enqueue_many('$queue', (SELECT jsonb_agg(jsonb_build_object('payload', i $more)) FROM generate_series(1, $n) i))") }

# ---- each verb ----

sql(q{SELECT pgq_create_queue('q', backoff_base => '1 h', backoff_jitter => 0, max_attempts => 2, lease_time => '1 h'), pgq_create_queue('beside')});
is_status('q', '0|0|0|0', 'a new queue is known to be empty');
enqueue('q', 10);
enqueue('q', 5, ", 'delay', '1 day'");
is_status('q', '10|5|0|0', 'enqueued');
my ($job, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')});
is_status('q', '9|5|1|0', 'claimed');
sql("SELECT pgq_ack($job, $lease)");
is_status('q', '9|5|0|0', 'acknowledged');
sql(q{SELECT pgq_fail(job_id, lease, 'again') FROM pgq_claim('q')});
is_status('q', '8|6|0|0', 'failed');
sql(q{SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q', 2)});
is_status('q', '6|6|0|2', 'dead');
sql(q{SELECT pgq_release(job_id, lease, '1 day') FROM pgq_claim('q')});
is_status('q', '5|7|0|2', 'given back for later');
sql(q{SELECT pgq_release(job_id, lease) FROM pgq_claim('q')});
is_status('q', '5|7|0|2', 'given back');
sql(q{SELECT pgq_retry(min(job_id)) FROM pgq_ext.job_status WHERE state = 'scheduled'});
is_status('q', '6|6|0|2', 'hastened');
sql(q{SELECT pgq_retry(min(job_id)) FROM pgq_ext.dead_job});
is_status('q', '7|6|0|1', 'brought back');
sql(q{SELECT pgq_redrive('q')});
is_status('q', '8|6|0|0', 'all brought back');
sql(q{SELECT pgq_update(min(job_id), run_at => clock_timestamp() + interval '2 days') FROM pgq_ext.job_status WHERE state = 'ready'});
is_status('q', '7|7|0|0', 'put off');
sql(q{SELECT pgq_update(max(job_id), queue => 'beside') FROM pgq_ext.job_status WHERE state = 'scheduled'});
is_status('q', '7|6|0|0', 'moved to another queue');
is_status('beside', '0|1|0|0', '... where it is');
sql(q{SELECT pgq_cancel(job_id) FROM (SELECT DISTINCT ON (state) job_id FROM pgq_ext.job_status WHERE queue = 'q') j});
is_status('q', '6|5|0|0', 'cancelled');
sql(q{SELECT pgq_enqueue('q', '1', unique_key => 'k', delay => '1 day'), pgq_enqueue('q', '2', unique_key => 'k', on_conflict => 'replace')});
is_status('q', '7|5|0|0', 'replaced');
sql(q{SELECT pgq_enqueue('q', '1', expires_in => '1 ms')});
wait_for($node, q{count(*) = 11 + 1 FROM pgq_ext.job WHERE queue_id = 1});
wait_for($node, q{expired = 1 FROM pgq_ext.queue_stats WHERE queue = 'q'});
is_status('q', '7|5|0|0', 'expired');
sql(q{BEGIN; SELECT pgq_claim('q', 2); ROLLBACK});
wait_for($node, q{lost = 2 FROM pgq_ext.queue_stats WHERE queue = 'q'});
is_status('q', '5|7|0|0', 'lost');
agrees('each verb');

# ---- blocked jobs, which wait for the end of other jobs ----

{
	sub blocked { return sql(q{SELECT scheduled - 7, blocked FROM pgq_ext.queue_status WHERE queue = 'q'}) }
	my $parent = sql(q{SELECT pgq_enqueue('beside', '1', delay => '1 day')});
	my $child = "pgq_enqueue('q', '1', after => '{$parent}', on_parent_failure => 'run', delay => ";
	sql("SELECT $child '1 day'), $child '0') FROM generate_series(1, 10)");
	is(blocked(), '0|20', 'blocked jobs');
	sql("BEGIN; SELECT $child '0'); SAVEPOINT s; SELECT $child '0'); ROLLBACK TO s; COMMIT");
	is(blocked(), '0|21', '... with a savepoint');
	sql(q{SELECT pgq_cancel(max(job_id)) FROM pgq_ext.job_status WHERE state = 'blocked'; SELECT pgq_update(max(job_id), priority => 3, queue => 'beside') FROM pgq_ext.job_status WHERE state = 'blocked'});
	is(blocked(), '0|19', '... one is cancelled, one is in another queue');
	is(sql(q{SELECT blocked FROM pgq_ext.queue_status WHERE queue = 'beside'}), '1', '... where it counts');
	sql(q{BEGIN; DELETE FROM pgq_ext.job WHERE job_id = (SELECT max(job_id) FROM pgq_ext.job_status WHERE state = 'blocked' AND queue = 'q'); UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE blocked IS NOT NULL; PREPARE TRANSACTION 'p'});
	is(blocked(), '0|19', '... one is about to be deleted');
	sql(q{COMMIT PREPARED 'p'});
	wait_for($node, q{blocked = 18 FROM pgq_ext.queue_status WHERE queue = 'q'});
	agrees('blocked jobs');
	# Counted by reading the rows.
	sql(q{SELECT pgq_ext.recount(queue) FROM pgq_ext.queue});
	is(blocked(), '0|18', '... are counted again');
	agrees('blocked jobs, counted again');
	sql("SELECT pgq_cancel($parent)");
	wait_for($node, q{blocked = 0 FROM pgq_ext.queue_status WHERE queue = 'q'});
	is(sql(q{SELECT scheduled - 7 FROM pgq_ext.queue_status WHERE queue = 'q'}), '9', '... until the parent ends: then some are delayed');
	agrees('blocked no more');
	sql(q{DELETE FROM pgq_ext.job WHERE parents IS NOT NULL});
}

# ---- how long the oldest has been ready: of any priority, and nobody has it ----

sub oldest { return sql(q{SELECT pgq_ext.oldest_ready(queue_id) = (SELECT min(run_at) FROM pgq_ext.job_status s WHERE s.queue = q.queue AND state = 'ready') FROM pgq_ext.queue q WHERE queue = 'q'}) }
is(oldest(), 't', 'the oldest of one priority');
sql(q{SELECT pgq_enqueue('q', to_jsonb(i), priority => i) FROM generate_series(-30, 30) i});
sql(q{UPDATE pgq_ext.job SET run_at = clock_timestamp() - interval '2 h' - interval '1 min' * priority, enqueued_at = clock_timestamp() - interval '3 h' WHERE priority <> 0 AND queue_id = 1});
is(oldest(), 't', '... of many');
is(sql(q{SELECT oldest_ready_age BETWEEN interval '2 h 29 min' AND interval '2 h 31 min' FROM pgq_ext.queue_status WHERE queue = 'q'}), 't', '... which has the highest');
sql(q{SELECT count(*) FROM pgq_claim('q', 10)});
is(oldest(), 't', '... when those before it are leased');
sql(q{SELECT pgq_enqueue('q', to_jsonb(i), priority => i) FROM generate_series(100, 240) i});
is(sql(q{SELECT oldest_ready_age IS NULL AND ready > 0 FROM pgq_ext.queue_status WHERE queue = 'q'}), 't', '... and not where more than 64 priorities would have to be read');
agrees('many priorities');

# ---- by hand ----

my $q = q{(SELECT queue_id FROM pgq_ext.queue WHERE queue = 'q')};
sql("INSERT INTO pgq_ext.job (queue_id, payload, run_at) SELECT $q, '1', clock_timestamp() + interval '1 day' * (i % 2) FROM generate_series(1, 10) i");
agrees('INSERT');
sql("UPDATE pgq_ext.job SET run_at = clock_timestamp() + '1 h', attempts = 1 WHERE priority < -20");
agrees('UPDATE');
sql(q{UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'beside') WHERE priority = -5});
agrees('UPDATE of the queue');
sql(q{UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE priority < -10});
agrees('UPDATE of the segment');
sql(q{DELETE FROM pgq_ext.job WHERE priority < -15});
agrees('DELETE');
sql(q{DO $$ BEGIN EXECUTE format('DELETE FROM %s WHERE priority < -12', (SELECT tableoid::regclass FROM pgq_ext.job WHERE priority = -14)); END $$});
agrees('DELETE from a segment');
sql(q{BEGIN; DELETE FROM pgq_ext.job WHERE priority < 0; SAVEPOINT s; DELETE FROM pgq_ext.job; ROLLBACK TO s; ROLLBACK});
agrees('DELETE, rolled back');
sql(q{DELETE FROM pgq_ext.job WHERE job_id IN (SELECT job_id FROM pgq_ext.lease LIMIT 5)});
is(sql(q{SELECT leased FROM pgq_ext.queue_status WHERE queue = 'q'}), 5, 'no job is leased whose row was deleted by hand');
agrees('DELETE of leased jobs');
sql(q{UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE job_id IN (SELECT job_id FROM pgq_ext.lease)});
agrees('UPDATE of the segment of leased jobs');
sql(q{SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q', 6)});
sql(q{DELETE FROM pgq_ext.dead_job WHERE job_id = (SELECT min(job_id) FROM pgq_ext.dead_job)});
sql(q{UPDATE pgq_ext.dead_job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'beside') WHERE job_id = (SELECT min(job_id) FROM pgq_ext.dead_job)});
sql(q{UPDATE pgq_ext.dead_job SET segment = CASE segment WHEN 8 THEN 9 ELSE 8 END WHERE job_id = (SELECT max(job_id) FROM pgq_ext.dead_job)});
is(sql(q{SELECT string_agg(dead::text, ' ' ORDER BY queue) FROM pgq_ext.queue_status}), '1 4', 'dead letters');
agrees('dead letters by hand');
sql('TRUNCATE pgq_ext.dead_job');
agrees('TRUNCATE of the dead letters');
sql(q{SELECT pgq_alter_queue('q', keep_dead => '0'), pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q', 2)});
agrees('dead letters');

# ---- prepared transactions ----

for my $end (qw(COMMIT ROLLBACK))
{
	sql(q{BEGIN; SELECT pgq_enqueue('q', '1'), pgq_enqueue('q', '2', delay => '1 day'), pgq_enqueue('beside', '1');
		SAVEPOINT s; SELECT pgq_enqueue('q', '3', delay => '1 h'); ROLLBACK TO s;
		SELECT pgq_fail(job_id, lease, 'again') FROM pgq_claim('q', 1); SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q', 1);
		DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(job_id) FROM pgq_ext.job_status WHERE state = 'scheduled'); PREPARE TRANSACTION 'p'});
	agrees('prepared');
	sql("$end PREPARED 'p'");
	agrees("$end PREPARED");
	sql(q{BEGIN; SELECT pgq_enqueue('q', to_jsonb(i), delay => interval '5 min' + i * interval '10 s') FROM generate_series(1, 30) i; PREPARE TRANSACTION 'p'});
	sql("$end PREPARED 'p'");
	agrees("$end PREPARED of many that wait");
	sql(q{BEGIN; SELECT pgq_enqueue('q', '1'), pgq_enqueue('q', '2', delay => '1 day'); SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', 1); PREPARE TRANSACTION 'p'});
	$node->stop;
	start_with_clock($node);
	is_known();
	agrees('prepared before a restart');
	sql("$end PREPARED 'p'");
	agrees("$end PREPARED after it");
}

# ---- restart and crash ----

my $before = join ' ', map { status($_) } qw(q beside);
$node->stop;
start_with_clock($node);
is_known();
is(join(' ', map { status($_) } qw(q beside)), $before, 'after a restart it is counted');
my $session = session($node);
ask($session, q{BEGIN});
ask($session, q{SELECT pgq_enqueue('q', '1')});
my $pid = pid_of($session);
kill 'KILL', $pid;
wait_until_down($pid);
$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'the server does not come back';
is_known();
agrees('after a crash');

# ---- by time ----

sql(q{SELECT pgq_purge_queue('q'), pgq_purge_queue('beside')});
agrees('purged');
sql(q{SELECT pgq_drop_queue('beside', force => true), pgq_drop_queue('q', force => true), pgq_create_queue('t', backoff_jitter => 0, lease_time => '1 day')});
# one each 10 s, for three hours
sql(q{SELECT count(*) FROM (SELECT pgq_enqueue('t', to_jsonb(i), delay => i * interval '10 s') FROM generate_series(1, 1080) i) j});
is_status('t', '0|1080|0|0', 'all wait');
my $clock = 0;
# A clock that goes on as time does, so that parts are read in between; and then farther than is known.
for my $seconds (400, 800, 1200, 1500, 2000, 2400, 5400, 5800)
{
	$clock = $seconds;
	set_clock($node, $clock);
	wait_for($node, qq{ready >= @{[ $clock / 10 ]} FROM pgq_ext.queue_status});
	agrees("after $clock s");
}
# ends of those that have become due, and of those that have not
sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('t', 100)});
sql(q{SELECT pgq_cancel(job_id) FROM (SELECT job_id FROM pgq_ext.job_status WHERE state = 'scheduled' AND job_id % 7 = 0) j});
sql(q{SELECT pgq_fail(job_id, lease, retry_in => interval '1 s' * (job_id % 3000)) FROM pgq_claim('t', 100)});
agrees('some have ended, and some wait again');
# set back: by less than is kept, and by more
set_clock($node, $clock -= 40);
agrees('set back by less than a minute');
set_clock($node, $clock -= 3000);
agrees('set back by an hour');
set_clock($node, $clock = 0);
agrees('as late as in the beginning');

# A callback that comes late, or in the middle of reading the next part.
sql(q{ALTER SYSTEM SET pgq_ext.stop_point = 'part-scan'; SELECT pg_reload_conf()});
sql(q{SELECT pgq_purge_queue('t')});
sql(q{SELECT count(*) FROM (SELECT pgq_enqueue('t', to_jsonb(i), delay => i * interval '10 s') FROM generate_series(1, 1080) i) j});
my $control = session($node);
my $late = session($node);
ask($control, 'SELECT pg_advisory_lock(7366513, 0)');
ask($late, q{SET pgq_ext.stop_point = 'commit-settle'});
send_sql($late, q{SELECT pgq_enqueue('t', '"late"', delay => '1100 s')});
wait_for($node, q{count(*) = 1 FROM pgq_ext.job WHERE payload = '"late"'});
set_clock($node, $clock = 700);
wait_for($node, q{count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted});
sql(q{SELECT pgq_enqueue('t', '"while it is being read"', delay => '500 s'), pgq_enqueue('t', '"later"', delay => '1 day')});
sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job_status WHERE run_at BETWEEN clock_timestamp() + '350 s' AND clock_timestamp() + '400 s'});
sql(q{ALTER SYSTEM RESET pgq_ext.stop_point; SELECT pg_reload_conf()});
ask($control, 'SELECT pg_advisory_unlock(7366513, 0)');
reply($late);
end_session($_) for $control, $late;
agrees('while a part is read');
for my $seconds (1100, 1500, 1900)
{
	set_clock($node, $clock = $seconds);
	agrees("... and $seconds s later");
}
set_clock($node, $clock = 0);
sql(q{SELECT pgq_drop_queue('t', force => true)});

# ---- at work, while it is counted, against the rows ----

sql(q{SELECT pgq_create_queue('q' || i, max_attempts => 2, backoff_base => '1 s', lease_time => '1 day', max_depth => (i % 2) * 100000) FROM generate_series(1, 5) i});
sql(q{
CREATE FUNCTION work(queue text, n int, undo boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	job record;
BEGIN
	FOR job IN SELECT job_id, lease FROM pgq_claim(queue, n) LOOP
		CASE job.job_id % 5 WHEN 0 THEN PERFORM pgq_fail(job.job_id, job.lease, retry_in => interval '1 s' * (job.job_id % 40));
		WHEN 1 THEN PERFORM pgq_release(job.job_id, job.lease);
		ELSE PERFORM pgq_ack(job.job_id, job.lease); END CASE;
	END LOOP;
	IF undo THEN RAISE EXCEPTION 'undone'; END IF;
EXCEPTION WHEN raise_exception OR SQLSTATE 'PQ001' THEN NULL;
END $$});
my %load = (
	'enqueue@4' => q{
\set q random(1, 5)
\set delay random(0, 20)
SELECT pgq_enqueue('q' || :q, '1', delay => '1 s'::interval * greatest(0, :delay - 10));},
	'work@4' => q{
\set q random(1, 5)
\set n random(1, 4)
\set undo random(0, 5)
SELECT work('q' || :q, :n, :undo = 0);},
	'nested@1' => q{
\set q random(1, 5)
BEGIN;
SELECT pgq_enqueue('q' || :q, '1', delay => '3 s');
SAVEPOINT s;
SELECT pgq_enqueue('q' || :q, '1', delay => '1 h');
SELECT work('q' || :q, 2, false);
ROLLBACK TO s;
SAVEPOINT t;
SELECT work('q' || :q, 2, false);
RELEASE t;
COMMIT;},
	'prepared@1' => q{
\set q random(1, 5)
\set commit random(0, 1)
BEGIN;
SELECT work('q' || :q, 2, false);
SELECT pgq_enqueue('q' || :q, '1', delay => '2 s');
PREPARE TRANSACTION 'p:client_id';
\if :commit
COMMIT PREPARED 'p:client_id';
\else
ROLLBACK PREPARED 'p:client_id';
\endif},
	# A row that is being moved to another segment cannot be deleted by SQL at that moment.
	'by_hand@1' => q{DO $$ BEGIN
	DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(job_id) FROM pgq_ext.job);
EXCEPTION WHEN serialization_failure THEN NULL;
END $$;},
	'revive@1' => q{
\set q random(1, 5)
SELECT pgq_redrive('q' || :q, 2);},
	'recount@1' => q{
\set q random(1, 5)
SELECT pgq_ext.recount('q' || :q);});
for my $round (1 .. 2)
{
	my %scripts = map { ("${round}_$_" => $load{$_}) } keys %load;
	$node->pgbench('-n -c 8 -j 2 -t 150', 0, [qr/processed: (\d+)\/\1\b/], [qr/^(?!.*(?:ERROR|aborted))/s], "work, round $round", \%scripts);
	agrees("after round $round of work");
}

# ---- many queues ----

sql(q{SELECT pgq_create_queue('many' || i) FROM generate_series(1, 60) i});
sql(q{SELECT pgq_enqueue('many' || i, '1', delay => '1 day'::interval * (i % 2)) FROM generate_series(1, 60) i});
agrees('many queues');
$node->stop('immediate');
start_with_clock($node);
is_known();
agrees('... after a crash');

# ---- anew, after what nobody can notice ----

is(sqlstate($node, q{SELECT pgq_ext.recount('nobody')}), '42704', 'no such queue');
is(sqlstate($node, q{SELECT pgq_ext.recount(NULL)}), '22004', 'no name');
sql(q{ALTER TABLE pgq_ext.job_0 DISABLE TRIGGER job_changed; DELETE FROM pgq_ext.job WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'many1');
	ALTER TABLE pgq_ext.job_0 ENABLE ALWAYS TRIGGER job_changed});
sql(q{SELECT pgq_ext.recount('many1')});
agrees('counted anew');

# ---- many rows: a process of its own counts them, and the scheduler goes on ----

sql(q{SELECT count(pgq_drop_queue(queue, force => true)) FROM pgq_ext.queue});
sql(q{SELECT pgq_create_queue('big', max_attempts => 5, lease_time => '1 day'), pgq_create_queue('other', backoff_base => '1 h', backoff_jitter => 0, lease_time => '1 day')});
enqueue('big', 1000) for 1 .. 120;
enqueue('big', 200, ", 'delay', '1 h'");
enqueue('other', 10);
agrees('many rows');
sub counter { return sql(q{SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE backend_type = 'pgq_ext counter'}) }
sub wait_for_counter
{
	wait_for($node, q{count(*) = 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE backend_type = 'pgq_ext counter' AND locktype = 'advisory' AND classid = 7366513 AND NOT granted});
	return counter();
}
# Jobs come, go, are put off, given back, moved, rolled back and prepared, in all that is being counted.
my $gid = 0;
sub change_all
{
	my ($round) = @_;
	$gid++;
	for my $queue (qw(big other))
	{
		enqueue($queue, 20);
		enqueue($queue, 5, ", 'delay', '1 h'");
		sql("SELECT pgq_ack(job_id, lease) FROM pgq_claim('$queue', 3)");
		sql("SELECT pgq_fail(job_id, lease, retry => job_id % 2 = 0, retry_in => CASE WHEN job_id % 2 = 0 THEN interval '1 h' END) FROM pgq_claim('$queue', 4)");
		sql("SELECT count(*) FROM pgq_claim('$queue', 2)");
		sql("BEGIN; SELECT pgq_enqueue('$queue', '1'), pgq_ack(job_id, lease) FROM pgq_claim('$queue', 2); ROLLBACK");
		sql("BEGIN; SELECT pgq_enqueue('$queue', '1'); SAVEPOINT s; SELECT pgq_enqueue('$queue', '2', delay => '1 h'); ROLLBACK TO s; SELECT pgq_ack(job_id, lease) FROM pgq_claim('$queue', 1);
			PREPARE TRANSACTION '$queue$gid'");
	}
	# The scheduler may be moving one of them.
	sql(q{DO $$ BEGIN
		LOOP
			BEGIN
				UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE job_id IN (SELECT job_id FROM pgq_ext.job_status WHERE state = 'ready' ORDER BY job_id LIMIT 50);
				EXIT;
			EXCEPTION WHEN serialization_failure THEN NULL;
			END;
		END LOOP;
	END $$});
	sql(q{DELETE FROM pgq_ext.job WHERE job_id IN (SELECT job_id FROM pgq_ext.job_status WHERE state = 'ready' ORDER BY job_id DESC LIMIT 7)});
	sql(q{SELECT pgq_update((SELECT max(job_id) FROM pgq_ext.job_status WHERE state = 'scheduled'), queue => 'other')});
	return;
}

$control = session($node);
ask($control, 'SELECT pg_advisory_lock(7366513, 0)');
for my $at (qw(count-snapshot count-scan))
{
	sql("ALTER SYSTEM SET pgq_ext.stop_point = '$at'");
	sql('SELECT pg_reload_conf()');
	# A counter begins with what the postmaster knows.
	wait_for($node, "current_setting('pgq_ext.stop_point') = '$at'");
	sql('TRUNCATE pgq_ext.dead_job');
	my $first = wait_for_counter();
	is(sql(q{SELECT ready IS NULL AND dead IS NULL FROM pgq_ext.queue_status WHERE queue = 'big'}), 't', "$at: it is being counted");
	change_all();
	my $lost = sql(q{WITH c AS MATERIALIZED (SELECT job_id FROM pgq_ext.job WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'big') AND attempts > 0) SELECT count(*) FROM c});
	sql(q{BEGIN; SELECT pgq_claim('big', 2); ROLLBACK});
	wait_for($node, qq{count(*) > $lost FROM pgq_ext.job WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'big') AND attempts > 0});
	is(counter(), $first, "$at: the scheduler counts lost leases meanwhile");
	sql("COMMIT PREPARED 'big$gid'");
	sql("SELECT pg_terminate_backend($first)");
	wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE pid = $first");
	my $second = wait_for_counter();
	isnt($second, $first, "$at: one that was killed is followed by another");
	sql(q{SELECT pgq_alter_queue('big', max_depth => 100000000); SELECT pgq_schedule('skipping', 'every 1 s', 'big', missed => 'skip')});
	wait_for($node, q{last_error LIKE '%being counted%' FROM pgq_ext.schedule WHERE schedule = 'skipping'});
	sql(q{SELECT pgq_unschedule('skipping'); SELECT pgq_alter_queue('big', max_depth => 0)});
	is(counter(), $second, "$at: a tick for a queue with max_depth waits for the counter");
	change_all();
	sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler'});
	wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE pid = $second");
	wait_for_counter();
	change_all();
	sql('ALTER SYSTEM RESET pgq_ext.stop_point');
	sql('SELECT pg_reload_conf()');
	ask($control, 'SELECT pg_advisory_unlock(7366513, 0)');
	is_known();
	agrees("$at: counted while all changed");
	sql("COMMIT PREPARED '$_'") for split /\n/, sql('SELECT gid FROM pg_prepared_xacts ORDER BY prepared');
	agrees("$at: ... and prepared ones have ended");
	ask($control, 'SELECT pg_advisory_lock(7366513, 0)') if $at eq 'count-snapshot';
}
end_session($control);
wait_for($node, q{count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgq_ext counter'});
pass('the counter ends');

# no room for it
sql(q{SELECT pgq_alter_queue('other', max_depth => 1000)});
$node->append_conf('postgresql.conf', "max_worker_processes = 2\nmax_logical_replication_workers = 0\n");
$node->stop;
start_with_clock($node);
wait_for($node, q{last_error = 'no background worker is free to count the jobs' FROM pgq_ext.duty WHERE duty = 'counts' AND queue = 'big' AND failing_since IS NOT NULL});
is(sql(q{SELECT ready IS NULL FROM pgq_ext.queue_status WHERE queue = 'big'}), 't', 'without a process it is not counted');
sql(q{SELECT pgq_enqueue('other', '1')});
is(sql(q{SELECT ready IS NOT NULL FROM pgq_ext.queue_status WHERE queue = 'other'}), 't', '... but by who needs to know');
done_testing();
