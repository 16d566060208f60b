# Lease tokens grow and never repeat, whatever happens to the server between two hand-outs, with and without a
# scheduler.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }

my $last = 0;
sub greater_ok
{
	my ($what) = @_;
	my ($token, $mark) = split /\|/, sql(q{SELECT max(lease) AS lease FROM pgq_claim('q', 3) \gset
		SELECT :lease, last_value FROM pgq_ext.token_mark});
	cmp_ok($token, '>', $last, "$what: a lease is greater than all before");
	cmp_ok($token, '<=', $mark, '... and not above the durable mark');
	$last = $token;
	return;
}

create_queue($node, 'q');
sql("SELECT pgq_enqueue('q', '1') FROM generate_series(1, 3)");
greater_ok('at first');

$node->append_conf('postgresql.conf', 'max_worker_processes = 1');
for my $crash (1 .. 4)
{
	$node->stop('immediate');
	$node->start;
	greater_ok("crash $crash, no scheduler");
}
is(workers($node, 'scheduler'), '0', 'there was none');

# The mark is no transaction's.
$node->stop('immediate');
$node->start;
sql(q{BEGIN; SELECT count(*) FROM pgq_claim('q', 3); ROLLBACK});
my $mark = sql('SELECT last_value FROM pgq_ext.token_mark');
$node->stop('immediate');
$node->start;
is(sql('SELECT last_value FROM pgq_ext.token_mark'), $mark, 'the mark survives the rollback of who advanced it, and a crash');
greater_ok('after a claim that was rolled back');

$node->append_conf('postgresql.conf', 'max_worker_processes = 32');
for my $crash (1 .. 3)
{
	$node->stop('immediate');
	$node->start;
	greater_ok("crash $crash");
}

# A role that may claim needs no right to the mark.
$node->append_conf('postgresql.conf', 'max_worker_processes = 1');
$node->stop('immediate');
$node->start;
sql(q{CREATE ROLE worker; GRANT EXECUTE ON FUNCTION pgq_claim TO worker});
is(sql(q{SET ROLE worker; SELECT count(*) FROM pgq_claim('q', 3)}), '3', 'an unprivileged claim advances the mark');
sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease');
$node->stop;

# ---- a synchronous standby ----

# No token is handed out that the standby could hand out again.
my $primary = pgq_node('primary', init => { allows_streaming => 1 });
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
create_queue($primary, 'q');
$primary->safe_psql('postgres', q{SELECT pgq_enqueue('q', '1') FROM generate_series(1, 6)});
my $first = $primary->safe_psql('postgres', q{SELECT max(lease) FROM pgq_claim('q', 2)});
$primary->wait_for_catchup($standby);
$standby->stop;
$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'");
$primary->stop('immediate');
$primary->start;
for my $try (1 .. 2)
{
	my (undef, $out, $error) = $primary->psql('postgres', q{SET statement_timeout = '5 s'; SELECT count(*) FROM pgq_claim('q', 2)});
	like($error, qr/ERROR:  canceling statement while waiting for synchronous replication/, "no claim before the standby has the mark, try $try");
}
is($primary->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.lease'), '0', '... and none was handed out');
$standby->start;
my $second = $primary->safe_psql('postgres', q{SELECT max(lease) FROM pgq_claim('q', 2)});
cmp_ok($second, '>', $first, 'with the standby back a greater one is');
for my $level ('remote_write', 'remote_apply', 'off')
{
	$primary->stop('immediate');
	$primary->start;
	is($primary->safe_psql('postgres', "SET synchronous_commit = $level; SELECT count(*) FROM pgq_claim('q', 1)"), '1',
		"claims after a crash, synchronous_commit = $level");
}
$second = $primary->safe_psql('postgres', 'SELECT max(lease) FROM pgq_ext.lease');
# What a session did not wait for may be lost with the primary.
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$standby->promote;
cmp_ok($standby->safe_psql('postgres', q{SELECT min(lease) FROM pgq_claim('q', 6)}), '>', $second, '... and a still greater one after the failover');
$standby->stop;

done_testing();
