# Workers of handlers: how many of them run, when they start and end, and how queues share the worker slots of the server.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use HandlerTest ':gate';

my $node = gated_node("pgq_ext.max_handler_workers = 8\nmax_prepared_transactions = 5\nautovacuum = off\n");
my $workers = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgq_ext handler'};

# Each transaction of calls takes the lock with the lowest number that no other one of the queue has, and notes the number. So the
# highest number is the largest number of calls that have run at the same time. A transaction with several jobs takes one lock only.
sql(q{CREATE FUNCTION app.counted(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ DECLARE i int := nullif(current_setting('app.number', true), ''); BEGIN
	IF i IS NULL THEN
		i := 1;
		WHILE NOT pg_try_advisory_xact_lock(hashtext(job.queue), i) LOOP i := i + 1; END LOOP;
		PERFORM set_config('app.number', i::text, true);
	END IF;
	PERFORM pg_advisory_xact_lock_shared(7);
	INSERT INTO app.ran (queue, payload, note) VALUES (job.queue, job.payload, i); END $$});
sub set_counted { my ($queue, $options) = @_; return sql("SELECT pgq_set_handler('$queue', 'app.counted(pgq_ext.claimed_job)', run_as => 'runner', $options)") }
sub enqueue { my ($queue, $n, $options) = @_; return sql("SELECT count(pgq_enqueue('$queue', to_jsonb(i)" . ($options ? ", $options" : '') . ")) FROM generate_series(1, $n) i") }
sub most_at_once { my ($queue) = @_; return sql("SELECT max(note::int) FROM app.ran WHERE queue = '$queue'") }
sub at_gate { return sql(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted}) }

# ---- the first handler of a database ----

# The scheduler looks at the handlers once a second, also if there are none. The first handler does not wait for such a look: in some
# round its worker runs a job less than a second after the look before. A look that put off the next one would do so in every round.
sql(q{CREATE FUNCTION app.timed(job pgq_ext.claimed_job) RETURNS void LANGUAGE sql AS
	$$ INSERT INTO app.ran (queue, payload, note) VALUES (job.queue, job.payload, clock_timestamp()) $$});
create_queue($node, 'first');
my $waited;
for (1 .. 60)
{
	sql(q{SELECT pgq_drop_handler('first'); SELECT pgq_enqueue('first', '1'); TRUNCATE app.ran});
	wait_for_look();
	my $look = sql(q{SELECT last_run_at FROM pgq_ext.duty WHERE duty = 'handlers'});
	sql(q{SELECT pgq_set_handler('first', 'app.timed(pgq_ext.claimed_job)', run_as => 'runner', idle => '0')});
	wait_until_ran(1, 'first');
	$waited = sql("SELECT extract(epoch FROM note::timestamptz - '$look') FROM app.ran");
	last if $waited < 0.9;
}
cmp_ok($waited, '<', 0.9, 'the first handler of a database begins at once');
sql(q{SELECT pgq_drop_queue('first'); TRUNCATE app.ran});
wait_for_workers(0);

# ---- `workers` ----

create_queue($node, 'w');
set_counted('w', q{workers => 3, timeout => '10 min'});
close_gate();
enqueue('w', 30);
wait_at_gate(3);
pass('a second and a third worker start while jobs stay claimable');
wait_for_look();
is(at_gate() . '|' . sql(q{SELECT running, state FROM pgq_ext.handler WHERE queue = 'w'}) . '|' . sql($workers), '3|3|active|3', '... no fourth one');
set_counted('w', q{workers => 1, timeout => '10 min'});
wait_for_look();
is(at_gate(), '3', 'fewer workers: calls in progress go on');
open_gate();
wait_until_ran(30, 'w');
wait_until_idle();
close_gate();
sql('TRUNCATE app.ran');
enqueue('w', 5);
wait_at_gate(1);
wait_for_look();
is(at_gate() . '|' . sql(q{SELECT running FROM pgq_ext.handler WHERE queue = 'w'}), '1|1', '... later calls are one at a time');
set_counted('w', q{workers => 2, timeout => '10 min'});
wait_at_gate(2);
wait_for_look();
is(at_gate(), '2', '... or two');
open_gate();
wait_until_idle();
is(most_at_once('w'), '2', '... and never more');

create_queue($node, "w$_") for 1 .. 3;
sql('TRUNCATE app.ran');
set_counted("w$_", "workers => $_, batch => 1 + $_ % 2 * 4, idle => '0'") for 1 .. 3;
sql(q{SELECT count(pgq_enqueue('w' || 1 + i % 3, to_jsonb(i))) FROM generate_series(1, 300) i}) for 1 .. 5;
wait_until_idle();
is(sql('SELECT count(*) FROM app.ran'), '1500', 'three queues of a role share their workers: all jobs run');
cmp_ok(most_at_once("w$_"), '<=', $_, "... at most $_ at a time of w$_") for 1 .. 3;

# ---- a worker ends after `idle`, and comes back ----

sql(q{SELECT count(pgq_drop_queue(queue)) FROM pgq_ext.queue; TRUNCATE app.ran});
create_queue($node, 'i', 'notify => false');
set_handler('i', q{run_as => 'runner', idle => '1 s'});
wait_for_workers(0);
runs_ok('i', 'a worker starts for a job');
wait_for_workers(0);
pass('... and ends when it has had none for the time "idle"');
sql(q{SELECT pgq_enqueue('i', '2', delay => '2 s'), pgq_enqueue('i', '3', delay => '3 s')});
wait_until_ran(3, 'i');
pass('jobs that become due later run, though no worker is there');
sql(q{CREATE FUNCTION app.fails_once(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	IF job.attempt = 1 THEN RAISE EXCEPTION 'not yet'; END IF; INSERT INTO app.ran (queue, payload) VALUES (job.queue, '"again"'); END $$});
sql(q{SELECT pgq_alter_queue('i', backoff_base => '2 s'), pgq_set_handler('i', 'app.fails_once(pgq_ext.claimed_job)', run_as => 'runner', idle => '0'), pgq_enqueue('i', '4')});
wait_until_ran(4, 'i');
pass('... so do jobs that are tried again');
set_handler('i', q{run_as => 'runner', idle => '1 day'});
runs_ok('i', 'a worker that may idle for long');
my $pid = sql('SELECT pid FROM app.ran');
wait_for_look();
is(sql("SELECT backend_xmin IS NULL AND xact_start IS NULL AND state = 'idle' FROM pg_stat_activity WHERE pid = $pid"), 't', '... stays, and holds no snapshot');
is(sql("SELECT count(*) FROM pg_locks WHERE pid = $pid"), '0', '... and no lock');
runs_ok('i', '... and takes the next job');
is(sql('SELECT pid FROM app.ran'), $pid, '... itself');
sql(q{SELECT pgq_enqueue('i', '2', delay => '1 s')});
wait_until_ran(2, 'i');
is(sql('SELECT count(DISTINCT pid) FROM app.ran'), '1', '... also one that becomes due');

# ---- jobs that cannot be claimed start no worker ----

sub no_worker_ok { my ($what) = @_; wait_for_look(); return is(sql($workers), '0', "$what: no worker is started") }
sql(q{SELECT pgq_drop_queue('i')});
wait_for_workers(0);
create_queue($node, 'l');
set_counted('l', q{workers => 5, timeout => '10 min', idle => '0'});
sql(q{SELECT pgq_pause_queue('l')});
sql('TRUNCATE app.ran');
enqueue('l', 3);
no_worker_ok('the queue is paused');
sql(q{SELECT pgq_resume_queue('l')});
wait_until_ran(3, 'l');
pass('... until it goes on');
wait_for_workers(0);

sub limited_ok
{
	my ($what, $options, $jobs, $n, $at_once, $enqueue) = @_;
	sql(q{SELECT pgq_drop_queue('l', force => true); TRUNCATE app.ran});
	wait_for_workers(0);
	create_queue($node, 'l', $options);
	set_counted('l', q{workers => 5, timeout => '10 min', idle => '0'});
	close_gate();
	enqueue('l', $jobs, $enqueue);
	wait_at_gate($n);
	wait_for_look();
	is(at_gate() . '|' . sql(q{SELECT running FROM pgq_ext.handler}), "$n|$n", "$what: $n calls");
	open_gate();
	return;
}
limited_ok('concurrency', 'concurrency => 2', 10, 2);
wait_until_idle();
is(most_at_once('l'), '2', '... at a time');
limited_ok('group_concurrency', 'group_concurrency => 1', 12, 3, 3, q{group_key => 'g' || i % 3});
wait_until_idle();
is(most_at_once('l'), '3', '... at a time');
limited_ok('fifo', 'fifo => true', 12, 2, 2, q{group_key => 'g' || i % 2});
wait_until_idle();
is(sql(q{SELECT bool_and(payload > before) FROM (SELECT payload, lag(payload) OVER (PARTITION BY payload::int % 2 ORDER BY n) AS before FROM app.ran) r}), 't', '... the jobs of a group run in their order');
limited_ok('rate_limit', q{rate_limit => 3, rate_period => '1 day'}, 10, 3);
wait_until_ran(3, 'l');
wait_for_workers(0);
no_worker_ok('the rate is used up');
is(has_run('l'), '3', '... and no job runs');
limited_ok('group_rate_limit', q{group_rate_limit => 1, rate_period => '1 day'}, 10, 2, 2, q{group_key => 'g' || i % 2});
wait_until_ran(2, 'l');
wait_for_workers(0);
no_worker_ok('the rates of the groups are used up');
is(has_run('l'), '2', '... and no job runs');

# A rate that lets the next job start soon.
sql(q{SELECT pgq_drop_queue('l', force => true); TRUNCATE app.ran});
create_queue($node, 'l', q{rate_limit => 1, rate_period => '1 s', notify => false});
set_counted('l', q{idle => '0'});
enqueue('l', 3);
wait_until_ran(3, 'l');
pass('a worker starts again when the rate allows the next job');

# Jobs that a client waits for. A claim that was woken does not wait any more, so a look of the scheduler before the claim takes the
# job starts a worker, which may be first. That is rare.
{
	my $client = session($node);
	my $got = 0;
	wait_for_workers(0);
	sql(q{SELECT pgq_alter_queue('l', rate_limit => 0)});
	wait_for_look();
	for my $i (1 .. 10)
	{
		send_sql($client, q{SELECT payload FROM pgq_claim('l', wait => '20 s')});
		wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'l'});
		sql(q{SELECT pgq_enqueue('l', '9')});
		$got += reply($client) eq '9';
	}
	cmp_ok($got, '>=', 8, 'a client that waits gets the job');
	no_worker_ok('... of a queue with a handler');
	end_session($client);
}

# A job for which an idle worker and, behind it, a client wait. Once a second the worker looks by itself, and may be first then.
{
	set_handler('l', q{run_as => 'runner', idle => '1 day'});
	runs_ok('l', 'a worker runs a job');
	my $client = session($node);
	my $got = 0;
	for my $i (1 .. 10)
	{
		wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'l'});
		send_sql($client, q{SELECT payload FROM pgq_claim('l', wait => '20 s')});
		wait_for($node, q{waiting_claims = 2 FROM pgq_ext.queue_status WHERE queue = 'l'});
		sql(q{SELECT pgq_enqueue('l', '9')});
		$got += reply($client) eq '9';
	}
	cmp_ok($got, '>=', 8, '... then clients that wait go before it');
	end_session($client);
	set_handler('l', q{run_as => 'runner', idle => '0'});
	wait_for_workers(0);
}

# A row that is locked: workers try, less and less often.
{
	sql(q{SELECT pgq_drop_queue('l', force => true); TRUNCATE app.ran});
	create_queue($node, 'l', 'fifo => true');
	enqueue('l', 3, q{group_key => 'g'});
	my $locker = session($node);
	ask($locker, 'BEGIN; SELECT FROM pgq_ext.job ORDER BY job_id LIMIT 1 FOR UPDATE');
	set_counted('l', q{idle => '0'});
	wait_for_look();
	is(has_run('l') . '|' . sql('SELECT max(attempts) FROM pgq_ext.job_status'), '0|0', 'the row of the first job of a group is locked: none runs');
	ask($locker, 'COMMIT');
	wait_until_ran(3, 'l');
	pass('... until it is unlocked');
	end_session($locker);
}

# ---- the scheduler is killed ----

sql(q{SELECT pgq_drop_queue('l', force => true)});
create_queue($node, "k$_") for 1 .. 4;
set_counted("k$_", q{workers => 2, timeout => '10 min', idle => '0'}) for 1 .. 4;
sub all_places_ok
{
	my ($what) = @_;
	wait_until_idle();
	close_gate();
	enqueue("k$_", 3) for 1 .. 4;
	wait_at_gate(8);
	pass("$what: all places and slots can be used");
	open_gate();
	wait_until_idle();
	return;
}
sub kill_scheduler
{
	my $scheduler = wait_for_scheduler($node);
	sql("SELECT pg_terminate_backend($scheduler)");
	return $scheduler;
}
sql('TRUNCATE app.ran');
for my $round (1 .. 15)
{
	sql(q{SELECT count(pgq_enqueue('k' || 1 + i % 4, to_jsonb(i))) FROM generate_series(1, 40) i});
	my $before = kill_scheduler();
	wait_for_scheduler($node, 'postgres', $before);
}
wait_until_idle();
is(sql('SELECT count(*) FROM app.ran'), '600', 'the scheduler is killed again and again while workers start and run: all jobs run');
is(sql('SELECT count(*) FROM pgq_ext.dead_job'), '0', '... and none fails');
cmp_ok(most_at_once("k$_"), '<=', 2, "... k$_ has two workers at most") for 1 .. 4;
all_places_ok('then');
close_gate();
enqueue("k$_", 3) for 1 .. 4;
wait_at_gate(8);
wait_for_scheduler($node, 'postgres', kill_scheduler());
wait_for_look();
is(at_gate(), '8', 'killed while all workers run: they go on, and no other one starts');
open_gate();
all_places_ok('... after that');

# The postmaster does not start workers while it is stopped.
my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
sub while_worker_cannot_start
{
	my ($db, $statement) = @_;
	wait_for_workers(0);
	my ($session, $other) = (session($node, $db), session($node));
	kill 'STOP', $postmaster;
	my $done = eval {
		ask($session, q{SELECT pgq_enqueue('k1', '1')});
		ask($session, q{DO $$ BEGIN WHILE (SELECT running FROM pgq_ext.handler WHERE queue = 'k1') = 0 LOOP PERFORM pg_sleep(0.01); END LOOP; END $$});
		end_session($session);
		is((ask($other, $statement))[1], '', $statement =~ s/ FROM.*//r . ' while a worker is starting');
	};
	kill 'CONT', $postmaster;
	die $@ if !defined $done;
	end_session($other);
	return;
}
sql('TRUNCATE app.ran');
while_worker_cannot_start('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler'});
wait_until_ran(1, 'k1');
pass('... the job runs');
all_places_ok('... and');
sql('TRUNCATE app.ran');
while_worker_cannot_start('postgres', 'ALTER ROLE runner NOLOGIN');
wait_for_state('k1', 'suspended', 'may not log in');
wait_for($node, q{sum(running) = 0 FROM pgq_ext.handler});
sql('ALTER ROLE runner LOGIN');
wait_until_ran(1, 'k1');
pass('... the place is given back, and the job runs when the role may log in again');
all_places_ok('... and');
$node->safe_psql('postgres', 'CREATE DATABASE gone');
sql('CREATE EXTENSION pgq_ext', 'gone');
prepare_database('gone');
create_queue($node, 'k1', undef, 'gone');
set_handler('k1', q{run_as => 'runner', idle => '0'}, 'gone');
runs_ok('k1', 'another database', 'gone');
PgqTest::end_sessions($node);
while_worker_cannot_start('gone', 'DROP DATABASE gone');
all_places_ok('... and');

# ---- two slots ----

sql(q{SELECT count(pgq_drop_queue(queue)) FROM pgq_ext.queue; TRUNCATE app.ran});
restart_with("pgq_ext.max_handler_workers = 0\n");
create_queue($node, 'q');
set_handler('q');
enqueue('q', 3);
wait_for_look('postgres', 'presence');
is(sql($workers) . '|' . has_run('q'), '0|0', 'pgq_ext.max_handler_workers = 0: no worker is started');
restart_with("pgq_ext.max_handler_workers = 2\npgq_ext.max_claim_queues = 4\n");
wait_until_ran(3, 'q');
pass('... = 2: the jobs run');

# Each role has more queues than one claim may name.
sql(qq{CREATE ROLE r$_ LOGIN; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO r$_}) for 0 .. 4;
close_gate();
sql(q{SELECT count(pgq_create_queue('q' || i)) FROM generate_series(1, 50) i});
sql(q{SELECT count(pgq_set_handler('q' || i, 'app.work(pgq_ext.claimed_job)', timeout => '10 min', idle => '1 h', run_as => ('r' || i % 5)::regrole)) FROM generate_series(1, 50) i});
sql(q{SELECT count(pgq_enqueue('q' || 1 + i % 50, to_jsonb(i))) FROM generate_series(1, 200) i});
wait_at_gate(2);
wait_for($node, q{count(*) = 48 FROM pgq_ext.handler WHERE state = 'waiting for a worker slot'});
is(sql(q{SELECT count(*), sum(running) FROM pgq_ext.handler WHERE state = 'active'}), '2|2', '50 handlers of five roles on two slots: the others wait for a slot');
open_gate();
wait_for($node, q{count(*) = 200 AND count(DISTINCT queue) = 50 AND count(DISTINCT role) = 5 FROM app.ran WHERE queue <> 'q'});
pass('... all of them get their turn');
wait_for($node, q{count(*) = 51 FROM pgq_ext.handler WHERE state = 'idle'});
pass('... and none waits for a slot any more');
is(sql('SELECT count(*) FROM pgq_ext.dead_job'), '0', '... no job has failed');

# Calls that are longer than the turn of a worker.
sql(q{CREATE FUNCTION app.long(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	PERFORM pg_sleep(1.1); INSERT INTO app.ran (queue, payload) VALUES (job.queue, job.payload); END $$});
sql(q{SELECT count(pgq_drop_queue(queue)) FROM pgq_ext.queue; TRUNCATE app.ran});
sql(q{SELECT pgq_create_queue(q), pgq_set_handler(q, 'app.long(pgq_ext.claimed_job)', run_as => left(q, 2)::regrole) FROM unnest('{r0a,r0b,r0c,r1,r2}'::text[]) q});
sql(q{SELECT count(pgq_enqueue(q, to_jsonb(i))) FROM unnest('{r0a,r1,r2}'::text[]) q, generate_series(1, 5) i});
sql(q{SELECT pgq_enqueue('r0b', '1'), pgq_enqueue('r0c', '1')});
wait_for($node, 'count(*) = 17 FROM app.ran');
is(sql(q{SELECT max(n) FILTER (WHERE queue = 'r0a') > max(n) FILTER (WHERE queue IN ('r0b', 'r0c')) FROM app.ran}), 't', 'calls that take long: the first queue of a role does not starve the others');

# A right that comes back while the only worker of the role serves another queue, and no slot is free.
sql(q{SELECT count(pgq_drop_queue(queue)) FROM pgq_ext.queue; TRUNCATE app.ran});
sql(q{SELECT pgq_create_queue(q), pgq_grant(q, 'runner', '{claim}'), pgq_grant(q, 'other', '{claim}') FROM unnest('{a,b,c,d}'::text[]) q});
close_gate();
set_handler('c', q{run_as => 'other', timeout => '10 min'});
enqueue('c', 1);
wait_at_gate(1);
sql(q{SELECT pgq_set_handler(q, 'app.counted(pgq_ext.claimed_job)', run_as => 'runner', idle => '1 h') FROM unnest('{a,b}'::text[]) q});
sql(q{CREATE OR REPLACE FUNCTION app.counted(job pgq_ext.claimed_job) RETURNS void LANGUAGE sql AS $$ INSERT INTO app.ran (queue, payload) VALUES (job.queue, job.payload) $$});
enqueue('b', 1);
wait_until_ran(1, 'b');
sql(q{SELECT pgq_revoke('a', 'runner', '{claim}')});
wait_for_state('a', 'suspended', 'permission denied');
set_handler('d', q{run_as => 'other'});
wait_for_look();
sql(q{SELECT pgq_grant('a', 'runner', '{claim}')});
enqueue('a', 1);
wait_until_ran(1, 'a');
is(sql('SELECT count(DISTINCT pid) FROM app.ran'), '1', 'a right is revoked and granted again: a worker that stays serves the queue again');
open_gate();

# ---- a ticket that is not needed any more ----

# Three roles and one slot: the second role leaves a ticket, then a client takes its job.
sql(q{SELECT count(pgq_drop_queue(queue)) FROM pgq_ext.queue; TRUNCATE app.ran});
restart_with("pgq_ext.max_handler_workers = 1\n");
sql(q{SELECT pgq_create_queue(q), pgq_set_handler(q, 'app.work(pgq_ext.claimed_job)', run_as => q::regrole, timeout => '10 min') FROM unnest('{r0,r1,r2}'::text[]) q});
# A ticket is void after 5 s. On a busy machine a worker may take as long, but not in each round.
my $took;
for my $round (1 .. 20)
{
	close_gate();
	enqueue('r0', 1);
	wait_at_gate(1);
	for my $queue ('r1', 'r2')
	{
		enqueue($queue, 1);
		wait_for_state($queue, 'waiting for a worker slot');
	}
	is(sql(q{SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('r1')}), '1|', 'a client takes the job of a role that waits for a slot');
	my $since = monotonic();
	open_gate();
	wait_until_ran($round, 'r2');
	$took = seconds_since($since);
	last if $took < 4;
	wait_until_idle();
	wait_for_workers(0);
}
cmp_ok($took, '<', 4, '... then the next role need not wait until its ticket is void');
restart_with("pgq_ext.max_handler_workers = 2\n");

# ---- background workers of the server are used up ----

# One place is left for a handler: the others are those of the server, the launcher and the scheduler.
sql(q{SELECT count(pgq_drop_queue(queue)) FROM pgq_ext.queue; TRUNCATE app.ran});
restart_with("max_worker_processes = 4\n");
my $told = sub { my $log = slurp_file($node->logfile); my $n = () = $log =~ /LOG:  pgq_ext could not start a worker for a handler/g; return $n };
sql(q{SELECT pgq_create_queue(q), pgq_set_handler(q, 'app.work(pgq_ext.claimed_job)', run_as => q::regrole, timeout => '10 min', idle => '1 h') FROM unnest('{runner,other}'::text[]) q});
close_gate();
enqueue('runner', 1);
wait_at_gate(1);
enqueue('other', 1);
wait_for_state('other', 'waiting for a worker slot');
wait_for_look() for 1 .. 2;
is($told->(), '1', 'no background worker is free: the log says so once');
is(has_run('other'), '0', '... and the job waits');
open_gate();
wait_until_ran(1, 'other');
pass('... until a worker ends');

# Two idle workers, and no place for the scheduler of a new database.
restart_with("max_worker_processes = 5\n");
enqueue($_, 1) for 'runner', 'other';
wait_until_idle();
wait_for_workers(2);
$node->safe_psql('postgres', 'CREATE DATABASE new');
sql('CREATE EXTENSION pgq_ext', 'new');
prepare_database('new');
wait_for_scheduler($node, 'new');
pass('idle workers make room for the scheduler of a new database');
create_queue($node, 'n', undef, 'new');
set_handler('n', undef, 'new');
runs_ok('n', '... whose handler runs', 'new');
runs_ok('runner', '... as do the others');

is(sql('SELECT * FROM pgq_check()'), '', 'pgq_check() finds nothing');
done_testing();
