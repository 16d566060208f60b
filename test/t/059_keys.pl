# Unique keys: an enqueue with a key meets the job that has the key, whether that job is committed, rolled back,
# prepared, killed or purged at the same time. What was committed by the transaction that has met a job is visible
# when the job is processed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 20\ndeadlock_timeout = '100 ms'\nrestart_after_crash = on\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub sessions { return map { session($node) } 1 .. $_[0] }
sql(q{SELECT pgq_create_queue('q', lease_time => '1 day', backoff_base => '0', max_attempts => 1000000)});
my ($a, $b, $c) = sessions(3);
my $key = 'k0';
sub next_key { $key++; sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job}); return }
sub enqueue { my ($more) = @_; return "SELECT pgq_enqueue('q', '[1]', unique_key => '$key'" . ($more ? ", $more" : '') . ')' }
my $claim = q{SELECT job_id FROM pgq_claim('q')};
my ($claimed, $replace) = (q{unique_until => 'claimed'}, q{unique_until => 'claimed', on_conflict => 'replace'});
sub well_ok { my ($what) = @_; is(sql('SELECT * FROM pgq_check()'), '', "... all is well $what"); return }

sub waits
{
	my ($s) = @_;
	usleep(200_000);
	return !is_answered($s);
}
# Who waits is gone with the server.
sub crash
{
	$node->stop('immediate');
	end_session($_) for $a, $b, $c;
	$node->start;
	($a, $b, $c) = sessions(3);
	return;
}
sub sqlstate_of { my ($s, $sql) = @_; ask($s, '\set VERBOSITY sqlstate'); send_sql($s, $sql); my ($out, $err) = reply($s); ask($s, '\set VERBOSITY default'); return $err =~ /ERROR:\s+(\w+)/ ? $1 : '' }

# ---- the first one is not committed ----

for my $end (qw(COMMIT ROLLBACK))
{
	next_key();
	ask($a, 'BEGIN');
	my $job = ask($a, enqueue());
	send_sql($b, enqueue());
	ok(waits($b), "the second waits for the first: $end");
	ask($a, $end);
	my $second = reply($b);
	$end eq 'COMMIT' ? is($second, $job, '... and meets its job') : cmp_ok($second, '>', $job, '... and has the key');
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE unique_key = '$key'"), 1, '... one has it');
}
{
	next_key();
	ask($a, 'BEGIN; SAVEPOINT s');
	my $job = ask($a, enqueue());
	send_sql($b, enqueue());
	ok(waits($b), 'the second waits for the first, which is rolled back to a savepoint');
	ask($a, 'ROLLBACK TO s');
	cmp_ok(scalar reply($b), '>', $job, '... and has the key');
	ask($a, 'COMMIT');
}
{
	next_key();
	my $job = sql('BEGIN; ' . enqueue() . q{; PREPARE TRANSACTION 'p'});
	send_sql($b, enqueue());
	ok(waits($b), 'the second waits for a prepared one');
	crash();
	send_sql($b, enqueue());
	ok(waits($b), '... also after a crash');
	sql(q{COMMIT PREPARED 'p'});
	is(scalar reply($b), $job, '... and meets its job');
}

# The lock of the key: from before the look until the new job can be found.
sub stopped_at
{
	my ($point, $between) = @_;
	ask($c, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($a, "SET pgq_ext.stop_point = '$point'");
	send_sql($a, enqueue());
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 0 AND NOT granted});
	$between->();
	ask($c, 'SELECT pg_advisory_unlock(7366513, 0)');
	my $answer = reply($a);
	ask($a, 'RESET pgq_ext.stop_point');
	return $answer;
}
{
	next_key();
	my $job = stopped_at('key-found', sub {
		send_sql($b, enqueue());
		ok(waits($b), 'who comes between the look of the first and its row waits');
	});
	is(scalar reply($b), $job, '... and meets it');
	# It ends before it is held.
	my $new = stopped_at('key-met', sub { sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q')}) });
	cmp_ok($new, '>', $job, 'a job that ends between the look and the hold is not met');
	my $leased = stopped_at('key-met', sub { sql($claim) });
	is($leased, $new, '... one that is claimed then is one in work');
	is(sql(q{SELECT count(*) FROM pgq_ext.lease_entries() WHERE state = 'held'}), 0, '... and nothing is held');
}

# ---- a job that was met is not handed out before the end ----

for my $end (qw(COMMIT ROLLBACK))
{
	next_key();
	my $job = sql(enqueue());
	ask($a, 'BEGIN');
	ask($b, 'BEGIN');
	is(ask($_, enqueue()), $job, 'two transactions meet the job without waiting for one another') for $a, $b;
	is(sql($claim), '', '... nobody gets it');
	ask($a, $end);
	is(sql($claim), '', '... before the last one has ended');
	send_sql($c, q{SELECT job_id FROM pgq_claim('q', wait => '60 s')});
	ok(waits($c), '... not even who waits');
	ask($b, $end);
	is(scalar reply($c), $job, "... who is woken then: $end");
}
{
	next_key();
	my $job = sql(enqueue());
	ask($a, 'BEGIN; SAVEPOINT s');
	ask($a, enqueue($replace));
	send_sql($b, enqueue());
	ok(waits($b), 'who has changed it is waited for');
	ask($a, 'ROLLBACK TO s');
	is(scalar reply($b), $job, '... to a savepoint');
	is(ask($a, $claim), $job, '... after which it goes out');
	ask($a, 'COMMIT');
}
# more than can hold it at the same time: the next one waits
{
	next_key();
	my $job = sql(enqueue());
	my @holders = sessions(9);
	my $last = pop @holders;
	ask($_, 'BEGIN') for @holders;
	is(join(' ', map { scalar ask($_, enqueue()) } @holders), join(' ', ($job) x 8), 'eight meet a job');
	send_sql($last, enqueue());
	ok(waits($last), '... the ninth waits');
	ask($holders[0], 'ROLLBACK');
	is(scalar reply($last), $job, '... for one of them');
	is(sql($claim), '', '... the others hold it');
	end_session($_) for @holders, $last;
	wait_for($node, "count(*) = 0 FROM pgq_ext.lease_entries() WHERE job_id = $job");
	is(sql($claim), $job, '... until their sessions are gone');
}
# for long: it is to be handed out some time
{
	next_key();
	my $job = sql(enqueue());
	ask($a, 'BEGIN; ' . enqueue());
	usleep(1_100_000);
	is(sql(enqueue()), $job, 'who asks for a job that has been held for long meets it, until a claim has wanted it for long');
	is(sql($claim), '', '... which does not get it');
	usleep(1_100_000);
	my $new = sql(enqueue($claimed));
	cmp_ok($new, '>', $job, '... who asks until it is claimed has a new one');
	is(sql(enqueue($claimed)), $new, '... which is met then');
	ask($a, 'COMMIT');
	is(sql(q{SELECT string_agg(job_id::text, ' ' ORDER BY job_id) FROM pgq_claim('q', 10)}), "$job $new", '... both go out');
}
# to be changed it is held alone, which is a circle sometimes
{
	next_key();
	my $job = sql(enqueue());
	ask($_, 'BEGIN; ' . enqueue()) for $a, $b;
	send_sql($a, enqueue($replace));
	ok(waits($a), 'who wants to change it waits for who has met it');
	my $state = sqlstate_of($b, enqueue($replace));
	my ($out, $err) = reply($a);
	is(($state eq '40P01') + ($err =~ /deadlock/), 1, '... if that one wants that too it is a deadlock, of one of them');
	ask($_, 'ROLLBACK') for $a, $b;
	is(sql($claim), $job, '... and then it goes out');
}
# other verbs
{
	next_key();
	my $job = sql(enqueue());
	for my $verb ("pgq_update($job, '[2]')", "pgq_retry($job)", "pgq_cancel($job)")
	{
		ask($a, 'BEGIN; ' . enqueue());
		send_sql($b, "SELECT $verb");
		ok(waits($b), "$verb waits for who has met the job");
		ask($a, 'COMMIT');
		reply($b);
	}
	is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $job"), 0, '... and then is done');
}

# ---- claims ----

{
	next_key();
	my $job = sql(enqueue());
	ask($a, 'BEGIN');
	is(ask($a, $claim), $job, 'a job is claimed');
	is(sql(enqueue()), $job, '... which has the key, whether that is committed or not');
	is(sql(enqueue($replace)), $job + 1, '... or has had it');
	ask($a, 'ROLLBACK');
	next_key();
	# between the lease and the hand-out
	ask($c, 'SELECT pg_advisory_lock(7366513, 0)');
	for my $until ($claimed, '')
	{
		next_key();
		$job = sql(enqueue());
		ask($a, q{SET pgq_ext.stop_point = 'claim-hand-out'});
		send_sql($a, $claim);
		wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});
		send_sql($b, enqueue($until));
		ok(waits($b), 'a claim that has not decided is waited for');
		ask($c, 'SELECT pg_advisory_unlock(7366513, 0)');
		is(scalar reply($a), $job, '... it decides');
		my $answer = reply($b);
		$until ? cmp_ok($answer, '>', $job, '... and the key is free') : is($answer, $job, '... and has the key');
		ask($a, 'RESET pgq_ext.stop_point');
		ask($c, 'SELECT pg_advisory_lock(7366513, 0)');
	}
	ask($c, 'SELECT pg_advisory_unlock(7366513, 0)');
}
# moved to another queue by hand while it is in work
{
	next_key();
	sql(q{SELECT pgq_create_queue('r')});
	my $job = sql(enqueue() =~ s/'q'/'r'/r);
	ask($a, q{SELECT pgq_claim('r')});
	sql(q{UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'q')});
	is(sql(enqueue()), $job, 'a job in work that was moved here by hand has the key here');
	cmp_ok(sql(enqueue($claimed)), '>', $job, '... or is passed over');
}
# or held, or parked
for my $more ('', $replace)
{
	next_key();
	my $job = sql(enqueue() =~ s/'q'/'r'/r);
	my $move = q{UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'q')};
	ask($a, 'BEGIN; ' . (enqueue() =~ s/'q'/'r'/r));
	sql($move);
	is(ask($a, enqueue($more)), $job, 'a job that is held and was moved here by hand is met by its holder');
	send_sql($b, enqueue($more));
	ok(waits($b), '... and by others after him');
	ask($a, 'COMMIT');
	is(scalar reply($b), $job, '... then');
	is(sql($claim), $job, '... and goes out here');
	next_key();
	$job = sql(enqueue() =~ s/'q'/'r'/r);
	ask($a, "BEGIN; $move");
	is(sql(q{SELECT job_id FROM pgq_claim('r')}), '', 'a job that is just being moved is parked');
	ask($a, 'COMMIT');
	is(sql(enqueue($more)), $job, '... and met here');
	is(sql($claim), $job, '... and goes out here');
}
# or in hand of a verb that changes nothing of it
for my $more ('', $replace)
{
	next_key();
	my $job = sql(enqueue() =~ s/'q'/'r'/r);
	ask($a, "BEGIN; SELECT pgq_retry($job)");
	sql(q{UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'q')});
	is(ask($a, enqueue($more)), $job, 'a job that is being retried and was moved here by hand is met by who retries it');
	send_sql($b, enqueue($more));
	ok(waits($b), '... and by others after him');
	ask($a, 'COMMIT');
	is(scalar reply($b), $job, '... then');
	is(sql($claim), $job, '... and goes out here');
}
# an open, or prepared, end of a job is not waited for
for my $how ('', q{PREPARE TRANSACTION 'p'})
{
	next_key();
	my $job = sql(enqueue());
	ask($a, $claim);
	ask($a, 'BEGIN; SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE job_id = ' . $job);
	ask($a, $how) if $how;
	is(sql(enqueue()), $job, "an acknowledgement that is not committed: the key is the job's ($how)");
	my $other = sql(enqueue($claimed));
	cmp_ok($other, '>', $job, '... or is free');
	ask($a, $how ? q{COMMIT PREPARED 'p'} : 'COMMIT');
	is(sql(enqueue()), $other, '... then it is that of the other one');
	sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', 10)});
	cmp_ok(sql(enqueue()), '>', $other, '... and then of nobody');
}

# ---- deleted by somebody ----

for my $delete (q{SELECT pgq_purge_queue('q')}, "DELETE FROM pgq_ext.job WHERE unique_key = 'KEY'")
{
	for my $end (qw(COMMIT ROLLBACK))
	{
		next_key();
		my $job = sql(enqueue());
		ask($a, 'BEGIN; ' . ($delete =~ s/KEY/$key/r));
		send_sql($b, enqueue());
		ok(waits($b), "$delete is waited for: $end");
		ask($a, $end);
		my $answer = reply($b);
		$end eq 'COMMIT' ? cmp_ok($answer, '>', $job, '... the key is free') : is($answer, $job, '... the job is there');
	}
}
{
	next_key();
	my $job = sql(enqueue());
	ask($a, 'BEGIN; ' . enqueue());
	is(sql(q{SELECT pgq_purge_queue('q')}), 0, 'a purge leaves a job alone that is held');
	ask($a, 'COMMIT');
	is(sql($claim), $job, '... which goes out');
	well_ok('after that');
}

# ---- prepared, and a crash ----

for my $more ('', $replace)
{
	for my $end (qw(COMMIT ROLLBACK))
	{
		next_key();
		my $job = sql(enqueue());
		is(sql('BEGIN; ' . enqueue($more) . q{; PREPARE TRANSACTION 'p'}), $job, 'a prepared transaction has met a job');
		is(sql(q{SELECT job_id FROM pgq_claim('q', wait => '300 ms')}), '', '... nobody gets it');
		crash();
		is(sql(q{SELECT job_id FROM pgq_claim('q', wait => '300 ms')}), '', '... nor after a crash');
		sql("$end PREPARED 'p'");
		is(sql(q{SELECT job_id FROM pgq_claim('q', wait => '60 s')}), $job, "... before it has ended: $end");
		well_ok('after that');
	}
}
# an UPDATE that has not ended carries the lock on
{
	next_key();
	my $job = sql(enqueue());
	ask($a, 'BEGIN; ' . enqueue());
	ask($b, "BEGIN; UPDATE pgq_ext.job SET priority = 3 WHERE job_id = $job");
	ask($a, q{PREPARE TRANSACTION 'p'});
	ask($b, 'COMMIT');
	is(sql(q{SELECT job_id FROM pgq_claim('q', wait => '300 ms')}), '', 'a job that is changed by hand meanwhile is not handed out');
	sql(q{COMMIT PREPARED 'p'});
	is(sql(q{SELECT job_id FROM pgq_claim('q', wait => '60 s')}), $job, '... before the prepared transaction has ended');
}
# ... and one that was undone does not hide it
{
	next_key();
	my $job = sql(enqueue());
	sql('BEGIN; ' . enqueue() . q{; PREPARE TRANSACTION 'p'});
	sql("BEGIN; UPDATE pgq_ext.job SET priority = 3 WHERE job_id = $job; ROLLBACK");
	is(sql(q{SELECT job_id FROM pgq_claim('q', wait => '300 ms')}), '', 'a job of which a change was undone meanwhile is not handed out');
	sql(q{COMMIT PREPARED 'p'});
	is(sql(q{SELECT job_id FROM pgq_claim('q', wait => '60 s')}), $job, '... before the prepared transaction has ended, either');
}
# what was in hand before the crash is not acknowledged any more: somebody may have met it
{
	next_key();
	my $job = sql(enqueue());
	my $lease = sql(q{SELECT lease FROM pgq_claim('q')});
	crash();
	is(sql(enqueue($claimed)), $job, 'a job that waits again after a crash is met');
	is(sqlstate_of($a, "SELECT pgq_ack($job, $lease)"), 'PQ001', '... and its worker cannot end it');
}

# ---- snapshots ----

{
	next_key();
	ask($a, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	my $job = sql(enqueue());
	is(sqlstate_of($a, enqueue()), '40001', 'a job that the snapshot does not see is a serialization failure');
	ask($a, 'ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	# another version of what it sees
	sql("SELECT pgq_update($job, '[3]')");
	is(ask($a, enqueue()), $job, '... but not one that has been changed');
	ask($a, 'COMMIT');
	sql(enqueue(q{unique_for => '1 h'})); # has no job of its own
	is(sql('SELECT count(*) FROM pgq_ext.unique_key'), 0, 'who meets a job takes no time');
	next_key();
	ask($a, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$job = sql(enqueue(q{unique_for => '1 h'}));
	sql("SELECT pgq_cancel($job)");
	is(sqlstate_of($a, enqueue()), '40001', 'the same of the time of a job that is gone');
	ask($a, 'ROLLBACK');
	is(sql(enqueue()), $job, '... which has the key yet');
	crash();
	is(sql(enqueue()), $job, '... after a crash too');
	ask($a, "BEGIN; DELETE FROM pgq_ext.unique_key WHERE job_id = $job");
	send_sql($b, enqueue());
	ok(waits($b), 'who takes that away is waited for');
	ask($a, 'COMMIT');
	cmp_ok(scalar reply($b), '>', $job, '... and then the key is free');
}
# ---- many at a time ----

{
	next_key();
	my $jobs = sub { my ($order) = @_; return "(SELECT jsonb_agg(jsonb_build_object('payload', i, 'unique_key', 'm' || i) ORDER BY $order) FROM generate_series(1, 20000) i)" };
	send_sql($a, "SELECT count(*), count(DISTINCT id) FROM pgq_enqueue_many('q', " . $jobs->('i') . ') id');
	send_sql($b, "SELECT count(*), count(DISTINCT id) FROM pgq_enqueue_many('q', " . $jobs->('-i') . ') id');
	is(scalar reply($a), '20000|20000', '20000 keys in one transaction');
	is(scalar reply($b), '20000|20000', '... and the same in another one, in another order: no deadlock');
	is(sql('SELECT count(*), count(DISTINCT unique_key) FROM pgq_ext.job'), '20000|20000', '... one job a key');
	sql(q{SELECT pgq_purge_queue('q')});
}

# ---- a ledger ----

# What is asked for in a transaction that is committed is done once: numbers that are appended to jobs that wait. And
# there are never two jobs of a key that is taken until they are finished.
sql(q{
	SELECT pgq_create_queue('append', lease_time => '1 day', backoff_base => '0', max_attempts => 1000000);
	SELECT pgq_create_queue('one', lease_time => '1 day', backoff_base => '0', max_attempts => 1000000);
	CREATE TABLE asked (n bigint PRIMARY KEY);
	CREATE TABLE done (n bigint PRIMARY KEY, job_id bigint);
	CREATE TABLE two_owners (key text, jobs bigint[]);
	CREATE SEQUENCE n;

	CREATE PROCEDURE produce(seconds int) LANGUAGE plpgsql AS $$
	DECLARE
		deadline timestamptz := clock_timestamp() + make_interval(secs => seconds);
		next bigint;
	BEGIN
		WHILE clock_timestamp() < deadline LOOP
			FOR i IN 1 .. 1 + (random() * 1.4)::int LOOP
				next := nextval('n');
				INSERT INTO asked VALUES (next);
				-- In order, or it would be a deadlock.
				PERFORM pgq_enqueue('append', to_jsonb(ARRAY[next]), unique_key => (2 * i + round(random()))::text, unique_until => 'claimed', on_conflict => 'append');
				PERFORM pg_sleep(random() * 0.004);
			END LOOP;
			PERFORM pgq_enqueue('one', '1', unique_key => (random() * 3)::int::text);
			IF random() < 0.3 THEN
				ROLLBACK;
			ELSE
				COMMIT;
			END IF;
		END LOOP;
	END $$;

	CREATE PROCEDURE work(seconds int) LANGUAGE plpgsql AS $$
	DECLARE
		deadline timestamptz := clock_timestamp() + make_interval(secs => seconds);
		job record;
	BEGIN
		WHILE clock_timestamp() < deadline LOOP
			SELECT * INTO job FROM pgq_claim_any('{append,one}', wait => '100 ms');
			CONTINUE WHEN NOT FOUND;
			-- A claim that is not committed, or one that is.
			IF random() < 0.7 THEN
				COMMIT;
			END IF;
			IF random() < 0.1 THEN
				PERFORM pgq_fail(job.job_id, job.lease);
			ELSE
				IF job.queue = 'append' THEN
					INSERT INTO done SELECT n::bigint, job.job_id FROM jsonb_array_elements(job.payload) n;
				END IF;
				PERFORM pgq_ack(job.job_id, job.lease);
			END IF;
			IF random() < 0.2 THEN
				ROLLBACK;
				-- The lease is lost if it was claimed in there.
				BEGIN
					PERFORM pgq_release(job.job_id, job.lease);
				END;
			END IF;
			COMMIT;
		END LOOP;
	END $$;

	CREATE PROCEDURE watch(seconds int) LANGUAGE plpgsql AS $$
	DECLARE
		deadline timestamptz := clock_timestamp() + make_interval(secs => seconds);
	BEGIN
		WHILE clock_timestamp() < deadline LOOP
			INSERT INTO two_owners SELECT unique_key, array_agg(job_id) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id)
				WHERE queue = 'one' GROUP BY unique_key HAVING count(*) > 1;
			COMMIT;
			PERFORM pg_sleep(0.005);
		END LOOP;
	END $$;
});

my $prepared = 0;
sub prepare_some
{
	my ($deadline) = @_;
	while (monotonic() < $deadline)
	{
		my $gid  = 'g' . ++$prepared;
		my $stays = $prepared % 5 == 0;
		my $key   = $stays ? $gid : 2 + $prepared % 4;
		$node->psql('postgres', "BEGIN; INSERT INTO asked SELECT nextval('n');
			SELECT pgq_enqueue('append', to_jsonb(ARRAY[currval('n')]), unique_key => '$key', unique_until => 'claimed', on_conflict => 'append');
			SELECT pgq_enqueue('one', '1', unique_key => '$key');
			PREPARE TRANSACTION '$gid'", on_error_stop => 0);
		$node->psql('postgres', ($prepared % 3 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid'", on_error_stop => 0) unless $stays;
	}
	return;
}
sub end_prepared
{
	$node->psql('postgres', "COMMIT PREPARED '$_'") for split /\n/, sql('SELECT gid FROM pg_prepared_xacts');
	return;
}

end_session($_) for $a, $b, $c;
for my $round (1 .. 3)
{
	my @actors = sessions(8);
	send_sql($_, 'CALL produce(4)') for @actors[0 .. 3];
	send_sql($_, 'CALL work(4)')    for @actors[4 .. 6];
	send_sql($actors[7], 'CALL watch(4)');
	prepare_some(monotonic() + 3);
	if ($round == 3)
	{
		end_prepared();
		my @errors = grep { $_ } map { (reply($_))[1] } @actors;
		is(join("\n", @errors), '', 'nobody has had an error');
	}
	elsif ($round == 1)
	{
		$node->stop('immediate');
		$node->start;
	}
	else
	{
		# The server starts again by itself.
		my $pid = pid_of(my $victim = session($node));
		kill 'KILL', $pid;
		wait_until_down($pid);
		end_session($victim);
		ok($node->poll_query_until('postgres', 'SELECT true'), 'the server is there again');
	}
	end_session($_) for @actors;
	end_prepared();
	is(sql('TABLE two_owners'), '', "round $round: a key never had two owners");
}
my $worker = session($node);
for (1 .. 60)
{
	last if sql('SELECT count(*) FROM pgq_ext.job') == 0;
	ask($worker, 'CALL work(1)');
}
is(sql('SELECT count(*) FROM pgq_ext.job'), 0, 'all jobs have ended');
is(sql('SELECT count(*) FROM asked WHERE n NOT IN (SELECT n FROM done)'), 0, 'what was asked for was done');
is(sql('SELECT count(*) FROM done WHERE n NOT IN (SELECT n FROM asked)'), 0, '... and nothing else');
cmp_ok(sql('SELECT count(*) FROM done'), '>', 100, '... and that is something');
note(sql('SELECT count(*), count(DISTINCT job_id) FROM done'));
well_ok('at the end');

done_testing();
