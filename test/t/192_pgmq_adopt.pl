# From the original pgmq to the extension pgmq of this project, and back, as docs/pgmq.md says: tables of the shape that the original
# leaves become queues with the same messages, ids, times, owners and privileges. And archives that pg_partman partitions.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }

# ---- what the original leaves ----

my $columns = 'read_ct integer NOT NULL DEFAULT 0, enqueued_at timestamptz NOT NULL DEFAULT now(), last_read_at timestamptz, vt timestamptz NOT NULL, message jsonb, headers jsonb';
# left_queue NAME, KIND: creates the two tables of a queue; KIND: UNLOGGED, or PARTITIONED by msg_id
sub left_queue
{
	my ($name, $kind) = @_;
	my $partitioned = ($kind // '') eq 'PARTITIONED';
	sql(sprintf q{CREATE %s TABLE pgmq.q_%s (msg_id bigint %s GENERATED ALWAYS AS IDENTITY, %s) %s}, $partitioned ? '' : $kind // '', $name, $partitioned ? '' : 'PRIMARY KEY', $columns, $partitioned ? 'PARTITION BY RANGE (msg_id)' : '');
	sql("CREATE TABLE pgmq.q_${name}_$_ PARTITION OF pgmq.q_$name FOR VALUES FROM ($_) TO ($_ + 10)") for $partitioned ? (1, 11) : ();
	sql("CREATE INDEX q_${name}_vt_idx ON pgmq.q_$name (vt)");
	sql("CREATE TABLE pgmq.a_$name (msg_id bigint PRIMARY KEY, archived_at timestamptz NOT NULL DEFAULT now(), $columns); CREATE INDEX archived_at_idx_$name ON pgmq.a_$name (archived_at)");
	return;
}

sql('CREATE ROLE keeper; CREATE ROLE app; CREATE ROLE boss; CREATE SCHEMA pgmq; GRANT USAGE ON SCHEMA pgmq TO keeper, app, boss');
left_queue('orders');
left_queue('fast', 'UNLOGGED');
left_queue('parts', 'PARTITIONED');
left_queue('empty');
left_queue('myqueue');
sql(q{INSERT INTO pgmq.q_orders (vt, message, headers, read_ct, last_read_at, enqueued_at) VALUES
		('2026-01-01', '"gone"', NULL, 0, NULL, '2026-01-01'),
		('2026-01-01', '{"n": 2}', '{"x-pgmq-group": "a"}', 0, NULL, '2026-01-01 01:00'),
		('2100-01-01', '{"n": 3}', NULL, 4, '2026-02-01 10:00:00.123', '2026-01-02'),
		('2100-01-01', '{"n": 4}', NULL, 0, NULL, '2026-01-03'),
		('2026-01-01', NULL, '{"h": 5}', 1, '2026-02-02', '2026-01-03'),
		('2026-01-01', 'null', NULL, 0, NULL, '2026-01-03');
	INSERT INTO pgmq.a_orders SELECT msg_id, now(), read_ct, enqueued_at, last_read_at, vt, message, headers FROM pgmq.q_orders WHERE msg_id = 1;
	DELETE FROM pgmq.q_orders WHERE msg_id = 1;
	INSERT INTO pgmq.q_orders (vt, message) SELECT now(), to_jsonb(i) FROM generate_series(7, 3000) i;
	DELETE FROM pgmq.q_orders WHERE msg_id = 3000;
	INSERT INTO pgmq.q_fast (vt, message) VALUES (now(), '1');
	INSERT INTO pgmq.q_parts (vt, message) SELECT now(), to_jsonb(i) FROM generate_series(1, 15) i;
	INSERT INTO pgmq.q_myqueue (vt, message) VALUES (now(), '"My"');
	ALTER TABLE pgmq.q_orders OWNER TO keeper; ALTER TABLE pgmq.a_orders OWNER TO keeper;
	GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON pgmq.q_orders TO app; GRANT SELECT ON pgmq.q_orders TO boss WITH GRANT OPTION; GRANT SELECT, INSERT ON pgmq.a_orders TO app;
	CREATE TABLE pgmq.q_foreign (id bigint, text text); CREATE VIEW pgmq.q_seen AS SELECT * FROM pgmq.q_foreign});
my $content = 'SELECT msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers FROM pgmq.q_orders ORDER BY 1';
my $before = sql($content);
my $archived = sql('TABLE pgmq.a_orders');

# ---- adopt ----

sql('CREATE EXTENSION pgmq');
my ($state, $error) = sqlstate($node, q{SELECT pgmq.send('orders', '1')});
is($state, '55000', 'a table of the original is no queue');
like($error, qr/HINT:.*pgmq\.adopt\(\)/, '... and the hint says what to do');
is(sqlstate($node, q{SELECT pgmq.drop_queue('orders')}), '55000', '... nor can it be dropped as one');

# All or nothing.
sql(q{CREATE TABLE pgmq.q_zz AS SELECT * FROM pgmq.q_fast; ALTER TABLE pgmq.q_zz ALTER msg_id SET NOT NULL, ALTER msg_id ADD GENERATED ALWAYS AS IDENTITY; UPDATE pgmq.q_zz SET read_ct = -1});
isnt(sqlstate($node, 'SELECT pgmq.adopt()'), '', 'a message that no queue can have');
is(sql($content), $before, '... leaves all tables as they were');
is(sql('SELECT count(*) FROM pgmq.meta'), '0', '... and no queue');
sql('DROP TABLE pgmq.q_zz');

is(sql(q{SELECT * FROM pgmq.adopt('MyQueue')}), 'MyQueue|1', 'a queue with capital letters');
is(sql(q{SELECT string_agg(queue || ' ' || messages, ', ') FROM pgmq.adopt()}), 'empty 0, fast 1, orders 2998, parts 15', 'all other tables of that shape');
is(sql('SELECT count(*) FROM pgmq.adopt()'), '0', 'a second call finds nothing');
is(sql(q{SELECT string_agg(queue_name || CASE WHEN is_partitioned THEN ' partitioned' WHEN is_unlogged THEN ' unlogged' ELSE '' END, ', ' ORDER BY lower(queue_name)) FROM pgmq.list_queues()}), 'empty, fast unlogged, MyQueue, orders, parts partitioned', 'the list says how the queues were created');
is(sql($content), $before, 'the messages, their ids and times are the same');
is(sql('TABLE pgmq.a_orders'), $archived, '... and the archive');
is(sql(q{SELECT string_agg(relname || ' ' || relkind::text, ', ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'pgmq'::regnamespace AND relkind IN ('r', 'p', 'v') AND relname ~ '^(q|old)_'}),
	'q_empty v, q_fast v, q_foreign r, q_myqueue v, q_orders v, q_parts v, q_seen v', 'no old table is left, and other tables are');
is(sql(q{SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'pgmq.q_orders'::regclass}), 'keeper', 'the owner is the same');
is(sql(q{SELECT string_agg(grantee || ' ' || privilege_type || CASE is_grantable WHEN 'YES' THEN '+' ELSE '' END, ', ' ORDER BY grantee, privilege_type) FROM information_schema.role_table_grants WHERE table_name = 'q_orders' AND grantee IN ('app', 'boss')}),
	'app DELETE, app INSERT, app SELECT, app UPDATE, boss SELECT+', '... as are the privileges');
my $app = 'SET ROLE app;';
is(sql("$app SELECT pgmq.send('orders', '1')"), '3001', 'ids go on where they were');
is(sql("$app SELECT string_agg(msg_id || ':' || read_ct, ' ' ORDER BY msg_id) FROM pgmq.read('orders', 60, 4)"), '2:1 5:2 6:1 7:1', 'messages that can be read are read in order, and read_ct goes on');
is(sql("$app SELECT read_ct FROM pgmq.set_vt('orders', 3, 0)"), '4', 'a message that was being read is there after set_vt');
is(sql("$app SELECT msg_id || ':' || read_ct FROM pgmq.read('orders', 60, 1)"), '3:5', '... and is read');
is(sql("$app SELECT pgmq.archive('orders', 2), pgmq.delete('orders', 4)"), 't|t', '... archived and deleted');
is(sql('SELECT string_agg(msg_id::text, $$ $$ ORDER BY msg_id) FROM pgmq.a_orders'), '1 2', '... into the archive that was there');
is(sql(q{SELECT string_agg(message::text, ' ' ORDER BY msg_id) FROM pgmq.pop('parts', 20)}), join(' ', 1 .. 15), 'the messages of all partitions are there');
is(sql(q{SELECT pgmq.send('empty', '1')}), '1', 'an empty queue begins with 1');
sql(q{SELECT pgmq.enable_notify_insert('orders', 0), pgmq.send('orders', '1')});
is(sql(q{SELECT last_notified_at > to_timestamp(0) FROM pgmq.list_notify_insert_throttles()}), 't', 'notifications can be switched on again');
is(sql('SELECT pgq_check()'), '', 'memory and rows agree');

# ---- the way back ----

sql(q{SELECT count(*) FROM pgmq.read('orders', 600, 20)});
$before = sql($content);
my ($last, $called) = split /\|/, sql('SELECT last_value, is_called FROM pgmq.q_orders_msg_id_seq');
sql('CREATE TABLE public.back_orders AS SELECT * FROM pgmq.q_orders; ALTER TABLE pgmq.a_orders SET SCHEMA public');
sql('SELECT pgmq.drop_queue(queue_name) FROM pgmq.list_queues()');
is(sqlstate($node, 'DROP EXTENSION pgmq'), '', 'without queues the extension is dropped without CASCADE');
is(sql(q{SELECT string_agg(relname, ', ' ORDER BY 1) FROM pg_class WHERE relnamespace = 'pgmq'::regnamespace AND relname !~ 'foreign|seen'}), '', '... and leaves nothing of its own');
is(sql('SELECT count(*) FROM pgq_ext.queue'), '0', '... nor a queue of pgq_ext');
left_queue('orders');
sql(qq{INSERT INTO pgmq.q_orders OVERRIDING SYSTEM VALUE SELECT * FROM public.back_orders;
	SELECT setval('pgmq.q_orders_msg_id_seq', $last, '$called');
	INSERT INTO pgmq.a_orders (msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt, message, headers)
		SELECT msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt, message, headers FROM public.a_orders});
is(sql($content), $before, 'the tables of the original have the same messages again');
is(sql(q{INSERT INTO pgmq.q_orders (vt) VALUES (now()) RETURNING msg_id}), $last + 1, '... and go on with the ids');
is(sql('SELECT count(*) FROM pgmq.a_orders'), '2', '... and the archive');

# There once more: as often as it is wanted.
sql('CREATE EXTENSION pgmq');
is(sql(q{SELECT queue FROM pgmq.adopt()}), 'orders', 'and there again');

# ---- partitions ----

is(sqlstate($node, $_), 'P0001', "without pg_partman: $_") for q{SELECT pgmq.create_partitioned('p')}, q{SELECT pgmq.convert_archive_partitioned('orders')};
like((sqlstate($node, q{SELECT pgmq.create_partitioned('p')}))[1], qr/pg_partman is required.*HINT:.*CREATE EXTENSION pg_partman/s, '... and the error says what is missing');
is(sql(q{SELECT count(*) FROM pgmq.meta WHERE queue_name = 'p'}), '0', '... and there is no queue');
SKIP:
{
	skip 'pg_partman is not installed', 1 unless sql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_partman'});
	sql('CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman');
	is(sqlstate($node, q{SELECT pgmq.create_partitioned('p', premake => 0)}), 'P0001', 'premake must be 1');
	is(sql(q{SET search_path = partman, public; SELECT pgmq.create_partitioned('p', '10', '100', 3), pgmq.create_partitioned('Days', '1 day', '7 days'); SHOW search_path}),
		"|\npartman, public", 'pg_partman sets search_path for the session, but the call leaves it as it was');
	is(sql(q{SELECT string_agg(parent_table || ' ' || control || ' ' || retention || ' ' || premake, ', ' ORDER BY parent_table) FROM partman.part_config}), 'pgmq.a_days archived_at 7 days 4, pgmq.a_p msg_id 100 3', 'pg_partman has the archives');
	sql(q{SELECT pgmq.create_partitioned('p', '10', '100', 3)});
	is(sql(q{SELECT count(*) FROM pgmq.list_queues() WHERE is_partitioned}), '2', 'a second call does nothing');
	sql(q{SELECT pgmq.send('p', to_jsonb(i)), pgmq.send('days', to_jsonb(i)) FROM generate_series(1, 15) i});
	sql(q{SELECT pgmq.archive(q, ARRAY(SELECT generate_series(1, 15)::bigint)) FROM unnest('{p,days}'::text[]) q});
	is(sql('SELECT count(DISTINCT tableoid) FROM pgmq.a_p'), '2', 'archived messages are in partitions');
	is(sql('SELECT count(*) FROM pgmq.a_days'), '15', '... also by time');
	sql(q{SELECT partman.run_maintenance(); ANALYZE pgmq.a_p});
	is(sql(q{SELECT (pgmq.metrics('p')).default_partition_length, (pgmq.metrics('orders')).default_partition_length IS NULL}), '0|t', 'metrics see the default partition');

	sql(q{SELECT pgmq.convert_archive_partitioned('orders', '1000', '100000')});
	is(sql(q{SELECT (SELECT relkind FROM pg_class WHERE oid = 'pgmq.a_orders'::regclass), (SELECT count(*) FROM pgmq.a_orders_old), (SELECT count(*) FROM pgmq.a_orders)}), 'p|2|0', 'an archive becomes partitioned, and the old one is kept beside it');
	is(sql(q{SELECT pgmq.archive('orders', 5)}), 't', '... and is used');
	my ($converted, $out, $notices) = $node->psql('postgres', q{SELECT pgmq.convert_archive_partitioned('orders'), pgmq.convert_archive_partitioned('nothing')});
	like($notices, qr/already partitioned.*does not exist/s, 'notices for one that is partitioned, and for none');
	sql(q{SELECT pgmq.create('plain'), pgmq.convert_archive_partitioned('plain', '1 week', '1 year')});
	is(sql(q{SELECT control FROM partman.part_config WHERE parent_table = 'pgmq.a_plain'}), 'archived_at', '... also by time');
	sql(q{SELECT pgmq.drop_queue(queue_name) FROM pgmq.list_queues()});
	is(sql('SELECT count(*) FROM partman.part_config'), '0', 'dropped queues are taken away from pg_partman');
	is(sql(q{SELECT string_agg(relname, ', ') FROM pg_class WHERE relnamespace = 'pgmq'::regnamespace AND relname ~ '^a_.*_p[0-9]'}), '', '... with all partitions');
	sql('SELECT partman.run_maintenance()');
}

done_testing();
