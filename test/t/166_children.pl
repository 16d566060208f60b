# Children: jobs that wait for other jobs. Every end of a parent; the three values of on_parent_failure; chains and many children;
# ends that meet an enqueue, a session, a crash or a prepared transaction; what is left of parents and dependencies.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\nautovacuum = off\nrestart_after_crash = on\n");
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }

create_queue($node, 'parents', q{lease_time => '1 h', max_attempts => 1});
create_queue($node, 'children', q{lease_time => '1 h'});
create_queue($node, 'doomed');
wait_for_scheduler($node);
# A statement that enqueues a child after those parents.
sub enqueue_child
{
	my ($rule, @parents) = @_;
	return sprintf q{SELECT pgq_enqueue('children', '1', after => '{%s}', on_parent_failure => '%s')}, join(',', @parents), $rule;
}
sub child { my ($rule, @parents) = @_; return sql(enqueue_child($rule, @parents)) }
sub parent { my ($queue) = @_; return sql(sprintf q{SELECT pgq_enqueue('%s', '1')}, $queue // 'parents') }

# Claims a certain job; returns its lease.
my %lease;
sub lease_of
{
	my ($id) = @_;
	while (!$lease{$id})
	{
		my %more = split /[|\n]/, sql(q{SELECT job_id, lease FROM pgq_claim('parents', 100, wait => '60 s')});
		@lease{ keys %more } = values %more;
	}
	return $lease{$id};
}
sub ack { my ($id, $result) = @_; return sql(sprintf q{SELECT pgq_ack(%d, %s, %s)}, $id, lease_of($id), $result // 'NULL') }
sub die_of { my ($id) = @_; return sql(sprintf q{SELECT pgq_fail(%d, %s, 'it broke')}, $id, lease_of($id)) }

# What has become of a child: blocked, ready, gone.
my $state = q{(SELECT COALESCE((SELECT CASE WHEN blocked IS NULL THEN 'ready' ELSE 'blocked' END FROM pgq_ext.job WHERE job_id = %d), 'gone'))};
sub state_of { return sql('SELECT ' . sprintf $state, $_[0]) }
sub becomes { my ($id, $what, $test) = @_; wait_for($node, sprintf("$state = '%s'", $id, $what)); return pass($test) }
# Waits until the scheduler has judged all children that it was told of before: it judges this one after them.
sub judged { my $p = parent(); my $c = child('cancel', $p); ack($p); wait_for($node, sprintf("$state = 'ready'", $c)); return }
sub stays { my ($id, $test) = @_; judged(); return is(state_of($id), 'blocked', $test) }
sub outcomes { return sql("SELECT string_agg(outcome::text, ',') FROM pgq_ext.job_outcome WHERE job_id = $_[0]") }

# ---- every end of a parent ----

{
	my ($p, $q) = (parent(), parent());
	my $c = child('cancel', $p, $q);
	ack($p, q{'{"receipt": 7}'});
	stays($c, 'a child waits for both of its parents');
	is(sql(q{SELECT count(*) FROM pgq_claim('children')  WHERE job_id = } . $c), '0', '... and no claim hands it out');
	ack($q);
	becomes($c, 'ready', '... and is ready when both were acknowledged');
	my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('children', wait => '60 s') WHERE job_id = } . $c);
	$id = $c, $lease = sql("SELECT lease FROM pgq_ext.lease WHERE job_id = $c") if !$lease;
	is(sql("SELECT job_id = $p, ref, state, result, error FROM pgq_parents($c, $lease) ORDER BY job_id"),
		"t||acked|{\"receipt\": 7}|\nf||acked||", 'pgq_parents tells the results');
	is((sqlstate($node, "SELECT pgq_parents($c, $lease + 1)"))[0], 'PQ001', '... only with the lease');
}
for my $end (
	[ 'cancel', 'a cancel', 2, sub { sql("SELECT pgq_cancel($_[0])") } ],
	[ 'leased', 'a cancel of a job in work', 2, sub { lease_of($_[0]); sql("SELECT pgq_cancel($_[0])") } ],
	[ 'deleted', 'a DELETE', 6, sub { sql("DELETE FROM pgq_ext.job WHERE job_id = $_[0]") } ],
	[ 'purged', 'a purge', 4, sub { sql(q{SELECT pgq_purge_queue('doomed')}) }, 'doomed' ],
	[ 'dropped', 'a drop of the queue', 5, sub { sql(q{SELECT pgq_drop_queue('doomed', force => true)}) }, 'doomed' ])
{
	my ($name, $what, $number, $does, $queue) = @$end;
	my $p = parent($queue);
	my ($cancel, $run, $hold) = map { child($_, $p) } qw(cancel run hold);
	$does->($p);
	becomes($cancel, 'gone', "$what of the parent cancels the child");
	becomes($run, 'ready', '... or lets it run');
	becomes($hold, 'gone', '... and cancels one that waits for a redrive');
	is(outcomes($p), $number, '... and its outcome says so');
}
{
	my $batch = sql('SELECT pgq_create_batch()');
	my $p = sql("SELECT pgq_enqueue('parents', '1', batch => $batch)");
	my ($cancel, $run) = map { child($_, $p) } qw(cancel run);
	sql("SELECT pgq_cancel_batch($batch)");
	becomes($cancel, 'gone', 'the cancel of the batch of the parent cancels the child');
	becomes($run, 'ready', '... or lets it run');
	is(outcomes($p), '2', '... and the outcome says cancelled, and not deleted');
}

# ---- dead letters ----

{
	my ($p, $q) = (parent(), parent());
	my ($cancel, $run, $hold, $other) = (child('cancel', $p), child('run', $p), child('hold', $p), child('hold', $q, $p));
	die_of($p);
	becomes($cancel, 'gone', 'the death of a parent cancels a child');
	becomes($run, 'ready', '... or lets it run');
	stays($hold, '... or leaves it blocked');
	is(outcomes($p), '', '... without an outcome');
	delete $lease{$p};
	sql("SELECT pgq_retry($p)");
	stays($hold, '... also when the dead letter is redriven');
	is(outcomes($p), '', '... which leaves no outcome');
	ack($p);
	becomes($hold, 'ready', '... until the parent is acknowledged');
	# Its dependency keeps the outcome.
	my $keeper = child('run', $q);
	die_of($q);
	stays($other, 'another parent dies');
	sql("SELECT pgq_cancel($q)");
	becomes($other, 'gone', '... and the deletion of its dead letter cancels the child');
	is(outcomes($q), '7', '... with the outcome dead');
	is(sql("SELECT error FROM pgq_ext.job_outcome WHERE job_id = $q"), 'it broke', '... and the error');
}

# ---- many ----

{
	my $p = parent();
	my @chain = ($p);
	push @chain, child('cancel', $chain[-1]) for 1 .. 10;
	my $end = child('run', $chain[-1]);
	sql("SELECT pgq_cancel($p)");
	becomes($end, 'ready', 'a cancel goes through a chain of children');
	is(sql(sprintf 'SELECT count(*) FROM pgq_ext.job WHERE job_id IN (%s)', join ',', @chain), '0', '... and cancels each');
}
{
	my $p = parent();
	sql(enqueue_child('cancel', $p) . " -- $_") for 1 .. 300;
	ack($p);
	wait_for($node, "count(*) = 0 FROM pgq_ext.job j JOIN pgq_ext.job_dependency ON child_id = job_id WHERE parent_id = $p AND blocked IS NOT NULL");
	is(sql("SELECT count(*) FROM pgq_ext.job j JOIN pgq_ext.job_dependency ON child_id = job_id WHERE parent_id = $p"), '300', 'all children of a parent become ready');
	# One transaction that ends many parents.
	my @parents = map { parent() } 1 .. 100;
	my @children = map { child('cancel', $_) } @parents;
	sql(sprintf q{SELECT pgq_cancel(id) FROM unnest('{%s}'::bigint[]) id}, join ',', @parents);
	wait_for($node, sprintf 'count(*) = 0 FROM pgq_ext.job WHERE job_id IN (%s)', join ',', @children);
	pass('... and all children of many parents that one transaction ends are cancelled');
}

# ---- a child that a session has in hand is judged later ----

{
	my $p = parent();
	my $c = child('cancel', $p);
	my $session = session($node);
	ask($session, "BEGIN; SELECT pgq_update($c, priority => 3)");
	ack($p);
	judged();
	is(state_of($c), 'blocked', 'a child that a session changes is left alone');
	ask($session, 'ROLLBACK');
	becomes($c, 'ready', '... and judged when the session has let it go');
	end_session($session);
}

# ---- an enqueue meets the end of the parent ----

{
	my $p = parent();
	my ($worker, $keeper) = (session($node), session($node));
	lease_of($p);
	ask($keeper, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($worker, q{SET pgq_ext.stop_point = 'parent-deleted'});
	send_sql($worker, "SELECT pgq_ack($p, $lease{$p})");
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});
	my $enqueuer = session($node);
	my $pid = pid_of($enqueuer);
	ask($enqueuer, 'BEGIN');
	send_sql($enqueuer, enqueue_child('cancel', $p));
	wait_for($node, "count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = $pid");
	ask($keeper, 'SELECT pg_advisory_unlock(7366513, 0)');
	reply($worker);
	my $c = reply($enqueuer);
	ask($enqueuer, 'COMMIT');
	becomes($c, 'ready', 'a child that is enqueued between the deletion of its parent and the question is judged');
	is(outcomes($p), '1', '... by the outcome that the worker has written');
	end_session($_) for $worker, $keeper, $enqueuer;
}

# ---- prepared transactions, and crashes ----

{
	my ($p, $q, $r) = (parent(), parent(), parent());
	my ($c, $d) = (child('cancel', $p), child('cancel', $q));
	lease_of($_) for $p, $q, $r;
	sql("BEGIN; SELECT pgq_ack($p, $lease{$p}); PREPARE TRANSACTION 'ack'");
	sql('BEGIN; ' . enqueue_child('cancel', $r) . q{; PREPARE TRANSACTION 'child'});
	stays($c, 'a prepared end of a parent is no end');
	ack($r);
	is(outcomes($r), '1', '... and a parent whose child is prepared leaves its outcome');
	sql(q{COMMIT PREPARED 'ack'});
	becomes($c, 'ready', '... until it is committed');
	sql(q{COMMIT PREPARED 'child'});
	wait_for($node, "count(*) = 1 FROM pgq_ext.job JOIN pgq_ext.job_dependency ON child_id = job_id WHERE parent_id = $r AND blocked IS NULL");
	pass('a child that was prepared is judged');

	# The scheduler dies after it has judged, before it commits.
	my $keeper = session($node);
	ask($keeper, 'SELECT pg_advisory_lock(7366513, 0)');
	sql(q{ALTER SYSTEM SET pgq_ext.stop_point = 'children-judged'});
	sql('SELECT pg_reload_conf()');
	# It may judge some before it has read the setting.
	my $stands = q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted};
	my @judged = ([ $q, $d ]);
	until (sql($stands))
	{
		ack($judged[-1][0]);
		push @judged, [ parent(), undef ];
		$judged[-1][1] = child('cancel', $judged[-1][0]);
	}
	pop @judged;
	sql('ALTER SYSTEM RESET pgq_ext.stop_point');
	end_sessions_and_kill($keeper);
	wait_for_scheduler($node);
	becomes($judged[-1][1], 'ready', 'a scheduler that dies forgets no child');
}
sub end_sessions_and_kill
{
	my ($keeper) = @_;
	my $pid = scheduler_pid($node);
	kill 'KILL', $pid;
	eval { end_session($keeper) };
	wait_until_up($node);
	return;
}
{
	my ($p, $q) = (parent(), parent());
	my ($c, $d) = (child('cancel', $p), child('run', $q));
	%lease = ();
	sql("BEGIN; DELETE FROM pgq_ext.job WHERE job_id = $p; PREPARE TRANSACTION 'gone'");
	my $session = session($node);
	ask($session, "BEGIN; SELECT pgq_cancel($q)");
	$node->stop('immediate');
	eval { end_session($session) };
	$node->start;
	wait_for_scheduler($node);
	stays($c, 'after a crash: the end of the parent is prepared');
	is(state_of($d), 'blocked', '... the end of another one was undone');
	sql(q{COMMIT PREPARED 'gone'});
	becomes($c, 'gone', '... and committed after the start');
	sql("SELECT pgq_cancel($q)");
	becomes($d, 'ready', '... the other one ends later');
}

# ---- rows that come one after the other, as in a restore ----

{
	my $p = parent();
	my $c = child('cancel', $p);
	sql("CREATE TABLE child AS SELECT * FROM pgq_ext.job WHERE job_id = $c; CREATE TABLE dependency AS SELECT * FROM pgq_ext.job_dependency WHERE child_id = $c");
	sql("DELETE FROM pgq_ext.job WHERE job_id = $c; DELETE FROM pgq_ext.job_dependency WHERE child_id = $c");
	my $columns = 'job_id, run_at, enqueued_at, queue_id, priority, payload, blocked, parents';
	sql("INSERT INTO pgq_ext.job ($columns) SELECT $columns FROM child");
	stays($c, 'a child whose dependency may still come');
	sql('INSERT INTO pgq_ext.job_dependency SELECT * FROM dependency');
	ack($p);
	becomes($c, 'ready', '... has come');
}

# ---- triggers that were off; TRUNCATE ----

{
	my ($p, $q) = (parent(), parent());
	my ($c, $d) = (child('cancel', $p), child('run', $q));
	sql("SET session_replication_role = replica; ALTER TABLE pgq_ext.job DISABLE TRIGGER job_changed; DELETE FROM pgq_ext.job WHERE job_id IN ($p, $q); ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_changed");
	# The wait for rows that may come late is tested by 169_blocked.
	$node->append_conf('postgresql.conf', "pgq_ext.stop_point = 'children-do-not-wait'");
	$node->restart;
	wait_for_scheduler($node);
	becomes($c, 'gone', 'a parent of which nobody knows how it ended has failed its child');
	becomes($d, 'ready', '... which may run all the same');
	$node->append_conf('postgresql.conf', "pgq_ext.stop_point = ''");
	$node->reload;
}

# ---- an enqueue meets the deletion of an outcome ----

{
	my ($keeper, $enqueuer) = (session($node), session($node));
	ask($keeper, 'SELECT pg_advisory_lock(7366513, 0)');
	sql(q{ALTER SYSTEM SET pgq_ext.stop_point = 'outcomes-deleted'});
	sql('SELECT pg_reload_conf()');
	my $stands = q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted};
	my $p;
	# It may delete some before it has read the setting, or stand when it has deleted others: then it judges no child until it is let go on,
	# so begin again. A row that is being deleted has an xmax.
	until ($p && sql($stands) && sql("SELECT xmax <> 0 FROM pgq_ext.job_outcome WHERE job_id = $p") eq 't')
	{
		ask($keeper, 'SELECT pg_advisory_unlock(7366513, 0); SELECT pg_advisory_lock(7366513, 0)');
		$p = parent();
		my $c = child('run', $p);
		ack($p);
		wait_for($node, sprintf("($stands) = 1 OR $state = 'ready'", $c));
		next if state_of($c) ne 'ready';
		sql("SELECT pgq_cancel($c)");
		wait_for($node, "($stands) = 1 OR NOT EXISTS (SELECT FROM pgq_ext.job_outcome WHERE job_id = $p)");
	}
	my $pid = pid_of($enqueuer);
	send_sql($enqueuer, enqueue_child('cancel', $p));
	wait_for($node, "count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = $pid");
	sql('ALTER SYSTEM RESET pgq_ext.stop_point');
	sql('SELECT pg_reload_conf()');
	ask($keeper, 'SELECT pg_advisory_unlock(7366513, 0)');
	my $late = reply($enqueuer);
	becomes($late, 'ready', 'an outcome that is needed again is not deleted');
	is(outcomes($p), '1', '... and says how the parent has ended');
	end_session($_) for $keeper, $enqueuer;
}

# ---- what is left ----

{
	my $p = parent();
	my $c = child('hold', $p);
	die_of($p);
	stays($c, 'a child that waits for a redrive');
	sql("DELETE FROM pgq_ext.job WHERE job_id <> $c");
	wait_for($node, "(SELECT string_agg(child_id::text, ',') FROM pgq_ext.job_dependency) = '$c'");
	wait_for($node, '(SELECT count(*) FROM pgq_ext.job_outcome) = 0');
	pass('dependencies of children that are gone are deleted, and outcomes without children');
	sql("SELECT pgq_cancel($c)");
	wait_for($node, '(SELECT count(*) FROM pgq_ext.job_dependency) + (SELECT count(*) FROM pgq_ext.job_outcome) = 0');
	pass('... and the last ones');
	is(sql('SELECT count(*) FROM pgq_ext.duty WHERE failures > 0'), '0', 'no duty has failed');
}

done_testing();
