# Many children, and many parents: what the scheduler reads, locks and remembers when it judges them; what a view reads of them. And circles
# that unique keys close.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "autovacuum = off\ntrack_commit_timestamp = on\n");
sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }

create_queue($node, $_, q{lease_time => '1 h'}) for qw(parents children others);
wait_for_scheduler($node);

sub parent { return sql(q{SELECT pgq_enqueue('parents', '1')}) }
sub child { my ($queue, @parents) = @_; return sql(sprintf q{SELECT pgq_enqueue('%s', '1', after => '{%s}')}, $queue, join ',', @parents) }
# Enqueues that many jobs in one call, each after these parents; returns the first id.
sub many
{
	my ($n, $queue, @parents) = @_;
	return sql(sprintf q{SELECT min(id) FROM pgq_enqueue_many('%s', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'after', '[%s]'::jsonb)) FROM generate_series(1, %d) i)) id},
		$queue, join(',', @parents), $n);
}
sub blocked { return "(SELECT count(*) FROM pgq_ext.job WHERE blocked IS NOT NULL AND queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = '$_[0]'))" }
sub is_ready { return wait_for($node, "blocked IS NULL FROM pgq_ext.job WHERE job_id = $_[0]") }
# Waits until the scheduler has judged all children that it was told of before.
sub judged { my $p = parent(); my $c = child('others', $p); sql("SELECT pgq_cancel($p)"); wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id = $c"); return }

# ---- circles ----

sub refused { return (sqlstate($node, "SELECT pgq_enqueue_many('others', '$_[0]')"))[1] =~ s/\A.*?ERROR:\s+\w+: (.*?)\n.*\z/$1/sr }
is(refused('[{"payload": 1, "ref": "a", "unique_key": "k", "after": ["b"]}, {"payload": 2, "ref": "b", "unique_key": "k"}]'),
	'element 1 of jobs is in a circle: it waits for "b", which waits for it', 'a parent with the unique key of its child');
is(refused('[{"payload": 1, "unique_key": "k", "after": ["b"]}, {"payload": 2, "ref": "b", "after": ["c"]}, {"payload": 3, "ref": "c", "unique_key": "k"}]'),
	'element 2 of jobs is in a circle: it waits for "c", which waits for it', '... of the child of its child, which has no ref');
like(refused('[{"payload": 1, "ref": "b", "unique_key": "k"}, {"payload": 2, "unique_key": "k", "after": ["b"]}]'),
	qr/cannot take the place of a job with parents/, '... a child with the unique key of its parent');
is(sql(q{WITH ids AS (SELECT id, n FROM pgq_enqueue_many('others', '[{"payload": 1, "after": ["p"]}, {"payload": 2, "unique_key": "k"}, {"payload": 3, "ref": "p", "unique_key": "k"}]') WITH ORDINALITY t (id, n))
	SELECT a.id > b.id, b.id = c.id FROM ids a, ids b, ids c WHERE (a.n, b.n, c.n) = (1, 2, 3)}), 't|t', 'elements with the same key are one job, which has a smaller id than its child');
sql(q{SELECT pgq_purge_queue('others')});

# ---- what is read and locked ----

my ($first, $second) = (parent(), parent());
my $two = child('children', $first, $second);
judged();
sql("SELECT pgq_cancel($first)") if !sql("SELECT pgq_ack(job_id, lease) IS NOT NULL FROM pgq_claim('parents', 1) WHERE job_id = $first");
judged();
is(sql("SELECT blocked IS NOT NULL, xmax FROM pgq_ext.job WHERE job_id = $two"), 't|0', 'a child that waits for another parent is not locked');
sql("SELECT pgq_cancel($second)");
wait_for($node, blocked('children') . ' = 0');

my $keeper = parent();
many(3000, 'children', $keeper);
# The planner likes other joins better if the statistics say that a child has many parents.
my $buffers = sql(q{SET enable_nestloop = off; EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT waits_for FROM pgq_ext.job_status WHERE queue = 'children'}) =~ /"Shared Hit Blocks": (\d+)/ ? $1 : -1;
cmp_ok($buffers, '<', 3000 * 20, 'job_status reads the parents of blocked jobs, and not all jobs for each');
is(sql(q{SELECT waits_for FROM pgq_ext.job_status WHERE queue = 'children' LIMIT 1}), "the end of job $keeper (waiting)", '... and says what they wait for');

# ---- more than memory has room for ----

my $late = many(3000, 'others', $keeper);
my @parents = split /\n/, sql(q{SELECT pgq_enqueue_many('parents', (SELECT jsonb_agg(jsonb_build_object('payload', i)) FROM generate_series(1, 1000) i))});
my @each = split /\n/, sql(sprintf q{SELECT pgq_enqueue_many('others', (SELECT jsonb_agg(jsonb_build_object('payload', 1, 'after', jsonb_build_array(id))) FROM unnest('{%s}'::bigint[]) id))}, join ',', @parents);
my $all = many(20, 'children', @parents);
is(scalar(@each), 1000, 'a thousand children, and twenty with a thousand parents each');
sql(sprintf q{SELECT pgq_cancel(id) FROM unnest('{%s}'::bigint[]) id}, join ',', @parents[ 0 .. 1 ]);
wait_for($node, sprintf 'count(*) = 0 FROM pgq_ext.job WHERE job_id IN (%s)', join ',', @each[ 0, 1 ]);
wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id BETWEEN $all AND $all + 19");
pass('the end of two parents cancels their children, and the twenty');
$all = many(20, 'children', @parents[ 2 .. 999 ]);
is(sql(q{WITH l AS MATERIALIZED (SELECT job_id, lease FROM pgq_claim('parents', 2000)) SELECT count(pgq_ack(job_id, lease)) FROM l} . " WHERE job_id <> $keeper"), '998', 'all others are acknowledged in one transaction');
wait_for($node, sprintf 'count(*) = 0 FROM pgq_ext.job WHERE blocked IS NOT NULL AND job_id IN (%s)', join ',', @each);
wait_for($node, "count(*) = 20 FROM pgq_ext.job WHERE blocked IS NULL AND job_id BETWEEN $all AND $all + 19");
pass('... and all their children become ready');
is(sql("SELECT count(*) FROM pgq_ext.job WHERE blocked IS NOT NULL AND job_id >= $late AND job_id < $late + 3000"), '3000', '... and no others');
# Children of a parent that has ended, more than a transaction can tell of.
my ($ended) = $parents[-1];
my $more = many(2000, 'children', $ended);
wait_for($node, "count(*) = 2000 FROM pgq_ext.job WHERE blocked IS NULL AND job_id >= $more AND job_id < $more + 2000");
pass('children that are enqueued after the end of their parent, more than a transaction tells of');

# ---- a chain of cancels ----

# Enqueues a chain of jobs, each after the one before; returns the first id.
sub chain
{
	my ($n) = @_;
	return sql(sprintf q{SELECT min(id) FROM pgq_enqueue_many('chains', (SELECT jsonb_agg(CASE WHEN i = 1 THEN '{"payload": 1, "ref": "1"}'
		ELSE jsonb_build_object('payload', i, 'ref', i::text, 'after', jsonb_build_array((i - 1)::text)) END) FROM generate_series(1, %d) i)) id}, $n);
}
create_queue($node, 'chains', q{keep_finished => '1 h'});
my $length = 1000;
my $root = chain($length);
sql("SELECT pgq_cancel($root)");
wait_for($node, "count(*) = $length FROM pgq_ext.finished_job WHERE job_id >= $root AND job_id < $root + $length AND outcome = 'cancelled'");
# The records that a transaction has written have the same time of commit.
my ($steps, $most) = split /\|/, sql("SELECT count(*), max(n) FROM (SELECT count(*) AS n FROM pgq_ext.finished_job WHERE job_id > $root AND job_id < $root + $length GROUP BY pg_xact_commit_timestamp(xmin)) t");
cmp_ok($steps, '<=', 2 * $length / 64, 'a chain of cancels is few transactions');
cmp_ok($most, '<=', 64, '... each of a limited number of jobs');

# Enqueues this child, if its parents are given with its policy; the job 'held' is locked by a session at first.
my (%job, @tree);
sub node_of
{
	my ($name, $policy, @after) = @_;
	my $after = @after ? sprintf ", after => '{%s}', on_parent_failure => '%s'", join(',', @job{@after}), $policy : '';
	$job{$name} = sql("SELECT pgq_enqueue('chains', '1'$after)");
	push @tree, $name;
	return;
}
node_of('root');
node_of('other');
node_of('cancel', 'cancel', 'root');
node_of('hold', 'hold', 'cancel', 'other');
node_of('diamond', 'cancel', 'cancel', 'hold');
node_of('run', 'run', 'hold');
node_of('run_later', 'run', 'hold', 'other');
node_of('after_run', 'cancel', 'run');
node_of('held', 'cancel', 'diamond');
node_of('after_held', 'cancel', 'held');
my @crowd = split /\n/, sql(q{SELECT pgq_enqueue_many('chains', (SELECT jsonb_agg(jsonb_build_object('payload', i)) FROM generate_series(1, 40) i))});
$job{"crowd$_"} = $crowd[$_] for 0 .. $#crowd;
node_of('crowded', 'cancel', 'diamond', map { "crowd$_" } 0 .. $#crowd);
node_of('after_crowded', 'hold', 'crowded');
judged();
my $holder = session($node);
ask($holder, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id = $job{held} FOR KEY SHARE");
sub states { return sql(sprintf q{SELECT string_agg(n || ':' || COALESCE(f.outcome, CASE WHEN j.blocked IS NOT NULL THEN 'blocked' ELSE 'ready' END), ' ' ORDER BY o) FROM unnest('{%s}'::text[], '{%s}'::bigint[]) WITH ORDINALITY t (n, id, o)
	LEFT JOIN pgq_ext.job j ON j.job_id = id LEFT JOIN pgq_ext.finished_job f ON f.job_id = id}, join(',', @tree), join(',', @job{@tree})) }
sql("SELECT pgq_cancel($job{root})");
wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id = $job{after_crowded}");
is_ready($job{run});
is(states(), 'root:cancelled other:ready cancel:cancelled hold:cancelled diamond:cancelled run:ready run_later:blocked after_run:blocked held:blocked after_held:blocked crowded:cancelled after_crowded:cancelled',
	'a cancel goes through children with each value of on_parent_failure');
ask($holder, 'ROLLBACK');
end_session($holder);
wait_for($node, "count(*) = 0 FROM pgq_ext.job WHERE job_id IN ($job{held}, $job{after_held})");
sql("SELECT pgq_cancel($job{other})");
is_ready($job{run_later});
like(states(), qr/run:ready run_later:ready after_run:blocked held:cancelled after_held:cancelled/, '... and goes on where a session had the row of a child');
is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id IN (" . join(',', @crowd) . ") AND blocked IS NULL"), '40', '... and leaves the other parents alone');

# ---- many children in the hands of a session ----

my $p = parent();
my $n = many(200, 'children', $p);
my $session = session($node);
ask($session, "BEGIN; SELECT FROM pgq_ext.job WHERE job_id >= $n AND job_id < $n + 200 FOR UPDATE");
sql("SELECT pgq_ack(job_id, lease) FROM pgq_claim('parents', 1) WHERE job_id = $p");
judged();
is(sql("SELECT count(*) FROM pgq_ext.job WHERE blocked IS NOT NULL AND job_id >= $n AND job_id < $n + 200"), '200', 'children whose rows a session has locked stay blocked');
ask($session, 'ROLLBACK');
wait_for($node, "count(*) = 200 FROM pgq_ext.job WHERE blocked IS NULL AND job_id >= $n AND job_id < $n + 200");
pass('... and become ready when the session lets them go');
end_session($session);

# ---- the end ----

# Not the last queue: without queues the scheduler ends.
sql("SELECT pgq_drop_queue(q, force => true) FROM unnest('{parents,children,chains}'::text[]) q");
sql(q{SELECT pgq_purge_queue('others')});
wait_for($node, '(SELECT count(*) FROM pgq_ext.job_dependency) + (SELECT count(*) FROM pgq_ext.job_outcome) = 0');
pass('nothing is left');
is(sql('SELECT count(*) FROM pgq_ext.duty WHERE failures > 0'), '0', 'no duty has failed');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'pgq_check finds nothing');
$node->stop;
done_testing();
