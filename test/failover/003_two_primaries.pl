# A primary hangs, is given up, and comes to itself without what looks after it: two primaries at once. What tokens see of it, and
# what they do not; how a synchronous standby closes that, and an asynchronous one does not.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use FailoverTest;

# A call that may have no answer.
sub ask
{
	my ($node, $sql) = @_;
	my $call = { out => '', err => '' };
	$call->{run} = IPC::Run::start([ 'psql', '-XAtq', '-c', "SET application_name = 'asks'", '-c', $sql, url_of($node) ], '<', \undef, '>', \$call->{out}, '2>', \$call->{err},
		IPC::Run::timeout(2 * $PostgreSQL::Test::Utils::timeout_default));
	return $call;
}

sub waits_for_standby
{
	my ($n) = @_;
	wait_until("$n wait for a standby", sub { sql_on('a', q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'asks' AND wait_event = 'SyncRep'}) == $n });
	return;
}

sub claim { my ($node) = @_; return split /\|/, sql_on($node, q{SET statement_timeout = '20 s'; SELECT job_id, lease FROM pgq_claim('jobs', lease_time => '1 hour')}) }

for my $mode ('', 'async')
{
	my $what = $mode || 'synchronous';
	note $what;
	start_nodes('pg_auto_failover', MODE => $mode);
	wait_until_whole($mode || "sync', 'quorum");
	sql(q{SELECT pgq_enqueue('jobs', '"first"'); SELECT pgq_enqueue('jobs', '"second"')});
	my ($job, $old) = claim('a');
	my $old_lock = sql_on('a', q{SELECT pgq_lock('held', ttl => '1 hour')});
	wait_until('the standby has all', sub { sql_on('a', 'SELECT flush_lsn >= pg_current_wal_lsn() FROM pg_stat_replication') eq 't' });

	ha('pause', 'a');
	wait_until_moved('b');
	my ($again, $new) = claim('b');
	is($again, $job, "$what: the new primary hands out what was in work");
	cmp_ok($new, '>', $old, '... with a greater lease');
	ha('wake', 'a');
	is(sql_on($_, 'SELECT pg_is_in_recovery()'), 'f', "$_ is a primary") for 'a', 'b';

	is(sqlstate_on('b', "SELECT pgq_ack($job, $old)"), 'PQ001', 'a worker of the old one is fenced by the new one');
	is(sqlstate_on('b', "SELECT pgq_assert_lease($job, $old)"), 'PQ001', '... before the work, if it asks');
	is(sql_on('b', q{SELECT pgq_lock('held') IS NULL}), 't', 'a lock that was held is held');
	is(sql_on('b', "SELECT pgq_assert_lock('held', $old_lock)"), '', '... by its token');
	my $ack     = ask('a', "SELECT pgq_ack($job, $old)");
	my $enqueue = ask('a', q{SELECT pgq_enqueue('jobs', '"of the old one"')});
	my $lock    = ask('a', q{SELECT pgq_lock('leader') IS NOT NULL});
	if (!$mode)
	{
		waits_for_standby(3);
		pass('an ack, an enqueue and a lock of the old one have no answer');
	}
	else
	{
		$_->{run}->finish for $ack, $enqueue, $lock;
		is(join(' ', map { $_->{err} } $ack, $enqueue, $lock), '  ', 'an ack, an enqueue and a lock of the old one are answered');
		is($lock->{out}, "t\n", '... it gives the lock');
	}
	is(sql_on('b', "SELECT pgq_ack($job, $new)"), '', 'the ack of the new one counts');
	is(sql_on('b', q{SELECT pgq_lock('leader') IS NOT NULL}), 't', '... and it gives the lock');

	# Both hand out the second job. In time the durable mark is used up of which the standby knows: then only the new one does.
	my ($by_old, $its) = eval { claim('a') };
	my ($by_new, $other) = claim('b');
	if (defined $by_old)
	{
		is($by_old, $by_new, 'a job can be in two hands, one of each primary');
		cmp_ok($its, '<', $other, '... that of the new one has the greater lease') if !$mode;
	}
	is(sql_on('b', "SELECT pgq_ack($by_new, $other)"), '', '... and ends with it');

	ha('resume', 'a');
	wait_until_whole($mode || "sync', 'quorum");
	if (!$mode)
	{
		eval { $_->{run}->finish; 1 } or diag($@) for $ack, $enqueue, $lock;
		is(join(' ', map { $_->{run}->full_result ? 'failed' : 'answered' } $ack, $enqueue, $lock), 'failed failed failed', 'the old one gives up, and with it who waited');
	}
	is(primary(), 'b', 'the old one is the standby');
	is(sql(q{SELECT count(*) FROM pgq_ext.job}), '0', 'what it did alone has not been');
	is(sql('SELECT pgq_check()'), '', '... and all is well');
	stop_nodes();
}
done_testing();
