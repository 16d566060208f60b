# Lease tokens grow and never repeat, whatever becomes of the server between two hand-outs, with a scheduler or without.
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
$node->restart;
sql(q{CREATE ROLE worker; GRANT EXECUTE ON FUNCTION pgq_claim TO worker});
is(sql(q{SET ROLE worker; SELECT count(*) FROM pgq_claim('q', 3)}), '3', 'an unprivileged claim advances the mark');
sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease');
$node->stop;

done_testing();
