# The extension pgmq across sessions: what a rollback, a lost session, a prepared transaction, a crash and a dump do to messages that
# are being read; reads that wait; groups; and reads when all leases are in use.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "max_prepared_transactions = 2\npgq_ext.max_leases = 64\n");
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }

sql('CREATE EXTENSION pgmq CASCADE');
like((sqlstate($node, 'SELECT pgq_set_shard(1)'))[1], qr/55000.*with the extension pgmq cannot have a shard number/s, 'no shard number beside pgmq: ids with one would meet those of messages');
my ($one, $two) = map { session($node) } 1 .. 2;

# The messages that this session reads, as "msg_id:read_ct".
sub reads { my ($session, $call) = @_; return (ask($session, "SELECT coalesce(string_agg(msg_id || ':' || read_ct, ' ' ORDER BY msg_id), '-') FROM $call"))[0] }
sub new_queue { my ($name, $messages) = @_; sql("SELECT pgmq.create('$name')"); sql("SELECT count(*) FROM pgmq.send_batch('$name', array_fill('{}'::jsonb, ARRAY[$messages]))") if $messages }

# ---- undone reads ----

new_queue('undo', 2);
ask($one, 'BEGIN');
is(reads($one, q{pgmq.read('undo', 60, 1)}), '1:1', 'a read');
is(reads($two, q{pgmq.read('undo', 60, 1)}), '2:1', 'another session gets the next message');
ask($one, 'ROLLBACK');
is(reads($two, q{pgmq.read('undo', 60, 1)}), '1:1', 'a message is there at once after a rollback, and the read does not count');
is(sql(q{SELECT lost, uncounted FROM pgq_ext.queue_stats WHERE queue = 'pgmq.undo'}), '0|1', 'nothing is lost');

sql(q{SELECT pgmq.set_vt('undo', 1, 0)});
ask($one, 'BEGIN');
is(reads($one, q{pgmq.read('undo', 60, 1)}), '1:2', 'a read of a session');
kill_client($one);
wait_for($node, q{NOT EXISTS (SELECT FROM pgq_ext.lease WHERE queue = 'pgmq.undo' AND in_transaction)});
is(reads($two, q{pgmq.read('undo', 60, 1)}), '1:2', '... that was lost');

# A transaction that ends the message while the read is open: the read is undone as any other claim.
sql(q{SELECT pgmq.set_vt('undo', 1, 0)});
$one = session($node);
ask($one, 'BEGIN');
is(reads($one, q{pgmq.read('undo', 60, 1)}), '1:3', 'a read');
ask($two, 'BEGIN');
is((ask($two, q{SELECT pgmq.delete('undo', 1)}))[0], 't', '... of a message that another session deletes');
ask($one, 'ROLLBACK');
is((ask($two, q{SELECT count(*) FROM pgmq.q_undo WHERE msg_id = 1}))[0], '0', 'it is gone for that session');
ask($two, 'ROLLBACK');
wait_for($node, q{(SELECT vt <= clock_timestamp() FROM pgmq.q_undo WHERE msg_id = 1)});
wait_for($node, q{EXISTS (SELECT FROM pgmq.read('undo', 60, 1))});

# ---- two sessions, one message ----

new_queue('both', 3);
ask($one, 'BEGIN');
is((ask($one, q{SELECT pgmq.delete('both', 1)}))[0], 't', 'a delete');
send_sql($two, q{SELECT pgmq.delete('both', 1)});
wait_for($node, q{EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%pgmq.delete%' AND pid <> pg_backend_pid())});
ask($one, 'COMMIT');
is((reply($two))[0], 'f', '... makes a second one wait, which finds nothing');
is(reads($one, q{pgmq.read('both', 60, 1)}), '2:1', 'a read');
ask($one, 'BEGIN');
ask($one, q{SELECT pgmq.set_vt('both', 2, 0)});
is(reads($two, q{pgmq.read('both', 60, 2)}), '3:1', 'set_vt is not seen before its commit');
ask($one, 'COMMIT');
is(reads($two, q{pgmq.read('both', 60, 2)}), '2:2', '... and at once after it');

# ---- waiting ----

new_queue('poll', 0);
send_sql($one, q{SELECT msg_id FROM pgmq.read_with_poll('poll', 60, 1, 600, 100)});
wait_for($node, q{(SELECT waiting_claims FROM pgq_ext.queue_status WHERE queue = 'pgmq.poll') = 1});
sql(q{SELECT pgmq.send('poll', '1')});
is((reply($one))[0], '1', 'a send ends the wait of a read');
is(reads($one, q{pgmq.read_with_poll('poll', 60, 1, 0)}), '-', 'no time to wait');
send_sql($one, q{SELECT msg_id FROM pgmq.read_with_poll('poll', 60, 1, 600, 10, '{"a": 1}')});
sql(q{SELECT pgmq.send('poll', '{"a": 2}'), pgmq.send('poll', '{"a": 1}')});
is((reply($one))[0], '3', 'a read with a condition looks again');

# ---- notifications ----

new_queue('Tell', 0);
my $listener = session($node);
ask($listener, 'LISTEN "pgmq.q_Tell.INSERT"');
# The names of the channels that the session has been told of, when it has been told of one.
sub told
{
	my ($told) = ('');
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$told .= join '', ask($listener, 'SELECT pg_sleep(0.01)');
		last if $told =~ /Asynchronous notification "([^"]*)"/;
	}
	return $told =~ /Asynchronous notification "([^"]*)"/ ? $1 : '';
}
sql(q{SELECT pgmq.enable_notify_insert('Tell', 3600000)});
sql(q{SELECT pgmq.send('tell', '1')});
is(told(), 'pgmq.q_Tell.INSERT', 'a send notifies listeners, whatever the case of the name');
sql(q{SELECT pgmq.send('tell', '2')});
is((ask($listener, 'SELECT pg_sleep(0.01)'))[1] // '', '', '... but not again within the interval');
sql(q{SELECT pgmq.update_notify_insert('Tell', 0)});
sql(q{INSERT INTO pgmq.q_tell (vt, message) VALUES (now(), '3')});
is(told(), 'pgmq.q_Tell.INSERT', '... as does an INSERT into the view');

# ---- groups ----

sql(q{SELECT pgmq.create('groups')});
sql(q{SELECT pgmq.send('groups', '1', jsonb_build_object('x-pgmq-group', g)) FROM unnest('{a,a,b,a,b}'::text[]) g});
ask($one, 'BEGIN');
is(reads($one, q{pgmq.read_grouped('groups', 60, 2)}), '1:1 2:1', 'messages of a group');
is(reads($two, q{pgmq.read_grouped('groups', 60, 5)}), '3:1 5:1', 'another session gets other groups only');
ask($one, 'COMMIT');
is(reads($two, q{pgmq.read_grouped('groups', 60, 5)}), '-', 'the group waits for the messages that are being read');
ask($one, q{SELECT pgmq.delete('groups', '{1,2}'::bigint[])});
is(reads($two, q{pgmq.read_grouped('groups', 60, 5)}), '4:1', '... and goes on after them');

# ---- no lease is left ----

new_queue('many', 300);
sql(q{SELECT count(*) FROM pgmq.read('many', 600, 200)});
is(sql(q{SELECT count(*) FROM pgmq.q_many WHERE vt > clock_timestamp() AND read_ct = 1}), '200', 'more messages are being read than there are leases');
is(reads($two, q{pgmq.read('many', 600, 1)}), '201:1', 'the next message');
is(sql(q{SELECT count(*) FROM pgmq.delete('many', ARRAY(SELECT generate_series(1, 150)::bigint))}), '150', 'messages with and without leases are deleted');
is(sql(q{SELECT count(*) FROM pgmq.pop('many', 1000)}), '99', 'the rest');
sql(q{SELECT pgmq.purge_queue('many')});
is(sql(q{SELECT count(*) FROM pgmq.q_many}), '0', 'nothing is left');

# ---- prepared transactions, a crash ----

new_queue('late', 2);
ask($one, 'BEGIN');
is(reads($one, q{pgmq.read('late', 600, 1)}), '1:1', 'a read');
ask($one, q{PREPARE TRANSACTION 'undone'});
sql(q{ROLLBACK PREPARED 'undone'});
wait_for($node, q{(SELECT read_ct = 0 AND vt <= clock_timestamp() FROM pgmq.q_late WHERE msg_id = 1)});
is(sql(q{SELECT lost, uncounted FROM pgq_ext.queue_stats WHERE queue = 'pgmq.late'}), '0|1', '... that was prepared and rolled back never happened');
ask($one, 'BEGIN');
is(reads($one, q{pgmq.read('late', 600, 1)}), '1:1', 'a read');
ask($one, q{SELECT pgmq.send('late', '"prepared"')});
ask($one, q{PREPARE TRANSACTION 'p'});
is(reads($two, q{pgmq.read('late', 600, 5)}), '2:1', '... that is prepared');
sql(q{COMMIT PREPARED 'p'});
wait_for($node, q{EXISTS (SELECT FROM pgmq.read('late', 600, 1))});
is(sql(q{SELECT string_agg(msg_id || ':' || read_ct, ' ' ORDER BY msg_id) FROM pgmq.q_late}), '1:1 2:1 3:1', '... and committed');
end_session($_) for $one, $two;
$node->stop('immediate');
$node->start;
wait_for($node, q{(SELECT string_agg(msg_id || ':' || read_ct, ' ' ORDER BY msg_id) = '1:0 2:0 3:0' FROM pgmq.q_late WHERE vt <= clock_timestamp())});
is(sql(q{SELECT string_agg(msg_id::text, ' ' ORDER BY msg_id) FROM pgmq.read('late', 600, 5)}), '1 2 3', 'a crash ends all leases, and counts no read');

# ---- slots of queues ----

# When the numbers of slots begin anew, the first ones belong to other queues.
sql(q{SELECT setval('pgmq.next_slot', 1, false)});
is(sql(q{BEGIN; DO $$ BEGIN PERFORM pgmq.create('slot'); END $$; SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
	AND classid = 'pgmq.queue_slot'::regclass AND objid > 0 AND pid = pg_backend_pid(); ROLLBACK}), '1', 'a new queue locks its own slot only');

# ---- a dump ----

sql(q{SELECT pgmq.bind_topic('a.#', 'late'), pgmq.archive('late', 1)});
sql('CREATE DATABASE copy');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'a dump');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('copy'), '-f', $dump ], '... is restored');
is(sql(q{SELECT string_agg(msg_id::text, ' ' ORDER BY msg_id) FROM pgmq.q_late}, 'copy'), '2 3', '... with the messages');
is(sql(q{SELECT pgmq.send('late', '1') > 3, pgmq.send_topic('a.b', '1'), (SELECT count(*) FROM pgmq.a_late)}, 'copy'), 't|1|1', '... the sequence, the topics and the archive');
wait_for($node, q{EXISTS (SELECT FROM pgmq.read('late', 600, 1))}, 'copy');
is(sql('SELECT pgq_check()'), '', 'memory and rows agree');
is(sql('SELECT pgq_check()', 'copy'), '', '... in both databases');

done_testing();
