# A handler whose role has synchronous_commit = off: a crash undoes the last calls, work and ack together, and their jobs run again.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

# Commits that do not wait stay in memory until somebody else's commit, or for the ten seconds of the WAL writer.
my $node = pgq_node('main', conf => "wal_writer_delay = '10 s'\nwal_writer_flush_after = '1 GB'\nwal_buffers = '64 MB'\nautovacuum = off\npgq_ext.max_handler_workers = 2\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(q{CREATE ROLE robot LOGIN; ALTER ROLE robot SET synchronous_commit = off;
	CREATE TABLE done (job_id bigint); GRANT INSERT ON done TO robot; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO robot;
	CREATE FUNCTION work(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO done VALUES (job.job_id); PERFORM pg_sleep(0.001); END'});
create_queue($node, 'q', q{keep_finished => '1 day', keep_attempts => '1 day', log_attempts => 'all'});
wait_for_scheduler($node);

my $jobs = 0;
my $undone = 0;
# A crash undoes nothing if another commit has just flushed the WAL, so crash until one has undone something.
for my $round (1 .. 50)
{
	last if $round > 5 && $undone > 0;
	sql(q{SELECT count(pgq_enqueue('q', '1')) FROM generate_series(1, 1000)});
	$jobs += 1000;
	sql(q{SELECT pgq_set_handler('q', 'work(pgq_ext.claimed_job)', workers => 2, run_as => 'robot')});
	wait_for($node, 'count(*) >= ' . ($jobs - 700) . ' FROM done');
	my $before = sql('SELECT count(*) FROM done');
	$node->stop('immediate');
	# No worker before the rows were counted.
	$node->append_conf('postgresql.conf', 'pgq_ext.max_handler_workers = 0');
	$node->start;
	my $after = sql('SELECT count(*) FROM done');
	$undone += $before - $after if $after < $before;
	is(sql('SELECT (SELECT count(*) FROM done) + count(*), (SELECT count(DISTINCT job_id) FROM done) + count(*) FROM pgq_ext.job'), "$jobs|$jobs", "round $round: each job has been done, or waits");
	$node->append_conf('postgresql.conf', 'pgq_ext.max_handler_workers = 2');
	$node->restart;
	wait_for($node, 'count(*) = 0 FROM pgq_ext.job_status');
	is(sql('SELECT count(*), count(DISTINCT job_id) FROM done'), "$jobs|$jobs", '... and in the end each has been done once');
}
is(sql(q{SELECT count(*), count(DISTINCT job_id), string_agg(DISTINCT outcome, ' ') FROM pgq_ext.finished_job}), "$jobs|$jobs|acked", 'each has one record');
cmp_ok($undone, '>', 0, "the crashes have undone $undone calls that were seen before");

done_testing();
