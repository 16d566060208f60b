# With a version of the SQL objects that the library does not serve (test 078 has a version that it serves), every
# function raises an error, the scheduler waits, no job is lost, and the queue goes on when the versions agree again.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
my $version = sql(q{SELECT extversion FROM pg_extension WHERE extname = 'pgq_ext'});

# Update scripts that touch no table, so that nothing but the version says that something has changed; and one that does.
my $scripts = $node->config_data('--sharedir') . '/extension';
my %script  = (
	"$version--99" => q{COMMENT ON SCHEMA pgq_ext IS 'of another version';},
	"99--$version" => q{COMMENT ON SCHEMA pgq_ext IS NULL;},
	"0.0--$version" => '',
	"$version--0.0" => '',
	'99--100'      => q{ALTER TYPE pgq_ext.claimed_job ADD ATTRIBUTE more text, ADD ATTRIBUTE and_more text;});
END { unlink map { "$scripts/pgq_ext--$_.sql" } keys %script if $scripts }
append_to_file("$scripts/pgq_ext--$_.sql", $script{$_}) for keys %script;

sub update_to
{
	my ($to, $db) = @_;
	sql("ALTER EXTENSION pgq_ext UPDATE TO '$to'", $db);
	return;
}

sub differ_ok
{
	my ($what, $error) = @_;
	like($error, qr/library and SQL objects of pgq_ext have different versions\n.*is \Q$version\E, .* is (99|100)\..*\n.*HINT:  Install pgq_ext \1 and restart the server\./s,
		$what);
	return;
}

# ---- while everybody works ----

create_queue($node, $_) for 'q', 'quiet';
my $scheduler = wait_for_scheduler($node);
sql(q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 10) i});
my ($held, $held_lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q', lease_time => '1 hour')});

# They know the tables, and nothing makes them look again but the update.
my ($warm, $waiting, $writing) = map { session($node) } 1 .. 3;
ask($_, q{SELECT * FROM pgq_claim('quiet')}) for $warm, $waiting;
send_sql($waiting, q{SELECT * FROM pgq_claim('quiet', wait => '60 s')});
wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'quiet'});

# Undone: as if nothing had been.
ask($warm, q{BEGIN; SAVEPOINT s; ALTER EXTENSION pgq_ext UPDATE TO '99'});
differ_ok('in the transaction that updates', (ask($warm, q{SELECT pgq_enqueue('q', '0')}))[1]);
is(ask($warm, q{ROLLBACK TO s; SELECT count(*) FROM pgq_claim('quiet'); COMMIT}), '0', 'rolled back: served');

my $log = -s $node->logfile;
# One more is lost, but not before the scheduler idles.
my $lost = sql(q{SELECT job_id FROM pgq_claim('q', lease_time => '3 s')});
update_to('99');
differ_ok('who knew the tables is told', (ask($warm, q{SELECT * FROM pgq_claim('q')}))[1]);
for my $call (
	q{pgq_claim('q')}, q{pgq_claim_any('{q}')}, q{pgq_enqueue('q', '1')}, q{pgq_enqueue_many('q', '[{"payload": 1}]')},
	"pgq_ack($held, $held_lease)", "pgq_ack_many('{$held}', '{$held_lease}')", "pgq_fail($held, $held_lease)",
	"pgq_extend($held, $held_lease)", "pgq_release($held, $held_lease)", "pgq_assert_lease($held, $held_lease)", "pgq_checkpoint($held, $held_lease, 'step')", "pgq_parents($held, $held_lease)", "pgq_finish('{$held}')", 'pgq_create_batch()', 'pgq_close_batch(1)', 'pgq_cancel_batch(1)',
	"pgq_ack_claim('{$held}', '{$held_lease}', 'q')", "pgq_ack_next($held, $held_lease, 'q')", q{pgq_create_queue('new')}, q{pgq_alter_queue('q')}, q{pgq_rename_queue('q', 'r')}, q{pgq_pause_queue('q')}, q{pgq_resume_queue('q')}, q{pgq_drop_queue('q')}, q{pgq_purge_queue('q')}, q{pgq_grant('q', 'public', '{claim}')}, q{pgq_revoke('q', 'public', '{claim}')},
	q{pgq_lock('l')}, q{pgq_extend_lock('l', 1)}, q{pgq_unlock('l', 1)}, q{pgq_assert_lock('l', 1)}, q{pgq_run_once('r')}, q{pgq_run_done('r', 1)},
	q{pgq_create_rate('r', 1, '1 s')}, q{pgq_drop_rate('r')}, q{pgq_take('r')}, q{pgq_set_handler('q', 'lower(text)')}, q{pgq_drop_handler('q')}, q{pgq_pause_handler('q')}, q{pgq_resume_handler('q')}, 'pgq_ext.handler_entries()', 'pgq_ext.members_of(1)', 'pgq_ext.is_in_work(1)', 'pgq_ext.lock_entries()', 'pgq_ext.rate_entries()',
	'pgq_ext.lease_entries()', 'pgq_ext.lease_of(1)', 'pgq_explain(1)', 'pgq_ext.queue_entries()', 'pgq_ext.stat_entries()', 'pgq_ext.latency_entries()', 'pgq_ext.group_entries()', 'pgq_ext.oldest_ready(1)', 'pgq_ext.blocked_jobs(1)', q{pgq_ext.recount('q')}, 'pgq_retry(1)', q{pgq_redrive('q')}, 'pgq_run_again(1)')
{
	my ($state, $error) = sqlstate($node, "SELECT $call");
	is($state, '55000', "$call: 55000");
	differ_ok('... and why', $error);
}

# ---- the scheduler idles ----

wait_for($node, "count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND pid <> $scheduler");
$scheduler = scheduler_pid($node);
my $told = qr/LOG:  library and SQL objects of pgq_ext have different versions\n.*DETAIL:  .*"postgres" is 99.*\n.*HINT/;
$node->wait_for_log($told, $log);
my $since = sql('SELECT clock_timestamp()');
wait_for($node, "clock_timestamp() > '$since'::timestamptz + '4 s'");
my $said = slurp_file($node->logfile, $log);
is(scalar(() = $said =~ /LOG:  library and SQL objects of pgq_ext have different versions/g), 1, 'the log says it once');
unlike($said, qr/exited with exit code/, '... and no worker dies of it');
is(scheduler_pid($node), $scheduler, '... the scheduler is there');
is(sql("SELECT attempts FROM pgq_ext.job WHERE job_id = $lost"), '0', '... and does nothing: an expired lease is not counted');

# ---- rows may come ----

my $by_hand = q{INSERT INTO pgq_ext.job (queue_id, payload) SELECT queue_id, '"%s"' FROM pgq_ext.queue WHERE queue = '%s'};
is(sqlstate($node, sprintf $by_hand, 'by hand', 'q'), '', 'rows can be inserted by hand');
is(ask($writing, 'BEGIN;' . sprintf $by_hand, 'in a long transaction', 'q'), '', '... also by a transaction that outlives the difference');
is(sqlstate($node, sprintf $by_hand, 'for who waits', 'quiet'), '', '... also to a queue where a claim waits');
differ_ok('a claim that waits is told', (reply($waiting))[1]);

# ---- they agree again ----

update_to($version);
is(ask($warm, "SELECT 'done', pgq_ack($held, $held_lease)"), 'done|', 'they agree again: leases are what they were');
is(sql(q{SELECT payload FROM pgq_claim('quiet')}), '"for who waits"', '... and so are jobs');
# Nobody claims it before: without a scheduler for 5 s it would be handed out uncounted.
wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $lost");
my @got = split /\n/, sql(q{SELECT payload, attempt FROM pgq_claim('q', 100)});
# What was lost is back.
my @rest = grep { /^2\|/ } @got;
is(join(' ', sort grep { !/^2\|/ } @got), join(' ', sort '"by hand"|1', map { "$_|1" } 3 .. 10), '... all that wait, each once');
ask($writing, 'COMMIT');
for (1 .. 6)
{
	last if @rest >= 2;
	push @rest, split /\n/, sql(q{SELECT payload, attempt FROM pgq_claim('q', 2, wait => '30 s')});
}
is(join(' ', sort @rest), '"in a long transaction"|1 2|2', '... and the scheduler counts what was lost meanwhile');
is(scheduler_pid($node), $scheduler, '... the same scheduler');

# ---- more than the version is different ----

sql('CREATE DATABASE other');
is(sqlstate($node, q{CREATE EXTENSION pgq_ext VERSION '99'}, 'other'), '', 'CREATE EXTENSION in another version');
is(sqlstate($node, q{SELECT pgq_create_queue('q')}, 'other'), '55000', '... is as good as an update to it');
sql("ALTER EXTENSION pgq_ext UPDATE TO '$version'", 'other');
create_queue($node, 'q', '', 'other');
sql(q{SELECT pgq_enqueue('q', '1')}, 'other');
my $prepared = session($node, 'other');
ask($prepared, q{PREPARE claim AS SELECT * FROM pgq_claim('q'); BEGIN; EXECUTE claim; ROLLBACK});
update_to('99', 'other');
update_to('100', 'other');
differ_ok('a result type with more attributes', (ask($prepared, 'EXECUTE claim'))[1]);
is(sqlstate($node, q{SELECT * FROM pgq_claim('q')}, 'other'), '55000', '... for everybody');
is(sqlstate($node, 'DROP EXTENSION pgq_ext', 'other'), '', 'DROP EXTENSION in another version');
is(sqlstate($node, 'CREATE EXTENSION pgq_ext', 'other'), '', '... and CREATE EXTENSION in the right one');
create_queue($node, 'q', '', 'other');
is(sqlstate($node, q{SELECT * FROM pgq_claim('q')}, 'other'), '', '... serves');

# Older than the one before.
sql("ALTER EXTENSION pgq_ext UPDATE TO '0.0'", 'other');
like((sqlstate($node, q{SELECT * FROM pgq_claim('q')}, 'other'))[1], qr/55000.*the extension in database "other" is 0\.0\..*\n.*HINT:  Run ALTER EXTENSION pgq_ext UPDATE in this database\./s,
	'an older one is to be updated');
is(sqlstate($node, 'ALTER EXTENSION pgq_ext UPDATE', 'other'), '', '... which helps');
is(sqlstate($node, q{SELECT * FROM pgq_claim('q')}, 'other'), '', '... at once');

# ---- found at start, as after a new library was installed ----

update_to('99');
$log = -s $node->logfile;
$node->restart;
differ_ok('after a restart', (sqlstate($node, q{SELECT pgq_enqueue('q', '"restarted"')}))[1]);
wait_for_scheduler($node);
update_to($version);
is(sql(q{SELECT pgq_enqueue('q', '"restarted"', priority => 1) IS NOT NULL}), 't', '... they agree again');
is(sql(q{SELECT payload FROM pgq_claim('q')}), '"restarted"', '... served');
sql(q{SELECT job_id FROM pgq_claim('q', 100, lease_time => '1 s')});
is(sql(q{SELECT last_error FROM pgq_claim('q', wait => '30 s')}), 'the lease expired', '... by the scheduler, too');

end_session($_) for $warm, $waiting, $writing, $prepared;
$node->stop;
done_testing();
