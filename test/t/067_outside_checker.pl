# Named locks, runs and rates, checked by means other than pgq_ext: many sessions use them, some sessions are killed, and
# the server crashes.
#
# A session that has the named lock takes an advisory lock of the server, which no other session may have at that time, and
# raises a fence to its token.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "restart_after_crash = on\nmax_connections = 100\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(q{
	CREATE TABLE fence (name text PRIMARY KEY, token bigint NOT NULL, held bigint NOT NULL DEFAULT 0);
	INSERT INTO fence VALUES ('mutex', 0), ('bound', 0);
	CREATE TABLE wrong (what text);
	CREATE TABLE did (period_start timestamptz PRIMARY KEY, token bigint);
	CREATE TABLE took (at timestamptz);
	SELECT pgq_create_rate('r', 20, '1 s', burst => 5);
	SELECT pgq_run_done('seen', pgq_run_once('seen'));

	-- Somebody who holds it is alone; commits on the way, as a program would.
	CREATE PROCEDURE hold(lock text, bound boolean, witness int) LANGUAGE plpgsql AS $$
	DECLARE t bigint; n int;
	BEGIN
		t := pgq_lock(lock, ttl => '2 s', wait => '3 s', session_bound => bound);
		COMMIT;
		IF t IS NULL THEN RETURN; END IF;
		-- Time may have passed.
		IF NOT EXISTS (SELECT FROM pgq_ext.lock WHERE token = t) THEN RETURN; END IF;
		PERFORM pgq_assert_lock(lock, t);
		IF NOT pg_try_advisory_xact_lock(witness) THEN INSERT INTO wrong VALUES ('two hold ' || lock); END IF;
		UPDATE fence SET token = t, held = held + 1 WHERE name = lock AND token < t;
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n = 0 THEN INSERT INTO wrong VALUES ('a smaller token of ' || lock); END IF;
		IF random() < 0.1 THEN PERFORM pg_sleep(random() * 0.05); END IF;
		COMMIT;
		IF random() < 0.9 THEN PERFORM pgq_unlock(lock, t); END IF;
		IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
	END $$;
	CREATE PROCEDURE run() LANGUAGE plpgsql AS $$
	DECLARE t bigint;
	BEGIN
		t := pgq_run_once('each', '1 s', ttl => '1 s');
		IF t IS NULL THEN COMMIT; RETURN; END IF;
		IF random() < 0.5 THEN COMMIT; END IF;
		IF random() < 0.2 THEN ROLLBACK; RETURN; END IF;
		INSERT INTO did SELECT period_start, t FROM pgq_ext.run WHERE name = 'each' AND token = t;
		PERFORM pgq_run_done('each', t);
		COMMIT;
	END $$;
	CREATE PROCEDURE work() LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 1000000 LOOP
			CALL hold('mutex', false, 1);
			CALL hold('bound', true, 2);
			CALL run();
			IF pgq_take('r', wait => '10 ms') THEN INSERT INTO took VALUES (clock_timestamp()); END IF;
			COMMIT;
		END LOOP;
	END $$});

# A worker ends with an error if its lock was taken from it: another begins.
my $began = monotonic();
my %workers;
sub begin_worker
{
	my ($n) = @_;
	end_session($workers{$n}) if $workers{$n};
	$workers{$n} = session($node);
	send_sql($workers{$n}, 'CALL work()');
	return;
}
begin_worker($_) for 1 .. 64;
my ($kills, $crashes) = (0, 0);
my $other = '';
while (seconds_since($began) < 30)
{
	usleep(300_000);
	if ($crashes < 2 && seconds_since($began) > 10 * ($crashes + 1))
	{
		my ($pid) = sql(q{SELECT pid FROM pg_stat_activity WHERE query = 'CALL work()' LIMIT 1}) =~ /(\d+)/ or next;
		kill 'KILL', $pid;
		$crashes++;
		wait_until_down($pid);
		wait_until_up($node);
		begin_worker($_) for 1 .. 64;
		next;
	}
	$kills += sql(q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE query LIKE 'CALL work()%' AND state = 'active' ORDER BY random() LIMIT 1) p});
	for my $n (keys %workers)
	{
		# Those that were killed leave psql.
		my $answered = eval { is_answered($workers{$n}) } // 1;
		next unless $answered;
		my (undef, $said) = eval { reply($workers{$n}) };
		$other .= $said if defined $said && $said !~ /is not held with token|terminating connection|server closed|connection to server was lost/;
		begin_worker($n);
	}
}
sql(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'CALL work()%' AND pid <> pg_backend_pid()});
end_session($_) for values %workers;
my $seconds = seconds_since($began);

note(sql('SELECT name, held FROM fence') . ' ' . sql('SELECT count(*) FROM did') . ' ' . sql('SELECT count(*) FROM took') . " $kills kills $crashes crashes");
is($other, '', 'nobody met another error than that his lock was gone');
is(sql('SELECT what, count(*) FROM wrong GROUP BY 1'), '', 'never two at a time, and never a smaller token after a greater one');
cmp_ok(sql('SELECT min(held) FROM fence'), '>', 20, 'they were held many times');
is(sql(q{SELECT count(*) FROM did d LEFT JOIN pgq_ext.run r ON r.name = 'each' AND r.token = d.token WHERE r.finished_at IS NULL}), '0', 'what was done is done, once in its period');
cmp_ok(sql('SELECT count(*) FROM did'), '>', 5, 'runs were done');
is(sql(q{SELECT pgq_run_once('seen') IS NULL}), 't', 'what was done before is done');
my $took = sql('SELECT count(*) FROM took');
cmp_ok($took, '<=', 20 * ($seconds + 1), 'the rate was kept');
cmp_ok($took, '>', 20, '... and used');
wait_for($node, q{count(*) = 0 FROM pgq_ext.held_lock});
wait_for($node, q{used = 0 FROM pgq_ext.capacity WHERE name = 'locks and runs held'});
pass('nothing is left behind');
done_testing();
