# Whose rights count for a watched table, which tables can be watched, bad arguments, and what ALTER TABLE, a dump and a restore do.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('watch');
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }

# The SQLSTATE and the message of a statement that fails, as a role.
sub fails
{
	my ($sql, $role) = @_;
	return sqlstate($node, defined $role ? "SET ROLE $role; $sql" : $sql);
}

sub is_error
{
	my ($sql, $state, $message, $what, $role) = @_;
	my ($is, $text) = fails($sql, $role);
	is($is, $state, $what);
	like($text, $message, '... and the message');
	return;
}

create_queue($node, $_) for qw(q other);
sql(q{CREATE ROLE owner; CREATE ROLE writer; CREATE ROLE maker; GRANT CREATE ON SCHEMA public TO owner;
	SET ROLE owner; CREATE TABLE t (id int PRIMARY KEY, a int, b int); GRANT INSERT, UPDATE, SELECT ON t TO writer; GRANT TRIGGER ON t TO maker; RESET ROLE});

subtest 'who may watch a table' => sub
{
	my $watch = q{SELECT pgq_watch_table('t', 'q')};
	is_error($watch, '42501', qr/permission denied for function pgq_watch_table/, 'EXECUTE on pgq_watch_table', 'maker');
	sql(q{GRANT EXECUTE ON FUNCTION pgq_watch_table, pgq_unwatch_table TO maker, writer, owner});
	is_error($watch, '42501', qr/permission denied for function pgq_ext.row_changed.*GRANT EXECUTE ON FUNCTION pgq_ext.row_changed TO maker/s, 'EXECUTE on pgq_ext.row_changed', 'maker');
	sql(q{GRANT EXECUTE ON FUNCTION pgq_ext.row_changed TO maker, owner, writer});
	is_error($watch, '42501', qr/permission denied for table t/, 'the privilege TRIGGER', 'writer');
	is_error($watch, '42501', qr/permission denied for function pgq_enqueue.*rights of the owner of the table, role "owner".*GRANT EXECUTE ON FUNCTION pgq_enqueue TO owner/s, 'the owner needs EXECUTE on pgq_enqueue', 'maker');
	sql(q{GRANT EXECUTE ON FUNCTION pgq_enqueue TO owner});
	sql(q{SELECT pgq_grant('q', 'writer', '{enqueue}')});
	is_error($watch, '42501', qr/permission denied for queue "q".*Role "owner" does not have the right "enqueue"/s, 'the owner needs the right on a closed queue', 'maker');
	sql(q{SELECT pgq_grant('q', 'owner', '{enqueue}')});
	sql("SET ROLE maker; $watch; RESET ROLE");
	is(sql(q{SELECT count(*) FROM pgq_ext.watch WHERE "table" = 't'::regclass AND problem IS NULL}), '1', 'now it is watched');
	is_error(q{SELECT pgq_unwatch_table('t', 'q')}, '42501', qr/must be owner of table t/, 'only the owner ends it', 'maker');
};

subtest 'who sees the name of the table' => sub
{
	sql(q{CREATE ROLE admin; SELECT pgq_grant('q', 'admin', '{admin}'); GRANT EXECUTE ON FUNCTION pgq_drop_queue TO admin});
	is_error(q{SELECT pgq_drop_queue('q')}, '2BP01', qr/a table of another role is watched for queue "q"/, 'not a role without a privilege on the table', 'admin');
	sql('GRANT INSERT (a) ON t TO admin; GRANT REFERENCES ON t TO admin');
	is_error(q{SELECT pgq_drop_queue('q')}, '2BP01', qr/table public.t is watched for queue "q"/, '... but a role with one', 'admin');
	my (undef, undef, $notice) = $node->psql('postgres', qq{\\set VERBOSITY verbose\nBEGIN; SELECT pgq_drop_queue('q', force => true); ROLLBACK});
	like($notice, qr/NOTICE:  00000: table public.t is watched/, 'a notice has no state of an error');
	sql(q{REVOKE ALL ON t FROM admin; SELECT pgq_revoke('q', 'admin', '{admin}')});
};

subtest 'whose rights count' => sub
{
	sql(q{SELECT pgq_revoke('q', 'writer', '{enqueue}'); SET ROLE writer; INSERT INTO t VALUES (1, 1, 1); RESET ROLE});
	is(sql(q{SELECT payload->>'op' FROM pgq_ext.job}), 'INSERT', 'a writer needs no right on the queue');
	sql(q{SELECT pgq_revoke('q', 'owner', '{enqueue}')});
	is_error('INSERT INTO t VALUES (2)', '42501', qr/permission denied for queue "q".*Role "owner" does not have.*CONTEXT:  trigger "pgq_watch_q_insert" of pgq_watch_table on table "t"/s, 'the right of the owner was revoked', 'writer');
	is_error('INSERT INTO t VALUES (2)', '42501', qr/Role "owner" does not have/, '... also for a superuser');
	sql(q{SELECT pgq_grant('q', 'owner', '{enqueue}'); REVOKE EXECUTE ON FUNCTION pgq_enqueue FROM owner});
	is_error('INSERT INTO t VALUES (2)', '42501', qr/permission denied for function pgq_enqueue/, 'EXECUTE was revoked', 'writer');
	sql(q{GRANT EXECUTE ON FUNCTION pgq_enqueue TO owner; ALTER TABLE t OWNER TO writer});
	is_error('INSERT INTO t VALUES (2)', '42501', qr/rights of the owner of the table, role "writer"/, 'another owner');
	sql(q{ALTER TABLE t OWNER TO owner; GRANT INSERT, SELECT, UPDATE ON t TO writer; SET ROLE writer; INSERT INTO t VALUES (2, 2, 2); RESET ROLE});
	is(sql(q{SELECT count(*) FROM pgq_ext.job}), '2', 'the owner is back');
	is_error(q{SELECT pgq_watch_table('t', 'topic:changes.t')}, '42501', qr/permission denied for function pgq_publish/, 'a topic: EXECUTE on pgq_publish');
	sql(q{GRANT EXECUTE ON FUNCTION pgq_publish TO owner; SELECT pgq_grant_topic('changes.#', 'writer', '{publish}')});
	is_error(q{SELECT pgq_watch_table('t', 'topic:changes.t')}, '42501', qr/permission denied for topic "changes.t".*Role "owner"/s, '... and the right to publish');
	sql(q{SELECT pgq_grant_topic('changes.*', 'owner', '{publish}'); SELECT pgq_watch_table('t', 'topic:changes.t'), pgq_bind('changes.#', 'other')});
	sql(q{DELETE FROM pgq_ext.job; SET ROLE writer; UPDATE t SET a = 7 WHERE id = 2; RESET ROLE});
	is(sql(q{SELECT string_agg(concat_ws(' ', q.queue, j.headers, j.payload->'new'), E'\n' ORDER BY q.queue) FROM pgq_ext.job j JOIN pgq_ext.queue q USING (queue_id)}),
		qq(other {"topic": "changes.t"} {"a": 7, "b": 2, "id": 2}\nq {"a": 7, "b": 2, "id": 2}), 'a topic has the header');
	sql(q{SELECT pgq_bind('#', 'q', '{"when_full": "skip"}'), pgq_alter_queue('q', max_depth => 2), pgq_unwatch_table('t', 'q'); DELETE FROM pgq_ext.job; INSERT INTO t SELECT generate_series(10, 14)});
	is(sql(q{SELECT string_agg(queue || n, ' ' ORDER BY queue) FROM (SELECT queue, count(*) AS n FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) GROUP BY 1) x}), 'other5 q2', 'a full queue that may be skipped gets what it has room for');
	is(sql(q{SELECT pgq_unwatch_table('t', 'topic:changes.t'), pgq_unwatch_table('t', 'topic:changes.t')}), 't|f', 'the watch is over');
	sql(q{SELECT pgq_unbind('#', 'q'), pgq_alter_queue('q', max_depth => 0); DELETE FROM pgq_ext.job});
};

subtest 'code of the owner of a type' => sub
{
	# The cast runs with the rights of the owner of the table, whoever writes.
	sql(q{CREATE TABLE seen (who text); GRANT ALL ON seen TO PUBLIC; GRANT CREATE ON SCHEMA public TO owner; CREATE TABLE secret AS SELECT 1 AS x;
		SET ROLE owner; CREATE TYPE mood AS ENUM ('glad');
		CREATE FUNCTION mood_json(mood) RETURNS json LANGUAGE plpgsql AS $f$
		DECLARE word text;
		BEGIN
			INSERT INTO seen VALUES (current_user || ' ' || session_user::text || ' ' || current_setting('search_path'));
			BEGIN PERFORM * FROM public.secret; word = 'read a secret'; EXCEPTION WHEN insufficient_privilege THEN word = 'no secret'; END;
			BEGIN RESET ROLE; word = word || ', reset'; EXCEPTION WHEN OTHERS THEN word = word || ', no reset'; END;
			BEGIN SET SESSION AUTHORIZATION postgres; word = word || ', postgres'; EXCEPTION WHEN OTHERS THEN word = word || ', no postgres'; END;
			BEGIN CREATE TEMP TABLE pg_proc (x int); word = word || ', temp'; EXCEPTION WHEN OTHERS THEN word = word || ', no temp'; END;
			RETURN to_json(word);
		END $f$ SET search_path = public;
		CREATE CAST (mood AS json) WITH FUNCTION mood_json(mood); CREATE TABLE e (id int PRIMARY KEY, m mood); SELECT pgq_watch_table('e', 'q'); RESET ROLE});
	sql(q{INSERT INTO e VALUES (1, 'glad')});
	is(sql(q{SELECT payload->'new'->>'m' FROM pgq_ext.job}), 'no secret, no reset, no postgres, no temp', 'a superuser writes: the cast has no rights of the superuser');
	is(sql(q{SELECT split_part(who, ' ', 1) FROM seen}), 'owner', '... it runs as the owner');
	is(sql(q{SELECT current_user = session_user, current_setting('search_path')}), 't|"$user", public', '... and leaves nothing');
	sql(q{DROP TABLE e, seen, secret; DROP TYPE mood CASCADE; DELETE FROM pgq_ext.job});

	# Code that changes the watched table while its rows are read.
	sql(q{CREATE TYPE again AS ENUM ('x'); CREATE TABLE r (id int PRIMARY KEY, m again);
		CREATE FUNCTION again_json(again) RETURNS json LANGUAGE plpgsql AS $f$
		BEGIN
			IF pg_trigger_depth() < 4 THEN
				ALTER TABLE seq_of_r ADD COLUMN IF NOT EXISTS y int;
				INSERT INTO r SELECT max(id) + 1 FROM r;
				INSERT INTO r SELECT max(id) + 1, 'x' FROM r;
			END IF;
			RETURN '1';
		END $f$ SET search_path = public;
		CREATE TABLE seq_of_r (x int); CREATE CAST (again AS json) WITH FUNCTION again_json(again); SELECT pgq_watch_table('r', 'q'); INSERT INTO r VALUES (1, 'x')});
	is(sql(q{SELECT count(*), count(DISTINCT payload->'key') FROM pgq_ext.job}), sql(q{SELECT count(*), count(*) FROM r}), 'a cast that writes to the watched table');
	sql(q{DROP TABLE r, seq_of_r; DROP TYPE again CASCADE; DELETE FROM pgq_ext.job});
};

subtest 'relations that cannot be watched' => sub
{
	sql(q{CREATE VIEW v AS SELECT * FROM t; CREATE MATERIALIZED VIEW mv AS SELECT * FROM t; CREATE SEQUENCE s; CREATE FOREIGN DATA WRAPPER w; CREATE SERVER sv FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE ft (id int) SERVER sv;
		CREATE TABLE pt (id int) PARTITION BY LIST (id); CREATE FOREIGN TABLE fp PARTITION OF pt FOR VALUES IN (1) SERVER sv});
	for (['v', 'a view'], ['mv', 'a materialized view'], ['s', 'a sequence'], ['ft', 'a foreign table'], ['t_pkey', 'an index'], ['pt', 'a partition that is a foreign table'], ['pg_class', 'a system table'],
		['pgq_ext.job', 'a table of pgq_ext'], ['pgq_ext.queue', 'another one'], ['information_schema.sql_features', 'information_schema'])
	{
		is_error("SELECT pgq_watch_table('$_->[0]', 'q')", '42809', qr/cannot be watched/, $_->[1]);
	}
	is(sqlstate($node, q{SELECT pgq_watch_table((SELECT relation FROM pgq_ext.segment_entries() LIMIT 1), 'q')}), '42809', 'a segment');
	is(sqlstate($node, q{CREATE TEMP TABLE tt (id int); SELECT pgq_watch_table('tt', 'q')}), '42809', 'a temporary table');
	is(sqlstate($node, q{SELECT pgq_watch_table(4294967295::oid::regclass, 'q')}), '42P01', 'a table that does not exist');
	is(sqlstate($node, q{SELECT pgq_unwatch_table(4294967295::oid::regclass, 'q')}), '42P01', '... for pgq_unwatch_table');
	sql(q{DROP VIEW v; DROP MATERIALIZED VIEW mv; DROP SEQUENCE s; DROP FOREIGN TABLE ft; DROP TABLE pt; DROP SERVER sv; DROP FOREIGN DATA WRAPPER w});
	sql(q{CREATE UNLOGGED TABLE u (id int PRIMARY KEY); SELECT pgq_watch_table('u', 'q'); INSERT INTO u VALUES (1)});
	is(sql(q{SELECT count(*) FROM pgq_ext.job}), '1', 'an unlogged table can');
	sql(q{DROP TABLE u; DELETE FROM pgq_ext.job});
};

subtest 'arguments' => sub
{
	is_error(q{SELECT pgq_watch_table(NULL, 'q')}, '22004', qr/table/, 'no table');
	is_error(q{SELECT pgq_watch_table('t', NULL)}, '22004', qr/target/, 'no target');
	is_error(q{SELECT pgq_unwatch_table('t', NULL)}, '22004', qr/target/, 'no target');
	is_error(q{SELECT pgq_watch_table('t', 'qq')}, '42704', qr/queue "qq" does not exist/, 'no such queue');
	is_error(q{SELECT pgq_watch_table('t', 'a b')}, '22023', qr/queue/, 'no name of a queue');
	is_error(q{SELECT pgq_watch_table('t', 'topic:' || repeat('x', 256))}, '22023', qr/topic must not be longer than 255 bytes/, 'a long topic');
	is_error(q{SELECT pgq_watch_table('t', 'q', columns => '{id,c}')}, '42703', qr/column "c" of watched table public.t does not exist/, 'no such column');
	is_error(q{SELECT pgq_watch_table('t', 'q', key => '{xmin}')}, '42703', qr/column "xmin"/, 'a system column');
	is_error(q{SELECT pgq_watch_table('t', 'q', columns => '{a,a}')}, '22023', qr/column "a" occurs twice in columns/, 'twice');
	is_error(q{SELECT pgq_watch_table('t', 'q', key => '{a,a}')}, '22023', qr/column "a" occurs twice in key/, 'twice');
	is_error(q{SELECT pgq_watch_table('t', 'q', key => '{}')}, '22023', qr/key must not be empty/, 'an empty key');
	is_error(q{SELECT pgq_watch_table('t', 'q', columns => '{NULL}')}, '22004', qr/columns/, 'NULL among columns');
	is_error(q{SELECT pgq_watch_table('t', 'q', columns => '{{a},{b}}')}, '2202E', qr/columns/, 'two dimensions');
	is_error(q{SELECT pgq_ext.row_changed()}, '39P01', qr/pgq_ext.row_changed\(\) must be called as a trigger/, 'a call in SQL');
	is_error(q{BEGIN READ ONLY; SELECT pgq_watch_table('t', 'q')}, '25006', qr/read-only/, 'a read-only transaction');
	is(sql(q{SELECT count(*) FROM pgq_ext.watch}), '0', 'nothing was made');
};

subtest 'ALTER TABLE' => sub
{
	sql(q{SELECT pgq_watch_table('t', 'q', columns => '{a}', key => '{id}'); ALTER TABLE t RENAME a TO c});
	is_error('INSERT INTO t VALUES (20)', '42703', qr/column "a" of watched table public.t does not exist.*Trigger "pgq_watch_q_insert" of table public.t.*pgq_watch_table/s, 'a renamed column');
	sql(q{SELECT pgq_watch_table('t', 'q', columns => '{c}'); UPDATE t SET c = 99 WHERE id = 2});
	is(sql(q{SELECT payload->'new' FROM pgq_ext.job}), '{"c": 99}', 'watched again');
	sql(q{ALTER TABLE t ADD d int DEFAULT 5; DELETE FROM pgq_ext.job; SELECT pgq_watch_table('t', 'q'); UPDATE t SET b = 3 WHERE id = 2});
	is(sql(q{SELECT payload->'old', payload->'new' FROM pgq_ext.job}), '{"b": 2, "c": 99, "d": 5, "id": 2}|{"b": 3, "c": 99, "d": 5, "id": 2}', 'a column that was added');
	sql(q{ALTER TABLE t RENAME id TO key; ALTER TABLE t ALTER b TYPE text, DROP c; DELETE FROM pgq_ext.job; UPDATE t SET b = 'x' WHERE key = 2});
	is(sql(q{SELECT payload FROM pgq_ext.job}), '{"op": "UPDATE", "key": {"key": 2}, "new": {"b": "x", "d": 5, "key": 2}, "old": {"b": "3", "d": 5, "key": 2}, "table": "public.t"}', 'a renamed primary key, another type, a dropped column');
	sql(q{ALTER TABLE t DROP CONSTRAINT t_pkey; DELETE FROM pgq_ext.job; UPDATE t SET b = 'y' WHERE key = 2});
	is(sql(q{SELECT payload->>'key', payload->>'old' FROM pgq_ext.job}), '|', 'no primary key any more');
	sql(q{ALTER TABLE t ADD PRIMARY KEY (key); DELETE FROM pgq_ext.job; ALTER TABLE t DISABLE TRIGGER ALL; UPDATE t SET b = 'z' WHERE key = 2; ALTER TABLE t ENABLE TRIGGER ALL});
	is(sql(q{SELECT count(*) FROM pgq_ext.job}), '0', 'disabled triggers');
	sql(q{ALTER TRIGGER pgq_watch_q_update ON t RENAME TO aaa; UPDATE t SET b = 'w' WHERE key = 2; SELECT pgq_watch_table('t', 'q', columns => '{b}')});
	is(sql(q{SELECT count(*) FROM pgq_ext.job}), '1', 'a renamed trigger fires');
	is(sql(q{SELECT triggers FROM pgq_ext.watch}), '{pgq_watch_q_insert,aaa,pgq_watch_q_delete}', '... and is changed by the next call');
	sql(q{CREATE TRIGGER pgq_watch_q_insert2 AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.row_changed('x')});
	is_error('INSERT INTO t VALUES (30)', '39P01', qr/trigger "pgq_watch_q_insert2" is not as pgq_watch_table makes it/, 'a trigger of another form');
	is(sql(q{SELECT status, problem FROM pgq_ext.watch_entries() WHERE target = 'x'}), 'fail|trigger "pgq_watch_q_insert2" is not as pgq_watch_table makes it', '... is named in the view');
	sql(q{DROP TRIGGER pgq_watch_q_insert2 ON t; DELETE FROM pgq_ext.job});
};

subtest 'dump and restore' => sub
{
	my $file = $node->basedir . '/dump';
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $file, $node->connstr('postgres') ], 'pg_dump');
	$node->safe_psql('postgres', 'CREATE DATABASE copy');
	$node->command_ok([ 'pg_restore', '-d', $node->connstr('copy'), '--no-privileges', $file ], 'pg_restore');
	is($node->safe_psql('copy', 'SELECT count(*) FROM pgq_ext.job'), '0', 'the restore of the data enqueues nothing');
	is($node->safe_psql('copy', q{SELECT "table", target, columns, key, problem FROM pgq_ext.watch}), 't|queue:q|{b}|{key}|', 'the watch is there');
	$node->safe_psql('copy', q{GRANT EXECUTE ON FUNCTION pgq_enqueue TO owner; SELECT pgq_grant('q', 'owner', '{enqueue}'); INSERT INTO t VALUES (77)});
	is($node->safe_psql('copy', q{SELECT payload->>'key' FROM pgq_ext.job}), '{"key": 77}', '... and works');

	# Only the table, into a database whose queue with that id is another one.
	$node->safe_psql('postgres', 'CREATE DATABASE part');
	$node->safe_psql('part', q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('mail'), pgq_create_queue('q')});
	$node->command_ok([ 'pg_restore', '-d', $node->connstr('part'), '--no-privileges', '-t', 't', '--section', 'pre-data', $file ], 'pg_restore of the table');
	$node->safe_psql('part', $node->safe_psql('postgres', q{SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'pgq_watch_q_insert'}));
	is(sqlstate($node, 'INSERT INTO t VALUES (77)', 'part'), '42704', 'no queue of the other database gets the rows');
	is($node->safe_psql('part', 'SELECT count(*) FROM pgq_ext.job'), '0', '... nothing is enqueued');
	$node->safe_psql('part', q{GRANT EXECUTE ON FUNCTION pgq_enqueue TO owner; SELECT pgq_unwatch_table('t', 'q'), pgq_watch_table('t', 'q'); INSERT INTO t VALUES (77)});
	is($node->safe_psql('part', 'SELECT queue FROM pgq_ext.job_status'), 'q', '... until the table is watched there');
};

$node->stop;
done_testing();
