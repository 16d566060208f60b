# Members of pg_monitor, and roles with SELECT, can read the views, whatever the default privileges were at CREATE
# EXTENSION, after a restore of a dump without privileges, and after an update. The update keeps the grants of the
# owner, and so do dumps.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
sub as { my ($role, $sql, $db) = @_; return sql("SET ROLE $role; $sql", $db) }
sub made { my ($db, $first) = @_; sql("CREATE DATABASE $db"); sql($first, $db); create_queue($node, 'q', '', $db); return $db }
sub copied
{
	my ($from, $to, @options) = @_;
	my $file = $node->basedir . "/$from.sql";
	$node->command_ok([ 'pg_dump', @options, '-f', $file, $node->connstr($from) ], "dump of $from");
	sql("CREATE DATABASE $to");
	$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $file, $node->connstr($to) ], '... restored');
	return slurp_file($file);
}
my @views = split /\n/, sql(q{SELECT relname FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace AND has_table_privilege('pg_monitor', oid, 'SELECT')});
cmp_ok(scalar @views, '>', 12, 'there are views for monitors');
sub reads
{
	my ($role, $db, $what) = @_;
	my %denied = map { $_ => (sqlstate($node, "SET ROLE $role; SELECT * FROM pgq_ext.$_", $db))[0] } @views;
	return is(join(' ', grep { $denied{$_} ne '' } @views), '', $what);
}

sql('CREATE ROLE watcher IN ROLE pg_monitor; CREATE ROLE keeper; CREATE ROLE stranger');

my $odd = made('odd', q{ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM PUBLIC; ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO stranger;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO keeper; CREATE EXTENSION pgq_ext; ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO PUBLIC;
	ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM stranger; ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM keeper});
reads('watcher', $odd, 'a member of pg_monitor reads all views where functions are nobody\'s by default');

copied($odd, 'without', '-x');
reads('watcher', 'without', '... and after a dump without privileges');

# The owner has granted things on the objects of the version before.
my $before = sql(q{SELECT source FROM pg_extension_update_paths('pgq_ext') e JOIN pg_available_extensions ON target = default_version WHERE name = 'pgq_ext' AND path = source || '--' || target});
my $updated = made('updated', "CREATE EXTENSION pgq_ext VERSION '$before'");
sql(q{GRANT USAGE ON SCHEMA pgq_ext TO keeper, stranger; GRANT SELECT ON pgq_ext.queue_status, pgq_ext.lock TO keeper; GRANT EXECUTE ON FUNCTION pgq_ext.queue_entries TO keeper}, $updated);
my $init = q{SELECT string_agg(concat_ws(' ', classoid::regclass, pg_describe_object(classoid, objoid, 0), privtype, initprivs), E'\n' ORDER BY classoid, objoid, objsubid) FROM pg_init_privs WHERE initprivs::text ~ 'keeper'};
sql('ALTER EXTENSION pgq_ext UPDATE; SELECT pgq_ext.add_batch_columns()', $updated);
is(sql($init, $updated), '', 'by an update no grant of the owner becomes one of the extension');
is(sql(q{SELECT count(*) FROM pg_shdepend WHERE deptype = 'i' AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND refobjid IN (SELECT oid FROM pg_roles WHERE rolname = 'keeper')}, $updated), '0', '... nor is its role noted');
reads('watcher', $updated, '... and a member of pg_monitor reads all views');
my $dump = copied($updated, 'again');
like($dump, qr/^GRANT SELECT ON TABLE pgq_ext\.queue_status TO keeper;$/m, 'the dump has the grants of the owner');
unlike($dump, qr/pg_monitor|FUNCTION pgq_ext\.\S+ (?:TO|FROM) PUBLIC/, '... and none of the extension');
for my $db ($updated, 'again')
{
	is(as('keeper', 'SELECT queue FROM pgq_ext.queue_status', $db), 'q', "$db: who was granted SELECT reads the view");
	is(as('keeper', 'SELECT count(*) FROM pgq_ext.lock', $db), '0', '... also without EXECUTE');
	is((sqlstate($node, 'SET ROLE stranger; SELECT * FROM pgq_ext.lock_entries()', $db))[0], '42501', '... and others do not get around it');
}
reads('watcher', 'again', 'a member of pg_monitor reads all views of the copy');

# What the page on operations promises a monitor: the texts of workers, of dead letters too, and no payload.
sql($_) for grep { /CREATE ROLE monitor / } blocks_of('docs/operations.md', 'Roles', 'sql');
sql(q{SELECT pgq_create_queue('dead'), pgq_enqueue('dead', '"secret"'); SELECT pgq_fail(job_id, lease, error => 'why', retry => false) FROM pgq_claim('dead', wait => '10 s')});
is(as('monitor', 'SELECT last_error, payload IS NULL FROM pgq_ext.dead_letter'), 'why|t', 'a monitor reads the errors of dead letters in the view, without payloads');
is(as('monitor', 'SELECT last_error FROM pgq_ext.dead_job'), 'why', '... and in the table');
is((sqlstate($node, 'SET ROLE monitor; SELECT payload FROM pgq_ext.dead_job'))[0], '42501', '... of which it reads no payloads either');

$node->stop;
done_testing();
