# pgq_publish_many: the same jobs as single publishes, all or none, in an order in which no two calls wait for each other in a
# circle. What it does with queues that are full, renamed or dropped, with keys, batches, parents, rights and bad elements.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest qw(send_and_block);

my $node = pgq_node('main', conf => "max_prepared_transactions = 3\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

# An array of elements: a topic and further keys, each.
sub array { return q{'[} . join(', ', map { sprintf '{"topic": "%s", "payload": %d%s}', @$_[ 0, 1 ], defined $_->[2] ? ", $_->[2]" : '' } @_) . q{]'} }
# Publishes elements, and returns the rows, as queue:id.
sub published { return sql('WITH p AS MATERIALIZED (SELECT * FROM pgq_publish_many(' . array(@_) . q{) WITH ORDINALITY p (queue, job_id, n)) SELECT string_agg(queue || ':' || job_id, ' ' ORDER BY n) FROM p}) }
# Publishes elements, and returns the queues with the payloads of their jobs, in the order of the rows. The jobs are committed before they are looked up.
sub payloads { my $published = published(@_); return join ' ', map { my ($queue, $id) = split /:/; $queue . sql("SELECT payload FROM pgq_ext.job WHERE job_id = $id") } split / /, $published }
sub fails { my ($array) = @_; my ($state, $message) = sqlstate($node, "SELECT * FROM pgq_publish_many($array)"); return wantarray ? ($state, $message) : $state }
sub jobs_of { return sql("SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$_[0]'") }
sub empty { sql("SELECT pgq_purge_queue('$_')") for @_; return }

# The order of ids is not that of names.
create_queue($node, $_) for qw(c a b);
create_queue($node, 'full', 'max_depth => 5');
sql(q{SELECT pgq_bind('ca.#', 'c'), pgq_bind('ca.*', 'a'), pgq_bind('ca.#', 'a'), pgq_bind('ab', 'a'), pgq_bind('ab', 'b'), pgq_bind('#.b', 'b')});

# ---- what comes where ----

is(payloads([ 'ab', 1 ], [ 'ca.x', 2 ], [ 'none', 3 ], [ 'ca', 4 ], [ 'ab', 5 ]), 'c2 c4 a1 a2 a4 a5 b1 b5', 'rows in the order of the ids of the queues, then of the elements');
is(sql(q{SELECT string_agg(headers ->> 'topic', ' ' ORDER BY payload) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'a'}), 'ab ca.x ca ab', 'each job has its topic as a header');
empty(qw(a b c));
is(published([ 'none', 1 ]), '', 'no queue: no row');
is(sql(q{SELECT count(*) FROM pgq_publish_many('[]')}), '0', 'no element: no row');
sql('SELECT pgq_publish_many(' . array([ 'ab', 1, '"headers": {"a": 1, "topic": "forged"}' ], [ 'ca.x', 2, '"headers": {"b": 2}' ]) . ')');
is(sql(q{SELECT string_agg(headers::text, ' ' ORDER BY job_id) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'a'}), '{"a": 1, "topic": "ab"} {"b": 2, "topic": "ca.x"}', 'headers of an element are kept, but for a forged topic');
empty(qw(a b c));

# The same jobs as single publishes make: elements with all attributes, of many topics, with keys that come again.
sql(q{CREATE TABLE element AS SELECT i, jsonb_strip_nulls(jsonb_build_object(
	'topic', (ARRAY['ab', 'ca', 'ca.x', 'ca.' || i % 7, 'x.b', 'none', 'ca.b'])[1 + i * 31 % 7], 'payload', jsonb_build_array(i),
	'priority', CASE WHEN i % 3 = 0 THEN i % 5 END, 'delay', CASE WHEN i % 4 = 0 THEN i || ' minutes' END,
	'group_key', CASE WHEN i % 5 = 0 THEN 'g' || i % 2 END, 'headers', CASE WHEN i % 2 = 0 THEN jsonb_build_object('i', i) END,
	'unique_key', CASE WHEN i % 6 < 2 THEN 'k' || i % 40 END, 'on_conflict', CASE WHEN i % 6 = 1 THEN (ARRAY['keep', 'replace', 'append'])[1 + i % 3] END,
	'unique_for', CASE WHEN i % 12 = 0 THEN '1 hour' END, 'max_attempts', CASE WHEN i % 7 = 0 THEN 3 END, 'expires_in', CASE WHEN i % 8 = 0 THEN '2 hours' END)) AS e
	FROM generate_series(1, 1000) i});
my $state = q{SELECT md5(string_agg(row::text, E'\n' ORDER BY row::text)) || ' ' || count(*) FROM (
	SELECT q.queue, row_number() OVER (PARTITION BY q.queue ORDER BY j.job_id), j.payload, j.headers, j.priority, j.group_key, j.unique_key,
		j.unique_hash IS NULL, j.max_attempts, j.attempts,
		-- in minutes: on_conflict 'replace' changes both times, but not enqueued_at
		round(extract(epoch FROM j.run_at - j.enqueued_at) / 60), round(extract(epoch FROM j.expires_at - j.enqueued_at) / 60) FROM pgq_ext.job j JOIN pgq_ext.queue q USING (queue_id)) row};
my $single = sql(qq{BEGIN; DO \$\$ DECLARE e jsonb; BEGIN
	FOR e IN SELECT element.e FROM element ORDER BY i LOOP
		PERFORM pgq_publish(e ->> 'topic', e -> 'payload', COALESCE((e ->> 'priority')::int, 0), (e ->> 'delay')::interval, NULL, e ->> 'group_key', e ->> 'unique_key',
			unique_for => (e ->> 'unique_for')::interval, on_conflict => COALESCE(e ->> 'on_conflict', 'keep'),
			headers => e -> 'headers', max_attempts => (e ->> 'max_attempts')::int, expires_in => (e ->> 'expires_in')::interval);
	END LOOP; END \$\$; $state; ROLLBACK});
is(sql("BEGIN; DO \$\$ BEGIN PERFORM pgq_publish_many((SELECT jsonb_agg(e ORDER BY i) FROM element)); END \$\$; $state; ROLLBACK"), $single, 'the same rows as single publishes make');
like($single, qr/ [1-9]\d{2,}$/, '... which are many');

# ---- all or none ----

sub is_refused
{
	my ($array, $wanted, $message, $what) = @_;
	my $jobs = sql('SELECT count(*) FROM pgq_ext.job');
	my ($is, $error) = fails($array);
	is($is, $wanted, $what);
	like($error, $message, '... which the message says');
	is(sql('SELECT count(*) FROM pgq_ext.job'), $jobs, '... and nothing is left');
	return;
}

is_refused(array([ 'ab', 1 ], [ 'ca.x', 2, '"max_attempts": 0' ]),             '22023', qr/max_attempts is out of range.*element 2 of jobs/s, 'a bad value');
is_refused(array([ 'ab', 1 ], [ 'none', 2, '"max_attempts": 0' ]),             '22023', qr/max_attempts is out of range.*element 2 of jobs/s, 'a bad value that no queue gets');
is_refused(array([ 'ab', 1 ], [ 'none', 2, '"x": 0' ]),                        '22023', qr/element 2 of jobs has the unknown key "x".*topic \(required\), payload.*must_route/s, 'an unknown key');
is_refused(q{'[{"topic": "ab", "payload": 1}, {"payload": 1}]'},               '22004', qr/element 2 of jobs has no topic/, 'no topic');
is_refused(q{'[{"topic": null, "payload": 1}]'},                               '22004', qr/element 1 of jobs has no topic/, 'the topic null');
is_refused(q{'[{"topic": "ab"}]'},                                             '22004', qr/element 1 of jobs has no payload/, 'no payload');
is_refused(q{'[{"topic": 1, "payload": 1}]'},                                  '22023', qr/element 1 of jobs has a topic that is not a string/, 'a topic that is a number');
is_refused(q{'[{"topic": "ab", "payload": 1, "must_route": 1}]'},              '22023', qr/element 1 of jobs has a must_route that is not a boolean/, 'must_route that is a number');
is_refused(q{'[{"topic": "ab", "payload": 1}, 7]'},                            '22023', qr/element 2 of jobs is not an object/, 'an element that is no object');
is_refused(q{'{"topic": "ab", "payload": 1}'},                                 '22023', qr/jobs must be a JSON array/, 'no array');
is_refused('NULL',                                                             '22004', qr/jobs must not be null/, 'NULL');
is_refused(array([ 'ab', 1 ], [ 'x' x 256, 2 ]),                               '22023', qr/topic must not be longer than 255 bytes.*256 bytes.*element 2 of jobs/s, 'a long topic');
is_refused(array([ 'ab', 1, '"headers": 1' ]),                                 '22023', qr/headers of a published job must be a JSON object/, 'headers that are no object');
is_refused(array([ 'ab', 1, '"ref": "a"' ]),                                   '0A000', qr/element 1 of jobs has a ref.*several jobs/s, 'a ref');
is_refused(array([ 'ab', 1 ], [ 'ab', 2, '"after": ["a"]' ]),                  '0A000', qr/element 2 of jobs names a ref in after/, 'a ref in after');
is_refused(array([ 'ab', 1 ], [ 'ab', 2, '"after": [999999]' ]),               '42704', qr/job 999999 does not exist/, 'a parent that does not exist');
is_refused(array([ 'ab', 1 ], [ 'ab', 2, '"batch": 77' ]),                     '42704', qr/batch 77 does not exist/, 'a batch that does not exist');
is_refused(array([ 'ab', 1, '"unique_key": "k"' ], [ 'ab', 2, '"unique_key": "k", "on_conflict": "error"' ]), '23505', qr/already has unique key "k".*element 2 of jobs/s, 'a key that comes again');
is_refused(array([ 'ab', 1 ], [ 'none', 2, '"must_route": true' ], [ 'no', 3 ]), 'PQ003', qr/no queue gets jobs of the topic "none".*pgq_bind\('none'.*element 2 of jobs/s, 'must_route');
is(payloads([ 'ab', 1, '"must_route": true, "ref": null, "priority": null' ], [ 'none', 2, '"must_route": false' ]), 'a1 b1', '... that is met; null is the default');
empty(qw(a b));

my $session = session($node);
my $other = session($node);
ask($session, 'BEGIN; SAVEPOINT s');
ask($session, 'SELECT count(*) FROM pgq_publish_many(' . array([ 'ab', 1 ], [ 'ca', 2, '"unique_key": "s"' ]) . ')');
ask($session, 'ROLLBACK TO s');
ask($session, 'SELECT count(*) FROM pgq_publish_many(' . array([ 'ab', 3 ]) . ')');
ask($session, 'COMMIT');
is(sql('SELECT string_agg(payload::text, $$ $$) FROM pgq_ext.job'), '3 3', 'a rollback to a savepoint');
is(scalar(drain($node, 'a')), 1, '... and the rest is handed out');
empty(qw(a b c));

ask($session, 'BEGIN; SELECT count(*) FROM pgq_publish_many(' . array([ 'ab', 1 ], [ 'ab', 2, '"unique_key": "p"' ]) . q{)});
ask($session, q{PREPARE TRANSACTION 'published'});
is(sql(q{SELECT count(*) FROM pgq_claim('a', 10)}), '0', 'a prepared publish is not handed out');
sql(q{COMMIT PREPARED 'published'});
is(scalar(drain($node, 'a')), 2, '... and is after COMMIT PREPARED');
empty(qw(a b c));

# ---- order of locks ----

sub keyed { my ($k, $how) = @_; return sprintf '"unique_key": "%s", "on_conflict": "%s"', $k, $how // 'keep' }
my @elements = map { [ $_ % 2 ? 'ab' : 'ca.b', $_, keyed("k$_") ] } 1 .. 100;
ask($other, 'BEGIN; SELECT count(*) FROM pgq_publish_many(' . array(@elements) . ')');
send_and_block($node, $session, 'SELECT count(*) FROM pgq_publish_many(' . array(reverse @elements) . ')');
ask($other, 'COMMIT');
is((reply($session))[1], '', 'two calls with the same keys in reverse order: one waits');
is(join(' ', map { jobs_of($_) } qw(a b c)), '100 100 50', '... and no job is there twice');
empty(qw(a b c));

# Sessions that publish the same keys at once, in any order, and that wait for each other.
my @sessions = map { session($node) } 1 .. 3;
my $loop = q{DO $$ BEGIN FOR i IN 1 .. 40 LOOP
	PERFORM pgq_publish_many((SELECT jsonb_agg(jsonb_build_object('topic', CASE WHEN k % 2 = 0 THEN 'ab' ELSE 'ca.b' END, 'payload', i, 'unique_key', 'k' || k, 'on_conflict', 'replace') ORDER BY random()) FROM generate_series(1, 20) k)); COMMIT;
	END LOOP; END $$};
send_sql($_, $loop) for @sessions;
is(join('', map { (reply($_))[1] } @sessions), '', 'calls with keys at once, in any order: none fails');
is(join(' ', map { jobs_of($_) } qw(a b c)), '20 20 10', '... and each key has one job in each queue');
empty(qw(a b c));

# ---- a queue that is renamed or dropped ----

create_queue($node, 'later');
sql(q{SELECT pgq_bind('ab', 'later')});
ask($session, 'SELECT count(*) FROM pgq_publish_many(' . array([ 'ab', 1 ]) . ')');
sql(q{SELECT pgq_rename_queue('later', 'renamed')});
is((ask($session, 'SELECT string_agg(queue, $$ $$) FROM pgq_publish_many(' . array([ 'ab', 1 ]) . ')'))[0], 'a b renamed', 'a queue that was renamed');
ask($other, q{BEGIN; SELECT pgq_drop_queue('renamed', force => true)});
send_and_block($node, $session, 'SELECT string_agg(queue, $$ $$) FROM pgq_publish_many(' . array([ 'ab', 1 ], [ 'none', 2 ]) . ')');
ask($other, 'COMMIT');
is((reply($session))[0], 'a b', 'a call waits for a drop, and leaves the queue out');
create_queue($node, 'later');
sql(q{SELECT pgq_bind('last', 'later')});
ask($other, q{BEGIN; SELECT pgq_drop_queue('later', force => true)});
send_and_block($node, $session, 'SELECT count(*) FROM pgq_publish_many(' . array([ 'ab', 1 ], [ 'last', 2, '"must_route": true' ]) . ')');
ask($other, 'COMMIT');
like((reply($session))[1], qr/no queue gets jobs of the topic "last".*pgq_bind/s, '... which fails if it was the only one, and one must be there');
empty(qw(a b c));

# ---- full queues ----

sql(q{SELECT pgq_bind('strict.#', 'full'), pgq_bind('skip.#', 'full', '{"when_full": "skip"}'), pgq_bind('skip.also.strict', 'full'), pgq_bind('*.a', 'a')});
is_refused(array([ 'ab', 1 ], map { [ 'strict.x', $_ ] } 1 .. 6), 'PQ002', qr/queue "full" is full.*0 jobs, max_depth is 5, and this call needs room for 6.*pattern "strict\.#"/s, 'a full queue');
is(payloads(map { [ 'skip.a', $_ ] } 1 .. 8), join(' ', map({ "a$_" } 1 .. 8), map { "full$_" } 1 .. 5), 'a queue that is skipped gets the first jobs, other queues get all');
is(payloads([ 'skip.a', 9 ], [ 'skip.x', 10 ]), 'a9', '... and none when it is full');
is_refused(array([ 'skip.also.strict', 1 ]), 'PQ002', qr/pattern "skip\.also\.strict"/, '... but one of several patterns says error');
is_refused(array([ 'skip.x', 1, '"must_route": true' ]), 'PQ003', qr/no queue gets jobs of the topic "skip\.x".*bound to the topic are full.*element 1 of jobs/s, '... and a job that must be routed is an error');
empty(qw(full a));
is(payloads(map { [ $_ > 4 ? 'strict.b' : 'skip.b', $_ ] } 1 .. 7), join(' ', map({ "b$_" } 1 .. 7), map { "full$_" } 1, 2, 5, 6, 7), 'jobs that must not be skipped have the first right to room');
empty(qw(full b));
is(payloads(map { [ "skip.$_.b", $_ ] } 1 .. 7), join(' ', map({ "b$_" } 1 .. 7), map { "full$_" } 1 .. 5), 'each job has a topic of its own');
empty(qw(full b));
my @kept = sort { $a <=> $b } split / /, sql('SELECT string_agg(job_id::text, $$ $$) FROM pgq_publish_many(' . array(map { [ 'skip.x', $_, keyed("f$_") ] } 1 .. 90) . ')');
is(@kept, 5, 'of jobs with keys as many as there is room for');
is(jobs_of('full'), 5, '... are there');
my ($key) = sql(q{SELECT min(unique_key) FROM pgq_ext.job WHERE unique_key LIKE 'f%'});
is(sql('SELECT count(*) FROM pgq_publish_many(' . array([ 'skip.x', 1, keyed($key) ], [ 'strict.x', 2, keyed($key, 'replace') ], [ 'skip.x', 3, keyed('new') ]) . ')'), '2', 'a job that has the key needs no room');
is_refused(array([ 'strict.x', 1, keyed('another') ]), 'PQ002', qr/queue "full" is full.*pattern "strict\.#"/s, 'a new key in a full queue');
is(sql('SELECT count(*) FROM pgq_publish_many(' . array(map { [ 'skip.x', $_, keyed("f$_", 'replace') ] } 1 .. 90) . ')'), '5', 'keys of which some have jobs');
# What the transaction has ended makes room.
ask($session, 'BEGIN');
ask($session, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('full', 2)});
is((ask($session, 'SELECT count(*) FROM pgq_publish_many(' . array(map { [ 'skip.x', $_ ] } 1 .. 9) . ')'))[0], '2', 'own ends make room for own jobs');
ask($session, 'ROLLBACK');
is(jobs_of('full'), 5, '... until a rollback');
sql(q{SELECT pgq_alter_queue('full', max_depth => 6)});
is(sql('SELECT count(*) FROM pgq_publish_many(' . array(map { [ 'skip.x', $_ ] } 1 .. 9) . ')'), '1', '... which has given back the room of the others');
empty('full');
# Single publishes do the same.
is(sql(q{SELECT count(*) FROM generate_series(1, 9) i, pgq_publish('skip.x', to_jsonb(i))}), '6', 'single publishes leave out a full queue, too');
is(sql(q{SELECT count(*) FROM pgq_publish('skip.x', '1', unique_key => 'single')}), '0', '... with a key');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'memory and tables agree');
empty('full');

# ---- batches and parents ----

my $batch = sql('SELECT pgq_create_batch()');
sql('SELECT pgq_publish_many(' . array((map { [ 'ab', $_, qq{"batch": $batch} ] } 1 .. 300), [ 'none', 7, qq{"batch": $batch} ]) . ')');
is(sql("SELECT total FROM pgq_ext.batch WHERE batch = $batch"), '600', 'a batch counts the jobs of all queues');
is(sql("SELECT count(*) FROM pgq_ext.batch_note WHERE batch_id = $batch"), '1', '... by one note of the call');
sql("SELECT pgq_close_batch($batch)");
is_refused(array([ 'ca', 1 ], [ 'ab', 2, qq{"batch": $batch} ]), '55000', qr/batch $batch is closed/, 'a closed batch');
drain($node, $_) for qw(a b);
wait_for($node, "finished_at IS NOT NULL FROM pgq_ext.batch WHERE batch = $batch");
pass('... finishes when the jobs of all queues have ended');

my ($parent, $second) = split / /, sql(q{SELECT pgq_enqueue('c', '"parent"') || ' ' || pgq_enqueue('c', '"second"')});
my @children = map { (split /:/)[1] } split / /, published([ 'ab', 1, qq{"after": [$parent, $second]} ], [ 'ab', 2, qq{"after": [$parent], "unique_key": "child"} ], [ 'ab', 3 ], [ 'ab', 4, '"after": []' ], [ 'none', 5, qq{"after": [$parent]} ]);
is(sql("SELECT count(*) FROM pgq_ext.job_dependency WHERE child_id IN ($children[0], $children[1], $children[4], $children[5])"), '6', 'each copy waits for the parents by itself');
is(sql('SELECT count(*) FROM pgq_ext.job_dependency'), '6', '... and no other job does');
is(sql(q{SELECT string_agg(payload::text, ' ' ORDER BY job_id) FROM pgq_claim('a', 10)}), '3 4', '... the others are handed out');
drain($node, 'c');
wait_for($node, "count(*) = 2 FROM pgq_ext.job_status WHERE queue = 'b' AND state = 'ready' AND job_id IN ($children[4], $children[5])");
pass('... and they are ready when the parents have ended');
sql(q{SELECT pgq_enqueue('full', '1') FROM generate_series(1, 6)});
$parent = sql(q{SELECT pgq_enqueue('c', '"parent"')});
is(sql('SELECT count(*) FROM pgq_publish_many(' . array([ 'skip.x', 1, qq{"after": [$parent]} ], [ 'skip.x', 2, qq{"after": [$parent], "unique_key": "c"} ]) . ')'), '0', 'children that a full queue leaves out');
is(sql(qq{SELECT count(*) FROM pgq_publish('skip.x', '1', after => '{$parent}', unique_key => 'c')}), '0', '... also by a single publish');
is(sql("SELECT count(*) FROM pgq_ext.job_dependency WHERE parent_id = $parent"), '0', '... leave no dependency');
empty(qw(a b c full));

# ---- rights ----

sql('CREATE ROLE p; CREATE ROLE nobody; GRANT EXECUTE ON FUNCTION pgq_publish_many TO p; GRANT USAGE ON SCHEMA pgq_ext TO p');
is(sqlstate($node, q{SET ROLE nobody; SELECT pgq_publish_many('[]')}), '42501', 'a role that may not call it');
ask($session, 'SET ROLE p');
is((ask($session, 'SELECT count(*) FROM pgq_publish_many(' . array([ 'ab', 1 ], [ 'ca', 2 ]) . ')'))[0], '4', 'a publisher needs no right on the queues');
sql(q{SELECT pgq_grant_topic('ca.#', 'nobody', '{publish}')});
my (undef, $error) = ask($session, 'SELECT * FROM pgq_publish_many(' . array([ 'ab', 1 ], [ 'ab', 2 ], [ 'ca.x', 3 ]) . ')');
like($error, qr/permission denied for topic "ca\.x".*element 3 of jobs/s, 'the right is asked for each topic, and the error names the element');
is((ask($session, 'SELECT count(*) FROM pgq_publish_many(' . array([ 'ab', 1 ], [ 'x.b', 2 ]) . ')'))[0], '3', '... other topics are open');
sql(q{SELECT pgq_grant_topic('ca.x', 'p', '{publish}')});
is((ask($session, 'SELECT count(*) FROM pgq_publish_many(' . array([ 'ab', 1 ], [ 'ca.x', 2 ]) . ')'))[0], '4', '... and a right opens one');
empty(qw(a b c));

# ---- many ----

create_queue($node, "q$_") for 1 .. 10;
sql(q{SELECT pgq_bind('many.#', 'q' || i) FROM generate_series(1, 10) i});
is(sql(q{SELECT count(*) || ' ' || count(DISTINCT job_id) || ' ' || count(DISTINCT queue) FROM pgq_publish_many((SELECT jsonb_agg(jsonb_build_object('topic', 'many.' || i % 100, 'payload', i)) FROM generate_series(1, 10000) i))}),
	'100000 100000 10', '10,000 elements to 10 queues');
is(sql(q{SELECT string_agg(c::text, ' ') FROM (SELECT count(*) AS c FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue ~ '^q' GROUP BY queue_id) n}), join(' ', ('10000') x 10), '... are there');
is(sql(q{SELECT count(*) FROM pgq_publish_many((SELECT jsonb_agg(jsonb_build_object('topic', i::text, 'payload', i)) FROM generate_series(1, 20000) i))}), '0', '20,000 topics without a queue');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'memory and tables agree');
$_->quit for @sessions, $session, $other;

# ---- without the library ----

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
is(fails(array([ 'ab', 1 ])), '55000', 'without the library preloaded');
done_testing();
