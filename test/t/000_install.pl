# CREATE EXTENSION makes the schema pgq_ext, DROP EXTENSION removes it, and a server that has the extension can be
# restarted.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;

$node->safe_psql('postgres', 'CREATE EXTENSION pgq_ext');
$node->safe_psql('postgres', 'DROP EXTENSION pgq_ext');
is( $node->safe_psql('postgres', "SELECT count(*) FROM pg_namespace WHERE nspname = 'pgq_ext'"),
	'0', 'DROP EXTENSION leaves nothing behind');

$node->safe_psql('postgres', 'CREATE EXTENSION pgq_ext');
$node->restart;
is( $node->safe_psql('postgres', "SELECT extversion FROM pg_extension WHERE extname = 'pgq_ext'"),
	'0.2', 'the extension is there after a restart');

$node->stop;
done_testing();
