#!/usr/bin/perl
# Makes tables of the results of bench/run.sh.
#
#   bench/report.pl DIR         prints the tables
#   bench/report.pl DIR docs    writes docs/benchmarks.md and, with gnuplot, docs/benchmarks/*.svg
#   bench/report.pl DIR docs WORKLOAD...    replaces only the sections of these workloads, and their goals, in docs/benchmarks.md.
#                               DIR must have all workloads of such a section
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use List::Util qw(sum max min first);
use Results;
use Batches;
use Topics;
use Libraries;

my ($dir, $docs, @only) = @ARGV;
die "usage: $0 DIR [docs [WORKLOAD...]]\n" unless defined $dir;
@only = @batch_workloads if grep { my $name = $_; grep { $_ eq $name } @only } @batch_workloads;
read_results($dir, @only);

my @sides = qw(pgq_ext recorded limited grouped fifo fair keyed ack_claim at_once table listen advisory pgmq session_lock advisory_lock delivered returning ceiling);
my %side_name = (
	pgq_ext  => 'pgq_ext',
	recorded => 'pgq_ext, with records',
	limited  => 'pgq_ext, with limits',
	grouped  => 'pgq_ext, with a limit of groups',
	fifo     => 'pgq_ext, with fifo',
	fair     => 'pgq_ext, with fair',
	keyed    => 'pgq_ext, with unique keys',
	ack_claim => 'pgq_ext, pgq_ack_claim',
	at_once  => 'pgq_ext, one statement',
	table    => 'SKIP LOCKED',
	working  => 'clients',
	handler  => 'handler',
	listen   => 'LISTEN/NOTIFY',
	advisory => 'advisory locks',
	pgmq     => 'pgmq',
	delivered => 'ceiling, with the rows',
	returning => 'ceiling, one statement with the rows',
	ceiling  => 'ceiling',
	session_lock => 'pgq_lock',
	advisory_lock => 'pg_try_advisory_lock');

# Return the ratio of a side to the SKIP LOCKED table.
sub against_table { return ratio(value(@_[0, 1], $_[2]), value(@_[0, 1], 'table')) }
sub gain          { return against_table(@_[0, 1], 'pgq_ext') }

# Return the average rate of ten seconds while a snapshot is held (fewer if the turn was shorter): the first, or the
# last ten seconds.
sub held
{
	my ($side, $which) = @_;
	my $metrics = $rounds{held}{32}{$side} or return;
	my $seconds = max map { /^rate\@(\d+)/ ? $1 : 0 } keys %$metrics or return;
	my $n = $seconds < 20 ? int(($seconds + 1) / 2) : 10;
	my $from = $which eq 'first' ? 1 : $seconds - $n + 1;
	return sum(map { value('held', 32, $side, "rate\@$_") } $from .. $from + $n - 1) / $n;
}

sub wal
{
	my ($case, $side, $metric) = @_;
	my ($enqueue, $finish) = map { value('wal', $case, $side, "${metric}_$_") } qw(enqueue finish);
	return defined $enqueue && defined $finish ? $enqueue + $finish : undef;
}

# Return the milliseconds that all views take together.
sub scrape
{
	my $case = shift // return;
	my $views = $rounds{scrape}{$case}{pgq_ext} or return;
	return sum(map { median(@$_) } values %$views);
}

my ($fewest, $most) = @{ $cases{backlog} // [] }[ 0, -1 ];

# Return the smallest and the largest number in the workload "scale".
sub scale_of
{
	my @numbers = map { /^$_[0] (\d+)/ } @{ $cases{scale} // [] };
	return @numbers ? @numbers[ 0, -1 ] : ();
}

# Return the ratio of a side to a ceiling in the same workload.
sub of_ceiling
{
	my ($workload, $case, $side, $ceiling) = @_;
	return ratio(map { value($workload, $case, $_) } $side, $ceiling);
}

# The goals. Each has a name, a format, a comparison, the bound and the measured value; and what the ceilings reach, if they took part in
# the same workload.
my @goals = (
	(map { [ "claim and ack one a call, $_ clients, against SELECT and DELETE of the row", '%.2f', '>=', 1, of_ceiling('claim', $_, qw(pgq_ext delivered)) ] } 32, 200),
	[ 'pgq_ack_claim, 32 clients, against claim and ack', '%.2f', '>=', 1.4, of_ceiling('claim', 32, qw(ack_claim pgq_ext)), of_ceiling('claim', 32, qw(returning delivered)) ],
	[ 'pgq_ack_claim, 32 clients, against SKIP LOCKED', '%.2f', '>=', 4, map { against_table('claim', 32, $_) } qw(ack_claim returning) ],
	[ 'pgq_ack_claim, 32 clients, against DELETE ... RETURNING of the row', '%.2f', '>=', 0.9, of_ceiling('claim', 32, qw(ack_claim returning)) ],
	[ 'claim and ack in batches of 500, against SELECT and DELETE of the rows', '%.2f', '>=', 0.9, of_ceiling('batch', 500, qw(pgq_ext delivered)) ],
	[ 'pgq_ack_claim in batches of 500, against DELETE ... RETURNING of the rows', '%.2f', '>=', 0.9, of_ceiling('batch', 500, qw(ack_claim returning)) ],
	[ '20 ms of work, 200 workers, against the ceiling', '%.2f', '>=', 0.97, of_ceiling('work', 200, qw(pgq_ext ceiling)) ],
	[ 'last seconds of a held snapshot, against SKIP LOCKED', '%.1f', '>=', 30, ratio(held('pgq_ext', 'last'), held('table', 'last')) ],
	[ 'last seconds of a held snapshot, against its own start', '%.2f', '>=', 0.97, ratio(held('pgq_ext', 'last'), held('pgq_ext', 'first')) ],
	(map { [ "enqueue one a call, $_ client" . ($_ == 1 ? '' : 's') . ', against INSERT', '%.2f', '>=', 0.95, of_ceiling('enqueue', "client $_", qw(pgq_ext ceiling)) ] } 1, 32),
	[ 'enqueue 1,000 a call, against INSERT', '%.2f', '>=', 0.9, of_ceiling('enqueue', 'bulk 1000', qw(pgq_ext ceiling)) ],
	[ 'claim rate with ' . grouped($most) . ' jobs queued, against ' . grouped($fewest), '%.2f', '>=', 0.95,
		ratio(value('backlog', $most, 'pgq_ext'), value('backlog', $fewest, 'pgq_ext')) ],
	(map { my ($what, $few, $many) = ($_, scale_of($_)); [ "claim rate with " . grouped($many) . " $what, against " . grouped($few), '%.2f', '>=', 0.95,
		ratio(map { value('scale', "$what $_", 'pgq_ext') } $many, $few) ] } grep { scale_of($_) } qw(queues priorities leases)),
	[ 'waiting claim at 1,000 jobs/s, p50 in ms', '%.2f', '<', 0.5, value('latency', 1000, 'pgq_ext', 'commit_p50') ],
	[ 'waiting claim at 1,000 jobs/s, p99 in ms', '%.2f', '<', 2, value('latency', 1000, 'pgq_ext', 'commit_p99') ],
	[ 'MB for 2,000,000 finished jobs beside a snapshot', '%.0f', '<', 200, ratio(value('rotation', 'snapshot', 'pgq_ext', 'peak'), 1e6) ],
	[ 'the same, MB beside a backlog, against 3 times that and 200', '%.2f', '<=', 1,
		ratio(value('rotation', 'backlog', 'pgq_ext', 'peak'), 3 * (value('rotation', 'backlog', 'pgq_ext', 'live') // 0) + 200e6) ],
	[ 'claim and ack with records of all attempts and jobs, 32 clients, against a queue without records', '%.2f', '>=', 0.6, ratio(map { value('records', 'client 32', $_) } qw(recorded pgq_ext)) ],
	[ 'claim and ack with limits, 32 clients, against a queue without limits', '%.2f', '>=', 0.85, ratio(map { value('limits', 32, $_) } qw(limited pgq_ext)) ],
	[ 'claim and ack with fair, 32 clients, against a queue without fair', '%.2f', '>=', 0.67, ratio(map { value('limits', 32, $_) } qw(fair pgq_ext)) ],
	[ 'enqueue with a fresh unique key, 32 clients, against an enqueue without a key', '%.2f', '>=', 0.63, ratio(map { value('limits', 'enqueue', $_) } qw(keyed pgq_ext)) ],
	[ 'hand-outs until ten tenants with ten jobs each have none left, while another tenant has very many', '%d', '<=', 250, value('limits', 'tenants', 'fair', 'hand_outs') ],
	(map { [ "session-bound lock and unlock, $_ client" . ($_ == 1 ? '' : 's') . ', against advisory locks', '%.2f', '>=', 0.8,
		ratio(value('locks', $_, 'session_lock'), value('locks', $_, 'advisory_lock')) ] } grep { /^\d+$/ } @{ $cases{locks} // [] }),
	[ 'takeover from a leader that was killed, p99 in ms', '%.1f', '<', 50, value('locks', 'takeover 0', 'session_lock', 'takeover_p99') ],
	[ 'wake-ups of the scheduler with 1,000 schedules that are not due, against no schedule', '%.2f', '<=', 1.2, ratio(map { value('schedules', $_, 'pgq_ext', 'wake_ups') } 1000, 0) ],
	(map { my $case = $_; [ 'handler, ' . handler_case($case) . ', against as many clients with the same work', '%.2f', '>=', 1.3,
		ratio(map { value('handlers', $case, $_) } qw(handler working)) ] } grep { /^\d/ } @{ $cases{handlers} // [] }),
	[ 'handler of arrays of 500, jobs/s', '%.0f', '>=', 150000, value('handlers', 'bulk 500', 'handler') ],
	[ 'from sending an enqueue to the call of the handler, p50 in ms', '%.2f', '<', 2, value('handlers', 'latency', 'handler', 'p50') ],
	batch_goals(),
	topic_goals(),
	library_goals(),
	[ 'scrape of all views with 100 queues, in ms, sum of medians', '%.1f', '<', 20, scrape(($cases{scrape} // [])->[-1]) ],
	[ 'rate with rotation, against rotation off', '%.2f', '>=', 0.95, ratio(value('rotation', 'snapshot', 'pgq_ext'), value('rotation', 'off', 'pgq_ext')) ],
	[ 'WAL for the life of a job, bytes', '%.0f', '<=', 380, wal(1, 'pgq_ext', 'wal') ]);

# ---- form ----

# Return the sides that took part in a workload.
sub present
{
	my $workload = shift;
	return grep { my $side = $_; first { $_->{$side} } values %{ $rounds{$workload} } } @sides;
}

# Make a table of the rates of all sides, with a line for each case, and the ratio.
sub rates
{
	my ($workload, $title) = @_;
	my @here = present($workload);
	return table(
		[ $title, (map { $side_name{$_} } @here), 'pgq_ext / SKIP LOCKED' ],
		map {
			my $case = $_;
			[ case_name($case), (map { rate(value($workload, $case, $_)) } @here), fixed('%.2f', gain($workload, $case)) ]
		} @{ $cases{$workload} });
}

sub held_table
{
	return table([ 'jobs/s', 'first seconds', 'last seconds', 'last / first', 'pgq_ext / this, at the end' ],
		map { [ $side_name{$_}, rate(held($_, 'first')), rate(held($_, 'last')), fixed('%.2f', ratio(held($_, 'last'), held($_, 'first'))),
			fixed('%.1f', ratio(held('pgq_ext', 'last'), held($_, 'last'))) ] } present('held'));
}

sub backlog_table
{
	my @here = present('backlog');
	return rates('backlog', 'jobs/s, jobs queued') .
		'| ' . join(' | ', 'most / fewest', (map { fixed('%.2f', ratio(value('backlog', $most, $_), value('backlog', $fewest, $_))) } @here), '') . " |\n";
}

sub scale_table
{
	my (@rates, @waits);
	for my $case (@{ $cases{scale} })
	{
		my ($what, $n) = split / /, $case;
		if ($what eq 'waiters')
		{
			push @waits, [ grouped($n), map { fixed('%.2f', value('scale', $case, 'pgq_ext', "commit_$_")) } qw(p50 p95 p99) ];
			next;
		}
		my ($fewest) = scale_of($what);
		push @rates, [ "$what " . grouped($n), rate(value('scale', $case, 'pgq_ext')), fixed('%.2f', ratio(map { value('scale', "$what $_", 'pgq_ext') } $n, $fewest)) ];
	}
	return table([ 'there are', 'jobs/s', 'against the fewest' ], @rates) . "\n" . table([ 'claims that wait, ms', 'p50', 'p95', 'p99' ], @waits);
}

sub latency_table
{
	my @parts = qw(p50 p95 p99 max);
	my @rows;
	for my $case (@{ $cases{latency} })
	{
		for my $side (present('latency'))
		{
			push @rows, [ grouped($case) . " jobs/s, $side_name{$side}",
				(map { my $from = $_; map { fixed('%.2f', value('latency', $case, $side, "${from}_$_")) } @parts } qw(commit send)),
				rate(value('latency', $case, $side)) ];
		}
	}
	return table([ 'ms', @parts, (map { "$_ from sending" } @parts), 'jobs/s' ], @rows);
}

sub wal_table
{
	my @rows;
	for my $case (@{ $cases{wal} })
	{
		for my $side (present('wal'))
		{
			push @rows, [ ($case == 1 ? 'one a call' : "$case a call") . ", $side_name{$side}",
				(map { fixed('%.0f', value('wal', $case, $side, "wal_$_")) } qw(enqueue finish)), fixed('%.0f', wal($case, $side, 'wal')),
				fixed('%.2f', wal($case, $side, 'commits')), fixed('%.2f', wal($case, $side, 'dead')) ];
		}
	}
	return table([ 'for each job', 'WAL of enqueue', 'WAL of claim and ack', 'WAL, bytes', 'commits that write', 'dead rows' ], @rows);
}

sub records_table
{
	my @rows;
	for my $case (@{ $cases{records} })
	{
		my ($without, $with) = map { value('records', $case, $_) } qw(pgq_ext recorded);
		push @rows, [ case_name($case), rate($without), rate($with), fixed('%.2f', ratio($with, $without)),
			map { fixed('%.0f', value('records', $case, $_, 'wal_finish')) } qw(pgq_ext recorded) ];
	}
	return table([ 'jobs/s', 'without', 'with', 'with / without', 'WAL bytes a job without', 'with' ], @rows);
}

sub limits_table
{
	my @rows;
	for my $case (grep { /^\d+$/ } @{ $cases{limits} })
	{
		my ($without, @with) = map { value('limits', $case, $_) } qw(pgq_ext limited grouped fifo fair);
		push @rows, [ $case, rate($without), map { (rate($_), fixed('%.2f', ratio($_, $without))) } @with ];
	}
	return table([ 'jobs/s, clients', 'without', 'limits', '/ without', 'groups', '/ without', 'fifo', '/ without', 'fair', '/ without' ], @rows);
}

# Microseconds for a claim, and for claim, ack and commit, and the ratios to those without a rule.
sub groups_table
{
	my %part = (claim => 'claim', whole => 'claim, ack and commit');
	my @rules = qw(group_concurrency fifo fair fair_fifo group_rate_limit);
	my %what = (busy => 'one busy group in front', ones => 'groups of one job', tens => 'groups of ten jobs', mixed => '10 hot and 2,500 cold groups');
	my @rows;
	for my $row (map { my $part = $_; map { [ $part, $_ ] } @{ $cases{groups} } } qw(claim whole))
	{
		my ($part, $case) = @$row;
		my ($none, @with) = map { value('groups', $case, $_, $part) } 'none', @rules;
		push @rows, [ "$part{$part}: $what{$case}", fixed('%.0f', $none), map { (fixed('%.0f', $_), fixed('%.1f', ratio($_, $none))) } @with ];
	}
	return table([ 'microseconds', 'no rule', map { ("`$_`" =~ s/_fifo/`, `fifo/r, '/ no rule') } @rules ], @rows);
}

sub locks_table
{
	my (@rates, @takeovers);
	for my $case (@{ $cases{locks} })
	{
		if ($case =~ /^takeover (\d+)/)
		{
			push @takeovers, [ $1, map { my $side = $_; map { fixed('%.2f', value('locks', $case, $side, "takeover_$_")) } qw(p50 p99 max) } qw(session_lock advisory_lock) ];
			next;
		}
		my ($ours, $others) = map { value('locks', $case, $_) } qw(session_lock advisory_lock);
		push @rates, [ $case, rate($ours), rate($others), fixed('%.2f', ratio($ours, $others)) ];
	}
	return table([ 'pairs/s, clients', map({ $side_name{$_} } qw(session_lock advisory_lock)), 'ratio' ], @rates) . "\n" .
		table([ 'takeover in ms, others connected', map { ("$side_name{$_} p50", 'p99', 'max') } qw(session_lock advisory_lock) ], @takeovers);
}

# "4 off": 4 workers whose commits do not wait for the disk
sub handler_case
{
	my ($workers, $level) = split / /, $_[0];
	return $workers . ($workers == 1 ? ' worker' : ' workers') . ($level eq 'off' ? ', synchronous_commit = off' : '');
}

sub handlers_table
{
	return table([ 'jobs/s', 'clients', 'handler', 'ratio' ],
		(map { my $case = $_; [ handler_case($case), (map { rate(value('handlers', $case, $_)) } qw(working handler)),
			fixed('%.2f', ratio(map { value('handlers', $case, $_) } qw(handler working))) ] } grep { /^\d/ } @{ $cases{handlers} }),
		[ '500 a call; the ceiling instead of clients', (map { rate(value('handlers', 'bulk 500', $_)) } qw(ceiling handler)),
			fixed('%.2f', ratio(map { value('handlers', 'bulk 500', $_) } qw(handler ceiling))) ]);
}
sub schedules_table
{
	return table([ 'schedules', 'wake-ups of the scheduler in ' . value('schedules', 1000, 'pgq_ext', 'seconds') . ' s' ],
		map { [ grouped($_), fixed('%.0f', value('schedules', $_, 'pgq_ext', 'wake_ups')) ] } @{ $cases{schedules} });
}

sub scrape_table
{
	my ($case) = @{ $cases{scrape} };
	my $views = $rounds{scrape}{$case}{pgq_ext};
	return table([ 'ms, ' . grouped($case) . ' jobs', 'median', 'least' ],
		(map { [ "`$_`", fixed('%.2f', median(@{ $views->{$_} })), fixed('%.2f', min @{ $views->{$_} }) ] } sort keys %$views),
		[ 'all', fixed('%.2f', scrape($case)), fixed('%.2f', sum map { min @$_ } values %$views) ]);
}

sub order_table
{
	return table(
		[ 'jobs', 'out of order', 'left over', 'faults by pgq_check', 'shared memory before', 'filled', 'after' ],
		map { my $case = $_; [ map { grouped(value('order', $case, 'pgq_ext', $_)) }
			qw(jobs violations left faults memory_before memory_filled memory_after) ] } @{ $cases{order} });
}

my %rotation_name = (snapshot => 'beside a snapshot', off => 'beside a snapshot, rotation off', backlog => 'beside a backlog');

my %small_load = ('' => '', held => 'beside a snapshot', 'by size' => 'beside a snapshot, by size only');

sub megabytes { return defined $_[0] ? sprintf '%.0f', $_[0] / 1e6 : '' }

sub rotation_table
{
	my @rows;
	for my $case (grep { $rotation_name{$_} } @{ $cases{rotation} })
	{
		push @rows, [ $rotation_name{$case}, (map { megabytes(value('rotation', $case, 'pgq_ext', $_)) } qw(live peak)),
			rate(value('rotation', $case, 'pgq_ext')), value('rotation', $case, 'pgq_ext', 'truncations') ];
	}
	my @slow;
	for my $case (grep { !$rotation_name{$_} } @{ $cases{rotation} })
	{
		my ($rate, $how) = split / /, $case, 2;
		push @slow, [ grouped($rate), $small_load{ $how // '' }, map { grouped(value('rotation', $case, 'pgq_ext', $_)) } qw(jobs dead truncations wal visits catalog p99) ];
	}
	return join "\n", @rows ? table([ '', 'MB at the start', 'MB at most', 'jobs/s', 'truncations' ], @rows) : (),
		@slow ? table([ 'jobs/s', '', 'jobs', 'dead rows at most', 'truncations', 'WAL bytes a job', 'autovacuum came', 'bytes more of pg_class', 'p99 in ms' ], @slow) : ();
}

sub goals_table
{
	return table([ 'goal', 'wanted', 'measured', 'the ceiling', 'result' ],
		map {
			my ($what, $format, $sign, $wanted, $measured, $ceiling) = @$_;
			my $reached = $sign eq '>=' ? $measured >= $wanted : $sign eq '<=' ? $measured <= $wanted : $measured < $wanted;
			[ $what, "$sign $wanted", sprintf($format, $measured), fixed($format, $ceiling), $reached ? 'reached' : '**not reached**' ]
		} grep { defined $_->[4] } @goals);
}

my @sections = (
	[ 'enqueue', 'Enqueue',
		'Jobs are only enqueued; no worker runs. Either N clients enqueue one job a call, or one client enqueues many jobs a call: with ' .
		'`pgq_enqueue_many` in pgq_ext, and with `INSERT ... SELECT unnest($1)` into the tables.', sub { rates('enqueue', 'jobs/s') } ],
	[ 'claim', 'Claim and ack, one job a call',
		'For each job a worker runs two statements, claim and ack, so there are two round trips and two transactions. Two columns are different: "one ' .
		'statement" is `SELECT ..., pgq_ack(job_id, lease) FROM pgq_claim(...)`, and `pgq_ack_claim` acknowledges the last job and claims the next ' .
		'one in one statement. "Ceiling, with the rows" reads the row before it deletes it, and "ceiling, one statement with the rows" is `DELETE ... RETURNING`.',
		sub { rates('claim', 'jobs/s, clients') } ],
	[ 'batch', 'Claim and ack in batches',
		'One connection claims and acknowledges many jobs a call. A `DELETE` alone returns no row to the client; "ceiling, with the rows" also reads ' .
		'the jobs that it deletes, by their ids, and "ceiling, one statement with the rows" is `DELETE ... RETURNING`.', sub { rates('batch', 'jobs/s, jobs a call') } ],
	[ 'work', '20 ms of work', 'Each worker claims a job, waits for 20 ms in place of work, and acknowledges the job. A million jobs are waiting. So N workers cannot do ' .
		'more than 50 N jobs a second.', sub { rates('work', 'jobs/s, workers') } ],
	[ 'held', 'While a snapshot is held', 'Another session has a `REPEATABLE READ` transaction open all the time, as a long report or a dump does. So VACUUM cannot remove any dead ' .
		'row. 32 clients claim and acknowledge, one job a call.', \&held_table ],
	[ 'backlog', 'Backlog',
		'16 clients claim and acknowledge, one job a call. During the whole measurement at least as many jobs are waiting as the first column says.', \&backlog_table ],
	[ 'scale', 'Many of something',
		'This section measures pgq_ext alone. 16 clients claim and acknowledge jobs of one queue, one job a call. The first table varies one of three ' .
		'things: how many other queues the server has, each with one job; how many priorities the jobs have; or how many other jobs of the queue are ' .
		'in work. The second table has the time from an enqueue until a waiting claim has the job, at 1,000 jobs/s, and varies how many claims are ' .
		'waiting.', \&scale_table ],
	[ 'latency', 'From enqueue to the claim that waits',
		'Jobs are enqueued at a steady rate, one a call, while 16 workers wait. The columns p50 to max show milliseconds from the moment when the ' .
		'producer knows that its enqueue is committed until a worker has the job. Producer and workers are threads of one process. The columns "from ' .
		'sending" begin when the enqueue is sent, so they include its commit. The last column is the rate that was reached. LISTEN/NOTIFY is the ' .
		'SKIP LOCKED table with `pg_notify` in the statement that enqueues: one connection listens, and wakes one idle worker for each notification.',
		\&latency_table ],
	[ 'wal', 'What a job costs the server',
		'The table shows how much WAL and how many dead rows a job leaves. Each `UPDATE` and each `DELETE` leaves a dead row. Full-page images and ' .
		'autovacuum are switched off here, because they come at irregular times.', \&wal_table ],
	[ 'life', 'The whole life of a job',
		'Each client enqueues a job, claims a job and acknowledges it, while 10,000 other jobs wait.', sub { rates('life', 'jobs/s, clients') } ],
	[ 'records', 'With records',
		'This section compares pgq_ext without and with records. With the default options an acknowledged job leaves no row. With ' .
		"`log_attempts = 'all'` and `keep_finished` it leaves two rows. Either 32 clients claim and acknowledge one job a call, or one " .
		'connection does so with many jobs a call. The bytes of WAL do not include full-page images.', \&records_table ],
	[ 'limits', 'With limits',
		'This section measures pgq_ext alone: claim and ack, one job a call, on queues with different options. The queue *limits* has `concurrency` ' .
		'and `rate_limit`, which are never reached. The queue *groups* has `group_concurrency => 1` and 10,000 groups; the first group is busy, and has half as many jobs as all others ' .
		'together. The queue *fifo* also has 10,000 groups. The queue *fair* has 100 groups, one of which has half of the jobs.', \&limits_table ],
	[ 'groups', 'Rules for groups',
		'This section measures pgq_ext alone. A single consumer claims and acknowledges one job at a time, with a commit after each. The table shows ' .
		'the mean times. With one busy group in front, 99 of 100 jobs are of one group and come first; with a rule that limits jobs in work they have to wait, ' .
		'because one of them is in work. With hot and cold groups, half of the jobs are of the hot ones.', \&groups_table ],
	[ 'order', 'Order and memory',
		'This section measures pgq_ext alone, with `pgq_ext.window_size = 10000`. Jobs with five priorities and many different times are enqueued. ' .
		'Then one worker takes all of them, and checks that they come in the right order. The columns of memory show bytes of shared memory of the ' .
		'extension.', \&order_table ],
	[ 'rotation', 'Room for finished jobs',
		'This section measures pgq_ext alone. In the first table 16 clients enqueue, claim and acknowledge two million jobs in batches of 100, while ' .
		'10,000 other jobs are waiting. In the first two rows a snapshot is held all the time, which is 10 s old at the start. In the last row a ' .
		'million jobs are waiting in another queue. The megabytes include tables, indexes and TOAST. In the second table jobs are enqueued at a ' .
		'steady rate, and 16 waiting workers do them at once. The numbers of dead rows are from pg_stat_all_tables, and p99 is the time from sending ' .
		'the enqueue until a worker has the job.', \&rotation_table ],
	[ 'locks', 'Locks',
		'In the first table each client takes a session-bound lock with a name of its own and gives it back, with two statements. With advisory locks ' .
		'it calls `pg_try_advisory_lock` and `pg_advisory_unlock` instead. For the second table a process that holds such a lock was killed with ' .
		'SIGKILL, 200 times, while another session waited for the lock. The table shows the milliseconds from the signal until the waiting session ' .
		'knew that it had the lock.', \&locks_table ],
	[ 'schedules', 'Schedules that are not due',
		'On a server with nothing else to do, the table shows how often the scheduler process of pgq_ext wakes up (its voluntary context switches), ' .
		'without schedules and with 1,000 schedules that run once a year.', \&schedules_table ],
	[ 'handlers', 'Handlers',
		'The table compares the workers of a handler with the same number of clients. Each client claims a job, and in a second statement inserts a row and acknowledges the job. ' .
		'The handler is a PL/pgSQL function that inserts the same row. With synchronous_commit = on each job waits for the disk once, on both sides. In the last row one worker has a handler for arrays of 500 jobs.', \&handlers_table ],
	[ 'scrape', 'Watching',
		'This section measures pgq_ext alone. There are 100 queues with jobs of three priorities; a fifth of the jobs are delayed. The table shows the queries that the exporter of `monitoring/` runs, and the other queries that `pgq-top` runs. Here one session of a ' .
		'monitoring role ran them, and `psql` measured the milliseconds.', \&scrape_table ],
	[ (first { $cases{$_} } @batch_workloads) // 'members', 'Batches and dependencies', $batch_text, sub { batch_tables(defined $docs) } ],
	[ 'topics', 'Topics', $topic_text, \&topic_tables ],
	[ 'libraries', 'Libraries for workers', $library_text, \&library_tables ]);

# ---- plots: a column for each side ----

sub write_data
{
	my ($name, $head, @rows) = @_;
	open my $data, '>', "$dir/plots/$name.dat" or die "$dir/plots/$name.dat: $!";
	print $data join("\t", map { $_ // "?" } @$_), "\n" for $head, @rows;
	close $data;
}

sub write_plots
{
	my ($to) = @_;
	mkdir "$dir/plots";
	for my $workload (qw(enqueue claim batch work backlog life))
	{
		my @here = present($workload) or next;
		write_data($workload, [ 'case', map { $side_name{$_} } @here ],
			map { my $case = $_; [ case_name($case), map { value($workload, $case, $_) } @here ] } @{ $cases{$workload} });
	}
	if (my @here = present('held'))
	{
		my $seconds = max map { map { /^rate\@(\d+)/ ? $1 : 0 } keys %{ $rounds{held}{32}{$_} } } @here;
		write_data('held', [ 'second', map { $side_name{$_} } @here ],
			map { my $second = $_; [ $second, map { value('held', 32, $_, "rate\@$second") } @here ] } 1 .. $seconds);
	}
	if (my @here = present('latency'))
	{
		my $case = $cases{latency}[-1];
		write_data('latency', [ 'part', map { $side_name{$_} } @here ],
			map { my $part = $_; [ $part, map { value('latency', $case, $_, "commit_$part") } @here ] } qw(p50 p95 p99 max));
	}
	if (my @here = present('wal'))
	{
		write_data('wal', [ 'case', map { $side_name{$_} } @here ],
			map { my $case = $_; [ $case == 1 ? 'one a call' : "$case a call", map { wal($case, $_, 'wal') } @here ] } @{ $cases{wal} });
	}
	(my $script = $0) =~ s/report\.pl$/plots.gp/;
	system('gnuplot', '-c', $script, "$dir/plots", $to) == 0 or die "gnuplot failed\n";
}

# ---- the page ----

# Return a section, or nothing if its workload was not run. note: a paragraph at the end of its text.
sub section
{
	my ($workload, $title, $text, $make, $note) = @_;
	return '' unless $cases{$workload};
	my $plot = defined $docs && -e "$docs/benchmarks/$workload.svg" ? "![$title](benchmarks/$workload.svg)\n\n" : '';
	return "## $title\n\n" . (defined $docs ? "$text\n\n" : '') . ($note // '') . $make->() . "\n$plot";
}

# Replace the sections that were measured, and their goals, in the page.
sub replace_sections
{
	my $file = shift;
	my $note = 'This section was not measured together with the others, but on its own: ' .
		join(', ', $machine{date}, "pgq_ext $machine{pgq_ext}", "PostgreSQL $machine{PostgreSQL}", $machine{processor}) . ", by `$machine{command} $machine{workloads}`.\n\n";
	open my $in, '<', $file or die "$file: $!";
	my $page = do { local $/; <$in> };
	my $place = '## On a larger machine';
	for my $section (reverse @sections)
	{
		my $heading = "## $section->[1]";
		my $new = section(@$section, $note);
		if ($page =~ /^\Q$heading\E$/m)
		{
			$page =~ s/^\Q$heading\E\n.*?(?=^## |\z)/$new/ms if $new;
			$place = $heading;
		}
		elsif ($new)
		{
			$page =~ s/^(?=\Q$place\E$)/$new/m or die "$file has no section \"$place\"\n";
			$place = $heading;
		}
	}
	for my $goal (map { /^(\| (?!goal |---).*)\n/ ? $1 : () } split /(?<=\n)/, goals_table())
	{
		my ($what) = $goal =~ /^\| (.*?) \|/;
		$page =~ s/^\| \Q$what\E \|.*$/$goal/m or $page =~ s/^(## Goals\n.*?\n(?:\|[^\n]*\n)+)/$1$goal\n/ms or die "$file has no goals\n";
	}
	open my $out, '>', $file or die "$file: $!";
	print $out $page;
	close $out;
}

if (@only)
{
	replace_sections("$docs/benchmarks.md");
	exit;
}

my $plots = defined $docs ? "$docs/benchmarks" : undef;
if (defined $docs)
{
	mkdir $plots;
	write_plots($plots);
	open STDOUT, '>', "$docs/benchmarks.md" or die "$docs/benchmarks.md: $!";
}

if (defined $docs)
{
	print <<'MD';
# Benchmarks

Made by `bench/run.sh full`; do not edit. On another machine the figures are different. The ratios are similar there, if both figures are from the same run.

This page compares five sides. Each ran on the same server with `synchronous_commit = on`, with the same payload (a jsonb of 46 characters) and the same client program. The client uses prepared statements, and runs on the same machine as the server. The sides are:

- **pgq_ext**, with the defaults of `pgq_create_queue`;
- **SKIP LOCKED**: a table with a row for each job, and a partial index in the order of the claims. A claim is an `UPDATE ... FOR UPDATE SKIP LOCKED`, and an ack is a `DELETE`;
- **advisory locks**: the same table, and one transaction for each job. A worker tries `pg_try_advisory_xact_lock` on one job after the other, checks that the job whose lock it got still exists, works, and deletes the job. Its transaction, with
  its snapshot and its lock, stays open while it works;
- **pgmq**, if it is installed, with its functions `send`, `read` and `delete`;
- **ceiling**: what PostgreSQL can do without a queue. For an enqueue this is an `INSERT` into a table with only a primary key. For claim and ack it is `SELECT 1` and then a `DELETE` by primary key, so that no job has to be found or locked; in batches it is one `DELETE ... WHERE id = ANY ($1)`. `pgq_ack_claim` needs only one round trip where the ceiling needs two, so it can exceed the ceiling. This ceiling hands out no payload. Two others do, and need the id of the job too: a `SELECT` of the row and then its `DELETE`, and one `DELETE ... RETURNING`.

A measurement has several rounds. In each round each side runs once, and each figure is the median of the rounds. Before a side runs, its queue gets more jobs than can be done in that time, so each claim returns a job. Then the queue is vacuumed, and the server does a checkpoint; autovacuum is on. The first second of each run does not count. After each workload the remaining jobs are counted: none was lost or done twice. The statements are in `bench/sides`, the client is in `bench/load`.

MD
	print map { "- $_: $machine{$_}\n" }
		grep { exists $machine{$_} } 'date', 'processor', 'memory', 'system', 'PostgreSQL', 'settings', 'pgq_ext', 'pgmq';
	print "\n```sh\n$machine{command}\n```\n\n## Goals\n\nIn a goal, *A against B* stands for the figure of A divided by the figure of B. The column *the ceiling* has the value that the ceiling would reach in place of pgq_ext.\n\n";
}
print goals_table(), "\n";
print section(@$_) for @sections;
if (defined $docs)
{
	print <<'MD';
## On a larger machine

The measurements on this page were made on two cores. This section estimates, for *one* queue, what a machine with 64 cores would do. Nothing here was measured on such a machine.

All sessions share the lock of the queue. The table shows how often a call takes this lock, and how many instructions the call executes while it holds the lock. Both numbers were counted by callgrind with PostgreSQL 15, for the same calls and in the same way as in the section "Instructions" at the end of this page. The numbers do not depend on how many jobs, leases and waiting claims there are.

| call | holds of the queue's lock | thousand instructions in them |
| --- | --: | --: |
| enqueue | 1 | 0.9 |
| claim + ack | 5 | 4.1 |
| ack_claim, ack_next | 4 | 3.9 |
| enqueue_many of 500, for a job | 0.004 (2 a call) | 0.1 |
| claim + ack_many of 500, for a job | 1.03 (514 a call) | 2.9 |
| ack_claim of 500, for a job | 1.03 (517 a call) | 3.5 |

The assumptions are:

- A core executes 3,000 instructions in a microsecond while it holds the lock.
- While a call holds the lock, it also fetches 10 to 25 cache lines that another core has written. Each fetch takes 70 ns; half of this time overlaps with other work.
- The life of a job costs 190 microseconds of all cores together, with client and kernel, as on two cores ("The whole life of a job").

So the life of a job (its enqueue, claim and ack) holds the lock 6 times: for 1.7 microseconds of instructions and 2 to 5 microseconds of fetches, together 4 to 7 microseconds. That is 2 to 4 % of the 190 microseconds. By Amdahl's law 64 cores then do 19 to 27 times as much as one core: **100,000 to 150,000 lives of jobs a second in one queue**, one job a call. With batches of 500 the lock is held for 1.4 to 1.9 microseconds for each job. If sessions always wait for the lock, it is held for perhaps two thirds of the time, so one queue can do 350,000 to 480,000 jobs a second. Each queue has a lock of its own.

At such rates other parts of the server become busy, too. This list has the parts that would be the next limit, the first one first, and the rates at which they would be:

1. The last page of each of the two indexes, and of the table. Each new job locks these pages, as each `INSERT` into one table with a serial key does: 100,000 to 200,000 jobs a second.
2. The lock by which a transaction that enqueues keeps its queue from being dropped. It is in the lock table of the server. To take and to release it, each enqueue locks the same part of that table: 300,000 to 500,000 calls a second. A batch takes the lock of the queue only once.
3. The disk. Sessions that commit at the same time share one fsync, but each session waits for it. With 0.5 ms for an fsync and two commits for the life of a job, 100 clients cannot do more than 100,000 lives a second. The amount of WAL is no limit: with 453 bytes of WAL for the life of a job, 150,000 lives a second write 68 MB/s. But the whole server has only eight locks under which records are copied into the WAL buffers.
4. The list of running transactions (ProcArray). The life of a job reads this list about six times, and changes it at its two commits. Sessions that commit at the same time change the list together.

MD
	print instructions_section("$FindBin::Bin/instructions.tsv");
}
