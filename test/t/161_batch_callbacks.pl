# Callbacks of batches: each comes exactly once, and at its time, whatever happens to members, sessions and the scheduler.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('main', conf => "max_prepared_transactions = 4\nrestart_after_crash = on\n");
sub sql { return scalar $node->safe_psql('postgres', $_[0]) }

create_queue($node, 'work', 'max_attempts => 1');
create_queue($node, 'told');
my $pid = wait_for_scheduler($node);

# ---- helpers ----

sub callback { my ($queue) = @_; return qq{'{"queue": "$queue", "payload": 1, "headers": {"mine": 1}}'} }
sub batch
{
	my ($queue) = @_;
	$queue //= 'told';
	return sql("SELECT pgq_create_batch(on_success => ${\callback($queue)}, on_failure => ${\callback($queue)}, on_finish => ${\callback($queue)})");
}
sub adding { my ($batch, $n, $queue) = @_; $queue //= 'work'; return qq{SELECT string_agg(job_id::text, ' ') FROM pgq_enqueue_many('$queue', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'batch', $batch)) FROM generate_series(1, $n) i)) AS job_id} }
sub add { my ($batch, $n, $queue) = @_; return split / /, sql(adding($batch, $n, $queue)) }
sub close_batch { my ($batch) = @_; return sql("SELECT pgq_close_batch($batch)") }
sub ack { my ($batch) = @_; return sql(q{WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('work', 1000)) SELECT count(pgq_ack(job_id, lease)) FROM c}) }
sub fail_one { return sql(q{WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('work', 1)) SELECT pgq_fail(job_id, lease, 'bad') FROM c}) }
my $events = q{coalesce(string_agg(headers ->> 'event', ' ' ORDER BY headers ->> 'event'), '') FROM pgq_ext.job WHERE headers ->> 'batch' = };
sub events { my ($batch) = @_; return sql("SELECT $events '$batch'") }
sub state { my ($batch) = @_; return sql("SELECT concat_ws(' ', CASE WHEN failed_at IS NOT NULL THEN 'failed' END, CASE WHEN finished_at IS NOT NULL THEN 'finished' END, CASE WHEN succeeded_at IS NOT NULL THEN 'succeeded' END, CASE WHEN pending THEN 'pending' END) FROM pgq_ext.job_batch WHERE batch_id = $batch") }

# Waits until the events of a batch are these, or dies.
sub wait_for_events
{
	my ($batch, $wanted) = @_;
	return wait_for($node, "(SELECT $events '$batch') = '$wanted'");
}

# Waits until the scheduler has looked at all that it was told of before: a batch that is closed now is finished.
sub wait_for_looks
{
	my $other = sql('SELECT pgq_create_batch()');
	close_batch($other);
	return wait_for($node, "finished_at IS NOT NULL FROM pgq_ext.job_batch WHERE batch_id = $other");
}
sub is_after_looks
{
	my ($batch, $wanted, $what) = @_;
	wait_for_looks();
	is(events($batch), $wanted, $what);
	return;
}

# ---- which callback comes when ----

my $empty = batch();
is_after_looks($empty, '', 'an open batch without members');
close_batch($empty);
wait_for_events($empty, 'finish success');
wait_for_looks();
is(state($empty), 'finished succeeded', 'an empty batch finishes at once');
is(sql("SELECT string_agg(DISTINCT headers::text, ' ') FROM pgq_ext.job WHERE headers ->> 'batch' = '$empty' AND headers ->> 'event' = 'finish'"),
	qq({"mine": 1, "batch": $empty, "event": "finish"}), '... and the headers name batch and event');

my $acked = batch();
add($acked, 3);
ack();
is_after_looks($acked, '', 'acked, but open');
add($acked, 2);
close_batch($acked);
is_after_looks($acked, '', 'closed, but a member is left');
ack();
wait_for_events($acked, 'finish success');
is(state($acked), 'finished succeeded', 'all were acked');

my $bare = sql('SELECT pgq_create_batch()');
close_batch($bare);
wait_for($node, "finished_at IS NOT NULL AND succeeded_at IS NOT NULL FROM pgq_ext.job_batch WHERE batch_id = $bare");
is(events($bare), '', 'without callbacks only the times are noted');

my $failing = batch();
my ($bad) = add($failing, 2);
fail_one();
wait_for_events($failing, 'failure');
is(state($failing), 'failed pending', 'a death in an open batch is told at once');
fail_one();
close_batch($failing);
wait_for_events($failing, 'failure finish');
is_after_looks($failing, 'failure finish', '... and once');
is(state($failing), 'failed finished pending', '... and success can still come');
sql("SELECT pgq_redrive('work')");
is_after_looks($failing, 'failure finish', 'redriven');
ack();
wait_for_events($failing, 'failure finish success');
is(state($failing), 'failed finished succeeded', 'redriven and acked after the finish');
is_after_looks($failing, 'failure finish success', '... each callback once');

my $lost = batch();
my ($cancelled) = add($lost, 2);
sql("SELECT pgq_cancel($cancelled)");
close_batch($lost);
ack();
wait_for_events($lost, 'finish');
is(state($lost), 'finished', 'a member was cancelled: no success, and nothing can come any more');

# ---- open and prepared transactions ----

for my $level ('READ COMMITTED', 'REPEATABLE READ')
{
	my $batch = batch();
	add($batch, 1);
	my $session = session($node);
	ask($session, "BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM pgq_ext.job_batch");
	ask($session, adding($batch, 1));
	close_batch($batch);
	ack();
	is_after_looks($batch, '', "$level: an open enqueue counts as a member");
	ask($session, 'ROLLBACK');
	wait_for_events($batch, 'finish success');
	pass('... and its rollback tells');

	my $kept = batch();
	ask($session, "BEGIN ISOLATION LEVEL $level; SAVEPOINT s");
	ask($session, adding($kept, 1));
	close_batch($kept);
	is_after_looks($kept, '', '... also in a subtransaction');
	ask($session, 'ROLLBACK TO s');
	wait_for_events($kept, 'finish success');
	pass('... and so does a rollback to a savepoint');
	ask($session, 'COMMIT');
	end_session($session);
}

for my $end ('ROLLBACK', 'COMMIT')
{
	my $batch = batch();
	sql(qq{BEGIN; ${\adding($batch, 1)}; PREPARE TRANSACTION 'members'});
	close_batch($batch);
	is_after_looks($batch, '', 'a prepared enqueue counts as a member');
	$node->restart;
	is_after_looks($batch, '', '... also after a restart');
	sql("$end PREPARED 'members'");
	ack() if $end eq 'COMMIT';
	wait_for_events($batch, 'finish success');
	pass("... until $end PREPARED");
}

# ---- callbacks that cannot be enqueued ----

sub wait_for_error
{
	my ($batch, $error) = @_;
	return wait_for($node, "last_error LIKE '$error' AND due_at IS NOT NULL FROM pgq_ext.job_batch WHERE batch_id = $batch");
}

create_queue($node, 'full', 'max_depth => 1');
my $full = sql("SELECT pgq_create_batch(on_success => ${\callback('told')}, on_finish => ${\callback('full')})");
sql(q{SELECT pgq_enqueue('full', '0')});
close_batch($full);
wait_for_events($full, 'success');
wait_for_error($full, '%full%');
is(state($full), 'succeeded pending', 'the queue is full: the callback waits, and the other one comes');
sql(q{SELECT pgq_purge_queue('full')});
wait_for_events($full, 'finish success');
is(sql("SELECT failures, due_at IS NULL, last_error IS NULL, pending FROM pgq_ext.job_batch WHERE batch_id = $full"), '0|t|t|f', '... until there is room, although memory is not told');

sql('CREATE ROLE maker LOGIN; GRANT EXECUTE ON FUNCTION pgq_create_batch, pgq_close_batch, pgq_enqueue TO maker; GRANT USAGE ON SCHEMA pgq_ext TO maker');
my $revoked = sql("SET ROLE maker; SELECT pgq_create_batch(on_finish => ${\callback('told')}); RESET ROLE");
sql('REVOKE EXECUTE ON FUNCTION pgq_enqueue FROM maker');
close_batch($revoked);
wait_for_error($revoked, 'permission denied for function pgq_enqueue');
is(state($revoked), 'succeeded pending', 'the right of the maker was revoked');
sql('GRANT EXECUTE ON FUNCTION pgq_enqueue TO maker');
wait_for_events($revoked, 'finish');
my $orphan = sql("SET ROLE maker; SELECT pgq_create_batch(on_finish => ${\callback('told')}); RESET ROLE");
sql('DROP OWNED BY maker; DROP ROLE maker');
close_batch($orphan);
wait_for_error($orphan, 'role "maker" does not exist');
sql("UPDATE pgq_ext.job_batch SET maker_name = current_user WHERE batch_id = $orphan");
wait_for_events($orphan, 'finish');
pass('the maker has gone, until the owner names another one');

my $broken = sql("SELECT pgq_create_batch(on_success => ${\callback('told')}, on_finish => ${\callback('told')})");
sql(qq{UPDATE pgq_ext.job_batch SET on_finish = '"nonsense"' WHERE batch_id = $broken});
close_batch($broken);
wait_for_events($broken, 'success');
wait_for_error($broken, 'a callback must be a JSON object');
my $sound = batch();
close_batch($sound);
wait_for_events($sound, 'finish success');
pass('a broken callback stops neither the other one nor other batches');
sql("UPDATE pgq_ext.job_batch SET on_finish = on_success WHERE batch_id = $broken");
wait_for_events($broken, 'finish success');
pass('... and comes when it is mended');
like((sqlstate($node, q{SELECT pgq_create_batch(on_finish => '{"queue": "told", "payload": 1, "headers": 7}')}))[1], qr/headers of a callback must be a JSON object/, 'headers that are no object are refused');

# ---- what a look leaves alone, and what memory does not know ----

# A look that finds nothing new does not write the row. The end of a prepared transaction makes the scheduler look at all
# batches, in the order of their ids.
my $waits = batch();
add($waits, 1);
close_batch($waits);
fail_one();
wait_for_events($waits, 'failure finish');
my $last = batch();
my $version = sql("SELECT ctid FROM pgq_ext.job_batch WHERE batch_id = $waits");
sql("BEGIN; ${\adding($last, 1)}; PREPARE TRANSACTION 'sweep'");
close_batch($last);
sql(q{ROLLBACK PREPARED 'sweep'});
wait_for_events($last, 'finish success');
is(sql("SELECT ctid FROM pgq_ext.job_batch WHERE batch_id = $waits"), $version, 'a sweep writes no row for which nothing has changed');

# A row that is deleted while the trigger is off tells nobody. Within two minutes the scheduler finds that the witness is gone.
my $unknown = batch();
my ($gone) = add($unknown, 1);
close_batch($unknown);
wait_for_looks();
my $from = -s $node->logfile;
sql("ALTER TABLE pgq_ext.job DISABLE TRIGGER job_changed; DELETE FROM pgq_ext.job WHERE job_id = $gone; ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_changed");
wait_for_events($unknown, 'finish success');
$node->wait_for_log(qr/WARNING:  memory did not know that job $gone of batch $unknown has ended/, $from);
pass('a witness that memory has missed is found, and the log names it');

# ---- locks that are not free ----

my $locked = batch();
my $session = session($node);
ask($session, "BEGIN; SELECT pgq_close_batch($locked)");
my $other = batch();
close_batch($other);
wait_for_events($other, 'finish success');
ask($session, 'COMMIT');
wait_for_events($locked, 'finish success');
pass('the row of a batch is locked');
my $tagged = batch();
my $holder = session($node);
ask($holder, 'SELECT pg_advisory_lock(7366513, 0)');
ask($session, q{SET pgq_ext.stop_point = 'batch-joined'});
send_sql($session, adding($tagged, 1));
wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = 7366513});
close_batch($tagged);
is_after_looks($tagged, '', 'a session that has the tag is adding a member');
ask($holder, 'SELECT pg_advisory_unlock(7366513, 0)');
reply($session);
ask($session, q{RESET pgq_ext.stop_point});
is_after_looks($tagged, '', '... and the member counts');
ack();
wait_for_events($tagged, 'finish success');

# ---- cancel ----

# One member waits, one is in work, one is acked by an open transaction, one is added by an open transaction.
my $given_up = batch();
add($given_up, 3);
my ($working, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('work', 1)});
my ($used, $used_lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('work', 1)});
my $acking = session($node);
ask($acking, "BEGIN; SELECT pgq_ack($used, $used_lease)");
ask($session, 'BEGIN; ' . adding($given_up, 1));
is(sql("SELECT pgq_cancel_batch($given_up)"), '1', 'cancelled: the waiting member is deleted');
is((sqlstate($node, adding($given_up, 1)))[0], '55000', '... no more can be added');
wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id = $working");
pass('... the scheduler ends the one in work');
is((sqlstate($node, "SELECT pgq_ack($working, $lease)"))[0], 'PQ001', '... whose worker has a stale lease');
is_after_looks($given_up, '', '... and waits for transactions that have members in hand');
ask($session, 'COMMIT');
wait_for($node, "count(*) = 1 FROM pgq_ext.job WHERE batch_id = $given_up");
is_after_looks($given_up, '', '... it ends a member that such a transaction has added');
ask($acking, 'ROLLBACK');
wait_for_events($given_up, 'finish');
is(sql("SELECT count(*) FROM pgq_ext.job WHERE batch_id = $given_up"), '0', '... and one that such a transaction has given back');
is(state($given_up), 'finished', '... finished, without success');
is(sql("SELECT sum(n) FROM pgq_ext.batch_note WHERE batch_id = $given_up AND what = 3"), '4', '... all are noted as cancelled');
is(sql("SELECT pgq_cancel_batch($given_up)"), '0', '... cancelled again');
wait_for($node, "NOT pending FROM pgq_ext.job_batch WHERE batch_id = $given_up");
is(events($given_up), 'finish', '... which changes nothing');
my $nothing = batch();
sql("SELECT pgq_cancel_batch($nothing)");
wait_for_events($nothing, 'finish');
is(state($nothing), 'finished', 'an empty batch is cancelled');
end_session($acking);

# ---- retention ----

is(sql(q{SHOW pgq_ext.keep_batches}), '7d', 'settled batches are kept for a week');

# ---- the scheduler dies ----

# Lets the scheduler read its settings. It does so between two runs of duties.
sub reload
{
	kill 'HUP', scheduler_pid($node);
	my $last = 'clock_timestamp()';
	my $run = q{last_run_at FROM pgq_ext.duty WHERE duty = 'presence'};
	for (1 .. 2)
	{
		my $before = sql("SELECT $last");
		wait_for($node, "(SELECT $run) > '$before'");
		$last = $run;
	}
	return;
}

for my $point ('batch-looked-once', 'batch-fired', 'commit-settle')
{
	for my $how ('KILL', 'TERM', 'immediate')
	{
		my $batch = batch();
		add($batch, 1);
		ack();
		wait_for_looks();
		ask($holder, 'SELECT pg_advisory_lock(7366513, 0)');
		sql("ALTER SYSTEM SET pgq_ext.stop_point = '$point'");
		reload();
		sql("SET pgq_ext.stop_point = ''; SELECT pgq_close_batch($batch)");
		wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = 7366513});
		my $before = scheduler_pid($node);
		sql('ALTER SYSTEM RESET pgq_ext.stop_point');
		is(events($batch), $point eq 'commit-settle' ? 'finish success' : '', "$how at $point");
		if ($how eq 'immediate') { stop_and_start($node, 'immediate') }
		else
		{
			kill $how, $before;
			end_session($holder) if $point eq 'commit-settle'; # a commit is not interrupted
			wait_until_down($before);
		}
		wait_until_up($node);
		end_session($holder);
		wait_for_scheduler($node, 'postgres', $before);
		wait_for_events($batch, 'finish success');
		is_after_looks($batch, 'finish success', '... each callback comes once');
		is(state($batch), 'finished succeeded', '... and is marked');
		$holder = session($node);
	}
}
end_session($session);

is(sql(q{SELECT count(*) FROM (SELECT FROM pgq_ext.job WHERE headers ? 'batch' GROUP BY headers ->> 'batch', headers ->> 'event' HAVING count(*) > 1) twice}), '0', 'no callback came twice');
is(sql(q{SELECT count(*) FROM pgq_check()}), '0', 'pgq_check finds nothing');
is(sql(q{SELECT last_error FROM pgq_ext.duty WHERE duty = 'batches'}), '', 'no error of the duty');

$node->stop;
done_testing();
