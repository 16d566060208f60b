# A rotation that moves rows takes a lease for each moved row. Claims have as many leases available during the
# rotation as before it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $leases = 256;
my $node   = rotating_node('main', conf => "pgq_ext.max_leases = $leases\npgq_ext.max_databases = 1\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub leases_in_use { return sql(q{SELECT used FROM pgq_ext.capacity WHERE name = 'leases'}) }
create_queue($node, $_) for 'slow', 'busy';

my ($gate, @moving) = being_moved($node, 60);
sql("SELECT count(pgq_enqueue('busy', '1')) FROM generate_series(1, $leases + 1)");
is(sql("SELECT count(*) FROM pgq_claim('busy', $leases + 1)"), $leases, 'while rows are moved, a claim gets every lease');
is(leases_in_use(), $leases, '... and the leases of the moved rows are not counted among them');
is(sqlstate($node, q{SELECT * FROM pgq_claim('busy')}), '53400', '... one more is refused');
sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = 'busy'});
is(sql(q{SELECT count(*) FROM pgq_claim('busy', 5)}), 1, '... until some have ended');
sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = 'busy'});
let_go($node, $gate);
wait_until_settled($node);
is(join(' ', drain($node, 'slow')), "@moving", 'each moved job comes in its order');
wait_for($node, q{used = 0 FROM pgq_ext.capacity WHERE name = 'leases'});
is(sql('SELECT count(*) FROM pgq_check()'), 0, '... all is well');

$node->stop;
done_testing();
