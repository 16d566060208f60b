# Other sessions use a segment, or processes die, while the segment is being truncated or its rows are moved: no job
# is lost, and no job is handed out twice.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = rotating_node('main', conf => "restart_after_crash = on\npgq_ext.segment_size = '512kB'\n");
create_queue($node, 'slow', "lease_time => '1 day'");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my ($first, $second) = map { session($node) } 1 .. 2;

# Of a publisher that does not exist.
sub subscribe
{
	sql(q{SET log_min_messages = error; SET client_min_messages = error; CREATE SUBSCRIPTION elsewhere CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false);
		SET allow_system_table_mods = on; INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) SELECT oid, 'pgq_ext.job_0'::regclass, 'i' FROM pg_subscription});
	return;
}

sub unsubscribe
{
	# From 16 on an owner who is no superuser would have to name a password.
	sql('ALTER SUBSCRIPTION elsewhere OWNER TO CURRENT_USER');
	sql('ALTER SUBSCRIPTION elsewhere SET (slot_name = NONE)');
	sql('DROP SUBSCRIPTION elsewhere');
	return;
}

# ---- a subscription of a role that may not write the tables ----

sub take_part { return (sqlstate($node, q{SELECT pgq_enqueue('slow', '0'); SELECT pgq_ack(job_id, lease) FROM pgq_claim('slow')}))[0] }
subscribe();
is(take_part(), '55000', 'a subscription that brings jobs stops the queues');
sql('CREATE ROLE subscriber SUPERUSER; ALTER SUBSCRIPTION elsewhere OWNER TO subscriber; ALTER ROLE subscriber NOSUPERUSER');
is(take_part(), '', '... not one whose owner may write none');
sql('GRANT INSERT ON pgq_ext.job_0 TO subscriber');
is(take_part(), '55000', '... one whose owner may does, from the grant on');
sql('REVOKE INSERT ON pgq_ext.job_0 FROM subscriber; GRANT postgres TO subscriber');
is(take_part(), '55000', '... or could be the owner of the tables');
sql('REVOKE postgres FROM subscriber');
is(take_part(), '', '... and not any more');
unsubscribe();
sql('DROP ROLE subscriber');

# ---- whoever comes when a segment is being truncated ----

# The scheduler stops there with a segment in which no row is left. Nobody may look at it any more: (gate, segment, truncations before)
sub being_truncated
{
	my ($where) = @_;
	my $n      = fresh_segment($node, 250);
	my $before = truncations($node, $n);
	my $holder = session($node);
	ask($holder, "BEGIN; LOCK TABLE pgq_ext.job_$n IN ACCESS SHARE MODE");
	# Before there is anything to do: it learns of a setting when it has done what it is at.
	my $gate = stop_scheduler_at($node, $where);
	close_segment($node, $n);
	wait_until_moved($node, $n);
	end_session($holder);
	scheduler_stands($node);
	return ($gate, $n, $before);
}

{
	my ($gate, $n, $before) = being_truncated('rotation-verified');
	send_and_block($node, $first, "INSERT INTO pgq_ext.job (queue_id, payload, segment)
		SELECT queue_id, '1', $n FROM pgq_ext.queue WHERE queue = 'slow' RETURNING job_id");
	let_go($node, $gate);
	my $id = reply($first);
	is(join(' ', drain($node, 'slow')), $id, 'a row that comes when its segment was found empty is not lost');
	wait_until_truncated($node, $n, $before);

	($gate, $n, $before) = being_truncated('rotation-verified');
	subscribe();
	let_go($node, $gate);
	wait_for($node, qq{held_by ~ 'subscription "elsewhere"' FROM pgq_ext.segment WHERE segment = $n});
	is(truncations($node, $n), $before, 'a subscription that comes when its segment was found empty finds it as it is');
	unsubscribe();
	wait_until_truncated($node, $n, $before);

	$n = fresh_segment($node, 250);
	my @ids = enqueue_slow($node, 5);
	$gate = stop_scheduler_at($node, 'rotation-drain');
	close_segment($node, $n);
	scheduler_stands($node);
	subscribe();
	let_go($node, $gate);
	wait_for($node, qq{held_by ~ 'subscription "elsewhere"' FROM pgq_ext.segment WHERE segment = $n});
	is(sql("SELECT string_agg(job_id::text, ' ' ORDER BY job_id) $other_jobs AND segment = $n"), "@ids",
		'a subscription that comes when rows are about to be moved finds them where they are');
	unsubscribe();
	wait_until_moved($node, $n);
	is(join(' ', drain($node, 'slow')), "@ids", '... they are moved when it has gone');

	@ids = enqueue_slow($node, 5);
	ask($second, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	($gate, $n, $before) = being_truncated('rotation-truncated');
	send_and_block($node, $first, "SELECT count(*) $other_jobs");
	send_and_block($node, $second, "SELECT count(*) $other_jobs");
	let_go($node, $gate);
	is(join('', reply($first)), '5', 'who wants to read a segment that is being truncated waits, and sees what there is');
	like(join('', reply($second)), qr/^\d$/, '... without an error in REPEATABLE READ');
	ask($second, 'COMMIT');
	is(join(' ', drain($node, 'slow')), "@ids", '... the jobs come');
}

# ---- whatever dies ----

my %accident = (
	'the scheduler is terminated' => sub { my ($pid) = @_; sql("SELECT pg_terminate_backend($pid, 60000)") },
	'the scheduler is killed' => sub {
		my ($pid) = @_;
		kill 'KILL', $pid;
		wait_until_down($pid);
		wait_until_up($node);
	},
	'the server stops at once' => sub { $node->stop('immediate'); $node->start });

end_session($_) for $first, $second;
for my $what (sort keys %accident)
{
	for my $where ('rotation-moved', 'rotation-verified', 'rotation-cut', 'rotation-truncated')
	{
		my ($gate, @ids);
		if ($where eq 'rotation-moved')
		{
			($gate, @ids) = being_moved($node, 20);
		}
		else
		{
			@ids = enqueue_slow($node, 20);
			($gate) = being_truncated($where);
		}
		my $pid = scheduler_stands($node);
		$accident{$what}->($pid);
		let_go($node, $gate);
		wait_for_scheduler($node, 'postgres', $pid);
		is(sql("SELECT string_agg(job_id::text, ' ' ORDER BY job_id) $other_jobs"), "@ids", "$what at $where: every job is there, once");
		is(join(' ', drain($node, 'slow')), "@ids", '... and handed out, once');
		is(sql('SELECT count(*) FROM pgq_check()'), '0', '... all is well');
		my $before = truncations($node);
		fresh_segment($node, 250);
		cmp_ok(truncations($node), '>', $before, '... rotation goes on');
	}
}

# ---- a GRANT on a segment ----

# It has locked the row of the table in pg_class, which a TRUNCATE with new files changes as well, and only from PostgreSQL 18 on the
# table. New files it is where somebody has added an index that cannot be emptied in place.
{
	my $n = fresh_segment($node, 250);
	sql("CREATE INDEX added ON pgq_ext.job_$n USING brin (job_id)");
	my $file = sql("SELECT relfilenode FROM pg_class WHERE oid = 'pgq_ext.job_$n'::regclass");
	my $before = truncations($node, $n);
	my $owner = session($node);
	ask($owner, "BEGIN; GRANT SELECT ON pgq_ext.job_$n TO pg_monitor");
	close_segment($node, $n);
	wait_for($node, "held_by ~ 'lock' FROM pgq_ext.segment WHERE segment = $n");
	is(sql(q{SET lock_timeout = '5 s'; SELECT count(*) FROM pgq_ext.job}), '0', 'nobody waits long for who truncates a table and waits for a GRANT');
	ask($owner, 'COMMIT');
	end_session($owner);
	wait_until_truncated($node, $n, $before);
	isnt(sql("SELECT relfilenode FROM pg_class WHERE oid = 'pgq_ext.job_$n'::regclass"), $file, '... which it does when the GRANT has ended');
}

$node->stop;
done_testing();
