# pg_auto_failover, the standby synchronous: whoever is the primary dies with all its processes, five times, under load. What was
# acknowledged counts.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time usleep);
use FailoverTest;

start_nodes('pg_auto_failover');
wait_until_whole("quorum', 'sync");
start_load('synchronous');
for my $n (1 .. 5)
{
	my ($dies, $follows) = (primary(), standby());
	my $so_far = events('acked', ledger());
	wait_until('jobs are done', sub { events('acked', ledger()) >= $so_far + 100 });
	my $start = time;
	ha('kill', $dies);
	wait_until_moved($follows);
	my $up = seconds($start);
	my $moved = time;
	wait_until('work goes on', sub { grep { $_->[0] > $moved } events('acked', ledger()) });
	note "$dies has died: $follows takes work after $up";
	ha('run', $dies);
	wait_until_whole("quorum', 'sync");
	pass("$n: $dies is the standby again, " . seconds($start) . ' after its death');
}
stop_load();
cmp_ok(scalar(events('stale', ledger())), '>', 0, 'workers of a dead primary were fenced');
check_synchronous();
stop_nodes();
done_testing();
