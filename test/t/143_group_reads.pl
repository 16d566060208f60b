# How many rows claims and pgq_check look up and read in queues with rules for groups. The test counts look-ups and index entries,
# and measures no times.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "autovacuum = off\nsynchronous_commit = off\nmax_prepared_transactions = 5\n");
my $s = session($node);

# Executes a statement. Returns the answer, the number of look-ups that the statement has made in the indexes of that name, and the
# number of entries that it has read there. In an open transaction, these functions of PostgreSQL count only what its session does.
sub cost
{
	my ($index, $statement) = @_;
	my $count = qq{SELECT sum(pg_stat_get_xact_numscans(i.indexrelid)), sum(pg_stat_get_xact_tuples_returned(i.indexrelid))
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname ~ '^job_[0-9]+_$index\$'};
	ask($s, 'BEGIN');
	my @before = split /\|/, ask($s, $count);
	my $answer = ask($s, $statement);
	my @after = split /\|/, ask($s, $count);
	ask($s, 'COMMIT');
	return ($answer, $after[0] - $before[0], $after[1] - $before[1]);
}

sub enqueue
{
	my ($queue, $jobs, $attributes) = @_;
	return ask($s, qq{SELECT count(*) FROM pgq_enqueue_many('$queue',
		(SELECT jsonb_agg(jsonb_build_object('payload', i, $attributes)) FROM generate_series(1, $jobs) i))});
}

# Claims and acknowledges jobs until no job is ready, with a transaction for each claim.
ask($s, q{CREATE PROCEDURE drain(queue_name text, INOUT n int) LANGUAGE plpgsql AS $$
	DECLARE
		before int := -1;
	BEGIN
		WHILE n > before LOOP
			before := n;
			n := n + (SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim(queue_name, 1000));
			COMMIT;
		END LOOP;
	END $$});

# ---- fifo: the heads of many groups are delayed ----

{
	my ($groups, $jobs) = (100, 4000);
	ask($s, q{SELECT pgq_create_queue('q', fifo => true)});
	is(ask($s, q{SELECT count(*) FROM pgq_claim('q')}), 0, 'the queue is empty');
	enqueue('q', $groups, q{'group_key', 'g' || i, 'delay', '1 day'});
	enqueue('q', $jobs, qq{'group_key', 'g' || i % $groups + 1});
	my ($answer, $look_ups) = cost('fifo', q{SELECT count(*) FROM pgq_claim('q')});
	is($answer, 0, 'the heads of all groups are delayed: a claim gets nothing');
	cmp_ok($look_ups, '<', $jobs / 2, '... and does not look for the head of the group at each waiting job');
	($answer, $look_ups) = cost('fifo', q{SELECT count(*) FROM pgq_claim('q')});
	is($answer, 0, '... nor does the next one');
	cmp_ok($look_ups, '<', $groups, '... which looks for hardly any head');
	ask($s, q{DELETE FROM pgq_ext.job WHERE job_id = (SELECT max(job_id) FROM pgq_ext.job)});
	($answer, $look_ups) = cost('fifo', q{SELECT count(*) FROM pgq_claim('q')});
	is($answer, 0, 'SQL has deleted a job, so all rows are read again: a claim gets nothing');
	cmp_ok($look_ups, '<', $jobs / 2, '... and does not look for the head of the group at each waiting job');
	($answer, $look_ups) = cost('fifo', q{SELECT * FROM pgq_check()});
	is($answer, '', 'pgq_check finds nothing wrong');
	cmp_ok($look_ups, '<', $jobs / 4, '... and does not look for the head of the group at each waiting job');
	ask($s, q{UPDATE pgq_ext.job SET run_at = now() WHERE run_at > now()});
	is(ask($s, q{CALL drain('q', 0)}), $groups + $jobs - 1, 'when the heads are due, all jobs go out');
	is(ask($s, q{SELECT * FROM pgq_check()}), '', '... all is well');
	ask($s, q{SELECT pgq_drop_queue('q')});
}

# ---- COMMIT PREPARED: only the groups of the transaction are read again ----

{
	my $groups = 400;
	for my $options ('fair => true', 'fair => true, group_concurrency => 2', 'fair => true, fifo => true', 'fifo => true', 'group_concurrency => 2')
	{
		ask($s, "SELECT pgq_create_queue('q', $options)");
		is(ask($s, q{SELECT count(*) FROM pgq_claim('q')}), 0, "$options: the queue is empty");
		enqueue('q', 2 * $groups, qq{'group_key', 'g' || i % $groups});
		# A claim and the end of its job, of which the next job of the group may have to be read.
		my $next = q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q')};
		ask($s, $next);
		my ($look_ups, $entries) = (0, 0);
		for my $i (1 .. 10)
		{
			ask($s, "BEGIN; SELECT pgq_enqueue('q', '1', group_key => 'g$i'); PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'");
			my ($answer, @read) = cost('(by_group|by_order|fifo)', $next);
			is($answer, 1, '... a claim after COMMIT PREPARED gets a job');
			$look_ups += $read[0];
			$entries += $read[1];
		}
		my $segments = ask($s, q{SELECT count(*) FROM pg_class WHERE relname ~ '^job_[0-9]+$'});
		cmp_ok($look_ups, '<=', 5 * 10 * $segments, '... and makes few look-ups');
		cmp_ok($entries, '<', 200, '... that read few rows');
		is(ask($s, q{CALL drain('q', 0)}), 2 * $groups - 1, '... all jobs go out');
		is(ask($s, q{SELECT * FROM pgq_check()}), '', '... all is well');
		ask($s, q{SELECT pgq_drop_queue('q')});
	}
}

# ---- fair: jobs without a group are looked for among many jobs with a group ----

{
	my $jobs = 20_000;
	ask($s, q{SELECT pgq_create_queue('q', fair => true, lease_time => '1 day')});
	enqueue('q', $jobs / 2, q{'group_key', 'g' || i % 10}) for 1, 2;
	end_session($s);
	$node->restart;
	wait_until_counted($node);
	$s = session($node);
	# In a claim of 500 jobs, the turn of the jobs without a group comes up many times.
	my ($answer, undef, $entries) = cost('by_order', q{SELECT count(*) FROM pgq_claim('q', 500)});
	is($answer, 500, 'all jobs have a group: a claim after a start gets as many jobs as it wants');
	cmp_ok($entries, '<', 2 * $jobs, '... and reads the jobs about once to find those without a group');
	($answer, undef, $entries) = cost('by_order', q{SELECT count(*) FROM pgq_claim('q', 500)});
	is($answer, 500, '... so does the next one');
	cmp_ok($entries, '<', $jobs / 10, '... which need not look for them again');
	is(ask($s, q{CALL drain('q', 0)}), $jobs - 1000, '... and all others go out');
	is(ask($s, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease}), 1000, '... those in work end');
	is(ask($s, q{SELECT * FROM pgq_check()}), '', '... all is well');
}

end_session($s);
$node->stop;
done_testing();
