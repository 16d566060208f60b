# Logical replication: the subscriber gets all changes that workers make on the publisher, hands out no job, and takes
# over when its subscription is dropped.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $publisher = pgq_node('publisher', init => { allows_streaming => 'logical' });
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->start;
sub on_publisher  { return $publisher->safe_psql('postgres', $_[0]) }
sub on_subscriber { return $subscriber->safe_psql($_[1] // 'postgres', $_[0]) }

# The subscriber's database is made from the publisher's schema, as for any table.
my $schema = $publisher->basedir . '/schema.sql';
create_queue($publisher, $_) for 'q', 'quiet';
$publisher->command_ok([ 'pg_dump', '--schema-only', '-f', $schema, $publisher->connstr('postgres') ], 'pg_dump --schema-only');

sub load_schema
{
	my ($db) = @_;
	$subscriber->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $schema, $subscriber->connstr($db) ], "... loaded into $db");
	return;
}

sub subscribe
{
	my ($db, $name, $options) = @_;
	my $connection = $publisher->connstr . ' dbname=postgres';
	on_subscriber("CREATE SUBSCRIPTION $name CONNECTION '$connection' PUBLICATION p $options", $db);
	return;
}

sub is_in_step
{
	my ($what, $db, $name) = @_;
	$publisher->wait_for_catchup($name // 's');
	$subscriber->poll_query_until($db // 'postgres', q{SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')});
	my $state = q{
		SELECT 'job', job_id, run_at, enqueued_at, queue_id, priority, attempts, fence, headers, payload, last_error FROM pgq_ext.job
		UNION ALL SELECT 'dead', job_id, run_at, enqueued_at, queue_id, priority, attempts, null, headers, payload, last_error FROM pgq_ext.dead_job
		ORDER BY 1, 2};
	is(on_subscriber($state, $db), on_publisher($state), "$what: the same jobs on both sides");
	return;
}

sub refused_ok
{
	my ($what, $call, $db) = @_;
	my ($state, $error) = sqlstate($subscriber, "SELECT * FROM $call", $db);
	is($state, '55000', "$what: 55000");
	like($error, qr/publisher of subscription "s"\n.*HINT:.*drop the subscription/s, '... and why');
	return;
}

# ---- the first copy, and what follows ----

on_publisher(q{SELECT pgq_enqueue('q', to_jsonb(i), priority => i % 3, headers => '{"h": 1}') FROM generate_series(1, 30) i;
	SELECT pgq_enqueue('q', '"later"', delay => '1 hour');
	SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('q', 2);
	CREATE PUBLICATION p FOR ALL TABLES});
my $scheduler = wait_for_scheduler($publisher);
load_schema('postgres');
subscribe('postgres', 's', '');
is_in_step('copied');
wait_for_scheduler($subscriber);
wait_until_counted($subscriber);
is(on_subscriber(q{SELECT ready, scheduled, leased, dead FROM pgq_ext.queue_status WHERE queue = 'q'}), '28|1|0|2', 'the subscriber shows them');
refused_ok('a claim',        q{pgq_claim('q')});
refused_ok('a claim of any', q{pgq_claim_any('{quiet,q}')});
refused_ok('a claim of an empty queue', q{pgq_claim('quiet', wait => '10 s')});

# Jobs that came in here would take the ids of the publisher's next ones, and those that went would be missed.
refused_ok('an enqueue',   q{pgq_enqueue('q', '1')});
refused_ok('... of many',  q{pgq_enqueue_many('q', '[{"payload": 1}]')});
refused_ok('... purge',    q{pgq_purge_queue('q')});
refused_ok('... drop',     q{pgq_drop_queue('q', force => true)});
refused_ok('a new queue',  q{pgq_create_queue('new')});
my ($in_work, $its_lease) = split /\|/, on_publisher(q{SELECT job_id, lease FROM pgq_claim('q', lease_time => '1 hour')});
refused_ok('an ack of what is in work there', qq{pgq_ack($in_work, $its_lease)});
on_publisher(qq{SELECT pgq_ack($in_work, $its_lease)});

# Deletions are replicated by the index of ids. So an ack, which does not use this index itself, fails without it, in a new
# session and in one that has acknowledged a job before.
{
	my $session = session($publisher);
	is(ask($session, q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q')}), '', 'a session acknowledges a job');
	my ($job, $lease) = split /\|/, on_publisher(q{SELECT job_id, lease FROM pgq_claim('q', lease_time => '1 hour')});
	my $segment = on_publisher("SELECT tableoid::regclass FROM pgq_ext.job WHERE job_id = $job");
	my ($index) = $segment =~ /(\w+)$/;
	on_publisher("DROP INDEX pgq_ext.${index}_by_id");
	is(($publisher->psql('postgres', "SELECT pgq_ack($job, $lease)"))[0], 3, 'the replica identity of the segment is missing: an ack of a new session fails');
	send_sql($session, "SELECT pgq_ack($job, $lease)");
	like((reply($session))[1], qr/or their indexes, are missing/, '... and one of a session that has used the segment');
	on_publisher("CREATE UNIQUE INDEX ${index}_by_id ON $segment (job_id); ALTER TABLE $segment REPLICA IDENTITY USING INDEX ${index}_by_id");
	is(ask($session, "SELECT pgq_ack($job, $lease)"), '', '... until the index is there again');
	end_session($session);
	is_in_step('acknowledged then');
}

on_publisher(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', 7);
	SELECT pgq_fail(job_id, lease, 'again', retry_in => '1 hour') FROM pgq_claim('q');
	SELECT pgq_fail(job_id, lease, 'never', retry => false) FROM pgq_claim('q');
	SELECT pgq_enqueue('q', '"new"', priority => 5);
	SELECT job_id FROM pgq_claim('q', 3, lease_time => '1 s')});
wait_for($publisher, q{count(*) = 3 FROM pgq_ext.job WHERE last_error = 'the lease expired'});
is_in_step('acknowledged, failed, enqueued, lost');
is(on_subscriber(q{SELECT count(*), count(*) FILTER (WHERE attempts > 0) FROM pgq_ext.job}), '19|4', '... finished jobs are gone there');

is(scheduler_pid($publisher), $scheduler, 'publishing all tables does not disturb the scheduler');

# ---- the subscriber takes over ----

on_subscriber('DROP SUBSCRIPTION s');
on_subscriber(q{SELECT setval('pgq_ext.job_id_seq', (SELECT max(job_id) FROM (SELECT job_id FROM pgq_ext.job UNION ALL SELECT job_id FROM pgq_ext.dead_job) j))});
my $ready = q{SELECT count(*) FROM pgq_ext.job WHERE run_at <= clock_timestamp()};
my $order = q{SELECT string_agg(job_id::text, ' ' ORDER BY priority DESC, run_at, job_id) FROM pgq_ext.job WHERE run_at <= clock_timestamp()};
# Those that were lost wait for their backoff.
wait_for($subscriber, q{count(*) = 17 FROM pgq_ext.job WHERE run_at <= clock_timestamp()});
is(on_subscriber($ready), '17', 'the subscription is dropped');
is(on_subscriber(qq{SELECT (SELECT string_agg(job_id::text, ' ') FROM pgq_claim('q', 100)) = ($order)}), 't', '... and all is served at once, in order');
is(on_subscriber(q{SELECT count(*) FROM pgq_ext.lease JOIN pgq_ext.job USING (job_id) WHERE attempt <> attempts + 1}), '0', '... with the attempts of the publisher');
is(on_subscriber(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease}), '17', '... and finished');
is(on_subscriber(q{SELECT pgq_enqueue('q', '"here"') > max(job_id) FROM pgq_ext.job}), 't', '... new jobs come after the old ones');

# ---- subscribed again, in the middle of work: memory is full of what is not ours any more ----

on_publisher(q{SELECT pgq_purge_queue('q')});
my $waiting = session($subscriber);
send_sql($waiting, q{SELECT * FROM pgq_claim('quiet', wait => '60 s')});
wait_for($subscriber, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'quiet'});
# Subscribed before this lease expires.
my $held = on_subscriber(q{SELECT job_id FROM pgq_claim('q', lease_time => '30 s')});
subscribe('postgres', 's', 'WITH (copy_data = false)');
refused_ok('subscribed again', q{pgq_claim('q')});
on_publisher(q{SELECT setval('pgq_ext.job_id_seq', 1000); SELECT pgq_enqueue('quiet', to_jsonb(i)) FROM generate_series(1, 5) i});
like((reply($waiting))[1], qr/publisher of subscription "s"/, 'a claim that waits is refused when the first job comes');
end_session($waiting);

# Changes of rows that the subscriber has in memory.
on_publisher(q{UPDATE pgq_ext.job SET priority = 7 WHERE job_id = 1003; DELETE FROM pgq_ext.job WHERE job_id = 1004;
	SELECT pgq_enqueue('quiet', '"soon"', delay => '100 ms');
	UPDATE pgq_ext.queue SET max_attempts = 77 WHERE queue = 'quiet'});
$publisher->wait_for_catchup('s');
wait_for($subscriber, "clock_timestamp() > lease_expires_at + '2 s' FROM pgq_ext.lease_entries() WHERE job_id = $held");
is(on_subscriber("SELECT attempts, last_error FROM pgq_ext.job WHERE job_id = $held"), '0|', 'the scheduler counts nothing while subscribed');
is(on_subscriber(q{SELECT string_agg(job_id::text, ' ' ORDER BY job_id) FROM pgq_ext.job WHERE job_id > 1000}), '1001 1002 1003 1005 1006', 'rows are changed and deleted');

on_subscriber('DROP SUBSCRIPTION s');
is(on_subscriber(q{SELECT string_agg(job_id::text, ' ') FROM pgq_claim('quiet', 100)}), '1003 1001 1002 1005 1006', 'dropped again: served as they are now');
# Nobody claims it before: without a scheduler for 5 s it would be handed out uncounted.
wait_for($subscriber, "attempts = 1 FROM pgq_ext.job WHERE job_id = $held");
is(on_subscriber(q{SELECT attempt, last_error FROM pgq_claim('q', wait => '30 s')}), '2|the lease expired', '... the scheduler goes on, too');
wait_for($subscriber, q{pgq_fail(job_id, lease, 'no', retry_in => '0') = 'retry' FROM pgq_ext.lease WHERE job_id = 1001});
is(on_subscriber(q{SELECT max_attempts FROM pgq_claim('quiet', wait => '30 s')}), '77', '... with the options of the publisher');

# ---- only the database that is subscribed ----

on_subscriber('CREATE DATABASE other');
load_schema('other');
on_publisher(q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 9) i; SELECT pgq_fail(job_id, lease, 'no', retry_in => '0') FROM pgq_claim('q')});
subscribe('other', 's', '');
is_in_step('in another database', 'other');
refused_ok('... a claim', q{pgq_claim('q')}, 'other');
is(sqlstate($subscriber, q{SELECT * FROM pgq_claim('q')}), '', '... the first one is served');

# A disabled subscription can be enabled again: it still counts.
on_subscriber(q{ALTER SUBSCRIPTION s DISABLE}, 'other');
refused_ok('disabled', q{pgq_claim('q')}, 'other');
on_subscriber(q{DROP SUBSCRIPTION s}, 'other');
is(on_subscriber(q{SELECT count(*) FROM pgq_claim('q', 100)}, 'other'), '9', 'dropped: served');

$subscriber->stop;
$publisher->stop;
done_testing();
