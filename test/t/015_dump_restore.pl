# pg_dump and pg_restore in every form: the restored queue equals the dumped queue, and is served, even during the
# restore.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.window_size = 256\n");
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
my $dir = $node->basedir;
my $jobs = 3000;

# ---- a queue with jobs in every state ----

create_queue($node, 'q', q{max_attempts => 7, lease_time => '1 hour', backoff_max => '3 min'});
create_queue($node, 'empty');
sql(qq{SELECT pgq_enqueue('q', jsonb_build_object('n', i, 'text', repeat('x', 5 + i % 7)), priority => i % 5, headers => jsonb_build_object('h', i),
		max_attempts => nullif(i % 3, 0)) FROM generate_series(1, $jobs) i;
	SELECT pgq_enqueue('q', (SELECT jsonb_agg(random()) FROM generate_series(1, 5000)), headers => (SELECT jsonb_agg(random()) FROM generate_series(1, 5000)));
	SELECT pgq_enqueue('q', '"next year"', delay => '1 year', priority => 9, unique_key => 'next year', group_key => 'years');
	SELECT pgq_cancel(pgq_enqueue('q', '1', unique_key => 'gone', unique_for => '1 year'));
	SELECT pgq_enqueue('q', '"soon"', delay => '3 s', priority => -1);
	SELECT pgq_fail(job_id, lease, E'broken \\\\ with\ttabs and\nlines', retry => false) FROM pgq_claim('q', 5);
	SELECT pgq_fail(job_id, lease, 'backs off', retry_in => '1 year') FROM pgq_claim('q', 6)});
my ($held, $held_lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q', 4) ORDER BY 1 LIMIT 1});
my $order = q{SELECT count(*), md5(string_agg(job_id::text, ' ' ORDER BY priority DESC, run_at, job_id)) FROM pgq_ext.job WHERE run_at <= enqueued_at};
wait_for($node, q{last_value > 0 FROM pgq_ext.token_mark});

sub state_of
{
	my ($db) = @_;
	return sql(q{
		SELECT 'job', md5(j::text), job_id, queue_id, priority, run_at, enqueued_at, attempts, segment, max_attempts, fence, last_error FROM pgq_ext.job j
		UNION ALL SELECT 'dead', md5(d::text), job_id, queue_id, priority, run_at, enqueued_at, attempts, null, max_attempts, null, last_error FROM pgq_ext.dead_job d
		UNION ALL SELECT 'queue', md5(q::text), queue_id, null, null, null, created_at, null, null, max_attempts, null, queue FROM pgq_ext.queue q
		UNION ALL SELECT 'key', md5(k::text), job_id, queue_id, null, until, null, null, null, null, unique_hash, unique_key FROM pgq_ext.unique_key k
		ORDER BY 1, 3}, $db);
}
my $state = state_of('postgres');
my $due   = sql($order);
my ($due_jobs) = $due =~ /^(\d+)/;

sub run_ok { my ($what, @command) = @_; $node->command_ok(\@command, $what); return }
run_ok('pg_dump, plain',     'pg_dump', '-f', "$dir/plain.sql", $node->connstr('postgres'));
run_ok('pg_dump, inserts',   'pg_dump', '--inserts', '-f', "$dir/inserts.sql", $node->connstr('postgres'));
run_ok('pg_dump, custom',    'pg_dump', '-Fc', '-f', "$dir/custom", $node->connstr('postgres'));
run_ok('pg_dump, directory', 'pg_dump', '-Fd', '-j2', '-f', "$dir/directory", $node->connstr('postgres'));
run_ok('pg_dump, data only, inserts', 'pg_dump', '--data-only', '--inserts', '-f', "$dir/data_inserts.sql", $node->connstr('postgres'));
run_ok('pg_dump, data only, columns', 'pg_dump', '-Fc', '--data-only', '--column-inserts', '-f', "$dir/data_inserts", $node->connstr('postgres'));
run_ok('pg_dump, data only', 'pg_dump', '--data-only', '--disable-triggers', '-f', "$dir/data.sql", $node->connstr('postgres'));

# ---- restored ----

my $triggers = q{SELECT string_agg(DISTINCT tgenabled::text, '') FROM pg_trigger WHERE tgname IN ('job_changed', 'job_fence', 'dead_job_changed', 'queue_appeared', 'queue_paused', 'timetable_changed', 'job_batch_changed')};
my $parts    = q{SELECT string_agg(concat_ws(' ', relname, relreplident, reloptions), ', ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace AND relkind IN ('r', 'i', 'p')};

sub comes_back_ok
{
	my ($what, $db) = @_;
	is(state_of($db), $state, "$what: the same rows");
	is(sql($parts, $db), sql($parts), '... in the same tables');
	is(sql(q{SELECT pgq_enqueue('q', '1', unique_key => 'next year') = (SELECT job_id FROM pgq_ext.job WHERE unique_key = 'next year'),
		pgq_enqueue('q', '1', unique_key => 'gone') = (SELECT job_id FROM pgq_ext.unique_key)}, $db), 't|t', '... with their keys');
	is(sql(q{SELECT count(*), md5(string_agg(job_id::text, ' ')) FROM pgq_claim('q', 10000, wait => '30 s') WHERE payload <> '"soon"'}, $db), $due, '... handed out in the same order, those in work at the dump included');
	is(sql(q{SELECT count(*) FROM pgq_ext.lease JOIN pgq_ext.job USING (job_id) WHERE attempt <> attempts + 1}, $db), '0', '... with their attempts');
	cmp_ok(sql("SELECT lease FROM pgq_ext.lease WHERE job_id = $held", $db), '>', $held_lease, '... and greater leases');
	wait_for($node, q{count(*) = 1 FROM (SELECT count(*) FROM pgq_claim('q')) c, pgq_ext.lease JOIN pgq_ext.job USING (job_id) WHERE payload = '"soon"'}, $db);
	pass('... those that are due later come later');
	wait_until_counted($node, $db);
	is(sql(q{SELECT scheduled, dead FROM pgq_ext.queue_status WHERE queue = 'q'}, $db), '5|7', '... others wait, or are dead');
	is(sql(q{SELECT pgq_enqueue('q', '1') > (SELECT max(job_id) FROM (SELECT job_id FROM pgq_ext.job UNION ALL SELECT job_id FROM pgq_ext.dead_job) j)}, $db), 't', '... new jobs have new ids');
	is(sql(q{SELECT pgq_create_queue('new'); SELECT queue_id > ALL (SELECT queue_id FROM pgq_ext.queue WHERE queue <> 'new') FROM pgq_ext.queue WHERE queue = 'new'}, $db), "t\nt", '... new queues, too');
	wait_for($node, "($triggers) = 'A'", $db);
	wait_for_scheduler($node, $db);

	# The scheduler works: a lost lease is counted.
	sql(q{SELECT pgq_enqueue('empty', '1'); SELECT job_id FROM pgq_claim('empty', lease_time => '1 s')}, $db);
	is(sql(q{SELECT attempt FROM pgq_claim('empty', wait => '60 s')}, $db), '2', '... by a scheduler');
	sql("DROP DATABASE $db");
	return;
}

sub new_db { my ($db) = @_; sql("CREATE DATABASE $db TEMPLATE template0"); return $node->connstr($db) }
sub restored_ok { my ($what, $db, @command) = @_; run_ok($what, @command); comes_back_ok($what, $db); return }
sub psql { my ($db, @options) = @_; return ('psql', '-Xq', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', @options, '-d', $node->connstr($db)) }

new_db('plain');
restored_ok('plain', 'plain', psql('plain', '-f', "$dir/plain.sql"));
new_db('inserts');
restored_ok('inserts, in one transaction', 'inserts', psql('inserts', '-1', '-f', "$dir/inserts.sql"));
restored_ok('custom', 'custom', 'pg_restore', '-e', '-d', new_db('custom'), "$dir/custom");
restored_ok('custom, in one transaction', 'single', 'pg_restore', '-1', '-d', new_db('single'), "$dir/custom");
restored_ok('directory, parallel', 'directory', 'pg_restore', '-e', '-j2', '-d', new_db('directory'), "$dir/directory");

# Triggers off, in a database that has the extension already.
run_ok('schema only', 'pg_restore', '-e', '--schema-only', '-d', new_db('data'), "$dir/custom");
restored_ok('data only, triggers off', 'data', psql('data', '-f', "$dir/data.sql"));

run_ok('schema only', 'pg_restore', '-e', '--schema-only', '-d', new_db('data2'), "$dir/custom");
restored_ok('data only, triggers off, in one transaction', 'data2', 'pg_restore', '-1', '--data-only', '--disable-triggers', '-d', $node->connstr('data2'), "$dir/custom");

# Into a database that has the extension and nothing else: the segments are made when they are named.
sub bare_db { my $url = new_db(@_); sql('CREATE EXTENSION pgq_ext', @_); return $url }
bare_db('bare1');
restored_ok('data only, triggers off, into the bare extension', 'bare1', psql('bare1', '-f', "$dir/data.sql"));
bare_db('bare3');
restored_ok('data only, inserts, into the bare extension', 'bare3', psql('bare3', '-f', "$dir/data_inserts.sql"));
bare_db('bare4');
restored_ok('data only, inserts, in one transaction, into the bare extension', 'bare4', psql('bare4', '-1', '-f', "$dir/data_inserts.sql"));
restored_ok('data only, inserts with columns, into the bare extension', 'bare5', 'pg_restore', '-e', '-d', bare_db('bare5'), "$dir/data_inserts");
restored_ok('data only, in parallel, into the bare extension', 'bare2', 'pg_restore', '-e', '-j2', '--data-only', '-d', bare_db('bare2'), "$dir/directory");
bare_db('bare3');
sql('CREATE ROLE nobody');
is(sqlstate($node, 'COPY pgq_ext.job_0 (job_id) TO STDOUT', 'bare3'), '42P01', 'nobody else makes segments');
is(sqlstate($node, 'SET check_function_bodies = off; SET ROLE nobody; COPY pgq_ext.job_0 (job_id) FROM STDIN', 'bare3'), '42501', '... also in a restore, but their owner');
{
	my $session = session($node, 'bare3');
	ask($session, $_) for 'SET check_function_bodies = off', 'BEGIN', 'SAVEPOINT s';
	for my $time ('once', '... and once more, after ROLLBACK TO SAVEPOINT')
	{
		send_sql($session, 'INSERT INTO pgq_ext.job_0 (segment, queue_id, payload) SELECT 0, 1, NULL WHERE false');
		is((reply($session))[1], '', "segments are made by an INSERT $time");
		ask($session, 'ROLLBACK TO s');
	}
	end_session($session);
}
is(sqlstate($node, 'SET check_function_bodies = off; COPY pgq_ext.job_99 (job_id) TO STDOUT', 'bare3'), '42P01', '... nor others than there are');

# ---- by two of pg_restore's workers ----

# Each truncates its table first; neither waits for the other's.
{
	my @workers = map { session($node) } 1 .. 2;
	ask($workers[ $_ - 1 ], "BEGIN; TRUNCATE TABLE ONLY pgq_ext.job_$_") for 1, 2;
	send_sql($workers[ $_ - 1 ], "INSERT INTO pgq_ext.job_$_ (segment, queue_id, payload) SELECT $_, queue_id, '$_' FROM pgq_ext.queue WHERE queue = 'empty'; COMMIT") for 1, 2;
	is((reply($_))[1], '', 'a worker of a restore') for @workers;
	is(sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('empty', 10, wait => '30 s')}), '2', '... both have restored a job');
	end_session($_) for @workers;
}

# ---- while workers claim ----

# Until all that are due are done: a table of whom it was handed, and how often.
my $worker = qq{DO \$\$
	DECLARE ids bigint[]; leases bigint[]; done int := 0; ending timestamptz := clock_timestamp() + '90 s';
	BEGIN
		WHILE done < %d AND clock_timestamp() < ending LOOP
			ids := NULL;
			BEGIN
				SELECT array_agg(job_id), array_agg(lease) INTO ids, leases FROM pgq_claim('q', 50, wait => '100 ms');
			EXCEPTION WHEN undefined_object OR undefined_function OR lock_not_available THEN PERFORM pg_sleep(0.01);
			END;
			IF ids IS NOT NULL THEN
				done := done + (SELECT count(*) FROM pgq_ack_many(ids, leases));
				INSERT INTO public.done SELECT unnest(ids);
			END IF;
			COMMIT;
		END LOOP;
	END \$\$};

sub restored_under_load_ok
{
	my ($what, $db, @command) = @_;
	sql('CREATE TABLE IF NOT EXISTS public.done (job_id bigint)', $db);
	my $n = $due_jobs + 1;
	my $session = session($node, $db);
	send_sql($session, sprintf $worker, $n);
	run_ok($what, @command);
	is((reply($session))[1], '', "$what: a worker was at it all the time");
	is(sql('SELECT count(*), count(DISTINCT job_id) FROM public.done', $db), "$n|$n", '... and has done each job once');
	is(sql('SELECT count(*) FROM pgq_ext.job', $db), '5', '... only those that are not due are left');
	end_session($session);
	return;
}

for my $form ([ 'whole, with workers', psql('w1', '-f', "$dir/plain.sql") ], [ 'in one transaction, with workers', 'pg_restore', '-1', '-d', $node->connstr('w1'), "$dir/custom" ])
{
	new_db('w1');
	restored_under_load_ok($form->[0], 'w1', @$form[ 1 .. $#$form ]);
	sql('DROP DATABASE w1');
}
for my $form ([ 'data, with workers', 'pg_restore', '-e', '--data-only' ], [ 'data, triggers off, with workers', 'pg_restore', '-e', '--data-only', '--disable-triggers' ],
	[ 'data, triggers off, in one transaction, with workers', 'pg_restore', '-1', '--data-only', '--disable-triggers' ])
{
	my ($what, @command) = @$form;
	run_ok('schema only', 'pg_restore', '-e', '--schema-only', '-d', new_db('w2'), "$dir/custom");
	restored_under_load_ok($what, 'w2', @command, '-d', $node->connstr('w2'), "$dir/custom");
	wait_for($node, "($triggers) = 'A'", 'w2');
	sql('DROP DATABASE w2');
}

$node->stop;
done_testing();
