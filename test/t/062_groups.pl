# The jobs of a group in work are never more than group_concurrency. With fifo, the jobs of a group are handed out one
# after the other, in the order of their enqueue. Other groups go on at the same time, and no job is forgotten.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\npgq_ext.window_size = 4\npgq_ext.timer_size = 4\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q{SELECT pgq_create_queue('q', group_concurrency => 1, lease_time => '1 day', backoff_base => '1 h');
	SELECT pgq_create_queue('two', group_concurrency => 2, lease_time => '1 day', backoff_base => '0');
	SELECT pgq_create_queue('f', fifo => true, lease_time => '1 day', backoff_base => '1 h')});
my ($one, $two, $waiter) = map { session($node) } 1 .. 3;
my $pid = pid_of($waiter);
# Ids of new jobs, in order: of those groups.
sub enqueue
{
	my ($queue, @groups) = @_;
	my $list = join(',', map { defined $_ && $_ ne '-' ? "'$_'" : 'NULL' } @groups);
	return split /\n/, sql("SELECT pgq_enqueue('$queue', '1', group_key => g) FROM unnest(ARRAY[$list]::text[]) WITH ORDINALITY AS u(g, i) ORDER BY i");
}
sub claim { my ($s, $queue, $n) = @_; return map { [ split /\|/ ] } split /\n/, ask($s, "SELECT job_id, lease FROM pgq_claim('$queue', $n)") }
sub ids { return join ' ', map { $_->[0] } @_ }
sub ack { my ($s, @held) = @_; ask($s, "SELECT pgq_ack($_->[0], $_->[1])") for @held; return }
sub well_ok { my ($what) = @_; is(sql('SELECT * FROM pgq_check()'), '', "... all is well $what"); return }
sub clear
{
	sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job});
	wait_for($node, q{sum(running) = 0 FROM pgq_ext.queue_entries()});
	well_ok('at the end');
	return;
}

# ---- a limit of groups ----

{
	my @ids = enqueue('q', qw(x x x y - -));
	my @held = claim($one, 'q', 10);
	is(ids(@held), "$ids[0] $ids[3] $ids[4] $ids[5]", 'of each group one, and what has none');
	is(ids(claim($two, 'q', 10)), '', '... no more');
	is(sql(q{SELECT DISTINCT waits_for FROM pgq_ext.job_status WHERE state = 'ready'}),
		'one of the jobs of its group in work, of which there are as many as may be (group_concurrency)', '... and the view says why');
	ack($one, $held[0]);
	my @next = claim($two, 'q', 10);
	is(ids(@next), $ids[1], 'the next of the group when that has ended');
	ack($two, @next);
	my @last = claim($two, 'q', 10);
	is(ids(@last), $ids[2], '... and the next');
	ack($one, @held[ 1 .. 3 ]);
	ack($two, @last);
	is(sql('SELECT count(*) FROM pgq_ext.job'), '0', '... which was all');
	well_ok('then');
}

{
	my @ids = enqueue('two', ('x') x 7, 'y');
	my @held = claim($one, 'two', 10);
	is(ids(@held), "$ids[0] $ids[1] $ids[7]", 'a limit of two');
	ask($one, "SELECT pgq_fail($held[0][0], $held[0][1], 'again')");
	my @next = claim($two, 'two', 10);
	is(ids(@next), $ids[0] + 0 == $next[0][0] ? $ids[0] : $ids[2], '... one more when one has failed');
	clear();
}

# A busy group in front, larger than any window.
{
	enqueue('q', ('busy') x 50, 'y', 'z');
	my @held = claim($one, 'q', 10);
	is(scalar @held, 3, 'groups behind a busy one are found');
	ack($one, @held);
	my $done = 0;
	while (my @more = claim($one, 'q', 10)) { $done += @more; ack($one, @more) }
	is($done, 49, '... and the busy one to its end');
	well_ok('then');
}

# ---- every end lets the next one go, and wakes who waits ----

my %end = (
	'ack'              => [ sub { "SELECT pgq_ack($_[0], $_[1])" } ],
	'fail'             => [ sub { "SELECT pgq_fail($_[0], $_[1])" } ],
	'dead letter'      => [ sub { "SELECT pgq_fail($_[0], $_[1], retry => false)" } ],
	'release'          => [ sub { "SELECT pgq_release($_[0], $_[1], '1 h')" } ],
	'cancel'           => [ sub { "SELECT pgq_cancel($_[0])" } ],
	'a higher limit'   => [ sub { q{SELECT pgq_alter_queue('q', group_concurrency => 2)} } ],
	'no limit'         => [ sub { q{SELECT pgq_alter_queue('q', group_concurrency => 0)} } ],
	'a prepared ack'   => [ sub { 'BEGIN', "SELECT pgq_ack($_[0], $_[1])", q{PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'} } ],
);
for my $how (sort keys %end)
{
	my @ids = enqueue('q', 'x', 'x');
	my ($held) = claim($one, 'q', 1);
	send_sql($waiter, q{SELECT 'got ' || job_id, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s')});
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	ask($one, $_) for $end{$how}[0]->(@$held);
	is(scalar reply($waiter), "got $ids[1]|", "$how: the next of the group goes out to who waits");
	sql(q{SELECT pgq_alter_queue('q', group_concurrency => 1)});
	clear();
}

# ---- undone ----

{
	my @ids = enqueue('q', 'x', 'x');
	ask($one, 'BEGIN');
	is(ids(claim($one, 'q', 10)), $ids[0], 'a claim that is rolled back');
	is(ids(claim($two, 'q', 10)), '', '... keeps its group meanwhile');
	ask($one, 'ROLLBACK');
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lease_entries()});
	my @held = claim($two, 'q', 10);
	is(ids(@held), $ids[1], '... and not then; its own job was lost by that and waits for its backoff');
	ask($two, 'BEGIN');
	ask($two, "SELECT pgq_ack($held[0][0], $held[0][1])");
	is(ids(claim($one, 'q', 10)), '', 'an ack that is open keeps the slot');
	ask($two, 'ROLLBACK');
	is(ids(claim($one, 'q', 10)), '', '... and one that is undone');
	clear();
}

# ---- by hand, and live changes ----

{
	my @ids = enqueue('q', qw(x x y));
	my @held = claim($one, 'q', 10);
	sql("UPDATE pgq_ext.job SET group_key = 'z' WHERE job_id = $ids[1]");
	my @moved = claim($two, 'q', 10);
	is(ids(@moved), $ids[1], 'a job that is moved to another group by hand goes out');
	ack($one, @held);
	ack($two, @moved);
	well_ok('then');

	enqueue('q', ('x') x 6);
	sql(q{SELECT pgq_alter_queue('q', group_concurrency => 0)});
	@held = claim($one, 'q', 3);
	is(scalar @held, 3, 'without a limit three');
	sql(q{SELECT pgq_alter_queue('q', group_concurrency => 2)});
	is(ids(claim($two, 'q', 10)), '', 'what ran when the limit came counts');
	ack($one, shift @held);
	is(ids(claim($two, 'q', 10)), '', '... to the last');
	ack($one, shift @held);
	is(scalar(() = claim($two, 'q', 10)), 1, '... then there is room for one');
	sql(q{SELECT pgq_alter_queue('q', group_concurrency => 1)});
	clear();
}

# ---- fifo ----

{
	my @ids = enqueue('f', qw(x x y x));
	my @held = claim($one, 'f', 10);
	is(ids(@held), "$ids[0] $ids[2]", 'fifo: the first of each group');
	ask($one, "SELECT pgq_fail($held[0][0], $held[0][1], 'later')");
	is(ids(claim($two, 'f', 10)), '', '... nothing overtakes it during its backoff');
	is(sql(q{SELECT DISTINCT waits_for FROM pgq_ext.job_status WHERE state = 'ready'}), 'an earlier job of its group (fifo)', '... and the view says why');
	sql("UPDATE pgq_ext.job SET run_at = now() WHERE job_id = $ids[0]");
	@held = claim($two, 'f', 10);
	is(ids(@held), $ids[0], '... it goes out again first');
	ack($two, @held);
	sql("UPDATE pgq_ext.job SET priority = 9 WHERE job_id = $ids[3]");
	@held = claim($two, 'f', 10);
	is(ids(@held), $ids[1], '... then the next, whatever the priorities');
	ask($two, "SELECT pgq_fail($held[0][0], $held[0][1], 'no', retry => false)");
	@held = claim($two, 'f', 10);
	is(ids(@held), $ids[3], 'a dead letter frees its group');
	ask($two, "SELECT pgq_release($held[0][0], $held[0][1], '1 h')");
	my ($new) = enqueue('f', 'x');
	is(ids(claim($two, 'f', 10)), '', 'one that was released with a delay does not');
	sql("DELETE FROM pgq_ext.job WHERE job_id = $ids[3]");
	@held = claim($two, 'f', 10);
	is(ids(@held), $new, 'the next goes out when the first is deleted by hand');
	ack($two, @held);
	clear();
}

# The first job of a group is delayed, and leaves the group, also in a prepared transaction. No reconciler has to help.
my @leaves = (
	[ 'cancelled' => sub { "SELECT pgq_cancel($_[0])" } ],
	[ 'deleted by hand' => sub { "DELETE FROM pgq_ext.job WHERE job_id = $_[0]" } ],
	[ 'moved to another group by hand' => sub { "UPDATE pgq_ext.job SET group_key = 'else' WHERE job_id = $_[0]" } ],
	[ 'moved to another queue by hand' =>
		  sub { "UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'q') WHERE job_id = $_[0]" } ],
	[ 'moved to another group' => sub { "SELECT pgq_update($_[0], group_key => 'else')" } ],
	[ 'expired' => sub { "UPDATE pgq_ext.job SET expires_at = now() WHERE job_id = $_[0]" } ]);
for my $how (@leaves, map { [ @$_, 'prepared' ] } @leaves)
{
	my ($what, $statement, $prepared) = @$how;
	$what .= ', prepared' if $prepared;
	my $repaired = sql(q{SELECT repaired FROM pgq_ext.queue_stats WHERE queue = 'f'});
	my ($first) = split /\n/, sql(q{SELECT pgq_enqueue('f', '1', group_key => 'x', delay => '1 h')});
	my @rest = enqueue('f', ('x') x 9);
	is(ids(claim($one, 'f', 10)), '', 'a delayed first job keeps its group waiting');
	send_sql($waiter, q{SELECT 'got ' || job_id, pgq_ack(job_id, lease) FROM pgq_claim('f', wait => '60 s')});
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	if ($prepared)
	{
		ask($two, 'BEGIN');
		ask($two, $statement->($first));
		ask($two, q{PREPARE TRANSACTION 'p'});
		is(ids(claim($one, 'f', 10)), '', "... $what: nothing goes out before COMMIT PREPARED");
		ask($two, q{COMMIT PREPARED 'p'});
	}
	else { sql($statement->($first)) }
	is(scalar reply($waiter), "got $rest[0]|", "... $what: the next goes out to who waits");
	my $order = '';
	while (my ($held) = claim($one, 'f', 1)) { $order .= " $held->[0]" if $held->[0] != $first; ack($one, $held) }
	is($order, join('', map { " $_" } @rest[ 1 .. 8 ]), '... and the others in order');
	is(sql(q{SELECT repaired FROM pgq_ext.queue_stats WHERE queue = 'f'}), $repaired, '... memory has forgotten none');
	clear();
}

# Ids precede commits.
{
	ask($one, 'BEGIN');
	my $first = ask($one, q{SELECT pgq_enqueue('f', '1', group_key => 'x')});
	my ($second, $third) = enqueue('f', 'x', 'x');
	my @held = claim($two, 'f', 1);
	is(ids(@held), $second, 'an earlier id that is not committed is nobody\'s way');
	ask($one, 'COMMIT');
	is(ids(claim($one, 'f', 10)), '', '... nor is it handed out beside a later one');
	ack($two, @held);
	@held = claim($two, 'f', 10);
	is(ids(@held), $first, '... but before the one after that');
	ack($two, @held);
	@held = claim($two, 'f', 10);
	is(ids(@held), $third, '... which is last');
	ack($two, @held);
	well_ok('then');
}

# What a transaction has done itself and not committed is not there for its own claims either: what they find out is for everybody.
for my $how (['cancelled' => sub { "SELECT pgq_cancel($_[0])" }],
	['deleted by hand' => sub { "DELETE FROM pgq_ext.job WHERE job_id = $_[0]" }],
	['moved to another group' => sub { "SELECT pgq_update($_[0], group_key => 'else')" }])
{
	my ($what, $statement) = @$how;
	my @first = enqueue('f', qw(x x));
	my @ids   = enqueue('f', qw(y y y));
	sql("UPDATE pgq_ext.job SET priority = 10 WHERE job_id IN ($first[0], $first[1])");
	ack($one, claim($one, 'f', 10));
	ask($one, 'BEGIN');
	ask($one, $statement->($ids[1]));
	is(ids(claim($one, 'f', 1)), $first[1], "the head of a group is $what in a transaction, which claims: another group's goes out");
	is(ids(claim($one, 'f', 10)), '', '... of that group no other');
	is(ids(claim($two, 'f', 10)), '', '... nor for others');
	ask($one, 'ROLLBACK');
	my $order = '';
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lease_entries()});
	while (my ($held) = claim($two, 'f', 1)) { $order .= " $held->[0]" if $held->[0] != $first[1]; ack($two, $held) }
	is($order, " $ids[1] $ids[2]", '... when that is undone they go out in order');
	clear();
}

{
	ask($one, 'BEGIN');
	my $first = ask($one, q{SELECT pgq_enqueue('f', '1', group_key => 'x')});
	my ($second) = enqueue('f', 'x');
	my @held = claim($one, 'f', 1);
	is(ids(@held), $second, 'a job of one\'s own that is not committed is nobody\'s way');
	ack($one, @held);
	ask($one, 'COMMIT');
	@held = claim($one, 'f', 10);
	is(ids(@held), $first, '... and goes out when it is');
	ack($one, @held);
	clear();
}

# ---- groups that wait for their heads ----

{
	sql(q{SELECT pgq_enqueue('f', '1', group_key => 'g' || g, delay => '1 h') FROM generate_series(1, 150) AS g;
		SELECT pgq_enqueue('f', '1', group_key => 'g' || g) FROM generate_series(1, 20), generate_series(1, 150) AS g});
	is(ids(claim($one, 'f', 1)), '', 'no job goes out before the delayed head of its group');
	my $before = time();
	well_ok('while jobs wait for their heads');
	cmp_ok(time() - $before, '<', 10, '... and the check does not take each of them for forgotten');
	clear();
}

# ---- crash and restart ----

{
	my @ids = enqueue('f', ('x') x 20, ('y') x 20);
	my @held = claim($one, 'f', 10);
	is(ids(@held), "$ids[0] $ids[20]", 'before a crash');
	$node->stop('immediate');
	$node->start;
	$one = session($node);
	my @order;
	while (my @got = claim($one, 'f', 10)) { push @order, map { $_->[0] } @got; ack($one, @got) }
	is_deeply([ sort { $a <=> $b } @order ], \@ids, 'after a crash all go out');
	my %last;
	my @wrong = grep { my $group = $_ <= $ids[19] ? 'x' : 'y'; my $before = $last{$group} // 0; $last{$group} = $_; $before > $_ } @order;
	is("@wrong", '', '... each group in its order');
	well_ok('then');
}

done_testing();
