# A job whose content is changed by SQL counts as another job: after a restart, a lease that was given for the old
# content is stale.
# Long: left out of "make check".
use strict;
use warnings;
use File::Path qw(rmtree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest qw(send_and_block);
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\n");
create_queue($node, 'q', "lease_time => '1 h'");
create_queue($node, 'r');
sub sql { return $node->safe_psql('postgres', $_[0]) }

sub crash
{
	$node->stop('immediate');
	$node->start;
	return;
}

sub claimed { return split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q', wait => '60 s')}) }

sub ack_state
{
	my ($id, $lease) = @_;
	return sqlstate($node, "SELECT pgq_ack($id, $lease)") || 'ok';
}

# One job in hand, a crash, a change, then the ack with the old lease.
sub acked_after
{
	my ($change) = @_;
	sql('TRUNCATE pgq_ext.job');
	sql(q{SELECT pgq_enqueue('q', '{"v": 1}', headers => '{"h": 1}')});
	my ($id, $lease) = claimed();
	crash();
	sql(ref $change ? $change->($id) : $change);
	my $state = ack_state($id, $lease);
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $id"), $state eq 'ok' ? 0 : 1, "after $change ...") if !ref $change;
	return $state;
}

# Without a scheduler the database is not loaded when the row is changed.
for my $workers (1, 32)
{
	my $with = $workers > 1 ? 'scheduler' : 'no scheduler';
	$node->append_conf('postgresql.conf', "max_worker_processes = $workers");
	is(acked_after($_), 'PQ001', "$with: stale after $_")
	  for q{UPDATE pgq_ext.job SET payload = '{"v": 2}'}, q{UPDATE pgq_ext.job SET headers = NULL},
	  q{UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'r')},
	  q{SET session_replication_role = replica; UPDATE pgq_ext.job SET payload = '{"v": 2}'},
	  q{BEGIN; SAVEPOINT s; UPDATE pgq_ext.job SET payload = '{"v": 3}'; ROLLBACK TO s; UPDATE pgq_ext.job SET payload = '{"v": 2}', fence = NULL; COMMIT},
	  q{CREATE TEMP TABLE t AS SELECT * FROM pgq_ext.job; DELETE FROM pgq_ext.job; UPDATE t SET payload = '2'; INSERT INTO pgq_ext.job (job_id, run_at, enqueued_at, queue_id, segment, payload) SELECT job_id, run_at, enqueued_at, queue_id, segment, payload FROM t},
	  q{INSERT INTO pgq_ext.job (job_id, payload, queue_id, enqueued_at, segment) SELECT job_id + 1000000, payload, queue_id, enqueued_at, segment FROM pgq_ext.job;
		DO $$ DECLARE id bigint := (SELECT min(job_id) FROM pgq_ext.job); BEGIN DELETE FROM pgq_ext.job WHERE job_id = id; UPDATE pgq_ext.job SET job_id = id WHERE job_id = id + 1000000; END $$};
	is(acked_after($_), 'ok', "$with: honoured after $_")
	  for 'SELECT 1', q{UPDATE pgq_ext.job SET priority = 5, run_at = run_at - interval '1 h', max_attempts = 7},
	  q{UPDATE pgq_ext.job SET payload = payload}, q{BEGIN; UPDATE pgq_ext.job SET payload = '2'; ROLLBACK};
}

# Who is handed out the new content is fenced off by nothing, whatever came before, as often as it is changed.
sql('TRUNCATE pgq_ext.job');
sql(q{SELECT pgq_enqueue('q', '1')});
my ($id, $lease) = claimed();
for my $version (2 .. 5)
{
	crash() if $version % 2;
	sql("UPDATE pgq_ext.job SET payload = '$version'");
	if (!($version % 2))
	{
		crash();
		is(ack_state($id, $lease), 'PQ001', "version $version: the old lease is stale after a crash");
	}
	my ($same, $newer) = claimed();
	is($same, $id, 'handed out again');
	cmp_ok($newer, '>', $lease, '... with a greater lease');
	cmp_ok($newer, '>', sql('SELECT fence FROM pgq_ext.job'), '... beyond the fence');
	$lease = $newer;
}
crash();
is(ack_state($id, $lease), 'ok', 'which is honoured after a crash');

# The change is being made while the ack comes: it is waited for, and then asked what has become of it.
for my $end ('COMMIT', 'ROLLBACK', q{PREPARE TRANSACTION 'p'})
{
	sql('TRUNCATE pgq_ext.job');
	sql(q{SELECT pgq_enqueue('q', '1')});
	($id, $lease) = claimed();
	crash();
	my ($changer, $worker) = (session($node), session($node));
	ask($changer, "BEGIN; UPDATE pgq_ext.job SET payload = '2'");
	ask($changer, $end) if $end =~ /PREPARE/;
	my $pid = pid_of($worker);
	send_sql($worker, "SELECT pgq_ack($id, $lease)");
	wait_for($node, "wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid");
	$end =~ /PREPARE/ ? sql(q{COMMIT PREPARED 'p'}) : ask($changer, $end);
	my (undef, $error) = reply($worker);
	is($error =~ /is not current/ ? 'stale' : $error, $end eq 'ROLLBACK' ? '' : 'stale', "changed while the ack waits, $end");
	is(sql('SELECT payload FROM pgq_ext.job'), $end eq 'ROLLBACK' ? '' : '2', '... and the new content is there as long as nobody has had it');
	end_session($_) for $changer, $worker;
}
sql('TRUNCATE pgq_ext.job');

# Many rows cost the clock of leases nothing.
sql(q{SELECT count(*) FROM pgq_enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('payload', i)) FROM generate_series(1, 5000) i))});
my ($before) = (claimed())[1];
sql(q{UPDATE pgq_ext.job SET payload = '"new"'});
my ($after) = (claimed())[1];
cmp_ok(($after >> 10) - ($before >> 10), '<', 100_000, 'leases are not 5,000 times greater by it');
is(sql('SELECT count(DISTINCT fence) FROM pgq_ext.job'), 1, 'one fence for all of them');

sql('TRUNCATE pgq_ext.job');

# A restore has switched the trigger off: the scheduler switches it on again.
sql("ALTER TABLE pgq_ext.job_$_ DISABLE TRIGGER ALL") for 0, 3;
sql('ALTER TABLE pgq_ext.job_3 ENABLE TRIGGER ALL');
wait_for($node, q{count(*) = 16 FROM pg_trigger WHERE tgrelid::regclass::text ~ '^pgq_ext.job_[0-7]$' AND tgname IN ('job_changed', 'job_fence') AND tgenabled = 'A'});
pass('the scheduler lets the triggers fire again');

# While a worker has the job, it is its own to end, as before.
sql(q{SELECT pgq_enqueue('q', '1')});
($id, $lease) = claimed();
sql("UPDATE pgq_ext.job SET payload = '2'");
is(ack_state($id, $lease), 'ok', 'a lease that is current is not concerned');

# ... and if it fails, the fence is not lowered.
sql(q{SELECT pgq_enqueue('q', '1')});
($id, $lease) = claimed();
sql("UPDATE pgq_ext.job SET payload = '2'");
my $fence = sql('SELECT fence FROM pgq_ext.job');
cmp_ok($fence, '>=', $lease, 'changed while it is in work');
is(sql("SELECT pgq_fail($id, $lease)"), 'retry', 'failed');
is(sql('SELECT fence FROM pgq_ext.job'), $fence, '... the fence stays');

# ---- ids that were given before ----

# A standby is promoted without the newest jobs: their ids are given once more. In the first minute after a start the tokens are
# ahead of the clock, so that the time of the new job is earlier than that of the lease, and does not tell it.
sql('TRUNCATE pgq_ext.job');
crash();
my $many = 3;
for my $enqueue (q{SELECT pgq_enqueue('q', '1')}, qq{SELECT pgq_enqueue_many('q', (SELECT jsonb_agg('{"payload": 1}'::jsonb) FROM generate_series(1, $many)))})
{
	sql(q{SELECT pgq_enqueue('q', '"lost by the failover"')});
	($id, $lease) = claimed();
	crash();
	sql('TRUNCATE pgq_ext.job');
	sql("SELECT setval('pgq_ext.job_id_seq', $id, false)");
	sql($enqueue);
	is(sql('SELECT min(job_id) FROM pgq_ext.job'), $id, 'an id is given once more');
	is(ack_state($id, $lease), 'PQ001', '... the lease of the job that had it is not one of this job');
	crash();
	is(ack_state($id, $lease), 'PQ001', '... nor after another start');
	my ($same, $its) = claimed();
	is($same, $id, '... it is still there');
	crash();
	is(ack_state($id, $its), 'ok', '... and its own lease is honoured late');
}
drain($node, 'q');

# ---- the next start may begin with smaller tokens than this one ----

# Without a scheduler nobody has advanced the mark since the start. Every start begins above the mark, and how far differs.
$node->append_conf('postgresql.conf', 'max_worker_processes = 1');
$node->restart;
sql(q{SELECT pgq_enqueue('q', '1', unique_key => 'k'); SELECT pgq_enqueue('q', '2'); SELECT pgq_enqueue('r', '3', max_attempts => 1);
	SELECT pgq_fail(job_id, lease) FROM pgq_claim('r')});
for my $change ([enqueue => q{SELECT pgq_enqueue('r', '4')}], [SQL => q{UPDATE pgq_ext.job SET payload = '5'}],
	[update => q{SELECT pgq_update(job_id, payload => '6') FROM pgq_ext.job}],
	[key => q{SELECT pgq_enqueue('q', '7', unique_key => 'k', on_conflict => 'replace')}],
	['dead letter' => q{SELECT pgq_retry(job_id) FROM pgq_ext.dead_job}])
{
	my ($what, $sql) = @$change;
	crash();
	sql($sql);
	is(sql('SELECT count(*) FROM pgq_ext.job, pgq_ext.token_mark WHERE fence > last_value'), 0, "$what: no fence is above the mark");
	cmp_ok(sql('SELECT count(*) FROM pgq_ext.job WHERE fence > 0'), '>', 0, '... and there is one');
}
crash();
is(sql(q{SELECT count(*) FROM pgq_claim('q', 9) c JOIN pgq_ext.job j ON c.job_id = j.job_id AND c.lease > abs(j.fence)}), 2,
	'leases of the next start are beyond the fences');

# The mark of an extension that has handed out nothing is 0: so are its fences, though tokens are ahead of the clock.
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('q'); SELECT pgq_enqueue('q', '1')});
is($node->safe_psql('fresh', 'SELECT last_value, max(fence) FROM pgq_ext.job, pgq_ext.token_mark GROUP BY 1'), '0|0', 'the fence of the first job');

# Tokens of this database are far ahead. It is attached while a session takes a named lock in another one, and has looked at the mark.
$node->safe_psql('fresh', 'SELECT setval(\'pgq_ext.token_mark\', ' . sql('SELECT last_value + (3600000::bigint << 10) FROM pgq_ext.token_mark') . ')');
crash();
my ($gate, $taker) = (session($node), session($node));
ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
ask($taker, q{SET pgq_ext.stop_point = 'lock-take'});
send_and_block($node, $taker, q{SELECT pgq_lock('l')});
$node->safe_psql('fresh', q{SELECT pgq_enqueue('q', '2')});
ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
my $token = reply($taker);
is(sql("SELECT $token <= last_value FROM pgq_ext.token_mark"), 't', 'the token of a named lock is not above the mark');
is(sql("SELECT pgq_unlock('l', $token)"), 't', '... and the lock is held');
end_session($_) for $gate, $taker;
$node->safe_psql('postgres', 'DROP DATABASE fresh');

# ---- a lost primary had a newer mark ----

# What became of the server after its data directory was copied is lost: the mark that was advanced, and a job, whose id is given once
# more. The new job has no fence that is above the token of the lost one; but nobody may have had a token above the mark.
sql('TRUNCATE pgq_ext.job');
$node->stop;
my $copy = $node->data_dir . '_copy';
PostgreSQL::Test::RecursiveCopy::copypath($node->data_dir, $copy);
for my $round (1 .. 4)
{
	$node->start;
	sql(q{SELECT pgq_enqueue('q', '"lost"')});
	($id, $lease) = claimed();
	$node->stop('immediate');
	rmtree($node->data_dir);
	PostgreSQL::Test::RecursiveCopy::copypath($copy, $node->data_dir);
	chmod(0700, $node->data_dir);
	$node->start;
	is(sql(q{SELECT pgq_enqueue('q', '"another"')}), $id, 'a job has the id of one that was lost');
	is(ack_state($id, $lease), 'PQ001', '... which the lease of the lost one does not end');
	$node->stop;
	rmtree($node->data_dir);
	PostgreSQL::Test::RecursiveCopy::copypath($copy, $node->data_dir);
	chmod(0700, $node->data_dir);
}

done_testing();
