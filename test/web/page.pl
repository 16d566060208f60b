# The page of pgq-web in Chromium, with pgq-web and a server of its own: page.mjs has the checks, sample.sql the queues.
# PICTURES=docs/pictures in the environment also writes the pictures of docs/web.md.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $program = $ENV{PGQ_WEB} // './pgq-web';
plan skip_all => 'pgq-web is not built: make pgq-web' if !-x $program;
plan skip_all => 'there is no chromium, or no playwright-core' if !-x ($ENV{CHROMIUM} // '/usr/bin/chromium') || system(q{node -e "require('playwright-core')" 2>/dev/null});

# LONG_SCENARIOS=1 runs page_large.mjs instead, with 10,000 queues and 1,000,000 jobs, which take minutes.
my $large = $ENV{LONG_SCENARIOS};
my $node = pgq_node('main', conf => $large ? "pgq_ext.max_queues = 12000\nmax_wal_size = 4GB\nfsync = off\n" : '');
$node->safe_psql('postgres', slurp_file('test/web/sample.sql') =~ s/^\\set (?:ON|QUIET).*//gmr, extra_params => ['-q']);
my $owner = $node->safe_psql('postgres', 'SELECT current_user');
unlink $node->data_dir . '/pg_hba.conf';
$node->append_conf('pg_hba.conf', "local all $owner,monitor trust\nlocal all all scram-sha-256\n");
$node->reload;

my $home = PostgreSQL::Test::Utils::tempdir(); # Chromium wants one
my %environment = (PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres', PGQ_WEB => $program, OWNER => $owner, HOME => $home, XDG_CONFIG_HOME => $home, XDG_CACHE_HOME => $home);
{
	local @ENV{ keys %environment } = values %environment;
	open my $checks, '-|', 'node', 'test/web/' . ($large ? 'page_large.mjs' : 'page.mjs') or die "node: $!";
	while (my $line = <$checks>)
	{
		if ($line =~ /^(not )?ok (.*)/) { ok(!$1, $2) }
		else { diag($line =~ s/\n//r) }
	}
	close $checks;
	is($?, 0, 'the checks have come to their end');
}
done_testing();
