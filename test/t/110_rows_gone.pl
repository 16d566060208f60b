# SQL deletes the row of a job in work: the slot and the group of the job are free as soon as the delete is committed,
# and not before.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\n");
# Most jobs are claimed in one session, and most rows deleted in another one.
my ($ask, $claim) = (in_one_session($node), in_one_session($node));
sub sql { return $ask->($_[0]) }
# For what sets or creates something in its session.
sub sql_alone { return $node->safe_psql('postgres', $_[0]) }
my $n = 0;

# A new queue of which one job of two may be in work, and that one: its queue, and what a verb is called with.
sub at_work
{
	my ($options) = @_;
	my $queue = 'q' . ++$n;
	sql("SELECT pgq_create_queue('$queue', lease_time => '1 day', $options)");
	sql("SELECT pgq_enqueue('$queue', '1', group_key => 'g'), pgq_enqueue('$queue', '2', group_key => 'g')");
	my ($id, $lease) = split /\|/, $claim->("SELECT job_id, lease FROM pgq_claim('$queue')");
	return ($queue, $id, "$id, $lease");
}

sub claimed { return $claim->("SELECT string_agg(payload::text, ' ') FROM pgq_claim('$_[0]', 5)") }
sub leased  { return sql("SELECT leased FROM pgq_ext.queue_status WHERE queue = '$_[0]'") }

my %limit = (
	concurrency       => 'concurrency => 1',
	group_concurrency => 'group_concurrency => 1',
	fifo              => 'fifo => true',
	fair              => 'fair => true, group_concurrency => 1');

for my $limit (sort keys %limit)
{
	my ($queue, $id, $lease) = at_work($limit{$limit});
	is(claimed($queue), '', "$limit: one is in work");
	my $waiting = session($node);
	send_sql($waiting, "SELECT payload FROM pgq_claim('$queue', wait => '60 s')");
	wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$queue'");
	sql("BEGIN; DELETE FROM pgq_ext.job WHERE job_id = $id; ROLLBACK");
	sql("BEGIN; SAVEPOINT s; DELETE FROM pgq_ext.job WHERE job_id = $id; ROLLBACK TO s; COMMIT");
	is(leased($queue), '1', "$limit: a DELETE that was rolled back, also to a savepoint, frees nothing");
	# A claim that was woken and has found nothing waits again.
	wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$queue'");
	sql("BEGIN; SAVEPOINT s; DELETE FROM pgq_ext.job WHERE job_id = $id; RELEASE s; COMMIT");
	is(reply($waiting), '2', "$limit: a DELETE lets the next one go out, to a claim that waits");
	end_session($waiting);
	is(sqlstate($node, "SELECT pgq_ack($lease)"), 'PQ001', '... its ack is told');
	is(sql("SELECT stale_calls, uncounted FROM pgq_ext.queue_stats WHERE queue = '$queue'"), '1|1', '... and counted');
	is(sql("SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = '$queue'"), '1', '... that of the other one counts');
}

# What else deletes it.
my %statement = (
	'TRUNCATE'                => 'TRUNCATE pgq_ext.job',
	'DELETE under LOCK TABLE' => 'BEGIN; LOCK TABLE pgq_ext.job IN ACCESS EXCLUSIVE MODE; DELETE FROM pgq_ext.job; COMMIT',
	'DELETE as a subscriber'  => 'SET session_replication_role = replica; DELETE FROM pgq_ext.job',
	'DELETE prepared'         => q{BEGIN; DELETE FROM pgq_ext.job; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'});
for my $what (sort keys %statement)
{
	my ($queue) = at_work('concurrency => 1, fifo => true');
	$what =~ /subscriber/ ? sql_alone($statement{$what}) : sql($statement{$what});
	sql("SELECT pgq_enqueue('$queue', '3', group_key => 'g')");
	is(sql("SELECT payload FROM pgq_claim('$queue', wait => '30 s')"), '3', "$what: a job that comes then is handed out");
	is(leased($queue), '1', '... and is the only one that is leased');
	is(sql("SELECT count(*) FROM pgq_ext.lease_entries() l JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue'"), '1', '... as memory has it');
	is(sql('SELECT pgq_check()'), '', '... which pgq_check finds right');
	sql("SELECT pgq_drop_queue('$queue', force => true)");
}

# A prepared DELETE frees nothing before it is committed, also after a restart.
for my $restart (0, 1)
{
	my ($queue, $id, $lease) = at_work('concurrency => 1');
	sql("BEGIN; DELETE FROM pgq_ext.job WHERE job_id = $id; PREPARE TRANSACTION 'undone'");
	sql("ROLLBACK PREPARED 'undone'");
	is(sql("SELECT pgq_extend($lease) IS NOT NULL"), 't', 'a prepared DELETE, undone: the job is still in work');
	sql("BEGIN; DELETE FROM pgq_ext.job WHERE job_id = $id; PREPARE TRANSACTION 'p'");
	stop_and_start($node, 'fast') if $restart;
	wait_for_scheduler($node);
	is(claimed($queue), '', 'prepared' . ($restart ? ', and a restart' : '') . ': it keeps its slot');
	sql("COMMIT PREPARED 'p'");
	is(sql("SELECT payload FROM pgq_claim('$queue', wait => '30 s')"), '2', '... until that is committed');
	wait_until_counted($node);
	is(sql('SELECT pgq_check()'), '', '... and all is right');
	sql("SELECT pgq_drop_queue('$queue', force => true)");
}

# Taken out and put back in one transaction it is in work; so is one that goes to another queue; whatever is done to it there.
{
	my ($queue, $id, $lease) = at_work('concurrency => 1');
	my $copy = "CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT job_id, queue_id, payload, group_key FROM pgq_ext.job WHERE job_id = $id";
	my $put  = 'INSERT INTO pgq_ext.job (job_id, queue_id, payload, group_key) SELECT * FROM kept';
	sql_alone("BEGIN; $copy; DELETE FROM pgq_ext.job WHERE job_id = $id; $put; COMMIT");
	is(claimed($queue), '', 'deleted and inserted again: it keeps its slot');
	sql_alone("BEGIN; $copy; TRUNCATE pgq_ext.job; $put; COMMIT; SELECT pgq_enqueue('$queue', '2')");
	is(claimed($queue), '', '... after TRUNCATE, too');
	sql("UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE job_id = $id");
	is(claimed($queue), '', 'moved to another segment: the same');
	my $segment = sql("SELECT segment FROM pgq_ext.job WHERE job_id = $id");
	sql("BEGIN; INSERT INTO pgq_ext.job (job_id, queue_id, payload, group_key, segment) SELECT job_id, queue_id, payload, group_key, (segment + 1) % 8 FROM pgq_ext.job WHERE job_id = $id;
		DELETE FROM pgq_ext.job WHERE job_id = $id AND segment = $segment; COMMIT");
	is(claimed($queue), '', 'inserted into another segment, then deleted from the first one: the same');
	is(sql("SELECT pgq_extend($lease) IS NOT NULL"), 't', '... its lease is current');
	sql("SELECT pgq_create_queue('elsewhere'); UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'elsewhere') WHERE job_id = $id");
	is(claimed($queue), '', 'moved to another queue: the same');
	sql("DELETE FROM pgq_ext.job WHERE job_id = $id");
	is(claimed($queue), '2', '... until it is deleted there');
	is(sql('SELECT pgq_check()'), '', '... and all is right');
	sql("SELECT pgq_drop_queue('$queue', force => true), pgq_drop_queue('elsewhere')");
}

# A TRUNCATE of what the transaction has deleted, or moved, already.
for my $first ('DELETE FROM pgq_ext.job WHERE job_id = %s', 'SAVEPOINT s; DELETE FROM pgq_ext.job WHERE job_id = %s; RELEASE s',
	'UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = \'elsewhere\') WHERE job_id = %s')
{
	sql(q{SELECT pgq_create_queue('elsewhere')});
	my ($queue, $id, $lease) = at_work('concurrency => 1');
	my $copy = "CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT job_id, queue_id, payload, group_key FROM pgq_ext.job WHERE job_id = $id";
	my $put  = 'INSERT INTO pgq_ext.job (job_id, queue_id, payload, group_key) SELECT * FROM kept';
	my $gone = sprintf $first, $id;
	sql_alone("BEGIN; $copy; $gone; TRUNCATE pgq_ext.job; $put; COMMIT; SELECT pgq_enqueue('$queue', '2')");
	is(claimed($queue), '', "$first, TRUNCATE, and inserted again: it keeps its slot");
	is(leased($queue), '1', '... and counts as leased');
	is(sql("SELECT pgq_extend($lease) IS NOT NULL"), 't', '... its lease is current');
	sql("BEGIN; $gone; SAVEPOINT s; TRUNCATE pgq_ext.job; ROLLBACK TO s; ROLLBACK");
	is(sql("SELECT pgq_extend($lease) IS NOT NULL"), 't', '... also if that is undone');
	sql("BEGIN; $gone; TRUNCATE pgq_ext.job; COMMIT; SELECT pgq_enqueue('$queue', '2')");
	is(claimed($queue), '2', '... without the INSERT it ends');
	is(sql('SELECT pgq_check()'), '', '... and all is right');
	sql("SELECT pgq_drop_queue('$queue', force => true), pgq_drop_queue('elsewhere', force => true)");
}

# ... of many jobs, with each of which it has done something else.
{
	sql(q{SELECT pgq_create_queue('elsewhere'); SELECT pgq_create_queue('many', lease_time => '1 day')});
	sql(q{SELECT count(pgq_enqueue('many', '1')) FROM generate_series(1, 40)});
	sql(q{CREATE TABLE hands AS SELECT job_id, lease, row_number() OVER (ORDER BY job_id) % 8 AS i FROM pgq_claim('many', 40)});
	my $of    = sub { return "WHERE job_id IN (SELECT job_id FROM hands WHERE i IN ($_[0]))" };
	my $put   = sub { return 'INSERT INTO pgq_ext.job (job_id, queue_id, payload) SELECT * FROM kept ' . $of->($_[0]) };
	my $queue = sub { return "UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = '$_[1]') " . $of->($_[0]) };
	my $all   = '0, 1, 2, 3, 4, 5, 6, 7';
	my $gone  = join '; ', 'CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT job_id, queue_id, payload FROM pgq_ext.job', 'DELETE FROM pgq_ext.job ' . $of->('1, 2, 3'),
	  $put->('2, 3'), 'DELETE FROM pgq_ext.job ' . $of->('3'), $queue->('4, 5', 'elsewhere'), $queue->('5', 'many'),
	  'SAVEPOINT s', 'DELETE FROM pgq_ext.job ' . $of->('6'), 'ROLLBACK TO s', 'DELETE FROM pgq_ext.job ' . $of->('7'), 'RELEASE s', 'TRUNCATE pgq_ext.job';
	sql_alone("BEGIN; $gone; " . $put->($all) . '; COMMIT');
	is(leased('many'), '40', 'deleted, put back, moved, truncated, put back: all keep their leases');
	sql_alone("BEGIN; $gone; " . $put->($all) . '; ROLLBACK');
	is(leased('many'), '40', '... also if that is undone');
	sql_alone("BEGIN; $gone; " . $put->('0, 3, 5') . '; COMMIT');
	is(sql('SELECT DISTINCT i FROM hands JOIN pgq_ext.lease USING (job_id) ORDER BY i'), "0\n3\n5", '... without the last INSERT they end');
	is(leased('many'), '15', '... and count no more');
	is(sql('SELECT count(pgq_ack(job_id, lease)) FROM hands WHERE i IN (0, 3, 5)'), '15', '... the others are current');
	is(sql('SELECT pgq_check()'), '', '... and all is right');
	sql(q{DROP TABLE hands; SELECT pgq_drop_queue('many', force => true), pgq_drop_queue('elsewhere', force => true)});
}

# What the view and pgq_explain say of a job that waits for one whose row is elsewhere.
for my $limit ('fifo => true', 'group_concurrency => 1')
{
	my $says = sub { my ($queue) = @_; return sql("SELECT waits_for FROM pgq_ext.job_status WHERE queue = '$queue' AND state = 'ready'") };
	my ($queue, $id) = at_work($limit);
	my $right = $limit =~ /fifo/ ? qr/^an earlier job of its group \(fifo\)$/ : qr/^one of the jobs of its group in work/;
	like($says->($queue), $right, "$limit: waits_for tells of the job in work");
	sql("UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE job_id = $id");
	like($says->($queue), $right, '... which is moved to another segment');
	sql("SELECT pgq_create_queue('elsewhere'); UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'elsewhere') WHERE job_id = $id");
	is(claimed($queue), '', '... which is moved to another queue: it has the place in its group');
	like($says->($queue), qr/^one of the jobs of its group in work/, '... waits_for says so');
	sql("DELETE FROM pgq_ext.job WHERE job_id = $id");
	is($says->($queue), 'a worker', '... until it is deleted');
	is(claimed($queue), '2', '... then the next one goes out');
	sql("TRUNCATE pgq_ext.job_$_") for 0 .. 7;
	sql("SELECT pgq_ext.recount('$queue'), pgq_enqueue('$queue', '3', group_key => 'g')");
	is(claimed($queue), '', '... of which no trigger tells: it keeps the place in its group');
	like($says->($queue), qr/^one of the jobs of its group in work/, '... waits_for says so');
	is(sql("SELECT e.step FROM pgq_ext.job_status s, pgq_explain(s.job_id) e WHERE s.queue = '$queue'"), 'group full', '... and pgq_explain');
	sql("SELECT pgq_drop_queue('$queue', force => true), pgq_drop_queue('elsewhere', force => true)");
}

# In open transactions that have claimed or asserted it: it ends all the same, and what they do then changes nothing.
for my $how ('commit', 'rollback', 'kill')
{
	my ($queue, $id, $lease) = at_work('concurrency => 1');
	my $worker = session($node);
	ask($worker, "BEGIN; SELECT pgq_assert_lease($lease)");
	sql("DELETE FROM pgq_ext.job WHERE job_id = $id");
	my $claimer = session($node);
	is(ask($claimer, "BEGIN; SELECT payload FROM pgq_claim('$queue')"), '2', 'deleted while its worker relies on it: its slot is free');
	sql("DELETE FROM pgq_ext.job WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = '$queue')");
	sql("SELECT pgq_enqueue('$queue', '3'), pgq_enqueue('$queue', '4')");
	is(claimed($queue), '3', '... so is that of one whose claim is open');
	for my $session ($worker, $claimer)
	{
		$how eq 'kill' ? sql('SELECT pg_terminate_backend(' . pid_of($session) . ', 60000)') : ask($session, $how);
		end_session($session);
	}
	is(claimed($queue), '', "... and stays, whatever becomes of them ($how)");
	is(leased($queue), '1', '... one is leased');
	is(sql('SELECT pgq_check()'), '', '... and all is right');
	sql("SELECT pgq_drop_queue('$queue', force => true)");
}

# Where no trigger tells of it, who answers for the job finds out.
for my $verb ('pgq_ack(%s)', 'pgq_assert_lease(%s)', q{pgq_progress(%s, '1')}, 'pgq_extend(%s)', 'pgq_fail(%s)', 'pgq_release(%s)')
{
	my ($queue, $id, $lease) = at_work('concurrency => 1');
	my $switch = sub { join '', map { "ALTER TABLE pgq_ext.job_$_ $_[0] TRIGGER job_changed; " } 0 .. 7 };
	sql('BEGIN; ' . $switch->('DISABLE') . "DELETE FROM pgq_ext.job WHERE job_id = $id; " . $switch->('ENABLE ALWAYS') . 'COMMIT');
	sqlstate($node, 'SELECT ' . sprintf($verb, $lease));
	is(claimed($queue), '2', "deleted without triggers: the slot is free after $verb");
	sql("SELECT pgq_drop_queue('$queue', force => true)");
}

# ... but not for a DELETE of its own that it undoes.
{
	my ($queue, $id, $lease) = at_work('concurrency => 1');
	my $worker = session($node);
	ask($worker, "BEGIN; DELETE FROM pgq_ext.job WHERE job_id = $id; SAVEPOINT s");
	like((ask($worker, "SELECT pgq_ack($lease)"))[1], qr/stale|lease/, 'a worker has deleted its job itself: its ack is told');
	ask($worker, 'ROLLBACK');
	is(claimed($queue), '', '... undone it has the job yet');
	is(sql("SELECT pgq_ack($lease)"), '', '... and acknowledges it');
	is(claimed($queue), '2', '... then the next one goes out');
	end_session($worker);
}

done_testing();
