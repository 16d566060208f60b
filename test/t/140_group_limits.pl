# Limits of groups: they hold when a queue with jobs in work gets them, claims get as many jobs as the limits allow, and groups of
# each priority take turns.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "autovacuum = off\nsynchronous_commit = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub make { my ($queue, $options) = @_; return sql("SELECT pgq_create_queue('$queue'" . ($options ? ", $options" : '') . ')') }
# Enqueue $jobs jobs, of $groups groups in turn.
sub enqueue
{
	my ($queue, $jobs, $groups) = @_;
	return sql("SELECT count(*) FROM pgq_enqueue_many('$queue', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'group_key', 'g' || i % $groups)) FROM generate_series(1, $jobs) i))");
}
sub claimed { my ($queue, $n) = @_; return sql("SELECT count(*) FROM pgq_claim('$queue', $n)") }
sub too_many
{
	my ($queue, $limit) = @_;
	return sql("SELECT count(*) FROM (SELECT FROM pgq_ext.job_status WHERE queue = '$queue' AND state = 'leased' GROUP BY group_key HAVING count(*) > $limit) g");
}

# ---- rules that come to a queue in work ----

for my $rule ('group_concurrency => 1', 'fifo => true')
{
	make('live');
	enqueue('live', 900, 300);
	is(claimed('live', 300), 300, "$rule: a job of each group is in work when the rule comes");
	sql("SELECT pgq_alter_queue('live', $rule)");
	is(claimed('live', 500), 0, '... nothing more is handed out, and nothing is short');
	is(too_many('live', 1), 0, '... so the rule holds for each group');
	sql(q{SELECT count(pgq_ack(job_id, lease)) FROM (SELECT job_id, lease FROM pgq_ext.lease WHERE queue = 'live' ORDER BY job_id LIMIT 40) l});
	is(claimed('live', 500), 40, '... those that have room again go on');
	is(too_many('live', 1), 0, '... one each');
	is(sql('SELECT * FROM pgq_check()'), '', '... all is well');
	sql(q{SELECT pgq_drop_queue('live', force => true)});
}

# The queue has 256 leases when it gets the rule: as many as a claim counts in one hold of the lock. Groups of later jobs have
# entries, too.
make('even');
enqueue('even', 256, 256);
is(claimed('even', 256), 256, 'so many groups are in work');
sql(q{SELECT count(pgq_enqueue('even', '1', group_key => 'other' || i)) FROM generate_series(1, 20) i});
sql(q{SELECT pgq_alter_queue('even', group_concurrency => 1)});
is(claimed('even', 20), 20, '... and others go out when a rule has come');

# ---- claims are filled ----

my $n = 0;
for my $rule ('group_concurrency => 1', 'fifo => true', q{group_rate_limit => 5, rate_period => '1 h'}, 'fair => true', 'fair => true, group_concurrency => 1', 'fair => true, fifo => true')
{
	my $queue = 'filled_' . $n++;
	make($queue, $rule);
	enqueue($queue, 600, 600);
	is(join(' ', map { claimed($queue, 150) } 1 .. 5), '150 150 150 150 0', "$rule: claims are filled");
}

# ---- turns of many priorities ----

make('turns', 'fair => true');
enqueue('turns', 100, 5);
sql(q{CREATE TABLE log (round int, priority int, group_key text)});
sql(q{DO $$ BEGIN
	FOR i IN 1 .. 20 LOOP
		PERFORM pgq_enqueue('turns', '1', priority => p, group_key => 'g' || i % 5) FROM generate_series(1, 6) p;
		FOR k IN 1 .. 7 LOOP
			INSERT INTO log SELECT i, priority, group_key FROM (SELECT c.*, pgq_ack(job_id, lease) FROM pgq_claim('turns') c) c;
			COMMIT;
		END LOOP;
	END LOOP; END $$});
is(sql('SELECT string_agg(n::text, $$ $$) FROM (SELECT count(*) AS n FROM log WHERE priority = 0 GROUP BY group_key) g'), '4 4 4 4 4',
	'groups of the lowest priority take turns, however many others come between');

# A job whose acknowledgement is not committed, and whose slot is lent, counts in its group when the queue gets the rule.
{
	sql(q{SELECT pgq_create_queue('lent', concurrency => 1), pgq_enqueue('lent', '1', group_key => 'a'), pgq_enqueue('lent', '2', group_key => 'b'), pgq_enqueue('lent', '3', group_key => 'a')});
	my $job     = sql(q{SELECT concat_ws(',', job_id, lease) FROM pgq_claim('lent')});
	my $session = session($node);
	ask($session, "BEGIN; SELECT pgq_ack($job)");
	is(scalar ask($session, q{SELECT payload FROM pgq_claim('lent')}), '2', 'the slot of an acknowledged job is lent');
	sql(q{SELECT pgq_alter_queue('lent', concurrency => 0, group_concurrency => 1)});
	is(sql(q{SELECT payload FROM pgq_claim('lent', 5)}), '', '... it still counts in its group under a rule that is new');
	ask($session, 'ROLLBACK');
	end_session($session);
	is(sql("SELECT pgq_ack($job)"), '', '... and is in work after ROLLBACK');
	is(sql(q{SELECT count(*) FROM pgq_claim('lent', 5) WHERE payload = '3'}), '1', '... then the next of its group goes out');
	is(sql('SELECT * FROM pgq_check()'), '', '... and all counters are right');
}

# ---- a job that SQL moves to a queue with fifo while a worker of another queue has it ----

for my $end ('ack', 'cancel')
{
	sql(q{SELECT pgq_create_queue('a'), pgq_create_queue('b', fifo => true), pgq_enqueue('a', '1', group_key => 'g')});
	my ($id, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('a')});
	sql("UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'b') WHERE job_id = $id");
	sql(q{SELECT pgq_enqueue('b', '2', group_key => 'g')});
	is(sql(q{SELECT payload FROM pgq_claim('b', 5)}), '', 'behind a job that another queue has in work');
	is(sql(q{SELECT payload FROM pgq_claim('b', 5)}), '', '... behind a job that another queue has in work');
	sql($end eq 'ack' ? "SELECT pgq_ack($id, $lease)" : "SELECT pgq_cancel($id)");
	is(sql(q{SELECT payload FROM pgq_claim('b', 5, wait => '60 s')}), '2', "$end: the next one is handed out");
	is(sql('SELECT * FROM pgq_check()'), '', '... and all counters are right');
	sql(q{SELECT pgq_drop_queue('a', force => true), pgq_drop_queue('b', force => true)});
}

$node->stop;
done_testing();
