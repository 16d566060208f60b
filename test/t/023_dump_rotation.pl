# pg_dump and pg_restore in every form while segments rotate: the dump has each job that existed at its snapshot
# exactly once. Every transaction of the load notes the expected jobs in a table of its own, so the dump itself says
# which jobs it must have.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;

# pg_dump goes by its own name here, as it does with users.
delete $ENV{PGAPPNAME};

my $node = pgq_node('main', init => { allows_streaming => 1 }, conf => "pgq_ext.segment_size = 64kB\nshared_buffers = 32MB\nwal_keep_size = 1GB\nmax_connections = 50\n");
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
my $dir = $node->basedir;

# Tables are locked by pg_dump in the order in which they were made: one is before the segments, one after.
sql('CREATE TABLE public.before_them ()');
create_queue($node, 'q', q{lease_time => '2 s', max_attempts => 1000});
sql(q{CREATE TABLE public.after_them ();
	CREATE TABLE public.ledger (job_id bigint PRIMARY KEY, digest text NOT NULL, dead boolean NOT NULL DEFAULT false);
	CREATE TABLE public.stop ()});

# ---- load ----

# Jobs of all sorts come and go; some die, some are given back, some lost, some not due for long, some large.
my $load = q{DO $$
	DECLARE
		jobs pgq_ext.claimed_job[]; job pgq_ext.claimed_job; ids bigint[]; leases bigint[];
	BEGIN
		FOR round IN 1 .. 1000000000 LOOP
			EXIT WHEN EXISTS (SELECT FROM public.stop);
			WITH new AS MATERIALIZED (
				SELECT i, jsonb_build_object('i', i, 'text', CASE WHEN i + round % 50 = 20
					THEN (SELECT string_agg(md5(random()::text || i || n), '') FROM generate_series(1, 300) n) ELSE md5(random()::text) END) AS payload
				FROM generate_series(1, 20) i)
			INSERT INTO public.ledger (job_id, digest)
				SELECT pgq_enqueue('q', payload, priority => i % 3, headers => CASE WHEN i < 5 THEN payload END,
					delay => CASE WHEN i = 1 AND round % 40 = 0 THEN interval '1 day' WHEN i < 4 THEN interval '1 s' * (round % 3) END), md5(payload::text)
				FROM new;
			BEGIN
				PERFORM pgq_enqueue('q', '"never"'), 1 / 0;
			EXCEPTION WHEN division_by_zero THEN NULL;
			END;
			COMMIT;
			-- A standby has to keep pace, on whatever machine.
			PERFORM pg_sleep(0.005);

			SELECT array_agg(c) INTO jobs FROM pgq_claim('q', 25) c;
			IF round % 2 = 0 THEN
				COMMIT;
			END IF;
			ids := '{}'; leases := '{}';
			FOREACH job IN ARRAY COALESCE(jobs, '{}') LOOP
				IF job.attempt = 1 AND job.job_id % 25 = 1 THEN
					PERFORM pgq_fail(job.job_id, job.lease, 'once more', retry_in => '500 ms');
				ELSIF job.attempt = 1 AND job.job_id % 100 = 2 THEN
					NULL;
				ELSIF job.job_id % 100 = 3 THEN
					IF pgq_fail(job.job_id, job.lease, 'broken', retry => false) = 'dead' THEN
						UPDATE public.ledger SET dead = true WHERE job_id = job.job_id;
					END IF;
				ELSE
					ids := ids || job.job_id; leases := leases || job.lease;
				END IF;
			END LOOP;
			WITH acked AS MATERIALIZED (SELECT pgq_ack_many(ids, leases) AS job_id)
			DELETE FROM public.ledger USING acked WHERE ledger.job_id = acked.job_id;
			COMMIT;
		END LOOP;
	END $$};

my @load = map { session($node) } 1 .. 2;

sub start_load
{
	sql('TRUNCATE public.stop');
	send_sql($_, $load) for @load;
	return;
}

sub stop_load
{
	sql('INSERT INTO public.stop DEFAULT VALUES');
	for (@load)
	{
		renew_timeout($_);
		is((reply($_))[1], '', 'the load met no error');
	}
	return;
}

sub truncations { return sql('SELECT sum(truncations) FROM pgq_ext.segment') }

sub wait_for_rotation
{
	my $truncations = truncations();
	wait_for($node, "sum(truncations) > $truncations FROM pgq_ext.segment");
	return;
}

# ---- dumped and restored ----

sub run_ok { my ($what, @command) = @_; $node->command_ok(\@command, $what); return }

sub dump_ok
{
	my ($what, @options) = @_;
	wait_for_rotation();
	run_ok("pg_dump, $what", 'pg_dump', @options, $node->connstr('postgres'));
	return;
}

my $databases = 0;
sub new_db { my $db = 'restored' . ++$databases; sql("CREATE DATABASE $db TEMPLATE template0"); return $db }
sub psql { my ($db, $file) = @_; return ('psql', '-Xq', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $node->connstr($db)) }

my $faults = q{
	WITH jobs AS MATERIALIZED (
		SELECT job_id, md5(payload::text) AS digest, false AS dead FROM pgq_ext.job
		UNION ALL SELECT job_id, md5(payload::text), true FROM pgq_ext.dead_job)
	SELECT concat_ws(' ', job_id, CASE WHEN j.digest IS NULL THEN 'is missing' WHEN l.digest IS NULL THEN 'should not be there' ELSE 'is another' END)
		FROM public.ledger l FULL JOIN jobs j USING (job_id) WHERE (l.digest, l.dead) IS DISTINCT FROM (j.digest, j.dead)
	UNION ALL SELECT concat_ws(' ', job_id, 'is there', count(*), 'times') FROM jobs GROUP BY job_id HAVING count(*) > 1
	LIMIT 20};

my $due = q{pgq_ext.job WHERE run_at < now() + interval '1 hour'};

# All that is due, or will be in a moment.
my $finish = qq{DO \$\$
	DECLARE
		ids bigint[]; leases bigint[]; ending timestamptz := clock_timestamp() + interval '120 s';
	BEGIN
		WHILE EXISTS (SELECT FROM $due) AND clock_timestamp() < ending LOOP
			SELECT array_agg(job_id), array_agg(lease) INTO ids, leases FROM pgq_claim('q', 500, wait => '1 s', lease_time => '1 hour');
			INSERT INTO public.done SELECT pgq_ack_many(COALESCE(ids, '{}'), COALESCE(leases, '{}'));
			COMMIT;
		END LOOP;
	END \$\$};

sub restored_ok
{
	my ($what, $db) = @_;
	cmp_ok(sql('SELECT count(*) FROM public.ledger WHERE NOT dead', $db), '>', 100, "$what: with jobs");
	is(sql($faults, $db), '', '... those that were there, each once');

	my ($jobs, $due_jobs) = split /\|/, sql("SELECT (SELECT count(*) FROM pgq_ext.job), count(*) FROM $due", $db);
	sql('CREATE TABLE public.done (job_id bigint)', $db);
	sql($finish, $db);
	is(sql('SELECT count(*), count(DISTINCT job_id) FROM public.done', $db), "$due_jobs|$due_jobs", '... all that are due are done, once');
	is(sql('SELECT count(*) FROM pgq_ext.job', $db), $jobs - $due_jobs, '... the others stay');
	is(sql('SELECT count(*) FROM public.ledger l WHERE NOT dead AND (job_id IN (SELECT job_id FROM public.done)) = (job_id IN (SELECT job_id FROM pgq_ext.job))', $db),
		'0', '... no other');
	is(sql('SELECT * FROM pgq_check()', $db), '', '... pgq_check() finds nothing');
	# All of them may have been in one segment: now there is more than it holds.
	sql(q{SELECT count(pgq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 2000) i; SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q', 10000)}, $db);
	wait_for($node, 'sum(truncations) > 0 FROM pgq_ext.segment', $db);
	pass('... and their segments rotate');

	sql('DROP EXTENSION pgq_ext', $db);
	is(sql(q{SELECT to_regnamespace('pgq_ext'), count(*) FILTER (WHERE relname ~ '^(job|dead_job|queue)') FROM pg_class}, $db), '|0', '... DROP EXTENSION takes everything with it');
	sql("DROP DATABASE $db");
	return;
}

start_load();
wait_for($node, 'count(*) > 250 FROM public.ledger WHERE NOT dead');
my $db = new_db();
dump_ok('plain', '-f', "$dir/plain.sql");
run_ok('restored', psql($db, "$dir/plain.sql"));
restored_ok('plain', $db);

$db = new_db();
dump_ok('custom', '-Fc', '-f', "$dir/custom");
run_ok('restored', 'pg_restore', '-e', '-d', $node->connstr($db), "$dir/custom");
restored_ok('custom', $db);

$db = new_db();
dump_ok('directory', '-Fd', '-j2', '-f', "$dir/directory");
run_ok('restored', 'pg_restore', '-e', '-j2', '-d', $node->connstr($db), "$dir/directory");
restored_ok('directory', $db);

$db = new_db();
dump_ok('schema only', '--schema-only', '-f', "$dir/schema.sql");
dump_ok('data only',   '--data-only',   '-f', "$dir/data.sql");
run_ok("restored: $_", psql($db, "$dir/$_.sql")) for 'schema', 'data';
restored_ok('schema and data', $db);

# The extension is there already.
$db = new_db();
sql('CREATE EXTENSION pgq_ext', $db);
dump_ok('plain', '-f', "$dir/plain.sql");
run_ok('restored', psql($db, "$dir/plain.sql"));
restored_ok('where the extension is', $db);

# The segments, too; in work from the first row on.
$db = new_db();
run_ok('restored: schema', psql($db, "$dir/schema.sql"));
create_queue($node, 'other', '', $db);
sql(q{SELECT pgq_enqueue('other', '1'); SELECT pgq_ack(job_id, lease) FROM pgq_claim('other'); SELECT pgq_drop_queue('other')}, $db);
dump_ok('custom', '-Fc', '-f', "$dir/custom");
run_ok('restored', 'pg_restore', '-e', '--data-only', '--disable-triggers', '-d', $node->connstr($db), "$dir/custom");
restored_ok('where the segments are', $db);

# Something else, which has to go.
$db = new_db();
run_ok('restored: schema', psql($db, "$dir/schema.sql"));
create_queue($node, 'other', '', $db);
sql(q{SELECT pgq_enqueue('other', to_jsonb(i)) FROM generate_series(1, 100) i}, $db);
run_ok('restored', 'pg_restore', '-e', '--clean', '--if-exists', '-d', $node->connstr($db), "$dir/custom");
restored_ok('in place of another', $db);
cmp_ok(sql('SELECT sum(moved_out) FROM pgq_ext.segment'), '>', 0, 'rows were moved meanwhile');

# ---- again and again ----

# The same of a plain dump, as text: what it must hold and what it holds.
sub faults_of
{
	my ($file) = @_;
	my (%dead, %times, $table, @faults);
	open my $dump, '<', $file or die "$file: $!";
	while (<$dump>)
	{
		if (/^COPY (\S+) /) { $table = $1 }
		elsif ($_ eq "\\.\n") { $table = undef }
		elsif (!defined $table) { next }
		elsif ($table eq 'public.ledger') { my ($id, undef, $dead) = split /[\t\n]/; $dead{$id} = $dead }
		elsif ($table =~ /^pgq_ext\.(job|dead_job)_\d+$/) { my ($id) = split /\t/; $times{$id}{ $1 eq 'dead_job' ? 't' : 'f' }++ }
	}
	close $dump;
	for my $id (keys %{ { %dead, %times } })
	{
		my $got = join ' ', map { "$_ $times{$id}{$_}" } sort keys %{ $times{$id} };
		my $expected = exists $dead{$id} ? "$dead{$id} 1" : '';
		push @faults, "$id: '$got' instead of '$expected'" if $got ne $expected;
	}
	return (scalar keys %dead) . ' jobs', sort @faults;
}

my %unfinished;

# Started; by its own name, or another.
sub launch_dump
{
	my ($from, $name, @options) = @_;
	local $ENV{PGAPPNAME} = $name if defined $name;
	my %dump = (timeout => IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default), err => '');
	$dump{run} = IPC::Run::start([ 'pg_dump', @options, $from->connstr('postgres') ], '2>', \$dump{err}, $dump{timeout});
	$unfinished{ $dump{run} } = $dump{run};
	return \%dump;
}

sub end_dump
{
	my ($dump) = @_;
	$dump->{timeout}->start;
	my $done = $dump->{run}->finish;
	delete $unfinished{ $dump->{run} };
	diag($dump->{err}) if !$done;
	return $done;
}

sub finish_dump
{
	my ($dump, $what) = @_;
	ok(end_dump($dump), $what);
	return;
}

# If the test breaks off while one is stopped.
END
{
	local $?;
	$_->signal('KILL') for values %unfinished;
}

sub whole_ok
{
	my ($what, $file) = @_;
	my ($jobs, @faults) = faults_of($file);
	unlike($jobs, qr/^\d\d? jobs/, "$what: with jobs");
	is(join("\n", @faults), '', '... those that were there, each once');
	return;
}

{
	my $truncations = truncations();
	my @faults;
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;
	# A segment is looked at now and then, and left alone while a dump has it: twenty may leave no moment to truncate one.
	for (my $i = 1; $i <= 20 || (truncations() == $truncations && time < $until); $i++)
	{
		my $dump = launch_dump($node, $i % 2 ? undef : 'something', '-f', "$dir/plain.sql");
		end_dump($dump) or die 'no dump';
		my (undef, @found) = faults_of("$dir/plain.sql");
		push @faults, @found;
		usleep(rand 500_000);
	}
	is(join("\n", @faults), '', 'twenty dumps, one after the other');
	cmp_ok(truncations(), '>', $truncations, '... and segments were truncated meanwhile');
}

# ---- while the scheduler is in the middle of it ----

sub stop_scheduler
{
	my ($point) = @_;
	my $holder = session($node);
	ask($holder, 'SELECT pg_advisory_lock(7366513, 0)');
	sql("ALTER SYSTEM SET pgq_ext.stop_point = '$point'");
	$node->reload;
	wait_for($node, "count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted");
	return $holder;
}

sub release_scheduler
{
	my ($holder) = @_;
	sql('ALTER SYSTEM RESET pgq_ext.stop_point');
	$node->reload;
	end_session($holder);
	return;
}

for my $point ('rotation-moved', 'rotation-verified', 'rotation-cut', 'rotation-truncated')
{
	my $holder = stop_scheduler($point);
	my $dump = launch_dump($node, undef, '-f', "$dir/plain.sql");
	if ($point eq 'rotation-cut' || $point eq 'rotation-truncated')
	{
		wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE application_name = 'pg_dump' AND wait_event_type = 'Lock'});
		release_scheduler($holder);
		finish_dump($dump, "a dump waits for $point");
	}
	else
	{
		finish_dump($dump, "a dump in $point");
		release_scheduler($holder);
	}
	whole_ok($point, "$dir/plain.sql");
}

# ---- the dump has its snapshot, but has not got its locks yet ----

sub wait_for_lock_on
{
	my ($table, $on) = @_;
	wait_for($on, "count(*) = 1 FROM pg_locks WHERE relation = 'public.$table'::regclass AND NOT granted");
	return;
}

# A pg_dump that waits for the lock on a table.
sub start_dump
{
	my ($table, $name, @options) = @_;
	my $locker = session($node);
	ask($locker, "BEGIN; LOCK TABLE public.$table");
	my $dump = launch_dump($node, $name, @options);
	$dump->{locker} = $locker;
	wait_for_lock_on($table, $node);
	$dump->{pid} = sql("SELECT pid FROM pg_locks WHERE relation = 'public.$table'::regclass AND NOT granted");
	return $dump;
}

sub unlock_dump
{
	my ($dump) = @_;
	ask($dump->{locker}, 'COMMIT');
	end_session($dump->{locker});
	return;
}

# All that there is is finished.
sub outlive_jobs
{
	my $ids = sql("SELECT array_agg(job_id) FROM $due");
	wait_for($node, "count(*) = 0 FROM public.ledger WHERE NOT dead AND job_id = ANY ('$ids')");
	return;
}

# Nothing but a snapshot, or its locks, keeps the segments that a dump has yet to read from being truncated.
sub outlive
{
	my ($pid) = @_;
	outlive_jobs();
	wait_for($node, "count(*) > 0 FROM pgq_ext.segment WHERE held_by ~ '\\mprocess $pid\\M'");
	return;
}

# By the time that a transaction is no longer taken for a dump on its way to its locks.
sub outlive_for_long
{
	my ($pid) = @_;
	outlive($pid);
	wait_for($node, "clock_timestamp() - xact_start > interval '12 s' FROM pg_stat_activity WHERE pid = $pid");
	outlive($pid);
	return;
}

sub wait_for_empty_segments { wait_for($node, q{count(*) >= 2 FROM pgq_ext.segment WHERE state = 'empty' AND parent = 'pgq_ext.job'::regclass}); return }

for my $table ('before_them', 'after_them')
{
	my $db = new_db();
	wait_for_empty_segments();
	my $current = sql(q{SELECT segment FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass});
	my $dump = start_dump($table, undef, '-f', "$dir/plain.sql");
	outlive($dump->{pid});
	wait_for($node, "segment <> $current FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass");
	pass("a dump waits for $table: the ring goes on");
	unlock_dump($dump);
	finish_dump($dump, '... so does the dump');
	run_ok('restored', psql($db, "$dir/plain.sql"));
	restored_ok("waited for $table", $db);
	wait_for_rotation();
	pass('... segments are truncated again');
}

# Nobody knows it for a dump, nor by an exported snapshot, as a parallel one. And it is slow: it has one lock, and does not ask for the next.
{
	my $db = new_db();
	my $dump = start_dump('before_them', 'something', '-Fc', '-f', "$dir/custom");
	outlive_for_long($dump->{pid});
	$dump->{run}->signal('STOP');
	unlock_dump($dump);
	wait_for($node, "state = 'idle in transaction' FROM pg_stat_activity WHERE pid = $dump->{pid}");
	outlive($dump->{pid});
	$dump->{run}->signal('CONT');
	finish_dump($dump, 'a dump by another name waited');
	run_ok('restored', 'pg_restore', '-e', '-d', $node->connstr($db), "$dir/custom");
	restored_ok('waited by another name', $db);
	wait_for_rotation();
	pass('... segments are truncated again');
}

# Its snapshot is somebody else's, and older than itself.
{
	my $exporter = session($node);
	my $snapshot = ask($exporter, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot()');
	outlive_for_long(pid_of($exporter));
	my $dump = start_dump('before_them', undef, "--snapshot=$snapshot", '-f', "$dir/plain.sql");
	end_session($exporter);
	outlive($dump->{pid});
	unlock_dump($dump);
	finish_dump($dump, 'a dump with an exported snapshot');
	whole_ok('with an exported snapshot', "$dir/plain.sql");
}

# It comes while the scheduler has looked for snapshots already. Nobody may read meanwhile: TRUNCATE does not wait for its lock.
{
	my $holder = stop_scheduler('rotation-verified');
	stop_load();
	my $truncations = $node->safe_psql('postgres', 'SELECT sum(truncations) FROM pgq_ext.segment_entries()');
	my $dump = start_dump('before_them', undef, '-f', "$dir/plain.sql");
	release_scheduler($holder);
	wait_for($node, "sum(truncations) > $truncations FROM pgq_ext.segment_entries()");
	unlock_dump($dump);
	finish_dump($dump, 'a dump that came after the check');
	whole_ok('after the check', "$dir/plain.sql");
	start_load();
}

# ---- from a standby ----

# The primary does not look for dumps there: it has to wait for every snapshot, and the standby to tell of its own.
{
	sql('ALTER SYSTEM SET pgq_ext.rotation_waits_for_snapshots = on');
	$node->reload;
	my $scheduler = scheduler_pid($node);
	sql("SELECT pg_terminate_backend($scheduler)");
	wait_for_scheduler($node, 'postgres', $scheduler);

	$node->backup('backup');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'backup', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nwal_receiver_status_interval = '1 s'\nmax_standby_streaming_delay = -1\n");
	$standby->start;
	wait_for($node, 'count(backend_xmin) = 1 FROM pg_stat_replication');

	wait_for_empty_segments();
	my $locker = session($node);
	ask($locker, 'BEGIN; LOCK TABLE public.before_them');
	wait_for($standby, q{count(*) = 1 FROM pg_locks WHERE relation = 'public.before_them'::regclass AND mode = 'AccessExclusiveLock'});
	my $dump = launch_dump($standby, undef, '-f', "$dir/plain.sql");
	wait_for_lock_on('before_them', $standby);
	outlive_jobs();
	wait_for($node, q{count(*) >= 3 FROM pgq_ext.segment WHERE state = 'closed' AND live_rows = 0});
	ask($locker, 'COMMIT');
	end_session($locker);
	finish_dump($dump, 'a dump from a standby');
	whole_ok('from a standby', "$dir/plain.sql");
	wait_for_rotation();
	pass('... segments are truncated again');
	$standby->stop;
}

stop_load();
is(sql($faults), '', 'where all this came from: the jobs that must be there');
end_session($_) for @load;
$node->stop;
done_testing();
