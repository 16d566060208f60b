# pgq_explain names what other sessions, prepared transactions and a restart have done to a job, and waits for none of
# them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\nlock_timeout = '20 s'\npgq_ext.max_handler_workers = 1\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
create_queue($node, 'q', q{lease_time => '1 day', log_attempts => 'all'});
my $s = session($node);
my $pid = pid_of($s);

sub told { my ($id) = @_; return sql("SELECT step || ': ' || detail FROM pgq_explain($id)") }
sub explained_ok { my ($id, $is, $what) = @_; like(told($id), $is, $what); return }
sub enqueued { my ($more) = @_; return sql("SELECT pgq_enqueue('q', '1'" . ($more // '') . ')') }
sub clean { sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job}); return }

# ---- an open transaction ----

{
	my $id = enqueued();
	ask($s, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $id FOR UPDATE");
	explained_ok($id, qr/^locked: process $pid has locked, changed or ended its row, and is open$/, 'a row that is locked');
	is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', '... which a claim sets aside');
	explained_ok($id, qr/^locked: process $pid has locked/, '... is so, too');
	ask($s, "ROLLBACK; BEGIN; SAVEPOINT a; UPDATE pgq_ext.job SET priority = 2 WHERE job_id = $id");
	explained_ok($id, qr/^locked: process $pid has locked/, '... by a subtransaction');
	ask($s, "ROLLBACK; BEGIN; SELECT pgq_cancel($id)");
	explained_ok($id, qr/^locked: process $pid is changing or ending it, and is open$/, 'one that is being cancelled');
	ask($s, 'ROLLBACK');
	explained_ok($id, qr/^ready: /, '... and is not any more');
	my $lease = sql(q{SELECT lease FROM pgq_claim('q', worker => 'w', wait => '10 s')});
	ask($s, "BEGIN; SELECT pgq_ack($id, $lease)");
	explained_ok($id, qr/^in work: attempt 1 of worker "w", process \d+, lease until .*\nlocked: process $pid has/, 'one whose ack is not committed');
	ask($s, 'ROLLBACK');
	clean();
}
{
	my $id = enqueued(q{, unique_key => 'k'});
	ask($s, q{BEGIN; SELECT pgq_enqueue('q', '2', unique_key => 'k')});
	explained_ok($id, qr/^unique key: process $pid has enqueued it once more \(unique_key\), and is open$/, 'one that was met by its key');
	ask($s, 'ROLLBACK');
	clean();
}
{
	my $id = ask($s, q{BEGIN; SELECT pgq_enqueue('q', '1')});
	explained_ok($id, qr/^unknown: there is no job.*\nopen transaction: process $pid has written jobs/, 'one that is not committed');
	ask($s, 'ROLLBACK');
	explained_ok($id, qr/^unknown: [^\n]*$/, '... and never is');
}

{
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	my $id = enqueued();
	like(ask($s, "SELECT step FROM pgq_explain($id)"), qr/^(?:ready|behind)$/, 'what is committed by now is told in every isolation level');
	ask($s, 'ROLLBACK');
	clean();
}

# ---- a prepared one ----

sub prepare { my ($sql) = @_; return sql("BEGIN; $sql; PREPARE TRANSACTION 'the gid'") }
my $by = qr/prepared transaction "the gid"/;
for my $how ('as it is', 'after a restart')
{
	my %use = (
		'claimed'             => [ sub { q{SELECT job_id FROM pgq_claim('q', worker => 'w')} }, qr/^in work: .*\nprepared: $by has locked, changed or ended it$/ ],
		'met by its key'      => [ sub { q{SELECT pgq_enqueue('q', '2', unique_key => 'k')} }, qr/^prepared: $by has locked, changed or ended it$/ ],
		'changed'             => [ sub { "SELECT pgq_update($_[0], priority => 3)" }, qr/^prepared: $by has locked, changed or ended it$/ ],
		'deleted by SQL'      => [ sub { "DELETE FROM pgq_ext.job WHERE job_id = $_[0]" }, qr/^prepared: $by has locked, changed or ended it$/ ],
	);
	for my $use (sort keys %use)
	{
		my $id = enqueued(q{, unique_key => 'k'});
		prepare($use{$use}[0]->($id));
		$node->restart if $how ne 'as it is';
		explained_ok($id, $use{$use}[1], "$use and prepared, $how");
		sql(q{ROLLBACK PREPARED 'the gid'});
		wait_for($node, "count(*) = 0 FROM pgq_ext.lease_entries() WHERE job_id = $id AND state <> 'lost'");
		clean();
	}
	my $id = prepare(q{SELECT pgq_enqueue('q', '1')});
	explained_ok($id, qr/^unknown: .*\nopen transaction: $by has written jobs, and may have enqueued or ended it$/, "enqueued and prepared, $how");
	sql(q{ROLLBACK PREPARED 'the gid'});
}
$s = session($node);
$pid = pid_of($s);

# ---- jobs that go out before ----

# Each job has a group of its own, so rules for groups keep none back.
for my $rule ('concurrency => 5', 'group_concurrency => 1', 'fifo => true')
{
	sql("SELECT pgq_create_queue('ahead', $rule)");
	is(sql(q{SELECT count(*) FROM pgq_claim('ahead')}), '0', "$rule: the queue is empty");
	my @ids = split /\n/, sql(q{SELECT pgq_enqueue('ahead', '1', group_key => 'g' || i) FROM generate_series(1, 4) i});
	my @words = split /\n/, sql(q{SELECT waits_for FROM pgq_ext.job_status WHERE queue = 'ahead' ORDER BY job_id});
	is(join(', ', map { s/ or more$//r } @words), 'a worker, behind 1 job, behind 2 jobs, behind 3 jobs',
		'... waits_for says how many jobs go out before');
	my $ids = join ', ', @ids;
	is(sql("SELECT string_agg(e.step, ' ' ORDER BY j) FROM unnest(ARRAY[$ids]) j, pgq_explain(j) e"), 'ready behind behind behind',
		'... and so does pgq_explain');
	is(sql(q{SELECT string_agg(c.job_id::text, ' ') FROM pgq_claim('ahead', 4) c}), "@ids", '... in that order');
	sql(q{SELECT pgq_drop_queue('ahead', force => true)});
}

# ---- the handler of the queue ----

{
	create_queue($node, $_, 'max_attempts => 1000') for 'h', 'h2';
	sql(q{CREATE ROLE hand LOGIN; CREATE ROLE other_hand LOGIN; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO hand, other_hand;
		CREATE FUNCTION handle(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS
			$$ BEGIN IF job.payload = '"fails"' THEN RAISE 'no'; END IF; PERFORM pg_sleep(job.payload::text::float8); END $$;
		SELECT pgq_set_handler('h', 'handle(pgq_ext.claimed_job)', run_as => 'hand'), pgq_pause_handler('h')});
	my $is = sub { my ($state) = @_; return wait_for($node, "state = '$state' FROM pgq_ext.handler WHERE queue = 'h'") };
	my $waits_for = sub { my ($id) = @_; return sql("SELECT waits_for FROM pgq_ext.job_status WHERE job_id = $id") };
	my $id = sql(q{SELECT pgq_enqueue('h', '0')});
	my $second = sql(q{SELECT pgq_enqueue('h', '0')});
	# The view knows of the pause from the row; the time comes from the scheduler, which has noticed it.
	wait_for($node, q{state = 'paused' AND since IS NOT NULL FROM pgq_ext.handler WHERE queue = 'h'});
	explained_ok($id, qr/^handler paused: since 2[^\n]* \(pgq_pause_handler\)$/, 'its handler is paused');
	wait_for($node, "count(*) = 2 FROM pgq_explain($second)");
	explained_ok($second, qr/^handler paused: .*\nbehind: behind 1 job$/, '... and another job goes first');
	is($waits_for->($second), 'its handler, which is paused', '... waits_for says the former');
	sql("SELECT pgq_update($second, run_at => now() + interval '1 h')");
	explained_ok($second, qr/^not due: [^\n]*$/, '... which is not said of a job that waits for something else');
	sql(q{ALTER ROLE hand NOLOGIN; UPDATE pgq_ext.queue_handler SET paused = false});
	$is->('suspended');
	explained_ok($id, qr/^handler suspended: role "hand" may not log in; since 2[^\n]*$/, 'its handler is suspended');
	is($waits_for->($id), 'its handler, which is suspended: role "hand" may not log in', '... and so says waits_for');
	# Clients need no handler.
	my $client = session($node);
	is(ask($client, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('h')}), '1', '... clients may claim');
	sql(q{ALTER ROLE hand LOGIN});
	$is->('idle');
	$id = sql(q{SELECT pgq_enqueue('h', '300')});
	wait_for($node, "count(*) = 1 FROM pgq_ext.lease WHERE job_id = $id");
	explained_ok($id, qr/^in work: attempt 1 of worker "handler", process \d+, lease until /, 'its handler runs it');
	sql(q{SELECT pgq_set_handler('h2', 'handle(pgq_ext.claimed_job)', run_as => 'other_hand')});
	my $other = sql(q{SELECT pgq_enqueue('h2', '0')});
	wait_for($node, q{state = 'waiting for a worker slot' FROM pgq_ext.handler WHERE queue = 'h2'});
	explained_ok($other, qr/^no worker slot: the handler has no worker, and no slot is free \(pgq_ext.max_handler_workers\)$/, 'there is no worker slot');
	sql("SELECT pgq_cancel($id), count(pgq_enqueue('h2', '\"fails\"')) FROM generate_series(1, 25)");
	wait_for($node, q{count(*) > 0 FROM pgq_ext.job_status, pgq_explain(job_id) WHERE queue = 'h2' AND step = 'handler rests' AND detail ~ '^its calls have failed; no call begins until 2'});
	pass('its handler rests');
	sql(q{SELECT pgq_drop_queue('h', force => true), pgq_drop_queue('h2', force => true)});
}

# ---- a worker learns what became of its job ----

{
	my $id = enqueued();
	my $lease = sql(q{SELECT lease FROM pgq_claim('q', worker => 'w')});
	$node->restart;
	explained_ok($id, qr/^in work: attempt 1 of worker "w", lease until /, 'in work through a clean restart');
	sql("SELECT pgq_cancel($id)");
	explained_ok($id, qr/^last attempt: attempt 1 of worker "w" ended at .*: cancelled$/, 'cancelled, says the record');
	$id = enqueued();
	sql(q{SELECT lease FROM pgq_claim('q', worker => 'w', lease_time => '1 s')});
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $id");
	explained_ok($id, qr/\nfailed before: 1 of 20 attempts; the last error: the lease expired\nlast attempt: attempt 1 of worker "w" ended at .*: lost, the lease expired$/, 'lost, says the record');
	clean();
}

# ---- a lease that was lost and is not counted yet ----

{
	$s = session($node);
	my $claiming = session($node);
	my $id = enqueued();
	ask($claiming, q{BEGIN; SELECT job_id FROM pgq_claim('q')});
	ask($s, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $id FOR UPDATE");
	ask($claiming, 'ROLLBACK');
	wait_for($node, "count(*) = 1 FROM pgq_ext.lease_entries() WHERE state = 'lost'");
	explained_ok($id, qr/^lease lost: its last lease was lost; the retry is being scheduled\nlocked: process \d+ has locked/, 'lost, and kept from being counted');
	end_session($s);
	clean();
}

# ---- a crash ----

{
	my $id = enqueued();
	sql(q{SELECT job_id FROM pgq_claim('q')});
	$node->stop('immediate');
	$node->start;
	explained_ok($id, qr/^ready: /, 'a crash forgets leases');
	clean();
	is(sql('SELECT * FROM pgq_check()'), '', 'nothing is wrong');
}

# ---- an owner who is no superuser, after an update by a superuser ----

{
	sql('CREATE ROLE appdba LOGIN SUPERUSER');
	sql('CREATE DATABASE owned');
	my $as = sub { my ($role, $sql) = @_; return $node->safe_psql('owned', $sql, extra_params => [ '-U', $role ]) };
	$as->('appdba', q{CREATE EXTENSION pgq_ext VERSION '0.1'});
	sql('ALTER ROLE appdba NOSUPERUSER; CREATE ROLE asker LOGIN');
	my $superuser = 'Somebody Else';
	sql(qq{CREATE ROLE "$superuser" LOGIN SUPERUSER});
	$as->($superuser, 'ALTER EXTENSION pgq_ext UPDATE');
	$as->($superuser, q{SELECT pgq_create_queue('q')});
	my $id = $as->('appdba', q{SELECT pgq_enqueue('q', '1')});
	is($as->('appdba', "SELECT step FROM pgq_explain($id)"), 'ready', 'the owner may call it');
	$as->('appdba', q{GRANT EXECUTE ON FUNCTION pgq_explain TO asker; GRANT USAGE ON SCHEMA pgq_ext TO asker; GRANT SELECT ON pgq_ext.dead_letter TO asker});
	is($as->('asker', "SELECT step FROM pgq_explain($id)"), 'ready', '... and let others');
	$as->('appdba', q{SELECT pgq_fail(job_id, lease, 'no', retry => false) FROM pgq_claim('q')});
	is($as->('asker', "SELECT step || payload FROM pgq_explain($id), pgq_ext.dead_letter LIMIT 1"), 'dead1', '... also of dead letters');
	is($as->('appdba', q{SELECT string_agg(proname, ' ') FROM pg_proc JOIN pg_depend ON objid = pg_proc.oid AND deptype = 'e' AND classid = 'pg_proc'::regclass
		WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgq_ext') AND proowner <> 'appdba'::regrole}), '', '... and all functions are the owner\'s');
}
$node->stop;
done_testing();
