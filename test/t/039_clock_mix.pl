# The clock is set again and again while jobs are enqueued, delayed, failed, lost and acknowledged: no job is lost,
# and no job is handed out before its run_at by the clock of that moment.
use strict;
use warnings;
use PgqTest;
use ClockTest;
use Test::More;

my $node = clock_node('mix', conf => "pgq_ext.window_size = 8\npgq_ext.timer_size = 8\nmax_prepared_transactions = 2\n");
sub sql { my ($sql) = @_; return scalar $node->safe_psql('postgres', $sql) }

srand 38;
create_queue($node, 'mix', q{max_attempts => 1000});
# What others do all the time, for so many rounds.
sql(q{CREATE PROCEDURE churn(rounds int) LANGUAGE plpgsql AS $$
	DECLARE c record;
	BEGIN
		FOR i IN 1 .. rounds LOOP
			PERFORM pgq_enqueue('mix', to_jsonb(i), (random() * 2)::int, delay => make_interval(secs => greatest(0, random() - 0.5)))
				FROM generate_series(1, 3);
			COMMIT;
			FOR c IN SELECT * FROM pgq_claim('mix', 4) LOOP
				IF random() < 0.6 THEN PERFORM pgq_ack(c.job_id, c.lease);
				ELSE PERFORM pgq_fail(c.job_id, c.lease, retry_in => make_interval(secs => random())); END IF;
			END LOOP;
			IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
	END$$});
my $rounds = 300;
my @others = map { session($node) } 1 .. 3;
send_sql($_, "CALL churn($rounds)") for @others;

my ($early, $taken) = (0, 0);
for my $round (1 .. 60)
{
	# Hours, seconds, and less than what counts as set.
	my @range = (7200, 10, 0.5);
	set_clock($node, (rand() - 0.5) * $range[ rand @range ]);
	sql(q{SELECT pgq_enqueue('mix', '"main"', delay => '2 s')}) if $round % 2;
	# A few at a time, for each goes by the clock that was set last.
	my $got = sql(q{SELECT job_id, lease, NOT (run_at <= clock_timestamp() + '1 s' OR run_at <= enqueued_at AND attempt = 1) FROM pgq_claim('mix', 5)});
	for (split /\n/, $got)
	{
		my ($id, $lease, $is_early) = split /\|/;
		$taken++;
		$early++ if $is_early eq 't';
		note "early: $_" if $is_early eq 't';
		sql($id % 2 ? "SELECT pgq_ack($id, $lease)" : "SELECT pgq_fail($id, $lease, retry_in => '1 s')");
	}
	if ($round % 10 == 0)
	{
		sql(qq{BEGIN; SELECT pgq_enqueue('mix', '"prepared"'); PREPARE TRANSACTION 'p$round'});
		set_clock($node, (rand() - 0.5) * 7200);
		sql("COMMIT PREPARED 'p$round'");
	}
}
is($early, 0, "none of $taken jobs was handed out before its time");
for (@others)
{
	my ($out, $err) = reply($_);
	is($err, '', 'no error elsewhere');
	end_session($_);
}

# Later than all that waits.
set_clock($node, 5 * 3600);
my $left = sql('SELECT count(*) FROM pgq_ext.job');
my @ids  = drain($node, 'mix');
cmp_ok(scalar @ids, '>', 0, "what was left is handed out ($left jobs)");
is(sql('SELECT count(*) FROM pgq_ext.job'),      '0', '... all of it');
is(sql('SELECT count(*) FROM pgq_ext.dead_job'), '0', 'no attempts were used up');
is(sql(q{SELECT enqueued = acked AND repaired = 0 FROM pgq_ext.queue_stats WHERE queue = 'mix'}), 't', 'each was done once, and none had been forgotten');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'pgq_check() finds nothing');

$node->stop;
done_testing();
