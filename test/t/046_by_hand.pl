# Checks of rows that SQL statements write directly, under pressure: sessions that drop and write at the same time,
# transactions that are prepared or whose session dies, a role that may only write the tables.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\ndeadlock_timeout = '20 ms'\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
create_queue($node, 'q');
my $session = session($node);

# ---- ends of a transaction that deletes a queue ----

like((ask($session, q{BEGIN; DELETE FROM pgq_ext.queue; PREPARE TRANSACTION 'p'}))[1], qr/cannot PREPARE/, 'a transaction that has deleted a queue is not prepared');
is(sql(q{SELECT count(pgq_enqueue('q', '1'))}), '1', '... and the queue goes on');
sql(q{SELECT pgq_purge_queue('q')});

ask($session, 'BEGIN; DELETE FROM pgq_ext.queue');
my $pid = pid_of($session);
my $other = session($node);
send_sql($other, q{SELECT count(pgq_enqueue('q', '2'))});
wait_for($node, "count(*) = 1 FROM pg_stat_activity WHERE $pid = ANY (pg_blocking_pids(pid))");
sql("SELECT pg_terminate_backend($pid)");
is(reply($other), '1', 'a session dies that has deleted a queue: who enqueues goes on');
is(sql(q{SELECT payload FROM pgq_claim('q')}), '2', '... and the job is handed out');
end_session($_) for $session, $other;
sql(q{SELECT pgq_drop_queue('q', force => true)});

# ---- a role that may write, not call ----

sql(q{SELECT pgq_create_queue('q'); CREATE ROLE writer;
	GRANT USAGE ON SCHEMA pgq_ext TO writer; GRANT SELECT, UPDATE, DELETE ON pgq_ext.queue TO writer;
	GRANT INSERT ON pgq_ext.job TO writer; GRANT USAGE ON SEQUENCE pgq_ext.job_id_seq TO writer});
my %state = (
	q{UPDATE pgq_ext.queue SET lease_time = '1 min'}                                         => '',
	q{UPDATE pgq_ext.queue SET lease_time = '-1 s'}                                          => '22023',
	q{UPDATE pgq_ext.queue SET queue = 'two words'}                                          => '22023',
	q{INSERT INTO pgq_ext.job (queue_id, payload) VALUES (0, '1')}                           => '23503',
	q{INSERT INTO pgq_ext.job (queue_id, payload) SELECT queue_id, '1' FROM pgq_ext.queue}   => '',
	q{DROP TABLE pgq_ext.job_0}                                                              => '2BP01');
is(sqlstate($node, "SET ROLE writer; $_"), $state{$_}, "by a role without more rights: $_") for sort keys %state;
is(sqlstate($node, 'SET ROLE writer; DELETE FROM pgq_ext.queue'), '55006', '... DELETE FROM pgq_ext.queue');
sql(q{SELECT pgq_purge_queue('q')});
is(sqlstate($node, 'SET ROLE writer; DELETE FROM pgq_ext.queue'), '', '... of an empty one');

# ---- all at once ----

# Whatever fails is refused for a reason: the queue is not there or not empty, or a deadlock was found.
my $try = q{DO $$ BEGIN %s; EXCEPTION
	WHEN foreign_key_violation OR undefined_object OR object_in_use OR deadlock_detected OR serialization_failure THEN NULL; END $$;};
# A job whose queue goes between its claim and its ack is nobody's any more.
(my $try_ack = $try) =~ s/serialization_failure/serialization_failure OR SQLSTATE 'PQ001'/;
my $written = sprintf $try, q{INSERT INTO pgq_ext.job (queue_id, payload) SELECT queue_id, '1' FROM pgq_ext.queue};
$node->pgbench('-n -c 6 -j 2 -t 60', 0, [qr/processed: (\d+)\/\1\b/], [qr/^(?!.*(?:ERROR|aborted))/s], 'writers by SQL, droppers by hand and by the function', {
	'46_insert@4' => $written,
	'46_keep@2'   => "BEGIN; $written SELECT 1; COMMIT;",
	'46_move@1'   => sprintf($try, q{UPDATE pgq_ext.job SET queue_id = (SELECT max(queue_id) FROM pgq_ext.queue)}),
	'46_enqueue@2' => sprintf($try, q{PERFORM pgq_enqueue(queue, '1') FROM pgq_ext.queue}),
	'46_ack@2'    => sprintf($try_ack, q{PERFORM pgq_ack(job_id, lease) FROM pgq_ext.queue, pgq_claim(queue)}),
	'46_create@2' => sprintf($try, q{PERFORM pgq_create_queue('q' || i, if_not_exists => true) FROM generate_series(1, 3) i}),
	'46_delete@1' => sprintf($try, q{DELETE FROM pgq_ext.queue}),
	'46_drop@1'   => sprintf($try, q{PERFORM pgq_drop_queue(queue, true, true) FROM pgq_ext.queue}),
});
is(sql(q{SELECT count(*) FROM pgq_ext.job WHERE queue_id NOT IN (SELECT queue_id FROM pgq_ext.queue)}), '0', 'no job is left without a queue');
is(sql('SELECT * FROM pgq_check()'), '', '... all is well');

$node->stop;
done_testing();
