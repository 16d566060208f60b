# A queue is renamed by the function and by UPDATE: it keeps its jobs, leases, counters, limits, rights and schedules.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\ndeadlock_timeout = '20 ms'\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $other = session($node);
my $n     = 0;

sub check_ok { return is(sql('SELECT pgq_check()'), '', "... $_[0]") }

for my $how (q{UPDATE pgq_ext.queue SET queue = '%2$s' WHERE queue = '%1$s'}, q{SELECT pgq_rename_queue('%s', '%s')})
{
	my ($old, $new) = map { $_ . ++$n } 'old', 'new';
	my $rename = sprintf $how, $old, $new;
	note($rename);

	# In work, asserted, held by who has met it, limited, counted, waited for, scheduled.
	sql("SELECT pgq_create_queue('$old', concurrency => 2, lease_time => '1 day', rate_limit => 1000, rate_period => '1 day')");
	sql("SELECT pgq_enqueue('$old', to_jsonb(i)) FROM generate_series(1, 3) i");
	my ($asserted, $kept) = map { s/\|/, /r } split /\n/, sql("SELECT job_id, lease FROM pgq_claim('$old', 2)");
	my $worker = session($node);
	ask($worker, "BEGIN; SELECT pgq_assert_lease($asserted)");
	sql("SELECT pgq_create_queue('met$n'), pgq_enqueue('met$n', '1', unique_key => 'k')");
	my $holder = session($node);
	ask($holder, "BEGIN; SELECT pgq_enqueue('met$n', '2', unique_key => 'k', unique_until => 'claimed')");
	sql("SELECT pgq_schedule('s$n', '\@yearly', '$old', '{\"a\": 1}')");
	sql("SELECT pgq_create_queue('not-$old')");
	my $batch = sql(qq{SELECT pgq_create_batch('{"queue": "not-$old", "payload": "$old"}', on_finish => '{"queue": "$old", "payload": {"queue": "$old"}, "run_at": "3000-01-01"}')});
	my $over  = sql(qq{SELECT pgq_create_batch(on_failure => '{"queue": "$old", "payload": 1}')});
	sql("SELECT pgq_close_batch($over)");
	my $waiter = session($node);
	send_sql($waiter, "SELECT queue, payload FROM pgq_claim('$old', wait => '60 s')");
	wait_for($node, "waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = '$old'");
	ask($other, "SELECT count(pgq_enqueue('$old', '4'))");

	sql("BEGIN; $rename; ROLLBACK");
	sql("BEGIN; SAVEPOINT s; $rename; ROLLBACK TO s; COMMIT");
	is(sql("SELECT count(pgq_enqueue('$old', '5'))"), '1', 'undone: it has its old name');
	is(sqlstate($node, "SELECT pgq_enqueue('$new', '5')"), '42704', '... and no other');
	is(sqlstate($node, "BEGIN; $rename; PREPARE TRANSACTION 'p'"), '0A000', '... not to be prepared');

	sql($rename);
	sql(sprintf $how, "met$n", "met$n-2");
	is(sql("SELECT handed_out, enqueued FROM pgq_ext.queue_stats WHERE queue = '$new'"), '2|5', 'renamed: what was counted is');
	is(sql("SELECT count(*) FROM pgq_claim('$new')"), '0', '... its limit is full');
	is(sql("SELECT leased FROM pgq_ext.queue_status WHERE queue = '$new'"), '2', '... by its jobs in work');
	is(sql("SELECT count(*) FROM pgq_claim('met$n-2')"), '0', '... what was met is held');
	is(sql("SELECT queue FROM pgq_ext.schedule WHERE schedule = 's$n'"), $new, '... its schedule goes on');
	is(sql("SELECT on_success, on_failure, on_finish FROM pgq_ext.job_batch WHERE batch_id = $batch"),
		qq{{"queue": "not-$old", "payload": "$old"}||{"queue": "$new", "run_at": "3000-01-01", "payload": {"queue": "$old"}}}, '... and callbacks of batches name it');
	sql("SELECT pgq_close_batch($batch)");
	wait_for($node, "succeeded_at IS NOT NULL AND finished_at IS NOT NULL FROM pgq_ext.job_batch WHERE batch_id = $batch");
	my $callback = "FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '$new' AND headers ->> 'event' = 'finish'";
	is(sql("SELECT count(*) $callback"), '1', '... and come to it');
	sql("SELECT pgq_cancel(job_id) $callback");
	for my $session ($other, $worker)
	{
		ask($session, 'SAVEPOINT s') if $session == $worker;
		like((ask($session, "SELECT pgq_enqueue('$old', '6')"))[1], qr/queue "$old" does not exist/, '... the old name is unknown, also to who has used it');
		ask($session, 'ROLLBACK TO s') if $session == $worker;
	}
	is(sql("SELECT pgq_ack($kept)"), '', '... a lease is what it was');
	is(reply($waiter), "$new|3", '... the slot goes to a claim that has waited under the old name');
	ask($worker, 'COMMIT');
	is(sql("SELECT pgq_ack($asserted)"), '', '... so is one that was asserted');
	is(sql("SELECT payload FROM pgq_claim('$new')"), '4', '... and the next one goes out');
	ask($holder, 'COMMIT');
	is(sql("SELECT payload FROM pgq_claim('met$n-2', wait => '30 s')"), '1', '... what was met goes out, when that transaction has ended');
	wait_for($node, "count(*) = 2 FROM pgq_ext.duty WHERE duty = 'window' AND queue IN ('$new', 'met$n-2')");
	check_ok('and all is right');
	stop_and_start($node, 'fast') if $n > 2;
	is(sql("SELECT count(*) FROM pgq_ext.queue_status WHERE queue IN ('$new', 'met$n-2')"), '2', '... after a restart, too') if $n > 2;
	wait_for_scheduler($node);
	wait_until_counted($node);
	end_session($_) for $worker, $holder, $waiter;
	$other = session($node) if $n > 2;
	sql("SELECT pgq_unschedule('s$n'), pgq_drop_queue('$new', force => true), pgq_drop_queue('met$n-2', force => true)");
}

# ---- names that change hands ----

sql(q{SELECT pgq_create_queue(q), pgq_enqueue(q, to_jsonb(q)) FROM unnest('{a,b}'::text[]) q});
sql(q{SELECT pgq_schedule(q || '-daily', '@yearly', q) FROM unnest('{a,b}'::text[]) q});
ask($other, q{SELECT pgq_pause_queue(q), pgq_resume_queue(q) FROM unnest('{a,b}'::text[]) q});
ask($other, q{BEGIN; SELECT pgq_rename_queue('a', 'x'); SELECT pgq_rename_queue('b', 'a'); SELECT pgq_rename_queue('x', 'b')});
is(ask($other, q{SELECT pgq_enqueue('a', '"to the new a"') > 0}), 't', 'two names exchanged, in one transaction, which goes on with them');
ask($other, 'COMMIT');
is(sql(q{SELECT string_agg(payload #>> '{}', ',' ORDER BY job_id) FROM pgq_claim('a', 9)}), 'b,to the new a', '... each has the other one\'s jobs');
is(sql(q{SELECT string_agg(payload #>> '{}', ',' ORDER BY job_id) FROM pgq_claim('b', 9)}), 'a', '... both ways');
is(sql(q{SELECT string_agg(schedule || ':' || queue, ' ' ORDER BY schedule) FROM pgq_ext.schedule s}), 'a-daily:b b-daily:a', '... and schedules');
sql(q{BEGIN; SELECT pgq_rename_queue('a', 'c'), pgq_create_queue('a'), pgq_enqueue('a', '"new"'); COMMIT});
is(sql(q{SELECT payload FROM pgq_claim('a', wait => '30 s')}), '"new"', 'a name that is free is another queue\'s, in the same transaction');
sql(q{BEGIN; SELECT pgq_create_queue('d'), pgq_rename_queue('d', 'e'), pgq_enqueue('e', '1'); COMMIT});
is(sql(q{SELECT count(*) FROM pgq_claim('e')}), '1', 'one that was created in it has the new name');
sql(q{BEGIN; SELECT pgq_rename_queue('e', 'f'), pgq_drop_queue('f', force => true), pgq_create_queue('e'); COMMIT});
is(sql(q{SELECT count(*) FROM pgq_claim('e')}), '0', 'renamed, dropped and made anew');
sql(q{BEGIN; SELECT pgq_rename_queue('e', 'g'); SAVEPOINT s; SELECT pgq_rename_queue('g', 'h'); ROLLBACK TO s; COMMIT});
is(sql(q{SELECT count(pgq_enqueue('g', '1'))}), '1', 'the second of two undone: the first holds');
sql(q{SELECT pgq_rename_queue('g', 'g')});
is(sqlstate($node, q{SELECT pgq_rename_queue('g', 'a')}), '42710', 'a name that is taken');
is(sqlstate($node, q{UPDATE pgq_ext.queue SET queue = 'a' WHERE queue = 'g'}), '23505', '... by SQL');
is(sql(q{SELECT count(pgq_enqueue('g', '1'))}), '1', '... changes nothing');
check_ok('and all is right');

# ---- who waits for whom ----

sub waits
{
	my ($first, $second, $end) = @_;
	my $session = session($node);
	ask($other, "BEGIN; $first");
	my $pid = pid_of($session);
	send_sql($session, $second);
	wait_for($node, "cardinality(pg_blocking_pids($pid)) > 0");
	ask($other, $end);
	my ($out, $error) = reply($session);
	end_session($session);
	return "$out" . (($error // '') =~ /ERROR:  (.*)/ ? $1 : '');
}
is(waits(q{SELECT pgq_rename_queue('g', 'h')}, q{SELECT pgq_create_queue('h', if_not_exists => true)}, 'COMMIT'), 'f', 'who creates one of the new name waits');
is(waits(q{SELECT pgq_rename_queue('h', 'g')}, q{SELECT pgq_create_queue('g')}, 'ROLLBACK'), 't', '... and makes it, if that is undone');
is(waits(q{SELECT pgq_create_queue('i')}, q{SELECT pgq_rename_queue('h', 'i')}, 'COMMIT'), 'queue "i" already exists', 'who gives a name that is being taken');
is(waits(q{SELECT pgq_drop_queue('i')}, q{SELECT pgq_rename_queue('h', 'i')}, 'COMMIT'), '', '... or is becoming free');
is(waits(q{SELECT pgq_rename_queue('i', 'h')}, q{SELECT pgq_drop_queue('i')}, 'COMMIT'), 'queue "i" does not exist', 'who drops it');
is(waits(q{SELECT pgq_rename_queue('h', 'i')}, q{SELECT pgq_rename_queue('h', 'j')}, 'COMMIT'), 'queue "h" does not exist', 'who gives it another name');
is(waits(q{SELECT pgq_rename_queue('i', 'h')}, q{UPDATE pgq_ext.queue SET paused = true WHERE queue_id = (SELECT max(queue_id) FROM pgq_ext.queue)} =~ s/\(SELECT.*\)/(SELECT queue_id FROM pgq_ext.queue WHERE queue = 'i')/r, 'COMMIT'), '', 'who pauses it');
is(waits(q{SELECT pgq_pause_queue('h')}, q{SELECT pgq_rename_queue('h', 'k')}, 'COMMIT'), '', 'who renames one that is being paused');
is(waits(q{SELECT pgq_schedule('late', '@yearly', 'k')}, q{SELECT pgq_rename_queue('k', 'm')}, 'COMMIT'), '', 'who has made a schedule is waited for');
is(sql(q{SELECT queue FROM pgq_ext.schedule WHERE schedule = 'late'}), 'm', '... it follows');
is(waits(q{SELECT pgq_rename_queue('m', 'k')}, q{SELECT pgq_schedule('later', '@yearly', 'm')}, 'COMMIT'), 'queue "m" does not exist', '... and who makes one waits');
ask($other, q{BEGIN; SELECT pgq_enqueue('k', '1')});
is(sqlstate($node, q{SET lock_timeout = '60 s'; SELECT pgq_rename_queue('k', 'l')}), '', 'who enqueues is not waited for');
ask($other, 'COMMIT');
is(sql(q{SELECT ready FROM pgq_ext.queue_status WHERE queue = 'l'}), '3', '... and the job is there');

# ---- rights ----

sql(q{CREATE ROLE chief; CREATE ROLE eve; GRANT EXECUTE ON FUNCTION pgq_rename_queue, pgq_pause_queue TO chief, eve; SELECT pgq_grant('l', 'chief', '{admin}')});
is(sqlstate($node, q{SET ROLE eve; SELECT pgq_rename_queue('l', 'm')}), '42501', 'not without the right');
is(sql(q{SET ROLE chief; SELECT pgq_rename_queue('l', 'm'), pgq_pause_queue('m')}), '|', 'with it, which stays');
is(sqlstate($node, q{SET ROLE eve; SELECT pgq_pause_queue('m')}), '42501', '... and for nobody else');
is(sqlstate($node, q{SET default_transaction_read_only = on; SELECT pgq_rename_queue('m', 'n')}), '25006', 'not read-only');

# ---- all at once: a job that was committed is in the queue ----

sql(q{SELECT pgq_create_queue('one'), pgq_create_queue('two')});
my $try = q{DO $$ BEGIN PERFORM %s; EXCEPTION WHEN undefined_object OR duplicate_object OR deadlock_detected THEN NULL; END $$;};
$node->pgbench('-n -c 8 -j 2 -t 60', 0, [qr/processed: (\d+)\/\1\b/], [qr/^(?!.*(?:ERROR|aborted))/s], 'renames there and back, enqueues and claims', {
	'112_there@1' => sprintf($try, q{pgq_rename_queue('one', 'uno')}),
	'112_back@1'  => sprintf($try, q{pgq_rename_queue('uno', 'one')}),
	'112_swap@1'  => sprintf($try, q{pgq_rename_queue('one', 'x'), pgq_rename_queue('two', 'one'), pgq_rename_queue('x', 'two')}),
	'112_add@4'   => sprintf($try, q{pgq_enqueue((ARRAY['one', 'two', 'uno'])[1 + (random() * 2)::int], '1')}),
	'112_work@4'  => sprintf($try, q{pgq_ack(job_id, lease) FROM pgq_claim((ARRAY['one', 'two', 'uno'])[1 + (random() * 2)::int])}) });
is(sql(q{SELECT count(*) FROM pgq_ext.stat_entries() s JOIN pgq_ext.queue q USING (queue_id) WHERE q.queue IN ('one', 'two', 'uno') AND s.loaded_at < now() AND s.lost = 0}), '2', '... no lease was lost');
check_ok('and all is right');

end_session($other);
done_testing();
