# The jobs of a queue in work are never more than its concurrency, and a free slot is used at once.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q{SELECT pgq_create_queue('q', concurrency => 2, lease_time => '1 day', backoff_base => '1 h')});
my ($a, $b, $waiter) = map { session($node) } 1 .. 3;
my $pid = pid_of($waiter);
sub enqueue { my ($n) = @_; return split /\n/, sql("SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, $n) i") }
# Pairs of id and lease, of what that session claims.
sub claim { my ($s, $n) = @_; return map { [ split /\|/ ] } split /\n/, ask($s, "SELECT job_id, lease FROM pgq_claim('q', $n)") }
sub running { return sql(q{SELECT running FROM pgq_ext.queue_entries()}) }
sub wait_in_line
{
	send_sql($waiter, q{SELECT 'got one', pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s')});
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	return;
}
sub well_ok { my ($what) = @_; is(sql('SELECT * FROM pgq_check()'), '', "... all is well $what"); return }
sub empty_queue
{
	sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job});
	wait_for($node, q{sum(running) = 0 FROM pgq_ext.queue_entries()});
	well_ok('at the end');
	return;
}

# ---- the limit ----

{
	enqueue(5);
	my @held = claim($a, 10);
	is(scalar @held, 2, 'a claim of many gets as many as may run');
	is(scalar(() = claim($b, 1)), 0, '... another one nothing');
	is(sql(q{SELECT DISTINCT waits_for FROM pgq_ext.job_status WHERE state = 'ready'}),
		'one of the jobs in work, of which there are as many as may be (concurrency)', '... and the view says why');
	ask($a, "SELECT pgq_ack($held[0][0], $held[0][1])");
	is(scalar(() = claim($b, 10)), 1, '... but one when one has ended');
	is(running(), '2', '... two run');
	well_ok('meanwhile');
	empty_queue();
}

# ---- every end wakes who waits ----

my %end = (
	'ack'              => [ sub { "SELECT pgq_ack($_[0], $_[1])" } ],
	'fail'             => [ sub { "SELECT pgq_fail($_[0], $_[1])" } ],
	'dead letter'      => [ sub { "SELECT pgq_fail($_[0], $_[1], retry => false)" } ],
	'release'          => [ sub { "SELECT pgq_release($_[0], $_[1], '1 h')" } ],
	'cancel'           => [ sub { "SELECT pgq_cancel($_[0])" } ],
	'a higher limit'   => [ sub { q{SELECT pgq_alter_queue('q', concurrency => 3)} } ],
	'no limit'         => [ sub { q{SELECT pgq_alter_queue('q', concurrency => 0)} } ],
	'a prepared ack'   => [ sub { 'BEGIN', "SELECT pgq_ack($_[0], $_[1])", q{PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'} } ]);
for my $how (sort keys %end)
{
	enqueue(3);
	my @held = claim($a, 2);
	wait_in_line();
	ask($b, $_) for $end{$how}[0]->(@{ $held[0] });
	is(scalar reply($waiter), 'got one|', "$how lets the next one in");
	sql(q{SELECT pgq_alter_queue('q', concurrency => 2)});
	empty_queue();
}
{
	enqueue(3);
	ask($a, 'BEGIN');
	is(scalar(() = claim($a, 2)), 2, 'a claim that is not committed');
	wait_in_line();
	ask($a, 'ROLLBACK');
	is(scalar reply($waiter), 'got one|', '... lets the next one in when it is rolled back');
	empty_queue();
}

{
	enqueue(3);
	is(ask($a, q{BEGIN; SELECT count(*) FROM pgq_claim('q', 2, lease_time => '1 s')}), '2', 'two leases that are short');
	wait_in_line();
	usleep(1_100_000);
	ask($a, 'COMMIT');
	is(scalar reply($waiter), 'got one|', '... let the next one in by time');
	empty_queue();
}

# ---- lowered ----

{
	sql(q{SELECT pgq_alter_queue('q', concurrency => 4)});
	enqueue(6);
	my @held = claim($a, 4);
	sql(q{SELECT pgq_alter_queue('q', concurrency => 2)});
	is(running(), '4', 'who runs when the limit is lowered goes on');
	for my $i (0 .. 2)
	{
		is(scalar(() = claim($b, 1)), 0, "... nobody else begins while too many run");
		ask($a, "SELECT pgq_ack($held[$i][0], $held[$i][1])");
	}
	is(scalar(() = claim($b, 5)), 1, '... until there are fewer');
	empty_queue();
}

# ---- a limit that is lowered ----

{
	enqueue(6);
	my @held = claim($a, 2);
	sql(q{SELECT pgq_alter_queue('q', concurrency => 1)});
	my $next = sub { my ($held) = @_; return scalar(() = split /\n/, ask($a, "SELECT job_id FROM pgq_ack_claim('{$held->[0]}', '{$held->[1]}', 'q')")) };
	is($next->($held[0]), 0, 'more run than may by now: who acknowledges one gets no other in its place');
	is($next->($held[1]), 1, '... before there are no more than may');
	sql(q{SELECT pgq_alter_queue('q', concurrency => 2)});
	empty_queue();
}

# ---- who cancels lends nothing ----

{
	enqueue(5);
	my ($first) = claim($a, 2);
	ask($b, 'BEGIN');
	is(scalar ask($b, "SELECT pgq_cancel($first->[0])"), 'leased', 'cancelled, and not committed: its worker goes on');
	is(scalar(() = claim($b, 1)), 0, '... and no other job is handed out in its place');
	ask($b, 'COMMIT');
	is(scalar(() = claim($b, 2)), 1, '... before that is committed');
	empty_queue();
}

# ---- pgq_ack_claim with all slots in use ----

sql(q{SELECT pgq_alter_queue('q', concurrency => 1)});
sub ack_claim { my ($s, $held) = @_; return [ split /\|/, ask($s, "SELECT job_id, lease FROM pgq_ack_claim('{$held->[0]}', '{$held->[1]}', 'q')") ] }
{
	enqueue(4);
	my ($first) = claim($a, 1);
	my $second = ack_claim($a, $first);
	is(scalar @$second, 2, 'one that acknowledges and claims gets the next one');
	is(running(), '1', '... one runs');
	ask($a, 'BEGIN');
	my $third = ack_claim($a, $second);
	my $fourth = ack_claim($a, $third);
	is(scalar @$fourth, 2, '... also twice in a transaction');
	is(scalar(() = claim($b, 1)), 0, '... beside which nobody gets anything');
	ask($a, 'ROLLBACK');
	is(scalar(() = claim($b, 1)), 0, '... nor when it is rolled back');
	is(running(), '1', '... since the job that it had is in work');
	is(ask($a, "SELECT 'done', pgq_ack($second->[0], $second->[1])"), 'done|', '... as it was');
	is(running(), '0', '... and then none is');
	well_ok('after it');
	empty_queue();
}
for my $end ('COMMIT', 'ROLLBACK')
{
	enqueue(3);
	my ($first) = claim($a, 1);
	ask($a, 'BEGIN');
	my $second = ack_claim($a, $first);
	ask($a, q{PREPARE TRANSACTION 'p'});
	is(scalar(() = claim($b, 1)), 0, 'one that is prepared keeps its slot');
	sql("$end PREPARED 'p'");
	is(scalar(() = claim($b, 1)), 0, "... after $end PREPARED, too");
	my $current = $end eq 'COMMIT' ? $second : $first;
	is(ask($b, "SELECT 'done', pgq_ack($current->[0], $current->[1])"), 'done|', '... for the one that is in work then');
	is(scalar(() = claim($b, 1)), 1, '... and the next one gets it');
	empty_queue();
}
{
	enqueue(4);
	my ($first) = claim($a, 1);
	ask($a, 'BEGIN');
	my $third = ack_claim($a, ack_claim($a, $first));
	is(scalar @$third, 2, 'one that is prepared may have lent it twice');
	ask($a, q{PREPARE TRANSACTION 'p'});
	sql(q{ROLLBACK PREPARED 'p'});
	is(scalar(() = claim($b, 1)), 0, '... rolled back the first one has it again');
	is(running(), '1', '... one runs');
	is(ask($b, "SELECT 'done', pgq_ack($first->[0], $first->[1])"), 'done|', '... which is done');
	empty_queue();
}
{
	enqueue(3);
	my ($first) = claim($a, 1);
	ask($a, 'BEGIN; SAVEPOINT s');
	my $second = ack_claim($a, $first);
	ask($a, 'ROLLBACK TO s');
	is(scalar(() = claim($b, 1)), 0, 'rolled back to a savepoint the slot is where it was');
	my $third = ack_claim($a, $first);
	is(scalar @$third, 2, '... and can be lent again');
	ask($a, 'COMMIT');
	is(running(), '1', '... one runs');
	empty_queue();
}

# ---- a restart that saves leases ----

{
	enqueue(2);
	my ($held) = claim($a, 1);
	end_session($_) for $a, $b, $waiter;
	$node->restart;
	($a, $b) = map { session($node) } 1 .. 2;
	is(scalar(() = claim($b, 1)), 0, 'a lease that was saved runs after the restart');
	is(ask($a, "SELECT 'done', pgq_ack($held->[0], $held->[1])"), 'done|', '... is ended');
	is(scalar(() = claim($b, 1)), 1, '... and lets the next one in');
	empty_queue();
}
end_session($_) for $a, $b;
done_testing();
