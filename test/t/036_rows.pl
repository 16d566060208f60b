# A row that is too large, damaged or locked keeps neither the other rows nor the server from their work.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "pgq_ext.segment_size = '1 GB'\npgq_ext.segment_dead_rows = 0\nfull_page_writes = off");
wait_for_scheduler($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub stats
{
	my ($queue, $columns) = @_;
	return sql("SELECT $columns FROM pgq_ext.queue_stats WHERE queue = '$queue'");
}

# ---- what is said of an error is clipped, when it is written and when it is returned ----

{
	create_queue($node, 'long');
	my $id   = sql("SELECT pgq_enqueue('long', '1')");
	my $fail = "pgq_fail(job_id, lease, repeat('x' || chr(233), 100000), retry_in => '0'";
	is(sql("SELECT $fail) FROM pgq_claim('long')"), 'retry', 'a worker says much');
	is(sql("SELECT octet_length(last_error), right(last_error, 2) = chr(233) || 'x' FROM pgq_ext.job WHERE job_id = $id"),
		'8191|t', '... of which 8 kB are kept, by whole characters');
	sql("UPDATE pgq_ext.job SET last_error = 'y' || repeat('x' || chr(233), 1000000) WHERE job_id = $id");
	is(sql("SELECT octet_length(last_error), left(last_error, 3) = 'yx' || chr(233) FROM pgq_claim('long')"),
		'8192|t', 'of what somebody else has written 8 kB are returned');
	sql("SELECT $fail, retry => false) FROM pgq_ext.lease WHERE job_id = $id");
	is(sql("SELECT octet_length(last_error) FROM pgq_ext.dead_job WHERE job_id = $id"),
		8191, 'a dead letter has no more');
}

# ---- the memory that a claim takes ----

SKIP:
{
	skip 'no /proc', 2 unless -e "/proc/$$/status";
	my $megabytes = 16;
	my $jobs      = 16;
	create_queue($node, 'large');
	sql("SELECT count(pgq_enqueue('large', to_jsonb(repeat('x', $megabytes * 1024 * 1024)))) FROM generate_series(1, $jobs)");
	my $session = session($node);
	my $pid     = pid_of($session);
	my $peak    = sub {
		my ($kilobytes) = slurp_file("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB/m;
		return $kilobytes / 1024;
	};
	ask($session, "SELECT count(*) FROM pgq_claim('long')");
	my $before = $peak->();
	is(ask($session, "SELECT count(*) FROM pgq_claim('large', $jobs)"), $jobs, 'large jobs are claimed together');
	my $grown = $peak->() - $before;
	my $sanitized = slurp_file("/proc/$pid/maps") =~ /libasan/;
	end_session($session);
	sql("SELECT pgq_drop_queue('large', force => true)");
	skip 'the address sanitizer keeps what is freed', 1 if $sanitized;
	cmp_ok($grown, '<', $jobs * $megabytes / 2, 'the claim has not had all of their payloads in memory');
	note "grown by $grown MB";
}

# ---- a row that cannot be returned ----

{
	sql("SELECT pgq_create_queue('pill', backoff_base => '1 h')");
	# The healthy ones are short, so that they lie in the table itself.
	my $first = sql("SELECT pgq_enqueue('pill', '1', priority => 1)");
	my $pill  = sql("SELECT pgq_enqueue('pill', to_jsonb((SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) n)))");
	my $last  = sql("SELECT pgq_enqueue('pill', '1', priority => -1)");

	# Not its fault: the server has no room for it just now.
	my $limited = q{SET pgq_ext.claim_scan = off; SET temp_file_limit = '8kB'; SET work_mem = '64kB'};
	my $huge    = sql("SELECT pgq_enqueue('long', to_jsonb(repeat('x', 200000)))");
	like((sqlstate($node, "$limited; SELECT job_id FROM pgq_claim('long')"))[0], qr/^53400$/, 'a claim finds no room on disk');
	is(sql("SELECT job_id || '|' || attempt FROM pgq_claim('long', wait => '30 s')"), "$huge|1", '... which costs the job nothing');

	# Its fault: what belongs to it is damaged.
	my $file = sql("SELECT pg_relation_filepath(c.reltoastrelid) FROM pgq_ext.job j JOIN pg_class c ON c.oid = j.tableoid WHERE job_id = $pill");
	$node->stop;
	my $path = $node->data_dir . "/$file";
	my $size = -s $path;
	open my $toast, '+<', $path or die "$path: $!";
	print $toast "\0" x $size;
	close $toast or die "$path: $!";
	$node->start;
	my ($state, $said) = sqlstate($node, "SELECT job_id, payload FROM pgq_claim('pill', 3)");
	like($state, qr/^XX/, 'a row that cannot be returned ends the claim');
	my $healthy = sql("SELECT string_agg(job_id || '|' || attempt, ',' ORDER BY job_id) FROM pgq_claim('pill', 3, wait => '30 s')");
	is($healthy, "$first|1,$last|1", '... the others of that claim are back at once, uncounted');
	wait_for($node, "attempts > 0 FROM pgq_ext.job WHERE job_id = $pill");
	is(sql("SELECT last_error FROM pgq_ext.job WHERE job_id = $pill"), 'the row could not be returned by a claim', 'it costs the row an attempt');
	is(sql('SELECT * FROM pgq_check()'), '', 'and all is in order');
	sql("DELETE FROM pgq_ext.job WHERE job_id = $pill");
	wait_for($node, q{handed_out - acked - failed - lost - uncounted = 2 FROM pgq_ext.queue_stats WHERE queue = 'pill'});
	pass('the counters add up');
}

# ---- a purge takes what waits, also what waits for the scheduler or for who has locked it ----

{
	create_queue($node, 'purge', "backoff_max => '1 h'");
	sql("SELECT count(pgq_enqueue('purge', '1')) FROM generate_series(1, 3000)");
	is(sql("BEGIN; SELECT count(*) FROM pgq_claim('purge', 3000); ROLLBACK; SELECT pgq_purge_queue('purge')"),
		"3000\n3000", 'a purge takes jobs whose lease was just lost');
	wait_for($node, "count(*) = 0 FROM pgq_ext.lease_entries() l JOIN pgq_ext.queue q USING (queue_id) WHERE q.queue = 'purge'");
	is(stats('purge', 'handed_out, lost + uncounted'), '3000|3000', '... which counts as an end of each');

	sql("SELECT count(pgq_enqueue('purge', '1')) FROM generate_series(1, 5)");
	my ($locker, $purger) = map { session($node) } 1 .. 2;
	my $pid = pid_of($purger);
	ask($locker, "BEGIN; SELECT count(*) FROM (SELECT FROM pgq_ext.job j JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'purge' FOR UPDATE OF j) locked");
	is(sql("SELECT count(*) FROM pgq_claim('purge', 5)"), 0, 'jobs are locked, and set aside');
	send_sql($purger, "SELECT pgq_purge_queue('purge')");
	wait_for($node, "EXISTS (SELECT FROM pg_locks WHERE pid = $pid AND NOT granted)");
	ask($locker, 'COMMIT');
	is(reply($purger), '5', 'a purge waits for who has locked them, and deletes them');

	# What a worker has stays its own.
	sql("SELECT count(pgq_enqueue('purge', '1')) FROM generate_series(1, 5)");
	my ($held) = sql("SELECT job_id, lease FROM pgq_claim('purge')") =~ /(\d+\|\d+)/;
	is(sql("SELECT pgq_purge_queue('purge')"), 4, 'it leaves a job in work');
	is(sql('SELECT pgq_ack(' . join(', ', split /\|/, $held) . ')'), '', '... to its worker');
	is(sql('SELECT * FROM pgq_check()'), '', 'nothing is wrong afterwards');
	end_session($_) for $locker, $purger;
}

# ---- an index that enqueues ----

{
	create_queue($node, 'more');
	sql(q{CREATE FUNCTION enqueue_more(priority int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN RETURN CASE priority WHEN 77 THEN (SELECT count(public.pgq_enqueue('more', to_jsonb(i))) FROM generate_series(1, 40) i) ELSE 0 END; END $$});
	sql("CREATE INDEX more_$_ ON pgq_ext.job_$_ (enqueue_more(priority))") for 0 .. 7;
	sql(q{SELECT pgq_enqueue('more', '0', priority => 77)});
	is(sql(q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('more', 100, wait => '60 s')}), '41', 'a job whose row enqueues others while it is written');
	sql("DROP INDEX pgq_ext.more_$_") for 0 .. 7;
}

done_testing();
