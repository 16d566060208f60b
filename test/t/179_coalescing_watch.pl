# Coalescing watches: while a job of a key waits, further changes enqueue no other job; no change waits for another transaction; and
# after each change some job of the key is claimed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('coalesce', conf => "max_prepared_transactions = 5\ndeadlock_timeout = '100ms'\n");
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }

create_queue($node, 'q');
sql(q{CREATE TABLE o (id int PRIMARY KEY, customer text, v int); SELECT pgq_watch_table('o', 'q', columns => '{}', key => '{customer}')});

# How many jobs of each customer there are.
sub jobs
{
	return sql(q{SELECT string_agg(format('%s %s', customer, n), ', ' ORDER BY customer) FROM (SELECT payload->'key'->>'customer' AS customer, count(*) AS n FROM pgq_ext.job GROUP BY 1) x});
}
sub clear { drain($node, 'q'); sql(q{TRUNCATE o}); return }

# A statement in a session must not wait for a lock.
my @sessions = map { session($node) } 1 .. 3;
ask($_, q{SET lock_timeout = '1ms'; SET statement_timeout = '60s'}) for @sessions;
sub at { my ($i, $sql) = @_; my ($out, $errors) = ask($sessions[$i], $sql); return "$out$errors" }

subtest 'one job a key' => sub
{
	sql(q{INSERT INTO o VALUES (1, 'A', 0), (2, 'A', 0), (3, 'B', 0)});
	is(sql(q{SELECT string_agg(payload::text, ' ' ORDER BY job_id) FROM pgq_ext.job}), '{"key": {"customer": "A"}, "table": "public.o"} {"key": {"customer": "B"}, "table": "public.o"}', 'table and key only');
	sql(q{UPDATE o SET v = 1; DELETE FROM o WHERE id = 2; INSERT INTO o VALUES (4, 'B', 0)});
	is(jobs(), 'A 1, B 1', 'further changes');
	sql(q{UPDATE o SET customer = 'C' WHERE id = 3});
	is(jobs(), 'A 1, B 1, C 1', 'a changed key: both keys');
	clear();
	sql(q{INSERT INTO o VALUES (1, 'A', 0)});
	drain($node, 'q');
	sql(q{UPDATE o SET v = v});
	is(jobs(), '', 'an UPDATE that changes nothing');
	sql(q{UPDATE o SET v = 5});
	is(jobs(), 'A 1', 'an UPDATE of another column than the key');
	my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')});
	sql(q{UPDATE o SET v = 6});
	is(jobs(), 'A 2', 'a job in work does not stand for the change');
	sql("SELECT pgq_fail($id, $lease, retry_in => '1 hour')");
	sql(q{UPDATE o SET v = 7});
	is(jobs(), 'A 2', 'a waiting job does');
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q')});
	sql(q{UPDATE o SET v = 8});
	is(jobs(), 'A 1', '... also after a failed attempt');
	sql(qq{SELECT pgq_retry($id)});
	clear();
	my $long = 'x' x 1000;
	sql("INSERT INTO o VALUES (1, '${long}1', 1), (2, '${long}2', 1)");
	sql('UPDATE o SET v = 2');
	is(sql(q{SELECT count(*), bool_and(length(unique_key) < 256) FROM pgq_ext.job}), '2|t', 'a long key');
	sql(q{SELECT pgq_enqueue('q', '1', unique_key => 'A'); INSERT INTO o VALUES (3, 'A', 0)});
	is(sql('SELECT count(*) FROM pgq_ext.job'), '4', 'a job of another producer is not taken for it');
	clear();
	sql(q{INSERT INTO o SELECT i, 'c' || i % 500, 0 FROM generate_series(1, 5000) i});
	is(sql('SELECT count(*), count(DISTINCT payload) FROM pgq_ext.job'), '500|500', 'a long statement');
	sql(q{UPDATE o SET v = 1; UPDATE o SET customer = customer || 'x' WHERE id <= 1000});
	is(sql('SELECT count(*), count(DISTINCT payload) FROM pgq_ext.job'), '1000|1000', '... and the next ones');
	clear();
};

subtest 'without a key' => sub
{
	sql(q{CREATE TABLE n (a int); SELECT pgq_watch_table('n', 'q', columns => '{}'); INSERT INTO n VALUES (1), (2); UPDATE n SET a = 3; DELETE FROM n});
	is(sql('SELECT payload FROM pgq_ext.job'), '{"key": null, "table": "public.n"}', 'one job for the table');
	sql('DROP TABLE n');
	drain($node, 'q');
};

subtest 'transactions that meet' => sub
{
	is(at(0, q{BEGIN; INSERT INTO o VALUES (1, 'A', 0)}), '', 'a transaction inserts A');
	is(at(1, q{BEGIN; INSERT INTO o VALUES (2, 'B', 0)}), '', 'another inserts B');
	is(at(0, q{INSERT INTO o VALUES (3, 'B', 0)}), '', 'the first inserts B, and does not wait');
	is(at(1, q{INSERT INTO o VALUES (4, 'A', 0)}), '', 'the other inserts A, and does not wait');
	is(at(0, q{UPDATE o SET v = 1 WHERE id IN (1, 3)}), '', 'the first meets its own jobs');
	at($_, 'COMMIT') for 0, 1;
	is(jobs(), 'A 2, B 2', 'each has its own jobs');
	is(at(0, q{BEGIN; UPDATE o SET v = 2 WHERE id = 1}), '', 'two transactions');
	is(at(1, q{BEGIN; UPDATE o SET v = 2 WHERE id = 2}), '', '... hold');
	is(at(0, q{UPDATE o SET v = 2 WHERE id = 3}), '', '... the waiting jobs');
	is(at(1, q{UPDATE o SET v = 2 WHERE id = 4}), '', '... together');
	is(jobs(), 'A 2, B 2', '... and insert none');
	is(sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q', 10)}), '2', 'the jobs that nobody holds are handed out');
	at(0, 'COMMIT');
	at(1, 'ROLLBACK');
	is(scalar(drain($node, 'q')), 2, 'the others are handed out afterwards');
	at(0, 'TRUNCATE o');
};

subtest 'a held job' => sub
{
	sql(q{INSERT INTO o VALUES (1, 'A', 0)});
	is(at(0, q{BEGIN; UPDATE o SET v = 1 WHERE id = 1}), '', 'a change');
	is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', 'its job is not handed out before the commit');
	at(0, 'COMMIT');
	is(sql(q{SELECT count(*) FROM (SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '10 s')) x}), '1', '... but after it');
	sql(q{INSERT INTO o VALUES (2, 'B', 0)});
	at(0, q{BEGIN; SAVEPOINT s; UPDATE o SET v = 1 WHERE id = 2; ROLLBACK TO s});
	is(sql(q{SELECT count(*) FROM (SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '10 s')) x}), '1', 'a rollback to a savepoint lets it go');
	is(at(0, q{UPDATE o SET v = 1 WHERE id = 2; COMMIT}), '', 'the transaction goes on');
	is(jobs(), 'B 1', '... with a job of its own');
	at(0, q{BEGIN; UPDATE o SET v = 3 WHERE id = 2; PREPARE TRANSACTION 'p'});
	is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', 'a prepared transaction holds it');
	$node->restart;
	$ask = in_one_session($node);
	@sessions = map { session($node) } 1 .. 3;
	is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', '... after a restart, too');
	sql(q{COMMIT PREPARED 'p'});
	is(sql(q{SELECT count(*) FROM (SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '10 s')) x}), '1', '... until it ends');
	clear();
};

subtest 'snapshots' => sub
{
	ask($_, q{SET lock_timeout = '1ms'}) for @sessions;
	at(0, q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM o});
	sql(q{INSERT INTO o VALUES (1, 'A', 0)});
	is(at(0, q{INSERT INTO o VALUES (2, 'A', 0); COMMIT}), '', 'a job that the snapshot does not see is no error');
	is(jobs(), 'A 1', '... and stands for the change');
	clear();
};

subtest 'many transactions hold one job' => sub
{
	sql(q{INSERT INTO o SELECT i, 'A', 0 FROM generate_series(1, 12) i});
	my @many = map { session($node) } 1 .. 12;
	ask($many[$_], q{SET lock_timeout = '1ms'; BEGIN; UPDATE o SET v = 1 WHERE id = } . ($_ + 1)) for 0 .. 11;
	is(join('', map { my ($out, $errors) = ask($_, 'COMMIT'); $errors } @many), '', 'no error');
	ok(sql(q{SELECT count(*) < 12 FROM pgq_ext.job}) eq 't', 'few jobs');
	end_session($_) for @many;
	clear();
};

subtest 'a topic' => sub
{
	create_queue($node, $_) for qw(x y);
	sql(q{SELECT pgq_bind('o.*', 'x'), pgq_bind('#', 'y'), pgq_unwatch_table('o', 'q'), pgq_watch_table('o', 'topic:o.changed', columns => '{}')});
	sql(q{INSERT INTO o VALUES (1, 'A', 0), (2, 'B', 0); UPDATE o SET v = 1});
	is(sql(q{SELECT string_agg(concat_ws(' ', queue, payload->'key', headers), E'\n' ORDER BY queue, job_id) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id)}),
		qq(x {"id": 1} {"topic": "o.changed"}\nx {"id": 2} {"topic": "o.changed"}\ny {"id": 1} {"topic": "o.changed"}\ny {"id": 2} {"topic": "o.changed"}), 'each queue coalesces for itself');
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('x', 9); UPDATE o SET v = 2});
	is(sql(q{SELECT string_agg(format('%s %s', queue, n), ', ' ORDER BY queue) FROM (SELECT queue, count(*) AS n FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) GROUP BY 1) c}), 'x 2, y 2', '... a queue whose jobs were done gets new ones');
	drain($node, $_) for qw(x y);
	sql(q{SELECT pgq_unwatch_table('o', 'topic:o.changed'), pgq_watch_table('o', 'q', columns => '{}', key => '{customer}'); TRUNCATE o});
};

# Transactions that change customers in all orders, beside workers. Each client changes rows of its own, so that only the jobs could make
# it wait for another one. A worker copies the sum of a customer: in the end the copy is right.
subtest 'all at once' => sub
{
	sql(q{CREATE TABLE item (id int PRIMARY KEY, customer int, v int); CREATE TABLE copy (customer int PRIMARY KEY, total int); INSERT INTO item SELECT i, i % 4, 0 FROM generate_series(0, 39) i;
		SELECT pgq_watch_table('item', 'q', columns => '{}', key => '{customer}');
		CREATE FUNCTION work() RETURNS int LANGUAGE plpgsql AS $$ DECLARE j pgq_ext.claimed_job; n int = 0; BEGIN
			FOR j IN SELECT * FROM pgq_claim('q', 1) LOOP
				INSERT INTO copy SELECT i.customer, sum(i.v) FROM item i WHERE i.customer = (j.payload->'key'->>'customer')::int GROUP BY 1 ON CONFLICT (customer) DO UPDATE SET total = EXCLUDED.total;
				PERFORM pgq_ack(j.job_id, j.lease); n = n + 1;
			END LOOP; RETURN n; END $$});
	my $dir = $node->basedir;
	append_to_file("$dir/change.sql", "\\set a random(0, 9)\n\\set b random(0, 9)\nBEGIN;\nUPDATE item SET v = v + 1 WHERE id = :client_id * 10 + :a;\nUPDATE item SET v = v + 1 WHERE id = :client_id * 10 + :b;\nCOMMIT;\n");
	$node->command_ok([ 'pgbench', '-n', '-c', 4, '-t', 500, '-f', "$dir/change.sql", $node->connstr('postgres') ], 'no deadlock');
	is(sql(q{SELECT sum(v) FROM item}), '4000', '... and all changes');
	cmp_ok(sql(q{SELECT count(*) FROM pgq_ext.job}), '<', 1000, 'few jobs');
	my $worker = session($node);
	send_sql($worker, q{DO $$ BEGIN FOR i IN 1 .. 3000 LOOP PERFORM work(); COMMIT; END LOOP; END $$});
	$node->command_ok([ 'pgbench', '-n', '-c', 4, '-t', 500, '-f', "$dir/change.sql", $node->connstr('postgres') ], 'beside a worker');
	is((reply($worker))[1], '', 'the worker has no error');
	1 while sql('SELECT work()') > 0 || sql('SELECT count(*) FROM pgq_ext.job') > 0;
	is(sql(q{SELECT count(*) FROM (SELECT customer, sum(v) AS total FROM item GROUP BY 1) i JOIN copy c USING (customer) WHERE i.total = c.total}), '4', 'no change is missed');
};

$node->stop;
done_testing();
