# Shared by the tests of handlers. The functions of ":calls" make queues with handlers, and tell what became of their jobs. Those of
# ":gate" are about one server, whose databases have the function app.work, which waits at a gate and notes that it has run.
package HandlerTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Exporter 'import';

our %EXPORT_TAGS = (
	calls => [qw(handler_node handled_queue enqueue end_of worker_of wait_until_called effects_of)],
	gate  => [qw(gated_node sql fails_ok work prepare_database set_handler close_gate open_gate wait_at_gate wait_for_state
		  wait_until_ran has_run runs_ok wait_for_look wait_for_workers wait_until_idle set_setting restart_with)]);
our @EXPORT_OK = map { @$_ } values %EXPORT_TAGS;

# ---- queues with handlers ----

# A server with the role "worker", which handlers run as, and the table "effect", for what they do. max_handler_workers is so large that
# no worker ends because another role waits.
sub handler_node
{
	my ($name, %options) = @_;
	my $node = pgq_node($name, %options, conf => "pgq_ext.max_handler_workers = 12\nautovacuum = off\n" . ($options{conf} // ''));
	$node->safe_psql('postgres', q{
		CREATE ROLE worker LOGIN;
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO worker;
		CREATE TABLE effect (job_id bigint, note text, xid xid8 DEFAULT pg_current_xact_id(), pid int DEFAULT pg_backend_pid());
		GRANT ALL ON effect TO worker});
	return $node;
}

# handled_queue NODE, QUEUE, BODY, array => 1, returns => TYPE, queue => OPTIONS, handler => OPTIONS: creates a queue, and a handler for it
# with this body in PL/pgSQL, whose argument is "job" or "jobs". One attempt follows the other soon.
sub handled_queue
{
	my ($node, $queue, $body, %options) = @_;
	my $type    = 'pgq_ext.claimed_job' . ($options{array} ? '[]' : '');
	my $name    = $options{array} ? 'jobs' : 'job';
	my $returns = $options{returns} // 'void';
	my $role    = $options{role} // 'worker';
	my $kept    = q{keep_finished => '1 day', keep_attempts => '1 day', log_attempts => 'all'};
	create_queue($node, $queue, join ', ', $kept, $options{queue} // 'max_attempts => 5');
	$node->safe_psql('postgres', "CREATE FUNCTION handle_$queue($name $type) RETURNS $returns LANGUAGE plpgsql AS \$\$ $body \$\$;
		SELECT pgq_set_handler(" . join(', ', "'$queue'", "'handle_$queue($type)'", "run_as => '$role'", $options{handler} // ()) . ')');
	return;
}

# Enqueues a job, and returns its id.
sub enqueue
{
	my ($node, $queue, $payload) = @_;
	$payload //= '{}';
	return $node->safe_psql('postgres', "SELECT pgq_enqueue('$queue', \$payload\$$payload\$payload\$)");
}

# Waits until the job is finished or dead, and returns "state|result|error".
sub end_of
{
	my ($node, $job) = @_;
	for (1 .. 1 + $PostgreSQL::Test::Utils::timeout_default / 10)
	{
		my $end = $node->safe_psql('postgres', "SELECT state, result, error FROM pgq_result($job, wait => '10 s')");
		return $end if $end =~ /^(?:acked|cancelled|expired|dead|\z)/;
	}
	die "job $job does not end";
}

# Waits until a worker is in a call for a job of this queue, and returns its pid.
sub worker_of
{
	my ($node, $queue) = @_;
	my $calls = "FROM pg_stat_activity WHERE backend_type = 'pgq_ext handler' AND state = 'active' AND query LIKE '% of queue $queue: %'";
	wait_for($node, "count(*) = 1 $calls");
	return $node->safe_psql('postgres', "SELECT pid $calls");
}

# Waits until a worker waits for an advisory lock in a call for a job of this queue, and returns its pid. Another worker may have had a
# call for another job of the queue meanwhile.
sub wait_until_called
{
	my ($node, $queue) = @_;
	my $calls = "FROM pg_stat_activity WHERE backend_type = 'pgq_ext handler' AND state = 'active' AND wait_event = 'advisory' AND query LIKE '% of queue $queue: %'";
	wait_for($node, "count(*) = 1 $calls");
	return $node->safe_psql('postgres', "SELECT pid $calls");
}

# Returns the notes that the handler has left for the job.
sub effects_of
{
	my ($node, $job) = @_;
	return $node->safe_psql('postgres', "SELECT string_agg(note, ' ' ORDER BY note) FROM effect WHERE job_id = $job");
}

# ---- a server with a gate ----

my ($node, $gate);

# gated_node SETTINGS: returns a running server. The other functions of this part are about it. Roles author (of the
# function), runner, other and mallory; runner and other may claim and ack.
sub gated_node
{
	my ($settings) = @_;
	$node = pgq_node('main', conf => $settings);
	sql("CREATE ROLE $_ LOGIN") for qw(author runner other mallory);
	prepare_database('postgres');
	$gate = session($node);
	return $node;
}

sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }

# The statement fails with that SQLSTATE, and the message matches. An empty SQLSTATE: it succeeds.
sub fails_ok
{
	my ($state, $message, $sql, $what, $db) = @_;
	my ($found, $error) = sqlstate($node, $sql, $db);
	is($found, $state, $what);
	like($error, qr/ERROR: .*$message/, '... and says why') if $state ne '';
	return;
}

# Returns the definition of the function. A job "bad" raises an error.
sub work
{
	my ($name, $note) = @_;
	return qq{CREATE OR REPLACE FUNCTION $name(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN
		PERFORM pg_advisory_xact_lock_shared(7);
		INSERT INTO app.ran (queue, payload, note) VALUES (job.queue, job.payload, '$note');
		IF job.payload = '"bad"' THEN RAISE EXCEPTION 'a bad job'; END IF; END \$\$;};
}

sub prepare_database
{
	my ($db) = @_;
	sql(q{CREATE SCHEMA app; CREATE SCHEMA app2; GRANT ALL ON SCHEMA app, app2 TO PUBLIC;
		CREATE TABLE app.ran (n bigserial, queue text, payload jsonb, note text, role name DEFAULT session_user, pid int DEFAULT pg_backend_pid());
		GRANT ALL ON app.ran TO PUBLIC; GRANT ALL ON SEQUENCE app.ran_n_seq TO PUBLIC;
		GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO runner, other; GRANT USAGE ON SCHEMA pgq_ext TO author, mallory}, $db);
	sql('SET ROLE author; ' . work('app.work', 'first'), $db);
	return;
}

# set_handler QUEUE, OPTIONS, DATABASE
sub set_handler
{
	my ($queue, $options, $db) = @_;
	$options //= q{run_as => 'runner'};
	return sql("SELECT pgq_set_handler('$queue', 'app.work(pgq_ext.claimed_job)', $options)", $db);
}

# Calls in the database postgres begin, but do not go on before the gate is opened.
sub close_gate { ask($gate, 'SELECT pg_advisory_lock(7)'); return }
sub open_gate { ask($gate, 'SELECT pg_advisory_unlock(7)'); return }

sub wait_at_gate
{
	my ($n) = @_;
	return wait_for($node, "count(*) = $n FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted");
}

# Waits until the view shows the handler in that state, for a reason that matches; without a reason: for none.
sub wait_for_state
{
	my ($queue, $state, $reason, $db) = @_;
	$reason //= '^$';
	return wait_for($node, "state = '$state' AND COALESCE(reason, '') ~ '$reason' FROM pgq_ext.handler WHERE queue = '$queue'", $db);
}

sub wait_until_ran { my ($n, $queue, $db) = @_; return wait_for($node, "count(*) = $n FROM app.ran WHERE queue = '$queue'", $db) }
sub has_run { my ($queue, $db) = @_; return sql("SELECT count(*) FROM app.ran WHERE queue = '$queue'", $db) }

sub runs_ok
{
	my ($queue, $what, $db) = @_;
	sql('TRUNCATE app.ran', $db);
	sql("SELECT pgq_enqueue('$queue', '1')", $db);
	wait_until_ran(1, $queue, $db);
	return pass($what);
}

# Waits for a look of the scheduler at all handlers that begins from now on, so that it has started a worker if it may.
sub wait_for_look
{
	my ($db, $duty) = @_;
	$duty //= 'handlers';
	for (1 .. 2)
	{
		my $since = sql('SELECT clock_timestamp()', $db);
		wait_for($node, "last_run_at > '$since' FROM pgq_ext.duty WHERE duty = '$duty'", $db);
	}
	return;
}

# Waits until that many workers of handlers are there.
sub wait_for_workers { my ($n) = @_; return wait_for($node, "count(*) = $n FROM pg_stat_activity WHERE backend_type = 'pgq_ext handler'") }

# Waits until no job is left, and no worker has a place.
sub wait_until_idle
{
	my ($db) = @_;
	return wait_for($node, '(SELECT count(*) FROM pgq_ext.job_status) = 0 AND sum(running) = 0 FROM pgq_ext.handler', $db);
}

sub restart_with
{
	my ($settings) = @_;
	end_session($gate);
	$node->append_conf('postgresql.conf', $settings);
	stop_and_start($node, 'fast');
	$gate = session($node);
	wait_for_scheduler($node);
	return;
}

sub set_setting
{
	my ($name, $value) = @_;
	sql("ALTER SYSTEM SET $name = $value");
	$node->reload;
	return wait_for($node, "setting = '$value' FROM pg_settings WHERE name = '$name'");
}

END
{
	my $status = $?;
	end_session($gate) if $gate;
	$? = $status;
}

1;
