# Rows that memory does not know, which the protocol rules out. The test makes such rows by switching the trigger off;
# the reconciler and pgq_check find them. Under load, without such rows, neither reports any.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

# A move would find what was forgotten, too.
my $node = pgq_node('main', conf => "pgq_ext.window_size = 64\npgq_ext.timer_size = 16\npgq_ext.segment_dead_rows = 0\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub repaired { return sql("SELECT repaired FROM pgq_ext.queue_stats WHERE queue = '$_[0]'") }

# Behind the trigger's back, after the queue has been read to its end.
sub insert_unseen
{
	my ($queue, $rows, $what) = @_;
	sql("SELECT count(*) FROM pgq_claim('$queue')");
	sql(qq{
		BEGIN;
		ALTER TABLE pgq_ext.job_0 DISABLE TRIGGER job_changed;
		INSERT INTO pgq_ext.job (queue_id, priority, run_at, enqueued_at, payload)
		SELECT queue_id, i % 3, $what, to_jsonb(i) FROM pgq_ext.queue, generate_series(1, $rows) i WHERE queue = '$queue';
		ALTER TABLE pgq_ext.job_0 ENABLE ALWAYS TRIGGER job_changed;
		COMMIT});
	return;
}

# ---- the scheduler ----

my %rows = (
	ready     => [ 5,   'now(), now()' ],
	past      => [ 5,   "now() - interval '1 day', now() - interval '2 days'" ],
	scheduled => [ 5,   "now() + interval '3 s', now()" ],
	ahead     => [ 5,   "now() + interval '1 day', now() + interval '1 day'" ],    # due when enqueued, by another clock
	many      => [ 500, "now() + i % 2 * interval '1 s', now()" ]);
for my $case (sort keys %rows)
{
	my $queue = "forgotten_$case";
	my ($n, $what) = @{ $rows{$case} };
	create_queue($node, $queue);
	insert_unseen($queue, $n, $what);
	wait_for($node, "repaired > 0 FROM pgq_ext.queue_stats WHERE queue = '$queue'");
	is(scalar drain($node, $queue), $n, "$case: every forgotten row is found and handed out");
}
is(sql("SELECT string_agg(line, ' ') FROM pgq_check() line"), '', 'then all is well');
like(slurp_file($node->logfile), qr/WARNING:  job \d+ of queue "forgotten_ready" was missing in memory and is there again/, 'the log tells');

# ---- others have transactions open ----

my $writer = session($node);
create_queue($node, 'forgotten_beside');
insert_unseen('forgotten_beside', 2, 'now(), now()');
ask($writer, q{BEGIN; SELECT pgq_enqueue('forgotten_beside', '0')});
wait_for($node, q{repaired = 2 FROM pgq_ext.queue_stats WHERE queue = 'forgotten_beside'});
pass('a writer that goes on does not hold up the repair');
ask($writer, 'COMMIT');
end_session($writer);
is(scalar drain($node, 'forgotten_beside'), 3, '... and all are handed out');

# ---- no scheduler: on demand ----

$node->append_conf('postgresql.conf', "max_worker_processes = 1\n");
$node->restart;
create_queue($node, 'forgotten_checked');
insert_unseen('forgotten_checked', 3, 'now(), now()');
is(sql("SELECT count(*) FROM pgq_claim('forgotten_checked')"), '0', 'without a scheduler a forgotten row stays forgotten');
is(sql(q{SELECT count(*) FROM pgq_check() line WHERE line LIKE 'queue "forgotten_checked": job % is missing in memory'}), '3', 'pgq_check reports it');
is(sql('SELECT count(*) FROM pgq_check()'), '0', '... once');
is(repaired('forgotten_checked'), '3', '... and counts it');
is(scalar drain($node, 'forgotten_checked'), 3, '... and it is handed out');

sql(q{SET check_function_bodies = off; INSERT INTO pgq_ext.job (queue_id, payload) VALUES (-7, '1'), (-7, '2')});
is(sql('SELECT * FROM pgq_check()'), '2 jobs have queue_id -7, and there is no such queue', 'rows of no queue are reported');
sql('DELETE FROM pgq_ext.job');

create_queue($node, 'deleted');
sql("SELECT count(*) FROM pgq_claim('deleted');
	SELECT pgq_enqueue('deleted', '1', priority => i) FROM generate_series(1, 3) i; DELETE FROM pgq_ext.job WHERE priority < 3");
my ($status, $out, $notices) = $node->psql('postgres', 'SELECT * FROM pgq_check()');
is($out . $notices, '', 'hints without rows are no violation, and no news');
is(sql("SELECT priority FROM pgq_claim('deleted', 10)"), '3', '... a claim drops them');

$node->append_conf('postgresql.conf', "max_worker_processes = 32\npgq_ext.window_size = 4\npgq_ext.timer_size = 3\n");
$node->restart;

# ---- nothing is found where all is well ----

# Memory has dropped the second job of group "a", and has forgotten that it knew the first job, which then expires. For a minute
# after its start the scheduler does not end expired jobs.
create_queue($node, 'lines', 'fifo => true');
sub enqueue_line { return sql("SELECT pgq_enqueue('lines', '$_[1]', group_key => '$_[0]', priority => $_[2])") }
sub take_line { return sql("SELECT payload FROM pgq_claim('lines') c, pgq_ack(c.job_id, c.lease)") }
enqueue_line('a', 1, 1);
my $first = enqueue_line('a', 2, 0);
is(take_line(), '1', 'a job of the group is done');
for my $n (10 .. 29)
{
	enqueue_line("b$n", $n, 2);
	enqueue_line("b$n", 0, -1);
	is(take_line(), $n, "... then a job of group b$n");
	enqueue_line('a', 3, 0) if $n == 10;    # the last claim has looked for the first job of group "a"
}
sql("UPDATE pgq_ext.job SET expires_at = now() - interval '1 s' WHERE job_id = $first");
is(sql('SELECT * FROM pgq_check()'), '', 'a job that waits for an expired one is not missing');
is(take_line(), '3', '... and is handed out');
sql(q{SELECT pgq_drop_queue('lines', force => true)});

create_queue($node, 'busy', "max_attempts => 1000");
my $rounds = sql("SELECT reconciled FROM pgq_ext.queue_stats WHERE queue = 'busy'");
$node->pgbench('-n -c 8 -j 2 -t 150', 0, [qr/processed: (\d+)\/\1\b/], [qr/^(?!.*(?:ERROR|aborted))/s], 'pgq_check under load', {
	'20_produce@4' => q{
		\set delay random(-60, 60)
		SELECT pgq_enqueue('busy', '1', :delay % 3, delay => make_interval(secs => greatest(0, :delay) / 1000.0));},
	'20_prepare@1' => q{
		BEGIN;
		SELECT pgq_enqueue('busy', '1', 1);
		SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('busy');
		PREPARE TRANSACTION 'p:client_id';
		COMMIT PREPARED 'p:client_id';},
	'20_ack@3' => q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('busy', 2);},
	'20_fail@1' => q{SELECT count(pgq_fail(job_id, lease, retry_in => '10 ms')) FROM pgq_claim('busy', 2);},
	'20_lose@1' => q{
		BEGIN;
		SELECT count(*) FROM pgq_claim('busy', 2);
		ROLLBACK;},
	'20_change@1' => q{
		UPDATE pgq_ext.job SET priority = (random() * 4)::int, run_at = clock_timestamp() + random() * interval '100 ms'
		WHERE job_id IN (SELECT job_id FROM pgq_ext.job ORDER BY random() LIMIT 2 FOR UPDATE SKIP LOCKED);},
	'20_check@1' => q{SELECT 1 / (count(*) = 0)::int FROM pgq_check();},
});
wait_for($node, "reconciled > $rounds + 2 FROM pgq_ext.queue_stats WHERE queue = 'busy'");
is(repaired('busy'), '0', 'the reconciler has found nothing');
drain($node, 'busy');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'nothing is wrong when all is done');
is(sql("SELECT handed_out - acked - failed - lost - uncounted FROM pgq_ext.queue_stats WHERE queue = 'busy'"), '0', 'every hand-out has ended');
$node->stop;

done_testing();
