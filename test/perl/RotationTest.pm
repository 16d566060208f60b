# Shared by the tests of rotation: a server with small segments, work that fills them, and functions that look at
# them.
package RotationTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Exporter 'import';

our @EXPORT = qw(rotating_node answer_all work current_segment next_segment fresh_segment close_segment close_with_backlog truncations total_size wait_until_truncated
  wait_until_settled $other_jobs enqueue_slow wait_until_moved being_moved stop_scheduler_at scheduler_stands let_go send_and_block);

# All jobs except those that fill segments.
our $other_jobs = q{FROM pgq_ext.job j JOIN pgq_ext.queue q USING (queue_id) WHERE q.queue <> 'work'};

# A server whose queue "work" fills segments. Segments are closed only when they are full.
sub rotating_node
{
	my ($name, %options) = @_;
	$options{conf} = "pgq_ext.segment_size = '256kB'\npgq_ext.segment_dead_rows = 0\nautovacuum = off\n" . ($options{conf} // '');
	my $node = pgq_node($name, %options);
	create_queue($node, 'work');
	wait_for_scheduler($node);
	return $node;
}

# Returns SQL that claims that many jobs and answers each. Retries, since some jobs may be moving to another segment.
sub answer_all
{
	my ($queue, $jobs, $answer) = @_;
	return qq{DO \$\$
		DECLARE jobs int := $jobs;
		BEGIN
			FOR i IN 1 .. 60 LOOP
				jobs := jobs - (SELECT count($answer) FROM pgq_claim('$queue', jobs, wait => '1 s'));
				EXIT WHEN jobs = 0;
			END LOOP;
			IF jobs > 0 THEN RAISE '% of $jobs jobs are not handed out', jobs; END IF;
		END \$\$};
}

# Enqueues and acknowledges jobs; each leaves a dead row of about 600 bytes.
sub work
{
	my ($node, $jobs) = @_;
	$node->safe_psql('postgres', "SELECT count(pgq_enqueue('work', to_jsonb(repeat('x', 500)))) FROM generate_series(1, $jobs);"
		  . answer_all('work', $jobs, 'pgq_ack(job_id, lease)'));
	return;
}

sub current_segment
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{SELECT segment FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass});
}

# Works until new jobs go to another segment, $jobs at a time. Returns the segment to which they went before.
sub next_segment
{
	my ($node, $jobs) = @_;
	my $before = current_segment($node);
	my $ending = time + $PostgreSQL::Test::Utils::timeout_default;
	while (time < $ending)
	{
		work($node, $jobs // 100);
		return $before if current_segment($node) != $before;
	}
	die "segment $before is still the current one";
}

# Returns a current segment that is far from full, after all other segments that can be truncated have been. 250 jobs take 150 kB, and
# most of those by which the segment before became full may be in this one.
sub fresh_segment
{
	my ($node, $jobs) = @_;
	my $far = q{SELECT size < 180 * 1024 FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass};
	my $ending = time + $PostgreSQL::Test::Utils::timeout_default;
	do
	{
		die 'each new segment is nearly full' if time >= $ending;
		next_segment($node, $jobs);
	} until $node->safe_psql('postgres', $far) eq 't';
	wait_until_settled($node);
	return current_segment($node);
}

# Works until that segment is not the current one. Leaves the next one alone: it is not closed while the scheduler stands at a stop point.
sub close_segment
{
	my ($node, $n) = @_;
	my $ending = time + $PostgreSQL::Test::Utils::timeout_default;
	while (current_segment($node) == $n)
	{
		die "segment $n is still the current one" if time >= $ending;
		work($node, 250);
	}
	return;
}

# Closes the segment with waiting jobs, which are too many to be moved. The arguments are pgq_enqueue's. Returns the
# number of jobs.
sub close_with_backlog
{
	my ($node, $n, $arguments) = @_;
	my $jobs = 0;
	my $ending = time + $PostgreSQL::Test::Utils::timeout_default;
	while (current_segment($node) == $n)
	{
		die "segment $n is still the current one" if time >= $ending;
		$jobs += $node->safe_psql('postgres', "SELECT count(pgq_enqueue($arguments)) FROM generate_series(1, 100)");
	}
	return $jobs;
}

# Number of truncations so far, of one segment or of all.
sub truncations
{
	my ($node, $segment) = @_;
	return $node->safe_psql('postgres',
		'SELECT sum(truncations) FROM pgq_ext.segment' . (defined $segment ? " WHERE segment = $segment" : ''));
}

# Size of the segments, with indexes and TOAST.
sub total_size
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		q{SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'pgq_ext.job'::regclass});
}

# Waits until the segment has been truncated more than $before times.
sub wait_until_truncated
{
	my ($node, $segment, $before) = @_;
	wait_for($node, "truncations > $before FROM pgq_ext.segment WHERE segment = $segment");
	return;
}

# Waits until no segment of jobs or dead letters is closed, and the survivors' segment has live rows: all segments that
# can be truncated have been.
sub wait_until_settled
{
	my ($node) = @_;
	wait_for($node, q{count(*) = 0 FROM pgq_ext.segment WHERE (state = 'closed' OR state = 'survivors' AND live_rows = 0) AND parent IN ('pgq_ext.job'::regclass, 'pgq_ext.dead_job'::regclass)});
	return;
}

# ---- jobs that outlive their segment ----

# $options: more arguments of pgq_enqueue
sub enqueue_slow
{
	my ($node, $n, $options) = @_;
	my $arguments = join ', ', q{'slow'}, 'to_jsonb(i)', $options // ();
	return split /\n/, $node->safe_psql('postgres', "SELECT pgq_enqueue($arguments) FROM generate_series(1, $n) i");
}

# Waits until only these jobs are left in the segment.
sub wait_until_moved
{
	my ($node, $n, @left) = @_;
	wait_for($node, "coalesce(string_agg(job_id::text, ' ' ORDER BY job_id), '') = '@left' $other_jobs AND segment = $n");
	return;
}

# Enqueues jobs to the queue "slow" (enqueue_slow), and stops the scheduler after it has moved their rows, before its commit. Returns
# (gate session, ids).
sub being_moved
{
	my ($node, $n, $options) = @_;
	my $segment = fresh_segment($node, 250);
	my @ids     = enqueue_slow($node, $n, $options);
	my $gate    = stop_scheduler_at($node, 'rotation-moved');
	close_segment($node, $segment);
	scheduler_stands($node);
	return ($gate, @ids);
}

# ---- stop points ----

my $stops = 0;

# Makes the scheduler stop at that point. Returns the session that keeps it there.
sub stop_scheduler_at
{
	my ($node, $where) = @_;
	my $gate = session($node);
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	# A scheduler that shows the new application_name has read the stop point, too. One that stands at a stop point reads neither.
	my $name = 'stops at ' . ++$stops;
	$node->safe_psql('postgres', "ALTER SYSTEM SET application_name = '$name'; ALTER SYSTEM SET pgq_ext.stop_point = '$where'; SELECT pg_reload_conf()");
	wait_for($node, "count(*) = 0 FROM pg_stat_activity
		WHERE backend_type = 'pgq_ext scheduler' AND application_name <> '$name' AND wait_event IS DISTINCT FROM 'advisory'");
	return $gate;
}

# Waits until the scheduler stands at the stop point, and returns its pid.
sub scheduler_stands
{
	my ($node) = @_;
	my $standing = q{FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE backend_type = 'pgq_ext scheduler' AND locktype = 'advisory' AND NOT granted};
	wait_for($node, "count(*) = 1 $standing");
	return $node->safe_psql('postgres', "SELECT pid $standing");
}

# Lets the scheduler go on, if it is alive, and removes the stop point.
sub let_go
{
	my ($node, $gate) = @_;
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET application_name; ALTER SYSTEM RESET pgq_ext.stop_point; SELECT pg_reload_conf()');
	end_session($gate);
	return;
}

# Sends the statement, and waits until it waits for a lock.
sub send_and_block
{
	my ($node, $session, $sql) = @_;
	my $pid = pid_of($session);
	send_sql($session, $sql);
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
	return;
}

1;
