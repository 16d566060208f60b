# In no time span of one rate_period are more jobs of a queue handed out than its rate_limit, and a job that the rate
# allows is not left waiting.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub make { my ($queue, $options) = @_; sql("SELECT pgq_create_queue('$queue', lease_time => '1 day', log_attempts => 'all', $options)"); return }
sub enqueue { my ($queue, $n) = @_; return split /\n/, sql("SELECT pgq_enqueue('$queue', to_jsonb(i)) FROM generate_series(1, $n) i") }
my ($a, $b, $waiter) = map { session($node) } 1 .. 3;
my $pid = pid_of($waiter);
# Pairs of id and lease, of what that session claims.
sub claim { my ($s, $queue, $n) = @_; return map { [ split /\|/ ] } split /\n/, ask($s, "SELECT job_id, lease FROM pgq_claim('$queue', $n)") }
sub well_ok { my ($what) = @_; is(sql('SELECT * FROM pgq_check()'), '', "... all is well $what"); return }
sub wait_in_line
{
	my ($queue, $wait) = @_;
	send_sql($waiter, qq{SELECT 'got one', pgq_ack(job_id, lease) FROM pgq_claim('$queue', wait => '60 s')});
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	return;
}

# ---- what counts ----

{
	make('hour', "rate_limit => 5, rate_period => '1 hour'");
	enqueue('hour', 9);
	my @held = claim($a, 'hour', 3);
	is(scalar @held, 3, 'a new queue may hand out at once what its rate says');
	push @held, claim($b, 'hour', 10);
	is(scalar @held, 5, '... also in several claims');
	ask($a, "SELECT pgq_ack($_->[0], $_->[1])") for @held[ 0 .. 1 ];
	ask($a, "SELECT pgq_fail($held[2][0], $held[2][1])");
	ask($a, "SELECT pgq_release($held[3][0], $held[3][1])");
	is(scalar(() = claim($a, 'hour', 1)), 0, '... no more, though some have ended');
	like(sql(q{SELECT DISTINCT waits_for FROM pgq_ext.job_status WHERE state = 'ready'}), qr/^the rate \(rate_limit\), until \d/, '... and the view says why');
	is(sql(q{SELECT count(*) FROM pgq_ext.queue_entries() WHERE next_start BETWEEN clock_timestamp() + interval '55 min' AND clock_timestamp() + interval '65 min'}), '1', '... and until when');
	well_ok('meanwhile');
	wait_in_line('hour');
	sql(q{SELECT pgq_alter_queue('hour', rate_limit => 6)});
	is(scalar reply($waiter), 'got one|', 'a higher limit lets one more start');
	wait_in_line('hour');
	sql(q{SELECT pgq_alter_queue('hour', rate_limit => 0)});
	is(scalar reply($waiter), 'got one|', 'no limit too');
	sql(q{SELECT pgq_alter_queue('hour', rate_limit => 1)});
	is(scalar(() = claim($a, 'hour', 2)), 1, 'a limit that is set counts from then on');
	sql(q{SELECT pgq_alter_queue('hour', rate_limit => 2, rate_period => '1 day')});
	is(scalar(() = claim($a, 'hour', 2)), 1, 'another period counts what has started in the one before');
	sql(q{SELECT pgq_drop_queue('hour', force => true)});
}
{
	make('locked', "rate_limit => 1, rate_period => '1 hour'");
	my ($first, $second) = enqueue('locked', 2);
	ask($b, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $first FOR UPDATE");
	my ($held) = claim($a, 'locked', 1);
	is($held->[0], $second, 'one that somebody has locked is not handed out, and does not count');
	ask($b, 'ROLLBACK');
	is(scalar(() = claim($a, 'locked', 1)), 0, '... the other one does');
	sql(q{SELECT pgq_drop_queue('locked', force => true)});
}
{
	make('undone', "rate_limit => 2, rate_period => '1 hour'");
	enqueue('undone', 4);
	ask($a, 'BEGIN');
	is(scalar(() = claim($a, 'undone', 1)), 1, 'a claim');
	ask($a, 'ROLLBACK');
	is(scalar(() = claim($a, 'undone', 5)), 1, '... has started a job also if it is rolled back');
	sql(q{SELECT pgq_drop_queue('undone', force => true)});
}
{
	make('both', "rate_limit => 3, rate_period => '1 hour', concurrency => 1");
	enqueue('both', 5);
	my ($held) = claim($a, 'both', 2);
	for (1 .. 2)
	{
		$held = [ split /\|/, ask($a, "SELECT job_id, lease FROM pgq_ack_claim('{$held->[0]}', '{$held->[1]}', 'both')") ];
		is(scalar @$held, 2, 'with a concurrency of one, one after the other');
	}
	is(ask($a, "SELECT job_id FROM pgq_ack_claim('{$held->[0]}', '{$held->[1]}', 'both')"), '', '... as many as the rate says');
	is(sql(q{SELECT running FROM pgq_ext.queue_entries()}), '0', '... none is left');
	well_ok('with both');
	sql(q{SELECT pgq_drop_queue('both', force => true)});
}

# ---- in no window more, and nobody waits for longer ----

sub worst_window
{
	my ($queue, $limit) = @_;
	return sql(qq{SELECT min(extract(epoch FROM later - claimed_at)) FROM (
		SELECT claimed_at, lead(claimed_at, $limit) OVER (ORDER BY claimed_at) AS later
		FROM pgq_ext.attempt JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue') pairs});
}
{
	# Waiters are woken, without NOTIFY and so without the scheduler.
	make('ticks', "rate_limit => 4, rate_period => '1 s', notify => false");
	my @workers = map { session($node) } 1 .. 3;
	my $work = q{DO $$ BEGIN FOR i IN 1 .. 12 LOOP
		PERFORM pgq_ack(job_id, lease) FROM pgq_claim('ticks', wait => '60 s');
		COMMIT; END LOOP; END $$};
	send_sql($_, $work) for @workers;
	enqueue('ticks', 36);
	reply($_) for @workers;
	is(sql(q{SELECT count(*) FROM pgq_ext.job}), '0', 'all jobs are done');
	cmp_ok(worst_window('ticks', 4), '>', 0.99, '... no five in a second');
	end_session($_) for @workers;
	well_ok('after that');
}
{
	# A client that listens is told when the next one may start.
	make('told', "rate_limit => 1, rate_period => '1 s'");
	my $listener = session($node);
	ask($listener, 'LISTEN pgq_told');
	enqueue('told', 3);
	my $done = 0;
	for my $try (1 .. 600)
	{
		next if ask($listener, 'SELECT pg_sleep(0.1)') !~ /^Asynchronous notification/m && $done > 0;
		$done += sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('told', 5)});
		last if $done == 3;
	}
	is($done, 3, 'who listens is told of each');
	cmp_ok(worst_window('told', 1), '>', 0.99, '... no two in a second');
	end_session($listener);
}

# ---- what is not known ----

my %left = (fast => 2, immediate => 0);
for my $mode ('fast', 'immediate')
{
	make($mode, "rate_limit => 3, rate_period => '1 hour'");
	enqueue($mode, 5);
	is(scalar(() = claim($a, $mode, 1)), 1, 'one is handed out');
	$node->stop($mode);
	$node->start;
	($a, $b, $waiter) = map { session($node) } 1 .. 3;
	$pid = pid_of($waiter);
	is(sql("SELECT count(*) FROM pgq_claim('$mode', 5)"), $left{$mode}, "... $mode stop: " . ($left{$mode} ? 'two are left' : 'how many is not known, so none more for a period'));
	make('new', "rate_limit => 3, rate_period => '1 hour'");
	enqueue('new', 5);
	is(scalar(() = claim($a, 'new', 5)), 3, '... but for a queue that was created since');
	sql(q{SELECT pgq_drop_queue('new', force => true)});
	wait_in_line($mode);
	sql("SELECT pgq_alter_queue('$mode', rate_limit => 0)");
	is(scalar reply($waiter), 'got one|', '... or until the limit is lifted');
}
{
	enqueue('immediate', 2);
	sql(q{SELECT pgq_alter_queue('immediate', rate_limit => 1)});
	is(sql(q{SELECT count(*) FROM pgq_claim('immediate', 5)}), '1', 'a limit that is set once more');
	sql(q{UPDATE pgq_ext.queue SET queue = 'renamed' WHERE queue = 'immediate'});
	is(sql(q{SELECT count(*) FROM pgq_claim('renamed', 5)}), '0', 'a queue with another name keeps what it knows');
	well_ok('with that');
}
end_session($_) for $a, $b, $waiter;
$node->stop;
done_testing();
