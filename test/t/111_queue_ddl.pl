# Sessions that use a queue wait for a transaction that creates, drops or renames this queue, and other sessions do
# not.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "deadlock_timeout = '20 ms'\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my ($one, $two) = map { session($node) } 1 .. 2;

# Sent to the second session, which waits for the first one.
sub is_blocked
{
	my ($statement, $what) = @_;
	my $pid = pid_of($two);
	send_sql($two, $statement);
	wait_for($node, 'cardinality(pg_blocking_pids(' . $pid . ')) > 0');
	pass("waits: $what");
	return;
}

# Sent to it, and answered while the first one is open.
sub goes_on
{
	my ($statement, $answer) = @_;
	my ($out, $error) = ask($two, "SET lock_timeout = '60 s'; $statement");
	is("$out" . ($error // ''), $answer, "goes on: $statement");
	return;
}

# ---- the first queues, which come with the segments ----

ask($one, q{BEGIN; SELECT pgq_create_queue('first')});
is_blocked(q{SELECT pgq_create_queue('second')}, 'another first queue, for the segments');
ask($one, 'COMMIT');
is(reply($two), 't', '... and is made then');
is(sql(q{SELECT count(*) FROM pg_inherits WHERE inhparent = 'pgq_ext.job'::regclass}), '8', '... with segments that are there once');
sql(q{CREATE DATABASE other});
$node->safe_psql('other', 'CREATE EXTENSION pgq_ext');
my ($three, $four) = map { session($node, 'other') } 1 .. 2;
ask($three, q{BEGIN; SELECT pgq_create_queue('first')});
my $pid = pid_of($four);
send_sql($four, q{SELECT pgq_create_queue('second')});
wait_for($node, 'cardinality(pg_blocking_pids(' . $pid . ')) > 0');
ask($three, 'ROLLBACK');
is(reply($four), 't', 'undone: the next one makes the segments');
is($node->safe_psql('other', q{SELECT pgq_enqueue('second', '1') > 0, pgq_check()}), '', '... and all is right');
end_session($_) for $three, $four;

# ---- a creation that is open ----

sql(q{SELECT pgq_create_queue(q) FROM unnest('{mail,sms}'::text[]) q; CREATE ROLE nobody; GRANT EXECUTE ON FUNCTION pgq_drop_queue, pgq_create_queue TO nobody; SELECT pgq_grant('sms', 'postgres', '{admin}')});
my $others = sub {
	goes_on(q{SELECT pgq_pause_queue('mail')},                                        '');
	goes_on(q{SELECT pgq_resume_queue('mail')},                                       '');
	goes_on(q{SELECT pgq_alter_queue('mail', max_attempts => 3)},                     '');
	goes_on(q{UPDATE pgq_ext.queue SET max_attempts = 4 WHERE queue = 'mail'},        '');
	goes_on(q{SELECT pgq_create_queue('mail', if_not_exists => true)},                'f');
	goes_on(q{SELECT pgq_create_queue('push'), pgq_drop_queue('push')},               't|t');
	goes_on(q{SELECT pgq_drop_queue('nonsense', if_exists => true)},                  'f');
	goes_on(q{SELECT pgq_enqueue('mail', '1') > 0}, 't');
};
ask($one, q{BEGIN; SELECT pgq_create_queue('fresh')});
$others->();
goes_on(q{SELECT pgq_drop_queue('fresh', if_exists => true)}, 'f');
is_blocked(q{SELECT pgq_create_queue('fresh', if_not_exists => true)}, 'who wants the same name');
ask($one, 'COMMIT');
is(reply($two), 'f', '... and is told that it is there');
ask($one, q{BEGIN; SELECT pgq_create_queue('newer')});
is_blocked(q{SELECT pgq_create_queue('newer')}, 'the same without if_not_exists');
ask($one, 'COMMIT');
like((reply($two))[1], qr/queue "newer" already exists/, '... is error 42710');
ask($one, q{BEGIN; SELECT pgq_create_queue('undone')});
is_blocked(q{SELECT pgq_create_queue('undone', if_not_exists => true)}, 'who wants the name of one');
ask($one, 'ROLLBACK');
is(reply($two), 't', '... that is undone makes it');
ask($one, q{BEGIN; SAVEPOINT s; SELECT pgq_create_queue('undone2'); ROLLBACK TO s});
goes_on(q{SELECT pgq_create_queue('undone2')}, 't');
ask($one, 'COMMIT');

# By hand: the name is taken by the one who commits.
ask($one, q{BEGIN; INSERT INTO pgq_ext.queue (queue, lease_time, max_runtime, max_attempts, backoff_base, backoff_max, backoff_jitter, keep_dead, notify)
	VALUES ('hand', '1 min', '0', 1, '1 s', '1 s', 0, '1 day', false)});
is_blocked(q{SELECT pgq_create_queue('hand', if_not_exists => true)}, 'a row by hand');
ask($one, 'COMMIT');
is(reply($two), 'f', '... is the queue then');

# ---- a drop that is open ----

ask($one, q{BEGIN; SELECT pgq_drop_queue('fresh')});
$others->();
is_blocked(q{SELECT pgq_create_queue('fresh', if_not_exists => true)}, 'who wants the same queue');
ask($one, 'ROLLBACK');
is(reply($two), 'f', '... and is told that it is still there');
ask($one, q{BEGIN; SELECT pgq_drop_queue('fresh')});
is_blocked(q{SELECT pgq_create_queue('fresh', if_not_exists => true)}, 'the same');
ask($one, 'COMMIT');
is(reply($two), 't', '... or makes it anew');
for my $second (q{SELECT pgq_drop_queue('newer', if_exists => true)}, q{DELETE FROM pgq_ext.queue WHERE queue = 'newer'}, q{SELECT pgq_pause_queue('newer')})
{
	for my $first (q{SELECT pgq_drop_queue('newer')}, q{DELETE FROM pgq_ext.queue WHERE queue = 'newer'})
	{
		ask($one, "BEGIN; $first");
		is_blocked($second, "$first, then $second");
		ask($one, 'COMMIT');
		my ($out, $error) = reply($two);
		unlike($error // '', qr/deadlock/, '... without a deadlock');
		is(sql(q{SELECT count(*) FROM pgq_ext.queue WHERE queue = 'newer'}), '0', '... it is gone');
		is(sql(q{SELECT count(*) FROM pgq_ext.queue_entries() e WHERE NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = e.queue_id)}), '0', '... from memory, too');
		sql(q{SELECT pgq_create_queue('newer')});
	}
}
ask($one, q{BEGIN; SELECT pgq_drop_queue('newer')});
is_blocked('TRUNCATE pgq_ext.queue, pgq_ext.job, pgq_ext.dead_job, pgq_ext.attempt, pgq_ext.finished_job', 'TRUNCATE of all queues');
ask($one, 'COMMIT');
is((reply($two))[1] // '', '', '... without a deadlock');
sql(q{SELECT pgq_create_queue(q) FROM unnest('{mail,sms}'::text[]) q; SELECT pgq_grant('sms', 'postgres', '{admin}')});

# ---- what is asked before anything is waited for ----

ask($one, q{BEGIN; SELECT pgq_pause_queue('sms')});
my ($out, $error) = ask($two, q{SET ROLE nobody; SET lock_timeout = '60 s'; SELECT pgq_drop_queue('sms')});
like($error, qr/permission denied/, 'who has no right on a queue is told at once');
ask($two, 'RESET ROLE');
goes_on(q{SELECT pgq_create_queue('sms', if_not_exists => true)}, 'f');
is_blocked(q{SELECT pgq_drop_queue('sms')}, 'who has');
ask($one, 'COMMIT');
is(reply($two), 't', '... and drops it then');

# Nothing of a call that failed is left.
ask($one, q{BEGIN; SELECT pgq_drop_queue('nonsense', if_exists => true); SAVEPOINT s});
ask($one, q{SELECT pgq_drop_queue('nonsense')});
ask($one, 'ROLLBACK TO s');
goes_on(q{SELECT pgq_create_queue('nonsense')}, 't');
ask($one, 'COMMIT');

# ---- all at once ----

my $try = q{DO $$ BEGIN PERFORM %s; EXCEPTION WHEN undefined_object OR object_in_use OR duplicate_object THEN NULL; END $$;};
$node->pgbench('-n -c 8 -j 2 -t 40', 0, [qr/processed: (\d+)\/\1\b/], [qr/^(?!.*(?:ERROR|aborted))/s], 'create, drop, pause and enqueue of three queues, without a deadlock', {
	'111_create@2' => sprintf($try, q{pgq_create_queue('r' || (random() * 2)::int, if_not_exists => true)}),
	'111_drop@2'   => sprintf($try, q{pgq_drop_queue('r' || (random() * 2)::int, force => true)}),
	'111_pause@1'  => sprintf($try, q{pgq_pause_queue('r' || (random() * 2)::int)}),
	'111_add@3'    => sprintf($try, q{pgq_enqueue('r' || (random() * 2)::int, '1')}) });
is(sql(q{SELECT count(*) FROM pgq_ext.job j WHERE NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = j.queue_id)}), '0', '... no job is without a queue');

end_session($_) for $one, $two;
done_testing();
