# Drills: each drill reports success on a healthy server, and failure on a server with the fault that the drill has to
# find.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Cwd qw(getcwd);
use IPC::Run;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
my $run = getcwd() . '/drills/run.sh';
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
$ENV{PGUSER} = sql('SELECT current_user');
$ENV{PATH} = $node->config_data('--bindir') . ":$ENV{PATH}";

create_queue($node, 'first');
my $scheduler = wait_for_scheduler($node);

# Nothing is left of a drill, and nothing else has changed.
sub nothing_left
{
	my ($db) = @_;
	# Its last psql may just be ending.
	wait_for($node, q{count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'drill%'});
	return sql(q{SELECT (SELECT string_agg(queue, ' ' ORDER BY queue) FROM pgq_ext.queue), (SELECT count(*) FROM pgq_ext.job), (SELECT count(*) FROM pg_prepared_xacts)}, $db);
}

# [options, drill, psql's], GOOD BAD or SKIP, what the verdict says
sub verdict_ok
{
	my ($arguments, $verdict, $says, $what) = @_;
	my ($out, $err);
	IPC::Run::run([ $run, @$arguments ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	my $status = $? >> 8;
	my ($last) = $out =~ /([^\n]*)\n\z/;
	note $out;
	is($status, { GOOD => 0, BAD => 1, SKIP => 3 }->{$verdict}, "$what: its status");
	like($last // '', qr/^$verdict +\w+: .*$says/, '... and verdict') or diag($out, $err);
	return;
}

my $postmaster = $node->data_dir;
verdict_ok([ 'worker_killed', '-d', 'postgres' ], 'GOOD', qr/the job of a dead worker/, 'a worker is killed');
verdict_ok([ 'slow_handler', '-d', 'postgres' ], 'GOOD', qr/a stale ack is refused/, 'a slow handler');
verdict_ok([ 'poison', '-d', 'postgres' ], 'GOOD', qr/dead letter/, 'poison');
verdict_ok([ 'failing_handler', '-d', 'postgres' ], 'GOOD', qr/slowed down and named/, 'a handler that fails');
verdict_ok([ 'backlog', '-d', 'postgres' ], 'GOOD', qr/worked off/, 'a backlog');
verdict_ok([ 'prepared', '-d', 'postgres' ], 'GOOD', qr/can be found/, 'a prepared transaction');
verdict_ok([ 'immediate_stop', '-d', 'postgres' ], 'SKIP', qr/needs --data/, 'an immediate stop of nobody knows what');
verdict_ok([ 'failover' ], 'GOOD', qr/no acknowledged job was lost/, 'a failover');
is(nothing_left(), 'first|0|0', 'nothing is left of all these');
is(sql(q{SELECT string_agg(nspname, ' ') FROM pg_namespace WHERE nspname ~ '^drill'}) . sql(q{SELECT string_agg(rolname, ' ') FROM pg_roles WHERE rolname ~ '^drill'}), '', '... neither schemas nor roles');

# ---- each finds what it is there to find ----

sub faulty
{
	my ($db, $fault) = @_;
	sql("CREATE DATABASE $db");
	sql("CREATE EXTENSION pgq_ext; $fault", $db);
	return [ '-d', $db ];
}

verdict_ok([ 'slow_handler', @{ faulty('lenient', q{
		ALTER FUNCTION pgq_ack RENAME TO strict_ack;
		CREATE FUNCTION pgq_ack(job_id bigint, lease bigint) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN PERFORM strict_ack(job_id, lease); EXCEPTION WHEN SQLSTATE 'PQ001' THEN NULL; END $$}) } ],
	'BAD', qr/what the slow one is told: expected 'PQ001'/, 'a stale ack that is let through');
verdict_ok([ 'poison', @{ faulty('patient', q{
		ALTER FUNCTION pgq_fail RENAME TO strict_fail;
		CREATE FUNCTION pgq_fail(job_id bigint, lease bigint, error text) RETURNS text LANGUAGE sql AS $$ SELECT pgq_release(job_id, lease, '1 s')::text $$}) } ],
	'BAD', qr/jobs left: expected '0', found '1'/, 'a job that never dies');
verdict_ok([ 'backlog', @{ faulty('slow', q{
		ALTER FUNCTION pgq_claim RENAME TO quick_claim;
		CREATE FUNCTION pgq_claim(queue text, max_jobs int = 1) RETURNS SETOF pgq_ext.claimed_job LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM 1 FROM pgq_ext.job HAVING count(*) > 0;
			RETURN QUERY SELECT * FROM quick_claim(queue, max_jobs);
		END $$}) } ],
	'BAD', qr/times as slow with a backlog/, 'a claim that reads all jobs');
verdict_ok([ 'prepared', @{ faulty('blind', q{
		CREATE OR REPLACE FUNCTION pgq_ext.check_prepared() RETURNS SETOF pgq_ext.finding LANGUAGE sql AS $$ SELECT NULL::pgq_ext.finding WHERE false $$}) } ],
	'BAD', qr/does the view health name it.*: expected 't', found 'f'/, 'a view that does not tell');
verdict_ok([ 'failing_handler', @{ faulty('deaf', q{
		CREATE OR REPLACE FUNCTION pgq_ext.check_handler_calls() RETURNS SETOF pgq_ext.finding LANGUAGE sql AS $$ SELECT NULL::pgq_ext.finding WHERE false $$}) } ],
	'BAD', qr/does the view health name it, and that it fails: expected 'true', found ''/, 'a view that does not tell of a handler');
verdict_ok([ '--restart', 'true', 'immediate_stop', '-d', 'postgres' ], 'BAD', qr/the server was not restarted/, 'a server that was not stopped');
verdict_ok([ '--restart', 'false', 'immediate_stop', '-d', 'postgres' ], 'BAD', qr/failed: false/, 'a command that fails');
{
	local $ENV{ASYNCHRONOUS} = 1;
	verdict_ok(['failover'], 'BAD', qr/\d+ jobs were lost/, 'a standby that was not waited for');
}
kill 'STOP', $scheduler;
verdict_ok([ 'worker_killed', '-d', 'postgres' ], 'BAD', qr/the attempt of who gets it next: expected '2'/, 'a scheduler that stands still');
kill 'CONT', $scheduler;
verdict_ok([ 'poison', '-d', 'nowhere' ], 'BAD', qr/cannot be reached/, 'a server that is not there');
is(nothing_left($_), $_ eq 'postgres' ? 'first|0|0' : '|0|0', "nothing is left in $_") for 'postgres', 'lenient', 'patient', 'slow', 'blind', 'deaf';

# ---- interrupted ----

my $drill = IPC::Run::start([ 'setsid', $run, 'worker_killed', '-d', 'postgres' ], '<', \undef, '>', \my $out, '2>', \my $err);
wait_for($node, q{count(*) = 1 FROM pgq_ext.lease WHERE queue LIKE 'drill_worker_killed_%'});
$drill->signal('TERM');
$drill->finish;
is(nothing_left(), 'first|0|0', 'nothing is left of one that was interrupted');

# ---- the server itself ----

my $data = $node->data_dir;
my $log  = $node->logfile;
verdict_ok([ '--restart', "pg_ctl -D '$data' -l '$log' -m immediate -w restart", 'immediate_stop', '-d', 'postgres' ], 'GOOD', qr/every job was there/, 'an immediate stop');
is(nothing_left(), 'first|0|0', 'nothing is left of it');
$node->_update_pid(1);
is(system($run, 'nothing') >> 8, 2, 'a drill that is none');

$node->stop;
done_testing();
