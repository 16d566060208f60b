# REPACK and REPACK (CONCURRENTLY) of every table while jobs are in work: each job is done once, and leases, locks,
# runs, keys and schedules do not change.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

# With wal_level = replica, and no slot: the server begins to decode by itself.
my $node = pgq_node('main', init => { allows_streaming => 1 },
	conf => "pgq_ext.window_size = 512\npgq_ext.segment_dead_rows = 0\nmax_prepared_transactions = 5\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
plan skip_all => 'REPACK came with PostgreSQL 19' if sql('SHOW server_version_num') < 190000;
sub rows { return split /\n/, sql($_[0]) }

create_queue($node, 'q', q{lease_time => '1 hour', log_attempts => 'all', keep_finished => '1 day', max_attempts => 2});
create_queue($node, 'held', q{lease_time => '1 hour'});
my ($worker, $other, $producer) = map { session($node) } 1 .. 3;

# ---- what has to be there afterwards ----

my $keyed = q{SELECT pgq_enqueue('held', '"keyed"', unique_key => 'k', unique_for => '1 day', priority => 1, delay => '1 day')};
my $key = sql($keyed);
sql(q{SELECT pgq_schedule('tick', '0 0 1 1 *', 'held'); SELECT pgq_create_rate('rate', 1, '1 day');
	SELECT pgq_enqueue('held', to_jsonb(i)) FROM generate_series(1, 50) i});
my $lock = sql(q{SELECT pgq_lock('lock', ttl => '1 day')});
my $run = sql(q{SELECT pgq_run_once('run', ttl => '1 day')});
my %lease = map { split /\|/ } rows(q{SELECT job_id, lease FROM pgq_claim('held', 50)});
is(scalar keys %lease, 50, 'jobs are in work');

# ---- the load ----

# One job in ten is done at the second try only, one in a hundred not at all.
sql('CREATE TABLE sent (job_id bigint); CREATE TABLE ended (job_id bigint); CREATE TABLE stop (now boolean)');
my $work = q{DO $$
	DECLARE job pgq_ext.claimed_job; ids bigint[]; leases bigint[];
	BEGIN
		LOOP
			ids := '{}'; leases := '{}';
			FOR job IN SELECT * FROM pgq_claim('q', 20, wait => '200 ms') LOOP
				IF job.job_id % 10 = 0 AND (job.attempt = 1 OR job.job_id % 100 = 0) THEN
					INSERT INTO public.ended SELECT job.job_id WHERE pgq_fail(job.job_id, job.lease, 'no', retry_in => '10 ms') = 'dead';
				ELSE
					ids := ids || job.job_id; leases := leases || job.lease;
				END IF;
			END LOOP;
			COMMIT;
			INSERT INTO public.ended SELECT pgq_ack_many(ids, leases);
			COMMIT;
			EXIT WHEN EXISTS (SELECT FROM public.stop);
		END LOOP;
	END $$};
my $produce = q{DO $$
	BEGIN
		LOOP
			INSERT INTO public.sent SELECT pgq_enqueue('q', to_jsonb(i), priority => i % 3, group_key => 'g' || i % 5,
				delay => CASE WHEN i % 4 = 0 THEN interval '50 ms' END) FROM generate_series(1, 20) i;
			COMMIT;
			PERFORM pg_sleep(0.01);
			EXIT WHEN EXISTS (SELECT FROM public.stop);
		END LOOP;
	END $$};

my $ours = q{c.relnamespace = 'pgq_ext'::regnamespace AND c.relkind = 'r'};
my @tables = rows("SELECT c.oid::regclass FROM pg_class c WHERE $ours ORDER BY c.oid");
# It takes an index that tells rows apart.
my @apart = rows(qq{SELECT c.oid::regclass FROM pg_class c WHERE $ours AND c.relreplident IN ('d', 'i') AND EXISTS
	(SELECT FROM pg_index WHERE indrelid = c.oid AND (relreplident = 'd' AND indisprimary OR indisreplident)) ORDER BY c.oid});
my %apart = map { $_ => 1 } @apart;
is(join(' ', grep { !$apart{$_} } @tables), 'pgq_ext.token_key pgq_ext.saved_lease pgq_ext.batch_note pgq_ext.job_dependency pgq_ext.job_outcome pgq_ext.run',
	'all but six tables have one');

send_sql($_, $work) for $worker, $other;
send_sql($producer, $produce);
for my $statement ((map { "REPACK $_" } @tables), 'REPACK pgq_ext.job', (map { "REPACK (CONCURRENTLY) $_" } @apart, @apart))
{
	my ($state, $error) = sqlstate($node, $statement);
	is($state, '', $statement) or diag $error;
}
sql('INSERT INTO stop VALUES (true)');
is(join('', map { (reply($_))[1] } $worker, $other, $producer), '', 'workers have met no error');
my @left = drain($node, 'q');
sql('INSERT INTO ended VALUES ' . join ', ', map { "($_)" } @left) if @left;
is(sql('SELECT count(*) > 100, count(*) = count(DISTINCT job_id) FROM ended'), 't|t', 'no job has ended twice');
is(sql('SELECT count(*) FROM sent FULL JOIN ended USING (job_id) WHERE sent IS NULL OR ended IS NULL'), '0', '... and each has ended');
is(sql(q{SELECT count(*) FROM (SELECT job_id FROM pgq_ext.finished_job UNION ALL SELECT job_id FROM pgq_ext.dead_job) r FULL JOIN sent USING (job_id)
	WHERE r.job_id IS NULL OR sent IS NULL}), '0', '... and has its record');

# ---- what was there before ----

sub state_ok
{
	my ($when) = @_;
	is(sql('SELECT * FROM pgq_check()'), '', "$when: memory and tables agree");
	is(sql($keyed), $key, '... a key is taken');
	is(sql(q{SELECT pgq_take('rate')}), 'f', '... a rate starts empty, and stays so for a day');
	is(sqlstate($node, "SELECT pgq_assert_lock('lock', $lock)"), '', '... a lock is held');
	is(sql(q{SELECT count(*) FROM pgq_ext.timetable}), '1', '... a schedule is there');
	is(sqlstate($node, $_), '', '... a job in work is its worker\'s') for map { "SELECT pgq_assert_lease($_, $lease{$_})" } (sort keys %lease)[0];
	return;
}
state_ok('after all that');

# ---- it waits for who is prepared ----

my @ids = sort keys %lease;
sql("BEGIN; SELECT pgq_ack($ids[1], $lease{$ids[1]}); PREPARE TRANSACTION 'ack'");
my ($segment) = rows("SELECT tableoid::regclass FROM pgq_ext.job WHERE job_id = $ids[1]");
send_sql($other, "REPACK (CONCURRENTLY) $segment");
wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'REPACK decoding worker' AND wait_event = 'transactionid'});
is(sql(q{SELECT pgq_enqueue('q', '1') IS NOT NULL}), 't', 'jobs come and go while it waits for a transaction that is prepared');
is(scalar drain($node, 'q'), 1, '... they do');
sql(q{COMMIT PREPARED 'ack'});
is((reply($other))[1], '', '... then it is done');
is(sqlstate($node, "SELECT pgq_ack($ids[1], $lease{$ids[1]})"), 'PQ001', '... and the job has ended');

# ---- crash and restart ----

sql(q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 300) i});
sql("REPACK (CONCURRENTLY) $_") for grep { /\.job_\d/ } @tables;
$node->stop('fast');
$node->start;
state_ok('after a restart');
sql("REPACK $_") for grep { /\.job_\d/ } @tables;
$node->stop('immediate');
$node->start;
is(scalar drain($node, 'q'), 300, 'after a crash: all jobs are there');
is(sqlstate($node, "SELECT pgq_run_done('run', $run)"), '', '... a run goes on');
is(sql('SELECT * FROM pgq_check()'), '', '... memory and tables agree');

$node->stop;
done_testing();
