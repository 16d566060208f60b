# pgq_result: the result or the state of a job, and waiting for the result.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\nmax_connections = 300\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q{SELECT pgq_create_queue('q', lease_time => '1 day', backoff_base => '1 h', keep_finished => '1 day'), pgq_create_queue('bare', lease_time => '1 day', backoff_base => '1 h')});
sql('CREATE EXTENSION dblink');
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
	($id, $lease) = claimed($queue);
	is(told($id, "DELETE FROM pgq_ext.job WHERE job_id = $id"), '', '... nor if it is leased');
	sql(q{DELETE FROM pgq_ext.dead_job});
}

# ---- or not ----

{
	my $id = enqueued('q');
	is(sql("SELECT state FROM pgq_result($id, '200 ms')"), 'ready', 'the time is over');
	# A tenth of a second before; once in three times at least this process is not late by that.
	ok(scalar(grep { ($node->psql('postgres', "SET statement_timeout = '1 s'; SELECT state FROM pgq_result($id, '60 s')"))[1] eq 'ready' } 1 .. 3), '... or would be, for the statement');
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

# ---- what is not committed has not happened ----

{
	my ($id, $lease) = claimed('q');
	sql("SELECT pgq_fail($id, $lease, 'hopeless', retry => false)");
	ask($other, "BEGIN; SELECT pgq_retry($id)");
	is(sql("SET lock_timeout = '20 s'; SELECT state FROM pgq_result($id)"), 'dead', 'a dead letter that somebody is bringing back, for the present');
	is(sql("SET lock_timeout = '20 s'; SELECT state FROM pgq_result($id, '60 s')"), 'dead', '... whoever waits');
	ask($other, 'COMMIT');
	is(sql("SELECT state FROM pgq_result($id)"), 'ready', '... until it is back');
	sql("SELECT pgq_cancel($id)");
	$id = ask($other, q{BEGIN; SELECT pgq_enqueue('q', '1')});
	is(sql("SET lock_timeout = '20 s'; SELECT count(*) FROM pgq_result($id)"), '0', 'one that is being enqueued is none yet');
	is(told($id, sub { ask($other, 'COMMIT') }, "SELECT pgq_cancel($id)"), 'cancelled||', '... but who knows its id can wait');
	($id, $lease) = claimed('bare');
	is(sql("BEGIN; SELECT pgq_ack($id, $lease); SELECT count(*), clock_timestamp() < now() + interval '50 s' FROM pgq_result($id, '60 s'); COMMIT"), "\n0|t", 'for its own end nobody waits');
}

# ---- between the commit, from which on there is no row, and the word of it ----

for my $end ('ack', 'cancel')
{
	my ($id, $lease) = claimed('bare');
	my ($ender, $late) = (session($node), session($node));
	my $late_pid = pid_of($late);
	my $wait = "SELECT state FROM pgq_result($id, '60 s')";
	ask($other, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($ender, q{SET pgq_ext.stop_point = 'commit-settle'});
	send_sql($s, $wait);
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	send_sql($ender, $end eq 'ack' ? "SELECT pgq_ack($id, $lease)" : "SELECT pgq_cancel($id)");
	wait_for($node, q{EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)});
	send_sql($late, $wait);
	wait_for($node, "query LIKE '%pgq_result%' AND (wait_event_type = 'Extension' OR state = 'idle') FROM pg_stat_activity WHERE pid = $late_pid");
	ask($other, 'SELECT pg_advisory_unlock(7366513, 0)');
	reply($ender);
	is(scalar reply($s), "${end}ed" =~ s/cancel/cancell/r, "$end: who waits is told of the end");
	is(scalar reply($late), "${end}ed" =~ s/cancel/cancell/r, '... also who looks between the commit and the word of it');
	end_session($_) for $ender, $late;
}

# ---- very many wait for one job, and a claim for another that comes back with its end ----

{
	my $many = 260;
	my ($id, $lease) = claimed('bare');
	my ($back, $back_lease) = claimed('bare');
	# Its lease remembers where it belongs now, so that the end of the lease itself gives the claim a job.
	sql("UPDATE pgq_ext.job SET priority = 5 WHERE job_id = $back");
	is(sql(q{SELECT count(*) FROM pgq_claim('bare')}), '0', 'there is nothing to claim');
	# A session that was idle wakes once by itself, 10 s later: before it claims.
	send_sql($s, q{SELECT pg_sleep(11) \; SELECT job_id, clock_timestamp() < statement_timestamp() + interval '65 s' FROM pgq_claim('bare', wait => '60 s')});
	my $each = "FROM generate_series(1, $many) n";
	my $at = sprintf 'dbname=postgres host=%s port=%s', $node->host, $node->port;
	ask($other, "SELECT count(dblink_connect('w' || n, '$at')) $each");
	ask($other, "SELECT count(*) $each, dblink('w' || n, 'SELECT job_id FROM pgq_result(0)') AS r(none bigint)");
	ask($other, "SELECT sum(dblink_send_query('w' || n, \$\$SELECT state FROM pgq_result($id, '60 s')\$\$)) $each");
	wait_for($node, "count(*) = $many FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%pgq_result%' AND pid <> pg_backend_pid()");
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	sql("BEGIN; SELECT pgq_release($back, $back_lease); SELECT pgq_ack($id, $lease); COMMIT");
	like(scalar reply($s), qr/^$back\|t$/m, 'a claim is woken, however many wait for a result');
	is(ask($other, "SELECT state, count(*) $each, dblink_get_result('w' || n) AS r(state text) GROUP BY state"), "acked|$many", '... and so is each of those');
	ask($other, "SELECT count(dblink_disconnect('w' || n)) $each");
}

# Who would have ended or changed a job that was gone has not done so.
for my $verb ('pgq_cancel(%s) IS NULL', 'NOT pgq_update(%s, priority => 1)')
{
	my $id = enqueued('bare');
	my ($asker, $deleter) = map { session($node) } 1 .. 2;
	ask($deleter, "BEGIN; DELETE FROM pgq_ext.job WHERE job_id = $id");
	ask($s, 'BEGIN');
	send_sql($s, 'SELECT ' . sprintf $verb, $id);
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
	ask($deleter, 'COMMIT');
	is(scalar reply($s), 't', "a job is deleted while another one waits: $verb");
	is(ask($asker, "SELECT count(*) FROM pgq_result($id)"), '0', '... there is none');
	send_sql($asker, "SELECT state FROM pgq_result($id, '5 s')");
	ask($s, 'COMMIT');
	is(scalar reply($asker), '', '... nor any result of it');
	end_session($_) for $asker, $deleter;
}

is(sql('SELECT * FROM pgq_check()'), '', 'memory agrees with the tables');
done_testing();
