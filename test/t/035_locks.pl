# Every wait of a session for another is seen by the server's deadlock detector, and a session that is not part of a
# deadlock is never cancelled for it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

# Segments do not rotate away under the test; one claim empties the window.
my $node = pgq_node('main', conf => "deadlock_timeout = '100 ms'\npgq_ext.segment_size = '1 GB'\npgq_ext.segment_dead_rows = 0\npgq_ext.window_size = 64");
wait_for_scheduler($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# The session waits for a heavyweight lock.
sub wait_until_blocked
{
	my ($pid) = @_;
	wait_for($node, "EXISTS (SELECT FROM pg_locks WHERE pid = $pid AND NOT granted)");
	return;
}

# ---- a claim and somebody who locks all segments, in their order ----

{
	create_queue($node, 'dl');
	my ($holder, $locker, $claimer) = map { session($node) } 1 .. 3;
	ask($claimer, "SELECT count(*) FROM pgq_claim('dl')");    # knows the tables
	# The hint that comes first leads to the higher segment.
	my $high = sql("SELECT pgq_enqueue('dl', '1', priority => 3)");
	sql("SELECT pgq_enqueue('dl', '1') FROM generate_series(1, 2)");
	sql("UPDATE pgq_ext.job SET segment = 5 WHERE job_id = $high");
	my ($claimer_pid, $locker_pid) = map { pid_of($_) } $claimer, $locker;

	for my $case ('a chunk', 'a look-up by id')
	{
		# Another place than the hint says: looked for in all segments, when two of them are locked.
		sql('VACUUM FULL pgq_ext.job_5') if $case eq 'a look-up by id';
		ask($holder, 'BEGIN');
		ask($holder, 'SELECT 1 FROM pgq_ext.job_3');
		send_sql($locker, 'BEGIN; LOCK TABLE pgq_ext.job IN ACCESS EXCLUSIVE MODE; ROLLBACK');
		wait_until_blocked($locker_pid);
		send_sql($claimer, "BEGIN; SELECT count(*) FROM pgq_claim('dl', 3)");
		wait_until_blocked($claimer_pid);
		ask($holder, 'ROLLBACK');
		my ($count, $error) = reply($claimer);
		is($count, 3, "$case: the claim waits for who locks all segments, and gets its jobs");
		is($error, '', "$case: it is not the victim of a deadlock");
		my (undef, $locker_error) = reply($locker);
		is($locker_error, '', "$case: nor is the other one");
		# Back as they were.
		ask($claimer, 'ROLLBACK');
		wait_for($node, "count(*) = 0 FROM pgq_ext.lease_entries()");
		sql("UPDATE pgq_ext.job SET run_at = enqueued_at, attempts = 0");
	}
	end_session($_) for $holder, $locker, $claimer;
	sql("SELECT pgq_drop_queue('dl', force => true)");
}

# ---- a refill that waits for somebody who waits for who waits for the refill ----

{
	create_queue($node, 'l');
	sql('CREATE TABLE account (id int PRIMARY KEY, v int)');
	sql('INSERT INTO account VALUES (1, 0)');
	sql("SELECT count(pgq_enqueue('l', '1')) FROM generate_series(1, 1000)");
	my @refillers = map { session($node) } 1 .. 4;
	my ($business, $producer, $vacuum) = map { session($node) } 1 .. 3;
	my @pids = map { pid_of($_) } @refillers;
	ask($_, "SELECT count(*) FROM pgq_claim('l')") for @refillers, $business;
	# Nobody reads ahead for them.
	my $gate = session($node);
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	sql("ALTER SYSTEM SET pgq_ext.stop_point = 'reap'");
	sql('SELECT pg_reload_conf()');
	create_queue($node, 'poison');
	sql("SELECT pgq_enqueue('poison', '1')");
	sql("BEGIN; SELECT pgq_claim('poison'); ROLLBACK");
	my $scheduler = scheduler_pid($node);
	wait_for($node, "EXISTS (SELECT FROM pg_locks WHERE pid = $scheduler AND NOT granted)");
	sql('ALTER SYSTEM RESET pgq_ext.stop_point');
	sql('SELECT pg_reload_conf()');

	my $segment = sql("SELECT relation FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass");
	my ($producer_pid, $vacuum_pid, $business_pid) = map { pid_of($_) } $producer, $vacuum, $business;
	ask($business, 'BEGIN; UPDATE account SET v = v + 1 WHERE id = 1');
	send_sql($producer, "BEGIN; SELECT pgq_enqueue('l', '1'); UPDATE account SET v = v + 1 WHERE id = 1; COMMIT");
	wait_until_blocked($producer_pid);
	send_sql($vacuum, "VACUUM FULL $segment");
	wait_until_blocked($vacuum_pid);
	# One has emptied the window and waits to look at the rows, behind the VACUUM; another one waits to refill it.
	for (0 .. $#refillers)
	{
		send_sql($refillers[$_], "SELECT count(*) FROM pgq_claim('l', 100)");
		wait_until_blocked($pids[$_]);
	}
	my ($got) = ask($business, "SELECT count(*) FROM pgq_claim('l', 10)");
	is($got, 10, 'a claim waits for a refill that waits for it: the server finds a way out');
	ask($business, 'COMMIT');
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	reply($_) for @refillers, $producer, $vacuum;
	pass('and all others go on');
	end_session($_) for @refillers, $business, $producer, $vacuum, $gate;
}

# ---- a queue is dropped while others write to others ----

{
	my ($producer, $dropper) = map { session($node) } 1 .. 2;
	my ($producer_pid, $dropper_pid) = map { pid_of($_) } $producer, $dropper;
	create_queue($node, $_) for 'k1', 'k2';

	# Who has written to another queue is not waited for, and so not in a circle with the dropper.
	ask($producer, 'BEGIN');
	ask($producer, "SELECT pgq_enqueue('k1', '1')");
	ask($dropper, 'BEGIN');
	is(ask($dropper, "SELECT pgq_drop_queue('k2', force => true)"), 't', 'a queue is dropped beside a producer of another one');
	send_sql($producer, "SELECT pgq_enqueue('k2', '1')");
	wait_until_blocked($producer_pid);
	ask($dropper, 'COMMIT');
	like((reply($producer))[1], qr/queue "k2" does not exist/, '... who learns that it is gone');
	ask($producer, 'ROLLBACK');

	# Whoever has written to it is waited for, by whatever door, prepared too; then nothing is left without a queue.
	my %doors = (
		'pgq_enqueue' => q{SELECT pgq_enqueue('k2', '1')},
		'INSERT'      => q{INSERT INTO pgq_ext.job (queue_id, payload) SELECT queue_id, '1' FROM pgq_ext.queue WHERE queue = 'k2'},
		'UPDATE'      => q{UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'k2') WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'k1')},
		'pgq_ack'     => q{SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE queue = 'k2'},
		'pgq_fail'    => q{SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_ext.lease WHERE queue = 'k2'});
	for my $door (sort keys %doors)
	{
		for my $end ('COMMIT', 'ROLLBACK', "PREPARE TRANSACTION 'p'")
		{
			create_queue($node, 'k2');
			sql("SELECT pgq_enqueue('k1', '1'), pgq_enqueue('k2', '1')");
			sql("SELECT job_id FROM pgq_claim('k2')") if $door =~ /pgq_(ack|fail)/;
			ask($producer, 'BEGIN');
			ask($producer, $doors{$door});
			ask($producer, $end) if $end =~ /PREPARE/;
			send_sql($dropper, "SELECT pgq_drop_queue('k2', force => true)");
			wait_until_blocked($dropper_pid);
			ask($producer, $end =~ /PREPARE/ ? "COMMIT PREPARED 'p'" : $end);
			is(join('', reply($dropper)), 't', "$door, $end: the dropper waits, and drops the queue");
			is(sql(q{SELECT (SELECT count(*) FROM pgq_ext.job j WHERE NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = j.queue_id))
				+ (SELECT count(*) FROM pgq_ext.dead_job j WHERE NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = j.queue_id))}),
				0, '... and all that was in it');
		}
	}

	# What is undone to a savepoint is not waited for.
	create_queue($node, 'k2');
	ask($producer, 'BEGIN');
	ask($producer, 'SAVEPOINT s');
	ask($producer, $doors{'pgq_enqueue'});
	ask($producer, 'ROLLBACK TO s');
	is(ask($dropper, "SELECT pgq_drop_queue('k2')"), 't', 'who has undone it is not waited for');
	ask($producer, 'COMMIT');
	is(sql('SELECT * FROM pgq_check()'), '', 'nothing is wrong afterwards');
	end_session($_) for $producer, $dropper;
}

done_testing();
