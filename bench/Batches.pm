# Makes the tables of the workloads in bench/batches.sh, for bench/report.pl.
package Batches;
use strict;
use warnings;
use parent 'Exporter';
use Results;
our @EXPORT = qw(batch_goals batch_tables @batch_workloads $batch_text);

our @batch_workloads = qw(members fan_in chain open);

our $batch_text = <<'MD' =~ s/\n\z//r;
This section measures pgq_ext, except for the column *by hand*. In the first table all jobs of a side are members of batches, or children of one job that is acknowledged:

- *members* are compared with *plain* jobs. The column *by hand* is the SKIP LOCKED table with a row for each batch, and each ack counts down in this row. So acks of one batch wait for each other.
- *children* are jobs with `after`. Each client enqueues a child, and then waits until the scheduler has made some child ready. In the last row the children are there before, and nothing but the scheduler works.
- *beside children* are plain jobs in a database that also has children: each ack asks whether the job has children.

Either 32 clients or one client enqueue, claim and acknowledge. Or 32 clients only claim and acknowledge jobs that are there before; then the members belong to closed batches.
MD

my $fan_in_text = <<'MD';

Here 8 workers do many jobs, and one job comes after all of them: it is the callback of their batch, or their child by `after`. The milliseconds are those from the answer to the last ack until a waiting claim returns this job. In the row *held*, another session has held a snapshot since before the jobs were enqueued. The last column is the time of the call that closes the batch, or that enqueues the child.

MD

my $chain_text = <<'MD';

A chain: each job is the child of the one before. There is one worker, which claims, waits if it has to, and acknowledges. Without `after`, the transaction of an ack enqueues the next job. The last column is for jobs that do not wait for each other.

MD

my $open_text = <<'MD';

Each open batch has one member, in a queue without workers. The table shows the processor time of the scheduler while nothing happens, and the jobs that 32 clients enqueue, claim and acknowledge as members of one further batch.

MD

# A value for each side; undef if it was not measured.
sub values_of { my ($workload, $case, @sides) = @_; return map { scalar value($workload, $case, $_) } @sides }

# As @goals in report.pl.
sub batch_goals
{
	my %what = ('client 32' => 'enqueue, claim and ack of members, 32 clients', 'bulk 500' => 'enqueue, claim and ack of members, 500 a call', 'finish 32' => 'claim and ack of members, 32 clients');
	return map { [ "$what{$_}, against plain jobs", '%.2f', '>=', 0.85, ratio(values_of('members', $_, qw(member pgq_ext))) ] } 'client 32', 'bulk 500', 'finish 32';
}

sub members_table
{
	my %what = ('client 32' => 'enqueue, claim, ack: 32 clients', 'bulk 500' => 'the same: one client, 500 a call', 'finish 32' => 'claim, ack: 32 clients', ready => 'becoming ready');
	my @rows;
	for my $case (@{ $cases{members} })
	{
		my ($plain, @others) = values_of('members', $case, qw(pgq_ext member counted asked child));
		push @rows, [ $what{$case}, rate($plain), map { (rate($_), fixed('%.2f', ratio($_, $plain))) } @others ];
	}
	return table([ 'jobs/s', 'plain', 'members', '/ plain', 'by hand', '/ plain', 'beside children', '/ plain', 'children', '/ plain' ], @rows);
}

sub fan_in_table
{
	my %name = (drained => 'no job after them', fire => 'callback of their batch', fan_in => 'child of all');
	my @rows;
	for my $case (@{ $cases{fan_in} })
	{
		my ($n, $held) = split / /, $case;
		for my $side (grep { defined value('fan_in', $case, $_) } qw(drained fire fan_in))
		{
			push @rows, [ grouped($n) . ($n == 1000 ? ' jobs, one a call' : ' jobs, 500 a call') . ($held ? ', held' : '') . ": $name{$side}",
				rate(value('fan_in', $case, $side)), map { fixed('%.1f', value('fan_in', $case, $side, $_)) } qw(fired_p50 fired_max closed_p50) ];
		}
	}
	return table([ '', 'jobs/s', 'ms until the next job', 'at most', 'ms of the call' ], @rows);
}

sub chain_table
{
	return table([ 'ms a job', '`after`', 'enqueued with the ack', 'ratio', 'independent' ],
		map {
			my $case = $_;
			my ($after, $next, $plain) = map { ratio(1000, $_) } values_of('chain', $case, qw(chain next pgq_ext));
			[ grouped($case) . ' jobs', fixed('%.2f', $after), fixed('%.2f', $next), fixed('%.1f', ratio($after, $next)), fixed('%.2f', $plain) ]
		} @{ $cases{chain} });
}

sub open_table
{
	my $none = value('open', 0, 'member');
	return table([ 'open batches', 'processor time of the scheduler, ms a minute', 'jobs/s', 'against none' ],
		map { [ grouped($_), fixed('%.0f', value('open', $_, 'member', 'idle')), rate(value('open', $_, 'member')), fixed('%.2f', ratio(values_of('open', $_, 'member'), $none)) ] }
			@{ $cases{open} });
}

# batch_tables(FOR_THE_PAGE): the tables of the workloads that were run, each after its text if they are for the page
sub batch_tables
{
	my $page = shift;
	my @parts = ([ 'members', '', \&members_table ], [ 'fan_in', $fan_in_text, \&fan_in_table ], [ 'chain', $chain_text, \&chain_table ], [ 'open', $open_text, \&open_table ]);
	return join $page ? '' : "\n", map { ($page ? $_->[1] : '') . $_->[2]->() } grep { $cases{ $_->[0] } } @parts;
}

1;
