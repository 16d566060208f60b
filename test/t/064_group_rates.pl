# In no time span of one rate_period are more jobs of a group handed out than group_rate_limit. Other groups go on at
# the same time, and a job that the rate allows is not left waiting.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\npgq_ext.window_size = 4\npgq_ext.timer_size = 4\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub make { my ($queue, $options) = @_; sql("SELECT pgq_create_queue('$queue', lease_time => '1 day', log_attempts => 'all', $options)"); return }
sub drop { my ($queue) = @_; sql("SELECT pgq_drop_queue('$queue', force => true)"); return }
# Ids of new jobs, in order: of those groups.
sub enqueue
{
	my ($queue, @groups) = @_;
	my $list = join(',', map { $_ ne '-' ? "'$_'" : 'NULL' } @groups);
	return split /\n/, sql("SELECT pgq_enqueue('$queue', '1', group_key => g) FROM unnest(ARRAY[$list]::text[]) WITH ORDINALITY AS u(g, i) ORDER BY i");
}
my ($one, $two, $waiter, $pid);
sub connect_all { ($one, $two, $waiter) = map { session($node) } 1 .. 3; $pid = pid_of($waiter); return }
sub claim { my ($s, $queue, $n) = @_; return map { [ split /\|/ ] } split /\n/, ask($s, "SELECT job_id, lease FROM pgq_claim('$queue', $n)") }
sub ids { return join ' ', map { $_->[0] } @_ }
sub ack { my ($s, @held) = @_; ask($s, "SELECT pgq_ack($_->[0], $_->[1])") for @held; return }
sub well_ok { my ($what) = @_; is(sql('SELECT * FROM pgq_check()'), '', "... all is well $what"); return }
sub wait_in_line
{
	my ($queue) = @_;
	send_sql($waiter, qq{SELECT 'got ' || job_id, pgq_ack(job_id, lease) FROM pgq_claim('$queue', wait => '60 s')});
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	return;
}
connect_all();

# ---- what counts ----

{
	make('q', "group_rate_limit => 2, rate_period => '1 hour'");
	my @ids = enqueue('q', qw(x x x x y - - -));
	my @held = claim($one, 'q', 10);
	is(ids(@held), "@ids[0, 1, 4 .. 7]", 'of each group two, and what has none');
	ack($one, $held[0]);
	ask($one, "SELECT pgq_release($held[1][0], $held[1][1])");
	is(ids(claim($two, 'q', 10)), '', '... no more, though one has ended and one is back');
	my $why = q{FROM pgq_ext.job_status WHERE state = 'ready'};
	like(sql("SELECT DISTINCT waits_for $why"), qr/^the rate of its group \(group_rate_limit\), until \d[^\n]*$/, '... and the view says why');
	is(sql("SELECT bool_and(split_part(waits_for, 'until ', 2)::timestamptz - clock_timestamp() BETWEEN '55 min' AND '65 min') $why"), 't', '... and until when');
	is(ids(claim($two, 'q', 10)), '', 'a claim looks for them in vain');
	my @more = enqueue('q', 'y', 'y', 'z');
	is(ids(claim($two, 'q', 10)), "@more[0, 2]", 'others have not had theirs yet');
	well_ok('meanwhile');
	wait_in_line('q');
	sql(q{SELECT pgq_alter_queue('q', group_rate_limit => 3)});
	is(scalar reply($waiter), "got $ids[1]|", 'a higher limit lets one more start, the first one');
	is(ids(claim($two, 'q', 10)), $more[1], '... of each group');
	sql(q{SELECT pgq_alter_queue('q', group_rate_limit => 2)});
	my ($new) = enqueue('q', 'z', 'z');
	is(ids(claim($two, 'q', 10)), $new, 'a lower limit counts what has started before');
	wait_in_line('q');
	sql(q{SELECT pgq_alter_queue('q', group_rate_limit => 0)});
	is(scalar reply($waiter), "got $ids[2]|", 'no limit lets it go');
	is(scalar(() = claim($two, 'q', 10)), 2, '... and the others');
	sql(q{SELECT pgq_alter_queue('q', group_rate_limit => 1)});
	@ids = enqueue('q', qw(x x y));
	is(ids(claim($one, 'q', 10)), "@ids[0, 2]", 'a limit that is set counts from then on');
	sql(q{SELECT pgq_alter_queue('q', group_rate_limit => 2, rate_period => '1 day')});
	is(ids(claim($one, 'q', 10)), $ids[1], 'another period counts what has started in the one before');
	enqueue('q', qw(x));
	is(ids(claim($one, 'q', 10)), '', '... to the last');
	well_ok('then');
	drop('q');
}
{
	make('locked', "group_rate_limit => 1, rate_period => '1 hour'");
	my ($first, $second) = enqueue('locked', 'x', 'x');
	ask($two, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $first FOR UPDATE");
	is(ids(claim($one, 'locked', 1)), $second, 'one that somebody has locked is not handed out, and does not count');
	ask($two, 'ROLLBACK');
	is(ids(claim($one, 'locked', 1)), '', '... the other one does');
	well_ok('with that');
	drop('locked');
}
{
	make('undone', "group_rate_limit => 2, rate_period => '1 hour'");
	my @ids = enqueue('undone', ('x') x 4);
	ask($one, 'BEGIN');
	is(ids(claim($one, 'undone', 1)), $ids[0], 'a claim');
	ask($one, 'ROLLBACK');
	is(ids(claim($one, 'undone', 5)), $ids[1], '... has started a job also if it is rolled back');
	drop('undone');
}
{
	make('both', "group_rate_limit => 2, rate_period => '1 hour', concurrency => 1, rate_limit => 4");
	my @ids = enqueue('both', qw(x x x y y y));
	my ($held) = claim($one, 'both', 2);
	my @got = $held->[0];
	for (1 .. 3)
	{
		$held = [ split /\|/, ask($one, "SELECT job_id, lease FROM pgq_ack_claim('{$held->[0]}', '{$held->[1]}', 'both')") ];
		push @got, $held->[0];
	}
	is("@got", "@ids[0, 1, 3, 4]", 'with a concurrency of one, one after the other, of each group as many as may be');
	is(ask($one, "SELECT job_id FROM pgq_ack_claim('{$held->[0]}', '{$held->[1]}', 'both')"), '', '... no more');
	well_ok('with both');
	drop('both');
}
{
	make('fifo', "group_rate_limit => 2, rate_period => '1 hour', fifo => true, backoff_base => '0'");
	my @ids = enqueue('fifo', qw(x x x y));
	my @held = claim($one, 'fifo', 10);
	is(ids(@held), "@ids[0, 3]", 'with fifo: one of each group');
	ask($one, "SELECT pgq_fail($held[0][0], $held[0][1])");
	@held = claim($one, 'fifo', 10);
	is(ids(@held), $ids[0], '... its retry is the second start');
	ack($one, @held);
	is(ids(claim($one, 'fifo', 10)), '', '... so its group waits');
	wait_in_line('fifo');
	sql(q{SELECT pgq_alter_queue('fifo', group_rate_limit => 3)});
	is(scalar reply($waiter), "got $ids[1]|", '... for a third');
	well_ok('with fifo');
	drop('fifo');
}
{
	# Without a limit, claims take some; then the limit comes.
	make('open', "group_concurrency => 3, rate_period => '1 hour'");
	my @ids = enqueue('open', ('x') x 9);
	my @held = claim($one, 'open', 10);
	is(ids(@held), "@ids[0 .. 2]", 'three at a time');
	sql(q{SELECT pgq_alter_queue('open', group_rate_limit => 2)});
	ack($one, @held[ 0, 1 ]);
	is(ids(claim($one, 'open', 10)), "@ids[3, 4]", 'what started before the limit was set does not count for it, but is in work');
	ack($one, $held[2]);
	is(ids(claim($one, 'open', 10)), '', '... two have started since');
	well_ok('with group_concurrency');
	drop('open');
}

# ---- more groups than there are entries for ----

{
	my $small = pgq_node('small', conf => "pgq_ext.max_leases = 16\npgq_ext.window_size = 2\n");
	my $ask = session($small);
	ask($ask, q{SELECT pgq_create_queue('q', group_rate_limit => 1, rate_period => '1 s', log_attempts => 'all', keep_finished => '1 day')});
	ask($ask, q{SELECT count(pgq_enqueue('q', '1', group_key => 'g' || i % 60)) FROM generate_series(1, 180) i});
	my $done = 0;
	for (1 .. 2000)
	{
		my $n = ask($ask, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q', 4, wait => '1 s')});
		$done += $n;
		last if $done >= 180;
	}
	is($done, 180, 'many groups, few entries: all jobs are done');
	is(ask($ask, q{SELECT count(*) FROM (SELECT claimed_at - lag(claimed_at) OVER (PARTITION BY group_key ORDER BY claimed_at) AS gap FROM pgq_ext.attempt JOIN pgq_ext.finished_job USING (job_id)) g WHERE gap < '0.99 s'}),
		'0', '... of no group two in a second');
	is(ask($ask, 'SELECT * FROM pgq_check()'), '', '... and all is well');
	end_session($ask);
	$small->stop;
}

# ---- in no window more, and nobody waits for longer ----

sub worst_window
{
	my ($queue, $limit) = @_;
	return sql(qq{SELECT min(extract(epoch FROM later - claimed_at)) FROM (
		SELECT claimed_at, lead(claimed_at, $limit) OVER (PARTITION BY group_key ORDER BY claimed_at) AS later
		FROM pgq_ext.attempt a JOIN pgq_ext.finished_job f USING (job_id) JOIN pgq_ext.queue q ON q.queue_id = f.queue_id WHERE queue = '$queue') pairs});
}
{
	# Waiters are woken, without NOTIFY and so without the scheduler.
	make('ticks', "keep_finished => '1 day', group_rate_limit => 2, rate_period => '1 s', notify => false");
	my @workers = map { session($node) } 1 .. 3;
	my $work = q{DO $$ BEGIN FOR i IN 1 .. 14 LOOP
		PERFORM pgq_ack(job_id, lease) FROM pgq_claim('ticks', wait => '60 s');
		COMMIT; END LOOP; END $$};
	send_sql($_, $work) for @workers;
	enqueue('ticks', map { ('x', 'y', 'z') } 1 .. 14);
	reply($_) for @workers;
	is(sql(q{SELECT count(*) FROM pgq_ext.job}), '0', 'all jobs are done');
	cmp_ok(worst_window('ticks', 2), '>', 0.99, '... no three of a group in a second');
	end_session($_) for @workers;
	well_ok('after that');
	drop('ticks');
}
{
	# A client that listens is told when the next one may start.
	make('told', "keep_finished => '1 day', group_rate_limit => 1, rate_period => '1 s'");
	my $listener = session($node);
	ask($listener, 'LISTEN pgq_told');
	enqueue('told', ('x') x 3);
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
	drop('told');
}

# ---- what is not known ----

my %left = (fast => 'xxy', immediate => '');
for my $mode ('fast', 'immediate')
{
	make($mode, "group_rate_limit => 3, rate_period => '1 hour'");
	my @ids = enqueue($mode, 'x', '-', 'x', 'x', 'x', 'y', '-');
	is(ids(claim($one, $mode, 2)), "@ids[0, 1]", 'two are handed out');
	$node->stop($mode);
	$node->start;
	connect_all();
	is(sql("SELECT COALESCE(string_agg(group_key, '' ORDER BY group_key), '') FROM pgq_claim('$mode', 9)"),
		$left{$mode}, "... $mode stop: " . ($left{$mode} ? 'of each group what is left of it' : 'how many of a group is not known, so none more for a period'));
	like(sql(qq{SELECT DISTINCT waits_for FROM pgq_ext.job_status WHERE queue = '$mode' AND state = 'ready'}), qr/^the rate of its group \(group_rate_limit\), until \d[^\n]*$/, '... and the view says so');
	make('new', "group_rate_limit => 3, rate_period => '1 hour'");
	enqueue('new', ('x') x 5);
	is(scalar(() = claim($one, 'new', 5)), 3, '... but for a queue that was created since');
	drop('new');
	wait_in_line($mode);
	sql("SELECT pgq_alter_queue('$mode', group_rate_limit => 0)");
	like(scalar reply($waiter), qr/^got \d+\|$/, '... or until the limit is lifted');
	well_ok('with that');
	drop($mode);
}
end_session($_) for $one, $two, $waiter;
$node->stop;
done_testing();
