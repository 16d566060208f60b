# No message is handed out twice while its vt runs, by whatever mixture of reads: sessions read, read by condition and by groups,
# wait and pop at the same time. And reads write no WAL.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "autovacuum = off\nfsync = off\npgq_ext.max_leases = 1024\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql('CREATE EXTENSION pgmq CASCADE');

# ---- no message is read twice ----

my $messages = 3000;
sql(qq{SELECT pgmq.create('q');
	SELECT count(*) FROM pgmq.send_batch('q', ARRAY(SELECT jsonb_build_object('n', i % 5) FROM generate_series(1, $messages) i),
		ARRAY(SELECT CASE WHEN i % 3 > 0 THEN jsonb_build_object('x-pgmq-group', 'g' || i % 40) END FROM generate_series(1, $messages) i));
	CREATE TABLE seen (msg_id bigint, read_ct integer, way text)});
# Each way: a call that returns some messages. Longer than the test, so what is returned must never be returned again.
my %ways = (
	read => q{pgmq.read('q', 100000, 3)}, condition => q{pgmq.read('q', 100000, 3, '{"n": 2}')}, longer => q{pgmq.read('q', 1000000, 2)}, groups => q{pgmq.read_grouped('q', 100000, 3)}, rounds => q{pgmq.read_grouped_rr('q', 100000, 3)},
	heads => q{pgmq.read_grouped_head('q', 100000, 3)}, poll => q{pgmq.read_with_poll('q', 100000, 3, 1)}, pop => q{pgmq.pop('q', 2)});
my @order = qw(read condition groups poll pop longer heads read rounds);
# A session takes the ways in turn, each in a transaction of its own, some of which are rolled back.
my @sessions = map { session($node) } 1 .. 6;
sub block
{
	my ($first) = @_;
	my $turn = join ' ', map { my $way = $order[ ($first + $_) % @order ]; "INSERT INTO seen SELECT msg_id, read_ct, '$way' FROM $ways{$way}; IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;" } 0 .. $#order;
	return "DO \$\$ BEGIN FOR i IN 1 .. 15 LOOP $turn END LOOP; END \$\$";
}
send_sql($sessions[$_], block($_)) for 0 .. $#sessions;
my $errors = join '', map { (reply($_))[1] } @sessions;
is($errors, '', 'all reads succeed');
# The rest, which a group kept back while its first message was being read.
send_sql($_, q{DO $$ BEGIN LOOP INSERT INTO seen SELECT msg_id, read_ct, 'rest' FROM pgmq.read('q', 100000, 7); EXIT WHEN NOT FOUND; COMMIT; END LOOP; END $$}) for @sessions;
$errors = join '', map { (reply($_))[1] } @sessions;
is($errors, '', '... of the rest, too');
sql(q{INSERT INTO seen SELECT msg_id, read_ct, 'rest' FROM pgmq.read('q', 100000, 10000)});
is(sql('SELECT count(*) - count(DISTINCT msg_id) FROM seen'), '0', 'no message was handed out twice');
is(sql('SELECT count(DISTINCT msg_id) FROM seen'), $messages, '... and each one was handed out');
is(sql(q{SELECT count(*) FROM seen WHERE way <> 'pop' AND read_ct <> 1}), '0', '... in its first read');
cmp_ok(sql(q{SELECT count(DISTINCT way) FROM seen}), '>=', 6, '... by all ways');
note sql('SELECT way, count(*) FROM seen GROUP BY 1 ORDER BY 1');
is(sql(q{SELECT count(*) FROM pgmq.q_q} ) + sql(q{SELECT count(*) FROM seen WHERE way = 'pop'}), $messages, 'none is lost');
is(sql('SELECT pgq_check()'), '', 'memory and rows agree');
end_session($_) for @sessions;

# ---- a read that writes looks again, under the lease ----

# A read by groups stops after it has found the message free. Another call takes the message; then the read goes on.
sql(q{SELECT pgmq.create('race')});
my ($gate, $first, $second) = map { session($node) } 1 .. 3;
for my $other (q{read('race', 60, 1, '{"n": 1}')}, q{read('race', 60, 1)}, q{pop('race')})
{
	sql(q{SELECT pgmq.purge_queue('race'); SELECT pgmq.send('race', '{"n": 1}')});
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	ask($first, q{SET pgq_ext.stop_point = 'take-message'});
	send_sql($first, q{SELECT count(*) FROM pgmq.read_grouped('race', 60, 1)});
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted});
	ask($second, 'BEGIN');
	is((ask($second, "SELECT count(*) FROM pgmq.$other"))[0], '1', "$other takes a message that a read is about to write");
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	# The read waits at the row or at the lease that the other transaction has written.
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'read_grouped' AND pid <> pg_backend_pid()}) if $other =~ /"n"/;
	ask($second, 'COMMIT');
	is((reply($first))[0], '0', '... and the read does not get it, too');
	ask($first, 'RESET pgq_ext.stop_point');
}
end_session($_) for $gate, $first, $second;

# ---- a wait for messages while all leases are in use ----

sql(q{SELECT pgmq.create('full'), pgmq.create('other'); SELECT count(*) FROM pgmq.send_batch('other', array_fill('1'::jsonb, ARRAY[5000]))});
my $left = sql(q{SELECT count(*) FROM pgmq.read('other', 3600, 5000)});
my $waiter = session($node);
send_sql($waiter, q{SELECT message FROM pgmq.read_with_poll('full', 60, 1, 600)});
wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE state = 'active' AND query ~ 'read_with_poll' AND wait_event IS NOT NULL AND pid <> pg_backend_pid()});
sql(q{SELECT pgmq.send('full', '"came"')});
is((reply($waiter))[0], '"came"', 'a message that comes while all leases are in use ends the wait');
send_sql($waiter, q{BEGIN; SELECT count(*) FROM pgmq.read_with_poll('full', 60, 1, 1)});
is((reply($waiter))[0], '0', '... and without a message the wait ends in time');
end_session($waiter);
sql(q{SELECT pgmq.purge_queue('other')});

# ---- a read writes no WAL ----

sql(q{SELECT pgmq.create('wal'), pgmq.create('none'); SELECT pgmq.purge_queue('q'); SELECT count(*) FROM pgmq.send_batch('wal', array_fill('{"a": 1}'::jsonb, ARRAY[900]))});
# The bytes that a statement adds to the WAL, at the least: others may write at the same time, such as the scheduler.
sub wal_of
{
	my ($call, $n) = @_;
	my $least;
	for my $try (1 .. 5)
	{
		my $bytes = sql(qq{SELECT pg_current_wal_insert_lsn() AS before \\gset
			DO \$\$ BEGIN FOR i IN 1 .. $n LOOP PERFORM $call; COMMIT; END LOOP; END \$\$;
			SELECT pg_current_wal_insert_lsn() - :'before'});
		$least = $bytes if !defined $least || $bytes < $least;
	}
	return $least;
}
is(wal_of(q{count(*) FROM pgmq.read('wal', 3600, 1)}, 100), '0', 'reads write no WAL');
is(sql(q{SELECT count(*) FROM pgmq.q_wal WHERE read_ct = 1}), '500', '... of as many messages');
is(wal_of(q{count(*) FROM pgmq.read('none', 3600, 1)}, 100), '0', '... nor do reads that find nothing');
is(wal_of(q{count(*) FROM pgmq.read_with_poll('none', 3600, 1, 0)}, 100), '0', '... or that might wait');
cmp_ok(wal_of(q{count(*) FROM pgmq.read('wal', 0, 1)}, 5), '>', 0, 'a read with vt 0 writes');

done_testing();
