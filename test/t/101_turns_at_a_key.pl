# Enqueues with one unique key overlap without a gap. A claim of the job, pgq_cancel, pgq_update, pgq_retry and
# on_conflict => 'replace' still get their turn at the job, since no new session may start to hold the job before that
# turn.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "deadlock_timeout = '100 ms'\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my ($first, $second, $third, $b) = map { session($node) } 1 .. 4;
sql(q{SELECT pgq_create_queue('q', lease_time => '1 day')});
my $n = 0;
sub enqueue { my ($more) = @_; return "SELECT pgq_enqueue('q', '[1]', unique_key => 'k$n'" . ($more ? ", $more" : '') . ')' }
my $replace = q{on_conflict => 'replace'};
sub next_key { $n++; sql(q{SELECT pgq_cancel(job_id) FROM pgq_ext.job}); return scalar sql(enqueue()) }
sub waiting_for_locks { my ($n) = @_; wait_for($node, "count(*) = $n FROM pg_stat_activity WHERE wait_event_type = 'Lock'"); return }
sub holds { my ($session) = @_; ask($session, 'BEGIN'); return ask($session, enqueue()) }
my $held = q{SELECT count(*) FROM pgq_ext.lease_entries() WHERE state = 'held'};

# ---- to change or end it ----

for my $verb (
	[ 'pgq_cancel', sub { "SELECT pgq_cancel($_[0])" }, 'ready' ],
	[ 'pgq_update', sub { "SELECT pgq_update($_[0], '[2]')" }, 't' ],
	[ 'pgq_retry', sub { "SELECT pgq_retry($_[0])" }, 't' ],
	[ 'replace', sub { enqueue($replace) }, undef ])
{
	my ($name, $call, $answer) = @$verb;
	my $job = next_key();
	is(holds($first), $job, "$name: a transaction holds the job");
	ask($b, 'BEGIN');
	send_sql($b, $call->($job));
	waiting_for_locks(1);
	# The next one comes before the first one has gone.
	ask($second, 'BEGIN');
	send_sql($second, enqueue());
	waiting_for_locks(2);
	ok(!is_answered($second), '... and another one does not join it');
	is(ask($first, enqueue()), $job, '... but it meets its job again itself');
	ask($first, 'COMMIT');
	is(scalar reply($b), $answer // $job, '... and has its turn when the first one has ended');
	ask($b, 'COMMIT');
	$name eq 'pgq_cancel' ? cmp_ok(scalar reply($second), '>', $job, '... the other one has a new job')
	  : is(scalar reply($second), $job, '... the other one meets the job then');
	ask($second, 'COMMIT');
}
# the turn goes with the session, and with the statement
for my $end ('pg_cancel_backend', 'pg_terminate_backend')
{
	my $job = next_key();
	holds($first);
	my $pid = ask($b, 'SELECT pg_backend_pid()');
	ask($b, 'BEGIN; SAVEPOINT s') if $end eq 'pg_cancel_backend';
	send_sql($b, "SELECT pgq_cancel($job)");
	waiting_for_locks(1);
	send_sql($second, enqueue());
	waiting_for_locks(2);
	sql("SELECT $end($pid)");
	reply($b);
	is(scalar reply($second), $job, "who waits for the turn of another has it when that is gone: $end");
	ask($b, 'ROLLBACK TO s; COMMIT') if $end eq 'pg_cancel_backend';
	ask($first, 'COMMIT');
}
end_session($b);
$b = session($node);
# a holder that wants to change the job waits for the other holders only
{
	my $job = next_key();
	holds($_) for $first, $second;
	send_sql($b, "SELECT pgq_cancel($job)");
	waiting_for_locks(1);
	send_sql($first, enqueue($replace));
	waiting_for_locks(2);
	ask($second, 'COMMIT');
	is(scalar reply($first), $job, 'a holder that changes the job is not kept from it by a session that waits for it');
	ask($first, 'COMMIT');
	is(scalar reply($b), 'ready', '... which is next');
}

# ---- a claim ----

{
	my $job = next_key();
	holds($first);
	send_sql($b, q{SELECT job_id FROM pgq_claim('q', wait => '60 s')});
	wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status});
	is(holds($second), $job, 'a job that a claim wants is held by others for a while');
	usleep(1_100_000);
	ask($third, 'BEGIN');
	send_sql($third, enqueue());
	waiting_for_locks(1);
	ok(!is_answered($third), '... then by no one else until it has been handed out');
	cmp_ok(sql(enqueue(q{unique_until => 'claimed'})), '>', $job, '... for a request until it is claimed there is a new one');
	ask($_, 'COMMIT') for $first, $second;
	like(scalar reply($b), qr/^\d+$/, '... the claim has its turn');
	like(scalar reply($third), qr/^\d+$/, '... and the other request its answer');
	ask($third, 'COMMIT');
}
{
	my $job = next_key();
	holds($first);
	is(sql(q{SELECT job_id FROM pgq_claim('q')}), '', 'a claim that does not wait');
	usleep(1_100_000);
	send_sql($second, enqueue());
	waiting_for_locks(1);
	ask($first, 'COMMIT');
	is(scalar reply($second), $job, '... keeps nobody for long: who waited for a gap holds the job, as no claim came');
}
# requests that change the job, one behind the other
{
	my $job = next_key();
	ask($first, 'BEGIN');
	is(ask($first, enqueue($replace)), $job, 'a transaction has changed the job');
	send_sql($b, q{SELECT job_id FROM pgq_claim('q', wait => '60 s')});
	wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status});
	ask($second, 'BEGIN');
	send_sql($second, enqueue($replace));
	waiting_for_locks(1);
	ask($first, 'COMMIT');
	is(scalar reply($b), $job, '... the claim that has waited has its turn');
	is(scalar reply($second), $job, '... before the next one, which finds a job in work');
	ask($second, 'COMMIT');
	is(sql($held), 0, 'nothing is held');
	is(sql(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), 0, '... and no turn is left');
	is(sql('SELECT * FROM pgq_check()'), '', '... and all is well');
}

end_session($_) for $first, $second, $third, $b;
done_testing();
