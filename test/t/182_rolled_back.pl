# The queue option undo_rolled_back_claims with several sessions: lost sessions, prepared transactions, a restart, transactions that
# cancel or change the claimed job meanwhile, handlers, a live change of the option, and a database of version 0.1.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use HandlerTest ':calls';

my $node = handler_node('main', conf => "max_prepared_transactions = 9\nrestart_after_crash = on\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
my ($one, $two) = map { session($node) } 1 .. 2;

# A failure would be retried only after the test.
sub new_queue
{
	my ($queue, $options) = @_;
	return sql("SELECT pgq_create_queue('$queue', undo_rolled_back_claims => true, lease_time => '1 day', backoff_base => '1 day', backoff_max => '1 day'" . ($options // '') . ')');
}
my $claim = q{SELECT payload, attempt, job_id, lease FROM pgq_claim('%s', wait => '60 s')};
sub claim_in { my ($session, $queue) = @_; return (ask($session, sprintf $claim, $queue))[0] }

# The job is there, in its first attempt, and no attempt was ever counted. Takes the job away.
sub is_uncounted
{
	my ($queue, $payload, $what) = @_;
	is(sql("SELECT payload, attempt FROM pgq_claim('$queue', wait => '60 s'), pgq_ack(job_id, lease)"), "$payload|1", $what);
	is(sql("SELECT lost, handed_out - acked - cancelled - uncounted, (SELECT count(*) FROM pgq_ext.attempt a JOIN pgq_ext.queue q USING (queue_id) WHERE q.queue = '$queue' AND outcome IN ('lost', 'failed')) FROM pgq_ext.queue_stats WHERE queue = '$queue'"),
		'0|0|0', '... and no attempt was counted');
	return;
}

# ---- lost sessions ----

new_queue('sessions');
for my $how ('terminated', 'lost', 'bound')
{
	sql(qq{SELECT pgq_enqueue('sessions', '"$how"')});
	my $session = session($node);
	my ($pid) = ask($session, 'SELECT pg_backend_pid()');
	my $bound = $how eq 'bound' ? ', session_bound => true' : '';
	is((ask($session, "BEGIN; SELECT attempt FROM pgq_claim('sessions'$bound)"))[0], '1', "$how: claimed");
	send_sql($two, sprintf $claim, 'sessions');
	wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'sessions'});
	$how eq 'lost' ? kill_client($session) : sql("SELECT pg_terminate_backend($pid)");
	my ($payload, $attempt, @lease) = split /\|/, (reply($two))[0];
	is("$payload|$attempt", qq{"$how"|1}, '... a claim that waits has the job at once, uncounted');
	ask($two, "SELECT pgq_release($lease[0], $lease[1])");
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('sessions')});
}
is(sql(q{SELECT lost, uncounted, released, acked FROM pgq_ext.queue_stats WHERE queue = 'sessions'}), '0|3|3|3', 'nothing was lost');

# ---- while another transaction ends the job ----

new_queue('ended');
for my $verb ('pgq_cancel(%s)', 'pgq_finish(ARRAY[%s])')
{
	for my $told (0, 1)
	{
		for my $first ('claim', $verb)
		{
			my $what = "$verb" . ($told ? ', worker told' : '') . ", $first ends first";
			sql(q{SELECT pgq_enqueue('ended', '1')});
			ask($one, 'BEGIN');
			my (undef, undef, $job, $lease) = split /\|/, claim_in($one, 'ended');
			ask($two, 'BEGIN; SELECT ' . sprintf $verb, $job);
			is((ask($one, "SELECT pgq_extend($job, $lease) IS NULL"))[0], 't', "$what: told") if $told;
			my @sessions = $first eq 'claim' ? ($one, $two) : ($two, $one);
			ask($_, 'ROLLBACK') for @sessions;
			is_uncounted('ended', '1', "$what, all is rolled back");
		}
	}
	sql(q{SELECT pgq_enqueue('ended', '2')});
	ask($one, 'BEGIN');
	my (undef, undef, $job) = split /\|/, claim_in($one, 'ended');
	ask($two, 'BEGIN; SELECT ' . sprintf $verb, $job);
	ask($one, 'ROLLBACK');
	is(sql(q{SELECT count(*) FROM pgq_claim('ended')}), '0', "$verb: no claim has the job while it is open");
	ask($two, 'COMMIT');
	is(sql(q{SELECT count(*) FROM pgq_claim('ended')}) . sql(q{SELECT count(*) FROM pgq_ext.lease}), '00', '... nor afterwards, and nothing is left of it');
}

# ---- while SQL changes the row ----

new_queue('rows');
new_queue('elsewhere');
my %changes = (
	'DELETE' => q{DELETE FROM pgq_ext.job WHERE job_id = %s},
	'UPDATE of the priority' => q{UPDATE pgq_ext.job SET priority = 7 WHERE job_id = %s},
	'UPDATE of the group' => q{UPDATE pgq_ext.job SET group_key = 'g' WHERE job_id = %s},
	'UPDATE of the queue' => q{UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'elsewhere') WHERE job_id = %s},
	'UPDATE of run_at' => q{UPDATE pgq_ext.job SET run_at = now() - interval '1 s' WHERE job_id = %s});
for my $change (sort keys %changes)
{
	for my $committed (0, 1)
	{
		sql(q{SELECT pgq_enqueue('rows', '3')});
		ask($one, 'BEGIN');
		my (undef, undef, $job) = split /\|/, claim_in($one, 'rows');
		ask($two, 'BEGIN; ' . sprintf $changes{$change}, $job);
		ask($two, 'COMMIT') if $committed;
		ask($one, 'ROLLBACK');
		ask($two, 'COMMIT') if !$committed;
		my $when = $committed ? 'before' : 'after';
		my $queue = $change =~ /queue/ ? 'elsewhere' : 'rows';
		if ($change eq 'DELETE')
		{
			is(sql(q{SELECT count(*) FROM pgq_claim('rows')}), '0', "$change, committed $when the rollback: no job");
			wait_for($node, 'count(*) = 0 FROM pgq_ext.lease');
		}
		else { is_uncounted($queue, '3', "$change, committed $when the rollback") }
	}
}
is(sql(q{SELECT count(*) FROM pgq_check()}), '0', 'pgq_check finds nothing');

# ---- keys until the claim ----

new_queue('keyed');
my $enqueue = q{SELECT pgq_enqueue('keyed', '"%s"', unique_key => 'k', unique_until => 'claimed')};
my $first = sql(sprintf $enqueue, 'first');
ask($one, 'BEGIN');
claim_in($one, 'keyed');
my $second = sql(sprintf $enqueue, 'second');
isnt($second, $first, 'the key is free while the job is claimed');
ask($one, 'ROLLBACK');
my $third = sql(sprintf $enqueue, 'third');
ok($third == $first || $third == $second, 'after the rollback a job has the key again');
is(sql(q{SELECT string_agg(payload::text || attempt, ' ' ORDER BY job_id) FROM pgq_claim('keyed', 9)}), '"first"1 "second"1', '... and both jobs can be claimed');

# ---- prepared transactions ----

new_queue('prepared');
sub prepare { my ($sql, $name) = @_; return sql("BEGIN; $sql; PREPARE TRANSACTION '$name'") }
for my $restart (0, 1)
{
	my $after = $restart ? ', after a restart' : '';
	sql(q{SELECT pgq_enqueue('prepared', '4')});
	prepare(q{SELECT FROM pgq_claim('prepared')}, 'claim');
	end_session($_) for $restart ? ($one, $two) : ();
	$node->restart if $restart;
	is(sql(q{SELECT count(*) FROM pgq_claim('prepared')}), '0', "in a prepared transaction$after");
	sql(q{ROLLBACK PREPARED 'claim'});
	if (!$restart) { is_uncounted('prepared', '4', 'ROLLBACK PREPARED') }
	else { is(sql(q{SELECT payload, attempt FROM pgq_claim('prepared', wait => '60 s'), pgq_ack(job_id, lease)}), '4|1', "ROLLBACK PREPARED$after") }
	($one, $two) = map { session($node) } 1 .. 2 if $restart;
}
# The transaction that ends the job is prepared while the claim is open.
for my $verb ('pgq_cancel(job_id)', 'pgq_finish(ARRAY[job_id])')
{
	for my $first ('claim', 'end')
	{
		sql(q{SELECT pgq_enqueue('prepared', '5')});
		ask($one, 'BEGIN');
		my (undef, undef, $job, $lease) = split /\|/, claim_in($one, 'prepared');
		prepare("SELECT $verb FROM pgq_ext.job WHERE payload = '5'", 'end');
		is((ask($one, "SELECT pgq_extend($job, $lease) IS NULL"))[0], 't', "$verb: the worker is told") if $first eq 'end';
		sql(q{ROLLBACK PREPARED 'end'}) if $first eq 'end';
		ask($one, 'ROLLBACK');
		sql(q{ROLLBACK PREPARED 'end'}) if $first eq 'claim';
		is(sql(q{SELECT payload, attempt FROM pgq_claim('prepared', wait => '60 s'), pgq_ack(job_id, lease)}), '5|1', "$verb, prepared, is undone: $first first");
	}
	sql(q{SELECT pgq_enqueue('prepared', '6')});
	ask($one, 'BEGIN');
	claim_in($one, 'prepared');
	prepare("SELECT $verb FROM pgq_ext.job WHERE payload = '6'", 'end');
	ask($one, 'ROLLBACK');
	sql(q{COMMIT PREPARED 'end'});
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lease WHERE queue = 'prepared'});
	is(sql(q{SELECT count(*) FROM pgq_claim('prepared')}), '0', "$verb, prepared and committed: the job is gone");
}
is(sql(q{SELECT lost FROM pgq_ext.queue_stats WHERE queue = 'prepared'}), '0', 'nothing was lost');

# ---- a change of the option while a job is claimed ----

new_queue('live');
sql(q{SELECT pgq_alter_queue('live', undo_rolled_back_claims => false), pgq_enqueue('live', '"on"')});
ask($one, 'BEGIN');
claim_in($one, 'live');
sql(q{SELECT pgq_alter_queue('live', undo_rolled_back_claims => true)});
ask($one, 'ROLLBACK');
is_uncounted('live', '"on"', 'switched on before the rollback');
sql(q{SELECT pgq_enqueue('live', '"off"')});
ask($one, 'BEGIN');
claim_in($one, 'live');
sql(q{SELECT pgq_alter_queue('live', undo_rolled_back_claims => false)});
ask($one, 'ROLLBACK');
wait_for($node, q{attempts = 1 FROM pgq_ext.job WHERE payload = '"off"'});
is(sql(q{SELECT lost FROM pgq_ext.queue_stats WHERE queue = 'live'}), '1', 'switched off before the rollback: the attempt counts');

# ---- what counts as before ----

new_queue('time');
sql(q{SELECT pgq_enqueue('time', '7'); SELECT FROM pgq_claim('time', lease_time => '1 s')});
wait_for($node, q{attempts = 1 FROM pgq_ext.job WHERE payload = '7'});
is(sql(q{SELECT last_error FROM pgq_ext.job WHERE payload = '7'}), 'the lease expired', 'the end of the time of a committed claim counts');
sql(q{SELECT pgq_enqueue('time', '8')});
my $bound = session($node);
ask($bound, q{SELECT FROM pgq_claim('time', session_bound => true)});
end_session($bound);
wait_for($node, q{attempts = 1 FROM pgq_ext.job WHERE payload = '8'});
is(sql(q{SELECT last_error FROM pgq_ext.job WHERE payload = '8'}), 'the session of its worker ended', '... and the end of the session of a committed claim');

# ---- a database of version 0.1 ----

sql('CREATE DATABASE old');
sql(q{CREATE EXTENSION pgq_ext VERSION '0.1'; SELECT pgq_create_queue('before'), pgq_enqueue('before', '1')}, 'old');
my $old = session($node, 'old');
ask($old, q{BEGIN; ALTER EXTENSION pgq_ext UPDATE});
is(sql(q{SELECT payload FROM pgq_claim('before')}, 'old'), '1', 'while the update is open, other sessions find queues');
ask($old, 'COMMIT');
is(sql(q{SELECT pgq_create_queue('after'), pgq_create_queue('not', undo_rolled_back_claims => false), pgq_create_queue('null', undo_rolled_back_claims => NULL)}, 'old'), 't|t|t', 'an updated database makes queues');
for my $call (q{pgq_create_queue('undo', undo_rolled_back_claims => true)}, q{pgq_alter_queue('after', undo_rolled_back_claims => true)})
{
	is((sqlstate($node, "SELECT $call", 'old'))[0], '55000', "$call: refused");
	like((sqlstate($node, "SELECT $call", 'old'))[1], qr/HINT:  Let the owner of the extension call pgq_ext\.add_queue_columns\(\)/, '... with the way to go on');
}
ask($old, 'BEGIN; SELECT count(*) FROM pgq_ext.queue');
is((sqlstate($node, q{SET lock_timeout = '100ms'; SELECT pgq_ext.add_queue_columns()}, 'old'))[0], '55P03', 'the column waits for a reader of the table, as long as lock_timeout says');
ask($old, 'COMMIT');
is(sql('SELECT pgq_ext.add_queue_columns()', 'old') . sql('SELECT pgq_ext.add_queue_columns()', 'old'), 'tf', '... and is added once');
is((ask($old, q{SELECT pgq_alter_queue('after', undo_rolled_back_claims => true)}))[1], '', 'an open session sees it');
sql(q{SELECT pgq_enqueue('after', '2')}, 'old');
ask($old, q{BEGIN; SELECT count(*) FROM pgq_claim('after'); ROLLBACK});
is(sql(q{SELECT payload, attempt FROM pgq_claim('after')}, 'old'), '2|1', '... and the option works');
is(sql(q{SELECT queue, undo_rolled_back_claims FROM pgq_ext.queue ORDER BY queue}, 'old'), "after|t\nbefore|f\nnot|f\nnull|f", 'queues of before have the default');
ask($old, q{ALTER TABLE pgq_ext.queue DROP COLUMN undo_rolled_back_claims});
is((sqlstate($node, 'SELECT pgq_ext.add_queue_columns()', 'old'))[0], '55000', 'a dropped column keeps its number, so no other one can follow');
is(sql(q{SELECT count(*) FROM pgq_claim('after'); SELECT pgq_create_queue('more')}, 'old'), "0\nt", '... but queues go on without it');
end_session($old);
sql('CREATE DATABASE more');
sql(qq{CREATE EXTENSION pgq_ext VERSION '0.1'; ALTER EXTENSION pgq_ext UPDATE; ALTER TABLE pgq_ext.queue ADD COLUMN note text}, 'more');
like((sqlstate($node, 'SELECT pgq_ext.add_queue_columns()', 'more'))[1], qr/has a column that is not of pgq_ext/, 'a column of an administrator has the place of the option');

# ---- handlers ----

# The handler claims in a transaction of its own. What it rolls back afterwards is the call, which counts.
sql('CREATE SEQUENCE calls; GRANT USAGE ON calls TO worker');
handled_queue($node, 'fails', q{BEGIN PERFORM nextval('calls'); RAISE 'no'; END}, queue => 'undo_rolled_back_claims => true, max_attempts => 3');
my $failing = enqueue($node, 'fails', '{}');
like(end_of($node, $failing), qr/^dead\|\|no /, 'a call that fails counts, and the job becomes a dead letter');
is(sql(q{SELECT last_value FROM calls}), '3', '... after as many calls');

# A job whose calls crash the server.
handled_queue($node, 'crashes', q{BEGIN
	IF NOT job.payload ? 'calm' THEN EXECUTE 'COPY (SELECT 1) TO PROGRAM ''kill -9 $PPID'''; END IF; END}, queue => 'undo_rolled_back_claims => true, max_attempts => 3');
sql('GRANT pg_execute_server_program TO worker');
my $crashing = enqueue($node, 'crashes', '{}');
# After a crash the handler rests: let it begin anew.
for (1 .. 2)
{
	wait_for($node, "attempts = $_ FROM (SELECT attempts, job_id FROM pgq_ext.job UNION ALL SELECT attempts, job_id FROM pgq_ext.dead_job) j WHERE job_id = $crashing");
	wait_for($node, q{next_try_at > now() FROM pgq_ext.handler WHERE queue = 'crashes'});
	sql(q{SELECT pgq_pause_handler('crashes')});
	wait_for($node, q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'crashes'});
	sql(q{SELECT pgq_resume_handler('crashes')});
}
wait_for($node, "count(*) = 1 FROM pgq_ext.dead_job WHERE job_id = $crashing");
is(end_of($node, enqueue($node, 'crashes', '{"calm": 1}')), 'acked||', 'a job whose calls crash the server becomes a dead letter, and the queue goes on');

done_testing();
