# A session that meets a job which a claim is looking at waits until that claim has decided, not until the transaction
# of the claim ends. A deadlock through such a wait is detected.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;
use RotationTest;
use Session;

my $node = pgq_node('main', conf => "deadlock_timeout = '100 ms'\nmax_prepared_transactions = 5\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my ($worker, $worker2, $guard, $b, $c) = map { session($node) } 1 .. 5;
sql(q{SELECT pgq_create_queue('q', lease_time => '1 day')});
sub enqueue { my ($key, $more) = @_; return "SELECT pgq_enqueue('q', '[1]', unique_key => '$key'" . ($more ? ", $more" : '') . ')' }

# A claim that has the job, and has not returned; longer than it is napped for.
sub claim_stopped
{
	ask($guard, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($worker, q{BEGIN; SET LOCAL pgq_ext.stop_point = 'claim-hand-out'});
	send_sql($worker, q{SELECT count(*) FROM pgq_claim('q', 100)});
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 0 AND NOT granted});
	return;
}

sub decide
{
	ask($guard, 'SELECT pg_advisory_unlock(7366513, 0)');
	return reply($worker);
}

# ---- the claim decides, its transaction stays open ----

my $n = 0;
for my $verb (
	[ 'pgq_cancel', sub { "SELECT pgq_cancel($_[0])" }, sub { 'leased' } ],
	[ 'pgq_update', sub { "SELECT pgq_update($_[0], '[2]')" }, sub { 'f' } ],
	[ 'pgq_retry', sub { "SELECT pgq_retry($_[0])" }, sub { 'f' } ],
	[ 'pgq_enqueue', sub { enqueue($_[1]) }, sub { $_[0] } ],
	[ 'pgq_enqueue, replace', sub { enqueue($_[1], q{on_conflict => 'replace'}) }, sub { $_[0] } ],
	[ 'pgq_enqueue, until claimed', sub { enqueue($_[1], q{unique_until => 'claimed'}) }, undef ])
{
	my ($name, $call, $expected) = @$verb;
	my $key = 'k' . $n++;
	my $job = sql(enqueue($key));
	claim_stopped();
	send_sql($b, $call->($job, $key));
	usleep(400_000);
	ok(!is_answered($b), "$name waits for a claim that has not decided");
	is(decide(), 1, '... it hands the job out');
	my $answer = reply($b);
	$expected ? is($answer, $expected->($job), '... and then answers, while the transaction of the claim is open')
	  : cmp_ok($answer, '>', $job, '... and then answers, while the transaction of the claim is open');
	is(sql("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"), 1, '... which it is');
	ask($worker, 'ROLLBACK');
	sql('SELECT pgq_cancel(job_id) FROM pgq_ext.job');
}

# What a session has locked by hand a claim in progress can have looked at before, and hand out at any moment.
{
	my $key = 'k' . $n++;
	my $job = sql(enqueue($key));
	claim_stopped();
	ask($b, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $job FOR KEY SHARE");
	ask($b, q{SET LOCAL pgq_ext.stop_point = 'key-kept'});
	# Behind the claim, before the request.
	send_and_block($node, $c, 'SELECT pg_advisory_lock(7366513, 0)');
	send_and_block($node, $b, enqueue($key, q{unique_until => 'claimed'}));
	is(decide(), 1, 'a claim hands out a job of which a session has locked the row');
	reply($c);
	ask($c, 'SELECT pg_advisory_unlock(7366513, 0)');
	cmp_ok(scalar reply($b), '>', $job, '... which does not take the job for one that waits');
	ask($_, 'ROLLBACK') for $worker, $b;
	sql('SELECT pgq_cancel(job_id) FROM pgq_ext.job');
}

# a claim that fails, or whose session ends
for my $end ('pg_cancel_backend', 'pg_terminate_backend')
{
	my $key = 'k' . $n++;
	my $job = sql(enqueue($key));
	my $pid = ask($worker, 'SELECT pg_backend_pid()');
	claim_stopped();
	send_sql($b, "SELECT pgq_cancel($job)");
	usleep(200_000);
	ok(!is_answered($b), 'a claim that has not decided is waited for');
	sql("SELECT $end($pid)");
	is(scalar reply($b), 'ready', "... until it has failed: $end");
	ask($guard, 'SELECT pg_advisory_unlock(7366513, 0)');
	end_session($worker);
	$worker = session($node);
}

# ---- circles ----

# A claim stands behind a lock of the session that waits for it.
sub claim_behind_lock
{
	my ($owner, $waiter, $queue, $lock) = @_;
	ask($owner, "BEGIN; $lock");
	send_sql($waiter, "BEGIN; SELECT count(*) FROM pgq_claim('$queue')");
	return;
}
my $lock = 'LOCK TABLE pgq_ext.job IN ACCESS EXCLUSIVE MODE';
for my $call ("SELECT pgq_cancel(JOB)", enqueue('KEY'), enqueue('KEY', q{on_conflict => 'replace'}))
{
	my $key = 'k' . $n++;
	# So that the claim has nothing to look up or to read before it takes the job.
	sql("SELECT pgq_create_queue('$key')");
	ask($worker, "SELECT pgq_claim('$key')");
	my $job = sql(enqueue($key) =~ s/'q'/'$key'/r);
	claim_behind_lock($b, $worker, $key, $lock);
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'relation' AND NOT granted});
	ask($b, '\set VERBOSITY sqlstate');
	send_sql($b, $call =~ s/JOB/$job/r =~ s/KEY/$key/r =~ s/'q'/'$key'/r);
	my ($out, $err) = reply($b);
	like($err, qr/40P01/, "a claim that waits for the session which waits for it is a deadlock: $call");
	ask($b, '\set VERBOSITY default');
	ask($b, 'ROLLBACK');
	is(scalar reply($worker), 1, '... and goes on when that session has given up');
	ask($worker, 'ROLLBACK');
	sql('SELECT pgq_cancel(job_id) FROM pgq_ext.job');
}

# Two sessions keep both claims from deciding, and each waits for one of them.
{
	sql(q{SELECT pgq_create_queue('p')});
	my ($one, $two) = map { sql("SELECT pgq_enqueue('$_', '1')") } qw(q p);
	ask($_, 'BEGIN; SELECT pg_advisory_xact_lock_shared(7366513, 0)') for $b, $c;
	for my $pair ([ $worker, 'q' ], [ $worker2, 'p' ])
	{
		my ($session, $queue) = @$pair;
		ask($session, q{BEGIN; SET LOCAL pgq_ext.stop_point = 'claim-hand-out'});
		send_sql($session, "SELECT count(*) FROM pgq_claim('$queue')");
	}
	wait_for($node, q{count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND objid = 0 AND NOT granted});
	ask($_, '\set VERBOSITY sqlstate') for $b, $c;
	send_sql($b, "SELECT pgq_cancel($one)");
	send_sql($c, "SELECT pgq_cancel($two)");
	my $victims = 0;
	for my $session ($b, $c)
	{
		my ($out, $err) = reply($session);
		$victims++ if $err =~ /40P01/;
		ask($session, 'ROLLBACK');
	}
	cmp_ok($victims, '>=', 1, 'circles with two waits for claims are found');
	is(scalar reply($_), 1, '... and both claims go on') for $worker, $worker2;
	ask($_, 'ROLLBACK') for $worker, $worker2;
	is(sql('SELECT * FROM pgq_check()'), '', 'all is well after that');
}

end_session($_) for $worker, $worker2, $guard, $b, $c;
done_testing();
