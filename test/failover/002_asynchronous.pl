# pg_auto_failover, the standby asynchronous: what a failover loses is what the primary had acknowledged and the standby had not
# received, and nothing else. Its ids are given once more, and leases of lost jobs do not end the new ones.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use FailoverTest;

start_nodes('pg_auto_failover', MODE => 'async');
wait_until_whole('async');
start_load('asynchronous');
my ($dies, $follows) = (primary(), standby());
wait_until('jobs are done', sub { events('acked', ledger()) >= 100 });

# All that is answered before this moment is on the standby; then nothing is sent any more.
my $since = time;
my $lsn = sql('SELECT pg_current_wal_lsn()');
wait_until('the standby has it', sub { sql("SELECT flush_lsn >= '$lsn' FROM pg_stat_replication") eq 't' });
kill STOP => sql('SELECT pid FROM pg_stat_replication');
my $behind = time;
for my $what (qw(enqueued acked))
{
	wait_until("there is something to lose: $what", sub { (grep { $_->[0] > $behind } events($what, ledger())) > 60 });
}
ha('kill', $dies);
my $dead = time;
wait_until_moved($follows);
my $up = time;
ha('run', $dies);
wait_until_whole('async');
wait_until('work goes on', sub { (grep { $_->[0] > $up } events('acked', ledger())) > 100 });
stop_load();

my (%enqueued, %id_of, %accepted, %unknown, %twice);
for (ledger())
{
	my ($time, $what, $key, $id) = @$_;
	$enqueued{$key} = $time, push @{ $id_of{$id} }, $key if $what eq 'enqueued';
	$unknown{$key} = 1 if $what eq 'unknown';
	next if $what ne 'acked';
	$twice{$key} = $accepted{$key} if $accepted{$key};
	$accepted{$key} = $time;
}
my @lost = grep { !$accepted{$_} && !$unknown{$_} } keys %enqueued;
my @in_window = grep { $_ > $behind && $_ < $dead } values %enqueued;
note sprintf '%d of the %d jobs enqueued in the %.1f s before the failover were lost, %d more had been done, %d acks were undone, %d ids were given twice',
  scalar @lost, scalar @in_window, $dead - $behind, scalar(grep { $accepted{$_} && $enqueued{$_} > $behind && $enqueued{$_} < $dead } keys %enqueued),
  scalar keys %twice, scalar grep { @$_ > 1 } values %id_of;
cmp_ok(scalar @lost, '>', 0, 'an asynchronous failover loses jobs');
is(join(' ', grep { $enqueued{$_} < $since || $enqueued{$_} > $up } @lost), '', '... that were enqueued after the last that the standby has received, no other');
cmp_ok(scalar keys %twice, '>', 0, '... and has some done twice');
is(join(' ', grep { $twice{$_} < $since || $twice{$_} > $up } keys %twice), '', '... that were acknowledged after it, no other');
is(scalar(grep { $enqueued{$_} > $up && !$accepted{$_} && !$unknown{$_} } keys %enqueued), 0, 'none of the new primary is lost, also where it has the id of another');
is(sql('SELECT pgq_check()'), '', 'and all is well');
stop_nodes();
done_testing();
