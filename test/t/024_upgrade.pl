# pg_upgrade: the files of the tables go over as they are, and the queues go on where they were.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $conf = "pgq_ext.segment_size = 64kB\n";
my $old = pgq_node('old', conf => $conf);
my $bindir = $old->config_data('--bindir');
my $dir = $old->basedir;
sub on { my ($node, $sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
sub run_ok { my ($node, $what, @command) = @_; $node->command_ok(\@command, $what); return }

# ---- jobs in every state, in segments that have been in use before ----

# Work until segments were truncated, and jobs that stay were moved out of their way.
sub rotate
{
	my ($node, $db) = @_;
	my $before = on($node, 'SELECT sum(truncations), sum(moved_out) FROM pgq_ext.segment', $db);
	my ($truncations, $moves) = split /\|/, $before;
	my $ending = time + $PostgreSQL::Test::Utils::timeout_default;
	while (time < $ending)
	{
		on($node, q{SELECT pgq_enqueue('q', '"stays"', delay => '1 year', group_key => 'stays');
			SELECT count(pgq_enqueue('churn', jsonb_build_object('n', i))) FROM generate_series(1, 500) i;
			SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('churn', 1000)}, $db);
		return if on($node, "SELECT sum(truncations) >= $truncations + 3 AND sum(moved_out) > $moves FROM pgq_ext.segment", $db) eq 't';
	}
	die "truncations and moves are still $before";
}

my @databases = ('postgres', 'elsewhere');
on($old, 'CREATE DATABASE elsewhere; CREATE DATABASE idle');
on($old, 'CREATE SCHEMA tools; CREATE EXTENSION pgq_ext SCHEMA tools; ALTER DATABASE elsewhere SET search_path = public, tools', 'elsewhere');
on($old, 'CREATE EXTENSION pgq_ext; SELECT pgq_set_shard(17)', 'idle');

# Of rows that are stored without what is NULL at their end; checked by what the heap itself says.
my $widths = q{SELECT string_agg(DISTINCT natts::text, ' ') FROM (SELECT t_infomask2 & 2047 AS natts
	FROM pg_class c, generate_series(0, pg_relation_size(c.oid) / 8192 - 1) block, heap_page_items(get_raw_page('pgq_ext.' || relname, block))
	WHERE relname ~ '^job_\d$' AND t_data IS NOT NULL) items};

on($old, 'CREATE ROLE keeper; CREATE ROLE stranger');
on($old, 'GRANT USAGE ON SCHEMA tools TO keeper, stranger', 'elsewhere');
for my $db (@databases)
{
	on($old, 'CREATE EXTENSION pageinspect SCHEMA public; CREATE EXTENSION amcheck SCHEMA public', $db);
	create_queue($old, 'churn', '', $db);
	create_queue($old, 'q', q{max_attempts => 7, lease_time => '1 hour', backoff_max => '3 min'}, $db);
	on($old, q{SELECT pgq_enqueue('q', jsonb_build_object('n', i), priority => i % 5, headers => CASE WHEN i % 3 = 0 THEN jsonb_build_object('h', i) END,
			max_attempts => CASE WHEN i % 4 = 0 THEN 9 END, delay => CASE WHEN i % 10 = 0 THEN interval '1 year' END) FROM generate_series(1, 300) i;
		SELECT pgq_enqueue('q', (SELECT jsonb_agg(random()) FROM generate_series(1, 5000)), headers => (SELECT jsonb_agg(random()) FROM generate_series(1, 5000)));
		SELECT pgq_enqueue('q', jsonb_build_object('compressed', repeat('x', 100000)));
		SELECT pgq_fail(job_id, lease, E'broken \\\\ with\ttabs and\nlines', retry => false) FROM pgq_claim('q', 5);
		SELECT pgq_fail(job_id, lease, 'backs off', retry_in => '1 year') FROM pgq_claim('q', 6)}, $db);
	create_queue($old, 'closed', '', $db);
	on($old, q{SELECT pgq_grant('closed', 'keeper', '{claim}'); GRANT EXECUTE ON FUNCTION pgq_claim TO keeper, stranger}, $db);
	rotate($old, $db);
	on($old, q{SELECT pgq_enqueue('q', to_jsonb(i), priority => 2, group_key => 'g' || i % 3) FROM generate_series(1, 20) i}, $db);
}

my (%held, %state, %order, %last, %widths, %schema);
my $state = q{
	SELECT 'job', md5((to_jsonb(j) - 'segment')::text), job_id, attempts, fence, last_error FROM pgq_ext.job j
	UNION ALL SELECT 'dead', md5(d::text), job_id, attempts, null, last_error FROM pgq_ext.dead_job d
	UNION ALL SELECT 'attempt', md5((to_jsonb(a) - 'segment')::text), job_id, attempt, lease, outcome FROM pgq_ext.attempt a
	UNION ALL SELECT 'queue', md5(q::text), queue_id, null, null, queue FROM pgq_ext.queue q
	ORDER BY 1, 3, 4};
for my $db (@databases)
{
	on($old, q{SELECT pgq_enqueue('q', '"short"')}, $db);
	$held{$db}   = [ map { [ split /\|/ ] } split /\n/, on($old, q{SELECT job_id, lease FROM pgq_claim('q', 4)}, $db) ];
	$state{$db}  = on($old, $state, $db);
	$last{$db}   = on($old, 'SELECT max(job_id) FROM (SELECT job_id FROM pgq_ext.job UNION ALL SELECT job_id FROM pgq_ext.dead_job) j', $db);
	$widths{$db} = on($old, $widths, $db);
	like($widths{$db}, qr/\b8\b/,  "$db: there are rows that end with their payload");
	like($widths{$db}, qr/\b18\b/, '... and whole ones');
	# They stay in work.
	my $in_work = join ', ', map { $_->[0] } @{ $held{$db} };
	$order{$db} = on($old, qq{SELECT string_agg(job_id::text, ' ' ORDER BY priority DESC, run_at, job_id) FROM pgq_ext.job WHERE run_at < now() AND job_id NOT IN ($in_work)}, $db);
	is(on($old, 'SELECT count(*) FROM pgq_ext.segment', $db), '20', '... in all segments');
}

# What pg_upgrade asks for: every table on its own, with its file, the segments among them.
sub schema_of
{
	my ($node, $db, @options) = @_;
	run_ok($node, "pg_dump --schema-only @options", 'pg_dump', '--schema-only', @options, '-f', "$dir/schema.sql", $node->connstr($db));
	return join "\n", grep { !/^\\(?:un)?restrict/ } split /\n/, slurp_file("$dir/schema.sql");
}
for my $db (@databases)
{
	my $binary = schema_of($old, $db, '--binary-upgrade');
	is(scalar(() = $binary =~ /^ALTER TABLE ONLY pgq_ext\.job ATTACH PARTITION pgq_ext\.job_\d FOR VALUES IN \('\d'\);$/mg), 8, 'for pg_upgrade: the segments');
	is(scalar(() = $binary =~ /^ALTER EXTENSION pgq_ext ADD TABLE pgq_ext\.(?:(?:dead_|finished_)?job|attempt)_\d+;$/mg), 0, '... are no members of the extension');
	is(scalar(() = $binary =~ /^ALTER EXTENSION pgq_ext ADD TABLE pgq_ext\.(?:job|queue|dead_job|attempt|finished_job);$/mg), 5, '... as other tables are');
}
$schema{$_} = schema_of($old, $_) for @databases;

# ---- upgraded ----

sub upgrade
{
	my ($name, @options) = @_;
	my $new = PostgreSQL::Test::Cluster->new($name);
	$new->init;
	$new->append_conf('postgresql.conf', $conf);
	chdir $dir or die "$dir: $!";
	run_ok($new, "pg_upgrade @options", 'pg_upgrade', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bindir, '-B', $bindir,
		'-p', $old->port, '-P', $new->port, '-s', $new->host, '--no-sync', @options);
	$new->start;
	return $new;
}

sub intact_ok
{
	my ($what, $node, $db) = @_;
	is(on($node, $state, $db), $state{$db}, "$what, $db: the same rows");
	is(on($node, $widths, $db), $widths{$db}, '... as short as they were');
	is(schema_of($node, $db), $schema{$db}, '... in the same tables');
	is(on($node, q{SELECT string_agg(concat_ws(': ', c.relname, msg), E'\n') FROM pg_class c, verify_heapam(c.oid, check_toast => true) WHERE relname ~ '^(dead_)?job_\d+$'}, $db),
		'', '... without a fault');
	return;
}

sub indexes_ok
{
	my ($node, $db) = @_;
	is(on($node, q{SELECT count(bt_index_check(i.indexrelid, true)) FROM pg_index i JOIN pg_class c ON c.oid = indrelid WHERE c.relname ~ '^job_\d$'}, $db),
		'56', '... their indexes have every row');
	return;
}

sub goes_on_ok
{
	my ($node, $db) = @_;
	my ($first, @others) = @{ $held{$db} };
	on($node, "SELECT pgq_ack($first->[0], $first->[1])", $db);
	is(on($node, "SELECT count(*) FROM pgq_ext.job WHERE job_id = $first->[0]", $db), '0', '... a lease from before is honoured');

	is(join(' ', split /\n/, on($node, q{SELECT job_id FROM pgq_claim('q', 10000)}, $db)), $order{$db}, '... the same jobs are due, in the same order, but those in work');
	my $held = join ', ', map { "($_->[0], $_->[1])" } @others;
	is(on($node, "SELECT count(*) FROM pgq_ext.lease l JOIN (VALUES $held) h (job_id, lease) USING (job_id) WHERE l.lease = h.lease", $db), '3', '... which have their leases');
	is(sqlstate($node, "SELECT pgq_ack($others[0][0], $others[0][1])", $db), '', '... that are good to acknowledge with');
	is(on($node, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease}, $db), 2 + scalar(split / /, $order{$db}), '... they are done');
	cmp_ok(on($node, q{SELECT pgq_enqueue('q', '1')}, $db), '>', $last{$db}, '... new ones have new ids');
	rotate($node, $db);
	pass('... segments rotate');
	indexes_ok($node, $db);
	is(on($node, 'SELECT * FROM pgq_check()', $db), '', '... pgq_check() finds nothing');

	is(on($node, q{SET ROLE keeper; SELECT count(*) FROM pgq_claim('closed')}, $db), '0', '... who had a right on a closed queue has it');
	is(sqlstate($node, q{SET ROLE stranger; SELECT pgq_claim('closed')}, $db), '42501', '... and nobody else');
	on($node, q{SELECT pgq_drop_queue('closed')}, $db);

	on($node, 'DROP EXTENSION pgq_ext', $db);
	is(on($node, q{SELECT to_regnamespace('pgq_ext'), count(*) FILTER (WHERE relname ~ '^(job|dead_job|queue)') FROM pg_class}, $db), '|0', '... DROP EXTENSION takes everything with it');
	return;
}

$old->stop;
my $copy = upgrade('copy');
for my $db (@databases)
{
	intact_ok('copied', $copy, $db);
	indexes_ok($copy, $db);
	goes_on_ok($copy, $db);
}
create_queue($copy, 'q', '', 'idle');
is(on($copy, q{SELECT pgq_enqueue('q', '1'); SELECT count(*) FROM pgq_claim('q'); SELECT pgq_enqueue('q', '1')}, 'idle'), "17\n1\n1041", 'an extension that had no queue gets one, and has its shard');
$copy->stop;

# The old one has not changed. When the new one has its files it is gone.
$old->start;
intact_ok('the old one', $old, $_) for @databases;
$old->stop;
my $link = upgrade('link', '--link');
for my $db (@databases)
{
	intact_ok('linked', $link, $db);
	goes_on_ok($link, $db);
}
$link->stop;
done_testing();
