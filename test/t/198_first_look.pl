# The first look of a session at the tables, which reads small catalogs without their indexes, finds the same as later looks, and as a
# look in a database whose catalogs are large.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }
create_queue($node, 'q');
wait_for_scheduler($node);

# Returns what a new session says.
sub anew
{
	my ($sql) = @_;
	my $session = session($node);
	my ($out, $error) = ask($session, $sql);
	end_session($session);
	return $out . $error;
}

# A new session lists the segments twice: the second time, it asks the cache of the catalog. Both lists are to be the same.
sub segments_of_new_session
{
	my $list = q{SELECT string_agg(relation::text, ' ' ORDER BY relation::text) FROM pgq_ext.segment};
	my $session = session($node);
	my ($first) = ask($session, $list);
	ask($session, 'ALTER TABLE pgq_ext.queue SET (fillfactor = 100)');
	my ($second) = ask($session, $list);
	end_session($session);
	is($second, $first, 'the second look finds what the first has found');
	return $first;
}

my $work = q{SELECT pgq_enqueue('q', '1') > 0; SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('q')};
my $pages = q{SELECT pg_relation_size('pg_inherits') / current_setting('block_size')::int};

# ---- small catalogs ----

cmp_ok(sql($pages), '<=', 2, 'the catalog of partitions is small');
is(anew($work), "t\n1", 'a new session enqueues, claims and acknowledges');
my $all = segments_of_new_session();
like($all, qr/^pgq_ext\.attempt_12 .* pgq_ext\.job_7$/, 'it finds all segments');
{
	local $ENV{PGOPTIONS} = '-c ignore_system_indexes=on -c log_min_messages=error';
	is(anew($work), "t\n1", 'so does a session that ignores the indexes of the catalogs');
	is(segments_of_new_session(), $all, '... and it finds all segments');
}

# ---- large catalogs, and a table of queues of several pages ----

sql('CREATE SCHEMA many; CREATE TABLE many.parent (i int)');
sql(q{SELECT format('CREATE TABLE many.child_%s () INHERITS (many.parent)', i) FROM generate_series(1, 700) i \gexec});
cmp_ok(sql($pages), '>', 2, 'the catalog of partitions is large');
is(anew($work), "t\n1", 'a new session works');
is(segments_of_new_session(), $all, '... and finds all segments');
sql('DROP SCHEMA many CASCADE');

create_queue($node, "queue_$_") for 1 .. 80;
cmp_ok(sql(q{SELECT pg_relation_size('pgq_ext.queue') / current_setting('block_size')::int}), '>', 1, 'the table of queues has several pages');
is(anew($work =~ s/'q'/'$_'/gr), "t\n1", "a new session finds $_") for 'q', 'queue_1', 'queue_80';
like(anew(q{SELECT pgq_enqueue('queue_81', '1')}), qr/queue "queue_81" does not exist/, 'it finds no other queue');

$node->stop;

# ---- serializable transactions ----

# A new session of a serializable transaction reads the row of its queue only, although the table has a single page. So another queue may
# be changed by a transaction that reads what the first one has not written yet.
{
	my $small = pgq_node('small');
	create_queue($small, $_) for qw(mine other);
	wait_for_scheduler($small);
	$small->safe_psql('postgres', 'CREATE TABLE note (i int)');
	my ($user, $admin) = map { session($small) } 1 .. 2;
	my @errors;
	for ([ $user, q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT pgq_enqueue('mine', '1')} ],
		[ $admin, q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM note; UPDATE pgq_ext.queue SET max_attempts = 3 WHERE queue = 'other'} ],
		[ $user, 'INSERT INTO note VALUES (1)' ],
		[ $admin, 'COMMIT' ],
		[ $user, 'COMMIT' ])
	{
		my ($session, $sql) = @$_;
		my (undef, $error) = ask($session, $sql);
		push @errors, $error if $error ne '';
	}
	is("@errors", '', 'an enqueue does not fail for the change of another queue');
	end_session($_) for $user, $admin;
	$small->stop;
}

done_testing();
