# SQL objects of the version before the library's: the library serves all functions of that version, a view and the
# log report the old version, and ALTER EXTENSION UPDATE, run while sessions use the queues, makes the same objects as
# CREATE EXTENSION.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'before', $sql) }

# What is newest, and the one that can be updated to it in one step. 012_versions, which may run at the same time, makes
# further versions, 0.0 and 99.
my $version = sql(q{SELECT default_version FROM pg_available_extensions WHERE name = 'pgq_ext'}, 'postgres');
my $before = sql(qq{SELECT source FROM pg_extension_update_paths('pgq_ext') WHERE path = source || '--$version' AND target = '$version' AND source NOT IN ('0.0', '99')}, 'postgres');
like($before, qr/^\d+(\.\d+)+$/, "before $version there was $before");

sql("CREATE DATABASE $_", 'postgres') for qw(before fresh updated);
sql("CREATE ROLE $_", 'postgres') for qw(keeper stranger), 'runner LOGIN';
sql("CREATE SCHEMA tools; CREATE EXTENSION pgq_ext VERSION '$before' SCHEMA tools; ALTER DATABASE before SET search_path = public, tools; GRANT USAGE ON SCHEMA tools TO keeper, stranger");

# ---- it is served ----

my $log = -s $node->logfile;
create_queue($node, 'q', q{max_attempts => 3, lease_time => '1 hour', log_attempts => 'all', keep_finished => '1 day', concurrency => 100, fair => true}, 'before');
create_queue($node, 'closed', '', 'before');
create_queue($node, 'lost', q{lease_time => '1 s'}, 'before');
$node->wait_for_log(qr/WARNING:  library and SQL objects of pgq_ext have different versions\n.*DETAIL:  The library pgq_ext is \Q$version\E, .*"before" is \Q$before\E\..*\n.*HINT:  Run ALTER EXTENSION pgq_ext UPDATE/, $log);
my $library = q{SELECT status, detail, hint IS NOT NULL FROM pgq_ext.health WHERE "check" = 'library'};
is(sql($library), "warn|library $version, SQL objects $before|t", 'health names both versions, and what to do');
is(sql(q{SELECT string_agg("check", ' ') FROM pgq_ext.health WHERE status = 'fail'}), '', '... and finds nothing else');

sql(q{SELECT pgq_grant('closed', 'keeper', '{claim}'); GRANT EXECUTE ON FUNCTION pgq_claim TO keeper, stranger;
	SELECT pgq_alter_queue('q', max_attempts => 5), pgq_pause_queue('closed');
	SELECT pgq_enqueue('q', jsonb_build_object('n', i), priority => i % 3, group_key => 'g' || i % 5,
		unique_key => CASE WHEN i % 2 = 0 THEN 'k' || i END, delay => CASE WHEN i % 10 = 0 THEN interval '1 year' END) FROM generate_series(1, 100) i;
	SELECT count(*) FROM pgq_enqueue_many('q', '[{"payload": 1, "unique_key": "for", "unique_for": "1 day"}, {"payload": 2}]');
	SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('q', 4);
	SELECT pgq_fail(job_id, lease, 'later', retry_in => '1 year') FROM pgq_claim('q', 4);
	SELECT pgq_ack(job_id, lease, '"done"') FROM pgq_claim('q', 4);
	SELECT count(*) FROM pgq_claim_any('{q}', 2) c, pgq_ack_many(ARRAY[c.job_id], ARRAY[c.lease]);
	SELECT pgq_progress(job_id, lease, '"half"'), pgq_extend(job_id, lease) FROM pgq_claim('q', 3);
	SELECT pgq_lock('held', ttl => '1 day'), pgq_run_once('begun'), pgq_create_rate('rate', 5, '1 min'), pgq_take('rate');
	SELECT pgq_schedule('nightly', '0 3 * * *', 'q', '"tick"')});
is(sql(q{SELECT pgq_cancel(max(job_id)) FROM pgq_ext.job WHERE run_at > now()}), 'scheduled', 'every verb works');
my $due = q{SELECT count(*) FROM pgq_ext.job_status WHERE queue = 'q' AND state = 'ready'};
cmp_ok(sql($due), '>', 50, '... jobs wait');
my @held = map { [ split /\|/ ] } split /\n/, sql(q{SELECT job_id, lease FROM pgq_claim('q', 3)});
is(scalar @held, 3, '... some are in work');

# By the scheduler, too.
sql(q{SELECT pgq_enqueue('lost', '"lost"'); SELECT count(*) FROM pgq_claim('lost')});
is(sql(q{SELECT attempt, last_error FROM pgq_claim('lost', wait => '60 s', lease_time => '1 hour')}), '2|the lease expired', 'the scheduler works');

# As after the installation of a new library.
$log = -s $node->logfile;
$node->restart;
$node->wait_for_log(qr/WARNING:  library and SQL objects of pgq_ext have different versions/, $log);
is(sql('SELECT pgq_ack(' . join(', ', @{ shift @held }) . ')'), '', 'after a restart leases are good');

# ---- the update, while everybody works ----

my $state = q{
	SELECT 'job', md5(j::text), job_id FROM pgq_ext.job j UNION ALL SELECT 'dead', md5(d::text), job_id FROM pgq_ext.dead_job d
	UNION ALL SELECT 'attempt', md5(a::text), job_id FROM pgq_ext.attempt a UNION ALL SELECT 'finished', md5(f::text), job_id FROM pgq_ext.finished_job f
	UNION ALL SELECT 'queue', md5(q::text), queue_id FROM pgq_ext.queue q UNION ALL SELECT 'lock', md5((l.name, l.token)::text), 0 FROM pgq_ext.lock l
	UNION ALL SELECT 'run', md5(r::text), 0 FROM pgq_ext.run r UNION ALL SELECT 'rate', md5(r::text), 0 FROM pgq_ext.rate_limit r
	UNION ALL SELECT 'schedule', md5(t::text), 0 FROM pgq_ext.timetable t UNION ALL SELECT 'unique', md5(u::text), job_id FROM pgq_ext.unique_key u
	UNION ALL SELECT 'rights', relname || relacl::text, 0 FROM pg_class WHERE relname ~ '^rights_'
	UNION ALL SELECT 'rights', proname || proacl::text, 0 FROM pg_proc WHERE proname = 'pgq_claim'
	ORDER BY 1, 3, 2};
my $rows = sql($state);

my ($waiting, $writing, $prepared, $updating) = map { session($node, 'before') } 1 .. 4;
send_sql($waiting, q{SELECT payload FROM pgq_claim('lost', wait => '60 s')});
wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'lost'}, 'before');
ask($writing, q{BEGIN; SELECT pgq_enqueue('q', '"in a transaction"', priority => 9)});
ask($prepared, qq{BEGIN; SELECT pgq_ack($held[0][0], $held[0][1]); PREPARE TRANSACTION 'acked'});
ask($updating, q{BEGIN; ALTER EXTENSION pgq_ext UPDATE});
is(sql(q{SELECT count(pgq_enqueue('q', '"meanwhile"', priority => 8))}), '1', 'enqueued while the update is open');
is(sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q') WHERE payload = '"meanwhile"'}), '1', '... claimed and acknowledged');
is((ask($updating, 'ROLLBACK'))[1], '', '... which can be undone');
is(sql($library), "warn|library $version, SQL objects $before|t", '... and is, then');
is(sql($state), sql($state), '... the rows stand still');
is(sqlstate($node, 'ALTER EXTENSION pgq_ext UPDATE', 'before'), '', 'updated');
is(sql($library), "ok|library $version, SQL objects $version|f", 'health says that all is well');
sql(q{SELECT pgq_enqueue('lost', '"for who waits"')});
is((reply($waiting))[0], '"for who waits"', 'a claim that has waited meanwhile has its job');
ask($writing, 'COMMIT');
is(sql(q{SELECT payload FROM pgq_claim('q', lease_time => '1 hour')}), '"in a transaction"', '... and what was enqueued meanwhile is there');
sql(q{COMMIT PREPARED 'acked'});
is((sqlstate($node, "SELECT pgq_ack($held[1][0], $held[1][1])", 'before'))[0], '', '... leases are good');
is((sqlstate($node, "SELECT pgq_ack($held[0][0], $held[0][1])", 'before'))[0], 'PQ001', '... and what was prepared is done');
end_session($_) for $waiting, $writing, $prepared, $updating;

# What nobody has touched.
my %has = map { $_ => 1 } split /\n/, sql($state);
my @gone = grep { !$has{$_} && !/\|(?:$held[0][0]|$held[1][0])$/ } split /\n/, $rows;
is("@gone", '', 'every row, option and right is what it was');
is(sql(q{SELECT count(*) FROM pgq_check()}), '0', 'pgq_check finds nothing');

# The scheduler, which began with the objects of the version before, starts workers for handlers.
sql(q{CREATE FUNCTION handle(pgq_ext.claimed_job) RETURNS jsonb LANGUAGE sql AS 'SELECT $1.payload'; GRANT USAGE ON SCHEMA tools TO runner; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO runner;
	SELECT pgq_create_queue('handled', keep_finished => '1 day'); SELECT pgq_set_handler('handled', 'handle'::regproc, run_as => 'runner')});
is(sql("SELECT pgq_enqueue('handled', '\"new\"') AS job\n\\gset\nSELECT state, result FROM pgq_result(:job, '60 s')"), 'acked|"new"', 'a handler runs a job');
sql(q{SELECT pgq_drop_queue('handled'); DROP FUNCTION handle});

$log = -s $node->logfile;
$node->restart;
wait_for_scheduler($node, 'before');
is(sql(q{SELECT string_agg("check", ' ') FROM pgq_ext.health WHERE status <> 'ok'}), '', 'after a restart health finds nothing');
unlike(slurp_file($node->logfile, $log), qr/have different versions/, '... and the log says nothing');

# ---- object by object ----

sql("CREATE EXTENSION pgq_ext VERSION '$before'", 'updated');
sql('ALTER EXTENSION pgq_ext UPDATE', 'updated');
is(sql('SELECT pgq_ext.add_batch_columns()', 'updated'), 't', 'what an update does not add, since other sessions would wait for it');
is(sql('SELECT pgq_ext.add_queue_columns()', 'updated'), 't', '... to the table of queues either');
sql('CREATE EXTENSION pgq_ext',        'fresh');
create_queue($node, 'q', '', $_) for 'updated', 'fresh'; # with it the segments

# What the catalog says of each object that belongs to the extension, in the words of pg_dump; and what that does not say.
my $more = q{
	WITH of_us AS (
		SELECT classid, objid, objsubid FROM pg_depend WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgq_ext')
		UNION SELECT 'pg_class'::regclass, oid, 0 FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace
		UNION SELECT 'pg_extension'::regclass, oid, 0 FROM pg_extension WHERE extname = 'pgq_ext')
	SELECT pg_describe_object(d.classid, d.objid, d.objsubid), d.deptype::text, pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
	FROM pg_depend d WHERE (d.classid, d.objid) IN (SELECT classid, objid FROM of_us) OR (d.refclassid, d.refobjid) IN (SELECT classid, objid FROM of_us)
	UNION ALL SELECT pg_describe_object(classoid, objoid, objsubid), concat('rights: ', privtype), initprivs::text FROM pg_init_privs WHERE (classoid, objoid) IN (SELECT classid, objid FROM of_us)
	UNION ALL SELECT pg_describe_object(classoid, objoid, objsubid), 'comment', description FROM pg_description WHERE (classoid, objoid) IN (SELECT classid, objid FROM of_us)
	UNION ALL SELECT 'dumped', extcondition[n], t::regclass::text FROM pg_extension, unnest(extconfig) WITH ORDINALITY u(t, n) WHERE extname = 'pgq_ext'
	UNION ALL SELECT extname, extversion, extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'pgq_ext'
	UNION ALL SELECT p.oid::regprocedure::text, 'function', concat_ws(' ', prosrc, probin, provolatile, proparallel, proisstrict, proleakproof, prosecdef, procost, prorows, proconfig, prosupport, pg_get_function_arguments(oid), pg_get_expr(proargdefaults, 0))
		FROM pg_proc p WHERE ('pg_proc'::regclass, oid) IN (SELECT classid, objid FROM of_us)
	UNION ALL SELECT attrelid::regclass::text, attname, concat_ws(' ', attnum, atttypid::regtype, atttypmod, attnotnull, attidentity, attgenerated, attstorage, attcompression, attcollation)
		FROM pg_attribute WHERE attrelid IN (SELECT objid FROM of_us WHERE classid = 'pg_class'::regclass)
	UNION ALL SELECT t.tgrelid::regclass::text, tgname, concat_ws(' ', tgenabled, pg_get_triggerdef(t.oid)) FROM pg_trigger t WHERE tgrelid IN (SELECT objid FROM of_us) AND NOT tgisinternal
	UNION ALL SELECT oid::regclass::text, relkind::text, concat_ws(' ', relacl, relpersistence, reloptions, relreplident, relrowsecurity, pg_get_partkeydef(oid), pg_get_expr(relpartbound, oid))
		FROM pg_class WHERE oid IN (SELECT objid FROM of_us WHERE classid = 'pg_class'::regclass)
	ORDER BY 1, 2, 3};
sub objects
{
	my ($db) = @_;
	my $file = $node->basedir . "/$db.sql";
	$node->command_ok([ 'pg_dump', '--schema-only', '--binary-upgrade', '-f', $file, $node->connstr($db) ], "pg_dump of $db");
	# Numbers of objects differ, and so does the order of what has one name.
	my @statements = grep { !/binary_upgrade|SET relfrozenxid|\bsetval\b|^\\(?:un)?restrict/ } map { s/^--.*\n//mgr =~ s/^\s+|\s+$//gr } split /;\n/, slurp_file($file);
	return (sort(grep { $_ ne '' } @statements), map { s/pg_toast_\d+/of its own/gr } split /\n/, sql($more, $db));
}
sub only_in { my ($some, $others) = @_; my %in = map { $_ => 1 } @$others; return join "\n", grep { !$in{$_} } @$some }

my @fresh   = objects('fresh');
my @updated = objects('updated');
cmp_ok(scalar @fresh, '>', 1000, 'there is much to compare');
is(only_in(\@fresh,   \@updated), '', 'what is in a new one is in an updated one');
is(only_in(\@updated, \@fresh),   '', '... and nothing else');
is(scalar @updated, scalar @fresh, '... as often');

# Shown to be noticed: one of each.
sql(q{COMMENT ON FUNCTION pgq_ack IS 'else'; GRANT SELECT ON pgq_ext.job TO stranger; ALTER TABLE pgq_ext.queue ALTER paused SET DEFAULT true;
	ALTER FUNCTION pgq_claim ROWS 2; ALTER TABLE pgq_ext.job DISABLE TRIGGER job_fence; CREATE FUNCTION pgq_ext.more() RETURNS int LANGUAGE sql RETURN 1}, 'updated');
my $noticed = only_in([ objects('updated') ], \@fresh);
like($noticed, $_, "noticed: $_") for qr/'?else'?/, qr/stranger/, qr/DEFAULT true/, qr/ROWS 2/, qr/job_fence/, qr/pgq_ext\.more/;

$node->stop;
done_testing();
