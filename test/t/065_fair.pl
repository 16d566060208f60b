# With fair, groups take turns, even if several workers claim at once, after a crash, and with very little shared
# memory.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub well_ok { my ($what) = @_; is(sql('SELECT * FROM pgq_check()'), '', "... all is well $what"); return }
sub enqueue
{
	my ($queue, $group, $n) = @_;
	return sql("SELECT count(pgq_enqueue('$queue', to_jsonb(i), group_key => '$group')) FROM generate_series(1, $n) i");
}

sub make { return sql("SELECT pgq_create_queue('$_[0]', fair => true, backoff_base => '0 s', max_attempts => 100)") }
# One that has nearly all jobs, and ten with ten each.
sub fill
{
	my ($queue) = @_;
	make($queue);
	enqueue($queue, 'big', 20_000);
	enqueue($queue, "small $_", 10) for 1 .. 10;
	return;
}
sub left { my ($queue, $who) = @_; return sql("SELECT count(*) FROM pgq_ext.job_status WHERE queue = '$queue' AND group_key LIKE '$who%'") }

{
	# Of eleven groups each has a turn in eleven, and in three of seven such rounds what is claimed is done.
	fill('turns');
	my @workers = map { session($node) } 1 .. 4;
	for my $turn (0 .. 26 * 11 - 1)
	{
		my ($s, $way) = ($workers[ $turn % 4 ], int($turn / 11) % 7);
		ask($s, 'BEGIN') if $way < 2;
		my ($id, $lease) = split /\|/, ask($s, q{SELECT job_id, lease FROM pgq_claim('turns')});
		if ($way == 0)
		{
			ask($s, "PREPARE TRANSACTION 'claim'");
			sql(q{ROLLBACK PREPARED 'claim'});
		}
		elsif ($way == 1) { ask($s, 'ROLLBACK') }
		elsif ($way == 2) { ask($s, "SELECT pgq_fail($id, $lease, retry_in => '0 s')") }
		elsif ($way == 3) { ask($s, "SELECT pgq_release($id, $lease)") }
		else { ask($s, "SELECT pgq_ack($id, $lease)") }
		# A loss is counted before the next turn of its group comes, which may have no other job.
		ask($s, "DO \$\$ BEGIN WHILE EXISTS (SELECT FROM pgq_ext.lease_entries() WHERE job_id = $id) LOOP PERFORM pg_sleep(0.005); END LOOP; END \$\$") if $way < 2;
	}
	is(left('turns', 'small'), '0', 'small tenants are through after 286 hand-outs, many of which came to nothing');
	well_ok('then');
	end_session($_) for @workers;
	sql(q{SELECT pgq_purge_queue('turns')});

	# Nobody waits for one that holds the turn of its group.
	my $holder = session($node);
	enqueue('turns', 'a', 2);
	enqueue('turns', 'b', 2);
	ask($holder, 'BEGIN');
	my ($first, $id) = split /\|/, ask($holder, q{SELECT group_key, job_id FROM pgq_claim('turns')});
	my $other = $first eq 'a' ? 'b' : 'a';
	is(sql(q{SELECT string_agg(group_key, ' ') FROM pgq_claim('turns', 5)}), "$other $first $other", 'a turn that is not over keeps nobody back');
	ask($holder, 'ROLLBACK');
	wait_for($node, "NOT EXISTS (SELECT FROM pgq_ext.lease_entries() WHERE job_id = $id)");
	is(sql(q{SELECT group_key FROM pgq_claim('turns', 5)}), $first, '... and what is given back is handed out');
	end_session($holder);
	sql(q{SELECT pgq_drop_queue('turns', force => true)});
}

# Fewer places in memory than groups: each group still gets its turn.
for my $window (2, 8)
{
	$node->append_conf('postgresql.conf', "pgq_ext.window_size = $window\n");
	$node->stop('immediate');
	$node->start;
	{
		# All rows are read again while the first six jobs of each group are in work: steps of the lap meet many leased rows.
		my $s = session($node);
		ask($s, q{SELECT pgq_create_queue('leased', fair => true, lease_time => '1 day')});
		ask($s, q{SELECT count(pgq_enqueue('leased', to_jsonb(i), group_key => 'g' || i % 20)) FROM generate_series(1, 200) i});
		is(ask($s, q{SELECT count(*) FROM pgq_claim('leased', 120)}), '120', "window of $window: of 20 groups many jobs are in work");
		is(ask($s, q{SELECT string_agg(DISTINCT n::text, ' ') FROM
			(SELECT count(*) AS n FROM pgq_ext.lease WHERE queue = 'leased' GROUP BY group_key) g}), '6', '... six of each');
		for my $try (1 .. 6)
		{
			ask($s, q{SELECT pgq_enqueue('leased', '1', group_key => 'urgent', priority => 5)});
			ask($s, q{BEGIN; SELECT pgq_enqueue('leased', '1', group_key => 'prepared'); PREPARE TRANSACTION 'p'});
			ask($s, q{COMMIT PREPARED 'p'});
			is(ask($s, q{SELECT group_key FROM pgq_claim('leased')}), 'urgent', "... after COMMIT PREPARED ($try) the urgent one goes out");
		}
		is(ask($s, q{SELECT count(*) FROM pgq_claim('leased', 5)}), '5', '... then others, as many as were asked for');
		is(ask($s, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = 'leased'}), '131', '... those in work end');
		my %once = map { $_ => 1 } drain($node, 'leased');
		is(scalar keys %once, 212 - 131, '... and all others go out');
		well_ok('then');
		ask($s, q{SELECT pgq_drop_queue('leased')});
		end_session($s);
	}
	fill('narrow');
	my ($worker, $open) = (session($node), session($node));
	ask($open, 'BEGIN');
	is(ask($open, q{SELECT count(*) FROM pgq_claim('narrow', 3)}), '3', "window of $window: three are claimed, and never acknowledged");
	ask($worker, q{DO $$ BEGIN FOR i IN 1 .. 150 LOOP
		PERFORM pgq_ack(job_id, lease) FROM pgq_claim('narrow', 1 + i % 3);
		COMMIT; END LOOP; END $$});
	my $before = left('narrow', 'small');
	cmp_ok($before, '<', 100, '... small ones have their turns before the big one is through');
	$node->stop('immediate');
	$node->start;
	$worker = session($node);
	ask($worker, q{DO $$ DECLARE n int; BEGIN LOOP
		SELECT count(pgq_ack(job_id, lease)) INTO n FROM pgq_claim('narrow', 7);
		EXIT WHEN n = 0 OR NOT EXISTS (SELECT FROM pgq_ext.job WHERE group_key LIKE 'small%');
		COMMIT; END LOOP; END $$});
	is(left('narrow', 'small'), '0', '... also after a crash all of them');
	my $big = left('narrow', 'big');
	cmp_ok($big, '>', 19_000, '... while the big one waits');
	well_ok('then');
	sql(q{SELECT pgq_drop_queue('narrow', force => true)});
}
$node->stop;
done_testing();
