# An administrator runs VACUUM FULL, CLUSTER, REINDEX, TRUNCATE, DROP EXTENSION, DROP and RENAME DATABASE while jobs
# are in work. Nothing crashes, no deleted job is handed out, and each error names its cause.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;

# All rows stay in the first segment.
my $node = pgq_node('main', conf => "pgq_ext.window_size = 512\nautovacuum_naptime = 1\npgq_ext.segment_dead_rows = 0\n");
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
create_queue($node, 'first');
wait_for_scheduler($node);
my ($first, $second) = map { session($node) } 1 .. 2;

sub wait_until_blocked
{
	my ($session) = @_;
	my $pid = $session->{pid};
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
	return;
}
$_->{pid} = pid_of($_) for $first, $second;

# ---- rows move under the hints: workers on one side, an administrator on the other ----

create_queue($node, 'q', "lease_time => '1 hour'");
sql('CREATE TABLE done (job_id bigint)');

# Works until it has done n jobs, a tenth of them only at the second try.
my $worker = q{DO $$
	DECLARE job pgq_ext.claimed_job; ids bigint[]; leases bigint[]; n int; ending timestamptz := clock_timestamp() + '120 s';
	BEGIN
		LOOP
			ids := '{}'; leases := '{}';
			FOR job IN SELECT * FROM pgq_claim('q', 20, wait => '200 ms') LOOP
				IF job.job_id %% 10 = 0 AND job.attempt = 1 THEN
					PERFORM pgq_fail(job.job_id, job.lease, 'once', retry_in => '10 ms');
				ELSE
					ids := ids || job.job_id; leases := leases || job.lease;
				END IF;
			END LOOP;
			COMMIT;
			INSERT INTO public.done SELECT pgq_ack_many(ids, leases);
			COMMIT;
			SELECT count(*) INTO n FROM public.done;
			EXIT WHEN n >= %d OR clock_timestamp() > ending;
		END LOOP;
	END $$};

my $jobs = 0;
for my $command ('VACUUM FULL %s', 'CLUSTER %s USING %s_by_id', 'REINDEX TABLE %s', 'VACUUM (FREEZE) %s', 'ALTER TABLE %s SET (fillfactor = 50)')
{
	sql(q{SELECT pgq_enqueue('q', to_jsonb(i), priority => i % 3, delay => CASE WHEN i % 4 = 0 THEN interval '200 ms' END) FROM generate_series(1, 3000) i});
	$jobs += 3000;
	send_sql($_, sprintf $worker, $jobs) for $first, $second;
	my $rounds = 0;
	for (1 .. 1000)
	{
		(my $statement = $command) =~ s/%s/pgq_ext.job_0/;
		$statement =~ s/%s/job_0/;
		sql($statement);
		$rounds++;
		last if sql('SELECT count(*) FROM done') >= $jobs;
	}
	is(join('', map { (reply($_))[1] } $first, $second), '', "$command $rounds times while workers claim, fail and ack");
	is(sql('SELECT count(*), count(DISTINCT job_id) FROM done'), "$jobs|$jobs", '... each job is done once');
	is(sql('SELECT count(*) FROM pgq_ext.job'), '0', '... and none is left');
}

# Claimed before, acknowledged after; known before, claimed after.
sql(q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 300) i; DELETE FROM pgq_ext.job WHERE (payload #>> '{}')::int % 2 = 0});
my %lease = map { split /\|/ } split /\n/, sql(q{SELECT job_id, lease FROM pgq_claim('q', 50)});
sql('VACUUM FULL pgq_ext.job_0');
is(sql("SELECT count(*) FROM pgq_ack_many('{" . join(',', keys %lease) . "}', '{" . join(',', values %lease) . "}')"), '50', 'claimed before VACUUM FULL, acknowledged after');
is(scalar drain($node, 'q'), 100, '... and known before, claimed after');

# ---- TRUNCATE ----

for my $table ('pgq_ext.job_0', 'pgq_ext.job')
{
	sql(q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 1000) i; SELECT pgq_enqueue('q', '"later"', delay => '300 ms')});
	my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')});
	ask($first, q{BEGIN; SELECT pgq_enqueue('q', '"open"')});
	send_sql($second, "TRUNCATE $table");
	wait_until_blocked($second);
	ask($first, 'COMMIT');
	is((reply($second))[1], '', "TRUNCATE $table waits for who writes");
	is(sql(q{SELECT count(*) FROM pgq_claim('q', 1000)}), '0', '... nothing of it is handed out any more');
	is(sqlstate($node, "SELECT pgq_ack($id, $lease)"), 'PQ001', '... a job in work is stale');
	is(sql("SELECT pgq_fail($id, $lease)"), 'stale', '... for a failure, too');
	sql(q{SELECT pgq_enqueue('q', '"new"', priority => -1)});
	is(sql(q{SELECT payload, attempt FROM pgq_claim('q', 10, wait => '10 s')}), '"new"|1', '... and new jobs are');
	is(sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease JOIN pgq_ext.job USING (job_id)}), '1', '... and can be done');

	# Undone: the jobs are still there.
	sql(q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 700) i});
	sql("BEGIN; TRUNCATE $table; ROLLBACK");
	is(scalar drain($node, 'q'), 700, '... rolled back: everything is there');
}

# By one administrator, again and again, while workers work: a job may vanish before it is done, but no error is another's.
{
	my $loop = q{DO $$
		DECLARE ids bigint[]; leases bigint[]; ending timestamptz := clock_timestamp() + '4 s';
		BEGIN
			WHILE clock_timestamp() < ending LOOP
				PERFORM pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 50) i;
				COMMIT;
				SELECT array_agg(job_id), array_agg(lease) INTO ids, leases FROM pgq_claim('q', 40);
				COMMIT;
				PERFORM pgq_ack_many(ids, leases) WHERE ids IS NOT NULL;
				COMMIT;
			END LOOP;
		END $$};
	send_sql($_, $loop) for $first, $second;
	for (1 .. 100)
	{
		sql('TRUNCATE pgq_ext.job');
		last if sql(qq{SELECT count(*) = 0 FROM pg_stat_activity WHERE pid IN ($first->{pid}, $second->{pid}) AND state = 'active'}) eq 't';
	}
	is(join('', map { (reply($_))[1] } $first, $second), '', 'TRUNCATE again and again while workers work');
	drain($node, 'q');
	is(sql(q{SELECT count(*) FROM pgq_ext.job}), '0', '... what is left is served');
}

# ---- DROP EXTENSION, CREATE EXTENSION ----

my $token = 0;
create_queue($node, 'quiet');

sub drop_with
{
	my ($what, $drop) = @_;
	sql(q{SELECT pgq_enqueue('q', '"ghost"') FROM generate_series(1, 100); SELECT pgq_enqueue('q', '"ghost"', delay => '100 ms')});
	my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')});
	cmp_ok($lease, '>', $token, "$what: tokens grow");
	$token = $lease;
	$drop->();
	is(sqlstate($node, 'CREATE EXTENSION pgq_ext'), '', '... CREATE EXTENSION again');
	is(sqlstate($node, q{SELECT * FROM pgq_claim('q')}), '42704', '... there is no such queue');
	create_queue($node, $_) for 'q', 'quiet';
	is(sql(q{SELECT count(*) FROM pgq_claim('q', 100, wait => '300 ms')}), '0', '... and no ghost in a new one');
	sql(q{SELECT pgq_enqueue('q', '"new"')});

	# The ids begin anew: an old lease may name a job that waits, and one that is in work.
	is(sql("SELECT min(job_id) <= $id FROM pgq_ext.job"), 't', '... ids begin anew');
	my $new = sql('SELECT job_id FROM pgq_ext.job');
	is(sqlstate($node, "SELECT pgq_ack($new, $lease)"), 'PQ001', '... a lease of before is stale for a job of the same id that waits');
	is(sql(q{SELECT payload, attempt FROM pgq_claim('q')}), '"new"|1', '... which is served');
	is(sqlstate($node, "SELECT pgq_ack($new, $lease)"), 'PQ001', '... and for one in work');
	cmp_ok(sql(q{SELECT lease FROM pgq_ext.lease}), '>', $lease, '... its lease is greater');
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease});
	return;
}

drop_with('a claim waits', sub {
	send_sql($first, q{SELECT * FROM pgq_claim('quiet', wait => '60 s')});
	wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'quiet'});
	is(sqlstate($node, 'DROP EXTENSION pgq_ext'), '', '... DROP EXTENSION');
	like((reply($first))[1], qr/queue "quiet" was dropped|extension "pgq_ext" is not installed/, '... who waits is told');
});
drop_with('leases are held', sub {
	ask($first, q{SELECT * FROM pgq_claim('q', 10)});
	sql('CREATE VIEW mine AS SELECT * FROM pgq_ext.job');
	is(sqlstate($node, 'DROP EXTENSION pgq_ext'), '2BP01', '... DROP EXTENSION with a view on its tables');
	is(sqlstate($node, 'DROP EXTENSION pgq_ext CASCADE'), '', '... CASCADE');
	like((ask($first, q{SELECT * FROM pgq_claim('q')}))[1], qr/function pgq_claim\(unknown\) does not exist/, '... the functions are gone');
});
drop_with('a claim is open', sub {
	ask($first, q{BEGIN; SELECT count(*) FROM pgq_claim('q', 10)});
	is(sqlstate($node, 'DROP EXTENSION pgq_ext'), '', '... DROP EXTENSION');
	is(ask($first, 'COMMIT; SELECT 1'), '1', '... it can be committed');
});
drop_with('a claim is open and rolled back', sub {
	ask($first, q{BEGIN; SELECT count(*) FROM pgq_claim('q', 10)});
	is(sqlstate($node, 'DROP EXTENSION pgq_ext'), '', '... DROP EXTENSION');
	is(ask($first, 'ROLLBACK; SELECT 1'), '1', '... ROLLBACK');
});
for my $end ('COMMIT', 'ROLLBACK')
{
	drop_with("writes are open, $end", sub {
		ask($first, q{BEGIN; SELECT pgq_enqueue('q', '"ghost"') FROM generate_series(1, 20); SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', 3);
			SELECT pgq_fail(job_id, lease) FROM pgq_claim('q')});
		send_sql($second, 'DROP EXTENSION pgq_ext');
		wait_until_blocked($second);
		is(ask($first, "$end; SELECT 1"), '1', '... they end first');
		is((reply($second))[1], '', '... then DROP EXTENSION goes on');
	});
	drop_with("dropped in an open transaction, $end", sub {
		ask($first, 'BEGIN; DROP EXTENSION pgq_ext');
		send_sql($second, q{SELECT pgq_enqueue('q', '"ghost"')});
		wait_until_blocked($second);
		ask($first, $end);
		my ($out, $error) = reply($second);
		$end eq 'COMMIT' ? isnt($error, '', '... who comes meanwhile fails') : is($error, '', '... who comes meanwhile goes on');
		is(sqlstate($node, 'DROP EXTENSION pgq_ext'), '', '... DROP EXTENSION') if $end eq 'ROLLBACK';
	});
}

# One after the other in one session that keeps what it knows.
{
	my $same = session($node);
	my $last = 0;
	for my $round (1 .. 5)
	{
		ask($same, q{DROP EXTENSION pgq_ext; CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('q'); SELECT pgq_enqueue('q', '1')});
		my ($lease) = ask($same, q{SELECT lease FROM pgq_claim('q', 10)}) =~ /^(\d+)$/;
		cmp_ok($lease, '>', $last, "created anew, round $round: one job, a greater lease");
		$last = $lease;
	}
	end_session($same);
}

# ---- databases ----

sql('CREATE DATABASE d');
for my $round (1 .. 2)
{
	sql('CREATE EXTENSION IF NOT EXISTS pgq_ext', 'd');
	create_queue($node, 'q', 'if_not_exists => true', 'd');
	sql(q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 10) i; SELECT count(*) FROM pgq_claim('q', 3, lease_time => '1 hour')}, 'd');
	my $session = session($node, 'd');
	ask($session, q{BEGIN; SELECT count(*) FROM pgq_claim('q', 3)});
	my ($state, $error) = sqlstate($node, 'ALTER DATABASE d RENAME TO e');
	is($state, '55006', 'a database with a session is not renamed');
	like($error, qr/There is 1 other session using the database/, '... because of the session only');
	ask($session, 'COMMIT');
	end_session($session);
	wait_for($node, q{count(*) = 0 FROM pg_stat_activity WHERE datname = 'd' AND backend_type = 'client backend'});
	is(sqlstate($node, 'ALTER DATABASE d RENAME TO e'), '', '... without, it is');
	is(sql('SELECT count(*) FROM pgq_ext.lease', 'e'), '6', '... leases are what they were');
	is(sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease}, 'e'), '6', '... and can be used');
	is(sql(q{SELECT count(*) FROM pgq_claim('q', 100)}, 'e'), '4', '... the others are handed out');
	wait_for_scheduler($node, 'e');
	if ($round == 1)
	{
		$session = session($node, 'e');
		send_sql($session, q{SELECT count(*) FROM pgq_claim('q', wait => '60 s')});
		wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'q'}, 'e');
		is(sqlstate($node, 'DROP DATABASE e WITH (FORCE)'), '', 'dropped under a claim that waits');
		eval { reply($session) };
		sql('CREATE DATABASE d');
		is(sql('SELECT count(*) FROM pg_extension', 'd'), '1', '... made again: nothing of the old');
	}
}

# The scheduler has to look at the tables again while somebody locks them one by one, as DROP EXTENSION does: it must not
# stand behind him with a lock in hand that he wants next. Three of its rounds are enough to see whether it does.
for my $first ('LOCK TABLE pgq_ext.job_1', 'REINDEX INDEX pgq_ext.job_1_by_id')
{
	my $scheduler = wait_for_scheduler($node);
	my $locker = session($node);
	my $pid = pid_of($locker);
	ask($locker, "SET deadlock_timeout = '10 ms'; BEGIN; $first");
	sql('ALTER TABLE pgq_ext.job_2 SET (fillfactor = 90)');
	for (1 .. 30)
	{
		last if sql("SELECT $pid = ANY (pg_blocking_pids($scheduler))") eq 't';
		select(undef, undef, undef, 0.1);
	}
	my (undef, $error) = ask($locker, 'LOCK TABLE pgq_ext.queue, pgq_ext.dead_job, pgq_ext.job');
	is($error, '', "tables can be locked one after the other, $first");
	ask($locker, 'COMMIT');
	end_session($locker);
	is(scheduler_pid($node), $scheduler, '... and the scheduler is none the worse');
	sql('ALTER TABLE pgq_ext.job_2 RESET (fillfactor)');
}

# Nor does it try without a pause while it cannot read what it should: a queue that must be read again, from a locked table.
{
	create_queue($node, 'again');
	sql(q{SELECT pgq_enqueue('again', '1', delay => '1 hour'), pgq_enqueue('again', '2', delay => '2 hours')});
	my $locker = session($node);
	sql(q{BEGIN; SELECT pgq_enqueue('again', '3', delay => '1 hour'); PREPARE TRANSACTION 'again'});
	ask($locker, 'BEGIN; LOCK TABLE pgq_ext.job_1');
	sql(q{COMMIT PREPARED 'again'});
	my $commits = q{SELECT sum(xact_commit) FROM pg_stat_database};
	my $before = sql($commits);
	usleep(2_000_000);
	cmp_ok(sql($commits) - $before, '<', 1000, 'the scheduler is patient with a table that it cannot read');
	ask($locker, 'COMMIT');
	end_session($locker);
	is(sql(q{SELECT count(*) FROM pgq_ext.job_status WHERE queue = 'again' AND state = 'scheduled'}), '3', '... and goes on afterwards');
	sql(q{SELECT pgq_drop_queue('again', force => true)});
}

# Without all indexes no job can be looked up: that is an error, not a stale lease. Calls that use no index of the segment go on.
{
	create_queue($node, 'index');
	my $n = sql(q{SELECT segment FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass});
	my $other = $n == 3 ? 4 : 3;
	my $by_order = '(queue_id, priority DESC, run_at, job_id)';
	sql("SELECT pgq_enqueue('index', to_jsonb(i)) FROM generate_series(1, 4) i");
	my @leases = split /\n/, sql(q{SELECT job_id || ', ' || lease FROM pgq_claim('index', 3)});
	# One of that name that is another one is none.
	for (["$by_order INCLUDE (payload)" => 'has more columns'],
		['(queue_id, priority, run_at, job_id)' => 'has another order'],
		["$by_order WHERE attempts > 0" => 'has not all rows'],
		[$by_order => 'was not built to its end', "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'pgq_ext.job_${n}_by_order'::regclass"])
	{
		my ($columns, $what, @more) = @$_;
		sql(join '; ', "DROP INDEX pgq_ext.job_${n}_by_order", "CREATE INDEX job_${n}_by_order ON pgq_ext.job_$n $columns", @more);
		is(sqlstate($node, q{SELECT pgq_enqueue('index', '4')}), '55000', "an index $what: enqueue");
	}
	sql("DROP INDEX pgq_ext.job_${n}_by_order");
	is(sqlstate($node, "SELECT pgq_fail($leases[1])"), '55000', 'an index is missing: fail');
	is(sqlstate($node, q{SELECT pgq_enqueue('index', '4')}), '55000', '... enqueue');
	is(sqlstate($node, "SELECT pgq_ack($leases[2])"), '', '... but an ack uses no index');
	sql("CREATE INDEX job_${n}_by_order ON pgq_ext.job_$n $by_order; DROP INDEX pgq_ext.job_${other}_by_order");
	my $session = session($node);
	my $job = ask($session, q{SELECT pgq_enqueue('index', '4')});
	like($job, qr/^\d+$/, 'an index of another segment is missing: enqueue goes on');
	is(sqlstate($node, "SELECT pgq_ack($leases[0])"), '', '... ack, too');
	for my $call ("pgq_cancel($job)", 'pgq_ext.verify_tables()')
	{
		is(sqlstate($node, "SELECT $call"), '55000', "... but $call needs all segments");
		send_sql($session, "SELECT $call");
		like((reply($session))[1], qr/or their indexes, are missing/, '... also in a session that has used another segment');
	}
	like(ask($session, q{SELECT pgq_enqueue('index', '5')}), qr/^\d+$/, '... after which enqueue goes on');
	sql("CREATE INDEX job_${other}_by_order ON pgq_ext.job_$other $by_order");
	is(ask($session, "SELECT pgq_cancel($job)"), 'ready', 'it is back: pgq_cancel');
	end_session($session);
	is(sql("SELECT pgq_fail($leases[1])"), 'retry', '... fail');
	is(scalar drain($node, 'index'), 3, '... and the rest is handed out');
	is(sql('SELECT count(*) FROM pgq_check()'), '0', '... all is well');
}

# A queue whose jobs are not in memory yet, as after a restore that was broken off: no other process loads them.
{
	create_queue($node, 'cold');
	sql(q{SELECT pgq_enqueue('cold', '1')});
	sql('DROP INDEX pgq_ext.job_1_by_order');
	$node->restart;
	my (undef, $error) = sqlstate($node, q{SELECT * FROM pgq_claim('cold')});
	like($error, qr/partitions of the tables of pgq_ext, or their indexes, are missing/, 'jobs cannot be loaded, since an index is missing: claim');
	sql('CREATE INDEX job_1_by_order ON pgq_ext.job_1 (queue_id, priority DESC, run_at, job_id)');
	is(scalar drain($node, 'cold'), 1, '... goes on when the index is there');
}

# Tables and indexes that few calls use are looked up by these calls only. The view health looks for all of them.
{
	my $state = q{SELECT status, detail FROM pgq_ext.health WHERE "check" = 'tables'};
	my @rare = qw(job_id_seq unique_key token_key saved_lease held_lock run rate_limit timetable queue_handler job_checkpoint job_batch batch_note
		job_dependency job_outcome);
	for my $name (@rare, 'queue_name_key', 'unique_key_by_hash')
	{
		my $kind = $name =~ /^(queue_name_key|unique_key_by_hash)$/ ? 'INDEX' : 'TABLE';
		is(sql("BEGIN; ALTER $kind pgq_ext.$name RENAME TO elsewhere; $state; ROLLBACK"),
			qq{fail|relation "pgq_ext.$name" is missing (55000)}, "pgq_ext.$name has another name: the view health says so");
	}
	is(sql($state), 'ok|as they should be', 'all have their names');
}

# Indexes that are made anew while somebody waits for their table.
{
	create_queue($node, 'anew');
	create_queue($node, 'full', 'max_depth => 10');
	sql(q{SELECT pgq_enqueue('anew', '1') FROM generate_series(1, 2)});
	my ($maker, $user) = map { session($node) } 1 .. 2;
	ask($user, q{SELECT pgq_fail(job_id, lease, 'x', retry => false) FROM pgq_claim('anew')});
	my $ring = sql(q{SELECT min(segment) FROM pgq_ext.dead_job});
	for (["SELECT pgq_fail(job_id, lease, 'x', retry => false) FROM pgq_claim('anew')" => 'dead'],
		[q{SELECT pgq_ext.recount('full') IS NULL} => 'f'])
	{
		my ($statement, $says) = @$_;
		ask($maker, join '; ', 'BEGIN', "ALTER TABLE pgq_ext.dead_job_$ring REPLICA IDENTITY NOTHING",
			map({ my $new = sql("SELECT pg_get_indexdef('pgq_ext.dead_job_${ring}_$_'::regclass)"); ("DROP INDEX pgq_ext.dead_job_${ring}_$_", $new) } qw(by_id by_order)),
			"ALTER TABLE pgq_ext.dead_job_$ring REPLICA IDENTITY USING INDEX dead_job_${ring}_by_id");
		my $pid = pid_of($user);
		send_sql($user, $statement);
		wait_for($node, "count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
		ask($maker, 'COMMIT');
		is(scalar reply($user), $says, "indexes are made anew while somebody waits: $statement");
	}
	end_session($_) for $maker, $user;
}

# ---- a constraint that an administrator has added to a segment holds for our rows, too ----

{
	create_queue($node, 'once');
	my $segment = sql(q{SELECT relation FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass});
	sql("ALTER TABLE $segment ADD CONSTRAINT once EXCLUDE USING btree ((payload ->> 'once') WITH =),
		ADD CONSTRAINT late UNIQUE (priority, max_attempts) DEFERRABLE INITIALLY DEFERRED");
	sql(q{SELECT pgq_enqueue('once', '{"once": "a"}')});
	is(sqlstate($node, q{SELECT pgq_enqueue('once', '{"once": "a"}')}), '23P01', 'what excludes another is refused');
	is(sqlstate($node, q{SELECT pgq_enqueue_many('once', '[{"payload": {"once": "b"}}, {"payload": {"once": "b"}}]')}),
		'23P01', '... among several, too');
	sql(q{SELECT pgq_enqueue_many('once', '[{"payload": {"once": "b"}}, {"payload": {"once": "c"}}]')});
	my $late = q{SELECT pgq_enqueue('once', '{}', priority => 77, max_attempts => 77)};
	sql($late);
	is(sqlstate($node, $late), '23505', 'a deferred one is looked at when the job is enqueued');
	is(scalar drain($node, 'once'), 4, 'the others are jobs');
	sql("ALTER TABLE $segment DROP CONSTRAINT once, DROP CONSTRAINT late");
}

is(workers($node, 'launcher'), '1', 'the launcher is there');
unlike(slurp_file($node->logfile), qr/was terminated by signal|TRAP/, 'nothing crashed');
end_session($_) for $first, $second;
$node->stop;
done_testing();
