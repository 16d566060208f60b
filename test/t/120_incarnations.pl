# The memory of an incarnation of the extension is freed when the incarnation is certain to be gone: not by a check
# that comes too early, not after a rollback of the drop, and not while a transaction that creates or drops the
# incarnation is open.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\nautovacuum = off\n");
sub sql { return $node->safe_psql($_[1] // 'jobs', $_[0]) }
sub databases_in_memory { return sql(q{SELECT used FROM pgq_ext.capacity WHERE name = 'databases'}, 'postgres') }

sub wait_for_memory_of
{
	my ($n, $what) = @_;
	wait_for($node, "used = $n FROM pgq_ext.capacity WHERE name = 'databases'");
	pass($what);
	return;
}

my $standing = q{FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted};

# A scheduler that has found no extension in the database stands there until body has returned; then it goes on, and ends.
sub while_a_scheduler_has_looked
{
	my ($body) = @_;
	sql(q{ALTER DATABASE jobs SET pgq_ext.stop_point = 'scheduler-absent'});
	my $gate = session($node, 'jobs');
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	my @result = $body->();
	wait_for($node, "count(*) = 1 $standing");
	my $pid = sql("SELECT pid $standing");
	sql('ALTER DATABASE jobs RESET pgq_ext.stop_point');
	end_session($gate);
	wait_until_down($pid);
	return @result;
}

sub new_database
{
	$node->safe_psql('postgres', $_) for 'DROP DATABASE IF EXISTS jobs WITH (FORCE)', 'CREATE DATABASE jobs';
	wait_for_memory_of(1, 'a dropped database has no memory');
	return;
}

sub claim { return [ split /\|/, sql(q{SELECT job_id, lease, attempt FROM pgq_claim('a', lease_time => '10 min')}) ] }

my $create = q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('a', if_not_exists => true); SELECT pgq_enqueue('a', '1')};
sql(q{SELECT pgq_create_queue('first')}, 'postgres');

# ---- a transaction that creates the extension is open for long ----

{
	new_database();
	my $holder = session($node, 'jobs');
	my ($bound, $timed, $run) = while_a_scheduler_has_looked(sub {
		ask($holder, "BEGIN; $create");
		return map { scalar ask($holder, "SELECT $_") } q{pgq_lock('leader', session_bound => true)}, q{pgq_lock('timed', ttl => '1 h')}, q{pgq_run_once('run')};
	});
	is(ask($holder, "SELECT pgq_assert_lock('timed', $timed)"), '', 'a lock taken in the transaction that creates the extension, after a scheduler has looked');
	isnt(ask($holder, "SELECT pgq_extend_lock('timed', $timed)"), '', '... is extended');
	is(ask($holder, q{SELECT pgq_lock('timed')}), '', '... and held');
	is((ask($holder, "SELECT pgq_run_done('run', $run)"))[1], '', '... a run is done');
	is(ask($holder, 'COMMIT'), '', '... commit');
	is(sql(q{SELECT pgq_lock('leader', session_bound => true)}), '', '... a lock bound to the session has one holder');
	is((ask($holder, "SELECT pgq_assert_lock('leader', $bound)"))[1], '', '... who has it');
	is(sql('SELECT * FROM pgq_check()'), '', '... pgq_check() finds nothing');
	end_session($holder);
}

# ---- one that has looked, and goes on when all has changed ----

{
	new_database();
	my ($first) = while_a_scheduler_has_looked(sub {
		sql('SELECT pgq_ext.announce()', 'postgres');
		wait_for($node, "count(*) = 1 $standing");
		sql($create);
		return claim();
	});
	is($first->[2], '1', 'a job is claimed while a scheduler stands that has found no extension');
	is_deeply(claim(), [], '... and not handed out again when it goes on');
	is(sqlstate($node, "SELECT pgq_ack($first->[0], $first->[1])", 'jobs'), '', '... the lease is current');
}
{
	my $gate = session($node);
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	$node->safe_psql('postgres', q{ALTER SYSTEM SET pgq_ext.stop_point = 'launcher-looked'});
	$node->reload;
	wait_for($node, "count(*) = 1 $standing");
	$node->safe_psql('postgres', 'CREATE DATABASE later');
	sql($create, 'later');
	my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('a', lease_time => '10 min')}, 'later');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET pgq_ext.stop_point');
	$node->reload;
	end_session($gate);
	wait_for_scheduler($node, 'later');
	is(sql(q{SELECT count(*) FROM pgq_claim('a')}, 'later'), '0', 'a database is created while the launcher looks: its job is handed out once');
	is(sqlstate($node, "SELECT pgq_ack($id, $lease)", 'later'), '', '... the lease is current');
	$node->safe_psql('postgres', 'DROP DATABASE later WITH (FORCE)');
	wait_for_memory_of(2, '... and the memory is freed when it is dropped');
}

# ---- a transaction that drops and creates it is rolled back ----

my $anew = q{DROP EXTENSION pgq_ext CASCADE; CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('b')};
{
	sql(q{SELECT pgq_enqueue('a', '2')});
	my $job = claim();
	my $holder = session($node, 'jobs');
	my $token = ask($holder, q{SELECT pgq_lock('leader', session_bound => true)});
	my $admin = session($node, 'jobs');
	ask($admin, "BEGIN; $anew");
	is(databases_in_memory(), '3', 'two incarnations have memory');
	ask($admin, 'ROLLBACK');
	wait_for_memory_of(2, 'rolled back: that of the new one is freed');
	is_deeply(claim(), [], '... a lease is kept');
	is(sql(q{SELECT pgq_lock('leader', session_bound => true)}), '', '... and a lock');
	ask($admin, "BEGIN; $anew; COMMIT");
	wait_for_memory_of(2, 'committed: that of the old one is freed');
	isnt(sql(q{SELECT pgq_lock('leader', session_bound => true)}), '', '... with its locks');
	end_session($_) for $holder, $admin;
}

# ---- creators that come to nothing ----

{
	new_database();
	my $creator = session($node, 'jobs');
	ask($creator, "BEGIN; SAVEPOINT s; $create");
	is(databases_in_memory(), '2', 'a transaction that creates the extension has memory');
	ask($creator, 'ROLLBACK TO s');
	wait_for_memory_of(1, '... not after ROLLBACK TO SAVEPOINT');
	ask($creator, "ROLLBACK; BEGIN; $create");
	my $pid = pid_of($creator);
	sql("SELECT pg_terminate_backend($pid, 60000)");
	wait_for_memory_of(1, '... nor after its session was ended');
	end_session($creator);

	is(sqlstate($node, "BEGIN; $create; PREPARE TRANSACTION 'new'", 'jobs'), '0A000', 'a transaction that creates it cannot be prepared');
	wait_for_memory_of(1, '... so its memory is freed');

	sql($create);
	my $job = claim();
	wait_for_scheduler($node, 'jobs');
	sql(q{BEGIN; DROP EXTENSION pgq_ext CASCADE; PREPARE TRANSACTION 'gone'});
	my $scheduler = scheduler_pid($node, 'jobs');
	sql("SELECT pg_terminate_backend($scheduler, 60000)");
	wait_for($node, "count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND datname = 'jobs' AND pid <> $scheduler");
	sql(q{ROLLBACK PREPARED 'gone'});
	is_deeply(claim(), [], 'DROP EXTENSION is prepared and rolled back: a lease is kept');
	is(sqlstate($node, "SELECT pgq_ack($job->[0], $job->[1])", 'jobs'), '', '... and current');
	sql(q{BEGIN; DROP EXTENSION pgq_ext CASCADE; PREPARE TRANSACTION 'gone'});
	sql(q{COMMIT PREPARED 'gone'});
	wait_for_memory_of(1, '... or committed: its memory is freed');

	sql('CREATE EXTENSION pgq_ext');
	sql(q{SELECT pgq_create_queue('a'); SELECT pgq_enqueue('a', '1')});
	is(claim()->[2], '1', 'a job is claimed');
	# A copy has the same OIDs, and memory of its own.
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = 'jobs'});
	$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE jobs');
	is(sql(q{SELECT count(*) FROM pgq_claim('a')}, 'copy'), '1', 'a copy of the database hands out its own');
	is(sql(q{SELECT count(*) FROM pgq_claim('a')}), '0', '... and leaves the leases of the original');
	$node->safe_psql('postgres', 'DROP DATABASE copy WITH (FORCE)');
	wait_for_memory_of(2, '... whose memory stays');
	is(sql(q{SELECT count(*) FROM pgq_claim('a')}), '0', '... with its leases');
}

# ---- whatever has waited while it was dropped and created is of the new one ----

{
	my ($waiter, $admin, $holder) = map { session($node, 'jobs') } 1 .. 3;
	my $pid = pid_of($waiter);
	my $token = ask($holder, q{SELECT pgq_lock('lead', session_bound => true)});
	send_sql($waiter, q{SELECT pgq_lock('lead', session_bound => true, wait => '60 s')});
	wait_for($node, q{waiting = 1 FROM pgq_ext.lock WHERE name = 'lead'}, 'jobs');
	ask($admin, "BEGIN; $anew; COMMIT");
	$token = reply($waiter);
	like($token, qr/^\d+$/, 'a session that waits for a lock while the extension is dropped and created gets it');
	is(sql(q{SELECT pgq_lock('lead', session_bound => true)}), '', '... alone');
	is((ask($waiter, "SELECT pgq_assert_lock('lead', $token)"))[1], '', '... and has it');
	is((ask($waiter, "SELECT pgq_unlock('lead', $token)"))[0], 't', '... until it gives it back');

	my @waits = (
		[ q{pgq_lock('timed', ttl => '1 h')}, q{pgq_assert_lock('timed', %s)}, q{pgq_lock('timed')} ],
		[ q{pgq_run_once('run', ttl => '1 h')}, q{pgq_run_done('run', %s)}, q{pgq_run_once('run')} ]);
	for (@waits)
	{
		my ($take, $use, $again) = @$_;
		ask($waiter, q{SELECT pgq_unlock('known', pgq_lock('known'))});
		ask($admin, "BEGIN; $anew");
		send_sql($waiter, "SELECT $take");
		wait_for($node, "count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = $pid");
		ask($admin, 'COMMIT');
		$token = reply($waiter);
		like($token, qr/^\d+$/, "$take waits for the tables");
		is(sql("SELECT $again"), '', '... nobody else gets it');
		is((ask($waiter, 'SELECT ' . sprintf($use, $token)))[1], '', '... who got it has it');
	}

	ask($waiter, q{SELECT pgq_create_rate('other', 1, '1 h')});
	ask($waiter, q{SELECT pgq_take('other')});
	ask($admin, "BEGIN; $anew; SELECT pgq_create_rate('r', 1, '1 h')");
	send_sql($waiter, q{SELECT pgq_take('r')});
	wait_for($node, "count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = $pid");
	ask($admin, 'COMMIT');
	is(reply($waiter), 'f', 'a rate that waits for the tables');
	is(sql(q{SELECT next_at IS NOT NULL FROM pgq_ext.rate WHERE name = 'r'}), 't', '... is one of the new extension');
	wait_for($node, q{used = 0 FROM pgq_ext.capacity WHERE name = 'locks and runs held'}, 'jobs');
	pass('locks of the old ones are gone');
	end_session($_) for $waiter, $admin, $holder;
}

# ---- all places for databases are taken ----

{
	$node->safe_psql('postgres', 'DROP EXTENSION pgq_ext CASCADE');
	$node->append_conf('postgresql.conf', 'pgq_ext.max_databases = 1');
	$node->restart;
	sql("$anew; SELECT pgq_create_queue('a'); SELECT pgq_enqueue('a', '1')");
	my $job = claim();
	my $holder = session($node, 'jobs');
	my $token = ask($holder, q{SELECT pgq_lock('leader', session_bound => true)});
	my ($state, $error) = sqlstate($node, "BEGIN; $anew", 'jobs');
	is($state, '53400', 'there is no place for a second incarnation');
	like($error, qr/DETAIL:  This database already takes one of the places.*still open\.\nHINT:  End that transaction, or raise pgq_ext.max_databases/, '... since the first one keeps its own');
	is_deeply(claim(), [], '... and its leases');
	is((ask($holder, "SELECT pgq_assert_lock('leader', $token)"))[1], '', '... and locks');
	is(sqlstate($node, "SELECT pgq_ack($job->[0], $job->[1])", 'jobs'), '', '... the lease is current');
	is(sqlstate($node, $_, 'jobs'), '', $_) for 'DROP EXTENSION pgq_ext CASCADE; CREATE EXTENSION pgq_ext', q{SELECT pgq_create_queue('b')};
	end_session($holder);
}

done_testing();
