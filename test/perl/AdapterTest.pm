# Test of an adapter, the transport or backend of another framework: a server, programs of the adapter, and a gate at
# which a job waits until the test opens it.
package AdapterTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use PgqTest;
use Exporter 'import';

our @EXPORT = (@Test::More::EXPORT, qw(start_server stop_server restart_server sql run_app start_app ended open_gate hold wait_until));

my ($node, %apps);
my $host = '127.0.0.1';

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Starts a server with the tables that the programs use: done, for what they note, and gate.
sub start_server
{
	$node = pgq_node('main', conf => "listen_addresses = '$host'\nshared_buffers = 32MB\n");
	sql(q{
		CREATE TABLE done (name text NOT NULL);
		CREATE TABLE gate (name text NOT NULL);
		CREATE FUNCTION wait_for_gate(which text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			WHILE NOT EXISTS (SELECT FROM gate WHERE name = which) LOOP PERFORM pg_sleep(0.05); END LOOP;
		END $$});
	return;
}

sub open_gate { sql("INSERT INTO gate VALUES ('$_[0]')"); return }

# Begins a transaction that runs the SQL. Returns a function that ends it.
sub hold
{
	my ($sql) = @_;
	my $session = session($node, 'postgres');
	ask($session, "BEGIN; $sql");
	return sub { end_session($session) };
}

sub environment
{
	my ($more) = @_;
	return (PGHOST => $host, PGPORT => $node->port, PGDATABASE => 'postgres', PGUSER => sql('SELECT current_user'), %$more);
}

# Runs a program to its end. Returns (standard output, standard error).
sub run_app
{
	my ($more, @command) = @_;
	my %environment = environment($more);
	local @ENV{keys %environment} = values %environment;
	my ($out, $errors) = ('', '');
	IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$errors, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return ($out, $errors);
}

# Starts a program in the background.
sub start_app
{
	my ($name, $more, @command) = @_;
	my %environment = environment({ PGAPPNAME => $name, %$more });
	local @ENV{keys %environment} = values %environment;
	my $app = { name => $name, output => '' };
	$app->{run} = IPC::Run::start(\@command, '<', \undef, '>', \$app->{output}, '2>&1', IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
	$app->{pid} = $app->{run}->{KIDS}[0]{PID};
	$apps{ $app->{pid} } = $app;
	return $app;
}

# Waits for the end of a program. Returns its exit status, or -1.
sub ended
{
	my ($app) = @_;
	my $status = eval { $app->{run}->finish; 1 } ? ($app->{run}->full_result || 0) : -1;
	delete $apps{ $app->{pid} };
	return $status;
}

# Waits until the condition is true. Dies with the output of the programs if it never is.
sub wait_until
{
	my ($condition) = @_;
	return if $node->poll_query_until('postgres', "SELECT $condition");
	for my $app (values %apps)
	{
		eval { $app->{run}->pump_nb; 1 };
		diag("$app->{name}: $app->{output}");
	}
	diag(sql('SELECT * FROM done'), "\n", sql('SELECT job_id, queue, state, attempts, last_error FROM pgq_ext.job_status'));
	die "not true in time: $condition";
}

# Stops the server as in a crash, and starts it.
sub restart_server
{
	$node->stop('immediate');
	$node->start;
	return;
}

sub stop_server
{
	$node->stop;
	done_testing();
	return;
}

END
{
	my $status = $?;
	kill KILL => keys %apps;
	$? = $status;
}

1;
