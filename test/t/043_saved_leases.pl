# A planned stop takes no job from its worker: after the start the leases are as they were, unless another worker may
# have been given the job between the stop and the start.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', init => { allows_streaming => 1 }, conf => "max_prepared_transactions = 10\npgq_ext.max_queues = 3\npgq_ext.max_leases = 4000\n");
wait_for_scheduler($node);
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub rows { return map { [ split /\|/ ] } split /\n/, sql($_[0]) }
sub saved { return sql('SELECT count(*) FROM pgq_ext.saved_lease') }
sub offset { return -s $node->logfile }
sub logged { my ($from, $what) = @_; return substr(slurp_file($node->logfile), $from) =~ $what ? 1 : 0 }

sub restart
{
	my ($mode) = @_;
	$node->stop($mode // 'fast');
	$node->start;
	return;
}

sub new_queue
{
	my ($queue, $jobs, $options) = @_;
	create_queue($node, $queue, "lease_time => '1 h'" . ($options // ''));
	sql("SELECT pgq_enqueue('$queue', to_jsonb(i)) FROM generate_series(1, $jobs) i");
	return;
}

my $leases = 'SELECT job_id, lease, queue, attempt, worker, claimed_at FROM pgq_ext.lease ORDER BY job_id';

# ---- who comes first: the scheduler, a client that claims, one that answers ----

new_queue('q', 8);
for my $mode ('smart', 'fast')
{
	my @l = rows(q{SELECT job_id, lease FROM pgq_claim('q', 4, worker => 'w')});
	sql("SELECT pgq_extend(job_id, lease, '2 h') FROM pgq_ext.lease");
	my $before = sql($leases);
	my $from = offset();
	restart($mode);
	is(sql($leases), $before, "$mode stop: the leases are there, as they were");
	is(logged($from, qr/has saved \d+ leases of database/), 1, '... and the log told');
	is(sql(q{SELECT count(*) FROM pgq_ext.lease WHERE lease_expires_at BETWEEN clock_timestamp() + interval '1 h' AND clock_timestamp() + interval '2 h' AND NOT in_transaction}), scalar(@l), '... with the time they had left');
	is(sql('SELECT count(*), count(pid) FROM pgq_ext.lease'), '4|0', '... of no process');
	is(sql("SELECT pgq_extend($l[0][0], $l[0][1]) - clock_timestamp() BETWEEN '1 h 59 min' AND '2 h'"), 't', '... one can be extended, by the length that was asked for last');
	is(sql("SELECT pgq_ack($l[0][0], $l[0][1])"), '', '... and acknowledged');
	is(sql("SELECT pgq_fail($l[1][0], $l[1][1], 'no')"), 'retry', '... one fails');
	is(sql("SELECT count(*) FROM pgq_ack_many('{$l[2][0],$l[3][0]}', '{$l[2][1],$l[3][1]}')"), '2', '... and many can be acknowledged');
	is(sqlstate($node, "SELECT pgq_ack($l[0][0], $l[0][1])"), 'PQ001', '... once');
	is(sql('SELECT * FROM pgq_check()'), '', '... pgq_check() finds nothing');
	wait_for($node, 'count(*) = 0 FROM pgq_ext.saved_lease');
	pass('... and what was saved is deleted');
	wait_for($node, "count(*) = 0 FROM pgq_ext.lease");
}
is(sql(q{SELECT string_agg(attempt::text, ' ' ORDER BY attempt) FROM pgq_claim('q', 10, wait => '10 s')}) =~ /^2/ ? 1 : 0, 1, 'what failed comes as a second attempt');
sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease');
is(scalar drain($node, 'q'), 1, 'nothing is lost') if sql('SELECT count(*) FROM pgq_ext.job') eq '1';
drain($node, 'q');

my $no_worker = 'max_worker_processes = 1';
for my $verb ('pgq_claim', 'pgq_extend', 'pgq_ack', 'pgq_ack_many', 'pgq_fail', 'view', 'copy')
{
	sql(q{SELECT pgq_enqueue('q', '1') FROM generate_series(1, 2)});
	wait_for_scheduler($node);
	my ($l) = rows(q{SELECT job_id, lease FROM pgq_claim('q')});
	$node->stop('fast');
	$node->append_conf('postgresql.conf', $no_worker);
	$node->start;
	my ($id, $lease) = @$l;
	isnt(sql(q{SELECT job_id FROM pgq_claim('q')}), $id, 'without a scheduler: who claims first does not get it') if $verb eq 'pgq_claim';
	isnt(sql("SELECT pgq_extend($id, $lease)"), '', '... who extends first has it') if $verb eq 'pgq_extend';
	is(sqlstate($node, "SELECT pgq_ack($id, $lease)"), '', '... who acknowledges first') if $verb eq 'pgq_ack';
	is(sql("SELECT count(*) FROM pgq_ack_many('{$id}', '{$lease}')"), '1', '... many') if $verb eq 'pgq_ack_many';
	is(sql("SELECT pgq_fail($id, $lease)"), 'retry', '... who fails first') if $verb eq 'pgq_fail';
	is(sql("BEGIN READ ONLY; SELECT count(*) FROM pgq_ext.lease WHERE job_id = $id; COMMIT"), '1', '... who looks first, in a read-only transaction') if $verb eq 'view';
	is(sql("COPY (SELECT count(*) FROM pgq_ext.lease) TO STDOUT"), '1', '... and who copies') if $verb eq 'copy';
	$node->adjust_conf('postgresql.conf', 'max_worker_processes', '16');
	restart();
	wait_for_scheduler($node);
	sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease');
	drain($node, 'q');
}

# ---- whoever could have been given a job since voids it ----

sub claim_two { sql(q{SELECT pgq_enqueue('q', '1') FROM generate_series(1, 2)}); return rows(q{SELECT job_id, lease FROM pgq_claim('q', 2)}) }
sub clean { sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease'); drain($node, 'q'); return }

{
	my @l = claim_two();
	$node->stop('immediate');
	$node->start;
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '0', 'a crash saves nothing');
	is(sql("SELECT count(*) FROM pgq_claim('q', 2)"), '2', '... the jobs go out again');
	clean();

	# Saved, restored, claimed since; then a crash.
	@l = claim_two();
	restart();
	wait_for_scheduler($node);
	sql(q{SELECT pgq_enqueue('q', '1')});
	is(sql(q{SELECT count(*) FROM pgq_claim('q')}), '1', 'a job is handed out after the start');
	$node->stop('immediate');
	$node->start;
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '0', '... then a crash: what was saved before is void');
	clean();

	# As above, without a scheduler that could have deleted or voided it; first without a claim in between.
	@l = claim_two();
	$node->stop('fast');
	$node->append_conf('postgresql.conf', $no_worker);
	$node->start;
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '2', 'restored');
	sql("SELECT pgq_ack($l[0][0], $l[0][1])");
	$node->stop('immediate');
	$node->start;
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '1', 'a crash, but nothing was handed out since: restored again, without what was acknowledged');
	is(sql("SELECT pgq_fail($l[1][0], $l[1][1], retry_in => '0')"), 'retry', '... one fails');
	$node->stop('immediate');
	$node->start;
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '0', '... and is not restored, since its end is written in its row');
	is(sql(q{SELECT job_id FROM pgq_claim('q')}), $l[1][0], '... but handed out');
	isnt(saved(), '0', '... with the rows still there');
	sql(q{SELECT pgq_enqueue('q', '1') FROM generate_series(1, 3)});
	$node->stop('immediate');
	$node->start;
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '0', 'a claim since: nothing is restored');
	$node->adjust_conf('postgresql.conf', 'max_worker_processes', '16');
	restart();
	wait_for_scheduler($node);
	clean();
	wait_for($node, 'count(*) = 0 FROM pgq_ext.saved_lease');

	# Terminated, but the server goes on: nothing is saved, and nobody notices.
	@l = claim_two();
	my $scheduler = wait_for_scheduler($node);
	sql("SELECT pg_terminate_backend($scheduler, 60000)");
	is(saved(), '0', 'a scheduler that is terminated saves nothing');
	wait_for_scheduler($node, 'postgres', $scheduler);
	clean();
}

# An old copy: it has been saved before the server went on, which a copy of the stopped server cannot know.
{
	my @l = claim_two();
	$node->stop('fast');
	$node->backup_fs_cold('cold');
	$node->start;
	my $copy = PostgreSQL::Test::Cluster->new('copy');
	$copy->init_from_backup($node, 'cold');
	$copy->start;
	is($copy->safe_psql('postgres', "SELECT count(*) FROM pgq_ack_many('{$l[0][0]}', '{$l[0][1]}')"), '1', 'a copy of the stopped server goes on where it stood');
	$copy->stop;
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '2', '... as the server itself');
	clean();
}

# ---- transactions that are open when the server stops ----

{
	sql(q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 6) i});
	my ($claiming, $acking, $failing) = map { session($node) } 1 .. 3;
	my @l = rows(q{SELECT job_id, lease FROM pgq_claim('q', 3)});
	ask($claiming, q{BEGIN; SELECT * FROM pgq_claim('q')});
	ask($acking, "BEGIN; SELECT pgq_ack($l[0][0], $l[0][1])");
	ask($failing, "BEGIN; SELECT pgq_fail($l[1][0], $l[1][1])");
	restart();
	end_session($_) for $claiming, $acking, $failing;
	is(sql('SELECT string_agg(job_id::text, $$ $$ ORDER BY job_id) FROM pgq_ext.lease'), join(' ', map { $_->[0] } @l), 'open acks are undone, and their leases saved');
	is(sql("SELECT count(*) FROM pgq_ack_many('{" . join(',', map { $_->[0] } @l) . "}', '{" . join(',', map { $_->[1] } @l) . "}')"), '3', '... and valid');
	my %attempts;
	for (1 .. 60)
	{
		$attempts{ $_->[0] }++ for rows(q{SELECT attempt, last_error FROM pgq_claim('q', 10, wait => '1 s')});
		last if $attempts{2};
	}
	is(join(' ', map { "$_:$attempts{$_}" } sort keys %attempts), '1:2 2:1', 'an open claim is undone, and counted after the start');
	clean();
}

# Lost and not yet counted: somebody has locked the row.
{
	my ($s, $claiming) = map { session($node) } 1 .. 2;
	sql(q{SELECT pgq_enqueue('q', '1')});
	my $id = ask($claiming, q{BEGIN; SELECT job_id FROM pgq_claim('q', lease_time => '1 s')});
	ask($s, "BEGIN; SELECT job_id FROM pgq_ext.job WHERE job_id = $id FOR UPDATE");
	ask($claiming, 'COMMIT');
	end_session($claiming);
	wait_for($node, "count(*) = 1 FROM pgq_ext.lease_entries() WHERE state = 'lost'");
	restart();
	end_session($s);
	my $error = '';
	for (1 .. 60)
	{
		$error = sql(q{SELECT attempt || last_error FROM pgq_claim('q', wait => '1 s')});
		last if $error ne '';
	}
	is($error, '2the lease expired', 'a lost lease is counted after the start');
	clean();
}

# ---- prepared transactions ----

for my $end ('COMMIT', 'ROLLBACK')
{
	for my $when ('before', 'after')
	{
		sql(q{SELECT pgq_enqueue('q', to_jsonb(i)) FROM generate_series(1, 4) i});
		my ($ack, $fail, $other) = rows(q{SELECT job_id, lease FROM pgq_claim('q', 3)});
		my ($claimed) = rows(qq{BEGIN; SELECT job_id, lease FROM pgq_claim('q'); SELECT pgq_fail($fail->[0], $fail->[1], retry_in => '1 h') AS failed \\gset
			SELECT count(*) AS acked FROM pgq_ack_many('{$ack->[0]}', '{$ack->[1]}') \\gset
			PREPARE TRANSACTION 'p'});
		$node->stop('fast');
		$node->append_conf('postgresql.conf', $no_worker) if $when eq 'before';
		$node->start;
		my $what = "prepared claim, ack and failure, $end $when the database is attached";
		if ($when eq 'after')
		{
			is(sql('SELECT count(*), count(*) FILTER (WHERE in_transaction) FROM pgq_ext.lease'), '4|3', "$what: held");
			like(sqlstate($node, "SET lock_timeout = '300 ms'; SELECT pgq_ack($_->[0], $_->[1])"), qr/^55P03$/, '... an ack waits for its end') for $claimed, $ack, $fail;
		}
		sql("$end PREPARED 'p'");
		if ($end eq 'COMMIT')
		{
			is(sql("SELECT count(*) FROM pgq_ack_many('{$claimed->[0],$other->[0],$ack->[0],$fail->[0]}', '{$claimed->[1],$other->[1],$ack->[1],$fail->[1]}')"), '2', "$what: the claim stands, the others have ended");
			is(sql('SELECT count(*), max(attempts) FROM pgq_ext.job'), '1|1', '... the failure is written');
			sql('DELETE FROM pgq_ext.job');
		}
		else
		{
			# The claim is lost as soon as somebody has looked; the others are as before.
			is(sql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM pgq_ack_many('{$other->[0],$ack->[0],$fail->[0]}', '{$other->[1],$ack->[1],$fail->[1]}') id"), join(' ', sort { $a <=> $b } $other->[0], $ack->[0], $fail->[0]), "$what: ack and failure are undone");
			is(sqlstate($node, "SELECT pgq_ack($claimed->[0], $claimed->[1])"), 'PQ001', '... the claim is lost');
		}
		$node->adjust_conf('postgresql.conf', 'max_worker_processes', '16') if $when eq 'before';
		restart() if $when eq 'before';
		wait_for_scheduler($node);
		is(sql('SELECT * FROM pgq_check()'), '', '... pgq_check() finds nothing');
		if ($end eq 'ROLLBACK')
		{
			my $again = '';
			for (1 .. 60)
			{
				$again = sql(q{SELECT attempt, last_error FROM pgq_claim('q', wait => '1 s')});
				last if $again ne '';
			}
			is($again, '2|the claiming transaction was rolled back or its session ended', '... and counted');
		}
		clean();
	}
}

# ---- bounds ----

{
	sql(q{SELECT count(pgq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 3000) i});
	my @l = rows(q{SELECT job_id, lease FROM pgq_claim('q', 3000)});
	my $all = q{SELECT md5(string_agg(job_id || ':' || lease, ' ' ORDER BY job_id)) FROM pgq_ext.lease};
	my $before = sql($all);
	restart();
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '3000', 'many leases');
	is(sql($all), $before, '... each with its token');
	$node->append_conf('postgresql.conf', 'pgq_ext.max_leases = 1000');
	restart();
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '1000', 'a smaller table has room for some');
	is(sql('SELECT * FROM pgq_check()'), '', '... pgq_check() finds nothing');
	sql('SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease');
	is(scalar drain($node, 'q'), 2000, '... the others go out again');
	$node->append_conf('postgresql.conf', "pgq_ext.max_leases = 4000\npgq_ext.max_queues = 1");
	new_queue('r', 0);
	sql(q{SELECT pgq_enqueue('r', '1')});
	my ($l) = rows(q{SELECT job_id, lease FROM pgq_claim('r')});
	my @q = claim_two();
	restart();
	is(sql('SELECT count(*) FROM pgq_ext.lease') =~ /^[12]$/ ? 1 : 0, 1, 'a queue without a slot: its leases are left out');
	$node->append_conf('postgresql.conf', 'pgq_ext.max_queues = 3');
	restart();
	clean();
	drain($node, 'r');
	sql(q{SELECT pgq_drop_queue('r', force => true)});
}

# Two databases, one without leases.
{
	sql('CREATE DATABASE other');
	$node->safe_psql('other', 'CREATE EXTENSION pgq_ext');
	create_queue($node, 'o', "lease_time => '1 h'", 'other');
	$node->safe_psql('other', q{SELECT pgq_enqueue('o', '1')});
	my ($id, $lease) = split /\|/, $node->safe_psql('other', q{SELECT job_id, lease FROM pgq_claim('o')});
	wait_for_scheduler($node, 'other');
	wait_for($node, 'count(*) = 0 FROM pgq_ext.saved_lease');
	my $lsn = sql('SELECT pg_current_wal_lsn()');
	restart();
	is($node->safe_psql('other', "SELECT count(*) FROM pgq_ack_many('{$id}', '{$lease}')"), '1', 'another database: restored');
	is(saved(), '0', '... and nothing written in this one');
	sql('DROP DATABASE other');
}

# The job is gone, or somebody has changed it, when the lease is restored.
{
	my @l = claim_two();
	$node->stop('fast');
	$node->append_conf('postgresql.conf', $no_worker);
	$node->start;
	sql("DELETE FROM pgq_ext.job WHERE job_id = $l[0][0]");
	sql("UPDATE pgq_ext.job SET priority = 3 WHERE job_id = $l[1][0]");
	is(sql('SELECT job_id FROM pgq_ext.lease'), $l[1][0], 'a job that was deleted meanwhile has no lease');
	is(sql("SELECT pgq_ack($l[1][0], $l[1][1])"), '', '... one that was changed has');
	$node->adjust_conf('postgresql.conf', 'max_worker_processes', '16');
	restart();
}

# ---- switchover ----

{
	wait_for_scheduler($node);
	$node->backup('b');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'b', has_streaming => 1);
	$standby->start;
	# It streams: a fast stop sends it the rest.
	$node->wait_for_catchup($standby);
	my @l = claim_two();
	$node->stop('fast');
	$standby->promote;
	is($standby->safe_psql('postgres', "SELECT count(*) FROM pgq_ack_many('{$l[0][0]}', '{$l[0][1]}')"), '1', 'a standby promoted after a clean stop of the primary has the leases');
	is($standby->safe_psql('postgres', 'SELECT count(*) FROM pgq_ext.lease'), '1', '... and keeps them');
	$standby->stop;
}

# Not dumped.
$node->start;
{
	my ($out) = run_command([ 'pg_dump', '--data-only', '-t', 'pgq_ext.*', $node->connstr('postgres') ]);
	unlike($out, qr/\bsaved_lease\b/, 'saved leases are not dumped');
}
clean();

# An index would miss what is written there.
{
	sql('ALTER TABLE pgq_ext.saved_lease ADD PRIMARY KEY (job_id, lease)');
	claim_two();
	$node->stop('fast');
	like(slurp_file($node->logfile), qr/LOG:  leases are not saved: table "pgq_ext.saved_lease" has an index/, 'with an index nothing is saved, and the log tells');
	$node->start;
	is(sql('SELECT count(*) FROM pgq_ext.lease'), '0', '... so there is none');
	sql('ALTER TABLE pgq_ext.saved_lease DROP CONSTRAINT saved_lease_pkey');
	clean();
	claim_two();
	$node->restart;
	cmp_ok(sql('SELECT count(*) FROM pgq_ext.lease'), '>', 0, 'without it they are again');
}
clean();
$node->stop;
done_testing();
