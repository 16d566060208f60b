# Jobs whose calls bring the server down, also where the postmaster ends with it: they become dead letters, and the server stays up.
# Jobs that were in work at the same time lose no attempt.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;
use HandlerTest ':calls';

my $node = handler_node('main', conf => "restart_after_crash = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $long = q{timeout => '1 day', idle => '1 day'};

# If the test dies, the server may be down, so the module could not stop it.
END
{
	my $status = $?;
	$node->kill9 if $node && $status != 0;
	$? = $status;
}

# How a call ends the server: its own process crashes; or all processes are killed at once, as if the machine had lost its power.
my $crash = q{kill -9 $PPID};
my $power = q{p=$(head -n 1 postmaster.pid); kill -STOP $p; kill -9 $(cat /proc/$p/task/$p/children); kill -9 $p};
sql('GRANT pg_execute_server_program TO worker; CREATE TABLE hold (); GRANT SELECT ON hold TO worker');
sub bad_queue
{
	my ($queue, $program, $options) = @_;
	return handled_queue($node, $queue, qq{BEGIN
		IF job.payload ? 'bad' THEN EXECUTE \$c\$COPY (SELECT 1) TO PROGRAM '$program'\$c\$; END IF;
		INSERT INTO effect VALUES (job.job_id, job.attempt); END}, handler => $long . ($options // ''));
}

# Calls of these queues last while the table has a row.
handled_queue($node, $_, q{BEGIN INSERT INTO effect VALUES (job.job_id, job.attempt);
	WHILE EXISTS (SELECT FROM hold) LOOP PERFORM pg_sleep(0.05); END LOOP; END}, handler => $long) for 'calm', 'still';
sub hold { return sql('INSERT INTO hold DEFAULT VALUES') }
sub go_on { return sql('DELETE FROM hold') }

sub attempts { return sql("SELECT string_agg(outcome, ' ' ORDER BY lease) FROM pgq_ext.attempt WHERE job_id = $_[0]") }
sub is_first_attempt
{
	my ($job, $what) = @_;
	is(end_of($node, $job), 'acked||', "$what: the job runs again");
	is(attempts($job) . '|' . effects_of($node, $job), 'acked|1', '... in its first attempt');
	return;
}

# Lets the handler of the queue, which rests after a crash, begin anew.
sub end_rest
{
	my ($queue) = @_;
	wait_for($node, "next_try_at > now() FROM pgq_ext.handler WHERE queue = '$queue'");
	sql("SELECT pgq_pause_handler('$queue')");
	wait_for($node, "state = 'paused' FROM pgq_ext.handler WHERE queue = '$queue'");
	sql("SELECT pgq_resume_handler('$queue')");
	return;
}

my $lock_file = $node->data_dir . '/postmaster.pid';
sub postmaster { my ($pid) = slurp_file($lock_file) =~ /^(\d+)/; return $pid }

# Starts the server again, which has ended by itself. It cannot start before the last process of the old one has ended.
sub start_again
{
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$node->kill9; # forgets the process
		return if $node->start(fail_ok => 1);
		usleep(100_000);
	}
	die 'the server does not start';
}

# The job ends the server, whose postmaster was this process. Starts the server until the job is a dead letter. Returns how often.
sub starts_until_dead
{
	my ($job, $pid) = @_;
	for my $starts (1 .. 10)
	{
		wait_until_down($pid);
		start_again();
		$pid = postmaster();
		for (1 .. 20 * $PostgreSQL::Test::Utils::timeout_default)
		{
			my $state = eval { sql("SELECT COALESCE((SELECT attempts || ' ' || (SELECT count(*) > 0 FROM pgq_ext.handler WHERE next_try_at > now()) FROM pgq_ext.job WHERE job_id = $job), 'dead')") } // 'down';
			return $starts if $state eq 'dead';
			last if $state eq 'down' && !kill 0, $pid;
			eval { end_rest('bad'); 1 } or last if $state eq '1 true';
			usleep(50_000);
		}
	}
	die 'the job brings the server down again and again';
}

# ---- the postmaster ends after a crash ----

{
	bad_queue('bad', $crash);
	hold();
	my @calm = map { enqueue($node, $_) } 'calm', 'still';
	worker_of($node, $_) for 'calm', 'still';
	my $pid = postmaster();
	my $bad = enqueue($node, 'bad', '{"bad": 1}');
	is(starts_until_dead($bad, $pid), 2, 'restart_after_crash = off, and a tool starts the server: a job brings it down twice');
	is(sql("SELECT attempts, reason, last_error FROM pgq_ext.dead_letter WHERE job_id = $bad"),
		'2|the server crashed twice while a handler ran the job|the server crashed while a handler ran the job', '... then it is a dead letter, whatever max_attempts says');
	is(sql(q{SELECT count(*) FROM pgq_ext.handler WHERE queue <> 'bad' AND next_try_at > now()}), '0', '... and only its own queue rests');
	my $many = enqueue($node, 'bad');
	end_rest('bad');
	is_first_attempt($many, 'another one of the queue');
	go_on();
	is_first_attempt($_, 'one that was in work each time') for @calm;
}

# ---- all processes end at once ----

# Enqueues ten jobs at once, and returns in how many transactions they run.
sub calls_for_ten
{
	sql(q{SELECT pgq_pause_handler('bad')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'bad'});
	my $ids = sql(q{SELECT string_agg(id::text, ',') FROM (SELECT pgq_enqueue('bad', '{}') AS id FROM generate_series(1, 10)) e});
	sql(q{SELECT pgq_resume_handler('bad')});
	wait_for($node, "count(*) = 10 FROM effect WHERE job_id IN ($ids)");
	return sql("SELECT count(DISTINCT xid) FROM effect WHERE job_id IN ($ids)");
}

{
	sql(q{SELECT pgq_drop_queue('bad', force => true); DROP FUNCTION handle_bad});
	bad_queue('bad', $power, ', batch => 10');
	is(calls_for_ten(), '1', 'a call has several jobs');
	hold();
	my @calm = map { enqueue($node, $_) } 'calm', 'still';
	worker_of($node, $_) for 'calm', 'still';
	my $pid = postmaster();
	my $bad = enqueue($node, 'bad', '{"bad": 1}');
	wait_until_down($pid);
	start_again();
	worker_of($node, 'calm');
	wait_for($node, q{count(*) = 2 FROM pgq_ext.handler WHERE state = 'waiting for a worker slot'});
	is(workers($node, 'handler'), '1', 'all processes are killed in a call: then one worker runs at a time');
	is(sql("SELECT max(attempts) FROM pgq_ext.job WHERE job_id IN ($bad, $calm[0], $calm[1])"), '0', '... and no attempt is counted');
	$pid = postmaster();
	go_on();
	is(starts_until_dead($bad, $pid), 2, '... a second and a third time: the job is a dead letter');
	is(sql("SELECT attempts, reason FROM pgq_ext.dead_letter WHERE job_id = $bad"), '2|the server crashed twice while a handler ran the job', '... which says why');
	is_first_attempt($_, 'one that was in work') for @calm;
	is(calls_for_ten(), '10', '... for some minutes a call has one job');
	stop_and_start($node, 'fast');
	is(calls_for_ten(), '1', '... until the server is stopped and started');
}

# ---- ends without a suspect ----

{
	hold();
	my @calm = map { enqueue($node, $_) } 'calm', 'still';
	for my $end ('immediate', 'immediate', 'kill', 'kill', 'kill', 'scheduler last')
	{
		worker_of($node, 'calm');
		my @workers = split /\n/, sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgq_ext handler'});
		my $pid = postmaster();
		my $scheduler = scheduler_pid($node);
		# Stopped, it sees the leases that the workers lose by their exit before it sees that the postmaster has ended.
		kill 'STOP', $scheduler if $end eq 'scheduler last';
		$end eq 'immediate' ? $node->stop($end) : $node->kill9;
		wait_until_down($pid);
		wait_until_down($_) for @workers;
		kill 'CONT', $scheduler if $end eq 'scheduler last';
		wait_until_down($scheduler);
		start_again();
	}
	worker_of($node, 'calm');
	go_on();
	is_first_attempt($_, 'a stop in mode immediate, twice, and kill -9 of the postmaster, four times') for @calm;
	is(sql(q{SELECT count(*) FROM pgq_ext.handler WHERE next_try_at > now()}), '0', '... no handler rests');
}

# The server starts all the same, and runs jobs.
{
	my $notes = $node->data_dir . '/pg_stat_tmp/pgq_ext.calls';
	$node->stop('fast');
	append_to_file($notes, 'x');
	$node->start;
	is_first_attempt(enqueue($node, 'calm'), 'notes that nobody can read');
	$node->stop('fast');
	unlink $notes, "$notes.new";
	mkdir "$notes.new";
	$node->start;
	like(slurp_file($node->logfile), qr/LOG:  could not write file "pg_stat_tmp\/pgq_ext.calls": Is a directory/, 'notes that cannot be written: the log says so');
	is_first_attempt(enqueue($node, 'calm'), '... and');
	$node->stop('fast');
	rmdir "$notes.new";
	$node->start;
}

# ---- processes that end by SIGABRT, since another one has crashed ----

SKIP:
{
	skip 'the setting is new in PostgreSQL 16' if $node->pg_version < 16;
	$node->append_conf('postgresql.conf', "restart_after_crash = on\nsend_abort_for_crash = on\n");
	stop_and_start($node, 'fast');
	for my $round (1 .. 5)
	{
		hold();
		my @calm = map { enqueue($node, $_) } 'calm', 'still';
		worker_of($node, $_) for 'calm', 'still';
		my $backend = session($node);
		my $pid = pid_of($backend);
		kill 'KILL', $pid;
		wait_until_down($pid);
		end_session($backend);
		wait_until_up($node);
		go_on();
		is_first_attempt($_, "send_abort_for_crash = on, kill -9 of a backend, $round") for @calm;
	}
	is(sql(q{SELECT count(*) FROM pgq_ext.handler WHERE next_try_at > now()}), '0', '... no handler rests');
	unlike(slurp_file($node->logfile), qr/the scheduler of pgq_ext for database \d+ has crashed/, '... no scheduler is said to have crashed');
}

is(sql('SELECT * FROM pgq_check()'), '', 'all is well');
done_testing();
