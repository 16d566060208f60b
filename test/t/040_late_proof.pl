# An ack with a lease from before a restart is checked: only the lease that the job was handed out with is accepted,
# whichever session asks first, and however full the tables in memory are. Test 010 has the cases in which the ack is
# too late.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\npgq_ext.max_leases = 16\n");
create_queue($node, 'q', "lease_time => '1 h'");
sub sql { return $node->safe_psql('postgres', $_[0], on_error_die => 1) }

sub crash
{
	$node->stop('immediate');
	$node->start;
	return;
}

sub ack_state
{
	my ($id, $lease, $db) = @_;
	return sqlstate($node, "SELECT pgq_ack($id, $lease)", $db) || 'ok';
}

# Ids and leases of so many new jobs in hand.
sub claimed
{
	my ($n) = @_;
	sql("SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, $n) i");
	return map { [ split /\|/ ] } split /\n/, sql("SELECT job_id, lease FROM pgq_claim('q', $n, wait => '60 s')");
}

# A number that differs from the lease in its check bits only.
sub forged { return $_[0] ^ 1 + $_[1] % 1023 }

sub empty_queue
{
	sql('SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease');
	sql('DELETE FROM pgq_ext.job WHERE attempts > 0');
	drain($node, 'q');
	return;
}

# ---- any number that looks like a time (the key is set, so that chance has no part in it) ----

sql(q{UPDATE pgq_ext.token_key SET key = '00112233-4455-6677-8899-aabbccddeeff'});
crash();
sql(q{SELECT pgq_enqueue('q', '"never handed out"') FROM generate_series(1, 6)});
sql(q{UPDATE pgq_ext.job SET enqueued_at = '2020-06-01'});
crash();
my $mark = sql('SELECT last_value FROM pgq_ext.token_mark');
is(sql("SELECT count(*) FROM pgq_ack_many(ARRAY(SELECT job_id FROM pgq_ext.job ORDER BY 1), ARRAY(SELECT 40000000000 * 1024 + i FROM generate_series(1, 6) i))"),
	0, 'jobs that were never handed out are not acknowledged by a number that looks like a time');
is(sql('SELECT count(*) FROM pgq_ext.job'), 6, '... and are still there');
empty_queue();

# ---- of another job ----

my ($job, $other) = map { $_->[0][1] == $_->[1][1] ? () : @$_ } map { [ claimed(2) ] } 1 .. 3;
crash();
is(ack_state($job->[0], $other->[1]), 'PQ001', 'the lease of another job is stale');
is(ack_state($other->[0], $job->[1]), 'PQ001', '... both ways');
is(sql("SELECT count(*) FROM pgq_ack_many(ARRAY[$job->[0], $other->[0]], ARRAY[$other->[1], $job->[1]])"), 0, '... to ack_many too');
is(ack_state(@$job), 'ok', 'its own is honoured');
is(ack_state(@$other), 'ok', '... and the other\'s');
empty_queue();

# ---- eight wrong ones end it ----

my @held = claimed(12);
crash();
my ($taken, $failed, @rest) = @held;
sql("BEGIN; UPDATE pgq_ext.job SET priority = 1 WHERE job_id IN ($taken->[0], $failed->[0]); COMMIT");
my ($t, $f) = map { [ split /\|/ ] } split /\n/, sql("SELECT job_id, lease FROM pgq_claim('q', 2, wait => '60 s') ORDER BY job_id");
is("$t->[0] $f->[0]", "$taken->[0] $failed->[0]", 'two of the jobs are handed out again');
sql("SELECT pgq_fail($f->[0], $f->[1], retry_in => '1 h')");
is(ack_state($taken->[0], forged($taken->[1], $_)), 'PQ001', 'a wrong lease of a job in work') for 1 .. 10;
is(ack_state($failed->[0], forged($failed->[1], $_)), 'PQ001', 'a wrong lease that would have been too late') for 1 .. 10;
is(ack_state($t->[0], $t->[1] ^ $_), 'PQ001', 'a wrong lease of this start') for 1 .. 10;
is(ack_state(@{ shift @rest }), 'ok', '... do not count');
my $log = -s $node->logfile;
is(ack_state($rest[$_ % 3][0], forged($rest[$_ % 3][1], $_)), 'PQ001', "a wrong lease, $_") for 1 .. 7;
is(ack_state(@{ shift @rest }), 'ok', 'after seven of them a right one is honoured');
is(ack_state($rest[0][0], forged($rest[0][1], 9)), 'PQ001', 'an eighth');
is(ack_state(@{ $rest[0] }), 'PQ001', 'then none is any more');
is(ack_state($rest[1][0], forged($rest[1][1], 3)), 'PQ001', 'nor a ninth wrong one');
my $lines = () = slurp_file($node->logfile, $log) =~ /LOG:  acknowledgements with leases from before the last server start are now refused in database "postgres"/g;
is($lines, 1, 'the log says so, once');
is(ack_state(@$t), 'ok', 'a lease of this start is none of that');
crash();
is(ack_state(@{ $rest[0] }), 'ok', 'after the next start they are honoured again');
empty_queue();

# ---- nobody has touched the queue since the start ----

($job, $other) = claimed(2);
$node->append_conf('postgresql.conf', 'max_worker_processes = 1');
crash();
is(workers($node, 'scheduler'), '0', 'there is no scheduler');
is(ack_state(@$job), 'ok', 'an ack is honoured as the first thing that happens');
crash();
is(sql("SELECT * FROM pgq_ack_many(ARRAY[$other->[0]], ARRAY[$other->[1]])"), $other->[0], '... by ack_many as well');

# ---- the table of leases is full ----

$node->append_conf('postgresql.conf', 'pgq_ext.max_leases = 200');
crash();
@held = claimed(100);
is(scalar @held, 100, 'many jobs in hand');
$node->append_conf('postgresql.conf', 'pgq_ext.max_leases = 16');
crash();
sub ack_many
{
	my ($ids, $leases) = map { my $column = $_; join ',', map { $_->[$column] } @_ } 0, 1;
	return "SELECT count(*) FROM pgq_ack_many(ARRAY[$ids], ARRAY[$leases])";
}
is(sqlstate($node, ack_many(@held)), '53400', 'more than there is room for: an error, but not that leases are stale');
is(sql(ack_many(@held[ 0 .. 49 ])), 50, 'as many as there is room for are honoured');
is(sql(ack_many(@held[ 50 .. 99 ])), 50, '... and then the others');
$node->append_conf('postgresql.conf', 'max_worker_processes = 32');
crash();
empty_queue();

# ---- somebody is at the job, but does not have it ----

# Its row was locked when a claim looked at it: set aside.
($job) = claimed(1);
crash();
my $locker = session($node);
ask($locker, "BEGIN; SELECT job_id FROM pgq_ext.job WHERE job_id = $job->[0] FOR UPDATE");
wait_for($node, "count(*) = 0 FROM pgq_claim('q')");
my $acker = session($node);
send_sql($acker, "SELECT pgq_ack($job->[0], $job->[1])");
wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT pgq_ack%'});
ask($locker, 'COMMIT');
my (undef, $error) = reply($acker);
is($error, '', 'an ack waits for who has locked the row');
is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $job->[0]"), 0, '... and is honoured');

# Another ack with the same lease is open, or prepared.
for my $end ('ROLLBACK', 'COMMIT', q{PREPARE TRANSACTION 'late'})
{
	($job) = claimed(1);
	crash();
	$_ = session($node) for $locker, $acker;
	ask($locker, "BEGIN; SELECT pgq_ack($job->[0], $job->[1])");
	send_sql($acker, "SELECT pgq_ack($job->[0], $job->[1])");
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'virtualxid' AND query LIKE 'SELECT pgq_ack%'});
	ask($locker, $end);
	sql(q{ROLLBACK PREPARED 'late'}) if $end =~ /PREPARE/;
	(undef, $error) = reply($acker);
	my $stale = $end eq 'COMMIT';
	like($error, $stale ? qr/is not current/ : qr/^$/, "another late ack, then $end: " . ($stale ? 'stale' : 'honoured'));
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $job->[0]"), 0, '... done');
	end_session($_) for $locker, $acker;
}

# A claim has not decided whether it hands the job out. It waits for a lock, which might be ours.
my $claimer;
for my $end ('cancelled', 'finished')
{
	($job) = claimed(1);
	crash();
	my $stop = session($node);
	$_ = session($node) for $claimer, $acker;
	ask($stop, 'SELECT pg_advisory_lock(7366513, 0)');
	my $pid = pid_of($claimer);
	ask($claimer, q{SET pgq_ext.stop_point = 'claim-verify'});
	send_sql($claimer, q{SELECT count(*) FROM pgq_claim('q')});
	wait_for($node, "wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $pid");
	send_sql($acker, "SELECT pgq_ack($job->[0], $job->[1])");
	wait_for($node, waits_as('PgqDecision') . " AND query LIKE 'SELECT pgq_ack%'");
	sql("SELECT pg_cancel_backend($pid)") if $end eq 'cancelled';
	ask($stop, 'SELECT pg_advisory_unlock(7366513, 0)');
	reply($claimer);
	(undef, $error) = reply($acker);
	like($error, $end eq 'finished' ? qr/is not current/ : qr/^$/, "the claim is $end: " . ($end eq 'finished' ? 'stale' : 'honoured'));
	end_session($_) for $stop, $claimer, $acker;
	empty_queue();
}

# In the same transaction twice.
($job) = claimed(1);
crash();
my (undef, $output) = $node->psql('postgres', "BEGIN; SELECT pgq_ack($job->[0], $job->[1]); SELECT count(*) FROM pgq_ack_many(ARRAY[$job->[0]], ARRAY[$job->[1]]); COMMIT");
is($output, "\n0", 'the same transaction acknowledges once');

# ---- the key ----

is(sql(q{SELECT count(*) FROM pgq_ext.token_key}), 1, 'there is one key');
is(sql(q{SELECT has_table_privilege('pg_monitor', 'pgq_ext.token_key', 'SELECT'), has_table_privilege('public', 'pgq_ext.token_key', 'SELECT')}), 'f|f', 'which nobody is to read');
is(sql(q{CREATE ROLE reader IN ROLE pg_read_all_data; SET ROLE reader; SELECT count(*) FROM pgq_ext.token_key}), '0', '... also who reads all data');
my ($dump) = run_command([ 'pg_dump', $node->connstr('postgres') ]);
like($dump, qr/COPY pgq_ext.queue /, 'a dump has the queues');
unlike($dump, qr/token_key/, '... but not the key');

# An administrator deletes it, and the server crashes before the scheduler has written it anew: there is a new one, old leases are
# not known, new ones are.
@held = claimed(3);
my $gate = session($node);
ask($gate, 'BEGIN; LOCK TABLE pgq_ext.token_key IN ROW EXCLUSIVE MODE');
sql('DELETE FROM pgq_ext.token_key');
crash();
kill_client($gate);
wait_for($node, 'count(*) = 1 FROM pgq_ext.token_key');
like(join(' ', map { ack_state(@$_) } @held), qr/PQ001/, 'without its key a lease is stale');
empty_queue();
@held = claimed(3);
crash();
is(join(' ', map { ack_state(@$_) } @held), 'ok ok ok', '... with the new one it is honoured');

# A copy of the database is another one.
@held = claimed(4);
crash();
$node->safe_psql('template1', 'CREATE DATABASE copy TEMPLATE postgres');
isnt(join(' ', map { ack_state(@$_, 'copy') } @held), 'ok ok ok ok', 'a copy of the database does not honour leases of the original');
is(join(' ', map { ack_state(@$_) } @held), 'ok ok ok ok', '... which does');

$node->stop;
done_testing();
