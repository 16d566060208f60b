# Shared by the tests of handlers: a server with a role for handlers, queues with handlers, and what became of their jobs.
package HandlerTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Exporter 'import';

our @EXPORT = qw(handler_node handled_queue enqueue end_of worker_of wait_until_called effects_of);

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

# Waits until that worker waits for an advisory lock, in the call.
sub wait_until_called
{
	my ($node, $queue) = @_;
	my $pid = worker_of($node, $queue);
	wait_for($node, "count(*) = 1 FROM pg_locks WHERE pid = $pid AND locktype = 'advisory' AND NOT granted");
	return $pid;
}

# Returns the notes that the handler has left for the job.
sub effects_of
{
	my ($node, $job) = @_;
	return $node->safe_psql('postgres', "SELECT string_agg(note, ' ' ORDER BY note) FROM effect WHERE job_id = $job");
}

1;
