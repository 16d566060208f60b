# Many sessions use one queue: each job goes to exactly one worker, in order, even if shared memory is very small.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.window_size = 64\npgq_ext.timer_size = 64\npgq_ext.max_leases = 2000");

# A clean stop would save them.
sub forget_leases
{
	$node->stop('immediate');
	$node->start;
	return;
}

sub restart_with
{
	my (%setting) = @_;
	$node->append_conf('postgresql.conf', join '', map { "pgq_ext.$_ = $setting{$_}\n" } sort keys %setting);
	forget_leases();
	return;
}

# ---- one holder ----

# What producers committed, what consumers did; the keys and checks are the test.
$node->safe_psql('postgres', q{
	CREATE TABLE produced (job_id bigint PRIMARY KEY);
	CREATE TABLE held (job_id bigint PRIMARY KEY, lease bigint NOT NULL);
	CREATE TABLE done (job_id bigint PRIMARY KEY, attempt int NOT NULL);
	CREATE SEQUENCE lost;

	-- The whole job in one transaction.
	CREATE FUNCTION work_at_once(queue text, most int) RETURNS bigint LANGUAGE sql AS $$
		WITH c AS MATERIALIZED (SELECT * FROM pgq_claim(queue, most)),
		     d AS (INSERT INTO done SELECT job_id, attempt FROM c)
		SELECT count(pgq_ack(job_id, lease)) FROM c
	$$;

	-- Claimed and given up: by an error that is caught, in a subtransaction.
	CREATE FUNCTION give_up(queue text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM nextval('lost') FROM pgq_claim(queue, 2);
		RAISE 'changed my mind';
	EXCEPTION WHEN raise_exception THEN
	END $$});

# Work as separate statements and transactions, as a worker outside does it.
my $in_steps = q{
	SELECT coalesce(max(job_id), 0) AS id, coalesce(max(lease), 0) AS lease, coalesce(max(attempt), 0) AS attempt
	FROM pgq_claim(:queue, wait => '20 ms') \gset
	\if :id > 0
		INSERT INTO held VALUES (:id, :lease);
		BEGIN;
		DELETE FROM held WHERE job_id = :id AND lease = :lease;
		INSERT INTO done VALUES (:id, :attempt);
		SELECT pgq_ack(:id, :lease);
		COMMIT;
	\endif};
my %script = (
	'01_produce@4' => q{
		\set priority random(-2, 2)
		\set delay random(-40, 40)
		BEGIN;
		INSERT INTO produced SELECT pgq_enqueue(:queue, '{}', :priority,
			delay => make_interval(secs => greatest(0, :delay) / 1000.0));
		COMMIT;},
	'02_produce_in_bulk@1' => q{
		INSERT INTO produced SELECT pgq_enqueue_many(:queue, (SELECT jsonb_agg('{"payload": 1}'::jsonb) FROM generate_series(1, 9)));},
	'03_produce_nothing@1' => q{
		BEGIN;
		SELECT pgq_enqueue(:queue, '"never committed"') FROM generate_series(1, 5);
		SAVEPOINT s;
		SELECT pgq_enqueue(:queue, '"never committed either"', priority => 5);
		RELEASE s;
		ROLLBACK;},
	'04_work_in_steps@6' => $in_steps,
	'05_work_at_once@3' => q{
		\set most random(1, 7)
		SELECT work_at_once(:queue, :most);},
	'06_give_up@1' => q{SELECT give_up(:queue);},
	'07_roll_back@1' => q{
		BEGIN;
		SELECT nextval('lost') FROM pgq_claim(:queue);
		ROLLBACK;});

# What 16 sessions do in no order at all. A violated key, a stale lease, a deadlock: pgbench complains.
sub run_sessions
{
	my ($queue, $transactions, $backlog) = @_;
	$node->safe_psql('postgres', 'TRUNCATE produced, held, done; ALTER SEQUENCE lost RESTART');
	$node->safe_psql('postgres', "SELECT pgq_create_queue('$queue', max_attempts => 1000, notify => false,
		backoff_base => '10 ms', backoff_max => '50 ms');
		INSERT INTO produced SELECT pgq_enqueue('$queue', '{}', i % 4 - 2) FROM generate_series(1, $backlog) i");
	my %numbered = map { my $name = $_; ("${queue}_$name" => "\\set queue '$queue'\n$script{$name}") } keys %script;
	s/:queue\b/'$queue'/g for values %numbered;
	s/^.*set queue.*\n//  for values %numbered;
	$node->pgbench("-n -c 16 -j 2 -t $transactions", 0, [qr/processed: (\d+)\/\1\b/], [qr/^(?!.*(?:ERROR|aborted))/s],
		"$queue: 16 sessions", \%numbered);

	# The rest, until nothing is left.
	for (1 .. 600)
	{
		my ($n, $left) = split /\|/, $node->safe_psql('postgres', "SELECT work_at_once('$queue', 100);
			SELECT count(*) FROM pgq_ext.job_status WHERE queue = '$queue'") =~ s/\n/|/r;
		last if $left == 0;
		select(undef, undef, undef, 0.05) if $n == 0;
	}
	is($node->safe_psql('postgres', q{
		SELECT count(*) FILTER (WHERE p.job_id IS NULL) || ' too many, ' || count(*) FILTER (WHERE d.job_id IS NULL) || ' missing'
		FROM produced p FULL JOIN done d USING (job_id)}),
		'0 too many, 0 missing', "$queue: every committed job was done, once, and no other");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM held'), '0', "$queue: every holder had it to itself");
	is($node->safe_psql('postgres', q{SELECT sum(attempt - 1) - (SELECT last_value FROM lost WHERE is_called) FROM done}),
		'0', "$queue: every lost attempt was counted, once");
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM done'), '>', $backlog + $transactions * 4, "$queue: that was work");
	is($node->safe_psql('postgres', "SELECT enqueued - acked || ', ' || handed_out - acked - lost
			FROM pgq_ext.queue_stats WHERE queue = '$queue'"),
		'0, 0', "$queue: the counters add up");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.lease_entries()'), '0', "$queue: no lease is left");
	return;
}

# ---- order ----

# Claims all that is ready, in pieces of the given size: by priority, run_at and id, to the letter (protocol: pop-is-exact). Returns how many.
sub check_order
{
	my ($queue, $piece) = @_;
	return $node->safe_psql('postgres', qq{
		DO \$\$
		DECLARE
			got bigint[] := '{}';
			piece bigint[];
			expected bigint[];
		BEGIN
			SELECT array_agg(job_id ORDER BY priority DESC, run_at, job_id) INTO expected
			FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id)
			WHERE queue = '$queue' AND run_at <= clock_timestamp();
			LOOP
				SELECT array_agg(job_id ORDER BY n) INTO piece
				FROM pgq_claim('$queue', $piece) WITH ORDINALITY AS c(job_id,l,q,p,h,g,pr,a,m,e,r,x,le,n);
				EXIT WHEN piece IS NULL;
				got := got || piece;
			END LOOP;
			IF got IS DISTINCT FROM expected THEN
				FOR i IN 1 .. greatest(cardinality(got), cardinality(expected)) LOOP
					IF got[i] IS DISTINCT FROM expected[i] THEN
						RAISE NOTICE 'at % of %: got % (%), expected %', i, cardinality(expected), got[i], cardinality(got), expected[i];
						EXIT;
					END IF;
				END LOOP;
				RAISE 'wrong order';
			END IF;
		END \$\$; SELECT count(*) FROM pgq_ext.lease WHERE queue = '$queue'});
}

sub order_ok
{
	my ($queue, $jobs, $piece, $what) = @_;
	my $n = eval { check_order($queue, $piece) };
	is($n, $jobs, "order: $what") or diag $@;
	return;
}

# A backlog of priorities and times, committed in transactions large and small, with savepoints and holes.
sub fill
{
	my ($queue, $many, $few) = @_;
	$node->safe_psql('postgres', "SELECT pgq_create_queue('$queue', notify => false)");
	$node->safe_psql('postgres', qq{
		SELECT pgq_enqueue('$queue', to_jsonb(i), i * 7 % 5, run_at => now() - i * 37 % 101 * interval '1 s')
		FROM generate_series(1, $many) i;
		DO \$\$ BEGIN
			FOR i IN 1 .. $few LOOP
				PERFORM pgq_enqueue('$queue', to_jsonb(i), i * 3 % 7, delay => i % 3 * interval '1 ms');
				BEGIN
					PERFORM pgq_enqueue('$queue', '"undone"', 100);
					PERFORM 1 / (i % 2);
				EXCEPTION WHEN division_by_zero THEN
				END;
				IF i % 3 = 0 THEN COMMIT; END IF;
			END LOOP;
		END \$\$;
		BEGIN;
		SELECT pgq_enqueue('$queue', '"rolled back"', 100) FROM generate_series(1, $few);
		ROLLBACK;
		SELECT pgq_enqueue('$queue', '"next year"', 100, delay => '1 year')});
	return;
}

sub ready
{
	my ($queue) = @_;
	wait_for($node, "count(*) = 1 FROM pgq_ext.job_status WHERE queue = '$queue' AND state = 'scheduled'");
	return $node->safe_psql('postgres', "SELECT count(*) FROM pgq_ext.job_status WHERE queue = '$queue' AND state = 'ready'");
}

# Jobs of the highest priority, and then jobs that become due, are in front of a window that is full of others.
sub overtaking_ok
{
	my ($queue) = @_;
	$node->safe_psql('postgres', "SELECT pgq_create_queue('$queue', notify => false);
		SELECT pgq_enqueue('$queue', to_jsonb(i)) FROM generate_series(1, 500) i");
	is($node->safe_psql('postgres', qq{
		SELECT payload FROM pgq_claim('$queue');
		SELECT pgq_enqueue('$queue', '"a"', 1) FROM generate_series(1, 1);
		SELECT pgq_enqueue('$queue', '"b"', 1, run_at => now() - interval '1 day');
		SELECT pgq_enqueue('$queue', '"c"', 2, delay => '200 ms')})
		=~ s/\n.*//sr, '1', "$queue: the backlog is in the window");
	wait_for($node, "count(*) = 0 FROM pgq_ext.job_status WHERE queue = '$queue' AND state = 'scheduled'");
	is($node->safe_psql('postgres', "SELECT payload FROM pgq_claim('$queue', 5)") =~ s/\n/ /gr,
		'"c" "b" "a" 2 3', "$queue: what comes later but goes first overtakes it");
	return;
}

run_sessions('w64', 250, 2000);

fill('one', 700, 101);
fill('seven', 700, 101);
fill('all', 1500, 11);
order_ok('one', ready('one'), 1, 'a claim for each job, backlog larger than the window');
order_ok('seven', ready('seven'), 7, 'seven jobs a claim');

# ---- a bound reached ----

is($node->safe_psql('postgres', "SELECT count(*) FROM pgq_claim('all', 1000)"),
	2000 - $node->safe_psql('postgres', "SELECT count(*) FROM pgq_ext.lease WHERE queue <> 'all'"),
	'max_leases reached: fewer jobs');
my ($state, $message) = sqlstate($node, "SELECT * FROM pgq_claim('all')");
is($state, '53400', 'max_leases reached: an error, not a false "empty"');
like($message, qr/pgq_ext\.max_leases/, '... that names the setting');
$node->safe_psql('postgres', "SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE queue = 'seven'");

forget_leases();
order_ok('one', ready('one'), 64, 'again after a restart, a window each claim');
overtaking_ok('overtake64');

# ---- almost no memory ----

for my $sizes ([ 1, 1 ], [ 2, 8 ], [ 8, 3 ])
{
	my ($window, $timer) = @$sizes;
	my $name = "w${window}t$timer";
	restart_with(window_size => $window, timer_size => $timer);
	run_sessions($name, 40, 100);
	fill("o$name", 60, 31);
	order_ok("o$name", ready("o$name"), 3, "window $window, timer $timer");
	overtaking_ok("overtake$name");
}
$node->stop;

done_testing();
