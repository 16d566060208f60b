# A queue with a rate limit that hands out nothing after a start of the server: the view health names the queue, and
# the remedy that the view names helps.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "autovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub health { return sql(q{SELECT status || ': ' || COALESCE(detail, '') FROM pgq_ext.health WHERE "check" = 'rates'}) }
sub claimed { return sql("SELECT count(*) FROM pgq_claim('$_[0]', 100)") }

create_queue($node, 'daily', q{rate_limit => 5, rate_period => '1 day'});
create_queue($node, 'groups', q{group_rate_limit => 2, rate_period => '1 day'});
create_queue($node, 'short', q{rate_limit => 5, rate_period => '1 s'});
sql(qq{SELECT pgq_enqueue('$_', to_jsonb(i), group_key => 'g' || i % 2) FROM generate_series(1, 20) i}) for 'daily', 'groups', 'short';
is(health(), 'ok: no queue stands still after a start', 'nothing stands still');
is(claimed('daily'), '5', 'as many as may start in a day');
is(claimed('groups'), '4', '... of each group');
is(health(), 'ok: no queue stands still after a start', '... a limit that is used up is no fault');

$node->stop('immediate');
$node->start;
is(claimed($_), '0', "$_: after a crash nobody knows how many have started") for 'daily', 'groups';
claimed('short');
my $health = health();
like($health, qr/^warn: .*queue "$_" has handed out nothing since the start of the server, and will not for (?:1 day )?\d\d:\d\d:\d\d/, "... the view health names $_") for 'daily', 'groups';
unlike($health, qr/short/, '... not one that has to wait for a moment');
like(sql(q{SELECT hint FROM pgq_ext.health WHERE "check" = 'rates'}), qr/rate_limit => 0/, '... with the remedy');

sql(q{SELECT pgq_alter_queue('daily', rate_limit => 0), pgq_alter_queue('groups', group_rate_limit => 0)});
sql(q{SELECT pgq_alter_queue('daily', rate_limit => 5), pgq_alter_queue('groups', group_rate_limit => 2)});
is(claimed('daily'), '5', '... which lets the queue go on at once');
is(claimed('groups'), '4', '... and the groups');
is(health(), 'ok: no queue stands still after a start', '... all is well');

done_testing();
