# Leases that end with the session of their worker.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Session;

my $node = pgq_node('main', conf => "max_prepared_transactions = 10\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q{SELECT pgq_create_queue('q', lease_time => '7 days', backoff_base => '1 h', backoff_jitter => 0)});

# Claimed by that session: id, lease
sub bound
{
	my ($s, $before) = @_;
	sql(q{SELECT pgq_enqueue('q', '1')});
	ask($s, $before) if $before;
	return split /\|/, ask($s, q{SELECT job_id, lease FROM pgq_claim('q', wait => '60 s', session_bound => true)});
}
sub until_lost
{
	my ($id, $what) = @_;
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $id");
	is(sql("SELECT last_error FROM pgq_ext.job WHERE job_id = $id"), 'the session of its worker ended', $what);
	sql("SELECT pgq_cancel($id)");
	return;
}

# ---- the session ends ----

{
	my $s = session($node);
	my ($id) = bound($s);
	is(sql("SELECT session_bound FROM pgq_ext.lease WHERE job_id = $id"), 't', 'the view says that a lease is bound to its session');
	end_session($s);
	until_lost($id, 'it leaves');

	$s = session($node);
	($id) = bound($s);
	my $pid = pid_of($s);
	sql("SELECT pg_terminate_backend($pid)");
	until_lost($id, 'it is terminated');

	$s = session($node);
	($id) = bound($s);
	kill_client($s);
	until_lost($id, 'its client is killed');

	# In a statement the server has to look for its client.
	$s = session($node);
	($id) = bound($s, q{SET client_connection_check_interval = '100 ms'});
	send_sql($s, 'SELECT pg_sleep(3600)');
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
	kill_client($s);
	until_lost($id, 'its client is killed while it waits for an answer');
}

# ---- or is given to somebody else ----

{
	my $s = session($node);
	my ($id, $lease) = bound($s);
	ask($s, 'DISCARD PLANS');
	is(sql("SELECT pgq_extend($id, $lease) IS NOT NULL"), 't', 'DISCARD of something ends no lease');
	ask($s, 'DISCARD ALL');
	until_lost($id, 'DISCARD ALL does');
	($id) = bound($s);
	isnt($id, '', '... and the session can claim again');
	ask($s, 'BEGIN');
	like((ask($s, 'DISCARD ALL'))[1], qr/cannot run inside a transaction block/, 'a DISCARD ALL that fails');
	ask($s, 'ROLLBACK');
	is(sql("SELECT state FROM pgq_ext.job_status WHERE job_id = $id"), 'leased', '... ends none');
	end_session($s);
	until_lost($id, 'the session leaves after all');
}

# ---- in the middle of something ----

{
	my $s = session($node);
	my ($id) = bound($s, 'BEGIN');
	kill_client($s);
	wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $id");
	is(sql("SELECT last_error FROM pgq_ext.job WHERE job_id = $id"), 'the claiming transaction was rolled back or its session ended', 'an open claim is undone');
	sql("SELECT pgq_cancel($id)");

	# Another session uses the lease: it decides.
	for my $end ('COMMIT', 'ROLLBACK')
	{
		$s = session($node);
		my $other = session($node);
		($id, my $lease) = bound($s);
		ask($other, $_) for 'BEGIN', "SELECT pgq_ack($id, $lease)";
		end_session($s);
		is((ask($other, 'SELECT 1'))[0], '1', 'a lease that another session uses');
		ask($other, $end);
		if ($end eq 'COMMIT')
		{
			is(sql("SELECT count(*) FROM pgq_ext.job WHERE job_id = $id"), '0', '... is ended by its commit');
		}
		else
		{
			until_lost($id, '... is lost by its rollback');
		}
		end_session($other);
	}

	# A prepared claim is not the session's any more before it ends.
	for my $end ('COMMIT', 'ROLLBACK')
	{
		$s = session($node);
		($id, my $lease) = bound($s, 'BEGIN');
		ask($s, q{PREPARE TRANSACTION 'p'});
		end_session($s);
		sql("$end PREPARED 'p'");
		wait_for($node, "attempts = 1 FROM pgq_ext.job WHERE job_id = $id");
		pass("a prepared claim is lost at $end PREPARED, without its session");
		sql("SELECT pgq_cancel($id)");
	}
}

# ---- many, and others ----

{
	my $s = session($node);
	sql(q{SELECT count(pgq_enqueue('q', '1')) FROM generate_series(1, 1000)});
	is(scalar ask($s, q{SELECT count(*) FROM pgq_claim('q', 300, session_bound => true)}), '300', 'some are bound');
	is(scalar ask($s, q{SELECT count(*) FROM pgq_claim('q', 300)}), '300', '... some are not');
	is(scalar ask($s, q{SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE session_bound AND job_id % 2 = 0}), '150', '... some end before');
	is(scalar ask($s, q{SELECT count(*) FROM pgq_claim_any('{q}', 400, session_bound => true)}), '400', '... and more come');
	end_session($s);
	wait_for($node, q{count(*) = 550 FROM pgq_ext.job WHERE attempts = 1});
	is(sql(q{SELECT count(*) FROM pgq_ext.lease}), '300', 'only those that are bound are lost');
}

is(sql('SELECT * FROM pgq_check()'), '', 'memory agrees with the tables');
done_testing();
