# Lost leases whose attempts cannot be counted, and very many lost leases.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "autovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub log_from { return slurp_file($node->logfile, $_[0]) }
sub lose { return sql("BEGIN; SELECT job_id FROM pgq_claim('$_[0]', " . ($_[1] // 1) . "); ROLLBACK") }

create_queue($node, 'one_try', 'max_attempts => 1');
create_queue($node, 'q');
my $pid = wait_for_scheduler($node);

# ---- a dead letter of the same id ----

# As an administrator brings it back: the dead letter is still there.
sub resurrect
{
	sql(q{SELECT pgq_enqueue('one_try', '"again"')});
	my $id = sql(q{SELECT pgq_fail(job_id, lease, 'the first time'), job_id FROM pgq_claim('one_try')});
	$id =~ s/dead\|//;
	sql("INSERT INTO pgq_ext.job (job_id, queue_id, payload) SELECT job_id, queue_id, payload FROM pgq_ext.dead_job WHERE job_id = $id");
	return $id;
}

my $log = -s $node->logfile;
my $id  = resurrect();
is(sql(q{SELECT pgq_fail(job_id, lease, 'the second time') FROM pgq_claim('one_try', wait => '10 s')}), 'dead', 'a job dies for the second time');
is(sql("SELECT string_agg(last_error, ', ') FROM pgq_ext.dead_job WHERE job_id = $id"), 'the second time', '... its dead letter is replaced');
$id = resurrect();
lose('one_try');
wait_for($node, "last_error LIKE '%rolled back%' FROM pgq_ext.dead_job WHERE job_id = $id");
is(sql("SELECT count(*) FROM pgq_ext.dead_job WHERE job_id = $id"), '1', '... when its lease is lost as well');
unlike(log_from($log), qr/ERROR/, '... without an error');

# ---- rows that cannot be written ----

# The owner's index raises for some rows.
sql(q{CREATE FUNCTION refuse(text, int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
	$$ BEGIN IF $1 = 'bad' AND $2 > 0 THEN RAISE 'cannot be written'; END IF; RETURN 1; END $$});
my $segment = sql(q{SELECT segment FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass});
sql("CREATE INDEX bad ON pgq_ext.job_$segment (public.refuse(payload #>> '{}', attempts))");
$log = -s $node->logfile;
sql(q{SELECT pgq_enqueue('q', '"bad"') FROM generate_series(1, 100)});
lose('q', 100);
sql(q{SELECT pgq_enqueue('q', '"good"')});
lose('q');
is(sql(q{SELECT payload, attempt, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s')}), '"good"|2|', 'behind a hundred lost leases that cannot be counted another one is');
wait_for($node, q{failures > 150 AND last_error = 'cannot be written' AND failing_since < now() FROM pgq_ext.duty WHERE duty = 'lost leases' AND queue = 'q'});
pass('the view tells of it');
is(sql(q{SELECT count(*) FROM pgq_ext.duty WHERE failures > 0}), '1', '... and of nothing else');
is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '0', 'they stay lost: the scheduler serves the queue');
my @told = log_from($log) =~ /ERROR:  cannot be written/g;
cmp_ok(scalar @told, '<=', 2, 'the log tells of it once a minute, not hundreds of times');
like(log_from($log), qr/CONTEXT:.*duty "lost leases" of the scheduler, queue "q"/s, '... and of what it happened to');
is(scheduler_pid($node), $pid, 'the same scheduler');
sql('DROP FUNCTION refuse CASCADE');
is(scalar(drain($node, 'q')), 100, 'what was in the way is gone: they come back');
wait_for($node, q{bool_and(failures = 0 AND failing_since IS NULL AND last_error IS NULL) FROM pgq_ext.duty});
pass('... and nothing fails any more');

# ---- very many ----

create_queue($node, $_, "notify => false") for 'many', 'few';
sql(q{SELECT count(pgq_enqueue('many', '1')) FROM generate_series(1, 10000)});
sql(q{SELECT pgq_enqueue('few', '1')});
{
	my $session = session($node);
	ask($session, q{BEGIN; SELECT count(*) FROM pgq_claim('many', 10000); SELECT count(*) FROM pgq_claim('few')});
	ask($session, 'ROLLBACK');
	wait_for($node, q{lost = 1 FROM pgq_ext.queue_stats WHERE queue = 'few'});
	pass('another queue has its turn');
	wait_for($node, q{lost = 10000 FROM pgq_ext.queue_stats WHERE queue = 'many'});
	is(sql(q{SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'many' AND attempts = 1}), '10000', 'ten thousand are counted');
	is(sql(q{SELECT uncounted FROM pgq_ext.queue_stats WHERE queue = 'many'}), '0', '... each');
	end_session($session);
}
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'all is well');

$node->stop;
done_testing();
