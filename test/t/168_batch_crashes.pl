# Batches while processes and servers die: each callback comes exactly once, none too early, and none never.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use BatchTest;

my $node = use_node(pgq_node('main', init => { allows_streaming => 1 }, conf => "restart_after_crash = on\npgq_ext.max_watched_batches = 1\nautovacuum = off\n"));
create_queue($node, 'q', 'max_attempts => 1');
sql(q{SELECT pgq_create_queue('retried', backoff_base => '0'), pgq_create_queue('events')});

my $stopped = q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted};
sub restart { return stop_and_start($node, 'immediate') }

# ---- the worker's process dies ----

# Stopped after the commit is durable, before memory is told of it.
{
	my $batch = full_batch(1);
	close_batch($batch);
	my ($gate, $worker) = map { session($node) } 1 .. 2;
	my ($lease) = claim();
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	my $pid = pid_of($worker);
	ask($worker, q{SET pgq_ext.stop_point = 'commit-settle'});
	send_sql($worker, "SELECT pgq_ack($lease)");
	wait_for($node, $stopped);
	my $log = -s $node->logfile;
	kill KILL => $pid;
	wait_until_down($pid);
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $log);
	wait_until_up($node);
	end_session($_) for $gate, $worker;
	events_are($batch, 'finish success', 'the worker dies between the commit of its ack and the news of it');
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE batch_id = $batch"), '0', '... the ack stands');
}

# ---- the scheduler dies ----

# Each entry: the stop point and the signal.
for my $death ([ 'batch-looked-once', 'KILL' ], [ 'batch-fired', 'KILL' ], [ 'batch-fired', 'TERM' ])
{
	my ($point, $signal) = @$death;
	settle();
	my $batch = full_batch(2);
	sql(q{SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('q')});
	wait_for($node, events_sql($batch) . q{ = 'failure'});
	my $gate = session($node);
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	sql("ALTER DATABASE postgres SET pgq_ext.stop_point = '$point'");
	my $before = scheduler_pid($node);
	sql("SELECT pg_terminate_backend($before, 60000)");
	my $scheduler = wait_for_scheduler($node, 'postgres', $before);
	ack_all();
	close_batch($batch);
	# It may stop there before, for example at another batch. When the gate is opened, the scheduler goes on, and the gate is closed behind
	# it before it can come again. A look at a closed batch has the tag of the batch.
	my $look = "EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 20546 AND mode = 'ExclusiveLock' AND granted AND pid = $scheduler)";
	wait_for($node, $stopped);
	while (sql("SELECT $look") ne 't')
	{
		ask($gate, 'SELECT pg_advisory_unlock(7366513, 0), pg_advisory_lock(7366513, 0)');
		wait_for($node, $stopped);
	}
	sql('ALTER DATABASE postgres RESET pgq_ext.stop_point');
	is(events($batch), 'failure', "the scheduler stops at $point");
	kill $signal => $scheduler;
	wait_until_down($scheduler);
	wait_until_up($node);
	end_session($gate);
	events_are($batch, 'failure finish', "... and gets SIG$signal: each callback is there once");
	sql(q{SELECT pgq_redrive('q')});
	ack_all();
	events_are($batch, 'failure finish success', '... and success comes later');
}

# ---- the server dies ----

{
	my $open     = full_batch(1);
	my $ended    = full_batch(1);
	my $prepared = batch();
	my $undone   = batch();
	my $acked    = full_batch(1);
	close_batch($acked);
	my $session = session($node);
	ask($session, 'BEGIN; ' . add_sql($prepared) . q{; PREPARE TRANSACTION 'prepared'});
	ask($session, 'BEGIN; ' . add_sql($undone) . q{; PREPARE TRANSACTION 'undone'});
	is((sqlstate($node, qq{BEGIN; SELECT count(*) FROM (SELECT pgq_ack(c.job_id, c.lease) FROM pgq_claim('q', 3) c) a; PREPARE TRANSACTION 'acked'}))[0], '', 'acks are prepared');
	close_batch($_) for $prepared, $undone, $ended;
	end_session($session);
	for my $restart (1 .. 2)
	{
		events_are($_, '', "restart $restart: no callback while a transaction is prepared") for $prepared, $undone, $acked, $ended;
		restart();
	}
	sql(q{ROLLBACK PREPARED 'undone'});
	events_are($undone, 'finish success', 'the enqueue of the only member is rolled back');
	sql(q{COMMIT PREPARED 'prepared'});
	events_are($prepared, '', '... the other one is committed: its member lives');
	sql(q{COMMIT PREPARED 'acked'});
	events_are($_, 'finish success', 'acks are committed') for $acked, $ended;
	events_are($open, '', '... but not in an open batch');
	ack_all();
	restart();
	events_are($prepared, 'finish success', 'the last ack, and a crash');
	close_batch($open);
	restart();
	events_are($open, 'finish success', 'a close, and a crash');
	events_are($_, 'finish success', '... and nothing comes twice') for $undone, $prepared, $acked, $ended;
}

# ---- more batches than memory has room for ----

{
	my $ids = sql(qq{WITH made AS MATERIALIZED (SELECT pgq_create_batch($callbacks) AS id FROM generate_series(1, 200)),
		members AS MATERIALIZED (SELECT id, pgq_enqueue('q', to_jsonb(n), batch => id) AS job FROM made, generate_series(1, 3) n)
		SELECT string_agg(DISTINCT id::text, ',') FROM members});
	my $wrong = "FROM (SELECT b.id, (SELECT coalesce(string_agg(headers->>'event', ' ' ORDER BY headers->>'event'), '') FROM pgq_ext.job WHERE headers->>'batch' = b.id::text) AS events
		FROM unnest('{$ids}'::bigint[]) b(id)) e WHERE events <>";
	sql("SELECT pgq_close_batch(id) FROM unnest('{$ids}'::bigint[]) id");
	sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q', 300)});
	settle();
	restart();
	sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q', 200)});
	my $living = sql("SELECT count(*) FROM (SELECT headers->>'batch' FROM pgq_ext.job WHERE headers ? 'batch' INTERSECT SELECT batch_id::text FROM pgq_ext.job WHERE batch_id IS NOT NULL) AS early");
	is($living, '0', 'many batches: no batch with a member has a callback');
	ack_all();
	wait_for($node, "count(*) = 0 $wrong 'finish success'");
	settle();
	is(sql("SELECT count(*) $wrong 'finish success'"), '0', '... and each batch gets each callback once');
}

# ---- promotion ----

{
	$node->backup('standby');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'standby', has_streaming => 1);
	$standby->start;

	my $fired = full_batch(1);
	close_batch($fired);
	my $half = full_batch(2, 'retried');
	ack_all();
	wait_for($node, events_sql($fired) . q{ = 'finish success'});
	ack(claim('retried'));
	close_batch($half);

	# The scheduler is stopped while it looks at a batch, so the standby has the last ack, but not the callbacks.
	my $told = full_batch(1);
	close_batch($told);
	settle();
	my $gate = session($node);
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	sql(q{ALTER DATABASE postgres SET pgq_ext.stop_point = 'batch-fired'});
	my $before = scheduler_pid($node);
	sql("SELECT pg_terminate_backend($before, 60000)");
	wait_for_scheduler($node, 'postgres', $before);
	ack_all();
	wait_for($node, $stopped);
	sql('ALTER DATABASE postgres RESET pgq_ext.stop_point');
	is(events($told), '', 'the primary is about to enqueue the callbacks');
	$node->wait_for_catchup($standby);
	$node->stop('immediate');
	$standby->promote;
	$node = use_node($standby);
	events_are($told, 'finish success', 'the standby is promoted, and enqueues them');
	events_are($fired, 'finish success', '... those that the old primary has enqueued are there once');
	events_are($half, '', '... and none comes while a member lives');
	ack_all('retried');
	events_are($half, 'finish success', '... but then');
	is(sql('SELECT count(*) FROM pgq_check()'), '0', 'pgq_check finds nothing');
	$standby->stop;
}

done_testing();
