# Rights in the extension pgmq: what a role needs to create, use, drop and watch queues; and that no code of another role runs with
# the rights of its caller or of the owner of the extension, whatever that role creates, renames or replaces.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }
# What a role gets for a statement; or the SQLSTATE of the error.
sub as
{
	my ($role, $sql) = @_;
	my (undef, $out, $errors) = $node->psql('postgres', "SET ROLE $role; $sql", extra_params => [ '-q', '-v', 'VERBOSITY=verbose' ]);
	return $errors =~ /ERROR:  ([0-9A-Z]{5}): / ? $1 : $out;
}

sql('CREATE EXTENSION pgmq CASCADE');
sql(q{CREATE ROLE maker; CREATE ROLE app; CREATE ROLE reader; CREATE ROLE monitor IN ROLE pg_monitor; CREATE ROLE stranger;
	GRANT USAGE ON SCHEMA pgmq TO app, reader, stranger; GRANT USAGE, CREATE ON SCHEMA pgmq TO maker});

# ---- creating ----

is(as('app', q{SELECT pgmq.create('none')}), '42501', 'a role without CREATE on the schema creates no queue');
is(sql(q{SELECT count(*) FROM pgmq.meta}), '0', '... and leaves nothing');
is(as('maker', q{SELECT pgmq.create('Jobs')}), '', 'a role with CREATE on the schema does');
is(sql(q{SELECT string_agg(c.relname || ' ' || pg_get_userbyid(c.relowner), ', ' ORDER BY c.relname) FROM pg_class c WHERE c.relname IN ('q_jobs', 'a_jobs')}), 'a_jobs maker, q_jobs maker', '... and owns the view and the archive');
is(as('maker', q{SELECT count(*) FROM pgq_ext.job}), '42501', '... but may not read the jobs of other queues');
is(as('maker', q{SELECT setval('pgmq.q_jobs_msg_id_seq', 1)}), '42501', '... nor set back the ids');
is(as('maker', q{INSERT INTO pgmq.meta VALUES ('x', false, false)}), '42501', '... nor write the list of queues');
is(as('maker', q{SELECT count(*) FROM pgmq.send_batch('jobs', ARRAY['1', '2']::jsonb[])}), '2', 'the owner sends');
is(as('maker', q{SELECT count(*) FROM pgmq.read('jobs', 0, 10)}), '2', '... and reads');
is(as('maker', q{SELECT msg_id FROM pgmq.q_jobs ORDER BY 1 LIMIT 1 FOR UPDATE SKIP LOCKED}), '1', '... also with row locks');
is(as('maker', q{SELECT pgmq._make_queue('x', false, false, 10)}), '42501', 'functions for the owner of the extension are closed');
is(as('maker', q{SELECT pgmq._drop_queue('jobs', 10)}), '42501', '... all of them');
is(as('maker', q{SELECT pgmq._make_jobs('x')}), '42501', '... also those of the library');
is(as('maker', q{SELECT pgmq._drop_jobs(1)}), '42501', '... ');
is(as('maker', q{SELECT pgmq.adopt()}), '42501', '... and adopt()');

# ---- using ----

is(as('app', $_), '42501', "without privileges: $_")
  for q{SELECT pgmq.send('jobs', '1')}, q{SELECT * FROM pgmq.read('jobs', 0, 1)}, q{SELECT pgmq.pop('jobs')}, q{SELECT pgmq.delete('jobs', 1)}, q{SELECT pgmq.archive('jobs', 1)}, q{SELECT pgmq.set_vt('jobs', 1, 0)},
  q{SELECT pgmq.metrics('jobs')}, q{SELECT pgmq.purge_queue('jobs')}, q{SELECT * FROM pgmq.read_grouped('jobs', 0, 1)}, q{SELECT * FROM pgmq.q_jobs}, q{SELECT pgmq.drop_queue('jobs')},
  q{SELECT pgmq.read_with_poll('jobs', 0, 1, 1)}, q{SELECT pgmq._read_by_id('jobs', 0, '{1}')}, q{SELECT pgmq._queue('jobs')};
is(as('app', q{SELECT count(*) FROM pgmq._message}), '0', 'the view of all messages shows none of them');
sql(q{SET ROLE maker; GRANT SELECT, INSERT, UPDATE, DELETE ON pgmq.q_jobs TO app; GRANT SELECT, INSERT ON pgmq.a_jobs TO app; GRANT SELECT ON pgmq.q_jobs TO reader});
is(as('app', q{SELECT count(*) FROM pgmq.read('jobs', 0, 10)}), '2', 'a role with privileges reads');
is(as('app', q{SELECT pgmq.send('jobs', '1') > 0}), 't', '... sends');
is(as('app', q{SELECT count(*) FROM pgmq.pop('jobs')}), '1', '... pops');
is(as('app', q{SELECT pgmq.archive('jobs', max(msg_id)) FROM pgmq.q_jobs}), 't', '... archives');
is(as('app', q{SELECT count(*) FROM pgmq.set_vt('jobs', (SELECT max(msg_id) FROM pgmq.q_jobs), 0)}), '1', '... sets times');
is(as('app', q{SELECT pgmq.drop_queue('jobs')}), '42501', '... but drops nothing');
is(as('reader', q{SELECT count(*) > 0 FROM pgmq.q_jobs}), 't', 'a role with SELECT looks');
is(as('reader', q{SELECT * FROM pgmq.read('jobs', 0, 1)}), '42501', '... but does not read');
is(as('reader', q{SELECT msg_id FROM pgmq.q_jobs FOR UPDATE}), '42501', '... nor lock');
is(as('reader', q{SELECT job_id FROM pgmq._message FOR UPDATE}), '42501', '... not even by way of the view of all messages');
is(as('maker', q{UPDATE pgmq._message SET vt = now()}), '55000', 'nothing is changed by way of that view');
is(as('maker', q{DELETE FROM pgmq._message}), '42501', '... or deleted');

# ---- watching ----

is(as('monitor', q{SELECT queue_length > 0 FROM pgmq.metrics('jobs')}), 't', 'pg_monitor sees metrics');
is(as('monitor', q{SELECT count(*) FROM pgmq.metrics_all()}), '1', '... of all queues');
is(as('monitor', q{SELECT message FROM pgmq.q_jobs}), '42501', '... but no message');
is(as('monitor', q{SELECT count(message) + count(headers) FROM pgmq._message}), '0', '... by no way');
is(as('monitor', q{SELECT * FROM pgmq.a_jobs}), '42501', '... and no archive');
sql(q{SET ROLE maker; GRANT SELECT (msg_id, message) ON pgmq.q_jobs TO stranger});
is(as('stranger', q{SELECT count(message) = count(*) AND count(*) > 0 FROM pgmq.q_jobs}), 't', 'privileges for columns hold');
is(as('stranger', q{SELECT count(headers) FROM pgmq.q_jobs}), '42501', '... for these columns');

# ---- another queue: a function that is cheap enough to be called first must not see its rows ----

sql(q{SELECT pgmq.create('secret'); SELECT pgmq.send('secret', '"secret"', '{"a": 1}'::jsonb) FROM generate_series(1, 3);
	CREATE SCHEMA evil; GRANT ALL ON SCHEMA evil TO maker, stranger; GRANT CREATE ON SCHEMA public TO maker});
is(as('maker', q{CREATE OR REPLACE FUNCTION evil.leak(jsonb) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$ BEGIN IF $1::text ~ 'secret' THEN RAISE 'leaked' USING ERRCODE = 'UE001'; END IF; RETURN true; END $$}), '', 'a function that tells what it sees');
for my $plan ('on', 'off')
{
	is(as('maker', "SET enable_indexscan = $plan; SET enable_bitmapscan = $plan; SELECT count(*) > 0 FROM $_ m WHERE evil.leak(m.message)"), 't', "it sees no row of another queue: $_") for 'pgmq.q_jobs', 'pgmq._message';
}

# ---- planted code ----

# Operators and functions that fit better than those that are meant, in a schema that comes first.
sql(q{CREATE TABLE evil.ran (who name); GRANT ALL ON evil.ran TO PUBLIC; GRANT USAGE ON SCHEMA evil TO PUBLIC;
	SET ROLE maker;
	CREATE FUNCTION evil.note() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO evil.ran VALUES (current_user); RETURN true; END $$;
	CREATE FUNCTION evil.eq(varchar, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil.note()';
	CREATE OPERATOR evil.= (LEFTARG = varchar, RIGHTARG = text, FUNCTION = evil.eq);
	CREATE FUNCTION evil.times(integer, interval) RETURNS interval LANGUAGE sql AS 'SELECT interval ''1 s'' WHERE evil.note()';
	CREATE OPERATOR evil.* (LEFTARG = integer, RIGHTARG = interval, FUNCTION = evil.times);
	CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS 'SELECT ''q_evil''::text WHERE evil.note()';
	CREATE FUNCTION evil.count(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint WHERE evil.note()';
	CREATE FUNCTION pgmq.metrics(varchar) RETURNS pgmq.metrics_result LANGUAGE sql AS 'SELECT NULL::pgmq.metrics_result WHERE evil.note()';
	CREATE FUNCTION pgmq.create_fifo_index(varchar) RETURNS void LANGUAGE sql AS 'SELECT NULL::void WHERE evil.note()';
	CREATE FUNCTION pgmq.format_table_name(varchar, text) RETURNS text LANGUAGE sql AS 'SELECT ''q_x''::text WHERE evil.note()';
	CREATE FUNCTION pgmq.send(varchar, jsonb, jsonb, integer) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT 1::bigint WHERE evil.note()';
	CREATE FUNCTION public.pgq_create_queue(text, lease_time text, max_attempts integer) RETURNS boolean LANGUAGE sql AS 'SELECT evil.note()';
	CREATE FUNCTION public.pgq_drop_queue(text, boolean) RETURNS boolean LANGUAGE sql AS 'SELECT evil.note()';
	CREATE SEQUENCE pgmq.q_next_msg_id_seq START 100});
my $path = 'SET search_path = evil, public, pg_catalog';
sql("$path; $_")
  for q{SELECT pgmq.create('next')}, q{SELECT pgmq.send_batch('next', ARRAY['1']::jsonb[], 1)}, q{SELECT pgmq.metrics_all()}, q{SELECT pgmq.create_fifo_indexes_all()}, q{SELECT pgmq.bind_topic('a.*', 'next')}, q{SELECT pgmq.send_topic('a.b', '1')},
  q{SELECT pgmq.send_batch_topic('a.b', ARRAY['1']::jsonb[], 1)}, q{SELECT pgmq.enable_notify_insert('next')}, q{SELECT pgmq.send('next', '1')}, q{SELECT pgmq.update_notify_insert('next', 5)}, q{SELECT pgmq.set_vt('next', 1, 0)},
  q{SELECT pgmq.read_grouped('next', 0, 1)}, q{SELECT pgmq.archive('next', 1)}, q{SELECT pgmq.list_topic_bindings('next')}, q{SELECT pgmq.purge_queue('next')}, q{SELECT pgmq.unbind_topic('a.*', 'next')}, q{SELECT pgmq.disable_notify_insert('next')};
is(sql(q{SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'q_next_msg_id_seq'}), sql('SELECT current_user'), 'a sequence that was there first does not stay with its owner');
sql("$path; SELECT pgmq.drop_queue('next')");
is(sql('SELECT count(*) FROM evil.ran'), '0', 'no planted function has run');
sql('DROP FUNCTION public.pgq_create_queue(text, text, integer), public.pgq_drop_queue(text, boolean)');

# ---- the owner of a view does with it what he likes ----

# A view that runs code of its owner: no function of the extension reads it.
sql(q{SET ROLE maker; CREATE OR REPLACE VIEW pgmq.q_jobs AS
	SELECT 1::bigint AS msg_id, 1 AS read_ct, now() AS enqueued_at, now() AS last_read_at, now() AS vt, to_jsonb(evil.note()) AS message, NULL::jsonb AS headers});
sql($_) for q{SELECT pgmq.metrics('jobs'), pgmq.metrics_all()}, q{SELECT pgmq.read_grouped('jobs', 0, 1)}, q{SELECT pgmq.read('jobs', 0, 1)}, q{SELECT pgmq.read_grouped_head_with_poll('jobs', 0, 1, 1)}, q{SELECT pgmq.purge_queue('jobs')};
is(sql('SELECT count(*) FROM evil.ran'), '0', 'a hostile view of a queue runs for nobody who calls functions only');

# A view and a table that are no queues.
is(as('maker', q{CREATE OR REPLACE VIEW pgmq.q_fake AS SELECT msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers FROM pgmq._message}), '', 'a view of that shape');
is(as('maker', $_), '55000', "... is no queue: $_") for q{SELECT pgmq.send('fake', '1')}, q{SELECT * FROM pgmq.read('fake', 1, 1)}, q{SELECT pgmq.metrics('fake')}, q{SELECT pgmq.drop_queue('fake')}, q{SELECT pgmq.purge_queue('fake')};
sql(q{SET ROLE maker; DROP VIEW pgmq.q_fake});

# Renamed: the queue keeps its messages and its ids, under the new name.
sql(q{SET ROLE maker; SELECT pgmq.create('old'); SELECT pgmq.send('old', '1'); ALTER VIEW pgmq.q_old RENAME TO q_new; ALTER TABLE pgmq.a_old RENAME TO a_new});
sql(q{SET ROLE maker; CREATE SEQUENCE pgmq.q_new_msg_id_seq});
is(as('maker', q{SELECT msg_id FROM pgmq.read('new', 0, 5)}), '1', 'a renamed view is the same queue');
is(sql(q{SELECT pgmq.send('new', '2')}), '2', '... which takes no ids from a sequence of another role');
is(as('maker', q{SELECT pgmq.send('old', '1')}), '42P01', '... and the old name is gone');
sql(q{SET ROLE maker; SELECT pgmq.create('old'); SELECT pgmq.send('old', '"other"')});
is(sql(q{SELECT string_agg(message::text, ' ' ORDER BY msg_id) FROM pgmq.q_new}), '1 2', '... until there is another queue of that name, with other messages');
sql(q{SET ROLE maker; SELECT pgmq.drop_queue('new'), pgmq.drop_queue('old')});
is(sql(q{SELECT count(*) FROM pgq_ext.queue WHERE queue LIKE 'pgmq.%old%'}), '0', 'both are dropped');

# Given away, also to a role that has no right to the schema.
sql(q{SELECT pgmq.create('gift'), pgmq.send('gift', '1'); ALTER VIEW pgmq.q_gift OWNER TO stranger; ALTER TABLE pgmq.a_gift OWNER TO stranger});
is(as('stranger', q{SELECT count(*) FROM pgmq.q_gift}), '1', 'a view that was given to another role works');
is(as('stranger', q{SELECT message FROM pgmq.read('gift', 0, 1)}), '1', '... as do the functions');
sql(q{SET ROLE stranger; SELECT pgmq.drop_queue('gift')});
is(sql(q{SELECT count(*) FROM pgmq.meta WHERE queue_name = 'gift'}), '0', '... and the new owner drops it');

# ---- names ----

my $long = 'x' x 47;
my $wide = "\x{c3}\x{a4}" x 47;
for my $name ('Mixed Case', 'a"b', 'q_q', $long, $wide, 'select', '%I', '\\')
{
	my $literal = $name =~ s/'/''/gr;
	sql("SET ROLE maker; SET client_min_messages = error; SELECT pgmq.create('$literal')");
	is(sql("SET ROLE maker; SET client_min_messages = error; SELECT pgmq.send('$literal', '1')"), '1', "a queue named $name");
	is(sql("SET client_min_messages = error; SELECT message FROM pgmq.pop('$literal')"), '1', '... has messages');
	is(sql("SET client_min_messages = error; SELECT total_messages FROM pgmq.metrics('$literal')"), '1', '... and metrics');
	is(sql("SET ROLE maker; SET client_min_messages = error; SELECT pgmq.drop_queue('$literal')"), 't', '... and is dropped');
}
is(as('maker', q{SELECT pgmq.create('a''b')}), 'P0001', 'a quote is refused');
is(as('maker', "SELECT pgmq.create('${long}x')"), 'P0001', '... and 48 characters');
is(sql('SELECT count(*) FROM evil.ran'), '0', 'no planted function has run');
is(sql('SELECT pgq_check()'), '', 'memory and rows agree');

done_testing();
