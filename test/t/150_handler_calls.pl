# The calls of handlers: a call and the end of its job are one transaction; a call that fails leaves nothing but its error.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use HandlerTest ':calls';

my $node = handler_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }

# The same with this node.
sub queue   { return handled_queue($node, @_) }
sub job     { return enqueue($node, @_) }
sub end     { return end_of($node, $_[0]) }
sub effects { return effects_of($node, $_[0]) }

# The attempts of a job, as "outcome outcome".
sub attempts { return sql("SELECT string_agg(outcome, ' ' ORDER BY lease) FROM pgq_ext.attempt WHERE job_id = $_[0]") }

# ---- the result ----

{
	queue('results', q{BEGIN
		INSERT INTO effect VALUES (job.job_id, job.queue || ' ' || job.attempt);
		RETURN job.payload; END}, returns => 'jsonb');
	my $job = job('results', '{"a": [1, 2]}');
	is(end($job), 'acked|{"a": [1, 2]}|', 'what a handler returns is the result of the job');
	is(effects($job), 'results 1', '... whose columns the handler sees');
	is(sql("SELECT worker, attempts FROM pgq_ext.finished_job WHERE job_id = $job"), 'handler|0', '... and its record says who ran it');
	wait_for($node, q{calls = 1 AND failures = 0 AND running <= 1 FROM pgq_ext.handler WHERE queue = 'results'});
	pass('... and the view counts the call');

	queue('nulls', 'BEGIN RETURN NULL; END', returns => 'jsonb');
	is(end(job('nulls')), 'acked||', 'NULL is no result');
	queue('voids', 'BEGIN INSERT INTO effect VALUES (job.job_id); END');
	is(end(job('voids')), 'acked||', 'nor is void');
	sql(q{CREATE FUNCTION handle_sql(job pgq_ext.claimed_job) RETURNS jsonb LANGUAGE sql STABLE STRICT AS 'SELECT job.payload FROM pg_class WHERE relname = ''effect'''});
	sql(q{SELECT pgq_set_handler('voids', 'handle_sql'::regproc::regprocedure, run_as => 'worker')});
	is(end(job('voids', '"stable"')), 'acked|"stable"|', 'a handler in SQL that is STABLE and STRICT');
	sql(q{SELECT pgq_set_handler('voids', 'handle_voids'::regproc::regprocedure, run_as => 'worker')});
}

# ---- an error ----

{
	queue('errors', q{BEGIN
		INSERT INTO effect VALUES (job.job_id, 'undone');
		RAISE 'no % good', job.attempt USING ERRCODE = 'AB123', DETAIL = 'at all'; END}, queue => 'max_attempts => 3');
	my $job = job('errors');
	like(end($job), qr/\Adead\|\|no 3 good \(SQLSTATE AB123\)\nDETAIL:  at all\nCONTEXT:  PL\/pgSQL function handle_errors\(/,
		'a call that fails: the error has message, SQLSTATE, detail and context');
	is(effects($job), '', '... and nothing else is left of the call');
	is(attempts($job), 'failed failed failed', '... each call is an attempt');
	is(sql("SELECT string_agg(substring(error FROM 'no . good'), ',' ORDER BY lease) FROM pgq_ext.attempt WHERE job_id = $job"),
		'no 1 good,no 2 good,no 3 good', '... with its error');
	is(sql("SELECT attempts, reason FROM pgq_ext.dead_letter WHERE job_id = $job"), '3|attempts used up', '... the last one makes it a dead letter');
	is(sql(q{SELECT calls, failures, last_error FROM pgq_ext.handler WHERE queue = 'errors'}), '3|3|no 3 good', '... and the view has counted all');
}
# ---- several jobs in a call ----

# Enqueues jobs with these payloads while the handler is paused, so that it gets them together.
sub together
{
	my ($queue, $payloads) = @_;
	sql("SELECT pgq_pause_handler('$queue')");
	wait_for($node, "state = 'paused' FROM pgq_ext.handler WHERE queue = '$queue'");
	sql("SELECT count(pgq_enqueue('$queue', payload)) FROM ($payloads) p(payload)");
	sql("SELECT pgq_resume_handler('$queue')");
	return;
}
# How many attempts have ended how, as "acked 3, failed 2".
sub outcomes
{
	return sql("SELECT string_agg(outcome || ' ' || n, ', ' ORDER BY outcome) FROM (SELECT outcome, count(*) n FROM pgq_ext.attempt
		JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$_[0]' GROUP BY outcome) o");
}
sub wait_until_empty { return wait_for($node, "count(*) = 0 FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$_[0]'") }

my %batch = (
	scalar => q{BEGIN
		INSERT INTO effect VALUES (job.job_id, job.queue);
		IF job.payload ? 'bad' THEN RAISE 'bad job'; END IF; END},
	arrays => q{BEGIN
		INSERT INTO effect SELECT j.job_id, j.queue FROM unnest(jobs) j;
		IF EXISTS (SELECT FROM unnest(jobs) j WHERE j.payload ? 'bad') THEN RAISE 'bad job'; END IF; END});
for my $kind (sort keys %batch)
{
	my @options = (queue => 'max_attempts => 2', handler => 'batch => 10', array => $kind eq 'arrays');
	queue($kind, $batch{$kind}, @options);
	together($kind, q{SELECT '{}'::jsonb FROM generate_series(1, 50)});
	wait_until_empty($kind);
	is(sql("SELECT count(*), count(DISTINCT job_id), count(DISTINCT xid) FROM effect WHERE note = '$kind'"), '50|50|5',
		"$kind: 50 jobs with batch 10 are five transactions");
	# A call is counted after its commit.
	wait_for($node, "calls >= 5 FROM pgq_ext.handler WHERE queue = '$kind'");
	is(sql("SELECT calls, failures FROM pgq_ext.handler WHERE queue = '$kind'"), '5|0', '... and five calls');
	sql('TRUNCATE effect');

	sql("SELECT pgq_set_handler('$kind', 'handle_$kind(pgq_ext.claimed_job" . ($kind eq 'arrays' ? '[]' : '') . ")', batch => 500, run_as => 'worker')");
	together($kind, q{SELECT CASE i WHEN 250 THEN '{"bad": 1}' ELSE '{}' END::jsonb FROM generate_series(1, 500) i});
	wait_until_empty($kind);
	is(outcomes($kind), 'acked 549, failed 2', "$kind: one job of 500 fails: it alone loses its attempts");
	is(sql("SELECT count(*), count(DISTINCT job_id) FROM effect WHERE note = '$kind'"), '499|499', '... and the others have run once');
	is(sql("SELECT max(attempts) FROM pgq_ext.finished_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$kind'"), '0', '... none of them with a failed attempt');
	is(sql("SELECT last_error LIKE 'bad job (SQLSTATE P0001)%' FROM pgq_ext.dead_letter WHERE queue = '$kind'"), 't', '... and the dead letter has its own error');
}

queue('picky', q{BEGIN
	PERFORM pgq_fail(j.job_id, j.lease, 'not this one', retry => false) FROM unnest(jobs) j WHERE j.payload ? 'bad';
	PERFORM pgq_ack(j.job_id, j.lease, '"by itself"') FROM unnest(jobs) j WHERE j.payload ? 'own';
	INSERT INTO effect SELECT j.job_id, 'picky' FROM unnest(jobs) j; END}, array => 1, handler => 'batch => 500');
together('picky', q{SELECT CASE i % 200 WHEN 7 THEN '{"bad": 1}' WHEN 17 THEN '{"own": 1}' ELSE '{}' END::jsonb FROM generate_series(1, 500) i});
wait_until_empty('picky');
is(outcomes('picky'), 'acked 497, failed 3', 'an array handler that fails three jobs of 500: they alone have failed');
is(sql(q{SELECT count(*) FROM pgq_ext.dead_letter WHERE queue = 'picky' AND last_error = 'not this one'}), '3', '... with its reason');
is(sql(q{SELECT count(*) FROM pgq_ext.finished_job WHERE result = '"by itself"'}), '3', '... those that it has acknowledged have its result');
wait_for($node, q{calls >= 1 FROM pgq_ext.handler WHERE queue = 'picky'});
is(sql(q{SELECT calls, failures FROM pgq_ext.handler WHERE queue = 'picky'}), '1|0', '... all of that in one call');
is(sql(q{SELECT count(*), count(DISTINCT xid) FROM effect WHERE note = 'picky'}), '500|1', '... and in one transaction');

# Jobs with large payloads: a call gets at most 16 MB of them, or one job. The note says how many it has got.
{
	for my $fair ('false', 'true')
	{
		my $queue = "large_$fair";
		queue($queue, q{BEGIN INSERT INTO effect SELECT j.job_id, cardinality(jobs) || ' of ' || octet_length(j.payload ->> 'large') FROM unnest(jobs) j; END},
			array => 1, queue => "fair => $fair", handler => 'batch => 500');
		together($queue, q{SELECT jsonb_build_object('large', repeat('x', CASE i WHEN 12 THEN 17 WHEN 80 THEN 0 ELSE 1 END * 1000 * 1000)) FROM generate_series(1, 100) i});
		wait_until_empty($queue);
		is(outcomes($queue), 'acked 100', "large payloads, fair => $fair: all jobs run");
		my $notes = "FROM effect JOIN pgq_ext.finished_job USING (job_id) JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue'";
		is(sql("SELECT max(split_part(note, ' ', 1)::int) $notes"), '17', '... at most 16 MB in a call');
		is(sql("SELECT note $notes AND note LIKE '% of 17000000'"), '1 of 17000000', '... and a larger job alone');
		cmp_ok(sql("SELECT count(DISTINCT xid) $notes"), '<=', 10, '... in few calls');
		is(sql("SELECT failures FROM pgq_ext.handler WHERE queue = '$queue'"), '0', '... none of which has failed');
	}
	create_queue($node, 'large_client');
	is(sql(q{SELECT count(pgq_enqueue('large_client', jsonb_build_object('large', repeat('x', 1000 * 1000)))) FROM generate_series(1, 40)}), '40', 'pgq_claim has no such limit');
	is(sql(q{SELECT count(*) FROM pgq_claim('large_client', 500)}), '40', '... it gets all jobs');
	sql(q{SELECT pgq_drop_queue('large_client', force => true)});
}

# ---- a call that ends its job itself ----

{
	# Does what the payload says once, with the id and the lease of the job, and leaves the number of the attempt each time.
	queue('own', q{BEGIN
		IF NOT EXISTS (SELECT FROM effect e WHERE e.job_id = job.job_id) THEN EXECUTE format(job.payload ->> 'do', job.job_id, job.lease); END IF;
		INSERT INTO effect VALUES (job.job_id, job.attempt);
		RETURN '"returned"'; END}, returns => 'jsonb');
	sql('GRANT USAGE ON SCHEMA pgq_ext TO worker; GRANT SELECT, DELETE ON pgq_ext.job TO worker');
	my @cases = (
		[ q{SELECT pgq_ack(%s, %s, '"own"')}, 'acked|"own"|', '1', 'acked' ],
		[ q{SELECT pgq_ack_many('{%s}', '{%s}')}, 'acked||', '1', 'acked' ],
		[ q{SELECT pgq_fail(%s, %s, 'reason', retry_in => '0')}, 'acked|"returned"|', '1 2', 'failed acked' ],
		[ q{SELECT pgq_fail(%s, %s, 'reason', retry => false)}, 'dead||reason', '1', 'failed' ],
		[ q{SELECT pgq_release(%s, %s, delay => '100 ms')}, 'acked|"returned"|', '1 1', 'released acked' ],
		[ q{SELECT pgq_cancel(%s)}, 'cancelled||', '1', 'cancelled' ],
		[ q{SELECT pgq_extend(%s, %s, '1 hour')}, 'acked|"returned"|', '1', 'acked' ],
		[ q{SELECT pgq_progress(%s, %s, '50')}, 'acked|"returned"|', '1', 'acked' ],
		[ q{SELECT pgq_assert_lease(%s, %s)}, 'acked|"returned"|', '1', 'acked' ],
		[ q{SELECT pgq_update(%s, priority => 3)}, 'acked|"returned"|', '1', 'acked' ],
		[ q{SELECT pgq_retry(%s)}, 'acked|"returned"|', '1', 'acked' ],
		[ q{DO $do$ BEGIN PERFORM pgq_fail(%s, %s); RAISE 'undone'; EXCEPTION WHEN raise_exception THEN NULL; END $do$}, 'acked|"returned"|', '1', 'acked' ]);
	for my $case (@cases)
	{
		my ($do, $end, $effects, $attempts) = @$case;
		my $job = sql(qq{SELECT pgq_enqueue('own', jsonb_build_object('do', \$q\$$do\$q\$))});
		is(end($job), $end, "a handler does: $do");
		is(effects($job), $effects, '... and its effects are there');
		is(attempts($job), $attempts, '... with its attempts');
	}
	is(sql(q{SELECT failures FROM pgq_ext.handler WHERE queue = 'own'}), '0', 'no call has failed');

	# Without its own ack the first of these would find its queue full, and the second would meet itself.
	for my $case ([ 'full', q{}, 'max_depth => 1' ], [ 'chained', q{, unique_key => 'k'}, 'max_attempts => 1' ])
	{
		my ($queue, $key, $option) = @$case;
		queue($queue, qq{BEGIN
			PERFORM pgq_ack(job.job_id, job.lease);
			IF job.payload < '4' THEN PERFORM pgq_enqueue(job.queue, to_jsonb(job.payload::int + 1) $key); END IF;
			INSERT INTO effect VALUES (0, job.queue || job.payload); END}, queue => $option);
		sql("SELECT pgq_enqueue('$queue', '1' $key)");
		wait_for($node, "count(*) = 4 FROM effect WHERE note ~ '$queue\[1-4]'");
		pass("... and a handler that enqueues its successor after its own ack: $queue");
	}
}

# ---- other things that a call does to queues ----

{
	create_queue($node, 'other', q{keep_attempts => '1 day', log_attempts => 'all', lease_time => '1 hour'});
	# Does what the payload says; raises an error at the end of the first attempt.
	queue('does', q{BEGIN
		EXECUTE job.payload ->> 'do';
		INSERT INTO effect VALUES (job.job_id, job.attempt);
		IF job.attempt = 1 AND job.payload ? 'fail' THEN RAISE 'once more'; END IF; END});
	my $does = sub {
		my ($do, $fail) = @_;
		$fail = $fail ? q{, 'fail', 1} : '';
		my $job = sql(qq{SELECT pgq_enqueue('does', jsonb_build_object('do', \$q\$$do\$q\$$fail))});
		is(end($job), 'acked||', "a handler does: $do");
		return $job;
	};
	my $job = $does->(q{SELECT pgq_enqueue('other', '1')}, 1);
	is(attempts($job), 'failed acked', '... twice, since it has failed');
	is(sql(q{SELECT ready FROM pgq_ext.queue_status WHERE queue = 'other'}), '1', '... and has enqueued once');
	$does->(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('other')});
	is(sql(q{SELECT count(*) FROM pgq_ext.attempt JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'other' AND outcome = 'acked'}), '1', '... and has done the work of another queue');
	wait_until_empty('other');

	sql(q{SELECT pgq_enqueue('other', '2')});
	$does->(q{SELECT FROM pgq_claim('other', worker => 'nested')});
	is(sql(q{SELECT worker, session_bound FROM pgq_ext.lease WHERE queue = 'other'}), 'nested|f', 'a claim in a call: the lease lives on');
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE queue = 'other'});
	my $bound = sql(q{SELECT pgq_enqueue('other', '3')});
	$does->(q{SELECT FROM pgq_claim('other', session_bound => true)});
	wait_for($node, "count(*) = 1 FROM pgq_ext.attempt WHERE job_id = $bound AND outcome = 'lost'");
	is(sql("SELECT reason FROM pgq_ext.attempt WHERE job_id = $bound"), 'the session of its worker ended', '... unless it is bound to the session');
	sql("SELECT pgq_cancel($bound)");
	$does->(q{SELECT pgq_lock('kept'), pgq_lock('bound', session_bound => true)});
	# What is bound to the session ends after the commit of the call.
	wait_for($node, q{count(*) FILTER (WHERE name = 'bound') = 0 FROM pgq_ext.lock WHERE expires_at > now()});
	is(sql(q{SELECT string_agg(name, ' ') FROM pgq_ext.lock WHERE expires_at > now()}), 'kept', '... and so are locks');

	$does->(q{SELECT pgq_pause_handler('does')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'does'});
	pass('... after the call it is so');
	sql(q{SELECT pgq_resume_handler('does')});
	$does->(q{SELECT pgq_set_handler('does', 'handle_does'::regproc::regprocedure, timeout => '2 min', run_as => 'worker')});
	is(sql(q{SELECT timeout FROM pgq_ext.handler WHERE queue = 'does'}), '00:02:00', '... after the call it is so');
	$does->(q{SELECT pgq_drop_handler('does')});
	is(sql(q{SELECT count(*) FROM pgq_ext.handler WHERE queue = 'does'}), '0', '... after the call it is so');

}

# ---- conflicts with other transactions ----

for my $state ('40001', '40P01')
{
	# A sequence is not undone.
	sql("CREATE SEQUENCE tries$state; GRANT ALL ON SEQUENCE tries$state TO worker");
	queue("conflict_\L$state", qq{BEGIN
		IF nextval('tries$state') <= (job.payload ->> 'conflicts')::int THEN RAISE 'conflict' USING ERRCODE = '$state'; END IF; END}, queue => 'max_attempts => 2');
	my $job = job("conflict_\L$state", '{"conflicts": 3}');
	is(end($job), 'acked||', "a call that fails with $state is tried again");
	is(attempts($job), 'acked', '... three times, in the same attempt');
	is(sql("SELECT last_value FROM tries$state"), '4', '... and no more often than needed');
	$job = job("conflict_\L$state", '{"conflicts": 8}');
	is(end($job), 'acked||', '... the fourth time');
	is(attempts($job), 'failed acked', '... it is an attempt');
	sql("SELECT setval('tries$state', 1)");
	$job = job("conflict_\L$state", '{"conflicts": 100}');
	like(end($job), qr/\Adead\|\|conflict \(SQLSTATE $state\)/, '... as is each further time');
	is(sql("SELECT last_value FROM tries$state"), '9', '... of four calls');
}

# ---- what the server lacks ----

sql('CREATE SEQUENCE disks; GRANT ALL ON SEQUENCE disks TO worker');
queue('lacks', q{BEGIN INSERT INTO effect VALUES (job.job_id, job.attempt); IF nextval('disks') < 3 THEN RAISE 'no disk' USING ERRCODE = '53100'; END IF; END}, queue => 'max_attempts => 1');
{
	my $job = job('lacks');
	is(end($job), 'acked||', 'a call that fails because the server lacks something is tried again later');
	is(attempts($job), 'released released acked', '... which costs no attempt');
	is(effects($job), '1', '... and its work is done once');
}

# ---- what a handler cannot do, and what does not matter ----

{
	sql(q{CREATE ROLE friend; CREATE ROLE stranger; GRANT friend TO worker});
	queue('tries', q{DECLARE statement text; BEGIN
		FOR statement IN SELECT jsonb_array_elements_text(job.payload) LOOP EXECUTE statement; END LOOP;
		RETURN to_jsonb(session_user || ' ' || current_user); END}, returns => 'jsonb', queue => 'max_attempts => 1');
	sql(q{SELECT pgq_grant('tries', 'worker', '{claim}')});
	for my $case ([ 'SET SESSION AUTHORIZATION postgres', '42501' ], [ 'SET ROLE stranger', '42501' ], [ 'SET session_replication_role = replica', '42501' ],
		[ 'COPY effect TO STDOUT', '0A000' ], [ 'LISTEN news', '0A000' ], [ q{PREPARE TRANSACTION 'p'}, '0A000' ], [ 'COMMIT', '0A000' ],
		[ 'DO $$ BEGIN COMMIT; END $$', '2D000' ], [ 'DISCARD ALL', '25001' ], [ q{SET TRANSACTION ISOLATION LEVEL SERIALIZABLE}, '25001' ])
	{
		my ($statement, $state) = @$case;
		like(end(job('tries', qq{["$statement"]})), qr/\Adead\|\|.* \(SQLSTATE $state\)/, "a handler cannot: $statement");
	}
	for my $case ([ '"RESET ROLE"', 'worker worker' ], [ '"RESET SESSION AUTHORIZATION"', 'worker worker' ], [ '"SET ROLE friend"', 'worker friend' ],
		[ '"SET ROLE friend", "RESET ROLE"', 'worker worker' ], [ '"SET LOCAL ROLE friend"', 'worker friend' ], [ '"NOTIFY news"', 'worker worker' ])
	{
		my ($statements, $who) = @$case;
		is(end(job('tries', "[$statements]")), qq{acked|"$who"|}, "a handler can: $statements, and the ack has the right of its role");
		is(end(job('tries', '[]')), 'acked|"worker worker"|', '... and the next call is as ever');
	}
}

# A role that has another one by default.
{
	sql(q{CREATE ROLE masked LOGIN; GRANT friend TO masked; ALTER ROLE masked SET role = friend; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO masked, friend});
	queue('masked', q{DECLARE statement text; BEGIN
		FOR statement IN SELECT jsonb_array_elements_text(job.payload) LOOP EXECUTE statement; END LOOP;
		RETURN to_jsonb(session_user || ' ' || current_user || ' ' || current_setting('role')); END}, returns => 'jsonb', role => 'masked', queue => 'max_attempts => 1', handler => q{idle => '1 day'});
	for my $statements ('', '"SET ROLE masked"', '"SET ROLE NONE"', '"SET SESSION AUTHORIZATION masked"', '"SET SESSION AUTHORIZATION DEFAULT"',
		'"SET SESSION AUTHORIZATION masked", "SET SESSION AUTHORIZATION DEFAULT"')
	{
		like(end(job('masked', "[$statements]")), qr/\Aacked\|"masked /, "a role with a default role: [$statements]");
		is(end(job('masked', '[]')), 'acked|"masked friend friend"|', '... and the next call is as ever');
	}
}

# ---- what a call leaves does not reach the next job ----

{
	# The only worker of its role, so all jobs are run by one process.
	sql(q{CREATE ROLE tidy LOGIN; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO tidy; GRANT friend TO tidy; GRANT ALL ON effect TO tidy;
		CREATE SEQUENCE numbers; GRANT ALL ON SEQUENCE numbers TO tidy});
	queue('leaves', q{BEGIN
		INSERT INTO effect VALUES (job.job_id, concat_ws(' ', current_user, current_setting('work_mem'), NULLIF(current_setting('my.name', true), ''), to_regclass('pg_temp.t'),
			(SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'), (SELECT count(*) FROM pg_cursors WHERE name = 'c'),
			(SELECT count(*) FROM pg_prepared_statements)));
		IF job.payload ? 'leave' THEN
			EXECUTE 'SET work_mem = 65; SET my.name = $x$left$x$; CREATE TEMP TABLE t (); PREPARE p AS SELECT 1; DECLARE c CURSOR WITH HOLD FOR SELECT 1';
			PERFORM pg_advisory_lock(77), pg_advisory_lock_shared(78), nextval('numbers');
			EXECUTE 'SET ROLE friend';
		ELSE
			BEGIN PERFORM currval('numbers'); RAISE 'there is a currval'; EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL; END;
		END IF;
		IF job.payload ? 'fail' THEN RAISE 'failed'; END IF; END}, role => 'tidy', queue => 'max_attempts => 1', handler => q{idle => '1 day'});
	my $before = job('leaves');
	is(end($before), 'acked||', 'a call');
	for my $how ('{"leave": 1}', '{"leave": 1, "fail": 1}')
	{
		my $leaves = job('leaves', $how);
		like(end($leaves), $how =~ /fail/ ? qr/\Adead\|\|failed/ : qr/\Aacked/, "a call that leaves much in its session: $how");
		my $after = job('leaves');
		is(end($after), 'acked||', '... and the next one');
		is(effects($after), effects($before), '... finds nothing');
	}
	like(effects($before), qr/\Atidy \d+\w+ +0 0 0\z/, 'that is, nothing');
	is(sql(qq{SELECT count(DISTINCT pid) FROM effect WHERE job_id >= $before}), '1', '... in the same process');
}

# ---- an error at the commit ----

sql(q{CREATE TABLE late (job_id bigint); GRANT ALL ON late TO worker;
	CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'too late for %', NEW.job_id USING ERRCODE = '23514'; END $$;
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()});
for my $batch (1, 100)
{
	queue("late$batch", q{BEGIN
		INSERT INTO effect VALUES (job.job_id, job.queue);
		IF job.payload ? 'bad' THEN INSERT INTO late VALUES (job.job_id); END IF; END}, queue => 'max_attempts => 2', handler => "batch => $batch");
	together("late$batch", q{SELECT CASE i WHEN 3 THEN '{"bad": 1}' ELSE '{}' END::jsonb FROM generate_series(1, 20) i});
	wait_until_empty("late$batch");
	is(outcomes("late$batch"), 'acked 19, failed 2', "batch $batch: an error of a deferred trigger, at the commit, is an attempt of the job");
	is(sql("SELECT last_error LIKE 'too late for ' || job_id || ' (SQLSTATE 23514)%' FROM pgq_ext.dead_letter WHERE queue = 'late$batch'"), 't', '... which has the error');
	is(sql("SELECT count(*) FROM effect WHERE note = 'late$batch'"), '19', '... and the work of the others is done once');
}

# ---- large results ----

queue('large', q{BEGIN RETURN to_jsonb(repeat('x', (job.payload ->> 'length')::int)); END}, returns => 'jsonb', queue => 'max_attempts => 1');
{
	my $job = job('large', '{"length": 10000000}');
	sql("SELECT state FROM pgq_result($job, wait => '60 s')");
	is(sql("SELECT outcome, length(result::text) FROM pgq_ext.finished_job WHERE job_id = $job"), 'acked|10000002', 'a result of 10 MB');
	like(end(job('large', '{"length": 300000000}')), qr/\Adead\|\|.*\(SQLSTATE 54000\)/, 'a result that is too large is an error of the call');
	is(end(job('large', '{"length": 1}')), 'acked|"x"|', '... and the worker goes on');
	sql(q{CREATE TABLE large (j jsonb); ALTER TABLE large ALTER j SET STORAGE EXTERNAL; GRANT ALL ON large TO worker; INSERT INTO large VALUES (to_jsonb(repeat('y', 100000)))});
	queue('toasted', q{DECLARE r jsonb; BEGIN DELETE FROM large RETURNING j INTO r; RETURN r; END}, returns => 'jsonb');
	is(end(job('toasted')), 'acked|"' . 'y' x 100000 . '"|', 'a result out of a row that the call has deleted');
}

# ---- defaults of the role ----

for my $default ('default_transaction_isolation = serializable', q{default_transaction_isolation = 'repeatable read'}, 'default_transaction_read_only = on',
	'default_transaction_deferrable = on')
{
	my ($name) = $default =~ /^(\w+)/;
	my $role = 'role' . sql('SELECT count(*) FROM pg_roles');
	sql("CREATE ROLE $role LOGIN; GRANT worker TO $role; ALTER ROLE $role SET $default; CREATE TABLE orders_$role (n int); GRANT SELECT ON orders_$role TO $role");
	queue("with_$role", qq{BEGIN INSERT INTO effect VALUES (job.job_id, current_setting('transaction_isolation') || ' ' || (SELECT count(*) FROM orders_$role)); END},
		role => $role, handler => q{idle => '1 day'}, queue => 'max_attempts => 1');
	my $job = job("with_$role");
	is(end($job), 'acked||', "a role with $default");
	# While it waits for work, it keeps nobody from anything.
	wait_for($node, qq{count(*) = 1 AND bool_and(state = 'idle' AND backend_xmin IS NULL AND backend_xid IS NULL AND xact_start IS NULL
			AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND locktype <> 'virtualxid'))
		FROM pg_stat_activity a WHERE backend_type = 'pgq_ext handler' AND usename = '$role'});
	pass('... its idle worker has no transaction, no snapshot and no lock');
	$job = sql(qq{BEGIN; INSERT INTO orders_$role VALUES (1); SELECT pgq_enqueue('with_$role', '{}'); COMMIT});
	is(end($job), 'acked||', '... a job that comes then');
	like(effects($job), qr/\A(?:serializable|repeatable read|read committed) 1\z/, '... sees what was committed with it');
}

# ---- a job takes one transaction id ----

{
	sql(q{SELECT pgq_pause_handler('voids')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'voids'});
	sql(q{SELECT count(pgq_enqueue('voids', '{}')) FROM generate_series(1, 200)});
	my $before = sql('SELECT pg_current_xact_id()');
	sql(q{SELECT pgq_resume_handler('voids')});
	wait_until_empty('voids');
	my $taken = sql('SELECT pg_current_xact_id()') - $before;
	cmp_ok($taken, '>=', 200, '200 jobs, each in a transaction of its own');
	cmp_ok($taken, '<', 220, '... take hardly more transaction ids');
}

# ---- a lease that is not current any more ----

{
	queue('gone', q{BEGIN INSERT INTO effect VALUES (job.job_id, 'gone'); IF job.payload ? 'wait' THEN PERFORM pg_advisory_xact_lock(1); END IF; END}, handler => q{timeout => '1 h', idle => '1 h'});
	my $gate = session($node);
	for my $how (q{DELETE FROM pgq_ext.job WHERE job_id = %s}, q{SELECT pgq_cancel(%s)}, q{SELECT pgq_fail(%s, (SELECT lease FROM pgq_ext.lease WHERE job_id = %1$s))},
		q{SELECT pgq_ack(%s, (SELECT lease FROM pgq_ext.lease WHERE job_id = %1$s))})
	{
		my $failures = sql(q{SELECT failures FROM pgq_ext.handler WHERE queue = 'gone'});
		ask($gate, 'SELECT pg_advisory_lock(1)');
		my $job  = job('gone', '{"wait": 1}');
		my $next = job('gone');
		my $pid  = wait_until_called($node, 'gone');
		sql(sprintf $how, $job);
		ask($gate, 'SELECT pg_advisory_unlock(1)');
		is(end($next), 'acked||', "another session does during a call: $how; the next job runs");
		is(sql("SELECT count(*) FROM pgq_ext.attempt WHERE job_id = $job AND outcome = 'lost'"), '0', '... the attempt does not count as lost');
		end($job) if $how =~ /fail/;
		is(effects($job), $how =~ /fail/ ? 'gone' : '', '... and the call has left nothing');
		is(sql(q{SELECT failures FROM pgq_ext.handler WHERE queue = 'gone'}), $failures, '... and did not fail');
		is(sql("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid"), '1', '... nor has it ended the worker');
	}

	# In a call for several jobs it is the matter of one.
	sql(q{SELECT pgq_set_handler('gone', 'handle_gone'::regproc::regprocedure, batch => 10, timeout => '1 h', run_as => 'worker')});
	ask($gate, 'SELECT pg_advisory_lock(1)');
	together('gone', q{SELECT CASE i WHEN 5 THEN '{"wait": 1}' ELSE '{}' END::jsonb FROM generate_series(1, 10) i});
	wait_until_called($node, 'gone');
	my ($first) = sql(q{SELECT min(job_id) FROM pgq_ext.lease WHERE queue = 'gone'});
	sql("SELECT pgq_cancel($first)");
	ask($gate, 'SELECT pg_advisory_unlock(1)');
	wait_until_empty('gone');
	is(sql("SELECT string_agg(DISTINCT outcome, ' '), count(*) FROM pgq_ext.attempt WHERE job_id > $first"), 'acked|9', 'one of ten jobs is cancelled during their call: the others run');
	is(sql("SELECT count(*), count(DISTINCT job_id) FROM effect WHERE job_id >= $first"), '9|9', '... and their work is done once');
	end_session($gate);
}

# ---- the end of its own row and queue ----

{
	my $job = sql(q{SELECT pgq_enqueue('own', jsonb_build_object('do', 'DELETE FROM pgq_ext.job WHERE job_id = %s'))});
	wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id = $job");
	is(effects($job), '1', 'a handler that deletes the row of its job: its work is done');

	# The right to answer is asked at the ack, and before an error counts.
	queue('closing', q{BEGIN
		INSERT INTO effect VALUES (job.job_id, job.attempt);
		PERFORM pg_advisory_xact_lock(1);
		IF nextval('disks') = job.payload::int THEN RAISE 'once'; END IF; END}, handler => q{timeout => '1 h'});
	my $gate = session($node);
	sql(q{SELECT pgq_grant('closing', 'worker', '{claim}')});
	for my $raises (0, 1)
	{
		sql(q{SELECT setval('disks', 99)});
		ask($gate, 'SELECT pg_advisory_lock(1)');
		my $job = job('closing', $raises ? '100' : '0');
		wait_until_called($node, 'closing');
		sql(q{SELECT pgq_revoke('closing', 'worker', '{claim}')});
		ask($gate, 'SELECT pg_advisory_unlock(1)');
		wait_for($node, "state <> 'leased' FROM pgq_ext.job_status WHERE job_id = $job");
		is(sql("SELECT attempts FROM pgq_ext.job WHERE job_id = $job"), '0', "a right that is revoked during the call costs no attempt" . ($raises ? ', nor does an error then' : ''));
		wait_for($node, q{state = 'suspended' FROM pgq_ext.handler WHERE queue = 'closing'});
		sql(q{SELECT pgq_grant('closing', 'worker', '{claim}')});
		is(end($job), 'acked||', '... and suspends the handler, until it is granted');
		is(effects($job), '1', '... then the job runs');
	}
	end_session($gate);

	queue('drops', q{BEGIN INSERT INTO effect VALUES (0, 'dropped'); PERFORM pgq_drop_queue('drops', force => true); END});
	job('drops');
	wait_for($node, q{count(*) = 0 FROM pgq_ext.queue WHERE queue = 'drops'});
	is(sql(q{SELECT count(*) FROM effect WHERE note = 'dropped'}), '1', 'a handler that drops its own queue: its work is done');
	is(end(job('voids')), 'acked||', '... and workers go on');
}

is(sql('SELECT * FROM pgq_check()'), '', 'all is well');
done_testing();
