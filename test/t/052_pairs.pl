# Two transactions change the same job: which of them waits, and what the second transaction sees when the first has
# ended.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;
use Time::HiRes qw(usleep);

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\n");
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }
sql(q{SELECT pgq_create_queue('q', lease_time => '1 day', backoff_base => '1 h', backoff_jitter => 0)});

# What is done, with the job's id and lease.
my %verbs = (
	ack => q{SELECT 'done' FROM (SELECT pgq_ack(ID, LEASE)) a},
	fail => q{SELECT pgq_fail(ID, LEASE, 'failed', retry_in => '1 h')},
	release => q{SELECT pgq_release(ID, LEASE)},
	assert => q{SELECT 'done' FROM (SELECT pgq_assert_lease(ID, LEASE)) a},
	extend => q{SELECT pgq_extend(ID, LEASE) IS NOT NULL},
	progress => q{SELECT 'done' FROM (SELECT pgq_progress(ID, LEASE, '1')) a},
	cancel => q{SELECT pgq_cancel(ID)},
	update => q{SELECT pgq_update(ID, priority => 5)},
	retry => q{SELECT pgq_retry(ID, '1 h')},
	claim => q{SELECT count(*) FROM pgq_claim('q')},
	fail_dead => q{SELECT pgq_fail(ID, LEASE, 'failed', retry => false)},
);

# How a job comes to be in that state.
my %states = (
	leased => '',
	ready => 'SELECT pgq_release(ID, LEASE)',
	dead => $verbs{fail_dead},
);

# state, first, then: - it does not wait, and answers so at once; or what it answers if the first one is committed, rolled back.
# STALE: error PQ001.
my @pairs = map { [ split ' ' ] } grep { /\S/ } split /\n/, <<'PAIRS';
leased  ack      ack      STALE      done
leased  ack      fail     stale      retry
leased  ack      release  f          t
leased  ack      assert   STALE      done
leased  ack      cancel   none       leased
leased  ack      extend   -          t
leased  ack      retry    -          f
leased  ack      update   -          f
leased  ack      claim    -          0
leased  fail     ack      STALE      done
leased  fail     fail     stale      retry
leased  fail     release  f          t
leased  fail     assert   STALE      done
leased  fail     cancel   scheduled  leased
leased  fail     extend   -          t
leased  fail     retry    -          f
leased  fail     update   -          f
leased  fail     claim    -          0
leased  fail_dead cancel  dead       leased
leased  fail_dead ack     STALE      done
leased  release  ack      STALE      done
leased  release  fail     stale      retry
leased  release  release  f          t
leased  release  assert   STALE      done
leased  release  cancel   ready      leased
leased  release  extend   -          t
leased  release  retry    -          f
leased  release  update   -          f
leased  release  claim    -          0
leased  assert   ack      done       done
leased  assert   fail     retry      retry
leased  assert   release  t          t
leased  assert   assert   done       done
leased  assert   cancel   leased     leased
leased  assert   extend   -          t
leased  assert   retry    -          f
leased  assert   update   -          f
leased  ack      progress STALE      done
leased  progress ack      done       done
leased  progress progress done       done
leased  progress cancel   leased     leased
leased  progress extend   -          t
leased  progress update   -          f
leased  cancel   progress STALE      done
leased  cancel   ack      STALE      done
leased  cancel   fail     stale      retry
leased  cancel   release  f          t
leased  cancel   assert   STALE      done
leased  cancel   cancel   none       leased
leased  cancel   extend   -          f
leased  cancel   retry    -          f
leased  cancel   update   -          f
leased  cancel   claim    -          0
ready   cancel   cancel   none       ready
ready   cancel   update   f          t
ready   cancel   retry    f          t
ready   cancel   claim    -          0
ready   update   cancel   ready      ready
ready   update   update   t          t
ready   update   retry    t          t
ready   update   claim    -          0
ready   retry    cancel   scheduled  ready
ready   retry    update   t          t
ready   retry    retry    t          t
ready   retry    claim    -          0
dead    retry    retry    t          t
dead    retry    cancel   scheduled  dead
dead    cancel   retry    f          t
dead    cancel   cancel   none       dead
PAIRS

my ($first, $then) = (session($node), session($node));
my $then_pid = pid_of($then);
ask($then, '\set VERBOSITY sqlstate');

sub statement
{
	my ($verb, $id, $lease) = @_;
	return $verbs{$verb} =~ s/\bID\b/$id/r =~ s/\bLEASE\b/$lease/r;
}

sub answer_of
{
	my ($out, $err) = @_;
	return 'STALE' if $err =~ /PQ001/;
	return $err ne '' ? $err : $out eq '' ? 'none' : $out;
}

# Sends it; true if it waits for the other one.
sub waits
{
	my ($sql) = @_;
	send_sql($then, $sql);
	for (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 0 if is_answered($then);
		return 1 if sql("SELECT count(*) FROM pg_locks WHERE pid = $then_pid AND NOT granted") > 0;
		usleep(5_000);
	}
	die "neither answered nor waiting: $sql";
}

my %ends = (
	commit => [ 'COMMIT' ],
	rollback => [ 'ROLLBACK' ],
	savepoint => [ 'ROLLBACK TO before', 'COMMIT' ],
	'prepared commit' => [ q{PREPARE TRANSACTION 'pair'}, q{COMMIT PREPARED 'pair'} ],
	'prepared rollback' => [ q{PREPARE TRANSACTION 'pair'}, q{ROLLBACK PREPARED 'pair'} ],
);

for my $pair (@pairs)
{
	my ($state, $one, $two, $committed, $undone) = @$pair;
	for my $end (sort keys %ends)
	{
		my ($id, $lease) = split /\|/, sql(q{SELECT pgq_enqueue('q', '1'); SELECT job_id, lease FROM pgq_claim('q', wait => '60 s')}) =~ s/^\d+\n//r;
		sql($states{$state} =~ s/\bID\b/$id/r =~ s/\bLEASE\b/$lease/r) if $states{$state};
		my @ends = @{ $ends{$end} };
		ask($first, $_) for 'BEGIN', 'SAVEPOINT before', statement($one, $id, $lease);
		my $name = "$state: $one, then $two, $end";
		my $waits = waits(statement($two, $id, $lease));
		is($waits, $committed eq '-' ? 0 : 1, "$name: it " . ($committed eq '-' ? 'does not wait' : 'waits'));
		my $answer = $waits ? '' : answer_of(reply($then));
		ask($first, $_) for @ends;
		$answer = answer_of(reply($then)) if $waits;
		my $expected = $committed eq '-' ? $undone : $end =~ /commit/ ? $committed : $undone;
		is($answer, $expected, "... and answers $expected");
		sql("SELECT pgq_cancel($id)");
	}
}

is(sql('SELECT count(*) FROM pgq_ext.job'), '0', 'nothing is left');
is(sql('SELECT * FROM pgq_check()'), '', 'memory agrees with the tables');
wait_for($node, "count(*) = 0 FROM pgq_ext.lease");
is(sql(q{SELECT handed_out - acked - failed - released - cancelled - lost - uncounted FROM pgq_ext.queue_stats}), '0', 'every hand-out has ended once');
done_testing();
