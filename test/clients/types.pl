# What docs/clients.md says of types: each driver says the same things in its own way (types/), with parameters whose types it
# does not declare, NULL, arrays with nothing in them, and ids near the greatest there is, 2^53 - 1. libpq: as Ruby's exec_params.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use ClientTest qw(build build_go answer_of);

my $node = pgq_node('main', conf => "listen_addresses = '127.0.0.1'\n");
my $user = $node->safe_psql('postgres', 'SELECT current_user');
@ENV{qw(PGHOST PGPORT PGUSER)} = ('127.0.0.1', $node->port, $user);
my $dir  = PostgreSQL::Test::Utils::tempdir_short();
my $here = 'test/clients/types';
build_go("$dir/types", "$here/types.go");
build('javac', '-d', $dir, "$here/Types.java");

my %as_all = (
	'id'                       => '9007199254740001',
	'NULL for all that may be' => 'true',
	'NULL as JSON'             => 'true',
	'NULL payload'             => '22004',
	'interval'                 => 'true',
	'NULL arrays'              => '0',
	'one NULL array'           => '22004',
	'empty arrays'             => '0',
	'arrays'                   => '[]',
	'no queues'                => '0',
	'why NULL'                 => 'retry',
	'false'                    => 'dead');

# [name, what it says beside these, command]
my @drivers = (
	[ 'psycopg',  { 'payload' => 'dict' }, '/usr/bin/python3', "$here/python.py", 'psycopg' ],
	[ 'psycopg2', { 'payload' => 'dict' }, '/usr/bin/python3', "$here/python.py", 'psycopg2' ],
	[ 'asyncpg',  { 'payload' => 'str' },  '/usr/bin/python3', "$here/python.py", 'asyncpg' ],
	[ 'node', { 'payload' => 'object', 'ids' => 'string string true', 'an array as payload' => '{}', 'a string as payload' => '22P02' }, 'node', "$here/types.js" ],
	[ 'ruby', { 'payload' => 'String', 'an array without an encoder' => '22P02' }, '/usr/bin/ruby', "$here/types.rb" ],
	[ 'pdo', { 'payload' => 'string', 'ids' => 'integer integer', 'false in the array of execute' => '22P02' }, '/usr/bin/php', "$here/types.php" ],
	[ 'jdbc',
		{ 'payload' => 'PGobject', 'payload without a cast' => '42883', 'interval without a cast' => '42883', 'a long as max_jobs' => '42883',
			'without casts, unspecified' => 'true' },
		'java', '-cp', "$dir:/usr/share/java/postgresql.jar", 'Types', "jdbc:postgresql://127.0.0.1:$ENV{PGPORT}/jdbc?user=$user" ],
	[ 'pgx', { 'payload' => 'map[string]interface {}', 'a Duration' => '1', 'nil slices' => '0' }, "$dir/types", 'pgx' ],
	[ 'pq', { 'payload' => '[]uint8', 'a Duration' => '1000000000', 'nil slices' => '0' }, "$dir/types", 'pq' ]);

for my $driver (@drivers)
{
	my ($name, $alone, @command) = @$driver;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('mail'), pgq_create_queue('other');
		SELECT setval('pgq_ext.job_id_seq', 9007199254740000)});
	local $ENV{PGDATABASE} = $name;
	my ($answer, $complaint) = answer_of(@command);
	is_deeply({ map { split /: /, $_, 2 } split /\n/, $answer }, { %as_all, %$alone }, "$name: as the page says");
	is($complaint, '', '... and without a complaint');
}

# What comes after the greatest one is an error, and no wrong number.
$node->safe_psql('node', q{SELECT setval('pgq_ext.job_id_seq', 9007199254740991)});
is(scalar sqlstate($node, q{SELECT pgq_enqueue('mail', '1')}, 'node'), '2200H', 'there is no id that a double would not hold');

$node->stop;
done_testing();
