# Which pages of shared memory the operating system has provided: entries of groups are touched only by queues with rules for groups,
# and no more of them than there were groups at a time.
use strict;
use warnings;
no warnings 'portable'; # addresses have more than 32 bits
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use PgqTest;

my $page = POSIX::sysconf(POSIX::_SC_PAGESIZE());
# A system may provide shared memory in pages of 2 MB, or keep the lists of pages to itself.
my $huge = -e '/sys/kernel/mm/transparent_hugepage/shmem_enabled' && slurp_file('/sys/kernel/mm/transparent_hugepage/shmem_enabled') =~ /\[(?:always|force|within_size)\]/;
plan skip_all => 'this system does not tell which small pages a process has' if $huge || !-r '/proc/self/pagemap';
my $node = pgq_node('main', conf => "huge_pages = off\nshared_memory_type = mmap\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

# Returns how many whole pages of a part of shared memory some process of the server has touched. In the list of a process's pages,
# bit 63 says that a page is present, and bit 62 that it is swapped out.
sub touched
{
	my ($part) = @_;
	my ($offset, $size) = split /\|/, sql("SELECT off, size FROM pg_shmem_allocations WHERE name = '$part'");
	return 0 if $size < 2 * $page;
	my %touched;
	for my $pid (slurp_file($node->data_dir . '/postmaster.pid') =~ /\A(\d+)/, split /\n/, sql('SELECT pid FROM pg_stat_activity'))
	{
		# A process may have ended since it was listed.
		my $maps = eval { slurp_file("/proc/$pid/maps") } or next;
		my ($start) = $maps =~ m{^([0-9a-f]+)-\S+ rw-s \S+ \S+ \d+ +/dev/zero}m or next;
		my $from = hex($start) + $offset;
		my $first = int(($from + $page - 1) / $page);
		my $n = int(($from + $size) / $page) - $first;
		open my $pages, '<:raw', "/proc/$pid/pagemap" or next;
		sysseek $pages, 8 * $first, 0 or die $!;
		(sysread($pages, my $entries, 8 * $n) // 0) == 8 * $n or next;
		my @entries = unpack 'Q*', $entries;
		$touched{$_} = 1 for grep { $entries[$_] >> 62 } 0 .. $#entries;
	}
	return scalar keys %touched;
}

# Makes a queue with 1,000 jobs, each in a group of its own.
sub queue
{
	my ($queue, $options) = @_;
	return sql(qq{SELECT pgq_create_queue('$queue', lease_time => '1 day'$options);
		SELECT count(*) FROM pgq_enqueue_many('$queue', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'group_key', 'g' || i)) FROM generate_series(1, 1000) i))});
}

# Claims n jobs, and acknowledges them.
sub turn
{
	my ($queue, $n) = @_;
	return sql(qq{SELECT pgq_ack_many(array_agg(job_id), array_agg(lease)) FROM pgq_claim('$queue', $n)});
}

# What the documentation says of a server that has just started. The leases have no name in the list; all of their entries are made at the
# start.
my $operations = slurp_file('docs/operations.md') =~ s/\s+/ /gr;
my ($said) = $operations =~ /just started has about (\d+) MB/;
my $named  = 0;
$named += touched($_) for split /\n/, sql("SELECT name FROM pg_shmem_allocations WHERE name LIKE 'pgq\\_ext%' AND name <> 'pgq_ext leases'");
my $leases = sql(q{SELECT bound * entry_bytes - (SELECT size FROM pg_shmem_allocations WHERE name = 'pgq_ext groups') FROM pgq_ext.capacity WHERE name = 'leases'});
my $used   = ($named * $page + $leases) / 1e6;
ok($said > $used - 1 && $said < $used + 1.5, "a server that has just started uses about $said MB: $used");
my ($groups) = $operations =~ /none of the (\d+) MB for groups/;
is($groups, sql(q{SELECT round(size / 1e6) FROM pg_shmem_allocations WHERE name = 'pgq_ext groups'}), '... and none of the memory for groups');

queue('plain', ', concurrency => 500');
queue('fair', ', fair => true');
turn($_, 300) for qw(plain fair);
# One page may be used for what is beside the entries.
cmp_ok(touched('pgq_ext groups'), '<=', 1, 'queues without limits of groups use no memory for groups');
cmp_ok(touched('pgq_ext windows'), '>=', 1000 * 80 / $page, '... but windows');

queue('limited', ', group_concurrency => 1');
cmp_ok(touched('pgq_ext groups'), '<=', 1, 'nor does a queue with such a limit before a claim');
turn('limited', 300);
my $pages = touched('pgq_ext groups');
cmp_ok($pages, '>=', 300 * 150 / $page, 'jobs of 300 groups in work use memory');
cmp_ok($pages, '<=', 300 * 300 / $page + 2, '... as many groups need');
turn('limited', 300);
is(touched('pgq_ext groups'), $pages, '... and the next 300 groups use the same');

$node->stop;
done_testing();
