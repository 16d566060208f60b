# A busy group with very many jobs before the jobs of all other groups, and very many groups, with very little memory
# for ready jobs.
# Long: left out of "make check".
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_wal_size = 4GB\nsynchronous_commit = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

# The longest key there may be.
my $long = q{rpad(i::text, 255, '-')};

# In calls of 10,000.
sub enqueue
{
	my ($queue, $n, $key) = @_;
	my $calls = int($n / 10_000) || 1;
	my $each = $n / $calls;
	return sql(qq{SELECT count(*) FROM generate_series(0, $calls - 1) c, pgq_enqueue_many('$queue',
		(SELECT jsonb_agg(jsonb_build_object('payload', i, 'group_key', $key)) FROM generate_series(c * $each + 1, (c + 1) * $each) i))});
}

# window, jobs of the busy group, groups of one job, options
for ([ 8, 1_000_000, 100_000, 'group_concurrency => 1' ], [ 4, 20_000, 5_000, 'fifo => true' ], [ 2, 20_000, 5_000, 'group_concurrency => 1, fair => true' ],
	[ 1, 20_000, 5_000, 'group_concurrency => 1' ], [ 1, 20_000, 5_000, q{group_rate_limit => 1, rate_period => '1 day'} ])
{
	my ($window, $busy, $groups, $options) = @$_;
	my $what = "window of $window, $options";
	$node->append_conf('postgresql.conf', "pgq_ext.window_size = $window\n");
	$node->restart;
	sql("SELECT pgq_create_queue('q', lease_time => '1 day', notify => false, $options)");
	enqueue('q', $busy, q{'busy'});
	my ($first, $lease) = split /\|/, sql(q{SELECT job_id, lease FROM pgq_claim('q')});
	enqueue('q', $groups, $long);
	my @workers = map { session($node) } 1 .. 3;
	send_sql($_, q{DO $$ DECLARE n int; BEGIN LOOP
		SELECT count(pgq_ack(job_id, lease)) INTO n FROM pgq_claim('q', 100);
		EXIT WHEN n = 0;
		COMMIT; END LOOP; END $$}) for @workers;
	reply($_) for @workers;
	end_session($_) for @workers;
	is(sql(q{SELECT count(*) FILTER (WHERE group_key = 'busy'), count(*) FILTER (WHERE group_key <> 'busy') FROM pgq_ext.job}), "$busy|0", "$what: a busy group is in nobody's way");
	sql("SELECT pgq_ack($first, $lease)");
	my $next = $options =~ /rate/ ? '' : $first + 1;
	is(sql(q{SELECT job_id FROM pgq_claim('q', 10)}), $next, '... until it has room again, if it has');
	is(sql('SELECT * FROM pgq_check()'), '', '... all is well');
	sql(q{SELECT pgq_drop_queue('q', force => true)});
}
$node->stop;
done_testing();
