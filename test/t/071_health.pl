# Each check of the view health, on a server whose clock can be set: the cause that makes the check report a problem,
# and that the check is ok again when the cause is gone.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use ClockTest;
use RotationTest qw(current_segment);
use Test::More;

my @checks = ('library', 'tables', 'subscription', 'workers', 'scheduler', 'duties', 'lost leases', 'repairs', 'capacity', 'rotation',
	'snapshots', 'prepared', 'open claims', 'unclaimed', 'paused', 'depth', 'rates', 'retention', 'schedules',
	'batches', 'callbacks', 'children', 'handlers', 'handler calls', 'handler workers', 'topics', 'watched tables');

my $node = clock_node('health', conf => "pgq_ext.segment_size = '64kB'\nautovacuum = off\npgq_ext.max_locks = 50\nwal_level = logical\npgq_ext.max_handler_workers = 1\n",
	init => { allows_streaming => 1 });
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }

sub health
{
	my ($check) = @_;
	return "FROM pgq_ext.health WHERE \"check\" = '$check'";
}

# Asks in the session first: most of the conditions are true at once.
sub wait_until
{
	my ($condition) = @_;
	wait_for($node, $condition) if sql("SELECT $condition") ne 't';
	return;
}

# With everything that is said; nothing is said of what is ok but what it is.
sub is_health
{
	my ($check, $status, $detail, $what) = @_;
	wait_until("status = '$status' " . health($check));
	my ($is, $hint) = split /\|/, sql('SELECT detail, hint ' . health($check));
	like($is, $detail, $what);
	is(defined $hint && $hint ne '' ? 1 : 0, $status eq 'ok' ? 0 : 1, '... and what to do about it');
	return;
}

sub is_well
{
	my ($check) = @_;
	wait_until("status = 'ok' AND hint IS NULL " . health($check));
	pass("$check: ok again");
	return;
}

create_queue($node, 'q');
my $scheduler = wait_for_scheduler($node);
my $hour = 3600;

is(sql('SELECT string_agg("check", \', \') FROM pgq_ext.health'), join(', ', @checks), 'each check has its row');
is(sql(q{SELECT count(*) FROM pgq_ext.health WHERE status <> 'ok' OR hint IS NOT NULL OR detail IS NULL}), '0', '... all is well');
is(sql(q{SELECT bool_and(checked_at BETWEEN statement_timestamp() AND clock_timestamp()) FROM pgq_ext.health}), 't', '... now');

# ---- who may look ----

sql('CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher; CREATE ROLE stranger LOGIN');
is($node->safe_psql('postgres', 'SET ROLE watcher; SELECT count(*) FROM pgq_ext.health'), scalar @checks, 'pg_monitor may look');
is(sqlstate($node, 'SET ROLE stranger; SELECT * FROM pgq_ext.health'), '42501', '... others may not');
is(sqlstate($node, 'SET ROLE watcher; SELECT * FROM pgq_ext.check_library()'), '42501', '... the checks themselves are the owner\'s');
is($node->safe_psql('postgres', q{SET ROLE watcher; CREATE TEMP TABLE queue (queue text, paused boolean); CREATE TEMP TABLE pg_extension (x int);
	SELECT count(*) FILTER (WHERE status = 'ok') FROM pgq_ext.health}), scalar @checks, '... and what he puts in their way is not in their way');

# ---- queues ----

# No schedule runs in the minute after the clock was set.
subtest 'depth' => sub
{
	create_queue($node, 'd', 'max_depth => 2');
	sql(q{SELECT pgq_enqueue('d', '1')});
	is_well('depth');
	sql(q{SELECT pgq_enqueue('d', '2')});
	is_health('depth', 'warn', qr/^queue "d": 2 of 2$/, 'full');
	drain($node, 'd');
	is_well('depth');
};

subtest 'schedules' => sub
{
	sql(q{SELECT pgq_schedule('s', 'every 1 s', 'd'); SELECT pgq_drop_queue('d', force => true)});
	is_health('schedules', 'warn', qr/^"s" has an error$/, 'its queue is gone');
	sql(q{SELECT pgq_unschedule('s')});
	is_well('schedules');
	sql(q{SELECT pgq_schedule('s', 'every 1 h', 'q')});
	sql(q{ALTER TABLE pgq_ext.timetable DISABLE TRIGGER ALL; UPDATE pgq_ext.timetable SET next_run_at = now() - interval '2 min', due_at = now() + interval '1 h';
		ALTER TABLE pgq_ext.timetable ENABLE ALWAYS TRIGGER timetable_changed});
	is_health('schedules', 'warn', qr/^"s" is late by 00:02:/, 'late');
	sql(q{SELECT pgq_unschedule('s')});
	is_well('schedules');
};

subtest 'paused' => sub
{
	sql(q{SELECT pgq_pause_queue('q')});
	is(sql(q{SELECT paused_at BETWEEN now() - interval '1 min' AND clock_timestamp() FROM pgq_ext.queue WHERE queue = 'q'}), 't', 'since when is known');
	is_well('paused');
	set_clock($node, $hour + 60);
	is_health('paused', 'warn', qr/^queue "q" for 01:0/, 'for more than an hour');
	sql(q{SELECT pgq_alter_queue('q', max_attempts => 7); SELECT pgq_pause_queue('q')});
	is_health('paused', 'warn', qr/^queue "q" for 01:0/, '... also when it is changed, and paused once more');
	sql(q{SELECT pgq_resume_queue('q')});
	is_well('paused');
	is(sql(q{SELECT paused_at IS NULL FROM pgq_ext.queue WHERE queue = 'q'}), 't', '... and forgotten');
	sql(q{UPDATE pgq_ext.queue SET paused = true WHERE queue = 'q'});
	set_clock($node, 3 * $hour);
	is_health('paused', 'warn', qr/^queue "q" for 01:5/, 'paused by hand');
	sql(q{UPDATE pgq_ext.queue SET paused = false WHERE queue = 'q'});
	set_clock($node, 0);
	is_well('paused');
};

subtest 'unclaimed' => sub
{
	create_queue($node, 'u');
	sql(q{SELECT pgq_enqueue('u', '"text of a job"') FROM generate_series(1, 3)});
	is_well('unclaimed');
	set_clock($node, 360);
	is_health('unclaimed', 'fail', qr/^queue "u": \d* ready, the oldest for 00:06:\d\d, 0 in work$/, 'nobody works');
	is(sql(q{SELECT string_agg(waits_for, ', ' ORDER BY job_id) FROM pgq_ext.job_status WHERE queue = 'u'}), 'a worker: nobody claims, behind 1 job, behind 2 jobs', '... which the jobs say, too');
	is(sql(q{SELECT string_agg(step, ' ' ORDER BY job_id, step) FROM pgq_ext.job_status, pgq_explain(job_id) WHERE queue = 'u'}), 'no worker behind no worker behind no worker', '... and pgq_explain');
	my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('u', lease_time => '1 day')});
	is_well('unclaimed');
	is(sql(q{SELECT string_agg(waits_for, ', ' ORDER BY job_id) FROM pgq_ext.job_status WHERE queue = 'u'}), 'a worker, behind 1 job', '... the jobs say so');
	set_clock($node, 720);
	is_health('unclaimed', 'warn', qr/^queue "u": \d* ready, the oldest for 00:1\d:\d\d, 1 in work$/, 'somebody is at it, but does not come back');
	sql(q{SELECT pgq_pause_queue('u')});
	is_well('unclaimed');
	sql(q{SELECT pgq_resume_queue('u')});
	is_health('unclaimed', 'warn', qr/queue "u"/, 'resumed');
	drain($node, 'u') if sql("SELECT pgq_ack($id, $lease)") eq '';
	is_well('unclaimed');
	set_clock($node, 0);
};

# ---- batches ----

subtest 'batches' => sub
{
	is_well($_) for 'batches', 'callbacks';
	my $batch = sql('SELECT pgq_create_batch()');
	my $set = sub { return sql("UPDATE pgq_ext.job_batch SET $_[0] WHERE batch_id = $batch") };
	$set->(q{created_at = clock_timestamp() - interval '25 h'});
	is_health('batches', 'warn', qr/^batch $batch is open for 1 day 01:00:\d\d and has no live members$/, 'an open batch without members');
	$set->(q{created_at = clock_timestamp()});
	is_well('batches');
	$set->(q{restored = true});
	is_health('batches', 'warn', qr/^batches of a dump that wait for their first look: 1$/, 'one that came from a dump');
	$set->(q{restored = false, failures = 2, last_error = 'broken'});
	is_well('batches');
	is_health('callbacks', 'warn', qr/^batch $batch: 2 tries to enqueue a callback have failed$/, 'a callback that fails');
	$set->(q{failures = 0, last_error = NULL});
	is_well('callbacks');
	$set->(q{pending = false});
	sql("DELETE FROM pgq_ext.job_batch WHERE batch_id = $batch");
};

# ---- children ----

subtest 'children' => sub
{
	is_well('children');
	create_queue($node, 'family', q{max_attempts => 1});
	my $parent = sql(q{SELECT pgq_enqueue('family', '1')});
	my $child = sql("SELECT pgq_enqueue('family', '2', after => '{$parent}', on_parent_failure => 'hold')");
	sql(q{SELECT pgq_fail(job_id, lease) FROM pgq_claim('family', wait => '60 s')});
	is_well('children');
	sql("UPDATE pgq_ext.dead_job SET died_at = died_at - interval '61 min' WHERE job_id = $parent");
	is_health('children', 'warn', qr/^job $parent is a dead letter for 01:01:\d\d, and jobs wait for it: 1$/, 'a dead letter for which a job waits');
	sql("SELECT pgq_cancel($child)");
	is_well('children');
	sql(q{SELECT pgq_drop_queue('family', force => true)});
};

subtest 'topics' => sub
{
	is_well('topics');
	create_queue($node, 'narrow', 'max_depth => 1');
	sql(q{SELECT pgq_bind('narrow', 'narrow', '{"when_full": "skip"}'); SELECT pgq_publish('narrow', '1')});
	is_well('topics');
	sql(q{SELECT pgq_publish('narrow', '2'); SELECT pgq_publish_many('[{"topic": "narrow", "payload": 3}, {"topic": "narrow", "payload": 4, "unique_key": "k"}]')});
	is_health('topics', 'warn', qr/^queue "narrow" was full, and publishes have left out 3 jobs, the last 00:00:\d\d ago$/, 'jobs that a full queue has not got');
	sql(q{SELECT pgq_drop_queue('narrow', force => true)});
	is_well('topics');
	# What no function of the extension writes. Publishes of other topics are as before.
	sql(q{SELECT pgq_bind('whole', 'q'); INSERT INTO pgq_ext.topic_binding (queue_id, pattern) VALUES (4711, 'of.#'), (4711, 'whole'); INSERT INTO pgq_ext.topic_binding (queue_id, pattern) SELECT queue_id, 'bad*' FROM pgq_ext.queue WHERE queue = 'q'});
	is_health('topics', 'warn', qr/^queue "q" is bound to "bad\*", which is not a pattern; pattern "of\.#" is bound to the queue with queue_id 4711, which does not exist; pattern "whole" is bound to .* 4711/, 'bindings that lead nowhere');
	is(sql(q{SELECT count(*) FROM pgq_publish('whole', '1')}), '1', '... do no harm');
	is(sql(q{SELECT count(*) FROM pgq_publish_many('[{"topic": "whole", "payload": 1}, {"topic": "of.x", "payload": 1}, {"topic": "bad*", "payload": 1}]')}), '1', '... to many jobs either');
	sql(q{DELETE FROM pgq_ext.topic_binding WHERE pattern <> 'whole' OR queue_id = 4711});
	is_well('topics');
	sql(q{SELECT pgq_grant_topic('closed', 'watcher', '{publish}')});
	my $id = sql(q{SELECT pattern_id FROM pgq_ext.topic_pattern});
	sql(qq{UPDATE pgq_ext.topic_pattern SET pattern_id = 4711});
	is_health('topics', 'warn', qr/^the view pgq_ext\.topic_rights_4711 is missing, so only the owner has rights by the pattern "closed"$/, 'a pattern without its view');
	is($node->safe_psql('postgres', q{GRANT EXECUTE ON FUNCTION pgq_publish TO watcher; SET ROLE watcher; SELECT count(*) FROM pgq_publish('whole', '1')}), '1', '... does no harm to other topics');
	sql(q{UPDATE pgq_ext.topic_pattern SET pattern = 'clo*'});
	is_health('topics', 'warn', qr/^"clo\*", which has rights, is not a pattern, and closes no topic$/, 'a bad pattern with rights');
	is($node->safe_psql('postgres', q{SET ROLE watcher; SELECT count(*) FROM pgq_publish('whole', '1')}), '1', '... does no harm either');
	sql(qq{DELETE FROM pgq_ext.topic_pattern; DROP VIEW pgq_ext.topic_rights_$id; SELECT pgq_unbind('whole', 'q'); SELECT pgq_purge_queue('q'); REVOKE EXECUTE ON FUNCTION pgq_publish FROM watcher});
	is_well('topics');
};

# ---- handlers ----

sql(q{CREATE ROLE hand LOGIN; CREATE ROLE other_hand LOGIN; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO hand, other_hand;
	CREATE TABLE done (job_id bigint); GRANT INSERT ON done TO hand, other_hand});
my $handle = q{CREATE OR REPLACE FUNCTION handle(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN IF job.payload = '"fails"' THEN RAISE 'secret of %', job.payload; END IF; PERFORM pg_advisory_xact_lock(4711) WHERE job.payload = '"waits"'; INSERT INTO done SELECT job.job_id; END $$};
sub handler_waits { return sql("SELECT waits_for FROM pgq_ext.job_status WHERE queue = '$_[0]'") }

subtest 'handlers' => sub
{
	create_queue($node, 'h', q{max_attempts => 1000, backoff_max => '1 s'});
	sql("$handle; SELECT pgq_set_handler('h', 'handle(pgq_ext.claimed_job)', run_as => 'hand')");
	is_well('handlers');
	sql('ALTER ROLE hand NOLOGIN');
	is_health('handlers', 'warn', qr/^queue "h" for 00:00:\d\d: role "hand" may not log in$/, 'a role that may not log in');
	my $id = sql(q{SELECT pgq_enqueue('h', '1')});
	is(handler_waits('h'), 'its handler, which is suspended: role "hand" may not log in', '... as the job says, too');
	sql('ALTER ROLE hand LOGIN');
	is_well('handlers');
	wait_for($node, "count(*) = 1 FROM done WHERE job_id = $id");
	sql('DROP FUNCTION handle');
	is_health('handlers', 'warn', qr/^queue "h" for 00:00:\d\d: function public.handle was dropped$/, 'a function that was dropped');
	sql("$handle; SELECT pgq_resume_handler('h')");
	is_well('handlers');
};

subtest 'a handler that is paused' => sub
{
	sql(q{SELECT pgq_pause_handler('h')});
	wait_until(q{state = 'paused' FROM pgq_ext.handler WHERE queue = 'h'});
	my $id = sql(q{SELECT pgq_enqueue('h', '2')});
	is(handler_waits('h'), 'its handler, which is paused', 'the job says so');
	set_clock($node, 400);
	is_well($_) for 'paused', 'unclaimed';
	set_clock($node, $hour + 60);
	is_health('paused', 'warn', qr/^handler of queue "h" for 01:0/, 'for more than an hour');
	set_clock($node, 0);
	sql(q{SELECT pgq_resume_handler('h')});
	is_well('paused');
	wait_for($node, "count(*) = 1 FROM done WHERE job_id = $id");
};

subtest 'handler calls' => sub
{
	is_well('handler calls');
	sql(q{SELECT count(pgq_enqueue('h', '"fails"')) FROM generate_series(1, 30)});
	is_health('handler calls', 'warn', qr/^queue "h": 2\d calls have failed in a row(?:, and none begins for 00:00:\d\d)?$/, 'all of them');
	wait_until(q{count(*) > 0 FROM pgq_ext.job_status WHERE waits_for ~ '^its handler, which rests until 2'});
	pass('... and the jobs say for how long');
	my $errors = q{SELECT count(last_error) FROM pgq_ext.handler_entries()};
	is(sql($errors), '1', 'the last error is there');
	is($node->safe_psql('postgres', "SET ROLE watcher; $errors"), '0', '... for members of pg_monitor it is not');
	sql($handle =~ s/RAISE.*?;/NULL;/r);
	is_well('handler calls');
	wait_for($node, q{count(*) = 0 FROM pgq_ext.job_status WHERE queue = 'h'});
	sql($handle);
};

subtest 'handler workers' => sub
{
	is_well('handler workers');
	# The call waits for a lock: pg_sleep() may end early when the clock is set.
	sql('SELECT pg_advisory_lock(4711)');
	my $waiting = sql(q{SELECT pgq_enqueue('h', '"waits"')});
	wait_for($node, "count(*) = 1 FROM pgq_ext.lease WHERE job_id = $waiting");
	create_queue($node, 'h2');
	sql(q{SELECT pgq_set_handler('h2', 'handle(pgq_ext.claimed_job)', run_as => 'other_hand'), pgq_enqueue('h2', '3')});
	wait_until(q{waits_for = 'a worker slot for its handler (pgq_ext.max_handler_workers)' FROM pgq_ext.job_status WHERE queue = 'h2'});
	is_well('handler workers');
	set_clock($node, 400);
	is_health('handler workers', 'warn', qr/^queue "h2" has none, and its oldest job is ready for 00:0[67]:/, 'for minutes');
	sql("SELECT pgq_cancel($waiting)");
	sql('SELECT pg_advisory_unlock(4711)');
	is_well('handler workers');
	set_clock($node, 0);
	wait_for($node, q{count(*) = 0 FROM pgq_ext.job_status WHERE queue = 'h2'});
	$node->append_conf('postgresql.conf', 'pgq_ext.max_handler_workers = 0');
	$node->stop;
	start_with_clock($node);
	is_health('handler workers', 'warn', qr/^pgq_ext.max_handler_workers is 0, so 2 handlers do not run$/, 'there are none');
	sql(q{SELECT pgq_pause_handler('h'), pgq_drop_queue('h2', force => true)});
	is_well('handler workers');
	$node->append_conf('postgresql.conf', 'pgq_ext.max_handler_workers = 1');
	$node->stop;
	start_with_clock($node);
	$scheduler = wait_for_scheduler($node);
};

subtest 'watched tables' => sub
{
	is_well('watched tables');
	create_queue($node, $_) for qw(changes gone);
	sql(q{CREATE TABLE watched (id int PRIMARY KEY, a int, b int) PARTITION BY RANGE (id)});
	sql(q{CREATE TABLE part_1 PARTITION OF watched FOR VALUES FROM (0) TO (9)});
	my $watch = q{SELECT pgq_watch_table('watched', 'changes', columns => '{a}')};
	sql($watch);
	is_well('watched tables');
	sql(q{CREATE TABLE part_2 PARTITION OF watched FOR VALUES FROM (10) TO (19)});
	is_health('watched tables', 'warn', qr/^table public.watched, target queue:changes: partition public.part_2 has no trigger$/, 'a new partition');
	sql($watch);
	is_well('watched tables');
	sql(q{ALTER TABLE part_2 DISABLE TRIGGER pgq_watch_changes_update});
	is_health('watched tables', 'warn', qr/^table public.part_2, target queue:changes: trigger "pgq_watch_changes_update" is disabled$/, 'a disabled trigger');
	sql($watch);
	is_well('watched tables');
	sql(q{DROP TRIGGER pgq_watch_changes_delete ON part_1});
	is_health('watched tables', 'warn', qr/^table public.part_1, target queue:changes: there is no trigger for DELETE$/, 'a dropped trigger');
	sql($watch);
	is_well('watched tables');
	sql(q{ALTER TABLE watched RENAME a TO c});
	is_health('watched tables', 'fail', qr/table public.watched, target queue:changes: column "a" of watched table public.watched does not exist/, 'a renamed column');
	sql(q{ALTER TABLE watched DROP c});
	is_health('watched tables', 'fail', qr/column "a" of watched table public.part_1 does not exist/, 'a dropped column');
	sql(q{SELECT pgq_watch_table('watched', 'changes', columns => '{b}')});
	is_well('watched tables');
	sql(q{SELECT pgq_watch_table('watched', 'gone', key => '{b}')});
	sql(q{ALTER TABLE watched RENAME b TO d});
	is_health('watched tables', 'fail', qr/target queue:gone: column "b" of watched table public.watched does not exist/, 'a column of the key');
	sql(q{ALTER TABLE watched RENAME d TO b});
	sql(q{SELECT pgq_drop_queue('gone', force => true)});
	is_health('watched tables', 'fail', qr/target queue:gone: queue "gone" of the watch does not exist/, 'a dropped queue');
	sql(q{SELECT pgq_unwatch_table('watched', 'gone')});
	is_well('watched tables');
	sql(q{DROP TABLE watched; SELECT pgq_drop_queue('changes', force => true)});
};

subtest 'a handler without a queue' => sub
{
	sql(q{INSERT INTO pgq_ext.queue_handler SELECT h.* FROM pgq_ext.queue_handler o,
		jsonb_populate_record(NULL::pgq_ext.queue_handler, to_jsonb(o) || '{"queue_id": 999}') h});
	is_health('tables', 'warn', qr/^pgq_ext.queue_handler has a handler of the queue with queue_id 999, which does not exist$/, 'it is named');
	sql('DELETE FROM pgq_ext.queue_handler WHERE queue_id = 999');
	is_well('tables');
	sql(q{SELECT pgq_drop_queue('h', force => true)});
	is_well($_) for 'handlers', 'handler calls', 'handler workers';
};

# ---- transactions ----

subtest 'open claims' => sub
{
	my $s = session($node);
	sql(q{SELECT pgq_enqueue('q', '1')});
	ask($s, q{BEGIN; SELECT job_id FROM pgq_claim('q', lease_time => '1 s')});
	my $pid = pid_of($s);
	is_health('open claims', 'warn', qr/^queue "q": 1, the oldest 00:00:\d\d beyond its lease, of process $pid$/, 'a claim is older than its lease');
	end_session($s);
	is_well('open claims');
	drain($node, 'q');
};

subtest 'prepared' => sub
{
	create_queue($node, 'p');
	sql(q{SELECT pgq_enqueue('p', '1')});
	my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('p')});
	my %holds = (enqueues => q{SELECT pgq_enqueue('p', '2')}, acknowledges => "SELECT pgq_ack($id, $lease)", claims => q{SELECT pgq_claim('p')});
	for my $what ('enqueues', 'acknowledges', 'claims')
	{
		sql(q{SELECT pgq_enqueue('p', '3')}) if $what eq 'claims';
		sql("BEGIN; $holds{$what}; PREPARE TRANSACTION 'forgotten'");
		is_well('prepared');
		set_clock($node, 400);
		is_health('prepared', 'warn', qr/^"forgotten", prepared for 00:06:/, "it $what");
		sql(q{ROLLBACK PREPARED 'forgotten'});
		set_clock($node, 0);
		is_well('prepared');
	}
	sql(q{BEGIN; CREATE TABLE other (); PREPARE TRANSACTION 'other'});
	set_clock($node, 400);
	is(sql('SELECT status ' . health('prepared')), 'ok', 'one that has no jobs is another matter');
	set_clock($node, 2 * $hour);
	is_health('snapshots', 'warn', qr/prepared transaction "other", 0/, '... but keeps dead rows');
	sql(q{ROLLBACK PREPARED 'other'; SELECT pgq_drop_queue('p', force => true)});
	set_clock($node, 0);
	is_well('snapshots');
};

subtest 'snapshots' => sub
{
	my $s = session($node);
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	my $pid = pid_of($s);
	# Snapshots that are taken from now on are younger.
	sql('SELECT txid_current()');
	wait_for($node, "detail LIKE 'the oldest is that of process $pid (%' " . health('snapshots'));
	is_health('snapshots', 'ok', qr/^the oldest is that of process $pid \(/, 'the oldest is shown');
	set_clock($node, 2 * $hour);
	is_health('snapshots', 'warn', qr/^the oldest is that of process $pid \(.*\), 02:00:/, 'for more than an hour');
	end_session($s);
	set_clock($node, 0);
	is_well('snapshots');

	$node->backup('b');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	sql(q{SELECT pg_create_physical_replication_slot('standby', true)});
	$standby->init_from_backup($node, 'b', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "primary_slot_name = 'standby'\nhot_standby_feedback = on\n");
	$standby->start;
	wait_for($node, q{count(*) = 1 FROM pg_replication_slots WHERE xmin IS NOT NULL});
	is(sql('SELECT status ' . health('snapshots')), 'ok', 'a standby is no fault');
	# What is looked at was in the backup. After the clock went back its WAL writer flushes nothing for hours.
	is($standby->safe_psql('postgres', q{SELECT count(*) FROM pgq_ext.health WHERE status = 'ok' AND detail = 'not looked at: the server is a standby'}),
		scalar @checks, 'on a standby nothing is looked at');
	$standby->stop;
	is_health('snapshots', 'warn', qr/replication slot "standby"$/, 'a slot that nobody uses any more');
	sql(q{SELECT pg_drop_replication_slot('standby')});
	is_well('snapshots');
};

subtest 'rotation' => sub
{
	my $s = session($node);
	my $segment = current_segment($node);
	ask($s, "BEGIN; LOCK TABLE pgq_ext.job_$segment IN ACCESS SHARE MODE");
	my $fill = q{SELECT count(pgq_enqueue('q', to_jsonb(repeat('x', 500)))) FROM generate_series(1, 200); SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q', 200)};
	sql($fill) while current_segment($node) == $segment;
	# It counts from the last change of a page, as those by hint bits.
	wait_for($node, "empty_since < clock_timestamp() - interval '3 s' FROM pgq_ext.segment_entries() WHERE segment = $segment");
	is_well('rotation');
	set_clock($node, 900);
	my $pid = pid_of($s);
	is_health('rotation', 'warn', qr/^pgq_ext.job_$segment could be truncated for 00:1\d:\d\d, held by process $pid \(.*\) has locked it/, 'who holds it');
	end_session($s);
	is_well('rotation');
	set_clock($node, 0);
};

# ---- the scheduler ----

subtest 'a scheduler that stands still' => sub
{
	create_queue($node, 'r', q{keep_dead => '1 h'});
	sql(q{SELECT pgq_enqueue('r', '1'), pgq_enqueue('r', '2', expires_in => '1 s'), pgq_enqueue('r', '3', unique_key => 'k', unique_for => '1 s')});
	sql(q{SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('r') WHERE payload = '1'});
	sql(q{SELECT pgq_enqueue('q', '1'); SELECT count(*) FROM pgq_claim('q', lease_time => '5 s')});
	# Asleep, with no lock in hand.
	wait_for($node, "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $scheduler");
	kill 'STOP', $scheduler;
	is_health('lost leases', 'warn', qr/^queue "q": 1, the first for 00:0\d:\d\d$/, 'nobody counts what was lost');
	set_clock($node, 2 * $hour);
	is_health('scheduler', 'fail', qr/^it stands still since 0[12]:/, 'it stands still');
	is_health('retention', 'warn', qr/^dead letters of queue "r", by 0[01]:\d\d:\d\d; unique keys; jobs that have expired$/, 'what is kept beyond its time');
	kill 'CONT', $scheduler;
	is_well($_) for 'scheduler', 'lost leases';
	set_clock($node, 0);
	sql(q{SELECT pgq_purge_queue('q'), pgq_drop_queue('r', force => true); DELETE FROM pgq_ext.unique_key});
	is_well('retention');
};

subtest 'a duty that fails' => sub
{
	# Nobody can read its rows then.
	sql('ALTER TABLE pgq_ext.queue ADD COLUMN more int');
	is_health('duties', 'warn', qr/^queues, \d+ errors in 00:00:/, 'since a moment ago');
	is_health('tables', 'fail', qr/^table "pgq_ext.queue" differs from what the pgq_ext library expects \(55000\)$/, '... and why');
	is(sql('SELECT count(*) FROM pgq_ext.health'), scalar @checks, '... every check answers');
	set_clock($node, 600);
	is_health('duties', 'fail', qr/^queues, \d+ errors in 00:1/, 'for some minutes');
	sql('ALTER TABLE pgq_ext.queue DROP COLUMN more');
	is_well($_) for 'duties', 'tables';
	set_clock($node, 0);
};

subtest 'repairs' => sub
{
	is_well('repairs');
	create_queue($node, 'forgotten_h');
	# A row that no trigger tells of, of a queue that has been read to its end. If its segment is closed before the
	# reconciler has looked twice, it is moved, and thereby known: then another one.
	sql(q{SELECT count(*) FROM pgq_claim('forgotten_h')});
	my $repaired = 'f';
	for (1 .. $PostgreSQL::Test::Utils::timeout_default)
	{
		my $segment = current_segment($node);
		sql(qq{BEGIN; ALTER TABLE pgq_ext.job_$segment DISABLE TRIGGER job_changed;
			INSERT INTO pgq_ext.job (queue_id, segment, payload) SELECT queue_id, $segment, '1' FROM pgq_ext.queue WHERE queue = 'forgotten_h';
			ALTER TABLE pgq_ext.job_$segment ENABLE ALWAYS TRIGGER job_changed; COMMIT; SELECT pg_sleep(2)});
		last if ($repaired = sql(q{SELECT status = 'warn' } . health('repairs'))) eq 't';
	}
	is_health('repairs', 'warn', qr/^queue "forgotten_h": \d+ since /, 'a job had been forgotten');
	is(sql(q{SELECT pgq_drop_queue('forgotten_h', force => true)}), 't', 'its queue is dropped');
	is_well('repairs');
};

subtest 'capacity' => sub
{
	my $s = session($node);
	ask($s, q{BEGIN; SELECT count(pgq_lock('l' || i)) FROM generate_series(1, 45) i});
	is_health('capacity', 'warn', qr/^locks and runs held: 45 of 50 \(pgq_ext.max_locks\)/, 'a bound is near');
	ask($s, q{SELECT count(pgq_lock('l' || i)) FROM generate_series(46, 50) i});
	is_health('capacity', 'fail', qr/^locks and runs held: 50 of 50/, 'and reached');
	end_session($s);
	is_well('capacity');
};

# ---- tables ----

subtest 'tables' => sub
{
	sql('UPDATE pg_index SET indisvalid = false WHERE indexrelid = (SELECT oid FROM pg_class WHERE relname = \'unique_key_until\')');
	is_health('tables', 'fail', qr/^index pgq_ext.unique_key_until is not valid$/, 'an index');
	sql('REINDEX INDEX pgq_ext.unique_key_until');
	is_well('tables');
	sql('ALTER TABLE pgq_ext.queue DISABLE TRIGGER queue_changed');
	is_health('tables', 'warn', qr/^trigger queue_changed of pgq_ext.queue is switched off$/, 'a trigger');
	sql('ALTER TABLE pgq_ext.queue ENABLE TRIGGER queue_changed');
	is_well('tables');
	sql('CREATE ROLE other; ALTER TABLE pgq_ext.job_0 OWNER TO other');
	is_health('tables', 'fail', qr/^not looked at: tables or views of pgq_ext belong to other, /, 'an owner');
	sql('ALTER TABLE pgq_ext.job_0 OWNER TO CURRENT_USER');
	is_well('tables');
	# A restore has brought the queues, and not the segments.
	sql('CREATE DATABASE stripped');
	my $stripped = sub { return $node->safe_psql('stripped', $_[0]) };
	$stripped->(q{CREATE EXTENSION pgq_ext; SET check_function_bodies = off;
		INSERT INTO pgq_ext.queue (queue, lease_time, max_runtime, max_attempts, backoff_base, backoff_max, backoff_jitter, keep_dead, notify)
		VALUES ('left', '5 min', '0', 20, '1 s', '1 h', 0.2, '30 days', true)});
	is($stripped->('SELECT status, detail, hint ~ \'pgq_create_queue\' ' . health('tables')), 'fail|queue "left" has no tables to keep jobs in (55000)|t', 'a queue without segments is named');
	$stripped->(q{SELECT pgq_create_queue('new')});
	is($stripped->('SELECT status ' . health('tables')), 'ok', '... what its hint says helps');
	is($stripped->(q{SELECT pgq_enqueue('left', '1') > 0}), 't', '... and the queue has its jobs again');
	sql('DROP DATABASE stripped WITH (FORCE)');
	my $s = session($node);
	ask($s, 'BEGIN; LOCK TABLE pgq_ext.timetable');
	is_health('schedules', 'fail', qr/^canceling statement due to lock timeout \(55P03\)$/, 'who has locked a table keeps nobody waiting');
	end_session($s);
	is_well('schedules');
};

subtest 'subscription' => sub
{
	my $publisher = $node->connstr('postgres') =~ s{'}{''}gr;
	sql(q{CREATE PUBLICATION p FOR TABLE pgq_ext.job, pgq_ext.queue, pgq_ext.dead_job; CREATE DATABASE copy});
	$node->safe_psql('copy', q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('q')});
	sql(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
	$node->safe_psql('copy', "CREATE SUBSCRIPTION s CONNECTION '$publisher' PUBLICATION p WITH (create_slot = false, copy_data = false, enabled = false)");
	is($node->safe_psql('copy', 'SELECT status, detail ' . health('subscription')), 'warn|subscription "s" brings the jobs of this database', 'it is named');
	$node->safe_psql('copy', 'ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s');
	is($node->safe_psql('copy', 'SELECT status ' . health('subscription')), 'ok', 'subscription: ok again');
	sql(q{SELECT pg_drop_replication_slot('s')});
};

# ---- workers, library ----

subtest 'workers' => sub
{
	$node->safe_psql('copy', q{SELECT pgq_enqueue('q', '1')});
	# The launcher, the server's own for logical replication, and one of two schedulers.
	$node->append_conf('postgresql.conf', 'max_worker_processes = 3');
	$node->stop;
	start_with_clock($node);
	sql(q{SELECT pgq_enqueue('q', '1')});
	$node->safe_psql('copy', q{SELECT pgq_enqueue('q', '1')});
	is_health('workers', 'fail', qr/^1 schedulers have found no place$/, 'too few');
	my ($without) = grep { $node->safe_psql($_, q{SELECT scheduler IS NULL FROM pgq_ext.workers()}) eq 't' } 'postgres', 'copy';
	set_clock($node, 60);
	is($node->safe_psql($without, 'SELECT status, detail ' . health('scheduler')), 'fail|none runs', '... and one database has none');
	set_clock($node, 0);
	$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
	$node->stop;
	start_with_clock($node);
	is_health('workers', 'fail', qr/^the launcher does not run$/, 'none at all');
	$node->append_conf('postgresql.conf', 'max_worker_processes = 32');
	$node->stop;
	start_with_clock($node);
	is_well($_) for 'workers', 'scheduler';
};

# From here on each statement has a new session, which loads the library and learns its version anew.
$ask = sub { return $node->safe_psql('postgres', $_[0]) };

subtest 'library' => sub
{
	my $scripts = $node->config_data('--sharedir') . '/extension';
	my $version = sql(q{SELECT extversion FROM pg_extension WHERE extname = 'pgq_ext'});
	my @files = map { "$scripts/pgq_ext--$_.sql" } "$version--98", "98--$version";
	append_to_file($_, 'COMMENT ON SCHEMA pgq_ext IS NULL;') for @files;
	sql(q{ALTER EXTENSION pgq_ext UPDATE TO '98'});
	is_health('library', 'fail', qr/^library \Q$version\E, SQL objects 98$/, 'versions that differ');
	is(sql('SELECT count(*) FROM pgq_ext.health'), scalar @checks, '... and every check answers');
	is_health('duties', 'fail', qr/^library and SQL objects of pgq_ext have different versions \(55000\)$/, '... this one, too');
	is_health('snapshots', 'ok', qr/./, '... some as before');
	sql("ALTER EXTENSION pgq_ext UPDATE TO '$version'");
	unlink @files;
	is_well($_) for 'library', 'duties';

	$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
	$node->restart;
	is_health('library', 'fail', qr/^pgq_ext must be loaded when the server starts \(55000\)$/, 'not preloaded');
	like(sql('SELECT hint ' . health('library')), qr/shared_preload_libraries/, '... and what to do');
	is(sql('SELECT count(*) FROM pgq_ext.health'), scalar @checks, '... and every check answers');
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pgq_ext'");
	$node->restart;
	wait_for($node, q{count(*) = 0 FROM pgq_ext.health WHERE status <> 'ok'});
	pass('all is well');
};

# ---- what belongs to others ----

# The owner of the views can have them call what he likes; who watches, and the owner of the functions, does not run it.
sql(q{CREATE ROLE mallory LOGIN; CREATE SCHEMA evil AUTHORIZATION mallory; CREATE SEQUENCE evil.ran_as_mallory; CREATE SEQUENCE evil.ran_as_other;
	ALTER VIEW pgq_ext.rotation_blocker OWNER TO mallory; GRANT USAGE, CREATE ON SCHEMA pgq_ext TO mallory; GRANT USAGE ON ALL SEQUENCES IN SCHEMA evil TO PUBLIC});
my $view = sql(q{SELECT pg_get_viewdef('pgq_ext.rotation_blocker')}) =~ s/;\s*$//r;
$node->safe_psql('postgres', qq{
	CREATE FUNCTION evil.run() RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN PERFORM nextval('evil.ran_as_' || CASE current_user WHEN 'mallory' THEN 'mallory' ELSE 'other' END); RETURN true; END \$\$;
	GRANT USAGE ON SCHEMA evil TO PUBLIC;
	CREATE OR REPLACE VIEW pgq_ext.rotation_blocker AS SELECT v.* FROM ($view) v UNION ALL SELECT NULL, 'subscription', NULL, 'x' WHERE evil.run()}, extra_params => [ '-U', 'mallory' ]);
is(sql(q{SELECT DISTINCT status || ' ' || (detail ~ 'belong to mallory') || ' ' || (hint ~ 'OWNER TO mallory') FROM pgq_ext.health}), 'fail true true', 'views of others: nothing is looked at, and it says why');
my $ran = 'SELECT m.is_called, o.is_called FROM evil.ran_as_mallory m, evil.ran_as_other o';
is(sql($ran), 'f|f', '... and nothing of theirs has run');
sql(q{ALTER FUNCTION pgq_ext.health_entries() OWNER TO mallory; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgq_ext TO mallory; GRANT SELECT ON ALL TABLES IN SCHEMA pgq_ext TO mallory});
is(sql(q{SELECT count(*) FROM pgq_ext.health WHERE detail ~ 'belong'}), '0', 'what its hint says helps');
is(sql($ran), 't|f', '... with the rights of that owner');

$node->stop;
done_testing();
