# Records of attempts and finished jobs: each is written exactly once in every case, is kept for its time, and is then
# removed by truncating its segment, not by DELETE.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = rotating_node('main', conf => "max_prepared_transactions = 10\n");
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }

create_queue($node, 'long', q{log_attempts => 'all', keep_attempts => '7 days', keep_finished => '7 days', lease_time => '1 day'});
create_queue($node, 'short', q{log_attempts => 'all', keep_attempts => '1 s', keep_finished => '1 s'});
wait_for_scheduler($node);

# "outcome attempt worker reason, ..." of the job, in their order
sub attempts_of
{
	my ($job) = @_;
	return sql(qq{SELECT string_agg(concat_ws(' ', outcome, attempt, worker, reason), ', ' ORDER BY attempt) FROM pgq_ext.attempt WHERE job_id = $job});
}

sub finished_of
{
	my ($job) = @_;
	return sql(qq{SELECT string_agg(concat_ws(' ', outcome, coalesce(worker, '-'), result), ', ') FROM pgq_ext.finished_job WHERE job_id = $job});
}

sub enqueue { return sql(q{SELECT pgq_enqueue('long', '1')}) }

# (id, lease): the job is claimed, and committed
sub claimed
{
	my ($arguments) = @_;
	$arguments //= '';
	return split /\|/, sql("SELECT job_id, lease FROM pgq_claim('long', wait => '60 s', worker => 'w' $arguments)");
}

# ---- lost ----

{
	my $job = enqueue();
	claimed(q{, lease_time => '1 s'});
	# It comes back when it was counted; then in a transaction that is rolled back, and in one whose session dies.
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $job");
	sql(q{BEGIN; SELECT job_id FROM pgq_claim('long', wait => '60 s', worker => 'x'); ROLLBACK});
	wait_for($node, "attempts = 2 FROM pgq_ext.job WHERE job_id = $job");
	my $session = session($node);
	ask($session, q{BEGIN; SELECT job_id FROM pgq_claim('long', wait => '60 s', worker => 'y')});
	sql('SELECT pg_terminate_backend(' . pid_of($session) . ')');
	wait_for($node, "attempts = 3 FROM pgq_ext.job WHERE job_id = $job");
	my ($id, $lease) = claimed();
	sql("SELECT pgq_ack($id, $lease, '[1]')");
	my $undone = 'the claiming transaction was rolled back or its session ended';
	is(attempts_of($job), "lost 1 w the lease expired, lost 2 x $undone, lost 3 y $undone, acked 4 w", 'each attempt has one record, those that were lost included');
	is(finished_of($job), 'acked w [1]', '... the job one');
	is(sql("SELECT count(*) FROM pgq_ext.attempt WHERE job_id = $job AND error IS NOT NULL"), '0', '... nobody has said why');
}

# ---- kept for their time, then truncated ----

my $records = q{FROM (SELECT queue_id, job_id, lease AS n, outcome, segment, to_jsonb(a) - 'segment' AS r FROM pgq_ext.attempt a
	UNION ALL SELECT queue_id, job_id, 0, outcome, segment, to_jsonb(f) - 'segment' FROM pgq_ext.finished_job f) records JOIN pgq_ext.queue USING (queue_id)};
my $long = q{SELECT count(*), md5(string_agg(r::text, ' ' ORDER BY job_id, n))} . " $records WHERE queue = 'long'";

sub short { return sql("SELECT count(*) $records WHERE queue = 'short'") }

# So many jobs have their whole life.
sub live_in
{
	my ($queue, $jobs) = @_;
	sql("SELECT count(pgq_enqueue('$queue', to_jsonb(repeat('x', 300)))) FROM generate_series(1, $jobs);" . answer_all($queue, $jobs, q{pgq_ack(job_id, lease, '"done"')}));
	return;
}

{
	my $reader = session($node);
	ask($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	live_in('long', 3);
	my $before = sql($long);
	my $total  = 0;
	# More than a segment of each table.
	for (1 .. 6)
	{
		live_in('short', 400);
		$total += 800;
		sql(q{SELECT pg_sleep(1.1)});
	}
	is(short(), $total, 'records whose time is over are there while nobody knows that the clock is right');
	wait_for($node, "count(*) = 0 $records WHERE queue = 'short'");
	pass('... then they are gone, also beside an old snapshot, the last of them included');
	is(sql($long), $before, '... those that are kept are as they were');
	is(sql(q{SET enable_seqscan = off; SELECT count(b.job_id) FROM pgq_ext.attempt a JOIN pgq_ext.attempt b USING (job_id, lease)}),
		sql('SELECT count(*) FROM pgq_ext.attempt'), '... the indexes lead to them');
	is(sql(q{SELECT string_agg(DISTINCT parent::text, ' ' ORDER BY parent::text) FROM pgq_ext.segment WHERE truncations > 0 AND parent <> 'pgq_ext.job'::regclass}),
		'pgq_ext.attempt pgq_ext.finished_job', '... truncated');
	my $deleted = sql(q{SELECT sum(n_tup_del) FROM pg_stat_user_tables WHERE relname ~ '^(attempt|finished_job)_'});
	cmp_ok($deleted, '<=', 4 * sql($long =~ s/, md5.*?\) FROM/ FROM/sr), "... not deleted row by row ($deleted, of $total)");
	is(sql('SELECT count(*) FROM pgq_check()'), '0', '... all is well');
	ask($reader, 'COMMIT');
	end_session($reader);
}

{
	# A few, in a segment that will not be full for years, behind some that are kept.
	live_in('long', 1);
	live_in('short', 2);
	wait_for($node, "count(*) = 0 $records WHERE queue = 'short'");
	pass('a few are gone in time, too');
	# Sooner, if the queue says so by now; not while somebody has locked one of them.
	create_queue($node, 'lowered', q{log_attempts => 'all', keep_finished => '7 days'});
	live_in('lowered', 2);
	my $locker = session($node);
	ask($locker, q{BEGIN; SELECT 1 FROM pgq_ext.finished_job f JOIN pgq_ext.queue q USING (queue_id) WHERE queue = 'lowered' FOR UPDATE OF f});
	sql(q{SELECT pgq_alter_queue('lowered', keep_attempts => '1 s', keep_finished => '1 s')});
	live_in('short', 2);
	wait_for($node, q{count(*) = 0 FROM pgq_ext.attempt JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'lowered'});
	is(sql(q{SELECT count(*) FROM pgq_ext.finished_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'lowered'}), '2', 'what somebody has locked stays');
	is(sql('SELECT count(*) FROM pg_locks WHERE NOT granted'), '0', '... nobody waits');
	ask($locker, 'COMMIT');
	end_session($locker);
	wait_for($node, q{count(*) = 0 FROM pgq_ext.finished_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'lowered'});
	pass('... until it is unlocked');
	wait_for($node, "count(*) = 0 $records WHERE queue IN ('short', 'lowered')");
}

# ---- dumped and restored ----

{
	# Records of the other queues may end, and the schedulers of both databases may move records to other segments.
	my $state = q{SELECT md5(string_agg(r::text, ' ' ORDER BY r::text)) FROM (SELECT to_jsonb(a) - 'segment' r, queue_id FROM pgq_ext.attempt a UNION ALL SELECT to_jsonb(f) - 'segment', queue_id FROM pgq_ext.finished_job f) r JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'long'};
	my $file = $node->basedir . '/dump';
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $file, $node->connstr('postgres') ], 'pg_dump');
	sql('CREATE DATABASE restored');
	$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), '--exit-on-error', $file ], 'pg_restore');
	cmp_ok(sql('SELECT count(*) FROM pgq_ext.attempt', 'restored'), '>=', 7, '... brings records');
	is(sql($state, 'restored'), sql($state), '... as they were');
	is(sql(q{SELECT count(pgq_enqueue('long', '1')); SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('long', wait => '60 s')}, 'restored'), "1\n1", '... and others are written there');
}

# ---- prepared, and a crash ----

{
	my %job;
	for my $name ('commits', 'rolls back', 'not prepared', 'committed')
	{
		enqueue();
		$job{$name} = [ claimed() ];
	}
	my $ack = sub { my ($name) = @_; return "SELECT pgq_ack($job{$name}[0], $job{$name}[1], '\"$name\"')" };
	sql("BEGIN; @{[ $ack->($_) ]}; PREPARE TRANSACTION '$_'") for 'commits', 'rolls back';
	sql($ack->('committed'));
	my $open = session($node);
	ask($open, 'BEGIN; ' . $ack->('not prepared'));
	# Batches of more than is written at once.
	sql(q{SELECT count(pgq_enqueue('long', '"batch"')) FROM generate_series(1, 600)});
	my $batch = q{WITH c AS MATERIALIZED (SELECT array_agg(job_id) AS ids, array_agg(lease) AS leases FROM pgq_claim('long', 300))
		SELECT count(*) FROM c, pgq_ack_many(c.ids, c.leases)};
	is(sql($batch), '300', 'a batch is acknowledged');
	is(ask($open, $batch), '300', '... and another one, not committed');
	$node->stop('immediate');
	$node->start;
	is(sql(q{SELECT count(*), count(DISTINCT f.job_id), count(a.job_id) FROM pgq_ext.finished_job f LEFT JOIN pgq_ext.attempt a USING (job_id) WHERE payload = '"batch"'}),
		'300|300|300', 'each job of the committed batch has its records after a crash');
	is(sql(q{SELECT count(*) FROM pgq_ext.finished_job WHERE result IN ('"commits"', '"rolls back"', '"not prepared"')}), '0', 'what is not committed is no record');
	is(finished_of($job{committed}[0]) . ', ' . attempts_of($job{committed}[0]), 'acked w "committed", acked 1 w', '... what is committed is one after a crash');
	sql(q{COMMIT PREPARED 'commits'});
	sql(q{ROLLBACK PREPARED 'rolls back'});
	is(finished_of($job{commits}[0]) . ', ' . attempts_of($job{commits}[0]), 'acked w "commits", acked 1 w', 'a prepared ack brings its records with its commit');
	is(finished_of($job{'rolls back'}[0]) . attempts_of($job{'rolls back'}[0]), '', '... none with its rollback');
	# The lease from before the crash is good still, but nobody knows of the attempt.
	sql($ack->('not prepared'));
	is(finished_of($job{'not prepared'}[0]), 'acked - "not prepared"', 'a late ack is a record of the job');
	is(attempts_of($job{'not prepared'}[0]), '', '... not of the attempt, which was forgotten');
	is(sql(q{SELECT count(*) FROM pgq_check()}), '0', 'all is well');
}

done_testing();
