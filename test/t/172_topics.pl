# Topics across sessions: from when on a publish sees a binding or a right, whatever the session has remembered; and what a dropped
# queue, a prepared transaction, a rollback, SQL, a dump and a restart do to bindings.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest qw(send_and_block);

my $node = pgq_node('main', conf => "max_prepared_transactions = 2\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }

create_queue($node, $_) for qw(a b c full);
my ($publisher, $other) = map { session($node) } 1 .. 2;

# Which queues get a job that this session publishes now.
sub queues_of { my ($topic, $session) = @_; return (ask($session // $publisher, "SELECT coalesce(string_agg(queue, ' ' ORDER BY queue), '-') FROM pgq_publish('$topic', '1')"))[0] }

# ---- from when on a binding counts ----

is(queues_of('x.y'), '-', 'no binding');
sql(q{SELECT pgq_bind('x.#', 'a')});
is(queues_of('x.y'), 'a', 'a binding of another session');
sql(q{SELECT pgq_bind('*.y', 'b'), pgq_bind('x.*', 'b')});
is(queues_of('x.y'), 'a b', 'one job in each queue, however many patterns match');
sql(q{SELECT pgq_unbind('x.#', 'a')});
is(queues_of('x.y'), 'b', 'an unbind of another session');

ask($other, q{BEGIN; SELECT pgq_bind('x.y', 'c')});
is(queues_of('x.y'), 'b', 'a bind that is not committed');
is(queues_of('x.y', $other), 'b c', '... counts for its own session');
ask($other, 'ROLLBACK');
is(queues_of('x.y', $other), 'b', '... and not after a rollback');
ask($other, q{BEGIN; SAVEPOINT s; SELECT pgq_bind('x.y', 'c')});
is(queues_of('x.y', $other), 'b c', 'a bind under a savepoint');
ask($other, 'ROLLBACK TO s');
is(queues_of('x.y', $other), 'b', '... that is rolled back');
ask($other, 'COMMIT');

ask($other, q{BEGIN; SELECT pgq_bind('x.y', 'c')});
ask($other, q{PREPARE TRANSACTION 'bind'});
is(queues_of('x.y'), 'b', 'a bind that is prepared');
sql(q{COMMIT PREPARED 'bind'});
is(queues_of('x.y'), 'b c', '... and committed');
is(queues_of('x.y', $other), 'b c', '... also in the session that has prepared it');

# The session remembers nothing of this topic, and reads the bindings in a transaction whose snapshot is older than they are.
my $old = session($node);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgq_ext.topic_binding');
sql(q{SELECT pgq_bind('new.#', 'a')});
is(queues_of('new', $old), 'a', 'a binding that the snapshot does not see');
ask($old, 'COMMIT');
is(queues_of('new', $old), 'a', '... is not forgotten');

# ---- SQL on the table ----

sql(q{INSERT INTO pgq_ext.topic_binding (queue_id, pattern) SELECT queue_id, 'by.sql' FROM pgq_ext.queue WHERE queue = 'a'});
is(queues_of('by.sql'), 'a', 'a binding inserted by SQL');
sql(q{UPDATE pgq_ext.topic_binding SET pattern = 'by.#' WHERE pattern = 'by.sql'});
is(queues_of('by.update'), 'a', '... changed by SQL');
sql(q{SET session_replication_role = replica; DELETE FROM pgq_ext.topic_binding WHERE pattern = 'by.#'});
is(queues_of('by.update'), '-', '... deleted by SQL whose triggers are off');
sql(q{INSERT INTO pgq_ext.topic_binding (queue_id, pattern) SELECT queue_id, 'bad*' FROM pgq_ext.queue WHERE queue = 'a' UNION ALL SELECT 4711, 'gone.#'});
is(queues_of('gone.x'), '-', 'a binding to a queue that does not exist');
is(queues_of('bad*'), '-', 'a pattern that pgq_bind refuses');
sql(q{DELETE FROM pgq_ext.topic_binding WHERE pattern IN ('bad*', 'gone.#')});

# ---- queues ----

create_queue($node, 'later');
sql(q{SELECT pgq_bind('x.y', 'later')});
is(queues_of('x.y'), 'b c later', 'a queue that was created later');
sql(q{SELECT pgq_rename_queue('later', 'renamed')});
is(queues_of('x.y'), 'b c renamed', '... and renamed');
ask($other, q{BEGIN; SELECT pgq_drop_queue('renamed', force => true)});
send_and_block($node, $publisher, q{SELECT string_agg(queue, ' ' ORDER BY queue) FROM pgq_publish('x.y', '1')});
ask($other, 'COMMIT');
is((reply($publisher))[0], 'b c', 'a publish waits for a drop, and leaves the queue out');
is(sql('SELECT count(*) FROM pgq_ext.topic_binding WHERE queue_id NOT IN (SELECT queue_id FROM pgq_ext.queue)'), '0', '... whose bindings are gone');

# The order of the queues' ids is the order of locks, whatever the order of the bindings: no deadlock with an unique key in both.
ask($other, q{BEGIN; SELECT count(*) FROM pgq_publish('x.y', '1', unique_key => 'k')});
send_and_block($node, $publisher, q{SELECT string_agg(queue, ' ' ORDER BY queue) FROM pgq_publish('x.y', '2', unique_key => 'k')});
ask($other, 'COMMIT');
is((reply($publisher))[0], 'b c', 'two publishes with a unique key: one waits');
is(sql(q{SELECT count(*) FROM pgq_ext.job WHERE unique_key = 'k'}), '2', '... and each queue has one job');

# ---- full queues ----

sql(q{SELECT pgq_alter_queue('full', max_depth => 1); SELECT pgq_enqueue('full', '1'); SELECT pgq_bind('f.#', 'full'), pgq_bind('f.#', 'a')});
my $jobs = sql('SELECT count(*) FROM pgq_ext.job');
my (undef, $error) = ask($publisher, q{SELECT * FROM pgq_publish('f.x', '1')});
like($error, qr/queue "full" is full.*pattern "f\.#"/s, 'a full queue fails the publish, and the error names the pattern');
is(sql('SELECT count(*) FROM pgq_ext.job'), $jobs, '... which has left no job in the other queue');
sql(q{SELECT pgq_bind('f.#', 'full', '{"when_full": "skip"}')});
is(queues_of('f.x'), 'a', 'a full queue is left out if its binding says so');
sql(q{SELECT pgq_bind('f.x', 'full')});
(undef, $error) = ask($publisher, q{SELECT * FROM pgq_publish('f.x', '1')});
like($error, qr/queue "full" is full.*pattern "f\.x"/s, '... but not if another binding of it does not');

# ---- rights ----

sql('CREATE ROLE p; CREATE ROLE s; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO p, s; GRANT USAGE ON SCHEMA pgq_ext TO p, s; GRANT SELECT ON pgq_ext.binding TO p, s');
sql(q{SELECT pgq_grant('b', 's', '{admin}'), pgq_grant('c', 's', '{admin}')});
ask($publisher, 'SET ROLE p');
is(queues_of('x.y'), 'b c', 'a publisher needs no right on the queues');
ask($publisher, 'BEGIN');
sql(q{SELECT pgq_grant_topic('x.#', 's', '{publish}')});
(undef, $error) = ask($publisher, q{SELECT * FROM pgq_publish('x.y', '1')});
like($error, qr/permission denied for topic "x\.y"/, 'a first grant closes the topic, also for an open transaction');
ask($publisher, 'ROLLBACK');
is(queues_of('y'), '-', '... but no other topic');
sql(q{SELECT pgq_grant_topic('*.y', 'p', '{publish}')});
is(queues_of('x.y'), 'b c', 'a right by another pattern that matches');
sql('GRANT s TO p; SELECT pgq_revoke_topic($$*.y$$, $$p$$, $${publish}$$)');
is(queues_of('x.y'), 'b c', 'a right of a role of which the publisher is a member');
sql('REVOKE s FROM p');
(undef, $error) = ask($publisher, q{SELECT * FROM pgq_publish('x.y', '1')});
like($error, qr/permission denied for topic/, '... and is no more');
ask($other, 'SET ROLE s');
(undef, $error) = ask($other, q{SELECT pgq_bind('#', 'b')});
like($error, qr/permission denied for pattern "#"/, 'a pattern that matches closed topics too');
sql(q{SELECT pgq_grant_topic('x.#', 's', '{subscribe}'), pgq_grant_topic('*.y', 's', '{subscribe}')});
(undef, $error) = ask($other, q{SELECT pgq_bind('x.*', 'b')});
is($error, '', 'a pattern that a granted pattern contains');
(undef, $error) = ask($other, q{SELECT pgq_bind('#', 'b')});
like($error, qr/permission denied for pattern "#"/, '... and one that none contains');
my $seen = 'SELECT string_agg(DISTINCT queue, $$ $$) FROM pgq_ext.binding';
is((ask($other, $seen))[0], 'a b c full', 'the view shows bindings of queues that the role may inspect');
is((ask($publisher, $seen))[0], 'a full', '... and of no others');
is((ask($other, q{SELECT pattern IS NULL FROM pgq_route('f.y') WHERE queue = 'a'}))[0], 'f', 'an open queue shows its patterns');
is((ask($publisher, q{SELECT DISTINCT pattern IS NULL FROM pgq_route('x.y')}))[0], 't', '... a closed one does not');

# A failing publish in a subtransaction must not leave what it has remembered of an uncommitted grant.
ask($other, 'RESET ROLE');
ask($other, q{BEGIN; SELECT pgq_grant_topic('q', 's', '{publish}')});
ask($other, 'ROLLBACK');
is(queues_of('q'), '-', 'a grant that was rolled back has closed nothing');

# ---- dump, restart ----

my $file = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $file ], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'psql', '-qX', '-d', $node->connstr('copy'), '-v', 'ON_ERROR_STOP=1', '-f', $file ], '... is restored');
my $all = 'SELECT string_agg(concat_ws($$ $$, pattern, queue, when_full), $$, $$ ORDER BY pattern COLLATE "C", queue) FROM pgq_ext.binding';
is(sql($all, 'copy'), sql($all), '... with all bindings');
is(sql(q{SET ROLE s; SELECT string_agg(queue, ' ' ORDER BY queue) FROM pgq_publish('x.y', '1')}, 'copy'), 'b c', '... and rights');
my ($state) = sqlstate($node, q{SET ROLE p; SELECT * FROM pgq_publish('x.y', '1')}, 'copy');
is($state, '42501', '... which close topics');
$node->restart;
is(sql(q{SELECT string_agg(queue, ' ' ORDER BY queue) FROM pgq_publish('x.y', '1')}), 'b c', 'after a restart');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'memory and tables agree');
done_testing();
