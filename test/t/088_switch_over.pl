# The commands of docs/upgrade.md, "Logical replication", as they are printed: a new server replicates the old server,
# and takes over. For an upgrade from another version of PostgreSQL: test/run.sh pg_upgrade.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use PgqTest;

# Not by allows_streaming: that has settings of the newer version.
my $old = pgq_node('old', new => { old_version() }, conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
$new->start;
my $dir = $new->basedir;
sub on_old { return $old->safe_psql('postgres', $_[0]) }
sub on_new { return $new->safe_psql('postgres', $_[0]) }

$ENV{OLD}       = $old->connstr . ' dbname=postgres';
$ENV{NEW}       = $new->connstr . ' dbname=postgres';
$ENV{PGDATAOLD} = $old->data_dir;
$ENV{PGDATANEW} = $new->data_dir;
my @prepare = blocks_of('docs/upgrade.md', 'Logical replication', 'sh');
my ($note)  = blocks_of('docs/upgrade.md', 'Logical replication', 'sql');
my $take_over = pop @prepare;
is(scalar @prepare, 2, 'the page says what to do');

# What the commands of the page say.
sub follow
{
	my ($text, @command) = @_;
	my ($out, $err);
	my $done = IPC::Run::run([@command], '<', \$text, '>', \$out, '2>', \$err, init => sub { chdir $dir or die "$dir: $!" },
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	ok($done, $text =~ s/\n.*//sr) or diag($out, $err);
	return $out;
}
sub follow_shell { return follow($_[0], 'bash', '-euo', 'pipefail') }

# ---- what there is ----

my %token;
# A shard: ids of jobs have a remainder to keep.
my $shard = 5;
on_old("SELECT pgq_set_shard($shard)");
on_old(q{CREATE ROLE clerk; GRANT EXECUTE ON FUNCTION pgq_claim TO clerk; CREATE EXTENSION amcheck;
	SELECT pgq_create_queue('paused'), pgq_create_queue('keyed'), pgq_create_queue('fifo', fifo => true), pgq_create_queue('later'),
		pgq_create_queue('kept', keep_finished => '1 day', log_attempts => 'all'), pgq_create_queue('beats'), pgq_create_queue('closed');
	SELECT pgq_grant('closed', 'clerk', '{claim}');
	SELECT pgq_pause_queue('paused'), pgq_enqueue('paused', '1')});
create_queue($old, 'q', q{max_attempts => 3});

# Some of it is there before the subscription, some follows.
sub happen
{
	my ($when) = @_;
	on_old(qq{SELECT pgq_enqueue('q', to_jsonb(i), priority => i % 3, headers => '{"h": 1}') FROM generate_series(1, 20) i;
		SELECT pgq_enqueue('q', '"next year"', delay => '1 year');
		SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('q', 2);
		SELECT pgq_fail(job_id, lease, 'backs off', retry_in => '1 year') FROM pgq_claim('q', 2);
		SELECT pgq_enqueue('fifo', to_jsonb(i), group_key => '$when' || i % 2) FROM generate_series(1, 4) i;
		SELECT pgq_enqueue('kept', '1');
		SELECT pgq_ack(job_id, lease, '{"done": 1}') FROM pgq_claim('kept');
		SELECT pgq_enqueue('keyed', '1', unique_key => '$when');
		SELECT pgq_enqueue('keyed', '1', priority => 1, unique_key => '$when:for-an-hour', unique_for => '1 hour');
		SELECT pgq_ack(job_id, lease) FROM pgq_claim('keyed');
		SELECT pgq_enqueue('keyed', '1', priority => 1, unique_key => '$when:for-a-moment', unique_for => '1 s');
		SELECT pgq_ack(job_id, lease) FROM pgq_claim('keyed');
		SELECT pgq_run_done('$when:done', pgq_run_once('$when:done', period => '1000 days'));
		SELECT pgq_run_done('$when:for-ever', pgq_run_once('$when:for-ever'));
		SELECT pgq_create_rate('$when', permits => 1, period => '1 s')});
	$token{$when} = on_old("SELECT pgq_lock('$when', ttl => '1 hour')");
	$token{"$when:in-work"} = on_old("SELECT pgq_run_once('$when:in-work', ttl => '1 hour')");
	return;
}

happen('before');
on_old(q{SELECT pgq_schedule('beat', 'every 1 s', 'beats'), pgq_schedule('new-year', '0 0 1 1 *', 'beats'), pgq_schedule('rests', 'every 1 s', 'beats');
	SELECT pgq_pause_schedule('rests')});
follow_shell($prepare[0]);
$old->poll_query_until('postgres', 'SELECT count(*) > 0 FROM pg_stat_replication') or die 'nobody follows';
wait_for($new, q{count(*) = 0 FROM pg_subscription_rel WHERE srsubstate <> 'r'});
is(follow_shell($prepare[1]), "t\n", 'the first copy is there');
wait_for_scheduler($new);
happen('after');
on_old(q{SELECT pgq_alter_queue('q', max_attempts => 4);
	SELECT pgq_create_queue('gone'), pgq_enqueue('gone', '1', unique_key => 'gone', unique_for => '1 hour');
	SELECT pgq_ack(job_id, lease) FROM pgq_claim('gone');
	SELECT pgq_drop_queue('gone');
	SELECT pgq_enqueue('later', '"soon"', delay => '5 s');
	SELECT pgq_enqueue('later', '"again"');
	SELECT pgq_fail(job_id, lease, 'backs off', retry_in => '5 s') FROM pgq_claim('later')});
my ($in_work, $lease) = split /\|/, on_old(q{SELECT pgq_enqueue('q', '"in work"', priority => 9); SELECT job_id, lease FROM pgq_claim('q', lease_time => '1 hour')}) =~ s/.*\n//r;
# By itself, also while all tables are published.
wait_for($old, q{count(*) = 2 FROM pgq_ext.unique_key});
# Greater than any that is left.
my $last_id = on_old(q{SELECT pgq_enqueue('kept', '1'); SELECT job_id FROM (SELECT job_id, pgq_ack(job_id, lease) FROM pgq_claim('kept')) done}) =~ s/.*\n//r;
my $last_queue = on_old('SELECT last_value FROM pgq_ext.queue_queue_id_seq');

# ---- the switch ----

# The beat goes on until the old server stops.
my $beats = q{queue_id NOT IN (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'beats')};
my $state = qq{
	SELECT 'job', job_id, (to_jsonb(j) - 'segment')::text FROM pgq_ext.job j WHERE $beats
	UNION ALL SELECT 'dead', job_id, d::text FROM pgq_ext.dead_job d
	UNION ALL SELECT 'attempt', job_id, (to_jsonb(a) - 'segment')::text FROM pgq_ext.attempt a WHERE $beats
	UNION ALL SELECT 'finished', job_id, (to_jsonb(f) - 'segment')::text FROM pgq_ext.finished_job f WHERE $beats
	UNION ALL SELECT 'key', job_id, (to_jsonb(k))::text FROM pgq_ext.unique_key k
	UNION ALL SELECT 'queue', queue_id, q::text FROM pgq_ext.queue q
	UNION ALL SELECT 'schedule', 0, (to_jsonb(t) - 'maker')::text FROM pgq_ext.timetable t WHERE schedule <> 'beat'
	UNION ALL SELECT 'lock', token, l::text FROM pgq_ext.held_lock l
	UNION ALL SELECT 'run', token, r::text FROM pgq_ext.run r
	UNION ALL SELECT 'rate', 0, l::text FROM pgq_ext.rate_limit l
	UNION ALL SELECT 'shard', 0, s::text FROM pgq_ext.shard s
	ORDER BY 1, 2, 3};
my $order = q{SELECT string_agg(job_id::text, ' ' ORDER BY priority DESC, run_at, job_id) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id)
	WHERE queue = 'q' AND run_at <= clock_timestamp()};
my $before = on_old($state);
my $due    = on_old($order);
follow($note, 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-d', $ENV{OLD});
ok(!-e $old->data_dir . '/postmaster.pid', 'the old server is down');
$old->_update_pid(0);
my %step = (job_id_seq => 1024, queue_queue_id_seq => 1, token_mark => 1);
like(slurp_file("$dir/sequences.sql"), qr/^ *SELECT setval\('pgq_ext\.$_', GREATEST\(last_value, \d+\) \+ $step{$_}\) FROM pgq_ext\.$_;$/m, "noted: $_")
  for sort keys %step;
like(sqlstate($new, q{SELECT pgq_claim('q')}), qr/^55000$/, 'the new one only follows');
my $last_beat = on_new(q{SELECT last_run_at FROM pgq_ext.schedule WHERE schedule = 'beat'});
follow_shell($take_over);
$new->_update_pid(1);

# ---- it goes on ----

is(on_new($state), $before, 'the same rows');
is(on_new("SELECT pgq_enqueue('kept', '1', delay => '1 year') % 1024 FROM generate_series(1, 3)"), "$shard\n$shard\n$shard", 'ids are those of the shard');
is(sqlstate($new, "SELECT pgq_ack($in_work, $lease)"), 'PQ001', 'who had a job in work is refused');
is(join(' ', split /\n/, on_new(q{SELECT job_id FROM pgq_claim('q', 1000)})), $due, 'all that is due goes out, in order, and what was in work');
is(on_new('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease'), scalar(split / /, $due), '... and is done');
cmp_ok(on_new(q{SELECT pgq_enqueue('q', '"new"')}), '>', $last_id, 'no id is given out twice');
cmp_ok(on_new(q{SELECT pgq_create_queue('new'); SELECT max(queue_id) FROM pgq_ext.queue}) =~ s/.*\n//r, '>', $last_queue, '... nor one of a queue');
is(on_new(q{SELECT max_attempts FROM pgq_ext.queue WHERE queue = 'q'}), '4', 'queues have their options');
is(on_new(q{SELECT count(*) FROM pgq_claim('paused')}), '0', 'who is paused is paused');
is(on_new(q{SELECT pgq_resume_queue('paused'); SELECT count(*) FROM pgq_claim('paused')}) =~ s/.*\n//r, '1', '... and can be resumed');
is(on_new(q{SELECT string_agg(group_key, ' ' ORDER BY group_key) FROM pgq_claim('fifo', 100)}), 'after0 after1 before0 before1', 'of each group the first one');
is(on_new(q{SET ROLE clerk; SELECT count(*) FROM pgq_claim('closed')}), '0', 'who had a right has it');
is(on_new(q{SELECT pgq_lock('free'); SELECT count(*) FROM pgq_ext.lock WHERE name IN ('before', 'after')}) =~ s/.*\n//r, '2', 'locks are held');
wait_for($new, q{count(*) = 0 FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'later' AND run_at > clock_timestamp()});
is(on_new(q{SELECT string_agg(payload ->> 0, ' ' ORDER BY attempt) FROM pgq_claim('later', 10)}), 'soon again', 'what was delayed or backed off comes when its time has come');

for my $when ('before', 'after')
{
	is(on_new("SELECT pgq_lock('$when') IS NULL"), 't', "$when the subscription: a lock is held");
	is(on_new("SELECT pgq_unlock('$when', $token{$when})"), 't', '... by who has it');
	cmp_ok(on_new("SELECT pgq_lock('$when')"), '>', $token{$when}, '... the next token is greater');
	is(on_new("SELECT pgq_run_once('$when:in-work') IS NULL"), 't', '... a run is in work');
	is(sqlstate($new, "SELECT pgq_run_done('$when:in-work', $token{\"$when:in-work\"})"), '', '... and done by who has it');
	is(on_new("SELECT pgq_run_once('$when:done', period => '1000 days') IS NULL AND pgq_run_once('$when:for-ever') IS NULL"), 't', '... what was done is not done again');
	is(on_new("SELECT pgq_take('$when', wait => '50 s')"), 't', '... a rate lets so many through');
	my $owner = on_new("SELECT job_id FROM pgq_ext.job WHERE unique_key = '$when'");
	is(on_new("SELECT pgq_enqueue('keyed', '2', unique_key => '$when')"), $owner, '... a key has its owner');
	is(on_new("SELECT pgq_enqueue('keyed', '2', unique_key => '$when:for-an-hour') = job_id FROM pgq_ext.unique_key WHERE unique_key = '$when:for-an-hour'"), 't', '... also for its hour');
}

wait_for($new, "last_run_at > '$last_beat' FROM pgq_ext.schedule WHERE schedule = 'beat'");
is(on_new(q{SELECT string_agg(schedule, ' ' ORDER BY schedule) FROM pgq_ext.schedule WHERE paused OR next_run_at IS NULL}), 'rests', 'schedules go on, but one that rests');
is(on_new(q{SELECT count(*) FROM pgq_ext.job WHERE headers ? 'schedule' GROUP BY headers ->> 'scheduled_at', headers ->> 'schedule' HAVING count(*) > 1}), '', '... with one job for a tick');
is(on_new(q{SELECT lease > 0 FROM pgq_claim('q', lease_time => '1 s'); SELECT attempt, last_error FROM pgq_claim('q', wait => '50 s')}) =~ s/.*\n//r, '2|the lease expired', 'the scheduler counts what is lost');
is(on_new(q{SELECT string_agg(concat_ws(': ', "check", detail), E'\n') FROM pgq_ext.health WHERE status = 'fail'}), '', 'health: nothing has failed');
is(on_new('SELECT * FROM pgq_check()'), '', 'pgq_check() finds nothing');
is(on_new(q{SELECT string_agg(concat_ws(': ', c.relname, msg), E'\n') FROM pg_class c, verify_heapam(c.oid, check_toast => true) WHERE relname ~ '^(dead_|finished_)?job_\d+$'}), '', 'nor does amcheck');
$new->stop;
done_testing();
