#!/usr/bin/perl
# Makes tables of the results of bench/rivals.sh.
#
#   bench/rivals.pl DIR         prints them
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

# the sides that took part
sub present
{
	my $workload = shift;
	return grep { my $side = $_; grep { $_->{$side} } values %{ $rounds{$workload} } } @sides;
}

# A line for each side: what it does a second in each case, and how many times that pgq_ext does.
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

# beside a snapshot, and how much that is of the rate without
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
		"\nThe claim that waits, beside the same snapshot:\n\n" . latencies('held');
}

# What pgq_ext wants: the whole life of a job faster than in Redis, and no queue in PostgreSQL ahead in any row.
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
	return table([ 'goal', 'wanted', 'measured', 'the ceiling', '' ], @rows);
}

my @sections = (
	[ 'enqueue', 'Enqueue', 'Nobody works. One job a call by 1 and 32 clients; or one client with 100 jobs a call, a pipeline or a batch of messages, whatever the side has for that.', sub { rates('enqueue') } ],
	[ 'claim', 'Claim and ack', 'One job at a time by 1 and 32 clients, each of which waits for the answer before it goes on; or one client with 100 jobs at a time. ' .
		'No claim comes back empty. A consumer of PgQ takes what came between two ticks, here made after every 100 events: it has nothing for the first columns.', sub { rates('claim') } ],
	[ 'life', 'The whole life of a job', 'Each client enqueues a job, claims one and acknowledges it, 20,000 others wait; or 100 of them. `pgq_ack_claim` takes the next job with the ack of the last. ' .
		'In PgQ a job waits for the ticker: see the next table.', sub { rates('life') } ],
	[ 'latency', 'From enqueue to the worker that waits', 'Jobs are enqueued one a call at a steady rate, 16 workers wait (one consumer of PgQ). Milliseconds until the worker has the job, from sending the enqueue, so with what makes it durable; ' .
		'and from the moment the enqueuing client has its answer: less than nothing where jobs are handed out before they are durable.', sub { latencies('latency') } ],
	[ 'held', 'While a snapshot is held', 'Those in PostgreSQL, by SQL. Another session has a `REPEATABLE READ` transaction open all the time, as a report or a dump does; 100,000 jobs of each side have lived beside it before the first figure was taken, ' .
		'and nothing could be vacuumed. The columns are those of 32 clients, or of 100 jobs a call, above.', \&held ]);

my %text = (sides => <<'MD');
## Who takes part, and how

All are on one machine, the clients too, and answer after what they were told is on disk: PostgreSQL with `synchronous_commit = on`, Redis with `appendfsync always`, RabbitMQ with publisher confirms of
persistent messages in durable queues, beanstalkd with `-f 0`. They are installed as Debian and npm have them, with their defaults otherwise, in one process or server each, and take turns in each round. A
figure is the median of the rounds. Payloads have 46 bytes. After each workload the jobs that are left are counted.

PostgreSQL, Redis and beanstalkd are spoken to through Unix sockets, RabbitMQ by TCP. SQL goes through `bench/load` (one process, prepared statements), the rest through `bench/brokers`
(a thread for each client; hiredis, librabbitmq, a socket). The Node libraries are one Node process each, as most run them; since that may be what limits, the statements they
send are taken down at the start and run by `bench/load`, too: "its SQL".

- ***ceiling***: no queue, but what PostgreSQL can do for the same round trips: an `INSERT` into a table with a primary key only; a `SELECT` of one number and a `DELETE` of that row.
- **pgq_ext**: `pgq_enqueue`, `pgq_enqueue_many`, `pgq_claim`, `pgq_ack`, `pgq_ack_many`; a row of its own shows `pgq_ack_claim`, which saves a round trip and a commit. Claims give leases: who is late is fenced. Needs `shared_preload_libraries`, the others do not.
- **pgmq**: `send`, `send_batch`, `read`, `delete`, and `read_with_poll` with its defaults (5 s, every 100 ms) for workers that wait. A table for each queue; a claim updates the row and its index entry, so a job leaves two dead rows, which only vacuum takes away.
  Its `pop` would be one call, but loses the job with its worker, so it is not compared.
- **PgQ** (Skype's): events in tables that are truncated in turn; every consumer sees all events, in batches between two ticks. `insert_event`, `next_batch`, `get_batch_events` and `finish_batch`; claim in one call of a function, which saves PgQ round trips.
  It cannot hand out single jobs, nor share them among workers (that takes its extension pgq_coop, which Debian has not got), nor retry one without a table beside. Where workers wait, its ticker pgqd runs every 0.1 s and the queue ticks after 10 ms of lag, the consumer
  polls every 20 ms; with the defaults (1 s, 3 s) a job waits for seconds.
- **graphile-worker**: `add_job`, `add_jobs`; `run()` with `concurrentJobs`, and in the column of 100 with `localQueue` and `completeJobBatchDelay`, its documented way to more speed: there 100 jobs run at a time, and jobs go back late if the process dies. It listens for new jobs;
  the NOTIFY of each `add_job` makes commits go one after the other, so that clients cannot share an fsync, which is what its enqueue by 32 clients shows.
- **pg-boss**: `send`, `insert`; `fetch` and `complete` in a loop, since `work()` asks once in 0.5 s at most, which is what is measured where workers wait. A job that is done stays as a row until maintenance archives it.
  Its index does not have the order of its claims, so each fetch reads and sorts all that is queued: with the 20,000 of these tables it does a fraction of what it does with a short queue.
- **Redis, list**: the reliable queue of its documentation, `LPUSH`, `BRPOPLPUSH` into a list of the worker, `LREM`; 100 are a pipeline. Nothing brings back the jobs of a worker that died: that is the application's part. All jobs are in memory. One fsync serves all commands of a turn of its event loop.
- **Redis, stream**: `XADD`, `XREADGROUP`, `XACK` and `XDEL`. Jobs of dead workers are had by `XAUTOCLAIM`, which costs nothing here.
- **RabbitMQ**: a classic durable queue, or a quorum queue (of one node); `basic.consume` with a prefetch of as many as are claimed at once, in a row of its own of 100, which is how it is meant to be used: then a worker has the next job before it
  acknowledges the last. Acknowledgements have no answer, so nobody waits for them to be durable, as all others do: after a crash some jobs come again. A consumer may get a message before its publisher gets the confirm.
- **beanstalkd**: `put`, `reserve`, `delete`; 100 are sent at once and answered in turn. It is one thread which calls fsync for every command that changes something, so clients share nothing. All jobs are in memory.

Why some are ahead: Redis neither parses SQL nor keeps versions of rows, and its single process writes the commands of all clients with one fsync, where PostgreSQL has a process for each client that commits on its own; RabbitMQ's workers
need not wait for their acknowledgements. Against the *ceiling* pgq_ext can win only what it saves in round trips, commits, index entries and dead rows: a claim of pgq_ext writes nothing to disk. With one client nobody shares
an fsync, so those columns compare how files are written more than queues.

All that are not in PostgreSQL cannot enqueue in the transaction that writes the business data, which is what a queue in the database is for: with them it takes an outbox, or jobs are lost or done for nothing.

MD

if (defined $docs)
{
	open STDOUT, '>', "$docs/benchmarks-rivals.md" or die "$docs/benchmarks-rivals.md: $!";
	print "# Beside other queues\n\nMade by `bench/run.sh rivals`; do not edit. Only ratios of figures taken in the same run mean something elsewhere. Against other tables in PostgreSQL: [benchmarks](benchmarks.md).\n\n";
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
