# The owner of the database creates functions and operators with the names of the server's, in the schema of the
# extension's functions: none of them runs when a superuser creates, updates or uses the extension.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use ShadowTest;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nlog_statement = none\nlog_min_error_statement = panic\nlog_error_verbosity = terse\n");
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE mallory LOGIN; CREATE ROLE handler LOGIN');

my ($share) = run_command([ 'pg_config', '--sharedir' ]);
my @scripts = map { slurp_file("$share/extension/pgq_ext--$_.sql") } qw(0.2 0.1--0.2);
my $metrics = slurp_file('monitoring/queries.yml');
my ($functions, $operators) = names_in($node, @scripts, $metrics);
cmp_ok(scalar @$functions, '>', 30, 'scripts call functions of the server');
cmp_ok(scalar @$operators, '>', 10, '... and its operators');

for my $db (qw(created updated))
{
	$node->safe_psql('postgres', "CREATE DATABASE $db OWNER mallory");
	$node->safe_psql($db, q{CREATE EXTENSION pgq_ext VERSION '0.1'; SELECT pgq_create_queue('before')}) if $db eq 'updated';
	plant_shadows($node, $db, 'mallory', $functions, $operators);
	my $log = -s $node->logfile;
	$node->safe_psql($db, q{SELECT format('%s', 'x'), 5::bigint % 2::smallint});
	like(substr(slurp_file($node->logfile), $log), qr/planted: format.* runs as postgres.*planted: operator of int8 and int2 runs as postgres/s, "$db: the traps are set");

	$log = -s $node->logfile;
	$node->safe_psql($db, $db eq 'updated' ? 'ALTER EXTENSION pgq_ext UPDATE' : 'SET log_min_messages = error; CREATE EXTENSION pgq_ext');
	clean_of_shadows($node, $log, '... and nothing runs them when the extension is ' . $db);

	# The statements of the test itself have to find nothing else.
	$node->safe_psql($db, q{SELECT pgq_create_queue('q', keep_finished => '1 day'); SELECT pgq_enqueue('q', '1', unique_key => 'k', unique_for => '1 day', group_key => 'g'); SELECT pgq_enqueue('q', '2', delay => '1 day');
		SELECT pgq_ack(job_id, lease, '1') FROM pgq_claim('q'); SELECT pgq_schedule('s', '* * * * *', 'q'); SELECT pgq_grant('q', 'pg_monitor', '{inspect}'); SELECT pgq_lock('l'), pgq_run_once('r', '1 day');
		SELECT pgq_create_rate('rate', 1, '1 s'), pgq_take('rate'); SELECT pgq_purge_queue('q'); SELECT pgq_check()});
	$node->safe_psql($db, q{CREATE SCHEMA handler; CREATE FUNCTION handler.handle(pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS 'BEGIN END'; GRANT USAGE ON SCHEMA handler TO handler;
		GRANT EXECUTE ON FUNCTION pgq_set_handler, pgq_claim, pgq_ack TO handler; SELECT pgq_create_queue('handled'); SET ROLE handler; SELECT pgq_set_handler('handled', 'handler.handle'::regproc); RESET ROLE});
	is($node->safe_psql($db, "SELECT pgq_enqueue('handled', '1') AS job\n\\gset\nSELECT state FROM pgq_result(:job, '60 s')"), 'acked', '... a worker runs a job');
	$node->safe_psql($db, q{SELECT pgq_pause_handler('handled'), pgq_resume_handler('handled')});
	my @views = split /\n/, $node->safe_psql($db, q{SET search_path = pg_catalog; SELECT relname FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace AND relkind = 'v' AND relname !~ '^rights_'});
	$node->safe_psql($db, join ';', map { "TABLE pgq_ext.$_" } @views);
	clean_of_shadows($node, $log, '... nor verbs and views');
	my @queries = $metrics =~ /^  query: \|\n((?:    .*\n)+)/mg;
	cmp_ok(scalar @queries, '>', 4, 'there are queries of the exporter');
	$node->safe_psql($db, $_) for @queries;
	clean_of_shadows($node, $log, '... which run nothing of others');
	run_command([ 'pgq-top', '--once', '-d', $node->connstr($db) ]);
	clean_of_shadows($node, $log, '... nor does pgq-top');
	$node->safe_psql($db, 'SET client_min_messages = error; DROP EXTENSION pgq_ext CASCADE');
	clean_of_shadows($node, $log, '... nor the end of the extension');
}

$node->stop;
done_testing();
