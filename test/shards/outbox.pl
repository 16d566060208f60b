# examples/outbox: exactly one job there for each that was committed here, while relays and both servers are killed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use ShardTest;

my $jobs  = 3000;
my $local = pgq_node('local');
my $far   = pgq_node('far');
create_queue($local, 'outbox', q{lease_time => '2 s', backoff_max => '200 ms', max_attempts => 1000});
create_queue($far, $_) for 'mail', 'bills';
$local->safe_psql('postgres', 'CREATE TABLE bought (n int PRIMARY KEY)');
$far->safe_psql('postgres', 'CREATE TABLE done (queue text, n int)');

# A purchase and its job, or neither; every fifth is rolled back.
my $producer = q{DO $$ BEGIN
	FOR i IN %d .. %d LOOP
		BEGIN
			INSERT INTO bought VALUES (i);
			PERFORM pgq_enqueue('outbox', jsonb_build_object('queue', CASE WHEN i %% 3 = 0 THEN 'bills' ELSE 'mail' END,
				'job', jsonb_build_object('payload', i, 'group_key', 'g' || i %% 7)));
			IF i %% 5 = 0 THEN RAISE 'changed my mind'; END IF;
		EXCEPTION WHEN raise_exception THEN
		END;
		IF i %% 10 = 0 THEN COMMIT; END IF;
	END LOOP; END $$};
# Jobs there are done while others arrive: their keys must outlive them.
my $worker = q{DO $$
	DECLARE job record;
	BEGIN
		FOR job IN SELECT * FROM pgq_claim_any('{mail,bills}', 50) LOOP
			INSERT INTO done VALUES (job.queue, job.payload::int);
			PERFORM pgq_ack(job.job_id, job.lease);
		END LOOP;
	END $$};

my %environment = (LOCAL => $local->connstr('postgres'), REMOTE => $far->connstr('postgres'), ORIGIN => 'shop');
sub start_relay { return start_program(\%environment, '/usr/bin/python3', 'examples/outbox/relay.py') }
my @relays = map { start_relay() } 1, 2;

my $kills = 12;
for my $turn (1 .. $kills)
{
	my $first = $jobs / $kills * ($turn - 1);
	$local->safe_psql('postgres', sprintf $producer, $first + 1, $first + $jobs / $kills);
	$far->safe_psql('postgres', $worker);
	# It is in the middle of something: there is work.
	if ($turn % 3 == 0)
	{
		kill_program(shift @relays);
		push @relays, start_relay();
	}
	elsif ($turn % 3 == 1)
	{
		my $node = $turn % 2 ? $local : $far;
		$node->stop('immediate');
		$node->start;
		wait_until_up($_) for $local, $far;
	}
	else
	{
		kill_program($_) for splice @relays;
		@relays = map { start_relay() } 1, 2;
		$far->stop('immediate');
		$far->start;
	}
}
wait_for($local, q{count(*) = 0 FROM pgq_ext.job});
is($local->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.dead_job'), '0', 'nothing is left behind');
wait_for($local, q{count(*) = 0 FROM pgq_ext.lease});
for (1 .. 1000)
{
	$far->safe_psql('postgres', $worker);
	last if $far->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.job') eq '0';
}
my $bought = $local->safe_psql('postgres', q{SELECT count(*), md5(string_agg(CASE WHEN n % 3 = 0 THEN 'bills' ELSE 'mail' END || n, ' ' ORDER BY n)) FROM bought});
my $committed = $jobs * 4 / 5;
like($bought, qr{^$committed\|}, 'most were bought');
is($far->safe_psql('postgres', q{SELECT count(*), md5(string_agg(queue || n, ' ' ORDER BY n)) FROM done}), $bought, 'exactly one job there for each');
is($far->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.unique_key'), $committed, '... by its key, which is kept');

# What the other side refuses says why, and the others go on.
$local->safe_psql('postgres', q{SELECT pgq_enqueue('outbox', '{"queue": "nowhere", "job": {"payload": 1}}', max_attempts => 1);
	SELECT pgq_enqueue('outbox', '{"queue": "mail", "job": {"payload": 8000}}'); SELECT pgq_enqueue('outbox', '{"queue": "mail", "job": {"payload": 8001, "priority": "x"}}', max_attempts => 1)});
wait_for($local, q{count(*) = 2 FROM pgq_ext.dead_job});
wait_for($far, q{count(*) = 1 FROM pgq_ext.job WHERE payload = '8000'});
is($local->safe_psql('postgres', q{SELECT count(*) FROM pgq_ext.dead_job WHERE last_error LIKE 'queue "nowhere" does not exist%'}), '1', 'what cannot be enqueued there says why');

# So does what is no job for there.
my @no_jobs = ('{"queue": "mail"}', '{"queue": "mail", "job": [1]}', '{"queue": ["mail"], "job": {}}', '{"job": {"payload": 1}}', '"mail"', '[]', 'null');
$local->safe_psql('postgres', join '', map { "SELECT pgq_enqueue('outbox', '$_', max_attempts => 1);" } @no_jobs, '{"queue": "mail", "job": {"payload": 8002}}');
wait_for($local, q{count(*) = 7 FROM pgq_ext.dead_job WHERE last_error LIKE 'the payload is not %'});
wait_for($far, q{count(*) = 1 FROM pgq_ext.job WHERE payload = '8002'});
pass('... also what is no job for there');
is(stop_program($_), 0, 'told to stop, a relay ends') for @relays;

# Of a shard that does not answer the router only its own jobs wait.
my $other = pgq_node('other');
make_shard($far, 0);
make_shard($other, 1);
make_router($far, 'front');
$far->safe_psql('front', "SELECT pgq_router_add_shard($$_[0], '${\conninfo_of(qq(s$$_[0]), $$_[1])}')") for [ 0, $far ], [ 1, $other ];
$far->safe_psql('front', q{SELECT pgq_router_assign_slots(array(SELECT slot FROM pgq_router.slot WHERE slot % 2 = 1), 1); SELECT pgq_create_queue('mail')});
$other->stop('immediate');
$local->safe_psql('postgres', q{SELECT pgq_enqueue('outbox', jsonb_build_object('queue', 'mail', 'job', jsonb_build_object('payload', i, 'group_key', 'g' || i))) FROM generate_series(1, 60) i});
my $carrier = start_program({ %environment, REMOTE => $far->connstr('front') }, '/usr/bin/python3', 'examples/outbox/relay.py');
wait_for($local, q{count(*) < 60 AND bool_and(attempts > 0 AND last_error LIKE 'shard 1 cannot be reached%') FROM pgq_ext.job});
my $left = $local->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.job');
cmp_ok($left, '>', 0, "a shard is down: $left jobs are for it");
is($far->safe_psql('s0', 'SELECT count(*) FROM pgq_ext.job'), 60 - $left, '... and the others are carried');
$other->start;
wait_for($local, q{count(*) = 0 FROM pgq_ext.job});
is($other->safe_psql('s1', 'SELECT count(*) FROM pgq_ext.job'), $left, '... and these when it is back');
is($far->safe_psql('s0', 'SELECT count(*) FROM pgq_ext.job'), 60 - $left, '... nothing twice');
is(stop_program($carrier), 0, '... by the same relay');
$other->stop;

# The one moment that counts: committed there, and the relay is gone before it can say so here.
my $id      = $local->safe_psql('postgres', q{SELECT pgq_enqueue('outbox', '{"queue": "mail", "job": {"payload": 9000}}')});
my $blocker = session($far);
ask($blocker, "BEGIN; SELECT pgq_enqueue('mail', '0', unique_key => 'shop:$id')");
my $relay = start_relay();
wait_for($far, q{count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%pgq_enqueue_many%' AND wait_event_type = 'Lock'});
kill_program($relay);
ask($blocker, 'ROLLBACK');
end_session($blocker);
wait_for($far, q{count(*) = 1 FROM pgq_ext.job WHERE payload = '9000'});
is($local->safe_psql('postgres', "SELECT count(*) FROM pgq_ext.job WHERE job_id = $id"), '1', 'committed there, and not acknowledged here');
my $met = $far->safe_psql('postgres', q{SELECT deduplicated FROM pgq_ext.queue_stats WHERE queue = 'mail'});
$relay = start_relay();
wait_for($local, q{count(*) = 0 FROM pgq_ext.job});
is($far->safe_psql('postgres', q{SELECT count(*) FROM pgq_ext.job WHERE payload = '9000'}), '1', '... it is carried again, and meets its key');
is($far->safe_psql('postgres', q{SELECT deduplicated FROM pgq_ext.queue_stats WHERE queue = 'mail'}), $met + 1, '... once');
stop_program($relay);
is($_->safe_psql('postgres', 'SELECT * FROM pgq_check()'), '', '... and all is well') for $local, $far;
$_->stop for $local, $far;
done_testing();
