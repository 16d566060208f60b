# The transport for Symfony Messenger, with the command messenger:consume
use strict;
use warnings;
use AdapterTest;

my $app = 'clients/symfony/test/app.php';
sub app { return ('/usr/bin/php', $app, @_) }
sub dsn { my ($options) = @_; return (DSN => "pgq://?queue=jobs&wait=1$options", RETRIES => 2) }

# ---- before there is a worker ----

start_server();
my %usual = (dsn('&max_attempts=5&lease_time=5'));
my ($out, $error) = run_app(\%usual, app('setup'));
is(sql(q{SELECT max_attempts FROM pgq_ext.queue WHERE queue = 'jobs'}), '5', 'setup creates the queue with the options of the DSN') or diag("$out$error");
run_app({ dsn('&max_attempts=7&lease_time=5') }, app('setup'));
is(sql(q{SELECT max_attempts FROM pgq_ext.queue WHERE queue = 'jobs'}), '7', '... and changes them');

sub sent { my ($steps, $options) = @_; return (run_app(\%usual, app('send', $steps, $options // '{}')))[0] =~ s/\n//r }
my $id = sent('note', '{"name": "options", "delay": 600000, "priority": 5, "groupKey": "g", "uniqueKey": "u", "maxAttempts": 3}');
is(sql("SELECT priority, group_key, unique_key, max_attempts, run_at > now() + '9 min' FROM pgq_ext.job WHERE job_id = $id"), '5|g|u|3|t', 'stamps become options of the job');
is(sent('note', '{"uniqueKey": "u"}'), $id, '... and a second message with the unique key is the first one');
sql("SELECT pgq_cancel($id)");

for my $end ([ 'rollback', 0 ], [ 'commit', 1 ])
{
	run_app({ %usual, SHARED => 1 }, app('send-in-transaction', $end->[0]));
	is(sql(q{SELECT count(*) FROM pgq_ext.job}) . sql(q{SELECT count(*) FROM done}), $end->[1] x 2, "a transaction that sends: $end->[0]");
}
sql('TRUNCATE done; SELECT pgq_purge_queue(queue) FROM pgq_ext.queue');

# ---- how messages end ----

my $worker = start_app('first', \%usual, app('consume'));
sent('note', qq{{"name": "run $_"}}) for 1 .. 5;
sent('once note', '{"name": "again"}');
$id = sent('fail');
my $never = sent('never');
wait_until(q{(SELECT count(*) FROM pgq_ext.dead_job) = 2 AND NOT EXISTS (SELECT FROM pgq_ext.job)});
is(sql(q{SELECT string_agg(name, ',' ORDER BY name) FROM done}), 'again,run 1,run 2,run 3,run 4,run 5,tried again', 'each message is handled once, and one that fails is retried');
is(sql("SELECT attempts FROM pgq_ext.dead_job WHERE job_id = $id"), '3', 'a message that fails is retried by the strategy of Messenger, and becomes a dead letter');
like(sql("SELECT last_error FROM pgq_ext.dead_job WHERE job_id = $id"), qr/^RuntimeException: odd \? .* text$/, '... with as much of the error as can be stored');
is(sql("SELECT attempts FROM pgq_ext.dead_job WHERE job_id = $never"), '1', 'an unrecoverable error is not retried');

# ---- signals ----

sent('begin wait:1 note', '{"name": "killed"}');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'begin killed')});
kill KILL => $worker->{pid};
ended($worker);
$worker = start_app('second', \%usual, app('consume'));
wait_until(q{(SELECT count(*) FROM done WHERE name = 'begin killed') = 2});
open_gate(1);
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'killed')});
pass('after kill -9 another worker gets the message');

sent('begin wait:2 note', '{"name": "drained"}');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'begin drained')});
sent('note', '{"name": "left"}');
kill TERM => $worker->{pid};
open_gate(2);
is(ended($worker), 0, 'SIGTERM ends the worker');
is(sql(q{SELECT count(*) FILTER (WHERE name = 'drained'), count(*) FILTER (WHERE name = 'left') FROM done}) . sql('SELECT count(*) FROM pgq_ext.lease'),
	'1|00', '... when it has handled the message in hand, and no other');

# ---- the server ----

$worker = start_app('third', \%usual, app('consume'));
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'left')});
restart_server();
sent('note', '{"name": "after"}');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'after')});
pass('a worker that is idle goes on after a crash of the server');
sql(q{SELECT pgq_drop_queue('jobs', force => true)});
sent('note', '{"name": "new queue"}');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'new queue')});
pass('... and with the queue that the sender creates again after it was dropped');
sent('begin wait:3', '{"name": "lost"}');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'begin lost')});
sql('SELECT pgq_cancel(job_id) FROM pgq_ext.lease');
open_gate(3);
isnt(ended($worker), 0, 'a worker whose lease is lost ends with an error');
like($worker->{output}, qr/lease/, '... which says so');

# ---- one transaction ----

my %shared = (%usual, SHARED => 1);
$worker = start_app('fourth', \%shared, app('consume'));
sent('note begin wait:4 never', '{"name": "undone"}');
sent('note', '{"name": "kept"}');
open_gate(4);
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'kept') AND EXISTS (SELECT FROM pgq_ext.dead_job)});
is(sql(q{SELECT count(*) FROM done WHERE name = 'undone'}), '0', 'with TransactionMiddleware, what a handler that fails has written is undone');
kill TERM => $worker->{pid};
is(ended($worker), 0, '... and the worker ends');

# ---- errors ----

sql('CREATE ROLE nobody_special LOGIN');
($out, $error) = run_app({ %usual, PGUSER => 'nobody_special' }, app('send', 'note'));
like($out . $error, qr/permission denied for function pgq_enqueue/, 'a role without EXECUTE gets a clear error');
($out, $error) = run_app({ dsn('&auto_setup=0&queue=missing') }, app('send', 'note'));
like($out . $error, qr/queue "missing" does not exist/, 'so does a message for a queue that does not exist, without auto_setup');
($out, $error) = run_app({ dsn('&colour=red') }, app('send', 'note'));
like($out . $error, qr/Unknown options of the pgq transport: \[colour\]/, 'so does an unknown option');
($out, $error) = run_app({ %usual, PGDATABASE => 'nowhere' }, app('send', 'note'));
like($out . $error, qr/database "nowhere" does not exist/, 'so does a database that does not exist');
is(sql('SELECT pgq_check()'), '', 'all is well');
stop_server();
