# Counters of queues are compared with a count by the clients, which write down their calls and the times: with calls
# that are rolled back, prepared, or cut off by a crash. How long jobs wait and run is compared with the times that
# clients saw before and after, so the result does not depend on the speed of the machine.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\n");
create_queue($node, 'load', "max_depth => 30, max_attempts => 3, log_attempts => 'all', lease_time => '1 h'");
create_queue($node, 'idle');
wait_for_scheduler($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

my @counters = qw(enqueued deduplicated claims empty_claims handed_out acked failed released cancelled lost dead_lettered
  expired uncounted stale_calls rejected ghosts);

# [wait, run, total]: how many of each
sub phases
{
	my ($queue) = @_;
	return sql(qq{SELECT string_agg(count::text, ' ' ORDER BY phase DESC) FROM pgq_ext.queue_latency
		WHERE queue = '$queue' AND le_seconds = 'Infinity'}) =~ s/^(\d+) (\d+) (\d+)$/$1 $3 $2/r;
}

sub counted
{
	my ($queue, @which) = @_;
	return sql("SELECT concat_ws(' ', " . join(', ', @which) . ") FROM pgq_ext.queue_stats WHERE queue = '$queue'");
}

# ---- a load of everything ----

sql(q{
CREATE TABLE ledger (what text, n bigint);
-- a hand-out that has not been undone: when its claim was called and had returned, when its end was about to be committed, and was
CREATE TABLE seen (job_id bigint, lease bigint, enqueued_at timestamptz, run_at timestamptz, acked boolean,
	called timestamptz, had timestamptz, ending timestamptz, ended timestamptz);

CREATE FUNCTION plus(ledger jsonb, what text, n int = 1) RETURNS jsonb LANGUAGE sql AS
$$SELECT ledger || jsonb_build_object(what, coalesce((ledger ->> what)::int, 0) + n)$$;

-- A job that has a key, mostly of somebody else.
CREATE FUNCTION enqueue_keyed(INOUT n jsonb) LANGUAGE plpgsql AS $$
DECLARE
	tag jsonb := to_jsonb(gen_random_uuid());
	id bigint := pgq_enqueue('load', tag, unique_key => 'key ' || (random() * 3)::int);
BEGIN
	n := plus(n, CASE WHEN EXISTS (SELECT FROM pgq_ext.job WHERE job_id = id AND payload = tag) THEN 'enqueued' ELSE 'deduplicated' END);
END $$;

CREATE FUNCTION enqueue(INOUT n jsonb, keyed boolean) LANGUAGE plpgsql AS $$
BEGIN
	IF keyed THEN
		n := enqueue_keyed(n);
	ELSE
		PERFORM pgq_enqueue('load', '0', delay => random() * interval '20 ms');
		n := plus(n, 'enqueued');
	END IF;
EXCEPTION WHEN SQLSTATE 'PQ002' THEN
	n := plus(n, 'rejected');
END $$;

-- Undone to a savepoint, with all that it has written down.
CREATE FUNCTION undo(INOUT n jsonb) LANGUAGE plpgsql AS $$
DECLARE
	got boolean;
BEGIN
	BEGIN
		PERFORM pgq_enqueue('load', '0', unique_key => 'key 1');
		SELECT count(pgq_ack(job_id, lease)) > 0 INTO got FROM pgq_claim('load');
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		n := plus(n, 'claims');
		n := plus(plus(n, 'handed_out', got::int), 'lost', got::int);
		n := plus(n, 'empty_claims', (NOT got)::int);
	WHEN SQLSTATE 'PQ002' THEN
		n := plus(n, 'rejected');
	END;
END $$;

CREATE FUNCTION say_stale(INOUT n jsonb, id bigint, lease bigint) LANGUAGE plpgsql AS $$
BEGIN
	n := plus(n, 'stale_calls');
	CASE (random() * 6)::int
		WHEN 0 THEN PERFORM pgq_ack_many(ARRAY[id], ARRAY[lease]);
		WHEN 1 THEN PERFORM pgq_fail(id, lease);
		WHEN 2 THEN PERFORM pgq_release(id, lease);
		WHEN 3 THEN PERFORM pgq_extend(id, lease);
		WHEN 4 THEN PERFORM pgq_assert_lease(id, lease);
		WHEN 5 THEN PERFORM pgq_progress(id, lease, '1');
		ELSE PERFORM pgq_ack(id, lease);
	END CASE;
EXCEPTION WHEN SQLSTATE 'PQ001' THEN NULL;
END $$;

CREATE FUNCTION finish(INOUT n jsonb, id bigint, lease bigint, how text) LANGUAGE plpgsql AS $$
BEGIN
	CASE how
		WHEN 'acked' THEN PERFORM pgq_ack(id, lease);
		WHEN 'failed' THEN PERFORM pgq_fail(id, lease, retry_in => '10 ms', retry => random() < 0.5);
		WHEN 'released' THEN PERFORM pgq_release(id, lease);
		WHEN 'cancelled' THEN PERFORM pgq_cancel(id);
	END CASE;
	n := plus(n, how);
END $$;

CREATE PROCEDURE work(rounds int) LANGUAGE plpgsql AS $$
DECLARE
	n jsonb := '{}';
	undone jsonb;
	job record;
	how text;
	called timestamptz;
	had timestamptz;
	ending timestamptz;
BEGIN
	FOR i IN 1 .. rounds LOOP
		undone := n;
		n := enqueue(n, random() < 0.5);
		IF random() < 0.2 THEN
			ROLLBACK;
			-- that it was refused, if it was, counts all the same
			n := plus(undone, 'rejected', (coalesce((n ->> 'rejected')::int, 0) - coalesce((undone ->> 'rejected')::int, 0)));
		ELSE
			COMMIT;
		END IF;
		n := undo(n);
		COMMIT;
		called := clock_timestamp();
		how := (ARRAY['acked', 'acked', 'failed', 'released', 'cancelled'])[1 + (random() * 4)::int];
		SELECT * INTO job FROM pgq_claim_any('{load,idle}', wait => random() * interval '3 ms');
		had := clock_timestamp();
		n := plus(n, 'claims');
		IF job.job_id IS NULL THEN
			n := plus(n, 'empty_claims');
			COMMIT;
			CONTINUE;
		END IF;
		n := plus(n, 'handed_out');
		CASE (random() * 3)::int
			WHEN 0 THEN -- all of it undone: the attempt is lost
				n := plus(n, 'lost');
				undone := finish(n, job.job_id, job.lease, 'acked');
				ROLLBACK;
				CONTINUE;
			WHEN 1 THEN -- in a transaction of its own, the second time
				COMMIT;
				PERFORM pg_sleep(random() * 0.005);
				n := say_stale(n, job.job_id, job.lease - 1);
				undone := finish(n, job.job_id, job.lease, 'failed');
				ROLLBACK;
			ELSE -- in one transaction
				NULL;
		END CASE;
		n := finish(n, job.job_id, job.lease, how);
		ending := clock_timestamp();
		COMMIT;
		INSERT INTO seen VALUES (job.job_id, job.lease, job.enqueued_at, job.run_at, how = 'acked', called, had, ending, clock_timestamp());
		COMMIT;
		IF random() < 0.3 THEN
			n := say_stale(n, job.job_id, job.lease);
			ROLLBACK;
		END IF;
	END LOOP;
	INSERT INTO ledger SELECT key, value::bigint FROM jsonb_each_text(n);
	COMMIT;
END $$;
});

# More jobs than there is room for, at least once.
my $before = monotonic();
$node->pgbench('-n -c 4 -j 2 -t 1', 0, [qr/processed: 4\/4/], [qr/^(?!.*(?:ERROR|aborted))/s], 'clients that write down what they do',
	{ work => q{CALL work(120);} });
sql(q{DO $$ DECLARE n jsonb := '{}'; BEGIN
	WHILE NOT n ? 'rejected' LOOP n := enqueue(n, false); END LOOP;
	INSERT INTO ledger SELECT key, value::bigint FROM jsonb_each_text(n);
END $$});
wait_for($node, q{handed_out = acked + failed + released + cancelled + lost + uncounted FROM pgq_ext.queue_stats WHERE queue = 'load'});

# The dead letters are there to be counted; what nobody did has not happened. Ghosts are what was cancelled, changed or moved.
my @told = grep { !/^(dead_lettered|ghosts)$/ } @counters;
my $ledger = join ' ', map { sql("SELECT coalesce(sum(n), 0) FROM ledger WHERE what = '$_'") } @told;
is(counted('load', @told), $ledger, join(', ', @told) . ': as the clients have counted');
is(counted('load', 'dead_lettered'), sql(q{SELECT count(*) FROM pgq_ext.dead_job}), '... and dead_lettered');
is(sql(q{SELECT count(*) FROM unnest('{enqueued,deduplicated,empty_claims,acked,failed,released,cancelled,lost,stale_calls,rejected}'::text[]) w
	WHERE NOT EXISTS (SELECT FROM ledger WHERE what = w AND n > 0)}), '0', 'there was something of each');
is(sql(q{SELECT claims > 0, claims - empty_claims, handed_out FROM pgq_ext.queue_stats WHERE queue = 'idle'}), 't|0|0', 'of a queue that has nothing every claim is empty');

# ---- how long ----

# Microseconds, at least and at most.
sql(q{
CREATE FUNCTION us(interval) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT (extract(epoch FROM $1) * 1000000)::bigint';
CREATE TABLE outside AS
SELECT p.* FROM seen s JOIN pgq_ext.attempt a USING (job_id, lease), LATERAL (VALUES
	('wait', true, greatest(us(a.claimed_at - greatest(s.enqueued_at, s.run_at)), 0), greatest(us(a.claimed_at - greatest(s.enqueued_at, s.run_at)), 0)),
	('run', true, us(ending - had), us(ended - called)),
	('total', acked, us(a.claimed_at - s.enqueued_at) + us(ending - had), us(a.claimed_at - s.enqueued_at) + us(ended - called))) p (phase, counts, least, most)
WHERE counts;
});
is(sql('SELECT count(*) FROM outside'), sql('SELECT 2 * count(*) + count(*) FILTER (WHERE acked) FROM seen'), 'every attempt has its record');
is(sql(q{SELECT count(*) FROM seen WHERE acked}) . ' ' . sql('SELECT count(*) FROM seen'),
	counted('load', 'acked', 'acked + failed + released + cancelled'), '... and its end');
is(sql(q{SELECT phase, le_seconds, count FROM pgq_ext.queue_latency l WHERE queue = 'load' AND NOT count BETWEEN
	(SELECT count(*) FROM outside o WHERE o.phase = l.phase AND o.most < round(le_seconds * 1e6)) AND
	(SELECT count(*) FROM outside o WHERE o.phase = l.phase AND o.least < round(le_seconds * 1e6))}), '', 'so many were shorter than each boundary');
is(sql(q{SELECT l.phase FROM pgq_ext.queue_latency l WHERE queue = 'load' AND NOT round(sum_seconds * 1e6) BETWEEN
	(SELECT sum(least) FROM outside o WHERE o.phase = l.phase) AND (SELECT sum(most) FROM outside o WHERE o.phase = l.phase)}), '', 'so long were all together');

# Within a sixteenth, and a microsecond for rounding.
my $percentiles = q{SELECT phase, percent, shown, least, most FROM pgq_ext.queue_stats,
	LATERAL (VALUES ('wait', 50, wait_p50), ('wait', 95, wait_p95), ('run', 50, run_p50), ('run', 95, run_p95), ('total', 50, total_p50), ('total', 95, total_p95)) p (phase, percent, shown),
	LATERAL (SELECT percentile_disc(percent / 100.0) WITHIN GROUP (ORDER BY o.least), percentile_disc(percent / 100.0) WITHIN GROUP (ORDER BY o.most) FROM outside o WHERE o.phase = p.phase) o (least, most)
	WHERE queue = 'load' AND (us(shown) BETWEEN least * 15 / 16 - 1 AND most * 17 / 16 + 1) IS NOT TRUE};
my $late = sql($percentiles);
SKIP:
{
	skip 'the load took longer than what "of late" covers', 1 if seconds_since($before) >= 300;
	is($late, '', 'half of them, and 95 %, were as long as p50 and p95 say');
}

# ---- a claim that waits ----

create_queue($node, 'w');
my $waiter = session($node);
my $pid    = pid_of($waiter);
send_sql($waiter, q{SELECT job_id FROM pgq_claim('w', wait => '60 s')});
wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'w'});
is(counted('w', qw(claims empty_claims)), '1 0', 'a claim that waits is not empty yet');
sql("SELECT pg_cancel_backend($pid)");
reply($waiter);
is(counted('w', qw(claims empty_claims)), '1 0', '... nor when it is cancelled');
send_sql($waiter, q{SELECT count(*) FROM pgq_claim('w', wait => '60 s')});
wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'w'});
sql(q{SELECT pgq_enqueue('w', '1')});
like((reply($waiter))[0], qr/1/, 'one that gets a job');
is(counted('w', qw(claims empty_claims handed_out)), '2 0 1', '... is one, however often it has looked');
end_session($waiter);

# ---- prepared ----

create_queue($node, 'p', "lease_time => '1 h'");
sql(q{SELECT pgq_enqueue('p', to_jsonb(i)) FROM generate_series(1, 3) i; SELECT pgq_enqueue('p', '"keyed"', -1, unique_key => 'k')});
my $all = q{BEGIN; SELECT pgq_ack(job_id, lease) FROM pgq_claim('p'); SELECT job_id FROM pgq_claim('p'); SELECT pgq_enqueue('p', '0', unique_key => 'k');};
sql("$all PREPARE TRANSACTION 'a'");
is(phases('p') . ' ' . counted('p', 'deduplicated'), '0 0 0 0', 'what was prepared is not counted yet');
sql(q{ROLLBACK PREPARED 'a'});
wait_for($node, q{lost = 2 FROM pgq_ext.queue_stats WHERE queue = 'p'});
is(phases('p') . ' ' . counted('p', 'deduplicated'), '0 0 0 0', '... nor when it is rolled back');
sql("$all PREPARE TRANSACTION 'b'");
sql(q{COMMIT PREPARED 'b'});
wait_for($node, q{deduplicated = 1 AND acked = 1 FROM pgq_ext.queue_stats WHERE queue = 'p'});
is(phases('p'), '2 1 1', '... but when it is committed: two waits, and an end');

# ---- restarts: what was before them nobody knows, but how old a job is ----

create_queue($node, 'r', "lease_time => '1 h'");
my @jobs = map { [ split /\|/ ] } split /\n/,
  sql(q{SELECT pgq_enqueue('r', to_jsonb(i)) FROM generate_series(1, 2) i; SELECT job_id, lease FROM pgq_claim('r', 2)}) =~ s/^\d+\n\d+\n//r;
is(phases('r'), '2 0 0', 'two in work');
$node->restart;
wait_for($node, q{count(*) = 2 FROM pgq_ext.lease WHERE queue = 'r'});
is(phases('r'), '0 0 0', 'after a restart they are in work yet, and nothing is counted');
sql("SELECT pgq_ack($jobs[0][0], $jobs[0][1])");
is(phases('r') . ' ' . counted('r', 'acked'), '0 0 1 1', '... but the age of one that ends');
$node->stop('immediate');
$node->start;
sql("SELECT pgq_ack($jobs[1][0], $jobs[1][1])");
is(phases('r') . ' ' . counted('r', 'acked'), '0 0 1 1', 'after a crash the same, of a late ack');
is(sql(q{SELECT total_p50 IS NOT NULL AND run_p50 IS NULL FROM pgq_ext.queue_stats WHERE queue = 'r'}), 't', '... as the percentiles say');
is(sql('SELECT * FROM pgq_check()'), '', 'all is well');

$node->stop;
done_testing();
