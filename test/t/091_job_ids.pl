# The ids of many jobs are drawn by one change of their sequence: what the WAL has of it, what a crash and a standby make of
# it, and sessions that draw at the same time.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

# Each page of a sequence that the standby makes is compared with the page of the primary.
my $primary = pgq_node('primary', init => { allows_streaming => 1 }, conf => "wal_consistency_checking = 'sequence'\nautovacuum = off\n");
create_queue($primary, 'q');
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;

sub sql { my ($sql, $node) = @_; return ($node // $primary)->safe_psql('postgres', $sql) }

sub many
{
	my ($n) = @_;
	return "SELECT min(id), max(id) FROM pgq_enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('payload', i)) FROM generate_series(1, $n) i)) id";
}

# The records of sequences that a statement writes.
sub records
{
	my ($sql) = @_;
	my $start = sql('SELECT pg_current_wal_insert_lsn()');
	sql($sql);
	my $end = sql('SELECT pg_current_wal_flush_lsn()');
	my ($out) = run_command([ 'pg_waldump', '-p', $primary->data_dir . '/pg_wal', '-s', $start, '-e', $end, '-r', 'Sequence' ]);
	return () = $out =~ /rmgr: Sequence/g;
}

# ---- the WAL ----

sql(many(10));
is(records(many(1000)), 4, 'a thousand ids are drawn in four parts, each with one record of the sequence');
sql('CHECKPOINT');
is(records("SELECT pgq_enqueue('q', '1')"), 1, 'the first id after a checkpoint is logged');
is(records(many(3)), 0, '... few more need no record');
sql('CHECKPOINT');
is(records(many(3)), 1, 'three ids after a checkpoint are logged');

# ---- sessions that draw at the same time ----

my %script;
for my $n (1, 2, 5, 300)
{
	$script{$n} = $primary->basedir . "/many_$n.sql";
	append_to_file($script{$n}, $n > 1 ? many($n) . ";\n" : "SELECT pgq_enqueue('q', '1');\n");
}
my $before = sql('SELECT count(*) FROM pgq_ext.job');
$primary->pgbench('--no-vacuum --client=6 --transactions=60', 0, [qr/processed: 360\/360/], [qr/^$/],
	'six sessions enqueue one, some and many jobs, without an id that comes twice', undef,
	map { ('-f', $script{$_}) } sort keys %script);
is(sql('SELECT count(*) = count(DISTINCT job_id) AND count(*) > ' . $before . ' AND max(job_id) <= (SELECT last_value FROM pgq_ext.job_id_seq) FROM pgq_ext.job'), 't',
	'... and the sequence is beyond all ids');

# ---- a crash ----

for my $n (2, 3, 40, 300)
{
	sql('CHECKPOINT') if $n == 40;
	my (undef, $last) = split /\|/, sql(many($n));
	sql("SELECT pgq_enqueue('q', '1')") if $n == 300;
	$primary->stop('immediate');
	$primary->start;
	my ($next) = split /\|/, sql(many(5));
	cmp_ok($next, '>', $last, "after $n ids and a crash, ids go on");
	cmp_ok($next, '<=', $last + 34, '... and few are lost');
}

# ---- a standby ----

my (undef, $last) = split /\|/, sql(many(700));
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->promote;
my ($next) = split /\|/, sql(many(5), $standby);
cmp_ok($next, '>', $last, 'the promoted standby goes on beyond all ids');
is(sql('SELECT count(*) FROM pgq_check()', $standby), '0', '... and pgq_check() finds nothing');

$standby->stop;
done_testing();
