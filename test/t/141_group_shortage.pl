# Leases or places in the window run short: each claim still ends, no turn of a group is lost, and no queue takes the
# memory that other queues need for their groups.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $leases = 16;
my $node = pgq_node('main', conf => "autovacuum = off\nsynchronous_commit = off\npgq_ext.max_leases = $leases\npgq_ext.window_size = 16\n"
	  . "pgq_ext.max_queues = 24\nstatement_timeout = '600 s'\n");
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }
# Create a queue, and let a claim find that it is empty: from then on, memory lacks no row that no cursor or marker covers.
sub make
{
	my ($queue, $options) = @_;
	sql("SELECT pgq_create_queue('$queue'" . ($options ? ", $options" : '') . ')');
	is(sql("SELECT count(*) FROM pgq_claim('$queue')"), 0, "queue $queue is empty");
	return;
}
# Enqueue a job of each group from g$first to g$groups, in transactions of ten jobs.
sub enqueue
{
	my ($queue, $groups, $first) = @_;
	$first //= 1;
	return sql(join ';', map { "SELECT count(pgq_enqueue('$queue', '1', group_key => 'g' || i)) FROM generate_series($_, LEAST($_ + 9, $groups)) i" } map { 10 * $_ + $first } 0 .. ($groups - $first) / 10);
}
sub state_of { my ($queue, $n) = @_; return scalar sqlstate($node, "SELECT * FROM pgq_claim('$queue', $n)") }
sub claimed { my ($queue, $n) = @_; return sql("SELECT count(*) FROM pgq_claim('$queue', $n)") }
sub ack { my ($queue) = @_; return sql("SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = '$queue'") }
# Claim five jobs at a time and acknowledge them, until there is none. Return the number of jobs. A procedure does this in one
# session, with a transaction for each claim and each acknowledgement.
sql(q{CREATE PROCEDURE drain(queue_name text, INOUT n int) LANGUAGE plpgsql AS $$
	DECLARE
		before int := -1;
	BEGIN
		WHILE n > before LOOP
			before := n;
			n := n + (SELECT count(*) FROM pgq_claim(queue_name, 5));
			COMMIT;
			PERFORM pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE queue = queue_name;
			COMMIT;
		END LOOP;
	END $$});
sub drained { my ($queue) = @_; return sql("CALL drain('$queue', 0)") }
sub drop { sql("SELECT pgq_drop_queue('$_', force => true)") for @_; return }
sub well_ok { is(sql('SELECT * FROM pgq_check()'), '', '... all is well'); return }

# ---- no lease is left ----

make('other');
sql(q{SELECT count(pgq_enqueue('other', '1')) FROM generate_series(1, 100)});
for my $rule ('fair => true', 'fair => true, group_concurrency => 1', 'fair => true, fifo => true', 'fifo => true')
{
	make('q', $rule);
	enqueue('q', 100);
	is(claimed('other', $leases), $leases, "$rule: another queue has all leases");
	is(state_of('q', 3), '53400', '... a claim says so') for 1 .. 3;
	ack('other');
	is(drained('q'), 100, '... and gets all jobs when they are free');
	well_ok();
	drop('q');
}

{
	# The window is full. The next job of a group that has room again comes after the last job of the window.
	make('q', 'group_concurrency => 1');
	for my $job (1, 2)
	{
		enqueue('q', 1);
		is(claimed('q', 1), 2 - $job, 'one job of a group runs');
	}
	sql(q{SELECT count(pgq_enqueue('q', '1', group_key => 'h' || i)) FROM generate_series(1, 15) i});
	enqueue('q', 1);
	ack('q');
	is(claimed('q', 1), 1, '... the next one when it has ended');
	sql(q{SELECT pgq_enqueue('q', '1', group_key => 'h16', priority => 1)});
	is(claimed('other', $leases - 1), $leases - 1, '... then another queue takes the leases');
	ack('q');
	is(claimed('other', 1), 1, '... all of them');
	is(state_of('q', 1), '53400', '... a claim says so') for 1 .. 2;
	ack('other');
	is(drained('q'), 17, '... and gets all jobs when they are free');
	well_ok();
	drop('q');
}

{
	make('q', 'fair => true');
	sql(q{SELECT count(pgq_enqueue('q', '1', group_key => 'g' || i % 2)) FROM generate_series(1, 12) i});
	is(claimed('other', $leases - 1), $leases - 1, 'one lease is left');
	my @turns;
	for (1 .. 6)
	{
		push @turns, sql(q{SELECT group_key FROM pgq_claim('q')});
		is(state_of('q', 1), '53400', '... then none');
		ack('q');
	}
	is(join(' ', @turns), join(' ', ($turns[0], $turns[0] eq 'g0' ? 'g1' : 'g0') x 3), '... no group loses its turn by that');
	ack('other');
	drop('q', 'other');
}

# ---- more groups than entries and places ----

for my $rule ('fair => true, fifo => true', 'fair => true', 'fair => true, group_concurrency => 2')
{
	make('q', $rule);
	enqueue('q', 300);
	is(claimed('q', 1), 1, "$rule: more groups than there are entries");
	ack('q');
	enqueue('q', 310, 301);
	is(drained('q'), 309, '... all of them have their turn');
	well_ok();
	drop('q');
}

# ---- turns of more groups than there are places ----

{
	# Three rounds of 60 groups with two priorities, among them a group with many jobs.
	make('q', 'fair => true');
	sql(q{SELECT count(pgq_enqueue('q', '1', group_key => 'hot')) FROM generate_series(1, 200)});
	sql(qq{SELECT count(pgq_enqueue('q', '1', group_key => 'g' || i, priority => $_)) FROM generate_series(1, 59) i}) for 0, 0, 0, 1;
	my @rounds;
	for my $groups (59, 60, 60, 60)
	{
		my %turns;
		for (my $left = $groups; $left > 0; $left -= 6)
		{
			my $n = $left < 6 ? $left : 6;
			$turns{$_}++ for split / /, sql(qq{SELECT string_agg(c.group_key, ' ') FROM pgq_claim('q', $n) c, LATERAL pgq_ack(c.job_id, c.lease)});
		}
		push @rounds, scalar(keys %turns) . ' groups, at most ' . (sort { $b <=> $a } values %turns)[0];
	}
	is(join('; ', @rounds), '59 groups, at most 1; 60 groups, at most 1; 60 groups, at most 1; 60 groups, at most 1', 'more groups than places: in each round each has one turn');
	is(drained('q'), 197, '... then the others');
	well_ok();
	drop('q');
}

# ---- options that were not checked ----

# Neither restores nor logical replication check that options fit together. In a queue with fair and group_rate_limit the limit
# holds, and fair has no effect.
sql(q{CREATE TABLE started (group_key text)});
for my $door ('session_replication_role = replica', 'check_function_bodies = off')
{
	make('q', q{fair => true, rate_period => '1 day', lease_time => '1 day'});
	# The option max_depth shows when memory has the new options.
	sql("SET $door; UPDATE pgq_ext.queue SET group_rate_limit = 1, max_depth = 1000 WHERE queue = 'q'");
	wait_for($node, q{depth IS NOT NULL FROM pgq_ext.queue_status WHERE queue = 'q'});
	sql(q{SELECT count(pgq_enqueue('q', '1', group_key => 'g' || i % 60)) FROM generate_series(1, 240) i});
	sql(q{DO $$ BEGIN
		LOOP
			INSERT INTO started SELECT c.group_key FROM pgq_claim('q') c, LATERAL pgq_ack(c.job_id, c.lease);
			EXIT WHEN NOT FOUND;
			COMMIT;
		END LOOP; END $$});
	my $started = sql('SELECT count(*) FROM started');
	cmp_ok($started, '>', 0, "fair and group_rate_limit, written with $door: jobs go out");
	is(sql('SELECT max(n) FROM (SELECT count(*) AS n FROM started GROUP BY group_key) g'), 1, '... of each group one at most');
	is(sqlstate($node, q{SELECT pgq_alter_queue('q', max_attempts => 5)}), '22023', '... a change of other options is refused');
	sql(q{SELECT pgq_alter_queue('q', group_rate_limit => 0)});
	is(drained('q'), 240 - $started, '... and without the limit the others go out');
	well_ok();
	drop('q');
	sql('TRUNCATE started');
}

# ---- queues that hold nothing, and queues that wait ----

my @idle = map { "idle$_" } 1 .. 8;
make($_, 'fair => true') for @idle;
make('q', 'group_concurrency => 1');
sub all_leases_ok
{
	my ($what) = @_;
	enqueue('q', 100);
	is(join(' ', map { claimed('q', 4) } 1 .. $leases / 4), join(' ', (4) x ($leases / 4)), "$what: another queue has a group in work for each lease");
	is(state_of('q', 4), '53400', '... then leases are short');
	ack('q');
	is(drained('q'), 100 - $leases, '... and goes on');
	return;
}
all_leases_ok('queues with fair that have nothing');
for my $queue (@idle)
{
	enqueue($queue, 60);
	is(drained($queue), 60, "$queue has had its jobs");
}
all_leases_ok('queues with fair that have had many groups');
enqueue($_, 200) for @idle[ 0 .. 2 ];
all_leases_ok('queues with fair that nobody claims from');
my %waits = (fifo => 'fifo => true', limit => 'group_concurrency => 1', both_limits => 'fair => true, group_concurrency => 1');
for my $name (sort keys %waits)
{
	for my $queue (map { "$name$_" } 1 .. 3)
	{
		make($queue, $waits{$name});
		enqueue($queue, $leases) for 1, 2;
		is(claimed($queue, $leases), $leases, "$queue: a job of each group runs");
		ack($queue);
	}
}
all_leases_ok('queues whose groups wait, and that nobody claims from,');
make('both', 'fair => true, fifo => true');
enqueue('both', 120);
is(drained('both'), 120, '... one with fair and fifo beside them gets all of its jobs, too');
is(drained($_), 200, "... $_ has forgotten none") for @idle[ 0 .. 2 ];
for my $queue (map { ("${_}1", "${_}2", "${_}3") } sort keys %waits)
{
	is(drained($queue), $leases, "... and $queue neither");
}
well_ok();

$node->stop;
done_testing();
