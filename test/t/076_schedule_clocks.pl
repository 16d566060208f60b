# Schedules and the clock: a clock that was just set fires no schedule, no tick comes twice or before its time, and
# between two ticks the scheduler does not read the schedules, however many there are.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use PgqTest;
use ClockTest;
use Test::More;
use List::Util qw(min);
use Time::HiRes qw(usleep);

my $node = clock_node('clocks');
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }

my $hour = 3600;
create_queue($node, 's');
my $pid = wait_for_scheduler($node);

# What the schedule has enqueued: how many jobs, and how many of these for no tick of their own, or before it.
sub jobs  { my ($schedule) = @_; return sql("SELECT count(*) FROM pgq_ext.job WHERE headers ->> 'schedule' = '$schedule'") }
sub wrong { return sql(q{SELECT count(*) - count(DISTINCT headers) FROM pgq_ext.job WHERE headers IS NOT NULL}) }

# So often did the process sleep.
sub sleeps { return slurp_file("/proc/$_[0]/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m ? $1 : die 'no such process' }

sub sleeps_of_a_while
{
	my $before = sleeps($pid);
	usleep(8_000_000);
	return sleeps($pid) - $before;
}

subtest 'an idle scheduler does not look' => sub
{
	# An odd one out, so that the duty has run; the housekeeping of the scheduler goes on once a second.
	sql(q{SELECT pgq_schedule('first', '0 0 1 1 *', 's'), pgq_unschedule('first')});
	wait_for($node, q{last_run_at IS NOT NULL FROM pgq_ext.duty WHERE duty = 'schedules'});
	usleep(2_000_000);
	my $idle = sleeps_of_a_while();
	sql(q{SELECT count(pgq_schedule('s' || n, format('%s %s 1 1 *', n % 60, n % 24), 's')) FROM generate_series(1, 1000) n});
	my $run = q{SELECT last_run_at FROM pgq_ext.duty WHERE duty = 'schedules'};
	wait_for($node, q{next_run_at IS NOT NULL FROM pgq_ext.duty WHERE duty = 'schedules'});
	is(sql(q{SELECT abs(extract(epoch FROM next_run_at - (SELECT min(next_run_at) FROM pgq_ext.schedule))) < 1 FROM pgq_ext.duty WHERE duty = 'schedules'}), 't',
		'it knows when the next one is due');
	# What autovacuum or a checkpoint may ask of it is over by then.
	usleep(2_000_000);
	my $last = sql($run);
	my $busy = sleeps_of_a_while();
	# Other things that keep the machine busy may come between. A look in each tenth of a second would be 80 sleeps more.
	my $most = $idle + 40;
	for (1 .. 3)
	{
		last if $busy <= $most;
		$busy = min($busy, sleeps_of_a_while());
	}
	note "$idle without schedules, $busy with a thousand";
	is(sql($run), $last, 'a thousand schedules: it is not looked at them between two ticks');
	cmp_ok($busy, '<=', $most, '... and the scheduler does not wake for them');
	# The next one comes to the moment.
	sql(q{SELECT pgq_schedule('soon', 'every 2 s', 's')});
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'soon'});
	cmp_ok(sql(q{SELECT extract(epoch FROM enqueued_at - (headers ->> 'scheduled_at')::timestamptz) FROM pgq_ext.job WHERE headers ->> 'schedule' = 'soon' ORDER BY job_id LIMIT 1}),
		'<', 10, 'one that is due in a moment does not wait for the others');
	sql(q{SELECT pgq_unschedule('soon'); SELECT pgq_purge_queue('s')});

	# All at once: a tick is a transaction, and what else the scheduler does comes between two of them.
	create_queue($node, 'beside');
	sql(q{UPDATE pgq_ext.timetable SET cron = '0 0 1 * *', next_run_at = now() - interval '32 days', due_at = now()});
	sql(q{SELECT pgq_enqueue('beside', '"lost"'); BEGIN; SELECT count(*) FROM pgq_claim('beside'); ROLLBACK});
	is(sql(q{SELECT payload, attempt FROM pgq_claim('beside', wait => '60 s')}), '"lost"|2', 'a thousand are due: lost leases are counted beside them');
	wait_for($node, q{bool_and(next_run_at > now()) FROM pgq_ext.schedule});
	is(sql(q{SELECT count(*) || ' ' || count(DISTINCT headers ->> 'schedule') FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 's'}), '1000 1000', '... and each has its job');
	note sql(q{SELECT max(last_run_at) - min(last_run_at) FROM pgq_ext.schedule}) . ' for all';
	sql(q{SELECT count(pgq_unschedule(schedule)) FROM pgq_ext.schedule; SELECT pgq_purge_queue('s')});
};

# The next tick of each minute is some seconds away.
sub wait_for_the_minute { return sql(q{SELECT pg_sleep(CASE WHEN s > 50 THEN 61 - s ELSE 0 END) FROM (SELECT extract(second FROM clock_timestamp()) AS s) x}) }

subtest 'a clock that is set forward for a while fires nothing' => sub
{
	wait_for_the_minute();
	sql(qq{SELECT pgq_schedule('hourly', '* * * * *', 's', missed => 'all')});
	my $next = sql(q{SELECT next_run_at FROM pgq_ext.schedule});
	set_clock($node, 3 * $hour);
	ok($node->wait_for_log(qr/the clock was set forward by 1\d{4}/), 'it is noticed');
	usleep(3_000_000);
	is(jobs('hourly'), '0', 'nothing runs');
	# Also for the next scheduler.
	kill 'TERM', $pid;
	$pid = wait_for_scheduler($node, 'postgres', $pid);
	usleep(3_000_000);
	is(jobs('hourly'), '0', '... nor by another scheduler');
	# Said again meanwhile.
	sql(qq{SELECT pgq_schedule('hourly', '* * * * *', 's', missed => 'all')});
	is(sql(q{SELECT next_run_at FROM pgq_ext.schedule}), $next, 'who says the same again does not move it');
	set_clock($node, 0);
	my $start = monotonic();
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule});
	cmp_ok(seconds_since($start), '>', 50, 'set right, it is believed a minute later');
	is(sql(q{SELECT min((headers ->> 'scheduled_at')::timestamptz) FROM pgq_ext.job}), $next, '... and no tick is lost');
	is(wrong(), '0', '... or comes twice');
	is(sql(q{SELECT count(*) FROM pgq_ext.job WHERE (headers ->> 'scheduled_at')::timestamptz > enqueued_at}), '0', '... or before its time');
};

subtest 'a clock that is set back repeats nothing' => sub
{
	wait_for_the_minute();
	my $before = jobs('hourly');
	my $last = sql(q{SELECT max((headers ->> 'scheduled_at')::timestamptz) FROM pgq_ext.job});
	set_clock($node, -$hour);
	usleep(3_000_000);
	is(jobs('hourly'), $before, 'nothing runs');
	# A schedule that is made then goes by it, when it is believed.
	sql(q{SELECT pgq_schedule('new', 'every 1 s', 's')});
	my $start = monotonic();
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'new'});
	cmp_ok(seconds_since($start), '>', 45, 'it is believed after a minute');
	is(jobs('hourly'), $before, 'what has run does not run again');
	sql(q{SELECT pgq_unschedule('new')});
	set_clock($node, 0);
	wait_for($node, "max((headers ->> 'scheduled_at')::timestamptz) > '$last' FROM pgq_ext.job WHERE headers ->> 'schedule' = 'hourly'");
	is(sql(q{SELECT count(*) - count(DISTINCT headers) FROM pgq_ext.job WHERE headers ->> 'schedule' = 'hourly'}), '0', 'set right, it goes on');
	is(sql(q{SELECT count(*) FROM (SELECT (headers ->> 'scheduled_at')::timestamptz - lag((headers ->> 'scheduled_at')::timestamptz) OVER (ORDER BY job_id) AS gap
		FROM pgq_ext.job WHERE headers ->> 'schedule' = 'hourly') g WHERE gap <> '1 min'}), '0', '... with every tick');
	sql(q{SELECT pgq_unschedule('hourly'); SELECT pgq_purge_queue('s')});
};

subtest 'a downtime' => sub
{
	# Three times an hour, in zones where that is another minute; no tick comes within the next one.
	sql(q{SELECT pg_sleep(CASE WHEN l < 60 THEN l + 1 ELSE 0 END) FROM (SELECT 1200 - (extract(epoch FROM clock_timestamp()) - 900) % 1200 AS l) x});
	sql("SELECT pgq_schedule('$_', '*/20 * * * *', 's', timezone => 'Asia/Kathmandu', missed => '$_')") for qw(skip one all);
	my %next = map { split /\|/ } split /\n/, sql(q{SELECT schedule, next_run_at FROM pgq_ext.schedule});
	$node->stop;
	set_clock($node, $hour);
	start_with_clock($node);
	# After a start the first look at the clock is believed.
	my $start = monotonic();
	wait_for($node, q{bool_and(next_run_at > now()) FROM pgq_ext.schedule});
	cmp_ok(seconds_since($start), '<', 40, 'what was missed comes at once');
	is(jobs('all'), '3', 'all: an hour is three ticks');
	is(jobs('one'), '1', 'one: one job');
	is(sql(q{SELECT a.headers ->> 'scheduled_at' = o.headers ->> 'scheduled_at' FROM pgq_ext.job o, pgq_ext.job a
		WHERE o.headers ->> 'schedule' = 'one' AND a.headers ->> 'schedule' = 'all' ORDER BY a.job_id DESC LIMIT 1}), 't', '... for the last of them');
	cmp_ok(jobs('skip'), '<=', 1, 'skip: none, but one that is just due');
	is(sql(q{SELECT min((headers ->> 'scheduled_at')::timestamptz) FROM pgq_ext.job WHERE headers ->> 'schedule' = 'all'}), $next{all}, 'the first is the one that was next');
	is(sql('SELECT count(*) FROM pgq_check()'), '0', 'pgq_check() finds nothing');
};

$node->stop;
done_testing();
