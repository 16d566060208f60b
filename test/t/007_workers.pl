# The launcher and the schedulers run where they are needed, and block no other session.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\n");
$node->start;

sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }

sub no_scheduler_in
{
	my ($oid) = @_;
	wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND datid = $oid");
	return;
}

# Besides those that are only there to find out whether the extension is.
sub schedulers_are
{
	my ($n, $what) = @_;
	ok($node->poll_query_until('postgres', "SELECT count(*) = $n FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler'"), $what);
	return;
}

sub oid_of { return sql("SELECT oid FROM pg_database WHERE datname = '$_[0]'") }

# A scheduler is at work in that database: only it counts a lost lease.
sub serves_ok
{
	my ($db, $what) = @_;
	sql(q{SELECT pgq_create_queue('probe', backoff_base => '100 ms', if_not_exists => true);
		SELECT pgq_enqueue('probe', '1');
		SELECT job_id FROM pgq_claim('probe', lease_time => '1 s')}, $db);
	is(sql(q{SELECT attempt, last_error, pgq_ack(job_id, lease) FROM pgq_claim('probe', wait => '60 s')}, $db), '2|the lease expired|', $what);
	return;
}

# ---- they come and go ----

wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgq_ext launcher' AND datid IS NULL});
schedulers_are(0, 'no scheduler without the extension');
for my $db ('one', 'two', 'none')
{
	sql("CREATE DATABASE $db");
	sql(q{CREATE EXTENSION pgq_ext}, $db) if $db ne 'none';
}
sub create_probe { sql(q{SELECT pgq_create_queue('probe', backoff_base => '100 ms', if_not_exists => true)}, $_[0]); return }
create_probe($_) for 'one', 'two';
wait_for_scheduler($node, $_) for 'one', 'two';
serves_ok($_, "$_: served after CREATE EXTENSION") for 'one', 'two';
sql('BEGIN; CREATE EXTENSION pgq_ext; ROLLBACK', 'none');
schedulers_are(2, 'one scheduler for each database that has queues');

sql('DROP EXTENSION pgq_ext', 'two');
no_scheduler_in(oid_of('two'));
pass('gone after DROP EXTENSION');
sql(q{CREATE SCHEMA elsewhere; CREATE EXTENSION pgq_ext SCHEMA elsewhere; ALTER DATABASE two SET search_path = elsewhere}, 'two');
serves_ok('two', 'served again after CREATE EXTENSION, in another schema');
sql(q{SELECT pgq_create_queue('q'); SELECT pgq_enqueue('q', '"of the old"')}, 'two');
sql('BEGIN; DROP EXTENSION pgq_ext; CREATE EXTENSION pgq_ext SCHEMA elsewhere; COMMIT', 'two');
is(sqlstate($node, q{SELECT * FROM pgq_claim('q')}, 'two'), '42704', 'dropped and created in one transaction: nothing of the old is known');
serves_ok('two', '... and the new is served');

# One that has just not found the extension, when it comes, is not the last.
{
	sql('CREATE DATABASE late');
	sql(q{ALTER DATABASE late SET pgq_ext.stop_point = 'scheduler-absent'});
	my $gate = session($node, 'late');
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	# Now all are looked at again.
	sql('CREATE EXTENSION pgq_ext', 'none');
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});
	sql('CREATE EXTENSION pgq_ext', 'late');
	create_probe('late');
	sql('DROP EXTENSION pgq_ext; CREATE EXTENSION pgq_ext', 'none');
	create_probe('none');
	wait_for_scheduler($node, 'none');
	end_session($gate);
	wait_for_scheduler($node, 'late');
	pass('the extension is created while a scheduler leaves, because it was not there');
	sql('DROP EXTENSION pgq_ext', 'none');
	no_scheduler_in(oid_of('none'));
	sql('DROP DATABASE late');
}

# A claim that waits while its world ends is told so.
{
	sql(q{SELECT pgq_create_queue('q')}, 'two');
	my $session = session($node, 'two');
	send_sql($session, q{SELECT * FROM pgq_claim('q', wait => '60 s')});
	wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'q'}, 'two');
	wait_for($node, waits_as('PgqClaim') . " AND query ~ 'SELECT . FROM pgq_claim'");
	pass('a claim that waits says so in pg_stat_activity');
	sql(q{SET lock_timeout = '60 s'; DROP EXTENSION pgq_ext}, 'two');
	my (undef, $error) = reply($session);
	like($error, qr/queue "q" was dropped/, 'DROP EXTENSION wakes who waits');
	end_session($session);
	sql('CREATE EXTENSION pgq_ext SCHEMA elsewhere', 'two');
	serves_ok('two', '... and it can be created again');
}

# ---- in nobody's way ----

sql(q{SELECT pgq_create_queue('q'); SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 10) i;
	SELECT pgq_enqueue('q', '"later"', delay => '1 hour')}, 'one');
for my $round (1 .. 3)
{
	wait_for_scheduler($node, 'one');
	my ($state, $error) = sqlstate($node, "CREATE DATABASE copy$round TEMPLATE one");
	is($state, '', 'CREATE DATABASE ... TEMPLATE while the scheduler runs') or diag $error;
	($state, $error) = sqlstate($node, "ALTER DATABASE copy$round RENAME TO renamed$round");
	is($state, '', 'RENAME of the copy') or diag $error;
	wait_for_scheduler($node, "renamed$round");
	($state, $error) = sqlstate($node, "ALTER DATABASE renamed$round RENAME TO again$round");
	is($state, '', 'RENAME while its scheduler runs') or diag $error;
}
wait_for_scheduler($node, $_) for 'one', 'again1';
my $jobs = q{SELECT string_agg(payload #>> '{}', ' ') FROM pgq_claim('q', 100)};
is(sql($jobs, 'one'), '1 2 3 4 5 6 7 8 9 10', 'the original has its jobs');
is(sql($jobs, 'again1'), '1 2 3 4 5 6 7 8 9 10', 'the copy has them, too: the same ids, other leases');
is(sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease', 'again1'), '10', 'acknowledged in the copy');
is(sql('SELECT count(*) FROM pgq_ext.lease', 'one'), '10', '... and not in the original');
serves_ok($_, "$_: served") for 'one', 'again1';

for my $round (1 .. 3)
{
	my $db = "again$round";
	my $oid = oid_of($db);
	wait_for_scheduler($node, $db);
	my ($state, $error) = sqlstate($node, "DROP DATABASE $db");
	is($state, '', 'DROP DATABASE while the scheduler runs') or diag $error;
	no_scheduler_in($oid);
}
sql('CREATE DATABASE forced TEMPLATE one');
wait_for_scheduler($node, 'forced');
is(sqlstate($node, 'DROP DATABASE forced WITH (FORCE)'), '', 'DROP DATABASE ... WITH (FORCE)');
serves_ok('one', 'the template is still served');

# Since PostgreSQL 19 the server ends them for that, whatever they are at: here what the owner has added to a table takes long.
my $leased = sql(q{SELECT pgq_enqueue('q', '"leased"', priority => -1)}, 'one') && sql(q{SELECT job_id || ', ' || lease FROM pgq_claim('q', lease_time => '1 day')}, 'one');
my $ends_workers = sql('SHOW server_version_num') >= 190000;
sql(q{CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3600); RETURN NEW; END';
	CREATE TRIGGER slow BEFORE UPDATE ON pgq_ext.timetable FOR EACH ROW EXECUTE FUNCTION public.slow();
	SELECT pgq_schedule('tick', 'every 1 s', 'q');
	ALTER TABLE pgq_ext.timetable ENABLE ALWAYS TRIGGER slow}, 'one') if $ends_workers;
for my $statement (!$ends_workers ? () : ('CREATE DATABASE copy TEMPLATE one', 'ALTER DATABASE one RENAME TO moved', 'ALTER DATABASE moved RENAME TO one', 'DROP DATABASE copy'))
{
	my ($db) = $statement =~ /(?:TEMPLATE|ALTER DATABASE|DROP DATABASE) (\w+)/;
	wait_for($node, "count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND datname = '$db' AND wait_event = 'PgSleep'");
	my ($state, $error) = sqlstate($node, $statement);
	is($state, '', "$statement while the scheduler is in the middle of something") or diag $error;
}
sql("SELECT pgq_assert_lease($leased)", 'one');
wait_for_scheduler($node, 'one');
$node->stop('fast');
$node->start;
is(sqlstate($node, "SELECT pgq_ack($leased)", 'one'), '', 'leases are kept through that, and saved when the server stops');
if ($ends_workers)
{
	my $owner = session($node, 'one');
	send_sql($owner, 'DROP FUNCTION public.slow() CASCADE');
	wait_for($node, q{(SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND wait_event = 'PgSleep') >= 0
		AND NOT EXISTS (SELECT FROM pg_proc WHERE proname = 'slow')}, 'one');
	end_session($owner);
	sql(q{SELECT pgq_unschedule('tick')}, 'one');
}
my $log = without_ended_schedulers($node, slurp_file($node->logfile));
unlike($log, qr/pgq_ext.*(?:FATAL|ERROR)/, '... no worker has met an error');
# One may be on its way to a database that is just being dropped.
my %tried;
$tried{$1}++ while $log =~ /database (\S+) does not exist/g;
is(join(' ', grep { $tried{$_} > 1 } sort keys %tried), '', '... nobody tries again and again to start a scheduler where no database is');

# More databases than there is room for in memory or in worker slots is told in the log, not by a crash; see 008.

# ---- whatever is set for sessions ----

for my $setting ("default_transaction_read_only = on", "lock_timeout = 1", "statement_timeout = 1", "idle_in_transaction_session_timeout = 1",
	"default_transaction_isolation = 'serializable'", "search_path = 'evil'", "session_replication_role = 'replica'",
	"row_security = off", "synchronous_commit = off", parallel_setting($node) . ' = on', "enable_indexscan = off")
{
	my ($name) = $setting =~ /^(\w+)/;
	sql(qq{CREATE SCHEMA IF NOT EXISTS evil;
		CREATE OR REPLACE FUNCTION evil.never(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		DO \$\$ BEGIN CREATE OPERATOR evil.< (FUNCTION = evil.never, LEFTARG = bigint, RIGHTARG = bigint);
		EXCEPTION WHEN duplicate_function THEN END \$\$}, 'one');
	my $before = wait_for_scheduler($node, 'one');
	sql("ALTER DATABASE one SET $setting");
	sql("SELECT pg_terminate_backend($before, 60000)");
	my $pid = wait_for_scheduler($node, 'one', $before);

	# Our own sessions are set back.
	local $ENV{PGOPTIONS} = "-c $name=" . sql("SELECT replace(boot_val, ' ', '\\ ') FROM pg_settings WHERE name = '$name'");
	serves_ok('one', "served with ALTER DATABASE SET $setting");
	is(scheduler_pid($node, 'one'), $pid, '... and the scheduler did not have to be started again');
	sql("ALTER DATABASE one RESET $name");
}
{
	# Its errors would end the scheduler once a second.
	my $before = scheduler_pid($node, 'one');
	sql(q{CREATE ROLE nobody; ALTER DATABASE one SET role = 'nobody'});
	sql("SELECT pg_terminate_backend($before, 60000)");
	my $pid = wait_for_scheduler($node, 'one', $before);
	local $ENV{PGOPTIONS} = '-c role=none';
	serves_ok('one', "served with ALTER DATABASE SET role");
	sql('ALTER DATABASE one RESET role');
}

# Limits of time for the whole server, and a transaction of the scheduler, and a lock it waits for, that take longer. The
# first is newer than some servers.
{
	my @limits = split /,/, sql(q{SELECT string_agg(name, ',') FROM pg_settings
		WHERE name IN ('transaction_timeout', 'lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout')});
	cmp_ok(scalar @limits, '>=', 3, 'limits of time');
	sql("ALTER SYSTEM SET $_ = '1 s'") for @limits;
	$node->stop;
	my $start = -s $node->logfile;
	$node->start;
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=0" } @limits;
	my $pid = wait_for_scheduler($node, 'one');
	my $holder = session($node, 'one');
	ask($holder, 'SELECT pg_advisory_lock(7366513, 0)');
	sql("ALTER SYSTEM SET pgq_ext.stop_point = 'reap'");
	$node->reload;
	sql(q{SELECT pgq_create_queue('limits'); SELECT pgq_enqueue('limits', '1')}, 'one');
	# It may count some before it has read the settings.
	my $stands = q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted};
	my $deadline = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
	until (sql($stands))
	{
		die 'no lost attempt is counted' if monotonic() > $deadline;
		sql(q{BEGIN; SELECT job_id FROM pgq_claim('limits'); ROLLBACK}, 'one');
	}
	usleep(2_000_000);
	sql("ALTER SYSTEM RESET $_") for @limits, 'pgq_ext.stop_point';
	$node->reload;
	end_session($holder);
	wait_for($node, q{NOT EXISTS (SELECT FROM pgq_ext.lease_entries() l WHERE l.job_id = s.job_id) AND attempts > 0 FROM pgq_ext.job_status s WHERE queue = 'limits'}, 'one');
	pass('the scheduler goes on where time is limited');
	is(scheduler_pid($node, 'one'), $pid, '... and did not have to be started again');
	unlike(substr(slurp_file($node->logfile), $start), qr/ERROR|FATAL/, '... nor the launcher');
	sql(q{SELECT pgq_drop_queue('limits', force => true)}, 'one');
}

# What is waited for.
wait_for($node, waits_as('PgqLauncher') . " AND backend_type = 'pgq_ext launcher'");
wait_for($node, waits_as('PgqScheduler') . " AND backend_type = 'pgq_ext scheduler' AND datname = 'one'");
{
	sql(q{CREATE ROLE runner LOGIN; CREATE FUNCTION handle(pgq_ext.claimed_job) RETURNS void LANGUAGE sql AS ''; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO runner;
		SELECT pgq_create_queue('handled'); SELECT pgq_set_handler('handled', 'handle'::regproc, run_as => 'runner'); SELECT pgq_enqueue('handled', '1')}, 'one');
	wait_for($node, waits_as('PgqHandler') . " AND backend_type = 'pgq_ext handler' AND datname = 'one' AND usename = 'runner' AND state = 'idle'");
	sql(q{SELECT pgq_drop_queue('handled'); DROP FUNCTION handle; DROP OWNED BY runner; DROP ROLE runner}, 'one');
}
pass('idle workers say in pg_stat_activity that they are');

# ---- signals ----

{
	my $before = wait_for_scheduler($node, 'one');
	kill 'TERM', $before;
	isnt(wait_for_scheduler($node, 'one', $before), $before, 'a terminated scheduler comes back');
	serves_ok('one', '... and serves');
	my $launcher = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgq_ext launcher'});
	kill 'TERM', $launcher;
	wait_for($node, "count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgq_ext launcher' AND pid <> $launcher");
	$before = wait_for_scheduler($node, 'one');
	kill 'TERM', $before;
	wait_for_scheduler($node, 'one', $before);
	# The old one has left its role before it leaves the view.
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND datname = 'one'});
	pass('a new launcher knows the old schedulers');
	kill 'HUP', $launcher = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgq_ext launcher'});
	is(sqlstate($node, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'pgq_ext %'"), '', 'cancelling workers does no harm');
	serves_ok('one', '... served as before');
}

# What is changed while a worker starts reaches it, too.
{
	my $holder = session($node, 'one');
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my $one = oid_of('one');
	my $before = wait_for_scheduler($node, 'one');
	ask($holder, $_) for 'SELECT pg_advisory_lock(7366513, 0)',
		q{SELECT pgq_create_queue('reloaded', max_attempts => 1000000, backoff_base => '0'), pgq_enqueue('reloaded', '1')},
		q{ALTER SYSTEM SET post_auth_delay = '2 s'}, 'SELECT pg_reload_conf()', "SELECT pg_terminate_backend($before)";
	# It has a title before it has a place in any view.
	my $starting = sub {
		my $pid = shift;
		my ($title, $stat) = map { my $file = "/proc/$pid/$_"; -r $file ? eval { slurp_file($file) } // '' : '' } 'cmdline', 'stat';
		return $pid != $before && $stat =~ /\) \S $postmaster / && $title =~ /pgq_ext scheduler for database $one/;
	};
	my $deadline = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
	until (grep { $starting->($_) } map { m{(\d+)} } glob '/proc/[0-9]*') {
		die 'no scheduler is started' if monotonic() > $deadline;
		usleep(10_000);
	}
	ask($holder, $_) for q{ALTER SYSTEM RESET post_auth_delay}, q{ALTER SYSTEM SET pgq_ext.stop_point = 'reap'}, 'SELECT pg_reload_conf()';
	wait_for_scheduler($node, 'one', $before);
	# It may count some before it has read the settings.
	my $stands = q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted};
	until (sql($stands)) {
		die 'a reload was lost' if monotonic() > $deadline;
		sql(q{BEGIN; SELECT count(*) FROM pgq_claim('reloaded'); ROLLBACK}, 'one');
	}
	pass('settings that are changed while a scheduler starts reach it');
	sql('ALTER SYSTEM RESET pgq_ext.stop_point');
	$node->reload;
	end_session($holder);
	sql(q{SELECT pgq_drop_queue('reloaded', force => true)}, 'one');
}

# ---- dump ----

{
	my $dump = $node->basedir . '/one.dump';
	sql(q{SELECT pgq_create_queue('d', max_attempts => 7); SELECT pgq_enqueue('d', to_jsonb(i), i) FROM generate_series(1, 5) i;
		SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('d')}, 'one');
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('one') ], 'pg_dump while the scheduler runs');
	sql('CREATE DATABASE restored');
	$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('restored'), $dump ], 'pg_restore');
	is(sql(q{SELECT string_agg(payload #>> '{}', ' '), max(max_attempts) FROM pgq_claim('d', 100, wait => '10 s')}, 'restored'), '4 3 2 1|7',
		'what was dumped comes back to life');
	wait_until_counted($node, 'restored');
	is(sql(q{SELECT dead FROM pgq_ext.queue_status WHERE queue = 'd'}, 'restored'), '1', '... with its dead letters');
	is(sql(q{SELECT pgq_enqueue('d', '6') > max(job_id) FROM pgq_ext.job}, 'restored'), 't', '... and ids go on');
	serves_ok('restored', '... and it is served');
}

# ---- shutdown ----

{
	# A lock that nobody will ever release: the scheduler may wait for it, but not keep the server from stopping.
	my $pid = wait_for_scheduler($node, 'one');
	sql(q{BEGIN; LOCK TABLE pgq_ext.queue, pgq_ext.job; PREPARE TRANSACTION 'for ever'}, 'one');
	sql("SELECT pg_terminate_backend($pid)");
	ok($node->stop('fast', fail_ok => 1), 'fast shutdown while a prepared transaction holds what the scheduler wants');
	$node->stop('immediate') if -e $node->data_dir . '/postmaster.pid';
	$node->start;
	sql(q{ROLLBACK PREPARED 'for ever'}, 'one');
	serves_ok('one', 'served when the lock is gone');
	wait_for_scheduler($node, $_) for 'one', 'two', 'restored';
	ok($node->stop('smart'), 'smart shutdown does not wait for the workers');
}

done_testing();
