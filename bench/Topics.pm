# Makes the tables of the workload in bench/topics.sh, for bench/report.pl.
package Topics;
use strict;
use warnings;
use parent 'Exporter';
use Results;
our @EXPORT = qw(topic_goals topic_tables $topic_text);

our $topic_text = <<'MD' =~ s/\n\z//r;
This section measures pgq_ext alone. Clients publish one job a call. In the first table one queue wants the jobs of the topic, so a publish makes one job, as an enqueue does. In the columns *new topics* each call has another topic, so that no session remembers which queues want its jobs. Other topics have 10,000 bindings, or none. In the second table ten queues want the jobs of the topic: a publish makes ten jobs, as a `pgq_enqueue_many` of ten jobs into one queue does.
MD

sub value_of { my ($case, $side) = @_; return scalar value('topics', $case, $side) }

# The cases "client N" or "ten N".
sub cases_of { my $kind = shift; return grep { /^$kind / } @{ $cases{topics} // [] } }

sub ratio_of_ten { my $case = shift; return ratio(10 * (value_of($case, 'publish_ten') // 0), value_of($case, 'pgq_ext')) }

# As @goals in report.pl.
sub topic_goals
{
	my %what = (publish => '', publish_new => ', new topics');
	my %many = (publish => 'bound', publish_new => 'bound_new');
	return (
		(map { my $case = $_; map { [ "time of a publish with 10,000 bindings$what{$_}, " . case_name($case) . ', against one binding', '%.2f', '<', 1.3, ratio(value_of($case, $_), value_of($case, $many{$_})) ] } qw(publish publish_new) } cases_of('client')),
		(map { [ 'publish to 10 queues, ' . case_name(s/ten/client/r) . ', jobs/s against 10 jobs a call of pgq_enqueue_many', '%.2f', '>=', 0.8, ratio_of_ten($_) ] } cases_of('ten')));
}

sub one_table
{
	my @rows;
	for my $case (cases_of('client'))
	{
		my ($enqueue, @publish) = map { value_of($case, $_) } qw(pgq_ext publish bound publish_new bound_new);
		push @rows, [ case_name($case), rate($enqueue), map { (rate($_), fixed('%.2f', ratio($_, $enqueue))) } @publish ];
	}
	return table([ 'jobs/s', 'enqueue', 'publish', '/ enqueue', '10,000 bindings', '/ enqueue', 'new topics', '/ enqueue', 'new topics, 10,000 bindings', '/ enqueue' ], @rows);
}

sub ten_table
{
	return table([ 'jobs/s', '10 jobs a call', 'publish to 10 queues', 'ratio' ],
		map { [ case_name(s/ten/client/r), rate(value_of($_, 'pgq_ext')), rate(10 * (value_of($_, 'publish_ten') // 0)), fixed('%.2f', ratio_of_ten($_)) ] } cases_of('ten'));
}

sub topic_tables { return one_table() . "\n" . ten_table() }

1;
