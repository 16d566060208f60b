# Named locks: the order of waiting sessions, open and prepared transactions, the end of a session, restarts,
# promotion, and deadlocks.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;
use RotationTest qw(stop_scheduler_at scheduler_stands let_go);
use Session;

my $node = pgq_node('main', init => { allows_streaming => 1 },
	conf => "max_connections = 30\nmax_prepared_transactions = 10\ndeadlock_timeout = '300 ms'\nrestart_after_crash = on\npgq_ext.max_locks = 40\n");
my ($ask, $ask_elsewhere) = (in_one_session($node), in_one_session($node));
sub sql { return $ask->($_[0]) }
# In a second session, so that the session that has taken a lock does not ask for it again.
sub elsewhere { return $ask_elsewhere->($_[0]) }
sub stale { return !eval { elsewhere("\\set VERBOSITY verbose\n$_[0]"); 1 } && $@ =~ /ERROR:  PQ001: / }
sub waiting { my ($n) = @_; return wait_for($node, "count(*) >= $n FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%wait => ''60 s%' AND wait_event_type IN ('Extension', 'Lock') AND pid <> pg_backend_pid()") }
my ($s, $other, $third) = map { session($node) } 1 .. 3;

# ---- in line ----

{
	my $token = sql(q{SELECT pgq_lock('m')});
	my @waiting = map { session($node) } 1 .. 4;
	for my $n (0 .. 3)
	{
		send_sql($waiting[$n], q{SELECT pgq_lock('m', wait => '60 s')});
		wait_for($node, ($n + 1) . q{ = waiting FROM pgq_ext.lock WHERE name = 'm'});
	}
	# The third gives up.
	sql('SELECT pg_cancel_backend(' . $_ . ')') for sql(q{SELECT pid FROM pg_stat_activity WHERE query LIKE '%wait => ''60 s%' AND pid <> pg_backend_pid() ORDER BY query_start OFFSET 2 LIMIT 1});
	like((reply($waiting[2]))[1], qr/canceling statement/, 'a wait can be cancelled');
	for my $n (0, 1, 3)
	{
		is(sql("SELECT pgq_unlock('m', $token)"), 't', 'given back');
		my $next = reply($waiting[$n]);
		cmp_ok($next, '>', $token, '... goes to the next in line, with a greater token');
		ok(stale("SELECT pgq_assert_lock('m', $token)"), '... and the one before is stale');
		is(elsewhere(q{SELECT pgq_lock('m') IS NULL}), 't', '... nobody else gets it');
		$token = $next;
	}
	# Nobody overtakes who has been woken.
	send_sql($waiting[0], q{SELECT pgq_lock('m', wait => '60 s')});
	waiting(1);
	ask($s, "SELECT pgq_unlock('m', $token), pgq_lock('m') IS NULL");
	$token = reply($waiting[0]);
	ok($token > 0, 'who gives back and asks again does not overtake who waits');
	sql("SELECT pgq_unlock('m', $token)");
	end_session($_) for @waiting;

	# A slot, two of them.
	my @held = map { sql(q{SELECT pgq_lock('sem', slots => 2)}) } 1, 2;
	send_sql($s, q{SELECT pgq_lock('sem', slots => 2, wait => '60 s')});
	waiting(1);
	is(elsewhere(q{SELECT pgq_lock('sem', slots => 3) IS NULL}), 't', 'first come, first served, also who asks for another number of slots');
	send_sql($other, q{SELECT pgq_lock('sem', slots => 2, wait => '60 s')});
	waiting(2);
	sql("SELECT pgq_unlock('sem', t) FROM (VALUES ($held[0]), ($held[1])) v(t)");
	my @next = (scalar reply($s), scalar reply($other));
	ok($next[0] > $held[1] && $next[1] > $held[1], 'two slots that are free at once go to two that wait');
	sql("SELECT pgq_unlock('sem', t) FROM (VALUES ($next[0]), ($next[1])) v(t)");
	is(sql(q{SELECT pgq_lock('m', ttl => '1 h') > 0}), 't', 'taken');
	my $began = monotonic();
	is(elsewhere(q{SELECT pgq_lock('m', wait => '1500 ms') IS NULL}), 't', 'a wait in vain');
	cmp_ok(seconds_since($began), '>=', 1.5, '... takes its time');
	# A tenth of a second before; once in three times at least this process is not late by that.
	ok(scalar(grep { sqlstate($node, q{SET statement_timeout = '700 ms'; SELECT pgq_lock('m', wait => '60 s')}) eq '' } 1 .. 3), '... but ends before statement_timeout');
	sql(q{SELECT pgq_unlock(name, token) FROM pgq_ext.lock});
}

# ---- open transactions ----

{
	# A ttl does not end what an open transaction has taken, or relies on.
	my $t = ask($s, q{BEGIN; SELECT pgq_lock('open', ttl => '1 s')});
	usleep(1_200_000);
	is(elsewhere(q{SELECT pgq_lock('open') IS NULL}), 't', 'taken in an open transaction: nobody else gets it');
	ok(stale("SELECT pgq_assert_lock('open', $t)"), '... and nobody else can use its token yet');
	send_sql($other, q{SELECT pgq_lock('open', wait => '60 s', ttl => '4 s')});
	waiting(1);
	ask($s, 'ROLLBACK');
	$t = reply($other);
	ok($t > 0, 'undone, it goes to who waits');
	ask($s, "BEGIN; SELECT pgq_assert_lock('open', $t)");
	ask($third, "BEGIN; SELECT pgq_assert_lock('open', $t)");
	my $slow = sql(q{SELECT pgq_lock('slow', ttl => '4 s')});
	my $run = sql(q{SELECT pgq_run_once('slow', ttl => '4 s')});
	ask($s, "SELECT pgq_assert_lock('slow', $_)") for $slow, $run;
	usleep(4_200_000);
	is(elsewhere(q{SELECT pgq_lock('open') IS NULL}), 't', 'asserted: nobody else gets it');
	is(scalar ask($s, "SELECT pgq_assert_lock('open', $t)"), '', '... who relies on it may do so again');
	is(scalar ask($s, "SELECT pgq_unlock('slow', $slow)"), 't', '... may give it back');
	is(scalar ask($s, "SELECT pgq_run_done('slow', $run)"), '', '... and, of a run, finish it');
	ok(stale("SELECT pgq_assert_lock('open', $t)"), '... but nobody else may, since its time is over');
	send_sql($other, q{SELECT pgq_lock('open', wait => '60 s')});
	waiting(1);
	ask($s, 'COMMIT');
	usleep(300_000);
	ok(!is_answered($other), '... before all who rely on it have ended');
	ask($third, 'COMMIT');
	$t = reply($other);
	ok($t > 0, '... and then who waits');
	# Unlock waits for who relies on it, and assert for who gives it back.
	ask($s, "BEGIN; SELECT pgq_assert_lock('open', $t)");
	send_sql($other, "SELECT pgq_unlock('open', $t) /* wait => '60 s */");
	waiting(1);
	ask($s, 'COMMIT');
	is(scalar reply($other), 't', 'unlock waits for an assert');
	$t = sql(q{SELECT pgq_lock('open')});
	for my $end ('ROLLBACK', 'COMMIT')
	{
		ask($s, "BEGIN; SELECT pgq_unlock('open', $t)");
		send_sql($other, "SELECT pgq_assert_lock('open', $t) /* wait => '60 s */");
		waiting(1);
		ask($s, $end);
		my (undef, $error) = reply($other);
		is($error eq '' ? 'ROLLBACK' : 'COMMIT', $end, "assert waits for an unlock: $end");
	}
	# The scheduler sweeps what nobody has given back.
	is(sqlstate($node, q{SELECT pgq_lock('swept' || n, ttl => '1 s') FROM generate_series(1, 30) n; SELECT pgq_lock('more' || n) FROM generate_series(1, 30) n}), '53400', 'no room: an error that names the setting');
	wait_for($node, q{count(*) = 0 FROM pgq_ext.held_lock});
	wait_for($node, q{used = 0 AND peak = 40 FROM pgq_ext.capacity WHERE name = 'locks and runs held'});
	pass('those whose time is over give up their places');
}

# ---- sessions ----

{
	my @took;
	for my $round (1 .. 5)
	{
		my $leader = session($node);
		my $t = ask($leader, q{SELECT pgq_lock('leader', session_bound => true, ttl => '1 day')});
		my $pid = pid_of($leader);
		send_sql($s, q{SELECT pgq_lock('leader', session_bound => true, ttl => '1 day', wait => '60 s')});
		waiting(1);
		my $killed = monotonic();
		$round % 2 ? kill_client($leader) : sql("SELECT pg_terminate_backend($pid)");
		my $next = reply($s);
		push @took, seconds_since($killed);
		cmp_ok($next, '>', $t, 'the successor of a leader whose session has ended');
		is(sql("SELECT pgq_assert_lock('leader', $next)"), '', '... which other sessions may rely on');
		ok(stale("SELECT pgq_assert_lock('leader', $t)"), '... not on the one before');
		is(scalar ask($s, "SELECT pgq_unlock('leader', $next)"), 't', '... gives it back');
	}
	note("takeover: @took s");
	cmp_ok((sort { $a <=> $b } @took)[2], '<', 10, 'takeover does not wait for any time to pass');

	# Another session relies on it: it decides when it is over.
	my $leader = session($node);
	my $t = ask($leader, q{SELECT pgq_lock('leader', session_bound => true)});
	ask($other, "BEGIN; SELECT pgq_assert_lock('leader', $t)");
	end_session($leader);
	wait_for($node, q{count(*) = 1 FROM pgq_ext.lock WHERE name = 'leader' AND expires_at < now()});
	is(elsewhere(q{SELECT pgq_lock('leader') IS NULL}), 't', 'a leader has gone, another session relies on the lock');
	ask($other, 'COMMIT');
	is(sql(q{SELECT pgq_unlock('leader', pgq_lock('leader', wait => '60 s'))}), 't', '... until it ends');
	$leader = session($node);
	$t = ask($leader, q{SELECT pgq_lock('leader', session_bound => true)});
	ask($other, "BEGIN; SELECT pgq_unlock('leader', $t)");
	end_session($leader);
	wait_for($node, q{count(*) = 1 FROM pgq_ext.lock WHERE name = 'leader' AND expires_at < now()});
	ask($other, 'ROLLBACK');
	is(sql(q{SELECT pgq_unlock('leader', pgq_lock('leader', wait => '60 s'))}), 't', 'an unlock that is undone does not bring a session back');
}

# ---- deadlocks ----

{
	# In memory both, and half in the server's locks.
	sql('CREATE TABLE t AS SELECT 1 AS x');
	ask($s, q{BEGIN; SELECT pgq_lock('d1') > 0});
	ask($other, q{BEGIN; SELECT pgq_lock('d2') > 0});
	send_sql($s, q{SELECT pgq_lock('d2', wait => '60 s') > 0});
	waiting(1);
	my $began = monotonic();
	send_sql($other, q{SELECT pgq_lock('d1', wait => '60 s') > 0});
	my @said = ((reply($s))[1], '');
	ask($s, 'ROLLBACK') if $said[0];
	$said[1] = (reply($other))[1];
	ask($s, 'ROLLBACK');
	ask($other, 'ROLLBACK');
	is(scalar(grep { /deadlock detected/ } @said), 1, 'two that wait for each other: one of them is told');
	cmp_ok(seconds_since($began), '<', 20, '... soon');

	ask($s, q{BEGIN; SELECT pgq_lock('d1') > 0});
	ask($other, q{BEGIN; UPDATE t SET x = 2});
	send_sql($s, q{UPDATE t SET x = 3 /* wait => '60 s */});
	waiting(1);
	like((ask($other, q{SELECT pgq_lock('d1', wait => '60 s') > 0}))[1], qr/deadlock detected/, 'a row lock and a named lock');
	ask($other, 'ROLLBACK');
	reply($s);
	ask($s, 'ROLLBACK');
	# What time ends is none.
	my $t = ask($s, q{SELECT pgq_lock('d1', ttl => '3 s')});
	ask($s, 'BEGIN; UPDATE t SET x = 4');
	ask($other, 'BEGIN; SELECT 1');
	send_sql($other, q{SELECT pgq_lock('d1', wait => '60 s') > 0});
	is(scalar reply($other), 't', 'a lock whose time will be over is waited for');
	ask($_, 'ROLLBACK') for $s, $other;
	sql('DROP TABLE t');
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lock WHERE in_transaction});
}

# ---- prepared transactions, restarts ----

for my $mode ('none', 'fast', 'immediate', 'kill')
{
	my $restart = sub {
		return if $mode eq 'none';
		if ($mode eq 'kill')
		{
			my $pid = pid_of($third);
			kill 'KILL', $pid;
			wait_until_down($pid);
			wait_until_up($node);
		}
		else
		{
			$node->stop($mode);
			$node->start;
		}
		end_session($_) for $s, $other, $third;
		($s, $other, $third) = map { session($node) } 1 .. 3;
		wait_until_up($node);
	};
	my $m = "$mode: ";
	my $held = sql(q{SELECT pgq_lock('held', ttl => '1 hour', owner => 'me')});
	my $slot = sql(q{SELECT pgq_lock('held3', ttl => '1 hour', slots => 3) FROM generate_series(1, 2) OFFSET 1});
	my $late = sql(q{SELECT pgq_lock('late', ttl => '2 s')});
	my $longer = sql(q{SELECT pgq_lock('longer', ttl => '1 hour')});
	sql("SELECT pgq_extend_lock('longer', $longer, '1 s')");
	my $bound = ask($s, q{SELECT pgq_lock('bound', session_bound => true, ttl => '1 hour')});
	my %t;
	$t{$_} = sql("SELECT pgq_lock('$_', ttl => '1 hour')") for qw(p_unlock p_unlock_undone p_relock p_assert p_extend);
	my $new = ask($s, q{BEGIN; SELECT pgq_lock('p_lock', ttl => '1 hour')});
	ask($s, q{PREPARE TRANSACTION 'p_lock'});
	my $undone = ask($s, q{BEGIN; SELECT pgq_lock('p_lock_undone', ttl => '1 hour')});
	ask($s, q{PREPARE TRANSACTION 'p_lock_undone'});
	ask($s, "BEGIN; SELECT pgq_unlock('$_', $t{$_}); PREPARE TRANSACTION '$_'") for qw(p_unlock p_unlock_undone);
	my $relock = ask($s, "BEGIN; SELECT pgq_unlock('p_relock', $t{p_relock}) \\; SELECT pgq_lock('p_relock', ttl => '1 hour')");
	$relock =~ s/.*\n//s;
	ask($s, "SAVEPOINT s; SELECT pgq_extend_lock('p_relock', $relock, '2 hours')");
	ask($s, q{PREPARE TRANSACTION 'p_relock'});
	ask($s, "BEGIN; SELECT pgq_assert_lock('p_assert', $t{p_assert}); PREPARE TRANSACTION 'p_assert'");
	ask($s, "BEGIN; SELECT pgq_extend_lock('p_extend', $t{p_extend}, '2 hours'); PREPARE TRANSACTION 'p_extend'");
	# More often than there is room for locks.
	ask($s, "BEGIN; SELECT count(pgq_unlock('$_', pgq_lock('$_', ttl => '1 hour'))) FROM generate_series(1, 60); PREPARE TRANSACTION '$_'") for qw(p_both p_both_undone);
	ask($s, "BEGIN; SELECT pgq_run_done('run_$mode', pgq_run_once('run_$mode', '1 day')); PREPARE TRANSACTION 'p_run'");
	my $lost = ask($other, q{BEGIN; SELECT pgq_lock('open', ttl => '1 hour')});
	$restart->();
	ask($other, 'ROLLBACK');

	is(sql("SELECT owner, slot FROM pgq_ext.lock WHERE token = $held"), 'me|1', $m . 'what is held is held');
	is(sql("SELECT pgq_assert_lock('held', $held)"), '', '... with its token');
	is(sql("SELECT slot, slots FROM pgq_ext.lock WHERE token = $slot"), '2|3', '... in its slot');
	is(sql("SELECT expires_at > now() + '50 min' FROM pgq_ext.lock WHERE token = $longer"), 't', '... as long as it was to be, though it was extended by less');
	is(sql(q{SELECT pgq_lock('held3', ttl => '1 hour', slots => 3) > 0, pgq_lock('held3', slots => 3) IS NULL}), 't|t', '... which counts');
	is(sql(q{SELECT pgq_lock('open', ttl => '1 hour') > } . $lost), 't', 'what was not committed is not');
	is(sql(q{SELECT pgq_lock('bound', ttl => '1 hour') } . ($mode eq 'none' ? 'IS NULL' : "> $bound")), 't', 'a session ends with the server');
	is(sql("SELECT count(*) FROM pgq_ext.lock WHERE name = '$_' AND in_transaction"), '1', "$_ is held, and open") for qw(p_lock p_lock_undone p_unlock p_unlock_undone p_relock);
	is(elsewhere("SELECT pgq_lock('$_') IS NULL"), 't', "$_: nobody else gets it") for qw(p_lock p_lock_undone p_unlock p_unlock_undone p_relock p_assert p_both p_both_undone);
	is(elsewhere("SELECT pgq_run_once('run_$mode', '1 day') IS NULL"), 't', 'p_run: nobody else runs it');
	is(sqlstate($node, "SET lock_timeout = '200 ms'; SELECT pgq_unlock('p_assert', $t{p_assert})"), '55P03', 'asserted by a prepared transaction: unlock waits');
	send_sql($s, q{SELECT pgq_lock('p_unlock', wait => '60 s')});
	send_sql($other, q{SELECT pgq_lock('p_lock_undone', wait => '60 s')});
	waiting(2);
	sql("COMMIT PREPARED '$_'") for qw(p_lock p_unlock p_assert p_both p_run);
	sql("ROLLBACK PREPARED '$_'") for qw(p_lock_undone p_unlock_undone p_relock p_extend p_both_undone);
	is(sql("SELECT pgq_unlock('$_', pgq_lock('$_'))"), 't', "... and $_ is free") for qw(p_both p_both_undone);
	is(elsewhere("SELECT pgq_run_once('run_$mode', '1 day') IS NULL"), 't', '... and the run is done');
	is(sql("SELECT pgq_assert_lock('p_lock', $new)"), '', 'COMMIT PREPARED of a lock');
	cmp_ok(scalar reply($s), '>', $t{p_unlock}, '... of an unlock');
	cmp_ok(scalar reply($other), '>', $undone, 'ROLLBACK PREPARED of a lock');
	is(sql("SELECT pgq_assert_lock('$_', $t{$_})"), '', "ROLLBACK PREPARED of $_") for qw(p_unlock_undone p_relock p_extend);
	ok(stale("SELECT pgq_assert_lock('p_relock', $relock)"), '... and what was taken again is not held');
	is(sql("SELECT pgq_unlock('p_assert', $t{p_assert})"), 't', 'what was asserted can be given back');
	cmp_ok(sql(q{SELECT pgq_lock('late', wait => '60 s')}), '>', $late, 'what has a time ends with it');
	sql(q{SELECT pgq_unlock(name, token) FROM pgq_ext.lock});
	is(sql(q{SELECT count(*) FROM pgq_ext.held_lock l WHERE NOT EXISTS (SELECT FROM pgq_ext.lock m WHERE m.token = l.token)}), '0', 'no row is left behind that memory does not know');
}

# ---- what nobody has given back ----

{
	# Found to be over, and then extended by who relied on it.
	my $relied = sql(q{SELECT pgq_lock('relied-on', ttl => '5 s')});
	ask($s, "BEGIN; SELECT pgq_assert_lock('relied-on', $relied)");
	sql(q{SELECT pgq_lock('forgotten', ttl => '1 s')});
	wait_for($node, q{count(*) = 2 FROM pgq_ext.held_lock WHERE expires_at < now()});
	# Both are found at once: they have been over for ten seconds.
	my $gate = stop_scheduler_at($node, 'locks-overdue');
	usleep(11_000_000);
	scheduler_stands($node);
	is(ask($s, "SELECT pgq_extend_lock('relied-on', $relied, '1 h') > now()"), 't', 'a lock that is about to be swept is extended');
	ask($s, 'COMMIT');
	let_go($node, $gate);
	wait_for($node, q{count(*) = 0 FROM pgq_ext.held_lock WHERE name = 'forgotten'});
	is(elsewhere(q{SELECT pgq_lock('relied-on') IS NULL}), 't', '... and stays');
	is(sql("SELECT pgq_unlock('relied-on', $relied)"), 't', '... until it is given back');
}

# ---- rows by hand ----

{
	sql(qq{INSERT INTO pgq_ext.held_lock SELECT 'wide', -1, 0, slot, 1, 7, 'x', 3600000000, now(), now() + '1 h' FROM unnest('{0, -1, 1025, 2000, 5000000000, -4294967295, 4294967297, 9223372036854775807, -9223372036854775808}'::bigint[]) slot});
	is(sql(q{SELECT pgq_unlock('wide', pgq_lock('wide'))}), 't', 'slots that there are not are nobody\'s');
	is(sql(q{SELECT count(*) FROM pgq_ext.lock}), '0', '... and in no view');
	sql(q{DELETE FROM pgq_ext.held_lock WHERE name = 'wide'});

	# More than half of the places are taken, and rows are read once more.
	sql(q{SELECT count(pgq_lock('many' || i, ttl => '1 h')) FROM generate_series(1, 25) i});
	sql(q{INSERT INTO pgq_ext.held_lock VALUES ('one-more', -1, 0, 1, 1, 7, 'x', 3600000000, now(), now() + '1 h')});
	is(sql(q{SELECT pgq_lock('one-more') IS NULL}), 't', 'a row that comes by hand is met');
	is(sql(q{SELECT count(*) FROM pgq_ext.lock WHERE pgq_unlock(name, token)}), '26', '... and all of them can be given back');
}

# Another row where memory has one that is over; and none.
{
	my $t = sql(q{SELECT pgq_lock('replaced', ttl => '1 s')});
	# In one transaction, so that nobody sweeps it.
	ask($s, q{BEGIN; UPDATE pgq_ext.held_lock SET token = token + 1, expires_at = now() + '1 h', ttl = 3600000000 WHERE name = 'replaced'});
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lock WHERE name = 'replaced' AND expires_at > now()});
	ask($s, 'COMMIT');
	is(elsewhere(q{SELECT pgq_lock('replaced') IS NULL}), 't', 'a row that replaces one that is over is believed');
	is(sql("SELECT pgq_unlock('replaced', $t + 1)"), 't', '... and is given back');
	is(sql(q{SELECT count(*) FROM pgq_ext.held_lock WHERE name = 'replaced'}), '0', '... with its row');

	# Two rows of one slot, both over, whose tokens are not the ones in their columns.
	$t = sql(q{SELECT pgq_lock('twice', ttl => '1 h')});
	ask($s, q{BEGIN; UPDATE pgq_ext.held_lock SET token = token + 1, expires_at = now(), ttl = 0 WHERE name = 'twice'});
	ask($s, q{INSERT INTO pgq_ext.held_lock SELECT name, period, bucket, slot + 5, slots, token + 5, owner, ttl, acquired_at, expires_at FROM pgq_ext.held_lock WHERE name = 'twice'});
	ask($s, 'COMMIT');
	sql("SELECT pgq_unlock('twice', $t)");
	ask($s, q{BEGIN; SELECT pgq_lock('twice') > 0});
	ask($s, 'ROLLBACK');
	is(sql(q{SELECT pgq_unlock('twice', pgq_lock('twice'))}), 't', 'two rows of one slot that are over keep nobody from taking it');
	# A look at all rows of a slot is rare if it takes long: an older row is found by one of the next.
	wait_for($node, q{pgq_unlock('twice', pgq_lock('twice')) AND NOT EXISTS (SELECT FROM pgq_ext.held_lock WHERE name = 'twice')});
	pass('... and go');
	$t = sql(q{SELECT pgq_lock('deleted')});
	sql(q{DELETE FROM pgq_ext.held_lock WHERE name = 'deleted'});
	ok(stale("SELECT pgq_extend_lock('deleted', $t, '1000 years')") || sql("SELECT pgq_extend_lock('deleted', $t, '1000 years') IS NULL") eq 't', 'a lock whose row is gone cannot be extended');
	is(sql("SELECT expires_at < now() + '1 day' FROM pgq_ext.lock WHERE name = 'deleted'"), 't', '... and is not held for longer');
	sql("SELECT pgq_unlock('deleted', $t)");

	# Rows come while somebody has taken a lock.
	$t = sql(q{SELECT pgq_lock('known')});
	ask($s, q{BEGIN; SELECT pgq_lock('open')});
	$node->safe_psql('postgres', q{SET session_replication_role = replica; INSERT INTO pgq_ext.held_lock VALUES ('brought', -1, 0, 1, 1, 9, 'x', 3600000000, now(), now() + '1 h')});
	sql(q{INSERT INTO pgq_ext.held_lock VALUES ('brought', -1, 0, 2, 1, 8, 'x', 3600000000, now(), now() + '1 h')});
	my $in_time = q{SET lock_timeout = '20 s'; };
	is($node->safe_psql('postgres', "$in_time SELECT pgq_assert_lock('known', $t), pgq_extend_lock('known', $t, '1 h') > now(), pgq_unlock('known', $t)"), '|t|t', 'who has a lock goes on meanwhile');
	is($node->safe_psql('postgres', "$in_time SELECT count(*) FROM pgq_ext.lock WHERE name = 'open'"), '1', '... and the view as well');
	ask($s, 'ROLLBACK');
	is(sql(q{SELECT pgq_lock('brought') IS NULL}), 't', '... then they are known');
	sql(q{DELETE FROM pgq_ext.held_lock WHERE name = 'brought'; SELECT pgq_unlock('brought', 9), pgq_unlock('brought', 8)});
}

# ---- sessions ----

for my $relocked ('', q{, pgq_lock('leader') > 0})
{
	my $leader = session($node);
	my $t = ask($leader, q{SELECT pgq_lock('leader', '1 day', session_bound => true)});
	my $pid = pid_of($leader);
	ask($s, "BEGIN; SELECT pgq_unlock('leader', $t)$relocked");
	end_session($leader);
	wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
	ask($s, 'ROLLBACK');
	$t = sql(q{SELECT pgq_lock('leader', wait => '60 s')});
	cmp_ok($t, '>', 0, "a session ends while another gives back its lock, which is undone ($relocked)");
	sql("SELECT pgq_unlock('leader', $t)");

	$leader = session($node);
	$t = ask($leader, q{SELECT pgq_lock('leader', '1 day', session_bound => true)});
	ask($s, "BEGIN; SELECT pgq_assert_lock('leader', $t)");
	$pid = pid_of($leader);
	end_session($leader);
	wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
	like(join('', ask($s, "SELECT pgq_extend_lock('leader', $t, '1 day') IS NULL")), qr/^t|not held/, '... or relies on it: it cannot be extended');
	ask($s, 'ROLLBACK');
	$t = sql(q{SELECT pgq_lock('leader', wait => '60 s')});
	cmp_ok($t, '>', 0, '... and ends');
	sql("SELECT pgq_unlock('leader', $t)");

	# Whose slot another one has had is no concern of who prepares.
	$leader = session($node);
	ask($leader, q{SELECT pgq_lock('was-bound', session_bound => true)});
	end_session($leader);
	$t = ask($s, q{BEGIN; SELECT pgq_lock('was-bound', wait => '60 s')});
	is((ask($s, q{PREPARE TRANSACTION 'was-bound'}))[1], '', 'a lock that another session has had can be prepared');
	sql(q{ROLLBACK PREPARED 'was-bound'});
	ok(sql(q{SELECT pgq_unlock('was-bound', pgq_lock('was-bound', wait => '60 s'))}), '... and undone');
}

# ---- one that is over, for all at once ----

{
	my @askers = map { session($node) } 1 .. 6;
	for my $round (1 .. 5)
	{
		sql(q{SELECT pgq_lock('coveted', ttl => '1 s')});
		wait_for($node, q{count(*) = 0 FROM pgq_ext.lock WHERE name = 'coveted' AND expires_at > now() - '10 ms'::interval});
		ask($s, 'SELECT pg_advisory_lock(11)');
		send_sql($_, q{SELECT pgq_lock('coveted') FROM (SELECT pg_advisory_lock_shared(11) OFFSET 0) barrier}) for @askers;
		wait_for($node, q{count(*) = 6 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});
		ask($s, 'SELECT pg_advisory_unlock(11)');
		my @got = grep { $_ } map { scalar reply($_) } @askers;
		is(scalar @got, 1, "$round: a lock that is over goes to one of those that ask at once");
		ask($_, 'SELECT pg_advisory_unlock_all()') for @askers;
		sql("SELECT pgq_unlock('coveted', $_)") for @got;
	}
	end_session($_) for @askers;
}

# ---- a row that cannot be deleted ----

{
	sql(q{SELECT pgq_lock('stuck', ttl => '1 s'), pgq_lock('swept', ttl => '1 s')});
	ask($s, q{BEGIN; SELECT count(*) FROM (SELECT FROM pgq_ext.held_lock WHERE name = 'stuck' FOR UPDATE) l});
	wait_for($node, q{count(*) = 0 FROM pgq_ext.held_lock WHERE name = 'swept'});
	is(sql(q{SELECT count(*) FROM pgq_ext.held_lock WHERE name = 'stuck'}), '1', 'a row that somebody has locked keeps no other from being swept');
	ask($s, 'ROLLBACK');
	wait_for($node, q{count(*) = 0 FROM pgq_ext.held_lock WHERE name = 'stuck'});
	pass('... and then goes as well');
}

# ---- another door: a restore ----

{
	my $t = sql(q{SELECT pgq_lock('moved', ttl => '1 hour')});
	my $rate = sql(q{SELECT pgq_create_rate('r', 1, '1 s')});
	sql(q{SELECT pgq_run_done('migration', pgq_run_once('migration'))});
	my $dump = $node->backup_dir . '/dump.sql';
	$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
	$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE template0');
	# Memory knows the locks there are before the rows come.
	$node->safe_psql('copy', q{CREATE EXTENSION pgq_ext; SELECT pgq_lock('there')});
	$node->command_ok([ 'psql', '-Xq', '-f', $dump, $node->connstr('copy') ], 'restored');
	is($node->safe_psql('copy', q{SELECT pgq_lock('moved', session_bound => true) IS NULL}), 't', 'a lock that a restore has brought is held');
	is($node->safe_psql('copy', "SELECT pgq_assert_lock('moved', $t)"), '', '... with its token');
	is($node->safe_psql('copy', q{SELECT pgq_run_once('migration') IS NULL}), 't', 'what was done is done');
	is($node->safe_psql('copy', q{SELECT pgq_take('r', wait => '5 s')}), 't', 'rates are there');
	# A row that memory knows nothing of, whatever it came by.
	$node->safe_psql('copy', q{SET session_replication_role = replica; INSERT INTO pgq_ext.held_lock SELECT 'by-hand', period, bucket, slot, slots, token + 1, owner, ttl, acquired_at, expires_at FROM pgq_ext.held_lock WHERE name = 'moved'});
	is($node->safe_psql('copy', q{SELECT pgq_lock('by-hand') IS NULL}), 't', 'a row that memory does not know is met, and believed');
	# Another extension of that name: nothing is left of the first one.
	$node->safe_psql('copy', q{DROP EXTENSION pgq_ext CASCADE; CREATE EXTENSION pgq_ext});
	is($node->safe_psql('copy', q{SELECT pgq_lock('moved') > 0}), 't', 'after DROP EXTENSION nothing is held');
	$node->safe_psql('postgres', 'DROP DATABASE copy (FORCE)');
}

# ---- rates ----

# Who waits has reserved of a rate that is made anew: that is not counted by the new one, so he asks again, after others.
{
	sql(q{SELECT pgq_create_rate('anew', 1, '10 s')});
	send_sql($s, q{SELECT pgq_take('anew', wait => '14 s')});
	wait_for($node, q{count(*) = 1 FROM pgq_ext.rate WHERE name = 'anew' AND next_at > now() + '11 s'});
	ask($other, q{SELECT pgq_drop_rate('anew'), pgq_create_rate('anew', 1, '10 s')});
	is(scalar ask($other, q{SELECT pgq_take('anew', wait => '60 s')}), 't', 'a permit of a rate that was made anew');
	is(scalar reply($s), 'f', '... and none of the old one within the same period');
}

# What is not committed is nobody's: a rate that was made anew gives nothing to who has made it, and nothing to others.
{
	sql(q{SELECT pgq_create_rate('undone', 1, '60 s')});
	ask($s, q{BEGIN; SELECT pgq_drop_rate('undone'), pgq_create_rate('undone', 1000, '1 s', 1000)});
	is(scalar ask($s, q{SELECT pgq_take('undone')}), 'f', 'a rate of this transaction is empty');
	my $taken = sql(q{SELECT count(*) FROM generate_series(1, 50) WHERE pgq_take('undone', wait => '100 ms')});
	cmp_ok($taken, '<=', 1, '... and for others as it was before');
	like((ask($s, q{SELECT pgq_take('undone', wait => '1 s')}))[1], qr/cannot wait for permits of a rate/, '... it is not waited for');
	ask($s, 'ROLLBACK');
	ask($s, q{BEGIN; SELECT pgq_create_rate('never', 1000, '1 s'), pgq_take('never')});
	is(sqlstate($node, q{SELECT pgq_take('never')}), '42704', 'a rate that is not committed is not there');
	ask($s, 'ROLLBACK');
	ask($s, q{BEGIN; SELECT pgq_drop_rate('undone')});
	like((ask($s, q{SELECT pgq_take('undone')}))[1], qr/does not exist/, '... nor one that this transaction has dropped');
	ask($s, 'ROLLBACK');
}

# ---- promotion ----

{
	$node->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	my $t = sql(q{SELECT pgq_lock('crosses', ttl => '1 hour')});
	my $asserted = sql(q{SELECT pgq_lock('asserted', ttl => '4 s')});
	ask($s, "BEGIN; SELECT pgq_assert_lock('asserted', $asserted); PREPARE TRANSACTION 'asserted'");
	$node->wait_for_catchup($standby);
	is(sqlstate($standby, q{SELECT pgq_lock('x')}), '25006', 'not on a standby');
	$node->stop('immediate');
	$standby->promote;
	is($standby->safe_psql('postgres', "SELECT pgq_assert_lock('crosses', $t)"), '', 'a lock is held across a failover');
	is($standby->safe_psql('postgres', q{SELECT pgq_lock('crosses') IS NULL}), 't', '... by nobody else');
	cmp_ok($standby->safe_psql('postgres', q{SELECT pgq_lock('new')}), '>', $asserted, 'tokens go on growing');
	usleep(4_500_000);
	is($standby->safe_psql('postgres', q{SELECT pgq_lock('asserted') IS NULL}), 't', 'what a prepared transaction relies on stays, whatever its time');
	$standby->safe_psql('postgres', q{COMMIT PREPARED 'asserted'});
	cmp_ok($standby->safe_psql('postgres', q{SELECT pgq_lock('asserted', wait => '60 s')}), '>', $asserted, '... until that ends');
}
done_testing();
