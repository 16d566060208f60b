# Claims that wait are woken in time by every event that makes a job ready, and a waiting claim that ends takes no job
# with it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
create_queue($node, 'q');
wait_for_scheduler($node);
create_queue($node, 'quiet', 'notify => false');

my ($a, $b, $other) = map { session($node) } 1 .. 3;
my $pid_a = pid_of($a);

sub waiting_claims_are
{
	my ($n, $queue) = @_;
	$queue //= 'q';
	wait_for($node, "waiting_claims = $n FROM pgq_ext.queue_status WHERE queue = '$queue'");
	return;
}

sub enqueue
{
	my ($payload, $arguments) = @_;
	$arguments //= '';
	return $node->safe_psql('postgres', "SELECT pgq_enqueue('q', '$payload' $arguments)");
}

# Finish what the parts of the test have claimed.
sub finish
{
	$node->safe_psql('postgres', 'SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pgq_ext.job}), '0', '... and no job is left');
	return;
}

my $claim = q{SELECT payload FROM pgq_claim('q', wait => '60 s')};

# ---- on time ----

# Milliseconds from run_at to the hand-out: never before, and within 50 when the machine is idle. The best of
# several tries, for it may not be.
sub on_time
{
	my ($what, $queue, $prepare) = @_;
	my ($best, $early) = (1e9, 0);
	for my $try (1 .. 40)
	{
		$prepare->($queue, $try);
		my ($late, $id, $lease) = split /\|/, ask($a, "SELECT extract(epoch FROM clock_timestamp() - run_at) * 1000, job_id, lease
			FROM pgq_claim('$queue', wait => '60 s')");
		ask($a, "SELECT pgq_ack($id, $lease)");
		$early = 1 if $late < 0;
		$best = $late if $late < $best;
		last if $best < 50 && $try >= 3;
	}
	cmp_ok($best, '<', 50, "$what ($queue): within 50 ms");
	is($early, 0, "$what ($queue): never before its time");
	return;
}

for my $queue ('q', 'quiet')
{
	on_time('delay', $queue, sub { ask($other, "SELECT pgq_enqueue('$queue', '1', delay => '250 ms')") });
	on_time('run_at', $queue, sub { ask($other, "SELECT pgq_enqueue('$queue', '1', run_at => clock_timestamp() + '250 ms')") });
	on_time('retry_in', $queue, sub {
		ask($other, "SELECT pgq_enqueue('$queue', '1')");
		ask($other, "SELECT pgq_fail(job_id, lease, 'once more', retry_in => '250 ms') FROM pgq_claim('$queue')") });
	on_time('backoff', $queue, sub {
		ask($other, "SELECT pgq_enqueue('$queue', '1')");
		ask($other, "SELECT pgq_fail(job_id, lease) FROM pgq_claim('$queue')") });
	on_time('backoff of a lost attempt', $queue, sub {
		ask($other, "SELECT pgq_enqueue('$queue', '1')");
		ask($other, "BEGIN; SELECT job_id FROM pgq_claim('$queue')");
		ask($other, 'ROLLBACK') });

	# A nearer one arrives while the claim sleeps until a later one.
	on_time('a nearer time comes while it waits', $queue, sub {
		my ($queue, $try) = @_;
		ask($other, "SELECT pgq_enqueue('$queue', '\"later\"', delay => '1 hour')") if $try == 1;
		send_sql($b, "SELECT pg_sleep(0.3); SELECT pgq_enqueue('$queue', '1', delay => '250 ms')") });
	reply($b);
	$node->safe_psql('postgres', "SELECT pgq_purge_queue('$queue')");
}

# ---- woken ----

# By a commit, and not before it.
send_sql($a, $claim);
waiting_claims_are(1);
ask($other, q{BEGIN; SELECT pgq_enqueue('q', '"by commit"')});
ask($b, q{BEGIN; SELECT pgq_enqueue('q', '"never"')});
ask($b, 'ROLLBACK');
is($node->safe_psql('postgres', q{SELECT waiting_claims FROM pgq_ext.queue_status WHERE queue = 'q'}), '1', 'not woken before the commit');
my $since = ask($other, 'SELECT clock_timestamp()');
ask($other, 'COMMIT');
is(reply($a), '"by commit"', 'woken by a commit');
ok(ask($a, "SELECT clock_timestamp() < '$since'::timestamptz + '40 s'"), '... long before its wait would have ended');
finish();

# By each door through which a job comes.
my %door = (
	'pgq_enqueue_many' => sub { ask($other, q{SELECT pgq_enqueue_many('q', '[{"payload": "x"}]')}) },
	'a released savepoint' => sub { ask($other, q{BEGIN; SAVEPOINT s; SELECT pgq_enqueue('q', '"x"'); RELEASE s; COMMIT}) },
	'a claim that is cancelled' => sub {
		ask($b, 'SELECT pg_advisory_lock(7366513, 0)');
		ask($other, q{SET pgq_ext.stop_point = 'claim-verify'; SET statement_timeout = '500 ms'});
		$node->safe_psql('postgres', q{SELECT pgq_enqueue('quiet', '"x"')});
		ask($other, q{SELECT * FROM pgq_claim('quiet')});
		ask($other, q{RESET pgq_ext.stop_point; RESET statement_timeout});
		ask($b, 'SELECT pg_advisory_unlock(7366513, 0)') },
	'a purge that is rolled back' => sub {
		ask($other, q{BEGIN; SELECT pgq_purge_queue('q')});
		$node->safe_psql('postgres', q{SELECT pgq_enqueue('q', '"x"')});
		ask($other, 'ROLLBACK') });
for my $door (sort keys %door)
{
	# Waiting on two queues: whichever has it.
	send_sql($a, q{SELECT payload FROM pgq_claim_any('{quiet,q}', wait => '60 s')});
	waiting_claims_are(1);
	waiting_claims_are(1, 'quiet');
	$door{$door}->();
	is(reply($a), '"x"', "woken by $door");
	finish();
}
is($node->safe_psql('postgres', q{SELECT sum(waiting_claims) FROM pgq_ext.queue_status}), '0', 'nobody is left in a line');

# Two wait, one job: the other goes on waiting.
send_sql($_, $claim) for $a, $b;
waiting_claims_are(2);
enqueue('1');
waiting_claims_are(1);
enqueue('2');
is(join(' ', sort map { scalar reply($_) } $a, $b), '1 2', 'two waiters, one job: one gets it, the other the next');
finish();

# Many jobs in one commit wake as many as there are.
send_sql($_, $claim) for $a, $b, $other;
waiting_claims_are(3);
$node->safe_psql('postgres', q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 3) i});
is(join(' ', sort map { scalar reply($_) } $a, $b, $other), '1 2 3', 'three waiters, three jobs in one commit');
finish();

# ---- leaving without a job ----

# Whoever leaves after it was woken passes the job on. The backend is stopped while the job arrives, and told to go
# before it can look.
for my $function ('pg_cancel_backend', 'pg_terminate_backend')
{
	my $leaver = session($node);
	my $pid    = pid_of($leaver);
	send_sql($leaver, $claim);
	waiting_claims_are(1);
	send_sql($b, $claim);
	waiting_claims_are(2);
	kill 'STOP', $pid;
	enqueue('"passed on"');
	$node->safe_psql('postgres', "SELECT $function($pid)");
	kill 'CONT', $pid;
	is(reply($leaver), '', "$function: the woken claim leaves without a job");
	is(reply($b), '"passed on"', '... which goes to the next in line');
	is($node->safe_psql('postgres', 'SELECT attempt FROM pgq_ext.lease'), '1', '... as a first attempt');
	finish();
	end_session($leaver);
}

# The same where the woken one has taken the lease already.
ask($other, 'SELECT pg_advisory_lock(7366513, 0)');
ask($a, q{SET pgq_ext.stop_point = 'claim-verify'});
send_sql($a, $claim);
waiting_claims_are(1);
send_sql($b, $claim);
waiting_claims_are(2);
enqueue('"passed on"');
wait_for($node, "count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = $pid_a AND NOT granted");
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid_a)");
is(reply($a), '', 'cancelled with the job in its hand: nothing is handed out');
is(reply($b), '"passed on"', '... the next in line gets it');
ask($other, 'SELECT pg_advisory_unlock(7366513, 0)');
ask($a, 'RESET pgq_ext.stop_point');
finish();

# A waiter whose client is gone takes nothing, whatever wakes it: a commit, or a job that becomes due.
for my $arguments ('', ", delay => '300 ms'")
{
	my $ghost = session($node);
	send_sql($ghost, $claim);
	waiting_claims_are(1);
	kill_client($ghost);
	send_sql($b, $claim);
	waiting_claims_are(2);
	enqueue('"for the living"', $arguments);
	is(reply($b), '"for the living"', "a client that is gone takes nothing$arguments");
	is($node->safe_psql('postgres', 'SELECT attempt FROM pgq_ext.lease'), '1', '... and costs no attempt');
	waiting_claims_are(0);
	finish();

	# Nobody else waits: the job is there for who comes next.
	$ghost = session($node);
	send_sql($ghost, $claim);
	waiting_claims_are(1);
	kill_client($ghost);
	enqueue('"for the living"', $arguments);
	is($node->safe_psql('postgres', q{SELECT payload, attempt FROM pgq_claim('q', wait => '60 s')}), '"for the living"|1',
		"a client that is gone, nobody else in line$arguments");
	finish();
}

# ---- the end of a wait ----

my $elapsed = q{
	SELECT clock_timestamp() AS start \gset
	SELECT count(*) FROM pgq_claim('q', wait => '%s');
	SELECT clock_timestamp() - :'start'::timestamptz >= '%s'};
is(ask($a, sprintf $elapsed, '1 s', '1 s'), "0\nt", 'a wait ends empty, and not before its time');
is(ask($a, sprintf $elapsed, '0', '0'), "0\nt", 'no wait');

# 3 s are enough to start the statement, and less than the wait. Once in several tries: the statement may not get the CPU for its last moment.
my ($out, $err);
if ($node->pg_version >= 17)
{
	for (1 .. 5)
	{
		my $c = session($node);
		($out, $err) = ask($c, "SET transaction_timeout = '3 s';" . sprintf $elapsed, '60 s', '2 s');
		end_session($c);
		last if $err eq '';
	}
	is("$out $err", "0\nt ", 'a wait ends empty before transaction_timeout');
}
for my $claim ("pgq_claim('q'", "pgq_claim_any('{quiet,q}'")
{
	(my $sql = sprintf $elapsed, '60 s', '2 s') =~ s/pgq_claim\('q'/$claim/;
	for (1 .. 5)
	{
		($out, $err) = ask($a, "SET statement_timeout = '3 s';$sql");
		last if $err eq '';
	}
	is("$out $err", "0\nt ", "$claim: a wait ends empty before statement_timeout");
	is(ask($a, q{SELECT 1}), '1', '... which does not strike later either');
	ask($a, 'RESET statement_timeout');
}

for my $drop (q{SELECT pgq_drop_queue('gone')}, q{BEGIN; SELECT pgq_drop_queue('gone', force => true); COMMIT})
{
	create_queue($node, 'gone');
	ask($a, '\set VERBOSITY verbose');
	send_sql($a, q{SELECT * FROM pgq_claim_any('{q,gone}', wait => '60 s')});
	waiting_claims_are(1, 'gone');
	$node->safe_psql('postgres', $drop);
	(undef, $err) = reply($a);
	like($err, qr/ERROR:  42704: queue "gone" was dropped/, 'a waiting claim is told that the queue was dropped');
}
is($node->safe_psql('postgres', q{SELECT sum(waiting_claims) FROM pgq_ext.queue_status}), '0', 'nobody is left in a line');

# A wait holds no lock that DDL would wait for.
send_sql($a, $claim);
waiting_claims_are(1);
$node->safe_psql('postgres', q{SET lock_timeout = '60 s'; LOCK TABLE pgq_ext.queue, pgq_ext.job IN ACCESS EXCLUSIVE MODE}
	=~ s/LOCK/BEGIN; LOCK/r . '; COMMIT');
pass('a waiting claim holds no lock on the tables');
enqueue('1');
is(reply($a), '1', '... and gets its job afterwards');

# Who is woken for two queues and takes from one passes the other wake-up on.
create_queue($node, $_) for 'one', 'two';
my $first = session($node);
my $pid_first = pid_of($first);
send_sql($first, q{SELECT payload FROM pgq_claim('two', wait => '60 s')});
waiting_claims_are(1, 'two');
send_sql($b, q{SELECT payload, clock_timestamp() - enqueued_at < '50 s' FROM pgq_claim('two', wait => '60 s')});
waiting_claims_are(2, 'two');
send_sql($a, q{SELECT payload FROM pgq_claim_any(ARRAY['one', 'two'], wait => '60 s')});
waiting_claims_are(3, 'two');
# The first in line watched the queue's timers; now b does, and goes to the end of the line, behind a.
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid_first)");
waiting_claims_are(2, 'two');
$node->safe_psql('postgres', q{SELECT pgq_enqueue('one', '1'), pgq_enqueue('two', '2')});
is(reply($a), '1', 'woken for jobs of two queues: takes one');
is(reply($b), '2|t', '... and somebody else gets the other one at once');

end_session($_) for $a, $b, $other, $first;
$node->stop;
done_testing();
