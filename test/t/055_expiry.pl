# Jobs that expire, because no claim took them before their expires_in was over.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

# The scheduler deletes nothing before its clock has stood its ground for a minute: what comes first is here in the meantime.
my $node = pgq_node('main', conf => "autovacuum = off\n"); # it would cut off pages that are damaged here
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q{SELECT pgq_create_queue('q', keep_finished => '1 day', backoff_base => '0'), pgq_create_queue('bare')});

# More than one sweep takes at a time that cannot be ended: what belongs to their rows is damaged. They are the first to expire.
{
	sql(q{SELECT pgq_create_queue('damaged', keep_finished => '1 day')});
	sql(q{SELECT count(pgq_enqueue('damaged', (SELECT to_jsonb(string_agg(md5((m * n)::text), '')) FROM generate_series(1, 1000) m), expires_in => '0.1 s')) FROM generate_series(1, 70) n});
	my $file = $node->data_dir . '/' . sql(q{SELECT DISTINCT pg_relation_filepath(c.reltoastrelid) FROM pgq_ext.job j JOIN pg_class c ON c.oid = j.tableoid});
	$node->stop;
	my $size = -s $file;
	open my $toast, '+<', $file or die "$file: $!";
	print $toast "\0" x $size;
	close $toast or die "$file: $!";
	$node->start;
}

my $kept = sql(q{SELECT pgq_enqueue('q', '"kept"', expires_in => '1 s', headers => '{"h": 1}')});
my $held = sql(q{SELECT pgq_enqueue('q', '"held"', expires_in => '30 s', priority => 1)});
my $failing = sql(q{SELECT pgq_enqueue('q', '"failing"', expires_in => '30 s', priority => 1)});
my %lease = map { split /\|/ } split /\n/, sql(q{SELECT job_id, lease FROM pgq_claim('q', 2, lease_time => '1 h')});
is(join(' ', sort keys %lease), join(' ', sort $held, $failing), 'before its time is over a job is as any');
sql(q{SELECT count(pgq_enqueue('bare', to_jsonb(n), expires_in => '1 s')) FROM generate_series(1, 2000) n});
sql(q{SELECT count(*) FROM pgq_enqueue_many('bare', '[{"payload": "many", "expires_in": "1 s"}, {"payload": "later", "expires_in": "1 day"}]')});
wait_for($node, q{count(*) = 0 FROM pgq_ext.job WHERE expires_at BETWEEN clock_timestamp() AND enqueued_at + '2 s'});
is(sql(q{SELECT count(*) FROM pgq_claim('q', 10)}), '0', 'one whose time is over is not handed out');
is(sql("SELECT waits_for FROM pgq_ext.job_status WHERE job_id = $kept"), 'nothing: it has expired', '... and the view says why');
is(sql(q{SELECT payload FROM pgq_claim('bare', 10)}), '"later"', 'many are in nobody\'s way');
is(sql(q{SELECT handed_out, expired FROM pgq_ext.queue_stats WHERE queue = 'bare'}), '1|0', '... and none is counted as handed out');
is(sql('SELECT * FROM pgq_check()'), '', 'nobody misses them');

# A claim that waits is not woken by one, nor does it get one that expires meanwhile.
sql(q{SELECT pgq_enqueue('q', '"soon"', delay => '2 s', expires_in => '1 s')});
is(sql(q{SELECT count(*) FROM pgq_claim('q', wait => '3 s')}), '0', 'one that expires before it is due is never handed out');

# Somebody is at it.
my $locker = session($node);
my $locked = sql(q{SELECT pgq_enqueue('q', '"locked"', expires_in => '1 s')});
ask($locker, $_) for 'BEGIN', "SELECT FROM pgq_ext.job WHERE job_id = $locked FOR UPDATE";

wait_for($node, q{count(*) = 1 FROM pgq_ext.job WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'bare')});
wait_for($node, q{expired = 2001 FROM pgq_ext.queue_stats WHERE queue = 'bare'});
pass('the scheduler ends them');
is(sql(q{SELECT count(*) FROM pgq_ext.job j JOIN pgq_ext.queue q USING (queue_id) WHERE q.queue = 'damaged'}), '70', '... though there are some that cannot be ended');
like(sql(q{SELECT last_error FROM pgq_ext.duty WHERE duty = 'expiry' AND failures > 0}), qr/toast/, '... of which the view tells');
sql(q{DELETE FROM pgq_ext.job WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'damaged')});
is(sql(q{SELECT count(*) FROM pgq_ext.finished_job f JOIN pgq_ext.queue q USING (queue_id) WHERE q.queue = 'bare'}), '0', '... and keeps nothing of them');
wait_for($node, "count(*) = 1 FROM pgq_ext.finished_job WHERE job_id = $kept");
is(sql("SELECT outcome, payload, result IS NULL, worker IS NULL FROM pgq_ext.finished_job WHERE job_id = $kept"), 'expired|"kept"|t|t',
	'... unless the queue keeps them');
is(sql("SELECT state FROM pgq_result($kept)"), 'expired', '... and pgq_result says so');
is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $locked"), '1', 'one that is locked is left alone');
end_session($locker);
wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id = $locked");

# Who has it may go on.
wait_for($node, "expires_at < clock_timestamp() FROM pgq_ext.job WHERE job_id = $held");
is(sql("SELECT state FROM pgq_ext.job_status WHERE job_id = $held"), 'leased', 'what somebody has does not expire');
is(sql("SELECT 'done', pgq_ack($held, $lease{$held}, '\"good\"')"), 'done|', '... and may be done late');
is(sql("SELECT pgq_fail($failing, $lease{$failing}, 'broken')"), 'retry', '... or fail');
wait_for($node, "count(*) = 1 FROM pgq_ext.finished_job WHERE job_id = $failing AND outcome = 'expired'");
pass('... and is not tried again');

# A commit that comes later than that.
my $s = session($node);
ask($s, 'BEGIN');
my $late = ask($s, q{SELECT pgq_enqueue('q', '"late"', expires_in => '1 s')});
ask($s, "SELECT pg_sleep_until(expires_at + '100 ms') FROM pgq_ext.job WHERE job_id = $late");
ask($s, 'COMMIT');
is(sql(q{SELECT count(*) FROM pgq_claim('q', wait => '300 ms')}), '0', 'one whose enqueue is committed too late');
wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id = $late");
is(sql(q{SELECT sum(handed_out - acked - failed - released - cancelled - lost - uncounted) FROM pgq_ext.queue_stats WHERE queue = 'q'}), '0', 'every hand-out has ended once');
is(sql('SELECT * FROM pgq_check()'), '', 'memory agrees with the tables');
done_testing();
