# Blocked jobs: what an administrator's SQL does to them and to their dependencies, what they are said to wait for, and
# rows of them that come late.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\nautovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

create_queue($node, 'parents', q{lease_time => '1 h', max_attempts => 1});
create_queue($node, 'children', q{lease_time => '1 h'});
wait_for_scheduler($node);

sub parent { return sql(q{SELECT pgq_enqueue('parents', '1')}) }
# Enqueues a child. The parents come before its options.
sub child
{
	my ($rule, $delay, @parents) = @_;
	return sql(sprintf q{SELECT pgq_enqueue('children', '1', after => '{%s}', on_parent_failure => '%s', delay => '%s')},
		join(',', @parents), $rule, $delay);
}
my $state = q{(SELECT COALESCE((SELECT state FROM pgq_ext.job_status WHERE job_id = %d), 'gone'))};
sub state_of { return sql('SELECT ' . sprintf $state, $_[0]) }
sub becomes { my ($id, $what, $test) = @_; wait_for($node, sprintf("$state = '%s'", $id, $what)); return pass($test) }
# Waits until the scheduler has judged all children that it was told of before: it judges this one after them.
sub judged { my $p = parent(); my $c = child('run', '0', $p); sql("SELECT pgq_cancel($p)"); wait_for($node, sprintf("$state = 'ready'", $c)); sql("SELECT pgq_cancel($c)"); return }
sub stays { my ($id, $test) = @_; judged(); return is(state_of($id), 'blocked', $test) }
sub blocked_is { my ($n, $test) = @_; return is(sql('SELECT sum(blocked) FROM pgq_ext.queue_status'), $n, $test) }
sub is_whole { my ($test) = @_; return is(sql('SELECT * FROM pgq_check()'), '', $test) }
sub refused { my ($sql, $code, $test) = @_; my @error = sqlstate($node, $sql); is($error[0], $code, $test); return $error[1] }
sub waits_for { return sql("SELECT waits_for FROM pgq_ext.job_status WHERE job_id = $_[0]") }
sub explained { return sql("SELECT detail FROM pgq_explain($_[0]) WHERE step = 'blocked'") }
my $queue = sql(q{SELECT queue_id FROM pgq_ext.queue WHERE queue = 'children'});

# ---- what a child waits for ----

{
	my ($p, $q) = (parent(), parent());
	my $c = child('hold', '0', $p, $q);
	my $grandchild = child('cancel', '0', $c);
	is(waits_for($c), "the end of job $p (waiting) and of 1 other", 'a child names its first parent');
	is(waits_for($grandchild), "the end of job $c (blocked)", '... and its own child names it');
	is(explained($c), "waits for the end of job $p (waiting) and of 1 other", '... as pgq_explain does');
	my $many = child('hold', '0', $p, $q, $c);
	is(waits_for($many), "the end of job $p (waiting) and of 2 others", '... and says how many others there are');
	sql("SELECT pgq_cancel($many)");
	my %lease = split /[|\n]/, sql(q{SELECT job_id, lease FROM pgq_claim('parents', 2)});
	is(waits_for($c), "the end of job $p (in work) and of 1 other", '... whose state is named');
	sql("SELECT pgq_ack($q, $lease{$q}), pgq_fail($p, $lease{$p}, 'broken')");
	stays($c, 'a child that waits for a redrive');
	is(waits_for($c), "the end of job $p (dead)", '... names the dead letter');
	is(explained($c), "waits for the end of job $p (dead)", '... as pgq_explain does');
	sql("SELECT pgq_cancel($p)");
	becomes($grandchild, 'gone', 'the end of the dead letter cancels both');
}

# ---- UPDATE of a blocked job ----

{
	my $p = parent();
	my ($c, $d, $e) = (child('cancel', '0', $p), child('cancel', '1 day', $p), child('cancel', '0', $p));
	like(refused("UPDATE pgq_ext.job SET run_at = clock_timestamp() WHERE job_id = $c", '55000', 'an UPDATE of run_at is refused'), qr/job $c is blocked/, '... in words');
	refused("UPDATE pgq_ext.job SET parents = 2 WHERE job_id = $c", '0A000', 'an UPDATE of the number of parents is refused');
	sql("UPDATE pgq_ext.job SET priority = 5, payload = '2', blocked = 1000000 WHERE job_id = $c");
	stays($c, 'other attributes and the delay can be changed');
	sql("UPDATE pgq_ext.job SET blocked = NULL WHERE job_id IN ($c, $d)");
	is(state_of($d), 'scheduled', 'without "blocked" a job becomes due after its delay');
	is(sql("SELECT run_at BETWEEN clock_timestamp() + '23 h' AND clock_timestamp() + '1 day' FROM pgq_ext.job WHERE job_id = $d"), 't', '... counted from now');
	becomes($c, 'ready', '... of which a short one is over soon');
	is(sql("SELECT job_id FROM pgq_claim('children', 10, wait => '60 s')"), $c, '... and a claim hands it out');
	sql("SELECT pgq_cancel($_)") for $c, $d;
	is(state_of($e), 'blocked', '... and no other one');
	sql("UPDATE pgq_ext.job SET blocked = NULL, run_at = '2040-01-01' WHERE job_id = $e");
	is(sql("SELECT run_at = '2040-01-01' FROM pgq_ext.job WHERE job_id = $e"), 't', 'a run_at that is given with it is kept');
	blocked_is(0, '... and no job counts as blocked');

	# A job that is made blocked has no parents that it could wait for, or has some.
	sql("UPDATE pgq_ext.job SET blocked = 0 WHERE job_id = $e");
	stays($e, 'a job that is blocked by SQL waits for its parents');
	sql("SELECT pgq_cancel($p)");
	becomes($e, 'gone', '... and is judged by them');
	my $plain = sql(q{SELECT pgq_enqueue('children', '1', delay => '1 day')});
	sql("UPDATE pgq_ext.job SET blocked = 0 WHERE job_id = $plain");
	becomes($plain, 'ready', 'a job without parents that is blocked by SQL becomes ready');
	sql("SELECT pgq_cancel($plain)");
	is_whole('the counts are right');
}

# ---- INSERT ----

wait_for($node, '(SELECT count(*) FROM pgq_ext.job_dependency) = 0');
for my $delay (0, '-9223372036854775808', '9223372036854775807')
{
	my $id = sql("INSERT INTO pgq_ext.job (queue_id, payload, blocked) VALUES ($queue, '1', $delay) RETURNING job_id") =~ /(\d+)/ ? $1 : 0;
	wait_for($node, sprintf("$state IN ('ready', 'scheduled')", $id));
	is(state_of($id), $delay =~ /^\d{2}/ ? 'scheduled' : 'ready', "a blocked row without dependencies, with the delay $delay, is blocked no more");
	sql("SELECT pgq_cancel($id)");
}
{
	my $late = sql("INSERT INTO pgq_ext.job (queue_id, payload, run_at) VALUES ($queue, '1', '9999-12-01 UTC') RETURNING job_id") =~ /(\d+)/ ? $1 : 0;
	is(state_of($late), 'scheduled', 'a job without "blocked" is never shown as blocked');
	blocked_is(0, '... nor counted');
	sql("SELECT pgq_cancel($late)");
	is_whole('the counts are right');
}

# ---- dependencies ----

{
	my ($p, $q) = (parent(), parent());
	my ($c, $d) = (child('cancel', '0', $p, $q), child('cancel', '0', $p));
	refused("UPDATE pgq_ext.job_dependency SET parent_id = $q WHERE child_id = $d", '0A000', 'an UPDATE of a dependency is refused');
	refused('TRUNCATE pgq_ext.job_dependency', '55006', '... and a TRUNCATE while there are children');
	sql("BEGIN; DELETE FROM pgq_ext.job_dependency WHERE child_id = $d; ROLLBACK");
	stays($d, 'a dependency that is not deleted after all');
	sql("DELETE FROM pgq_ext.job_dependency WHERE parent_id = $p");
	becomes($d, 'ready', 'a child whose last dependency is deleted becomes ready');
	stays($c, '... another one waits for the parent that is left');
	is(waits_for($c), "the end of job $q (waiting)", '... which it names');
	sql("BEGIN; DELETE FROM pgq_ext.job_dependency WHERE parent_id = $q; PREPARE TRANSACTION 'dependency'");
	is(state_of($c), 'blocked', '... also when that dependency is about to be deleted');
	sql(q{COMMIT PREPARED 'dependency'});
	becomes($c, 'ready', '... until it is deleted');
	sql("SELECT pgq_cancel($_)") for $c, $d, $p, $q;
	sql('TRUNCATE pgq_ext.job_dependency');
	is_whole('nothing is left over');
}

# ---- the id of a parent, or of a child, is changed ----

{
	my ($p, $q) = (parent(), parent());
	my ($c, $d) = (child('run', '0', $p), child('run', '0', $q));
	sql("UPDATE pgq_ext.job SET job_id = job_id + 1000000 WHERE job_id = $p");
	becomes($c, 'ready', 'a parent that gets another id has ended for its child');
	is(state_of($d), 'blocked', '... and no other one');
	sql("SELECT pgq_cancel($_)") for $p + 1_000_000, $q, $c;
	becomes($d, 'ready', '... which is judged by the end of its own parent');
	sql("SELECT pgq_cancel($d)");
}

# ---- a restore with --disable-triggers ----

{
	my $p = parent();
	my $c = child('cancel', '0', $p);
	sql("CREATE TABLE one AS SELECT * FROM pgq_ext.job_dependency WHERE child_id = $c; CREATE TABLE job AS SELECT * FROM pgq_ext.job WHERE job_id = $c");
	sql("DELETE FROM pgq_ext.job WHERE job_id = $c");
	sql("DELETE FROM pgq_ext.job_dependency WHERE child_id = $c");
	my $columns = 'job_id, run_at, enqueued_at, queue_id, priority, payload, blocked, parents';
	sql(q{DO $$ DECLARE s regclass; BEGIN FOR s IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'pgq_ext.job'::regclass LOOP EXECUTE format('ALTER TABLE %s DISABLE TRIGGER ALL', s); END LOOP; END $$});
	sql("INSERT INTO pgq_ext.job ($columns) SELECT $columns FROM job");
	sql(q{DO $$ DECLARE s regclass; BEGIN FOR s IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'pgq_ext.job'::regclass LOOP EXECUTE format('ALTER TABLE %s ENABLE TRIGGER ALL', s); END LOOP; END $$});
	sql('ALTER TABLE pgq_ext.job_dependency DISABLE TRIGGER ALL; INSERT INTO pgq_ext.job_dependency SELECT * FROM one; ALTER TABLE pgq_ext.job_dependency ENABLE TRIGGER ALL');
	wait_for($node, q{tgenabled = 'A' FROM pg_trigger WHERE tgrelid = 'pgq_ext.job_dependency'::regclass AND tgname = 'dependency_came'});
	pass('the scheduler restores the trigger of dependencies');
	is(sql(q{SELECT tgenabled FROM pg_trigger WHERE tgrelid = 'pgq_ext.job_dependency'::regclass AND tgname = 'dependency_changed'}), 'O', '... and no other one');
	stays($c, 'the child waits for its parent');
	sql("SELECT pgq_ack(job_id, lease) FROM pgq_claim('parents', 100) WHERE job_id = $p");
	becomes($c, 'ready', '... and is ready after its ack');
	sql("SELECT pgq_cancel($c)");
	is_whole('the counts are right');
}

# ---- rows that come late, without triggers ----

{
	my ($p, $q) = (parent(), parent());
	my ($c, $d) = (child('cancel', '0', $p), child('cancel', '0', $q));
	my $columns = 'job_id, run_at, enqueued_at, queue_id, priority, payload, blocked, parents';
	sql("CREATE TABLE child AS SELECT * FROM pgq_ext.job WHERE job_id IN ($c, $d); CREATE TABLE dependency AS SELECT * FROM pgq_ext.job_dependency WHERE child_id IN ($c, $d)");
	sql("DELETE FROM pgq_ext.job WHERE job_id IN ($c, $d); DELETE FROM pgq_ext.job_dependency WHERE child_id IN ($c, $d)");
	# As pg_restore --disable-triggers: memory is told of nothing.
	my $without = 'ALTER TABLE pgq_ext.job DISABLE TRIGGER ALL; ALTER TABLE pgq_ext.job_dependency DISABLE TRIGGER ALL;';
	my $with = 'ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_changed; ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_fence; ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_truncated;
		ALTER TABLE pgq_ext.job_dependency ENABLE ALWAYS TRIGGER dependency_came; ALTER TABLE pgq_ext.job_dependency ENABLE TRIGGER dependency_changed; ALTER TABLE pgq_ext.job_dependency ENABLE TRIGGER dependency_truncated;';
	sql("$without INSERT INTO pgq_ext.job ($columns) SELECT $columns FROM child; $with");
	# A restart in the middle tells of all children.
	$node->restart;
	wait_for_scheduler($node);
	stays($_, 'after a restart, a child whose dependency has not come waits') for $c, $d;
	is(waits_for($c), 'the scheduler: no parents of it are known', '... and says so');
	sql("$without INSERT INTO pgq_ext.job_dependency SELECT * FROM dependency WHERE child_id = $c; $with");
	sql("UPDATE pgq_ext.job SET blocked = 0 WHERE job_id = $c");
	stays($c, 'its dependency has come');
	is(waits_for($c), "the end of job $p (waiting)", '... and it waits for its parent');
	$node->append_conf('postgresql.conf', "pgq_ext.stop_point = 'children-do-not-wait'");
	$node->restart;
	wait_for_scheduler($node);
	becomes($d, 'gone', 'a child whose dependency does not come has failed');
	is(state_of($c), 'blocked', '... and no other one');
	sql("SELECT pgq_cancel($p)");
	becomes($c, 'gone', '... which is judged by its parent');
	is(sql('SELECT count(*) FROM pgq_ext.duty WHERE failures > 0'), '0', 'no duty has failed');
}

done_testing();
