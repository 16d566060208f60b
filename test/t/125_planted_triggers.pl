# The scheduler sets muted triggers of the extension to ENABLE ALWAYS again. It does not change a trigger that a role
# with the TRIGGER privilege has made with the name or the function of such a trigger.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('main');
sub sql { return scalar $node->safe_psql('postgres', $_[0]) }
sub as { my ($role, $sql) = @_; return sql("SET ROLE $role; $sql") }

create_queue($node, 'q');
sql(q{SELECT pgq_schedule('s', '* * * * * *', 'q', missed => 'skip'); SELECT pgq_enqueue('q', '1') FROM generate_series(1, 3)});
sql(q{SELECT pgq_fail(job_id, lease, 'x', retry => false) FROM pgq_claim('q', 2)});
sql(q{CREATE ROLE mallory; CREATE ROLE operator; CREATE SCHEMA m AUTHORIZATION mallory; GRANT EXECUTE ON FUNCTION pgq_retry, pgq_purge_queue TO operator;
	GRANT USAGE ON SCHEMA pgq_ext TO mallory; GRANT ALL ON ALL TABLES IN SCHEMA pgq_ext TO mallory; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgq_ext TO mallory});

# ---- what is planted ----

as('mallory', q{CREATE FUNCTION m.grab() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN EXECUTE 'ALTER ROLE mallory SUPERUSER'; END IF; RETURN true; END $$;
	CREATE FUNCTION m.evil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM m.grab(); RETURN NEW; END $$;
	GRANT USAGE ON SCHEMA m TO PUBLIC});
my @names = split /\n/, sql(q{SELECT DISTINCT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = 'pgq_ext'::regnamespace AND NOT tgisinternal});
my @tables = qw(queue timetable queue_handler held_lock topic_binding topic_pattern job_0 job_7 dead_job_8);
my @planted;
for my $table (@tables)
{
	for my $name (@names)
	{
		next if sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'pgq_ext.$table'::regclass AND tgname = '$name'");
		# Of the events that the one of that name has, where they are those of a row.
		as('mallory', "CREATE TRIGGER $name " . ($name =~ /fence|paused|queue_changed|timetable|handler/ ? 'BEFORE' : 'AFTER')
			  . " INSERT OR UPDATE ON pgq_ext.$table FOR EACH ROW EXECUTE FUNCTION m.evil()");
		push @planted, "'$table $name'";
	}
}
cmp_ok(scalar @planted, '>', 30, 'triggers are planted, with the names that the extension uses');

# ---- what the scheduler does ----

# The extension's own: half switched off, as pg_restore --disable-triggers leaves them, so that the scheduler looks at their table.
my %own = (queue => 'queue_appeared', timetable => 'timetable_changed', queue_handler => 'queue_handler_changed', job_batch => 'job_batch_changed',
	topic_binding => 'topic_binding_changed', topic_pattern => 'topic_pattern_truncated', job_0 => 'job_changed', job_7 => 'job_fence', dead_job_8 => 'dead_job_changed');
sub mute { my ($table) = @_; return sql("ALTER TABLE pgq_ext.$table ENABLE TRIGGER $own{$table}") }
sub wait_until_restored
{
	my ($table) = @_;
	return wait_for($node, "tgenabled = 'A' FROM pg_trigger WHERE tgrelid = 'pgq_ext.$table'::regclass AND tgname = '$own{$table}'");
}
for my $table (sort keys %own)
{
	mute($table);
	wait_until_restored($table);
}
pass('triggers of the extension that do not fire always do so soon');
is(sql(q{SELECT count(*) FROM pg_trigger WHERE tgfoid = 'm.evil'::regproc AND tgenabled <> 'O'}), '0', '... no planted one does');
as('operator', $_) for q{SELECT pgq_retry(1)}, q{SELECT pgq_purge_queue('q')};
wait_for($node, q{last_job_id > max(d.job_id) FROM pgq_ext.schedule, pgq_ext.dead_job d GROUP BY last_job_id});
is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}), 'f', '... nor runs as the owner when the owner writes');
sql("DROP FUNCTION m.evil CASCADE");

# ---- functions of the extension in triggers of others ----

# The name and the function are right: not the table, the events, or what else it evaluates.
my $odd = sub {
	my ($table, $mutes, $trigger, $what) = @_;
	my ($name) = $trigger =~ /^(\w+)/;
	sql("DROP TRIGGER IF EXISTS $name ON pgq_ext.$table") if $table !~ /_\d/;
	as('mallory', "CREATE TRIGGER $trigger");
	mute($mutes);
	wait_until_restored($mutes);
	is(sql("SELECT tgenabled FROM pg_trigger WHERE tgrelid = 'pgq_ext.$table'::regclass AND tgname = '$name'"), 'O', $what);
	sql("DROP TRIGGER $name ON pgq_ext.$table");
};
sql(q{SELECT pgq_unschedule('s')});
$odd->('timetable', 'timetable', 'job_fence BEFORE INSERT OR UPDATE ON pgq_ext.timetable FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_fence()',
	'a function of another table makes no trigger of ours');
$odd->('queue', 'queue', 'queue_paused BEFORE INSERT OR UPDATE ON pgq_ext.queue FOR EACH ROW WHEN (m.grab()) EXECUTE FUNCTION pgq_ext.queue_paused()',
	'... nor with a condition');
sql(q{CREATE TRIGGER queue_paused BEFORE INSERT OR UPDATE ON pgq_ext.queue FOR EACH ROW EXECUTE FUNCTION pgq_ext.queue_paused(); ALTER TABLE pgq_ext.queue ENABLE ALWAYS TRIGGER queue_paused});
$odd->('queue', 'queue', 'queue_paused BEFORE UPDATE ON pgq_ext.queue FOR EACH ROW EXECUTE FUNCTION pgq_ext.queue_paused()', '... nor for fewer events');
is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}), 'f', 'nobody became more than it was');

# ---- other objects, whose name is not enough ----

sql(q{ALTER EXTENSION pgq_ext DROP FUNCTION pgq_ext.is_leased(bigint)});
is(sqlstate($node, q{SELECT pgq_purge_queue('q')}), '55000', 'a function that is no member of the extension is not called');
sql(q{ALTER EXTENSION pgq_ext ADD FUNCTION pgq_ext.is_leased(bigint)});
is(sqlstate($node, q{SELECT pgq_purge_queue('q')}), '', '... a member is');

$node->stop;
done_testing();
