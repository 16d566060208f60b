# Go, pgx
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use ClientTest;

my $dir = PostgreSQL::Test::Utils::tempdir_short();
build_go("$dir/worker", 'examples/worker.go');
worker_test(sub {
	my ($way, $label) = @_;
	my $cache = $way eq 'transaction' ? '&statement_cache_mode=describe' : '';
	return ('env', 'DATABASE_URL=' . database_url($way, $label) . $cache, "$dir/worker");
});
