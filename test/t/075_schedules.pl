# Schedules through faults of every kind: each tick enqueues exactly one job. The ledger is a table of the headers of
# all jobs that were handed out, written by the transaction that acknowledges the job.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;
use Time::HiRes qw(usleep time);

my $node = pgq_node('main', init => { allows_streaming => 1 }, conf => "max_prepared_transactions = 4\nmax_wal_senders = 4\nrestart_after_crash = on\n");
sub sql { return scalar $node->safe_psql('postgres', $_[0]) }

sql(q{CREATE TABLE ledger (schedule text, tick timestamptz, job_id bigint)});
my $drain = q{WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('s', 1000)), l AS (
	INSERT INTO ledger SELECT headers ->> 'schedule', (headers ->> 'scheduled_at')::timestamptz, job_id FROM c)
	SELECT count(pgq_ack(job_id, lease)) FROM c};

# Does jobs until there are so many in the ledger.
sub drain_until
{
	my ($n) = @_;
	my $ending = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
	while (sql('SELECT count(*) FROM ledger') < $n)
	{
		die "no $n ticks come" if monotonic() > $ending;
		usleep(100_000);
		sql($drain);
	}
	return;
}

# The ticks of that schedule are the ledger's, one by one, as its preview would have had them: every $step seconds.
sub ledger_ok
{
	my ($schedule, $step, $what) = @_;
	is(sql("SELECT count(*) - count(DISTINCT tick) FROM ledger WHERE schedule = '$schedule'"), '0', "$what: no tick twice");
	is(sql("SELECT count(*) FROM (SELECT tick - lag(tick) OVER (ORDER BY tick) AS gap FROM ledger WHERE schedule = '$schedule') g WHERE gap <> '$step s'"),
		'0', "$what: none left out");
	return;
}

create_queue($node, 's');
create_queue($node, 'other');
my $pid = wait_for_scheduler($node);

# ---- told at once ----
{
	sql(q{SELECT pgq_schedule('far', '0 0 1 1 *', 's')});
	wait_for($node, q{next_run_at > now() + interval '1 min' OR now() > date_trunc('year', now() + '2 min') FROM pgq_ext.duty WHERE duty = 'schedules'});
	# Asked before it runs; and late or not, that tick has its job.
	my ($next) = sql(q{BEGIN; SELECT pgq_schedule('near', 'every 1 s', 's', missed => 'all'); SELECT next_run_at FROM pgq_ext.schedule WHERE schedule = 'near'; COMMIT}) =~ /([^\n]+)\z/;
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'near'});
	is(sql(q{SELECT (headers ->> 'scheduled_at')::timestamptz FROM pgq_ext.job WHERE headers ->> 'schedule' = 'near' ORDER BY job_id LIMIT 1}), $next,
		'one that is made runs at its first tick');
	is(sql(q{SELECT count(*) FILTER (WHERE enqueued_at < (headers ->> 'scheduled_at')::timestamptz) FROM pgq_ext.job}), '0', '... none before its time');
	sql(q{SELECT pgq_pause_schedule('near'); SELECT pgq_purge_queue('s')});
	usleep(2_200_000);
	is(sql(q{SELECT count(*) FROM pgq_ext.job}), '0', 'paused it enqueues nothing');
	sql(q{SELECT pgq_resume_schedule('near')});
	wait_for($node, q{count(*) > 0 FROM pgq_ext.job});
	is(sql(q{SELECT min((headers ->> 'scheduled_at')::timestamptz) > now() - interval '60 s' FROM pgq_ext.job}), 't', 'resumed it goes on');
	sql(q{SELECT pgq_unschedule('near')});

	# By any door, also one that nobody watches.
	sql(q{SELECT pgq_purge_queue('s'); INSERT INTO pgq_ext.timetable (schedule, cron, timezone, queue, payload, missed, maker_name, next_run_at, due_at)
		VALUES ('by-hand', 'every 1 s', 'UTC', 's', '{}', 'one', current_user, now(), now())});
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'by-hand'});
	pass('a row that comes by SQL runs');
	sql(q{SELECT pgq_unschedule('by-hand')});
}

# ---- prepared, rolled back ----
{
	sql(q{BEGIN; SELECT pgq_schedule('prepared', 'every 1 s', 's'); PREPARE TRANSACTION 'p'});
	sql(q{BEGIN; SELECT pgq_schedule('undone', 'every 1 s', 's'); ROLLBACK});
	sql(q{BEGIN; SAVEPOINT a; SELECT pgq_schedule('undone', 'every 1 s', 's'); ROLLBACK TO a; SELECT pgq_schedule('done', 'every 1 s', 's'); COMMIT});
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'done'});
	is(sql(q{SELECT string_agg(DISTINCT headers ->> 'schedule', ' ') FROM pgq_ext.job WHERE headers ->> 'schedule' IN ('prepared', 'undone')}), '', 'what is not committed does not run');
	sql(q{SELECT pgq_unschedule('done')});
	$node->stop('immediate');
	$node->start;
	sql(q{COMMIT PREPARED 'p'});
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'prepared'});
	pass('one that was prepared, also before a crash, runs after COMMIT PREPARED');
	# A scheduler that knows what there is learns it from a prepared one, too.
	sql(q{BEGIN; SELECT pgq_unschedule('prepared'), pgq_schedule('prepared-2', 'every 1 s', 's'); PREPARE TRANSACTION 'p'});
	usleep(1_200_000);
	sql(q{COMMIT PREPARED 'p'});
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'prepared-2'});
	pass('... also without a crash');
	sql(q{SELECT pgq_unschedule('prepared-2'); SELECT pgq_purge_queue('s')});
}

# ---- what was missed ----
{
	# Each of them once a minute, an hour and a half ago, and just before a minute is over nothing is counted.
	sql('SELECT pg_sleep(CASE WHEN extract(second FROM clock_timestamp()) > 40 THEN 60 - extract(second FROM clock_timestamp()) ELSE 0 END)');
	sql("SELECT pgq_schedule('$_', '* * * * *', 's', missed => '$_')") for qw(skip one all);
	sql(q{UPDATE pgq_ext.timetable SET next_run_at = date_trunc('minute', now()) - interval '1 hour', due_at = now() - interval '1 hour'
		WHERE schedule IN ('one', 'all')});
	sql(q{UPDATE pgq_ext.timetable SET next_run_at = date_trunc('minute', now()) - interval '1 hour', due_at = now() - interval '1 hour', cron = '0 0 1 1 *'
		WHERE schedule = 'skip'});
	wait_for($node, qq{bool_and(next_run_at > now() - interval '1 min') FROM pgq_ext.schedule});
	wait_for($node, q{ready = 62 FROM pgq_ext.queue_status WHERE queue = 's'});
	sql($drain);
	is(sql(q{SELECT string_agg(schedule || ' ' || n, ', ' ORDER BY schedule) FROM (SELECT schedule, count(*) AS n FROM ledger WHERE schedule IN ('one', 'all') GROUP BY 1) c}),
		'all 61, one 1', 'an hour of downtime: all 61 of them, one for all');
	is(sql(q{SELECT l.tick = a.tick FROM ledger l, (SELECT max(tick) AS tick FROM ledger WHERE schedule = 'all') a WHERE schedule = 'one'}), 't', '... which is the newest');
	ledger_ok('all', 60, 'all');
	is(sql(q{SELECT count(*) FROM ledger WHERE schedule = 'skip'}), '0', '... none of those that are skipped');
	is(sql(q{SELECT count(last_error) FROM pgq_ext.schedule}), '0', '... and all is well');
	sql(q{SELECT pgq_unschedule(schedule) FROM pgq_ext.schedule; TRUNCATE ledger});

	# Less than a minute late is not missed.
	sql(q{SELECT pgq_schedule('late', '0 0 1 1 *', 's', missed => 'skip')});
	sql(q{UPDATE pgq_ext.timetable SET cron = 'every 1 s', next_run_at = date_trunc('second', now()) - interval '20 s', due_at = now()});
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule});
	pass('skip: one that is a little late runs');
	sql(q{SELECT pgq_unschedule('late'); SELECT pgq_purge_queue('s')});

	sql(q{SELECT pgq_schedule('year', '0 0 1 1 *', 's', missed => 'all')});
	sql(q{UPDATE pgq_ext.timetable SET cron = '*/20 * * * *', next_run_at = date_bin('20 min', now(), '2000-01-01') - 2999 * interval '20 min', due_at = now()});
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule});
	is(sql(q{SELECT last_error FROM pgq_ext.schedule}), '2000 ticks before the last 1000 were missed, and have no job', 'all of too many: it is said how many are left out');
	# They are counted by their commits before memory has all of them.
	drain_until(1000);
	is(sql(q{SELECT count(*) || ' ' || (max(tick) > now() - interval '21 min') FROM ledger}), '1000 true', '... of which the newest thousand have their job');
	ledger_ok('year', 1200, 'these');
	sql(q{UPDATE pgq_ext.timetable SET cron = '*/20 * * * *', next_run_at = date_trunc('hour', now()) - interval '2000 days', due_at = now()});
	wait_for($node, q{last_error LIKE 'more than 100000 ticks before the last 1000%' FROM pgq_ext.schedule});
	pass('... more than a hundred thousand are not counted');
	sql(q{SELECT pgq_unschedule('year'); SELECT pgq_purge_queue('s'); TRUNCATE ledger});
}

# ---- one that fails keeps nobody else from running ----
{
	create_queue($node, 'full', 'max_depth => 1');
	create_queue($node, 'gone');
	create_queue($node, 'quiet');
	sql(q{CREATE ROLE maker; CREATE ROLE dropped; GRANT EXECUTE ON FUNCTION pgq_schedule, pgq_enqueue TO maker, dropped});
	sql(q{SELECT pgq_enqueue('full', '1')});
	sql("SELECT pgq_schedule('$_', 'every 1 s', '$_')") for qw(full gone);
	sql("SET ROLE $_; SELECT pgq_schedule('$_', 'every 1 s', 'other')") for qw(maker dropped);
	sql(q{SELECT pgq_schedule('garbled', 'every 1 s', 's'), pgq_schedule('nowhere', 'every 1 s', 's'), pgq_schedule('skips', 'every 1 s', 'full', missed => 'skip')});
	sql(q{SELECT pgq_drop_queue('gone', force => true); UPDATE pgq_ext.timetable SET cron = 'nonsense' WHERE schedule = 'garbled'; UPDATE pgq_ext.timetable SET timezone = 'Mars/Phobos' WHERE schedule = 'nowhere';
		REVOKE EXECUTE ON FUNCTION pgq_enqueue FROM maker; DROP OWNED BY dropped; DROP ROLE dropped});
	sql(q{SELECT pgq_schedule('fine', 'every 1 s', 's')});
	my $log = -s $node->logfile;
	wait_for($node, q{count(*) = 7 FROM pgq_ext.schedule WHERE last_error IS NOT NULL});
	is(sql(q{SELECT string_agg(schedule || ': ' || last_error, E'\n' ORDER BY schedule) FROM pgq_ext.schedule WHERE last_error IS NOT NULL}), <<'END' =~ s/\n$//r, 'each says why');
dropped: role "dropped" does not exist
full: queue "full" is full
garbled: invalid cron: "nonsense"
gone: queue "gone" does not exist
maker: permission denied for function pgq_enqueue
nowhere: time zone "Mars/Phobos" not recognized
skips: queue "full" is full
END
	my $failures = sql(q{SELECT failures FROM pgq_ext.timetable WHERE schedule = 'gone'});
	my $job = sql(q{SELECT last_job_id FROM pgq_ext.schedule WHERE schedule = 'fine'}) || 0;
	wait_for($node, "failures > $failures + 1 FROM pgq_ext.timetable WHERE schedule = 'gone'");
	pass('... and is tried again');
	is(sql("SELECT last_job_id > $job AND last_error IS NULL FROM pgq_ext.schedule WHERE schedule = 'fine'"), 't', '... while the others go on');
	is(sql(q{SELECT count(*) FROM pgq_ext.duty WHERE duty = 'schedules' AND failures > 0}), '0', '... the duty does not fail by it');
	is(sql(q{SELECT next_run_at > now() - interval '50 s' FROM pgq_ext.schedule WHERE schedule = 'skips'}), 't', '... skip goes on with the next tick');
	my %told;
	my $said = slurp_file($node->logfile, $log);
	$told{$_}++ for $said =~ /CONTEXT:  schedule "(\w+)"/g;
	is(join(' ', grep { $told{$_} > 1 } grep { $_ ne 'skips' } sort keys %told), '', '... the log is told once') or diag($said);
	like(slurp_file($node->logfile), qr/ERROR:  queue "gone" does not exist/, '... of the error');

	# What is mended runs, as one job; the renamed role stays its maker.
	create_queue($node, 'gone');
	sql(q{GRANT EXECUTE ON FUNCTION pgq_enqueue TO maker; ALTER ROLE maker RENAME TO renamed; SELECT pgq_purge_queue('full')});
	sql(q{UPDATE pgq_ext.timetable SET cron = 'every 2 s' WHERE schedule = 'garbled'; UPDATE pgq_ext.timetable SET timezone = 'Asia/Kathmandu' WHERE schedule = 'nowhere'});
	sql(q{UPDATE pgq_ext.timetable SET due_at = now() WHERE failures > 0});
	wait_for($node, q{count(*) = 0 FROM pgq_ext.schedule WHERE last_error IS NOT NULL AND schedule NOT IN ('dropped', 'full', 'skips')});
	pass('mended, they run');
	is(sql(q{SELECT maker_name FROM pgq_ext.timetable WHERE schedule = 'maker'}), 'renamed', '... the maker has another name');
	wait_for($node, q{count(*) > 0 FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'full'});
	is(sql(q{SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'full'}), '1', '... and a full queue has no job too many');

	# Who drops a queue is not waited for.
	my $dropper = session($node);
	ask($dropper, q{BEGIN; SELECT pgq_drop_queue('gone', force => true)});
	wait_for($node, q{last_error LIKE 'queue "gone"%' FROM pgq_ext.schedule WHERE schedule = 'gone'});
	$job = sql(q{SELECT last_job_id FROM pgq_ext.schedule WHERE schedule = 'fine'});
	wait_for($node, "last_job_id > $job FROM pgq_ext.schedule WHERE schedule = 'fine'");
	pass('a queue that is being dropped holds up nobody');
	ask($dropper, 'ROLLBACK');

	# Nor for lack of memory. There are other schedules that have been due for less long.
	sql(q{CREATE FUNCTION too_large(payload jsonb) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
			$$ BEGIN IF payload = '"large"' THEN RAISE 'out of memory' USING ERRCODE = '53200'; END IF; RETURN 1; END $$;
		CREATE INDEX too_large ON pgq_ext.job (too_large(payload));
		SELECT pgq_schedule('large', 'every 1 s', 's', payload => '"large"', missed => 'skip')});
	wait_for($node, q{last_error = 'out of memory' FROM pgq_ext.schedule WHERE schedule = 'large'});
	is(sql(q{SELECT next_run_at <= now() FROM pgq_ext.timetable WHERE schedule = 'large'}), 't', 'for lack of memory no tick is skipped');
	$job = sql(q{SELECT last_job_id FROM pgq_ext.schedule WHERE schedule = 'fine'});
	wait_for($node, "last_job_id > $job FROM pgq_ext.schedule WHERE schedule = 'fine'");
	pass('... nobody else waits for it');
	sql(q{DROP INDEX pgq_ext.too_large; UPDATE pgq_ext.timetable SET due_at = now() WHERE schedule = 'large'});
	wait_for($node, q{last_error IS NULL AND last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'large'});
	sql(q{SELECT pgq_unschedule('large')});

	# Nor who has locked the schedule, or the table.
	ask($dropper, q{BEGIN; SELECT FROM pgq_ext.timetable WHERE schedule = 'maker' FOR UPDATE});
	$job = sql(q{SELECT last_job_id FROM pgq_ext.schedule WHERE schedule = 'fine'});
	wait_for($node, "last_job_id > $job FROM pgq_ext.schedule WHERE schedule = 'fine'");
	ask($dropper, q{COMMIT; BEGIN; LOCK TABLE pgq_ext.timetable});
	sql(q{SELECT pgq_enqueue('quiet', '"lost"'); BEGIN; SELECT count(*) FROM pgq_claim('quiet'); ROLLBACK});
	is(sql(q{SELECT payload, attempt FROM pgq_claim('quiet', wait => '60 s')}), '"lost"|2', '... the scheduler does all else while the table is locked');
	ask($dropper, 'COMMIT');
	$job = sql(q{SELECT last_job_id FROM pgq_ext.schedule WHERE schedule = 'fine'});
	wait_for($node, "last_job_id > $job FROM pgq_ext.schedule WHERE schedule = 'fine'");
	pass('... and goes on');
	# Nor who is just enqueuing a job with its key.
	ask($dropper, q{BEGIN; SELECT pgq_enqueue('other', '1', unique_key => 'k')});
	sql(q{SELECT pgq_schedule('keyed', 'every 1 s', 'other', options => '{"unique_key": "k"}')});
	wait_for($node, q{last_error = 'canceling statement due to lock timeout' FROM pgq_ext.schedule WHERE schedule = 'keyed'});
	$job = sql(q{SELECT last_job_id FROM pgq_ext.schedule WHERE schedule = 'fine'});
	wait_for($node, "last_job_id > $job FROM pgq_ext.schedule WHERE schedule = 'fine'");
	pass('nor is a key that somebody is just taking');
	ask($dropper, 'COMMIT');
	wait_for($node, q{last_error IS NULL AND last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'keyed'});
	end_session($dropper);
	sql(q{SELECT pgq_unschedule(schedule) FROM pgq_ext.schedule; SELECT pgq_purge_queue(queue) FROM pgq_ext.queue});
}

# ---- it dies between the job and the next time, and right after both ----
{
	my $holder = session($node);
	my $waiting = q{count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted};
	for my $point ('tick-enqueued', 'commit-settle')
	{
		for my $signal ('TERM', 'KILL')
		{
			my $name = "$point-$signal";
			ask($holder, 'SELECT pg_advisory_lock(7366513, 0)');
			sql("ALTER SYSTEM SET pgq_ext.stop_point = '$point'");
			sql('SELECT pg_reload_conf()');
			usleep(300_000);
			# Its one tick is now; the next one is next year.
			sql("SET pgq_ext.stop_point = ''; SELECT pgq_schedule('$name', '0 0 1 1 *', 's', missed => 'all');
				UPDATE pgq_ext.timetable SET next_run_at = date_trunc('year', now(), 'UTC'), due_at = now() WHERE schedule = '$name'");
			wait_for($node, $waiting);
			my $pid = scheduler_pid($node);
			kill $signal, $pid;
			sql(q{ALTER SYSTEM RESET pgq_ext.stop_point}) if $signal eq 'TERM';
			if ($signal eq 'TERM')
			{
				sql('SELECT pg_reload_conf()');
				ask($holder, 'SELECT pg_advisory_unlock(7366513, 0)');
				wait_until_down($pid);
			}
			else
			{
				end_session($holder);
				wait_until_down($pid);
				wait_until_up($node);
				sql(q{ALTER SYSTEM RESET pgq_ext.stop_point});
				sql('SELECT pg_reload_conf()');
				$holder = session($node);
			}
			wait_for($node, "next_run_at > now() FROM pgq_ext.schedule WHERE schedule = '$name'");
			sql($drain);
			is(sql("SELECT count(*) FROM ledger WHERE schedule = '$name'"), '1', "SIG$signal at $point: one job");
			sql("SELECT pgq_unschedule('$name')");
		}
	}
	end_session($holder);
}

# ---- kills ----
{
	sql(q{SELECT pgq_schedule('a', 'every 1 s', 's', missed => 'all'), pgq_schedule('b', 'every 1 s', 's', missed => 'all')});
	sql(q{SELECT pgq_schedule('locked', 'every 1 s', 'other', missed => 'all', options => '{"unique_key": "k", "on_conflict": "replace"}')});
	my %how;
	for my $round (1 .. 30)
	{
		my $scheduler = wait_for_scheduler($node);
		usleep(rand 1_200_000);
		my $how = rand() < 0.6 ? 'TERM' : 'KILL';
		$how{$how}++;
		kill $how, $scheduler;
		if ($round % 10 == 0)
		{
			$node->stop('immediate');
			$node->start;
			$how{immediate}++;
		}
		wait_until_down($scheduler);
		wait_until_up($node);
		sql($drain);
	}
	note join ', ', map { "$how{$_} $_" } sort keys %how;
	wait_for($node, q{count(*) = 2 FROM pgq_ext.schedule WHERE schedule IN ('a', 'b') AND next_run_at > now() - interval '3 s'});
	sql(q{SELECT pgq_pause_schedule(schedule) FROM pgq_ext.schedule});
	sql($drain);
	ledger_ok($_, 1, "$_, kills and crashes") for qw(a b);
	is(sql(q{SELECT count(*) FROM pgq_check()}), '0', 'pgq_check() finds nothing');
	is(sql(q{SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'other'}), '1', 'a unique key keeps one job');
}

# ---- failover ----
{
	sql(q{TRUNCATE ledger; SELECT pgq_resume_schedule('a')});
	$node->backup('b');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'b', has_streaming => 1);
	$standby->start;
	sql(q{ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()});
	wait_for($node, q{count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'});
	is(sqlstate($standby, q{SELECT pgq_schedule('x', '@daily', 's')}), '25006', 'a standby makes no schedules');
	drain_until(3);
	$node->stop('immediate');
	usleep(1_500_000);
	$standby->promote;
	$node = $standby;
	sql(q{ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()});
	wait_for($node, q{next_run_at > now() FROM pgq_ext.schedule WHERE schedule = 'a'});
	drain_until(sql('SELECT count(*) FROM ledger') + 2);
	sql(q{SELECT pgq_pause_schedule('a')});
	sql($drain);
	ledger_ok('a', 1, 'a failover');
	cmp_ok(sql('SELECT count(*) FROM ledger'), '>=', 5, '... with ticks before and after');
	is(sql(q{SELECT count(*) FROM pgq_check()}), '0', 'pgq_check() finds nothing');
}

# ---- dump and restore ----
{
	sql(q{DROP OWNED BY renamed; CREATE ROLE other_maker; GRANT EXECUTE ON FUNCTION pgq_schedule, pgq_enqueue TO other_maker});
	sql(q{SELECT pgq_unschedule(schedule) FROM pgq_ext.schedule});
	sql(q{SET ROLE other_maker; SELECT pgq_schedule('theirs', '0 0 1 1 *', 's')});
	sql(q{SELECT pgq_schedule('mine', 'every 1 s', 's', '{"a": [1, "b"]}', 'Europe/Berlin', 'one', '{"priority": 3}'), pgq_schedule('paused', '@daily', 's'), pgq_pause_schedule('paused')});
	my $dump = $node->basedir . '/dump';
	command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
	my $shown = q{SELECT schedule, cron, timezone, queue, payload, missed, options, paused FROM pgq_ext.schedule ORDER BY 1};
	my $before = sql($shown);
	sql(q{SELECT pgq_unschedule(schedule) FROM pgq_ext.schedule});
	sql('REVOKE EXECUTE ON FUNCTION pgq_schedule, pgq_enqueue FROM other_maker; DROP ROLE other_maker; CREATE ROLE in_between; CREATE DATABASE restored');
	$node->command_checks_all([ 'pg_restore', '-d', $node->connstr('restored'), $dump ], 1, [qr/^$/], [qr/role "other_maker" does not exist/], 'pg_restore, a role is missing');
	is($node->safe_psql('restored', $shown), $before, 'all schedules are there');
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'mine'}, 'restored');
	is($node->safe_psql('restored', q{SELECT maker IS NULL, maker_name FROM pgq_ext.timetable WHERE schedule = 'theirs'}), 't|other_maker', '... the missing role is nobody');
	$node->safe_psql('restored', q{UPDATE pgq_ext.timetable SET cron = 'every 1 s', due_at = now(), next_run_at = now() - interval '2 s' WHERE schedule = 'theirs'});
	wait_for($node, q{last_error = 'role "other_maker" does not exist' FROM pgq_ext.schedule WHERE schedule = 'theirs'}, 'restored');
	pass('... which its schedule says');
}

$node->stop;
done_testing();
