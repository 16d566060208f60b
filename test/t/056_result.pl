# pgq_result: what has become of a job, and waiting for it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q{SELECT pgq_create_queue('q', lease_time => '1 day', backoff_base => '1 h', keep_finished => '1 day'), pgq_create_queue('bare', lease_time => '1 day', backoff_base => '1 h')});
my ($s, $other) = (session($node), session($node));
my $pid = pid_of($s);

sub enqueued { my ($queue, $more) = @_; return sql("SELECT pgq_enqueue('$queue', '1'" . ($more // '') . ')') }
sub claimed
{
	my ($queue) = @_;
	my $id = enqueued($queue);
	return split /\|/, sql(qq{SELECT job_id, lease FROM pgq_claim('$queue', wait => '60 s')});
}
sub result_of { my ($id) = @_; return sql("SELECT state, result, error FROM pgq_result($id)") }

# One session waits, *do* is done: what it is told.
sub told
{
	my ($id, @do) = @_;
	send_sql($s, "SELECT state, result, error FROM pgq_result($id, '60 s')");
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	ref $_ ? $_->() : sql($_) for @do;
	return scalar reply($s);
}

# ---- as it is ----

{
	my ($id, $lease) = claimed('q');
	is(result_of($id), 'leased||', 'a job in work');
	sql("SELECT pgq_fail($id, $lease, 'broken')");
	is(result_of($id), 'scheduled||broken', 'one that is to be tried again');
	sql("SELECT pgq_retry($id)");
	is(result_of($id), 'ready||broken', 'one that waits');
	sql(q{SELECT pgq_ack(job_id, lease, '{"answer": 42}') FROM pgq_claim('q')});
	is(result_of($id), 'acked|{"answer": 42}|', 'one that is done');
	($id, $lease) = claimed('q');
	sql("SELECT pgq_fail($id, $lease, 'hopeless', retry => false)");
	is(result_of($id), 'dead||hopeless', 'one that is dead');
	sql("SELECT pgq_cancel($id)");
	is(result_of($id), '', 'one that is gone');
	$id = enqueued('q');
	sql("SELECT pgq_cancel($id)");
	is(result_of($id), 'cancelled||', 'one that was cancelled');
	is(result_of(0), '', 'none');
	($id, $lease) = claimed('bare');
	sql("SELECT pgq_ack($id, $lease, '1')");
	is(result_of($id), '', 'of a queue that keeps nothing nobody knows');
	is(sql("SELECT count(*) FROM pgq_result($id, '60 s')"), '0', '... and nobody waits for it');
	is(sqlstate($node, "SELECT pgq_result(1, '61 s')"), '22023', 'not longer than a minute');
	is(sqlstate($node, q{SELECT pgq_result(NULL)}), '22004', 'of no job');
}

# ---- waiting ----

for my $queue ('q', 'bare')
{
	my $answer = $queue eq 'q' ? '"done"' : '';
	my ($id, $lease) = claimed($queue);
	is(told($id, "SELECT pgq_ack($id, $lease, '\"done\"')"), "acked|$answer|", "$queue: woken by the ack");
	($id, $lease) = claimed($queue);
	is(told($id, "BEGIN; SELECT pgq_ack($id, $lease); ROLLBACK", "BEGIN; SELECT pgq_ack($id, $lease, '\"done\"'); COMMIT"), "acked|$answer|", '... that is committed');
	($id, $lease) = claimed($queue);
	is(told($id, "SELECT pgq_ack_many(ARRAY[$id], ARRAY[$lease])"), 'acked||', '... of many');
	$id = enqueued($queue);
	is(told($id, "SELECT pgq_cancel($id)"), 'cancelled||', '... by a cancel');
	($id, $lease) = claimed($queue);
	is(told($id, "SELECT pgq_cancel($id)"), 'cancelled||', '... of a leased one');
	($id, $lease) = claimed($queue);
	is(told($id, "SELECT pgq_fail($id, $lease, 'broken')", "SELECT pgq_retry($id)", "SELECT pgq_fail(job_id, lease, 'hopeless', retry => false) FROM pgq_claim('$queue')"), 'dead||hopeless', '... by its death');
	$id = enqueued($queue, ', max_attempts => 1');
	is(told($id, "BEGIN; SELECT pgq_claim('$queue'); ROLLBACK"), 'dead||the claiming transaction was rolled back or its session ended', '... of a loss');
	($id, $lease) = claimed($queue);
	is(told($id, "BEGIN; SELECT pgq_ack($id, $lease, '\"done\"'); PREPARE TRANSACTION 'p'", q{COMMIT PREPARED 'p'}), "acked|$answer|", '... that is prepared');
	$id = enqueued($queue);
	is(told($id, "DELETE FROM pgq_ext.job WHERE job_id = $id"), '', 'deleted by hand, there is none');
	sql(q{DELETE FROM pgq_ext.dead_job});
}

# ---- or not ----

{
	my $id = enqueued('q');
	is(sql("SELECT state FROM pgq_result($id, '200 ms')"), 'ready', 'the time is over');
	is(sql("SET statement_timeout = '1 s'; SELECT state FROM pgq_result($id, '60 s')"), 'ready', '... or would be, for the statement');
	is(sql(q{BEGIN; SELECT state FROM pgq_result(pgq_enqueue('q', '1'), '60 s'); ROLLBACK}), 'ready', 'its own job nobody waits for');
	is(sql("SELECT state FROM pgq_result((SELECT pgq_enqueue('q', '1', delay => '1 h')), '60 s')"), 'scheduled', '... in one statement, either');
	is(sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT state FROM pgq_result($id, '200 ms'); COMMIT"), "1\nready", 'in any isolation level');

	send_sql($s, "SELECT state FROM pgq_result($id, '60 s')");
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	sql("SELECT pg_cancel_backend($pid)");
	like((reply($s))[1], qr/canceling statement/, 'cancelled');
	is(told($id, "SELECT pgq_cancel($id)"), 'cancelled||', '... who waits again is told');
	$id = enqueued('q');
	send_sql($s, "SELECT state FROM pgq_result($id, '60 s')");
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	sql("SELECT pg_terminate_backend($pid)");
	reply($s);
	$s = session($node);
	$pid = pid_of($s);
	is(told($id, "SELECT pgq_cancel($id)"), 'cancelled||', 'one that was terminated is in nobody\'s way');

	# Several wait for one, others for others.
	my ($id1, $lease1) = claimed('bare');
	my ($id2, $lease2) = claimed('bare');
	my @waiting = map { session($node) } 1 .. 4;
	send_sql($waiting[$_], 'SELECT state FROM pgq_result(' . ($_ < 2 ? $id1 : $id2) . q{, '60 s')}) for 0 .. 3;
	wait_for($node, q{count(*) = 4 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%pgq_result%' AND pid <> pg_backend_pid()});
	sql("SELECT pgq_ack($id1, $lease1)");
	is(scalar reply($waiting[$_]), 'acked', 'each that waits is told') for 0, 1;
	sql("SELECT pgq_fail($id2, $lease2, retry => false)");
	is(scalar reply($waiting[$_]), 'dead', '... of its own job') for 2, 3;
	end_session($_) for @waiting;
}

is(sql('SELECT * FROM pgq_check()'), '', 'memory agrees with the tables');
done_testing();
