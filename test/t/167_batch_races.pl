# Races of batches that users of other queues have reported. Each part is named after the kind of race. Each callback comes exactly
# once, none too early, and none never.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use HandlerTest ':calls';
use BatchTest;

my $node = use_node(handler_node('main'));

create_queue($node, 'q', q{max_attempts => 1});
sql(q{SELECT pgq_create_queue('retried', max_attempts => 5, backoff_base => '0'), pgq_create_queue('events'), pgq_create_queue('nested')});

# ---- a callback comes many times ----

# All acks are open at the same time, and are committed at the same time.
for my $round (1 .. 5)
{
	my $batch = full_batch(8);
	close_batch($batch);
	my @workers = map { session($node) } 1 .. 8;
	ask($_, q{BEGIN; SELECT pgq_ack(job_id, lease) FROM pgq_claim('q')}) for @workers;
	events_are($batch, '', 'many times: no callback while all acks are open') if $round == 1;
	send_sql($_, 'COMMIT') for @workers;
	reply($_) for @workers;
	events_are($batch, 'finish success', "many times: eight acks are committed at once, $round");
	end_session($_) for @workers;
}

{
	my $batch = full_batch(1);
	close_batch($batch) for 1 .. 2;
	ack_all();
	events_are($batch, 'finish success', 'many times: closed twice');
	close_batch($batch);
	events_are($batch, 'finish success', '... and once more after the callbacks');
	is(ack_all('events') > 0, 1, '... which are done');
	close_batch($batch);
	events_are($batch, '', '... and do not come again');
}

# ---- a job that runs again is counted twice ----

{
	my $batch = full_batch(2, 'retried');
	close_batch($batch);
	sql(q{SELECT pgq_fail(job_id, lease, 'again') FROM pgq_claim('retried', 2)}) for 1 .. 2;
	ack(claim('retried'));
	events_are($batch, '', 'counted twice: two members have failed twice, one is acknowledged');
	ack(claim('retried'));
	events_are($batch, 'finish success', '... both are');
}

{
	my $batch = full_batch(2, 'retried');
	close_batch($batch);
	my @leases = map { claim('retried') } 1 .. 2;
	my $session = session($node);
	for (1 .. 2)
	{
		ask($session, "BEGIN; SELECT pgq_ack($leases[0]); SAVEPOINT s; SELECT pgq_ack($leases[1]); ROLLBACK TO s; ROLLBACK");
	}
	ask($session, "BEGIN; SAVEPOINT s; SELECT pgq_ack($leases[0]); ROLLBACK TO s; SELECT pgq_ack($leases[1]); COMMIT");
	end_session($session);
	events_are($batch, '', 'counted twice: acks that are rolled back count for nothing');
	ack($leases[0]);
	events_are($batch, 'finish success', '... and each member ends once');
}

{
	my $batch = full_batch(2, 'retried');
	close_batch($batch);
	my $late = claim('retried', q{, lease_time => '1 s'});
	my ($job) = split /,/, $late;
	my $other = claim('retried');
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $job");
	my $again = claim('retried', q{, wait => '60 s'});
	like($again, qr/^$job,/, 'counted twice: a lease is lost, and another worker has the job');
	is((sqlstate($node, "SELECT pgq_ack($late)"))[0], 'PQ001', '... the first worker is refused');
	ack($again);
	is((sqlstate($node, "SELECT pgq_ack($late)"))[0], 'PQ001', '... also after the end of the job');
	is(sql("SELECT pgq_fail($late, 'late')"), 'stale', '... also if it says that it has failed');
	events_are($batch, '', '... which counts once');
	ack($other);
	events_are($batch, 'finish success', '... as the other member does');
}

# ---- a worker dies between the work and the count ----

{
	my $batch = full_batch(1, 'retried');
	close_batch($batch);
	my $worker = session($node);
	ask($worker, q{BEGIN; SELECT pgq_ack(job_id, lease) FROM pgq_claim('retried')});
	my $pid = pid_of($worker);
	sql("SELECT pg_terminate_backend($pid, 60000)");
	events_are($batch, '', 'a worker dies: its ack was not committed');
	end_session($worker);
	ack(claim('retried', q{, wait => '60 s'}));
	events_are($batch, 'finish success', '... another worker does the job');
}

# ---- failed, retried by hand, then fine ----

{
	my $batch = full_batch(3);
	my $fail = q{SELECT pgq_fail(job_id, lease, 'broken') FROM pgq_claim('q')};
	sql($fail);
	events_are($batch, 'failure', 'retried by hand: a member is dead, and the batch is open');
	sql($fail);
	close_batch($batch);
	ack_all();
	events_are($batch, 'failure finish', '... two are dead, one is acknowledged');
	my ($first, $second) = split /\n/, sql("SELECT job_id FROM pgq_ext.dead_job WHERE batch_id = $batch ORDER BY job_id");
	sql("SELECT pgq_retry($first)");
	ack_all();
	events_are($batch, 'failure finish', '... one is retried, and then fine');
	sql("SELECT pgq_retry($second)");
	sql($fail);
	events_are($batch, 'failure finish', '... the other one fails again');
	sql(q{SELECT pgq_redrive('q')});
	ack_all();
	events_are($batch, 'failure finish success', '... is brought back, and then fine');
	is(sql("SELECT pending FROM pgq_ext.job_batch WHERE batch_id = $batch"), 'f', '... nothing more can come');
}

# A retry and the look at the batch, at the same time: there is always a member, dead or alive.
{
	my $batch = full_batch(1);
	sql(q{SELECT pgq_fail(job_id, lease, 'broken') FROM pgq_claim('q')});
	my $operator = session($node);
	ask($operator, 'BEGIN; SELECT pgq_retry(job_id) FROM pgq_ext.dead_job');
	close_batch($batch);
	events_are($batch, 'failure', 'retried by hand: a retry is open when the batch is closed');
	ask($operator, 'COMMIT');
	events_are($batch, 'failure', '... and is committed');
	ack_all();
	events_are($batch, 'failure finish success', '... and fine');
	end_session($operator);
}

# ---- jobs end before the set is closed ----

{
	my $batch = full_batch(2);
	ack_all();
	events_are($batch, '', 'not closed yet: all members have ended');
	add($batch);
	ack_all();
	events_are($batch, '', '... one more has, too');
	my $maker = session($node);
	ask($maker, "BEGIN; SELECT pgq_close_batch($batch)");
	events_are($batch, '', '... the close is open');
	ask($maker, 'ROLLBACK');
	events_are($batch, '', '... and is rolled back');
	ask($maker, "BEGIN; SAVEPOINT s; SELECT pgq_close_batch($batch); ROLLBACK TO s; COMMIT");
	events_are($batch, '', '... also to a savepoint');
	ask($maker, "BEGIN; SELECT pgq_close_batch($batch); PREPARE TRANSACTION 'close'");
	events_are($batch, '', '... is prepared');
	sql(q{COMMIT PREPARED 'close'});
	events_are($batch, 'finish success', '... is committed');
	end_session($maker);
}

# ---- an empty set ----

{
	my $batch = batch();
	events_are($batch, '', 'empty: not closed');
	close_batch($batch);
	events_are($batch, 'finish success', '... closed');
	is((sqlstate($node, add_sql($batch)))[0], '55000', '... and nobody can add a member');

	$batch = sql(q{WITH b AS MATERIALIZED (SELECT pgq_create_batch(on_finish => '{"queue": "events", "payload": 1}') AS id) SELECT id FROM b, pgq_close_batch(id)});
	events_are($batch, 'finish', 'empty: created and closed by one statement');
}

# ---- the batch is pruned before its callback has run ----

{
	my $batch = full_batch(1);
	for my $state ('open', 'closed')
	{
		isnt((sqlstate($node, "DELETE FROM pgq_ext.job_batch WHERE batch_id = $batch"))[0], '', "pruned: refused while it is $state");
		close_batch($batch);
	}
	ack_all();
	events_are($batch, 'finish success', '... its callbacks come');
	sql("DELETE FROM pgq_ext.job_batch WHERE batch_id = $batch; DELETE FROM pgq_ext.batch_note WHERE batch_id = $batch");
	events_are($batch, 'finish success', '... pruned before they have run');
	is(sql(qq{WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('events', 1000)), a AS MATERIALIZED (SELECT c.*, pgq_ack(job_id, lease) FROM c)
		SELECT string_agg(headers->>'event', ' ' ORDER BY headers->>'event') FROM a WHERE headers->>'batch' = '$batch'}), 'finish success', '... and they run');
}

# ---- a creation that is interrupted ----

{
	my $maker = session($node);
	ask($maker, 'BEGIN');
	my $batch = ask($maker, q{SELECT pgq_create_batch(on_finish => '{"queue": "events", "payload": 1}')});
	ask($maker, add_sql($batch));
	ask($maker, "SELECT pgq_close_batch($batch)");
	my $pid = pid_of($maker);
	sql("SELECT pg_terminate_backend($pid, 60000)");
	end_session($maker);
	events_are($batch, '', 'interrupted: the transaction of the maker is lost');
	is(sql("SELECT (SELECT count(*) FROM pgq_ext.job_batch WHERE batch_id = $batch) + (SELECT count(*) FROM pgq_ext.job WHERE batch_id = $batch) + (SELECT count(*) FROM pgq_ext.batch_note WHERE batch_id = $batch)"),
		'0', '... and with it all that was made');

	$batch = full_batch(1);
	ack_all();
	events_are($batch, '', 'interrupted: the maker has not closed the batch');
	close_batch($batch);
	events_are($batch, 'finish success', '... another session closes it');
}

# ---- a callback opens the next batch ----

{
	# The callback opens a batch, and its first attempt is undone.
	my $batch = batch(join ', ', map { callback($_, 'nested') } qw(success finish));
	close_batch($batch);
	wait_for($node, "count(*) = 2 FROM pgq_ext.job WHERE headers->>'batch' = '$batch'");
	my $worker = session($node);
	my @next;
	for my $end ('ROLLBACK', 'COMMIT')
	{
		ask($worker, 'BEGIN');
		my ($job, $lease, $id) = split /\|/, ask($worker, q{SELECT c.job_id, c.lease, pgq_create_batch(on_finish => '{"queue": "events", "payload": 1}') FROM pgq_claim('nested', wait => '60 s') c});
		ask($worker, add_sql($id, 'retried'));
		ask($worker, "SELECT pgq_close_batch($id)");
		ask($worker, "SELECT pgq_ack($job, $lease)");
		ask($worker, $end);
		push @next, $id;
	}
	is(ack_all('retried'), 1, 'nested: one member of the next batch, though the first attempt was undone');
	events_are($next[0], '', '... whose batch has no callback');
	events_are($next[1], 'finish', '... the batch of the second attempt has');
	end_session($worker);
	ack_all('nested');
}

{
	# A chain: each callback opens the next batch, in its own transaction.
	handled_queue($node, 'chain', q{
		DECLARE
			depth int := (job.payload)::int;
			id bigint;
		BEGIN
			INSERT INTO effect VALUES (job.job_id, depth);
			IF job.headers ? 'batch' AND depth < 6 THEN
				id := pgq_create_batch(on_finish => jsonb_build_object('queue', 'chain', 'payload', depth + 1));
				PERFORM pgq_enqueue('chain', to_jsonb(100 + depth), batch => id) FROM generate_series(1, 3);
				PERFORM pgq_close_batch(id);
			END IF;
		END}, queue => 'max_attempts => 1', handler => 'workers => 3');
	my $batch = sql(q{SELECT pgq_create_batch(on_finish => '{"queue": "chain", "payload": 1}')});
	close_batch($batch);
	wait_for($node, q{EXISTS (SELECT FROM effect WHERE note = '6') AND NOT EXISTS (SELECT FROM pgq_ext.job_status WHERE queue = 'chain')});
	settle();
	wait_for($node, q{NOT EXISTS (SELECT FROM pgq_ext.job_status WHERE queue = 'chain')});
	is(sql(q{SELECT string_agg(note || 'x' || n, ' ' ORDER BY note::int) FROM (SELECT note, count(*) AS n FROM effect GROUP BY 1) e}),
		'1x1 2x1 3x1 4x1 5x1 6x1 101x3 102x3 103x3 104x3 105x3', 'nested: each link of a chain of batches once');
	is(sql(q{SELECT failures FROM pgq_ext.handler WHERE queue = 'chain'}), '0', '... and no call has failed');
}

# ---- stuck in progress ----

# What happens last is no ack. Each entry: the statements that end the last member, and the events.
my %last = (
	'cancelled'            => [ 'SELECT pgq_cancel(job_id) FROM pgq_ext.job WHERE batch_id = :batch', 'finish' ],
	'purged'               => [ q{SELECT pgq_purge_queue('last')}, 'finish' ],
	'deleted by SQL'       => [ 'DELETE FROM pgq_ext.job WHERE batch_id = :batch', 'finish' ],
	'in a dropped queue'   => [ q{SELECT pgq_drop_queue('last', force => true)}, 'finish' ],
	'dead'                 => [ q{SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('last')}, 'failure finish' ],
	'acknowledged at once' => [ q{WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('last')) SELECT pgq_ack_many(array_agg(job_id), array_agg(lease)) FROM c}, 'finish success' ],
	'acknowledged with the next claim' => [ q{WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('last')) SELECT count(*) FROM c, pgq_ack_claim(ARRAY[job_id], ARRAY[lease], 'last')}, 'finish success' ]);
for my $how (sort keys %last)
{
	my ($statement, $expected) = @{ $last{$how} };
	sql(q{SELECT pgq_create_queue('last', if_not_exists => true)});
	my $batch = full_batch(1);
	add($batch, 'last');
	ack_all();
	close_batch($batch);
	events_are($batch, '', "stuck: one member is left, ...");
	sql($statement =~ s/:batch/$batch/gr);
	events_are($batch, $expected, "... which is $how");
}
sql(q{SELECT pgq_create_queue('last', if_not_exists => true)});

{
	my $batch = batch();
	sql("SELECT pgq_enqueue('last', '1', batch => $batch, expires_in => '1 ms')");
	close_batch($batch);
	events_are($batch, 'finish', 'stuck: the last member expires');

	$batch = full_batch(2, 'last');
	close_batch($batch);
	sql(q{DO 'BEGIN PERFORM pgq_ack(job_id, lease) FROM pgq_claim(''last''); END'; DELETE FROM pgq_ext.job WHERE batch_id = } . $batch);
	events_are($batch, 'finish', 'stuck: the last ones are acknowledged and deleted by one transaction');
}

# A member whose enqueue is undone after the batch was closed.
for my $end ('ROLLBACK', 'ROLLBACK TO SAVEPOINT s; COMMIT', q{PREPARE TRANSACTION 'member'})
{
	my $batch = full_batch(1);
	my $maker = session($node);
	ask($maker, 'BEGIN; SAVEPOINT s');
	ask($maker, add_sql($batch));
	close_batch($batch);
	is(ack_all(), 1, 'stuck: the enqueue of a member is open when all else has ended');
	events_are($batch, '', '... no callback');
	ask($maker, $end);
	if ($end =~ /^PREPARE/)
	{
		events_are($batch, '', '... also while it is prepared');
		sql(q{ROLLBACK PREPARED 'member'});
	}
	events_are($batch, 'finish success', "... after $end");
	end_session($maker);
}

# ---- a member is added in a call of its own while others end ----

{
	my $batch = full_batch(1);
	my ($gate, $maker) = map { session($node) } 1 .. 2;
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($maker, q{SET pgq_ext.stop_point = 'batch-joined'});
	send_sql($maker, add_sql($batch));
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted});
	close_batch($batch);
	is(ack_all(), 1, 'separate calls: a session has read that the batch is open, and is about to insert');
	events_are($batch, '', '... no callback, though the batch is closed and its member has ended');
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	like((reply($maker))[0], qr/^\d+$/, '... the member is added');
	events_are($batch, '', '... and lives');
	is(ack_all(), 1, '... is acknowledged');
	events_are($batch, 'finish success', '... and the callbacks come');
	end_session($_) for $gate, $maker;
}

# The same, but the session has added to the batch before. So it inserts the member first, and then looks whether the batch is open.
for my $inserted (0, 1)
{
	my $batch = full_batch(0);
	my ($gate, $maker) = map { session($node) } 1 .. 2;
	like((ask($maker, add_sql($batch)))[0], qr/^\d+$/, 'separate calls: a session has added to the batch');
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($maker, 'SET pgq_ext.stop_point = ' . ($inserted ? q{'batch-added'} : q{'batch-joined'}));
	send_sql($maker, add_sql($batch));
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted});
	close_batch($batch);
	is(ack_all(), 1, $inserted ? '... has inserted another member, and is about to look at the batch' : '... and is about to insert another member');
	events_are($batch, $inserted ? '' : 'finish success', $inserted ? '... no callback' : '... the batch is finished first');
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	my $state = $inserted ? 'closed' : 'finished';
	like((reply($maker))[1], qr/batch $batch is $state/, '... the member is refused');
	events_are($batch, 'finish success', '... and the callbacks come once');
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE batch_id = $batch"), '0', '... without the member');
	end_session($_) for $gate, $maker;
}

# ---- acks of one batch wait for each other ----

{
	my $batch = full_batch(3);
	close_batch($batch);
	my @workers = map { session($node) } 1 .. 3;
	ask($_, q{SET lock_timeout = '10 s'; SET statement_timeout = '60 s'; BEGIN}) for @workers;
	is((ask($_, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q')}))[0], '1', 'one after the other: an ack does not wait for open acks of its batch') for @workers;
	ask($workers[2], 'COMMIT');
	ask($workers[0], q{PREPARE TRANSACTION 'ack'});
	ask($workers[1], 'COMMIT');
	events_are($batch, '', '... two are committed, one is prepared');
	sql(q{COMMIT PREPARED 'ack'});
	events_are($batch, 'finish success', '... all are');
	end_session($_) for @workers;
}

is(sql(q{SELECT count(*) FROM pgq_check()}), '0', 'pgq_check finds nothing');
is(sql(q{SELECT count(*) FROM pgq_ext.job_batch WHERE last_error IS NOT NULL}), '0', 'and no callback was refused');

$node->stop;
done_testing();
