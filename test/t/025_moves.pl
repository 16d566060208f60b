# Rows that stay longer than their segment are moved to another segment. A job does not change when its row moves,
# whichever operation meets the row during the move.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = rotating_node('main', conf => "pgq_ext.segment_size = '512kB'\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my ($first, $second) = map { session($node) } 1 .. 2;
create_queue($node, $_, "lease_time => '1 day'") for 'slow', 'held', 'month';

# All columns but the one that says where it is.
sub state_of_jobs { return sql("SELECT job_id, md5((to_jsonb(j) - 'segment')::text) $other_jobs ORDER BY job_id") }
my $moved_out = 'SELECT sum(moved_out) FROM pgq_ext.segment';

# ---- the job does not change ----

{
	my $n = fresh_segment($node, 250);
	my $big = '(SELECT jsonb_agg(random()) FROM generate_series(1, 200))';
	sql(qq{
		SELECT pgq_enqueue('slow', to_jsonb(i), priority => i % 3, headers => jsonb_build_object('h', i), max_attempts => nullif(i % 4, 0)) FROM generate_series(1, 12) i;
		SELECT pgq_enqueue('slow', $big, headers => $big, priority => 1);
		SELECT pgq_enqueue('month', '"later"', delay => '30 days', priority => i) FROM generate_series(1, 3) i;
		SELECT pgq_enqueue('month', '"failed"') FROM generate_series(1, 3);
		SELECT pgq_fail(job_id, lease, 'not yet', retry_in => '30 days') FROM pgq_claim('month', 3);
		UPDATE pgq_ext.job SET group_key = 'g', unique_key = 'u' || job_id, expires_at = '2100-01-01' WHERE job_id % 2 = 0;
		SELECT pgq_enqueue('held', to_jsonb(i)) FROM generate_series(1, 5) i});
	my @held = map { [ split /\|/ ] } split /\n/, sql(q{SELECT job_id, lease FROM pgq_claim('held', 4)});
	my ($locked) = split /\n/, sql(q{SELECT max(job_id) FROM pgq_ext.job});
	ask($second, "BEGIN; SELECT job_id FROM pgq_ext.job WHERE job_id = $locked FOR UPDATE");

	my $state = state_of_jobs();
	my $counters = q{SELECT queue, enqueued, handed_out, acked, failed, lost, dead_lettered, uncounted FROM pgq_ext.queue_stats WHERE queue <> 'work' ORDER BY 1};
	my $counted = sql($counters);
	my $order = q{SELECT job_id, attempts + 1, coalesce(max_attempts, 20), md5(payload::text), md5(headers::text) FROM pgq_ext.job
		WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'slow') ORDER BY priority DESC, run_at, job_id};
	my $expected = sql($order);
	close_segment($node, $n);
	wait_until_moved($node, $n, map({ $_->[0] } @held), $locked);
	pass('jobs that wait, later or again are moved, those in work and a row that is locked are not');
	is(state_of_jobs(), $state, '... they are the same jobs');
	is(sql($counters), $counted, '... nothing is counted');
	like(sql("SELECT held_by FROM pgq_ext.segment WHERE segment = $n"), qr/live rows/, '... what is left holds the segment');
	is(sql('SELECT count(*) FROM pgq_check()'), '0', '... all is well');

	# One transaction prepared, one open, one that fails, one that takes its time.
	my $before = truncations($node, $n);
	my ($prepared, $open, $failed, $acked) = @held;
	sql("BEGIN; SELECT pgq_ack($prepared->[0], $prepared->[1]); PREPARE TRANSACTION 'p'");
	ask($first, "BEGIN; SELECT pgq_ack($open->[0], $open->[1])");
	is(sql("SELECT pgq_extend($acked->[0], $acked->[1], '2 days') > clock_timestamp() + '1 day'"), 't', 'a job that stays can be extended');
	is(sql("SELECT pgq_fail($failed->[0], $failed->[1], 'no', retry_in => '30 days')"), 'retry', '... and failed');
	wait_until_moved($node, $n, sort { $a <=> $b } $locked, map { $_->[0] } $prepared, $open, $acked);
	is(sql("SELECT attempts, fence, last_error FROM pgq_ext.job WHERE job_id = $failed->[0]"), "1|$failed->[1]|no", '... then it is moved, too');
	sql("SELECT pgq_ack($acked->[0], $acked->[1])");
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $acked->[0]"), '0', '... and acknowledged');
	ask($second, 'COMMIT');
	wait_until_moved($node, $n, sort { $a <=> $b } map { $_->[0] } $prepared, $open);
	pass('a row that was locked is moved then');
	ask($first, 'ROLLBACK');
	sql("SELECT pgq_ack($open->[0], $open->[1])");
	is(truncations($node, $n), $before, 'a prepared ack holds the segment');
	sql(q{COMMIT PREPARED 'p'});
	wait_until_truncated($node, $n, $before);
	pass('... until it is committed');

	is(sql(q{SELECT job_id, attempt, max_attempts, md5(payload::text), md5(headers::text) FROM pgq_claim('slow', 100)}), $expected, 'moved jobs come in their order, with all they have');
	sql('UPDATE pgq_ext.job SET run_at = clock_timestamp() WHERE run_at > clock_timestamp()');
	is(sql(q{SELECT attempt, last_error, payload FROM pgq_claim('month', 10, wait => '30 s') ORDER BY 1, 3}), join("\n", ('1||"later"') x 3, ('2|not yet|"failed"') x 3), '... also those that waited for their time');
	is(sql(q{SELECT string_agg(attempt::text, ' ' ORDER BY attempt) FROM pgq_claim('held', 10)}), '1 2', '... and those that were locked or failed on the way');
	sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease');
	is(sql("SELECT count(*) $other_jobs"), '0', '... nothing is left');
}

# ---- those that stay for long are not copied again and again ----

for my $n (2, 40)
{
	sql("SELECT pgq_enqueue('month', to_jsonb(i), delay => '30 days') FROM generate_series(1, $n) i");
	my $moves = sql($moved_out);
	my $truncations = truncations($node);
	fresh_segment($node, 250) for 1 .. 6;
	my $rotations = truncations($node) - $truncations;
	$moves = sql($moved_out) - $moves;
	note "$moves moves, $rotations truncations";
	cmp_ok($rotations, '>=', 5, "$n jobs for next month while other segments rotate");
	cmp_ok($moves, '>=', $n, '... they are moved');
	cmp_ok($moves, '<=', 2 * $n, '... but not each time');
	is(sql(q{SELECT pgq_purge_queue('month')}), $n, '... they are there');
}

# ---- whoever meets a job that is being moved ----

# Either it is let go, or it dies and its moves are undone.
my %end = (
	'is done' => sub { my ($gate) = @_; let_go($node, $gate) },
	'fails'   => sub {
		my ($gate) = @_;
		sql('SELECT pg_terminate_backend(' . scheduler_pid($node) . ', 60000)');
		let_go($node, $gate);
	});

{
	my $n = fresh_segment($node, 250);
	sql(q{SELECT pgq_enqueue('month', to_jsonb(i), delay => '30 days') FROM generate_series(1, 10) i});
	my $gate = stop_scheduler_at($node, 'rotation-moved');
	close_segment($node, $n);
	scheduler_stands($node);
	is(sql(q{SELECT count(*) FROM pgq_ext.job_status WHERE queue = 'month' AND waits_for ~ 'moved'}), '10', 'jobs for next month are being moved');
	is(sql(q{SELECT count(*) FROM pgq_claim('month', 10)}), '0', '... a claim, which would not get them, does not wait');
	let_go($node, $gate);
	is(sql(q{SELECT pgq_purge_queue('month')}), '10', '... they are there');
}

for my $how (sort keys %end)
{
	my $end = $end{$how};
	my ($gate, @ids);
	for my $wait ('0', '60 s')
	{
		($gate, @ids) = being_moved($node, 10);
		my $handed_out = sql(q{SELECT handed_out FROM pgq_ext.queue_stats WHERE queue = 'slow'});
		send_and_block($node, $first, "SELECT job_id FROM pgq_claim('slow', 100, wait => '$wait')");
		$end->($gate);
		my ($got) = reply($first);
		is($got, join("\n", @ids), "a claim that meets moving jobs only has them when the move $how");
		is(sql(q{SELECT count(pgq_ack(job_id, lease)), max(attempt) FROM pgq_ext.lease}), '10|1', '... and can work on them');
		is(sql(q{SELECT handed_out, uncounted, lost FROM pgq_ext.queue_stats WHERE queue = 'slow'}), join('|', $handed_out + 10, 0, 0), '... each is handed out once');
	}

	($gate, @ids) = being_moved($node, 10);
	send_and_block($node, $first, q{SELECT pgq_purge_queue('slow')});
	$end->($gate);
	is(reply($first), '10', "pgq_purge_queue waits, and deletes all when the move $how");
	is(sql("SELECT count(*) $other_jobs"), '0', '... none escapes');

	my $batch = sql('SELECT pgq_create_batch()');
	($gate, @ids) = being_moved($node, 10, "batch => $batch");
	send_and_block($node, $first, "SELECT pgq_cancel_batch($batch)");
	$end->($gate);
	is(reply($first), '10', "pgq_cancel_batch waits, and deletes all when the move $how");
	is(sql("SELECT count(*) $other_jobs"), '0', '... none escapes');

	($gate, @ids) = being_moved($node, 10);
	send_and_block($node, $first, q{SELECT pgq_drop_queue('slow', force => true)});
	$end->($gate);
	is(reply($first), 't', "pgq_drop_queue waits, and deletes all when the move $how");
	is(sql('SELECT count(*) FROM pgq_ext.job'), '0', '... none escapes');
	create_queue($node, 'slow', "lease_time => '1 day'");

	($gate, @ids) = being_moved($node, 3);
	my $update = "UPDATE pgq_ext.job SET priority = 7 WHERE job_id = $ids[1]";
	send_and_block($node, $first, $update);
	$end->($gate);
	my (undef, $error) = reply($first);
	like($error, $how eq 'fails' ? qr/^$/ : qr/moved to another partition/, "an UPDATE by hand waits; when the move $how it is as with any partitioned table");
	# When it is not moved any more.
	wait_until_settled($node);
	sql($update);
	is(join(' ', drain($node, 'slow')), "$ids[1] $ids[0] $ids[2]", '... and can be done again');

	# Acks with leases of before a crash. Nothing is moved before there are few rows left.
	my $n = fresh_segment($node, 250);
	enqueue_slow($node, 5);
	sql(q{SELECT pgq_enqueue('month', to_jsonb(repeat('x', 500)), delay => '30 days') FROM generate_series(1, 200)});
	my @held = map { [ split /\|/ ] } split /\n/, sql(q{SELECT job_id, lease FROM pgq_claim('slow', 2)});
	sql(q{BEGIN; SELECT pgq_enqueue('slow', '"prepared"'); PREPARE TRANSACTION 'p'});
	end_session($_) for $first, $second;
	$node->stop('immediate');
	$node->start;
	($first, $second) = map { session($node) } 1 .. 2;
	$gate = stop_scheduler_at($node, 'rotation-moved');
	close_with_backlog($node, $n, q{'month', to_jsonb(repeat('x', 500)), delay => '30 days'});
	sql(q{SELECT pgq_purge_queue('month')});
	scheduler_stands($node);
	send_and_block($node, $first, "SELECT 'done', pgq_ack($held[0][0], $held[0][1])");
	send_and_block($node, $second, "SELECT pgq_ack_many('{$held[1][0]}', '{$held[1][1]}')");
	$end->($gate);
	is(reply($first), 'done|', "a late ack waits, and is honoured when the move $how");
	is(reply($second), $held[1][0], '... pgq_ack_many, too');
	is(scalar drain($node, 'slow'), 3, '... the others come');
	my $before = truncations($node, $n);
	wait_for($node, "held_by ~ 'prepared transaction .p.' FROM pgq_ext.segment WHERE segment = $n");
	sql(q{COMMIT PREPARED 'p'});
	is(scalar drain($node, 'slow'), 1, 'what was prepared before the crash has held its segment, and comes');
	wait_until_truncated($node, $n, $before);
	is(sql('SELECT count(*) FROM pgq_check()'), '0', '... all is well');
}

end_session($_) for $first, $second;
$node->stop;
done_testing();
