# Two nodes of examples/high-availability, a load on both nodes, and a ledger that is kept outside of the nodes.
package FailoverTest;
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use Time::HiRes qw(usleep time);
use Exporter 'import';

our @EXPORT = qw(start_nodes stop_nodes ha sql sql_on sqlstate_on url_of primary standby node_pid wait_until wait_until_whole
  wait_until_moved start_load stop_load ledger events check_synchronous seconds);

# Die on a signal, so that END stops the nodes.
$SIG{TERM} = $SIG{INT} = sub { die "died by a signal\n" };

my ($script, $dir, $url, %port, $load, $ledger);

# ---- nodes ----

# ha COMMAND, NODE: runs the script, and returns its output
sub ha
{
	my ($command, @node) = @_;
	my ($out, $err) = ('', '');
	# In a process group of its own. The processes that it leaves running hold only the pipes of the
	# logs.
	my $ok = IPC::Run::run([ $script, $command, $dir, @node ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(2 * $PostgreSQL::Test::Utils::timeout_default));
	die "$command @node: $out$err" if !$ok;
	chomp $out;
	return $out;
}

# start_nodes SCRIPT, VARIABLE => VALUE...: starts both nodes, and creates the objects of the load
sub start_nodes
{
	my ($name, %environment) = @_;
	$script = "$ENV{TESTDIR}/examples/high-availability/$name.sh";
	$dir    = PostgreSQL::Test::Utils::tempdir_short();
	local @ENV{ keys %environment, qw(FAST EXTRA_CONF TIMEOUT) } = (values %environment, 1, "fsync = off\njit = off", $PostgreSQL::Test::Utils::timeout_default);
	$url = ha('start') . '&connect_timeout=3';
	%port = slurp_file("$dir/ports") =~ /^(\w+)_port=(\d+)$/mg;
	sql(q{
		SELECT pgq_create_queue('jobs', lease_time => '1 min', backoff_base => '100 ms', max_attempts => 1000);
		SELECT pgq_create_queue('ticks', lease_time => '1 min', backoff_base => '100 ms', max_attempts => 1000);
		CREATE TABLE effect (key text);
		CREATE TABLE lock_effect (token bigint);
		CREATE TABLE run_effect (name text)});
	return;
}

# Stops the nodes, and checks their logs for crashes.
sub stop_nodes
{
	ha('stop');
	my @bad = grep { /PANIC|TRAP:|signal (?:4|5|6|7|8|11)\b/ } map { split /\n/, slurp_file($_) } glob "$dir/*.log $dir/[ab]/log/* $dir/[ab]/startup.log";
	is(join("\n", @bad), '', 'no server has crashed by itself');
	undef $dir;
	return;
}

END
{
	my $status = $?;
	kill KILL => $load->{KIDS}[0]{PID} if $load;
	if (defined $dir)
	{
		diag("$_\n" . join '', (split /^/, slurp_file($_))[-8 .. -1]) for grep { -s $_ > 3000 } glob "$dir/*.log";
		eval { ha('stop') };
	}
	$? = $status;
}

sub url_of { return "postgresql://postgres\@127.0.0.1:$port{$_[0]}/postgres?connect_timeout=3" }

# Returns (output, errors, success).
sub psql
{
	my ($to, $sql, @options) = @_;
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', @options, $to ], '<', \$sql, '>', \$out, '2>', \$err);
	chomp $out;
	return ($out, $err, $ok);
}

sub sql_on
{
	my ($node, $sql) = @_;
	my ($out, $err, $ok) = psql($node ? url_of($node) : $url, $sql);
	die "$sql: $err" if !$ok;
	return $out;
}

sub sql { return sql_on(undef, @_) }

sub sqlstate_on
{
	my ($node, $sql) = @_;
	my (undef, $err) = psql(url_of($node), $sql, '-v', 'VERBOSITY=verbose');
	return $err =~ /(?:ERROR|FATAL):  ([0-9A-Z]{5}): / ? $1 : $err;
}

sub wait_until
{
	my ($what, $condition) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $nap = 100_000;
	until (eval { $condition->() })
	{
		die "waited in vain until $what ($@)\n" . eval { ha('state') } if time > $end;
		usleep($nap);
		$nap *= 1.2 if $nap < 1_000_000; # most questions take several processes
	}
	return;
}

sub primary { return sql('SELECT inet_server_port()') == $port{a} ? 'a' : 'b' }
sub standby { return primary() eq 'a' ? 'b' : 'a' }

# Waits until both nodes are up, and the primary waits for the standby (unless $state allows an
# asynchronous one).
sub wait_until_whole
{
	my ($state) = @_;
	wait_until('both nodes are there', sub { sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state IN ('$state')") eq '1' && ha('whole') eq 'yes' });
	return;
}

sub wait_until_moved
{
	my ($to) = @_;
	wait_until("$to is the primary", sub { primary() eq $to });
	return;
}

sub seconds { return sprintf '%.1f s', time - $_[0] }

# ---- load ----

sub start_load
{
	my ($name) = @_;
	sql("SELECT pgq_schedule('tick', '* * * * * *', 'ticks', missed => 'all')");
	$ledger = "$ENV{TESTDATADIR}/ledger_$name";
	append_to_file($ledger, '');
	$load = IPC::Run::start([ '/usr/bin/python3', "$ENV{TESTDIR}/test/failover/load.py", $ledger, $url ], '<', \undef, '>&', \*STDERR);
	return;
}

# Waits until all enqueued jobs are done.
sub stop_load
{
	kill TERM => $load->{KIDS}[0]{PID};
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while ($load->pumpable)
	{
		die "the load does not end\n" . sql('SELECT * FROM pgq_ext.queue_status; SELECT * FROM pgq_ext.job_status LIMIT 9') if time > $end;
		eval { $load->pump_nb }; # it may have ended since
		usleep(100_000);
	}
	$load->finish or die 'the load has failed';
	undef $load;
	return;
}

# Returns the events so far: [time, event, fields...]
sub ledger { return map { [ split /\t/ ] } split /\n/, slurp_file($ledger) }
sub events { my ($what, @ledger) = @_; return grep { $_->[1] eq $what } @ledger }

# ---- promises of a synchronous standby ----

sub check_synchronous
{
	my @ledger = ledger();
	my (%enqueued, %accepted, %unknown, %twice, %asked);
	for (@ledger)
	{
		my (undef, $what, $key) = @$_;
		$enqueued{$key} = $_->[3] if $what eq 'enqueued';
		$asked{$key}++ if $what eq 'enqueue?';
		$unknown{$key}++ if $what eq 'unknown';
		$twice{$key}++ if $what eq 'acked' && $accepted{$key}++;
	}
	my %number = map { $_ => scalar events($_, @ledger) } qw(enqueued acked stale unknown broken locked refused done);
	note join ', ', map { "$number{$_} $_" } sort keys %number;
	cmp_ok($number{$_}, '>', 5, "there were some: $_") for qw(enqueued acked locked done);
	is(join(' ', grep { !$accepted{$_} && !$unknown{$_} } keys %enqueued), '', 'no acknowledged enqueue is lost');
	is(join(' ', keys %twice), '', 'no acknowledged ack is undone: no job has two');
	is(sql('SELECT key FROM effect GROUP BY key HAVING count(*) > 1'), '', '... no effect is there twice');
	my %effect = map { $_ => 1 } split /\n/, sql('SELECT key FROM effect');
	is(join(' ', grep { !$asked{$_} && !/:/ } keys %effect), '', '... and none that nobody has asked for');

	my %tick = map { $_->[2] => 1 } grep { $_->[2] =~ /:/ } events('ack?', @ledger);
	my ($first, @rest) = sort keys %tick;
	is(sql("SELECT count(*) FROM generate_series('$first'::timestamptz, '$rest[-1]', '1 s')"), 1 + @rest, 'each tick of the schedule has come');

	my ($newest, $late) = (0, 0);
	my %sent_at_newest;
	for (@ledger)
	{
		my (undef, $what, $token) = @$_;
		$newest = $token if $what eq 'locked' && $token > $newest;
		$sent_at_newest{$token} = $newest if $what eq 'assert?';
		$late++ if $what eq 'asserted' && $sent_at_newest{$token} > $token;
	}
	is($late, 0, 'a lock that somebody else has got later is refused to who had it');
	my @tokens = map { $_->[2] } events('locked', @ledger);
	is(scalar(keys %{ { map { $_ => 1 } @tokens } }), scalar @tokens, '... and no token was given twice');
	is(sql('SELECT name FROM run_effect GROUP BY name HAVING count(*) > 1'), '', 'what is to be run once has run once');
	my %ran = map { $_ => 1 } split /\n/, sql('SELECT name FROM run_effect');
	is(join(' ', grep { !$ran{$_} } map { $_->[2] } events('done', @ledger)), '', '... and is done');
	is(sql('SELECT pgq_check()'), '', 'and all is well');
	return;
}

1;
