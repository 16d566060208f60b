# The live jobs of a queue are never more than its max_depth, whatever other sessions do at the same time, and all of
# that room can be used.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 20\nrestart_after_crash = on\n");
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }
# As sqlstate does, returns (SQLSTATE, messages).
sub state_of
{
	my ($sql) = @_;
	my $text = eval { sql("\\set VERBOSITY verbose\n$sql"); 1 } ? '' : $@;
	my ($state) = $text =~ /ERROR:  ([0-9A-Z]{5}): /;
	return wantarray ? ($state // '', $text) : $state // '';
}
sub new_queue { my ($max) = @_; sql(qq{SELECT pgq_create_queue('q', max_depth => $max, lease_time => '1 day', backoff_base => '1 h')}); return }
sub enqueue { my ($n) = @_; return sql("SELECT count(*) FROM pgq_enqueue_many('q', (SELECT jsonb_agg('{\"payload\": 1}'::jsonb) FROM generate_series(1, $n)))") }
sub is_full { my ($n, $what) = @_; my ($state, $text) = state_of("SELECT pgq_enqueue_many('q', (SELECT jsonb_agg('{\"payload\": 1}'::jsonb) FROM generate_series(1, $n)))"); is($state, 'PQ002', $what); return $text }
sub live { return sql('SELECT count(*) FROM pgq_ext.job') }
sub drop_queue { my ($what) = @_; is(sql('SELECT * FROM pgq_check()'), '', "... all is well $what"); sql(q{SELECT pgq_drop_queue('q', force => true)}); return }
# Nothing is on its way: what is counted lives, and all of the room but that can be used.
sub is_exact
{
	my ($max, $what) = @_;
	my $live = live();
	is(enqueue($max - $live), $max - $live, "$what: there is room for all that may live") if $live < $max;
	like(is_full(1, '... and no more'), qr/The queue has $max jobs, max_depth is $max,/, '... as the error says') if $live <= $max;
	is(sql('SELECT depth FROM pgq_ext.queue_status'), live(), '... and the view');
	return;
}

# ---- prepared transactions ----

# The session that prepares ends.
sub prepare { my ($statements, $name) = @_; return $node->safe_psql('postgres', "BEGIN; $statements; PREPARE TRANSACTION '" . ($name // 'p') . "'") }
for my $end ('COMMIT', 'ROLLBACK')
{
	new_queue(3);
	enqueue(1);
	prepare(q{SAVEPOINT s; SELECT pgq_enqueue('q', '1'); RELEASE s; SELECT pgq_enqueue('q', '2')});
	is_full(1, 'what is prepared has its room');
	sql("$end PREPARED 'p'");
	$end eq 'COMMIT' ? is_full(1, '... keeps it when it commits') : is(enqueue(2), 2, '... gives it back when it does not');
	my ($job, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')});
	prepare("SELECT pgq_ack($job, $lease)");
	is_full(1, 'what it ends lives until then');
	sql("$end PREPARED 'p'");
	$end eq 'COMMIT' ? is(enqueue(1), 1, '... and then no more') : is_full(1, '... and longer if it is rolled back');
	($job, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q') ORDER BY 1 LIMIT 1});
	prepare("SELECT pgq_ack($job, $lease); SELECT pgq_enqueue('q', '\"next\"')");
	is_full(1, 'one that enqueues what it has room for by what it ends');
	sql("$end PREPARED 'p'");
	is_full(1, "... leaves none after $end PREPARED");
	prepare(q{DELETE FROM pgq_ext.job WHERE job_id = (SELECT max(job_id) FROM pgq_ext.job)});
	sql("$end PREPARED 'p'");
	wait_for($node, 'count(*) = 0 FROM pg_prepared_xacts');
	is_exact(3, "after $end PREPARED of a delete");
	drop_queue("after $end PREPARED");
}

# ---- crashes and restarts ----

new_queue(10);
sql(q{SELECT pgq_create_queue('beside', max_depth => 5), pgq_enqueue('beside', '1')});
enqueue(6);
sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', 2)});
$node->restart;
is(enqueue(5), '5', 'after a restart the first one counts, if the scheduler has not');
is_full(2, '... what lives from before');
sql(q{SELECT pgq_drop_queue('beside', force => true)});
is_exact(10, 'after a restart');
for my $end ('COMMIT', 'ROLLBACK')
{
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', 6)});
	prepare(q{SELECT pgq_enqueue('q', '1'); SAVEPOINT s; SELECT pgq_enqueue('q', '2'); RELEASE s}, 'in');
	prepare(q{DELETE FROM pgq_ext.job WHERE job_id IN (SELECT min(job_id) FROM pgq_ext.job)}, 'out');
	$node->stop('immediate');
	$node->start;
	is(enqueue(4), '4', 'after a crash what is prepared has its room yet');
	is_full(1, '... and what it ends lives');
	sql("$end PREPARED 'in'");
	wait_for($node, q{depth = (SELECT count(*) FROM pgq_ext.job) FROM pgq_ext.queue_status});
	$end eq 'COMMIT' ? is_full(1, '... also when it has committed') : is(enqueue(2), '2', '... and not when it has not');
	sql("$end PREPARED 'out'");
	is_exact(10, "after a crash and $end PREPARED");
}
sql(q{SELECT pgq_cancel(job_id) FROM (SELECT job_id FROM pgq_ext.job LIMIT 4) j});
my $session = session($node);
ask($session, 'BEGIN');
ask($session, q{SELECT pgq_enqueue('q', '1')});
ask($session, q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q')});
my $pid = pid_of($session);
kill 'KILL', $pid;
wait_until_down($pid);
$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'the server does not come back';
is_exact(10, 'after a backend was killed');

# ---- raised and lowered ----

sql(q{SELECT pgq_alter_queue('q', max_depth => 12)});
is_exact(12, 'raised');
sql(q{SELECT pgq_alter_queue('q', max_depth => 8)});
is(live(), '12', 'who lives when it is lowered goes on');
like(is_full(1, '... nobody else comes'), qr/The queue has 12 jobs, max_depth is 8,/, '... as the error says');
sql(q{SELECT pgq_cancel(job_id) FROM (SELECT job_id FROM pgq_ext.job LIMIT 4) j});
is_full(1, '... until there are fewer');
sql(q{SELECT pgq_cancel(job_id) FROM (SELECT job_id FROM pgq_ext.job LIMIT 1) j});
is_exact(8, 'lowered');
# by hand, which the scheduler notices
sql(q{UPDATE pgq_ext.queue SET max_depth = 9});
$node->poll_query_until('postgres', q{SELECT pgq_enqueue('q', '1') > 0}) or die 'the limit that was raised by hand is not noticed';
is_exact(9, 'raised by hand');

# ---- deleted by hand ----

my @counts = map { session($node) } 1 .. 2;
for (1 .. 3)
{
	sql(q{DELETE FROM pgq_ext.job WHERE job_id IN (SELECT job_id FROM pgq_ext.job LIMIT 3)});
	ask($session = session($node), 'BEGIN; DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(job_id) FROM pgq_ext.job)');
	send_sql($_, 'SELECT count(pgq_enqueue(\'q\', to_jsonb(i))) FROM generate_series(1, 2) i') for @counts;
	my @said = map { join '', reply($_) } @counts;
	is(scalar(grep { $_ eq '2' } @said), 1, 'one of two finds the room that a DELETE has left');
	is(scalar(grep { /is full/ } @said), 1, '... the other does not');
	is(live(), 8, '... and what has not committed counts');
	ask($session, 'COMMIT');
	end_session($session);
	is_exact(9, 'deleted by hand');
}
end_session($_) for @counts;

# ---- a job whose time is over ----

sql(q{SELECT pgq_purge_queue('q')});
sql(q{SELECT pgq_enqueue('q', '1', expires_in => '1 ms')});
wait_for($node, q{count(*) = 0 FROM pgq_ext.job});
wait_for($node, q{depth = 0 FROM pgq_ext.queue_status WHERE queue = 'q'});
is_exact(9, 'after an expiry');
drop_queue('so far');

# ---- a job that somebody else has just moved, by hand, to where it is to go, or away from there ----

new_queue(10);
sql(q{SELECT pgq_create_queue('beside', max_depth => 10), pgq_enqueue('beside', '1')});
enqueue(1);
for my $queue (qw(q beside))
{
	my $job = sql("SELECT job_id FROM pgq_ext.job_status WHERE queue = '$queue'");
	my $other = $queue eq 'q' ? 'beside' : 'q';
	my ($by_hand, $update) = (session($node), session($node));
	ask($by_hand, "BEGIN; UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = '$other') WHERE job_id = $job");
	send_sql($update, "SELECT pgq_update($job, queue => 'q')");
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%pgq_update%'});
	ask($by_hand, 'COMMIT');
	is(reply($update), 't', "who updates a job that was moved from $queue to $other has waited for that");
	is(sql(q{SELECT string_agg(DISTINCT queue, ',') FROM pgq_ext.job_status}), $queue eq 'q' ? 'beside,q' : 'q', '... and moves it on');
	is(sql(q{SELECT count(*) FROM pgq_ext.queue_status WHERE depth = ready + scheduled}), 2, '... it counts where it is');
	end_session($_) for $by_hand, $update;
}
sql(q{SELECT pgq_drop_queue('beside', force => true)});
drop_queue('with jobs that two have moved');

# ---- unique keys: room is taken by who becomes the owner, and by nobody else ----

sub keyed { my ($key, $more) = @_; return "SELECT pgq_enqueue('q', '[1]', unique_key => '$key'" . ($more ? ", $more" : '') . ')' }
sub of_array { return "SELECT string_agg(id::text, ',' ORDER BY n) FROM pgq_enqueue_many('q', '[" . join(',', map { $_ ? qq({"payload": [2], "unique_key": "$_", "unique_for": "1 h", "on_conflict": "replace"}) : '{"payload": 0}' } @_) . "]') WITH ORDINALITY a(id, n)" }
sub nothing_left
{
	my ($what, @keys) = @_;
	my $keys = join ',', map { "'$_'" } @keys;
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE unique_key IN ($keys)"), 0, "$what: no job");
	is(sql("SELECT count(*) FROM pgq_ext.unique_key WHERE unique_key IN ($keys)"), 0, '... no time for which the key is taken');
	is(sql(q{SELECT count(*) FROM pgq_ext.lease_entries() WHERE state IN ('held', 'changing')}), 0, '... no job is held');
	is(sql('SELECT depth FROM pgq_ext.queue_status'), live(), '... no room is taken');
	return;
}
for my $until (qw(finished claimed))
{
	my $asked = "unique_until => '$until'";
	new_queue(3);
	my ($one, $two, $three) = map { sql(keyed($_, $asked)) } qw(one two three);
	is(sql(keyed('two', "$asked, on_conflict => '$_'")), $two, "a full queue has its keys, $until: $_") for qw(keep replace preserve_run_at append);
	is(state_of(keyed('two', "$asked, on_conflict => 'error'")), '23505', '... error');
	is(state_of(keyed('fresh', "$asked, unique_for => '1 h', on_conflict => '$_'")), 'PQ002', "a fresh key: $_") for qw(keep replace preserve_run_at append error);
	nothing_left('a fresh key in a full queue', 'fresh');
	is(sql(of_array(qw(three one one))), "$three,$one,$one", 'an array of keys that are there');
	for my $array ([qw(one fresh)], [qw(fresh one two three)], [ 'one', '' ], [qw(fresh more)], [qw(fresh fresh)])
	{
		is(state_of(of_array(@$array)), 'PQ002', 'an array of more: ' . join ',', map { $_ || 'none' } @$array);
		nothing_left('... which is refused', qw(fresh more));
	}
	ask($session = session($node), "BEGIN; SAVEPOINT s");
	like((send_sql($session, of_array(qw(one two fresh))), reply($session))[-1], qr/is full/, '... after a savepoint');
	ask($session, 'ROLLBACK TO s');
	nothing_left('... that is rolled back to', qw(fresh));
	is(ask($session, of_array('one')), $one, '... and what is there is met then');
	end_session($session);

	# What has been handed out lives; a key that it has no more needs room for its next job.
	my ($job, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')});
	my $key = sql("SELECT unique_key FROM pgq_ext.job WHERE job_id = $job");
	$until eq 'claimed' ? is(state_of(keyed($key, $asked)), 'PQ002', 'a job in work lives: no room for the next of its key')
	  : is(sql(keyed($key, $asked)), $job, 'a job in work has its key');
	my $next = $node->safe_psql('postgres', "BEGIN; SELECT pgq_ack($job, $lease) \\g /dev/null\n" . keyed($key, $asked) . '; COMMIT');
	cmp_ok($next, '>', $three, 'the next of its key, by who acknowledges it');
	is_full(1, '... and for nobody else');
	sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job WHERE unique_key = 'three'});
	is(state_of(of_array(qw(fresh more))), 'PQ002', 'room for one of two');
	nothing_left('... which are refused', qw(fresh more));
	is(state_of(of_array('fresh', '')), 'PQ002', '... also if one has no key');
	is(sql('SELECT count(*) FROM (' . of_array(qw(one fresh fresh two)) . ') a'), 1, '... and for one that comes twice');
	is(sql(q{SELECT count(*) FROM pgq_ext.job WHERE unique_key = 'fresh'}), 1, '... which is one job');
	is_exact(3, "with keys until $until");

	# who waits for the key finds the room that its owner has left, or none
	for my $end (qw(COMMIT ROLLBACK))
	{
		sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job WHERE unique_key = 'fresh' OR unique_key IS NULL});
		sql('DELETE FROM pgq_ext.unique_key');
		my ($first, $second) = (session($node), session($node));
		ask($first, 'BEGIN');
		my $owner = ask($first, keyed('fresh', $asked));
		send_sql($second, keyed('fresh', $asked));
		wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%fresh%'});
		is_full(3 - live(), 'the last room is taken');
		ask($first, $end);
		my ($answer) = reply($second);
		$end eq 'COMMIT' ? is($answer, $owner, '... who waits for it meets the owner') : cmp_ok($answer, '>', $owner, '... who waits for it takes it');
		end_session($_) for $first, $second;
		is_exact(3, "after $end of who was waited for");
	}
	drop_queue("with keys until $until");
	sql('DELETE FROM pgq_ext.unique_key');
}

# ---- at work ----

sql(q{
CREATE FUNCTION produce(n int, undo boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pgq_enqueue_many('q', (SELECT jsonb_agg('{"payload": 1}'::jsonb) FROM generate_series(1, n)));
	IF undo THEN RAISE EXCEPTION 'undone'; END IF;
	RETURN 'enqueued';
EXCEPTION WHEN SQLSTATE 'PQ002' OR raise_exception THEN RETURN SQLSTATE;
END $$;
CREATE FUNCTION keyed(a int, b int, c int, undo boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pgq_enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('payload', '[1]'::jsonb, 'unique_key', 'k' || k, 'unique_until', CASE k % 2 WHEN 0 THEN 'claimed' END,
		'on_conflict', CASE k % 3 WHEN 0 THEN 'append' END)) FROM unnest(ARRAY[a, b, c]) k));
	IF undo THEN RAISE EXCEPTION 'undone'; END IF;
	RETURN 'enqueued';
EXCEPTION WHEN SQLSTATE 'PQ002' OR raise_exception THEN RETURN SQLSTATE;
END $$;
CREATE FUNCTION revive(n int, undo boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM CASE n WHEN 0 THEN pgq_retry((SELECT min(job_id) FROM pgq_ext.dead_job))::int ELSE pgq_redrive('q', n) END;
	IF undo THEN RAISE EXCEPTION 'undone'; END IF;
	RETURN 'revived';
EXCEPTION WHEN SQLSTATE 'PQ002' OR raise_exception OR null_value_not_allowed THEN RETURN SQLSTATE;
END $$});
# full: 'OR SQLSTATE ...' if it may find no room for what is to come after what it ends.
sub consumer
{
	my ($full) = @_;
	sql(qq{
CREATE OR REPLACE FUNCTION consume(n int, next int, undo boolean) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
	job record;
BEGIN
	FOR job IN SELECT job_id, lease FROM pgq_claim('q', n) LOOP
		IF job.job_id % 7 = 0 THEN PERFORM pgq_fail(job.job_id, job.lease, retry => false);
		ELSE PERFORM pgq_ack(job.job_id, job.lease); END IF;
		IF next > 0 THEN PERFORM pgq_enqueue('q', '"next"'); END IF;
	END LOOP;
	IF undo THEN RAISE EXCEPTION 'undone'; END IF;
	RETURN 'ended';
-- somebody deletes them by hand, too
EXCEPTION WHEN SQLSTATE 'PQ001' OR raise_exception $full THEN RETURN SQLSTATE;
END \$\$;});
	return;
}
my $never = q{SELECT 1 / (count(*) <= 20)::int FROM pgq_ext.job;};
my %load = (
	'produce@4' => q{
\set n random(1, 6)
\set undo random(0, 3)
SELECT produce(:n, :undo = 0);},
	'consume@3' => q{
\set n random(1, 4)
\set next random(0, 1)
\set undo random(0, 5)
SELECT consume(:n, :next, :undo = 0);},
	'subtransactions@1' => q{
BEGIN;
SELECT produce(2, false);
SAVEPOINT s;
SELECT consume(2, 1, false);
SAVEPOINT t;
SELECT produce(1, false);
ROLLBACK TO t;
SELECT produce(1, false);
RELEASE s;
COMMIT;},
	'prepared@1' => q{
\set n random(1, 2)
BEGIN;
SELECT consume(:n, 1, false);
SELECT produce(:n, false);
PREPARE TRANSACTION 'p:client_id';
\if :n = 1
COMMIT PREPARED 'p:client_id';
\else
ROLLBACK PREPARED 'p:client_id';
\endif},
	'keyed@2' => q{
\set a random(1, 9)
\set b random(1, 9)
\set c random(1, 9)
\set undo random(0, 3)
SELECT keyed(:a, :b, :c, :undo = 0);},
	'revive@1' => q{
\set n random(0, 3)
\set undo random(0, 3)
SELECT revive(:n, :undo = 0);},
	'by_hand@1' => q{DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(job_id) FROM pgq_ext.job_status WHERE state = 'ready');},
	'look@3'    => $never);
sub load
{
	my ($what, $transactions, %more) = @_;
	my %scripts = (%load, %more);
	%scripts = map { ("$transactions $_" =~ s/ /_/r => $scripts{$_}) } keys %scripts;
	$node->pgbench("-n -c 8 -j 2 -t $transactions", 0, [qr/processed: (\d+)\/\1\b/], [qr/^(?!.*(?:ERROR|aborted))/s], $what, \%scripts);
	# What a prepared transaction did is known soon after it has ended, and leases that were lost are counted.
	wait_for($node, q{sum(leased) = 0 FROM pgq_ext.queue_status});
	return;
}

sql(q{SELECT pgq_create_queue('q', max_depth => 20, lease_time => '1 day', backoff_base => '0')});
consumer('');
load('never more than may live, at any moment', 150);
cmp_ok(sql(q{SELECT enqueued FROM pgq_ext.queue_stats}), '>', 100, '... and many have');
is(sql('SELECT * FROM pgq_check()'), '', '... all is well');
is_exact(20, 'after it');

# Counted again and again, while there is work.
load('it is counted anew', 90, 'recount@3' => q{SELECT pgq_ext.recount('q');});
is(sql('SELECT * FROM pgq_check()'), '', '... all is well');
is_exact(20, 'counted anew');

# Between two of these anybody may enqueue, so that later there is no room for a next job after an end either.
sql(q{UPDATE pgq_ext.job SET priority = 0});
consumer("OR SQLSTATE 'PQ002'");
load('it is switched on and off', 100, 'look@3' => q{
SELECT pgq_alter_queue('q', max_depth => 0);
SELECT pgq_alter_queue('q', max_depth => 20);
SELECT produce(1, false);});
is(sql('SELECT * FROM pgq_check()'), '', '... all is well');
my $max = live() + 1;
sql("SELECT pgq_alter_queue('q', max_depth => $max)");
is_exact($max, 'switched on and off');

# What a transaction says first and takes back, nobody acts by: the count goes on.
sql("BEGIN; SELECT pgq_alter_queue('q', max_depth => 0); SELECT pgq_alter_queue('q', max_depth => $max); COMMIT");
is(sql('SELECT depth FROM pgq_ext.queue_status'), $max, 'switched off and on in one transaction: it was never off');
done_testing();
