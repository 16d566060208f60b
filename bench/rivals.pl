#!/usr/bin/perl
# Makes tables of the results of bench/rivals.sh.
#
#   bench/rivals.pl DIR         prints the tables
#   bench/rivals.pl DIR docs    writes docs/benchmarks-rivals.md
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Results;

my ($dir, $docs) = @ARGV;
die "usage: $0 DIR [docs]\n" unless defined $dir;
read_results($dir);

my @sides = qw(rows pgq_ext ack_claim pgmq pgq graphile_worker graphile_worker_node pg_boss pg_boss_node
  redis_list redis_stream rabbitmq rabbitmq_prefetch rabbitmq_quorum beanstalkd);
my %side_name = (
	rows => '*ceiling*',
	pgq_ext => '**pgq_ext**',
	ack_claim => '**pgq_ext**, `pgq_ack_claim`',
	pgmq => 'pgmq',
	pgq => 'PgQ',
	graphile_worker => 'graphile-worker, its SQL',
	graphile_worker_node => 'graphile-worker, Node',
	pg_boss => 'pg-boss, its SQL',
	pg_boss_node => 'pg-boss, Node',
	redis_list => 'Redis, list',
	redis_stream => 'Redis, stream',
	rabbitmq => 'RabbitMQ',
	rabbitmq_prefetch => 'RabbitMQ, prefetch 100',
	rabbitmq_quorum => 'RabbitMQ, quorum queue',
	beanstalkd => 'beanstalkd');

# Return the sides that took part in a workload.
sub present
{
	my $workload = shift;
	return grep { my $side = $_; grep { $_->{$side} } values %{ $rounds{$workload} } } @sides;
}

# Make a line for each side: its rate in each case, and by what factor pgq_ext is faster.
sub rates
{
	my $workload = shift;
	my @cases = @{ $cases{$workload} };
	my @rows;
	for my $side (present($workload))
	{
		my @cells;
		for my $case (@cases)
		{
			my $value = value($workload, $case, $side);
			push @cells, defined $value ? rate($value) : '-', fixed('%.2f', ratio(value($workload, $case, 'pgq_ext'), $value)) || '-';
		}
		push @rows, [ $side_name{$side}, @cells ];
	}
	return table([ 'jobs/s', map { (case_name($_), 'pgq_ext / this') } @cases ], @rows);
}

sub latencies
{
	my $workload = shift;
	my @parts = qw(p50 p95 p99 max);
	my @rows;
	for my $case (grep { /^\d+$/ } @{ $cases{$workload} })
	{
		for my $side (present($workload))
		{
			next unless defined value($workload, $case, $side, 'send_p50');
			push @rows, [ grouped($case) . " jobs/s, $side_name{$side}",
				(map { my $from = $_; map { fixed('%.2f', value($workload, $case, $side, "${from}_$_")) } @parts } qw(send commit)) ];
		}
	}
	return table([ 'ms', (map { "$_ from sending" } @parts), map { "$_ from the answer" } @parts ], @rows);
}

# Make a table of the rates while a snapshot is held, and of their share of the rates without a snapshot.
sub held
{
	my @forms = ([ 'enqueue', 'client 32' ], [ 'claim', 'client 32' ], [ 'bulk', 'bulk 100', 'claim' ], [ 'life', 'client 32' ]);
	my @rows;
	for my $side (present('held'))
	{
		my @cells;
		for (@forms)
		{
			my ($case, $form, $workload) = @$_;
			my $value = value('held', $case, $side);
			push @cells, defined $value ? rate($value) : '-', fixed('%.2f', ratio($value, value($workload // $case, $form, $side))) || '-',
				fixed('%.2f', ratio(value('held', $case, 'pgq_ext'), $value)) || '-';
		}
		push @rows, [ $side_name{$side}, @cells ];
	}
	return table([ 'jobs/s', map { ($_, '/ without', 'pgq_ext / this') } 'enqueue', 'claim and ack', '100 a call', 'whole life' ], @rows) .
		"\nFrom enqueue to the worker that waits, while the same snapshot is held:\n\n" . latencies('held');
}

# The goals of pgq_ext: the whole life of a job is faster than in Redis, and no other queue in PostgreSQL is ahead in
# any row.
sub goals
{
	my @rows;
	for my $side (qw(redis_list redis_stream))
	{
		my $ratio = ratio(map { value('life', 'client 32', $_) } 'ack_claim', $side) // next;
		my $ceiling = ratio(map { value('life', 'client 32', $_) } 'rows', $side);
		push @rows, [ "whole life by `pgq_ack_claim`, 32 clients, against $side_name{$side}", '> 1', sprintf('%.2f', $ratio), fixed('%.2f', $ceiling), $ratio > 1 ? 'reached' : '**not reached**' ];
	}
	my @ahead;
	for my $workload (qw(enqueue claim life))
	{
		for my $case (@{ $cases{$workload} // [] })
		{
			for my $side (qw(pgmq pgq graphile_worker graphile_worker_node pg_boss pg_boss_node))
			{
				my $ratio = ratio(map { value($workload, $case, $_) } 'pgq_ext', $side) // next;
				push @ahead, "$workload, " . case_name($case) . ": $side_name{$side}" if $ratio < 1;
			}
		}
	}
	push @rows, [ 'queues in PostgreSQL that are ahead of `pgq_claim` and `pgq_ack`, or of the enqueue', '0', scalar @ahead, '', @ahead ? join('; ', @ahead) : 'reached' ];
	return table([ 'goal', 'wanted', 'measured', 'the ceiling', 'result' ], @rows);
}

my @sections = (
	[ 'enqueue', 'Enqueue',
		'Jobs are only enqueued; no worker runs. Either 1 or 32 clients enqueue one job a call, or one client enqueues 100 jobs a call. How the 100 jobs are sent ' .
		'depends on the queue: as an array, a pipeline or a batch of messages.', sub { rates('enqueue') } ],
	[ 'claim', 'Claim and ack',
		'Either 1 or 32 clients claim and acknowledge one job at a time, and wait for each answer; or one client has 100 jobs at a time. There are ' .
		'always enough jobs, so each claim returns some. A consumer of PgQ always gets all events between two ticks (here 100 events), so PgQ has no figures for single jobs.', sub { rates('claim') } ],
	[ 'life', 'The whole life of a job',
		'Each client enqueues a job, claims a job and acknowledges it, one at a time or 100 at a time, while 20,000 other jobs wait. `pgq_ack_claim` ' .
		'acknowledges the last job and claims the next in one call. PgQ is missing here, because its jobs wait for the next tick: see the next section.', sub { rates('life') } ],
	[ 'latency', 'From enqueue to the worker that waits',
		'Jobs are enqueued one a call at a steady rate, while 16 workers wait (one consumer for PgQ). The figures are milliseconds until the worker ' .
		'has the job. "From sending" begins when the enqueue is sent, so it includes the time until the job is durable. "From the answer" begins ' .
		'when the enqueuing client has its answer; it is negative if a queue hands out a job before it answers the enqueue.', sub { latencies('latency') } ],
	[ 'held', 'While a snapshot is held',
		'This section compares only the queues in PostgreSQL, by the SQL that they run. Another session has a `REPEATABLE READ` transaction open all ' .
		'the time, as a report or a dump does, so VACUUM cannot remove any dead row. Before the first figure was taken, each queue had done 100,000 ' .
		'jobs under that snapshot. There are 32 clients with one job a call, or one client with 100 jobs a call, as in the sections above.', \&held ]);

my %text = (sides => <<'MD');
## Who takes part, and how

All queues and all clients are on one machine. Each queue answers an enqueue only after the job is on disk: PostgreSQL with `synchronous_commit = on`, Redis with `appendfsync always`, RabbitMQ with
publisher confirms of persistent messages in durable queues, beanstalkd with `-f 0`. The programs come from Debian and npm. All other settings have their defaults, and each queue is one server. A measurement has several rounds. In each round each queue runs once, and each figure is the median of the rounds. Payloads have 46 bytes. After each workload the remaining jobs are counted.

Clients use Unix sockets for PostgreSQL, Redis and beanstalkd, and TCP for RabbitMQ. The client for queues in SQL is `bench/load` (one process, prepared statements). The client for Redis, RabbitMQ and beanstalkd is `bench/brokers` (a thread for each client, with hiredis, librabbitmq, or a socket). Each library for Node runs in one Node process, as in most installations. That process may be the bottleneck. So the SQL statements that the library sends were also recorded, and `bench/load` ran them: these are the rows "its SQL".

- ***ceiling***: what PostgreSQL can do with the same round trips without a queue. For an enqueue this is an `INSERT` into a table with only a primary key; for claim and ack it is a `SELECT` of one number and a `DELETE` of that row.
- **pgq_ext**: the calls are `pgq_enqueue`, `pgq_enqueue_many`, `pgq_claim`, `pgq_ack` and `pgq_ack_many`. Another row shows `pgq_ack_claim`, which saves a round trip and a commit. A claim gives a lease, so a late ack is refused. Of the queues in PostgreSQL only pgq_ext needs `shared_preload_libraries`.
- **pgmq**: the calls are `send`, `send_batch`, `read` and `delete`. Workers that wait call `read_with_poll` with its defaults (for 5 s, every 100 ms). Each queue is a table. A claim updates the row and its index entry, so each job leaves two dead rows until VACUUM removes them.
  `pop` is one call, but the job is lost if the worker dies, so it is not compared.
- **PgQ** (by Skype) stores events in tables that are truncated one after the other. Every consumer sees all events, in batches between two points in time (ticks). The calls are `insert_event`, `next_batch`, `get_batch_events` and `finish_batch`; one function makes the three calls of a claim, which saves PgQ round trips.
  PgQ cannot hand out single jobs, cannot share them among workers (without its extension pgq_coop, which Debian does not have), and cannot retry a job without a second table. In the measurements with waiting workers the ticker pgqd runs every 0.1 s, the queue has a tick after 10 ms, and the consumer polls every 20 ms. With the default times (1 s for pgqd, 3 s for the queue) a job waits for seconds.
- **graphile-worker**: `add_job` and `add_jobs` enqueue, and `run()` with `concurrentJobs` works. The column for 100 jobs uses `localQueue` and `completeJobBatchDelay`, the documented way to more speed: a process takes 100 jobs at a time. If the process dies, these jobs come back late. Workers use LISTEN to learn of new jobs.
  The NOTIFY of each `add_job` makes commits run one after the other, so clients cannot share an fsync. That is why 32 clients hardly enqueue faster than one.
- **pg-boss**: `send` and `insert` enqueue. Workers call `fetch` and `complete` in a loop, because `work()` polls at most every 0.5 s. In the measurements with waiting workers `work()` is used. A finished job stays as a row until maintenance archives it.
  The index of pg-boss does not have the order in which jobs are fetched. So each fetch reads and sorts all waiting jobs, 20,000 in these tables; with a short queue a fetch is many times as fast.
- **Redis, list**: this is the reliable queue of the Redis documentation, with `LPUSH`, `BRPOPLPUSH` into a list of the worker, and `LREM`. 100 jobs are sent as a pipeline. The application itself must bring back the jobs of a dead worker. All jobs are in memory. Redis calls fsync once for all commands that it reads at a time.
- **Redis, stream**: the calls are `XADD`, `XREADGROUP`, `XACK` and `XDEL`. `XAUTOCLAIM` brings back the jobs of dead workers; it is not measured.
- **RabbitMQ**: one row is for a classic durable queue, another for a quorum queue of one node. `basic.consume` has a prefetch of as many messages as the other queues claim in one call. In a further row the prefetch is 100, as the documentation of RabbitMQ recommends: then a worker gets the next job before it has acknowledged the last one. RabbitMQ does not answer an acknowledgement. So its workers do not wait until the acknowledgement is on disk, and after a crash some finished jobs run again. The workers of the other queues do wait. A consumer may get a message before its publisher gets the confirm.
- **beanstalkd**: the calls are `put`, `reserve` and `delete`. For 100 jobs the client sends 100 commands at once, and beanstalkd answers them one after the other. Its one thread calls fsync for every command that changes something, so clients cannot share an fsync. All jobs are in memory.

Some queues are faster than pgq_ext for these reasons. Redis does not parse SQL and keeps no versions of rows, and the single process of Redis writes the commands of all clients with one fsync. In PostgreSQL each client has a process, which commits on its own. RabbitMQ's workers do not
wait for their acknowledgements. pgq_ext exceeds the *ceiling* only where it saves round trips, commits, index entries or dead rows; a claim of pgq_ext writes nothing to disk. One client alone cannot share an fsync with others, so the columns with one client mostly compare how the servers write their files.

A queue outside of PostgreSQL cannot enqueue in the transaction that writes the business data. So an application needs an outbox for such a queue. Without it a job can be lost, or can be done although the transaction was rolled back.

MD

if (defined $docs)
{
	open STDOUT, '>', "$docs/benchmarks-rivals.md" or die "$docs/benchmarks-rivals.md: $!";
	print "# Beside other queues\n\nMade by `bench/run.sh rivals`; do not edit. On another machine the figures are different. The ratios are similar there, if both figures are from the same run. [Benchmarks](benchmarks.md) compares with tables in PostgreSQL.\n\n";
	print "**$machine{note}**\n\n" if $machine{note};
	print $text{sides};
	print "## Versions\n\n", map { "- $_: $machine{$_}\n" } grep { exists $machine{$_} } 'date', 'processor', 'memory', 'system', 'PostgreSQL', 'settings', 'pgq_ext', 'pgmq', 'pgqd', 'graphile-worker', 'pg-boss', 'pg',
		'redis-server', 'rabbitmq-server', 'beanstalkd', 'left out';
	print "\n```sh\n$machine{command}\n```\n\n";
}
print "## Goals\n\n", goals(), "\n" if $cases{life} && $cases{claim} && $cases{enqueue};
for my $section (@sections)
{
	my ($workload, $title, $about, $make) = @$section;
	next unless $cases{$workload};
	print "## $title\n\n";
	print "$about\n\n" if defined $docs;
	print $make->(), "\n";
}
