# Functions and operators of others beside the functions of the router, and beside those of pgq_ext on the shards: none of them
# runs when a superuser creates the router, manages its shards, or calls what it has.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use ShadowTest;
use ShardTest;

my $shards = shard_node('shards');
my $front  = shard_node('front');
my ($share) = run_command([ 'pg_config', '--sharedir' ]);
my ($functions, $operators) = names_in($front, slurp_file("$share/extension/pgq_router--0.2.sql"));
cmp_ok(scalar @$functions, '>', 30, 'the router calls functions of the server');

$_->safe_psql('postgres', 'CREATE ROLE mallory LOGIN') for $shards, $front;
for my $shard (0, 1)
{
	make_shard($shards, $shard);
	$shards->safe_psql('postgres', "ALTER DATABASE s$shard OWNER TO mallory");
	plant_shadows($shards, "s$shard", 'mallory', $functions, $operators);
}
$front->safe_psql('postgres', 'CREATE DATABASE front OWNER mallory');
$front->safe_psql('front', 'CREATE EXTENSION plproxy');
plant_shadows($front, 'front', 'mallory', $functions, $operators);
# Nor is a verb another one because of what stands beside it.
$front->safe_psql('front', 'SET ROLE mallory; CREATE FUNCTION public.pgq_enqueue(int) RETURNS int LANGUAGE sql AS $$ SELECT 1 $$; CREATE FUNCTION public.pgq_claim(int) RETURNS int LANGUAGE sql AS $$ SELECT 1 $$');

my @since = map { -s $_->logfile } $front, $shards;
sub clean
{
	my ($what) = @_;
	clean_of_shadows($front, $since[0], "$what: at the front");
	clean_of_shadows($shards, $since[1], "$what: on the shards");
	return;
}
sub sql { return $front->safe_psql('front', $_[0]) }

sql('CREATE EXTENSION pgq_router');
clean('the extension is created');
sql("SELECT pgq_router_add_shard($_, '" . conninfo_of("s$_", $shards) . "')") for 0, 1;
sql('SELECT pgq_router_assign_slots(ARRAY[1, 3, 5, 7], 1)');
clean('shards are added, and slots assigned');
sql(q{SELECT pgq_create_queue('q', keep_finished => '1 day')});
is(sql(q{SELECT pgq_enqueue('q', '1') > 0}), 't', 'a job is enqueued, beside another pgq_enqueue');
sql($_) for q{SELECT pgq_enqueue('q', '2', group_key => 'g', unique_key => 'k')}, q{SELECT pgq_enqueue_many('q', '[{"payload": 1}, {"payload": 2, "unique_key": "m"}]')},
  q{SELECT pgq_ack(job_id, lease, '1') FROM pgq_claim('q')}, q{SELECT pgq_fail(job_id, lease, 'x') FROM pgq_claim_any('{q}')}, q{SELECT pgq_release(job_id, lease) FROM pgq_claim('q')},
  q{SELECT pgq_schedule('s', '@yearly', 'q')}, q{SELECT pgq_unschedule('s')}, q{SELECT pgq_lock('l')}, q{SELECT pgq_run_once('r', '1 day')}, q{SELECT pgq_create_rate('rate', 1, '1 s')}, q{SELECT pgq_take('rate')},
  q{SELECT pgq_pause_queue('q')}, q{SELECT pgq_resume_queue('q')}, q{SELECT pgq_grant('q', 'pg_monitor', '{inspect}')}, q{SELECT pgq_check()}, q{SELECT pgq_purge_queue('q')};
clean('the functions of pgq_ext are called');
my @views = split /\n/, sql(q{SET search_path = pg_catalog; SELECT format('%I.%I', relnamespace::regnamespace, relname) FROM pg_class WHERE relnamespace IN ('pgq_ext'::regnamespace, 'pgq_router'::regnamespace) AND relkind = 'v'});
cmp_ok(scalar @views, '>', 10, 'there are views');
sql("TABLE $_") for @views;
clean('they are read');
sql(q{SELECT pgq_drop_queue('q', force => true)});
sql('SELECT pgq_router_assign_slots(ARRAY[1, 3, 5, 7], NULL)');
# Names of locks and runs are there, which it asks for.
is((sqlstate($front, 'SELECT pgq_router_assign_slots(ARRAY[1, 3, 5, 7], 0)', 'front'))[0], '55006', 'slots that are in use stay');
is(sql('SELECT pgq_router_remove_shard(1)'), 't', 'a shard is removed');
clean('slots are moved, and a shard removed');

$_->stop for $front, $shards;
done_testing();
