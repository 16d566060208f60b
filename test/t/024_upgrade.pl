# pg_upgrade copies the files of the tables, and the queues go on in the new cluster. The test runs the commands of
# docs/upgrade.md. For an upgrade from another version of PostgreSQL: test/run.sh pg_upgrade.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use PgqTest;

my $conf = "pgq_ext.segment_size = 64kB\n";
my $old = pgq_node('old', new => { old_version() }, conf => $conf);
my $dir = $old->basedir;
my $number = 0;
sub on { my ($node, $sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }

# ---- jobs in every state, in segments that have been in use before ----

# Work until segments were truncated, and jobs that stay were moved out of their way.
sub rotate
{
	my ($node, $db) = @_;
	my $before = on($node, 'SELECT sum(truncations), sum(moved_out) FROM pgq_ext.segment', $db);
	my ($truncations, $moves) = split /\|/, $before;
	my $ending = monotonic() + $PostgreSQL::Test::Utils::timeout_default;
	while (monotonic() < $ending)
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
	create_queue($old, $_, '', $db) for 'closed', 'later', 'beats', 'keyed';
	create_queue($old, 'paused', '', $db);
	create_queue($old, 'fifo', 'fifo => true', $db);
	create_queue($old, 'kept', q{keep_finished => '1 day', log_attempts => 'all'}, $db);
	on($old, q{SELECT pgq_pause_queue('paused'), pgq_enqueue('paused', '1');
		SELECT pgq_enqueue('fifo', to_jsonb(i), group_key => 'g' || i % 2) FROM generate_series(1, 4) i;
		SELECT pgq_enqueue('kept', to_jsonb(i)) FROM generate_series(1, 9) i;
		SELECT pgq_ack(job_id, lease, '{"done": 1}') FROM pgq_claim('kept', 7);
		SELECT pgq_enqueue('keyed', '1', unique_key => 'waits');
		SELECT pgq_enqueue('keyed', '1', priority => 1, unique_key => 'for an hour', unique_for => '1 hour');
		SELECT pgq_ack(job_id, lease) FROM pgq_claim('keyed');
		SELECT pgq_run_done('done', pgq_run_once('done', period => '1000 days'));
		SELECT pgq_create_rate('rate', permits => 1, period => '1 s');
		SELECT pgq_schedule('beat', 'every 1 s', 'beats'), pgq_schedule('leap-day', '0 0 29 2 *', 'beats'), pgq_schedule('rests', 'every 1 s', 'beats');
		SELECT pgq_pause_schedule('rests')}, $db);
	on($old, q{SELECT pgq_grant('closed', 'keeper', '{claim}'); GRANT EXECUTE ON FUNCTION pgq_claim TO keeper, stranger;
		SELECT pgq_bind('t.#', 'kept'), pgq_grant_topic('t.*', 'keeper', '{publish}'); GRANT EXECUTE ON FUNCTION pgq_publish TO keeper, stranger}, $db);
	rotate($old, $db);
	on($old, q{SELECT pgq_enqueue('q', to_jsonb(i), priority => 2, group_key => 'g' || i % 3) FROM generate_series(1, 20) i}, $db);
}

my (%held, %token, %state, %order, %last, %widths, %schema);
# The beat goes on.
my $beats = q{queue_id NOT IN (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'beats')};
my $state = qq{
	SELECT 'job', md5((to_jsonb(j) - 'segment')::text), job_id, attempts, fence, last_error FROM pgq_ext.job j WHERE $beats
	UNION ALL SELECT 'dead', md5(d::text), job_id, attempts, null, last_error FROM pgq_ext.dead_job d
	UNION ALL SELECT 'attempt', md5((to_jsonb(a) - 'segment')::text), job_id, attempt, lease, outcome FROM pgq_ext.attempt a WHERE $beats
	UNION ALL SELECT 'finished', md5((to_jsonb(f) - 'segment')::text), job_id, attempts, null, outcome FROM pgq_ext.finished_job f WHERE $beats
	UNION ALL SELECT 'key', md5(k::text), job_id, null, null, unique_key FROM pgq_ext.unique_key k
	UNION ALL SELECT 'lock', md5(l::text), token, null, null, name FROM pgq_ext.held_lock l
	UNION ALL SELECT 'run', md5(r::text), token, null, null, name FROM pgq_ext.run r
	UNION ALL SELECT 'rate', md5(r::text), null, null, null, name FROM pgq_ext.rate_limit r
	UNION ALL SELECT 'schedule', md5((to_jsonb(t) - 'maker')::text), null, null, null, schedule FROM pgq_ext.timetable t WHERE schedule <> 'beat'
	UNION ALL SELECT 'binding', md5(b::text), queue_id, null, null, pattern FROM pgq_ext.topic_binding b
	UNION ALL SELECT 'pattern', md5(p::text), pattern_id, null, null, pattern FROM pgq_ext.topic_pattern p
	UNION ALL SELECT 'queue', md5(q::text), queue_id, null, null, queue FROM pgq_ext.queue q
	ORDER BY 1, 3, 4, 6};
for my $db (@databases)
{
	on($old, q{SELECT pgq_enqueue('q', '"short"')}, $db);
	$held{$db}   = [ map { [ split /\|/ ] } split /\n/, on($old, q{SELECT job_id, lease FROM pgq_claim('q', 4)}, $db) ];
	$token{$db}{lock} = on($old, q{SELECT pgq_lock('lock', ttl => '1 day')}, $db);
	$token{$db}{run}  = on($old, q{SELECT pgq_run_once('in-work', ttl => '1 day')}, $db);
	on($old, q{SELECT pgq_enqueue('later', '"again"');
		SELECT pgq_fail(job_id, lease, 'backs off', retry_in => '5 s') FROM pgq_claim('later');
		SELECT pgq_enqueue('later', '"soon"', delay => '5 s')}, $db);
	$state{$db}  = on($old, $state, $db);
	$last{$db}   = on($old, 'SELECT max(job_id) FROM (SELECT job_id FROM pgq_ext.job UNION ALL SELECT job_id FROM pgq_ext.dead_job) j', $db);
	$widths{$db} = on($old, $widths, $db);
	like($widths{$db}, qr/\b8\b/,  "$db: there are rows that end with their payload");
	like($widths{$db}, qr/\b21\b/, '... and whole ones');
	# They stay in work.
	my $in_work = join ', ', map { $_->[0] } @{ $held{$db} };
	$order{$db} = on($old, qq{SELECT string_agg(job_id::text, ' ' ORDER BY priority DESC, run_at, job_id) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id)
		WHERE queue = 'q' AND run_at < now() AND job_id NOT IN ($in_work)}, $db);
	is(on($old, 'SELECT count(*) FROM pgq_ext.segment', $db), '20', '... in all segments');
}

# What pg_upgrade asks for: every table on its own, with its file, the segments among them.
sub schema_of
{
	my ($node, $db, @options) = @_;
	command_ok([ 'pg_dump', '--schema-only', @options, '-f', "$dir/schema.sql", $node->connstr($db) ], "pg_dump --schema-only @options");
	return join "\n", grep { !/^\\(?:un)?restrict|^-- Dumped from database version/ } split /\n/, slurp_file("$dir/schema.sql");
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

my $page = 'docs/upgrade.md';
my ($settings) = blocks_of($page, 'pg_upgrade', 'conf');
my ($check, $switch, $finish, $look) = blocks_of($page, 'pg_upgrade', 'sh');

# What the commands of the page say, with another way to bring the files over.
sub follow
{
	my ($new, $mode, $text, $status) = @_;
	local %ENV = %ENV;
	$ENV{PGBINOLD}  = $old->config_data('--bindir');
	$ENV{PGBINNEW}  = $new->config_data('--bindir');
	$ENV{PGDATAOLD} = $old->data_dir;
	$ENV{PGDATANEW} = $new->data_dir;
	$ENV{PGPORTOLD} = $old->port;
	$ENV{PGPORTNEW} = $ENV{PGPORT} = $new->port;
	$ENV{PGHOST}    = $new->host;
	$text =~ s/ -d shop\b/ -d postgres/g;
	$text =~ s/ --link\b/ $mode --no-sync/g;
	my $folder = "$dir/upgrade" . $number++;
	mkdir $folder or die "$folder: $!";
	my $out;
	IPC::Run::run([ 'bash', '-euo', 'pipefail' ], '<', \$text, '>', \$out, '2>&1', init => sub { chdir $folder or die "$folder: $!" },
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	is($? >> 8, $status // 0, join ', ', split /\n/, $text) or diag($out);
	return $out;
}

sub new_cluster
{
	my ($name) = @_;
	my $new  = PostgreSQL::Test::Cluster->new($name);
	my $sums = $ENV{oldinstall} && $new->pg_version >= 18 ? ['--no-data-checksums'] : [];
	$new->init(extra => $sums);
	$new->append_conf('postgresql.conf', $settings . $conf);
	return $new;
}

sub upgrade
{
	my ($name, $mode) = @_;
	my $new = new_cluster($name);
	follow($new, $mode, $switch);
	$old->_update_pid(0);
	$new->_update_pid(1);
	return $new;
}

sub intact_ok
{
	my ($what, $node, $db) = @_;
	is(on($node, $state, $db), $state{$db}, "$what, $db: the same rows");
	# One that was written whole loses the NULL at its end if it has been moved meanwhile.
	is(on($node, $widths, $db) =~ s/ 17\b//r, $widths{$db} =~ s/ 17\b//r, '... as short as they were');
	is(schema_of($node, $db), $schema{$db}, '... in the same tables');
	is(on($node, q{SELECT string_agg(concat_ws(': ', c.relname, msg), E'\n') FROM pg_class c, verify_heapam(c.oid, check_toast => true) WHERE relname ~ '^(dead_)?job_\d+$'}, $db),
		'', '... without a fault');
	return;
}

sub indexes_ok
{
	my ($node, $db) = @_;
	is(on($node, q{SELECT count(bt_index_check(i.indexrelid, true)) FROM pg_index i JOIN pg_class c ON c.oid = indrelid WHERE c.relname ~ '^job_\d$'}, $db),
		'72', '... their indexes have every row');
	return;
}

# Pauses, groups, keys, times, locks, runs, rates, schedules.
sub coordination_goes_on_ok
{
	my ($node, $db) = @_;
	my $last = sub { return on($node, $_[0], $db) =~ s/.*\n//sr };
	is($last->(q{SELECT count(*) FROM pgq_claim('paused')}), '0', '... who was paused is paused');
	is($last->(q{SELECT pgq_resume_queue('paused'); SELECT count(*) FROM pgq_claim('paused')}), '1', '... and can be resumed');
	is($last->(q{SELECT string_agg(group_key, ' ' ORDER BY group_key) FROM pgq_claim('fifo', 100)}), 'g0 g1', '... of each group one job');
	is($last->(q{SELECT pgq_enqueue('keyed', '2', unique_key => 'waits') = job_id FROM pgq_ext.job WHERE unique_key = 'waits'}), 't', '... a key has its owner');
	is($last->(q{SELECT pgq_enqueue('keyed', '2', unique_key => 'for an hour') = job_id FROM pgq_ext.unique_key}), 't', '... also for its hour');
	wait_for($node, q{bool_and(run_at <= clock_timestamp()) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'later'}, $db);
	is($last->(q{SELECT string_agg(payload ->> 0, ' ' ORDER BY attempt) FROM pgq_claim('later', 10)}), 'soon again', '... what was delayed or backed off comes when its time has come');
	is($last->(q{SELECT pgq_lock('lock') IS NULL}), 't', '... a lock is held');
	is($last->("SELECT pgq_unlock('lock', $token{$db}{lock})"), 't', '... by who has it');
	cmp_ok($last->(q{SELECT pgq_lock('lock')}), '>', $token{$db}{lock}, '... the next token is greater');
	is($last->(q{SELECT pgq_run_once('in-work') IS NULL}), 't', '... a run is in work');
	is(sqlstate($node, "SELECT pgq_run_done('in-work', $token{$db}{run})", $db), '', '... and done by who has it');
	is($last->(q{SELECT pgq_run_once('done', period => '1000 days') IS NULL}), 't', '... what was done is not done again');
	is($last->(q{SELECT pgq_take('rate', wait => '50 s')}), 't', '... a rate lets so many through');
	my $seen = $last->(q{SELECT last_run_at FROM pgq_ext.schedule WHERE schedule = 'beat'});
	wait_for($node, "last_run_at > '$seen' FROM pgq_ext.schedule WHERE schedule = 'beat'", $db);
	is($last->(q{SELECT count(*) FROM pgq_ext.job WHERE headers ? 'schedule' GROUP BY headers ->> 'scheduled_at', headers ->> 'schedule' HAVING count(*) > 1}), '', '... schedules go on, with one job for a tick');
	is($last->(q{SELECT string_agg(schedule, ' ') FROM pgq_ext.schedule WHERE paused}), 'rests', '... but one that rests');
	is($last->(q{SELECT count(*) FROM pgq_claim('keyed', 10, lease_time => '1 s')}), '1', '... a lease');
	is($last->(q{SELECT attempt, last_error FROM pgq_claim('keyed', wait => '50 s')}), '2|the lease expired', '... is counted when it is lost');
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
	is(on($node, q{SET ROLE keeper; SELECT queue FROM pgq_publish('t.x', '1')}, $db), 'kept', '... who had a right on a topic has it');
	is(sqlstate($node, q{SET ROLE stranger; SELECT pgq_publish('t.x', '1')}, $db), '42501', '... and nobody else');
	on($node, q{SELECT pgq_drop_queue('closed'); DROP VIEW pgq_ext.topic_rights_1; DELETE FROM pgq_ext.topic_pattern}, $db);
	coordination_goes_on_ok($node, $db);
	is(on($node, q{SELECT string_agg(concat_ws(': ', "check", detail), E'\n') FROM pgq_ext.health WHERE status = 'fail'}, $db), '', '... health: nothing has failed');

	on($node, 'DROP EXTENSION pgq_ext', $db);
	is(on($node, q{SELECT to_regnamespace('pgq_ext'), count(*) FILTER (WHERE relname ~ '^(job|dead_job|queue)') FROM pg_class}, $db), '|0', '... DROP EXTENSION takes everything with it');
	return;
}

# What is in the way is told while the old one runs.
my $copy = new_cluster('copy');
on($old, q{BEGIN; SELECT pgq_enqueue('q', '"prepared"'); PREPARE TRANSACTION 'p'});
like(follow($copy, '', $check, 1), qr/source cluster contains prepared transactions/, '... since there is a prepared transaction');
on($old, q{ROLLBACK PREPARED 'p'});
like(follow($copy, '', $check), qr/Clusters are compatible/, '... without it nothing is in the way');

follow($copy, '', $switch);
$old->_update_pid(0);
$copy->_update_pid(1);
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
my @modes = ('--link');
append_to_file("$dir/file", 'x');
unshift @modes, '--clone' if system("cp --reflink=always '$dir/file' '$dir/clone' 2>/dev/null") == 0;
note "upgraded with @modes";
for my $mode (@modes)
{
	my $new = upgrade($mode =~ s/-//gr, $mode);
	intact_ok($mode, $new, $_) for @databases;
	follow($new, $mode, $finish);
	is(follow($new, $mode, $look), '', '... and what the page looks at finds nothing');
	goes_on_ok($new, $_) for @databases;
	$new->stop;
	$old->start if $mode ne '--link';
}
done_testing();
