# Runs the scenarios of test/clients/library/scenarios against the library of a language, or against an example
# worker. See the README there.
package LibraryTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use IO::Socket::INET;
use JSON::PP;
use PgqTest;
use Exporter 'import';

our @EXPORT = qw(run_scenarios run_example_scenarios);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my ($node, $standby, %workers, @command, $queue, $job, $id);
my $host = '127.0.0.1';
my $standby_host = '127.0.0.2';
my %address = (primary => $host, standby => $standby_host, silent => '127.0.0.3');
my $db = 'postgres';
my $example; # starts an example worker: a function of the way to the server and of the name
my ($pooler, $pooler_port, $silent); # started when a scenario needs them
my $through; # how all subjects of the scenario connect
my $gate;    # a session that keeps the gate closed
my @frozen;  # backends that were stopped

sub sql { return $node->safe_psql($db, $_[0]) }

# Puts the queue, the first job and the last answered id into each text of a value.
sub filled
{
	my ($value) = @_;
	return [ map { filled($_) } @$value ] if ref $value eq 'ARRAY';
	return { map { $_ => filled($value->{$_}) } keys %$value } if ref $value eq 'HASH';
	return $value if !defined $value || ref $value;
	my $text = $value;
	return $value unless $text =~ s/\$q/$queue/g | $text =~ s/\$job/$job/g | $text =~ s/\$id/$id/g;
	return $text;
}

sub argument { my ($value) = @_; return $json->encode($value) }

# ---- subjects ----

# A server that takes connections and never answers.
sub start_silent
{
	$silent //= IO::Socket::INET->new(LocalAddr => $address{silent}, LocalPort => $node->port, Listen => 100) or die "listen: $!";
	return;
}

# pgbouncer in transaction mode
sub start_pooler
{
	return if $pooler;
	$pooler_port = PostgreSQL::Test::Cluster::get_free_port();
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	append_to_file("$dir/pgbouncer.ini", <<"INI");
[databases]
postgres = host=$host port=${\$node->port} user=${\sql('SELECT current_user')}
[pgbouncer]
listen_addr = $host
listen_port = $pooler_port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 30
logfile = $dir/pgbouncer.log
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
INI
	$pooler = IPC::Run::start([ '/usr/sbin/pgbouncer', '-q', "$dir/pgbouncer.ini" ], '<', \undef, '>', '/dev/null', '2>', "$dir/pgbouncer.err");
	# A worker ends with an error if it cannot connect when it begins.
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if IO::Socket::INET->new(PeerAddr => $host, PeerPort => $pooler_port);
		select(undef, undef, undef, 0.1);
	}
	die "pgbouncer does not listen: " . slurp_file("$dir/pgbouncer.err");
}

# where: { hosts => [names of servers], through => 'pooler', role => name }
sub environment_of
{
	my ($label, $where) = @_;
	my @hosts = map { $address{$_} } @{ $where->{hosts} // [qw(standby primary)] };
	start_silent() if grep { $_ eq $address{silent} } @hosts;
	my $port = $node->port;
	if (($where->{through} // $through) eq 'pooler')
	{
		start_pooler();
		@hosts = ($host);
		$port = $pooler_port;
	}
	return (PGHOST => join(',', @hosts), PGPORT => $port, PGDATABASE => $where->{database} // 'postgres', PGUSER => $where->{role} // sql('SELECT current_user'), PGAPPNAME => $label);
}

sub start_worker
{
	my ($name, $options, $where) = @_;
	if ($example)
	{
		$workers{$name} = $example->($db, $name);
		return;
	}
	my $worker = { label => "$name of $queue", output => '' };
	my %environment = environment_of($worker->{label}, $where);
	local $SIG{INT} = 'DEFAULT'; # a shell may have started the tests without it
	local @ENV{keys %environment} = values %environment;
	$worker->{run} = IPC::Run::start([ @command, argument({ queues => [$queue], wait => 1, %$options }) ], '<', \undef, '>', \$worker->{output}, '2>&1',
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
	my ($calls, $where) = @_;
	my %environment = environment_of("producer of $queue", $where);
	local @ENV{keys %environment} = values %environment;
	my ($out, $errors) = ('', '');
	IPC::Run::run([ @command, argument({ produce => $calls }) ], '<', \undef, '>', \$out, '2>', \$errors, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	diag($errors) if $errors ne '';
	my @answers = map { $json->decode($_) } split /\n/, $out;
	# ids differ from run to run
	for my $answer (@answers)
	{
		next if !exists $answer->{answer};
		for my $place (ref $answer->{answer} eq 'ARRAY' ? map { ref eq 'ARRAY' ? \$_->[1] : \$_ } @{ $answer->{answer} } : \$answer->{answer})
		{
			next if ref $$place || ($$place // '') !~ /^\d+$/;
			$id = $$place;
			$$place = 'id';
		}
	}
	return \@answers;
}

# ---- steps ----

sub enqueue
{
	my ($times, @payloads) = @_;
	for my $payload (@payloads)
	{
		my $steps = $json->encode($example ? { to => JSON::PP->new->encode($payload) } : { steps => $payload }) =~ s/'/''/gr;
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
	produce => sub {
		my ($calls, $answers, $where) = @_;
		my $got = produced($calls, $where);
		is_deeply($got, $answers, 'answers of the producer') or diag(explain($got));
	},
	wait => sub {
		my ($condition) = @_;
		ok(wait_until_true($condition), $condition) or diag(map { "$_->{label}: $_->{output}\n" } values %workers);
	},
	is => sub { my ($query, $value) = @_; is(sql($query), $value, $query =~ s/[^ -~]/?/gr) },
	says => sub { my ($name, $pattern) = @_; ok(wait_until_says($workers{$name}, $pattern), "$name says $pattern") or diag($workers{$name}{output}) },
	silent => sub { my ($name, $pattern) = @_; pump($workers{$name}); unlike($workers{$name}{output}, qr/$pattern/, "$name does not say $pattern") },
	complains => sub {
		my ($name) = @_;
		ok(wait_until_says($workers{$name}, $example ? '.' : '"event": ?"error"'), "$name says that there is an error") or diag($workers{$name}{output});
	},
	# A worker that stands still or dies does so with its helper processes; an example has a process group of its own.
	signal => sub { my ($name, $signal) = @_; kill $signal => $workers{$name}{pid} * ($example && $signal ne 'TERM' ? -1 : 1) },
	ends => sub {
		my ($name, $status) = @_;
		my $worker = $workers{$name};
		eval { $worker->{run}->finish; 1 } or fail("$name ends") && return;
		$worker->{ended} = 1;
		my $result = $worker->{run}->full_result;
		if (!defined $status) { pass("$name has ended") }
		elsif ($status eq 'error') { isnt($result, 0, "$name ends with an error") }
		else { ok($result >> 8 == $status || $example && $result >> 8 == 143, "$name ends") or diag("status $result\n$worker->{output}") }
	},
	# An example in a language of the shell has a session for each statement, and between two of them none.
	disconnect => sub {
		my ($name) = @_;
		ok(wait_until_true("count(pg_terminate_backend(pid, 60000)) > 0 FROM pg_stat_activity WHERE application_name = '$workers{$name}{label}'"),
			"the sessions of $name are ended");
	},
	close => sub { $gate = session($node, $db); ask($gate, 'BEGIN; ' . ($_[0] // 'LOCK TABLE gate')); $gate },
	open => sub { end_session($gate); undef $gate },
	freeze => sub {
		my ($name) = @_;
		@frozen = $name eq 'pooler' ? $pooler->{KIDS}[0]{PID} : split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE application_name = '$workers{$name}{label}' AND query LIKE '%pgq_claim%'");
		kill STOP => @frozen;
	},
	thaw => sub { kill CONT => @frozen; @frozen = () },
	crash => sub { $node->stop('immediate') },
	start => sub { $node->start },
	promote => sub {
		$node->wait_for_catchup($standby);
		$node->stop('immediate');
		$standby->promote;
		$node = $standby;
	});

# The work of the examples is an INSERT into the table sent, whose trigger does what the address says. So the steps of
# the handler are those of this function.
my $handler = q{
	CREATE TABLE sent (job_id bigint NOT NULL, address text NOT NULL);
	CREATE FUNCTION handle() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE
		step jsonb;
	BEGIN
		FOR step IN SELECT value FROM jsonb_array_elements(NEW.address::jsonb) LOOP
			CASE step ->> 0
				WHEN 'insert' THEN INSERT INTO effect (job_id, text) VALUES (NEW.job_id, step ->> 1);
				WHEN 'busy' THEN PERFORM pg_sleep((step ->> 1)::float8);
				WHEN 'gate' THEN PERFORM FROM gate;
				WHEN 'fail' THEN RAISE '%', step ->> 1;
				WHEN 'fail_at_first' THEN
					IF (SELECT attempts FROM pgq_ext.job WHERE job_id = NEW.job_id) = 0 THEN RAISE '%', step ->> 1; END IF;
				WHEN 'enqueue' THEN PERFORM pgq_enqueue(step -> 1 ->> 0, step -> 1 -> 1);
			END CASE;
		END LOOP;
		RETURN NULL;
	END $$;
	CREATE TRIGGER handle BEFORE INSERT ON sent FOR EACH ROW EXECUTE FUNCTION handle()};

# An example has its queue, and no options.
sub prepare_example
{
	$db = $through eq 'pooler' ? 'transaction' : 'direct';
	$queue = 'mail';
	sql(q{SELECT count(pgq_drop_queue(queue, force => true)) FROM pgq_ext.queue});
	sql("DROP TABLE IF EXISTS sent; DROP FUNCTION IF EXISTS handle; $handler");
	return;
}

sub run_scenario
{
	my ($scenario) = @_;
	my $start = monotonic();
	($queue, $job, $id, %workers) = ($scenario->{name} =~ s/\W+/-/gr =~ s/^(.{1,40}).*/$1/r, undef, undef);
	$through = $scenario->{through} // '';
	prepare_example() if $example;
	sql('DROP TABLE IF EXISTS effect, gate; CREATE TABLE gate (); CREATE TABLE effect (n bigserial, job_id bigint NOT NULL, text text NOT NULL)');
	for my $step (@{ $scenario->{steps} })
	{
		my ($what, @arguments) = @$step;
		eval { $steps{$what}->(map { filled($_) } @arguments); 1 } or do { fail("$what: $@"); last };
		last if !Test::More->builder->is_passing;
		note(sprintf '%.1f s after %s', seconds_since($start), $what);
	}
	if ($gate)
	{
		end_session($gate);
		undef $gate;
	}
	for my $worker (grep { !$_->{ended} } values %workers)
	{
		kill KILL => $worker->{pid};
		eval { $worker->{run}->finish };
		$worker->{ended} = 1;
		fail("$worker->{label} ended with the status " . ($worker->{run}->full_result // 'unknown') . " (9: it was running): $worker->{output}");
	}
	%workers = ();
	# After a crash, pgq_check may still find what the scheduler has not yet looked at.
	ok(wait_until_true('NOT EXISTS (SELECT FROM pgq_check())'), 'and all is well') or diag(sql('SELECT * FROM pgq_check()'));
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
	$standby->{_host} = $standby_host; # for the tests' own sessions, once it is the primary
	$standby->start;
	my $primary = $node;
	run_all_for('library', $language);
	$pooler->kill_kill if $pooler;
	$_->stop for $standby, $primary;
	done_testing();
	return;
}

# The scenarios for that kind of subject. LONG_SCENARIOS=1 in the environment runs also those that take long.
sub run_all_for
{
	my ($kind, $language) = @_;
	for my $scenario (map { @{ $json->decode(slurp_file($_)) } } sort glob 'test/clients/library/scenarios/*.json')
	{
		next if $ENV{SCENARIO} && $scenario->{name} !~ /$ENV{SCENARIO}/;
		next if !grep { $_ eq $kind || $_ eq $language } @{ $scenario->{for} // ['library'] };
		next if !$ENV{LONG_SCENARIOS} && grep { $_ eq $kind || $_ eq $language } @{ $scenario->{long} // [] };
		subtest "$language: $scenario->{name}" => sub { run_scenario($scenario) };
	}
	return;
}

# run_example_scenarios FILE, PRIMARY, STANDBY, START: START->(WAY, NAME) starts a worker, and returns it as ClientTest
# does. At the end, the standby may have become the primary.
sub run_example_scenarios
{
	(my $file, $node, $standby, $example) = @_;
	run_all_for('example', $file);
	return;
}

# Ends the workers of a test that dies.
END
{
	my $status = $?;
	kill CONT => @frozen;
	kill KILL => $_->{pid} for grep { !$_->{ended} } values %workers;
	$pooler->kill_kill if $pooler;
	$? = $status;
}

1;
