# What the exporter makes of monitoring/queries.yml, with the role of monitoring/role.sql: the numbers of the views, in every
# database, at a price that does not grow with the rows; nothing of the jobs; no error on a standby.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use JSON::PP;
use PgqTest;
use MonitorTest;

my $node = pgq_node('main', init => { allows_streaming => 1 });
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $role = [ 'psql', '-Xqd', $node->connstr('postgres'), '-f', 'monitoring/role.sql' ];
$node->command_ok($role, 'the role is made');
$node->command_ok($role, '... and again, in another database or after a new version');

# ---- numbers ----

my $odd = 'odd"name\\';
create_queue($node, $_) for 'mail', $odd;
create_queue($node, 'small', 'max_depth => 10');
sql(q{SELECT count(pgq_enqueue('mail', to_jsonb(i))) FROM generate_series(1, 9) i; SELECT pgq_enqueue('mail', '0', delay => '1 h');
	SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('mail', 2); SELECT count(*) FROM pgq_claim('mail', 3);
	SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('mail');
	SELECT count(*) FROM pgq_claim('small'); SELECT pgq_enqueue('small', '1'); SELECT pgq_pause_queue('small');
	SELECT pgq_schedule('night', '@daily', 'mail')});
create_queue($node, 'behind');
sql(q{SELECT pgq_enqueue('behind', '1', after => ARRAY[(SELECT min(job_id) FROM pgq_ext.job)])});
create_queue($node, 'handled', 'max_attempts => 1');
sql(q{CREATE ROLE hand LOGIN; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO hand;
	CREATE FUNCTION handle(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 / job.payload::text::int; END $$});
sql(q{SELECT pgq_set_handler('handled', 'handle(pgq_ext.claimed_job)', run_as => 'hand', workers => 2), pgq_enqueue('handled', '1'), pgq_enqueue('handled', '2'), pgq_enqueue('handled', '0')});
wait_for($node, q{calls = 3 AND failures = 1 FROM pgq_ext.handler});
sql(q{SELECT pgq_pause_handler('handled')});
wait_for($node, q{state = 'paused' FROM pgq_ext.handler});
# Two open batches, of which one has a callback that cannot be enqueued; one that is closed and has a member; one that is finished.
sql(q{SELECT pgq_create_batch() FROM generate_series(1, 4)});
my @batches = split /\n/, sql('SELECT batch_id FROM pgq_ext.job_batch ORDER BY batch_id');
sql(qq{SELECT count(*) FROM pgq_enqueue_many('small', '[{"payload": 1, "batch": $batches[1]}]'); SELECT pgq_close_batch($batches[1]);
	UPDATE pgq_ext.job_batch SET last_error = 'no queue', due_at = clock_timestamp() + interval '1 h' WHERE batch_id = $batches[2];
	UPDATE pgq_ext.job_batch SET closed_at = clock_timestamp(), finished_at = clock_timestamp(), succeeded_at = clock_timestamp(), pending = false WHERE batch_id = $batches[3]});
wait_for($node, q{bool_and(ready IS NOT NULL) FROM pgq_ext.queue_status});
my $exporter = start_exporter($node, 'postgres');
my $metrics = metrics();
sub metric
{
	my ($name, %labels) = @_;
	return $metrics->{ "$name\{" . join(',', map { "$_=\"$labels{$_}\"" } sort keys %labels) . '}' } // 'none';
}
sub of_queue { return metric("pgq_queue_$_[0]", datname => 'postgres', queue => $_[1]) }

is(metric('pg_up'), 1, 'the exporter reaches the server');
is(metric('pg_exporter_last_scrape_error'), 0, '... and no query fails') or diag(slurp_file("$PostgreSQL::Test::Utils::log_path/exporter.log"));
is(join(' ', map { of_queue("status_$_", 'mail') } qw(ready scheduled blocked leased dead waiting_claims paused depth max_depth)), '3 1 0 3 1 0 0 0 0', 'queue_status');
is(join(' ', map { of_queue("status_$_", 'behind') } qw(ready scheduled blocked)), '0 0 1', '... and of a queue whose jobs wait for other jobs');
cmp_ok(of_queue('status_oldest_ready_seconds', 'mail'), '>', 0, '... and the age');
is(of_queue('status_oldest_ready_seconds', $odd =~ s/["\\]/\\$&/gr), 0, '... of an empty queue it is 0; any name will do');
is(join(' ', map { of_queue("status_$_", 'small') } qw(paused depth max_depth)), '1 2 10', '... paused and bounded');

my @counters = split /\n/, sql(q{SELECT attname FROM pg_attribute WHERE attrelid = 'pgq_ext.queue_stats'::regclass AND atttypid = 'bigint'::regtype AND attname <> 'reconciled' ORDER BY attnum});
isnt(of_queue('stats_reconciled_total', 'mail'), 'none', 'queue_stats'); # which goes on by itself
for my $queue ('mail', 'small')
{
	is(join(' ', map { of_queue("stats_${_}_total", $queue) } @counters),
		sql('SELECT concat_ws($$ $$, ' . join(', ', @counters) . ") FROM pgq_ext.queue_stats WHERE queue = '$queue'"), "... of $queue, every other counter");
}

for my $phase (qw(wait run total))
{
	my %of = (datname => 'postgres', queue => 'mail', phase => $phase);
	my %bucket = map { (($_ =~ /le="([^"]+)"/)[0] => $metrics->{$_}) } grep { /^pgq_queue_latency_seconds_bucket\{.*phase="$phase",queue="mail"/ } keys %$metrics;
	my @le = sort { $a <=> $b } keys %bucket;
	is(join(' ', map { $bucket{$_} } @le), join(' ', sort { $a <=> $b } values %bucket), "queue_latency, $phase: a histogram grows with le");
	is($bucket{'+Inf'}, metric('pgq_queue_latency_seconds_count', %of), '... up to the number of all');
	is(join(' ', map { $bucket{$_} } @le), sql("SELECT string_agg(count::text, ' ' ORDER BY le_seconds) FROM pgq_ext.queue_latency WHERE queue = 'mail' AND phase = '$phase'"), '... as in the view');
	cmp_ok(metric('pgq_queue_latency_seconds_count', %of), '>', 0, '... and there is something');
	cmp_ok(abs(metric('pgq_queue_latency_seconds_sum', %of) - sql("SELECT max(sum_seconds) FROM pgq_ext.queue_latency WHERE queue = 'mail' AND phase = '$phase'")), '<', 1e-6, '... the sum, too');
}

sub labels_of { my ($metric, $label) = @_; return join ', ', sort map { /[{,]$label="([^"]*)"/ } grep { /^\Q$metric\E\{/ } keys %$metrics }
sub names { return join ', ', sort split /\n/, sql($_[0]) }
is(labels_of('pgq_health_status', 'check'), names('SELECT "check" FROM pgq_ext.health'), 'health: all checks');
is(labels_of('pgq_capacity_bound', 'name'), names('SELECT name FROM pgq_ext.capacity'), 'capacity: all bounds');
is(labels_of('pgq_duty_failing', 'duty'), names('SELECT DISTINCT duty FROM pgq_ext.duty'), 'duty: all duties');
is(labels_of('pgq_schedule_paused', 'schedule'), 'night', 'schedules');
is(join(' ', map { metric("pgq_handler_$_", datname => 'postgres', queue => 'handled') } qw(workers calls_total failures_total failures_in_row suspended paused waiting rest_seconds)),
	'2 3 1 0 0 1 0 0', 'handlers');
like(metric('pgq_handler_running', datname => 'postgres', queue => 'handled'), qr/^[012]$/, '... and their workers');
is(join(' ', map { metric("pgq_batch_$_", datname => 'postgres') } qw(open closed finished_last_hour callback_fails)), '2 1 1 1', 'batches');
cmp_ok(metric('pgq_batch_oldest_closed_seconds', datname => 'postgres'), '>', 0, '... and the age of a closed one');
is(join(' ', map { metric('pgq_segment_tables', datname => 'postgres', parent => "pgq_ext.$_") } qw(job dead_job attempt finished_job)), '8 4 4 4', 'segments');
is(join(', ', grep { $metrics->{$_} =~ /NaN/ } sort keys %$metrics), '', 'what is not known is not there');

# ---- rights ----

my $as = "host=${\$node->host} port=${\$node->port} user=prometheus dbname=postgres";
sub refused
{
	my ($what, $sql) = @_;
	$node->command_fails_like([ 'psql', '-XAtqd', $as, '-c', 'SET default_transaction_read_only = off', '-c', $sql ], qr/permission denied/, "the role may not $what");
	return;
}
refused('see jobs',         'SELECT count(*) FROM pgq_ext.job');
refused('see dead letters', 'SELECT count(*) FROM pgq_ext.dead_job');
refused('change queues',    q{UPDATE pgq_ext.queue SET paused = true});
is($node->safe_psql('postgres', q{SELECT string_agg(p.oid::regproc::text, ', ') FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
	WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgq_ext') AND p.proname LIKE 'pgq\_%' AND has_function_privilege('prometheus', p.oid, 'EXECUTE')}), '', '... call any function for users');

is($node->safe_psql('postgres', 'SET ROLE prometheus; SELECT (SELECT count(lease) FROM pgq_ext.lease), (SELECT count(payload) FROM pgq_ext.schedule)'), '0|0', '... see leases or the payloads of schedules');
sql('REVOKE pg_monitor FROM prometheus');
is(metrics()->{'pg_exporter_last_scrape_error{}'}, 1, 'it needs pg_monitor');
sql('GRANT pg_monitor TO prometheus');
is(metrics()->{'pg_exporter_last_scrape_error{}'}, 0, '... and nothing else');

# Of queues on which others have rights it sees as much as of those that are open.
sql(q{CREATE ROLE app; SELECT pgq_grant('small', 'app', '{claim}')});
$metrics = metrics();
is(join(' ', map { of_queue("status_$_", 'small') } qw(paused depth max_depth)), '1 2 10', 'a closed queue');
isnt(of_queue('stats_enqueued_total', 'small'), 'none', '... and its counters');

# ---- what it costs ----

my %query = slurp_file('monitoring/queries.yml') =~ /^(pgq_\w+):\n(?:  master: true\n)  query: \|\n((?:    .*\n)+)/mg;

# The blocks that a query looks at, with the catalog in the caches; and the tables in its plan.
sub cost_of
{
	my ($query) = @_;
	my ($out, $error) = run_command([ 'psql', '-XAtqd', $as, '-c', $query, '-c', "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $query" ]);
	my ($json) = $out =~ /^(\[\n.*)/ms or die $error;
	my $plan = decode_json($json)->[0]{Plan};
	return ($plan->{'Shared Hit Blocks'} + $plan->{'Shared Read Blocks'}, join ' ', $json =~ /"Relation Name": "(\w+)"/g);
}

my %cost = map { ($_ => (cost_of($query{$_}))[0]) } sort keys %query;
sql(q{SELECT count(pgq_enqueue('mail', to_jsonb(i))) FROM generate_series(1, 30000) i;
	SELECT count(pgq_enqueue('mail', to_jsonb(i), delay => '1 h')) FROM generate_series(1, 30000) i});
sql(q{SELECT count(pgq_fail(job_id, lease, retry => false)) FROM pgq_claim('mail', 1000)}) for 1 .. 5;
sql('ANALYZE');
is(scalar(keys %query), scalar(() = slurp_file('monitoring/queries.yml') =~ /^\w+:$/mg), 'every query is looked at');
for my $name (sort keys %query)
{
	my ($blocks, $tables) = cost_of($query{$name});
	cmp_ok($blocks, '<=', $cost{$name} + 60, "$name looks at no more with 65,000 rows than without ($cost{$name} blocks)");
	unlike($tables, qr/\b(?:job|dead_job|attempt|finished_job|unique_key)(?:_\d+)?\b/, '... and its plan at no table of theirs');
}

# ---- elsewhere ----

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', "CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('mail')");
$node->command_ok([ 'psql', '-Xqd', $node->connstr('other'), '-f', 'monitoring/role.sql' ], 'another database');
wait_for($node, q{bool_and(ready IS NOT NULL) FROM pgq_ext.queue_status}, 'other');
stop_program($exporter);
$exporter = start_exporter($node, 'postgres', 'other');
$metrics = metrics();
is(metric('pg_exporter_last_scrape_error'), 0, '... by the same exporter');
is(join(' ', map { metric('pgq_queue_status_dead', datname => $_, queue => 'mail') } qw(postgres other)), '5001 0', '... each with its own numbers');

# An owner who is no superuser cannot give pg_monitor, nor change the role: the views are granted instead, and whatever is, some query needs.
sql(q{CREATE ROLE dba LOGIN SUPERUSER; CREATE DATABASE owned OWNER dba});
$node->safe_psql('owned', q{SET ROLE dba; CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('mail')});
sql('ALTER ROLE dba NOSUPERUSER; REVOKE pg_monitor FROM prometheus');
$node->command_ok([ 'psql', '-Xqd', "host=${\$node->host} port=${\$node->port} user=dba dbname=owned", '-f', 'monitoring/role.sql' ], 'the owner of the extension runs it');
wait_for($node, q{bool_and(ready IS NOT NULL) FROM pgq_ext.queue_status}, 'owned');
stop_program($exporter);
$exporter = start_exporter($node, 'owned');
is(metrics()->{'pg_exporter_last_scrape_error{}'}, 0, '... and no query fails');
my @given = split /\n/, $node->safe_psql('owned', q{
	SELECT format('EXECUTE ON FUNCTION %s', p.oid::regprocedure) FROM pg_proc p, aclexplode(p.proacl) a WHERE a.grantee = 'prometheus'::regrole
	UNION ALL SELECT format('SELECT ON %s', c.oid::regclass) FROM pg_class c, aclexplode(c.relacl) a WHERE a.grantee = 'prometheus'::regrole
	UNION ALL SELECT format('SELECT (%I) ON %s', t.attname, t.attrelid::regclass) FROM pg_attribute t, aclexplode(t.attacl) a WHERE a.grantee = 'prometheus'::regrole});
for my $right (@given)
{
	$node->safe_psql('owned', "REVOKE $right FROM prometheus");
	is(metrics()->{'pg_exporter_last_scrape_error{}'}, 1, "it needs $right");
	$node->safe_psql('owned', "GRANT $right TO prometheus");
}
is(metrics()->{'pg_exporter_last_scrape_error{}'}, 0, '... and nothing else');
sql('GRANT pg_monitor TO prometheus');

$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
stop_program($exporter);
$exporter = start_exporter($standby, 'postgres');
$metrics = metrics();
is(join(' ', metric('pg_up'), metric('pg_exporter_last_scrape_error')), '1 0', 'on a standby no query fails');
is(join(' ', grep { /^pgq_/ } sort keys %$metrics), '', '... and nothing is told');
$standby->promote;
wait_for($standby, q{bool_and(ready IS NOT NULL AND dead IS NOT NULL) FROM pgq_ext.queue_status});
$metrics = metrics();
is(of_queue('status_dead', 'mail'), '5001', '... before it is promoted');
stop_program($exporter);
$standby->stop;
$node->stop;
done_testing();
