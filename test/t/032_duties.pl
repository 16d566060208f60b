# A fault of one row, page, queue or lease keeps the scheduler from nothing else.
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
		'fair = true, group_rate_limit = 1, fifo = true, group_concurrency = 2',
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
	like($error, qr/The tables of pgq_ext must not be altered/, '... and what not to do');
	ok($node->wait_for_log(qr/table "pgq_ext.queue" differs from what the pgq_ext library expects.*table "pgq_ext.queue" differs/s, $log), '... the scheduler too');
	unlike(slurp_file($node->logfile), qr/terminated by signal/, '... and nobody crashes');
	is(sqlstate($node, 'DROP EXTENSION pgq_ext; CREATE EXTENSION pgq_ext'), '', '... and the way out is open');

	create_queue($node, 'good');
	sql('ALTER TABLE pgq_ext.job ALTER COLUMN fence TYPE text');
	is(sqlstate($node, q{SELECT pgq_enqueue('good', '1')}), '55000', 'a column of the jobs has another type');
	is(sqlstate($node, 'DROP EXTENSION pgq_ext; CREATE EXTENSION pgq_ext'), '', '... the same way out');
	create_queue($node, 'good');
	counts_ok('good', 'served again');
}

# ---- a row of pgq_ext.queue_handler ----

{
	sql(q{CREATE ROLE runner LOGIN; CREATE FUNCTION handle(pgq_ext.claimed_job) RETURNS jsonb LANGUAGE sql AS 'SELECT $1.payload'; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO runner;
		SELECT pgq_create_queue('handled', keep_finished => '1 day'), pgq_create_queue('spoilt'); SELECT pgq_set_handler(q, 'handle'::regproc, run_as => 'runner') FROM unnest('{handled,spoilt}'::text[]) q});
	my $handled = "SELECT pgq_enqueue('handled', '1') AS job\n\\gset\nSELECT state FROM pgq_result(:job, '60 s')";
	is(sql($handled), 'acked', 'a handler runs a job');
	$pid = scheduler_pid($node);
	for my $set ("timeout = '-1 s'", "idle = '178000000 years'", 'workers = NULL', 'function_name = NULL')
	{
		my ($column) = $set =~ /(\w+)/;
		sql("ALTER TABLE pgq_ext.queue_handler DROP CONSTRAINT IF EXISTS queue_handler_${column}_check, ALTER $column DROP NOT NULL;
			CREATE TABLE kept AS TABLE pgq_ext.queue_handler; UPDATE pgq_ext.queue_handler h SET $set FROM pgq_ext.queue q WHERE q.queue_id = h.queue_id AND queue = 'spoilt'");
		wait_for($node, q{state = 'suspended' AND reason LIKE 'its row in pgq_ext.queue_handler is invalid: %' FROM pgq_ext.handler WHERE queue = 'spoilt'});
		counts_ok('good', "served beside a handler with $set");
		is(sql(q{SELECT count(*) FROM pgq_ext.duty WHERE failures > 0}), '0', '... no duty fails');
		is(sql($handled), 'acked', '... and another handler runs');
		sql("UPDATE pgq_ext.queue_handler h SET $column = k.$column FROM kept k WHERE k.queue_id = h.queue_id; DROP TABLE kept");
		wait_for($node, q{state <> 'suspended' FROM pgq_ext.handler WHERE queue = 'spoilt'});
		pass('... the handler may run when that is undone');
	}
	is(scheduler_pid($node), $pid, 'by the same scheduler all the time');
}

$node->stop;

# ---- damaged pages ----

# Two queues; an index page and a heap page of the segment that has the jobs of one of them.
$node = PostgreSQL::Test::Cluster->new('damaged');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', "autovacuum = off\npgq_ext.segment_size = '64kB'\nmax_parallel_workers_per_gather = 0\n");
$node->start;
sql('CREATE EXTENSION pgq_ext');

sub damage
{
	my ($path, $block) = @_;
	open my $file, '+<:raw', $node->data_dir . "/$path" or die $path;
	sysseek($file, $block * 8192 + 100, 0);
	syswrite($file, 'damaged' x 20);
	close $file;
	return;
}

{
	create_queue($node, 'x');
	create_queue($node, 'y');
	wait_for_scheduler($node);
	sql(q{SELECT count(pgq_enqueue('x', to_jsonb(repeat('x', 300)))) FROM generate_series(1, 3000)});
	my $segment = sql(q{SELECT segment FROM pgq_ext.job GROUP BY 1 ORDER BY count(*) DESC LIMIT 1});
	sql("DELETE FROM pgq_ext.job WHERE segment <> $segment");
	my $by_id   = sql("SELECT pg_relation_filepath('pgq_ext.job_${segment}_by_id')");
	sql('UPDATE pgq_ext.job SET expires_at = now() + interval $$1 year$$ WHERE job_id = (SELECT min(job_id) FROM pgq_ext.job)');
	my $expiring = sql("SELECT pg_relation_filepath('pgq_ext.job_${segment}_expiring')");
	my $order   = sql("SELECT pg_relation_filepath('pgq_ext.job_${segment}_by_order')");
	# What comes goes to another segment now.
	wait_for($node, "segment <> $segment FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass");
	$node->stop;
	damage($by_id, 1);
	damage($order, 1);
	damage($expiring, 1);
	my $log = -s $node->logfile;
	$node->start;

	my $listener = session($node);
	ask($listener, 'LISTEN pgq_y');
	wait_for($node, q{failures > 0 AND last_error LIKE 'invalid page in block 1%' FROM pgq_ext.duty WHERE duty = 'reconcile'});
	pass('a damaged index: the view names the duty that fails');
	my $pid = scheduler_pid($node);
	counts_ok('y', 'lost leases of the other queue are counted');
	is(sql(q{SELECT pgq_enqueue('y', '"timer"', delay => '300 ms') > 0}), 't', '... a timer');
	is(sql(q{SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('y', wait => '60 s')}), '"timer"|', '... fires');
	my $heard = '';
	for (1 .. 100)
	{
		last if ($heard .= ask($listener, 'SELECT pg_sleep(0.1)')) =~ /notification "pgq_y"/;
	}
	like($heard, qr/notification "pgq_y"/, '... NOTIFY comes');
	# After a start new rows go to any segment for a moment, also to the damaged one.
	wait_for($node, "segment <> $segment FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass");
	sql(q{SELECT pgq_enqueue('y', '"short"', expires_in => '1 s', priority => -1, delay => '1 h')});
	my $before = sql(q{SELECT sum(truncations) FROM pgq_ext.segment_entries()});
	sql(q{SELECT count(pgq_enqueue('y', to_jsonb(repeat('y', 500)))) FROM generate_series(1, 400);
		SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('y', 1000)}) for 1 .. 3;
	wait_for($node, "sum(truncations) > $before FROM pgq_ext.segment_entries()");
	pass('... rotation goes on');
	is(scheduler_pid($node), $pid, '... by one scheduler');
	my %told;
	$told{$_}++ for slurp_file($node->logfile, $log) =~ /ERROR:  invalid page in block 1 of relation (\S+)/g;
	cmp_ok(scalar(keys %told), '>=', 1, '... the log tells of it');
	is(join(', ', grep { $told{$_} > 3 } sort keys %told), '', '... but is not full of them');

	wait_for($node, q{expired = 1 FROM pgq_ext.queue_stats WHERE queue = 'y'});
	pass('... what has expired in other segments goes');
	is(sql(q{SELECT last_error LIKE 'invalid page in block 1%' FROM pgq_ext.duty WHERE duty = 'expiry' AND failures > 0}), 't', '... and the view names that duty, too');

	sql("REINDEX TABLE pgq_ext.job_$segment");
	wait_for($node, q{bool_and(failures = 0) FROM pgq_ext.duty});
	is(sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('x', 10)}), '10', 'after REINDEX all is well');
	end_session($listener);

	# A page of the table: what was on it is lost for certain, but it must not take more with it.
	my $heap = sql("SELECT pg_relation_filepath('pgq_ext.job_$segment')");
	my $all  = sql('SELECT count(*) FROM pgq_ext.job');
	$node->stop;
	damage($heap, 1);
	$node->start;
	is(sqlstate($node, q{SELECT * FROM pgq_claim('x')}), 'XX001', 'a damaged page of the table: claims of its queue say so');
	counts_ok('y', '... the other queue is served');
	wait_for($node, q{failures > 0 FROM pgq_ext.duty WHERE duty = 'window' AND queue = 'x'});
	pass('... the view names the duty and the queue');
	is(sql(q{SELECT count(*) FROM pgq_ext.duty WHERE queue = 'y' AND failures > 0}), '0', '... not the other');
	sql("SET zero_damaged_pages = on; SELECT count(*) FROM pgq_ext.job_$segment; REINDEX TABLE pgq_ext.job_$segment");
	my $left = sql(q{SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'x'});
	is(scalar(drain($node, 'x')), $left, '... the page given up, all others come');
	cmp_ok($left, '>', $all - 100, '... which are nearly all');
}

$node->stop;
done_testing();
