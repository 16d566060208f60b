# Facts that a session has read before a wait and that change during the wait: a queue is dropped, a queue is paused,
# the time of a lease is over.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;
use Session;

my $node = pgq_node('main', conf => "deadlock_timeout = '100 ms'\nmax_prepared_transactions = 5\npgq_ext.segment_size = '1 GB'\npgq_ext.segment_dead_rows = 0");
wait_for_scheduler($node);
my $gate = session($node);

my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }

# The session sends that, and stands at the stop point, until open_gate().
sub stand
{
	my ($session, $where, $sql) = @_;
	ask($session, "SET pgq_ext.stop_point = '$where'");
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	send_and_block($node, $session, $sql);
	return;
}
sub open_gate { ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)'); return }

# By the clock of the server, from now on.
sub let_pass
{
	my ($time) = @_;
	my $now = sql('SELECT clock_timestamp()');
	wait_for($node, "clock_timestamp() > '$now'::timestamptz + interval '$time'");
	return;
}

# ---- a queue is dropped after its row was read ----

{
	my $orphans = q{SELECT count(*) FROM pgq_ext.job j WHERE NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = j.queue_id)};
	create_queue($node, 'other');
	create_queue($node, 'd');
	my $elsewhere = sql(q{SELECT pgq_enqueue('other', '1')});
	my %verbs     = (
		pgq_enqueue      => q{SELECT pgq_enqueue('d', '1')},
		pgq_enqueue_many => q{SELECT pgq_enqueue_many('d', '[{"payload": 1}]')},
		'a unique key'   => q{SELECT pgq_enqueue('d', '1', unique_key => 'k')},
		pgq_update       => "SELECT pgq_update($elsewhere, queue => 'd')",
		pgq_redrive      => q{SELECT pgq_redrive('d')},
		'with a filter'  => q{SELECT pgq_redrive('d', error_like => '%')},
		pgq_grant        => q{SELECT pgq_grant('d', 'public', '{enqueue}')},
		pgq_claim        => q{SELECT job_id FROM pgq_claim('d', wait => '60 s')});
	for my $verb (sort keys %verbs)
	{
		for my $where ('queue-read', 'queue-attached')
		{
			# A session that has not used the queue yet.
			my $late = session($node);
			stand($late, $where, $verbs{$verb});
			is(sql(q{SELECT pgq_drop_queue('d')}), 't', "$verb has read the queue's row, which is dropped ($where)");
			open_gate();
			like((reply($late))[1], qr/queue "d" does not exist|queue "d" was dropped/, '... and it learns that');
			is(sql($orphans), '0', '... nothing is left in a queue that is not there');
			end_session($late);
			create_queue($node, 'd');
		}
	}
	is(sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'rights\_%' AND relnamespace = 'pgq_ext'::regnamespace}), '0', 'nor a right');

	# A queue that is not committed yet, or has got another name in this transaction.
	{
		my $maker = session($node);
		ask($maker, q{BEGIN; SELECT pgq_create_queue('e')});
		is(sqlstate($node, q{SELECT pgq_enqueue('e', '1')}), '42704', 'a queue that is not committed is not found');
		ask($maker, 'COMMIT');
		is(sqlstate($node, q{SELECT pgq_enqueue('e', '1')}), '', '... but it is afterwards');
		end_session($maker);
		is(sqlstate($node, q{BEGIN; SELECT pgq_rename_queue('e', 'f'); SELECT pgq_enqueue('e', '1')}), '42704', 'a transaction does not find a queue by the name that it has changed');
		is(sqlstate($node, q{BEGIN; SELECT pgq_rename_queue('e', 'f'); SELECT pgq_enqueue('f', '1'); COMMIT}), '', '... but by the new name');
		is(sqlstate($node, q{SELECT pgq_enqueue('e', '1')}), '42704', '... as others do then');
		sql(q{SELECT pgq_drop_queue('f', force => true)});
		is(sqlstate($node, q{SELECT pgq_enqueue('f', '1')}), '42704', '... until it is dropped');
	}

	my ($producer, $worker) = (session($node), session($node));
	for my $case ([ $producer, q{SELECT pgq_enqueue('d', '1') > 0}, 't' ], [ $worker, q{SELECT payload FROM pgq_claim('d')}, '1' ])
	{
		my ($session, $verb, $answer) = @$case;
		stand($session, 'queue-read', $verb);
		sql(q{SELECT pgq_drop_queue('d', force => true)});
		create_queue($node, 'd');
		sql(q{SELECT pgq_enqueue('d', '1')});
		open_gate();
		is(scalar reply($session), $answer, 'a queue that was made again under its name is the one that is used');
		is(sql(q{SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'd'}),
			$session == $producer ? 2 : 1, '... with its jobs');
	}
	is(sql($orphans), '0', '... and no other');
	end_session($_) for $producer, $worker;
	sql(qq{SELECT pgq_cancel($elsewhere), pgq_drop_queue('d', force => true)});
	is(sql('SELECT * FROM pgq_check()'), '', 'all is well');
}

# ---- a job leaves its queue, which is dropped, while a session waits to change it ----

for my $verb ('pgq_cancel(ID)', 'pgq_update(ID, priority => 9)', 'pgq_retry(ID)')
{
	create_queue($node, $_) for 'left', 'kept';
	my $job = sql(q{SELECT pgq_enqueue('left', '1', unique_key => 'k')});
	my ($mover, $session) = (session($node), session($node));
	ask($mover, 'BEGIN');
	is(scalar ask($mover, q{SELECT pgq_enqueue('left', '1', unique_key => 'k')}), $job, 'an open transaction holds a job');
	send_and_block($node, $session, 'SELECT ' . $verb =~ s/ID/$job/r);
	is(scalar ask($mover, "SELECT pgq_update($job, queue => 'kept')"), 't', '... and moves it to another queue');
	ask($mover, q{SELECT pgq_drop_queue('left')});
	ask($mover, 'COMMIT');
	is(scalar reply($session), $verb =~ /cancel/ ? 'ready' : 't', "$verb finds the job there");
	end_session($_) for $mover, $session;
	sql(q{SELECT pgq_drop_queue('kept', force => true)});
}

# ---- a right is revoked while an enqueue waits for its queue ----

{
	create_queue($node, 'closed');
	sql(q{CREATE ROLE producer; CREATE ROLE crew; GRANT crew TO producer});
	sql(q{GRANT EXECUTE ON FUNCTION pgq_enqueue TO producer; SELECT pgq_grant('closed', 'crew', '{enqueue}')});
	my ($dropper, $producer) = (session($node), session($node));
	ask($producer, 'SET ROLE producer');
	like(ask($producer, q{SELECT pgq_enqueue('closed', '1')}), qr/^\d+$/, 'a role enqueues by the right of another one');
	ask($dropper, q{BEGIN; SELECT pgq_drop_queue('closed', force => true)});
	send_and_block($node, $producer, q{SELECT pgq_enqueue('closed', '1')});
	sql('REVOKE crew FROM producer');
	ask($dropper, 'ROLLBACK');
	like((reply($producer))[1], qr/permission denied/, '... which it has no more when its wait for a dropper, who gives up, is over');
	end_session($_) for $dropper, $producer;
	sql(q{SELECT pgq_drop_queue('closed', force => true); DROP OWNED BY producer; DROP ROLE producer, crew});
}

# ---- a job goes to another queue while a session waits to cancel or change it ----

{
	create_queue($node, $_) for 'here', 'there';
	sql(q{CREATE ROLE boss; CREATE ROLE stranger; GRANT EXECUTE ON FUNCTION pgq_cancel, pgq_update TO boss});
	sql(q{SELECT pgq_grant('here', 'boss', '{admin}'), pgq_grant('there', 'stranger', '{admin}')});
	my ($mover, $session) = (session($node), session($node));
	ask($session, 'SET ROLE boss');
	for my $verb ('pgq_cancel(ID)', 'pgq_update(ID, priority => 9)')
	{
		for my $move (q{UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'there') WHERE job_id = ID},
			q{SELECT FROM pgq_ext.job WHERE job_id = ID FOR KEY SHARE; SELECT pgq_update(ID, queue => 'there')})
		{
			my $job  = sql(q{SELECT pgq_enqueue('here', '1')});
			my $call = 'SELECT ' . $verb =~ s/ID/$job/r;
			my ($before, $after) = split /; /, $move =~ s/ID/$job/gr;
			# A change does not wait for who has but locked the row FOR KEY SHARE.
			next if $after && $verb !~ /cancel/;
			ask($mover, "BEGIN; $before");
			send_and_block($node, $session, $call);
			is(ask($mover, $after), 't', 'who has locked the row of a job moves it to another queue') if $after;
			ask($mover, 'COMMIT');
			is(scalar reply($session), $verb =~ /cancel/ ? '' : 'f', "$verb, which has waited for a move to another queue, needs the right there: $move");
			is(sql("SELECT queue, priority FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE job_id = $job"), 'there|0', '... and leaves the job as it is');
			sql("SELECT pgq_cancel($job)");
		}
	}
	end_session($_) for $mover, $session;
	sql(q{SELECT pgq_drop_queue('here', force => true), pgq_drop_queue('there', force => true); DROP OWNED BY boss, stranger; DROP ROLE boss, stranger});
	is(sql('SELECT * FROM pgq_check()'), '', 'all is well');
}

# ---- a lease begins when the job is handed out ----

{
	create_queue($node, 'late');
	create_queue($node, 'later');
	my ($worker, $locker) = (session($node), session($node));
	ask($worker, q{SELECT count(*) FROM pgq_claim('late')});    # knows the tables
	for my $wait ('a stop at the end', q{a segment's lock})
	{
		sql(qq{SELECT pgq_enqueue(q, to_jsonb(n)) FROM generate_series(1, 2) n, unnest('{late,later}'::text[]) q});
		ask($worker, 'BEGIN');
		my $claim = q{CREATE TEMP TABLE got ON COMMIT DROP AS SELECT * FROM pgq_claim_any('{late,later}', 10, lease_time => '1 s')};
		if ($wait =~ /stop/)
		{
			stand($worker, 'claim-hand-out', $claim);
		}
		else
		{
			ask($locker, 'BEGIN; LOCK TABLE pgq_ext.job IN ACCESS EXCLUSIVE MODE');
			send_and_block($node, $worker, $claim);
		}
		let_pass('1 s');
		my $before = sql('SELECT clock_timestamp()');
		$wait =~ /stop/ ? open_gate() : ask($locker, 'ROLLBACK');
		is((reply($worker))[1], '', "a claim that has waited for longer than its leases last: $wait");
		is(ask($worker, q{SELECT string_agg(queue || payload, ' ') FROM got}), 'late1 late2 later1 later2', '... gets its jobs, in their order');
		is(ask($worker, "SELECT bool_and(lease_expires_at >= '$before'::timestamptz + interval '1 s') FROM got"),
			't', '... with leases that begin at its end');
		is(ask($worker, 'SELECT bool_and(l.lease_expires_at = g.lease_expires_at) FROM got g JOIN pgq_ext.lease l USING (job_id, lease)'),
			't', '... for all to see');
		is(ask($worker, 'SELECT count(*) FROM got g, pgq_ack(g.job_id, g.lease)'), '4', '... and acknowledges them');
		ask($worker, 'COMMIT');
		ask($worker, 'RESET pgq_ext.stop_point');
	}
	is(sql(q{SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue LIKE 'late%'}), '0', 'none is left');
	end_session($_) for $worker, $locker;
}

# ---- what an administrator has committed holds for a claim that is on its way ----

{
	create_queue($node, $_, q{lease_time => '1 day'}) for 'p', 'q';
	my $worker = session($node);
	my $leases = q{SELECT count(*) FROM pgq_ext.lease WHERE queue IN ('p', 'q')};

	my $job = sql(q{SELECT pgq_enqueue('p', '1')});
	stand($worker, 'claim-hand-out', q{SELECT job_id FROM pgq_claim('p')});
	sql(q{SELECT pgq_pause_queue('p')});
	open_gate();
	is(join('|', reply($worker)), '|', 'a queue that was paused before the hand-out');
	is(sql($leases), '0', '... and nobody has the job');

	# The same for one that waits: it goes on waiting.
	sql(q{SELECT pgq_resume_queue('p')});
	stand($worker, 'claim-hand-out', q{SELECT job_id, attempt FROM pgq_claim('p', wait => '60 s')});
	sql(q{SELECT pgq_pause_queue('p')});
	my $pid = sql(q{SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});
	open_gate();
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	sql(q{SELECT pgq_resume_queue('p')});
	is(scalar reply($worker), "$job|1", '... and resumed: its first attempt');
	ask($worker, 'RESET pgq_ext.stop_point');
	is(sql("SELECT pgq_cancel($job)"), 'leased', '... which is over');

	# Of two queues the other one.
	my $other = sql(q{SELECT pgq_enqueue('q', '1')});
	$job = sql(q{SELECT pgq_enqueue('p', '1')});
	stand($worker, 'claim-hand-out', q{SELECT job_id FROM pgq_claim_any('{p,q}', 2)});
	sql(q{SELECT pgq_pause_queue('p')});
	open_gate();
	is(scalar reply($worker), $other, 'a claim of two queues, of which one was paused');
	sql("SELECT pgq_cancel($other), pgq_resume_queue('p')");
	is(sql($leases), '0', '... gives back the job of that one');

	# The rows of a claim that has waited are made anew, with the ends of their leases, unless a scan node returns them. An error then
	# is one of the claim.
	create_queue($node, 'big');
	sql(q{SELECT pgq_enqueue('big', (SELECT jsonb_agg(md5(n || '-' || i)) FROM generate_series(1, 1200) i)) FROM generate_series(1, 20) n});
	ask($worker, q{SET pgq_ext.claim_scan = off; SET work_mem = '64 kB'; SET temp_file_limit = '1 MB'});
	stand($worker, 'claim-hand-out', q{SELECT count(*) FROM pgq_claim('big', 20, lease_time => '1 s')});
	let_pass('0.2 s');
	open_gate();
	like((reply($worker))[1], qr/temporary file size exceeds/, 'a claim that cannot make its rows anew');
	is(sql(q{SELECT count(*), max(attempt) FROM pgq_claim('big', 20)}), '20|1', '... has handed out nothing: no job has lost an attempt');
	sql(q{SELECT count(pgq_release(job_id, lease)) FROM pgq_ext.lease WHERE queue = 'big'});
	# What the transaction has claimed before has reached its client.
	sql(q{SELECT pgq_enqueue('q', '"before"')});
	is(ask($worker, q{BEGIN; SELECT payload FROM pgq_claim('q')}), '"before"', 'a transaction that has claimed a job');
	stand($worker, 'claim-hand-out', q{SELECT count(*) FROM pgq_claim('big', 20, lease_time => '1 s')});
	let_pass('0.2 s');
	open_gate();
	like((reply($worker))[1], qr/temporary file size exceeds/, '... makes another claim, which fails');
	ask($worker, 'ROLLBACK');
	is(sql(q{SELECT max(attempt), count(*) FROM pgq_claim('big', 20)}), '1|20', '... has handed out nothing by that');
	wait_for($node, q{attempts = 1 FROM pgq_ext.job_status WHERE queue = 'q' AND state <> 'leased'});
	sql(q{SELECT pgq_purge_queue('q')});
	sql(q{SELECT count(pgq_release(job_id, lease)) FROM pgq_ext.lease WHERE queue = 'big'});
	# The scan node puts rows into a file, too.
	ask($worker, q{SET pgq_ext.claim_scan = on; SET temp_file_limit = '200 kB'});
	like((ask($worker, q{SELECT max(length(payload::text)) FROM pgq_claim('big', 20)}))[1], qr/temporary file size exceeds/, 'a scan that finds no room for its rows');
	is(sql(q{SELECT max(attempt) FROM pgq_claim('big', 20)}), '1', '... has handed out nothing');
	ask($worker, 'RESET pgq_ext.claim_scan; RESET work_mem; RESET temp_file_limit');
	sql(q{SELECT pgq_drop_queue('big', force => true)});

	# Limits.
	for my $limit ('concurrency => 1', 'rate_limit => 1', 'group_concurrency => 1', 'fifo => true')
	{
		sql(q{SELECT pgq_enqueue('p', '1', group_key => 'g')});
		stand($worker, 'claim-hand-out', q{SELECT count(*) FROM pgq_claim('p', 2)});
		sql("SELECT pgq_alter_queue('p', $limit)");
		open_gate();
		is(scalar reply($worker), '1', "$limit, set before the hand-out");
		sql(q{SELECT pgq_drop_queue('p', force => true)});
		create_queue($node, 'p', q{lease_time => '1 day'});
		sql(q{SELECT pgq_enqueue('p', '1', group_key => 'g')});
	}
	stand($worker, 'claim-hand-out', q{SELECT max_attempts, lease_expires_at < now() + interval '1 min' FROM pgq_claim('p')});
	sql(q{SELECT pgq_alter_queue('p', max_attempts => 7, lease_time => '1 s')});
	open_gate();
	is(scalar reply($worker), '7|t', 'other options, set before the hand-out');

	# A job whose time passes.
	my $short = sql(q{SELECT pgq_enqueue('q', '1', expires_in => '1 s')});
	$other = sql(q{SELECT pgq_enqueue('q', '1')});
	stand($worker, 'claim-hand-out', q{SELECT job_id FROM pgq_claim('q')});
	let_pass('1 s');
	open_gate();
	is(scalar reply($worker), $other, 'a job whose expires_in has passed before the hand-out is not handed out, but the next one');
	sql("SELECT pgq_cancel($other)");
	wait_for($node, "NOT EXISTS (SELECT FROM pgq_ext.job WHERE job_id = $short)");
	is(sql(q{SELECT expired FROM pgq_ext.queue_stats WHERE queue = 'q'}), '1', '... and the scheduler ends it');

	# A queue that is not there any more.
	sql(q{SELECT pgq_enqueue('q', '1')});
	stand($worker, 'claim-hand-out', q{SELECT job_id FROM pgq_claim('q')});
	sql(q{SELECT pgq_drop_queue('q', force => true)});
	open_gate();
	my ($out, $error) = reply($worker);
	is($out, '', 'no job of a queue that was dropped before the hand-out');
	like($error, qr/queue "q" was dropped/, '... and the claim says so');
	end_session($worker);
	sql(q{SELECT pgq_drop_queue('p', force => true)});
	is(sql('SELECT * FROM pgq_check()'), '', 'all is well');
}

# ---- who acknowledges has the lease before it waits for a lock ----

{
	create_queue($node, 'ack', q{lease_time => '1 day'});
	my ($locker, $acker) = (session($node), session($node));
	ask($acker, q{SELECT count(*) FROM pgq_claim('ack')});
	for my $verb ('pgq_ack($id, $lease)', 'pgq_ack_many(ARRAY[$id], ARRAY[$lease])', q{pgq_ack_claim(ARRAY[$id], ARRAY[$lease], 'ack')}, q{pgq_ack_next($id, $lease, 'ack')})
	{
		sql(q{SELECT pgq_enqueue('ack', '1')});
		my $worker = session($node);
		my $pid    = pid_of($worker);
		my ($id, $lease) = split /\|/, ask($worker, q{SELECT job_id, lease FROM pgq_claim('ack', session_bound => true)});
		ask($locker, 'BEGIN; LOCK TABLE pgq_ext.job IN ACCESS EXCLUSIVE MODE');
		my $call = $verb =~ s/\$id/$id/gr =~ s/\$lease/$lease/gr;
		send_and_block($node, $acker, "SELECT count(*) FROM (SELECT $call) ended");
		# What the lease is bound to ends, as its time could.
		end_session($worker);
		wait_for($node, "NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)");
		ask($locker, 'ROLLBACK');
		my ($count, $error) = reply($acker);
		is("$count $error", $verb =~ /claim|next/ ? '0 ' : '1 ', "$call, called in time, is not stale after its wait");
		is(sql(q{SELECT count(*) FROM pgq_ext.job_status WHERE queue = 'ack'}), '0', '... and the job is done');
	}
	end_session($_) for $locker, $acker;
}

# ---- what SQL by hand makes of a job while the answer of its worker waits ----

{
	my ($worker, $editor) = (session($node), session($node));
	my $fail = 'pgq_fail($id, $lease)';
	for my $case (
		[2, $fail, 'max_attempts = 1', 'dead', ''],
		[1, $fail, 'max_attempts = 5', 'retry', '1|t'],
		[9, $fail, 'attempts = 6', 'retry', '7|t'],
		[9, $fail, 'attempts = 8', 'dead', ''],
		[9, 'pgq_release($id, $lease)', q{attempts = 6, run_at = run_at - interval '1 day'}, 't', '6|t'])
	{
		my ($attempts, $verb, $change, $answer, $left) = @$case;
		my $queue = "hand$attempts";
		create_queue($node, $queue, 'max_attempts => 9') if !sql("SELECT count(*) FROM pgq_ext.queue WHERE queue = '$queue'");
		sql("SELECT pgq_enqueue('$queue', '1', max_attempts => $attempts)");
		my ($id, $lease) = split /\|/, sql("SELECT job_id, lease FROM pgq_claim('$queue', wait => '60 s')");
		ask($editor, "BEGIN; UPDATE pgq_ext.job SET $change WHERE job_id = $id");
		my $call = $verb =~ s/\$id/$id/r =~ s/\$lease/$lease/r;
		send_and_block($node, $worker, "SELECT $call");
		ask($editor, 'COMMIT');
		is(scalar reply($worker), $answer, "$verb, of $attempts attempts, after $change");
		my $moved = $change =~ /run_at/ ? q{run_at < now() - interval '1 h'} : 'true';
		is(sql("SELECT attempts, $moved FROM pgq_ext.job WHERE job_id = $id"), $left, '... is by what that has left');
		sql("SELECT pgq_cancel($id)");
	}
	is(sql('SELECT * FROM pgq_check()'), '', 'all is well');
	end_session($_) for $worker, $editor;
}

# ---- what can still be said of a lost attempt, and of a job that was lost ----

{
	create_queue($node, 'lost', q{lease_time => '1 day', max_attempts => 1});
	my ($worker, $locker, $other) = map { session($node) } 1 .. 3;

	# A job whose claim was rolled back, and that nobody can count, since its row is locked: until the locker's ROLLBACK.
	my $lose = sub {
		sql(q{SELECT pgq_enqueue('lost', '1')});
		ask($worker, 'BEGIN');
		my ($id, $lease) = split /\|/, ask($worker, q{SELECT job_id, lease FROM pgq_claim('lost')});
		ask($locker, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $id FOR UPDATE");
		ask($worker, 'ROLLBACK');
		return ($id, $lease);
	};

	my ($id, $lease) = $lose->();
	ask($other, 'BEGIN');
	send_and_block($node, $other, "SELECT pgq_update($id, priority => 1)");
	ask($locker, 'ROLLBACK');
	is(scalar reply($other), 'f', 'a change of a lost job counts its attempt, of which it dies');
	send_and_block($node, $worker, "SELECT pgq_fail($id, $lease, 'why')");
	ask($other, 'COMMIT');
	is(scalar reply($worker), 'dead', '... and its worker, who has waited for that, says why');
	is(sql("SELECT last_error, fence = $lease FROM pgq_ext.dead_job WHERE job_id = $id"), 'why|t', '... which is kept');
	is(sql("SELECT pgq_fail($id, $lease, 'again')"), 'stale', '... once');
	is(sql(q{SELECT * FROM pgq_check()}), '', '... and all is well');

	($id, $lease) = $lose->();
	ask($other, 'BEGIN');
	sql(q{SELECT pgq_alter_queue('lost', max_attempts => 5, backoff_base => '1 h')});
	send_and_block($node, $other, "SELECT pgq_cancel($id)");
	ask($locker, 'ROLLBACK');
	is(scalar reply($other), 'scheduled', 'a lost job is cancelled');
	ask($other, q{PREPARE TRANSACTION 'cancel'});
	my $pid = pid_of($worker);
	send_sql($worker, "SELECT state FROM pgq_result($id, '60 s')");
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	sql(q{COMMIT PREPARED 'cancel'});
	is(scalar reply($worker), 'cancelled', '... by a transaction that was prepared: who waits for the job learns how it has ended');
	is(sql(q{SELECT lost, cancelled FROM pgq_ext.queue_stats WHERE queue = 'lost'}), '2|0', '... and the attempt counts as lost');

	# Who has locked the row of a lost job does not wait for who counts that attempt, and waits at the row.
	for my $verb ('pgq_cancel(ID)', q{pgq_update(ID, '"new"')}, q{pgq_retry(ID, '1 h')})
	{
		($id) = $lose->();
		send_and_block($node, $other, "SELECT pgq_cancel($id)");
		is(ask($locker, 'SELECT ' . $verb =~ s/ID/$id/r), $verb =~ /cancel/ ? 'ready' : 't', "$verb of a lost job that another session is to count, and whose row is locked");
		ask($locker, 'COMMIT');
		is(scalar reply($other), $verb =~ /cancel/ ? '' : 'scheduled', '... is done before that');
		is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $id"), '0', '... and the other session cancels what is left');
		is(sql(q{SELECT * FROM pgq_check()}), '', '... and all is well');
	}
	end_session($_) for $worker, $locker, $other;
}

# ---- the lock of a key is held for the look alone ----

{
	create_queue($node, 'keys');
	my $job = sql(q{SELECT pgq_enqueue('keys', '1', unique_key => 'k')});
	my ($locker, $purger, $producer) = map { session($node) } 1 .. 3;
	my $pid = pid_of($producer);
	ask($locker, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $job FOR UPDATE");
	send_and_block($node, $purger, q{SELECT pgq_purge_queue('keys')});
	send_and_block($node, $producer, q{SELECT pgq_enqueue('keys', '1', unique_key => 'k')});
	is(sql("SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype = 'advisory'"), '0',
		'an enqueue waits for the row of a job that a purge is about to delete, without the lock of the key');
	ask($locker, 'ROLLBACK');
	is(scalar reply($purger), '1', '... the purge goes on');
	cmp_ok(scalar reply($producer), '>', $job, '... and the enqueue makes another job');
	end_session($_) for $locker, $purger, $producer;
}

end_session($gate);
done_testing();
