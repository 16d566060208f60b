# When schedulers are started, and when they are not: no scheduler for a database that needs none, no crash loop, and
# no log line without a cause.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nrestart_after_crash = on\nlog_min_messages = debug1\n");
$node->start;

sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
sub log_from { return slurp_file($node->logfile, $_[0]) }
sub log_end { return -s $node->logfile }

# So often has a scheduler been started for that database since then.
sub starts
{
	my ($oid, $from) = @_;
	my @lines = log_from($from) =~ /starting background worker process "pgq_ext scheduler for database $oid"/g;
	return scalar @lines;
}
sub oid_of { return sql("SELECT oid FROM pg_database WHERE datname = '$_[0]'") }

# Returns the pid of the next scheduler for that database, as soon as its process is there: by its title, since on a busy
# machine a session would begin only after the first seconds of the scheduler.
sub started_after
{
	my ($before, $oid) = @_;
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	for (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		for my $title (glob '/proc/[0-9]*/cmdline')
		{
			my ($pid) = $title =~ /(\d+)/;
			next if $pid == $before || !-e $title || eval { slurp_file($title) } !~ /pgq_ext scheduler for database $oid\b/;
			return $pid if eval { slurp_file("/proc/$pid/stat") } =~ /\) \w $postmaster /;
		}
		usleep(10_000);
	}
	return;
}

# The launcher has looked at all databases twice since then: it does every two seconds.
sub wait_for_looks
{
	my $log = log_end();
	sql('CREATE DATABASE looked_at');
	my $oid = oid_of('looked_at');
	for (1 .. 2)
	{
		ok($node->wait_for_log(qr/starting background worker process "pgq_ext scheduler for database $oid"/, $log), 'the launcher looks') or return;
		$log = log_end();
		# ... at one that it has not seen yet, next.
		sql('DROP DATABASE looked_at; ');
		sql('CREATE DATABASE looked_at');
		$oid = oid_of('looked_at');
	}
	sql('DROP DATABASE looked_at');
	return;
}

# ---- a database without queues takes no worker ----

{
	sql("CREATE DATABASE $_") for 'one', 'two';
	sql('CREATE EXTENSION pgq_ext', $_) for 'one', 'two';
	wait_for($node, q{count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler'});
	wait_for_looks();
	is(workers($node, 'scheduler'), '0', 'no scheduler where no queue is');
	sql(q{BEGIN; SELECT pgq_create_queue('undone'); ROLLBACK}, 'one');
	create_queue($node, 'q', '', 'one');
	wait_for_scheduler($node, 'one');
	is(workers($node, 'scheduler'), '1', 'it comes with the first queue');
	sql(q{SELECT pgq_enqueue('q', '1'); BEGIN; SELECT count(*) FROM pgq_claim('q'); ROLLBACK}, 'one');
	is(sql(q{SELECT attempt, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s')}, 'one'), '2|', '... and serves');
	sql(q{SELECT pgq_drop_queue('q')}, 'one');
	wait_for($node, q{count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler'});
	pass('... and leaves with the last one');

	# By another door.
	create_queue($node, 'template', '', 'two');
	wait_for_scheduler($node, 'two');
	$node->command_ok([ 'sh', '-c', "pg_dump -a -t pgq_ext.queue -d '" . $node->connstr('two') . "' | psql -X -v ON_ERROR_STOP=1 -d '" . $node->connstr('one') . "'" ],
		'rows of queues come by a restore');
	wait_for_scheduler($node, 'one');
	pass('... and are served');
	sql('DELETE FROM pgq_ext.queue', 'one');
	wait_for($node, q{count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND datname = 'one'});
	pass('... until they go');
	$node->command_ok([ 'sh', '-c', "pg_dump -a --disable-triggers -t pgq_ext.queue -d '" . $node->connstr('two') . "' | psql -X -v ON_ERROR_STOP=1 -d '" . $node->connstr('one') . "'" ],
		'while triggers are off');
	sql(q{SELECT count(*) FROM pgq_claim('template')}, 'one');
	wait_for_scheduler($node, 'one');
	pass('... they are served when somebody uses the queue');
}

# ---- DROP DATABASE leaves no trace ----

{
	my $log = log_end();
	for my $round (1 .. 15)
	{
		sql('CREATE DATABASE short_lived TEMPLATE template0');
		sql(q{CREATE EXTENSION pgq_ext}, 'short_lived');
		sql(q{SELECT pgq_create_queue('q')}, 'short_lived') if $round % 3;
		wait_for_scheduler($node, 'short_lived') if $round % 3 == 2;
		sql('DROP DATABASE short_lived');
	}
	is(join("\n", grep { /FATAL|ERROR|exited with exit code [1-9]/ } split /\n/, without_ended_schedulers($node, log_from($log))),
		'', 'CREATE and DROP DATABASE, 15 times: no complaint in the log');

	# What an interrupted DROP DATABASE leaves.
	sql('CREATE DATABASE half_dropped');
	my $oid = oid_of('half_dropped');
	sql(q{UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'half_dropped'});
	wait_for_looks();
	$log = log_end();
	wait_for_looks();
	is(starts($oid, $log), 0, 'none is started in a database that cannot be connected to');
	sql('DROP DATABASE half_dropped');
}

# ---- a launcher that is new ----

{
	my $log = log_end();
	my %before = map { $_ => wait_for_scheduler($node, $_) } 'one', 'two';
	my $launcher = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgq_ext launcher'});
	sql("SELECT pg_terminate_backend($launcher, 60000)");
	wait_for($node, "count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgq_ext launcher' AND pid <> $launcher");
	wait_for_looks();
	is(scheduler_pid($node, $_), $before{$_}, "a new launcher: the scheduler of $_ stays") for 'one', 'two';
	cmp_ok(starts(oid_of($_), $log), '<=', 1, '... and no other is started again and again') for 'one', 'two';
	sql("SELECT pg_terminate_backend($before{one}, 60000)");
	isnt(wait_for_scheduler($node, 'one', $before{one}), $before{one}, '... but when it ends');
}

# ---- one that crashes ----

{
	sql('CHECKPOINT'); # or the server would drop databases again that are gone
	my ($log, $pid, $oid) = (log_end(), scheduler_pid($node, 'two'), oid_of('two'));
	my $crashed = qr/the scheduler of pgq_ext for database $oid has crashed \d+ times in a row/;
	for my $round (1 .. 20)
	{
		last if log_from($log) =~ $crashed;
		kill 'KILL', $pid;
		$pid = started_after($pid, $oid) or last;
	}
	like(log_from($log), $crashed, 'a scheduler that crashes as soon as it is started is started later and later');
	wait_for_scheduler($node, 'one');
	unlike(log_from($log), qr/for database ${\oid_of('one')} has crashed/, '... another one at once');
}

# ---- no room ----

{
	$node->append_conf('postgresql.conf', "max_logical_replication_workers = 0\nmax_worker_processes = 2\n");
	my $log = log_end();
	$node->restart;
	ok($node->wait_for_log(qr/pgq_ext could not start all of its schedulers.*\n.*HINT:  Raise max_worker_processes \(now 2\) to 3 or more/, $log),
		'too few workers: the log says how many it should be');
}

$node->stop;
done_testing();
