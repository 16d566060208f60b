# Rows that do not come through the functions of the extension: INSERT, COPY, UPDATE and DELETE by the owner, with
# values that no function would write; triggers switched off; rows of pgq_ext.queue.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.window_size = 64\npgq_ext.timer_size = 64\nmax_prepared_transactions = 5\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
create_queue($node, 'first');
my $scheduler = wait_for_scheduler($node);

# A queue whose memory is complete: what comes from now on has to be told of.
my $queues = 0;
my $other  = session($node);

sub new_queue
{
	my ($options) = @_;
	my $queue = 'q' . ++$queues;
	create_queue($node, $queue, "lease_time => '1 hour'" . ($options ? ", $options" : ''));
	is(ask($other, "SELECT * FROM pgq_claim('$queue', wait => '1 ms')"), '', "$queue: empty");
	return ($queue, sql("SELECT queue_id FROM pgq_ext.queue WHERE queue = '$queue'"));
}

sub payloads
{
	my ($queue, $wait) = @_;
	$wait //= '0';
	return sql("SELECT string_agg(payload #>> '{}', ' ') FROM pgq_claim('$queue', 1000, wait => '$wait')");
}

# All of n jobs, as "payload" in the order they come, however long they take to become due.
sub payloads_in_time
{
	my ($queue, $n) = @_;
	my @all;
	for (1 .. 60)
	{
		push @all, split / /, payloads($queue, '1 s');
		last if @all >= $n;
	}
	return join ' ', @all;
}

# ---- COPY and INSERT, to the whole table and to a segment ----

for my $table ('pgq_ext.job', 'pgq_ext.job_2')
{
	my ($queue, $id) = new_queue();
	my $segment = $table =~ /_2$/ ? 2 : 1;
	my @rows = (    # priority, run_at, attempts, max_attempts, payload
		[ 2147483647,  'now()', 0, '\N', 'first' ],
		[ -2147483648, 'now()', 0, '\N', 'last' ],
		[ 0, "now() - interval '1 year'",            0,          '\N',  'past' ],
		[ 0, "'4713-01-01 BC'",                      0,          '\N',  'stone_age' ],
		[ 0, "now()",                                2147483647, '\N',  'tired' ],
		[ 0, "now() + interval '5 s'",               7,          '7',   'soon' ],
		[ 9, "now() + interval '100 years'",         0,          '\N',  'much_later' ],
		[ 9, "'294276-12-31 23:59:59.999999+00'",       0,          '\N',  'never' ],
		[ 0, "now()",                                0,          '1',   'once' ]);
	my $values = join ",\n", map {
		my ($priority, $run_at, $attempts, $max, $payload) = @$_;
		$max = 'null' if $max eq '\N';
		"(nextval('pgq_ext.job_id_seq'), $run_at, now() - interval '1 h', $id, $priority, $attempts, $segment, $max, '\"$payload\"'::jsonb)";
	} @rows;
	my $columns = 'job_id, run_at, enqueued_at, queue_id, priority, attempts, segment, max_attempts, payload';
	my $file = $node->basedir . '/rows';
	# Read before what is due soon is due.
	is(sql(qq{CREATE TABLE rows AS SELECT j.* FROM pgq_ext.job j WHERE false; ALTER TABLE rows DROP unique_hash, DROP group_id;
		INSERT INTO rows ($columns) SELECT v.column1, v.column2::timestamptz, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8::int, v.column9
			FROM (VALUES $values) v;
		COPY rows TO '$file'; COPY $table FROM '$file';
		SELECT string_agg(payload #>> '{}', ' ') FROM pgq_claim('$queue', 1000); DROP TABLE rows}), 'first stone_age past tired once last', "$table: COPY brings what is due, in order");
	is(payloads($queue, '30 s'), 'soon', '... and what is due a little later');

	# Used up already: the first failure is the last.
	is(sql("SELECT string_agg(payload #>> '{}' || ':' || pgq_fail(job_id, lease, 'no', retry_in => '1 h'), ' ' ORDER BY payload)
			FROM pgq_ext.lease JOIN pgq_ext.job USING (job_id) WHERE queue = '$queue'"),
		'first:retry last:retry once:dead past:retry soon:dead stone_age:retry tired:dead', '... attempts count');
	is(sql("SELECT count(*) FROM pgq_ext.dead_job WHERE queue_id = $id"), '3', '... dead letters');
	wait_until_counted($node);
	is(sql("SELECT scheduled FROM pgq_ext.queue_status WHERE queue = '$queue'"), '6', '... the others wait');
	is(sql("SELECT pgq_purge_queue('$queue')"), '6', '... and can be purged');

	# Many, more than memory holds, with a claim that waits.
	send_sql($other, "SELECT payload FROM pgq_claim('$queue', wait => '60 s')");
	wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$queue'");
	sql("INSERT INTO $table (queue_id, payload, segment, priority) SELECT $id, to_jsonb(i), $segment, -i FROM generate_series(1, 500) i");
	is(reply($other), '1', '... INSERT of many wakes who waits');
	is(payloads_in_time($queue, 499), join(' ', 2 .. 500), '... and all are there, in order');
}

# Whatever a constraint refuses is refused; nothing else fails.
{
	my ($queue, $id) = new_queue();
	is(sqlstate($node, "INSERT INTO pgq_ext.job (queue_id, payload, run_at) VALUES ($id, '1', 'infinity')"), '23514', 'an infinite run_at is refused');
	is(sqlstate($node, "INSERT INTO pgq_ext.job (queue_id, payload, job_id) VALUES ($id, '1', 0)"), '23514', 'an impossible id is refused');
	is(sqlstate($node, "INSERT INTO pgq_ext.job (queue_id, payload, segment) VALUES ($id, '1', 99)"), '23514', 'a segment that is not there is refused');
	is(sqlstate($node, "INSERT INTO pgq_ext.job (queue_id, payload, enqueued_at) VALUES ($id, '\"odd\"', 'infinity'), ($id, '\"even\"', '-infinity')"),
		'', 'an odd enqueued_at is not');
	is(sqlstate($node, 'SELECT max(age) FROM pgq_ext.segment'), '', '... nor for the view of segments to fail');
	is(payloads_in_time($queue, 2), 'odd even', '... and no reason not to be handed out');
	is(sqlstate($node, "INSERT INTO pgq_ext.job (queue_id, payload) VALUES ($id, '1'), (2147483647, '1')"), '23503', 'a queue that is not there is refused');
	sql('DELETE FROM pgq_ext.job');
}

# A job of a queue that is not there, as a partial restore leaves it, is nobody's.
{
	my $id = (split /\n/, sql(q{BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO pgq_ext.job (queue_id, payload) VALUES (2147483647, '1') RETURNING job_id; COMMIT}))[0];
	is(sql("SELECT pgq_cancel($id) IS NULL, pgq_retry($id), pgq_update($id, priority => 1)"), 't|f|f', 'a job of no queue is not cancelled or changed');
	sql("BEGIN; SET LOCAL session_replication_role = replica; DELETE FROM pgq_ext.job WHERE job_id = $id; COMMIT");
}

# ---- UPDATE and DELETE of jobs that wait, and of jobs in work ----

{
	my ($queue,  $id)  = new_queue();
	my ($queue2, $id2) = new_queue();
	sql("SELECT pgq_enqueue('$queue', to_jsonb(i)) FROM generate_series(1, 9) i; SELECT pgq_enqueue('$queue', '\"later\"', delay => '1 hour')");
	my $set = sub { sql("UPDATE pgq_ext.job SET $_[0] WHERE queue_id IN ($id, $id2) AND payload #>> '{}' IN ($_[1])") };
	$set->('priority = 5',                                            "'7'");
	$set->("run_at = clock_timestamp() + interval '1 hour'",          "'1'");
	$set->("run_at = clock_timestamp() - interval '1 hour'",          "'8', 'later'");
	$set->("queue_id = $id2",                                         "'2', '3'");
	$set->("queue_id = $id2, run_at = clock_timestamp() + interval '1 s'", "'4'");
	$set->('segment = 3',                                             "'5'");
	sql("DELETE FROM pgq_ext.job WHERE queue_id = $id AND payload = '6'");
	is(payloads($queue), '7 8 later 5 9', 'UPDATE and DELETE of jobs that wait: as they are now');
	is(payloads_in_time($queue2, 3), '2 3 4', '... those that were moved are in the other queue');
	is(sql("SELECT count(*) FROM pgq_ext.lease WHERE queue IN ('$queue', '$queue2')"), '8', '... each handed out once');
	sql("SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue IN ('$queue', '$queue2')");
	is(sql("SELECT string_agg(payload #>> '{}', ' ') FROM pgq_ext.job WHERE queue_id IN ($id, $id2)"), '1', '... one waits');
	sql("DELETE FROM pgq_ext.job WHERE queue_id IN ($id, $id2)");

	# In work.
	sql("SELECT pgq_enqueue('$queue', to_jsonb(i)) FROM generate_series(1, 5) i");
	my %lease = map { my ($payload, @l) = split /\|/; $payload => join ', ', @l } split /\n/, sql("SELECT payload, job_id, lease FROM pgq_claim('$queue', 5)");
	sql("DELETE FROM pgq_ext.job WHERE queue_id = $id AND payload = '1'");
	is(sqlstate($node, "SELECT pgq_ack($lease{1})"), 'PQ001', 'DELETE of a job in work: its ack is told');
	is(sql("SELECT pgq_fail($lease{1})"), 'stale', '... and so is its failure');
	sql("UPDATE pgq_ext.job SET queue_id = $id2, priority = 3 WHERE queue_id = $id AND payload IN ('2', '3')");
	is(sql("SELECT pgq_ack($lease{2})"), '', 'UPDATE of a job in work: its ack counts');
	is(sql("SELECT pgq_fail($lease{3}, retry_in => '0')"), 'retry', '... and so does its failure');
	is(sql("SELECT string_agg(concat_ws(':', payload #>> '{}', attempt, priority), ' ') FROM pgq_claim('$queue2', 10, wait => '30 s')"), '3:2:3', '... it goes on where it is now');
	sql("UPDATE pgq_ext.job SET segment = 1 WHERE queue_id = $id AND payload = '4'");
	is(sql("SELECT pgq_ack($lease{4})"), '', 'a job in work moved to another segment: its ack counts');
	is(ask($other, "BEGIN; DELETE FROM pgq_ext.job WHERE queue_id = $id AND payload = '5'; ROLLBACK; SELECT pgq_ack($lease{5})"), '', 'a DELETE rolled back: so does that');
	is(payloads($queue), '', '... nothing is left');

	# Undone, to a savepoint and by a prepared transaction.
	sql("BEGIN; INSERT INTO pgq_ext.job (queue_id, payload) VALUES ($id, '\"undone\"'); ROLLBACK");
	sql("BEGIN; SAVEPOINT s; INSERT INTO pgq_ext.job (queue_id, payload) VALUES ($id, '\"undone\"'); ROLLBACK TO s;
		INSERT INTO pgq_ext.job (queue_id, payload) VALUES ($id, '\"done\"'); COMMIT");
	is(payloads($queue), 'done', 'INSERT: as the transaction ends');
	sql("BEGIN; INSERT INTO pgq_ext.job (queue_id, payload) VALUES ($id, '\"prepared\"'); PREPARE TRANSACTION 'p'");
	is(payloads($queue), '', '... prepared: not yet');
	sql("COMMIT PREPARED 'p'");
	is(payloads($queue, '30 s'), 'prepared', '... committed');
}

# ---- a queue that memory learns of while its rows are on their way ----

for my $end ('COMMIT', "PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'")
{
	my ($queue, $id) = new_queue();
	$node->restart;
	end_session($other);
	$other = session($node);

	# No client and no scheduler has used the queue yet when this begins, or one has: both must do.
	ask($other, "BEGIN; INSERT INTO pgq_ext.job (queue_id, payload) VALUES ($id, '\"on its way\"')");
	is(payloads($queue), '', "$end: read without the row");
	ask($other, $_) for split /; /, $end;
	is(payloads($queue, '30 s'), 'on its way', '... found when it is there');
}
{
	# Surely not known: its row in pgq_ext.queue comes after the jobs, as in a restore.
	ask($other, 'SET check_function_bodies = off');
	my $id = 1_000_000;
	for my $end ('COMMIT', "PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'")
	{
		$id++;
		ask($other, "BEGIN; INSERT INTO pgq_ext.job (queue_id, payload) VALUES ($id, '\"early\"')");
		sql("INSERT INTO pgq_ext.queue (queue_id, queue, lease_time, max_runtime, max_attempts, backoff_base, backoff_max, backoff_jitter, keep_dead, notify)
			OVERRIDING SYSTEM VALUE VALUES ($id, 'hand$id', '1 min', '0', 5, '1 s', '1 s', 0, '1 day', true)");
		is(payloads("hand$id"), '', "$end: a queue made by hand is served");
		ask($other, $_) for split /; /, $end;
		is(payloads("hand$id", '30 s'), 'early', '... with jobs that began before it');
	}
}

# ---- triggers switched off ----

my $states = q{SELECT string_agg(DISTINCT tgenabled::text, '') FROM pg_trigger WHERE tgname = 'job_changed' AND tgrelid <> 'pgq_ext.job'::regclass};
is(sql($states), 'A', 'the trigger fires always');
{
	my ($queue, $id) = new_queue();
	my $insert = sub { return "INSERT INTO pgq_ext.job (queue_id, payload) VALUES ($id, '\"$_[0]\"')" };
	sql("SET session_replication_role = replica; " . $insert->('replicated'));
	is(payloads($queue), 'replicated', '... also under replication');

	# In one transaction, and in several with a writer in the way.
	sql('BEGIN; ALTER TABLE pgq_ext.job_0 DISABLE TRIGGER ALL; ' . $insert->('silent') . '; ALTER TABLE pgq_ext.job_0 ENABLE TRIGGER ALL; COMMIT');
	wait_for($node, "($states) = 'A'");
	is(payloads($queue, '30 s'), 'silent', 'switched off and on again: set back by the scheduler, and its rows are found');
	ask($other, 'BEGIN; ALTER TABLE pgq_ext.job_0 DISABLE TRIGGER ALL; ' . $insert->('silent too'));
	my $alive = sql("SELECT clock_timestamp() + interval '2500 ms'");
	wait_for($node, "clock_timestamp() > '$alive'");
	is(scheduler_pid($node) =~ /^\d+$/, 1, 'the scheduler does not wait for who switches it off');
	ask($other, 'COMMIT');
	wait_for($node, "($states) = 'A'");
	is(payloads($queue, '30 s'), 'silent too', '... and sets it back after that');
	sql("ALTER TABLE pgq_ext.job DISABLE TRIGGER job_changed");
	wait_for($node, "($states) = 'A'");
	sql($insert->('after'));
	is(payloads($queue), 'after', 'switched off for all: set back');
}

# Those of queues and schedules, as a restore leaves them. Meanwhile a row has come from a server where roles have other numbers.
{
	my ($queue) = new_queue();
	my $mine = 'maker = current_user::regrole FROM pgq_ext.timetable';
	sql("SELECT pgq_schedule('once', '\@yearly', '$queue')");
	sql('BEGIN; ' . join('', map { "ALTER TABLE pgq_ext.$_ DISABLE TRIGGER ALL; " } qw(queue timetable)) . 'UPDATE pgq_ext.timetable SET maker = 4000000000; '
		. join('', map { "ALTER TABLE pgq_ext.$_ ENABLE TRIGGER ALL; " } qw(queue timetable)) . 'COMMIT');
	wait_for($node, q{string_agg(DISTINCT tgenabled::text, '') = 'A' FROM pg_trigger WHERE tgname IN ('queue_appeared', 'queue_paused', 'timetable_changed')});
	is(sql("SELECT $mine"), 't', 'switched off and on again, on queues and schedules: set back, and the role of a schedule is found by its name');
	sql('BEGIN; SET LOCAL session_replication_role = replica; UPDATE pgq_ext.timetable SET maker = 4000000000; COMMIT');
	is(sql("SELECT $mine"), 't', '... as it is when replication brings a change of it');
	sql("SELECT pgq_unschedule('once'), pgq_schedule('often', 'every 1 s', '$queue')");
	wait_for($node, q{last_job_id IS NOT NULL FROM pgq_ext.schedule});
	pass('... the scheduler is told of a new one');
	my $batch = sql('SELECT pgq_create_batch()');
	sql('BEGIN; ALTER TABLE pgq_ext.job_batch DISABLE TRIGGER ALL; UPDATE pgq_ext.job_batch SET maker = 4000000000; ALTER TABLE pgq_ext.job_batch ENABLE TRIGGER ALL; COMMIT');
	wait_for($node, "restored AND maker = current_user::regrole FROM pgq_ext.job_batch WHERE batch_id = $batch");
	is(sql(q{SELECT tgenabled FROM pg_trigger WHERE tgname = 'job_batch_changed'}), 'A', '... switched off and on again, on batches: set back, and the role is found by its name');
	sql("SELECT pgq_unschedule('often'), pgq_purge_queue('$queue'), pgq_pause_queue('$queue')");
	is(sql("SELECT paused_at IS NOT NULL FROM pgq_ext.queue WHERE queue = '$queue'"), 't', '... and of a queue since when it is paused');
}

# ---- rows of pgq_ext.queue ----

{
	my ($queue, $id) = new_queue();
	# Enough for every look at it to take one.
	sql("SELECT pgq_enqueue('$queue', to_jsonb(i)) FROM generate_series(1, 1500) i");
	my ($job, $lease) = split /\|/, sql("SELECT job_id, lease FROM pgq_claim('$queue')");
	sql("UPDATE pgq_ext.queue SET max_attempts = 3, lease_time = '2 hours' WHERE queue_id = $id");
	wait_for($node, "max_attempts = 3 AND lease_expires_at > clock_timestamp() + '90 min' AND pgq_extend(job_id, lease, '2 h') IS NOT NULL FROM pgq_claim('$queue')");
	pass('UPDATE of options: followed');
	sql("UPDATE pgq_ext.queue SET paused = true WHERE queue_id = $id");
	wait_for($node, "count(*) = 0 FROM pgq_claim('$queue')");
	is(sql("SELECT DISTINCT waits_for FROM pgq_ext.job_status WHERE queue = '$queue' AND state = 'ready'"), 'the queue is paused', '... paused');
	send_sql($other, "SELECT count(*) FROM pgq_claim('$queue', 100, wait => '60 s')");
	wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$queue'");
	sql("UPDATE pgq_ext.queue SET paused = false WHERE queue_id = $id");
	cmp_ok(reply($other), '>', 0, '... and not any more: who waits goes on');
	is(sql("SELECT pgq_ack($job, $lease)"), '', '... leases are what they were');

	# Another name, which memory gets where no trigger tells of it, too.
	sql("SELECT pgq_enqueue('$queue', '\"before\"')");
	my $worked = sql("SELECT handed_out FROM pgq_ext.stat_entries() WHERE queue_id = $id");
	sql("SET session_replication_role = replica; UPDATE pgq_ext.queue SET queue = 'renamed' WHERE queue_id = $id");
	is(sqlstate($node, "SELECT * FROM pgq_claim('$queue')"), '42704', 'a new name: the old one is gone');
	cmp_ok(sql(q{SELECT count(*) FROM pgq_claim('renamed', 100)}), '>', 0, '... and the new one is served');
	my ($error, $end) = ('', monotonic() + 180);
	(undef, $error) = ask($other, "SELECT pgq_pause_queue('$queue')") while ($error // '') !~ /does not exist/ && monotonic() < $end;
	like($error, qr/does not exist/, '... also for who knew it');
	cmp_ok(sql("SELECT handed_out FROM pgq_ext.stat_entries() WHERE queue_id = $id"), '>', $worked, '... with what was counted');

	# Names exchanged.
	my ($a, $id_a) = new_queue();
	my ($b, $id_b) = new_queue();
	sql("SELECT pgq_enqueue('$a', '\"a\"'); SELECT pgq_enqueue('$b', '\"b\"')");
	sql("UPDATE pgq_ext.queue SET queue = 'x' WHERE queue_id = $id_a; UPDATE pgq_ext.queue SET queue = '$a' WHERE queue_id = $id_b; UPDATE pgq_ext.queue SET queue = '$b' WHERE queue_id = $id_a");
	is(payloads($a) . payloads($b), 'ba', 'names exchanged: followed');

	# Deleted, under a claim that waits.
	send_sql($other, "SELECT payload FROM pgq_claim('$a', 100, wait => '60 s')");
	wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$a'");
	is(sqlstate($node, "DELETE FROM pgq_ext.queue WHERE queue = '$a'"), '55006', 'DELETE of a queue with jobs is refused');
	sql("DELETE FROM pgq_ext.job WHERE queue_id = $id_b; DELETE FROM pgq_ext.queue WHERE queue = '$a'");
	like((reply($other))[1], qr/queue "$a" was dropped/, 'DELETE of a queue: who waits is told');
	is(sqlstate($node, "SELECT * FROM pgq_claim('$a')"), '42704', '... and it is gone');
	is(sqlstate($node, "SELECT pgq_create_queue('$a')"), '', '... and can be made again');
	is(payloads($a), '', '... with nothing of the old');
	sql('TRUNCATE pgq_ext.queue, pgq_ext.job, pgq_ext.dead_job, pgq_ext.attempt, pgq_ext.finished_job');
	is(sql('SELECT count(*) FROM pgq_ext.queue_entries()'), '0', 'TRUNCATE: memory follows at once');
	is(sqlstate($node, "SELECT pgq_create_queue('$a')"), '', 'TRUNCATE of all queues and jobs: a new start');
	sql("SELECT pgq_enqueue('$a', '\"new\"')");
	is(payloads($a), 'new', '... served');
}
# What a transaction has done to rows of queues, and undone, was never there, also for itself.
{
	my ($queue, $id) = new_queue();
	my $insert = q{INSERT INTO pgq_ext.queue (queue, lease_time, max_runtime, max_attempts, backoff_base, backoff_max, backoff_jitter, keep_dead, notify)
		VALUES ('undone', '1 min', '0', 5, '1 s', '1 s', 0, '1 day', true)};
	my $unknown = qr/queue "undone" does not exist/;
	ask($other, "BEGIN; SAVEPOINT s; $insert");
	cmp_ok(scalar ask($other, q{SELECT pgq_enqueue('undone', '1')}), '>', 0, 'a queue that was inserted just now is served');
	ask($other, 'ROLLBACK TO s');
	like((ask($other, q{SELECT pgq_enqueue('undone', '2')}))[1], $unknown, '... and after ROLLBACK TO it is not');
	ask($other, 'ROLLBACK');
	ask($other, "BEGIN; $insert; SELECT pgq_enqueue('undone', '1'); ROLLBACK");
	like((ask($other, q{SELECT pgq_enqueue('undone', '2')}))[1], $unknown, '... nor after ROLLBACK');
	ask($other, "BEGIN; UPDATE pgq_ext.queue SET queue = 'undone', max_attempts = 1 WHERE queue_id = $id; SELECT pgq_enqueue('undone', '1'); ROLLBACK");
	like((ask($other, q{SELECT pgq_enqueue('undone', '2')}))[1], $unknown, 'a name that was given up again is nobody\'s');
	create_queue($node, 'undone');
	ask($other, q{SELECT pgq_enqueue('undone', '"mine"')});
	is(payloads('undone') . payloads($queue), 'mine', '... and later that queue\'s which gets it');
	is(sql('SELECT * FROM pgq_check()'), '', '... all is well');
}
is(scheduler_pid($node) =~ /^\d+$/, 1, 'the scheduler lives');
unlike(slurp_file($node->logfile), qr/exited with exit code [^01]|was terminated by signal/, '... nothing crashed');

end_session($other);
$node->stop;
done_testing();
