# Code that other roles have planted in triggers, indexes and rules of the tables never runs with more rights than its
# author has, whichever role uses the queue.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "pgq_ext.segment_size = '64kB'\nautovacuum = off\nmax_prepared_transactions = 5\nlog_error_verbosity = terse\nlog_min_error_statement = panic\n");
$node->start;

# Run by somebody, in a database; what others have put into the search path is not for the test itself.
sub as
{
	my ($role, $db, $sql, %options) = @_;
	local $ENV{PGOPTIONS} = '-c search_path=' . ($options{path} // 'pg_catalog,public');
	my ($status, $out, $err) = $node->psql($db, $sql, extra_params => [ '-U', $role ], on_error_stop => 1);
	if ($status != 0 && !$options{may_fail})
	{
		diag with_other_rights();
		die "$role in $db: " . substr($err, 0, 500);
	}
	return $options{may_fail} ? $err : $out;
}
sub admin { my ($sql, $db) = @_; return as('postgres', $db // 'postgres', $sql) }

admin('CREATE ROLE mallory LOGIN; CREATE ROLE appdba LOGIN SUPERUSER; CREATE ROLE worker LOGIN; CREATE DATABASE granted; CREATE DATABASE owned');
admin('CREATE EXTENSION pgq_ext', 'granted');
as('appdba', 'owned', 'CREATE EXTENSION pgq_ext');
admin('ALTER ROLE appdba NOSUPERUSER; GRANT worker TO appdba');
my $verbs = 'pgq_create_queue, pgq_alter_queue, pgq_rename_queue, pgq_pause_queue, pgq_resume_queue, pgq_drop_queue, pgq_purge_queue, pgq_enqueue, pgq_enqueue_many, pgq_claim, pgq_ack, pgq_ack_many, pgq_fail, pgq_extend, pgq_release, pgq_assert_lease, pgq_checkpoint, pgq_ack_claim, pgq_schedule, pgq_unschedule, pgq_grant, pgq_revoke, pgq_check, pgq_result, pgq_retry, pgq_redrive, pgq_run_again, pgq_finish, pgq_set_handler, pgq_drop_handler, pgq_pause_handler, pgq_resume_handler, pgq_bind, pgq_unbind, pgq_publish, pgq_route';
for my $db ('granted', 'owned')
{
	admin("GRANT EXECUTE ON FUNCTION $verbs TO worker, mallory", $db);
	admin(q{CREATE SCHEMA tame; GRANT USAGE ON SCHEMA tame TO PUBLIC; CREATE FUNCTION tame.handle(pgq_ext.claimed_job) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN RETURN $1.payload; END'}, $db);
	admin('GRANT CREATE ON SCHEMA public TO mallory, appdba; GRANT CREATE, TEMPORARY ON DATABASE ' . $db . ' TO mallory, appdba, worker', $db);
	# The segments are there from now on.
	as('postgres', $db, "SELECT pgq_create_queue('first')");
}
admin('GRANT ALL ON SCHEMA pgq_ext TO mallory; GRANT ALL ON ALL TABLES IN SCHEMA pgq_ext TO mallory; GRANT ALL ON ALL SEQUENCES IN SCHEMA pgq_ext TO mallory', 'granted');

# ---- what is planted ----

my @tables = qw(queue queue_handler job_checkpoint job_batch batch_note job_dependency job_outcome topic_binding topic_pattern job dead_job attempt finished_job);
my @segments = ((map { "job_$_" } 0 .. 7), (map { "dead_job_$_" } 8 .. 11), (map { "attempt_$_" } 12 .. 15), map { "finished_job_$_" } 16 .. 19);

my @referred = grep { /job_\d+$/ && !/finished/ } @segments; # by an id that is there once

# Every piece tells the log what it is, whose it is and as whom it runs, and tries to become more than that.
sub tools
{
	my ($author) = @_;
	return qq{
	CREATE SCHEMA $author;
	GRANT USAGE ON SCHEMA $author TO PUBLIC;
	CREATE FUNCTION $author.grab(what text) RETURNS void LANGUAGE plpgsql VOLATILE AS \$\$
	BEGIN
		RAISE LOG 'planted: % of $author runs as %', what, current_user;
		IF current_user <> '$author' THEN
			BEGIN EXECUTE 'ALTER ROLE $author SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END;
		END IF;
		FOR i IN 1 .. 4 LOOP
			BEGIN
				EXECUTE (ARRAY['RESET ROLE', 'RESET SESSION AUTHORIZATION', 'SET ROLE postgres', 'SET SESSION AUTHORIZATION postgres'])[i];
				RAISE LOG 'planted: % of $author after a SET runs as %', what, current_user;
			EXCEPTION WHEN OTHERS THEN NULL;
			END;
		END LOOP;
		IF session_user <> '$author' THEN
			PERFORM set_config('search_path', '$author', false), set_config('statement_timeout', '1', false);
		END IF;
	END \$\$;
	CREATE FUNCTION $author.note(what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
		\$\$ BEGIN PERFORM $author.grab(what); RETURN true; END \$\$;
	CREATE FUNCTION $author.number(what text, n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
		\$\$ BEGIN PERFORM $author.grab(what); RETURN n; END \$\$;
	CREATE FUNCTION $author.fire() RETURNS trigger LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM $author.grab(TG_ARGV[0] || ' trigger ' || concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL));
		RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
	END \$\$;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA $author TO PUBLIC;};
}

# Triggers of every event, time and level; some authors may say when they fire.
sub triggers
{
	my ($author, $table, @states) = @_;
	my $sql = '';
	for my $state (@states)
	{
		my @kinds = map { my $level = $_; map { "$_ $level" } map { ("BEFORE $_", "AFTER $_") } qw(INSERT UPDATE DELETE) } qw(ROW STATEMENT);
		push @kinds, 'BEFORE TRUNCATE STATEMENT', 'AFTER TRUNCATE STATEMENT';
		for my $kind (@kinds)
		{
			my ($when, $level) = $kind =~ /^(.*) (\w+)$/;
			(my $name = lc "t $table $state $kind") =~ s/ /_/g;
			$sql .= "CREATE TRIGGER $name $when ON pgq_ext.$table FOR EACH $level EXECUTE FUNCTION $author.fire('$state');\n";
			$sql .= "ALTER TABLE pgq_ext.$table ENABLE $state TRIGGER $name;\n" if $state ne 'plain';
		}
	}
	return $sql;
}
sub deferred_trigger
{
	my ($author, $table, $state) = @_;
	my $name = lc "deferred_$state";
	return "CREATE CONSTRAINT TRIGGER $name AFTER INSERT OR UPDATE OR DELETE ON pgq_ext.$table DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION $author.fire('deferred $state');\n"
	  . ($state eq 'plain' ? '' : "ALTER TABLE pgq_ext.$table ENABLE $state TRIGGER $name;\n");
}

# What a search path may find before the server's own, or instead.
sub shadows
{
	my ($author, $schema) = @_;
	my $sql = '';
	for my $type (qw(bigint integer oid text))
	{
		$sql .= "CREATE FUNCTION $schema.same(a $type, b $type) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
			\$\$ BEGIN PERFORM $author.grab('operator on $type'); RETURN a OPERATOR(pg_catalog.=) b; END \$\$;
			CREATE OPERATOR $schema.= (FUNCTION = $schema.same, LEFTARG = $type, RIGHTARG = $type);\n";
	}
	$sql .= "CREATE FUNCTION $schema.$_ LANGUAGE plpgsql AS \$\$ BEGIN PERFORM $author.grab('function $_'); RETURN" . (/SETOF/ ? "" : " NULL") . "; END \$\$;\n"
	  for 'now() RETURNS timestamptz', 'clock_timestamp() RETURNS timestamptz', 'nextval(regclass) RETURNS bigint',
	  'setval(regclass, bigint) RETURNS bigint', 'pg_prepared_xact() RETURNS SETOF record', 'is_leased(integer) RETURNS boolean',
	  'is_leased(numeric) RETURNS boolean';
	$sql .= "CREATE FUNCTION $schema.counting(state bigint) RETURNS bigint LANGUAGE plpgsql AS
			\$\$ BEGIN PERFORM $author.grab('count'); RETURN state; END \$\$;
		CREATE AGGREGATE $schema.count(*) (sfunc = $schema.counting, stype = bigint, initcond = '0');
		CREATE FUNCTION $schema.collecting(state tid[], element tid) RETURNS tid[] LANGUAGE plpgsql AS
			\$\$ BEGIN PERFORM $author.grab('array_agg'); RETURN state; END \$\$;
		CREATE AGGREGATE $schema.array_agg(tid) (sfunc = $schema.collecting, stype = tid[], initcond = '{}');\n";
	return $sql;
}

# A role that was granted everything.
as('mallory', 'granted', join "\n", tools('mallory'), (map { triggers('mallory', $_, 'plain') } 'queue', 'queue_handler', 'job_checkpoint', 'topic_binding', 'topic_pattern', @segments),
	(map { triggers('mallory', $_, 'plain') } 'job', 'dead_job'), (map { deferred_trigger('mallory', $_, 'plain') } 'queue', 'queue_handler', 'job_checkpoint', 'topic_binding', 'topic_pattern', @segments),
	shadows('mallory', 'public'), shadows('mallory', 'pgq_ext'),
	'CREATE TABLE mallory.of_queue (queue_id integer REFERENCES pgq_ext.queue ON DELETE CASCADE)',
	(map { "; CREATE TABLE mallory.of_$_ (job_id bigint REFERENCES pgq_ext.$_ (job_id) ON DELETE CASCADE)" } @referred),
	(map { "; CREATE TRIGGER t BEFORE DELETE ON mallory.of_$_ FOR EACH ROW EXECUTE FUNCTION mallory.fire('referring')" } 'queue', @referred),
	'; CREATE TYPE mallory.odd AS (a int); CREATE FUNCTION mallory.cast(mallory.odd) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.grab(\'cast\'); RETURN 1; END $$',
	'; CREATE CAST (mallory.odd AS bigint) WITH FUNCTION mallory.cast(mallory.odd) AS IMPLICIT');

# The owner of all of it, who was a superuser when it was created.
my $always = join "\n", map { triggers('appdba', $_, 'plain', 'ALWAYS', 'REPLICA') } 'queue', 'queue_handler', 'job_checkpoint', 'topic_binding', 'topic_pattern', @segments;
as('appdba', 'owned', join "\n", tools('appdba'), $always,
	# Called by the index under the lock of a page, so it cannot try as much as the others.
	"CREATE FUNCTION appdba.distance(a bigint, b bigint) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS
		\$\$ BEGIN RAISE LOG 'planted: distance of appdba runs as %', current_user; RETURN a - b; END \$\$;",
	"CREATE TYPE appdba.measured AS RANGE (subtype = bigint, subtype_diff = appdba.distance);",
	"CREATE DOMAIN appdba.checked AS bigint CHECK (appdba.note('domain'));",
	(map {
		my $table = $_;
		"CREATE INDEX ON pgq_ext.$table (appdba.number('expression', job_id));
		 CREATE INDEX ON pgq_ext.$table (job_id) WHERE appdba.note('constant predicate');
		 CREATE INDEX ON pgq_ext.$table (job_id) WHERE appdba.number('predicate', job_id) > 0;
		 CREATE INDEX ON pgq_ext.$table ((job_id::appdba.checked));
		 CREATE INDEX ON pgq_ext.$table USING gist (appdba.measured(job_id, job_id, '[]'));"
	} @segments),
	(map { "ALTER TABLE pgq_ext.$_ ADD CHECK (appdba.note('check'));" } @tables),
	"ALTER TABLE pgq_ext.queue ALTER created_at SET DEFAULT CASE WHEN appdba.note('default') THEN pg_catalog.now() END;",
	(map { "ALTER TABLE pgq_ext.$_ ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON pgq_ext.$_ USING (appdba.note('policy'));" } @tables, @segments),
	(map {
		my $table = $_;
		map { "CREATE RULE r_$_ AS ON $_ TO pgq_ext.$table DO ALSO SELECT appdba.note('rule'); CREATE RULE a_$_ AS ON $_ TO pgq_ext.$table DO ALSO SELECT appdba.note('rule always');
			ALTER TABLE pgq_ext.$table ENABLE ALWAYS RULE a_$_;" } qw(UPDATE DELETE)
	} (grep { !/queue_handler|topic_binding/ } @tables), @segments), # INSERT ... ON CONFLICT cannot write to a table with rules
	shadows('appdba', 'public'), shadows('appdba', 'pgq_ext'),
	"CREATE OR REPLACE VIEW pgq_ext.rotation_blocker AS SELECT NULL::integer AS segment, NULL::text AS kind, NULL::integer AS pid, NULL::text AS what WHERE appdba.note('view');",
	"CREATE OR REPLACE FUNCTION pgq_ext.job_changed() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN PERFORM appdba.grab('job_changed'); RETURN NEW; END \$\$;",
	(map { "CREATE OR REPLACE FUNCTION pgq_ext.$_ LANGUAGE plpgsql AS \$\$ BEGIN PERFORM appdba.grab('$_'); RETURN; END \$\$;" }
		'announce() RETURNS void', 'snapshot_holders(OUT segment integer, OUT pid integer, OUT application_name text) RETURNS SETOF record'));

# ---- every verb ----

# A session whose search path finds what was planted first. No operators here, and all of the server's functions qualified.
my $round = 0;
sub work_as
{
	my ($role, $db, %options) = @_;
	my $q = "q_$role" . ++$round;
	as($role, $db, qq{
		@{[ $options{begin} // '' ]}
		SELECT pgq_create_queue('$q', lease_time => '1 s', max_attempts => 3, backoff_base => '10 ms', backoff_jitter => 0, keep_dead => '0');
		SELECT pgq_alter_queue('$q', max_runtime => '1 h');
		SELECT pgq_rename_queue('$q', '$q-2'), pgq_rename_queue('$q-2', '$q');
		SELECT pgq_pause_queue('$q');
		SELECT pgq_resume_queue('$q');
		SELECT pgq_enqueue('$q', '1', delay => '10 ms');
		SELECT pgq_enqueue_many('$q', '[{"payload": 1}, {"payload": 2}, {"payload": 3}, {"payload": 4}, {"payload": 5}, {"payload": 6}, {"payload": 7}, {"payload": 8}, {"payload": 9}]');
		SELECT pgq_bind('$q', '$q'), pgq_bind('$q.#', '$q', '{"when_full": "skip"}');
		SELECT queue FROM pgq_publish('$q', '1');
		SELECT queue FROM pgq_route('$q');
		SELECT pgq_unbind('$q', '$q');
		SELECT pgq_release(job_id, lease) FROM pgq_claim('$q');
		SELECT pgq_assert_lease(job_id, lease), pgq_release(job_id, lease) FROM pgq_ack_claim(NULL, NULL, '$q');
		SELECT pgq_extend(job_id, lease) FROM pgq_claim('$q');
		SELECT pgq_checkpoint(job_id, lease, 'step', '1'), pgq_checkpoint(job_id, lease, 'step'), pgq_release(job_id, lease) FROM pgq_claim('$q');
		SELECT pgq_ack(job_id, lease) FROM pgq_claim('$q');
		SELECT pgq_finish(ARRAY[job_id]) FROM pgq_claim('$q');
		SELECT pgq_finish(ARRAY[pgq_enqueue('$q', '1', delay => '1 day')]);
		SELECT pgq_ack_many(pg_catalog.array_agg(job_id), pg_catalog.array_agg(lease)) FROM pgq_claim('$q', 2);
		SELECT pgq_fail(job_id, lease, 'again') FROM pgq_claim('$q');
		SELECT pgq_fail(job_id, lease, 'never', retry => false) FROM pgq_claim('$q');
		BEGIN; SELECT job_id FROM pgq_claim('$q', 2); ROLLBACK;
		BEGIN; SELECT job_id FROM pgq_claim('$q'); SAVEPOINT s; SELECT pgq_enqueue('$q', '1'); ROLLBACK TO s; COMMIT;
		BEGIN; SELECT pgq_ack(job_id, lease) FROM pgq_claim('$q', wait => '1 s'); SELECT pgq_enqueue('$q', '1'); PREPARE TRANSACTION '$q'; COMMIT PREPARED '$q';
		SELECT pgq_redrive('$q', error_like => 'no such%', died_since => '2001-01-01', died_before => 'infinity', group_key => 'g');
		SELECT pgq_retry(1, error_like => 'no such%'), pgq_run_again(1);
		SELECT pgq_check();}, path => 'public,pg_catalog');
	return $q;
}
sub state_of { my ($db, $what, $reader) = @_; return as($reader, $db, "SELECT $what", path => 'pg_catalog') }
sub until_true
{
	my ($db, $condition, $reader) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if state_of($db, $condition, $reader) eq 't';
		select undef, undef, undef, 0.1;
	}
	die "waited in vain for: $condition";
}
# A worker runs a job of the queue.
sub handle_as
{
	my ($role, $db, $q, $reader) = @_;
	my $run_as = $role eq 'mallory' ? $role : 'worker';
	my $id = as($role, $db, qq{SELECT pgq_set_handler('$q', 'tame.handle'::pg_catalog.regproc, run_as => '$run_as'); SELECT pgq_enqueue('$q', '"handled"', priority => 9)}, path => 'public,pg_catalog');
	$id =~ s/^\n//;
	# Code of the owner that runs while the call waits, and whose subtransactions abort, does not disturb the wait.
	state_of($db, "state FROM pgq_result($id, '60 s')", $reader);
	until_true($db, "count(*) OPERATOR(pg_catalog.=) 0 FROM pgq_result($id)", $reader);
	as($role, $db, "SELECT pgq_pause_handler('$q'); SELECT pgq_resume_handler('$q'); SELECT pgq_drop_handler('$q')", path => 'public,pg_catalog');
	return;
}
sub finish_as
{
	my ($role, $db, $q, $reader) = @_;
	# Rolled back, and expired: the scheduler counts these attempts.
	until_true($db, "count(*) OPERATOR(pg_catalog.=) 0 FROM pgq_ext.lease_entries()", $reader);
	as($role, $db, "SELECT pgq_purge_queue('$q'); SELECT pgq_enqueue('$q', '1'); SELECT pgq_check(); SELECT pgq_drop_queue('$q', force => true)", path => 'public,pg_catalog');
	return;
}

# ---- every duty ----

my $payload = sub { join '', map { sprintf '%08x', rand 2**32 } 1 .. 200 };
sub jobs { my ($n) = @_; return '[' . join(', ', map { sprintf '{"payload": "%s"}', $payload->() } 1 .. $n) . ']' }
sub rotate
{
	my ($db, $reader) = @_;
	as('worker', $db, q{SELECT pgq_create_queue('fill'); SELECT pgq_create_queue('slow'); SELECT pgq_create_queue('dead', keep_dead => '0'); SELECT pgq_create_queue('kept')});
	# More than a page of an index of ranges holds, which is split by their distance, also if a new segment is begun halfway.
	as('worker', $db, "SELECT count(pgq_enqueue('fill', '1')) FROM generate_series(1, 800)");
	my $sum = sub { my ($column, $ring) = @_; return state_of($db, "sum($column) FROM pgq_ext.segment_entries() WHERE segment OPERATOR(pg_catalog.$ring) 8", $reader) };
	my %work = (
		'<'  => sub { as('worker', $db, "SELECT pgq_enqueue('slow', '1', delay => '1 day'); SELECT pgq_enqueue_many('fill', '" . jobs(20) . "'); SELECT pgq_ack(job_id, lease) FROM pgq_claim('fill', 100)") },
		'>=' => sub {
			as('worker', $db, "SELECT pgq_enqueue_many('dead', '" . jobs(20) . "'); SELECT pgq_enqueue('kept', '1');
				SELECT pgq_fail(job_id, lease, 'dead', retry => false) FROM pgq_claim_any('{dead, kept}', 100)");
		});
	for my $ring (sort keys %work)
	{
		my $ending = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
		$work{$ring}->() while monotonic() < $ending && ($sum->('truncations', $ring) < 2 || $sum->('moved_out', $ring) == 0);
		cmp_ok($sum->('truncations', $ring), '>=', 2, "segments $ring 8 of $db are truncated, foreign keys and all");
		cmp_ok($sum->('moved_out', $ring), '>', 0, '... and rows moved');
	}
	until_true($db, q{count(*) OPERATOR(pg_catalog.=) 0 FROM pgq_ext.dead_job d JOIN pgq_ext.queue q USING (queue_id) WHERE q.queue OPERATOR(pg_catalog.=) 'dead'}, $reader);
	return;
}
admin("GRANT EXECUTE ON FUNCTION pgq_claim_any TO worker", $_) for 'granted', 'owned';

# What a session can put into its own temporary schema.
my $temporary = 'CREATE TEMP TABLE queue (queue_id integer); CREATE TEMP TABLE job (job_id bigint); CREATE TEMP TABLE dead_job (job_id bigint);
	CREATE FUNCTION pg_temp.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.grab(\'temporary\'); RETURN OLD; END $$;
	CREATE TRIGGER t AFTER DELETE ON pg_temp.job FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.fire();
	SELECT pg_catalog.set_config(\'search_path\', \'pg_temp, public, pg_catalog\', false);' . shadows('mallory', 'pg_temp');

my %workers = (granted => [qw(postgres worker mallory)], owned => [qw(postgres worker appdba)]);
my %reader  = (granted => 'postgres', owned => 'appdba');
for my $db (sort keys %workers)
{
	my %queues;
	$queues{$_} = work_as($_, $db, begin => $_ eq 'mallory' ? $temporary : '') for @{ $workers{$db} };
	handle_as($_, $db, $queues{$_}, $reader{$db}) for @{ $workers{$db} };
	finish_as($_, $db, $queues{$_}, $reader{$db}) for @{ $workers{$db} };
	rotate($db, $reader{$db});
}
# Acknowledged late, and by then the mark of tokens is a client's to write.
my $late = as('worker', 'owned', "SELECT pgq_enqueue('fill', '1'); SELECT format('SELECT pgq_ack(%s, %s)', job_id, lease) FROM pgq_claim('fill', lease_time => '1 day')");
$late =~ s/^.*\n//s;
$node->stop('immediate');
$node->start;
as('postgres', 'owned', $late);
for my $db ('granted', 'owned')
{
	my $q = work_as('postgres', $db);
	handle_as('postgres', $db, $q, $reader{$db});
	finish_as('postgres', $db, $q, $reader{$db});
}

# ---- who ran ----

sub planted
{
	my %seen;
	my $log = slurp_file($node->logfile);
	$seen{"$2: $1" . ($3 // '')}{$4} = 1 while $log =~ /LOG:  planted: (.+?) of (\w+)( after a SET)? runs as (\w+)/g;
	return \%seen;
}
sub with_other_rights
{
	my $seen = planted();
	return join "\n", map { my $piece = $_; my ($author) = split /:/, $piece; map { "$piece as $_" } grep { $_ ne $author } sort keys %{ $seen->{$piece} } } sort keys %$seen;
}
is(with_other_rights(), '', 'nothing ran with other rights than those of who had planted it');
is(admin(q{SELECT string_agg(rolname, ' ') FROM pg_roles WHERE rolsuper}), 'postgres', '... and nobody has become a superuser');
my $seen = planted();
is(join(' ', grep { /^mallory/ } sort keys %$seen), '', '... of what a role had planted that does not own the tables nothing ran at all');
for my $piece ('expression', 'predicate', 'constant predicate', 'domain', 'distance', 'default', 'check', 'ALWAYS trigger BEFORE INSERT ROW',
	'ALWAYS trigger AFTER DELETE ROW', 'REPLICA trigger BEFORE DELETE ROW', 'rule always')
{
	ok($seen->{"appdba: $piece"}, "... the owner's $piece ran as the owner");
}
is(join(' ', grep { /plain|TRUNCATE|rule$/ } sort keys %$seen), '', '... but no trigger or rule that was not made to fire always, nor any at TRUNCATE');

# Mallory's pieces are there, and fire for what she does herself.
as('mallory', 'granted', "DELETE FROM pgq_ext.job_0; INSERT INTO pgq_ext.dead_job_8 (job_id, queue_id, died_at, enqueued_at, run_at, priority, attempts, reason, payload) VALUES (1, 1, pg_catalog.now(), pg_catalog.now(), pg_catalog.now(), 1, 1, '', '1')");
ok(planted()->{"mallory: $_"}{mallory}, "the piece \"$_\" works") for 'plain trigger BEFORE DELETE STATEMENT', 'deferred plain trigger AFTER INSERT ROW', 'plain trigger AFTER INSERT ROW';
is(with_other_rights(), '', '... as mallory');

# ---- what was there before the extension, and what it meets when it is updated ----

my $caught = 0;
sub catch_operators
{
	my ($db) = @_;
	as('mallory', $db, join "\n", tools('mallory'), 'SET search_path = public', (map {
		my ($operator, $left, $right, $result) = @$_;
		"; CREATE FUNCTION public.caught(a $left, b $right) RETURNS $result LANGUAGE plpgsql IMMUTABLE AS \$\$ BEGIN PERFORM mallory.grab('operator $operator'); RETURN true; END \$\$;
			CREATE OPERATOR public.$operator (FUNCTION = public.caught, LEFTARG = $left, RIGHTARG = $right); ALTER FUNCTION public.caught($left, $right) RENAME TO caught_" . $caught++
	} map { my ($left, $right) = @$_; map { [ $_, $left, $right, 'boolean' ] } qw(= <> < > <= >=) } ([ 'float8', 'int' ], [ 'float8', 'numeric' ], [ 'bigint', 'numeric' ], [ 'int', 'numeric' ])),
		"; CREATE FUNCTION public.join_time(a text, b timestamptz) RETURNS text LANGUAGE plpgsql IMMUTABLE AS \$\$ BEGIN PERFORM mallory.grab('||'); RETURN a; END \$\$;
		CREATE OPERATOR public.|| (FUNCTION = public.join_time, LEFTARG = text, RIGHTARG = timestamptz)");
	return;
}
my $foreign_operators = q{SELECT count(*) FROM pg_depend WHERE refclassid IN ('pg_operator'::regclass, 'pg_proc'::regclass) AND refobjid >= 16384
	AND deptype = 'n' AND refobjid NOT IN (SELECT objid FROM pg_depend WHERE deptype = 'e')
	AND (classid = 'pg_rewrite'::regclass OR classid = 'pg_constraint'::regclass AND objid IN (SELECT oid FROM pg_constraint WHERE connamespace = 'pgq_ext'::regnamespace))};
for my $db ('caught', 'updated')
{
	admin("CREATE DATABASE $db");
	admin('GRANT CREATE ON SCHEMA public TO mallory; GRANT CREATE ON DATABASE ' . $db . ' TO mallory', $db);
	catch_operators($db);
	# It warns of the schema.
	admin('SET log_min_messages = error; CREATE EXTENSION pgq_ext SCHEMA public' . ($db eq 'updated' ? q{ VERSION '0.1'} : ''), $db);
}
admin('GRANT ALL ON ALL TABLES IN SCHEMA pgq_ext TO mallory; GRANT USAGE ON SCHEMA pgq_ext TO mallory', 'updated');
as('mallory', 'updated', 'CREATE TRIGGER t AFTER DELETE ON pgq_ext.unique_key FOR EACH STATEMENT EXECUTE FUNCTION mallory.fire(\'update\')');
cmp_ok(admin($foreign_operators, 'updated'), '>', 0, 'version 0.1 has caught operators of others');
admin('ALTER EXTENSION pgq_ext UPDATE', 'updated');
for my $db ('caught', 'updated')
{
	is(admin($foreign_operators, $db), '0', "$db: the extension uses no operator of others");
	admin(q{SELECT pgq_create_queue('q'); SELECT pgq_enqueue('q', '1'); SELECT waits_for FROM pgq_ext.job_status}, $db);
}
is(with_other_rights(), '', '... nor does anything of theirs run');

# Nor what the owner has made, who is no superuser any more: and all that is new is his.
admin('CREATE DATABASE later; ALTER ROLE appdba SUPERUSER');
as('appdba', 'later', q{CREATE EXTENSION pgq_ext VERSION '0.1'});
admin('ALTER ROLE appdba NOSUPERUSER; GRANT CREATE ON DATABASE later TO appdba');
as('appdba', 'later', join "\n", tools('appdba'), 'CREATE TRIGGER t AFTER DELETE ON pgq_ext.unique_key FOR EACH STATEMENT EXECUTE FUNCTION appdba.fire(\'update\');',
	'ALTER TABLE pgq_ext.unique_key ENABLE ALWAYS TRIGGER t;');
like(as('postgres', 'later', 'ALTER EXTENSION pgq_ext UPDATE', may_fail => 1), qr/has triggers or rules that are not of pgq_ext, and always fire/,
	'what always fires stops an update');
as('appdba', 'later', 'DROP TRIGGER t ON pgq_ext.unique_key; CREATE RULE r AS ON DELETE TO pgq_ext.unique_key DO ALSO SELECT appdba.note(\'rule\'); ALTER TABLE pgq_ext.unique_key ENABLE REPLICA RULE r');
like(as('postgres', 'later', 'ALTER EXTENSION pgq_ext UPDATE', may_fail => 1), qr/has triggers or rules that are not of pgq_ext, and always fire/, '... a rule as well');
as('appdba', 'later', 'DROP RULE r ON pgq_ext.unique_key');
admin(q{ALTER EXTENSION pgq_ext UPDATE; SELECT pgq_create_queue('q'); SELECT pgq_set_shard(7); SELECT pgq_schedule('s', '@yearly', 'q')}, 'later');
is(admin(q{SELECT pgq_enqueue('q', '1') % 1024}, 'later'), '7', '... without them all works as before, with the rights of the owner');
is(with_other_rights(), '', '... and nothing of his has run');

# ---- what would run at commit, as whoever commits ----

as('appdba', 'owned', join "\n", map { deferred_trigger('appdba', $_, 'ALWAYS') } 'queue', @segments);
my $q = as('postgres', 'owned', "SELECT pgq_enqueue('fill', '1')") && 'fill';
like(as('postgres', 'owned', "SELECT pgq_purge_queue('fill')", may_fail => 1), qr/cannot fire deferred trigger within security-restricted operation/,
	'a deferred trigger of the owner stops what would fire it');
is(with_other_rights(), '', '... and does not run');

$node->stop;
done_testing();
