# Races of dependencies that users of other queues have reported. Each part is named after the kind of race. Each child runs exactly
# once, none too early, and none is left blocked.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use HandlerTest qw(:calls);

my $node = handler_node('main', conf => "max_prepared_transactions = 5\nrestart_after_crash = on\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

# Nothing is kept of the jobs of "parents"; of a child it is kept how it has ended.
create_queue($node, 'parents',  q{lease_time => '1 h', max_attempts => 1});
create_queue($node, 'recorded', q{lease_time => '1 h', keep_finished => '1 day'});
create_queue($node, 'children', q{lease_time => '1 h', keep_finished => '1 day'});
create_queue($node, 'others');
wait_for_scheduler($node);

sub parent { my ($queue) = @_; return sql(sprintf q{SELECT pgq_enqueue('%s', '"parent"')}, $queue // 'parents') }
sub child_sql { my ($rule, @parents) = @_; return sprintf q{SELECT pgq_enqueue('children', '"child"', after => '{%s}', on_parent_failure => '%s')}, join(',', @parents), $rule }
sub child { return sql(child_sql(@_)) }
sub other_child { return sql(child_sql(@_) =~ s/'children'/'others'/r) }

# The arguments of pgq_ack for that job, which is claimed first.
my %claimed;
sub lease_of
{
	my ($id, $queue) = @_;
	$queue //= 'parents';
	until ($claimed{$id})
	{
		my %more = split /[|\n]/, sql("SELECT job_id, lease FROM pgq_claim('$queue', 100, wait => '60 s')");
		@claimed{ keys %more } = values %more;
	}
	return "$id, " . delete $claimed{$id};
}
sub ack { my ($id, $queue) = @_; my $lease = lease_of($id, $queue); return sql("SELECT pgq_ack($lease)") }
sub die_of { my ($id) = @_; my $lease = lease_of($id); return sql("SELECT pgq_fail($lease, 'broken', retry => false)") }

# What has become of a child, or of a list of children: blocked, ready, leased, dead, acked, cancelled, expired, gone.
sub state_sql { return join q{ || ' ' || }, map { "COALESCE((SELECT state FROM pgq_result($_)), 'gone')" } split / /, $_[0] }
sub becomes { my ($ids, $state, $what) = @_; wait_for($node, state_sql($ids) . " = '$state'"); return pass($what) }
# Waits until the scheduler has judged the children that it was told of before: it judges this one after them.
sub judged { my $parent = parent(); my $child = other_child('cancel', $parent); ack($parent); return wait_for($node, state_sql($child) . q{ = 'ready'}) }
sub stays { my ($ids, $state, $what) = @_; judged(); return is(sql('SELECT ' . state_sql($ids)), $state, $what) }
# Does all the work of the queue, and returns the numbers of the jobs.
sub run_children { return join ' ', sort { $a <=> $b } drain($node, 'children') }

my $count = q{SELECT (SELECT count(*) FROM pgq_ext.job WHERE job_id > %1$s) || ' ' || (SELECT count(*) FROM pgq_ext.job_dependency WHERE child_id > %1$s)};
# How many jobs and dependencies have come since that job.
sub come_since { return sql(sprintf $count, $_[0]) }

my $stopped = q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted};
my $gate = session($node);
sub shut_gate { return ask($gate, 'SELECT pg_advisory_lock(7366513, 0)') }
sub open_gate { return ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)') }

# ---- stuck in progress: the last end is no ack ----

for my $end ([ 'deleted', 'DELETE FROM pgq_ext.job WHERE job_id IN (:p, :q)' ],
	[ 'cancelled in a subtransaction', 'BEGIN; SELECT pgq_cancel(:p); SAVEPOINT s; SELECT pgq_cancel(:q); RELEASE s; COMMIT' ],
	[ 'acknowledged and deleted by one transaction', 'BEGIN; SELECT pgq_ack(:lease); DELETE FROM pgq_ext.job WHERE job_id = :q; COMMIT' ])
{
	my ($how, $statement) = @$end;
	my ($p, $q) = (parent(), parent());
	my ($cancel, $run) = map { child($_, $p, $q) } qw(cancel run);
	my $lease = lease_of($p);
	sql($statement =~ s/:lease/$lease/r =~ s/:p/$p/r =~ s/:q/$q/r);
	becomes("$cancel $run", 'cancelled ready', "stuck: the parents are $how");
	is(run_children(), $run, '... one child runs');
}

{
	my ($p, $q) = (parent(), parent());
	my $child = child('run', $p, $q);
	my $leases = join ', ', lease_of($p), lease_of($q);
	my $session = session($node);
	ask($session, "BEGIN; SELECT pgq_ack($1, $2); SAVEPOINT s; SELECT pgq_ack($3, $4); ROLLBACK TO s; COMMIT") if $leases =~ /(\d+), (\d+), (\d+), (\d+)/;
	end_session($session);
	stays($child, 'blocked', 'stuck: the second of two acks is rolled back to a savepoint');
	sql("SELECT pgq_ack($1)") if $leases =~ /, \d+, (.*)/;
	becomes($child, 'ready', '... and comes again');
	is(run_children(), $child, '... the child runs');
}

# ---- an empty set ----

{
	my $child = sql(q{SELECT pgq_enqueue('children', '1', after => '{}', on_parent_failure => 'hold')});
	is(sql('SELECT ' . state_sql($child)), 'ready', 'empty: a child without parents is ready');
	my @ids = split /\n/, sql(q{SELECT * FROM pgq_enqueue_many('children', '[{"payload": 1, "after": []}, {"payload": 2, "after": null}]')});
	is(run_children(), join(' ', $child, @ids), '... also in a call for many');
}

# ---- jobs and dependencies are created in separate calls ----

{
	my $p = parent();
	ack($p);
	is((sqlstate($node, child_sql('cancel', $p)))[0], '42704', 'separate calls: the parent has ended, and nothing is known of it');
	is(come_since($p), '0 0', '... no child is left that would wait for it');
	$p = parent('recorded');
	ack($p, 'recorded');
	my $child = child('cancel', $p);
	becomes($child, 'ready', '... it is known: the child is ready');
	is(run_children(), $child, '... and runs');
}

# Where the enqueue stops while the parent ends, whether the queue of the parent keeps records, and whether there is a child.
for my $race ([ 'children-expected', 'parents', 0 ], [ 'children-expected', 'recorded', 1 ], [ 'dependencies-inserted', 'parents', 1 ])
{
	my ($point, $queue, $known) = @$race;
	my $p = parent($queue);
	my $lease = lease_of($p, $queue);
	my $maker = session($node);
	ask($maker, "SET pgq_ext.stop_point = '$point'");
	shut_gate();
	send_sql($maker, child_sql('cancel', $p));
	wait_for($node, $stopped);
	sql("SELECT pgq_ack($lease)");
	open_gate();
	my ($child, $error) = reply($maker);
	if ($known)
	{
		becomes($child, 'ready', "separate calls: the parent, in \"$queue\", ends while the enqueue is at $point");
		is(run_children(), $child, '... the child runs');
	}
	else
	{
		like($error, qr/job $p does not exist/, "separate calls: the parent ends while the enqueue is at $point, and is not known afterwards");
		is(come_since($p), '0 0', '... nothing is left');
	}
	end_session($maker);
}

# The parent ends while the enqueue of its child is open, and how the enqueue ends.
for my $end ('COMMIT', 'ROLLBACK', 'ROLLBACK TO s; COMMIT', q{PREPARE TRANSACTION 'child'})
{
	my $p = parent();
	my $maker = session($node);
	ask($maker, 'BEGIN; SAVEPOINT s');
	my $child = ask($maker, child_sql('cancel', $p));
	is(ack($p), '', "separate calls: the parent ends while the enqueue is open: an ack does not wait for it, before $end");
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $p"), '0', '... and stands');
	ask($maker, $end);
	stays($child, 'gone', '... the child is not there yet') if $end ne 'COMMIT';
	sql(q{COMMIT PREPARED 'child'}) if $end =~ /^PREPARE/;
	becomes($child, 'ready', '... the child is ready') if $end !~ /^ROLLBACK/;
	is(run_children(), $end =~ /^ROLLBACK/ ? '' : $child, '... and runs, if it is there');
	end_session($maker);
}

# ---- a graph is created, and rolled back ----

my $diamond = q{SELECT string_agg(id::text, ' ' ORDER BY id) FROM pgq_enqueue_many('children', '[{"ref": "a", "payload": 1}, {"ref": "b", "payload": 2, "after": ["a"]},
	{"ref": "c", "payload": 3, "after": ["a"]}, {"payload": 4, "after": ["b", "c"]}]') id};
{
	my $before = parent();
	my $maker = session($node);
	ask($maker, "BEGIN; $diamond; ROLLBACK");
	ask($maker, "BEGIN; SAVEPOINT s; $diamond; ROLLBACK TO s; COMMIT");
	ask($maker, "BEGIN; $diamond; PREPARE TRANSACTION 'graph'");
	sql(q{ROLLBACK PREPARED 'graph'});
	is((sqlstate($node, $diamond =~ s/"after": \["b", "c"\]/"after": ["b", "d"]/r))[0], '22023', 'graph: a parent that does not exist');
	is((sqlstate($node, $diamond =~ s/"payload": 1/"payload": 1, "after": ["c"]/r))[0], '22023', '... a circle');
	is(come_since($before), '0 0', '... nothing is left of those that were refused or rolled back');
	my $graph = ask($maker, $diamond);
	is(run_children(), $graph, '... the next one runs, each job once');
	end_session($maker);
}

# ---- a creation that is interrupted ----

for my $death ('terminate', 'kill')
{
	my $before = parent();
	my $maker = session($node);
	ask($maker, 'BEGIN');
	my ($graph) = ask($maker, $diamond);
	my $pid = pid_of($maker);
	my $last = (split / /, $graph)[3];
	# It dies in the middle of the next enqueue.
	ask($maker, q{SET pgq_ext.stop_point = 'dependencies-inserted'});
	shut_gate();
	send_sql($maker, child_sql('run', $last, $before));
	wait_for($node, $stopped);
	my $log = -s $node->logfile;
	if ($death eq 'kill')
	{
		kill KILL => $pid;
		$node->wait_for_log(qr/all server processes terminated; reinitializing/, $log);
		wait_until_up($node);
		end_session($gate);
		$gate = session($node);
		%claimed = ();
	}
	else
	{
		sql("SELECT pg_terminate_backend($pid, 60000)");
		open_gate();
	}
	end_session($maker);
	is(come_since($before), '0 0', "interrupted ($death): nothing is left of a graph");
	like((sqlstate($node, child_sql('run', $last)))[1], qr/job $last does not exist/, '... no other job can wait for it');
	my $child = child('cancel', $before);
	ack($before);
	becomes($child, 'ready', '... what was committed before works');
	is(run_children(), $child, '... and runs');
}

# ---- failed, retried by hand, then fine ----

{
	my $p = parent();
	my $ids = join ' ', map { child($_, $p) } qw(cancel run hold);
	my ($cancel, $run, $hold) = split / /, $ids;
	die_of($p);
	becomes($ids, 'cancelled ready blocked', 'retried by hand: the parent dies');
	is(run_children_of($run), 'acked', '... the child that does not mind runs');
	my $operator = session($node);
	ask($operator, "BEGIN; SELECT pgq_retry($p)");
	stays($ids, 'cancelled acked blocked', '... a retry is open');
	ask($operator, 'ROLLBACK');
	stays($ids, 'cancelled acked blocked', '... and undone');
	sql("SELECT pgq_retry($p)");
	stays($ids, 'cancelled acked blocked', '... and committed');
	die_of($p);
	stays($ids, 'cancelled acked blocked', '... it dies again');
	sql(q{SELECT pgq_redrive('parents')});
	ack($p);
	becomes($ids, 'cancelled acked ready', '... is brought back, and then fine: one child has waited, and none comes twice');
	is(run_children(), $hold, '... which runs');
	end_session($operator);
}

# Runs one child of those that are ready, and returns how it has ended.
sub run_children_of
{
	my ($id) = @_;
	my ($job, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('children', wait => '60 s')});
	die "job $job is ready, too" if $job != $id;
	sql("SELECT pgq_ack($job, $lease)");
	return sql("SELECT state FROM pgq_result($id)");
}

# The parent has died and was retried before the child could be judged.
{
	my $p = parent();
	my ($cancel, $run) = map { child($_, $p) } qw(cancel run);
	my $session = session($node);
	ask($session, "BEGIN; SELECT pgq_update($cancel, priority => 1), pgq_update($run, priority => 1)");
	die_of($p);
	judged();
	sql("SELECT pgq_retry($p)");
	ask($session, 'COMMIT');
	stays("$cancel $run", 'blocked blocked', 'retried by hand: before the children were judged');
	ack($p);
	becomes("$cancel $run", 'ready ready', '... and fine');
	is(run_children(), "$cancel $run", '... each runs');
	end_session($session);
}

# ---- a job that runs again is counted twice ----

{
	sql(q{SELECT pgq_create_queue('again', backoff_base => '0', max_attempts => 5)});
	my ($p, $q) = (parent('again'), parent());
	my $child = child('cancel', $p, $q);
	my $late = sql(q{SELECT job_id || ', ' || lease FROM pgq_claim('again', lease_time => '1 s')});
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $p");
	sql(q{SELECT pgq_fail(job_id, lease, 'again') FROM pgq_claim('again', wait => '60 s')}) for 1 .. 2;
	my $lease = sql(q{SELECT job_id || ', ' || lease FROM pgq_claim('again', wait => '60 s')});
	is((sqlstate($node, "SELECT pgq_ack($late)"))[0], 'PQ001', 'counted twice: one parent has failed three times, and a late ack is refused');
	sql("SELECT pgq_ack($lease)");
	is((sqlstate($node, "SELECT pgq_ack($_)"))[0], 'PQ001', '... an ack comes once more') for $late, $lease;
	stays($child, 'blocked', '... the parent has ended once, and the other one not yet');
	ack($q);
	becomes($child, 'ready', '... both have');
	is(run_children(), $child, '... the child runs once');
}

# ---- a worker dies between the work and the count ----

{
	my $p = parent('again');
	my $child = child('cancel', $p);
	my $worker = session($node);
	ask($worker, q{BEGIN; SELECT pgq_ack(job_id, lease) FROM pgq_claim('again')});
	my $pid = pid_of($worker);
	sql("SELECT pg_terminate_backend($pid, 60000)");
	stays($child, 'blocked', 'a worker dies: its ack was not committed');
	end_session($worker);
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('again', wait => '60 s')});
	becomes($child, 'ready', '... another worker does the job');
	is(run_children(), $child, '... the child runs');
}

# Stopped after the commit is durable, before memory is told of it.
{
	my $p = parent();
	my $child = child('cancel', $p);
	my $lease = lease_of($p);
	my $worker = session($node);
	my $pid = pid_of($worker);
	ask($worker, q{SET pgq_ext.stop_point = 'commit-settle'});
	shut_gate();
	send_sql($worker, "SELECT pgq_ack($lease)");
	wait_for($node, $stopped);
	my $log = -s $node->logfile;
	kill KILL => $pid;
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $log);
	wait_until_up($node);
	end_session($_) for $gate, $worker;
	$gate = session($node);
	%claimed = ();
	becomes($child, 'ready', 'a worker dies between the commit of its ack and the news of it');
	is(run_children(), $child, '... the child runs');
}

# ---- the server dies between the end of the parents and the judgement ----

{
	my ($p, $q, $r) = map { parent() } 1 .. 3;
	my $ids = join ' ', child('cancel', $p), child('cancel', $p, $q), child('run', $q), child('hold', $r);
	my $session = session($node);
	ask($session, 'BEGIN');
	ask($session, "SELECT pgq_update($_, priority => 1)") for split / /, $ids;
	ack($p);
	sql("SELECT pgq_cancel($q)");
	die_of($r);
	stays($ids, 'blocked blocked blocked blocked', 'the server dies: parents have ended, and no child was judged');
	$node->stop('immediate');
	end_session($_) for $session, $gate;
	$node->start;
	$gate = session($node);
	%claimed = ();
	becomes($ids, 'ready cancelled ready blocked', '... after the start all children are judged');
	sql("SELECT pgq_retry($r)");
	ack($r);
	becomes($ids, 'ready cancelled ready ready', '... the last one by a parent that was redriven');
	is(run_children(), join(' ', (split / /, $ids)[ 0, 2, 3 ]), '... each runs once');
}

# ---- acks of one run are serial ----

# Many workers acknowledge the parents of one child, all at the same time. The child has a row, and its parents have dependencies: no ack
# changes these.
for my $round (1 .. 3)
{
	my @parents = map { parent() } 1 .. 8;
	my ($child, $other) = (child('cancel', @parents), child('run', @parents));
	my @leases = map { lease_of($_) } @parents;
	judged();
	my $rows = qq{SELECT string_agg(v, ' ') FROM (SELECT concat(ctid, xmin, xmax) AS v FROM pgq_ext.job WHERE job_id IN ($child, $other)
		UNION ALL SELECT concat(ctid, xmin, xmax) FROM pgq_ext.job_dependency WHERE child_id IN ($child, $other) ORDER BY 1) r};
	my $before = sql($rows);
	my @workers = map { session($node) } @parents;
	ask($_, q{SET lock_timeout = '10 s'; SET statement_timeout = '60 s'; BEGIN}) for @workers;
	is((ask($workers[$_], "SELECT pgq_ack($leases[$_]) IS NOT NULL"))[1], '', "serial: ack $_ does not wait for the open acks of the other parents") for 0 .. 7;
	is(sql($rows), $before, '... and no common row was changed or locked');
	is(sql('SELECT count(*) FROM pg_locks WHERE NOT granted'), '0', '... no process waits');
	ask($workers[0], q{PREPARE TRANSACTION 'ack'}) if $round == 1;
	send_sql($_, 'COMMIT') for @workers;
	reply($_) for @workers;
	if ($round == 1)
	{
		stays("$child $other", 'blocked blocked', '... seven are committed at once, one is prepared');
		sql(q{COMMIT PREPARED 'ack'});
	}
	becomes("$child $other", 'ready ready', '... eight are');
	is(run_children(), "$child $other", '... and each child runs once');
	end_session($_) for @workers;
}

# ---- nested ----

# A job that fans out and in again, in its own transaction, whose first attempt is undone.
{
	sql(q{SELECT pgq_create_queue('outer', max_attempts => 5)});
	my $p = parent();
	sql(qq{SELECT pgq_enqueue('outer', '1', after => '{$p}')});
	ack($p);
	my $worker = session($node);
	my @graphs;
	for my $end ('ROLLBACK', 'COMMIT')
	{
		ask($worker, 'BEGIN');
		my ($job, $lease) = split /\|/, ask($worker, q{SELECT job_id, lease FROM pgq_claim('outer', wait => '60 s')});
		push @graphs, scalar ask($worker, $diamond);
		ask($worker, child_sql('cancel', $job));
		ask($worker, "SELECT pgq_ack($job, $lease)");
		ask($worker, $end);
	}
	end_session($worker);
	is(scalar(split / /, run_children()), 5, 'nested: a graph and a child of the job itself, though the first attempt was undone');
	is(sql('SELECT ' . state_sql($graphs[0])), 'gone gone gone gone', '... of which nothing is left');
	is(sql('SELECT ' . state_sql($graphs[1])), 'acked acked acked acked', '... the graph of the second attempt has run');
}

# Graphs in graphs: the last job of each graph makes the next graph, and waits for nothing. Workers run them at the same time. A job that
# came too early would not find its parents acknowledged.
{
	handled_queue($node, 'deep', q{
		DECLARE
			depth int := job.payload->>'depth';
			bad bigint := count(*) FROM pgq_parents(job.job_id, job.lease) WHERE state <> 'acked' OR result <> jsonb_build_object('of', job.payload->'of');
		BEGIN
			IF bad > 0 THEN RAISE EXCEPTION '% parents have not ended', bad; END IF;
			INSERT INTO effect VALUES (job.job_id, job.payload->>'kind');
			IF job.payload->>'kind' = 'last' AND depth < 6 THEN
				PERFORM pgq_enqueue_many('deep', (SELECT jsonb_agg(jsonb_build_object('ref', kind || n, 'payload', jsonb_build_object('kind', kind, 'of', job.job_id, 'depth', depth + 1),
						'after', CASE kind WHEN 'middle' THEN '["first1", "first2", "first3"]'::jsonb WHEN 'last' THEN '["middle1", "middle2", "middle3"]' END))
					FROM unnest('{last,middle,first}'::text[]) kind, generate_series(1, CASE kind WHEN 'last' THEN 1 ELSE 3 END) n));
			END IF;
			RETURN jsonb_build_object('of', job.payload->'of');
		END}, queue => 'max_attempts => 1', handler => 'workers => 4', returns => 'jsonb');
	sql(q{SELECT pgq_enqueue('deep', '{"kind": "last", "depth": 0}') FROM generate_series(1, 3)});
	my $left = q{NOT EXISTS (SELECT FROM pgq_ext.job_status WHERE queue = 'deep')};
	wait_for($node, $left);
	is(sql(q{SELECT string_agg(note || 'x' || n, ' ' ORDER BY note) FROM (SELECT note, count(*) AS n FROM effect GROUP BY 1) e}), 'firstx54 lastx21 middlex54', 'nested: three chains of six graphs, each job once');
	is(sql(q{SELECT count(*) FROM (SELECT job_id FROM effect GROUP BY 1 HAVING count(*) > 1) twice}), '0', '... and none twice');
	is(sql(q{SELECT failures FROM pgq_ext.handler WHERE queue = 'deep'}), '0', '... after its parents');
}

# ---- a graph whose jobs are a batch ----

for my $end ('run', 'cancelled')
{
	my $callbacks = join ', ', map { qq{on_$_ => '{"queue": "others", "payload": "$_"}'} } qw(success finish);
	my $batch = sql("SELECT pgq_create_batch($callbacks)");
	my $graph = sql($diamond =~ s/"payload"/"batch": $batch, "payload"/gr);
	sql("SELECT pgq_close_batch($batch)");
	my $events = qq{(SELECT string_agg(payload #>> '{}', ' ' ORDER BY payload) FROM pgq_ext.job WHERE headers->>'batch' = '$batch')};
	if ($end eq 'run')
	{
		is(run_children(), $graph, 'batch: the members wait for each other, and run');
		wait_for($node, "$events = 'finish success'");
	}
	else
	{
		sql("SELECT pgq_cancel_batch($batch)");
		becomes($graph, 'gone gone gone gone', 'batch: a cancel ends blocked members, too');
		wait_for($node, "$events = 'finish'");
	}
	judged();
	is(sql("SELECT $events"), $end eq 'run' ? 'finish success' : 'finish', '... and its callbacks come, each once');
}

# ---- the results are pruned before the child has run ----

{
	my ($p, $q) = (parent('recorded'), parent('recorded'));
	my $child = child('cancel', $p, $q);
	my $lease = lease_of($p, 'recorded');
	sql(qq{SELECT pgq_ack($lease, '{"n": 1}'); DELETE FROM pgq_ext.finished_job WHERE job_id = $p});
	my $again = child('cancel', $p, $q);
	ack($q, 'recorded');
	becomes("$child $again", 'ready ready', 'pruned: the record of a parent is deleted before its other child comes');
	is(sql(q{SELECT string_agg(p.result::text, ' ') FROM pgq_claim('children', 2) c, pgq_parents(c.job_id, c.lease) p}), '{"n": 1} {"n": 1}', '... both children get the result');
	sql("SELECT pgq_cancel($child), pgq_cancel($again)");
}

# ---- nothing is left ----

sql(q{SELECT pgq_purge_queue(queue) FROM unnest('{parents,others}'::text[]) queue});
is(sql(q{SELECT count(*) FROM pgq_ext.job_status WHERE state = 'blocked'}), '0', 'no job is blocked');
wait_for($node, '(SELECT count(*) FROM pgq_ext.job_dependency) + (SELECT count(*) FROM pgq_ext.job_outcome) = 0');
pass('no dependency and no outcome is left');
# ---- the first dependency for a long time ----

# Whether a transaction that ends a job looks for children: only then it comes to the stop point.
sub looks_for_children
{
	my $lease = lease_of(parent());
	my $worker = session($node);
	my $pid = pid_of($worker);
	ask($worker, q{SET pgq_ext.stop_point = 'parent-deleted'});
	shut_gate();
	send_sql($worker, "SELECT pgq_ack($lease)");
	my $stops = 'f';
	$stops = sql("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = $pid)") until $stops eq 't' || is_answered($worker);
	open_gate();
	reply($worker);
	end_session($worker);
	return $stops eq 't';
}

{
	my $end = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
	my $looks = 1;
	$looks = looks_for_children() while $looks && monotonic() < $end;
	ok(!$looks, 'first dependency: no job has children, and no end of a job looks for them');
	my $p = parent();
	my $lease = lease_of($p);
	my $maker = session($node);
	ask($maker, q{SET pgq_ext.stop_point = 'dependencies-inserted'});
	shut_gate();
	send_sql($maker, child_sql('cancel', $p));
	wait_for($node, $stopped);
	sql("SELECT pgq_ack($lease)");
	open_gate();
	my ($child) = reply($maker);
	becomes($child, 'ready', '... the parent ends while the first one is open');
	is(run_children(), $child, '... the child runs');
	end_session($maker);
}

is(sql('SELECT count(*) FROM pgq_check()'), '0', 'pgq_check finds nothing');
is(sql('SELECT count(*) FROM pgq_ext.duty WHERE failures > 0'), '0', 'no duty has failed');

end_session($gate);
$node->stop;
done_testing();
