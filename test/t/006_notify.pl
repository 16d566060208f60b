# NOTIFY: a listening client hears of jobs when they become ready, at most once in each notify_interval, and no
# transaction of a client waits for the sending.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

# A wait for synchronous replication is what keeps a transaction at the point where it holds NOTIFY's lock.
my $node = pgq_node('main', init => { allows_streaming => 1 }, conf => <<'EOC');
max_connections = 30
synchronous_commit = local
synchronous_standby_names = 'nobody'
EOC
create_queue($node, 'q');
my $scheduler = wait_for_scheduler($node);
create_queue($node, 'Mixed-Case');
create_queue($node, 'quiet', 'notify => false');
my $listener = session($node);

# Everything heard so far as "channel payload from pid".
my @heard;

sub hear
{
	my $said = ask($listener, 'SELECT 1');
	while ($said =~ /^Asynchronous notification "([^"]*)" (?:with payload "(.*?)" )?received from server process with PID (\d+)/mg)
	{
		push @heard, $1 . ' ' . ($2 // '') . " from $3";
	}
	return scalar @heard;
}

sub hear_something
{
	for (1 .. 1200)
	{
		return 1 if hear();
		select(undef, undef, undef, 0.05);
	}
	return 0;
}

sub enqueue
{
	my ($queue, $arguments) = @_;
	$arguments //= '';
	return $node->safe_psql('postgres', "SELECT pgq_enqueue('$queue', '1' $arguments); SELECT clock_timestamp()");
}

# After a start nobody knows what was not told any more, and so everybody is told: let that pass.
ask($listener, 'LISTEN pgq_q; LISTEN "pgq_Mixed-Case"; LISTEN pgq_quiet; LISTEN pgq_stop');
wait_for($node, q{last_run_at IS NOT NULL FROM pgq_ext.duty WHERE duty = 'notify'});
create_queue($node, 'stop');

# Until all is quiet: the scheduler has told everything that came before.
sub quiesce
{
	@heard = ();
	enqueue('stop');
	for (1 .. 1200)
	{
		hear();
		last if grep { /^pgq_stop/ } @heard;
		select(undef, undef, undef, 0.05);
	}
	my @others = grep { !/^pgq_stop/ } @heard;
	$node->safe_psql('postgres', q{SELECT pgq_purge_queue('stop')});
	@heard = ();
	return "@others";
}
quiesce();

# ---- heard ----

enqueue('q');
ok(hear_something(), 'a job that is ready is heard');
is(join('; ', @heard), "pgq_q  from $scheduler", '... on the channel of its queue, from the scheduler, without payload');
quiesce();

enqueue('Mixed-Case');
ok(hear_something(), 'a name that has to be quoted');
is(join('; ', @heard), "pgq_Mixed-Case  from $scheduler", '... is a channel as well');
quiesce();

my ($id, $sent) = split /\n/, enqueue('q', ", delay => '700 ms'");
ok(hear_something(), 'a delayed job is heard');
is($node->safe_psql('postgres', "SELECT run_at <= clock_timestamp() FROM pgq_ext.job WHERE job_id = $id"), 't', '... when it is due');
quiesce();

# A nearer one while the scheduler sleeps until a later one.
enqueue('q', ", delay => '1 hour'");
enqueue('q', ", delay => '300 ms'");
ok(hear_something(), 'a nearer job is heard');
quiesce();

# Retries.
my $session = session($node);
ask($session, q{SELECT pgq_fail(job_id, lease, 'again', retry_in => '300 ms') FROM pgq_claim('q')});
ok(hear_something(), 'a retry is heard');
quiesce();
ask($session, q{BEGIN; SELECT job_id FROM pgq_claim('q')});
ask($session, 'ROLLBACK');
ok(hear_something(), 'a job of which an attempt was lost is heard');
is(quiesce(), '', '... once');

# ---- not heard ----

ask($session, q{BEGIN; SELECT pgq_enqueue('q', '1') FROM generate_series(1, 10)});
ask($session, 'ROLLBACK');
enqueue('quiet');
$node->safe_psql('postgres', q{SELECT pgq_create_queue('silent'); SELECT pgq_purge_queue('q'); SELECT count(*) FROM pgq_claim('q')});
is(quiesce(), '', 'what was rolled back, a queue without notify, and empty queues are not heard');

# ---- coalesced ----

$node->append_conf('postgresql.conf', "pgq_ext.notify_interval = '3 s'");
$node->reload;
wait_for($node, q{current_setting('pgq_ext.notify_interval') = '3s'});
# The interval must have reached the scheduler: from here on two notifications are 3 s apart.
quiesce();
quiesce();
my $start = monotonic();
$node->pgbench('-n -c 4 -j 2 -t 100', 0, [qr/processed: 400\/400/], [qr/^(?!.*ERROR)/s], '400 commits',
	{ 'enqueue' => q{SELECT pgq_enqueue('q', '1');} });
enqueue('stop');
for (1 .. 1200)
{
	hear();
	last if grep { /^pgq_stop/ } @heard;
	select(undef, undef, undef, 0.05);
}
my $told = grep { /^pgq_q / } @heard;
cmp_ok($told, '>=', 1, '... are heard');
cmp_ok($told, '<=', (seconds_since($start) + 1) / 3 + 1, '... with 3 s from one notification to the next');
$node->safe_psql('postgres', q{SELECT pgq_purge_queue('q'); ALTER SYSTEM SET pgq_ext.notify_interval = 0});
$node->reload;

# ---- no client waits ----

# One session's NOTIFY holds the lock that orders all notifications of the server, for as long as its commit takes.
my $holder = session($node);
my $pid = pid_of($holder);
ask($holder, 'SET synchronous_commit = on');
send_sql($holder, 'BEGIN; CREATE TABLE something_to_wait_for (); NOTIFY elsewhere; COMMIT');
my $lock = q{locktype = 'object' AND database = 0 AND classid = 'pg_database'::regclass AND objid = 0 AND mode = 'AccessExclusiveLock'};
wait_for($node, "count(*) = 1 FROM pg_locks WHERE $lock AND pid = $pid AND granted");

my $worker = session($node);
ask($worker, q{SET lock_timeout = '30 s'});
for my $work (
	q{SELECT pgq_create_queue('new')},
	q{BEGIN; SELECT pgq_enqueue('new', '1') > 0; COMMIT},
	q{SELECT count(*) = 10 FROM pgq_enqueue_many('new', (SELECT jsonb_agg('{"payload": 2, "delay": "0"}'::jsonb) FROM generate_series(1, 10)))},
	q{SELECT pgq_fail(job_id, lease, 'no', retry_in => '0') = 'retry' FROM pgq_claim('new', wait => '10 s')},
	q{SELECT pgq_fail(job_id, lease, 'no', retry => false) = 'dead' FROM pgq_claim('new', wait => '10 s')},
	q{SELECT pgq_extend(job_id, lease, '1 min') > now() FROM pgq_claim('new', wait => '10 s')},
	q{SELECT pgq_ack(job_id, lease) IS NOT NULL FROM pgq_claim('new', wait => '10 s')},
	q{SELECT pgq_purge_queue('new') >= 7},
	q{SELECT pgq_drop_queue('new', force => true)})
{
	my ($out, $error) = ask($worker, $work);
	is("$out$error", 't', "while another holds NOTIFY's lock: " . ($work =~ /(pgq_(?!claim)\w+)/)[0]);
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE $lock AND pid <> $pid AND pid NOT IN
			(SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler')"),
		'0', '... it does not want it either');
}
# It is the right lock: the scheduler, which notifies, does want it, when there is something to tell, but not for long.
enqueue('q');
wait_for($node, q{last_error LIKE '%lock timeout%' FROM pgq_ext.duty WHERE duty = 'notify' AND queue IS NULL});
pass('the scheduler gives up to wait for it');
my $lost = $node->safe_psql('postgres', q{SELECT lost FROM pgq_ext.queue_stats WHERE queue = 'q'});
is(ask($worker, q{SELECT count(*) FROM pgq_claim('q', lease_time => '1 s')}), '1', 'a job is claimed, and lost');
wait_for($node, "lost = $lost + 1 FROM pgq_ext.queue_stats WHERE queue = 'q'");
pass('... and counted: its other duties go on');
end_session($worker);
$node->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = ''});
$node->reload;
reply($holder);
@heard = ();
enqueue('q');
ok(hear_something(), 'afterwards jobs are heard again');

end_session($_) for $listener, $session, $holder;
$node->stop;
done_testing();
