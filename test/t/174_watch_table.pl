# Watched tables: which statements enqueue which jobs, how old and new rows are paired, and how values look as JSON.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('watch', conf => "max_prepared_transactions = 2\n");
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }

create_queue($node, 'q');

# The payloads of all jobs of the queue, in their order, which are then deleted.
sub jobs
{
	my ($queue) = @_;
	$queue //= 'q';
	return sql(qq{WITH d AS (DELETE FROM pgq_ext.job j USING pgq_ext.queue q WHERE q.queue_id = j.queue_id AND q.queue = '$queue' RETURNING job_id, payload)
		SELECT string_agg(concat_ws(' ', payload->>'op', payload->>'key', payload->>'old', '>', payload->>'new'), E'\\n' ORDER BY job_id) FROM d});
}

# The same, of one statement. Lines of no job are ''.
sub changes_by { my ($statement) = @_; sql($statement); return jobs() }

sql(q{CREATE TABLE t (id int PRIMARY KEY, a text, b int)});
is(sql(q{SELECT pgq_watch_table('t', 'q')}), '', 'pgq_watch_table returns nothing');

subtest 'statements' => sub
{
	is(changes_by(q{INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)}), qq(INSERT {"id": 1} > {"a": "x", "b": 1, "id": 1}\nINSERT {"id": 2} > {"a": "y", "b": 2, "id": 2}), 'INSERT');
	is(changes_by(q{UPDATE t SET b = 5 WHERE id = 2}), 'UPDATE {"id": 2} {"a": "y", "b": 2, "id": 2} > {"a": "y", "b": 5, "id": 2}', 'UPDATE');
	is(changes_by(q{DELETE FROM t WHERE id = 1}), 'DELETE {"id": 1} {"a": "x", "b": 1, "id": 1} >', 'DELETE');
	is(changes_by(q{UPDATE t SET b = b}), '', 'UPDATE that changes nothing');
	is(changes_by(q{UPDATE t SET b = 6 WHERE id = 99}), '', 'UPDATE of no row');
	is(changes_by(q{UPDATE t SET id = 3}), qq(DELETE {"id": 2} {"a": "y", "b": 5, "id": 2} >\nINSERT {"id": 3} > {"a": "y", "b": 5, "id": 3}), 'a changed key');
	is(changes_by(q{INSERT INTO t VALUES (3, 'c', 3), (4, 'd', 4) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a}),
		qq(UPDATE {"id": 3} {"a": "y", "b": 5, "id": 3} > {"a": "c", "b": 5, "id": 3}\nINSERT {"id": 4} > {"a": "d", "b": 4, "id": 4}), 'ON CONFLICT DO UPDATE');
	is(changes_by(q{INSERT INTO t VALUES (3, 'e', 3) ON CONFLICT DO NOTHING}), '', 'ON CONFLICT DO NOTHING');
	is(join("\n", sort split /\n/, changes_by(q{MERGE INTO t USING (VALUES (3), (4), (5)) v (n) ON id = n
			WHEN MATCHED AND n = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET a = 'm' WHEN NOT MATCHED THEN INSERT VALUES (n, 'n', n)})),
		qq(DELETE {"id": 3} {"a": "c", "b": 5, "id": 3} >\nINSERT {"id": 5} > {"a": "n", "b": 5, "id": 5}\nUPDATE {"id": 4} {"a": "d", "b": 4, "id": 4} > {"a": "m", "b": 4, "id": 4}), 'MERGE');
	is(changes_by(q{COPY t FROM PROGRAM 'printf "7\\tseven\\t7\\n8\\t\\\\N\\t8\\n"'}),
		qq(INSERT {"id": 7} > {"a": "seven", "b": 7, "id": 7}\nINSERT {"id": 8} > {"a": null, "b": 8, "id": 8}), 'COPY');
	is(changes_by(q{TRUNCATE t}), '', 'TRUNCATE enqueues nothing');
	is(changes_by(q{SET session_replication_role = replica; INSERT INTO t VALUES (1)}), '', 'neither does a session with the role of a replica');
	sql(q{RESET session_replication_role});
	sql(q{TRUNCATE t});
};

subtest 'transactions' => sub
{
	is(changes_by(q{BEGIN; INSERT INTO t VALUES (1); ROLLBACK}), '', 'ROLLBACK');
	is(changes_by(q{BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; INSERT INTO t VALUES (2); ROLLBACK TO s; INSERT INTO t VALUES (3); COMMIT}),
		qq(INSERT {"id": 1} > {"a": null, "b": null, "id": 1}\nINSERT {"id": 3} > {"a": null, "b": null, "id": 3}), 'ROLLBACK TO SAVEPOINT');
	sql(q{BEGIN; UPDATE t SET b = 1 WHERE id = 1; PREPARE TRANSACTION 'p'});
	is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', 'PREPARE TRANSACTION');
	sql(q{COMMIT PREPARED 'p'});
	wait_for($node, q{count(*) = 1 FROM pgq_ext.job_status WHERE queue = 'q' AND state = 'ready'});
	is(sql(q{SELECT payload FROM pgq_claim('q', wait => '10 s')}),
		'{"op": "UPDATE", "key": {"id": 1}, "new": {"a": null, "b": 1, "id": 1}, "old": {"a": null, "b": null, "id": 1}, "table": "public.t"}', '... and COMMIT PREPARED');
	sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job; BEGIN; UPDATE t SET b = 2 WHERE id = 1; PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'});
	is(jobs(), '', '... and ROLLBACK PREPARED');
	sql(q{BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE t SET b = 3 WHERE id = 1; COMMIT});
	is(jobs(), 'UPDATE {"id": 1} {"a": null, "b": 1, "id": 1} > {"a": null, "b": 3, "id": 1}', 'SERIALIZABLE');
	sql(q{TRUNCATE t});
};

subtest 'columns' => sub
{
	sql(q{SELECT pgq_watch_table('t', 'q', columns => '{b}')});
	is(changes_by(q{INSERT INTO t VALUES (1, 'x', 1)}), 'INSERT {"id": 1} > {"b": 1}', 'only the named columns');
	is(changes_by(q{UPDATE t SET a = 'y'}), '', 'another column is changed: no job');
	is(changes_by(q{UPDATE t SET a = 'z', b = 2}), 'UPDATE {"id": 1} {"b": 1} > {"b": 2}', 'a named column is changed');
	sql(q{CREATE TABLE n (id int PRIMARY KEY, d numeric); INSERT INTO n VALUES (1, 1.0); SELECT pgq_watch_table('n', 'q')});
	is(changes_by(q{UPDATE n SET d = 1.00}), 'UPDATE {"id": 1} {"d": 1.0, "id": 1} > {"d": 1.00, "id": 1}', 'values are compared as bytes');
	sql(q{SELECT pgq_watch_table('t', 'q', columns => NULL); TRUNCATE t; DROP TABLE n});
	is(sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 't'::regclass AND NOT tgisinternal}), '3', 'a second call changes the watch');
	create_queue($node, 'q2');
	sql(q{SELECT pgq_watch_table('t', 'q2', columns => '{a}')});
	sql(q{INSERT INTO t VALUES (1, 'x', 1)});
	is(jobs(), 'INSERT {"id": 1} > {"a": "x", "b": 1, "id": 1}', 'two watches: one queue');
	is(jobs('q2'), 'INSERT {"id": 1} > {"a": "x"}', '... and the other');
	is(sql(q{SELECT pgq_unwatch_table('t', 'q2'), pgq_unwatch_table('t', 'q2')}), 't|f', 'pgq_unwatch_table');
	sql(q{TRUNCATE t});
};

subtest 'keys' => sub
{
	# An UPDATE moves rows 2 and 3 to a partition, whose trigger drops row 2: two old rows, one new row.
	sql(q{CREATE TABLE p (id int, part int, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
		CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
		CREATE FUNCTION drop_2() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.id = 2 THEN RETURN NULL; END IF; RETURN NEW; END';
		CREATE TRIGGER drop_2 BEFORE INSERT ON p2 FOR EACH ROW EXECUTE FUNCTION drop_2();
		INSERT INTO p VALUES (1, 1, 'one'), (2, 1, 'two'), (3, 1, 'three');
		SELECT pgq_watch_table('p', 'q', key => '{id}')});
	is(changes_by(q{UPDATE p SET part = 2, v = upper(v) WHERE id >= 2}),
		qq(DELETE {"id": 2} {"v": "two", "id": 2, "part": 1} >\nUPDATE {"id": 3} {"v": "three", "id": 3, "part": 1} > {"v": "THREE", "id": 3, "part": 2}), 'rows are paired by their key, not by their place');
	sql(q{TRUNCATE p; INSERT INTO p VALUES (2, 1, 'two'), (3, 1, 'three'); SELECT pgq_watch_table('p', 'q', columns => '{v}')});
	jobs();
	is(changes_by(q{UPDATE p SET part = 2, v = upper(v)}), qq(DELETE {"id": 2, "part": 1} {"v": "two"} >\nDELETE {"id": 3, "part": 1} {"v": "three"} >\nINSERT {"id": 3, "part": 2} > {"v": "THREE"}), 'the primary key is the default');
	sql(q{DROP TABLE p});

	# Each row gets the key of another row.
	sql(q{CREATE TABLE k (id int PRIMARY KEY DEFERRABLE, v text); INSERT INTO k VALUES (1, 'a'), (2, 'b'), (3, 'c'); SELECT pgq_watch_table('k', 'q')});
	is(join("\n", sort split /\n/, changes_by(q{UPDATE k SET id = 4 - id})), qq(UPDATE {"id": 1} {"v": "a", "id": 1} > {"v": "c", "id": 1}\nUPDATE {"id": 3} {"v": "c", "id": 3} > {"v": "a", "id": 3}), 'rows that exchange their keys');
	sql(q{CREATE TABLE nokey (a int, b text); INSERT INTO nokey VALUES (1, 'x'), (1, 'y'), (2, 'z'); SELECT pgq_watch_table('nokey', 'q')});
	is(changes_by(q{UPDATE nokey SET b = 'n' WHERE b <> 'x'}), qq(UPDATE > {"a": 1, "b": "n"}\nUPDATE > {"a": 2, "b": "n"}), 'without a key: no old');
	is(changes_by(q{UPDATE nokey SET b = b}), '', '... and no job for an unchanged row');
	is(changes_by(q{INSERT INTO nokey VALUES (7); DELETE FROM nokey WHERE a = 7}), qq(INSERT > {"a": 7, "b": null}\nDELETE {"a": 7, "b": null} >), '... INSERT and DELETE');

	# Rows of a key that is not unique cannot be paired.
	sql(q{UPDATE nokey SET b = a || b; SELECT pgq_watch_table('nokey', 'q', key => '{a}')});
	jobs();
	is(changes_by(q{DELETE FROM nokey WHERE a = 1; INSERT INTO nokey VALUES (1, 'p'), (1, 'q'), (3, NULL)}) =~ tr/\n//, 4, 'a key that is not unique');
	is(changes_by(q{UPDATE nokey SET b = b || '!' WHERE a < 3}), qq(UPDATE {"a": 2} {"a": 2, "b": "2n"} > {"a": 2, "b": "2n!"}\nDELETE {"a": 1} {"a": 1, "b": "p"} >\nDELETE {"a": 1} {"a": 1, "b": "q"} >\nINSERT {"a": 1} > {"a": 1, "b": "p!"}\nINSERT {"a": 1} > {"a": 1, "b": "q!"}), '... its rows are deleted and inserted');
	sql(q{INSERT INTO nokey VALUES (NULL, 'null')}); jobs();
	is(changes_by(q{UPDATE nokey SET b = 'N' WHERE a IS NULL}), 'UPDATE {"a": null} {"a": null, "b": "null"} > {"a": null, "b": "N"}', 'NULL as a key');
	sql(q{DROP TABLE k, nokey});

	# Many rows, out of place.
	sql(q{CREATE TABLE m (id int PRIMARY KEY DEFERRABLE, v int); INSERT INTO m SELECT i, 0 FROM generate_series(1, 3000) i; SELECT pgq_watch_table('m', 'q')});
	sql(q{DELETE FROM pgq_ext.job; UPDATE m SET id = 3001 - id, v = id});
	is(sql(q{SELECT count(*), bool_and(payload->>'op' = 'UPDATE' AND payload->'key'->'id' = payload->'new'->'id' AND payload->'key'->'id' = payload->'old'->'id'), bool_and((payload->'new'->>'v')::int = 3001 - (payload->'key'->>'id')::int) FROM pgq_ext.job}),
		'3000|t|t', '3,000 rows exchange their keys');
	sql(q{DELETE FROM pgq_ext.job; UPDATE m SET id = id + 1000});
	is(sql(q{SELECT string_agg(format('%s %s', op, n), ', ' ORDER BY op) FROM (SELECT payload->>'op' AS op, count(*) AS n FROM pgq_ext.job GROUP BY 1) x}), 'DELETE 1000, INSERT 1000, UPDATE 2000', '... get other keys');
	jobs();
	sql(q{DROP TABLE m});
};

subtest 'cascades' => sub
{
	sql(q{CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
		INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (10, 1), (11, 1), (20, 2); SELECT pgq_watch_table('child', 'q')});
	is(changes_by(q{UPDATE parent SET id = 5 WHERE id = 2}), 'UPDATE {"id": 20} {"id": 20, "parent": 2} > {"id": 20, "parent": 5}', 'ON UPDATE CASCADE');
	is(changes_by(q{DELETE FROM parent WHERE id = 1}), qq(DELETE {"id": 10} {"id": 10, "parent": 1} >\nDELETE {"id": 11} {"id": 11, "parent": 1} >), 'ON DELETE CASCADE');
	sql(q{DROP TABLE parent, child});
};

subtest 'values' => sub
{
	sql(q{CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN posint AS int CHECK (VALUE > 0); CREATE TYPE pair AS (x int, y timestamptz);
		CREATE TABLE v (id bigint PRIMARY KEY, gone int, yes boolean, small smallint, n numeric, r real, d float8, ch char(4), vc varchar, by bytea, u uuid, j json, jb jsonb,
			da date, ti time, ts timestamp, tz timestamptz, iv interval, rg tstzrange, ar text[], at timestamptz[], m mood, po posint, pr pair, mo money, cl regclass, ne inet, "A b""c" text,
			twice bigint GENERATED ALWAYS AS (id * 2) STORED);
		ALTER TABLE v DROP gone; SELECT pgq_watch_table('v', 'q')});
	my $row = q{(9007199254740993, true, -3, 'NaN', 'Infinity', 0.1, 'ab', 'v', '\xff00', '12345678-1234-1234-1234-123456789abc', '{"z": 1, "z": [2]}', '{"b": [{}, [], null], "a": "s"}',
		'2024-02-29', '12:34:56', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56+02', '1 day 02:03', '[2024-01-01 00:00+02,)', '{a,NULL}', '{2024-01-01 00:00+02}', 'glad', 7, '(1,"2024-01-01 00:00+02")',
		1234.5, 'pg_class', '10.0.0.1/8', 'odd')};
	my $insert = "INSERT INTO v VALUES $row";
	sql($insert);
	my $json = sql(q{SELECT payload->>'new' FROM pgq_ext.job});
	jobs();
	my $expected = q{{"id": 9007199254740993, "yes": true, "small": -3, "n": "NaN", "r": "Infinity", "d": 0.1, "ch": "ab  ", "vc": "v", "by": "\\\\xff00",
		"u": "12345678-1234-1234-1234-123456789abc", "j": {"z": [2]}, "jb": {"b": [{}, [], null], "a": "s"}, "da": "2024-02-29", "ti": "12:34:56", "ts": "2024-02-29T12:34:56.789",
		"tz": "2024-02-29T10:34:56+00:00", "iv": "P1DT2H3M", "rg": "[\"2023-12-31 22:00:00+00\",)", "ar": ["a", null], "at": ["2023-12-31T22:00:00+00:00"], "m": "glad", "po": 7,
		"pr": {"x": 1, "y": "2023-12-31T22:00:00+00:00"}, "mo": "$1,234.50", "cl": "pg_class", "ne": "10.0.0.1/8", "A b\"c": "odd", "twice": 18014398509481986}};
	is($json, sql("SELECT \$json\$$expected\$json\$::jsonb"), 'values of many types');

	# Whatever the session has set, the JSON is the same.
	sql(q{TRUNCATE v});
	for my $setting ('bytea_output = escape', "TimeZone = 'Asia/Tokyo'", 'IntervalStyle = sql_standard', 'extra_float_digits = -3', "DateStyle = 'German, DMY'", 'quote_all_identifiers = on',
		'search_path = public', q{lc_monetary = 'C.UTF-8'})
	{
		sql("SET $setting");
		sql($insert =~ s/2024-02-29/20240229/gr);
		is(sql(q{SELECT payload->>'new' FROM pgq_ext.job}), $json, "SET $setting");
		my ($name) = $setting =~ /^(\w+)/;
		isnt(sql("SHOW $name"), '', '... stays for the session');
		sql("RESET $name; TRUNCATE v");
		jobs();
	}
	sql(q{DROP TABLE v; DROP TYPE mood, pair; DROP DOMAIN posint});
};

subtest 'a long statement' => sub
{
	sql(q{CREATE TABLE long (id int PRIMARY KEY, v text); SELECT pgq_watch_table('long', 'q'); INSERT INTO long SELECT i, repeat('x', 1000) FROM generate_series(1, 5000) i});
	is(sql(q{SELECT count(*), count(DISTINCT payload->'key'), bool_and(payload->'new' = jsonb_build_object('id', payload->'key'->'id', 'v', repeat('x', 1000))),
		bool_and(ordered) FROM (SELECT payload, (payload->'key'->>'id')::int = row_number() OVER (ORDER BY job_id) AS ordered FROM pgq_ext.job) j}), '5000|5000|t|t', 'all rows, in their order');
	sql(q{DELETE FROM pgq_ext.job; DROP TABLE long});
	sql(q{CREATE TABLE wide (id int PRIMARY KEY, v text); SELECT pgq_watch_table('wide', 'q'); INSERT INTO wide SELECT i, repeat(i::text, 1000000) FROM generate_series(1, 7) i; UPDATE wide SET v = v || '!'});
	is(sql(q{SELECT count(*), max(length(payload->'new'->>'v')), bool_and(payload->'new'->>'v' = payload->'old'->>'v' || '!') FILTER (WHERE payload->>'op' = 'UPDATE') FROM pgq_ext.job}), '14|1000001|t', 'long values');
	sql(q{DELETE FROM pgq_ext.job; DROP TABLE wide});
};

subtest 'names' => sub
{
	sql(q{CREATE SCHEMA "Sch ema"; CREATE TABLE "Sch ema"."T""able, 1" ("i,d" int PRIMARY KEY, "*" int, "PRIMARY KEY" int); SELECT pgq_create_queue('Q"u''e/1');
		SELECT pgq_watch_table('"Sch ema"."T""able, 1"', 'Q"u''e/1', columns => ARRAY['*', 'i,d', 'PRIMARY KEY'], key => ARRAY['PRIMARY KEY', 'i,d'])});
	sql(q{INSERT INTO "Sch ema"."T""able, 1" VALUES (1, 2, 3)});
	is(sql(q{SELECT payload FROM pgq_ext.job}), '{"op": "INSERT", "key": {"i,d": 1, "PRIMARY KEY": 3}, "new": {"*": 2, "i,d": 1, "PRIMARY KEY": 3}, "old": null, "table": "\"Sch ema\".\"T\"\"able, 1\""}', 'odd names');
	is(sql(q{SELECT "table", target, columns, key, problem FROM pgq_ext.watch WHERE target ~ 'Q'}), q{"Sch ema"."T""able, 1"|queue:Q"u'e/1|{*,"i,d","PRIMARY KEY"}|{"i,d","PRIMARY KEY"}|}, '... in the view');
	sql(q{ALTER TABLE "Sch ema"."T""able, 1" RENAME TO t1; ALTER SCHEMA "Sch ema" RENAME TO sch; DELETE FROM pgq_ext.job; UPDATE sch.t1 SET "*" = 7});
	is(sql(q{SELECT payload->>'table' FROM pgq_ext.job}), 'sch.t1', 'renamed');
	my $long = 'x' x 59;
	sql(qq{SELECT pgq_create_queue('$long'), pgq_create_queue('topic:q')});
	sql(qq{SELECT pgq_watch_table('sch.t1', '$long'), pgq_watch_table('sch.t1', 'topic:$long'), pgq_watch_table('sch.t1', 'queue:topic:q')});
	is(sql(q{SELECT count(DISTINCT tgname), max(length(tgname)) FROM pg_trigger WHERE tgrelid = 'sch.t1'::regclass AND NOT tgisinternal}), '12|63', 'long names of queues and topics');
	is(sql(qq{SELECT pgq_unwatch_table('sch.t1', 'queue:$long'), pgq_unwatch_table('sch.t1', 'topic:q'), pgq_unwatch_table('sch.t1', 'queue:topic:q'), pgq_unwatch_table('sch.t1', 'topic:$long')}), 't|f|t|t', '... are told apart');
	sql(q{DROP SCHEMA sch CASCADE});
	is(sql(q{SELECT count(*) FROM pgq_ext.watch WHERE target ~ 'Q'}), '0', 'a dropped schema');
	jobs('Q"u\'\'e/1');
};

subtest 'the queue' => sub
{
	sql(q{CREATE TABLE tq (id int PRIMARY KEY); SELECT pgq_create_queue('old'); SELECT pgq_watch_table('tq', 'old')});
	sql(q{SELECT pgq_rename_queue('old', 'new'); INSERT INTO tq VALUES (1)});
	is(jobs('new'), 'INSERT {"id": 1} > {"id": 1}', 'the watch follows a renamed queue');
	is(sql(q{SELECT target FROM pgq_ext.watch WHERE "table" = 'tq'::regclass}), 'queue:new', '... and the view, too');
	my ($state, $message) = sqlstate($node, q{DELETE FROM pgq_ext.job; SELECT pgq_drop_queue('new')});
	is($state, '2BP01', 'the queue of a watch is not dropped');
	like($message, qr/table public.tq is watched for queue "new"/, '... and the message names the table');
	(undef, undef, $message) = $node->psql('postgres', q{SELECT pgq_drop_queue('new', force => true); SELECT pgq_create_queue('new')});
	like($message, qr/NOTICE:  table public.tq is watched for queue "new"/, '... with force it is, and a notice names the table');
	($state, $message) = sqlstate($node, q{INSERT INTO tq VALUES (2)});
	is($state, '42704', 'another queue of the name gets no jobs');
	like($message, qr/queue "old" of the watch does not exist.*Trigger "pgq_watch_old_insert" of table public.tq.*pgq_watch_table/s, '... and the message says what to do');
	sql(q{SELECT pgq_unwatch_table('tq', 'old'); SELECT pgq_create_queue('going')});
	# A watch and a drop of its queue at the same time: the second one waits for the first one.
	my ($watcher, $dropper) = (session($node), session($node));
	ask($watcher, q{BEGIN; SELECT pgq_watch_table('tq', 'going')});
	send_sql($dropper, q{SELECT pgq_drop_queue('going')});
	wait_for($node, q{count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'drop_queue'});
	ask($watcher, 'COMMIT');
	like((reply($dropper))[1], qr/table public.tq is watched for queue "going"/, 'a drop sees a watch that was being made');
	sql(q{SELECT pgq_unwatch_table('tq', 'going')});
	ask($dropper, q{BEGIN; SELECT pgq_drop_queue('going')});
	send_sql($watcher, q{SELECT pgq_watch_table('tq', 'going')});
	wait_for($node, q{count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'watch_table'});
	ask($dropper, 'COMMIT');
	like((reply($watcher))[1], qr/queue "going" does not exist/, '... and a watch sees a drop');
	is(sql(q{SELECT count(*) FROM pgq_ext.watch WHERE "table" = 'tq'::regclass}), '0', '... and makes no trigger');
	end_session($_) for $watcher, $dropper;
	sql(q{SELECT pgq_watch_table('tq', 'new'); INSERT INTO tq VALUES (2)});
	is(jobs('new'), 'INSERT {"id": 2} > {"id": 2}', 'watched again');
	sql(q{SELECT pgq_alter_queue('new', max_depth => 2)});
	($state, $message) = sqlstate($node, q{INSERT INTO tq VALUES (3), (4), (5)});
	is($state, 'PQ002', 'a full queue');
	is(sql(q{SELECT count(*) FROM tq}), '2', '... undoes the statement');
	sql(q{DROP TABLE tq});
};

$node->stop;
done_testing();
