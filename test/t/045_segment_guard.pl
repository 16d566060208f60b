# Segments cannot be dropped by DROP TABLE, but by a restore that drops the existing objects first (--clean).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
my $dir = $node->basedir;
sub run_ok { my ($what, @command) = @_; $node->command_ok(\@command, $what); return }

create_queue($node, 'q');
sql(q{SELECT count(pgq_enqueue('q', to_jsonb(i), priority => i % 3)) FROM generate_series(1, 50) i;
	SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('q', 3)});
my $state = q{SELECT 'job', job_id, queue_id, priority, payload FROM pgq_ext.job UNION ALL SELECT 'dead', job_id, queue_id, priority, payload FROM pgq_ext.dead_job ORDER BY 1, 2};
my $rows = sql($state);

run_ok('pg_dump, custom',          'pg_dump', '-Fc', '-f', "$dir/custom", $node->connstr('postgres'));
run_ok('pg_dump, plain --clean',   'pg_dump', '--clean', '--if-exists', '-f', "$dir/clean.sql", $node->connstr('postgres'));
run_ok('pg_dump, inserts --clean', 'pg_dump', '--clean', '--if-exists', '--inserts', '-f', "$dir/inserts.sql", $node->connstr('postgres'));
run_ok('pg_dump, data only, inserts', 'pg_dump', '--data-only', '--inserts', '-f', "$dir/data.sql", $node->connstr('postgres'));

my @psql = ('psql', '-Xq', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1');
for my $form (
	[ 'pg_restore --clean',                       'pg_restore', '-e', '--clean', '--if-exists', "$dir/custom" ],
	[ 'pg_restore --clean, in one transaction',   'pg_restore', '-1', '--clean', '--if-exists', "$dir/custom" ],
	[ 'pg_restore --clean, parallel',             'pg_restore', '-e', '-j2', '--clean', '--if-exists', "$dir/custom" ],
	[ 'psql, plain --clean',                      @psql,        '-f', "$dir/clean.sql" ],
	[ 'psql, inserts --clean, in one transaction', @psql,       '-1', '-f', "$dir/inserts.sql" ])
{
	my ($what, @command) = @$form;
	sql('CREATE DATABASE restored');
	sql(q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('another'); SELECT count(pgq_enqueue('another', to_jsonb(i))) FROM generate_series(1, 10) i}, 'restored');
	run_ok($what, @command, '-d', $node->connstr('restored'));
	is(sql($state, 'restored'), $rows, '... the same rows');
	is(sqlstate($node, 'DROP TABLE pgq_ext.job_3', 'restored'), '2BP01', '... in tables that cannot be dropped');
	is(sql(q{SELECT count(*) FROM pgq_claim('q', 100, wait => '30 s')}, 'restored'), '47', '... and are served');
	is(sqlstate($node, 'DROP EXTENSION pgq_ext', 'restored'), '', '... DROP EXTENSION takes all');
	sql('DROP DATABASE restored');
}

# Into a schema that is there, triggers and all: no form of a dump is refused by the checks, though jobs come before their queues.
sql('CREATE DATABASE restored');
run_ok('schema only', 'pg_restore', '-e', '--schema-only', '-d', $node->connstr('restored'), "$dir/custom");
run_ok('data only, inserts', @psql, '-f', "$dir/data.sql", '-d', $node->connstr('restored'));
is(sql($state, 'restored'), $rows, '... the same rows');
is(sql(q{SELECT count(*) FROM pgq_claim('q', 100, wait => '30 s')}, 'restored'), '47', '... are served');
is(sql('SELECT * FROM pgq_check()', 'restored'), '', '... and all have a queue');

$node->stop;
done_testing();
