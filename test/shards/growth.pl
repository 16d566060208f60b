# A day in the life of shards, under load: two servers with two shards each, one of which is killed and its standby promoted;
# one shard is moved to a third server, and one is added there. No job is lost, none is done twice, and those of a group are
# done in their order. JOBS=200000 for more of them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use ShardTest;

my $jobs = $ENV{JOBS} || 20_000;
my $batch = 100;
my $batches = int($jobs / $batch / 10) * 10; # the first tenth without keys, then two kinds by turns

my $one = shard_node('one');
my $two = shard_node('two');
my $three = shard_node('three');
make_shard($one, $_) for 0, 1;
make_shard($two, $_) for 2, 3;
$one->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($one, 'backup', has_streaming => 1);
$standby->start;
$one->append_conf('postgresql.conf', "synchronous_standby_names = '*'");
$one->reload;
make_router($three, 'front');
sub front { return $three->safe_psql('front', $_[0]) }

# Where each shard is: also what workers are told.
my %conninfo = ((map { $_ => conninfo_of("s$_", $one, $standby) } 0, 1), (map { $_ => conninfo_of("s$_", $two) } 2, 3));
front("SELECT pgq_router_add_shard($_, '$conninfo{$_}')") for sort keys %conninfo;
# Upper slots are on shard 2 at first, which is neither killed nor moved.
front('SELECT pgq_router_assign_slots(array(SELECT slot FROM pgq_router.slot WHERE CASE WHEN slot < 32 THEN slot % 4 ELSE 2 END = s), s) FROM generate_series(1, 3) s');
my $create = q{SELECT pgq_create_queue('mail', fifo => true, backoff_base => '100 ms', max_attempts => 1000, lease_time => '20 s', if_not_exists => true)};
front($create);
my $sent = 'CREATE TABLE sent (job_id bigint NOT NULL, address text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())';
$one->safe_psql("s$_", $sent) for 0, 1;
$two->safe_psql("s$_", $sent) for 2, 3;

# Of each shard: who serves it now.
my %node = (0 => $one, 1 => $one, 2 => $two, 3 => $two);
sub on { my ($shard, $sql) = @_; return $node{$shard}->safe_psql("s$shard", $sql) }
sub count_sent { my $n = 0; $n += on($_, 'SELECT count(*) FROM sent') for keys %node; return $n }

# ---- producers ----

# Groups of lower slots, whose jobs have unique keys (of such slots, too) that last, so that whoever does not know whether something was enqueued can
# enqueue it again; and groups of upper slots, without.
front(q{CREATE TABLE gate AS SELECT 0 AS batches;
	CREATE TABLE names AS SELECT kind, name, row_number() OVER (PARTITION BY kind) - 1 AS n
	FROM (SELECT CASE WHEN pgq_router.slot_of('g' || i) < 32 THEN 'lower' ELSE 'upper' END AS kind, 'g' || i AS name FROM generate_series(1, 100) i UNION ALL SELECT 'none', 'any') x});
my %kinds = (
	lower => [ "b > $batches / 10 AND b % 2 = 0", q{'group_key', CASE WHEN n % 10 > 0 THEN name END, 'unique_for', '1 day',
		'unique_key', (SELECT u FROM generate_series(1, 50) i, format('%s %s %s', name, n, i) u WHERE pgq_router.slot_of(u) < 32 ORDER BY i LIMIT 1)},
		q{'08001', '08006', '08007', '25006', '57P01', '57P02', '57P03'} ],
	upper => [ "b > $batches / 10 AND b % 2 = 1", q{'group_key', name}, q{'55000'} ],
	none  => [ "b <= $batches / 10", q{'priority', 1}, q{''} ]);
my %producer;
for my $kind (sort keys %kinds)
{
	my ($which, $keys, $again) = @{ $kinds{$kind} };
	$producer{$kind} = session($three, 'front');
	send_sql($producer{$kind}, qq{DO \$\$
		DECLARE state text; said text;
		BEGIN
			FOR b IN 1 .. $batches LOOP
				CONTINUE WHEN NOT ($which);
				WHILE (SELECT batches FROM gate) < b LOOP COMMIT; PERFORM pg_sleep(0.05); END LOOP;
				LOOP
					BEGIN
						PERFORM count(*) FROM pgq_enqueue_many('mail', (
							SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('payload', jsonb_build_object('to', name || ' ' || n), $keys)) ORDER BY n)
							FROM (SELECT b * $batch + i AS n, name FROM generate_series(1, $batch) i
								JOIN names ON kind = '$kind' AND names.n = i % (SELECT count(*) FROM names WHERE kind = '$kind')) x));
						EXIT;
					EXCEPTION WHEN OTHERS THEN
						GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, said = MESSAGE_TEXT;
						IF state NOT IN ($again) THEN RAISE; END IF;
					END;
					COMMIT;
					PERFORM pg_sleep(0.1);
				END LOOP;
				COMMIT;
			END LOOP;
		END \$\$});
}
# What a producer has to complain about when it is done.
sub said_by
{
	my ($kind) = @_;
	my $said = (reply($producer{$kind}))[1];
	end_session(delete $producer{$kind});
	return $said =~ s/^.*(?:NOTICE|WARNING):.*\n?//gmr;
}
sub open_gate { front("UPDATE gate SET batches = $batches * $_[0] / 100"); return }

# ---- workers ----

my @workers;
sub start_worker
{
	my ($home) = @_;
	my @shards = ($home, grep { $_ != $home } sort keys %conninfo);
	return start_program({ SHARDS => join "\n", map { "$conninfo{$_} application_name=home_$home" } @shards }, '/usr/bin/python3', 'examples/worker_shards.py');
}
sub restart_workers
{
	is(stop_program($_), 0, 'a worker ends when it is told to') or diag($_->{output}) for splice @workers;
	@workers = map { start_worker($_) } sort keys %conninfo;
	return;
}

# Until so many jobs are done, of a hundred.
sub wait_until_sent
{
	my ($percent) = @_;
	my ($before, $patience) = (-1, 0);
	while ($patience < 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		renew_timeout($_) for values %producer;
		my $n = count_sent();
		return if $n >= $batches * $batch * $percent / 100;
		$patience = $n > $before ? 0 : $patience + 1;
		$before = $n;
		select(undef, undef, undef, 0.1);
	}
	eval { $_->{run}->pump_nb } for @workers;
	diag($_->{output}) for @workers;
	diag("$_: ", said_by($_)) for grep { is_answered($producer{$_}) } sort keys %producer;
	die 'no job is done any more: ' . count_sent() . " of a $percent % of $batches * $batch";
}

@workers = map { start_worker($_) } sort keys %conninfo;
open_gate(30);
wait_until_sent(10);

# Jobs without keys cannot be enqueued again by who does not know: they are all there.
is(said_by('none'), '', 'jobs without keys are enqueued');

# ---- one server is killed, its standby promoted ----

open_gate(50);
$one->stop('immediate');
$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$standby->promote;
@node{ 0, 1 } = ($standby, $standby);
wait_until_up($standby);
pass('one server is killed, its standby promoted');
wait_until_sent(40);

# ---- one shard is moved ----

# Nobody writes there from now on, so that what is copied is all. What was in hand is done where it is then.
open_gate(75);
front("SELECT pgq_router_add_shard(3, '$conninfo{3}', accepts => false)");
$two->safe_psql('postgres', q{ALTER DATABASE s3 SET default_transaction_read_only = on;
	SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 's3' AND backend_type = 'client backend'});
$two->command_ok([ 'pg_dump', '-Fc', '-f', $two->basedir . '/s3', $two->connstr('s3') ], 'a shard is copied');
$three->safe_psql('postgres', 'CREATE DATABASE s3 TEMPLATE template0');
$three->command_ok([ 'pg_restore', '-1', '-d', $three->connstr('s3'), $two->basedir . '/s3' ], '... to another server');
$conninfo{3} = conninfo_of('s3', $three);
$node{3} = $three;
front("SELECT pgq_router_add_shard(3, '$conninfo{3}')");
$two->safe_psql('postgres', 'DROP DATABASE s3 (FORCE)');
restart_workers();
is(on(3, 'SELECT shard FROM pgq_ext.shard'), '3', '... which has its number');
wait_until_sent(60);

# ---- one shard is added ----

make_shard($three, 4);
$three->safe_psql('s4', $sent);
$conninfo{4} = conninfo_of('s4', $three);
$node{4} = $three;
front("SELECT pgq_router_add_shard(4, '$conninfo{4}', accepts => false)");
front($create);
front("SELECT pgq_router_add_shard(4, '$conninfo{4}')");
restart_workers();
# Some groups go there: when those of their jobs that are elsewhere are done.
my $move = q{SELECT pgq_router_assign_slots(array(SELECT generate_series(48, 63)), %s)};
front(sprintf $move, 'NULL');
open_gate(100);
my ($state, $said) = ('55006');
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	renew_timeout($_) for values %producer;
	($state, $said) = sqlstate($three, sprintf($move, 4), 'front');
	last if $state ne '55006';
	select(undef, undef, undef, 0.1);
}
is($state, '', 'a shard is added, and takes over keys whose jobs are done') or diag($said);

# ---- the end ----

wait_until_sent(100);
is(said_by($_), '', "everything was enqueued: $_") for sort keys %producer;
is(join(' ', map { on($_, 'SELECT count(*) FROM pgq_ext.job') + on($_, 'SELECT count(*) FROM pgq_ext.dead_job') } sort keys %node), '0 0 0 0 0', 'nothing is left anywhere');
is(stop_program($_), 0, 'a worker ends') for splice @workers;

my @sent = sort { $a->[1] cmp $b->[1] } map { [ split /\|/ ] } map { split /\n/, on($_, q{SELECT address, to_char(at AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISSUS'), job_id % 1024 FROM sent}) } sort keys %node;
my (%times, %last, @overtaken, %shards);
for (@sent)
{
	my ($address, undef, $shard) = @$_;
	my ($group, $n) = split / /, $address;
	$times{$address}++;
	$shards{$shard}++;
	next if $group eq 'any';
	push @overtaken, $address if ($last{$group} // 0) > $n && $address !~ /0$/; # every tenth may be of no group
	$last{$group} = $n if $address !~ /0$/;
}
is(scalar(keys %times), $batches * $batch, 'no job is lost') ;
is(scalar(@sent), $batches * $batch, '... and none was done twice');
is("@overtaken", '', '... nor overtaken by a later one of its group');
is(join(' ', sort keys %shards), '0 1 2 3 4', '... on all shards');
note join ', ', map { "shard $_: $shards{$_}" } sort keys %shards;
is(on($_, 'SELECT * FROM pgq_check()'), '', "pgq_check() finds nothing on shard $_") for sort keys %node;

$_->stop for $standby, $two, $three;
done_testing();
