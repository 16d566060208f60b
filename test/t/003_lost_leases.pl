# The ways in which a lease is lost, what each of them costs the job, and that a stale lease cannot change anything.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
create_queue($node, 'first');
wait_for_scheduler($node);
$node->safe_psql('postgres', 'CREATE TABLE business (what text)');

# Leases of 7 days: whatever comes back has not waited for the lease.
my $queues = 0;

sub new_queue
{
	my ($options) = @_;
	my $queue = 'q' . ++$queues;
	$options //= '';
	$node->safe_psql('postgres', "SELECT pgq_create_queue('$queue', lease_time => '7 days',
		backoff_base => '1500 ms', backoff_jitter => 0 $options)");
	return $queue;
}

sub enqueue
{
	my ($queue, $arguments) = @_;
	$arguments //= '';
	return $node->safe_psql('postgres', "SELECT pgq_enqueue('$queue', '{}' $arguments)");
}

sub now { return $node->safe_psql('postgres', 'SELECT clock_timestamp()') }

# ---- lost with its transaction ----

# The one job of the queue was lost after the moment $since: counted, and back after the backoff.
sub counted_ok
{
	my ($queue, $since, $what, $error) = @_;
	is($node->safe_psql('postgres', qq{
		SELECT attempt || '|' || (run_at >= '$since'::timestamptz + '1500 ms') || '|' || (clock_timestamp() >= run_at)
			|| '|' || last_error
		FROM pgq_claim('$queue', wait => '60 s')}),
		"2|true|true|$error", "$what: back after the backoff, the attempt counted");
	return;
}

my $rolled_back = 'the claiming transaction was rolled back or its session ended';
my %ending = (
	'ROLLBACK'               => sub { ask($_[0], 'ROLLBACK') },
	'an error, then COMMIT'  => sub { ask($_[0], 'SELECT 1/0'); ask($_[0], 'COMMIT') },
	'session terminated'     => sub { $node->safe_psql('postgres', "SELECT pg_terminate_backend($_[1], 60000)") },
	'client gone'            => sub { kill_client($_[0]) },
	'client disconnects'     => sub { end_session($_[0]) });
for my $how (sort keys %ending)
{
	my $queue   = new_queue();
	my $session = session($node);
	my $pid     = pid_of($session);
	my $id      = enqueue($queue);
	is(ask($session, "BEGIN; SELECT job_id, attempt FROM pgq_claim('$queue')"), "$id|1", "$how: claimed");
	my $since = now();
	$ending{$how}->($session, $pid);
	counted_ok($queue, $since, $how, $rolled_back);
	end_session($session);
}

my $session = session($node);
{
	my $queue = new_queue();
	enqueue($queue);
	my $since = now();
	ask($session, "BEGIN; SAVEPOINT s; SELECT job_id FROM pgq_claim('$queue')");
	ask($session, 'ROLLBACK TO s');
	counted_ok($queue, $since, 'ROLLBACK TO a savepoint, transaction still open', $rolled_back);
	ask($session, 'COMMIT');

	# The claim has returned when the statement around it fails: a poison job may not spin that way either (protocol: returned-is-counted).
	$queue = new_queue();
	enqueue($queue);
	$since = now();
	my (undef, $error) = ask($session, "SELECT 1 / (attempt - 1) FROM pgq_claim('$queue')");
	like($error, qr/division by zero/, 'a statement that fails after its claim');
	counted_ok($queue, $since, 'a statement that fails after its claim', $rolled_back);
}

# ---- never handed out ----

# The session stops within pgq_claim, holding the lease, and is killed there.
sub uncounted_ok
{
	my ($where, $function, $what) = @_;
	my $queue = new_queue();
	my $gate  = session($node);
	my $victim = session($node);
	my $pid   = pid_of($victim);
	my $id    = enqueue($queue);
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($victim, "SET pgq_ext.stop_point = '$where'");
	send_sql($victim, "SELECT job_id FROM pgq_claim('$queue')");
	wait_for($node, "count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = $pid AND NOT granted");
	is($node->safe_psql('postgres', "SELECT job_id FROM pgq_claim('$queue')"), '', "$what at $where: nobody else has the job");
	$node->safe_psql('postgres', "SELECT $function($pid)");
	my ($answer) = reply($victim);
	is($answer, '', "$what at $where: nothing was handed out");
	# Waiting only because the signal takes its time; 60 s would be the sign of a backoff or of a lease.
	is($node->safe_psql('postgres', "SELECT attempt, run_at = enqueued_at, last_error IS NULL
			FROM pgq_claim('$queue', wait => '10 s')"), '1|t|t', "$what at $where: back at once, not counted");
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	end_session($_) for $gate, $victim;
	return;
}

for my $where ('claim-verify', 'claim-hand-out')
{
	uncounted_ok($where, 'pg_cancel_backend',    'a cancelled claim');
	uncounted_ok($where, 'pg_terminate_backend', 'a terminated claim');
}

# ---- expired ----

# In the hands of a session that has forgotten about it: (id, token)
sub expired_lease
{
	my ($queue) = @_;
	enqueue($queue);
	my @lease = split /\|/, $node->safe_psql('postgres', "SELECT job_id, lease FROM pgq_claim('$queue', lease_time => '1 s')");
	wait_for($node, "count(*) = 0 FROM pgq_ext.lease WHERE job_id = $lease[0]");
	return @lease;
}

{
	my $queue = new_queue();
	my $since = now();
	my ($id, $stale) = expired_lease($queue);
	$since = $node->safe_psql('postgres', "SELECT '$since'::timestamptz + '1 s'");
	counted_ok($queue, $since, 'a lease that expires', 'the lease expired');

	# Now another holds it.
	my $current = $node->safe_psql('postgres', "SELECT lease FROM pgq_ext.lease WHERE job_id = $id");
	cmp_ok($current, '>', $stale, 'tokens grow');
	for my $token ($stale, $current + 1, $current - 1, 0, -1)
	{
		my $name = $token == $stale ? 'stale token' : "token current+" . ($token - $current);
		$name = "token $token" if $token <= 0;
		is(sqlstate($node, "SELECT pgq_ack($id, $token)"), 'PQ001', "$name: pgq_ack");
		is($node->safe_psql('postgres', "SELECT count(*) FROM pgq_ack_many(ARRAY[$id], ARRAY[$token])"), '0', "$name: pgq_ack_many");
		is($node->safe_psql('postgres', "SELECT pgq_fail($id, $token, 'no')"), 'stale', "$name: pgq_fail");
		is($node->safe_psql('postgres', "SELECT pgq_fail($id, $token, retry => false)"), 'stale', "$name: pgq_fail without retry");
		is($node->safe_psql('postgres', "SELECT pgq_extend($id, $token, '7 days') IS NULL"), 't', "$name: pgq_extend");
	}
	is(sqlstate($node, "SELECT pgq_ack($id + 1000000, $current)"), 'PQ001', 'the token of another job: pgq_ack');

	(undef, my $error) = ask($session, "BEGIN; INSERT INTO business VALUES ('by a stale worker'); SELECT pgq_ack($id, $stale)");
	like($error, qr/lease $stale of job $id is not current/, 'a stale ack says what is wrong');
	ask($session, 'COMMIT');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM business'), '0', "a stale ack takes the caller's writes with it");

	is($node->safe_psql('postgres', "SELECT lease, attempt, lease_expires_at > now() + '6 days' FROM pgq_ext.lease WHERE job_id = $id"),
		"$current|2|t", 'the current lease is as it was');
	is($node->safe_psql('postgres', "SELECT attempts, last_error FROM pgq_ext.job WHERE job_id = $id"), '1|the lease expired', '... and the row');
	$node->safe_psql('postgres', "BEGIN; INSERT INTO business VALUES ('by the holder'); SELECT pgq_ack($id, $current); COMMIT");
	is($node->safe_psql('postgres', "SELECT count(*), (SELECT count(*) FROM pgq_ext.job WHERE job_id = $id) FROM business"),
		'1|0', 'the holder can acknowledge it, with its writes');
	is(sqlstate($node, "SELECT pgq_ack($id, $current)"), 'PQ001', 'an ack twice: the second one is stale');
}

{
	# A worker that is alive: extended, a short lease lives on.
	my $queue = new_queue();
	my $id = enqueue($queue);
	my ($token, $end, $extended) = split /\|/, ask($session, "SELECT lease, lease_expires_at AS end FROM pgq_claim('$queue', lease_time => '5 s') \\gset
		BEGIN; SELECT :lease, :'end', pgq_extend($id, :lease, '1 hour') > clock_timestamp() + '59 min'");
	is($extended, 't', 'extended');
	ask($session, 'ROLLBACK');
	wait_for($node, "clock_timestamp() > '$end'::timestamptz + '1500 ms'");
	is($node->safe_psql('postgres', "SELECT lease FROM pgq_ext.lease WHERE job_id = $id"), $token, 'an extended lease lives on, whatever the transaction did');
	is($node->safe_psql('postgres', "SELECT pgq_extend($id, $token, '1 s') > clock_timestamp() + '50 min'"), 't', 'an extension by less does not shorten it');
	$node->safe_psql('postgres', "SELECT pgq_ack($id, $token)");

	# Extended while its transaction keeps it.
	enqueue($queue);
	$end = $node->safe_psql('postgres', "BEGIN; SELECT job_id, lease FROM pgq_claim('$queue', lease_time => '1 s') \\gset
		SELECT pgq_extend(:job_id, :lease, '2 s'); COMMIT");
	is($node->safe_psql('postgres', "SELECT attempt, clock_timestamp() > '$end' FROM pgq_claim('$queue', wait => '60 s')"), '2|t', 'the new end holds, and is one');
}

# ---- dead letters ----

{
	my $queue = new_queue(", max_attempts => 3");
	my $id = enqueue($queue, ", headers => '{\"h\": 1}', priority => 5");
	is($node->safe_psql('postgres', "SELECT pgq_fail(job_id, lease, 'could not reach the printer', retry_in => '0') FROM pgq_claim('$queue')"),
		'retry', 'attempt 1 fails');
	ask($session, "BEGIN; SELECT job_id FROM pgq_claim('$queue', wait => '60 s')");
	ask($session, 'ROLLBACK');
	is($node->safe_psql('postgres', "SELECT attempt, last_error FROM pgq_claim('$queue', wait => '60 s', lease_time => '1 s')"),
		"3|$rolled_back", 'attempt 2 is rolled back, attempt 3 is the last');
	wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id = $id");
	is($node->safe_psql('postgres', qq{
		SELECT job_id, attempts, reason, last_error, headers, priority, died_at >= enqueued_at FROM pgq_ext.dead_job}),
		qq(${id}|3|attempts used up|the lease expired|{"h": 1}|5|t), 'after max_attempts it is a dead letter, with its last error');
	wait_until_counted($node);
	is($node->safe_psql('postgres', "SELECT ready, scheduled, leased, dead FROM pgq_ext.queue_status WHERE queue = '$queue'"),
		'0|0|0|1', '... and nothing else');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pgq_claim('$queue', wait => '2 s')"), '0', '... and never handed out again');

	# max_attempts of the job wins over the queue's.
	$id = enqueue($queue, ', max_attempts => 1');
	ask($session, "BEGIN; SELECT job_id FROM pgq_claim('$queue')");
	ask($session, 'ROLLBACK');
	wait_for($node, "count(*) = 1 FROM pgq_ext.dead_job WHERE job_id = $id AND attempts = 1");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pgq_ext.job WHERE job_id = $id"), '0', "max_attempts of the job wins over the queue's");
}

# ---- pinned ----

# While a transaction uses the lease, time cannot end it; afterwards it can.
{
	my $queue = new_queue();
	my $id = enqueue($queue);
	my $end = ask($session, "BEGIN; SELECT lease_expires_at FROM pgq_claim('$queue', lease_time => '3 s')");
	wait_for($node, "clock_timestamp() > '$end'::timestamptz + '1500 ms'");
	is($node->safe_psql('postgres', "SELECT job_id FROM pgq_claim('$queue', wait => '500 ms')"), '', 'an open claim does not expire');
	is($node->safe_psql('postgres', "SELECT attempts FROM pgq_ext.job WHERE job_id = $id"), '0', '... and is not counted');
	ask($session, 'COMMIT');

	my $attempt = 1;
	for my $finish ('ROLLBACK', 'COMMIT')
	{
		my $claim = "SELECT attempt, lease, lease_expires_at AS end FROM pgq_claim('$queue', wait => '60 s', lease_time => '5 s') \\gset";
		my ($overdue, $end) = split /[|\n]/, ask($session, "$claim\nBEGIN; SELECT :attempt, :'end'; SELECT pgq_ack($id, :lease)");
		is($overdue, ++$attempt, 'ended, it is overdue');
		wait_for($node, "clock_timestamp() > '$end'::timestamptz + '1500 ms'");
		is($node->safe_psql('postgres', "SELECT job_id FROM pgq_claim('$queue', wait => '500 ms')"), '', "$finish after an ack: a job that is being acknowledged does not expire");
		ask($session, $finish);
	}
	is($node->safe_psql('postgres', "SELECT count(*) FROM pgq_ext.job_status WHERE queue = '$queue'"), '0', 'an ack committed late counts');
	is($node->safe_psql('postgres', "SELECT acked, lost, handed_out FROM pgq_ext.queue_stats WHERE queue = '$queue'"), '1|2|3',
		'... and so do the hand-outs');
}

end_session($session);
$node->stop;
done_testing();
