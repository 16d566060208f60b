# A read that writes finds a message; then the scheduler moves the message to another segment, or another session reads, changes or
# deletes it, before the read locks it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = rotating_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql('CREATE EXTENSION pgmq');
sql(q{SELECT pgmq.create('q')});
my ($gate, $reader) = map { session($node) } 1 .. 2;
ask($reader, q{SET pgq_ext.stop_point = 'messages-found'});

# Sends the call, and waits until it has found messages.
sub find
{
	my ($call) = @_;
	ask($gate, 'SELECT pg_advisory_lock(7366513, 0)');
	send_sql($reader, "SELECT message FROM pgmq.$call");
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 7366513 AND NOT granted});
	return;
}

# Lets it lock them, and returns its answer.
sub lock_found
{
	ask($gate, 'SELECT pg_advisory_unlock(7366513, 0)');
	my ($out, $error) = reply($reader);
	return $out . $error;
}

for my $call (q{read('q', 0, 2)}, q{read('q', 60, 2, '{"n": 1}')})
{
	my $n = fresh_segment($node, 250);
	sql(q{SELECT pgmq.purge_queue('q'); SELECT pgmq.send_batch('q', ARRAY['{"n": 1, "i": 1}', '{"n": 1, "i": 2}']::jsonb[])});
	find($call);
	close_segment($node, $n);
	wait_for($node, qq{count(*) = 2 $other_jobs AND segment <> $n});
	is(lock_found(), qq({"i": 1, "n": 1}\n{"i": 2, "n": 1}), "$call gets messages that are moved after it has found them");
}

# After one message was read, deleted, put off or changed, the read looks for another one.
my %changes = (
	'deleted'              => q{SELECT pgmq.delete('q', min(msg_id)) FROM pgmq.q_q},
	'read'                 => q{SELECT count(*) FROM pgmq.read('q', 60, 1)},
	'put off'              => q{SELECT pgmq.set_vt('q', min(msg_id), 60) FROM pgmq.q_q},
	'of another condition' => q{UPDATE pgmq.q_q SET message = '{"n": 2}' WHERE message @> '{"i": 1}'});
for my $what (sort keys %changes)
{
	sql(q{SELECT pgmq.purge_queue('q'); SELECT pgmq.send_batch('q', ARRAY['{"n": 1, "i": 1}', '{"n": 1, "i": 2}']::jsonb[])});
	find(q{read('q', 60, 1, '{"n": 1}')});
	sql($changes{$what});
	is(lock_found(), '{"i": 2, "n": 1}', "a message that is $what after it was found is passed over");
}
sql(q{SELECT pgmq.purge_queue('q'); SELECT pgmq.send('q', '{"n": 1}')});
find(q{read('q', 60, 1, '{"n": 1}')});
sql(q{UPDATE pgmq.q_q SET message = '{"n": 2}'});
is(lock_found(), '', 'a message that does not meet the condition any more is passed over');
find(q{read('q', 60, 1, '{"n": 2}')});
my $other = session($node);
ask($other, 'BEGIN; SELECT FROM pgq_ext.job WHERE payload @> \'{"n": 2}\' FOR UPDATE');
is(lock_found(), '', 'so is one whose row is locked');
ask($other, 'ROLLBACK');
find(q{read('q', 60, 1, '{"n": 2}')});
is(lock_found(), '{"n": 2}', '... until it is not');
is(sql('SELECT pgq_check()'), '', 'memory and rows agree');
end_session($_) for $gate, $reader, $other;
done_testing();
