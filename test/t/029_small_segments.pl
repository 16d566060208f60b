# Segments are closed because of their dead rows: beside an old snapshot, only a few segments with dead rows are left
# of very many jobs, autovacuum does not run on segments, the catalog does not grow, and a job that waits for long is
# moved once.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = pgq_node('main', conf => "autovacuum_naptime = '1 s'\nautovacuum_vacuum_threshold = 50\nautovacuum_freeze_max_age = 100000\n");
create_queue($node, 'work');
create_queue($node, 'slow');
wait_for_scheduler($node);
sub sql { return $node->safe_psql('postgres', $_[0]) }

my $segments = q{(SELECT inhrelid FROM pg_inherits WHERE inhparent = 'pgq_ext.job'::regclass
	UNION SELECT reltoastrelid FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = 'pgq_ext.job'::regclass)};
my $dead = "sum(n_dead_tup) FROM pg_stat_all_tables WHERE relid IN $segments";

# Dead rows of pg_class that VACUUM has to leave.
sub dead_in_catalog
{
	my (undef, undef, $said) = $node->psql('postgres', 'VACUUM (VERBOSE) pg_class');
	my ($left) = $said =~ /(\d+) are dead but not yet removable/;
	return $left;
}

# ---- beside an old snapshot ----

# A session goes through the ring with us: what it remembers of a segment must not outlive that. Large payloads are in TOAST tables.
{
	sql('CREATE TABLE other (n int); CREATE TABLE done (job_id bigint)');
	my ($worker, $old) = map { session($node) } 1 .. 2;
	ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	wait_for($node, sprintf q{clock_timestamp() > xact_start + '11 s' FROM pg_stat_activity WHERE pid = %d}, pid_of($old));
	my $catalog = dead_in_catalog();
	my ($rounds, $jobs, $later, $all) = (40, 250, 0, 0);
	my $work = sub {
		my ($when) = @_;
		my ($before, $peak) = (truncations($node), 0);
		for my $round (1 .. $rounds)
		{
			ask($worker, qq{SELECT count(pgq_enqueue('work', to_jsonb(repeat('x', 100)))) FROM generate_series(1, $jobs)});
			ask($worker, q{SELECT pgq_enqueue('work', (SELECT to_jsonb(string_agg(md5(i::text || random()), '')) FROM generate_series(1, 200) i));
				SELECT count(pgq_enqueue('slow', to_jsonb(i), delay => '30 days')) FROM generate_series(1, 3) i});
			$later += 3;
			$all += $jobs + 1;
			ask($worker, q{WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('work', 1000)), acked AS MATERIALIZED (SELECT job_id, pgq_ack(job_id, lease) FROM c)
				INSERT INTO done SELECT job_id FROM acked; SELECT pg_stat_force_next_flush()});
			my $now = sql("SELECT $dead");
			$peak = $now if $now > $peak;
			wait_for($node, "coalesce(sum(n_dead_tup), 0) <= 1000 FROM pg_stat_all_tables WHERE relid IN $segments");
		}
		note "at most $peak dead rows, ", truncations($node) - $before, ' truncations';
		cmp_ok($peak, '<', 2000, "there are few dead rows at any time, $when");
		cmp_ok(truncations($node), '>=', $before + 8, '... segments were truncated');
	};
	$work->('beside an old snapshot');
	cmp_ok(dead_in_catalog() - $catalog, '<', 10, '... the catalog has no dead rows of that');
	end_session($old);
	$work->('and without, where rows are pruned');
	# What was just on its way to another segment.
	sql(q{WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('work', 1000)) INSERT INTO done SELECT job_id FROM c WHERE pgq_ack(job_id, lease) IS NOT NULL});
	is(sql('SELECT count(*), count(DISTINCT job_id) FROM done'), "$all|$all", '... each job was handed out, once');
	is(sql(q{SELECT count(*) FROM pgq_check()}), '0', '... nothing is wrong');
	is(sql(q{SELECT count(*), count(DISTINCT job_id) FROM pgq_ext.job}), "$later|$later", '... what is for later is there');
	cmp_ok(sql('SELECT sum(moved_in) FROM pgq_ext.segment'), '<=', $later, '... it was moved once at most');

	sql('INSERT INTO other SELECT generate_series(1, 1000); DELETE FROM other');
	wait_for($node, q{autovacuum_count > 0 AND autoanalyze_count > 0 FROM pg_stat_all_tables WHERE relname = 'other'});
	is(sql("SELECT sum(autovacuum_count), sum(autoanalyze_count) FROM pg_stat_all_tables WHERE relid IN $segments"), '0|0', 'autovacuum comes, but not to a segment');
	end_session($worker);
}

# ---- what the statistics are told late ----

# A session tells of the rows that it has deleted when there are none of them any more.
{
	my $worker = session($node);
	my $n      = current_segment($node);
	my $before = truncations($node, $n);
	ask($worker, 'SELECT pg_stat_force_next_flush()');
	ask($worker, q{SELECT count(pgq_enqueue('work', '1')) FROM generate_series(1, 600)});
	ask($worker, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('work', 1000)});
	wait_until_truncated($node, $n, $before);
	ask($worker, 'SELECT pg_stat_force_next_flush()');
	wait_for($node, "n_dead_tup = 0 FROM pg_stat_all_tables WHERE relid = 'pgq_ext.job_$n'::regclass");
	pass('a bare segment has no dead rows, whatever the statistics are told');
	end_session($worker);
}

# ---- an old table ----

{
	my $n    = current_segment($node);
	my $file = "relfilenode FROM pg_class WHERE oid = 'pgq_ext.job_$n'::regclass";
	my $was  = sql("SELECT $file");
	sql('DO $$ BEGIN FOR i IN 1 .. 60000 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$');
	cmp_ok(sql("SELECT age(relfrozenxid) FROM pg_class WHERE oid = 'pgq_ext.job_$n'::regclass"), '>', 50000, 'a segment gets old');
	my $before = truncations($node, $n);
	next_segment($node, 600) while current_segment($node) == $n;
	wait_until_truncated($node, $n, $before);
	isnt(sql("SELECT $file"), $was, '... then it is truncated with new files');
	cmp_ok(sql("SELECT max(age(relfrozenxid)) FROM pg_class WHERE oid IN ('pgq_ext.job_$n'::regclass,
		(SELECT reltoastrelid FROM pg_class WHERE oid = 'pgq_ext.job_$n'::regclass))"), '<', 50000, '... and young again');
}

# ---- the smallest segments ----

# One is full as soon as a row is in it. What is for later is moved out of it, but not round and round.
{
	sql('DELETE FROM pgq_ext.job');
	sql("ALTER SYSTEM SET pgq_ext.segment_size = '64kB'");
	$node->reload;
	my ($moved, $truncations, $later) = (sql('SELECT sum(moved_in) FROM pgq_ext.segment'), truncations($node), 4);
	sql("SELECT count(pgq_enqueue('slow', to_jsonb(i), delay => '30 days')) FROM generate_series(1, $later) i");
	next_segment($node, 10) while truncations($node) < $truncations + 12;
	cmp_ok(sql('SELECT sum(moved_in) FROM pgq_ext.segment') - $moved, '<=', $later, 'in the smallest segments a row is moved once at most');
	is(sql('SELECT count(*) FROM pgq_ext.job'), $later, '... and is there');
}

# ---- segments of 0.1 ----

{
	my $options = q{SELECT c.relname, c.reloptions, t.reloptions FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
		WHERE inhparent IN ('pgq_ext.job'::regclass, 'pgq_ext.dead_job'::regclass) ORDER BY 1};
	sql('CREATE DATABASE before');
	$node->safe_psql('before', join '; ', q{CREATE EXTENSION pgq_ext VERSION '0.1'},
		(map { "CREATE TABLE pgq_ext.job_$_ PARTITION OF pgq_ext.job FOR VALUES IN ($_) WITH (vacuum_truncate = off)" } 0 .. 7),
		(map { "CREATE TABLE pgq_ext.dead_job_$_ PARTITION OF pgq_ext.dead_job FOR VALUES IN ($_) WITH (vacuum_truncate = off)" } 8 .. 11),
		'ALTER EXTENSION pgq_ext UPDATE');
	is($node->safe_psql('before', $options), sql($options), 'an update gives the segments that are there what new ones have');
}

unlike(slurp_file($node->logfile), qr/ERROR:  /, 'nobody has seen an error');
$node->stop;
done_testing();
