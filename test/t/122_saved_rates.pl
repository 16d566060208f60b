# What has started of queues and groups with a rate outlives a clean stop, and is never less than what has started.
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

sub restart
{
	my ($mode) = @_;
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
wait_for_scheduler($node);
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
	wait_for_scheduler($node);
	$node->stop('fast');
	$node->append_conf('standby.signal', '');
	$node->start;
	$node->promote;
	wait_for($node, 'NOT pg_is_in_recovery()');
	is(claimed('led'), '', '... after a promotion how many is not known: the server before may have gone on');
	wait_for_scheduler($node);
	restart('fast');
	is(claimed('led'), '', '... nor after a stop');
}

# ---- more groups than there are entries for ----

{
	my $small = pgq_node('small', conf => "pgq_ext.max_leases = 16\nautovacuum = off\n");
	wait_for_scheduler($small);
	$small->safe_psql('postgres', q{SELECT pgq_create_queue('q', group_rate_limit => 1, rate_period => '1 day')});
	$small->safe_psql('postgres', q{SELECT pgq_enqueue('q', '1', group_key => 'g' || i % 60) FROM generate_series(1, 120) i});
	my @had;
	for my $round (1 .. 6)
	{
		push @had, split /\n/, $small->safe_psql('postgres', q{SELECT group_key, pgq_ack(job_id, lease) FROM pgq_claim('q', 12)});
		wait_for_scheduler($small);
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
wait_for_scheduler($node);
restart('fast');
is(claimed('again', 1), 'g 1', '... one more after a stop');
restart('immediate');
is(claimed('again'), '', '... then a crash: nobody knows how many');
wait_for_scheduler($node);
restart('fast');
is(claimed('again'), '', '... nor after a stop');
like(sql(q{SELECT detail FROM pgq_ext.health WHERE "check" = 'rates'}), qr/again/, '... which the view health says');

# ---- a prepared claim counts, and one that is open when the server stops ----

create_queue($node, 'open', q{rate_limit => 3, rate_period => '1 day'});
sql(q{SELECT pgq_enqueue('open', to_jsonb(i), group_key => 'g') FROM generate_series(1, 20) i});
sql(q{BEGIN; SELECT count(*) FROM pgq_claim('open'); PREPARE TRANSACTION 'p'});
my $session = session($node);
ask($session, q{BEGIN; SELECT count(*) FROM pgq_claim('open')});
wait_for_scheduler($node);
restart('fast');
end_session($session);
is(claimed('open'), 'g 1', 'of three, one was prepared and one was open when the server was stopped');
sql(q{ROLLBACK PREPARED 'p'});
is(claimed('open'), '', '... rolled back it counts all the same');

done_testing();
