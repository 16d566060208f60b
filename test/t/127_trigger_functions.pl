# A role that may execute the trigger functions of the extension uses them in triggers of its own tables and of the
# extension's tables: the functions raise an error there. The internal functions give such a role nothing that only
# the owner may do.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('main', conf => "restart_after_crash = off\n");
sub sql { return scalar $node->safe_psql('postgres', $_[0]) }
sub state_as { my ($role, $sql) = @_; return scalar sqlstate($node, "SET ROLE $role; $sql") }

create_queue($node, 'secret', q{keep_finished => '1 day'});
sql(q{CREATE ROLE eve; CREATE SCHEMA e AUTHORIZATION eve; GRANT USAGE ON SCHEMA pgq_ext TO eve; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgq_ext TO eve;
	GRANT ALL ON ALL TABLES IN SCHEMA pgq_ext TO eve; GRANT EXECUTE ON FUNCTION pgq_enqueue, pgq_claim TO eve; SELECT pgq_grant('secret', 'pg_monitor', '{inspect}')});
sql(q{SELECT pgq_enqueue('secret', '{"pin": 1234}') FROM generate_series(1, 3); SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('secret'); SELECT pgq_ack(job_id, lease, '"done"') FROM pgq_claim('secret')});
wait_until_counted($node);
my $facts = q{SELECT (SELECT string_agg(concat_ws(',', queue, dead, ready, paused), ';') FROM pgq_ext.queue_status), (SELECT count(*) FROM pgq_ext.finished_job), (SELECT count(*) FROM pgq_check()),
	(SELECT count(*) FROM pg_class WHERE relname ~ '^rights_'), (SELECT increment_by FROM pg_sequences WHERE sequencename = 'job_id_seq')};
my $before = sql($facts);

my @functions = split /\n/, sql(q{SELECT proname FROM pg_proc WHERE pronamespace = 'pgq_ext'::regnamespace AND prorettype = 'trigger'::regtype AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'c') ORDER BY 1});
cmp_ok(scalar @functions, '>=', 6, 'there are trigger functions');

# ---- on tables of its own: the columns are there, of whatever type ----

my @shapes = ('queue_id int, queue text, job_id bigint, maker_name text, maker oid, fence bigint, enqueued_at timestamptz', 'queue_id text, queue bigint, job_id text, maker_name bigint, maker text, fence text, enqueued_at bigint',
	'other int');
my @rows = (q{1, 'secret', 1, 'postgres', 10, 0, now()}, q{'1', 12345, '1', 12345, 'x', 'x', 12345}, '1');
my @kinds = ((map { my $when = $_; map { ("$when $_ ROW", "$when $_ STATEMENT") } qw(INSERT UPDATE DELETE) } qw(BEFORE AFTER)), 'BEFORE TRUNCATE STATEMENT', 'AFTER TRUNCATE STATEMENT');
my (@states, %odd);
for my $function (@functions)
{
	is(state_as('eve', "SELECT pgq_ext.$function()"), '39P01', "pgq_ext.$function() is called by no trigger");
	for my $n (0 .. $#shapes)
	{
		my $sql = '';
		for my $kind (@kinds)
		{
			my ($when, $event, $level) = split / /, $kind;
			my $write = { INSERT => "INSERT INTO e.t VALUES ($rows[$n])", UPDATE => 'UPDATE e.t SET ctid_is = 1', DELETE => 'DELETE FROM e.t', TRUNCATE => 'TRUNCATE e.t' }->{$event};
			$sql .= "CREATE TABLE e.t ($shapes[$n], ctid_is int); INSERT INTO e.t VALUES ($rows[$n]); CREATE TRIGGER $function $when $event ON e.t FOR EACH $level EXECUTE FUNCTION pgq_ext.$function();
				$write;\n\\echo :SQLSTATE\nDROP TABLE e.t;\n";
		}
		my ($out, $err) = ('', '');
		$node->psql('postgres', "SET ROLE eve;\n$sql", stdout => \$out, stderr => \$err, on_error_stop => 0);
		my @got = split /\n/, $out;
		$odd{"$function, columns $n: @got"}++ if @got != @kinds || grep { $_ ne '39P01' } @got;
	}
}
is_deeply([ sort keys %odd ], [], 'whatever the table and the event, each of them refuses to run on it');

# ---- on tables of the extension, beside the extension's own ----

for my $case ([ 'dead_job_changed', 'AFTER DELETE', 'dead_job', 'DELETE FROM pgq_ext.dead_job' ], [ 'job_changed', 'AFTER INSERT', 'job_0', q{INSERT INTO pgq_ext.job_0 (job_id, queue_id, payload) VALUES (9, 1, '1')} ],
	[ 'queue_changed', 'BEFORE UPDATE', 'queue', 'UPDATE pgq_ext.queue SET paused = false' ], [ 'job_fence', 'BEFORE UPDATE', 'timetable', 'UPDATE pgq_ext.timetable SET paused = false' ],
	[ 'queue_handler_changed', 'BEFORE UPDATE', 'timetable', 'UPDATE pgq_ext.timetable SET paused = false' ],
	[ 'topic_changed', 'AFTER UPDATE', 'topic_binding', q{INSERT INTO pgq_ext.topic_binding (queue_id, pattern) VALUES (1, 'x'); UPDATE pgq_ext.topic_binding SET pattern = 'y'} ])
{
	my ($function, $event, $table, $write) = @$case;
	sql(q{SELECT pgq_schedule('s', '@yearly', 'secret')});
	is(state_as('eve', "CREATE TRIGGER twice $event ON pgq_ext.$table FOR EACH ROW EXECUTE FUNCTION pgq_ext.$function(); $write"), '39P01', "$function does not run twice, on $table");
	sql("DROP TRIGGER twice ON pgq_ext.$table; SELECT pgq_unschedule('s')");
}

# ---- internal functions ----

is(state_as('eve', "SELECT pgq_ext.step_job_ids($_)"), $_ eq '5' ? '42501' : '', "step_job_ids($_) does nothing for others than the owner") for 5, 'NULL', '-1', 1024;
is(state_as('eve', q{INSERT INTO pgq_ext.shard (shard) VALUES (5)}), '42501', '... nor by a row');
{
	my @calls = user_functions($node, all => 1);
	my $out = '';
	$node->psql('postgres', join('', map { "SELECT FROM $_;\n\\echo :SQLSTATE $_\n" } @calls), stdout => \$out, on_error_stop => 0);
	is(scalar(() = $out =~ /^\w{5} \w/mg), scalar @calls, 'every function may be called with NULLs');
	is(join("\n", grep { /^XX/ } split /\n/, $out), '', '... without an internal error');
}

is(sql($facts), $before, 'rights, records, counts and ids are as before');
is(state_as('eve', q{SELECT pgq_enqueue('secret', '1')}), '42501', '... and the queue is closed');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'nothing has crashed');
$node->stop;
done_testing();
