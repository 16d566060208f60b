# A lease that is asserted or released by a transaction which is then prepared, killed, or ended by a crash of the
# server.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
create_queue($node, 'q', q{lease_time => '1 day'});

# One that is claimed for good: id, lease
sub claimed
{
	my ($lease_time) = @_;
	$lease_time //= '1 day';
	sql(q{SELECT pgq_enqueue('q', '1')});
	return split /\|/, sql("SELECT job_id, lease FROM pgq_claim('q', wait => '60 s', lease_time => '$lease_time')");
}

# One whose time is short, and which that SQL has used; if it was over before, the next one.
sub used_at_the_end
{
	my ($use) = @_;
	for (1 .. 60)
	{
		my ($id, $lease) = claimed('1 s');
		return ($id, $lease) if $use->($id, $lease);
		sql("SELECT pgq_cancel($id)");
	}
	return;
}

sub state_of { my ($id) = @_; return sql("SELECT state FROM pgq_ext.job_status WHERE job_id = $id") }

# A second session waits for the first, which has the lease in hand.
sub waits
{
	my ($session, $sql) = @_;
	my $pid = pid_of($session);
	send_sql($session, $sql);
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
	return;
}

# ---- prepared ----

my $s = session($node);
for my $end ('COMMIT', 'ROLLBACK')
{
	my ($id, $lease) = used_at_the_end(sub { return sqlstate($node, "BEGIN; SELECT pgq_assert_lease($_[0], $_[1]); PREPARE TRANSACTION 'a'") eq '' });
	usleep(1_500_000);
	is(state_of($id), 'leased', 'a lease that a prepared transaction has asserted does not expire');
	is(sql("SELECT pgq_extend($id, $lease) IS NOT NULL"), 't', '... and is its worker\'s');
	waits($s, "SELECT 'done', pgq_ack($id, $lease)");
	sql("$end PREPARED 'a'");
	is((reply($s))[0], 'done|', "... who acknowledges it waits for $end PREPARED");

	($id, $lease) = claimed();
	sql("BEGIN; SELECT pgq_release($id, $lease); PREPARE TRANSACTION 'a'");
	is(sql(q{SELECT job_id FROM pgq_claim('q', wait => '300 ms')}), '', 'what a prepared transaction gives back is nobody\'s yet');
	sql("$end PREPARED 'a'");
	wait_for($node, "state = '" . ($end eq 'COMMIT' ? 'ready' : 'leased') . "' FROM pgq_ext.job_status WHERE job_id = $id");
	is(sql("SELECT pgq_release($id, $lease)"), $end eq 'COMMIT' ? 'f' : 't', "... after $end PREPARED it is so");
	is(sql(q{SELECT attempt, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s')}), '1|', '... and was not counted');
}

# Asserted and ended in one.
{
	my ($id, $lease) = claimed();
	sql("BEGIN; SELECT pgq_assert_lease($id, $lease); SELECT pgq_ack($id, $lease); PREPARE TRANSACTION 'a'; ROLLBACK PREPARED 'a'");
	sql("BEGIN; SELECT pgq_assert_lease($id, $lease); SELECT pgq_ack($id, $lease); PREPARE TRANSACTION 'a'; COMMIT PREPARED 'a'");
	wait_for($node, "count(*) = 0 FROM pgq_ext.lease WHERE job_id = $id");
	is(state_of($id), '', 'asserted, acknowledged, prepared');
}

# Not if somebody is at the row.
{
	my ($id, $lease) = claimed();
	my $locker = session($node);
	ask($s, "BEGIN; SELECT pgq_assert_lease($id, $lease)");
	ask($locker, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $id FOR UPDATE");
	like((ask($s, "PREPARE TRANSACTION 'a'"))[1], qr/row of job $id is locked by another transaction/, 'PREPARE waits for no row');
	end_session($locker);
	is(sql("SELECT 'done', pgq_ack($id, $lease)"), 'done|', '... and the lease is as before');
}

# ---- a crash ----

for my $end ('COMMIT', 'ROLLBACK')
{
	my ($id, $lease) = claimed();
	sql("BEGIN; SELECT pgq_assert_lease($id, $lease); PREPARE TRANSACTION 'a'");
	$node->stop('immediate');
	$node->start;
	is(sql(q{SELECT job_id FROM pgq_claim('q', wait => '500 ms')}), '', 'a job that a prepared transaction has asserted is nobody else\'s after a crash');
	sql("$end PREPARED 'a'");
	is(sql(q{SELECT job_id, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s')}), "$id|", "... before $end PREPARED");
}

# ---- a clean restart ----

for my $end ('COMMIT', 'ROLLBACK')
{
	my ($id, $lease) = claimed();
	sql("BEGIN; SELECT pgq_assert_lease($id, $lease); PREPARE TRANSACTION 'a'");
	$node->restart;
	my $again = session($node);
	wait_for($node, "count(*) = 1 FROM pgq_ext.lease WHERE job_id = $id");
	waits($again, "SELECT 'done', pgq_ack($id, $lease)");
	sql("$end PREPARED 'a'");
	is((reply($again))[0], 'done|', "a lease that was asserted by a prepared transaction goes through a restart, and is free after $end PREPARED");
	end_session($again);
}

# ---- killed ----

{
	my $asserting = session($node);
	my $pid = pid_of($asserting);
	used_at_the_end(sub {
		return 1 if (ask($asserting, "BEGIN; SELECT pgq_assert_lease($_[0], $_[1])"))[1] eq '';
		ask($asserting, 'ROLLBACK');
		return 0;
	});
	sql("SELECT pg_terminate_backend($pid, 60000)");
	is(sql(q{SELECT attempt, last_error, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s')}), '2|the lease expired|', 'a session that has asserted is terminated: time counts again');
}

is(sql('SELECT * FROM pgq_check()'), '', 'nothing is wrong');
is(sql('SELECT count(*) FROM pgq_ext.job'), '0', 'and nothing is left');
$node->stop;
done_testing();
