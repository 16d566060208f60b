# Segments rotate: the view segment shows what keeps a segment from being truncated, the other segments go on
# rotating, and storage stays small beside an old snapshot.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = rotating_node('main');
create_queue($node, 'slow', "lease_time => '1 day'");
my $scheduler = wait_for_scheduler($node);
sub sql { return $node->safe_psql('postgres', $_[0]) }

my ($first, $second, $third) = map { session($node) } 1 .. 3;
$_->{pid} = pid_of($_) for $first, $second, $third;
sub of_segment { my ($n, $column) = @_; return sql("SELECT $column FROM pgq_ext.segment WHERE segment = $n") }
sub claim_slow { my ($n) = @_; return map { [ split /\|/ ] } split /\n/, sql("SELECT job_id, lease FROM pgq_claim('slow', $n)") }
sub ack { my ($l) = @_; return "SELECT pgq_ack($l->[0], $l->[1])" }

# ---- nothing holds them back ----

is(sql(q{SELECT string_agg(concat_ws(' ', segment, relation, state), ', ' ORDER BY segment) FROM pgq_ext.segment}),
	join(', ', map { my ($table, $first, $last) = @$_; "$first pgq_ext.${table}_$first current", map { "$_ pgq_ext.${table}_$_ empty" } $first + 1 .. $last }
			[ 'job', 0, 7 ], [ 'dead_job', 8, 11 ], [ 'attempt', 12, 15 ], [ 'finished_job', 16, 19 ]),
	'eight segments of jobs, four of each kind of records, the first of each is the current one');
{
	my %closed;
	$closed{ next_segment($node) } = 1 for 1 .. 5;
	my $n = fresh_segment($node);
	cmp_ok(truncations($node), '>=', 6, 'full segments are closed and truncated');
	cmp_ok(scalar keys %closed, '>', 1, '... not always the same');
	is(sql(q{SELECT count(*) FROM pgq_ext.segment WHERE state = 'empty' AND (live_rows > 0 OR age IS NOT NULL OR held_by IS NOT NULL
			OR pg_relation_size(relation) > 0 OR size <> pg_total_relation_size(relation))}), '0', '... empty ones have nothing');

	enqueue_slow($node, 3);
	my ($l) = claim_slow(1);
	is(of_segment($n, q{live_rows || ' ' || (size = pg_total_relation_size(relation))}), '3 true', 'live rows are counted, also those in work');
	is(sql("SELECT age BETWEEN interval '0' AND clock_timestamp() - oldest FROM pgq_ext.segment,
			(SELECT min(enqueued_at) AS oldest FROM pgq_ext.job) j WHERE segment = $n"), 't', '... the age is that of the oldest');
	sql(ack($l));
	is(scalar drain($node, 'slow'), 2, '... they come');
	is(of_segment($n, q{live_rows || coalesce(age::text, '')}), '0', '... and are counted no more');
}

# ---- what holds one back ----

# Some hold a segment from when it is the current one: [what it is, how the view names it, what it does, how it ends]. Jobs go on, nobody
# waits; the other segments rotate, if not all are held.
sub held_back_ok
{
	my ($holders, %options) = @_;
	my $n = fresh_segment($node);
	$_->[2]->($n) for @$holders;
	wait_for($node, $options{until}) if $options{until};
	my $before = truncations($node, $n);
	next_segment($node) while current_segment($node) == $n;
	for (@$holders)
	{
		ok($node->poll_query_until('postgres', "SELECT state = 'closed' AND held_by ~ '$_->[1]' FROM pgq_ext.segment WHERE segment = $n"),
			"the view tells of $_->[0]")
		  or diag of_segment($n, 'held_by');
	}
	my $all = truncations($node);
	next_segment($node) for 1 .. 2;
	if ($options{all})
	{
		is(truncations($node), $all, '... other segments are not truncated either');
	}
	else
	{
		wait_for($node, "sum(truncations) > $all FROM pgq_ext.segment");
		is(truncations($node, $n), $before, '... only other segments are truncated');
	}
	is(sql('SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> ' . ($options{waiting} // 0)), '0', '... nobody waits');
	while (my $holder = shift @$holders)
	{
		my ($what, $named, undef, $end) = @$holder;
		$end->();
		last if !@$holders;
		wait_for($node, "truncations > $before OR held_by !~ '$named' FROM pgq_ext.segment WHERE segment = $n");
		is(truncations($node, $n), $before, "... nor when $what has ended, but not the others");
	}
	wait_until_truncated($node, $n, $before);
	pass('... it is truncated when all have ended');
	return;
}

sub locked_by { my ($session) = @_; return "process $session->{pid} \\([^)]+\\) has locked it" }
sub snapshot_of { my ($session) = @_; return "snapshot of process $session->{pid} " }
sub ends { my ($session) = @_; return sub { ask($session, 'COMMIT') } }

held_back_ok([
	[ 'LOCK TABLE', locked_by($first), sub { ask($first, "BEGIN; LOCK TABLE pgq_ext.job_$_[0] IN ACCESS SHARE MODE") }, ends($first) ],
	[ 'a cursor', locked_by($second), sub { ask($second, "BEGIN; DECLARE c CURSOR FOR SELECT * FROM pgq_ext.job_$_[0]; FETCH c") }, ends($second) ] ]);

for my $end ('COMMIT', 'ROLLBACK')
{
	my (@l, $open, $prepared);
	held_back_ok([
		[ 'an enqueue', locked_by($first), sub { $open = ask($first, q{BEGIN; SELECT pgq_enqueue('slow', '1')}) }, sub { ask($first, $end) } ],
		[ 'a prepared enqueue', 'prepared transaction "enqueue"', sub { $prepared = sql(q{BEGIN; SELECT pgq_enqueue('slow', '2'); PREPARE TRANSACTION 'enqueue'}) },
			sub { sql("$end PREPARED 'enqueue'") } ],
		[ 'an ack', locked_by($second), sub { enqueue_slow($node, 2); @l = claim_slow(2); ask($second, 'BEGIN; ' . ack($l[0])) }, sub { ask($second, $end) } ],
		[ 'a prepared ack', 'prepared transaction "ack"', sub { sql('BEGIN; ' . ack($l[1]) . q{; PREPARE TRANSACTION 'ack'}) }, sub {
			sql("$end PREPARED 'ack'");
			is(sqlstate($node, ack($_)), $end eq 'COMMIT' ? 'PQ001' : '', "... $end of an ack") for @l } ] ]);
	is(join(' ', drain($node, 'slow')), $end eq 'COMMIT' ? "$open $prepared" : '', "... $end of an enqueue");
}

{
	my ($l, $backlog, $jobs, $before);
	held_back_ok([ [ 'a job in work', '^live rows$', sub { enqueue_slow($node, 1); ($l) = claim_slow(1) }, sub { sql(ack($l)) } ] ]);
	held_back_ok([ [ 'a backlog', '^live rows$',
		sub {
			($backlog) = @_;
			$before = of_segment($backlog, 'moved_out');
			$jobs   = close_with_backlog($node, $backlog, q{'slow', to_jsonb(repeat('y', 500))});
		},
		sub { is(of_segment($backlog, 'moved_out'), $before, '... it is not moved'); is(scalar drain($node, 'slow'), $jobs, '... and comes') } ] ]);
}

# ---- nothing could be moved ----

# The segment that was chosen for what is left is still bare, and becomes the current one.
{
	my $n = fresh_segment($node);
	enqueue_slow($node, 1);
	my ($l) = claim_slow(1);
	my $gate = stop_scheduler_at($node, 'rotation-moved');
	close_segment($node, $n);
	scheduler_stands($node);
	my $current = current_segment($node);
	# The larger the closed one is, the larger the current one may get: both are by as much as the scheduler looks late.
	work($node, 500) while of_segment($current, 'size') < of_segment($n, 'size');
	let_go($node, $gate);
	wait_for($node, "segment <> $current FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass");
	wait_for($node, 'count(*) = 0 FROM pgq_ext.segment_entries() WHERE is_current AND is_survivors');
	pass('the current segment is not the one for what is left');
	sql(ack($l));
	wait_until_settled($node);
}

# ---- all of them are held ----

{
	my $n = fresh_segment($node);
	ask($first, 'BEGIN; LOCK TABLE pgq_ext.job IN ACCESS SHARE MODE');
	sql(q{INSERT INTO pgq_ext.job (queue_id, payload, segment) SELECT queue_id, '1', n FROM pgq_ext.queue, generate_series(0, 7) n WHERE queue = 'slow';
		DELETE FROM pgq_ext.job});
	my $all = truncations($node);
	is(sql(q{SELECT count(*) FROM pgq_ext.segment WHERE state = 'empty' AND parent = 'pgq_ext.job'::regclass}), '0', 'all segments are in use and locked');
	my $size = of_segment($n, 'size');
	work($node, 500) for 1 .. 6;
	is(current_segment($node), $n, '... the current one stays that');
	cmp_ok(of_segment($n, 'size'), '>', $size + 1_500_000, '... and grows');
	is(truncations($node), $all, '... none is truncated');
	ask($first, 'COMMIT');
	fresh_segment($node);
	cmp_ok(truncations($node), '>=', $all + 8, '... afterwards all are');
}

# ---- snapshots ----

my $repeatable_read = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1';
my $count = 'SAVEPOINT a; SELECT count(*) FROM pgq_ext.job; ROLLBACK TO a'; # without a lock that stays

# One that has just been taken: it may be a dump's that has not locked its tables yet. When it gets old it does not matter any more.
# On a slow machine it may be old before there is anything to hold back.
{
	my ($seen, $n, $before);
	for (1 .. 10)
	{
		$n      = fresh_segment($node);
		$before = truncations($node, $n);
		enqueue_slow($node, 30);
		ask($first, $repeatable_read);
		is(ask($first, $count), '30', 'a reader in REPEATABLE READ sees 30 jobs');
		sql(q{SELECT pgq_ack(job_id, lease) FROM pgq_claim('slow', 10)});
		work($node, 500) while current_segment($node) == $n;
		my $said = sprintf q{coalesce(held_by ~ '%s', false)}, snapshot_of($first);
		wait_for($node, "truncations > $before OR $said FROM pgq_ext.segment WHERE segment = $n");
		$seen = of_segment($n, $said) eq 't';
		last if $seen;
		ask($first, 'ROLLBACK');
		drain($node, 'slow');
	}
	ok($seen, 'a young snapshot holds segments back');
	wait_until_truncated($node, $n, $before);
	is(sql("SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = $first->{pid}"), 't', '... until it is old');
	is(ask($first, $count), '0', '... then what it saw of a segment that was truncated is gone for it, done or moved, without an error');
	is(sql('SELECT count(*) FROM pgq_ext.job'), '20', '... others see what was moved');
	is(scalar drain($node, 'slow'), 20, '... and get it');
}

# From here on the first session has an old snapshot.
{
	my ($gate, $waiting) = map { session($node) } 1 .. 2;
	$waiting->{pid} = pid_of($waiting);
	ask($gate, 'CREATE TABLE locked (); BEGIN; LOCK TABLE locked');
	held_back_ok([
		[ 'an old snapshot of pg_dump', "process $second->{pid} \\(pg_dump\\)", sub { ask($second, "SET application_name = 'pg_dump'; $repeatable_read") }, ends($second) ],
		[ 'one of who waits for a lock', snapshot_of($waiting), sub { ask($waiting, $repeatable_read); send_sql($waiting, 'LOCK TABLE locked IN ACCESS SHARE MODE') },
			sub { ask($gate, 'COMMIT'); reply($waiting); ask($waiting, 'COMMIT') } ],
		[ 'one that was exported', snapshot_of($third), sub { ask($third, "$repeatable_read, pg_export_snapshot()") }, ends($third) ] ],
		all => 1, waiting => $waiting->{pid}, until => "clock_timestamp() > max(xact_start) + '11 s' FROM pg_stat_activity
			WHERE pid IN ($second->{pid}, $waiting->{pid}, $third->{pid})");
	ask($second, 'RESET application_name');
	end_session($_) for $gate, $waiting;
}

sub set_waits_for_snapshots
{
	my ($value) = @_;
	return sub { $node->append_conf('postgresql.conf', "pgq_ext.rotation_waits_for_snapshots = $value"); $node->reload };
}
held_back_ok([ [ 'any other with pgq_ext.rotation_waits_for_snapshots', snapshot_of($first), map { set_waits_for_snapshots($_) } 'on', 'off' ] ], all => 1);

# A row that comes and goes when its segment was found empty already, by transactions from before: a snapshot from between has seen it.
{
	my ($late, $locker) = map { session($node) } 1 .. 2;
	my $n = fresh_segment($node);
	my $before = truncations($node, $n);
	ask($locker, "BEGIN; LOCK TABLE pgq_ext.job_$n IN ACCESS SHARE MODE");
	ask($_, 'BEGIN; SELECT txid_current()') for $late, $second;
	next_segment($node) while current_segment($node) == $n;
	wait_for($node, "empty_since IS NOT NULL FROM pgq_ext.segment_entries() WHERE segment = $n");
	ask($second, "LOCK TABLE pgq_ext.job_$n IN ROW EXCLUSIVE MODE"); # it is not found inhabited
	ask($late, "INSERT INTO pgq_ext.job (queue_id, payload, segment) SELECT queue_id, '1', $n FROM pgq_ext.queue WHERE queue = 'slow'; COMMIT");
	ask($third, "$repeatable_read, pg_export_snapshot()");
	is(ask($third, $count), '1', 'a row has come late, and somebody has seen it');
	ask($second, 'DELETE FROM pgq_ext.job; COMMIT');
	end_session($_) for $late, $locker;
	wait_for($node, sprintf "truncations > $before OR coalesce(held_by ~ '%s', false) FROM pgq_ext.segment WHERE segment = $n", snapshot_of($third));
	is(ask($third, $count), '1', '... and still does when it has gone');
	ask($third, 'COMMIT');
	wait_until_truncated($node, $n, $before);
}

# The same while the scheduler is at it: it has looked for snapshots once, and must not take what it saw then for what there is now.
{
	my $locker = session($node);
	my $n      = fresh_segment($node);
	my $before = truncations($node, $n);
	ask($locker, "BEGIN; LOCK TABLE pgq_ext.job_$n IN ACCESS SHARE MODE");
	close_segment($node, $n);
	wait_for($node, "empty_since IS NOT NULL FROM pgq_ext.segment_entries() WHERE segment = $n");
	wait_for($node, q{count(*) = 1 FROM pgq_ext.segment WHERE state = 'closed'});
	my $gate = stop_scheduler_at($node, 'rotation-considered');
	scheduler_stands($node);
	sql("INSERT INTO pgq_ext.job (queue_id, payload, segment) SELECT queue_id, '1', $n FROM pgq_ext.queue WHERE queue = 'slow'");
	ask($second, "SET application_name = 'pg_dump'; $repeatable_read");
	is(ask($second, $count), '1', 'a row has come, and a dump has begun, since the scheduler looked');
	sql('DELETE FROM pgq_ext.job');
	end_session($locker);
	my $now = sql('SELECT clock_timestamp()');
	let_go($node, $gate);
	wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND xact_start <= '$now'");
	is(truncations($node, $n), $before, '... it looks again');
	is(ask($second, $count), '1', '... and the dump still sees the row');
	ask($second, 'COMMIT; RESET application_name');
	wait_until_truncated($node, $n, $before);
}

# ---- storage under an old snapshot ----

# Dead rows of pg_class that VACUUM has to leave.
sub dead_in_catalog
{
	my (undef, undef, $said) = $node->psql('postgres', 'VACUUM (VERBOSE) pg_class');
	my ($dead) = $said =~ /(\d+) are dead but not yet removable/;
	return $dead;
}

{
	sql('CREATE TABLE done (job_id bigint)');
	fresh_segment($node);
	my ($dead, $truncations) = (dead_in_catalog(), truncations($node));
	my ($peak, $rounds, $jobs) = (0, 12, 2000);
	for my $round (1 .. $rounds)
	{
		my $before = truncations($node);
		$node->pgbench('-n -c 4 -j 2 -t ' . $jobs / 20, 0, [qr/processed: (\d+)\/\1\b/], [qr/^(?!.*(?:ERROR|aborted))/s], "$jobs jobs", {
			"22_jobs_$round" => q{
				SELECT count(pgq_enqueue('work', to_jsonb(repeat('x', 500)))) FROM generate_series(1, 5);
				WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('work', 5)), acked AS MATERIALIZED (SELECT job_id, pgq_ack(job_id, lease) FROM c)
				INSERT INTO done SELECT job_id FROM acked;} });
		my $size = total_size($node);
		$peak = $size if $size > $peak;
		wait_for($node, "sum(truncations) > $before FROM pgq_ext.segment");
		wait_until_settled($node);
	}
	my @rest = drain($node, 'work');
	sql('INSERT INTO done VALUES ' . join(',', map { "($_)" } @rest)) if @rest;
	is(sql('SELECT count(*), count(DISTINCT job_id) FROM done'), join('|', ($rounds * $jobs) x 2), 'each job was handed out, once');
	is(sql('SELECT count(*) FROM pgq_check()'), '0', '... nothing is wrong');
	is(sql("SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = $first->{pid}"), 't', '... an old snapshot was open all the time');

	# VACUUM could have removed nothing; each job had half a kilobyte of payload alone.
	note "at most $peak bytes";
	cmp_ok($peak, '<', $rounds * $jobs * 500 / 2, '... the segments and their indexes stayed small');

	wait_until_settled($node);
	my $n    = truncations($node) - $truncations;
	my $more = dead_in_catalog() - $dead;
	cmp_ok($n, '>=', 10, 'segments were truncated under an old snapshot');
	cmp_ok($more, '<', 10, '... which leaves no dead rows in the catalog');
	ask($first, 'COMMIT');
}

is(scheduler_pid($node), $scheduler, 'the scheduler is still the same');
unlike(slurp_file($node->logfile), qr/ERROR:  (?!lease \d+ of job \d+ is not current)/, 'nobody has seen an error');
end_session($_) for $first, $second, $third;
$node->stop;
done_testing();
