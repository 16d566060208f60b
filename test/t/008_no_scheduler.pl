# While no scheduler can run, or the scheduler hangs, the queue goes on: jobs are handed out on time, and jobs with
# lost leases after some seconds, without counting the attempt.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.window_size = 64\npgq_ext.timer_size = 16\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

my $next = 0;

# What must work without a scheduler. $patience: the seconds a lost job has to wait at least.
sub works_ok
{
	my ($what, $patience) = @_;
	my $queue = 'q' . ++$next;
	create_queue($node, $queue);

	# More than fits into memory, and some of it delayed.
	sql("SELECT pgq_enqueue('$queue', to_jsonb(i), delay => i % 4 * interval '300 ms') FROM generate_series(1, 400) i");
	my %seen;
	for (1 .. 120)
	{
		$seen{$_}++ for split /\n/, sql("WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('$queue', 100, wait => '1 s')),
			a AS MATERIALIZED (SELECT job_id, pgq_ack(job_id, lease) FROM c) SELECT job_id FROM a");
		last if keys %seen >= 400;
	}
	is(scalar keys %seen, 400, "$what: ready and delayed jobs go out");
	is((grep { $_ > 1 } values %seen) + 0, 0, '... once');

	# Rules for groups: nobody has read yet what is delayed in these queues. A claim that does not end is cancelled.
	my $rules = 0;
	for my $rule ('group_concurrency => 1', 'fifo => true', 'fair => true', 'fair => true, fifo => true',
		'fair => true, group_concurrency => 1')
	{
		my $grouped = $queue . '_' . ++$rules;
		create_queue($node, $grouped, $rule);
		sql("SELECT pgq_enqueue('$grouped', '1', group_key => 'g' || i, delay => i % 2 * interval '1 day')
			FROM generate_series(1, 20) i");
		my $claim = "SELECT count(*) FROM pgq_claim('$grouped', 10)";
		my (undef, $claimed) = $node->psql('postgres', "SET statement_timeout = '300 s'; $claim; $claim");
		is($claimed, "10\n0", "$what, $rule: ready jobs go out, delayed ones do not");
	}

	# A failure is counted by whoever reports it.
	sql("SELECT pgq_enqueue('$queue', '\"fails\"'); SELECT pgq_fail(job_id, lease, 'no') FROM pgq_claim('$queue')");
	is(sql("SELECT attempt, pgq_ack(job_id, lease) FROM pgq_claim('$queue', wait => '60 s')"), '2|', "$what: a retry comes back");

	# Lost: by time, by rollback, by death. Each waits for a scheduler first.
	my $session = session($node);
	my $dying = session($node);
	sql("SELECT pgq_enqueue('$queue', to_jsonb(i)) FROM generate_series(1, 3) i");
	my $lost = sql("SELECT lease_expires_at FROM pgq_claim('$queue', lease_time => '1 s')");
	ask($_, "BEGIN; SELECT job_id FROM pgq_claim('$queue')") for $session, $dying;
	my $since = sql('SELECT clock_timestamp()');
	ask($session, 'ROLLBACK');
	kill_client($dying);
	my @back;
	for (1 .. 60)
	{
		push @back, split /\n/, sql("SELECT payload, attempt, clock_timestamp() >= least('$since', '$lost')::timestamptz + '$patience s'
			FROM pgq_claim('$queue', 10, wait => '2 s')");
		last if @back >= 3;
	}
	is(join(' ', sort @back), '1|1|t 2|1|t 3|1|t', "$what: lost jobs go out again, uncounted, after $patience s at the earliest");
	sql("SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease");
	end_session($session);

	# Commits wake, whoever waits.
	my $waiting = session($node);
	send_sql($waiting, "SELECT payload FROM pgq_claim('$queue', wait => '60 s')");
	wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$queue'");
	sql("SELECT pgq_enqueue('$queue', '\"wakes\"')");
	is(reply($waiting), '"wakes"', "$what: a waiting claim is woken");
	end_session($waiting);
	return;
}

# ---- a scheduler that hangs ----

create_queue($node, 'counted');
my $scheduler = wait_for_scheduler($node);
# Asleep, with no lock in hand.
wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $scheduler");
kill 'STOP', $scheduler;
works_ok('scheduler stopped', 4);

# It hangs while it has a lost lease to count, and goes on: nothing is counted twice or handed out twice.
sql(q{SELECT pgq_enqueue('counted', '1'); SELECT job_id FROM pgq_claim('counted', lease_time => '1 s')});
is(sql(q{SELECT attempt FROM pgq_claim('counted', wait => '60 s', lease_time => '1 hour')}), '1', 'scheduler stopped: not counted');
kill 'CONT', $scheduler;
sql(q{SELECT pgq_enqueue('counted', '2'); SELECT job_id FROM pgq_claim('counted', lease_time => '1 s')});
is(sql(q{SELECT payload, attempt, last_error FROM pgq_claim('counted', 10, wait => '60 s')}), '2|2|the lease expired',
	'scheduler goes on: it counts again');
is(sql(q{SELECT string_agg(format('%s:%s', payload, attempt), ' ' ORDER BY attempt) FROM pgq_ext.lease JOIN pgq_ext.job USING (job_id)
		WHERE queue = 'counted'}), '1:1 2:2',
	'... and what others have taken over is left alone');
is(scheduler_pid($node), $scheduler, '... the same scheduler');

# ---- a scheduler that is kept from counting ----

{
	create_queue($node, 'kept');
	my $locker = session($node);
	ask($locker, 'BEGIN; LOCK TABLE pgq_ext.dead_job IN SHARE MODE');
	sql(q{SELECT pgq_enqueue('kept', '1'); BEGIN; SELECT count(*) FROM pgq_claim('kept'); ROLLBACK});
	my $attempt = '';
	for (1 .. 60)
	{
		last if ($attempt = sql(q{SELECT attempt FROM pgq_claim('kept', wait => '1 s')})) ne '';
	}
	is($attempt, '1', 'somebody has locked dead_job for long: a lost job goes out, uncounted');
	ask($locker, 'COMMIT');
	end_session($locker);
	is(scheduler_pid($node), $scheduler, '... the same scheduler');
	sql('SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease');
}

# ---- no room for one ----

# One worker slot: our launcher's.
$node->append_conf('postgresql.conf', "max_logical_replication_workers = 0\nmax_worker_processes = 1\n");
my $log = -s $node->logfile;
$node->restart;
works_ok('one worker slot', 0);
is(workers($node, 'scheduler'), '0', 'there was no scheduler');
like(slurp_file($node->logfile, $log), qr/could not start.*\n.*HINT:.*max_worker_processes/, 'the log names the setting');

# Not even room for the launcher.
$node->append_conf('postgresql.conf', "max_worker_processes = 0\n");
$node->restart;
works_ok('no worker slot', 0);
is(workers($node, '%'), '0', 'there was no worker');

# Room again: a scheduler comes, and counts.
$node->append_conf('postgresql.conf', "max_worker_processes = 8\n");
$node->restart;
sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('counted', 10);
	SELECT pgq_enqueue('counted', '3'); SELECT job_id FROM pgq_claim('counted', lease_time => '1 s')});
wait_for_scheduler($node);
is(sql(q{SELECT attempt FROM pgq_claim('counted', wait => '60 s')}), '2', 'room again: a scheduler counts');

$node->stop;
done_testing();
