# Calls of handlers that are stopped: by their timeout, by a cancel, by the end of the worker, by a crash or a stop of the server. Only a
# job that may be the reason loses an attempt.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use HandlerTest ':calls';

my $node = handler_node('main', init => { allows_streaming => 1 }, conf => "restart_after_crash = on\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

# The same with this node.
sub queue   { return handled_queue($node, @_) }
sub job     { return enqueue($node, @_) }
sub end     { return end_of($node, $_[0]) }
sub effects { return effects_of($node, $_[0]) }

# The attempts of a job, as "outcome outcome".
sub attempts { return sql("SELECT string_agg(outcome, ' ' ORDER BY lease) FROM pgq_ext.attempt WHERE job_id = $_[0]") }

sub is_there { return sql("SELECT count(*) FROM pg_stat_activity WHERE pid = $_[0]") }

my $long = q{timeout => '1 day', idle => '1 day'};

# ---- the timeout ----

{
	sql(q{CREATE TABLE late (); GRANT ALL ON late TO worker;
		CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN LOOP END LOOP; END $$;
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()});
	my $body = q{BEGIN INSERT INTO effect VALUES (job.job_id, job.attempt); EXECUTE job.payload ->> 'do'; END};
	# A call that does end must do so in this time, also on a busy machine.
	queue('slow', $body, queue => 'max_attempts => 1', handler => q{timeout => '3 s', idle => '1 day'});
	queue('slow_queue', $body, queue => q{max_attempts => 1, max_runtime => '3 s'}, handler => $long);
	queue('slow_batch', $body, queue => 'max_attempts => 1', handler => q{timeout => '3 s', idle => '1 day', batch => 10});
	create_queue($node, 'empty');
	my $before = job('slow', '{"do": "SELECT 1"}');
	is(end($before), 'acked||', 'a call before');
	my $pid = sql("SELECT pid FROM effect WHERE job_id = $before");
	for my $do ('SELECT pg_sleep(3600)', 'DO $$ BEGIN LOOP END LOOP; END $$', 'INSERT INTO late DEFAULT VALUES', 'SELECT FROM pgq_claim($$empty$$, wait => $$60 s$$)')
	{
		for my $queue ('slow', 'slow_queue', 'slow_batch')
		{
			my $bad  = job($queue, qq{{"do": "$do"}});
			my $next = job($queue, '{"do": "SELECT 1"}');
			my $limit = $queue eq 'slow_queue' ? '\d+' : 3000;    # with max_runtime, less than it: the error is noted while the lease lasts
			like(end($bad), qr/\Adead\|\|the call took longer than its timeout \($limit ms\) \(SQLSTATE 57014\)/, "$queue: a call that does not end: $do");
			is(effects($bad), '', '... has no effect');
			is(end($next), 'acked||', '... and the next job runs');
			is(attempts($next), 'acked', '... its first attempt');
		}
	}
	is(is_there($pid), '1', 'the worker is still the same');

	# A handler that does not listen.
	queue('deaf', q{BEGIN
		INSERT INTO effect VALUES (job.job_id, job.attempt);
		WHILE job.attempt = 1 AND job.payload ? 'bad' LOOP
			BEGIN PERFORM pg_sleep(3600); EXCEPTION WHEN query_canceled THEN NULL; END;
		END LOOP; END}, handler => q{timeout => '3 s'});
	my $bad  = job('deaf', '{"bad": 1}');
	my $next = job('deaf');
	$pid = worker_of($node, 'deaf');
	is(end($next), 'acked||', 'a handler that catches each cancel: the next job runs');
	is(is_there($pid), '0', '... when the process has ended');
	is(end($bad), 'acked||', '... and the job itself runs again');
	is(attempts($bad), 'lost acked', '... and has lost an attempt');
	is(attempts($next), 'acked', '... which the other has not');
	is(effects($bad), '2', '... and nothing is left of that attempt');
}

# ---- a cancel ----

{
	queue('long', q{BEGIN
		INSERT INTO effect VALUES (job.job_id, job.attempt);
		IF job.payload ? 'uses' THEN PERFORM pgq_progress(job.job_id, job.lease, '1'); END IF;
		IF job.payload ? 'long' THEN PERFORM pg_sleep(3600); END IF; END}, handler => $long);
	for my $payload ('{"long": 1}', '{"long": 1, "uses": 1}')
	{
		my $bad  = job('long', $payload);
		my $next = job('long');
		my $pid  = worker_of($node, 'long');
		wait_for($node, "wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid");
		if ($payload !~ /uses/)
		{
			sql("BEGIN; SELECT pgq_cancel($bad); ROLLBACK");
			sql("BEGIN; SAVEPOINT s; SELECT pgq_cancel($bad); ROLLBACK TO s; COMMIT");
			is(sql("SELECT wait_event FROM pg_stat_activity WHERE pid = $pid"), 'PgSleep', 'a cancel that is undone does not interrupt the call');
		}
		like(sql("SELECT pgq_cancel($bad)"), qr/\A(?:leased|ready)\z/, "a cancel of a job in work: $payload");
		is(end($next), 'acked||', '... interrupts the call, and the next job runs');
		is(end($bad), 'cancelled||', '... the job is cancelled');
		is(effects($bad), '', '... and has done nothing');
		is(is_there($pid), '1', '... and the worker is still the same');
		is(attempts($next), 'acked', '... the next job is in its first attempt');
	}
	my $bad = job('long', '{"long": 1}');
	my $pid = worker_of($node, 'long');
	wait_for($node, "wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid");
	sql("SELECT pg_cancel_backend($pid)");
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $bad");
	like(sql("SELECT last_error FROM pgq_ext.job WHERE job_id = $bad"), qr/\Acanceling statement due to user request \(SQLSTATE 57014\)/, 'pg_cancel_backend is an error of the call');
	sql("SELECT pgq_cancel($bad)");

	# A call of several jobs.
	queue('many', q{BEGIN
		INSERT INTO effect SELECT t.job_id, t.attempt FROM unnest(jobs) t;
		FOR i IN 1 .. cardinality(jobs) LOOP
			IF jobs[i].payload ? 'uses' THEN PERFORM pgq_progress(jobs[i].job_id, jobs[i].lease, '1'); END IF;
		END LOOP;
		FOR i IN 1 .. cardinality(jobs) LOOP
			IF jobs[i].payload ? 'long' THEN PERFORM pg_sleep(3600); END IF;
		END LOOP; END}, array => 1, handler => $long . ', batch => 10');
	for my $payload ('{}', '{"uses": 1}')
	{
		sql(q{SELECT pgq_pause_handler('many')});
		wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'many'});
		my ($long, @rest) = split /\n/, sql(qq{SELECT pgq_enqueue('many', CASE i WHEN 5 THEN '{"long": 1}' ELSE '$payload' END::jsonb) FROM generate_series(1, 10) i ORDER BY i <> 5});
		my $last = pop @rest;
		sql(q{SELECT pgq_resume_handler('many')});
		my $pid = worker_of($node, 'many');
		my $asleep = sub { return wait_for($node, "wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid") };
		$asleep->();
		my $since = sql("SELECT xact_start FROM pg_stat_activity WHERE pid = $pid");
		if ($payload eq '{}')
		{
			sql("BEGIN; SELECT pgq_cancel($rest[0]); ROLLBACK");
			is(sql("SELECT xact_start FROM pg_stat_activity WHERE pid = $pid"), $since, 'a cancel of one job of ten that is undone does not interrupt the call');
		}
		else
		{
			# This cancel has to wait for the call, which uses the lease.
			sql("BEGIN; SELECT pgq_cancel($rest[0]); ROLLBACK");
			wait_for($node, "xact_start > '$since' AND wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid");
			pass('a cancel that needs the lease of one job of ten interrupts the call, and is undone: the jobs are called again');
		}
		$asleep->();
		$since = sql("SELECT xact_start FROM pg_stat_activity WHERE pid = $pid");
		sql("SELECT pgq_cancel($last)");
		wait_for($node, "xact_start > '$since' AND wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid");
		is(end($last), 'cancelled||', "a cancel of one job of ten interrupts the call: $payload");
		like(sql("SELECT query FROM pg_stat_activity WHERE pid = $pid"), qr/: (?:9|\d) jobs/, '... the others are called together again');
		sql("SELECT pgq_cancel($long)");
		is(end($_) . attempts($_), 'acked||acked', '... and run in their first attempt') for @rest;
		is(sql('SELECT count(*) FROM effect WHERE job_id IN (' . join(',', $long, $last) . ')'), '0', '... what was cancelled has done nothing');
	}
	is(sql(q{SELECT failures FROM pgq_ext.handler WHERE queue = 'many'}), '0', '... no call has failed');

	# Cancels that come at any time hit no other job.
	my $cancels = $ENV{CANCELS} // 1000;
	my $sleep   = 'PERFORM pg_sleep(random() / 1000)';
	queue('race', "BEGIN INSERT INTO effect VALUES (job.job_id, job.queue); $sleep; END", queue => 'max_attempts => 1', handler => q{workers => 3, idle => '1 day'});
	queue('race_batch', "BEGIN INSERT INTO effect VALUES (job.job_id, job.queue); $sleep; END", queue => 'max_attempts => 1', handler => q{workers => 3, idle => '1 day', batch => 10});
	queue('race_array', "BEGIN INSERT INTO effect SELECT j.job_id, j.queue FROM unnest(jobs) j; $sleep; $sleep; $sleep; END", queue => 'max_attempts => 1', array => 1, handler => q{workers => 3, idle => '1 day', batch => 30});
	for my $queue ('race', 'race_batch', 'race_array')
	{
		$node->pgbench("-n -c 3 -j 1 -t $cancels", 0, [qr/processed: \d+\/\d+\b/], [qr/^(?!.*(?:ERROR|aborted))/s], "cancels of jobs in work: $queue",
			{ "151_cancel_$queue" => qq{SELECT count(pgq_enqueue('$queue', '1')) FROM generate_series(1, 3);\nSELECT pgq_cancel(job_id) FROM pgq_ext.lease WHERE queue = '$queue' ORDER BY random() LIMIT 1} });
		wait_for($node, qq{count(*) = 0 FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue'});
		cmp_ok(sql(qq{SELECT count(*) FROM pgq_ext.finished_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' AND outcome = 'cancelled'}), '>', 0, '... some were cancelled');
		is(sql(qq{SELECT count(*) FROM pgq_ext.attempt JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' AND outcome NOT IN ('acked', 'cancelled')}), '0', '... no other job was interrupted');
		is(sql(qq{SELECT failures FROM pgq_ext.handler WHERE queue = '$queue'}), '0', '... no call has failed');
		is(sql(qq{SELECT count(*) FROM pgq_ext.finished_job f JOIN pgq_ext.queue USING (queue_id) FULL JOIN (SELECT job_id, count(*) n FROM effect WHERE note = '$queue' GROUP BY job_id) e USING (job_id)
			WHERE queue = '$queue' AND COALESCE(n, 0) <> CASE outcome WHEN 'acked' THEN 1 ELSE 0 END}), '0', '... those that were acknowledged have done their work once, the others nothing');
	}
}

# A session that cancels a job, and stays open, holds up no worker.
{
	sql('CREATE SEQUENCE calls_open; GRANT ALL ON SEQUENCE calls_open TO worker');
	queue('open', q{BEGIN
		INSERT INTO effect VALUES (job.job_id, job.attempt);
		IF job.payload ? 'bad' THEN
			CASE nextval('calls_open') WHEN 1 THEN RAISE 'bad'; WHEN 2 THEN PERFORM pg_sleep(3600); ELSE NULL; END CASE;
		END IF; END}, handler => $long . ', batch => 10');
	my $asleep = sub { my $pid = worker_of($node, 'open'); wait_for($node, "wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid"); return $pid };
	my $cancel = session($node);

	sql(q{SELECT setval('calls_open', 2, false)});
	my $bad = job('open', '{"bad": 1}');
	my $pid = $asleep->();
	ask($cancel, "BEGIN; SELECT pgq_cancel($bad)");
	sql("SELECT pg_cancel_backend($pid)");
	is(end(job('open')), 'acked||', 'a call fails while a cancel of its job is open: the next job runs');
	ask($cancel, 'ROLLBACK');
	is(end($bad), 'acked||', '... the cancel is undone: the job runs again');
	is(attempts($bad), 'lost acked', '... and has lost an attempt');

	sql(q{SELECT setval('calls_open', 1, false), pgq_pause_handler('open')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'open'});
	$bad = job('open', '{"bad": 1}');
	my $other = job('open');
	sql(q{SELECT pgq_resume_handler('open')});
	$pid = $asleep->();
	ask($cancel, "BEGIN; SELECT pgq_cancel($other)");
	sql(q{SELECT pgq_pause_handler('open')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'open'});
	sql("SELECT pg_cancel_backend($pid)");
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $bad");
	ask($cancel, 'ROLLBACK');
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lease WHERE queue = 'open'});
	sql(q{SELECT pgq_resume_handler('open')});
	is(end($other), 'acked||', 'a job is given back while a cancel is open: undone, it runs');
	is(attempts($other), 'acked', '... in its first attempt');
	is(end($bad), 'acked||', '... and so does the one that has failed');
	end_session($cancel);
}

# ---- the end of the worker, and of the server ----

# Handlers that do not end when they are called for the first time, or for a bad job.
for my $queue ('one', 'two', 'batch')
{
	sql("CREATE SEQUENCE calls_$queue; GRANT ALL ON SEQUENCE calls_$queue TO worker");
	queue($queue, q{BEGIN
		INSERT INTO effect VALUES (job.job_id, job.queue || job.attempt);
		IF job.payload ? 'bad' OR nextval('calls_' || job.queue) = 1 THEN PERFORM pg_sleep(3600); END IF; END},
		handler => $long . ($queue eq 'batch' ? ', batch => 10' : ''));
}

# Waits for such a call. Returns the pid of the worker.
sub sleeper
{
	my ($queue) = @_;
	my $pid = worker_of($node, $queue);
	wait_for($node, "wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid");
	return $pid;
}

# Enqueues a job in each of these queues, whose call does not end for the first time. Returns their ids.
sub begin_calls
{
	my @queues = @_;
	sql("SELECT setval('calls_$_', 1, false)") for @queues;
	my @jobs = map { job($_) } @queues;
	sleeper($_) for @queues;
	sql('CHECKPOINT'); # a crash does not set the sequences back
	return @jobs;
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

sub kill_and_wait
{
	my ($pid) = @_;
	kill 'KILL', $pid;
	wait_until_down($pid);
	wait_until_up($node);
	return;
}

# Checks that the job runs, or has run, in its first attempt.
sub is_first_attempt
{
	my ($job, $queue, $what) = @_;
	is(end($job), 'acked||', $what);
	is(effects($job), $queue . '1', '... once, in its first attempt');
	return;
}

{
	my ($one, $two) = begin_calls('one', 'two');
	sql('SELECT pg_terminate_backend(' . sleeper('one') . ', 60000)');
	is(end($one), 'acked||', 'the worker is terminated: the job runs again');
	is(attempts($one), 'lost acked', '... and has lost an attempt');
	is(effects($one), 'one2', '... without a trace of the first');
	is(sql("SELECT reason FROM pgq_ext.attempt WHERE job_id = $one AND outcome = 'lost'"), 'the session of its worker ended', '... which says why');
	is(sql("SELECT state FROM pgq_ext.job_status WHERE job_id = $two"), 'leased', '... the call of another worker goes on');
	sql("SELECT pgq_cancel($two)");
	queue('suicide', q{BEGIN INSERT INTO effect VALUES (job.job_id, job.attempt); IF job.attempt < 3 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; END});
	my $job = job('suicide');
	is(end($job), 'acked||', 'a handler that terminates its worker: the job runs again');
	is(attempts($job), 'lost lost acked', '... and has lost an attempt each time');
	is(effects($job), '3', '... without a trace');
}

# ---- stop points: between two calls of a batch, and at the ack ----

# Workers stop at this point (pg/stop_point.h), while the gate is closed: new ones, since others may not have read the setting yet.
my $gate = session($node);
sub stop_workers_at
{
	my ($point) = @_;
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	$node->append_conf('postgresql.conf', "pgq_ext.stop_point = '$point'");
	$node->reload;
	wait_for($node, "current_setting('pgq_ext.stop_point') = '$point'");
	sql(q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'pgq_ext handler'});
	return;
}
sub wait_at_gate { return wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted}) }

{
	stop_workers_at('handler-ack');
	my $job = job('long');
	wait_at_gate();
	sql('SELECT pg_cancel_backend(' . worker_of($node, 'long') . ')');
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	is(end($job), 'acked||', 'an error at the ack: the job runs again');
	is(attempts($job), 'failed acked', '... and has lost an attempt');
	is(effects($job), '2', '... and its work is done once');
}

# A cancel that begins after the worker has looked for one.
{
	my $cancel = session($node);
	for my $end ('ROLLBACK', 'COMMIT')
	{
		sql(q{SELECT setval('calls_open', 1, false)});
		stop_workers_at('handler-fail');
		my $bad = job('open', '{"bad": 1}');
		wait_at_gate();
		my $pid  = worker_of($node, 'open');
		my $next = job('open');
		ask($cancel, "BEGIN; SELECT pgq_cancel($bad)");
		sql(q{SELECT setval('calls_open', 3)});
		ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
		wait_for($node, "EXISTS (SELECT FROM pg_locks WHERE pid = $pid AND locktype = 'virtualxid' AND NOT granted) OR EXISTS (SELECT FROM pgq_ext.finished_job WHERE job_id = $next)");
		is(sql("SELECT count(*) FROM pgq_ext.finished_job WHERE job_id = $next"), '1', 'a cancel begins before a failure is noted: the worker does not wait, and runs the next job');
		ask($cancel, $end);
		is(end($bad), $end eq 'COMMIT' ? 'cancelled||' : 'acked||', "... $end of the cancel: the job ends");
		is(attempts($bad), 'lost acked', '... and has lost an attempt') if $end eq 'ROLLBACK';
	}
	end_session($cancel);
}

{
	# The note says whether the call was before the stop.
	queue('parts', q{BEGIN
		IF job.payload ? 'bad' AND job.attempt = 1 THEN RAISE 'bad'; END IF;
		INSERT INTO effect VALUES (job.job_id, job.attempt || CASE WHEN pg_postmaster_start_time() < (job.payload ->> 'at')::timestamptz THEN ' before' ELSE ' after' END); END},
		handler => $long . ', batch => 10');
	stop_workers_at('handler-fail');
	sql(q{SELECT pgq_pause_handler('parts')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'parts'});
	my @jobs = split /\n/, sql(q{SELECT pgq_enqueue('parts', jsonb_build_object('at', now(), CASE i WHEN 1 THEN 'bad' ELSE 'good' END, 1)) FROM generate_series(1, 10) i});
	sql(q{SELECT pgq_resume_handler('parts')});
	wait_at_gate();
	$node->append_conf('postgresql.conf', q{pgq_ext.stop_point = ''});
	stop_and_start($node, 'fast');    # ends the session that keeps the gate closed
	end_session($gate);
	wait_for($node, q{count(*) = 0 FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'parts'});
	is(sql("SELECT string_agg(DISTINCT note, ' ' ORDER BY note), count(*) FROM effect WHERE job_id >= $jobs[0]"), '1 after 2 after|10', 'a stop between two calls of a batch: no further call begins');
}

# Jobs whose call has not begun wait longer than their lease lasts, because the call before does not end.
{
	queue('waits', q{BEGIN IF job.payload ? 'bad' AND job.attempt = 1 THEN RAISE 'bad'; END IF; INSERT INTO effect VALUES (job.job_id, job.attempt); END},
		queue => q{max_attempts => 5, max_runtime => '3 s'}, handler => $long . ', batch => 10');
	$gate = session($node);
	stop_workers_at('handler-fail');
	sql(q{SELECT pgq_pause_handler('waits')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'waits'});
	my ($bad, @rest) = split /\n/, sql(q{SELECT pgq_enqueue('waits', CASE i WHEN 1 THEN '{"bad": 1}' ELSE '{}' END::jsonb) FROM generate_series(1, 5) i});
	sql(q{SELECT pgq_resume_handler('waits')});
	wait_at_gate();
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lease WHERE queue = 'waits'});
	is(sql(q{SELECT lost, uncounted FROM pgq_ext.queue_stats WHERE queue = 'waits'}), '1|4', 'the leases of jobs whose call has not begun end uncounted');
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	like(end($bad) . attempts($bad), qr{\Aacked\|\|(?:lost|failed) acked\z}, '... the job that was in a call has lost an attempt');
	is(end($_) . attempts($_), 'acked||acked', '... and they run in their first attempt') for @rest;
	$node->append_conf('postgresql.conf', q{pgq_ext.stop_point = ''});
	$node->reload;
	end_session($gate);

	# A call of several jobs that fails late leaves too little time for calls of the same leases.
	sql(q{CREATE SEQUENCE calls_tight; GRANT ALL ON SEQUENCE calls_tight TO worker});
	queue('tight', q{BEGIN PERFORM pg_sleep(3); IF nextval('calls_tight') = 1 THEN RAISE 'bad'; END IF; INSERT INTO effect VALUES (job.job_id, job.attempt); END},
		queue => q{max_attempts => 5, max_runtime => '6 s'}, handler => $long . ', batch => 10');
	sql(q{SELECT pgq_pause_handler('tight')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'tight'});
	@rest = split /\n/, sql(q{SELECT pgq_enqueue('tight', '{}') FROM generate_series(1, 3)});
	sql(q{SELECT pgq_resume_handler('tight')});
	is(end($_) . attempts($_), 'acked||acked', 'no call begins that may outlast its lease') for @rest;
}

# ---- crashes ----

{
	my ($two) = begin_calls('two');
	my $bad  = job('one', '{"bad": 1}');
	my $pid  = sleeper('one');
	my @rest = map { job('one') } 1 .. 3;
	kill_and_wait($pid);
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $bad");
	is(sql("SELECT last_error FROM pgq_ext.job WHERE job_id = $bad"), 'the server crashed while a handler ran the job', 'kill -9 of the worker in a call: the job has lost an attempt');
	is_first_attempt($two, 'two', '... the job of another worker, which was in work, runs again');
	is(sql("SELECT count(*) FROM effect WHERE job_id >= $bad"), '0', '... and the queue of the bad one rests');
	end_rest('one');
	is_first_attempt($_, 'one', '... then its other jobs run') for @rest;

	$pid = sleeper('one');
	is(sql(q{SELECT job_id, attempt FROM pgq_ext.lease WHERE queue = 'one'}), "$bad|2", '... and the bad one again');
	my $next = job('one');
	kill_and_wait($pid);
	is(end($bad), 'dead||the server crashed while a handler ran the job', 'a second crash: it is a dead letter');
	is(sql("SELECT attempts, reason FROM pgq_ext.dead_letter WHERE job_id = $bad"), '2|the server crashed twice while a handler ran the job', '... whatever max_attempts says');
	end_rest('one');
	is_first_attempt($next, 'one', '... and the next job runs');
}

{
	my @jobs = begin_calls('one', 'two');
	my $backend = session($node);
	kill_and_wait(pid_of($backend));
	end_session($backend);
	is_first_attempt($jobs[0], 'one', 'kill -9 of a backend: a job that was in work runs again');
	is_first_attempt($jobs[1], 'two', '... and another one');
	is(sql(q{SELECT count(*) FROM pgq_ext.handler WHERE next_try_at > now()}), '0', '... no queue rests');
}

sub begin_batch
{
	sql(q{SELECT setval('calls_batch', 1, false), pgq_pause_handler('batch')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'batch'});
	my @jobs = split /\n/, sql(q{SELECT pgq_enqueue('batch', '{}') FROM generate_series(1, 10)});
	sql(q{SELECT pgq_resume_handler('batch')});
	sleeper('batch');
	sql('CHECKPOINT');
	return @jobs;
}
sub are_first_attempts
{
	my ($jobs, $what) = @_;
	my $ids = join ',', @$jobs;
	wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id IN ($ids)");
	is(sql("SELECT count(*), count(DISTINCT job_id), string_agg(DISTINCT note, ' ') FROM effect WHERE job_id IN ($ids)"), '10|10|batch1', "$what: all run again, in their first attempts");
	return;
}

{
	my @jobs = begin_batch();
	kill_and_wait(sleeper('batch'));
	end_rest('batch');
	are_first_attempts(\@jobs, 'kill -9 of the worker in a call for ten jobs');
	is(sql('SELECT count(DISTINCT xid) FROM effect WHERE job_id IN (' . join(',', @jobs) . ')'), '10', '... in ten calls');
}

# One process of several in a call crashes: the call is under suspicion only, until that happens twice.
{
	queue('parallel', q{BEGIN
		EXECUTE format('SET LOCAL %s = on', (SELECT name FROM pg_settings WHERE name IN ('debug_parallel_query', 'force_parallel_mode')));
		EXECUTE 'SELECT pg_sleep(3600)'; END}, handler => $long);
	my $bad = job('parallel');
	my $helpers = q{FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event = 'PgSleep'};
	for (1 .. 2)
	{
		wait_for($node, "count(*) = 1 $helpers");
		kill_and_wait(sql("SELECT pid $helpers"));
	}
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $bad");
	pass('kill -9 of the parallel worker of a call, twice: the job has lost an attempt');
	sql("SELECT pgq_cancel($bad)");
}

for my $mode ('smart', 'fast', 'immediate')
{
	my @jobs = (begin_calls('one', 'two'), begin_batch());
	stop_and_start($node, $mode);
	is_first_attempt(shift @jobs, $_, "$mode stop: a job in work runs after the start") for 'one', 'two';
	are_first_attempts(\@jobs, 'a call for ten jobs');
	is(sql(q{SELECT count(*) FROM pgq_ext.handler WHERE next_try_at > now()}), '0', '... no queue rests');
}
is(sql('SELECT * FROM pgq_check()'), '', 'all is well');

# ---- standby and promotion ----

{
	$node->backup('b');
	ok(!-e $node->backup_dir . '/b/pg_stat_tmp/pgq_ext.calls', 'notes of calls are not part of a backup');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'b', has_streaming => 1);
	$standby->start;
	my ($one) = begin_calls('one');
	my @rest = map { job('one') } 1 .. 5;
	$node->wait_for_catchup($standby);
	is(workers($standby, '%'), '0', 'a standby has no worker');
	$node->stop('immediate');
	$standby->promote;
	$node = $standby;
	is_first_attempt($_, 'one', 'after a promotion a job runs') for $one, @rest;
	is(sql('SELECT * FROM pgq_check()'), '', 'all is well');
}

done_testing();
