# docs/migrate.md: each of its statements is run against tables of the system it is about, undone, run, and run again.
#
# migrate/NAME.tables.sql makes such tables, as the system documents them; where its package is on this machine (pg-boss and
# graphile-worker from npm; pgmq, if PGMQ_DIR tells where its pgmq.sql is), the package makes them in another database.
# migrate/NAME.rows.sql fills either with the same jobs.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Find;
use IPC::Run;
use PgqTest;

my $node = pgq_node('main', conf => "listen_addresses = '127.0.0.1'\n");
my $user = $node->safe_psql('postgres', 'SELECT current_user');
my %text = map { (split /\n/, $_, 2)[ 0, 1 ] } split /^## /m, slurp_file('docs/migrate.md');
my ($intro) = grep { /pgq_create_queue/ } map { $text{$_} } grep { /^# / } keys %text;

sub blocks { return join '', $_[0] =~ /^```sql\n(.*?)^```$/msg }

# ---- real installs ----

my $connection = "postgres://$user\@127.0.0.1:${\$node->port}";
my %package    = (
	pgboss   => [ 'pg-boss', q{const B = require('pg-boss'); const b = new B(process.argv[1]); b.on('error', e => { throw e; });
		b.start().then(() => b.createQueue('mail')).then(() => b.stop({ graceful: false }))} ],
	graphile => [ 'graphile-worker', q{require('graphile-worker').runMigrations({ connectionString: process.argv[1] })} ]);

my $pgmq;
find(sub { $pgmq //= $File::Find::name if $_ eq 'pgmq.sql' }, $ENV{PGMQ_DIR}) if $ENV{PGMQ_DIR};

# Whether the system itself could make its tables in this database.
sub install
{
	my ($name, $db) = @_;
	if ($name eq 'pgmq' && $pgmq)
	{
		$node->safe_psql($db, "CREATE SCHEMA IF NOT EXISTS pgmq;\n" . slurp_file($pgmq) . "\nSELECT pgmq.create('mail');");
		return 1;
	}
	my ($package, $program) = @{ $package{$name} // return };
	if (system("node -e 'require(\"$package\")' >/dev/null 2>&1") != 0)
	{
		note "$package is not on this machine";
		return;
	}
	my $said = '';
	IPC::Run::run([ 'node', '-e', $program, "$connection/$db" ], '<', \undef, '>', \$said, '2>&1', IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default))
	  or die "$package: $said";
	return 1;
}

# ---- what there is to move, and what shall come of it ----

my @plain = ('plain|0|now|5', 'urgent|7|now|5', 'later|0|later|5', 'again|0|now|3');
my @bare  = ('plain|0|now|', 'urgent|7|now|', 'later|0|later|');
my %system = (
	status => { heading => 'A SKIP LOCKED table with a status', jobs => \@plain, left => q{SELECT payload ->> 'to' FROM job} },
	locked => { heading => 'A SKIP LOCKED table with locked_at and locked_by', jobs => \@plain, left => q{SELECT payload ->> 'to' FROM job}, stays => 'busy' },
	deleted => { heading => 'A SKIP LOCKED table whose rows are deleted by the claim', jobs => \@bare, left => q{SELECT payload ->> 'to' FROM job}, stays => 'busy',
		hold => q{BEGIN; DELETE FROM job WHERE payload ->> 'to' = 'busy'} },
	advisory => { heading => 'Advisory locks', jobs => \@bare, left => q{SELECT payload ->> 'to' FROM job}, stays => 'busy',
		hold => q{SELECT pg_advisory_lock(id) FROM job WHERE payload ->> 'to' = 'busy'} },
	pgmq => { heading => 'pgmq', jobs => [ 'plain|0|now||{"h": 1}', 'later|0|later|', 'again|0|now|' ],
		left => q{SELECT message ->> 'to' FROM pgmq.q_mail}, stays => 'busy' },
	graphile => { heading => 'graphile-worker', jobs => [ map { $_ . '|{"task": "send"}' } @plain ], left => q{SELECT payload ->> 'to' FROM graphile_worker._private_jobs} },
	river => { heading => 'River', jobs => [ map { $_ . '|{"kind": "send"}' } 'plain|-1|now|5', 'urgent|0|now|5', 'later|-1|later|5', 'again|-1|now|3' ],
		left => q{SELECT args ->> 'to' FROM river_job} },
	oban => { heading => 'Oban', jobs => [ map { $_ . '|{"worker": "Send"}' } 'plain|-1|now|5', 'urgent|0|now|5', 'later|-1|later|5', 'again|-1|now|3' ],
		left => q{SELECT args ->> 'to' FROM oban_jobs} },
	pgboss => { heading => 'pg-boss', jobs => \@plain, left => q{SELECT data ->> 'to' FROM pgboss.job} },
	sqs    => { heading => 'SQS', jobs => [ 'plain|0|now|', 'urgent|0|now||{"h": {"DataType": "String", "StringValue": "1"}}' ], again => 1 },
	celery => { heading => 'Celery', jobs => \@bare, again => 1 });

is_deeply([ sort map { $_->{heading} } values %system ], [ sort grep { !/^# / } keys %text ], 'every section of the page is run');

my $moved = q{SELECT coalesce(payload ->> 'to', payload #>> '{kwargs,to}'), priority, CASE WHEN run_at > now() + interval '30 min' THEN 'later' ELSE 'now' END,
	max_attempts, headers FROM pgq_ext.job ORDER BY job_id;};

sub check_system
{
	my ($name, $db, $system) = @_;
	my $rows  = slurp_file("test/clients/migrate/$name.rows.sql");
	my $sql   = blocks($intro) . blocks($text{ $system->{heading} });
	my $start = $system->{again} ? slurp_file("test/clients/migrate/$name.tables.sql") . $rows : '';
	my $holder;
	if (!$system->{again})
	{
		$node->safe_psql($db, $rows);
		$holder = session($node, $db);
		ask($holder, $system->{hold}) if $system->{hold};
	}
	my $out = $node->safe_psql($db, join "\n", $start, "BEGIN;", $sql, 'ROLLBACK;',
		q{SELECT 'undone', count(*) FROM pgq_ext.job;}, $sql, ($system->{again} ? $rows : ()), $sql, q{SELECT 'jobs';}, $moved);
	my $number = @{ $system->{jobs} };
	my ($counts, $jobs) = split /^jobs\n/m, $out;
	like($counts, qr/\n$number\nundone\|0\n.*\n$number\n.*\n0\n\z/s, "$system->{heading}: what is undone leaves nothing, and what is done is not done again");
	is_deeply([ sort map { s/\|$//r } split /\n/, $jobs ], [ sort @{ $system->{jobs} } ], '... each job is there once, as it was');
	my $stays = $system->{stays} // 'busy,done';
	is($node->safe_psql($db, "SELECT string_agg(who, ',' ORDER BY who) FROM ($system->{left}) AS left_there (who)"), $stays, '... and those in work are left where they are')
	  if $system->{left};
	end_session($holder) if $holder;
	return;
}

for my $name (sort keys %system)
{
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, 'CREATE EXTENSION pgq_ext');
	$node->safe_psql($name, slurp_file("test/clients/migrate/$name.tables.sql")) if !$system{$name}{again};
	note "tables as $system{$name}{heading} documents them";
	check_system($name, $name, $system{$name});
	my $real = "${name}_itself";
	$node->safe_psql('postgres', "CREATE DATABASE $real");
	if (install($name, $real))
	{
		note "tables made by $system{$name}{heading}";
		$node->safe_psql($real, 'CREATE EXTENSION pgq_ext');
		check_system($name, $real, { %{ $system{$name} }, heading => $system{$name}{heading} });
	}
}

$node->stop;
done_testing();
