# Ends of a lease that meet another change: a lease that another transaction is ending or that is doomed, and options
# and rows that another session is changing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q{SELECT pgq_create_queue('q', lease_time => '1 day', backoff_base => '1 h', max_attempts => 3)});
my ($worker, $other, $waiter) = map { session($node) } 1 .. 3;
my $pid = pid_of($waiter);
sub enqueued { return sql(q{SELECT pgq_enqueue('q', '1')}) }
sub left_nothing_ok
{
	my ($what) = @_;
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lease_entries()});
	is(sql(q{SELECT count(*), (SELECT count(*) FROM pgq_check()) FROM pgq_ext.job}), '0|0', "... $what leaves nothing behind");
	return;
}

# ---- who waits for a job is told what its end is, whatever its lease was taken for ----

sub told
{
	my ($id, @do) = @_;
	send_sql($waiter, "SELECT state FROM pgq_result($id, '60 s')");
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	ask($worker, $_) for @do;
	return scalar reply($waiter);
}

{
	my $id = enqueued();
	is(told($id, 'BEGIN', "SELECT pgq_update($id, priority => 3)", "SELECT pgq_cancel($id)", 'COMMIT'), 'cancelled', 'cancelled after a change in the same transaction');
	$id = enqueued();
	is(told($id, 'BEGIN', "SELECT pgq_release(job_id, lease) FROM pgq_claim('q')", "SELECT pgq_cancel($id)", 'COMMIT'), 'cancelled', '... after it was released');
	$id = enqueued();
	is(told($id, 'BEGIN', 'SAVEPOINT a', q{SELECT job_id FROM pgq_claim('q')}, 'ROLLBACK TO a', "SELECT pgq_cancel($id)", 'COMMIT'), 'cancelled', '... after it was lost');
	$id = enqueued();
	is(told($id, 'BEGIN', "SELECT pgq_update($id, priority => 3)", 'SAVEPOINT a', "SELECT pgq_cancel($id)", 'ROLLBACK TO a', 'COMMIT',
		'SELECT pgq_ack(job_id, lease) FROM pgq_claim(\'q\')'), 'acked', '... not if that was undone');
	$id = enqueued();
	is(told($id, 'BEGIN', "SELECT pgq_update($id, priority => 3)", "SELECT pgq_cancel($id)", q{PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'}), 'cancelled', '... also if it was prepared');

	$id = enqueued();
	my $lease = ask($worker, q{BEGIN; SELECT lease FROM pgq_claim('q')});
	ask($worker, 'ROLLBACK');
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $id");
	is(told($id, "SELECT pgq_fail($id, $lease, 'why', retry => false)"), 'dead', 'dead, since the worker of a lost lease has said so');
	is(sql(q{SELECT dead_lettered FROM pgq_ext.queue_stats}), '1', '... which is counted');
	$id = enqueued();
	$lease = ask($worker, q{BEGIN; SELECT lease FROM pgq_claim('q')});
	ask($worker, 'ROLLBACK');
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $id");
	is(told($id, "BEGIN; SELECT pgq_fail($id, $lease, 'why', retry => false); PREPARE TRANSACTION 'p'", q{COMMIT PREPARED 'p'}), 'dead', '... also if that was prepared');
	wait_for($node, 'dead_lettered = 2 FROM pgq_ext.queue_stats');
	pass('... and counted');
	sql('SELECT pgq_cancel(job_id) FROM pgq_ext.dead_job');
	left_nothing_ok('it');
}

# ---- cancel of a lease that is lost as soon as nobody uses it ----

{
	my $id = enqueued();
	my $lease = ask($worker, q{SELECT lease FROM pgq_claim('q', session_bound => true)});
	ask($other, "BEGIN; SELECT pgq_assert_lease($id, $lease)");
	end_session($worker);
	wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE query ~ 'session_bound => true' AND pid <> pg_backend_pid()");
	is(ask($other, "SET LOCAL statement_timeout = '60 s'; SELECT pgq_cancel($id); COMMIT"), 'leased', 'by who uses it, after its session has gone');
	$worker = session($node);
	left_nothing_ok('it');

	$id = enqueued();
	$lease = ask($worker, q{BEGIN; SELECT lease FROM pgq_claim('q')});
	is(ask($other, "BEGIN; SELECT pgq_cancel($id)"), 'leased', 'a cancel');
	is(ask($worker, "SELECT pgq_extend($id, $lease)"), '', '... of which the worker is told');
	ask($other, 'ROLLBACK');
	is(ask($other, "SET statement_timeout = '60 s'; SELECT pgq_cancel($id)"), 'leased', '... undone, and done by another one beside the open claim');
	ask($worker, 'COMMIT');
	left_nothing_ok('it');

	$id = enqueued();
	ask($worker, q{BEGIN; SELECT lease FROM pgq_claim('q', session_bound => true); PREPARE TRANSACTION 'bound'});
	end_session($worker);
	send_and_block($node, $other, "SELECT pgq_cancel($id)");
	pass('one of a prepared claim waits where it is seen');
	sql(q{COMMIT PREPARED 'bound'});
	is(scalar reply($other), 'leased', '... for its end');
	$worker = session($node);
	left_nothing_ok('it');
}

# ---- options that another transaction has changed ----

{
	enqueued();
	ask($worker, q{BEGIN; SELECT pgq_alter_queue('q')});
	sql(q{SELECT pgq_pause_queue('q')});
	ask($worker, 'COMMIT');
	is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', 'pgq_alter_queue of nothing does not undo a pause');
	ask($other, 'LISTEN pgq_q');
	sql(q{SELECT pgq_resume_queue('q')});
	my $heard;
	my $ending = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
	until (($heard = ask($other, 'SELECT 1')) =~ /notification/ || monotonic() > $ending) { sql('SELECT pg_sleep(0.2)') }
	like($heard, qr/pgq_q/, 'who listens hears of the jobs of a queue that goes on');
	ask($other, 'UNLISTEN *');
	is(sql(q{SELECT pgq_purge_queue('q')}), '1', '... which are there');
}

# ---- purge of rows that somebody is changing ----

for my $end ('COMMIT', 'ROLLBACK')
{
	for my $do ('pgq_update(%s, priority => 5)', 'pgq_cancel(%s)')
	{
		my $id = enqueued();
		ask($worker, 'BEGIN; SELECT ' . sprintf($do, $id));
		send_and_block($node, $other, q{SELECT pgq_purge_queue('q')});
		ask($worker, $end);
		is(scalar reply($other), $do =~ /cancel/ && $end eq 'COMMIT' ? '0' : '1', "pgq_purge_queue waits for $do, $end");
		left_nothing_ok('it');
	}
}

# ---- what is over, and clocks that are behind ----

{
	my $id = sql(q{SELECT pgq_enqueue('q', '1', delay => '1 h', expires_in => '0.2 s')});
	sql('SELECT pg_sleep(0.3)');
	is(sql("SELECT pgq_retry($id), pgq_update($id, priority => 1)"), 'f|f', 'what has expired cannot be changed');
	is(sql("SELECT pgq_cancel($id)"), 'scheduled', '... but cancelled');
	for my $do ("pgq_retry(%s, '1 h')", "pgq_update(%s, run_at => now() + interval '1 h')")
	{
		$id = enqueued();
		sql("UPDATE pgq_ext.job SET enqueued_at = now() + interval '1 day' WHERE job_id = $id");
		sql('SELECT ' . sprintf($do, $id));
		is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', "$do of a job enqueued by a clock that was ahead: it waits");
		sql("SELECT pgq_cancel($id)");
	}
	$id = enqueued();
	sql("UPDATE pgq_ext.job SET enqueued_at = now() + interval '1 day' WHERE job_id = $id");
	sql(q{SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q')});
	is(sql("SELECT pgq_retry($id, '1 h'); SELECT count(*) FROM pgq_claim('q')"), "t\n0", '... so does a dead one');
	sql("SELECT pgq_cancel($id)");
	left_nothing_ok('that');
}
end_session($_) for $worker, $other, $waiter;
done_testing();
