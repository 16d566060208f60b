# The owner of the extension, who is no superuser, alters its tables and types: code that reads them raises error
# 55000, and never takes a value for one of another type, or a NULL for a value.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "max_prepared_transactions = 2\nrestart_after_crash = off\n");
$node->start;
sub sql { return scalar $node->safe_psql('postgres', $_[0]) }
sub as_owner { my ($sql) = @_; return sql("SET SESSION AUTHORIZATION appdba; $sql") }

sql('CREATE ROLE appdba SUPERUSER LOGIN; SET SESSION AUTHORIZATION appdba; CREATE EXTENSION pgq_ext; RESET SESSION AUTHORIZATION; ALTER ROLE appdba NOSUPERUSER; GRANT CREATE ON SCHEMA public TO appdba');

# ---- one of everything ----

as_owner(q{
	SELECT pgq_create_queue('q', keep_finished => '1 day', log_attempts => 'all', keep_dead => '1 day'), pgq_create_queue('other'), pgq_create_rate('r', 100, '1 s', 10);
	SELECT pgq_enqueue('q', '[1]', unique_key => 'k', unique_for => '1 day', group_key => 'g', headers => '{}'), pgq_enqueue('q', '1', delay => '1 day', expires_in => '2 days');
	SELECT pgq_enqueue('other', n::text::jsonb) FROM generate_series(1, 6) n;
	SELECT pgq_fail(job_id, lease, 'dead', retry => false) FROM pgq_claim('other', 2);
	SELECT pgq_fail(job_id, lease, 'again') FROM pgq_claim('other');
	SELECT pgq_enqueue('q', '2'), pgq_lock('held', '1 day'), pgq_run_once('run', '1 day'), pgq_run_once('forever'), pgq_take('r'), pgq_schedule('s', '@yearly', 'q', options => '{"priority": 1}');
	SELECT pgq_ack(job_id, lease, '{"r": 1}') FROM pgq_claim('q');
	CREATE FUNCTION handle(pgq_ext.claimed_job) RETURNS void LANGUAGE sql AS ''; SELECT pgq_set_handler('q', 'handle'::regproc), pgq_pause_handler('q');
	SELECT pgq_bind('x.#', 'q'), pgq_bind('x.*', 'other', '{"when_full": "skip"}'), pgq_grant_topic('x.#', 'appdba', '{publish}');
	CREATE FUNCTION try(command text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN EXECUTE command; RETURN 'ok'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;});
as_owner(q{SELECT pgq_create_queue('kids'), pgq_create_queue('parents'); SELECT pgq_enqueue('kids', '1', after => ARRAY[pgq_enqueue('parents', '1')]);
	SELECT pgq_ack(job_id, lease, '"r"') FROM pgq_claim('parents')});
wait_for($node, q{state = 'ready' FROM pgq_ext.job_status WHERE queue = 'kids'});
my @verbs = (
	q{SELECT pgq_enqueue('q', '[2]', unique_key => 'k', on_conflict => 'append')}, q{SELECT pgq_enqueue('q', '[2]', unique_key => 'l', unique_for => '1 day')},
	q{SELECT pgq_enqueue('q', '[3]', unique_key => 'k', on_conflict => 'replace', group_key => 'h')}, q{SELECT pgq_enqueue_many('q', '[{"payload": 1}, {"payload": 2, "unique_key": "m"}]')},
	q{SELECT payload, headers, run_at, last_error, pgq_fail(job_id, lease, 'x') FROM pgq_claim('other')},
	q{SELECT payload, pgq_fail(job_id, lease, 'x', retry => false) FROM pgq_claim('other')}, q{SELECT pgq_release(job_id, lease), pgq_progress(job_id, lease, '1') FROM pgq_claim('other')},
	q{SELECT pgq_ack(job_id, lease, '1') FROM pgq_claim('q')}, q{SELECT pgq_ack_many(array_agg(job_id), array_agg(lease)) FROM pgq_claim('q', 9)},
	(map { "SELECT pgq_result($_), pgq_explain($_), pgq_cancel($_)" } 1 .. 6), q{SELECT pgq_update(3, priority => 7, payload => '1')}, q{SELECT pgq_retry(2)}, q{SELECT pgq_redrive('other')},
	q{SELECT pgq_lock('held', '1 min')}, q{SELECT pgq_lock('new', '1 min')}, q{SELECT pgq_run_once('run', '1 day', '1 day')}, q{SELECT pgq_run_once('forever')}, q{SELECT pgq_run_once('once more', '1 s')},
	q{SELECT pgq_take('r')}, q{SELECT pgq_create_rate('s', 1, '1 s'), pgq_take('s')}, q{SELECT pgq_drop_rate('r')},
	q{SELECT pgq_pause_schedule('s'), pgq_resume_schedule('s')}, q{SELECT pgq_schedule('s', '@daily', 'q')}, q{SELECT pgq_unschedule('s')},
	q{SELECT pgq_set_handler('q', 'handle'::regproc, 2)}, q{SELECT pgq_resume_handler('q')}, q{SELECT pgq_pause_handler('q')}, q{SELECT pgq_drop_handler('q')},
	q{SELECT pgq_parents(job_id, lease), pgq_release(job_id, lease) FROM pgq_claim('kids')}, q{SELECT pgq_publish_many('[{"topic": "x.y", "payload": 1}]')},
	q{SELECT pgq_publish('x.y', '1')}, q{SELECT pgq_publish('y', '1')}, q{SELECT pgq_route('x.y')}, q{SELECT pgq_bind('x.y', 'q')}, q{SELECT pgq_unbind('x.y', 'q')},
	q{SELECT pgq_grant_topic('y', 'appdba', '{subscribe}')}, q{SELECT pgq_revoke_topic('x.#', 'appdba', '{publish}')},
	q{SELECT pgq_create_queue('new')}, q{SELECT pgq_alter_queue('q', max_attempts => 3)}, q{SELECT pgq_purge_queue('q')}, q{SELECT pgq_check()},
	q{INSERT INTO pgq_ext.job (queue_id, payload) VALUES (1, '1')}, q{UPDATE pgq_ext.job SET priority = 3}, q{DELETE FROM pgq_ext.dead_job}, q{UPDATE pgq_ext.queue SET paused = true},
	q{UPDATE pgq_ext.timetable SET paused = true}, q{SELECT pgq_grant('q', 'appdba', '{admin}')}, q{SELECT pgq_drop_queue('other', force => true)});
as_owner('CREATE FUNCTION try_all(which text) RETURNS text[] BEGIN ATOMIC
	SELECT array_agg(DISTINCT try(v)) FROM unnest(ARRAY[' . join(', ', map { "\$v\$$_\$v\$" } @verbs) . ']) v WHERE v ~ which; END');
# Verbs that read a table.
my $ends = 'claim|result|cancel|retry|redrive|purge|check|drop_queue|dead_job';
my %which = (held_lock => 'lock|run', run => 'run', rate_limit => 'rate|take', timetable => 'schedule|timetable', queue_handler => 'handler|drop_queue', shard => 'check', saved_lease => 'claim|check', token_key => 'claim',
	attempt => $ends, finished_job => $ends, dead_job => $ends, claimed_job => 'claim', job_result => 'result', parent => 'parents', explanation => 'explain',
	topic_binding => 'publish|route|bind|drop_queue', topic_pattern => 'publish|bind|_topic', published_job => 'publish', route => 'route');

sub crashed { return (run_command([ 'psql', '-XAtqc', 'SELECT 1', '-d', $node->connstr('postgres') ]))[0] ne '1' }
# Each change and the verbs after it, in one transaction that is rolled back: what they said.
sub try_each
{
	my (@changes) = @_;
	my $file = $node->basedir . '/changes.sql';
	my $script = "SET SESSION AUTHORIZATION appdba; SET client_min_messages = error;\nBEGIN;\n";
	$script .= "SAVEPOINT s;\n\\echo -- $_\n$_;\n\\echo :SQLSTATE\nSELECT try_all('" . (/pgq_ext\.(\w+)/ ? $which{$1} // '' : '') . "');\nROLLBACK TO s;\n" for @changes;
	append_to_file($file, "$script;\nROLLBACK;\n");
	my ($out, $err) = run_command([ 'psql', '-XAtq', '-f', $file, '-d', $node->connstr('postgres') ]);
	unlink $file;
	return ($out, $err);
}

# ---- views and checks go, so that nothing else keeps a column as it is ----

as_owner(q{SET client_min_messages = error; DO $$ DECLARE r record; BEGIN
	FOR r IN SELECT format('pgq_ext.%I', relname) AS v FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace AND relkind = 'v' AND relname !~ 'rights_' LOOP
		EXECUTE format('ALTER EXTENSION pgq_ext DROP VIEW %s', r.v); END LOOP;
	FOR r IN SELECT format('pgq_ext.%I', relname) AS v FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace AND relkind = 'v' AND relname !~ 'rights_' LOOP
		EXECUTE format('DROP VIEW IF EXISTS %s CASCADE', r.v); END LOOP;
	FOR r IN SELECT conname, conrelid::regclass AS t FROM pg_constraint WHERE connamespace = 'pgq_ext'::regnamespace AND contype = 'c' AND conislocal LOOP
		EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', r.t, r.conname); END LOOP;
	FOR r IN SELECT attname, attrelid::regclass AS t FROM pg_attribute WHERE attrelid IN ('pgq_ext.job'::regclass, 'pgq_ext.unique_key'::regclass) AND attgenerated <> '' LOOP
		EXECUTE format('ALTER TABLE %s ALTER %I DROP EXPRESSION', r.t, r.attname); END LOOP;
	ALTER EXTENSION pgq_ext DROP SEQUENCE pgq_ext.queue_queue_id_seq; ALTER TABLE pgq_ext.queue ALTER queue_id DROP IDENTITY; END $$});

# ---- every column of every table ----

{
	my @columns = map { [ split /\|/ ] } split /\n/, sql(q{
		SELECT c.relname, a.attname, t.typbyval, a.attnotnull FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped JOIN pg_type t ON t.oid = atttypid
		WHERE relnamespace = 'pgq_ext'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY c.relname, attnum});
	cmp_ok(scalar @columns, '>', 140, 'the tables have columns');
	my @changes;
	my $before = '';
	for (@columns)
	{
		my ($table, $column, $by_value, $not_null) = @$_;
		my $other = $by_value eq 't' ? q{text USING 'x'} : 'bigint USING 12345';
		push @changes, "ALTER TABLE pgq_ext.$table ALTER $column DROP DEFAULT, ALTER $column TYPE $other";
		push @changes, "ALTER TABLE pgq_ext.$table ALTER $column DROP NOT NULL; ALTER TABLE pgq_ext.$table DISABLE TRIGGER ALL; UPDATE pgq_ext.$table SET $column = NULL"
		  if $not_null eq 't' && $by_value eq 'f';
		push @changes, "ALTER TABLE pgq_ext.$table DROP $column CASCADE", "ALTER TABLE pgq_ext.$table ADD one_more text" if $table ne $before;
		$before = $table;
	}
	my ($out, $err) = try_each(@changes);
	ok(!crashed(), scalar(@changes) . ' changes of columns: the server lives') or die substr($out, -500) . $err;
	my %said;
	$said{$_}++ for $out =~ /\b([0-9A-Z]{5}|ok)\b/g;
	cmp_ok($said{55000}, '>', 100, '... and it is said that the tables are not as they were') or diag explain \%said;
	is($said{XX000}, undef, '... without an internal error');
}
{
	my ($out) = try_each('SELECT 1');
	unlike($out, qr/55000|XX000/, 'all is well without a change');
}

# ---- the types of results ----

{
	my (@changes, @harmless);
	for my $type (qw(claimed_job job_result parent explanation published_job route))
	{
		for my $attribute (split /\n/, sql("SELECT attname FROM pg_attribute WHERE attrelid = 'pgq_ext.$type'::regclass AND attnum > 0"))
		{
			push @changes, "ALTER TYPE pgq_ext.$type ALTER ATTRIBUTE $attribute TYPE $_" for qw(text bigint), '"char"';
			push @changes, "ALTER TYPE pgq_ext.$type DROP ATTRIBUTE $attribute";
		}
		push @harmless, "ALTER TYPE pgq_ext.$type ADD ATTRIBUTE more text";
	}
	my ($out, $err) = try_each(@changes);
	ok(!crashed(), 'changes of row types: the server lives') or die substr($out, -500) . $err;
	like($out, qr/55000/, '... and it is said');
	unlike($out, qr/XX000/, '... without an internal error');
	($out) = try_each(@harmless);
	unlike($out, qr/55000|XX000/, 'a row type may grow at its end');
	as_owner('ALTER TYPE pgq_ext.claimed_job ADD ATTRIBUTE more text');
	sql(q{SELECT pgq_enqueue('other', '3', priority => 9)});
	is(sql(q{SELECT payload, more IS NULL, pgq_release(job_id, lease) FROM pgq_claim('other')}), '3|t|t', '... with NULL in what is new');
	as_owner('ALTER TYPE pgq_ext.claimed_job DROP ATTRIBUTE more');
	is(sql(q{SELECT payload, pgq_release(job_id, lease) FROM pgq_claim('other')}), '3|t', '... and shrink again');
	my (undef, $error) = sqlstate($node, q{BEGIN; ALTER TYPE pgq_ext.claimed_job ALTER ATTRIBUTE run_at TYPE text; SELECT * FROM pgq_claim('q')});
	like($error, qr/55000: type "pgq_ext.claimed_job" differs .*DETAIL:  Attribute 11 must be "run_at" of type timestamp with time zone.\nHINT/s, 'the attribute is named');
	(undef, $error) = sqlstate($node, q{BEGIN; CREATE DOMAIN word AS text; ALTER TYPE pgq_ext.claimed_job ALTER ATTRIBUTE queue TYPE word; SELECT * FROM pgq_claim('q')});
	like($error, qr/Attribute 3 must be "queue" of type text/, 'a domain is another type');
	(undef, $error) = sqlstate($node, q{BEGIN; ALTER TABLE pgq_ext.attempt ALTER error TYPE bigint USING 1; SELECT pgq_fail(job_id, lease) FROM pgq_claim('other')});
	like($error, qr/table "pgq_ext.attempt_\d+" differs .*Column 11 must be "error" of type text/s, 'the column is named');
}

# A session that has compared a type compares it again when it is another one.
{
	sql(q{SELECT count(pgq_enqueue('other', '4')) FROM generate_series(1, 8)});
	my ($owner, $worker) = (session($node), session($node));
	my $claim = q{SELECT payload FROM pgq_claim('other')};
	my $alter = 'ALTER TYPE pgq_ext.claimed_job ALTER ATTRIBUTE payload TYPE';
	my $differs = qr/type "pgq_ext.claimed_job" differs/;
	my $said = sub { return join '', ask($worker, $_[0]) };
	like($said->("SET SESSION AUTHORIZATION appdba; BEGIN; $claim"), qr/^\d/, 'a claim compares the type');
	like($said->("SAVEPOINT s; $alter text; $claim"), $differs, '... again when this transaction has altered it');
	like($said->("ROLLBACK TO s; $claim"), qr/^\d/, '... and when that is rolled back');
	like($said->("ALTER TYPE pgq_ext.claimed_job ADD ATTRIBUTE more text; $claim"), qr/^\d/, '... takes a type that has grown');
	like($said->("SAVEPOINT t; $alter text; $claim"), $differs, '... and refuses what became of it');
	$said->('ROLLBACK');
	ask($owner, "SET SESSION AUTHORIZATION appdba; $alter text");
	like($said->($claim), $differs, '... and what another session has made of it');
	ask($owner, "$alter jsonb");
	like($said->($claim), qr/^\d/, '... until that is undone');
	end_session($_) for $owner, $worker;
}

# ---- values for rows that are older than their column ----

# ADD COLUMN with DEFAULT keeps them in the catalog. Here they are taken from another table.
sql(q{SELECT pgq_enqueue('other', '5', priority => 9)});
is(sql(q{SET allow_system_table_mods = on; BEGIN; CREATE TABLE older (); ALTER TABLE older ADD headers jsonb DEFAULT '{"h": 1}';
	UPDATE pg_attribute SET (atthasmissing, attmissingval) = (SELECT atthasmissing, attmissingval FROM pg_attribute WHERE attrelid = 'older'::regclass AND attname = 'headers')
		WHERE attname = 'headers' AND attrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'pgq_ext.job'::regclass);
	SELECT payload, headers, headers = (SELECT headers FROM pgq_ext.job j WHERE j.job_id = c.job_id) FROM pgq_claim('other') c; ROLLBACK}),
	'5|{"h": 1}|t', 'a claim reads the value that SQL reads');

# ---- while a session waits for the lock of the table ----

# A job for each claim: one whose claim is rolled back is not handed out before the scheduler has written the attempt.
sql(q{SELECT count(pgq_enqueue('other', '1')) FROM generate_series(1, 10)});
for my $case ([ 'attempt', 'worker', q{SELECT pgq_fail(job_id, lease, 'x') FROM pgq_claim('other')} ], [ 'job', 'payload', q{SELECT pgq_enqueue('q', '1')} ],
	[ 'dead_job', 'payload', q{SELECT pgq_fail(job_id, lease, 'x', retry => false) FROM pgq_claim('other')} ], [ 'held_lock', 'owner', q{SELECT pgq_lock('third')} ])
{
	my ($table, $column, $verb) = @$case;
	my ($owner, $worker) = (session($node), session($node));
	ask($worker, $verb =~ s/SELECT/BEGIN; SELECT/r . '; ROLLBACK');
	ask($owner, "SET SESSION AUTHORIZATION appdba; BEGIN; ALTER TABLE pgq_ext.$table ALTER $column TYPE bigint USING 77");
	send_sql($worker, $verb);
	wait_for($node, 'count(*) = 1 FROM pg_stat_activity WHERE ' . pid_of($owner) . ' = ANY (pg_blocking_pids(pid))');
	ask($owner, 'COMMIT');
	like((reply($worker))[1], qr/differs? from what the pgq_ext library expects|is of type bigint but expression is of type text/, "a session that waited for $table while it was altered looks again");
	ask($owner, "ALTER TABLE pgq_ext.$table ALTER $column TYPE " . ($column eq 'payload' ? q{jsonb USING '7'} : q{text USING 'again'}));
	end_session($_) for $owner, $worker;
}
is(sql(q{SELECT count(pgq_enqueue('q', '1'))}), '1', 'all goes on when the change is undone');

# ---- the scheduler, and the start of the server ----

sub alter_and_log
{
	my ($change, $said, $undo, $what) = @_;
	my $log = -s $node->logfile;
	as_owner($change);
	ok($node->wait_for_log(qr/$said/, $log), "$what: it says so");
	as_owner($undo);
	# What fails is tried again later and later, but not by another scheduler.
	my $before = scheduler_pid($node);
	sql("SELECT pg_terminate_backend($before, 60000)");
	wait_for_scheduler($node, 'postgres', $before);
	return;
}
as_owner(q{SELECT pgq_schedule('each_second', '* * * * * *', 'q', missed => 'skip')});
alter_and_log('ALTER TABLE pgq_ext.timetable ALTER cron TYPE bigint USING 12345', 'Column "cron" must be of type text',
	q{ALTER TABLE pgq_ext.timetable ALTER cron TYPE text USING '* * * * * *'}, 'the scheduler reads a schedule of another type');
alter_and_log('ALTER TABLE pgq_ext.timetable ALTER cron DROP NOT NULL; UPDATE pgq_ext.timetable SET cron = NULL', 'column "cron" of a table in schema "pgq_ext" contains a null value',
	q{UPDATE pgq_ext.timetable SET cron = '* * * * * *'; ALTER TABLE pgq_ext.timetable ALTER cron SET NOT NULL}, '... and a schedule of NULL');
my $last = sql(q{SELECT max(job_id) FROM pgq_ext.job});
wait_for($node, "max(job_id) > $last FROM pgq_ext.job");
pass('... and goes on when that is undone');
as_owner(q{SELECT pgq_unschedule('each_second')});

sub restart_with
{
	my ($change, $query, $undo, $what) = @_;
	as_owner($change);
	$node->restart;
	my ($state) = sqlstate($node, $query);
	is($state, '55000', "$what: it says so after a restart");
	as_owner($undo);
	is(sqlstate($node, $query), '', '... until that is undone');
}
restart_with('ALTER TABLE pgq_ext.held_lock ALTER owner DROP NOT NULL; UPDATE pgq_ext.held_lock SET owner = NULL', q{SELECT pgq_lock('fourth')},
	q{UPDATE pgq_ext.held_lock SET owner = 'somebody'; ALTER TABLE pgq_ext.held_lock ALTER owner SET NOT NULL}, 'a lock without an owner');
restart_with('ALTER TABLE pgq_ext.held_lock ALTER owner TYPE bigint USING 99', q{SELECT pgq_lock('fifth')},
	q{ALTER TABLE pgq_ext.held_lock ALTER owner TYPE text USING 'somebody'}, 'a lock whose owner is a number');
sql(q{SELECT job_id FROM pgq_claim('other')});
restart_with(q{ALTER TABLE pgq_ext.saved_lease ALTER worker TYPE bigint USING 5}, q{SELECT pgq_enqueue('q', '1')},
	q{ALTER TABLE pgq_ext.saved_lease ALTER worker TYPE text USING 'w'}, 'leases that cannot be saved');

unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'nothing has crashed');
$node->stop;
done_testing();
