# An ack with a lease from before a crash succeeds, because the work was done, but only if no other worker has got the
# job since.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\n");
create_queue($node, 'q', "lease_time => '1 h'");
wait_for_scheduler($node);

sub sql { return $node->safe_psql('postgres', shift) }

sub claim
{
	my $wait = shift // '0';
	return split /\|/, sql("SELECT job_id, lease FROM pgq_claim('q', wait => '$wait')");
}

sub crash
{
	$node->stop('immediate');
	$node->start;
}

sub ack_state
{
	my ($id, $lease) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT pgq_ack($id, $lease)");
	return $rc == 0 ? 'ok' : $err =~ /PQ001/ ? 'stale' : $err;
}

sub jobs { return sql('SELECT count(*) FROM pgq_ext.job') }

# ---- nobody has it again ----

sql("SELECT pgq_enqueue('q', '1')");
my ($id, $lease) = claim();
crash();
is(ack_state($id, $lease + 1_000_000_000_000), 'stale', 'a token that was never handed out is stale');
is(ack_state($id, $lease), 'ok', 'the ack of before the crash is honoured');
is(jobs(), 0, 'the job is done');
is(join(' ', claim()), '', 'and is not handed out again');
is(ack_state($id, $lease), 'stale', 'once is enough');

# ---- rolled back, and to a savepoint ----

sql("SELECT pgq_enqueue('q', '2')");
($id, $lease) = claim();
crash();
sql("BEGIN; SELECT pgq_ack($id, $lease); ROLLBACK");
sql("BEGIN; SAVEPOINT s; SELECT pgq_ack($id, $lease); ROLLBACK TO s; COMMIT");
is(jobs(), 1, 'rolled back: the job is still there');
is(sql('SELECT count(*) FROM pgq_ext.lease_entries()'), 0, '... and in nobody\'s hands');
is(sql("SELECT * FROM pgq_ack_many(ARRAY[$id], ARRAY[$lease])"), $id, 'ack_many honours it too');
is(jobs(), 0, 'done');

# ---- while it is open, nobody gets the job ----

sql("SELECT pgq_enqueue('q', '3')");
($id, $lease) = claim();
crash();
sql("BEGIN; SELECT pgq_ack($id, $lease); PREPARE TRANSACTION 'late'");
is(join(' ', claim()), '', 'prepared: the job is kept');
sql("ROLLBACK PREPARED 'late'");
my ($again) = claim('60 s');
is($again, $id, 'rolled back: it goes out again');
is(sql("SELECT attempt FROM pgq_ext.lease"), 1, '... uncounted');
is(ack_state($id, $lease), 'stale', 'now somebody has it: stale');
sql("SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease");

# ---- it was handed out again, and that attempt failed ----

sql("SELECT pgq_enqueue('q', '4')");
($id, $lease) = claim();
crash();
my ($id2, $lease2) = claim('60 s');
is($id2, $id, 'handed out again');
cmp_ok($lease2, '>', $lease, 'with a greater token');
is(sql("SELECT pgq_fail($id2, $lease2, retry_in => '1 h')"), 'retry', 'that attempt fails');
is(ack_state($id, $lease), 'stale', 'the fence in the row makes the first one stale');
is(jobs(), 1, 'the job is still there');

$node->stop;
done_testing();
