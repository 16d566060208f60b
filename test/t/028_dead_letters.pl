# Dead letters are kept for the keep_dead of their queue, and their segments rotate as the segments of jobs do.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = rotating_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub of_segment { my ($n, $column) = @_; return sql("SELECT $column FROM pgq_ext.segment WHERE segment = $n") }

create_queue($node, 'kept');
create_queue($node, 'hour', "keep_dead => '1 hour'");
create_queue($node, 'off',  "keep_dead => '0'");
my $scheduler = wait_for_scheduler($node);

# What an administrator might have: it must not take what is moved, or expires, for what has just died.
sql(q{CREATE TABLE seen (what text);
	CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen VALUES (TG_OP); RETURN NULL; END $$;
	CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON pgq_ext.dead_job FOR EACH ROW EXECUTE FUNCTION see()});

# So many jobs fail for good.
sub die_in
{
	my ($queue, $jobs, $payload) = @_;
	$payload //= q{to_jsonb(repeat('x', 500))};
	sql("SELECT count(pgq_enqueue('$queue', $payload)) FROM generate_series(1, $jobs) i;"
		  . answer_all($queue, $jobs, q{pgq_fail(job_id, lease, 'bad', retry => false)}));
	return;
}

sub dead
{
	my ($queue) = @_;
	return sql("SELECT count(*) FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue'");
}

sub wait_until_expired
{
	my ($queue, $left) = @_;
	wait_for($node, 'count(*) = ' . ($left // 0) . " FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue'");
	return;
}

sub current { return sql(q{SELECT segment FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.dead_job'::regclass}) }

# Jobs die, and are deleted at once, until the segment is closed.
sub close_dead
{
	my ($n) = @_;
	my $ending = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
	while (monotonic() < $ending)
	{
		return if current() != $n;
		die_in('off', 250);
		sql(q{DELETE FROM pgq_ext.dead_job d USING pgq_ext.queue q WHERE q.queue_id = d.queue_id AND queue = 'off'});
	}
	die "segment $n is still the current one";
}

# The current segment, when nothing else of the ring is in use; the sessions have nothing open.
sub fresh_dead
{
	close_dead(current());
	wait_for($node, q{count(*) = 0 FROM pgq_ext.segment WHERE state IN ('closed', 'survivors') AND parent = 'pgq_ext.dead_job'::regclass});
	return current();
}

# ---- as long as the queue says ----

{
	die_in($_, 4) for 'kept', 'hour', 'off';
	is(sql(q{SELECT string_agg(queue || ' ' || keep_dead, ', ' ORDER BY queue) FROM pgq_ext.queue WHERE queue <> 'work'}),
		'hour 01:00:00, kept 30 days, off 00:00:00', 'each queue says how long its dead letters are kept');
	# Until somebody has locked one, none of these is old enough.
	sql(q{UPDATE pgq_ext.queue SET keep_dead = '1 day' WHERE queue = 'hour'; UPDATE pgq_ext.dead_job SET died_at = died_at - interval '30 min'});
	my ($first, $second) = split /\n/, sql(q{SELECT job_id FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'hour' ORDER BY 1 LIMIT 2});
	sql("UPDATE pgq_ext.dead_job SET died_at = died_at - interval '30 min' WHERE job_id IN ($first, $second)");
	sql('INSERT INTO pgq_ext.dead_job (job_id, queue_id, died_at, enqueued_at, run_at, priority, attempts, reason, payload) '
		  . q{VALUES (1000000, 1000, '2020-01-01', '2020-01-01', '2020-01-01', 0, 1, 'by hand', '1')});
	my $locker = session($node);
	ask($locker, "BEGIN; SELECT FROM pgq_ext.dead_job WHERE job_id = $second FOR UPDATE");
	sql(q{TRUNCATE seen; UPDATE pgq_ext.queue SET keep_dead = '1 hour' WHERE queue = 'hour'});
	wait_until_expired('off');
	wait_until_expired('hour', 3);
	is(sql("SELECT count(*) FROM pgq_ext.dead_job WHERE job_id = $first"), '0', 'dead letters go when their time has come');
	is(sql("SELECT count(*) FROM pgq_ext.dead_job WHERE job_id = $second"), '1', '... but for one that somebody has locked');
	is(dead('kept'), '4', '... those of other queues stay');
	is(sql('SELECT count(*) FROM pg_locks WHERE NOT granted'), '0', '... nobody waits');
	ask($locker, 'COMMIT');
	end_session($locker);
	wait_until_expired('hour', 2);
	pass('... until it is unlocked');
	sql(q{UPDATE pgq_ext.queue SET keep_dead = '20 min' WHERE queue = 'hour'});
	wait_until_expired('hour');
	pass('... sooner if the queue says so by now');
	is(sql('SELECT count(*) FROM pgq_ext.dead_job WHERE queue_id = 1000'), '1', '... one without a queue stays');
	is(sql('SELECT count(*) FROM seen'), '0', '... triggers do not see it');
	sql(q{DELETE FROM pgq_ext.dead_job; UPDATE pgq_ext.queue SET keep_dead = '1 hour' WHERE queue = 'hour'});
}

# ---- what is kept long is moved, and stays as it is ----

my $kept   = q{FROM pgq_ext.dead_job d JOIN pgq_ext.queue USING (queue_id) WHERE queue <> 'off'};
my $whole  = "SELECT string_agg(md5((to_jsonb(d) - 'segment')::text), ' ' ORDER BY job_id) $kept";
my $places = "SELECT string_agg(DISTINCT segment::text, ' ') $kept";
my $reader = session($node);
{
	my $n = fresh_dead();
	die_in('kept', 2, q{jsonb_build_object('i', i)});
	# One with a payload outside of its row, but not more than a twentieth of the smallest segment.
	die_in('hour', 1, q{to_jsonb((SELECT string_agg(md5(n::text), '') FROM generate_series(1, 150) n))});
	sql(q{SELECT pgq_enqueue('kept', '1', priority => 7, max_attempts => 3, headers => '{"h": 1}');
		SELECT pgq_fail(job_id, lease, NULL, retry => false) FROM pgq_claim('kept', wait => '60 s')});
	my $before = sql($whole);
	is(sql($places), $n, 'dead letters that are kept lie in one segment');
	sql('TRUNCATE seen');
	my $truncations = truncations($node, $n);
	ask($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	close_dead($n);
	wait_until_truncated($node, $n, $truncations);
	pass('... which is truncated, also beside an old snapshot');
	my $now = sql($places);
	isnt($now, $n, '... they are in another');
	is(sql($whole), $before, '... as they were');
	is(of_segment($n, 'moved_out >= 4'), 't', '... and counted');
	is(of_segment($now, 'state'), 'survivors', '... the one for what is left');
	is(sql(q{SELECT count(*) FROM seen WHERE what <> 'DELETE'}), '0', '... triggers do not see it');
	is(sql(q{SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
		SELECT count(e.job_id) FROM (SELECT * FROM pgq_ext.dead_job OFFSET 0) d JOIN pgq_ext.dead_job e USING (queue_id, job_id)}),
		sql('SELECT count(*) FROM pgq_ext.dead_job'), '... the indexes lead to them');
	is(ask($reader, "SELECT count(*) $kept"), '0', '... the old snapshot, which did not look before, sees nothing, as PostgreSQL says of TRUNCATE');
	ask($reader, 'COMMIT');
	sql('DELETE FROM pgq_ext.dead_job');
}

# ---- locks that planning a query needs ----

{
	die_in('off', 10);
	my $n = current();
	sql("CREATE INDEX mine ON pgq_ext.dead_job_$n (priority)");
	for my $lock ('REINDEX TABLE pgq_ext.queue', 'ALTER INDEX pgq_ext.mine SET TABLESPACE pg_default')
	{
		# It knows the queue, and need not look it up.
		my $worker = session($node);
		ask($worker, q{SELECT pgq_enqueue('kept', '"lost"')});
		ask($reader, "BEGIN; $lock");
		# Longer than dead letters are left alone.
		ask($worker, q{SELECT job_id FROM pgq_claim('kept', lease_time => '7 s')});
		my ($attempt, $id, $token) = split /\|/, ask($worker, q{SELECT attempt, job_id, lease FROM pgq_claim('kept', wait => '60 s')});
		is($attempt, '2', "$lock: the scheduler does not wait for it");
		ask($worker, "SELECT pgq_ack($id, $token)");
		ask($reader, 'COMMIT');
		end_session($worker);
	}
	wait_until_expired('off');
	sql('DROP INDEX pgq_ext.mine');
}

# ---- storage beside an old snapshot ----

{
	my $jobs = 0;
	# Each is some 600 bytes and its index entries. If more than half of what nobody keeps stayed it would never be so.
	my $reclaimed = sub { return sql(qq{SELECT 2 * sum(size) < $jobs * 600 FROM pgq_ext.segment WHERE parent = 'pgq_ext.dead_job'::regclass}) eq 't' };
	ask($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	for (1 .. 4)
	{
		die_in('kept', 100);
		my $n = current();
		# More than one segment, also where the scheduler closes them at once.
		for (my $i = 0; $i < 5 || current() == $n; $i++) { die_in('off', 500); $jobs += 500 }
		wait_until_expired('off');
	}
	my $ending = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
	until ($reclaimed->() || monotonic() > $ending)
	{
		die_in('off', 500);
		$jobs += 500;
		wait_until_expired('off');
	}
	is($reclaimed->(), 1, 'dead letters that nobody keeps leave no storage behind, beside an old snapshot')
	  or diag(sql(q{SELECT segment, state, live_rows, size, age, held_by FROM pgq_ext.segment WHERE parent = 'pgq_ext.dead_job'::regclass}));
	is(dead('kept'), '400', '... and those that are kept are there');
	ask($reader, 'COMMIT');
	sql('DELETE FROM pgq_ext.dead_job');
}

# ---- what holds a segment back ----

sub held_back_ok
{
	my ($what, $begin, $named, $others) = @_;
	my $n = fresh_dead();
	die_in('kept', 3);
	ask($reader, $begin->($n));
	my $before = truncations($node, $n);
	close_dead($n);
	wait_for($node, "state = 'closed' AND live_rows = 0 AND held_by ~ '$named' FROM pgq_ext.segment WHERE segment = $n");
	pass("$what holds a segment back, as the view says");
	is(dead('kept'), '3', '... what is kept was moved');
	close_dead(my $other = current());
	if ($others)
	{
		wait_for($node, "truncations > 0 AND state = 'empty' FROM pgq_ext.segment WHERE segment = $other");
	}
	else
	{
		wait_for($node, "state = 'closed' AND live_rows = 0 AND held_by ~ '$named' FROM pgq_ext.segment WHERE segment = $other");
	}
	is(truncations($node, $n), $before, '... it is not truncated' . ($others ? ', but others are' : ', nor are others'));
	is(sql('SELECT count(*) FROM pg_locks WHERE NOT granted'), '0', '... nobody waits');
	is(ask($reader, "SELECT count(*) $kept"), '3', '... the session sees all of them');
	ask($reader, 'COMMIT; RESET application_name');
	wait_until_truncated($node, $n, $before);
	sql('DELETE FROM pgq_ext.dead_job');
	return;
}
held_back_ok('a lock', sub { "BEGIN; LOCK TABLE pgq_ext.dead_job_$_[0] IN ACCESS SHARE MODE" }, 'has locked it', 1);
held_back_ok('a dump that has not locked it yet', sub { q{SET application_name = 'pg_dump'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1} }, '^snapshot of process', 0);

# ---- while a dead letter is moved ----

# The scheduler has moved what is kept, and does not commit. $more: called when jobs have died.
sub being_moved_dead
{
	my ($more) = @_;
	my $n = fresh_dead();
	die_in('kept', 3);
	$more->() if $more;
	my $gate = stop_scheduler_at($node, 'rotation-dead-moved');
	close_dead($n);
	my $pid = scheduler_stands($node);
	return ($n, $gate, $pid);
}

{
	my ($n, $gate) = being_moved_dead();
	my $before = truncations($node, $n);
	is(sql($places), $n, 'dead letters that are being moved are seen where they were');
	my $writer = session($node);
	ask($writer, 'BEGIN');
	send_and_block($node, $writer, q{UPDATE pgq_ext.dead_job SET last_error = 'mine' WHERE job_id = (SELECT min(job_id) } . "$kept)");
	let_go($node, $gate);
	my (undef, $error) = reply($writer);
	like($error, qr/moved to another partition due to concurrent update/, '... an UPDATE that waits for one is told to try again');
	ask($writer, 'ROLLBACK');
	end_session($writer);
	wait_until_truncated($node, $n, $before);
	is(dead('kept'), '3', '... they are all there');
	sql('DELETE FROM pgq_ext.dead_job');
}

# The functions wait for the end of the move, and then find the dead letters at their new place.
create_queue($node, 'lost', 'max_attempts => 1');
{
	my $lost; # job and lease
	my ($n, $gate) = being_moved_dead(sub {
		my $loser = session($node);
		die_in('hour', 2);
		sql(q{SELECT pgq_enqueue('lost', '1')});
		ask($loser, 'BEGIN');
		$lost = join ', ', split /\|/, ask($loser, q{SELECT job_id, lease FROM pgq_claim('lost', wait => '60 s')});
		ask($loser, 'ROLLBACK');
		end_session($loser);
		wait_for($node, q{count(*) = 1 FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'lost'});
	});
	my ($retried, $cancelled) = split /\n/, sql("SELECT job_id $kept AND queue = 'hour'");
	my @calls = (
		[ q{pgq_redrive('kept', error_like => 'ba_')}, '3' ],
		[ "pgq_retry($retried)",          't' ],
		[ "pgq_cancel($cancelled)",       'dead' ],
		[ "pgq_fail($lost, 'why')",       'dead' ]);
	my @sessions = map { session($node) } @calls;
	send_and_block($node, $sessions[$_], "SELECT $calls[$_][0]") for 0 .. $#calls;
	let_go($node, $gate);
	is_deeply([ reply($sessions[$_]) ], [ $calls[$_][1], '' ], "$calls[$_][0] waits until the dead letter has been moved") for 0 .. $#calls;
	is(sql(q{SELECT count(*) FROM pg_locks WHERE classid = 'pgq_ext.queue'::regclass AND objsubid = 10}), '0', '... and keeps no lock');
	is(sql(q{SELECT queue || ' ' || last_error FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id)}), 'lost why', '... what is left is the lost job, with its error');
	is(sql(q{SELECT string_agg(DISTINCT queue || ' ' || ready, ', ') FROM pgq_ext.queue_status WHERE queue IN ('kept', 'hour')}), 'hour 1, kept 3', '... the others are ready');
	end_session($_) for @sessions;
	sql(q{DELETE FROM pgq_ext.dead_job; DELETE FROM pgq_ext.job});
}

{
	my ($n, $gate) = being_moved_dead();
	my $dropper = session($node);
	send_and_block($node, $dropper, q{SELECT pgq_drop_queue('kept', force => true)});
	let_go($node, $gate);
	is((reply($dropper))[0], 't', 'dropping their queue waits for the move');
	is(sql('SELECT count(*) FROM pgq_ext.dead_job d WHERE NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = d.queue_id)'), '0', '... and leaves none behind');
	create_queue($node, 'kept');
	end_session($dropper);
}

# A redrive has found dead letters, whose time is over before it comes to them.
{
	my ($gate, $redriver) = (session($node), session($node));
	die_in('hour', 3);
	ask($redriver, q{SET pgq_ext.stop_point = 'redrive-found'});
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	send_and_block($node, $redriver, q{SELECT pgq_redrive('hour', error_like => 'bad')});
	sql(q{UPDATE pgq_ext.dead_job SET died_at = died_at - interval '2 hours' WHERE job_id < (SELECT max(job_id) FROM pgq_ext.dead_job)});
	wait_until_expired('hour', 1);
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	is((reply($redriver))[0], '1', 'a redrive brings back no dead letter that has expired meanwhile');
	is(sql(q{SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'hour'}), '1', '... but the others');
	end_session($_) for $gate, $redriver;
	sql(q{DELETE FROM pgq_ext.dead_job; SELECT pgq_purge_queue('hour')});
}

# A job dies once more, whose letter is being moved to a segment that is looked into before.
{
	my $last = sql(q{SELECT max(segment) FROM pgq_ext.segment WHERE parent = 'pgq_ext.dead_job'::regclass});
	for (1 .. 10)
	{
		last if fresh_dead() == $last - 1;
	}
	my ($n, $gate) = being_moved_dead();
	is($n, $last, 'the next one is the first of the ring');
	my $job = sql("SELECT min(job_id) $kept");
	sql("INSERT INTO pgq_ext.job (job_id, queue_id, payload) SELECT job_id, queue_id, payload $kept AND job_id = $job");
	my $worker = session($node);
	send_and_block($node, $worker, q{SELECT pgq_fail(job_id, lease, 'again', retry => false) FROM pgq_claim('kept')});
	let_go($node, $gate);
	is((reply($worker))[0], 'dead', 'who fails waits for the move of the older letter');
	is(sql("SELECT count(*) || ' ' || max(last_error) $kept AND job_id = $job"), '1 again', '... and leaves one');
	end_session($worker);
	sql('DELETE FROM pgq_ext.dead_job');
}

{
	my $n = fresh_dead();
	die_in('kept', 3);
	my $dropper = session($node);
	ask($dropper, q{BEGIN; SELECT pgq_drop_queue('hour', force => true)});
	my $before = truncations($node, $n);
	close_dead($n);
	wait_for($node, "state = 'closed' AND live_rows = 3 FROM pgq_ext.segment WHERE segment = $n");
	is(sql('SELECT count(*) FROM pg_locks WHERE NOT granted'), '0', 'while a queue is being dropped nothing is moved, and nobody waits');
	ask($dropper, 'ROLLBACK');
	end_session($dropper);
	wait_until_truncated($node, $n, $before);
	is(dead('kept'), '3', '... but afterwards');
	sql('DELETE FROM pgq_ext.dead_job');
}

is(scheduler_pid($node), $scheduler, 'the scheduler is still the same');

for my $accident ('the scheduler is terminated', 'the server stops at once')
{
	my ($n, $gate, $pid) = being_moved_dead();
	my $before = sql($whole);
	if ($accident =~ /server/)
	{
		$node->stop('immediate');
		end_session($gate);
		$node->append_conf('postgresql.conf', q{pgq_ext.stop_point = ''});
		$node->adjust_conf('postgresql.auto.conf', 'pgq_ext.stop_point', undef);
		$node->start;
		$reader = session($node);
	}
	else
	{
		sql("SELECT pg_terminate_backend($pid, 60000)");
		let_go($node, $gate);
	}
	wait_for($node, "state = 'empty' FROM pgq_ext.segment WHERE segment = $n");
	is(sql($whole), $before, "$accident while dead letters are moved: each is there, once");
	sql('DELETE FROM pgq_ext.dead_job');
}

done_testing();
