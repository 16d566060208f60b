# One transaction meets by unique keys, changes or cancels more waiting jobs than there are leases: the transaction
# succeeds, takes at most its part of the leases, and until it ends no claim gets one of these jobs.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;
use Session;

# A database can have 64 leases for such jobs.
my $node = pgq_node('main', conf => "pgq_ext.max_leases = 256\npgq_ext.max_databases = 4\nmax_prepared_transactions = 5\ndeadlock_timeout = '100 ms'");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $many = 600;
my $queue = 'q0';
my ($a, $b) = map { session($node) } 1 .. 2;

# The same keys again: in one call, and by many calls in one statement. Or each job of the queue.
sub array   { my ($more) = @_; return "(SELECT jsonb_agg(jsonb_build_object('payload', i, 'unique_key', 'k' || i$more)) FROM generate_series(1, $many) i)" }
sub in_one  { my ($more) = @_; return "SELECT count(DISTINCT j) FROM pgq_enqueue_many('$queue', " . array($more // '') . ') j' }
sub calls   { my ($more) = @_; return "SELECT count(DISTINCT pgq_enqueue('$queue', to_jsonb(i), unique_key => 'k' || i" . ($more // '') . ")) FROM generate_series(1, $many) i" }
sub on_each { my ($call) = @_; return "SELECT count($call) FROM (SELECT job_id FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' ORDER BY job_id) j" }
sub live    { my ($where) = @_; return sql("SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' AND $where") }
sub next_queue
{
	my ($options) = @_;
	sql(on_each('pgq_cancel(job_id)'));
	$queue++;
	create_queue($node, $queue, $options);
	sql(in_one());
	return;
}
# How many jobs a claim gets. It may be told that too many are locked.
sub claimed
{
	my ($state, $said) = sqlstate($node, qq{DO \$\$ BEGIN RAISE NOTICE 'got %', (SELECT count(*) FROM pgq_claim('$queue', 500)); END \$\$});
	return $state eq '55P03' ? 0 : $said =~ /got (\d+)/ ? $1 : $said;
}
sub none_claimed
{
	my ($what) = @_;
	is(join(' ', map { claimed() } 1 .. 4), '0 0 0 0', "$what: no claim gets one of them");
	my $used = sql(q{SELECT used FROM pgq_ext.capacity WHERE name = 'jobs held or changed, fullest database'});
	cmp_ok($used, '<=', 64, '... they take their part of the leases at most');
	is(sql(q{SELECT count(*) FROM pgq_claim('free', 20)}), 20, '... so that another queue goes on');
	sql(q{SELECT count(pgq_release(job_id, lease)) FROM pgq_ext.lease WHERE queue = 'free'});
	return;
}
sub all_go_out { my ($what) = @_; wait_for($node, q{used < 64 FROM pgq_ext.capacity WHERE name = 'jobs set aside, fullest database'}); is(scalar drain($node, $queue), $many, "$what: all go out then"); return }
sub well_ok { my ($what) = @_; is(sql('SELECT * FROM pgq_check()'), '', "all is well $what"); return }

create_queue($node, 'free');
create_queue($node, $queue);
sql(q{SELECT count(pgq_enqueue('free', '1')) FROM generate_series(1, 20)});

# ---- met, changed, cancelled ----

my %verbs = (
	'keep, one call' => in_one_of(),
	'keep, many calls' => calls_of(),
	'replace, one call' => in_one_of(q{, 'on_conflict', 'replace', 'priority', 5}),
	'replace, many calls' => calls_of(q{, on_conflict => 'replace', priority => 5}),
	'update' => sub { on_each('nullif(pgq_update(job_id, priority => 5), false)') },
	'update of nothing' => sub { on_each('nullif(pgq_update(job_id), false)') },
	'retry' => sub { on_each('nullif(pgq_retry(job_id), false)') },
	'retry later' => sub { on_each(q{nullif(pgq_retry(job_id, '1 ms'), false)}) },
	'cancel' => sub { on_each('pgq_cancel(job_id)') });
sub in_one_of { my ($more) = @_; return sub { in_one($more) } }
sub calls_of { my ($more) = @_; return sub { calls($more) } }

for my $name (sort keys %verbs)
{
	my $changes = $name =~ /replace|^update$/;
	for my $end ($name =~ /cancel|one call/ ? 'ROLLBACK' : (), $name =~ /cancel|keep, many/ ? 'ROLLBACK TO s' : (), 'COMMIT')
	{
		next_queue();
		ask($a, 'BEGIN; SAVEPOINT s');
		is(ask($a, $verbs{$name}->()), $many, "$name: it succeeds");
		none_claimed("$name, open");
		ask($a, $end);
		is(live('priority = 5'), $end eq 'COMMIT' && $changes ? $many : 0, "$name, $end: the jobs are what they are to be");
		if ($end eq 'COMMIT' && $name eq 'cancel')
		{
			is(live('true'), 0, '... and none is left');
			is(claimed(), 0, '... for claims, either');
		}
		else
		{
			all_go_out("$name, $end");
		}
		ask($a, 'COMMIT') if $end eq 'ROLLBACK TO s';
	}
}
well_ok('after all verbs');

# One after the other, in one transaction.
{
	next_queue();
	ask($a, 'BEGIN');
	is(ask($a, $_), $many, 'verb after verb on the same jobs') for in_one(), calls(q{, on_conflict => 'replace'}), in_one(), on_each('pgq_update(job_id, priority => 5)'), on_each('pgq_cancel(job_id)');
	is(ask($a, in_one()), $many, '... and their keys are free for new jobs');
	none_claimed('verb after verb');
	ask($a, 'ROLLBACK');
	all_go_out('verb after verb, rolled back');
}

# ---- prepared ----

for my $name ('keep, one call', 'replace, one call', 'cancel')
{
	for my $end ('COMMIT', 'ROLLBACK')
	{
		next_queue();
		sql('BEGIN; ' . $verbs{$name}->() . q{; PREPARE TRANSACTION 'p'});
		none_claimed("$name, prepared");
		end_session($_) for $a, $b;
		$node->stop('immediate');
		$node->start;
		($a, $b) = map { session($node) } 1 .. 2;
		none_claimed("$name, prepared, after a crash");
		sql("$end PREPARED 'p'");
		$end eq 'COMMIT' && $name eq 'cancel' ? is(claimed(), 0, "$name, prepared and committed: there is none") : all_go_out("$name, prepared, $end");
	}
}

# ---- others at the same jobs ----

{
	next_queue();
	my $job = live('true') && sql("SELECT max(job_id) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue'");
	my ($key) = sql("SELECT unique_key FROM pgq_ext.job WHERE job_id = $job");
	my $again = "SELECT pgq_enqueue('$queue', '1', unique_key => '$key')";
	ask($a, 'BEGIN');
	is(ask($a, calls()), $many, 'a transaction has met all jobs');
	is(sql($again), $job, '... another one meets one of them at the same time');
	is(sql("SELECT pgq_update($job, '\"new\"')"), 't', '... or changes it');
	is(sql("SELECT pgq_enqueue('$queue', '1', priority => 9, unique_key => '$key', on_conflict => 'replace')"), $job, '... or makes another one of it');
	is(claimed(), 0, '... but what that leaves is not handed out either');
	send_sql($b, "SELECT pgq_cancel($job)");
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'});
	is(ask($a, $again), $job, '... the first one meets it again, though somebody waits to cancel it');
	ask($a, 'COMMIT');
	is(scalar reply($b), 'ready', '... and cancels it then');
	cmp_ok(sql($again), '>', $job, '... so that the key is free');

	ask($a, 'BEGIN');
	ask($a, on_each('pgq_cancel(job_id)'));
	send_sql($b, $again);
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'});
	ask($a, 'ROLLBACK');
	cmp_ok(scalar reply($b), '>', $job, 'a request waits for who cancels all jobs');
	is(live("unique_key = '$key'"), 1, '... and meets the one that was there');
	well_ok('after others');
}

# A transaction that has locked or written the row of a job needs no lease to meet, change or cancel it again, even if another
# one has that, and waits at the row.
sub job_at { my ($end) = @_; return split /\|/, sql("SELECT job_id, unique_key FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' ORDER BY job_id $end LIMIT 1") }
sub waiting { my ($n) = @_; wait_for($node, "count(*) = $n FROM pg_stat_activity WHERE wait_event_type = 'Lock'"); return }
sub update_of { my ($job, $what) = @_; return "SELECT pgq_update($job, '$what')" }
for my $verb ('keep, many calls', 'update')
{
	for my $of_other (sub { "SELECT pgq_cancel($_[0])" }, sub { update_of($_[0], '"other"') })
	{
		next_queue();
		my ($job, $key) = job_at('DESC');
		my $replace = "SELECT pgq_enqueue('$queue', '\"replaced\"', unique_key => '$key', on_conflict => 'replace')";
		ask($a, 'BEGIN');
		is(ask($a, $verbs{$verb}->()), $many, "$verb: a transaction is at all jobs");
		ask($b, 'BEGIN');
		send_sql($b, $of_other->($job));
		my $cancels = $of_other->($job) =~ /cancel/;
		$cancels || $verb eq 'update' ? waiting(1) : is(scalar reply($b), 't', '... another one has changed one of them');
		is(ask($a, "SELECT pgq_enqueue('$queue', '1', unique_key => '$key')"), $job, '... and the first one meets it once more');
		if ($cancels || $verb eq 'update')
		{
			is(ask($a, $replace), $job, '... makes another one of it');
			is(ask($a, update_of($job, '"updated"')), 't', '... changes it');
			is(ask($a, "SELECT pgq_retry($job, '1 h')"), 't', '... puts it off');
			ask($a, 'SAVEPOINT s');
			is(ask($a, "SELECT pgq_cancel($job)"), 'scheduled', '... and cancels it');
			ask($a, 'ROLLBACK TO s');
			ask($a, 'COMMIT');
			is(scalar reply($b), $cancels ? 'scheduled' : 't', '... and the other one goes on then, and answers by what that has left');
			ask($b, 'COMMIT');
			is(live("job_id = $job AND payload = '\"other\"' AND run_at > now()"), $cancels ? 0 : 1, '... after what the first one has left');
		}
		else
		{
			ask($b, 'COMMIT');
			is(claimed(), 0, '... so that no claim gets it');
			ask($a, 'COMMIT');
			is(live("job_id = $job AND payload = '\"other\"'"), 1, '... and what the other one has made of it is there');
		}
		well_ok('after two at one job');
	}
}

# What a request appends to is what the first one leaves, also if that writes after the request has found the job.
{
	next_queue();
	my ($job, $key) = job_at('DESC');
	my $holder = session($node);
	ask($a, 'BEGIN');
	is(ask($a, calls()), $many, 'a transaction has met all jobs');
	ask($holder, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($b, q{SET pgq_ext.stop_point = 'key-found'});
	send_sql($b, "SELECT pgq_enqueue('$queue', '[2]', unique_key => '$key', on_conflict => 'append')");
	waiting(1);
	is(ask($a, update_of($job, '[1]')), 't', '... and changes one that another one is to append to');
	ask($holder, 'SELECT pg_advisory_unlock(7366513, 0)');
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted});
	ask($a, 'COMMIT');
	is(scalar reply($b), $job, '... which waits for that');
	ask($b, 'RESET pgq_ext.stop_point');
	is(sql("SELECT payload FROM pgq_ext.job WHERE job_id = $job"), '[1, 2]', '... and appends to it');
	end_session($holder);
}

# ... nor the turn at the job, which a session has that waits for others that hold it; nor does it leave the job to claims.
create_queue($node, 'fill');
my $fill = q{SELECT count(DISTINCT pgq_enqueue('fill', '1', unique_key => 'k' || i)) FROM generate_series(1, 64) i};
sql($fill);
{
	my ($c, $filler) = (session($node), session($node));
	for my $what ('turn', 'claim')
	{
		next_queue();
		my ($job, $key) = job_at('ASC');
		my $again = "SELECT pgq_enqueue('$queue', '1', unique_key => '$key')";
		ask($filler, 'BEGIN');
		is(ask($filler, $fill), 64, 'there are as many holds as may be');
		ask($a, 'BEGIN');
		ask($a, 'SELECT pg_advisory_xact_lock(1)');
		is(ask($a, $again), $job, '... so that the row of another job is locked');
		ask($filler, 'COMMIT');
		ask($c, 'BEGIN');
		is(ask($c, $again), $job, '... then another transaction holds that job');
		send_sql($c, 'SELECT pg_advisory_xact_lock(1)');
		if ($what eq 'turn')
		{
			send_sql($b, "SELECT pgq_cancel($job)");
			waiting(2);
		}
		else
		{
			cmp_ok(claimed(), '>', 200, '... claims get others');
			usleep(1_100_000);
		}
		is(ask($a, $again), $job, "... and the first one meets it again, $what or not");
		ask($a, 'COMMIT');
		reply($c);
		ask($c, 'COMMIT');
		is(scalar reply($b), 'ready', '... and it is cancelled then') if $what eq 'turn';
		sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease');
	}
	end_session($_) for $c, $filler;
}

# Who waits for the end of a job hears of it.
{
	next_queue();
	my $job = sql("SELECT max(job_id) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue'");
	send_sql($b, "SELECT state FROM pgq_result($job, wait => '60 s')");
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%pgq_result%' AND pid <> pg_backend_pid() AND wait_event_type = 'Extension'});
	is(sql(on_each('pgq_cancel(job_id)')), $many, 'all are cancelled');
	is(scalar reply($b), 'cancelled', 'who waits for the result of the last one is told');
}

# Also one that looks between the end of the row and the moment at which it is told; and if a subtransaction has cancelled it.
for my $ends ('', 'COMMIT')
{
	next_queue();
	my $job = sql("SELECT max(job_id) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue'");
	my $holder = session($node);
	send_sql($b, "SELECT state FROM pgq_result($job, wait => '60 s')");
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%pgq_result%' AND pid <> pg_backend_pid() AND wait_event_type = 'Extension'});
	ask($holder, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($a, q{SET pgq_ext.stop_point = 'commit-settle'});
	if ($ends)
	{
		ask($a, 'BEGIN; SAVEPOINT s');
		is(ask($a, on_each('pgq_cancel(job_id)')), $many, 'a subtransaction cancels all');
		ask($a, 'RELEASE s');
	}
	send_sql($a, $ends || on_each('pgq_cancel(job_id)'));
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 0 AND NOT granted});
	usleep(1_500_000);
	ok(!is_answered($b), 'a session that looks when the row has gone goes on waiting');
	ask($holder, 'SELECT pg_advisory_unlock(7366513, 0)');
	is(scalar reply($b), 'cancelled', '... and is told');
	is(scalar reply($a) // '', $ends ? '' : $many, '... by the session that has cancelled all');
	ask($a, 'RESET pgq_ext.stop_point');
	end_session($holder);
}

# What a subtransaction of the own transaction has done and undone is no end to wait for.
ask($a, 'BEGIN; SAVEPOINT s');
my $undone = ask($a, "SELECT pgq_enqueue('$queue', '1')");
ask($a, "SELECT pgq_update($undone, priority => 1), pgq_update($undone, priority => 2)");
ask($a, 'ROLLBACK TO s');
is(scalar ask($a, "SELECT count(*) FROM pgq_result($undone, wait => '100 ms') WHERE state IS NOT NULL"), 0, 'there is no job that was undone');
ask($a, 'ROLLBACK');

# What is behind a cancelled job in its group goes out.
{
	sql(on_each('pgq_cancel(job_id)'));
	$queue++;
	create_queue($node, $queue, 'fifo => true');
	sql("SELECT count(pgq_enqueue('$queue', to_jsonb(i), group_key => 'g' || i % 300)) FROM generate_series(1, $many) i");
	ask($a, 'BEGIN');
	is(ask($a, "SELECT count(pgq_cancel(job_id)) FROM (SELECT job_id FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$queue' ORDER BY job_id LIMIT 300) j"), 300, 'the first jobs of all groups are cancelled');
	none_claimed('first of their groups');
	ask($a, 'COMMIT');
	is(scalar drain($node, $queue), 300, '... and the second ones go out');
}

# ---- no lease is left at all ----

# The other database has its own share then, and that is not used up by jobs that somebody has met.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION pgq_ext');
create_queue($node, $_, '', 'other') for 'met', 'free';
my $met = q{SELECT count(DISTINCT pgq_enqueue('met', to_jsonb(i), unique_key => 'k' || i)) FROM generate_series(1, 40) i};
$node->safe_psql('other', "$met; SELECT count(pgq_enqueue('free', '1')) FROM generate_series(1, 40)");

{
	next_queue();
	sql(q{SELECT count(pgq_enqueue('free', '1')) FROM generate_series(1, 300)});
	is(sql(q{SELECT count(*) FROM pgq_claim('free', 500, lease_time => '1 h')}), 256, 'all leases of the database are in use');
	is(sql($_), $many, '... waiting jobs are met, changed and cancelled all the same') for in_one(), calls(q{, on_conflict => 'replace'}), on_each('pgq_cancel(job_id)');
	my $other = session($node, 'other');
	ask($other, 'BEGIN');
	is(ask($other, $met), 40, '... in another database, too');
	is($node->safe_psql('other', q{SELECT count(*) FROM pgq_claim('free', 40)}), 12, '... where a quarter of its own share is for these at most');
	ask($other, 'COMMIT');
	end_session($other);
	$node->safe_psql('other', q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease});
	sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease});
	wait_for($node, q{bool_and(used = 0) FROM pgq_ext.capacity WHERE name LIKE 'leases%' OR name LIKE 'jobs %'});
	well_ok('with all leases back');
}

end_session($_) for $a, $b;
done_testing();
