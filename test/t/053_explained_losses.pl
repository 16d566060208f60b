# After a lease is lost, its worker can still say by pgq_fail why the attempt failed.
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
sql(q{SELECT pgq_create_queue('q', lease_time => '1 day', max_attempts => 3, backoff_base => '1 h', backoff_jitter => 0)});
my $s = session($node);

# Claimed by a transaction that was rolled back: id, lease
sub lose
{
	my ($before) = @_;
	sql(q{SELECT pgq_enqueue('q', '1')});
	ask($s, 'BEGIN');
	my ($id, $lease) = split /\|/, ask($s, q{SELECT job_id, lease FROM pgq_claim('q', wait => '60 s')});
	ask($s, 'ROLLBACK');
	return ($id, $lease);
}
sub until_counted { my ($id) = @_; wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $id"); return }
sub row_of { my ($id) = @_; return sql("SELECT attempts, last_error, run_at > clock_timestamp() + interval '90 min' FROM pgq_ext.job WHERE job_id = $id") }
sub fail_late { my ($id, $lease, $more) = @_; return sql("SELECT pgq_fail($id, $lease, " . ($more // "'why', retry_in => '2 h'") . ')') }
sub remove { my ($id) = @_; sql("SELECT pgq_cancel($id)"); return }

# ---- counted already ----
{
	my ($id, $lease) = lose();
	until_counted($id);
	is(row_of($id), '1|the claiming transaction was rolled back or its session ended|f', 'the scheduler counts a lost attempt');
	is(fail_late($id, $lease), 'retry', '... and its worker says why');
	is(row_of($id), '1|why|t', '... which is that attempt\'s error and next time, and counts nothing');
	is(fail_late($id, $lease, "'again'"), 'stale', '... once');
	is(row_of($id), '1|why|t', '... and for all');
	remove($id);

	($id, $lease) = lose();
	until_counted($id);
	is(fail_late($id, $lease, 'NULL'), 'retry', 'without an error text');
	is(row_of($id), '1|the claiming transaction was rolled back or its session ended|f', '... nothing changes');
	remove($id);

	($id, $lease) = lose();
	until_counted($id);
	is(fail_late($id, $lease, q{'no use', retry => false}), 'dead', 'a lost one that is not to be tried again');
	is(sql("SELECT attempts, reason, last_error, fence = $lease FROM pgq_ext.dead_job WHERE job_id = $id"), '1|failed without retry|no use|t', '... is dead');
	remove($id);
}

# ---- at the same time ----
{
	my $gate = stop_scheduler_at($node, 'reap');
	my ($first, $first_lease) = lose();
	# The scheduler stands at that one; of this it has not heard.
	scheduler_stands($node);
	my ($second, $second_lease) = lose();
	is(fail_late($second, $second_lease), 'retry', 'lost, and not counted yet');
	is(row_of($second), '1|why|t', '... it is counted by that');
	my $pid = pid_of($s);
	send_sql($s, "SELECT pgq_fail($first, $first_lease, 'why', retry_in => '2 h')");
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
	pass('one that is just being counted is waited for');
	let_go($node, $gate);
	is(scalar reply($s), 'retry', '... and explained then');
	is(row_of($first), '1|why|t', '... it was counted once');
	is(row_of($second), '1|why|t', '... as was the other');
	remove($_) for $first, $second;
}

# ---- not this one any more ----
{
	my ($id, $lease) = lose();
	until_counted($id);
	sql("SELECT pgq_retry($id)");
	my $other = sql(q{SELECT lease FROM pgq_claim('q', wait => '60 s')});
	is(fail_late($id, $lease), 'stale', 'a job that somebody has again');
	is(sql("SELECT pgq_release($id, $other)"), 't', '... who gives it back');
	is(fail_late($id, $lease), 'stale', '... is another attempt\'s');
	is(fail_late($id, $other), 'stale', '... and that one was not lost');
	sql("UPDATE pgq_ext.job SET payload = '2' WHERE job_id = $id");
	remove($id);

	($id, $lease) = lose();
	until_counted($id);
	sql("UPDATE pgq_ext.job SET payload = '2' WHERE job_id = $id");
	is(fail_late($id, $lease), 'stale', 'a job that is another one by now');
	remove($id);

	($id, $lease) = lose();
	until_counted($id);
	remove($id);
	is(fail_late($id, $lease), 'stale', 'a job that is gone');
	is(fail_late($id, $_), 'stale', "no lease: $_") for 0, -1, -$lease, $lease + 1;

	($id, $lease) = lose();
	until_counted($id);
	$node->stop('immediate');
	$node->start;
	$s = session($node);
	is(fail_late($id, $lease), 'stale', 'one from before a crash, which may have had it handed out again');
	remove($id);
}

# ---- being changed at that moment ----
for my $retry ('false', 'true')
{
	my ($id, $lease) = lose();
	until_counted($id);
	my $changer = session($node);
	ask($changer, qq{BEGIN; UPDATE pgq_ext.job SET payload = '"new"', attempts = 0, run_at = '2000-01-01' WHERE job_id = $id});
	send_and_block($node, $s, "SELECT pgq_fail($id, $lease, 'why', retry => $retry)");
	ask($changer, 'COMMIT');
	is(scalar reply($s), 'stale', "a job that SQL makes another one just then, retry => $retry");
	is(sql("SELECT payload, attempts, last_error = 'why', run_at < now() FROM pgq_ext.job WHERE job_id = $id"), '"new"|0|f|t', '... is what that has made of it');
	remove($id);

	($id, $lease) = lose();
	until_counted($id);
	ask($changer, qq{BEGIN; UPDATE pgq_ext.job SET payload = '"new"' WHERE job_id = $id});
	send_and_block($node, $s, "SELECT pgq_fail($id, $lease, 'why', retry => $retry)");
	ask($changer, 'ROLLBACK');
	is(scalar reply($s), $retry eq 'true' ? 'retry' : 'dead', '... or the old one, if that is undone');
	remove($id);
	end_session($changer);
}

# ---- dead of it, while another session waits at the row ----
{
	my $dead = q{SELECT dead_lettered FROM pgq_ext.queue_stats WHERE queue = 'q'};
	my ($id, $lease) = lose();
	until_counted($id);
	my ($before, $other) = (sql($dead), session($node));
	ask($s, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $id FOR UPDATE");
	send_and_block($node, $other, "SELECT pgq_update($id, priority => 1)");
	is(ask($s, "SELECT pgq_fail($id, $lease, retry => false)"), 'dead', 'who has locked the row of a lost job needs no lease to bury it');
	ask($s, 'COMMIT');
	is(scalar reply($other), 'f', '... and who has that finds no job');
	is(sql($dead), $before + 1, '... which counts as a dead letter');
	remove($id);
	end_session($other);
}

# ---- by time ----
{
	sql(q{SELECT pgq_enqueue('q', '1')});
	my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q', lease_time => '1 s', wait => '60 s')});
	until_counted($id);
	is(fail_late($id, $lease), 'retry', 'a lease that has expired');
	is(row_of($id), '1|why|t', '... is explained as well');
	remove($id);
}

# ---- dead of it ----
{
	sql(q{SELECT pgq_enqueue('q', '1', max_attempts => 1)});
	my ($id, $lease) = split /\|/, sql(q{BEGIN; SELECT job_id, lease FROM pgq_claim('q', wait => '60 s'); ROLLBACK});
	wait_for($node, "count(*) = 1 FROM pgq_ext.dead_job WHERE job_id = $id");
	is(fail_late($id, $lease), 'dead', 'a job that died of the loss');
	is(sql("SELECT attempts, reason, last_error FROM pgq_ext.dead_job WHERE job_id = $id"), '1|attempts used up|why', '... has its reason');
	is(fail_late($id, $lease, "'again'"), 'stale', '... once');
	remove($id);
}

# ---- undone, prepared ----
{
	my ($id, $lease) = lose();
	until_counted($id);
	is(sql("BEGIN; SELECT pgq_fail($id, $lease, 'why', retry_in => '2 h'); ROLLBACK; SELECT attempts, last_error <> 'why' FROM pgq_ext.job WHERE job_id = $id"),
		"retry\n1|t", 'an explanation that is rolled back is none');
	sql("BEGIN; SELECT pgq_fail($id, $lease, 'why', retry_in => '2 h'); PREPARE TRANSACTION 'f'");
	is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', 'one that is prepared keeps claims away');
	sql(q{COMMIT PREPARED 'f'});
	is(row_of($id), '1|why|t', '... and is done at COMMIT PREPARED');
	wait_for($node, 'count(*) = 0 FROM pgq_ext.lease');
	remove($id);

	# not counted yet
	my $gate = stop_scheduler_at($node, 'reap');
	my ($first) = lose();
	scheduler_stands($node);
	for my $end ('ROLLBACK', 'COMMIT')
	{
		($id, $lease) = lose();
		sql("BEGIN; SELECT pgq_fail($id, $lease, 'why', retry_in => '2 h'); PREPARE TRANSACTION 'f'");
		sql("$end PREPARED 'f'");
		wait_for($node, q{count(*) = 0 FROM pg_prepared_xacts});
		is(sql("SELECT attempts FROM pgq_ext.job WHERE job_id = $id"), $end eq 'COMMIT' ? '1' : '0', "$end PREPARED");
		if ($end eq 'ROLLBACK')
		{
			is(fail_late($id, $lease), 'retry', '... after which it is lost as before');
			is(row_of($id), '1|why|t', '... and counted once');
		}
		remove($id);
	}
	let_go($node, $gate);
	until_counted($first);
	remove($first);
}

wait_for($node, 'count(*) = 0 FROM pgq_ext.lease');
is(sql('SELECT * FROM pgq_check()'), '', 'memory agrees with the tables');
is(sql(q{SELECT sum(handed_out - acked - failed - released - cancelled - lost - uncounted) FROM pgq_ext.queue_stats}), '0', 'every hand-out has ended once');
done_testing();
