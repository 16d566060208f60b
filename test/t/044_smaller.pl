# Small faults that callers have met: a loop of waiting claims under a short statement_timeout, names that a session
# has used once, a subscriber that takes jobs.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "wal_level = logical\npgq_ext.max_queues = 16\n");
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
my $session = session($node);

# ---- little time left ----

# A claim that waits takes a part of the time there is. When the machine is busy the server may be faster with its timeout.
create_queue($node, 'hurry');
my $waited = 'f';
for (1 .. 20)
{
	ask($session, q{SET statement_timeout = '100 ms'; SELECT clock_timestamp() AS before \gset});
	my ($out, $error) = ask($session, q{SELECT * FROM pgq_claim('hurry', wait => '10 s')});
	$waited = ask($session, q{RESET statement_timeout; SELECT clock_timestamp() - :'before' >= '30 ms'});
	last if $error eq '' && $waited eq 't';
	$waited = 'f' if $error ne '';
}
is($waited, 't', 'a claim waits under a statement_timeout of 100 ms, and returns in time');

# ---- names ----

# A session that uses a thousand queues, one after the other, remembers those that are there.
{
	my $size = q{SELECT used_bytes FROM pg_backend_memory_contexts WHERE name = 'pgq_ext queue names'};
	my $rounds = sub {
		my ($n) = @_;
		ask($session, qq{DO \$\$ BEGIN
			FOR i IN 1 .. $n LOOP
				PERFORM pgq_create_queue('passing_' || i);
				COMMIT;
				PERFORM pgq_drop_queue('passing_' || i);
				COMMIT;
			END LOOP;
		END \$\$});
		return ask($session, $size);
	};
	my $before = $rounds->(100);
	cmp_ok($rounds->(400), '<=', $before, 'names of queues that are gone are forgotten');
	is(ask($session, q{SELECT pgq_enqueue('hurry', '1') > 0}), 't', '... those that are there are not');
}

end_session($session);
$node->stop;
done_testing();
