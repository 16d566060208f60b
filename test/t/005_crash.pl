# However the server goes down, and whichever process dies: committed jobs are handed out again, and no other job is.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "restart_after_crash = on\npgq_ext.window_size = 64\nautovacuum = off\n");
create_queue($node, 'first');
wait_for_scheduler($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub worker
{
	my ($type) = @_;
	return sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgq_ext $type'");
}

# (how it happens, whether all backends and so their memory go with it, whether leases are saved)
my %accident = (
	'01 smart shutdown' => [ sub { $node->stop('smart'); $node->start }, 1, 1 ],
	'02 fast shutdown' => [ sub { $node->stop('fast'); $node->start }, 1, 1 ],
	'03 immediate shutdown' => [ sub { $node->stop('immediate'); $node->start }, 1 ],
	'04 kill -9 of a backend' => [ sub { kill 'KILL', $_[0]; wait_until_down($_[0]); wait_until_up($node) }, 1 ],
	'05 kill -9 of the scheduler' => [ sub { my $pid = worker('scheduler'); kill 'KILL', $pid; wait_until_down($pid); wait_until_up($node) }, 1 ],
	'06 kill -9 of the launcher' => [ sub { my $pid = worker('launcher'); kill 'KILL', $pid; wait_until_down($pid); wait_until_up($node) }, 1 ],
	'07 kill -9 of the postmaster' => [ sub {
		my ($pid) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
		$node->kill9;
		wait_until_down($pid);
		# A server starts when the last old backend is gone: each notices by itself, those that wait for a job, too.
		for (1 .. 600)
		{
			last if $node->start(fail_ok => 1);
			$node->stop('fast', fail_ok => 1);
			select(undef, undef, undef, 0.1);
		} }, 1 ],
	'08 scheduler terminated' => [ sub {
		my $pid = worker('scheduler');
		sql("SELECT pg_terminate_backend($pid, 60000)");
		wait_for_scheduler($node, 'postgres', $pid) }, 0 ],
	'09 launcher terminated' => [ sub {
		my $pid = worker('launcher');
		sql("SELECT pg_terminate_backend($pid, 60000)");
		wait_for($node, "count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgq_ext launcher' AND pid <> $pid") }, 0 ]);

for my $name (sort keys %accident)
{
	my ($happen, $memory_lost, $saved) = @{ $accident{$name} };
	my ($queue, $what) = $name =~ /^(\d+) (.*)/;
	$queue = "q$queue";
	my $others = $what ne 'smart shutdown';    # it waits for them

	sql("SELECT pgq_create_queue('$queue', max_attempts => 3, backoff_base => '100 ms', backoff_jitter => 0)");
	wait_for_scheduler($node); # which saves leases at a shutdown

	# Jobs in every state. The payload says whether the job has to be there afterwards.
	sql(qq{
		SELECT pgq_enqueue('$queue', '"kept"', i % 3) FROM generate_series(1, 200) i;
		SELECT pgq_enqueue('$queue', '"kept"', delay => '1500 ms', priority => 3) FROM generate_series(1, 20);
		SELECT pgq_enqueue('$queue', '"acked"', 9) FROM generate_series(1, 20);
		SELECT pgq_ack(job_id, lease) FROM pgq_claim('$queue', 20);
		SELECT pgq_enqueue('$queue', '"dead"', 9, max_attempts => 1) FROM generate_series(1, 5);
		SELECT pgq_fail(job_id, lease, 'no') FROM pgq_claim('$queue', 5);
		SELECT pgq_enqueue('$queue', '"held"', 9) FROM generate_series(1, 10)});
	my @held = split /\n/, sql("SELECT job_id, lease FROM pgq_claim('$queue', 10, lease_time => '1 hour')");
	my $greatest = sql('SELECT max(lease) FROM pgq_ext.lease');

	my @sessions = map { session($node) } 1 .. ($others ? 4 : 0);
	my $backend;
	if ($others)
	{
		my ($claiming, $acking, $enqueuing, $waiting) = @sessions;
		$backend = pid_of($claiming);
		ask($claiming, "BEGIN; SELECT job_id FROM pgq_claim('$queue', 7)");
		ask($acking, "BEGIN; WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('$queue', 7)) SELECT pgq_ack(job_id, lease) FROM c");
		ask($enqueuing, "BEGIN; SELECT pgq_enqueue('$queue', '\"not committed\"', 10) FROM generate_series(1, 100)");
		sql("SELECT pgq_create_queue('nothing', if_not_exists => true)");
		send_sql($waiting, q{SELECT * FROM pgq_claim('nothing', wait => '60 s')});
		wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'nothing'");
	}

	$happen->($backend);
	if ($memory_lost)
	{
		reply($sessions[3]) if $others;
		end_session($_) for @sessions;
	}
	elsif ($others)
	{
		my ($claiming, $acking, $enqueuing, $waiting) = @sessions;
		ask($_, 'ROLLBACK') for $claiming, $acking, $enqueuing;
		sql(q{SELECT pgq_enqueue('nothing', '"x"')});
		like(reply($waiting), qr/"x"/, "$what: a claim that waits does not notice");
		sql(q{SELECT pgq_purge_queue('nothing'); SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE queue = 'nothing'});
		end_session($_) for @sessions;
		is(sql("SELECT count(*) FROM pgq_ext.lease WHERE queue = '$queue'"), '10', "$what: leases live on");
		sql("SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE queue = '$queue'");
	}

	if ($saved)
	{
		is(sql("SELECT count(*) FROM pgq_ext.lease WHERE queue = '$queue'"), '10', "$what: leases live on");
		is(sql("SELECT count(*) FROM pgq_ack_many('{" . join(',', map { (split /\|/)[0] } @held) . "}', '{" . join(',', map { (split /\|/)[1] } @held) . "}')"), '10', "$what: as they were");
	}

	# Everything that was committed, once, at most one attempt lost with an open transaction.
	my (%seen, @twice, %attempts);
	my $expected = 220 + ($memory_lost && !$saved ? 10 : 0);
	for (1 .. 300)
	{
		for (split /\n/, sql(qq{
			SELECT job_id, lease, payload #>> '{}', attempt FROM pgq_claim('$queue', 50, wait => '1 s', lease_time => '1 hour')}))
		{
			my ($id, $lease, $payload, $attempt) = split /\|/;
			push @twice, $id if $seen{$id};
			$seen{$id} = $payload;
			$attempts{$attempt}++;
			$greatest = -1 if $lease <= $greatest;
		}
		last if keys %seen >= $expected;
	}
	my %count;
	$count{$_}++ for values %seen;
	is(join(' ', map { "$_: $count{$_}" } sort keys %count), $expected == 230 ? 'held: 10 kept: 220' : 'kept: 220',
		"$what: what was committed is handed out, and nothing else");
	is("@twice", '', "$what: nothing twice");
	cmp_ok($greatest, '>', 0, "$what: tokens grow");
	cmp_ok($attempts{2} // 0, '<=', 14, "$what: only what open transactions had claimed can have lost an attempt");
	is($attempts{2} // 0, 14, "$what: and has, where memory was not lost") if !$memory_lost;
	# Without a postmaster sessions end one by one, and the scheduler may be the last to notice.
	is($attempts{2} // 0, 0, "$what: a crash costs no attempt") if $what =~ /kill -9 of (?!the postmaster)|immediate/;

	# What had been handed out before is stale, now that it was handed out again.
	my ($id, $token) = split /\|/, $held[0];
	is(sqlstate($node, "SELECT pgq_ack($id, $token)"), 'PQ001', "$what: an old lease is stale") if $memory_lost;
	is(sql("SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = '$queue'"), $expected, "$what: the new ones are not");
	wait_until_counted($node);
	is(sql("SELECT ready, scheduled, leased, dead FROM pgq_ext.queue_status WHERE queue = '$queue'"), '0|0|0|5', "$what: nothing is left");

	# The scheduler is back at work: it counts what expires.
	sql("SELECT pgq_enqueue('$queue', '1'); SELECT * FROM pgq_claim('$queue', lease_time => '1 s')");
	is(sql("SELECT attempt FROM pgq_claim('$queue', wait => '60 s')"), '2', "$what: a scheduler works");
	wait_for($node, "count(*) FILTER (WHERE backend_type = 'pgq_ext scheduler') = 1
		AND count(*) FILTER (WHERE backend_type = 'pgq_ext launcher') = 1 FROM pg_stat_activity");
	pass("$what: one launcher, one scheduler");
	sql("SELECT pgq_drop_queue('$queue', force => true)");
}

# ---- the scheduler dies in the middle of counting ----

# Stopped between taking the lost leases and writing the rows, then killed or terminated.
for my $signal ('TERM', 'KILL')
{
	my $gate = session($node);
	my $worker = session($node);
	sql(q{SELECT pgq_create_queue('reaped', backoff_base => '100 ms', if_not_exists => true);
		SELECT pgq_enqueue('reaped', to_jsonb(i)) FROM generate_series(1, 10) i;
		ALTER DATABASE postgres SET pgq_ext.stop_point = 'reap'});
	my $before = worker('scheduler');
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	sql("SELECT pg_terminate_backend($before, 60000)");
	my $scheduler = wait_for_scheduler($node, 'postgres', $before);
	sql('ALTER DATABASE postgres RESET pgq_ext.stop_point');
	ask($worker, q{BEGIN; SELECT job_id FROM pgq_claim('reaped', 10)});
	ask($worker, 'ROLLBACK');
	wait_for($node, "count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = $scheduler AND NOT granted");
	kill $signal, $scheduler;
	wait_until_down($scheduler);
	wait_until_up($node);
	end_session($_) for $gate, $worker;
	my @attempts;
	for (1 .. 60)
	{
		push @attempts, split /\n/, sql(q{SELECT attempt FROM pgq_claim('reaped', 10, wait => '1 s')});
		last if @attempts >= 10;
	}
	# The crash takes the memory of the lost attempts with it.
	my $expected = $signal eq 'TERM' ? 2 : 1;
	is("@attempts", join(' ', ($expected) x 10), "SIG$signal while the scheduler counts: every job comes back, once");
	sql(q{SELECT pgq_drop_queue('reaped', force => true)});
}

$node->stop;
done_testing();
