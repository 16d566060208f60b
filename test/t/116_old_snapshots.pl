# Beside an old snapshot, calls of named locks, runs and schedules read as few row versions as without the snapshot,
# however often the rows have changed since.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use List::Util qw(min);
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "autovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $s = session($node);

# Blocks that the last lock and unlock has read: the least of some, since now and then all versions of a row are looked at.
sub blocks
{
	return min map { my $plan = sql(q{EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF, SUMMARY OFF) SELECT pgq_unlock('hot', pgq_lock('hot'))}); $plan =~ /"Shared Hit Blocks": (\d+)/; $1 } 1 .. 12;
}

my $old = session($node);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $before = blocks();
ask($s, q{DO $$ BEGIN FOR i IN 1 .. 3000 LOOP PERFORM pgq_unlock('hot', pgq_lock('hot')); COMMIT; END LOOP; END $$});
my $after = blocks();
note("$before blocks before, $after after 3000 locks and unlocks");
cmp_ok($after, '<', $before + 40, 'a lock beside an old snapshot reads as much as the first one');
is(sql(q{SELECT count(*) FROM pgq_ext.held_lock}), '0', '... and leaves no row');

# A row that came by hand is met all the same.
my $moved = sql(q{SELECT pgq_lock('moved', ttl => '1 h')});
sql(q{SET session_replication_role = replica; INSERT INTO pgq_ext.held_lock SELECT 'brought', period, bucket, slot, slots, token, owner, ttl, acquired_at, expires_at FROM pgq_ext.held_lock WHERE name = 'moved'});
is(sql(q{SELECT pgq_lock('brought') IS NULL}), 't', 'a row that memory does not know is met');
is(sql("SELECT pgq_unlock('brought', $moved), pgq_unlock('moved', $moved)"), 't|t', '... and given back');

# A row as version 0.1 wrote it: the slot alone.
sql(q{INSERT INTO pgq_ext.held_lock VALUES ('older', -1, 0, 2, 3, 7, 'x', 3600000000, now(), now() + '1 h')});
is(sql(q{SELECT slot, token FROM pgq_ext.lock WHERE name = 'older'}), '2|7', 'a row of version 0.1 is held in its slot');
is(sql(q{SELECT pgq_extend_lock('older', 7, '2 h') > now() + interval '1 h', pgq_unlock('older', 7)}), 't|t', '... extended and given back');
is(sql(q{SELECT count(*) FROM pgq_ext.held_lock}), '0', '... by its row');
is(sql(q{SELECT count(pgq_lock('all', slots => 1024, ttl => '1 h')) FROM generate_series(1, 1024)}), '1024', 'all slots are taken');
stop_and_start($node, 'immediate');
wait_until_up($node);
is(sql(q{SELECT count(*), min(slot), max(slot) FROM pgq_ext.lock WHERE name = 'all'}), '1024|1|1024', '... and held after a restart');
is(sql(q{SELECT count(pgq_unlock(name, token)) FROM pgq_ext.lock}), '1024', '... to be given back');

# ---- schedules ----

create_queue($node, 'q');
sql(q{SELECT pgq_schedule('often', 'every 1 s', 'q'), pgq_schedule('rarely', '@yearly', 'q')});
$old = session($node);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sql(q{DO $$ BEGIN FOR i IN 1 .. 1500 LOOP UPDATE pgq_ext.timetable SET due_at = '2001-01-01'::timestamptz + i * interval '1 s' WHERE schedule = 'rarely';
	UPDATE pgq_ext.timetable SET due_at = next_run_at WHERE schedule = 'rarely'; END LOOP; END $$});
# The look after that is the last one at all of them.
my $seen = q{(SELECT last_job_id FROM pgq_ext.schedule WHERE schedule = 'often')};
sub pass_ticks
{
	for (1 .. $_[0])
	{
		my $job = sql("SELECT $seen");
		wait_for($node, "$seen > $job");
	}
	return sql(q{SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'timetable_due'});
}
my $first = pass_ticks(4);
my $read = pass_ticks(6) - $first;
note("$read entries of the index were read in 6 ticks");
cmp_ok($read, '<', 4500, 'a tick beside an old snapshot does not read all dead entries');
$node->stop;
done_testing();
