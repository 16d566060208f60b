# A job that a prepared transaction has claimed stays with that transaction until it ends, even through a crash of the
# server. Otherwise the effect that was prepared with the claim and the effect of the next attempt could both be
# committed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\n");
wait_for_scheduler($node);
my $s = session($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub prepare { my ($name, $sql) = @_; return sql("BEGIN; $sql; PREPARE TRANSACTION '$name'") }
sub count_of { my ($what) = @_; return sql("SELECT count(*) FROM $what") }

sub crash
{
	end_session($s);
	$node->stop('immediate');
	$node->start;
	$s = session($node);
	return;
}

# Claims that look at every row more than once.
sub offered
{
	my ($queue) = @_;
	my %seen;
	$seen{$_}++ for map { split /\n/ } map { sql("SELECT job_id FROM pgq_claim('$queue', 1000, wait => '150 ms')") } 1 .. 3;
	return join ' ', sort { $a <=> $b } keys %seen;
}

sub eventually_offered_ok
{
	my ($queue, $n, $what) = @_;
	my %seen;
	for (1 .. 60)
	{
		$seen{$_}++ for split /\n/, sql("SELECT job_id FROM pgq_claim('$queue', 1000, wait => '1 s')");
		last if keys %seen >= $n;
	}
	is(scalar keys %seen, $n, $what);
	return;
}

sql('CREATE TABLE effect (job_id bigint, what text)');
my $n = 0;
sub new_queue
{
	my ($jobs) = @_;
	my $queue = 'q' . ++$n;
	create_queue($node, $queue, "lease_time => '1 day'");
	sql("SELECT pgq_enqueue('$queue', to_jsonb(i)) FROM generate_series(1, $jobs) i") if $jobs;
	return $queue;
}

# ---- somebody else is just cancelling the job ----

# Its row could not be locked for what is prepared, so that is not prepared.
{
	my $queue = new_queue(1);
	my ($claimer, $canceller) = map { session($node) } 1 .. 2;
	my $job = ask($claimer, "BEGIN; SELECT job_id FROM pgq_claim('$queue')");
	is(ask($canceller, "BEGIN; SELECT pgq_cancel($job)"), 'leased', 'a job that a transaction has claimed is being cancelled');
	send_sql($claimer, q{PREPARE TRANSACTION 'cancelled'});
	like((reply($claimer))[1], qr/ERROR/, '... then that cannot be prepared');
	ask($canceller, 'ROLLBACK');
	eventually_offered_ok($queue, 1, '... and the job goes out when the cancel is undone');
	end_session($_) for $claimer, $canceller;
}

# ---- the work and the claim are prepared together ----

for my $end ('COMMIT', 'ROLLBACK')
{
	my $queue = new_queue(3);
	my ($id, $lease) = split /\|/, prepare('work', "WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('$queue')),
		e AS (INSERT INTO effect SELECT job_id, '$queue' FROM c) SELECT job_id, lease FROM c");
	crash();
	my %others = map { $_ => 1 } split / /, offered($queue);
	is(scalar keys %others, 2, "$end: after a crash the other jobs go out");
	ok(!$others{$id}, '... that of the prepared transaction does not');
	crash();
	ok(!grep({ $_ == $id } split / /, offered($queue)), '... nor after another one');
	sql("SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease");
	sql("$end PREPARED 'work'");
	is(count_of("effect WHERE what = '$queue'"), $end eq 'COMMIT' ? 1 : 0, "... $end: the effect");
	eventually_offered_ok($queue, 1, '... and only then the job goes out');
	is(count_of("pgq_ext.lease WHERE job_id = $id"), '1', '... that job');
	is(sqlstate($node, "SELECT pgq_ack($id, $lease)"), 'PQ001', '... to somebody else');
}

# A lease of before the crash whose prepared claim was committed is as any other: honoured if nobody was faster.
{
	my $queue = new_queue(1);
	my ($id, $lease) = split /\|/, prepare('late', "SELECT job_id, lease FROM pgq_claim('$queue')");
	crash();
	is(offered($queue), '', 'held');
	sql("COMMIT PREPARED 'late'");
	wait_for($node, 'count(*) = 0 FROM pgq_ext.lease_entries()');
	sql("SELECT pgq_ack($id, $lease)");
	is(count_of("pgq_ext.job_status WHERE queue = '$queue'"), '0', 'committed after the crash: its late ack is honoured');
}

# ---- which rows are locked ----

# Claims in savepoints, acked, failed, taken back, moved on by the own transaction; many of them.
{
	my $queue = new_queue(1200);
	prepare('many', "SELECT count(*) FROM pgq_claim('$queue', 1000);
		SAVEPOINT a; SELECT count(*) FROM pgq_claim('$queue', 100); RELEASE a;
		SAVEPOINT b; SELECT count(*) FROM pgq_claim('$queue', 50); ROLLBACK TO b;
		SAVEPOINT c; SELECT count(pgq_ack(job_id, lease)) FROM (SELECT * FROM pgq_ext.lease WHERE queue = '$queue' AND in_transaction ORDER BY job_id LIMIT 10) l; ROLLBACK TO c;
		SELECT count(pgq_ack(job_id, lease)) FROM (SELECT * FROM pgq_ext.lease WHERE queue = '$queue' AND in_transaction ORDER BY job_id LIMIT 100) l");
	crash();
	my $free = split / /, offered($queue);
	is($free, 100, 'of 1200 jobs those that it has neither claimed nor acked go out, also those that a savepoint took back');
	sql("ROLLBACK PREPARED 'many'");
	eventually_offered_ok($queue, 1100, '... the others when it is rolled back');
}

# Claimed and changed, or deleted, by plain SQL of the same transaction.
{
	my $queue = new_queue(3);
	prepare('changed', "SELECT count(*) FROM pgq_claim('$queue', 3);
		UPDATE pgq_ext.job SET priority = 1 WHERE job_id = (SELECT min(job_id) FROM pgq_ext.lease WHERE queue = '$queue');
		DELETE FROM pgq_ext.job WHERE job_id = (SELECT max(job_id) FROM pgq_ext.lease WHERE queue = '$queue')");
	crash();
	is(offered($queue), '', 'changed by its own transaction: nobody gets it');
	sql("COMMIT PREPARED 'changed'");
	eventually_offered_ok($queue, 2, '... until it is committed');
}

# Somebody has a lock on the row: it is not waited for.
{
	my $queue = new_queue(2);
	ask($s, "BEGIN; SELECT job_id FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' ORDER BY job_id LIMIT 1 FOR KEY SHARE OF job");
	is(prepare('shared', "SELECT count(*) FROM pgq_claim('$queue')"), '1', 'a lock that both can have is no hindrance');
	ask($s, 'ROLLBACK');
	sql("ROLLBACK PREPARED 'shared'");
	eventually_offered_ok($queue, 2, '... and none later');
	sql("SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease");

	$queue = new_queue(2);
	my $claimer = session($node);
	ask($claimer, "BEGIN; SELECT count(*) FROM pgq_claim('$queue')");
	ask($s, "BEGIN; SELECT count(*) FROM (SELECT job_id FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' FOR UPDATE OF job) j");
	my (undef, $error) = ask($claimer, "\\set VERBOSITY verbose\nPREPARE TRANSACTION 'locked'");
	like($error, qr/ERROR:  55P03: .*locked by another transaction/, 'a row that somebody else has locked: PREPARE does not wait');
	ask($s, 'ROLLBACK');
	eventually_offered_ok($queue, 2, '... and the jobs go out again');
	end_session($claimer);
}

# ---- without a crash nothing is different ----

{
	my $queue = new_queue(4);
	my @l = map { [ split /\|/ ] } split /\n/, prepare('normal', "SELECT job_id, lease FROM pgq_claim('$queue', 4)");
	isnt(sql("SELECT pgq_extend($l[3][0], $l[3][1], '1 h')"), '', 'a prepared claim can be extended');
	sql("COMMIT PREPARED 'normal'");
	is(count_of("pgq_ext.lease WHERE queue = '$queue'"), '4', 'committed: the leases go on');
	is(sql("SELECT pgq_ack($l[0][0], $l[0][1])"), '', '... an ack');
	is(sql("SELECT pgq_fail($l[1][0], $l[1][1], retry_in => '1 h')"), 'retry', '... a failure');
	isnt(sql("SELECT pgq_extend($l[2][0], $l[2][1])"), '', '... an extension');
	sql("SELECT pgq_ack($l[3][0], $l[3][1]), pgq_enqueue('$queue', '1')");
	prepare('short', "SELECT job_id FROM pgq_claim('$queue', lease_time => '1 s')");
	sql("COMMIT PREPARED 'short'");
	is(sql("SELECT attempt || last_error FROM pgq_claim('$queue', wait => '60 s')"), '2the lease expired', '... and an expiry are as ever');
	is(sql('SELECT * FROM pgq_check()'), '', 'pgq_check() finds nothing');
}

end_session($s);
$node->stop;

# ---- on the standby, too ----

my $primary = $node = pgq_node('primary', init => { allows_streaming => 1 }, conf => "max_prepared_transactions = 10\n");
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
my $queue = new_queue(2);
prepare('failover', "SELECT count(*) FROM pgq_claim('$queue')");
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->promote;
$node = $standby;
is(scalar(split / /, offered($queue)), 1, 'after a failover the other job goes out');
sql("COMMIT PREPARED 'failover'");
eventually_offered_ok($queue, 1, '... and that of the prepared transaction when it has ended');
$node->stop;
done_testing();
