# The hand-outs that rate limits of queues and groups count, and the permits taken of named rates, survive a clean
# stop. The restored numbers are never below the real ones.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "autovacuum = off\nmax_prepared_transactions = 5\nwal_level = replica\nrestore_command = 'false'\n");
wait_for_scheduler($node);
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub claimed { my ($queue, $n) = @_; return sql("SELECT string_agg(DISTINCT group_key || ' ', '' ORDER BY group_key || ' ') || count(*) FROM pgq_claim('$queue', " . ($n // 100) . ') HAVING count(*) > 0') }

# A scheduler that would save at a stop.
sub wait_until_served
{
	my ($served) = @_;
	wait_for_scheduler($served);
	wait_for($served, 'bool_or(last_run_at IS NOT NULL) FROM pgq_ext.duty');
	return;
}

sub stop_and_promote
{
	my ($server) = @_;
	wait_until_served($server);
	$server->stop('fast');
	$server->append_conf('standby.signal', '');
	$server->start;
	$server->promote;
	wait_for($server, 'NOT pg_is_in_recovery()');
	return;
}

sub restart
{
	my ($mode) = @_;
	wait_until_served($node);
	$node->stop($mode);
	$node->start;
	return;
}

create_queue($node, 'daily', q{rate_limit => 5, rate_period => '1 day'});
create_queue($node, 'groups', q{group_rate_limit => 2, rate_period => '1 day'});
create_queue($node, 'both', q{rate_limit => 3, group_rate_limit => 2, rate_period => '1 day'});
sql(qq{SELECT pgq_enqueue('$_', to_jsonb(i), group_key => 'g' || i % 3) FROM generate_series(1, 60) i}) for 'daily', 'groups', 'both';

# ---- a clean stop ----

is(claimed('daily', 2), 'g1 g2 2', 'two of five start');
is(claimed('groups', 4), 'g0 g1 g2 4', '... of the groups one two, the others one each');
is(claimed('both', 1), 'g1 1', '... one of three');
for my $mode ('fast', 'smart')
{
	restart($mode);
	is(sql(q{SELECT status FROM pgq_ext.health WHERE "check" = 'rates'}), 'ok', "$mode stop: no queue stands still") if $mode eq 'fast';
}
is(claimed('daily'), 'g0 g1 g2 3', 'three of five are left after two clean stops');
is(claimed('groups'), 'g0 g2 2', '... of the groups what each has left');
is(claimed('both'), 'g0 g2 2', '... two of three');
restart('fast');
is(claimed($_), '', "$_: none is left after the next stop") for 'daily', 'groups', 'both';
sql(q{SELECT pgq_enqueue('groups', '1', group_key => 'other')});
is(claimed('groups'), 'other 1', '... but of a group of which nothing had started');
is(sql('SELECT * FROM pgq_check()'), '', '... pgq_check() finds nothing');

# ---- another server ----

{
	create_queue($node, 'led', q{rate_limit => 5, group_rate_limit => 5, rate_period => '1 day'});
	sql(q{SELECT pgq_enqueue('led', to_jsonb(i), group_key => 'g') FROM generate_series(1, 20) i});
	is(claimed('led', 2), 'g 2', 'two of five start');
	stop_and_promote($node);
	is(claimed('led'), '', '... after a promotion how many is not known: the server before may have gone on');
	restart('fast');
	is(claimed('led'), '', '... nor after a stop');
}

# ---- more groups than there are entries for ----

{
	my $small = pgq_node('small', conf => "pgq_ext.max_leases = 16\nautovacuum = off\n");
	wait_until_served($small);
	$small->safe_psql('postgres', q{SELECT pgq_create_queue('q', group_rate_limit => 1, rate_period => '1 day')});
	$small->safe_psql('postgres', q{SELECT pgq_enqueue('q', '1', group_key => 'g' || i % 60) FROM generate_series(1, 120) i});
	my @had;
	for my $round (1 .. 6)
	{
		push @had, split /\n/, $small->safe_psql('postgres', q{SELECT group_key, pgq_ack(job_id, lease) FROM pgq_claim('q', 12)});
		wait_until_served($small);
		$small->stop('fast');
		$small->start;
	}
	my %times;
	$times{$_}++ for @had;
	cmp_ok(scalar @had, '>=', 12, 'of many groups, few entries: some start');
	is(join(' ', grep { $times{$_} > 1 } sort keys %times), '', '... none twice, whatever stops there are');
	is($small->safe_psql('postgres', 'SELECT * FROM pgq_check()'), '', '... and all is well');
	$small->stop;
}

# ---- what was saved is void as soon as more may have started ----

create_queue($node, 'again', q{rate_limit => 5, rate_period => '1 day'});
sql(q{SELECT pgq_enqueue('again', to_jsonb(i), group_key => 'g') FROM generate_series(1, 20) i});
is(claimed('again', 2), 'g 2', 'two of five start');
restart('fast');
is(claimed('again', 1), 'g 1', '... one more after a stop');
restart('immediate');
is(claimed('again'), '', '... then a crash: nobody knows how many');
restart('fast');
is(claimed('again'), '', '... nor after a stop');
like(sql(q{SELECT detail FROM pgq_ext.health WHERE "check" = 'rates'}), qr/again/, '... which the view health says');

# ---- a prepared claim counts, and one that is open when the server stops ----

create_queue($node, 'open', q{rate_limit => 3, rate_period => '1 day'});
sql(q{SELECT pgq_enqueue('open', to_jsonb(i), group_key => 'g') FROM generate_series(1, 20) i});
sql(q{BEGIN; SELECT count(*) FROM pgq_claim('open'); PREPARE TRANSACTION 'p'});
my $session = session($node);
ask($session, q{BEGIN; SELECT count(*) FROM pgq_claim('open')});
wait_until_served($node);
my $log = -s $node->logfile;
restart('fast');
end_session($session);
# On a machine that is so slow that the session does not end in time nothing is saved, which the log tells.
my $saved = slurp_file($node->logfile, $log) !~ /could not save the state of the rates and rate limits/;
is(claimed('open'), $saved ? 'g 1' : '', 'of three, one was prepared and one was open when the server was stopped');
sql(q{ROLLBACK PREPARED 'p'});
is(claimed('open'), '', '... rolled back it counts all the same');

# ---- rates by name ----

{
	my $rates = pgq_node('rates', conf => "autovacuum = off\nwal_level = replica\nrestore_command = 'false'\n");
	my @names = ('some', 'all', 'reading', 'altered', 'gone');
	my $ask   = sub { return $rates->safe_psql('postgres', $_[0]) };
	my $taken = sub { my ($name) = @_; return $ask->("SELECT count(*) FROM generate_series(1, 10) WHERE pgq_take('$name')") };
	# A scheduler raises the mark soon after the start: where there is no place for one, a take does.
	my $start = sub {
		my ($with) = @_;
		$rates->adjust_conf('postgresql.conf', 'max_worker_processes', $with eq 'scheduler' ? '16' : '1');
		$rates->start;
		return;
	};
	my $again = sub {
		my ($mode) = @_;
		wait_until_served($rates);
		$rates->stop($mode);
		$start->('scheduler');
		return;
	};
	# A clean stop, as if it had gone on for long after what was taken. What is saved is restored twice, since nothing is taken.
	my $make_full = sub {
		my ($with) = @_;
		$ask->("SELECT pgq_take('$_')") for @names;
		wait_until_served($rates);
		$rates->stop('fast');
		$start->('none');
		is($ask->(q{WITH u AS (UPDATE pgq_ext.saved_lease SET remaining = 0 WHERE job_id = 0 AND worker <> '' RETURNING 1) SELECT count(*) FROM u}), '5', 'five rates are saved');
		is($ask->('SELECT count(available) FROM pgq_ext.rate'), '5', '... and restored');
		$rates->stop('immediate');
		$start->($with);
		return;
	};
	$ask->(qq{SELECT pgq_create_rate('$_', 5, '100 days', 5)}) for @names;
	is($taken->($_), '0', "$_: a rate that was made just now is empty") for @names;
	$make_full->('scheduler');
	is($ask->(q{SELECT string_agg(DISTINCT available::text, ' ') FROM pgq_ext.rate}), '5', '... once more after a crash: nothing was taken');
	is($ask->(q{SELECT pgq_take('some', 2)}), 't', 'two of five are taken');
	is($taken->('all'), '5', '... of another one all');
	$ask->(q{UPDATE pgq_ext.rate_limit SET burst = 4 WHERE name = 'altered'});
	$ask->(q{DELETE FROM pgq_ext.rate_limit WHERE name = 'gone'});
	$again->($_) for 'fast', 'smart';
	is($taken->('some'), '3', '... three are left after two clean stops');
	is($taken->('all'), '0', '... of the other one none');
	is($taken->('altered'), '0', '... one that was changed by hand is empty');
	is(sqlstate($rates, q{SELECT pgq_take('gone')}), '42704', '... one that was deleted by hand is not there');
	$ask->(q{INSERT INTO pgq_ext.rate_limit VALUES ('gone', 5, '100 days', 5)});
	$again->('fast');
	is($taken->('some'), '0', '... after the next stop none is left');
	for my $transaction ('READ ONLY', 'READ WRITE')
	{
		$make_full->('none');
		is($ask->("BEGIN $transaction; SELECT pgq_take('reading', 4); COMMIT"), 't', "$transaction: four of five are taken");
		is($ask->('SHOW transaction_read_only'), 'off', '... and nothing else is changed');
		$rates->stop('immediate');
		$start->('scheduler');
		is($taken->($_), '0', "... after a crash how many is not known: $_") for 'reading', 'some';
	}
	is(sqlstate($rates, q{BEGIN READ ONLY; SELECT pgq_take('some'); CREATE TABLE t (); COMMIT}), '25006', '... a transaction that only reads still does');
	$make_full->('scheduler');
	stop_and_promote($rates);
	is($taken->($_), '0', "... nor after a promotion: $_") for 'reading', 'some';
	$rates->stop;
}

done_testing();
