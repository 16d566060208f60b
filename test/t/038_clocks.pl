# Clocks that are set while jobs wait: a lease keeps its length, and everything else follows the new time of the
# clock.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use PgqTest;
use ClockTest;
use RotationTest;
use Test::More;

my $node = clock_node('clocks', conf => "pgq_ext.window_size = 64\npgq_ext.timer_size = 64\n");
sub sql { my ($sql) = @_; return scalar $node->safe_psql('postgres', $sql) }

my $hour = 3600;

subtest 'a clock that was wrong voids no delay' => sub
{
	create_queue($node, 'c');
	my $later = sql(q{SELECT pgq_enqueue('c', '"before"', delay => '30 min')});
	set_clock($node, $hour);
	is(sql(q{SELECT payload FROM pgq_claim('c')}), '"before"', 'what is due by a wrong clock is handed out');
	sql(q{SELECT pgq_enqueue('c', '"due at once"')});
	set_clock($node, 0);
	sql(q{SELECT pgq_enqueue('c', '"after"', delay => '50 min'); SELECT pgq_enqueue_many('c', jsonb_agg('{"payload": 1, "delay": "40 min"}'::jsonb)) FROM generate_series(1, 200)});
	is(sql(q{SELECT string_agg(payload::text, ' ') FROM pgq_claim('c', 1000)}), '"due at once"', 'what is not due by the right one is not, what was due when it was enqueued is');
	is(sql(q{SELECT count(*) FROM pgq_claim('c', 1000)}), '0', '... nor later');
	is(sql(q{SELECT scheduled || ' ' || ready FROM pgq_ext.queue_status WHERE queue = 'c'}), '201 0', '... which the view says too');
	sql(q{UPDATE pgq_ext.job SET run_at = clock_timestamp() + '300 ms' WHERE payload = '"after"'});
	is(sql(q{SELECT payload, clock_timestamp() >= run_at FROM pgq_claim('c', wait => '60 s')}), '"after"|t', 'a waiting claim goes by the clock that was set right');
	set_clock($node, $hour);
	is(sql(q{SELECT count(*) FROM pgq_claim('c', 1000)}), '200', 'all others are there when it is set again');
	is(sql('SELECT count(*) FROM pgq_check()'), '0', 'pgq_check() finds nothing');
	set_clock($node, 0);
};

subtest 'a poison job cannot spin' => sub
{
	create_queue($node, 'poison', 'max_attempts => 20');
	my $fail = q{DO $$DECLARE c record; BEGIN FOR i IN 1..30 LOOP
		FOR c IN SELECT * FROM pgq_claim('poison') LOOP PERFORM pgq_fail(c.job_id, c.lease, retry_in => '10 min'); END LOOP; END LOOP; END$$};
	set_clock($node, $hour);
	sql(q{SELECT pgq_enqueue('poison', '0')});
	set_clock($node, 0);
	sql(q{SELECT pgq_enqueue('poison', '1')});
	sql($fail);
	is(sql(q{SELECT string_agg(attempts::text, ' ') FROM pgq_ext.job_status WHERE queue = 'poison' AND state = 'scheduled'}), '1 1', 'after a clock that was wrong');
	set_clock($node, $hour);
	sql($fail);
	is(sql(q{SELECT string_agg(attempts::text, ' ') FROM pgq_ext.job_status WHERE queue = 'poison'}), '2 2', 'under a clock that is wrong');
	set_clock($node, 0);
	sql($fail);
	is(sql(q{SELECT string_agg(attempts::text, ' ') FROM pgq_ext.job_status WHERE queue = 'poison'}), '2 2', 'when it is set right');
	is(sql(q{SELECT string_agg(DISTINCT waits_for, ' ') FROM pgq_ext.job_status WHERE queue = 'poison'}), 'backoff until run_at', '... and the view says why');
};

# Since PostgreSQL 19 a session may choose what the server measures by, where the processor has a counter that will do. What
# one session notes in memory others compare with.
subtest 'what a session measures by is its own' => sub
{
	my @sources = grep { (sqlstate($node, "SET timing_clock_source = $_"))[0] eq '' } 'system', 'tsc';
	plan skip_all => 'there is one source only' if @sources < 2;
	create_queue($node, 'm');
	my @sessions = map { my $s = session($node); ask($s, "SET timing_clock_source = $_"); $s } @sources;
	for my $n (0, 1)
	{
		sql(q{SELECT pgq_enqueue('m', '1')});
		ask($sessions[$n], q{SELECT job_id FROM pgq_claim('m', lease_time => '10 min')});
		is(ask($sessions[1 - $n], q{SELECT lease_expires_at - clock_timestamp() BETWEEN '8 min' AND '10 min' FROM pgq_ext.lease WHERE queue = 'm'}), 't',
			"a lease that $sources[$n] has begun ends when it has to by $sources[1 - $n]");
		is(ask($sessions[1 - $n], q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = 'm'}), '1', '... and is its worker\'s');
	}
	end_session($_) for @sessions;
};

subtest 'durations do not go by the clock' => sub
{
	create_queue($node, 'd', q{max_runtime => '20 s'});
	my $s = session($node);
	my $start = monotonic();
	send_sql($s, q{SELECT count(*) FROM pgq_claim('d', wait => '5 s')});
	wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'd'});
	set_clock($node, -$hour);
	is(reply($s), '0', 'a claim whose wait began before the clock was set back ends');
	my $took = seconds_since($start);
	cmp_ok($took, '>=', 4.9, '... not before its time');
	cmp_ok($took, '<', 60, '... nor an hour later');
	set_clock($node, 0);
	$start = monotonic();
	send_sql($s, q{SELECT count(*) FROM pgq_claim('d', wait => '5 s')});
	wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'd'});
	set_clock($node, $hour);
	is(reply($s), '0', 'set forward, too');
	cmp_ok(seconds_since($start), '>=', 4.9, '... not before its time');
	set_clock($node, 0);

	# A timer far away by the clock is near when that is set.
	sql(q{SELECT pgq_enqueue('d', '"timer"', delay => '30 min')});
	send_sql($s, q{SELECT payload FROM pgq_claim('d', wait => '50 s')});
	wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'd'});
	set_clock($node, $hour);
	is(reply($s), '"timer"', 'a sleeping claim notices that the clock was set');
	set_clock($node, 0);

	my ($id, $lease) = split /\|/, sql(q{SELECT pgq_enqueue('d', '"run"'); SELECT job_id, lease FROM pgq_claim('d')}) =~ s/^\d+\n//r;
	set_clock($node, 2 * $hour);
	is(sql("SELECT pgq_extend($id, $lease, '10 s') > clock_timestamp() + '5 s'"), 't', 'max_runtime does not go by a clock that is set forward');
	is(sqlstate($node, "SELECT pgq_ack($id, $lease)"), '', '... the lease is not lost');
	set_clock($node, 0);
	create_queue($node, 'short', q{max_runtime => '1 s'});
	($id, $lease) = split /\|/, sql(q{SELECT pgq_enqueue('short', '1'); BEGIN; SELECT job_id, lease FROM pgq_claim('short'); COMMIT}) =~ s/^\d+\n//r;
	set_clock($node, -$hour);
	wait_for($node, q{count(*) = 1 FROM pgq_ext.job_status WHERE queue = 'short' AND attempts = 1});
	pass('... nor is it longer for a clock that is set back');
	set_clock($node, 0);
	sql(q{SELECT pgq_purge_queue('short'); SELECT pgq_enqueue('short', '2')});
	my $pinned = ask($s, q{BEGIN; SELECT job_id || ', ' || lease FROM pgq_claim('short'); SELECT pg_sleep(1.1)}) =~ s/\s+$//r;
	is(ask($s, "SELECT pgq_extend($pinned, '60 s') IS NULL"), 't', 'when max_runtime is used up an extension is refused');
	send_sql($s, "SELECT pgq_ack($pinned); COMMIT");
	is_deeply([ reply($s) ], [ '', '' ], '... the lease of an open transaction is valid all the same');
	end_session($s);
};

subtest 'a failover to a clock that is behind' => sub
{
	$node->safe_psql('postgres', q{SELECT pgq_create_queue('f', max_attempts => 7, backoff_base => '1 min', backoff_jitter => 0)});
	set_clock($node, 600);
	sql(q{SELECT pgq_enqueue('f', '"fails"', 2), pgq_enqueue('f', '"is lost"', 1), pgq_enqueue('f', '"waits"')});
	$node->stop('immediate');
	set_clock($node, 0);
	start_with_clock($node);
	my $state = sub {
		my ($payload) = @_;
		return sql(qq{SELECT s.attempts || ' ' || s.state FROM pgq_ext.job_status s JOIN pgq_ext.job USING (job_id) WHERE payload = '"$payload"'});
	};
	sql(q{SELECT pgq_fail(job_id, lease, retry_in => '1 min') FROM pgq_claim('f')});
	is($state->('fails'), '1 scheduled', 'a failed job backs off');
	is(sql(q{BEGIN; SELECT payload FROM pgq_claim('f'); ROLLBACK}), '"is lost"', 'what was due when it was enqueued is due');
	wait_for($node, q{count(*) = 1 FROM pgq_ext.job WHERE payload = '"is lost"' AND attempts = 1});
	is($state->('is lost'), '1 scheduled', 'a lost job backs off, too');
	sql(q{UPDATE pgq_ext.job SET run_at = clock_timestamp() + '2 min' WHERE payload = '"is lost"'});
	is(sql(q{SELECT string_agg(payload::text, ' ') FROM pgq_claim('f', 10)}), '"waits"', '... also when its time is changed by hand');
	sql(q{UPDATE pgq_ext.job SET run_at = clock_timestamp() WHERE payload = '"is lost"'});
	is(sql(q{SELECT payload FROM pgq_claim('f', wait => '50 s')}), '"is lost"', '... which counts');
	is(sql(q{SELECT count(*) FROM pgq_check()}), '0', 'pgq_check() finds nothing');
};

subtest 'a lock that was taken by a clock that was ahead' => sub
{
	set_clock($node, 3600);
	my $token = sql(q{SELECT pgq_lock('ahead', ttl => '30 s')});
	set_clock($node, 0);
	is(sql("SELECT pgq_extend_lock('ahead', $token, '30 s') BETWEEN clock_timestamp() AND clock_timestamp() + '30 s'"), 't', 'is held for as long as its extension says');
	is(sql("SELECT pgq_unlock('ahead', $token)"), 't', '... and given back');
};

subtest 'dead letters and records are not destroyed by a clock that was just set' => sub
{
	create_queue($node, 'dead', q{max_attempts => 1, keep_dead => '1 day', keep_attempts => '1 day'});
	sql(q{SELECT pgq_enqueue('dead', '1'); SELECT pgq_fail(job_id, lease) FROM pgq_claim('dead')});
	my $told = sub {
		my ($how) = @_;
		# An hour less if the scheduler has not noticed that the test before has set the clock back.
		my $what = qr/LOG:  the clock was set $how by 1(?:69|7[0-9])[0-9]{3}/;
		for (1 .. 1800)
		{
			return pass("... which is told: $how") if slurp_file($node->logfile) =~ $what;
			select undef, undef, undef, 0.1;
		}
		return fail("... which is told: $how");
	};
	my $set = monotonic();
	set_clock($node, 48 * $hour);
	$told->('forward');
	# So long as the scheduler needs for several rounds of retention, and of rotation.
	my $since = monotonic();
	my $records = q{FROM pgq_ext.attempt JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'dead'};
	my $kept = sub { return sql("SELECT (SELECT count(*) FROM pgq_ext.dead_job) || ' ' || (SELECT count(*) $records)") };
	my $there = '1 1';
	while ($there eq '1 1' && seconds_since($since) < 12)
	{
		select undef, undef, undef, 0.1;
		$there = $kept->();
	}
	set_clock($node, 0);
	$there = $kept->() if $there eq '1 1';
	SKIP:
	{
		# After a minute the clock counts as right.
		skip 'the machine has taken too long for this', 1 if seconds_since($set) > 50;
		is($there, '1 1', 'the dead letter is there, and the record of its attempt');
	}
	$told->('back');
};

subtest 'a dump that began under a clock that was wrong holds segments like any other' => sub
{
	my $node = clock_node('dump', conf => "pgq_ext.segment_size = '256kB'\nautovacuum = off\n");
	create_queue($node, 'work');
	wait_for_scheduler($node);
	my $dump = session($node);
	set_clock($node, $hour);
	ask($dump, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot()');
	set_clock($node, 0);
	my $n = next_segment($node);
	ok($node->poll_query_until('postgres', "SELECT held_by ~ 'snapshot of process' OR state = 'empty' FROM pgq_ext.segment WHERE segment = $n"), 'it is seen');
	is($node->safe_psql('postgres', "SELECT state FROM pgq_ext.segment WHERE segment = $n"), 'closed', '... and its segment is not truncated');
	ask($dump, 'ROLLBACK');
	end_session($dump);
	wait_for($node, "truncations > 0 FROM pgq_ext.segment WHERE segment = $n");
	pass('... before it has ended');
	$node->stop;
};

$node->stop;
done_testing();
