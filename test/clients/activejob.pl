# The adapter for Active Job, with its worker
use strict;
use warnings;
use AdapterTest;

my $app = 'clients/activejob/test/app.rb';
my %usual = ();
sub app { return ('/usr/bin/ruby', $app, @_) }
sub worker { return ('/usr/bin/ruby', '-Iclients/activejob/lib', 'clients/activejob/exe/pgq-activejob', '-r', $app, '-q', 'jobs', '-t', '3', @_) }

# Enqueues a job as Active Job serializes it, without starting Ruby. Returns its id.
sub sent
{
	my ($steps, %options) = @_;
	my $class = delete $options{class} // 'Task';
	my $max_attempts = delete $options{max_attempts} // 'NULL';
	return sql(qq{SELECT pgq_enqueue('jobs', jsonb_build_object('job_class', '$class', 'job_id', gen_random_uuid(), 'queue_name', 'jobs', 'executions', 0,
		'exception_executions', '{}'::jsonb, 'locale', 'en',
		'arguments', jsonb_build_array('$steps', '{"_aj_symbol_keys": [], "name": "$options{name}"}'::jsonb)), max_attempts => $max_attempts)});
}

# ---- before there is a worker ----

start_server();
my ($out, $error) = run_app(\%usual, app('produce'));
my ($id, $same, $rolled_back, $committed, $all) = split /\n/, $out;
is($error, '', 'the application enqueues jobs');
is(sql("SELECT priority, unique_key, max_attempts, run_at > now() + '9 min' FROM pgq_ext.job WHERE job_id = $id"), '-5|u|3|t', 'options of Active Job, and of the class, become options of the job');
is(sql(q{SELECT count(*) FROM pgq_ext.queue WHERE queue = 'jobs'}), '1', '... in a queue that the adapter has created');
is($same, $id, '... and a second job with the unique key is the first one');
is($rolled_back, '1', 'a transaction that is rolled back leaves no job');
is($committed, '3', '... and one that is committed does');
is($all, '20', 'enqueue_all gives each job an id');
sql(qq{TRUNCATE done; SELECT pgq_cancel($id); SELECT pgq_alter_queue('jobs', lease_time => '5 s', backoff_base => '100 ms')});

# ---- how jobs end ----

my $worker = start_app('first', \%usual, worker());
my $retried = sent('execution retry', name => 'retried');
my $discarded = sent('discard', name => 'discarded');
my $failing = sent('execution fail', name => 'failing', max_attempts => 2);
wait_until(q{(SELECT count(*) FROM pgq_ext.dead_job) = 2 AND NOT EXISTS (SELECT FROM pgq_ext.job)});
is(sql(q{SELECT count(*), count(DISTINCT name) FROM done WHERE name LIKE 'all %'}), '20|20', 'each job is run once');
is(sql(q{SELECT string_agg(name, ',' ORDER BY name) FROM done WHERE name LIKE 'retried%'}), join(',', map { "retried execution $_ of $retried" } 1 .. 3), 'retry_on retries the same job');
is(sql("SELECT attempts, last_error FROM pgq_ext.dead_job WHERE job_id = $retried"), "3|RetriedError: odd ? ? text", '... and then the job is a dead letter, with as much of the error as can be stored');
is(sql(q{SELECT string_agg(name, ',' ORDER BY name) FROM done WHERE name LIKE 'failing%'}), join(',', map { "failing execution $_ of $failing" } 1 .. 2), 'an error without handler is retried by the queue');
is(sql("SELECT count(*) FROM pgq_ext.dead_job WHERE job_id = $discarded"), '0', 'discard_on ends the job');

# ---- signals ----

sent('begin wait:1 note', name => 'killed');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'begin killed')});
kill KILL => $worker->{pid};
ended($worker);
$worker = start_app('second', \%usual, worker());
wait_until(q{(SELECT count(*) FROM done WHERE name = 'begin killed') = 2});
open_gate(1);
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'killed')});
pass('after kill -9 another worker gets the job');

sent('begin wait:2 note', name => 'drained');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'begin drained')});
kill TERM => $worker->{pid};
wait_until(q{NOT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgqClaim')});
open_gate(2);
is(ended($worker), 0, 'SIGTERM ends the worker');
is(sql(q{SELECT count(*) FROM done WHERE name = 'drained'}) . sql('SELECT count(*) FROM pgq_ext.lease'), '10', '... when it has finished the job in hand');

# The acknowledgement of a job waits for a lock on its row. Both jobs keep their leases, which are 10 s long.
sql(q{SELECT pgq_alter_queue('jobs', lease_time => '10 s')});
$worker = start_app('slow', \%usual, worker());
my $slow = sent('begin wait:4', name => 'slow');
sent('begin wait:5', name => 'beside');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'begin slow') AND EXISTS (SELECT FROM done WHERE name = 'begin beside')});
my $holder = hold("SELECT FROM pgq_ext.job WHERE job_id = $slow FOR UPDATE");
my $leases = sql('SELECT string_agg(lease::text, chr(32) ORDER BY job_id) FROM pgq_ext.lease');
open_gate(4);
wait_until(q{EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'slow' AND query LIKE '%pgq_ack%' AND wait_event_type = 'Lock')});
sql('SELECT pg_sleep(13)');
is(sql('SELECT string_agg(lease::text, chr(32) ORDER BY job_id) FROM pgq_ext.lease'), $leases, 'leases are extended while an acknowledgement waits');
$holder->();
open_gate(5);
wait_until(q{NOT EXISTS (SELECT FROM pgq_ext.job)});
kill TERM => $worker->{pid};
is(ended($worker), 0, '... and then the jobs end, and the worker does');
sql(q{SELECT pgq_alter_queue('jobs', lease_time => '5 s')});

# ---- the server ----

$worker = start_app('third', \%usual, worker());
sent('note', name => 'before');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'before')});
restart_server();
sent('note', name => 'after');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'after')});
pass('a worker goes on after a crash of the server');
sql(q{SELECT pgq_drop_queue('jobs', force => true)});
wait_until(q{EXISTS (SELECT FROM pgq_ext.queue WHERE queue = 'jobs')}); # the worker creates it again
sent('note', name => 'new queue');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'new queue')});
pass('... and after its queue was dropped');

# ---- one transaction ----

sent('note fail', name => 'undone', class => 'TransactionalTask', max_attempts => 1);
sent('note', name => 'kept', class => 'TransactionalTask');
wait_until(q{EXISTS (SELECT FROM done WHERE name = 'kept') AND EXISTS (SELECT FROM pgq_ext.dead_job)});
is(sql(q{SELECT count(*) FROM done WHERE name = 'undone'}), '0', 'what a transactional job that fails has written is undone');
sent('note begin wait:3', name => 'lost', class => 'TransactionalTask');
wait_until(q{EXISTS (SELECT FROM pgq_ext.lease)});
sql('SELECT pgq_cancel(job_id) FROM pgq_ext.lease');
open_gate(3);
wait_until(q{EXISTS (SELECT) AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%wait_for_gate%' AND state = 'active' AND pid <> pg_backend_pid())});
kill TERM => $worker->{pid};
is(ended($worker), 0, '... and the worker ends');
is(sql(q{SELECT count(*) FROM done WHERE name = 'lost'}), '0', '... as is what a job has written whose lease is lost');
like($worker->{output}, qr/the lease of job \d+ is lost/, '... and the worker says so');

# ---- errors ----

sql('CREATE ROLE nobody_special LOGIN');
($out, $error) = run_app({ PGUSER => 'nobody_special' }, app('produce'));
like($error, qr/permission denied for function pgq_enqueue/, 'a role without EXECUTE gets a clear error');
($out, $error) = run_app({ PGUSER => 'nobody_special' }, worker());
like($error, qr/permission denied for function pgq_claim_any/, '... also as a worker');
($out, $error) = run_app(\%usual, worker('--no-create', '-q', 'missing'));
like($error, qr/queue "missing" does not exist/, 'so does a worker for a queue that does not exist, with --no-create');
($out, $error) = run_app({ PGDATABASE => 'nowhere' }, worker());
like($error, qr/database "nowhere" does not exist/, 'so does a worker for a database that does not exist');
is(sql('SELECT pgq_check()'), '', 'all is well');
stop_server();
