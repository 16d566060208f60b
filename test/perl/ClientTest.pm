# Test of the example workers. worker_test runs an example in three ways at the same time, each in a database of its
# own: connected directly, through pgbouncer in session mode, and through pgbouncer in transaction mode. In each way,
# one of three workers is killed, and one gets SIGTERM. Then the server stops immediately, and the third worker goes on
# after the restart of the server. The direct connection has two hosts, of which the first is a standby. At last, a copy
# of the example runs whose work fails with a text that PostgreSQL cannot store. After that the example runs the
# scenarios of test/clients/library that are also for examples.
package ClientTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;
use IPC::Run;
use PgqTest;
use LibraryTest;
use Exporter 'import';

our @EXPORT = qw(start_servers stop_servers worker_test build build_go answer_of database_url hosts_of $node $bouncer_port $user);

our ($node, $bouncer_port, $user);
my ($bouncer, $standby, @groups);
my $host         = '127.0.0.1';
my $standby_host = '127.0.0.2';
my @ways = qw(direct session transaction);
my ($jobs, $work_time, $slow_work) = (150, 0.01, 18);
my ($first_gate, $last_gate) = (40, 100); # so many are sent before a worker is killed, and while workers are caught with jobs in hand
my $lease_time = '15 s'; # the heartbeats of the examples come every 3 s

sub quietly { return eval { $_[0]->(); 1 } }

# ---- servers ----

# start_servers pools => { NAME => [mode, size] }, dbname => DATABASE, bouncer => LINES: a server with TCP, and
# pgbouncer before it with these additional settings. Default: a pool in each mode, for a database of its name.
sub start_servers
{
	my (%options) = @_;
	$node = pgq_node('main', conf => "listen_addresses = '$host'\nmax_connections = 100\nshared_buffers = 32MB\n", init => { allows_streaming => 1 });
	$user = $node->safe_psql('postgres', 'SELECT current_user');
	$bouncer_port = PostgreSQL::Test::Cluster::get_free_port();
	my $dir   = PostgreSQL::Test::Utils::tempdir_short();
	my $pools = $options{pools} // { session => [ 'session', 50 ], transaction => [ 'transaction', 33 ] };
	my $file  = "$dir/pgbouncer.ini";
	append_to_file($file, "[databases]\n");
	for my $name (sort keys %$pools)
	{
		my ($mode, $size) = @{ $pools->{$name} };
		append_to_file($file, "$name = host=$host port=${\$node->port} user=$user dbname=${\($options{dbname} // $name)} pool_mode=$mode pool_size=$size\n");
	}
	append_to_file($file, <<"INI");
[pgbouncer]
listen_addr = $host
listen_port = $bouncer_port
unix_socket_dir =
auth_type = any
logfile = $dir/pgbouncer.log
ignore_startup_parameters = extra_float_digits
${\($options{bouncer} // '')}
INI
	$bouncer = IPC::Run::start([ '/usr/sbin/pgbouncer', '-q', $file ], '<', \undef, '>', '/dev/null', '2>', "$dir/pgbouncer.err");
	return;
}

# The standby has the same port at another address.
sub start_standby
{
	$node->backup('standby');
	$standby = PostgreSQL::Test::Cluster->new('standby', port => $node->port);
	$standby->init_from_backup($node, 'standby', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "listen_addresses = '$standby_host'\nunix_socket_directories = ''\n");
	$standby->{_host} = $standby_host; # for the tests' own sessions, once it is the primary
	$standby->start;
	return;
}

sub stop_servers
{
	$bouncer->kill_kill;
	undef $bouncer;
	@groups = ();
	$standby->stop if $standby;
	$node->stop;
	done_testing();
	return;
}

sub make_database
{
	my ($db) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, qq{
		CREATE EXTENSION pgq_ext;
		SELECT pgq_create_queue('mail', lease_time => '$lease_time', backoff_base => '100 ms', backoff_jitter => 0);
		CREATE TABLE sent (job_id bigint NOT NULL, address text NOT NULL, attempt int, last_error text, worker text);
		CREATE TABLE gate AS SELECT $first_gate AS sent, NULL AS open_to;
		CREATE FUNCTION deliver() RETURNS trigger LANGUAGE plpgsql AS \$\$
		BEGIN
			NEW.worker := (SELECT worker FROM pgq_ext.lease WHERE job_id = NEW.job_id);
			SELECT attempts + 1, job.last_error INTO NEW.attempt, NEW.last_error FROM pgq_ext.job WHERE job_id = NEW.job_id;
			WHILE (SELECT (SELECT count(*) FROM sent) >= gate.sent AND NEW.worker IS DISTINCT FROM open_to FROM gate) LOOP PERFORM pg_sleep(0.05); END LOOP;
			PERFORM pg_sleep(CASE WHEN NEW.address LIKE 'slow%' THEN $slow_work ELSE $work_time END);
			IF NEW.address LIKE 'full%' AND NEW.attempt = 1 THEN RAISE 'the mailbox is "full"'; END IF;
			RETURN NEW;
		END \$\$;
		CREATE TRIGGER deliver BEFORE INSERT ON sent FOR EACH ROW EXECUTE FUNCTION deliver();
		SELECT count(pgq_enqueue('mail', jsonb_build_object('to',
			CASE WHEN i = $jobs - 1 THEN 'slow' WHEN i % 10 = 0 THEN 'full' ELSE 'user' END || i || '\@example.org')))
		FROM generate_series(1, $jobs) i});
	return;
}

# ---- workers ----

# build COMMAND...: compiles an example in the copied tree
sub build
{
	my (@command) = @_;
	my ($out, $ok) = ('');
	$ok = IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>&1', IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	ok($ok, "$command[0] builds it") or die $out;
	return;
}

# build_go PROGRAM, FILE: compiles with Debian's packages; the tests share a cache
sub build_go
{
	my ($program, $file) = @_;
	local @ENV{qw(GOPATH GO111MODULE GOCACHE)} = ('/usr/share/gocode', 'off', "$ENV{TESTDATADIR}/go");
	build('go', 'build', '-o', $program, $file);
	return;
}

# Returns (standard output, standard error) of a program.
sub answer_of
{
	my (@command) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return ($out, $err);
}

# with_odd_error FILE, PATTERN, LINE: returns a copy of the example with LINE before the first line that matches
sub with_odd_error
{
	my ($file, $pattern, $line) = @_;
	my $copy = PostgreSQL::Test::Utils::tempdir_short() . '/' . basename($file);
	my $text = slurp_file($file);
	$text =~ s/^(?=[^\n]*$pattern)/$line\n/m or die "no line of $file matches $pattern";
	append_to_file($copy, $text);
	return $copy;
}

sub port_of { return $_[0] =~ /^(?:direct|nowhere)$/ ? $node->port : $bouncer_port }
sub hosts_of { return $_[0] eq 'direct' ? ($standby_host, $host) : $host }

# database_url WAY, LABEL [, HOST]: returns postgres://..., with HOST only, or with all hosts of the way
sub database_url
{
	my ($way, $label, @hosts) = @_;
	@hosts = hosts_of($way) if !@hosts;
	my $hosts = join ',', map { "$_:${\port_of($way)}" } @hosts;
	return "postgres://$user\@$hosts/$way?application_name=$label" . (@hosts > 1 ? '&target_session_attrs=read-write' : '');
}

# start_worker WAY, LETTER, COMMAND: COMMAND is a list, or a function of way and label that returns one
sub start_worker
{
	my ($way, $letter, $command) = @_;
	my $label  = "worker_$letter";
	my $worker = { way => $way, label => $label, output => '' };
	my @hosts = hosts_of($way);
	local @ENV{qw(PGHOST PGPORT PGDATABASE PGUSER PGAPPNAME DATABASE_URL PGTARGETSESSIONATTRS)} =
	  (join(',', @hosts), port_of($way), $way, $user, $label, database_url($way, $label), @hosts > 1 ? 'read-write' : 'any');
	my @command = ref $command eq 'CODE' ? $command->($way, $label) : @$command;
	$worker->{run} = IPC::Run::start([ 'setsid', @command ], '<', \undef, '>', \$worker->{output}, '2>&1',
		IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
	$worker->{pid} = $worker->{run}->{KIDS}[0]{PID};
	push @groups, $worker->{pid};
	return $worker;
}

# Kills the worker and its helper processes of that name, as if the machine had died. A separate heartbeat process is
# left, and must notice by itself.
sub kill_worker
{
	my ($pid, $helper) = @_;
	kill KILL => $pid;
	return if !$helper;
	for my $process (map { m{(\d+)$} } glob '/proc/[0-9]*')
	{
		my $stat = eval { slurp_file("/proc/$process/stat") } // next; # it has just gone
		kill KILL => $process if $stat =~ /^\d+ \(\Q$helper\E\) \S+ \d+ $pid /;
	}
	return;
}

# A connection error at the start must end the worker with an error.
sub fails_at_first
{
	my $worker = start_worker('nowhere', 'x', @_);
	my $finished = quietly(sub { $worker->{run}->finish });
	@groups = grep { $_ != $worker->{pid} } @groups if $finished;
	ok($finished && $worker->{run}->full_result != 0, 'a database that there is not ends it with an error') or diag($worker->{output});
	like($worker->{output}, qr/nowhere/, '... which says so');
	return;
}

sub count_in { return $node->safe_psql($_[0], "SELECT count(*) FROM $_[1]") }

# Lets the work go on in small steps until the worker has at least that many jobs.
sub catch_worker
{
	my ($worker, $least) = @_;
	my ($way, $label) = @$worker{qw(way label)};
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if count_in($way, "pgq_ext.lease WHERE worker = '$label'") >= $least;
		$node->safe_psql($way, "UPDATE gate SET sent = (SELECT count(*) + 1 FROM sent) WHERE sent < $last_gate");
		select(undef, undef, undef, 0.1);
	}
	quietly(sub { $worker->{run}->pump_nb });
	diag($worker->{output});
	die "$way: $label never has $least jobs in hand";
}

sub wait_for_sent
{
	my ($way, $number, @workers) = @_;
	return if $node->poll_query_until($way, "SELECT count(*) >= $number FROM sent");
	quietly(sub { $_->{run}->pump_nb }), diag("$way: $_->{label}: $_->{output}") for @workers;
	die "$way: $number are never sent";
}

# Java's exit status says that a signal caused its shutdown.
sub ends
{
	my ($worker, $when) = @_;
	my $finished = quietly(sub { $worker->{run}->finish });
	my $status = $finished ? $worker->{run}->full_result : -1;
	@groups = grep { $_ != $worker->{pid} } @groups if $finished;
	ok($status == 0 || $status >> 8 == 143, "$worker->{way}: $worker->{label} ends $when") or diag("status $status\n$worker->{output}");
	return;
}

# Sends SIGTERM and waits until the worker has noticed: the kernel has delivered the signal, and a runtime that
# handles it later has had half a second.
sub tell_to_stop
{
	my ($worker) = @_;
	kill TERM => $worker->{pid};
	for (1 .. 100)
	{
		my ($pending) = (eval { slurp_file("/proc/$worker->{pid}/status") } // '') =~ /^ShdPnd:\s*[0-9a-f]*([0-9a-f]{4})$/m;
		last if !(hex($pending // 0) & 1 << 14);
		select(undef, undef, undef, 0.1);
	}
	select(undef, undef, undef, 0.5);
	return;
}

# A worker that is told to stop finishes the jobs that it has begun. The work goes on only after the worker has
# noticed.
sub stop_worker
{
	my ($worker) = @_;
	my ($way, $label) = @$worker{qw(way label)};
	tell_to_stop($worker);
	$node->safe_psql($way, "UPDATE gate SET open_to = '$label'");
	ends($worker, 'when it is told to');
	is(count_in($way, "pgq_ext.lease WHERE worker = '$label'"), '0', '... and has nothing in hand');
	is($worker->{output}, '', '... and had nothing to complain about');
	return;
}

# Waits until each worker reports that it has lost its connection.
sub wait_for_complaints
{
	for my $worker (@_)
	{
		for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			quietly(sub { $worker->{run}->pump_nb }) or last;
			last if $worker->{output} ne '';
			select(undef, undef, undef, 0.1);
		}
		isnt($worker->{output}, '', "$worker->{way}: $worker->{label} says that its connection is lost");
	}
	return;
}

# Stops the server as in a crash, while the workers have jobs. One of them is told to stop while there is no server.
sub restart_server
{
	my ($told, @others) = @_;
	$node->stop('immediate');
	wait_for_complaints($told, @others);
	kill TERM => $told->{pid};
	ends($told, 'when it is told to, also while there is no server');
	$node->start;
	return;
}

# ---- the test ----

# Three workers in each way: one is killed, one is told to stop, and one goes on after a restart of the server.
sub test_three_ways
{
	my ($command, %options) = @_;
	my %worker;
	fails_at_first($command);
	for my $way (@ways)
	{
		$worker{$way}{$_} = start_worker($way, $_, $command) for 'a' .. 'c';
	}
	for my $way (@ways)
	{
		my ($a, $b) = @{ $worker{$way} }{qw(a b)};
		wait_for_sent($way, $first_gate, values %{ $worker{$way} });
		catch_worker($a, 1);
		kill_worker($a->{pid}, $options{helper});
		catch_worker($b, $options{at_once} // 1);
		is(count_in($way, "pgq_ext.lease WHERE worker = '$b->{label}'"), $options{at_once} // 1, "$way: $b->{label} has claimed what it can start");
		stop_worker($b);
	}
	wait_for($node, q{EXISTS (SELECT FROM pgq_ext.attempt WHERE worker = 'worker_a' AND outcome = 'lost') AND NOT EXISTS (SELECT FROM pgq_ext.lease WHERE worker = 'worker_a')}, $_)
	  for @ways;
	my $d = start_worker('direct', 'd', $command);
	my @c = map { $worker{$_}{c} } @ways;
	catch_worker($_, 1) for $d, @c;
	restart_server($d, @c);
	$node->safe_psql($_, "UPDATE gate SET sent = $jobs + 1") for @ways;
	for my $c (@c)
	{
		my $way = $c->{way};
		wait_for_sent($way, $jobs, $c);
		pass("$way: $c->{label} goes on when the server is back");
		quietly(sub { $c->{run}->pump_nb }) for 1 .. 9; # what it has said so far
		$c->{output} = '';
		stop_worker($c);
		quietly(sub { $worker{$way}{a}{run}->finish });
		check_effects($way, $options{at_once} // 1);
	}
	return;
}

# worker_test FILE, option => value...
#   command => sub { PROGRAM, WAY, LABEL }: returns the command that starts the worker
#   build   => sub { FILE }: builds the example and returns PROGRAM; without it PROGRAM is FILE
#   odd     => [ PATTERN, LINE ]: inserts LINE before the first line that matches; it fails with an odd text for an address "odd..."
#   at_once => N: number of jobs that the worker runs at the same time
#   helper  => PROGRAM: the program that the worker runs for each statement
# SCENARIO in the environment runs only the scenarios whose name matches.
sub worker_test
{
	my ($file, %options) = @_;
	my $command_of = sub
	{
		my $program = $options{build} ? $options{build}->(@_) : $_[0];
		return sub { $options{command}->($program, @_) };
	};
	my $command = $command_of->($file);
	start_servers(bouncer => "server_login_retry = 1\nquery_wait_timeout = 20"); # it is as patient as 120 s
	start_standby();
	make_database($_) for @ways;
	if (!$ENV{SCENARIO})
	{
		test_three_ways($command, %options);
		check_odd_errors($command_of->(with_odd_error($file, @{ $options{odd} })));
	}
	run_example_scenarios($file, $node, $standby, sub { my ($way, $name) = @_; return start_worker($way, $name, $command) });
	stop_servers();
	return;
}

# Ends all processes of a test that dies.
END
{
	my $status = $?;
	quietly(sub { $bouncer->kill_kill }) if $bouncer;
	kill KILL => map { -$_ } @groups;
	$? = $status;
}

# AT_ONCE: how many jobs a worker runs at the same time
sub check_effects
{
	my ($way, $at_once) = @_;
	my $killed = q{SELECT job_id FROM pgq_ext.attempt WHERE worker = 'worker_a' AND outcome = 'lost'};
	my $count = sub { return count_in($way, "sent WHERE $_[0]") };
	is($node->safe_psql($way, 'SELECT count(*), count(DISTINCT job_id) FROM sent'), "$jobs|$jobs", "$way: each effect is there once");
	is(count_in($way, $_), '0', "... and nothing is left in $_") for qw(pgq_ext.job pgq_ext.dead_job pgq_ext.lease);
	is($count->("address LIKE 'full%' AND attempt = 1"), '0', '... those that failed were tried again');
	# The server ends its sessions one after the other. So a worker that loses the session of its work may still report
	# the failure in the session of its heartbeat.
	my $cut_off = q{SELECT job_id FROM pgq_ext.attempt WHERE worker IN ('worker_c', 'worker_d') AND outcome = 'failed' AND error NOT LIKE '%mailbox%'};
	my $other_error = "address LIKE 'full%' AND job_id NOT IN ($killed) AND last_error NOT LIKE '%the mailbox is \"full\"%'";
	my $again = "address NOT LIKE 'full%' AND job_id NOT IN ($killed) AND attempt > 1";
	is($count->("$other_error AND job_id NOT IN ($cut_off)"), '0', '... and it was said why');
	isnt($count->("job_id IN ($killed)"), '0', '... some were lost with the worker that was killed');
	is($count->("job_id IN ($killed) AND (worker = 'worker_a' OR attempt = 1)"), '0', '... and done by others');
	is($count->("$again AND job_id NOT IN ($cut_off)"), '0', '... no other was begun twice, also the slow one, by its heartbeat');
	cmp_ok($count->("$again OR $other_error"), '<=', ($way eq 'direct' ? 2 : 1) * $at_once, '... but for those in work when the server stopped');
	is($node->safe_psql($way, 'SELECT pgq_check()'), '', '... and all is well');
	return;
}

# The work fails with a text that PostgreSQL cannot store: the job is failed with as much of the text as possible, and
# no other job loses an attempt. A job that reaches a worker after it was told to stop is released.
sub check_odd_errors
{
	my ($command) = @_;
	$node->safe_psql('direct', qq{
		UPDATE gate SET sent = 2 * $jobs;
		SELECT pgq_enqueue('mail', '{"to": "odd\@example.org"}', max_attempts => 1, priority => 1),
		       pgq_enqueue('mail', '{"to": "next\@example.org"}'), pgq_enqueue('mail', '{"to": "next\@example.org"}')});
	my $worker = start_worker('direct', 'e', $command);
	wait_for_sent('direct', $jobs + 2, $worker);
	wait_for($node, 'EXISTS (SELECT FROM pgq_ext.dead_job)', 'direct');
	like($node->safe_psql('direct', 'SELECT last_error FROM pgq_ext.dead_job'), qr/odd .*text/, 'an odd text of an error is told as far as it can be');
	is(count_in('direct', "sent WHERE address LIKE 'next%' AND attempt = 1"), '2', '... and other jobs lose no attempt');
	tell_to_stop($worker);
	$node->safe_psql('direct', q{SELECT pgq_enqueue('mail', '{"to": "late@example.org"}')});
	ends($worker, 'when it is told to, also while it waits for a job');
	is($worker->{output}, '', '... and has nothing to complain about');
	is($node->safe_psql('direct', 'SELECT state, attempts FROM pgq_ext.job_status'), 'ready|0', '... and gives back a job that comes then');
	return;
}

1;
