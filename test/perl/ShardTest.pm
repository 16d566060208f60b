# Shared by the tests of shards: databases that are shards, a router before them, and programs of examples/.
package ShardTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use IPC::Run;
use PgqTest;
use Exporter 'import';

our @EXPORT = qw(shard_node make_shard make_router conninfo_of start_program stop_program kill_program);

my @groups;

# Connection strings have ports and sockets but no user, so each role connects to the shards as itself.
sub conninfo_of
{
	my ($db, @nodes) = @_;
	my $hosts = join ',', map { $_->host } @nodes;
	my $ports = join ',', map { $_->port } @nodes;
	return "host=$hosts port=$ports dbname=$db" . (@nodes > 1 ? ' target_session_attrs=read-write' : '');
}

sub shard_node
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical');
	$node->append_conf('postgresql.conf', "max_worker_processes = 32\nmax_connections = 60\nrestart_after_crash = on\n" . ($options{conf} // ''));
	$node->start;
	return $node;
}

sub make_shard
{
	my ($node, $shard) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE s$shard");
	$node->safe_psql("s$shard", "CREATE EXTENSION pgq_ext; SELECT pgq_set_shard($shard)");
	return;
}

# make_router NODE, DATABASE: creates the router there
sub make_router
{
	my ($node, $db) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, 'CREATE EXTENSION plproxy; CREATE EXTENSION pgq_router');
	return;
}

# start_program { NAME => VALUE }, COMMAND: starts it with these environment variables
sub start_program
{
	my ($environment, @command) = @_;
	my $program = { output => '' };
	local @ENV{ keys %$environment } = values %$environment;
	$program->{run} = IPC::Run::start([ 'setsid', @command ], '<', \undef, '>', \$program->{output}, '2>&1');
	$program->{pid} = $program->{run}->{KIDS}[0]{PID};
	push @groups, $program->{pid};
	return $program;
}

sub end_program
{
	my ($program, $signal) = @_;
	kill $signal => $program->{pid};
	$program->{run}->finish;
	@groups = grep { $_ != $program->{pid} } @groups;
	return $program->{run}->full_result || 0;
}

# Returns the exit status, after the program has ended by itself.
sub stop_program { return end_program($_[0], 'TERM') }
sub kill_program { return end_program($_[0], 'KILL') }

# Ends all processes of a test that dies.
END
{
	my $status = $?;
	kill KILL => map { -$_ } @groups;
	$? = $status;
}

1;
