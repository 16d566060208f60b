# Attacks on the extension pgmq by roles that may create queues: planted operators, functions, sequences and queues, renamed
# columns, and a second CREATE EXTENSION.
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

# ---- before CREATE EXTENSION ----

sql(q{CREATE ROLE maker; CREATE ROLE victim; CREATE ROLE evil; CREATE ROLE stranger; CREATE SCHEMA pgmq;
	GRANT USAGE, CREATE ON SCHEMA pgmq TO maker; GRANT CREATE ON SCHEMA public TO maker});
my $grab = q{LANGUAGE plpgsql AS $$ BEGIN ALTER ROLE maker SUPERUSER; RETURN %s; END $$};
for my $schema ('pgmq', 'public')
{
	my $operator = sprintf "CREATE FUNCTION $schema.is_in(oid, regnamespace) RETURNS boolean $grab", 'true';
	my $function = sprintf "CREATE FUNCTION $schema.to_timestamp(integer) RETURNS timestamptz $grab", 'now()';
	is(as('maker', "$operator; CREATE OPERATOR $schema.= (LEFTARG = oid, RIGHTARG = regnamespace, FUNCTION = $schema.is_in)"), '', "a planted operator in $schema");
	is(as('maker', "$function; CREATE PROCEDURE $schema.nothing() LANGUAGE sql AS ''"), '', '... and planted functions');
}
sql('CREATE EXTENSION pgmq CASCADE');
is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'maker'}), 'f', '... do not run when the extension is created');
is(sql(q{SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'pgmq.notify_insert_throttle'::regclass AND pg_get_expr(adbin, adrelid) ~ 'to_timestamp'}),
	q{to_timestamp((0)::double precision)}, '... nor later');
sql(q{GRANT USAGE, CREATE ON SCHEMA pgmq TO maker, victim; GRANT USAGE ON SCHEMA pgmq TO evil, stranger});

is((sqlstate($node, 'SELECT pgq_set_shard(1)'))[0], '55000', 'no shard number beside pgmq');

# ---- the view of a queue ----

is(as('maker', q{SELECT pgmq.create('c')}), '', 'a queue');
is(as('maker', q{ALTER VIEW pgmq.q_c RENAME COLUMN msg_id TO x; ALTER VIEW pgmq.q_c RENAME COLUMN message TO msg_id; ALTER VIEW pgmq.q_c RENAME COLUMN x TO message}), '', '... whose columns change their names');
is(as('maker', q{INSERT INTO pgmq.q_c (headers, vt) VALUES ('{}', now())}), '55000', '... takes no INSERT');
is(as('maker', q{SELECT pgmq.send('c', '1') > 0}), 't', '... but the functions work');

# ---- leases ----

is(as('victim', q{SELECT pgmq.create('q'); SELECT pgmq.send('q', '1'); SELECT msg_id FROM pgmq.read('q', 600, 1)}), "\n1\n1", 'a message in work');
my $job = sql(q{SELECT job_id FROM pgq_ext.job JOIN pgmq.queue_slot USING (queue_id) WHERE view = 'pgmq.q_q'::regclass});
is(as('stranger', "SELECT l IS NULL OR l::text = '(,,)' FROM pgmq._lease($job) l"), 't', '... of which a stranger learns nothing');
is(as('stranger', "SELECT pgmq._lease($job)::text IS NOT DISTINCT FROM pgmq._lease($job + 1000)::text"), 't', '... not even that it is in work');

# ---- a queue that is closed to its owner ----

sql(q{SELECT pgq_grant('pgmq.q', 'evil', '{claim}')});
is(as('victim', "SELECT pgmq.$_"), '42501', "a closed queue: $_") for q{set_vt('q', 1, 0)}, q{delete('q', 1)}, q{archive('q', 1)};
sql(q{SELECT pgq_grant('pgmq.q', 'victim', '{admin}')});
is(as('victim', q{SELECT pgmq.set_vt('q', 1, 0)}), '42501', '... also with the right to change its jobs, but not to end a lease');
sql(q{SELECT pgq_grant('pgmq.q', 'victim', '{claim}')});
is(as('victim', q{SELECT count(*) FROM pgmq.set_vt('q', 1, 0)}), '1', '... and with both rights');

# ---- UPDATE of some columns ----

sql(q{SET ROLE victim; SELECT pgmq.create('h'); SELECT pgmq.send('h', '"old"', '{"kept": true}'::jsonb); GRANT SELECT (msg_id, vt), UPDATE (vt) ON pgmq.q_h TO evil});
is(as('evil', q{UPDATE pgmq.q_h SET vt = now() WHERE msg_id = 1}), '', 'a role that may change the time only');
is(as('victim', q{SELECT message, headers FROM pgmq.q_h}), '"old"|{"kept": true}', '... leaves message and headers');

# ---- planted sequences and queues ----

is(as('maker', q{CREATE UNLOGGED SEQUENCE pgmq.q_next_msg_id_seq MAXVALUE 3 CYCLE; GRANT ALL ON SEQUENCE pgmq.q_next_msg_id_seq TO evil}), '', 'a planted sequence');
is(as('victim', q{SELECT pgmq.create('next'); SELECT max(id) FROM generate_series(1, 10) i, pgmq.send('next', jsonb_build_object('i', i)) AS id}), "\n10", '... gives a queue ids that do not repeat');
is(as($_, q{SELECT setval('pgmq.q_next_msg_id_seq', 1)}), '42501', "... and $_ does not set them back") for 'maker', 'evil', 'victim';
$node->stop('immediate');
$node->start;
is(as('victim', q{SELECT pgmq.send('next', '1') > 10}), 't', '... not even by a crash');
sql(q{SELECT pgq_create_queue('pgmq.taken', max_attempts => 1)});
is(as('victim', q{SELECT pgmq.create('taken')}), '55000', 'a planted queue of pgq_ext is not taken');

# ---- messages that DROP EXTENSION leaves ----

sql(q{SET ROLE victim; SELECT pgmq.create('secret'); SELECT pgmq.send('secret', '"secret"')});
sql('DROP EXTENSION pgmq CASCADE; CREATE EXTENSION pgmq; GRANT USAGE, CREATE ON SCHEMA pgmq TO maker, victim');
is(as('maker', q{SELECT pgmq.create('secret')}), '42501', 'messages of another role that DROP EXTENSION has left');
is(as('victim', q{SELECT pgmq.create('secret'); SELECT message FROM pgmq.read('secret', 0, 1)}), "\n\"secret\"", '... are still of that role');
$node->stop;
done_testing();
