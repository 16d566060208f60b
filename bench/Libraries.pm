# Makes the tables of the workload in bench/libraries.sh, for bench/report.pl.
package Libraries;
use strict;
use warnings;
use List::Util qw(max);
use parent 'Exporter';
use Results;
our @EXPORT = qw(library_goals library_tables $library_text);

our $library_text = <<'MD' =~ s/\n\z//r;
A side is one process with the worker of a library, or with a copied example, which has one job at a time. The handler does nothing (*noop*), or updates one of 1,000 rows (*update*). In the libraries and examples of pgq_ext the update and the ack are one transaction; graphile-worker and pg-boss complete the job in another one. `ahead: 0.05` claims jobs before they can begin. "10 at a time" is the concurrency of the worker. graphile-worker, *many*, has `localQueue` of that size and `completeJobBatchDelay: 0`. pg-boss runs a loop of `fetch` and `complete` for each job at a time, since its `work()` polls at most every 0.5 s; *many* is one loop, which fetches and completes as many jobs at once. Its queue has at most 5,000 jobs, since each fetch sorts all waiting jobs. Ratios compare with `clients/node`.
MD

my @names = (
	[ node => '**clients/node**' ], [ node_ahead => '**clients/node**, `ahead: 0.05`' ], [ node_example => 'examples/worker.js' ],
	[ graphile_worker => 'graphile-worker' ], [ graphile_worker_many => 'graphile-worker, many' ], [ pg_boss => 'pg-boss' ], [ pg_boss_many => 'pg-boss, many' ],
	[ python => '**clients/python**, threads' ], [ asyncio => '**clients/python**, asyncio' ], [ python_example => 'examples/worker_psycopg.py' ],
	[ go => '**clients/go**' ], [ go_example => 'examples/worker.go' ]);

sub value_of { my ($case, $side) = @_; return scalar value('libraries', $case, $side) }
sub title { my ($kind, $hands) = split / /, $_[0]; return "$kind, $hands at a time" }

# As @goals in report.pl.
sub library_goals
{
	my @goals;
	for my $case (@{ $cases{libraries} // [] })
	{
		for my $side (qw(node node_ahead))
		{
			my ($name) = map { $_->[1] =~ s/[*`]//gr } grep { $_->[0] eq $side } @names;
			push @goals, [ "$name, ${\title($case)}, against $_->[1]", '%.2f', '>=', 3, ratio(value_of($case, $side), value_of($case, $_->[0])) ]
			  for grep { $_->[0] =~ /^(?:graphile|pg_boss)/ } @names;
		}
	}
	return @goals;
}

sub library_tables
{
	my @here = @{ $cases{libraries} // [] };
	my %seen;
	my @cases = grep { !$seen{$_}++ } @here;
	return table([ 'jobs/s', map { (title($_), 'clients/node / this') } @cases ],
		map {
			my ($side, $name) = @$_;
			[ $name, map { (rate(value_of($_, $side)), fixed('%.2f', ratio(value_of($_, 'node'), value_of($_, $side)))) } @cases ]
		} grep { my $side = $_->[0]; grep { defined value_of($_, $side) } @cases } @names);
}

1;
