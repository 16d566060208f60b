# Queues of the extension pgmq in a dump and its restore, after DROP EXTENSION, under another name of the database, and in large numbers.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.max_queues = 24\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
my $dir = PostgreSQL::Test::Utils::tempdir();
sub run_ok { my ($what, @command) = @_; return $node->command_ok(\@command, $what) }
sub dump_to { my ($file, @options) = @_; return run_ok("a dump: @options", 'pg_dump', '-d', $node->connstr('postgres'), '-f', "$dir/$file", @options) }
sub restore { my ($file, $db) = @_; return run_ok("$file is restored", 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', "$dir/$file") }

# ---- queues with messages in every state ----

sql('CREATE ROLE app; CREATE ROLE keeper; CREATE EXTENSION pgmq CASCADE; GRANT USAGE ON SCHEMA pgmq TO app; GRANT USAGE, CREATE ON SCHEMA pgmq TO keeper');
sql(q{SET ROLE keeper; SELECT pgmq.create('Orders'); GRANT SELECT, INSERT, UPDATE, DELETE ON pgmq.q_orders TO app; GRANT SELECT, INSERT ON pgmq.a_orders TO app});
sql(q{SELECT pgmq.create('other'), pgmq.create('empty');
	SELECT pgmq.send('orders', to_jsonb(i), jsonb_build_object('h', i)) FROM generate_series(1, 20) i;
	SELECT pgmq.send('orders', '"later"', '{}'::jsonb, 86400), pgmq.send('orders', NULL), pgmq.send('other', '"other"');
	SELECT pgmq.archive('orders', '{1,2}'::bigint[]), pgmq.delete('orders', 3);
	SELECT pgmq.bind_topic('orders.#', 'Orders'), pgmq.bind_topic('*.new', 'other'), pgmq.enable_notify_insert('Orders', 1234);
	SELECT count(*) FROM pgmq.read('orders', 3600, 3);
	SELECT count(*) FROM pgmq.read('orders', 3600, 1, '{"n": 1}');
	SELECT count(*) FROM pgmq.set_vt('orders', 10, 7200);
	SELECT count(*) FROM pgmq.read('orders', 1000000, 1)});
is(sql(q{SELECT string_agg(msg_id::text, ' ' ORDER BY msg_id) FROM pgmq.q_orders WHERE vt > now()}), '4 5 6 7 10 21', 'some messages are being read or wait');
# The messages of a queue; without what only a lease says, since leases are not dumped.
my $content = 'SELECT msg_id, enqueued_at, message, headers FROM pgmq.q_orders ORDER BY 1';
my $written = 'SELECT msg_id, read_ct, vt FROM pgmq.q_orders WHERE msg_id IN (7, 10, 21) ORDER BY 1';
my $lists = q{SELECT queue_name, is_partitioned, created_at FROM pgmq.list_queues() ORDER BY 1; SELECT pattern, queue_name, bound_at FROM pgmq.list_topic_bindings() ORDER BY 1; SELECT queue_name, throttle_interval_ms FROM pgmq.list_notify_insert_throttles();
	SELECT * FROM pgmq.a_orders ORDER BY 1};
my @before = map { sql($_) } $content, $written, $lists;

# What a restored database must do.
sub check_copy
{
	my ($db) = @_;
	is(sql($content, $db), $before[0], "$db has the same messages");
	is(sql($written, $db), $before[1], '... with the times that are written in their rows');
	is(sql($lists, $db), $before[2], '... the same queues, bindings, intervals and archived messages');
	wait_for($node, q{(SELECT count(*) FROM pgmq.q_orders WHERE vt <= now()) = 16}, $db);
	is(sql(q{SELECT string_agg(msg_id::text, ' ' ORDER BY msg_id) FROM pgmq.read('orders', 60, 4)}, $db), '4 5 6 8', '... and messages that were being read can be read');
	is(sql(q{SELECT pgmq.send('orders', '1'), pgmq.send('empty', '1'), pgmq.send_topic('orders.new', '1')}, $db), '23|1|2', '... ids go on, and topics are bound');
	is(sql(q{SET ROLE app; SELECT pgmq.send('orders', '1') > 0, pgmq.delete('orders', 8), pgmq.archive('orders', 9)}, $db), 't|t|t', '... a role has its rights');
	is(sql(q{SET ROLE keeper; SELECT msg_id FROM pgmq.q_orders ORDER BY 1 LIMIT 1 FOR UPDATE SKIP LOCKED}, $db), '4', '... as has the owner');
	is(sql(q{SELECT last_notified_at > to_timestamp(0) FROM pgmq.list_notify_insert_throttles()}, $db), 't', '... and senders notify');
	sql(q{SET ROLE keeper; SELECT pgmq.create('own'), pgmq.send('own', '1'), pgmq.drop_queue('own')}, $db);
	is(sql('SELECT pgq_check()', $db), '', '... and memory and rows agree');
	return;
}

dump_to('all.sql');
sql('CREATE DATABASE copy_of_all');
restore('all.sql', 'copy_of_all');
check_copy('copy_of_all');

dump_to('schema.sql', '--schema-only');
dump_to('data.sql', '--data-only');
sql('CREATE DATABASE copy_in_two');
restore($_, 'copy_in_two') for 'schema.sql', 'data.sql';
check_copy('copy_in_two');

# A binding that SQL has written: it does not keep messages from the other queues.
sql(q{INSERT INTO pgmq.topic_bindings (pattern, queue_name) VALUES ('new.#', 'empty'), ('new.#', 'nowhere'), ('new.#', 'no;where')}, 'copy_in_two');
is(sql(q{SELECT pgmq.send_topic('new.one', '1'), count(*) FROM pgmq.send_batch_topic('new.one', '{2,3}'::jsonb[])}, 'copy_in_two'), '1|2', 'a binding whose queue does not exist is passed over');

# pg_restore -j loads the tables of extensions in any order: a foreign key from one to another would fail in some of these orders.
is(sql(q{SELECT string_agg(conname, ', ') FROM pg_constraint WHERE contype = 'f' AND conrelid IN (SELECT objid FROM pg_depend WHERE deptype = 'e')}), '', 'no table of an extension has a foreign key');
dump_to('custom', '-Fc');
sql('CREATE DATABASE copy_of_custom');
run_ok('... is restored by two jobs', 'pg_restore', '-j2', '--exit-on-error', '-d', $node->connstr('copy_of_custom'), "$dir/custom");
check_copy('copy_of_custom');
is(sql($content), $before[0], 'the copies do not meet the messages of this database');

# ---- another name of the database ----

sql('ALTER DATABASE copy_in_two RENAME TO moved');
is(sql(q{SELECT pgmq.send('other', '1') > 1}, 'moved'), 't', 'a renamed database goes on');
wait_for($node, q{EXISTS (SELECT FROM pgmq.read('other', 60, 1))}, 'moved');

# ---- DROP EXTENSION ----

is(sqlstate($node, 'DROP EXTENSION pgmq'), '2BP01', 'queues keep the extension from being dropped');
my $in_work = sql(q{SELECT string_agg(msg_id::text, ' ' ORDER BY msg_id) FROM pgmq.q_orders WHERE vt > now()});
sql('DROP EXTENSION pgmq CASCADE');
is(sql(q{SELECT count(*) FROM pgq_ext.job}), '20', 'CASCADE leaves the messages, as jobs');
sql('CREATE EXTENSION pgmq');
is(sql(q{SELECT count(*) FROM pgmq.list_queues()}), '0', 'a new extension has no queues');
is(sqlstate($node, q{SELECT pgmq.send('orders', '1')}), '42P01', '... and says so');
sql(q{SELECT pgmq.create('other'), pgmq.create('empty'), pgmq.create('Orders')});
is(sql($content), $before[0], '... until they are created again: then they have their messages');
is(sql($written), $before[1], '... and their times');
is(sql(q{SELECT string_agg(msg_id::text, ' ' ORDER BY msg_id) FROM pgmq.q_orders WHERE vt > now()}), $in_work, '... and those that are being read stay so');
is(sql(q{SELECT pgmq.send('orders', '1'), pgmq.delete('orders', 4), (SELECT count(*) FROM pgmq.a_orders)}), '23|t|2', '... ids go on, messages are deleted, and the archive is there');
sql(q{SELECT pgmq.drop_queue(q) FROM unnest('{Orders,other,empty}'::text[]) q});
like((sqlstate($node, 'ALTER EXTENSION pgmq UPDATE'))[1], qr/NOTICE: .*already installed/, 'there is one version only');

# An older pgq_ext.
sql('CREATE DATABASE before');
if (sql(q{SELECT count(*) FROM pg_available_extension_versions WHERE name = 'pgq_ext' AND version = '0.1'}))
{
	sql(q{CREATE EXTENSION pgq_ext VERSION '0.1'}, 'before');
	my ($state, $error) = sqlstate($node, 'CREATE EXTENSION pgmq', 'before');
	is($state, '55000', 'an older version of pgq_ext is not enough');
	like($error, qr/HINT: .*ALTER EXTENSION pgq_ext UPDATE/, '... and the hint says what to do');
}

# ---- many queues ----

my ($state, $error) = sqlstate($node, q{DO $$ BEGIN FOR i IN 1 .. 60 LOOP PERFORM pgmq.create('many' || i); COMMIT; END LOOP; END $$});
is($state, '53400', 'more queues than there is room for');
like($error, qr/HINT: .*pgq_ext\.max_queues/, '... and the hint names the setting');
my $made = sql('SELECT count(*) FROM pgmq.list_queues()');
cmp_ok($made, '>', 5, "... after $made queues");
is(sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'q\_many%' AND relkind = 'v'}), $made, '... and the failed one leaves nothing');
is(sql(q{SELECT pgmq.send('many1', '1')}), '1', '... and the others work');
$node->append_conf('postgresql.conf', 'pgq_ext.max_queues = 96');
$node->restart;
sql(q{SELECT pgmq.create('many' || i) FROM generate_series(1, 60) i});
is(sql('SELECT count(*) FROM pgmq.list_queues()'), '60', 'with the setting raised there is room');
sql(q{SELECT pgmq.send('many' || i, to_jsonb(i)) FROM generate_series(2, 60) i});
wait_for($node, q{(SELECT sum(queue_visible_length) = 60 FROM pgmq.metrics_all())});
is(sql(q{SELECT count(*) FROM generate_series(1, 60) i, pgmq.pop('many' || i)}), '60', '... each with its message');
sql(q{SELECT pgmq.drop_queue(queue_name) FROM pgmq.list_queues()});
is(sql(q{SELECT (SELECT count(*) FROM pgq_ext.queue), (SELECT count(*) FROM pgmq.queue_slot)}), '0|0', '... and all are dropped');
is(sql('SELECT pgq_check()'), '', 'memory and rows agree');

done_testing();
