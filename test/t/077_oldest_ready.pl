# How long the oldest ready job has been due: memory and the rows agree, whatever happens to the rows. The window has
# room for only a few of the jobs, and for none of the lowest priority.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.window_size = 16\npgq_ext.timer_size = 16\nmax_prepared_transactions = 5\n");
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }
create_queue($node, 'q', "lease_time => '1 h', max_attempts => 3");
create_queue($node, 'groups', "group_concurrency => 1, lease_time => '1 h'");
create_queue($node, 'young', "lease_time => '1 h'");
wait_for_scheduler($node);

my %id = map { $_ => sql("SELECT queue_id FROM pgq_ext.queue WHERE queue = '$_'") } qw(q groups young);
my $by_rows = "(SELECT min(run_at) FROM pgq_ext.job_status s WHERE s.queue = '%s' AND state = 'ready')";

# Asks in the session first: most of the conditions are true at once.
sub wait_until
{
	my ($condition) = @_;
	wait_for($node, $condition) if sql("SELECT $condition") ne 't';
	return;
}

sub agrees
{
	my ($what) = @_;
	# What is just ending, or has just become due, may be there for one and not for the other.
	for my $queue (sort keys %id)
	{
		my $rows = sprintf $by_rows, $queue;
		my $same = "pgq_ext.oldest_ready($id{$queue}) IS NOT DISTINCT FROM $rows";
		eval { wait_until($same); 1 }
		  or return fail("$what, $queue: " . sql("SELECT pgq_ext.oldest_ready($id{$queue}), $rows"));
		wait_until("$same FROM (SELECT pgq_ext.oldest_ready($id{$queue})) o") if $queue eq 'young';
	}
	return pass($what);
}

# So many seconds ago it was due; no two alike.
my $age = 100;
sub enqueue
{
	my ($queue, $priority, $more) = @_;
	$age += 7;
	my $ago = $age * 7919 % 100003;
	return "SELECT pgq_enqueue('$queue', '1', $priority, run_at => now() - interval '$ago s' @{[ $more // '' ]});";
}

# ---- memory answers: no index is read ----

sql(join "\n", map { enqueue('q', $_ % 3) } 1 .. 200);
sql(join "\n", map { enqueue('groups', $_ % 2, ", group_key => '" . ($_ % 5) . "'") } 1 .. 50);
sql(enqueue('young', 0));
agrees('enqueued');
# In a session of its own, whose statistics are those of this transaction. While a refill is under way, memory does not know it.
my $scrape;
my $start = monotonic();
while (seconds_since($start) < $PostgreSQL::Test::Utils::timeout_default)
{
	$scrape = $node->safe_psql('postgres', q{
SET application_name = 'scrape';
SELECT count(oldest_ready_age) FROM pgq_ext.queue_status;
BEGIN;
SELECT count(oldest_ready_age) FROM pgq_ext.queue_status;
SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_xact_all_tables WHERE schemaname = 'pgq_ext' AND relname ~ '^job';
COMMIT});
	last if $scrape =~ /\n0$/;
	select(undef, undef, undef, 0.1);
}
is($scrape, "3\n3\n0", 'memory knows it');

# ---- whatever happens ----

my $oldest = "(SELECT job_id FROM pgq_ext.job_status WHERE queue = '%s' AND state = 'ready' ORDER BY run_at LIMIT 1)";
my %deeds = (
	'enqueue' => sub { return enqueue($_[0], $_[1]) },
	'many' => sub { return join "\n", map { enqueue($_[0], $_ % 3) } 1 .. 30 },
	'in one transaction' => sub { return "BEGIN;\n" . join("\n", map { enqueue($_[0], $_ % 3, ", group_key => '" . ($_ % 9) . "'") } 1 .. 60) . 'COMMIT;' },
	'rolled back' => sub { return "BEGIN;\n" . enqueue($_[0], $_[1]) . 'ROLLBACK;' },
	'delayed' => sub { return "SELECT pgq_enqueue('$_[0]', '1', $_[1], delay => interval '300 ms' * i) FROM generate_series(1, 3) i;" },
	'ack' => sub { return "SELECT pgq_ack(job_id, lease) FROM pgq_claim('$_[0]', 7);" },
	'claim' => sub { return "SELECT count(*) FROM pgq_claim('$_[0]', 3);" },
	'release' => sub { return "SELECT pgq_release(job_id, lease) FROM pgq_claim('$_[0]', 3);" },
	'fail' => sub { return "SELECT pgq_fail(job_id, lease) FROM pgq_claim('$_[0]', 3);" },
	'lost' => sub { return "BEGIN; SELECT count(*) FROM pgq_claim('$_[0]', 2); ROLLBACK;" },
	'cancel' => sub { return "SELECT pgq_cancel(o) FROM " . sprintf($oldest, $_[0]) . ' o(o);' },
	'other priority' => sub { return "SELECT pgq_update(o, priority => $_[1]) FROM " . sprintf($oldest, $_[0]) . ' o(o);' },
	'put off' => sub { return "SELECT pgq_update(o, run_at => clock_timestamp() + interval '200 ms') FROM " . sprintf($oldest, $_[0]) . ' o(o);' },
	'deleted by hand' => sub { return 'DELETE FROM pgq_ext.job WHERE job_id = ' . sprintf($oldest, $_[0]) . ';' },
	'changed by hand' => sub { return "UPDATE pgq_ext.job SET run_at = run_at - interval '1 day', priority = $_[1] WHERE job_id = (SELECT max(job_id) FROM pgq_ext.job_status WHERE queue = '$_[0]' AND state = 'ready');" },
	'moved' => sub { return 'UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE job_id = ' . sprintf($oldest, $_[0]) . ';' },
	'prepared' => sub { return "BEGIN;\n" . enqueue($_[0], $_[1]) . "PREPARE TRANSACTION 'p'; SELECT count(oldest_ready_age) FROM pgq_ext.queue_status; COMMIT PREPARED 'p';" },
	'inserted by hand' => sub { return "INSERT INTO pgq_ext.job (queue_id, payload, priority, run_at) VALUES ($id{$_[0]}, '1', $_[1], clock_timestamp() - interval '1 s' * " . ($age += 11) . ');' },
	'purged' => sub { return "SELECT pgq_purge_queue('young');" });

srand(17);
my @names = sort keys %deeds;
my %tried;
for my $step (1 .. 40)
{
	my $name = $names[ $step <= @names ? $step - 1 : rand @names ];
	my $queue = (qw(q groups young))[ rand 3 ];
	$tried{$name}++;
	sql($deeds{$name}->($queue, int rand 3));
	agrees("$step: $name, $queue");
}
is(scalar keys %tried, scalar @names, 'each deed was done');

# What a transaction sees that undoes what it has done is not kept.
sql(q{SELECT pgq_purge_queue('q')});
sql(join "\n", (map { enqueue('q', 2) } 1 .. 20), enqueue('q', 0));
sql(q{SELECT count(*) FROM pgq_claim('q', 1); BEGIN; DELETE FROM pgq_ext.job; SELECT count(oldest_ready_age) FROM pgq_ext.queue_status; ROLLBACK});
agrees('looked at in a transaction that has deleted all, and was rolled back');

# ---- what is read while it changes ----

sql(q{SELECT pgq_purge_queue('q')});
sql(join "\n", map { enqueue('q', 2) } 1 .. 20);
agrees('the lowest priority has none');
sql(enqueue('q', 0));
agrees('... and one');
sql(q{SELECT pgq_enqueue('q', '1', -1, delay => '500 ms', run_at => NULL)});
wait_for($node, q{count(*) = 0 FROM pgq_ext.job_status WHERE state = 'scheduled'});
agrees('one has become due');
is(sql('SELECT * FROM pgq_check()'), '', 'all is well');
done_testing();
