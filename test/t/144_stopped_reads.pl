# A claim that reads rows of groups, by visits of markers or by a step of the lap, is stopped before it reads or before it publishes
# what it has read. Meanwhile other sessions enqueue, end, move or delete jobs of a group, change the rules, or end the claim. Then
# each job goes out once, and the jobs of each group go out in their order.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "autovacuum = off\nsynchronous_commit = off\nmax_prepared_transactions = 5\n");
my ($gate, $worker, $other, $third, $queue);
my $queues = 0;

sub begin_sessions { ($gate, $worker, $other, $third) = map { session($node) } 1 .. 4; return }
sub end_sessions { end_session($_) for $gate, $worker, $other, $third; return }
begin_sessions();

ask($other, q{CREATE TABLE done (n serial, job_id bigint, group_key text); SELECT pgq_create_queue('elsewhere')});
# The SQL that claims a job and acknowledges the job, in one transaction. "done" has the jobs in the order in which they went out.
sub work
{
	return qq{INSERT INTO done (job_id, group_key)
		SELECT c.job_id, c.group_key FROM pgq_claim('$queue') c, LATERAL pgq_ack(c.job_id, c.lease) RETURNING 'one'};
}
ask($other, q{CREATE PROCEDURE drain(queue_name text) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 100 LOOP
			INSERT INTO done (job_id, group_key)
				SELECT c.job_id, c.group_key FROM pgq_claim(queue_name, wait => '1 s') c, LATERAL pgq_ack(c.job_id, c.lease);
			COMMIT;
			EXIT WHEN NOT EXISTS (SELECT FROM pgq_ext.job_status WHERE queue = queue_name);
		END LOOP;
	END $$});

# ---- a claim that is about to read ----

# Create a queue of which memory lacks no row, and enqueue one job for each element of @groups.
sub begin_queue
{
	my ($options, @groups) = @_;
	$queue = 'q' . ++$queues;
	my $list = join ', ', map { defined $_ ? "'$_'" : 'NULL' } @groups;
	ask($other, "SELECT pgq_create_queue('$queue', lease_time => '1 day', $options)");
	is(ask($other, "SELECT count(*) FROM pgq_claim('$queue')"), 0, 'the queue is empty');
	ask($other, "SELECT count(pgq_enqueue('$queue', '1', group_key => g)) FROM unnest(ARRAY[$list]::text[]) g");
	return;
}

# The SQL that ends a job in work, of the group x if there is one.
sub end_one
{
	return qq{SELECT pgq_ack(job_id, lease) FROM
		(SELECT job_id, lease FROM pgq_ext.lease WHERE queue = '$queue' ORDER BY group_key, job_id LIMIT 1) l};
}

# No group has room. Then a job of the group x ends: the next claim visits this group.
sub full_groups
{
	my ($options) = @_;
	begin_queue($options, ('x') x 6, ('y') x 3);
	my $claimed = ask($other, "SELECT count(*) FROM pgq_claim('$queue', 10)");
	is($claimed, $options =~ /fifo/ ? 2 : 4, 'each group has as many jobs in work as it may');
	ask($other, end_one());
	return;
}

# A change of the rules makes memory forget the jobs of the queue. So the next claim makes steps of the lap, and visits the jobs without a
# group.
sub read_again
{
	my ($options, $group, @more) = @_;
	# With fifo, two groups have a job in work: the stopped claim gets the job of a third group.
	begin_queue($options, ($group) x 5, defined $group ? ('y') x 3 : (), $options =~ /fifo/ ? 'z' : (), @more);
	is(ask($other, "SELECT count(*) FROM pgq_claim('$queue', 2)"), 2, 'two jobs are in work');
	ask($other, "SELECT pgq_alter_queue('$queue', fair => false)");
	ask($other, "SELECT pgq_alter_queue('$queue', fair => true)");
	return;
}

sub stop_at
{
	my ($claimer, $point) = @_;
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($claimer, "SET pgq_ext.stop_point = '$point'");
	send_sql($claimer, work());
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND objid = 0 AND NOT granted});
	return;
}

# ---- what goes out ----

my $in_work = 'EXISTS (SELECT FROM pgq_ext.lease l WHERE l.job_id = j.job_id)';
# For each group its jobs that wait, in the order in which they have to go out.
sub waiting
{
	my ($options) = @_;
	my $order = $options =~ /fifo/ ? 'job_id' : 'priority DESC, run_at, job_id';
	return ask($other, qq{SELECT string_agg(ids, '; ' ORDER BY ids) FROM
		(SELECT coalesce(group_key, '-') || string_agg(' ' || job_id, '' ORDER BY $order) AS ids
			FROM pgq_ext.job j JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' AND NOT $in_work GROUP BY group_key) g});
}
sub first_of
{
	my ($group) = @_;
	my $key = defined $group ? "'$group'" : 'NULL';
	return ask($other, qq{SELECT min(job_id) FROM pgq_ext.job j JOIN pgq_ext.queue USING (queue_id)
		WHERE queue = '$queue' AND group_key IS NOT DISTINCT FROM $key AND NOT $in_work});
}
# Check that all other jobs go out, after the stopped claim has ended.
sub drained_ok
{
	my ($expected) = @_;
	ask($other, "SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = '$queue'");
	ask($other, "CALL drain('$queue')");
	is(ask($other, q{SELECT string_agg(ids, '; ' ORDER BY ids) FROM
		(SELECT coalesce(group_key, '-') || string_agg(' ' || job_id, '' ORDER BY n) AS ids FROM done GROUP BY group_key) g}),
		$expected, '... all jobs go out once, those of each group in their order');
	is(ask($other, "SELECT repaired FROM pgq_ext.queue_stats WHERE queue = '$queue'"), 0, '... memory has forgotten none');
	is(ask($other, 'SELECT * FROM pgq_check()'), '', '... and all is well');
	ask($other, "SELECT pgq_drop_queue('$queue'), pgq_purge_queue('elsewhere')");
	ask($other, 'TRUNCATE done');
	return;
}

# ---- what happens meanwhile ----

# Each element: what happens, and a function that returns the SQL for this. The function gets the first waiting job of a group, and
# the key of this group.
my @meanwhile = (
	[ 'nothing happens' => sub { 'SELECT 1' } ],
	[ 'a job of the group is enqueued' => sub { "SELECT pgq_enqueue('$queue', '2', group_key => $_[1])" } ],
	[ 'an urgent job of the group is enqueued' => sub { "SELECT pgq_enqueue('$queue', '2', group_key => $_[1], priority => 5)" } ],
	[ 'a prepared job of the group is committed' => sub {
			"BEGIN; SELECT pgq_enqueue('$queue', '2', group_key => $_[1]); PREPARE TRANSACTION 'm'; COMMIT PREPARED 'm'" } ],
	[ 'a job in work ends' => sub { end_one() } ],
	[ 'the next job is cancelled' => sub { "SELECT pgq_cancel($_[0])" } ],
	[ 'the next job is deleted by SQL' => sub { "DELETE FROM pgq_ext.job WHERE job_id = $_[0]" } ],
	[ 'the next job gets a lower priority' => sub { "SELECT pgq_update($_[0], priority => -1)" } ],
	[ 'the next job is moved to another group' => sub { "SELECT pgq_update($_[0], group_key => 'w')" } ],
	[ 'the next job is moved to another group by SQL' => sub { "UPDATE pgq_ext.job SET group_key = 'w' WHERE job_id = $_[0]" } ],
	[ 'the next job is moved to another queue by SQL' => sub {
			"UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'elsewhere') WHERE job_id = $_[0]" } ],
	[ 'SQL moves a job of another group into the group' => sub {
			"UPDATE pgq_ext.job SET group_key = $_[1] WHERE job_id = (SELECT max(job_id) FROM pgq_ext.job j
				JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' AND group_key = 'y' AND NOT $in_work)" } ],
	[ 'the option fair is changed' => sub {
			"SELECT pgq_alter_queue('$queue', fair => NOT fair) FROM pgq_ext.queue WHERE queue = '$queue'" } ]);

# Each element: options of the queue, the group of the jobs that are changed, and the function that makes the next claim read.
my @visits = map { [ $_, 'x', \&full_groups ] } 'group_concurrency => 2', 'fifo => true',
  'fair => true, group_concurrency => 2', 'fair => true, fifo => true';
my @laps = map { [ $_, 'x', \&read_again ] } 'fair => true', 'fair => true, group_concurrency => 2', 'fair => true, fifo => true';
my $ungrouped = [ 'fair => true', undef, \&read_again ];

sub meanwhile_ok
{
	my ($point, $kind, $change, @more) = @_;
	my ($options, $group, $begin) = @$kind;
	my ($what, $statement) = @$change;
	$begin->($options, $group, @more);
	my $first = first_of($group);
	stop_at($worker, $point);
	ask($other, $statement->($first, defined $group ? "'$group'" : 'NULL'));
	my $expected = waiting($options);
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	is(reply($worker), 'one', "$options, stopped at $point, $what: the claim gets a job");
	drained_ok($expected);
	return;
}

for my $change (@meanwhile)
{
	meanwhile_ok('visit-publish', $_, $change) for @visits, $ungrouped;
	meanwhile_ok('lap-publish', $_, $change) for @laps;
}
# A claim that is stopped before it reads will read the changes, so fewer cases suffice.
for my $change (@meanwhile[ 1 .. 4 ])
{
	meanwhile_ok('visit-scan', $_, $change) for @visits, $ungrouped;
	meanwhile_ok('lap-scan', $_, $change) for @laps;
}

# ---- the claim is ended ----

# Another claim waits for the stopped claim, and goes on when the stopped claim is ended.
for my $end ('pg_cancel_backend', 'pg_terminate_backend')
{
	for my $case ((map { my $point = $_; map { [ $point, $_ ] } @visits, $ungrouped } 'visit-scan', 'visit-publish'),
		(map { my $point = $_; map { [ $point, $_ ] } @laps } 'lap-scan', 'lap-publish'))
	{
		my ($point, $kind) = @$case;
		my ($options, $group, $begin) = @$kind;
		my $claimer = session($node);
		my ($pid, $waits) = (pid_of($claimer), pid_of($third));
		$begin->($options, $group);
		stop_at($claimer, $point);
		my $expected = waiting($options);
		send_sql($third, work());
		wait_for($node, "count(*) > 0 FROM pg_locks WHERE pid = $waits AND NOT granted");
		ask($other, "SELECT $end($pid)");
		my ($answer, $error) = reply($claimer);
		is($answer, '', "$options, stopped at $point, $end: the claim gets nothing");
		isnt($error, '', '... but an error');
		is(reply($third), 'one', '... a claim that has waited for it gets a job');
		ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
		end_session($claimer);
		drained_ok($expected);
	}
}

# ---- fewer places than groups ----

# A job that is filed while a step of the lap reads evicts other jobs from memory.
end_sessions();
$node->append_conf('postgresql.conf', "pgq_ext.window_size = 4\n");
$node->restart;
wait_until_counted($node);
begin_sessions();
for my $change (@meanwhile)
{
	meanwhile_ok('lap-publish', $_, $change, map { "z$_" } 1 .. 8) for @laps;
}
# Several jobs are enqueued at once: one of each of many groups. Some of these groups are new.
for my $kind (@laps)
{
	meanwhile_ok($_, $kind, [ 'jobs of many groups are enqueued' => sub {
				"SELECT count(pgq_enqueue('$queue', '2', group_key => 'z' || i)) FROM generate_series(1, 16) i" } ], map { "z$_" } 1 .. 8)
	  for 'lap-scan', 'lap-publish';
}

# A job in work becomes the head of another group, and ends after a visit of this group has read it. Memory has no place for its hint.
{
	begin_queue('fifo => true', 'x', 'y', 'y', map { "z$_" } 1 .. 8);
	my ($x, $y) = split /\n/, ask($other, "SELECT job_id FROM pgq_claim('$queue', 2) ORDER BY 1");
	my $ack = 'SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE job_id =';
	ask($other, "$ack $y");
	ask($other, "UPDATE pgq_ext.job SET group_key = 'y', priority = -1 WHERE job_id = $x");
	stop_at($worker, 'visit-publish');
	ask($other, "$ack $x");
	my $expected = waiting('fifo => true');
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	is(reply($worker), 'one', 'a job in work that SQL has moved to another group ends during a visit of this group');
	drained_ok($expected);
}

end_sessions();
$node->stop;
done_testing();
