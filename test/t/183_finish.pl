# pgq_finish beside other sessions: workers and handlers that have the job, administrators who delete or change its row, and
# prepared transactions; and pgmq.archive, which keeps the message as it was when it was deleted.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use HandlerTest ':calls';

my $node = handler_node('main', conf => "max_prepared_transactions = 9\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
my ($one, $two) = map { session($node) } 1 .. 2;
sub wait_for_lock { my ($call) = @_; return wait_for($node, "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%$call%' AND pid <> pg_backend_pid())") }

# ---- what a worker learns ----

sql(q{SELECT pgq_create_queue('worked', lease_time => '1 day', concurrency => 1)});
sub claimed
{
	sql(q{SELECT pgq_enqueue('worked', '1'), pgq_enqueue('worked', '2')});
	return split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('worked', wait => '60 s')});
}
for my $end ('COMMIT', 'ROLLBACK', q{PREPARE TRANSACTION 'finish'})
{
	my ($job, $lease) = claimed();
	is((ask($one, "BEGIN; SELECT count(*) FROM pgq_finish(ARRAY[$job])"))[0], '1', "$end: finished");
	is((ask($one, q{SELECT count(*) FROM pgq_claim('worked')}))[0], '0', '... the worker goes on until it is told, so the job keeps its slot until the commit');
	ask($one, $end);
	is(sql("SELECT pgq_extend($job, $lease) IS NULL"), $end eq 'ROLLBACK' ? 'f' : 't', '... pgq_extend tells the worker, unless that was undone');
	sql(q{COMMIT PREPARED 'finish'}) if $end =~ /PREPARE/;
	sql("SELECT pgq_ack($job, $lease)") if $end eq 'ROLLBACK';
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lease});
	sql(q{SELECT pgq_purge_queue('worked')});
}
wait_for($node, q{acked = 3 FROM pgq_ext.queue_stats WHERE queue = 'worked'});
is(sql(q{SELECT handed_out, acked, cancelled, lost, uncounted FROM pgq_ext.queue_stats WHERE queue = 'worked'}), '3|3|0|0|0', 'each hand-out ended once');
is(sql(q{SELECT count(*) > 0 FROM pgq_ext.queue_latency WHERE queue = 'worked'}), 't', '... and the times are there');

# A handler's call is interrupted, as by pgq_cancel.
handled_queue($node, 'handled', q{BEGIN PERFORM pg_advisory_xact_lock(9); INSERT INTO effect VALUES (job.job_id, 'done'); END});
ask($two, 'SELECT pg_advisory_lock(9)');
my $handled = enqueue($node, 'handled');
my $pid = wait_until_called($node, 'handled');
is(sql("SELECT count(*) FROM pgq_finish(ARRAY[$handled])"), '1', 'a handler has the job');
wait_for($node, "count(*) = 0 FROM pg_locks WHERE pid = $pid AND locktype = 'advisory' AND NOT granted");
is(end_of($node, $handled), 'acked||', '... whose call is interrupted');
ask($two, 'SELECT pg_advisory_unlock(9)');
is(end_of($node, enqueue($node, 'handled')), 'acked||', '... and the handler goes on');
is(sql("SELECT count(*) FROM effect WHERE job_id = $handled"), '0', '... without that job');

# ---- an administrator who deletes the row ----

sql(q{CREATE EXTENSION pgmq; SELECT pgmq.create('mail')});
sub sent { return sql(q{SELECT pgmq.send('mail', '"old"')}) }
for my $read (0, 1)
{
	my $what = $read ? 'a message that is being read' : 'a message that waits';
	for my $call ('pgmq.delete', 'pgmq.archive')
	{
		for my $end ('COMMIT', 'ROLLBACK')
		{
			my $id = sent();
			sql(q{SELECT count(*) FROM pgmq.read('mail', 600, 1)}) if $read;
			ask($one, qq{BEGIN; DELETE FROM pgq_ext.job WHERE payload = '"old"'});
			send_sql($two, "SELECT $call('mail', $id)");
			wait_for_lock($call);
			ask($one, $end);
			is((reply($two))[0], $end eq 'COMMIT' ? 'f' : 't', "$what: $call waits for a DELETE, then $end");
			ask($one, "BEGIN; SELECT $call('mail', $id)");
			ask($one, 'ROLLBACK');
		}
		my $id = sent();
		sql(q{SELECT count(*) FROM pgmq.read('mail', 600, 1)}) if $read;
		ask($one, "BEGIN; SELECT $call('mail', $id)");
		send_sql($two, q{DELETE FROM pgq_ext.job WHERE payload = '"old"'; SELECT 'deleted'});
		wait_for_lock('DELETE FROM pgq_ext.job');
		ask($one, 'COMMIT');
		like((reply($two))[0], qr/deleted/, "... and a DELETE waits for $call");
	}
}
wait_for($node, 'count(*) = 0 FROM pgq_ext.lease');
is(sql(q{SELECT count(*) FROM pgq_check()}) . sql(q{SELECT count(*) FROM pgmq.q_mail}), '00', 'nothing is left, and pgq_check finds nothing');
is(sql(q{SELECT read_ct, count(*) FROM pgmq.a_mail GROUP BY 1 ORDER BY 1}), "0|2\n1|2", 'the archive has what was archived, and how often it was read');

# ---- a message that SQL changes while pgmq.archive looks for it ----

ask($two, q{SET pgq_ext.stop_point = 'finish-job'});
for my $read (0, 1)
{
	for my $change (q{UPDATE pgmq.q_mail SET message = '"new"', headers = '{"h": 1}'}, q{UPDATE pgq_ext.job SET payload = '"new"', headers = '{"h": 1}' WHERE payload = '"old"'}, 'DELETE FROM pgmq.q_mail')
	{
		my $id = sent();
		sql(q{SELECT count(*) FROM pgmq.read('mail', 600, 1)}) if $read;
		ask($one, 'SELECT pg_advisory_lock(7366513, 0)');
		send_sql($two, "SELECT pgmq.archive('mail', $id)");
		wait_for($node, q{EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)});
		ask($one, $change);
		ask($one, 'SELECT pg_advisory_unlock(7366513, 0)');
		my $gone = $change =~ /DELETE/;
		is((reply($two))[0], $gone ? 'f' : 't', "$change meanwhile");
		is(sql("SELECT message, headers, read_ct FROM pgmq.a_mail WHERE msg_id = $id"), $gone ? '' : qq("new"|{"h": 1}|$read), '... the archive has the message as it was deleted');
	}
}

done_testing();
