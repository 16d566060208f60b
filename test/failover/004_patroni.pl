# Patroni and etcd, the standby synchronous: the primary dies, then the roles are changed as planned, under load. The examples'
# workers go on.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use Time::HiRes qw(time);
use FailoverTest;

start_nodes('patroni');
wait_until_whole('sync');
start_load('patroni');

my @queues = qw(psycopg sh);
my %program = (psycopg => [ '/usr/bin/python3', 'worker_psycopg.py' ], sh => [ 'bash', 'worker.sh' ]);
my %worker;
sql(q{CREATE TABLE sent (job_id bigint, address text, n bigserial, worker text DEFAULT current_setting('application_name'))});
sql(q{SELECT pgq_create_queue('mail', backoff_base => '100 ms', lease_time => '1 min', max_attempts => 1000)});
for my $name (@queues)
{
	my ($command, $file) = @{ $program{$name} };
	local @ENV{qw(PGHOST PGPORT PGUSER PGDATABASE PGTARGETSESSIONATTRS PGCONNECT_TIMEOUT PGAPPNAME)} =
	  ('127.0.0.1,127.0.0.1', join(',', map { url_of($_) =~ /:(\d+)/ } 'a', 'b'), 'postgres', 'postgres', 'read-write', 3, $name);
	$worker{$name} = IPC::Run::start([ $command, "$ENV{TESTDIR}/examples/high-availability/../$file" ], '<', \undef, '>', \my $out, '2>', \my $err);
}

# Each of them sends something from now on.
sub all_send
{
	my ($what) = @_;
	my $last = sql('SELECT coalesce(max(n), 0) FROM sent');
	wait_until("the examples work $what", sub {
		sql(q{SELECT count(pgq_enqueue('mail', '{"to": "ada@example.org"}')) FROM generate_series(1, 5)
			WHERE (SELECT count(*) < 20 FROM pgq_ext.job_status WHERE queue = 'mail')});
		return sql("SELECT count(DISTINCT worker) FROM sent WHERE n > $last") == @queues;
	});
	pass("the examples work $what");
	return;
}

sub goes_on
{
	my ($what, $from, $to, $change) = @_;
	my $start = time;
	$change->();
	wait_until_moved($to);
	note "$what: $to takes work after " . seconds($start);
	all_send("after $what");
	return $start;
}

all_send('first');
my ($dies, $follows) = (primary(), standby());
my $start = goes_on('a death', $dies, $follows, sub { ha('kill', $dies) });
ha('run', $dies);
wait_until_whole('sync');
pass("$dies is the standby again, " . seconds($start) . ' after its death');
my ($job, $lease) = split /\|/, sql(q{
	SELECT pgq_create_queue('held') \gset
	SELECT pgq_enqueue('held', '1') \gset
	SELECT job_id, lease FROM pgq_claim('held', lease_time => '1 hour')});
goes_on('a switch', $follows, $dies, sub { ha('switch') });
is(sql("SELECT pgq_extend($job, $lease) IS NOT NULL"), 't', '... and who has a job keeps it');
sql("SELECT pgq_ack($job, $lease)");
wait_until_whole('sync');
wait_until('all are sent', sub { sql(q{SELECT count(*) = 0 FROM pgq_ext.job_status WHERE queue = 'mail'}) eq 't' });
is(sql('SELECT count(*) = count(DISTINCT job_id) FROM sent'), 't', 'each is sent once');
kill TERM => map { $_->{KIDS}[0]{PID} } values %worker;
ok(eval { $worker{$_}->finish }, "worker $_ ends when it is told to") for @queues;
stop_load();
check_synchronous();
stop_nodes();
done_testing();
