# The argument batch of pgq_enqueue: what an update from 0.1 makes of calls that are there already, who may add after the close, and
# tables that were altered.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;

my $node = pgq_node('main', conf => "wal_level = logical\nmax_prepared_transactions = 2\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
sub state_of { my ($sql, $db) = @_; return (sqlstate($node, $sql, $db // 'postgres'))[0] // '' }

create_queue($node, 'q');
sub notes { my ($batch) = @_; return sql("SELECT coalesce(sum(n), 0) FROM pgq_ext.batch_note WHERE batch_id = $batch AND what = 1") }
sub add   { my ($batch) = @_; return qq{SELECT pgq_enqueue('q', '"added"', batch => $batch) IS NOT NULL} }

# A closed batch with a member, which is claimed.
sub closed_batch
{
	my $batch = sql('SELECT pgq_create_batch()');
	sql("SELECT pgq_enqueue('q', '\"first\"', priority => 1, batch => $batch)");
	sql("SELECT pgq_close_batch($batch)");
	return ($batch, split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')}));
}

# ---- the newest state counts, and a member in hand, in every isolation level ----

for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $batch = sql('SELECT pgq_create_batch()');
	my $session = session($node);
	ask($session, "BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM pgq_ext.job_batch");
	is((ask($session, add($batch)))[0], 't', "$level: added");
	sql("SELECT pgq_close_batch($batch)");
	like((ask($session, add($batch)))[1], qr/batch $batch is closed/, '... refused after a close that its snapshot does not see');
	ask($session, 'ROLLBACK');
	ask($session, "BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM pgq_ext.job_batch");
	my $later = sql('SELECT pgq_create_batch()');
	is((ask($session, add($later)))[0], 't', '... and added to a batch that its snapshot does not see');
	is((ask($session, 'COMMIT'))[1], '', '... which is committed');

	($batch, my ($job, $lease)) = closed_batch();
	ask($session, "BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM pgq_ext.job_batch");
	like((ask($session, add($batch)))[1], qr/batch $batch is closed/, '... the claim of another transaction is not in hand');
	ask($session, "ROLLBACK; BEGIN ISOLATION LEVEL $level; SELECT pgq_assert_lease($job, $lease)");
	is((ask($session, add($batch)))[0], 't', '... an assertion is');
	sql("UPDATE pgq_ext.job_batch SET finished_at = now() WHERE batch_id = $batch");
	like((ask($session, add($batch)))[1], qr/batch $batch is finished/, '... but no transaction can add to a finished batch');
	ask($session, 'ROLLBACK');
	end_session($session);
}

# The row is locked, so that pgq_assert_lease cannot read it as it is.
{
	my ($batch, $job, $lease) = closed_batch();
	my $locking = session($node);
	ask($locking, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $job FOR KEY SHARE");
	is(sql("BEGIN; SELECT pgq_assert_lease($job, $lease); ${\add($batch)}; COMMIT"), "\nt", 'an assertion of a job whose row is locked');
	end_session($locking);
	is(notes($batch), '2', '... and its note');
}

# ---- a prepared transaction ----

{
	my ($batch, $job, $lease) = closed_batch();
	my $session = session($node);
	ask($session, "BEGIN; SELECT pgq_assert_lease($job, $lease)");
	is((ask($session, add($batch)))[0], 't', 'added with a member in hand');
	ask($session, q{PREPARE TRANSACTION 'adding'});
	like((ask($session, add($batch)))[1], qr/is closed/, '... prepared: nothing is in hand any more');
	end_session($session);
	is(notes($batch), '1', '... and no other session sees what was added');
	$node->stop('immediate');
	$node->start;
	sql(q{COMMIT PREPARED 'adding'});
	is(notes($batch), '2', '... until it is committed, after a crash');
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE batch_id = $batch"), '2', '... with its job');
}

# ---- a handler, by a role that is no member of the role that has created the batch ----

sql(q{CREATE ROLE runner LOGIN; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack, pgq_enqueue, pgq_assert_lease TO runner;
	CREATE FUNCTION handle(job pgq_ext.claimed_job) RETURNS jsonb LANGUAGE plpgsql AS $$
	DECLARE refused text;
	BEGIN
		BEGIN
			PERFORM pgq_enqueue('handled', '0', batch => (job.headers -> 'batch')::bigint);
		EXCEPTION WHEN undefined_object THEN
			refused := SQLSTATE;
		END;
		PERFORM pgq_assert_lease(job.job_id, job.lease);
		IF job.payload <> '0' THEN
			PERFORM pgq_enqueue('handled', '0', headers => job.headers, batch => (job.headers -> 'batch')::bigint);
		END IF;
		RETURN to_jsonb(refused);
	END $$;
	SELECT pgq_create_queue('handled', keep_finished => '1 day')});
{
	my $batch = sql('SELECT pgq_create_batch()');
	sql(qq{SELECT pgq_enqueue('handled', '1', headers => '{"batch": $batch}', batch => $batch); SELECT pgq_close_batch($batch);
		SELECT pgq_set_handler('handled', 'handle'::regproc, run_as => 'runner')});
	wait_for($node, qq{count(*) = 2 FROM pgq_ext.finished_job WHERE batch_id = $batch});
	is(sql("SELECT string_agg(result::text, ' ') FROM pgq_ext.finished_job WHERE batch_id = $batch"), '"42704" "42704"', 'a call of a handler adds to the batch of its job, once it has asserted the lease');
	is(notes($batch), '2', '... with a note');
	sql(q{SELECT pgq_drop_queue('handled')});
}

# ---- the note of a session, to which it adds its members ----

{
	my $batch = sql('SELECT pgq_create_batch()');
	my $session = session($node);
	my $rows = sub { return sql("SELECT count(*) FROM pgq_ext.batch_note WHERE batch_id = $batch") };
	my $agree = sub { is(notes($batch), sql("SELECT count(*) FROM pgq_ext.job WHERE batch_id = $batch"), $_[0]) };
	my $add = sub { is((ask($session, add($batch)))[0], 't', $_[0]) };
	sub many { return qq{DO \$\$ BEGIN FOR i IN 1 .. 1000 LOOP PERFORM pgq_enqueue('q', '0', batch => $_[0]); COMMIT; END LOOP; END \$\$} }

	ask($session, many($batch));
	$agree->('a thousand transactions of a session');
	cmp_ok($rows->(), '<', 100, '... have few notes');
	my $reader = session($node);
	ask($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	ask($session, many($batch));
	$agree->('... a thousand under an old snapshot');
	is((ask($reader, "SELECT sum(n) FROM pgq_ext.batch_note WHERE batch_id = $batch"))[0], '1000', '... which sees the members that it saw');
	end_session($reader);

	ask($session, 'BEGIN');
	$add->('undone: added');
	ask($session, 'ROLLBACK');
	$agree->('... the note, too');
	ask($session, 'BEGIN');
	$add->('before a savepoint');
	ask($session, 'SAVEPOINT s');
	$add->('after it') for 1 .. 2;
	ask($session, 'ROLLBACK TO s');
	$add->('after a rollback to it');
	ask($session, 'COMMIT');
	$agree->('... the notes agree');
	ask($session, qq{SELECT count(pgq_enqueue('q', '0', batch => $batch)) FROM generate_series(1, 5)});
	$agree->('many calls in one statement');

	for my $end ('ROLLBACK', 'COMMIT')
	{
		ask($session, 'BEGIN');
		$add->('prepared');
		ask($session, q{PREPARE TRANSACTION 'noted'});
		$add->('... the session adds more, and does not wait');
		sql("$end PREPARED 'noted'");
		$add->("... and after $end");
		$agree->('... the notes agree');
	}
	my $user = session($node);
	ask($user, "BEGIN; SELECT count(*) FROM (SELECT FROM pgq_ext.batch_note WHERE batch_id = $batch FOR UPDATE) n");
	$add->('a user has locked the notes: no wait');
	ask($user, 'COMMIT; BEGIN');
	ask($user, "UPDATE pgq_ext.batch_note SET n = n WHERE batch_id = $batch");
	$add->('a user is changing the notes: no wait');
	ask($user, 'COMMIT');
	$add->('... has changed them');
	$agree->('... the notes agree');
	end_session($user);
	$node->safe_psql('postgres', 'VACUUM FULL pgq_ext.batch_note');
	$add->('the notes are in another file');
	$agree->('... and agree');
	sql("DELETE FROM pgq_ext.batch_note WHERE batch_id = $batch");
	$add->('the notes were deleted');
	is(notes($batch), '1', '... one is written');
	sql('CREATE PUBLICATION of_notes FOR TABLE pgq_ext.batch_note');
	$add->('published: added') for 1 .. 3;
	is($rows->(), '4', '... each call inserts a note');
	sql('DROP PUBLICATION of_notes');
	end_session($session);
	sql('DELETE FROM pgq_ext.job');
}

# ---- the row of a batch that the session knows ----

{
	my ($batch, $other) = map { sql('SELECT pgq_create_batch()') } 1 .. 2;
	my $session = session($node);
	for my $change ('VACUUM FULL pgq_ext.job_batch', 'SELECT pgq_close_batch($batch)')
	{
		is((ask($session, add($_)))[0], 't', 'known') for $batch, $other, $batch;
		$node->safe_psql('postgres', $change =~ s/\$batch/$batch/r);
	}
	like((ask($session, add($batch)))[1], qr/batch $batch is closed/, 'a session that knows a batch notices its close');
	is((ask($session, add($other)))[0], 't', '... and adds to the other batch');
	my ($job, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')});
	ask($session, "BEGIN; SELECT pgq_assert_lease($job, $lease)");
	is((ask($session, add($batch)))[0], 't', '... a member in hand opens it');
	ask($session, 'ROLLBACK');
	sql(q{CREATE ROLE stranger; GRANT EXECUTE ON FUNCTION pgq_enqueue TO stranger});
	ask($session, 'SET ROLE stranger');
	like((ask($session, add($other)))[1], qr/batch $other does not exist/, 'another role in a session that knows a batch');
	end_session($session);
	sql('DELETE FROM pgq_ext.job');
}

# ---- tables that were altered ----

{
	my $batch = sql('SELECT pgq_create_batch()');
	sql(q{CREATE FUNCTION twice(bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
		CREATE INDEX by_twice ON pgq_ext.batch_note (twice(batch_id)); CREATE INDEX by_n ON pgq_ext.batch_note (n) WHERE what = 1});
	sql('CREATE PUBLICATION all_tables FOR ALL TABLES');
	is(sql(add($batch)), 't', 'added with further indexes and a publication');
	is(sql("SET enable_seqscan = off; SELECT count(*) FROM pgq_ext.batch_note WHERE twice(batch_id) = 2 * $batch"), '1', '... the note is in an index that was added');
	is(sql("SET enable_seqscan = off; SELECT n FROM pgq_ext.batch_note WHERE batch_id = $batch"), '1', '... and in that of the extension');
	sql('DROP PUBLICATION all_tables; DROP INDEX pgq_ext.by_twice, pgq_ext.by_n');
	my $session = session($node);
	is((ask($session, add($batch)))[0], 't', 'a session has looked at the tables');
	$node->safe_psql('postgres', "REINDEX TABLE CONCURRENTLY pgq_ext.$_") for qw(job_batch batch_note);
	is((ask($session, add($batch)))[0], 't', '... and finds indexes that were made anew');
	ask($session, 'BEGIN');
	for my $change ('DROP INDEX pgq_ext.batch_note_by_batch', 'ALTER TABLE pgq_ext.job_batch DROP CONSTRAINT job_batch_pkey', 'ALTER TABLE pgq_ext.job_batch ALTER restored DROP DEFAULT, ALTER restored TYPE text',
		'ALTER TABLE pgq_ext.batch_note ADD more int', 'ALTER TABLE pgq_ext.job_batch RENAME closed_at TO was_closed_at')
	{
		is((ask($session, "SAVEPOINT s; $change"))[1], '', $change);
		like((ask($session, add($batch)))[1], qr/are missing|differs from what the pgq_ext library expects/, '... is noticed');
		ask($session, 'ROLLBACK TO s');
	}
	is((ask($session, add($batch)))[0], 't', '... and undone');
	ask($session, 'COMMIT');
	end_session($session);
}

# A session remembers the place of the row, which is another batch's later, or is gone.
sql('CREATE DATABASE places');
sql('CREATE EXTENSION pgq_ext; ALTER TABLE pgq_ext.job_batch SET (autovacuum_enabled = off)', 'places');
create_queue($node, 'q', '', 'places');
{
	my $session = session($node, 'places');
	my $place = sub { return sql("SELECT ctid FROM pgq_ext.job_batch WHERE batch_id = $_[0]", 'places') };
	my $batch = sql('SELECT pgq_create_batch()', 'places');
	is((ask($session, add($batch)))[0], 't', 'a session knows the place of a batch');
	sql("UPDATE pgq_ext.job_batch SET metadata = '1' WHERE batch_id = $batch", 'places');
	is((ask($session, add($batch)))[0], 't', '... which has moved');
	my $was = $place->($batch);
	# The trigger that keeps a batch with members does not fire.
	sql("SET session_replication_role = replica; DELETE FROM pgq_ext.job_batch", 'places');
	like((ask($session, add($batch)))[1], qr/batch $batch does not exist/, '... is deleted');
	# A snapshot of the scheduler may keep VACUUM from removing the row.
	my $size;
	for (1 .. 600)
	{
		$node->safe_psql('places', 'VACUUM pgq_ext.job_batch');
		$size = sql('SELECT pg_relation_size($$pgq_ext.job_batch$$)', 'places');
		last if $size == 0;
		usleep(100_000);
	}
	is($size, 0, '... and its page is gone');
	like((ask($session, add($batch)))[1], qr/batch $batch does not exist/, '... which the session notices');
	my $other;
	for (1 .. 10)
	{
		$other = sql('SELECT pgq_create_batch()', 'places');
		last if $place->($other) eq $was;
	}
	is($place->($other), $was, 'another batch gets the place');
	like((ask($session, add($batch)))[1], qr/batch $batch does not exist/, '... and is not taken for the first one');
	is((ask($session, add($other)))[0], 't', '... but found');
	end_session($session);
}
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'pgq_check finds nothing');

# ---- an update from 0.1, in whose functions pgq_enqueue has fewer arguments ----

sql('CREATE DATABASE updated');
sql(q{CREATE ROLE producer; CREATE EXTENSION pgq_ext VERSION '0.1'; CREATE SCHEMA app}, 'updated');
create_queue($node, 'q', '', 'updated');
sql(q{GRANT EXECUTE ON FUNCTION pgq_enqueue TO producer;
	CREATE TABLE app.job_of (id int, job_id bigint DEFAULT pgq_enqueue('q', '"by a default"'));
	CREATE VIEW app.enqueued AS SELECT pgq_enqueue('q', '"by a view"', priority => 3) AS job_id;
	CREATE FUNCTION app.by_atomic() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT pgq_enqueue('q', '"by a standard function"'); END;
	CREATE FUNCTION app.by_sql() RETURNS bigint LANGUAGE sql AS $$SELECT pgq_enqueue('q', '"by a function"', expires_in => '1 day')$$;
	CREATE FUNCTION app.by_plpgsql() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN pgq_enqueue('q', '"by PL/pgSQL"', delay => '0'); END$$}, 'updated');
my $what = q{SELECT oid, proacl, (SELECT count(*) FROM pg_depend WHERE refobjid = p.oid) FROM pg_proc p WHERE proname = 'pgq_enqueue'};
my $was = sql($what, 'updated');
my %call = (
	'a table' => 'INSERT INTO app.job_of VALUES (1)',
	'a view' => 'SELECT FROM app.enqueued',
	map({ ("app.$_" => "SELECT FROM app.$_()") } qw(by_atomic by_sql by_plpgsql)),
	'a prepared statement' => 'EXECUTE prepared', 'a generic plan' => 'EXECUTE generic');
my $session = session($node, 'updated');
ask($session, q{PREPARE prepared AS SELECT pgq_enqueue('q', '"prepared"'); PREPARE generic(jsonb) AS SELECT pgq_enqueue('q', $1); SET plan_cache_mode = force_generic_plan});
$call{'a generic plan'} = q{EXECUTE generic('"generic"')};
sub call_all
{
	my ($when) = @_;
	is((ask($session, $call{$_}))[1], '', "$_ enqueues $when") for sort keys %call;
}
call_all('before the update');
# The cursor has planned its call with the old arguments, and makes it after the update.
ask($session, q{BEGIN; DECLARE cursor CURSOR FOR SELECT pgq_enqueue('q', '"by a cursor"') FROM generate_series(1, 2); FETCH cursor});
my $updating = session($node, 'updated');
is((ask($updating, 'BEGIN; ALTER EXTENSION pgq_ext UPDATE'))[1], '', 'the update');
is(sql(q{SELECT pgq_enqueue('q', '"meanwhile"') IS NOT NULL}, 'updated'), 't', '... while it is open, other sessions enqueue');
is((ask($updating, q{SELECT pgq_enqueue('q', '"own"', batch => NULL) IS NOT NULL}))[0], 't', '... its own has the argument');
is((ask($updating, 'COMMIT'))[1], '', '... is committed');
end_session($updating);
is((ask($session, 'FETCH cursor; COMMIT'))[1], '', '... what was planned before goes on');
call_all('after it');
is(sql($what, 'updated'), $was, 'the function is the same, with its grants and what depends on it');
is(sql('SET ROLE producer; SELECT pgq_enqueue(\'q\', \'"producer"\') IS NOT NULL', 'updated'), 't', '... and enqueues for the role to which it was granted');
is(sql(q{SELECT count(*) FROM pg_proc WHERE proname ~ 'enqueue_with|^pgq_enqueue$'}, 'updated'), '1', 'there is one function only');
my $arguments = q{SELECT pg_get_function_arguments(oid), pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'pgq_enqueue'};
is(sql($arguments, 'updated'), sql($arguments), '... with the arguments that a new one has');
is(state_of(q{SELECT pgq_enqueue('q', '1', batch => 1)}, 'updated'), '55000', 'a batch needs the columns');
is((ask($session, q{SELECT pgq_ext.add_batch_columns()}))[1], '', '... which are added');
is(sql("SELECT pgq_create_batch() AS batch\n\\gset\nSELECT pgq_enqueue('q', '1', batch => :batch) IS NOT NULL", 'updated'), 't', '... and jobs of a batch enqueued');
call_all('after that');
end_session($session);
sql('DROP VIEW app.enqueued; CREATE VIEW app.enqueued AS SELECT pgq_enqueue(\'q\', \'1\') AS job_id', 'updated');
is(sql('SELECT count(*) FROM pgq_check()', 'updated'), '0', 'pgq_check finds nothing');

# A function that is not the extension's any more is not changed behind its owner's back.
sql(q{DROP EXTENSION pgq_ext CASCADE; CREATE EXTENSION pgq_ext VERSION '0.1'; ALTER EXTENSION pgq_ext DROP FUNCTION pgq_enqueue}, 'updated');
my ($state, $message) = sqlstate($node, 'ALTER EXTENSION pgq_ext UPDATE', 'updated');
is($state, '55000', 'an update without the function is refused');

$node->stop;
done_testing();
