# What memory is told of batches, and when: at commit, at a rollback, and at a rollback to a savepoint. The scheduler is stopped, so
# the entries of the batches stay, and the view capacity counts them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.max_watched_batches = 8\npgq_ext.max_databases = 4\nmax_prepared_transactions = 2\n");
sub sql  { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
sub add  { my ($batch) = @_; return qq{SELECT count(*) FROM pgq_enqueue_many('q', '[{"payload": 1, "batch": $batch}, {"payload": 2, "batch": $batch}]')} }
sub used { return sql(q{SELECT used FROM pgq_ext.capacity WHERE name = 'batches watched'}) }
sub batches { my ($n) = @_; return split /\n/, sql("SELECT pgq_create_batch() FROM generate_series(1, $n)") }

# Stops the scheduler while it is asleep, with no lock in hand.
my $stopped;
sub stop_scheduler
{
	$stopped = wait_for_scheduler($node);
	my $asleep = "wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $stopped";
	for (1 .. 1000)
	{
		wait_for($node, $asleep);
		kill 'STOP', $stopped;
		# It may have woken up between the look and the signal, which takes effect a moment later.
		usleep(10_000);
		return if sql("SELECT $asleep") eq 't';
		kill 'CONT', $stopped;
	}
	die 'the scheduler does not sleep';
}
END { kill 'CONT', $stopped if $stopped }

# told_ok N, SQL, NAME: after the statements, memory has N more entries
sub told_ok
{
	my ($n, $sql, $name) = @_;
	my $before = used();
	$node->psql('postgres', "BEGIN; $sql");
	is(used() - $before, $n, $name);
	return;
}

# another database, which sees the use of memory after the first one is gone
sql('CREATE DATABASE other');
sql('CREATE EXTENSION pgq_ext', 'other');

# ---- more batches than entries ----

create_queue($node, 'q');
stop_scheduler();
is(used(), 0, 'memory knows no batch');
sql("SELECT pgq_close_batch($_)") for batches(7);
is(used(), 7, 'each batch that was closed has an entry');
sql("SELECT pgq_close_batch($_)") for batches(20);
is(used(), 8, '... as long as there is room');
is(sql(q{SELECT name, peak, bound FROM pgq_ext.capacity WHERE guc = 'pgq_ext.max_watched_batches' ORDER BY 1}),
	"batches watched|8|8\nbatches watched beyond the own shares of databases|8|8", 'what is in use is shown');
is(sql(q{SELECT status FROM pgq_ext.health WHERE "check" = 'capacity'}), 'ok', '... and a table that is full is no fault');
kill 'CONT', $stopped;
$node->append_conf('postgresql.conf', 'pgq_ext.max_watched_batches = 1000');
$node->restart;
stop_scheduler();

# ---- commit and rollback ----

my ($a, $b, $c) = batches(3);
told_ok(0, add($a) . '; COMMIT', 'members that were added are no news');
told_ok(1, add($a) . '; ROLLBACK', '... unless that is rolled back');
told_ok(0, add($a) . '; ROLLBACK', '... which makes one entry');
told_ok(2, join('; ', add($a), add($b), add($c)) . '; SELECT 1/0', '... for each batch, after an error, too');
($a, $b) = batches(2);
told_ok(0, "SELECT pgq_close_batch($a); ROLLBACK", 'a close that is rolled back is no news');
told_ok(1, "SELECT pgq_close_batch($a); COMMIT", 'a close is');
told_ok(0, "SELECT pgq_close_batch($a); COMMIT", '... once');

# ---- savepoints ----

my $session = session($node);
($a, $b, $c) = batches(3);
my $before = used();
ask($session, 'BEGIN; SAVEPOINT one; ' . add($a) . '; SAVEPOINT two; ' . add($b));
is(used() - $before, 0, 'members that are being added are no news');
ask($session, 'ROLLBACK TO two');
is(used() - $before, 1, 'a rollback to a savepoint tells of the batch at once');
ask($session, 'SAVEPOINT three; ' . add($c) . '; RELEASE three; ROLLBACK TO one');
is(used() - $before, 3, '... also of what an inner savepoint has brought');
ask($session, 'COMMIT');
is(used() - $before, 3, '... and the commit tells of nothing');

($a, $b) = batches(2);
told_ok(1, "SELECT pgq_close_batch($a); SAVEPOINT s; SELECT pgq_close_batch($b); ROLLBACK TO s; COMMIT", 'a close that is undone is no news');
told_ok(1, "SAVEPOINT s; SELECT pgq_close_batch($b); RELEASE s; COMMIT", '... and one in a savepoint that is kept is');

# Many subtransactions make few effects: otherwise the last batch would have none left.
($a, $b, $c) = batches(3);
my $many = "DO \$\$ BEGIN FOR i IN 1..200 LOOP BEGIN PERFORM pgq_enqueue_many('q', jsonb_build_array(jsonb_build_object('payload', 1, 'batch', (ARRAY[$a, $b])[1 + i % 2])));
	EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END \$\$; " . add($c);
told_ok(0, "$many; COMMIT", '200 subtransactions add members');
told_ok(3, "$many; ROLLBACK", '... and are rolled back');

# ---- more batches than a transaction remembers ----

sub close_all { return join '; ', map { "SELECT pgq_close_batch($_)" } @_ }
told_ok(64, close_all(batches(64)) . '; COMMIT', 'a transaction remembers 64 batches');
told_ok(0, close_all(batches(65)) . '; COMMIT', '... and tells of all instead, if there are more');
told_ok(0, join('; ', map { add($_) } batches(65)) . '; ROLLBACK', '... also at a rollback');
told_ok(0, join('; ', map { "SAVEPOINT s; " . add($_) . '; RELEASE s' } batches(65)) . '; COMMIT', '... and says nothing if all is kept');

# ---- prepared transactions ----

($a, $b) = batches(2);
told_ok(0, "SELECT pgq_close_batch($a); " . add($b) . q{; PREPARE TRANSACTION 'p'}, 'PREPARE tells of nothing');
is(sql('SELECT count(*) FROM pg_prepared_xacts'), '1', '... and succeeds');
sql(q{ROLLBACK PREPARED 'p'});

# ---- the end of a database ----

cmp_ok(used(), '>', 0, 'there are entries');
kill 'CONT', $stopped;
end_session($session);
sql('DROP EXTENSION pgq_ext CASCADE');
wait_for($node, q{used = 0 FROM pgq_ext.capacity WHERE name = 'batches watched'}, 'other');
pass('the entries go with the extension');

done_testing();
