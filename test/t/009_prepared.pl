# Prepared transactions: their changes to queues take effect at COMMIT PREPARED, or not at all after ROLLBACK
# PREPARED, whichever session runs that command, and however late.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

# A window much smaller than what one transaction brings: its hints are not all remembered.
my $small = "pgq_ext.window_size = 8\npgq_ext.timer_size = 8\nmax_prepared_transactions = 20\n";
my $node  = pgq_node('main', conf => $small);
create_queue($node, 'first');
wait_for_scheduler($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# In a session of its own, which is gone when the transaction is prepared.
sub prepare
{
	my ($name, $sql) = @_;
	return sql("BEGIN; $sql; PREPARE TRANSACTION '$name'");
}

# No retry without a failure, no expiry without being asked for.
my $queues = 0;

sub new_queue
{
	my ($jobs, $options) = @_;
	my $queue = 'q' . ++$queues;
	create_queue($node, $queue, "lease_time => '1 day'" . ($options // ''));
	sql("SELECT pgq_enqueue('$queue', to_jsonb(i)) FROM generate_series(1, $jobs) i") if $jobs;
	return $queue;
}

# Claimed for good, in order: [id, token] each.
sub claimed
{
	my ($queue, $n, $lease_time) = @_;
	$lease_time //= '1 day';
	my @leases = map { [ split /\|/ ] }
	  split /\n/, sql("SELECT job_id, lease FROM pgq_claim('$queue', $n, lease_time => '$lease_time')");
	is(scalar @leases, $n, "$queue: $n claimed");
	return @leases;
}

sub ids    { return join ',', map { $_->[0] } @_ }
sub arrays { return 'ARRAY[' . ids(@_) . '], ARRAY[' . join(',', map { $_->[1] } @_) . ']' }

# The counters tell of it soon after the transaction has ended. Given as they are in the view, apart from those that are 0.
sub stats_are
{
	my ($queue, $expected, $what) = @_;
	my @counters = qw(enqueued handed_out acked failed lost dead_lettered);
	my $row = join '|', map { $expected->{$_} // 0 } @counters;
	my $query = "SELECT concat_ws('|', " . join(', ', @counters) . ") FROM pgq_ext.queue_stats WHERE queue = '$queue'";
	$node->poll_query_until('postgres', $query, $row);
	is(sql($query), $row, "$what: " . join(', ', @counters));
	return;
}

sub nothing_ready { my ($queue, $what) = @_; is(sql("SELECT job_id FROM pgq_claim('$queue', 1000, wait => '300 ms')"), '', $what); return }

sub wait_until_past
{
	my ($time) = @_;
	wait_for($node, "clock_timestamp() > '$time'::timestamptz + '1500 ms'");
	return;
}

sub wait_until_blocked
{
	my ($pid) = @_;
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
	return;
}

my $s     = session($node);
my $pid   = pid_of($s);
my $other = session($node);

# ---- enqueues ----

# 150 ready jobs in three priorities, 10 in bulk, 40 delayed ones below them; and what a savepoint took back.
sub enqueues
{
	my ($queue) = @_;
	return qq{
		SELECT pgq_enqueue('$queue', to_jsonb(i), priority => i % 3) FROM generate_series(1, 150) i;
		SAVEPOINT a;
		SELECT pgq_enqueue_many('$queue', (SELECT jsonb_agg(jsonb_build_object('payload', 'bulk')) FROM generate_series(1, 10)));
		RELEASE a;
		SAVEPOINT b;
		SELECT pgq_enqueue('$queue', '"undone"', priority => 9) FROM generate_series(1, 50);
		ROLLBACK TO b;
		SELECT pgq_enqueue('$queue', to_jsonb(i), delay => i * interval '20 ms', priority => -1) FROM generate_series(1, 40) i};
}

{
	my $queue = new_queue(5);
	prepare('commit',   enqueues($queue));
	prepare('rollback', enqueues($queue));
	is(sql("SELECT count(*) FROM pgq_ext.job_status WHERE queue = '$queue'"), '5', 'prepared enqueues are not visible');
	my @before = claimed($queue, 5);
	nothing_ready($queue, '... and not handed out');
	stats_are($queue, { enqueued => 5, handed_out => 5 }, '... and not counted');

	send_sql($s, "SELECT count(*) FROM pgq_claim('$queue', wait => '60 s')");
	wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$queue'");
	sql("ROLLBACK PREPARED 'rollback'");
	stats_are($queue, { enqueued => 5, handed_out => 5 }, 'enqueues rolled back');
	is(sql("SELECT waiting_claims FROM pgq_ext.queue_status WHERE queue = '$queue'"), '1', '... wake nobody');
	sql("COMMIT PREPARED 'commit'");
	is(reply($s), '1', 'enqueues committed by another session: a waiting claim has a job');
	stats_are($queue, { enqueued => 205, handed_out => 6 }, 'enqueues committed');

	# The ready ones by priority, run_at and id; then all of them.
	is(sql("SELECT bool_and(job_id = should) FROM
			(SELECT job_id, row_number() OVER () n FROM pgq_claim('$queue', 100)) c JOIN
			(SELECT job_id AS should, row_number() OVER (ORDER BY priority DESC, run_at, job_id) n FROM pgq_ext.job
				WHERE run_at = enqueued_at AND job_id NOT IN
					(SELECT job_id FROM pgq_ext.lease WHERE NOT in_transaction)) j USING (n)"),
		't', '... and go out in their order');
	sql("SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease");
	is(scalar drain($node, $queue), 99, '... all of them, also the delayed ones');
	stats_are($queue, { enqueued => 205, handed_out => 205, acked => 205 }, '... and once');

	# Only a delayed one: who waits already waits for it now.
	prepare('later', "SELECT pgq_enqueue('$queue', '\"later\"', delay => '3 s')");
	send_sql($s, "SELECT payload, clock_timestamp() >= run_at, pgq_ack(job_id, lease) FROM pgq_claim('$queue', wait => '60 s')");
	wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$queue'");
	sql("COMMIT PREPARED 'later'");
	is(reply($s), '"later"|t|', 'a delayed enqueue committed: a waiting claim gets it when it is due');
}

{
	# Faster than anybody looks after them, and more than there can be at a time.
	my $queue = new_queue(0);
	sql(join ';', map { "BEGIN; SELECT pgq_enqueue('$queue', '$_'); PREPARE TRANSACTION 'fast'; COMMIT PREPARED 'fast'" } 1 .. 60);
	is(scalar drain($node, $queue), 60, '60 prepared transactions in a row');
	stats_are($queue, { enqueued => 60, handed_out => 60, acked => 60 }, '... all counted');

	# One that could not be prepared leaves nothing behind, not even its entry.
	prepare('taken', 'SELECT 1');
	ask($s, "BEGIN; SELECT pgq_enqueue('$queue', '1'); PREPARE TRANSACTION 'taken'") for 1 .. 25;
	sql("ROLLBACK PREPARED 'taken'");
	is(sql("SELECT count(*) FROM pgq_ext.job_status WHERE queue = '$queue'"), '0', 'a PREPARE that fails undoes the enqueue');
	prepare("p$_", "SELECT pgq_enqueue('$queue', '$_')") for 1 .. 20;
	my ($state) = sqlstate($node, "BEGIN; SELECT pgq_enqueue('$queue', '21'); PREPARE TRANSACTION 'p21'");
	is($state, '53400', 'as many as max_prepared_transactions, not one more');
	sql(join ';', map { ($_ % 2 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'p$_'" } 1 .. 20);
	is(scalar drain($node, $queue), 10, '... and each ends as it was told');
}

# ---- claims ----

{
	my $queue = new_queue(20);
	my $end = prepare('c', "SELECT max(lease_expires_at) FROM pgq_claim('$queue', 20, lease_time => '1 s')");
	wait_until_past($end);
	is(sql("SELECT count(*), bool_and(in_transaction) FROM pgq_ext.lease WHERE queue = '$queue'"), '20|t', 'prepared claims hold their jobs beyond their time');
	nothing_ready($queue, '... nobody else gets them');
	sql("COMMIT PREPARED 'c'");
	is(sql("SELECT attempt, last_error FROM pgq_claim('$queue', wait => '60 s')"), '2|the lease expired', 'claims committed: their time counts again');
	stats_are($queue, { enqueued => 20, handed_out => 21, lost => 20 }, '... and they are lost by it');

	$queue = new_queue(20);
	prepare('c', "SELECT count(*) FROM pgq_claim('$queue', 20)");
	my @leases = map { [ split /\|/ ] } split /\n/, sql("SELECT job_id, lease FROM pgq_ext.lease WHERE queue = '$queue'");
	sql("ROLLBACK PREPARED 'c'");
	my @back;
	for (1 .. 60)
	{
		push @back, split /\n/, sql("SELECT attempt || last_error FROM pgq_claim('$queue', 20, wait => '1 s')");
		last if @back >= 20;
	}
	is(join("\n", @back), join("\n", ('2the claiming transaction was rolled back or its session ended') x 20), 'claims rolled back: lost');
	stats_are($queue, { enqueued => 20, handed_out => 40, lost => 20 }, '... and counted');
	is(sql('SELECT count(*) FROM pgq_ack_many(' . arrays(@leases) . ')'), '0', '... and their tokens are stale');

	# The token is known to others, but nobody knows yet whether the claim stands.
	for my $end ('COMMIT', 'ROLLBACK')
	{
		$queue = new_queue(1);
		my ($id, $token) = split /\|/, prepare('c', "SELECT job_id, lease FROM pgq_claim('$queue')");
		send_sql($s, "SELECT 'done', pgq_ack($id, $token)");
		wait_until_blocked($pid);
		sql("$end PREPARED 'c'");
		my ($out, $error) = reply($s);
		is($out, $end eq 'COMMIT' ? 'done|' : '', "an ack of a claim that is prepared waits for its $end");
		like($error, $end eq 'COMMIT' ? qr/^$/ : qr/lease $token of job $id is not current/, '... and says what came of it');
	}

	# Nothing found, nothing to watch; the session goes on as any other.
	$queue = new_queue(0);
	is(ask($s, "BEGIN; SELECT job_id FROM pgq_claim('$queue', 100); PREPARE TRANSACTION 'found nothing'"), '', 'a claim that found nothing is prepared');
	for my $round (1 .. 3)
	{
		ask($s, "SELECT pgq_enqueue('$queue', '$round') FROM generate_series(1, 20)");
		is(ask($s, "BEGIN; WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('$queue', 20)) SELECT count(pgq_ack(job_id, lease)) FROM c"), '20', "... and the session works on ($round)");
		ask($s, $round == 2 ? "PREPARE TRANSACTION 'found some'" : 'COMMIT');
	}
	ask($s, "COMMIT PREPARED '$_'") for 'found nothing', 'found some';
	stats_are($queue, { enqueued => 60, handed_out => 60, acked => 60 }, '... and all of it counts');
}

# ---- acks and failures ----

{
	# Overdue while prepared, each of them (protocol: used-is-pinned).
	my $queue = new_queue(60, ", max_attempts => 2");
	my @l = claimed($queue, 60, '5 s');
	prepare('a', join ';', "SELECT pgq_ack($l[0][0], $l[0][1])", 'SELECT count(*) FROM pgq_ack_many(' . arrays(@l[ 1 .. 49 ]) . ')',
		(map { "SELECT pgq_fail($_->[0], $_->[1], 'again', retry_in => '0')" } @l[ 50 .. 54 ]),
		(map { "SELECT pgq_fail($_->[0], $_->[1], 'never', retry => false)" } @l[ 55 .. 59 ]));
	wait_until_past(sql("SELECT max(lease_expires_at) FROM pgq_ext.lease WHERE queue = '$queue'"));
	nothing_ready($queue, 'prepared acks and failures hold their jobs beyond the lease time');
	is(sql("SELECT count(*), count(*) FILTER (WHERE in_transaction) FROM pgq_ext.lease WHERE queue = '$queue'"), '60|60', '... all of them');
	stats_are($queue, { enqueued => 60, handed_out => 60 }, '... uncounted so far');
	sql("COMMIT PREPARED 'a'");
	stats_are($queue, { enqueued => 60, handed_out => 60, acked => 50, failed => 10, dead_lettered => 5 }, 'acks and failures committed');
	is(sql("SELECT count(*), min(attempt), max(attempt), min(last_error) FROM pgq_claim('$queue', 100)"), '5|2|2|again', '... retries go out');
	is(sql("SELECT count(*), min(last_error) FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue'"), '5|never', '... the others are dead letters');
	sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease');

	$queue = new_queue(60, ", max_attempts => 2");
	@l = claimed($queue, 60);
	prepare('a', join ';', 'SELECT count(*) FROM pgq_ack_many(' . arrays(@l[ 0 .. 49 ]) . ')',
		(map { "SELECT pgq_fail($_->[0], $_->[1], 'no', retry => $_->[1] % 2 = 0)" } @l[ 50 .. 59 ]),
		"SELECT pgq_enqueue('$queue', '\"undone\"') FROM generate_series(1, 20)");
	sql("ROLLBACK PREPARED 'a'");
	is(sql('SELECT count(*) FROM pgq_ack_many(' . arrays(@l) . ')'), '60', 'acks and failures rolled back: another session can finish with the same tokens');
	stats_are($queue, { enqueued => 60, handed_out => 60, acked => 60 }, '... and only that counts');
	is(sql("SELECT count(*) FROM pgq_ext.job_status WHERE queue = '$queue'"), '0', '... and no job is left');

	$queue = new_queue(1);
	@l = claimed($queue, 1, '5 s');
	prepare('a', "SELECT pgq_ack($l[0][0], $l[0][1])");
	wait_until_past(sql("SELECT max(lease_expires_at) FROM pgq_ext.lease WHERE queue = '$queue'"));
	sql("ROLLBACK PREPARED 'a'");
	is(sql("SELECT attempt, last_error FROM pgq_claim('$queue', wait => '60 s')"), '2|the lease expired', 'an ack rolled back too late: the lease expires then');
}

{
	# Claimed and finished in one go.
	for my $end ('COMMIT', 'ROLLBACK')
	{
		my $queue = new_queue(30);
		prepare('both', "WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('$queue', 20)) SELECT count(pgq_ack(job_id, lease)) FROM c;
			SELECT pgq_fail(job_id, lease, 'no', retry => false) FROM pgq_claim('$queue', 5);
			SELECT count(*) FROM pgq_claim('$queue', 5); SELECT pgq_enqueue('$queue', '\"new\"')");
		sql("$end PREPARED 'both'");
		stats_are($queue, $end eq 'COMMIT' ? { enqueued => 31, handed_out => 30, acked => 20, failed => 5, dead_lettered => 5 }
			: { enqueued => 30, handed_out => 30, lost => 30 }, "claimed, acked, failed and enqueued in one, $end");
		sql("SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = '$queue'");
		is(scalar drain($node, $queue), $end eq 'COMMIT' ? 1 : 30, '... and what is left comes back');
	}
}

{
	# Somebody else has the same token: only one can finish.
	my %verb = ('pgq_ack' => [ 'x|', qr/^$/ ], 'pgq_ack_many' => [ '1', '0' ], 'pgq_fail' => [ 'retry', 'stale' ]);
	for my $end ('COMMIT', 'ROLLBACK')
	{
		for my $verb ('pgq_ack', 'pgq_ack_many', 'pgq_fail')
		{
			my $queue = new_queue(1);
			my ($l) = claimed($queue, 1);
			prepare('a', "SELECT pgq_ack($l->[0], $l->[1])");
			send_sql($s, $verb eq 'pgq_ack' ? "SELECT 'x', pgq_ack($l->[0], $l->[1])"
				: $verb eq 'pgq_ack_many' ? 'SELECT count(*) FROM pgq_ack_many(' . arrays($l) . ')'
				: "SELECT pgq_fail($l->[0], $l->[1], 'no')");
			wait_until_blocked($pid);
			sql("$end PREPARED 'a'");
			my ($out, $error) = reply($s);
			if ($end eq 'ROLLBACK')
			{
				is($out, $verb{$verb}[0], "$verb after a prepared ack waits and, rolled back, succeeds");
			}
			else
			{
				like($out, qr/^$verb{$verb}[1]$/, "$verb after a prepared ack waits and, committed, is stale");
				like($error, qr/is not current/, '... with an error') if $verb eq 'pgq_ack';
			}
		}
	}
}

{
	# A savepoint takes back its part before anything is prepared.
	my $queue = new_queue(6);
	my @l = claimed($queue, 5);
	prepare('s', "SELECT pgq_ack($l[0][0], $l[0][1]);
		SAVEPOINT a; SELECT pgq_ack($l[1][0], $l[1][1]); SELECT pgq_fail($l[2][0], $l[2][1], retry => false); SELECT job_id FROM pgq_claim('$queue'); ROLLBACK TO a;
		SELECT pgq_fail($l[2][0], $l[2][1], 'no', retry_in => '0');
		SAVEPOINT b; SELECT pgq_ack($l[3][0], $l[3][1]); SAVEPOINT c; RELEASE c; RELEASE b");
	is(sql("SELECT pgq_ack($l[1][0], $l[1][1])"), '', 'an ack that a savepoint took back: others need not wait');
	is(sql("SELECT attempt FROM pgq_claim('$queue', wait => '60 s')"), '2', '... a claim: lost at once');
	sql("COMMIT PREPARED 's'");
	stats_are($queue, { enqueued => 6, handed_out => 7, acked => 3, failed => 1, lost => 1 }, 'the rest is committed');
	is(sql("SELECT job_id, attempt FROM pgq_claim('$queue', 10)"), "$l[2][0]|2", '... and the retry is there');
}

# ---- a waiting job that a prepared transaction has in hand ----

# A claim that meets the lease of this transaction drops the hint of the job. When the transaction has ended, a claim gets the job,
# and the reconciler has not had to help.
for my $verb ('pgq_retry(ID)', 'pgq_update(ID, priority => 3)', q{pgq_enqueue('QUEUE', '2', unique_key => 'k')})
{
	for my $end ('COMMIT', 'ROLLBACK')
	{
		my $queue = new_queue(0);
		is(ask($s, "SELECT job_id FROM pgq_claim('$queue')"), '', 'the queue is empty');
		my $id = ask($s, "SELECT pgq_enqueue('$queue', '1', unique_key => 'k')");
		prepare('w', 'SELECT ' . $verb =~ s/ID/$id/r =~ s/QUEUE/$queue/r);
		is(ask($s, "SELECT job_id FROM pgq_claim('$queue')"), '', "... $verb is prepared: no claim gets the job");
		ask($s, "$end PREPARED 'w'");
		is(ask($s, "SELECT job_id FROM pgq_claim('$queue', wait => '60 s')"), $id, "... after $end PREPARED a claim gets it");
		is(ask($s, "SELECT repaired FROM pgq_ext.queue_stats WHERE queue = '$queue'"), '0', '... memory has not forgotten it');
	}
}

# ---- not for those who keep the house ----

{
	my $queue = new_queue(1);
	for my $ddl ("pgq_create_queue('new')", "pgq_drop_queue('$queue', force => true)", "pgq_purge_queue('$queue')")
	{
		my ($state, $message) = sqlstate($node, "BEGIN; SELECT $ddl; PREPARE TRANSACTION 'ddl'");
		is($state, '0A000', "$ddl cannot be prepared");
	}
	is(scalar drain($node, $queue), 1, '... and was undone');
	is(sql("SELECT count(*) FROM pgq_ext.queue WHERE queue = 'new'"), '0', '... all of it');
}

# ---- the scheduler goes and comes ----

for my $end ('COMMIT', 'ROLLBACK')
{
	my $queue = new_queue(40);
	my @l = claimed($queue, 20);
	prepare('r', 'SELECT count(*) FROM pgq_ack_many(' . arrays(@l) . "); SELECT count(*) FROM pgq_claim('$queue', 20); "
		. "SELECT pgq_enqueue('$queue', '1') FROM generate_series(1, 30)");
	for my $when ('before', 'after')
	{
		my $scheduler = wait_for_scheduler($node);
		sql("SELECT pg_terminate_backend($scheduler, 60000)");
		sql("$end PREPARED 'r'") if $when eq 'after';
		wait_for_scheduler($node, 'postgres', $scheduler);
	}
	stats_are($queue, $end eq 'COMMIT' ? { enqueued => 70, handed_out => 40, acked => 20 } : { enqueued => 40, handed_out => 40, lost => 20 },
		"the scheduler was replaced twice, $end");
	sql("SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = '$queue'");
	is(scalar drain($node, $queue), $end eq 'COMMIT' ? 30 : 20, '... and everything else comes');
}

# ---- dropped under it ----

{
	my $queue = new_queue(0);
	for my $end ('COMMIT', 'ROLLBACK')
	{
		prepare('d', "SELECT pgq_enqueue('$queue', '1')");
		send_sql($s, "SELECT pgq_drop_queue('$queue')");
		wait_until_blocked($pid);
		sql("$end PREPARED 'd'");
		my ($out, $error) = reply($s);
		like($end eq 'COMMIT' ? $error : $out, $end eq 'COMMIT' ? qr/queue "$queue" is not empty/ : qr/^t$/, "pgq_drop_queue waits for a prepared enqueue and its $end");
		is(scalar drain($node, $queue), 1, '... and the job is there') if $end eq 'COMMIT';
	}

	# Its rows are locked; what it had in hand is gone with the queue, and another queue in the same place must not suffer.
	$queue = new_queue(20);
	prepare('d', "SELECT count(*) FROM pgq_claim('$queue', 20)");
	send_sql($s, "SELECT pgq_drop_queue('$queue', force => true)");
	wait_until_blocked($pid);
	sql("ROLLBACK PREPARED 'd'");
	is(reply($s), 't', 'pgq_drop_queue waits for a prepared claim, too');
	my $next = new_queue(20);
	claimed($next, 10);
	stats_are($next, { enqueued => 20, handed_out => 10 }, '... other queues are left alone');
	is(scalar claimed($next, 10), 10, '... and served');
}

# ---- crash and failover ----

# What is prepared when the memory is lost: for both ends, in a queue of its own each, 30 jobs acked, 5 failed, 5 claimed, 10 not
# touched, 70 enqueued.
sub prepare_for_the_worst
{
	my ($what) = @_;
	my %case;
	for my $end ('COMMIT', 'ROLLBACK')
	{
		my $queue = new_queue(50);
		my @l = claimed($queue, 35);
		prepare("$what $end", 'SELECT count(*) FROM pgq_ack_many(' . arrays(@l[ 0 .. 29 ]) . ');'
			. join('', map { "SELECT pgq_fail($_->[0], $_->[1], 'no', retry_in => '0');" } @l[ 30 .. 34 ])
			. "SELECT count(*) FROM pgq_claim('$queue', 5);
			SELECT pgq_enqueue('$queue', '\"new\"', priority => i % 3) FROM generate_series(1, 50) i;
			SELECT pgq_enqueue('$queue', '\"new\"', delay => i * interval '50 ms') FROM generate_series(1, 20) i");
		$case{$end} = { queue => $queue, leases => \@l };
	}
	return \%case;
}

sub survived_ok
{
	my ($what, $case) = @_;
	for my $end ('COMMIT', 'ROLLBACK')
	{
		my $queue = $case->{$end}{queue};
		my @l = @{ $case->{$end}{leases} };
		# Patience: more than once round for jobs that are busy.
		my %free;
		for (1 .. 10)
		{
			$free{$_}++ for split /\n/, sql("SELECT format('%s %s %s', payload, attempt, job_id) FROM pgq_claim('$queue', 1000, wait => '500 ms')");
		}
		is(scalar keys %free, 10, "$what: what nobody has claimed or changed goes out, and nothing else");
		is(scalar(grep { /^\d+ 1 / } keys %free), 10, '... as a first attempt');
		is(sqlstate($node, "SET lock_timeout = '1 s'; SELECT pgq_ack($l[0][0], $l[0][1])") =~ /^(PQ001|55P03)$/ ? 1 : 0, 1, '... a prepared ack cannot be overtaken');

		send_sql($s, "SELECT count(*) FROM pgq_claim('$queue', wait => '60 s')") ;
		wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$queue'");
		sql("$end PREPARED '$case->{name} $end'");
		is(reply($s), '1', "$what, $end: wakes a waiting claim");
		my @rest = split /\n/, sql("SELECT format('%s %s', payload, attempt) FROM pgq_ext.lease JOIN pgq_ext.job USING (job_id)
			WHERE queue = '$queue' AND NOT job_id = ANY ('{" . join(',', map { /(\d+)$/ } keys %free) . "}')");
		for (1 .. 60)
		{
			last if @rest >= ($end eq 'COMMIT' ? 80 : 40);
			push @rest, split /\n/, sql("SELECT format('%s %s', payload, attempt) FROM pgq_claim('$queue', 1000, wait => '1 s')");
		}
		my ($new, $first, $second) = map { my $re = $_; scalar grep { /$re/ } @rest } qr/^"new" 1$/, qr/^\d+ 1$/, qr/^\d+ 2$/;
		is("$new $first $second", $end eq 'COMMIT' ? '70 5 5' : $case->{saved} ? '0 35 5' : '0 40 0', "$what, $end: enqueued, claimed, acknowledged and failed jobs are what they should be");
		nothing_ready($queue, '... and that is all');
		is(sql("SELECT count(*) FROM pgq_ext.job_status WHERE queue = '$queue' AND state <> 'leased'"), '0', '... no job is forgotten');
	}
	return;
}

end_session($_) for $s, $other;
my $no_scheduler = "max_logical_replication_workers = 0\nmax_worker_processes = 1\n";
my %accident = (
	'1 immediate shutdown' => sub { $node->stop('immediate'); $node->start; wait_for_scheduler($node) },
	'2 restart' => sub { $node->restart },
	'3 crash, clients before the scheduler' => sub { $node->stop('immediate'); $node->append_conf('postgresql.conf', $no_scheduler); $node->start });
for my $name (sort keys %accident)
{
	my $case = prepare_for_the_worst($name);
	$case->{name} = $name;
	# Leases that were saved are in their workers' hands; a claim that is rolled back is an attempt.
	$case->{saved} = $name =~ /restart/;
	$accident{$name}->();
	$s = session($node);
	survived_ok($name, $case);
	end_session($s);
}

# DROP EXTENSION waits, too: here for one that no memory knows of.
$node->adjust_conf('postgresql.conf', 'max_worker_processes', '8');
create_queue($node, 'last');
prepare('last', "SELECT pgq_enqueue('last', '1')");
$node->restart;
$s = session($node);
$pid = pid_of($s);
send_sql($s, 'DROP EXTENSION pgq_ext');
wait_until_blocked($pid);
sql("COMMIT PREPARED 'last'");
my (undef, $error) = reply($s);
is($error, '', 'DROP EXTENSION waits for a prepared enqueue');
sql('CREATE EXTENSION pgq_ext');
create_queue($node, 'last');
prepare('last', "SELECT pgq_enqueue('last', '1')");
sql("COMMIT PREPARED 'last'");
is(scalar drain($node, 'last'), 1, '... and the extension works when it is back');
end_session($s);
$node->stop;

# ---- promotion ----

my $primary = $node = pgq_node('primary', init => { allows_streaming => 1 }, conf => $small);
create_queue($primary, 'first');
wait_for_scheduler($primary);
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
my $case = prepare_for_the_worst('promotion');
$case->{name} = 'promotion';
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->promote;
$node = $standby;
$s = session($node);
survived_ok('promotion', $case);
end_session($s);
wait_for_scheduler($standby);
is(sql('SELECT count(*) FROM pg_prepared_xacts'), '0', 'promotion: nothing is prepared any more');
$standby->stop;

done_testing();
