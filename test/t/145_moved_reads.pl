# The rotation moves rows to another segment while a claim reads rows of the queue, by visits of markers or by a step of the lap. The
# claim has read the rows at their old places, or has still to read them, or finds them in the middle of the move. Then each job goes out once, and the jobs of each group go out in their order.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = rotating_node('main', conf => "synchronous_commit = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $worker = session($node);
my ($queue, $queues) = (undef, 0);

sql(q{CREATE TABLE done (n serial, job_id bigint, group_key text)});
# The SQL that claims a job and acknowledges the job. "done" has the jobs in the order in which they went out.
my $work = q{INSERT INTO done (job_id, group_key)
	SELECT c.job_id, c.group_key FROM pgq_claim('%s') c, LATERAL pgq_ack(c.job_id, c.lease) RETURNING 'one'};
sql(q{CREATE PROCEDURE drain(queue_name text) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 100 LOOP
			INSERT INTO done (job_id, group_key)
				SELECT c.job_id, c.group_key FROM pgq_claim(queue_name, wait => '1 s') c, LATERAL pgq_ack(c.job_id, c.lease);
			COMMIT;
			EXIT WHEN NOT EXISTS (SELECT FROM pgq_ext.job_status WHERE queue = queue_name);
		END LOOP;
	END $$});

my $waiting = 'NOT EXISTS (SELECT FROM pgq_ext.lease l WHERE l.job_id = j.job_id)';

# Create a queue, and enqueue jobs of two groups and without a group. Returns the segment of their rows.
sub begin_queue
{
	my ($options) = @_;
	my $segment = fresh_segment($node, 250);
	$queue = 'q' . ++$queues;
	sql("SELECT pgq_create_queue('$queue', lease_time => '1 day', $options)");
	sql(qq{SELECT pgq_enqueue('$queue', '1', group_key => g, priority => p)
		FROM unnest(ARRAY['x', 'x', 'x', 'x', 'x', 'y', 'y', 'y', NULL, NULL], ARRAY[0, 0, 1, 0, 0, 1, 0, 0, 0, 0]) AS t (g, p)});
	return $segment;
}

# All groups are full. Then a job of the group x ends: the next claim visits this group.
sub make_it_visit
{
	my ($options) = @_;
	sql("SELECT count(*) FROM pgq_claim('$queue', 6)");
	sql(qq{SELECT pgq_ack(job_id, lease) FROM
		(SELECT job_id, lease FROM pgq_ext.lease WHERE queue = '$queue' ORDER BY group_key, job_id LIMIT 1) l});
	return;
}

# A change of the rules makes memory forget the jobs of the queue.
sub make_it_read_again
{
	my ($options) = @_;
	my $fair = $options =~ /fair/ ? 'true' : 'false';
	sql("SELECT pgq_alter_queue('$queue', fair => NOT $fair)");
	sql("SELECT pgq_alter_queue('$queue', fair => $fair)");
	return;
}

# Check that all jobs that wait go out, when the other ones were acknowledged. expected: result of waiting_jobs() before the first of
# them went out.
sub waiting_jobs
{
	my ($options) = @_;
	my $order = $options =~ /fifo => true/ ? 'CASE WHEN group_key IS NULL THEN -priority END, job_id' : 'priority DESC, run_at, job_id';
	return sql(qq{SELECT string_agg(ids, '; ' ORDER BY ids) FROM
		(SELECT coalesce(group_key, '-') || string_agg(' ' || job_id, '' ORDER BY $order) AS ids
			FROM pgq_ext.job j JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' AND $waiting GROUP BY group_key) g});
}
sub drained_ok
{
	my ($expected) = @_;
	sql("SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = '$queue'");
	sql("CALL drain('$queue')");
	is(sql(q{SELECT string_agg(ids, '; ' ORDER BY ids) FROM
		(SELECT coalesce(group_key, '-') || string_agg(' ' || job_id, '' ORDER BY n) AS ids FROM done GROUP BY group_key) g}),
		$expected, '... all jobs go out once, those of each group in their order');
	is(sql("SELECT repaired FROM pgq_ext.queue_stats WHERE queue = '$queue'"), 0, '... memory has forgotten none');
	is(sql('SELECT count(*) FROM pgq_check()'), 0, '... and all is well');
	sql("SELECT pgq_drop_queue('$queue')");
	sql('TRUNCATE done');
	return;
}

# Each element: a stop point, options of a queue, and the function that makes a claim come to this point.
my @cases = (
	map({ my $options = $_; map { [ $_, $options, \&make_it_visit ] } 'visit-scan', 'visit-publish' }
		'group_concurrency => 2', 'fifo => true', 'fair => true, group_concurrency => 2', 'fair => true, fifo => true'),
	map({ my $options = $_; map { [ $_, $options, \&make_it_read_again ] } 'lap-scan', 'lap-publish' }
		'fair => true', 'fair => true, group_concurrency => 2', 'fair => true, fifo => true'));

# ---- the rows are moved while the claim is stopped ----

for my $case (@cases)
{
	my ($point, $options, $make_it_read) = @$case;
	my $segment = begin_queue($options);
	$make_it_read->($options);
	my $gate = session($node);
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($worker, "SET pgq_ext.stop_point = '$point'");
	send_and_block($node, $worker, sprintf $work, $queue);
	my $expected = waiting_jobs($options);
	my @stay = split /\n/, sql("SELECT job_id FROM pgq_ext.lease WHERE queue = '$queue' ORDER BY 1");
	close_segment($node, $segment);
	wait_until_moved($node, $segment, @stay);
	end_session($gate);
	is(reply($worker), 'one', "$options, stopped at $point, the waiting jobs are moved: the claim gets a job");
	ask($worker, 'RESET pgq_ext.stop_point');
	drained_ok($expected);
}

# ---- a claim reads in the middle of a move ----

# Without fair, the claim refills the window, if the scheduler has not done this before.
my @refills = map { [ '', $_, \&make_it_read_again ] } 'fifo => false', 'group_concurrency => 2', 'fifo => true';
for my $case (@refills, grep { $_->[0] =~ /scan/ } @cases)
{
	my (undef, $options, $make_it_read) = @$case;
	for my $how ('is done', 'fails')
	{
		my $segment = begin_queue($options);
		$make_it_read->($options);
		my $expected = waiting_jobs($options);
		my $gate = stop_scheduler_at($node, 'rotation-moved');
		close_segment($node, $segment);
		my $scheduler = scheduler_stands($node);
		send_and_block($node, $worker, sprintf $work, $queue);
		sql("SELECT pg_terminate_backend($scheduler, 60000)") if $how eq 'fails';
		let_go($node, $gate);
		is(reply($worker), 'one', "$options, a claim meets moving jobs, the move $how: the claim gets a job");
		drained_ok($expected);
	}
}

end_session($worker);
$node->stop;
done_testing();
