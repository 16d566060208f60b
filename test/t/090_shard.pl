# Job ids that contain the number of their shard: pgq_set_shard, and that new ids keep that number after dumps,
# restores and other changes of the database.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', init => { allows_streaming => 'logical' }, conf => "max_prepared_transactions = 5\nmax_worker_processes = 48\npgq_ext.max_databases = 40\n");
my $dir  = $node->basedir;
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }

sub new_db
{
	my ($db) = @_;
	sql("CREATE DATABASE $db TEMPLATE template0");
	sql('CREATE EXTENSION pgq_ext', $db);
	create_queue($node, 'q', q{keep_finished => '1 day', log_attempts => 'all'}, $db);
	return $db;
}

# The ids of two new jobs by function, one of them in bulk, and of one by hand.
sub new_ids
{
	my ($db) = @_;
	return split /\n/, sql(q{SELECT pgq_enqueue('q', '1'); SELECT pgq_enqueue_many('q', '[{"payload": 2}, {"payload": 3, "unique_key": "k"}]');
		INSERT INTO pgq_ext.job (queue_id, payload) SELECT queue_id, '4' FROM pgq_ext.queue WHERE queue = 'q' RETURNING job_id}, $db);
}
sub remainders { return join ' ', sort { $a <=> $b } keys %{ { map { $_ % 1024 => 1 } @_ } } }

# ---- what it does ----

for my $shard (0, 1, 2, 1023)
{
	my $db = new_db("s$shard");
	sql("SELECT pgq_set_shard($shard)", $db);
	my @ids = new_ids($db);
	is("@ids", join(' ', map { 1024 * $_ + ($shard || 1024) } 0 .. 3), "shard $shard: ids step by 1024");
	sql("SELECT pgq_set_shard($shard)", $db);
	cmp_ok((new_ids($db))[0], '>', $ids[-1], '... and go on when it is set once more');
	is(sql('SELECT shard FROM pgq_ext.shard', $db), $shard, '... it is told');
	is(join(' ', drain($node, 'q', $db)), sql(q{SELECT string_agg(job_id::text, ' ' ORDER BY run_at, job_id) FROM pgq_ext.finished_job}, $db), '... and jobs are served');
}

# Memory knows the queue of a job that is gone by a place for the id (engine/ended_jobs.cpp): ids that step by 1024 have different places.
is(sql(q{SELECT count(*) FROM pgq_enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('payload', i)) FROM generate_series(1, 500) i));
	CREATE TABLE leases AS SELECT job_id, lease FROM pgq_claim('q', 500);
	SELECT count(pgq_ack(job_id, lease)) FROM leases;
	SELECT count(*) FROM pgq_ack_many(ARRAY(SELECT job_id FROM leases), ARRAY(SELECT lease FROM leases));
	SELECT stale_calls FROM pgq_ext.queue_stats}, 's2'), "500\n500\n0\n500", 'late calls for jobs that are gone count in their queue');
is(sql('SELECT * FROM pgq_ext.shard'), '', 'nobody has set another database');
is(sql('SELECT count(*) FROM pgq_check()', 's1023'), '0', 'pgq_check() finds nothing');

# ---- once there are jobs ----

sub refused_ok
{
	my ($what, $db, $shard, $message) = @_;
	my ($state, $error) = sqlstate($node, "SELECT pgq_set_shard($shard)", $db);
	is($state, '55000', "$what: 55000");
	like($error, qr/$message\n.*DETAIL:.*\n.*HINT:  Call pgq_set_shard before the first job/s, '... and why');
	return;
}
new_db('late');
my $id = sql(q{SELECT pgq_enqueue('q', '1')}, 'late');
refused_ok('a live job', 'late', 5, 'ids have no shard number');
sql(qq{SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q'); DELETE FROM pgq_ext.attempt}, 'late');
refused_ok('a dead letter', 'late', 5, 'ids have no shard number');
sql(q{SELECT pgq_redrive('q'); SELECT pgq_ack(job_id, lease) FROM pgq_claim('q'); DELETE FROM pgq_ext.attempt}, 'late');
refused_ok('a finished job', 'late', 5, 'ids have no shard number');
sql(q{DELETE FROM pgq_ext.finished_job; SELECT pgq_enqueue('q', '1'); SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q'); SELECT pgq_cancel(job_id) FROM pgq_ext.dead_job; DELETE FROM pgq_ext.finished_job}, 'late');
refused_ok('a record of an attempt', 'late', 5, 'ids have no shard number');
sql('DELETE FROM pgq_ext.attempt', 'late');
sql(q{SELECT pgq_cancel(pgq_enqueue('q', '1', unique_key => 'k', unique_for => '1 day')); DELETE FROM pgq_ext.finished_job}, 'late');
refused_ok('a key that outlives its job', 'late', 5, 'ids have no shard number');
is(sql('SELECT * FROM pgq_ext.shard', 'late'), '', '... it has no number');
my ($next) = new_ids('late');
is($next, $id + 3, '... and its ids go on by one');
sql('DELETE FROM pgq_ext.unique_key; DELETE FROM pgq_ext.job', 'late');
sql('SELECT pgq_set_shard(5)', 'late');
my @ids = new_ids('late');
is(remainders(@ids), '5', 'without a trace of any it can be set');
cmp_ok($ids[0], '>', $next + 3, '... and goes on above ids that were in use');
refused_ok('another number', 'late', 6, 'ids of shard 5');
is(remainders(new_ids('late')), '5', '... which changes nothing');
sql('DELETE FROM pgq_ext.job', 'late');
my $last = sql('SELECT last_value FROM pgq_ext.job_id_seq', 'late');
sql('SELECT pgq_set_shard(4)', 'late');
@ids = new_ids('late');
is(remainders(@ids), '4', 'without jobs the number can change');
cmp_ok($ids[0], '>', $last, '... and no id comes twice');

# ---- bad input, rights ----

for ([ 'NULL', '22004' ], [ '-1', '22023' ], [ '1024', '22023' ])
{
	is(sqlstate($node, "SELECT pgq_set_shard($_->[0])"), $_->[1], "shard $_->[0]: $_->[1]");
}
is(sqlstate($node, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pgq_set_shard(1)'), '25001', 'a transaction that sees the past: 25001');
sql('CREATE ROLE app; CREATE ROLE keeper; GRANT EXECUTE ON FUNCTION pgq_set_shard TO keeper');
is(sqlstate($node, 'SET ROLE app; SELECT pgq_set_shard(1)'), '42501', 'not for everybody');
is(sqlstate($node, 'SET ROLE app; SELECT pgq_ext.step_job_ids(1)'), '42501', '... nor is what it calls');
is(sqlstate($node, 'SET ROLE app; INSERT INTO pgq_ext.shard VALUES (true, 1)'), '42501', '... nor the table');
is(sqlstate($node, 'SET ROLE keeper; SELECT pgq_set_shard(1)', 's1'), '42501', '... a grant is of one database');
is(sqlstate($node, 'SET ROLE keeper; SELECT pgq_set_shard(1)'), '', '... and is enough');
sql(q{CREATE ROLE mallory; GRANT USAGE, CREATE ON SCHEMA public TO mallory; GRANT USAGE ON SCHEMA pgq_ext TO mallory; GRANT ALL ON pgq_ext.shard TO mallory; SET ROLE mallory;
	CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'this runs as %', current_user; END $$;
	CREATE TRIGGER evil BEFORE INSERT OR UPDATE ON pgq_ext.shard FOR EACH ROW EXECUTE FUNCTION evil()});
is(sqlstate($node, 'SET ROLE keeper; SELECT pgq_set_shard(1)'), '', '... and fires no trigger of others');
sql('ALTER TABLE pgq_ext.shard OWNER TO mallory');
is(sqlstate($node, 'SET ROLE keeper; SELECT pgq_set_shard(1)'), '55000', '... nor does anything to a table of others');
sql('ALTER TABLE pgq_ext.shard OWNER TO CURRENT_USER; DROP FUNCTION evil() CASCADE');
is(sqlstate($node, 'INSERT INTO pgq_ext.shard VALUES (true, 1024)', new_db('rows')), '23514', 'rows are checked');
is(sqlstate($node, 'INSERT INTO pgq_ext.shard VALUES (false, 1)', 'rows'), '23514', '... there is one at most');

# ---- transactions ----

new_db('tx');
sql('BEGIN; SELECT pgq_set_shard(9); ROLLBACK', 'tx');
sql('BEGIN; SAVEPOINT a; SELECT pgq_set_shard(9); ROLLBACK TO a; COMMIT', 'tx');
is(sql('SELECT pgq_enqueue(\'q\', \'1\'); SELECT count(*) FROM pgq_ext.shard', 'tx'), "1\n0", 'rolled back: as it was');
sql('DELETE FROM pgq_ext.job', 'tx');

# Whoever has taken an id is waited for, and whoever wants one waits.
my ($producer, $setter, $other) = map { session($node, 'tx') } 1 .. 3;
my $waits = sub { my ($session) = @_; my $pid = pid_of($session); return "count(*) = 1 FROM pg_stat_activity WHERE pid = $pid AND wait_event_type = 'Lock'" };
my ($setter_waits, $other_waits) = map { $waits->($_) } $setter, $other;
ask($producer, q{BEGIN; SELECT pgq_enqueue('q', '1')});
send_sql($setter, 'SELECT pgq_set_shard(9)');
wait_for($node, $setter_waits);
ask($producer, 'COMMIT');
like((reply($setter))[1], qr/has jobs whose ids have no shard number/, 'a job that is being enqueued counts');
sql('DELETE FROM pgq_ext.job', 'tx');
ask($producer, q{BEGIN; SELECT pgq_enqueue('q', '1')});
send_sql($setter, 'SELECT pgq_set_shard(9)');
wait_for($node, $setter_waits);
ask($producer, 'ROLLBACK');
is((reply($setter))[1], '', '... unless it is rolled back');
ask($setter, 'BEGIN; SELECT pgq_set_shard(10)');
send_sql($other, q{SELECT pgq_enqueue('q', '1')});
wait_for($node, $other_waits);
ask($setter, 'COMMIT');
is((reply($other))[0] % 1024, 10, 'who enqueues meanwhile has an id of the new number');
end_session($_) for $producer, $setter, $other;

new_db('prepared');
sql(q{BEGIN; SELECT pgq_set_shard(11); PREPARE TRANSACTION 'shard'}, 'prepared');
$node->stop('immediate');
$node->start;
sql(q{COMMIT PREPARED 'shard'}, 'prepared');
is(remainders(new_ids('prepared')), '11', 'prepared, and committed after a crash');

# ---- the end of the ids ----

new_db('last');
sql(q{SELECT pgq_set_shard(1023); SELECT setval('pgq_ext.job_id_seq', 9007199254740991 - 1024)}, 'last');
is(sql(q{SELECT pgq_enqueue('q', '1')}, 'last'), '9007199254740991', 'the last id is below 2^53');
is(sqlstate($node, q{SELECT pgq_enqueue('q', '1')}, 'last'), '2200H', '... and none comes after it');
new_db('last0');
sql(q{SELECT pgq_set_shard(0); SELECT setval('pgq_ext.job_id_seq', 9007199254740992 - 1024)}, 'last0');
is(sqlstate($node, q{SELECT pgq_enqueue('q', '1')}, 'last0'), '2200H', '... of any shard');

# ---- crash, standby ----

my @before = new_ids('s2');
$node->stop('immediate');
$node->start;
my @after = new_ids('s2');
is(remainders(@after), '2', 'after a crash ids are in step');
cmp_ok($after[0], '>', $before[-1], '... and new');

# ---- dump and restore ----

sub run_ok { my ($what, @command) = @_; $node->command_ok(\@command, $what); return }
my ($top) = reverse new_ids('s2');

sub comes_back_ok
{
	my ($what, $db, @commands) = @_;
	sql("CREATE DATABASE $db TEMPLATE template0");
	run_ok("$what: $_->[0]", @$_) for @commands;
	my @new = new_ids($db);
	is("@new", join(' ', map { $top + 1024 * $_ } 1, 2, 3, 4), "$what: ids go on in step");
	is(sql('SELECT shard FROM pgq_ext.shard', $db), '2', '... of the same shard');
	is(sqlstate($node, 'SELECT pgq_set_shard(3)', $db), '55000', '... which it stays');
	return;
}
sub restore { my ($db, @options) = @_; return [ 'pg_restore', '-e', '-d', $node->connstr($db), @options ] }
# The key would be met.
sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job WHERE unique_key = 'k'}, 's2');
run_ok('pg_dump, plain',     'pg_dump', '-f', "$dir/plain.sql", $node->connstr('s2'));
run_ok('pg_dump, custom',    'pg_dump', '-Fc', '-f', "$dir/custom", $node->connstr('s2'));
run_ok('pg_dump, directory', 'pg_dump', '-Fd', '-f', "$dir/directory", $node->connstr('s2'));
comes_back_ok('plain', 'r1', [ 'psql', '-Xq', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain.sql", '-d', $node->connstr('r1') ]);
comes_back_ok('in one transaction', 'r2', restore('r2', '-1', "$dir/custom"));
comes_back_ok('parallel', 'r3', restore('r3', '-j3', "$dir/directory"));
comes_back_ok('data only, triggers off', 'r4', restore('r4', '--schema-only', "$dir/custom"), restore('r4', '--data-only', '--disable-triggers', "$dir/custom"));

# ---- logical replication: a shard that moves takes its number along ----

sql('CREATE PUBLICATION p FOR ALL TABLES', 's2');
sql('CREATE DATABASE moved TEMPLATE template0');
run_ok('objects', @{ restore('moved', '--schema-only', "$dir/custom") });
sql(q{SELECT pg_create_logical_replication_slot('moving', 'pgoutput')}, 's2');
my $s2 = $node->connstr('s2') =~ s/'/''/gr;
sql("CREATE SUBSCRIPTION s CONNECTION '$s2' PUBLICATION p WITH (create_slot = false, slot_name = moving)", 'moved');
wait_for($node, q{count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel}, 'moved');
is(sql('SELECT shard FROM pgq_ext.shard', 'moved'), '2', 'a subscriber has the number');
sql('ALTER SUBSCRIPTION s DISABLE', 'moved');
wait_for($node, q{NOT active FROM pg_replication_slots WHERE slot_name = 'moving'});
sql(q{ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s}, 'moved');
sql(q{SELECT pg_drop_replication_slot('moving')}, 's2');
sql(q{SELECT setval('pgq_ext.job_id_seq', max(job_id)) FROM (SELECT job_id FROM pgq_ext.job UNION ALL SELECT job_id FROM pgq_ext.dead_job) jobs}, 'moved');
is(sql(q{SELECT pgq_enqueue('q', '1')}, 'moved'), $top + 1024, '... and goes on in step when it takes over');

# ---- a value that was set by hand ----

sql(q{SELECT setval('pgq_ext.job_id_seq', 5000000)}, 'moved');
sql('SELECT pgq_set_shard(2)', 'moved');
@ids = new_ids('moved');
is(remainders(@ids), '2', 'set once more, it puts right what was set by hand');
cmp_ok($ids[0], '>', 5_000_000, '... upwards');

# ---- a database of the version before ----

sql('CREATE DATABASE old TEMPLATE template0');
sql(q{CREATE EXTENSION pgq_ext VERSION '0.1'}, 'old');
sql('ALTER EXTENSION pgq_ext UPDATE; SELECT pgq_set_shard(700)', 'old');
create_queue($node, 'q', '', 'old');
is(remainders(new_ids('old')), '700', 'an older database can be a shard when it is updated');

$node->stop;
done_testing();
