# What could fool a publish: errors and lock waits while a session reads the bindings or the rights, changes in the middle, other roles,
# objects that shadow those of the extension, odd bytes, very many bindings, topics and queues, and a standby.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest qw(send_and_block);

my $node = pgq_node('main', conf => "max_prepared_transactions = 2\npgq_ext.max_queues = 400\n", init => { allows_streaming => 1 });
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }

create_queue($node, $_) for qw(a b c);
my ($publisher, $other) = map { session($node) } 1 .. 2;
sub error_of { my ($session, $sql) = @_; return (ask($session, $sql))[1] }

sub queues_sql { my ($topic, $more) = @_; return "SELECT coalesce(string_agg(queue, ' ' ORDER BY queue), '-') FROM pgq_publish('$topic', '1'" . ($more // '') . ')' }
sub queues_of { my ($topic, $session) = @_; return (ask($session // $publisher, queues_sql($topic)))[0] }

sql(q{SELECT pgq_bind('x.#', 'a'), pgq_bind('x.y', 'b')});
is(queues_of('x.y'), 'a b', 'a publish');

# ---- errors while the tables are read ----

# The session has to read a table again, which another transaction has locked.
sub read_is_cancelled
{
	my ($table, $change, $what) = @_;
	sql($change);
	ask($other, "BEGIN; LOCK TABLE pgq_ext.$table");
	ask($publisher, q{BEGIN; SAVEPOINT s; SET LOCAL lock_timeout = '10 ms'});
	like(error_of($publisher, queues_sql('x.y')), qr/lock timeout/, $what);
	ask($publisher, 'ROLLBACK TO s');
	ask($other, 'COMMIT');
	is(queues_of('x.y'), 'a b', '... leaves nothing half read, in the same transaction');
	ask($publisher, 'COMMIT');
	return;
}
read_is_cancelled('topic_binding', q{SELECT pgq_bind('u.#', 'a')}, 'a read of the bindings that is cancelled');
sql('CREATE ROLE p; CREATE ROLE s; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO p, s; GRANT USAGE ON SCHEMA pgq_ext TO p, s');
read_is_cancelled('topic_pattern', q{SELECT pgq_grant_topic('v.#', 's', '{publish}')}, 'a read of the rights that is cancelled');

ask($publisher, q{BEGIN; SELECT pgq_bind('x.z', 'c'); SAVEPOINT s; ALTER TABLE pgq_ext.topic_binding RENAME COLUMN pattern TO p});
like(error_of($publisher, queues_sql('x.z')), qr/topic_binding/, 'a table without its column fails the publish');
ask($publisher, 'ROLLBACK TO s');
is(queues_of('x.z'), 'a c', '... until the change is rolled back');
ask($publisher, 'ROLLBACK');
is(queues_of('x.z'), 'a', '... and what was bound in the transaction is gone, too');

ask($publisher, q{BEGIN; TRUNCATE pgq_ext.topic_binding});
is(queues_of('x.y'), '-', 'a TRUNCATE in the same transaction');
ask($publisher, 'ROLLBACK');
is(queues_of('x.y'), 'a b', '... that is rolled back');

# ---- memory ----

my $memory = q{SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name LIKE 'pgq_ext%'};
sub publish_many { my ($n) = @_; return ask($publisher, "SELECT count(pgq_publish('none.' || i % 2000, '1')) FROM generate_series(1, $n) i") }
publish_many(3000);
my ($before) = ask($publisher, $memory);
publish_many(50000);
cmp_ok((ask($publisher, $memory))[0], '<=', $before, 'a session needs no more memory for more publishes to more topics than it remembers');
ask($publisher, q{DO $$ BEGIN FOR i IN 1 .. 300 LOOP PERFORM pgq_bind('m.' || i % 3, 'c'); PERFORM pgq_publish('none', '1'); COMMIT; END LOOP; END $$});
cmp_ok((ask($publisher, $memory))[0], '<=', $before, '... nor for more changes of bindings');

# Each topic of which all queues want jobs needs room for all of its queues.
sql(q{SELECT pgq_create_queue('many_' || i), pgq_bind('wide.#', 'many_' || i) FROM generate_series(1, 300) i;
	INSERT INTO pgq_ext.topic_binding (queue_id, pattern) SELECT queue_id, 'deep.' || i || '.*' FROM pgq_ext.queue, generate_series(1, 10000) i WHERE queue = 'a';
	INSERT INTO pgq_ext.topic_binding (queue_id, pattern) SELECT queue_id, 'deep.' || repeat('*.', i) || '#' FROM pgq_ext.queue, generate_series(0, 100) i WHERE queue = 'b'});
is((ask($publisher, q{SELECT count(*), count(DISTINCT queue) FROM pgq_publish('wide.x', '1')}))[0], '300|300', 'a topic of 300 queues');
is(queues_of('deep.9999.x'), 'a b', '10,000 bindings of one queue');
is((ask($publisher, q{SELECT count(*), count(DISTINCT pattern) FROM pgq_route('deep.9999.x')}))[0], '4|4', '... of which the route shows those that match');
ask($publisher, q{DO $$ BEGIN FOR i IN 1 .. 1000 LOOP PERFORM pgq_publish('wide.' || i, '1'); IF i % 20 = 0 THEN ROLLBACK; END IF; END LOOP; END $$});
cmp_ok((ask($publisher, $memory))[0], '<', 6e6, 'the routes that a session remembers have a bound');
sql(q{DELETE FROM pgq_ext.topic_binding WHERE pattern LIKE 'deep%'; SELECT pgq_drop_queue('many_' || i, force => true) FROM generate_series(1, 300) i});
is(queues_of('wide.x'), '-', 'no queue is left');

# ---- full queues ----

sql(q{SELECT pgq_create_queue('full', max_depth => 1), pgq_enqueue('full', '1'), pgq_bind('f.#', 'full', '{"when_full": "skip"}'), pgq_bind('f.x', 'a', '{"when_full": "skip"}'), pgq_bind('f.x', 'b')});
for my $more ('', q{, unique_key => 'k'}, q{, after => ARRAY[(SELECT job_id FROM pgq_ext.job ORDER BY job_id LIMIT 1)]})
{
	ask($publisher, 'BEGIN');
	my $batch = (ask($publisher, 'SELECT pgq_create_batch()'))[0];
	is((ask($publisher, queues_sql('f.x', ", batch => $batch$more")))[0], 'a b', "a full queue is left out: $more");
	is((ask($publisher, q{SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'transactionid'}))[0], '1', '... without a transaction id for it');
	is((ask($publisher, "SELECT pgq_ext.job.queue_id = q.queue_id FROM pgq_ext.job, pgq_ext.queue q WHERE batch_id = $batch AND q.queue = 'full'"))[0], "f\nf", '... and without a member of the batch');
	ask($publisher, 'COMMIT');
}
is((ask($publisher, queues_sql('f.y')))[0], '-', 'no queue has room');
is((sqlstate($node, q{SELECT pgq_publish('f.y', '1', must_route => true)}))[0], 'PQ003', '... which is an error if the job must be routed');
ask($publisher, q{BEGIN; SELECT pgq_purge_queue('full')});
is((ask($publisher, queues_sql('f.y')))[0], 'full', 'a purge in the same transaction makes room');
is((ask($publisher, queues_sql('f.y')))[0], '-', '... for one job');
ask($publisher, 'ROLLBACK');
is((ask($publisher, queues_sql('f.y')))[0], '-', '... until it is rolled back');
sql(q{SELECT pgq_drop_queue('full', force => true), pgq_unbind('f.x', 'a'), pgq_unbind('f.x', 'b')});

# ---- a queue of the same name ----

ask($publisher, q{BEGIN; SAVEPOINT s; SELECT pgq_drop_queue('b', force => true); SELECT pgq_create_queue('b')});
is(queues_of('x.y'), 'a', 'a queue that was dropped and created has no bindings');
ask($publisher, 'ROLLBACK TO s');
is(queues_of('x.y'), 'a b', '... and has them if that is rolled back');
ask($publisher, 'COMMIT');
ask($other, q{BEGIN; SELECT pgq_drop_queue('b', force => true); SELECT pgq_create_queue('b'); SELECT pgq_bind('x.y', 'b')});
send_and_block($node, $publisher, 'BEGIN ISOLATION LEVEL SERIALIZABLE; ' . queues_sql('x.y'));
ask($other, 'COMMIT');
my ($got, $error) = reply($publisher);
like("$got$error", qr/^a(?: b)?$|^$|could not serialize/, 'a publish that waits for that goes to the old queue no more');
ask($publisher, 'ROLLBACK');
is(queues_of('x.y'), 'a b', '... and later to the new one');

# ---- storms ----

# One session binds and unbinds without rest, one publishes to a queue that is always bound.
send_sql($other, q{DO $$ BEGIN FOR i IN 1 .. 500 LOOP PERFORM pgq_bind('x.*', 'c'); COMMIT; PERFORM pgq_unbind('x.*', 'c'); COMMIT; END LOOP; END $$});
my ($failed) = ask($publisher, q{DO $$ DECLARE n int; BEGIN FOR i IN 1 .. 500 LOOP
	SELECT count(*) INTO n FROM pgq_publish('x.' || i % 7, '1') WHERE queue = 'a';
	IF n <> 1 THEN RAISE 'publish % went to % queues', i, n; END IF;
	COMMIT; END LOOP; END $$; SELECT 'good'});
is($failed, 'good', 'a storm of changes hides no binding');
is((reply($other))[1], '', '... and fails no bind');

# ---- rights ----

sql(q{SELECT pgq_grant_topic('x.#', 'p', '{publish}')});
ask($publisher, 'SET ROLE p');
is(queues_of('x.y'), 'a b', 'a role with the right');
ask($publisher, 'SET ROLE s');
like(error_of($publisher, queues_sql('x.y')), qr/permission denied for topic "x\.y"/, 'another role in the same session');
ask($publisher, 'RESET ROLE');
is(queues_of('x.y'), 'a b', 'the owner has all rights');
ask($publisher, q{CREATE FUNCTION as_p() RETURNS SETOF text SECURITY DEFINER LANGUAGE sql AS $$SELECT queue FROM pgq_publish('x.y', '1')$$; ALTER FUNCTION as_p() OWNER TO p});
ask($publisher, 'SET ROLE s');
is((ask($publisher, q{SELECT string_agg(as_p, ' ') FROM as_p()}))[0], 'a b', 'a function with the rights of its owner');
like(error_of($publisher, queues_sql('x.y')), qr/permission denied for topic "x\.y"/, '... which lends the right to nothing else');

ask($publisher, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
like(error_of($publisher, queues_sql('x.y')), qr/permission denied/, 'an old snapshot');
ask($publisher, 'ROLLBACK');
ask($other, q{BEGIN; SELECT pgq_grant_topic('w.#', 'p', '{publish}')});
ask($other, q{PREPARE TRANSACTION 'grant'});
is(queues_of('w'), '-', 'a grant that is prepared closes nothing');
sql(q{COMMIT PREPARED 'grant'});
like(error_of($publisher, queues_sql('w')), qr/permission denied/, '... until it is committed');
sql('ALTER ROLE s SUPERUSER');
is(queues_of('w'), '-', 'a role that has become a superuser');
sql('ALTER ROLE s NOSUPERUSER');
like(error_of($publisher, queues_sql('w')), qr/permission denied/, '... and is none any more');
sql('CREATE ROLE heir NOINHERIT; GRANT p TO heir; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO heir');
ask($publisher, 'SET ROLE heir');
like(error_of($publisher, queues_sql('x.y')), qr/permission denied/, 'a member that does not inherit');
ask($publisher, 'SET ROLE s');
ask($publisher, q{BEGIN; SAVEPOINT s; RESET ROLE; GRANT p TO s; SET ROLE s});
is(queues_of('x.y'), 'a b', 'a right that this transaction has granted');
ask($publisher, 'ROLLBACK TO s; RESET ROLE; SET ROLE s');
like(error_of($publisher, queues_sql('x.y')), qr/permission denied/, '... and has rolled back');
ask($publisher, 'ROLLBACK; RESET ROLE; SET ROLE s');

# A role with a queue of its own gets no job of closed topics by a bind, whatever the pattern.
sql(q{SELECT pgq_create_queue('own'); SELECT pgq_grant('own', 's', '{admin}')});
for my $pattern ('#', '*.y', 'x.y', 'x', '#.x.#', '*.#', '#.y', 'x.y.#.#', '*.*')
{
	like(error_of($publisher, "SELECT pgq_bind('$pattern', 'own')"), qr/permission denied for pattern/, "no bind of $pattern");
}
like(error_of($publisher, q{SELECT pgq_grant_topic('#', 's', '{publish, subscribe}')}), qr/permission denied/, '... and no right of its own making');
like(error_of($publisher, q{SELECT pgq_bind('y', 'a')}), qr/^$/, 'an open topic can be bound to an open queue');
ask($publisher, q{SELECT pgq_unbind('y', 'a')});

# Objects of other roles that have the names of those that the extension uses.
sql('CREATE SCHEMA shadow AUTHORIZATION s; GRANT TEMP ON DATABASE postgres TO s; GRANT CREATE ON SCHEMA pgq_ext TO s');
ask($publisher, q{CREATE FUNCTION shadow.eq(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true'; CREATE OPERATOR shadow.= (FUNCTION = shadow.eq, LEFTARG = text, RIGHTARG = text)});
ask($publisher, q{CREATE TEMP TABLE topic_binding (queue_id int, pattern text, when_full text); CREATE TEMP TABLE topic_pattern (pattern_id int, pattern text)});
ask($publisher, q{CREATE FUNCTION shadow.jsonb_in(cstring) RETURNS jsonb LANGUAGE internal IMMUTABLE AS 'jsonb_in'});
ask($publisher, 'SET search_path = pg_temp, shadow, public, pg_catalog');
like(error_of($publisher, queues_sql('x.y')), qr/permission denied/, 'shadows give no right');
is(queues_of('u.x'), 'a', '... and change no route');
# The view of the next pattern, made by another role before.
my $next = sql(q{SELECT last_value + 1 FROM pgq_ext.topic_pattern_id_seq});
ask($publisher, "CREATE VIEW pgq_ext.topic_rights_$next AS SELECT 1 AS pattern_id");
sql(q{SELECT pgq_grant_topic('planted.#', 'p', '{publish}')});
like(error_of($publisher, queues_sql('planted.x')), qr/permission denied/, 'a view that another role has planted gives no right');
ask($publisher, 'RESET search_path; RESET ROLE');
my $setting = parallel_setting($node);
ask($publisher, "SET $setting = 'on'");
is(queues_of('x.y'), 'a b', 'a publish where all plans are parallel');
is((ask($publisher, q{SELECT string_agg(queue, ' ') FROM pgq_route('x.y')}))[0], 'a b', '... and a route');
ask($publisher, "RESET $setting");

# ---- bytes ----

my %text = (LATIN1 => 'chr(228)', EUC_JP => q{convert_from('\xa4a2', 'EUC_JP')}, SQL_ASCII => 'chr(160) || chr(228)');
for my $encoding (sort keys %text)
{
	my ($db, $text) = (lc $encoding, $text{$encoding});
	sql("CREATE DATABASE $db ENCODING '$encoding' TEMPLATE template0 LOCALE 'C'");
	sql(q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('q')}, $db);
	sql("SELECT pgq_bind('*.' || $text, 'q'), pgq_bind($text || '.*', 'q'); SELECT count(*) FROM pgq_publish($text || '.' || $text, '1')", $db);
	is(sql("SELECT count(*), bool_and(headers->>'topic' = $text || '.' || $text) FROM pgq_ext.job", $db), '1|t', "$encoding: a topic that is not ASCII");
}
sql(q{SELECT pgq_bind('odd.#', 'c')});
my $odd = q{E'odd.\x01"\\\\\t\n\x7f{}'};
is(sql(qq{SELECT count(*) FROM pgq_publish($odd, '1', headers => '{"topic": "forged", "x": 1}')}), '1', 'a topic of characters that JSON escapes');
is(sql(qq{SELECT headers = jsonb_build_object('topic', $odd, 'x', 1) FROM pgq_ext.job ORDER BY job_id DESC LIMIT 1}), 't', '... is the header of the job, whatever the caller has said');
is((sqlstate($node, qq{SELECT pgq_publish('odd', '1', headers => '$_')}))[0], '22023', "headers that are no object: $_") for '[1]', '"topic"', 'null', '[{"topic": 1}]';
my $dots = '.' x 255;
is((sqlstate($node, qq{SELECT pgq_bind('$dots', 'c'); SELECT pgq_bind('#.#.#.#.#.#.#.#', 'c'); SELECT pgq_bind('', 'c')}))[0], '', 'the longest pattern, the most words # and the empty pattern');
is(queues_of($dots), 'c', '... match');
is(queues_of(''), 'c', '... also the empty topic');
is((sqlstate($node, "SELECT pgq_$_"))[0], '22023', "$_") for "bind('.$dots', 'c')", "publish('.$dots', '1')", "route('.$dots')", "bind('#.#.#.#.#.#.#.#.#', 'c')", "bind('a#', 'c')", "bind('**', 'c')";

# ---- a standby ----

$node->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->start;
my (undef, undef, $refused) = $standby->psql('postgres', q{SELECT pgq_publish('x.y', '1')});
like($refused, qr/cannot execute pgq_publish\(\) during recovery/, 'a standby refuses a publish');
$standby->promote;
wait_for($standby, 'NOT pg_is_in_recovery()');
is($standby->safe_psql('postgres', queues_sql('x.y')), 'a b c', '... and has all bindings when it is promoted');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'memory and tables agree');
done_testing();
