# One fault stays one fault: what is wrong with one row, one page, one queue or one lease keeps the scheduler from nothing else.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }

# Only a scheduler counts a lost lease.
sub counts_ok
{
	my ($queue, $what) = @_;
	sql("SELECT pgq_enqueue('$queue', '\"lost\"'); BEGIN; SELECT count(*) FROM pgq_claim('$queue'); ROLLBACK");
	is(sql("SELECT attempt, pgq_ack(job_id, lease) FROM pgq_claim('$queue', wait => '60 s')"), '2|', $what);
	return;
}

# ---- pgq_ext.queue altered, and its rows ----

create_queue($node, $_) for 'good', 'odd';
my $pid = wait_for_scheduler($node);
{
	# Whoever has a row with such values, from a time without checks.
	sql(q{ALTER TABLE pgq_ext.queue DISABLE TRIGGER ALL; DO $$ DECLARE c text; BEGIN
		FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = 'pgq_ext.queue'::regclass AND contype = 'c' LOOP
			EXECUTE format('ALTER TABLE pgq_ext.queue DROP CONSTRAINT %I', c);
		END LOOP;
		FOR c IN SELECT attname FROM pg_attribute WHERE attrelid = 'pgq_ext.queue'::regclass AND attnum > 0 AND attname NOT IN ('queue_id') LOOP
			EXECUTE format('ALTER TABLE pgq_ext.queue ALTER COLUMN %I DROP NOT NULL', c);
		END LOOP; END $$});
	for my $set ("lease_time = '178000000 years', backoff_max = '-178000000 years', backoff_jitter = 'NaN', keep_dead = '178000000 years'",
		"lease_time = '-1 s', max_runtime = '-1 s', max_attempts = -1, backoff_base = '178000000 years', backoff_jitter = 'Infinity'",
		'lease_time = NULL, max_runtime = NULL, max_attempts = NULL, backoff_base = NULL, backoff_max = NULL, backoff_jitter = NULL,
			keep_dead = NULL, notify = NULL, paused = NULL, created_at = NULL')
	{
		sql("SET session_replication_role = replica; UPDATE pgq_ext.queue SET $set WHERE queue = 'odd'");
		counts_ok('good', "another queue is served beside a row with $set");
		sql(q{SELECT pgq_enqueue('odd', '1')});
		is(sql(q{SELECT attempt, lease_expires_at BETWEEN clock_timestamp() AND clock_timestamp() + interval '8 days', pgq_ack(job_id, lease)
			FROM pgq_claim('odd', wait => '10 s')}), '1|t|', '... and the queue itself can be worked');
	}
	for my $name ('NULL', "''", "repeat('n', 60)")
	{
		sql("SET session_replication_role = replica; UPDATE pgq_ext.queue SET queue = $name WHERE queue IS DISTINCT FROM 'good'");
		counts_ok('good', "served beside a queue of the name $name");
	}
	is(scheduler_pid($node), $pid, 'by the same scheduler all the time');
	sql("SET session_replication_role = replica; DELETE FROM pgq_ext.queue WHERE queue IS DISTINCT FROM 'good'");

	my $log = -s $node->logfile;
	sql('ALTER TABLE pgq_ext.queue DROP COLUMN max_runtime; SET session_replication_role = replica; UPDATE pgq_ext.queue SET notify = notify');
	my ($state, $error) = sqlstate($node, q{SELECT pgq_enqueue('other', '1')});
	is($state, '55000', 'a column is dropped: whoever has to read the table says so');
	like($error, qr/Do not alter the tables of pgq_ext/, '... and what not to do');
	ok($node->wait_for_log(qr/table "pgq_ext.queue" is not as the pgq_ext library expects it.*table "pgq_ext.queue" is not/s, $log), '... the scheduler too');
	unlike(slurp_file($node->logfile), qr/terminated by signal/, '... and nobody crashes');
	is(sqlstate($node, 'DROP EXTENSION pgq_ext; CREATE EXTENSION pgq_ext'), '', '... and the way out is open');

	create_queue($node, 'good');
	sql('ALTER TABLE pgq_ext.job ALTER COLUMN fence TYPE text');
	is(sqlstate($node, q{SELECT pgq_enqueue('good', '1')}), '55000', 'a column of the jobs has another type');
	is(sqlstate($node, 'DROP EXTENSION pgq_ext; CREATE EXTENSION pgq_ext'), '', '... the same way out');
	create_queue($node, 'good');
	counts_ok('good', 'served again');
}

$node->stop;
done_testing();
