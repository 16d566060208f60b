# The rights and settings of a scheduler do not depend on settings that the owner of the database has made, and the
# log says what the scheduler is not allowed to do.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = rotating_node('main', conf => 'max_prepared_transactions = 2');
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub held_by { my ($n) = @_; return sql("SELECT held_by FROM pgq_ext.segment WHERE segment = $n") }

# Another scheduler, which has not failed yet.
sub renew_scheduler
{
	my $before = wait_for_scheduler($node);
	sql("SELECT pg_terminate_backend($before, 60000)");
	return wait_for_scheduler($node, 'postgres', $before);
}

# ---- settings of the database ----

{
	my %settings = (
		role => 'nobody', session_authorization => 'nobody', search_path => 'evil', row_security => 'off',
		statement_timeout => 1, lock_timeout => 1, idle_in_transaction_session_timeout => 1, idle_session_timeout => 1,
		session_replication_role => 'local', default_transaction_isolation => 'serializable', default_transaction_read_only => 'on',
		default_transaction_deferrable => 'on', enable_indexscan => 'off', enable_seqscan => 'off', parallel_setting($node) => 'on',
		transform_null_equals => 'on', plan_cache_mode => 'force_generic_plan', backtrace_functions => 'heap_insert',
		check_function_bodies => 'off', extra_float_digits => '-15', work_mem => '64kB', temp_buffers => '100', bytea_output => 'escape');
	sql('CREATE ROLE nobody; CREATE SCHEMA evil');
	my %own = map { $_ => sql("SELECT coalesce(nullif(setting, ''), 'postgres') FROM pg_settings WHERE name = '$_'") } keys %settings;
	@own{qw(role session_authorization search_path backtrace_functions)} = qw(none postgres public none);
	# From another database: new sessions in this one would be of use to nobody.
	$node->safe_psql('template1', "ALTER DATABASE postgres SET $_ = '$settings{$_}'") for sort keys %settings;
	local $ENV{PGOPTIONS} = join ' ', map { '-c ' . "$_=$own{$_}" =~ s/ /\\ /gr } grep { !/backtrace/ } sort keys %own;
	is(sql('SHOW role') . sql('SELECT session_user'), 'nonepostgres', 'our own sessions are as ever');
	renew_scheduler();
	is(sql(q{SELECT usename FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler'}), 'postgres', 'a scheduler is nobody else because of ALTER DATABASE SET');
	my $n = fresh_segment($node);
	my $before = truncations($node, $n);
	close_segment($node, $n);
	wait_until_truncated($node, $n, $before);
	pass('... and truncates segments');
	create_queue($node, 'lost', "lease_time => '1 s'");
	sql(q{SELECT pgq_enqueue('lost', '1')});
	sql(q{BEGIN; SELECT * FROM pgq_claim('lost'); ROLLBACK});
	wait_for($node, q{attempts = 1 FROM pgq_ext.job_status WHERE queue = 'lost'});
	pass('... and counts lost attempts');
	$node->safe_psql('template1', 'ALTER DATABASE postgres RESET ALL');
	sql(q{SELECT pgq_drop_queue('lost', force => true)});
}
renew_scheduler();

# ---- what holds a segment back is told ----

# Code of the owner that raises, if it is told to, in an index whose segment is to be truncated: with new files, as it is no btree.
{
	sql(q{CREATE TABLE flag (); CREATE FUNCTION fails() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
		$$ BEGIN IF EXISTS (SELECT FROM pg_stat_activity WHERE pid = pg_backend_pid() AND backend_type = 'pgq_ext scheduler') AND EXISTS (SELECT FROM public.flag) THEN RAISE 'no truncation today'; END IF; RETURN true; END $$});
	my $n = fresh_segment($node);
	my $before = truncations($node, $n);
	sql("CREATE INDEX planted ON pgq_ext.job_$n USING brin (job_id) WHERE fails()");
	my $holder = session($node);
	ask($holder, "BEGIN; LOCK TABLE pgq_ext.job_$n IN ACCESS SHARE MODE");
	close_segment($node, $n);
	sql('INSERT INTO flag DEFAULT VALUES');
	# A transaction that has begun before does not see the flag.
	my $flagged = sql('SELECT clock_timestamp()');
	wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND xact_start < '$flagged'");
	ask($holder, 'COMMIT');
	end_session($holder);
	ok($node->poll_query_until('postgres', "SELECT held_by ~ 'error: no truncation today' FROM pgq_ext.segment WHERE segment = $n"), 'an error that repeats is told by held_by')
	  or diag held_by($n);
	sql('TRUNCATE flag');
	renew_scheduler();
	wait_until_truncated($node, $n, $before);
	is(held_by($n), '', '... until it is over');
	sql('DROP INDEX pgq_ext.planted');
}
{
	my $n = fresh_segment($node);
	my $before = truncations($node, $n);
	sql("BEGIN; LOCK TABLE pgq_ext.job_$n IN ACCESS SHARE MODE; PREPARE TRANSACTION 'forgotten'");
	close_segment($node, $n);
	ok($node->poll_query_until('postgres', qq{SELECT held_by ~ 'prepared transaction "forgotten"' FROM pgq_ext.segment WHERE segment = $n}), 'a prepared transaction is told');
	sql(q{COMMIT PREPARED 'forgotten'});
	wait_until_truncated($node, $n, $before);
}
{
	# Of a publisher that does not exist.
	my $n = fresh_segment($node);
	my $before = truncations($node, $n);
	my $holder = session($node);
	ask($holder, "BEGIN; LOCK TABLE pgq_ext.job_$n IN ACCESS SHARE MODE");
	close_segment($node, $n);
	sql(q{SET log_min_messages = error; SET client_min_messages = error; CREATE SUBSCRIPTION elsewhere CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false);
		SET allow_system_table_mods = on; INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) SELECT oid, 'pgq_ext.job_0'::regclass, 'i' FROM pg_subscription});
	ask($holder, 'COMMIT');
	end_session($holder);
	ok($node->poll_query_until('postgres', qq{SELECT held_by ~ 'subscription "elsewhere"' FROM pgq_ext.segment WHERE segment = $n}), 'a subscription is told')
	  or diag held_by($n);
	sql('ALTER SUBSCRIPTION elsewhere SET (slot_name = NONE)');
	sql('DROP SUBSCRIPTION elsewhere');
	renew_scheduler();
	wait_until_truncated($node, $n, $before);
}

# ---- owners ----

{
	sql('CREATE ROLE bob; CREATE ROLE admin SUPERUSER; ALTER TABLE pgq_ext.job_3 OWNER TO bob');
	my ($state, $error) = sqlstate($node, q{SELECT pgq_purge_queue('work')});
	is($state, '55000', 'of several owners none acts with the rights of another');
	like($error, qr/"pgq_ext.job_3" to "bob"/, '... and it is told which');
	work($node, 10);
	pass('... but jobs go on');
	sql('ALTER TABLE pgq_ext.job_3 OWNER TO admin');
	is(sqlstate($node, q{SELECT pgq_purge_queue('work')}), '', 'superusers are all the same');
	sql('ALTER TABLE pgq_ext.job_3 OWNER TO postgres');
}

# ---- objects that are not what their name says ----

{
	sql(q{ALTER FUNCTION pgq_ext.is_leased(bigint) RENAME TO hidden;
		CREATE FUNCTION pgq_ext.is_leased(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false'});
	is(sqlstate($node, q{SELECT pgq_purge_queue('work')}), '55000', 'a function that is not ours is not called');
	sql('DROP FUNCTION pgq_ext.is_leased(bigint); ALTER FUNCTION pgq_ext.hidden(bigint) RENAME TO is_leased');

	# A session looks only at the segments that it uses.
	my $n = fresh_segment($node);
	my @decoys = (
		[ 'a view for a sequence', 'ALTER SEQUENCE pgq_ext.token_mark RENAME TO hidden; CREATE VIEW pgq_ext.token_mark AS SELECT 1 AS last_value',
			'DROP VIEW pgq_ext.token_mark; ALTER SEQUENCE pgq_ext.hidden RENAME TO token_mark' ],
		[ 'an index of another table', 'CREATE TABLE other (a int, b int); ALTER INDEX pgq_ext.queue_name_key RENAME TO hidden; CREATE INDEX ON other (b); ALTER TABLE other SET SCHEMA pgq_ext;
			ALTER INDEX pgq_ext.other_b_idx RENAME TO queue_name_key', 'DROP TABLE pgq_ext.other; ALTER INDEX pgq_ext.hidden RENAME TO queue_name_key' ],
		[ 'an index of other columns', qq{ALTER INDEX pgq_ext.job_${n}_by_id RENAME TO hidden; CREATE INDEX job_${n}_by_id ON pgq_ext.job_$n ((job_id + 1))},
			qq{DROP INDEX pgq_ext.job_${n}_by_id; ALTER INDEX pgq_ext.hidden RENAME TO job_${n}_by_id} ],
		[ 'an index of another kind', qq{ALTER INDEX pgq_ext.job_${n}_by_id RENAME TO hidden; CREATE INDEX job_${n}_by_id ON pgq_ext.job_$n USING brin (job_id)},
			qq{DROP INDEX pgq_ext.job_${n}_by_id; ALTER INDEX pgq_ext.hidden RENAME TO job_${n}_by_id} ],
		[ 'a segment with more to its name', qq{ALTER TABLE pgq_ext.job_$n RENAME TO "job_$n x"}, qq{ALTER TABLE pgq_ext."job_$n x" RENAME TO job_$n} ]);
	for my $decoy (@decoys)
	{
		my ($what, $put, $remove) = @$decoy;
		sql("BEGIN; $put; COMMIT");
		# The block runs in a new session, which does not remember the queue: others do not look for its name again.
		is(sqlstate($node, q{BEGIN; SELECT pgq_enqueue('work', '1'), count(*) FROM pgq_claim('work'); COMMIT}), '55000', "$what is not used");
		sql("BEGIN; $remove; COMMIT");
	}
	wait_for_scheduler($node);
	work($node, 10);
	is(sql(q{SELECT count(*) FROM pgq_check()}), '0', 'all is well when they are gone');
}

$node->stop;
done_testing();
