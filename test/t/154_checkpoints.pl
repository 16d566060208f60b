# Checkpoints of jobs: crashes, prepared transactions, two users of a lease, a lease that expires in the transaction that keeps a
# value; dump and restore; and the scheduler, which deletes the checkpoints of ended jobs and no others.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\nautovacuum = off\n");
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }

create_queue($node, 'q', q{lease_time => '1 h', max_attempts => 3});
create_queue($node, 'short', q{lease_time => '1 h', max_attempts => 100});
wait_for_scheduler($node);

# Enqueues a job and claims it; returns (id, lease).
sub claimed
{
	my ($queue) = @_;
	my $id = sql("SELECT pgq_enqueue('$queue', '1')");
	return ($id, (again($queue))[1]);
}
sub again { my ($queue) = @_; return split /\|/, sql("SELECT job_id, lease FROM pgq_claim('$queue', wait => '60 s')") }
sub kept { my ($id) = @_; return sql("SELECT string_agg(step || ' ' || value, ', ' ORDER BY step) FROM pgq_ext.job_checkpoint WHERE job_id = $id") }

# ---- one user at a time ----

{
	my ($id, $lease) = claimed('q');
	my ($first, $second) = (session($node), session($node));
	my $pid = pid_of($second);
	is(ask($first, "BEGIN; SELECT pgq_checkpoint($id, $lease, 'charge', '1')"), '1', 'a transaction keeps a value');
	send_sql($second, "SELECT pgq_checkpoint($id, $lease, 'charge', '2')");
	wait_for($node, 'count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = ' . $pid);
	ask($first, 'COMMIT');
	is(reply($second), '1', '... another one with the same lease waits, and gets that value');
	ask($first, "BEGIN; SELECT pgq_checkpoint($id, $lease, 'ship', '1')");
	send_sql($second, "SELECT pgq_checkpoint($id, $lease, 'ship', '2')");
	wait_for($node, 'count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = ' . $pid);
	ask($first, 'ROLLBACK');
	is(reply($second), '2', '... or, after a rollback, keeps its own');
	ask($first, "BEGIN; SELECT pgq_checkpoint($id, $lease, 'last', '1')");
	send_sql($second, "SELECT pgq_checkpoint($id, $lease, 'last', '2')");
	wait_for($node, 'count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = ' . $pid);
	ask($first, "SELECT pgq_ack($id, $lease); COMMIT");
	like((reply($second))[1], qr/lease \d+ of job $id is not current/, '... or has a stale lease, if the first one ends the job');
	end_session($_) for $first, $second;
}
{
	my $session = session($node);
	my ($id, $lease);
	sql(q{SELECT pgq_enqueue('short', '1')});
	# On a busy machine the lease may be over before the transaction uses it.
	for (1 .. 50)
	{
		($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('short', lease_time => '1 s', wait => '60 s')});
		last if (ask($session, "BEGIN; SELECT pgq_checkpoint($id, $lease, 'charge', '1')"))[1] eq '';
		ask($session, 'ROLLBACK');
	}
	wait_for($node, "lease_expires_at < clock_timestamp() FROM pgq_ext.lease WHERE job_id = $id");
	is(sql(q{SELECT count(*) FROM pgq_claim('short')}), '0', 'a lease does not expire while its transaction keeps a value');
	ask($session, 'COMMIT');
	my ($next, $next_lease) = again('short');
	is(sql("SELECT pgq_checkpoint($next, $next_lease, 'charge')"), '1', '... and the next attempt gets the value');
	like((sqlstate($node, "SELECT pgq_checkpoint($id, $lease, 'ship', '1')"))[0], qr/^PQ001$/, '... while the first worker is late');
	end_session($session);
	sql("SELECT pgq_ack($next, $next_lease)");
}

# ---- crashes, and prepared transactions ----

{
	my ($id, $lease) = claimed('q');
	my ($committed, $committed_lease) = claimed('q');
	my ($undone, $undone_lease) = claimed('q');
	sql("SELECT pgq_checkpoint($id, $lease, 'charge', '1')");
	sql("BEGIN; SELECT pgq_checkpoint($committed, $committed_lease, 'charge', '1'); PREPARE TRANSACTION 'committed'");
	sql("BEGIN; SELECT pgq_checkpoint($undone, $undone_lease, 'charge', '1'); PREPARE TRANSACTION 'undone'");
	my $session = session($node);
	ask($session, "BEGIN; SELECT pgq_checkpoint($id, $lease, 'ship', '1')");
	$node->stop('immediate');
	$node->start;
	wait_for_scheduler($node);
	my ($next, $next_lease) = again('q');
	is($next, $id, 'after a crash the job whose transaction was open is handed out again');
	is(sql("SELECT pgq_checkpoint($id, $next_lease, 'charge', '2'), pgq_checkpoint($id, $next_lease, 'ship', '2')"), '1|2', '... with the value that was committed, and without the other one');
	is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', '... the jobs of prepared transactions are not');
	sql("COMMIT PREPARED 'committed'");
	sql("ROLLBACK PREPARED 'undone'");
	my %next = map { again('q') } 1 .. 2;
	is(sql("SELECT pgq_checkpoint($committed, $next{$committed}, 'charge', '2'), pgq_checkpoint($undone, $next{$undone}, 'charge', '2')"), '1|2', 'prepared and committed; prepared and rolled back');
	sql("SELECT pgq_ack(job_id, lease) FROM (VALUES ($id, $next_lease), ($committed, $next{$committed}), ($undone, $next{$undone})) v (job_id, lease)");
	eval { end_session($session) };
}

# ---- the scheduler deletes the checkpoints of ended jobs ----

sql('DELETE FROM pgq_ext.job_checkpoint');
my %job;
for my $what (qw(acked cancelled purged deleted), 'locked', 'hurt', 'recent', 'waiting', 'leased', 'dead', 'prepared')
{
	my ($id, $lease) = claimed($what eq 'purged' ? 'short' : 'q');
	sql("SELECT pgq_checkpoint($id, $lease, step, '1') FROM unnest('{a,b}'::text[]) step");
	$job{$what} = $id;
	sql("SELECT pgq_ack($id, $lease)") if $what =~ /acked|locked|hurt|recent/;
	sql("SELECT pgq_cancel($id)") if $what eq 'cancelled';
	sql("SELECT pgq_drop_queue('short', force => true)") if $what eq 'purged';
	sql("DELETE FROM pgq_ext.job WHERE job_id = $id") if $what eq 'deleted';
	sql("SELECT pgq_release($id, $lease, '1 day')") if $what eq 'waiting';
	sql("SELECT pgq_fail($id, $lease, 'no', retry => false)") if $what eq 'dead';
	sql("BEGIN; SELECT pgq_ack($id, $lease); PREPARE TRANSACTION 'ack'") if $what eq 'prepared';
}
# More than the scheduler looks at in one step.
sql(q{INSERT INTO pgq_ext.job_checkpoint SELECT 1000000 + i / 2, i, '1' FROM generate_series(1, 5000) i});
# A row that another transaction has locked, and rows whose deletion fails. All but the rows of one job are old.
my $locker = session($node);
sql(qq{CREATE FUNCTION hurt() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''it hurts''; END';
	CREATE TRIGGER hurt BEFORE DELETE ON pgq_ext.job_checkpoint FOR EACH ROW WHEN (OLD.job_id = $job{hurt}) EXECUTE FUNCTION hurt();
	ALTER TABLE pgq_ext.job_checkpoint ENABLE ALWAYS TRIGGER hurt});
my $old = "UPDATE pgq_ext.job_checkpoint SET kept_at = clock_timestamp() - interval '6 min'";
sql("$old WHERE job_id = $job{locked}");
ask($locker, "BEGIN; SELECT FROM pgq_ext.job_checkpoint WHERE job_id = $job{locked} AND step = 'a' FOR UPDATE");
sql("$old WHERE job_id NOT IN ($job{recent}, $job{locked})");
my $names = join ', ', map { "($job{$_}, '$_')" } keys %job;
my $left = qq{SELECT string_agg(DISTINCT COALESCE(what, job_id::text), ' ' ORDER BY COALESCE(what, job_id::text)) FROM pgq_ext.job_checkpoint LEFT JOIN (VALUES $names) v (job_id, what) USING (job_id)};
wait_for($node, "($left) = 'dead hurt leased locked prepared recent waiting'");
pass('checkpoints of ended jobs are deleted, but not those of a job that waits, is in work, is a dead letter, or whose end is not committed; nor recent or locked ones');
is(kept($job{locked}), 'a 1', '... of the job with a locked row, the other row');
wait_for($node, q{count(*) > 0 FROM pgq_ext.duty WHERE failures > 0});
is(sql(q{SELECT duty, last_error FROM pgq_ext.duty WHERE failures > 0}), 'checkpoints|it hurts', '... and one job whose checkpoints cannot be deleted keeps nobody from that');
end_session($locker);
sql(q{DROP TRIGGER hurt ON pgq_ext.job_checkpoint; COMMIT PREPARED 'ack'; SELECT pgq_cancel(job_id) FROM pgq_ext.dead_job});
wait_for($node, "($left) = 'leased recent waiting'");
pass('... the others go as soon as they can');

# ---- dump and restore ----

{
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
	sql('CREATE DATABASE restored');
	$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('restored'), $dump ], 'pg_restore');
	is(sql(q{SELECT count(*), bool_and(kept_at > clock_timestamp() - interval '5 min') FROM pgq_ext.job_checkpoint}, 'restored'), '6|t', '... brings the checkpoints, as new ones');
	sql("SELECT pgq_cancel(job_id) FROM pgq_ext.job WHERE job_id <> $job{waiting}; SELECT pgq_update($job{waiting}, run_at => now())", 'restored');
	is(sql(q{SELECT pgq_checkpoint(job_id, lease, 'a') FROM pgq_claim('q', wait => '60 s')}, 'restored'), '1', '... for the next attempt');
}

done_testing();
