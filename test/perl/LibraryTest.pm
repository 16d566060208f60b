# Runs the scenarios of test/clients/library/scenarios.json against the library of a language. See the README there.
package LibraryTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use JSON::PP;
use PgqTest;
use Exporter 'import';

our @EXPORT = qw(run_scenarios);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my ($node, $standby, %workers, @command, $queue, $job);
my $host = '127.0.0.1';
my $standby_host = '127.0.0.2';

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Puts the queue and the first job into each text of a value.
sub filled
{
	my ($value) = @_;
	return [ map { filled($_) } @$value ] if ref $value eq 'ARRAY';
	return { map { $_ => filled($value->{$_}) } keys %$value } if ref $value eq 'HASH';
	return $value if !defined $value || ref $value;
	my $text = $value;
	return $value unless $text =~ s/\$q/$queue/g | $text =~ s/\$job/$job/g;
	return $text;
}

sub argument { my ($value) = @_; return $json->encode($value) }

# ---- subjects ----

sub environment_of
{
	my ($label) = @_;
	return (PGHOST => "$standby_host,$host", PGPORT => $node->port, PGDATABASE => 'postgres', PGUSER => sql('SELECT current_user'), PGAPPNAME => $label);
}

sub start_worker
{
	my ($name, $options) = @_;
	my $worker = { label => "$name of $queue", output => '' };
	my %environment = environment_of($worker->{label});
	local @ENV{keys %environment} = values %environment;
	$worker->{run} = IPC::Run::start([ @command, argument({ queues => [$queue], %$options }) ], '<', \undef, '>', \$worker->{output}, '2>&1',
		IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
	$worker->{pid} = $worker->{run}->{KIDS}[0]{PID};
	$workers{$name} = $worker;
	return;
}

sub pump { my ($worker) = @_; eval { $worker->{run}->pump_nb; 1 } if !$worker->{ended}; return }

sub wait_until_says
{
	my ($worker, $pattern) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		pump($worker);
		return 1 if $worker->{output} =~ /$pattern/;
		return 0 if $worker->{ended};
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

# Gives up at once if all workers have ended by themselves.
sub wait_until_true
{
	my ($condition) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my $alive = 0;
		for my $worker (values %workers)
		{
			pump($worker);
			$alive ||= !$worker->{ended} && $worker->{run}->pumpable;
		}
		return 1 if sql("SELECT $condition") eq 't';
		return 0 if %workers && !$alive;
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

sub produced
{
	my ($calls) = @_;
	my %environment = environment_of("producer of $queue");
	local @ENV{keys %environment} = values %environment;
	my ($out, $errors) = ('', '');
	IPC::Run::run([ @command, argument({ produce => $calls }) ], '<', \undef, '>', \$out, '2>', \$errors, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	diag($errors) if $errors ne '';
	my @answers = map { $json->decode($_) } split /\n/, $out;
	# ids differ from run to run
	for my $answer (@answers)
	{
		next if !exists $answer->{answer};
		s/^\d+$/id/ for ref $answer->{answer} eq 'ARRAY' ? grep { !ref } @{ $answer->{answer} } : $answer->{answer} // ();
	}
	return \@answers;
}

# ---- steps ----

sub enqueue
{
	my ($times, @payloads) = @_;
	for my $payload (@payloads)
	{
		my $steps = $json->encode({ steps => $payload }) =~ s/'/''/gr;
		my $id = sql("SELECT min(id) FROM pgq_enqueue_many('$queue', (SELECT jsonb_agg(jsonb_build_object('payload', '$steps'::jsonb)) FROM generate_series(1, $times))) id");
		$job //= $id;
	}
	return;
}

my %steps = (
	queue => sub {
		my ($options) = @_;
		sql("SELECT pgq_create_queue('$queue'" . join('', map { ", $_ => '$options->{$_}'" } sort keys %$options) . ')');
	},
	jobs => sub { enqueue(1, @_) },
	many => sub { enqueue(@_) },
	sql => sub { sql($_[0]) },
	worker => sub { start_worker(@_) },
	produce => sub { my ($calls, $answers) = @_; is_deeply(produced($calls), $answers, 'answers of the producer') },
	wait => sub {
		my ($condition) = @_;
		ok(wait_until_true($condition), $condition) or diag(map { "$_->{label}: $_->{output}\n" } values %workers);
	},
	is => sub { my ($query, $value) = @_; is(sql($query), $value, $query) },
	says => sub { my ($name, $pattern) = @_; ok(wait_until_says($workers{$name}, $pattern), "$name says $pattern") or diag($workers{$name}{output}) },
	silent => sub { my ($name, $pattern) = @_; pump($workers{$name}); unlike($workers{$name}{output}, qr/$pattern/, "$name does not say $pattern") },
	signal => sub { my ($name, $signal) = @_; kill $signal => $workers{$name}{pid} },
	ends => sub {
		my ($name, $status) = @_;
		my $worker = $workers{$name};
		eval { $worker->{run}->finish; 1 } or fail("$name ends") && return;
		$worker->{ended} = 1;
		my $result = $worker->{run}->full_result;
		if (!defined $status) { pass("$name has ended") }
		elsif ($status eq 'error') { isnt($result, 0, "$name ends with an error") }
		else { is($result >> 8, $status, "$name ends") or diag($worker->{output}) }
	},
	disconnect => sub {
		my ($name) = @_;
		ok(sql("SELECT count(pg_terminate_backend(pid, 60000)) > 0 FROM pg_stat_activity WHERE application_name = '$workers{$name}{label}'") eq 't', "the sessions of $name are ended");
	},
	crash => sub { $node->stop('immediate') },
	start => sub { $node->start });

sub run_scenario
{
	my ($scenario) = @_;
	($queue, $job, %workers) = ($scenario->{name} =~ s/\W+/-/gr =~ s/^(.{1,40}).*/$1/r, undef);
	sql('DROP TABLE IF EXISTS effect, gate; CREATE TABLE effect (n bigserial, job_id bigint NOT NULL, text text NOT NULL)');
	for my $step (@{ $scenario->{steps} })
	{
		my ($what, @arguments) = @$step;
		eval { $steps{$what}->(map { filled($_) } @arguments); 1 } or do { fail("$what: $@"); last };
		last if !Test::More->builder->is_passing;
	}
	for my $worker (grep { !$_->{ended} } values %workers)
	{
		kill KILL => $worker->{pid};
		eval { $worker->{run}->finish };
		$worker->{ended} = 1;
		fail("$worker->{label} was still running: $worker->{output}");
	}
	is(sql('SELECT count(*) FROM pgq_check()'), '0', 'and all is well');
	return;
}

# run_scenarios LANGUAGE, COMMAND...: COMMAND is the subject. Each scenario has a queue of its own.
sub run_scenarios
{
	my $language = shift;
	@command = @_;
	$node = pgq_node('main', conf => "listen_addresses = '$host'\nmax_connections = 100\nshared_buffers = 32MB\n", init => { allows_streaming => 1 });
	$node->backup('standby');
	$standby = PostgreSQL::Test::Cluster->new('standby', port => $node->port);
	$standby->init_from_backup($node, 'standby', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "listen_addresses = '$standby_host'\nunix_socket_directories = ''\n");
	$standby->start;
	my $scenarios = $json->decode(slurp_file('test/clients/library/scenarios.json'));
	for my $scenario (@$scenarios)
	{
		next if $ENV{SCENARIO} && $scenario->{name} !~ /$ENV{SCENARIO}/;
		subtest "$language: $scenario->{name}" => sub { run_scenario($scenario) };
	}
	$standby->stop;
	$node->stop;
	done_testing();
	return;
}

# Ends the workers of a test that dies.
END
{
	my $status = $?;
	kill KILL => $_->{pid} for grep { !$_->{ended} } values %workers;
	$? = $status;
}

1;
