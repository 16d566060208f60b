# pgq_router: the functions of pgq_ext through PL/Proxy, what cannot go through it, and shards that do not answer.
use strict;
use warnings;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use PgqTest;
use ShardTest;

my ($one, $two) = map { shard_node($_) } 'one', 'two';
my $front = shard_node('front');
my %node = (0 => $one, 1 => $one, 2 => $two, 3 => $two);
make_shard($node{$_}, $_) for sort keys %node;
make_router($front, 'front');

sub sql { return $front->safe_psql('front', $_[0]) }
sub on  { my ($shard, $sql) = @_; return $node{$shard}->safe_psql("s$shard", $sql) }

# (SQLSTATE, what else was said) at the front; PL/Proxy has something to say of connections that it closes.
sub says { return sqlstate($front, $_[0], 'front') }

sub error_ok
{
	my ($what, $statement, $state, @patterns) = @_;
	my ($got, $said) = says($statement);
	is($got, $state, "$what: $state") or diag($said);
	like($said, $_, '... and why') for @patterns;
	return;
}

# ---- shards ----

error_ok('no shard yet', q{SELECT pgq_enqueue('q', '1')}, '55000', qr/there are no shards/, qr/HINT:.*pgq_router_add_shard/);
error_ok('a number that the database has not', "SELECT pgq_router_add_shard(7, '${\conninfo_of('s1', $one)}')", '55000', qr/It is shard 1\./);
error_ok('no number', "SELECT pgq_router_add_shard(7, '${\conninfo_of('postgres', $one)}')", '', qr/WARNING.*shard 7 does not answer yet.*\n.*relation "pgq_ext.shard" does not exist/);
sql('SELECT pgq_router_remove_shard(7, force => true)');
error_ok('a password', q{SELECT pgq_router_add_shard(1, 'host=a password=secret')}, '22023', qr/HINT:.*passfile/);
error_ok('... of a key', q{SELECT pgq_router_add_shard(1, 'host=a sslpassword=secret')}, '22023', qr/HINT:.*passfile/);
error_ok('... behind a quote', q{SELECT pgq_router_add_shard(1, 'host=''a''password=secret')}, '22023', qr/HINT:.*passfile/);
error_ok('a URI',      q{SELECT pgq_router_add_shard(1, 'postgresql://a/b')},       '22023', qr/keywords and values/);
error_ok('no such number', q{SELECT pgq_router_add_shard(1024, 'dbname=a')}, '22023', qr/from 0 to 1023/);
sql("SELECT pgq_router_add_shard($_, '${\conninfo_of(qq(s$_), $node{$_})}')") for sort keys %node;
is(sql('SELECT shard, slots, reachable, error FROM pgq_router.shard_status'), "0|64|t|\n1|0|t|\n2|0|t|\n3|0|t|", 'the first shard has all slots');
sql('SELECT pgq_router_assign_slots(array(SELECT slot FROM pgq_router.slot WHERE slot % 4 = s), s) FROM generate_series(1, 3) s');
is(sql('SELECT string_agg(slots::text, $$ $$) FROM pgq_router.shard_status'), '16 16 16 16', '... and gives them away');

# ---- the same functions ----

my $signatures = q{SELECT proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid) FROM pg_proc p
	WHERE pronamespace = 'public'::regnamespace AND proname ~ '^pgq_' AND proname !~ '^pgq_(router_|set_shard)' ORDER BY 1};
is(sql($signatures), on(0, $signatures), 'the functions of pgq_ext, with the same arguments and results');
is(sql(q{SELECT string_agg(proname, ' ') FROM pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) x
	WHERE pronamespace = 'public'::regnamespace AND proname ~ '^pgq_' AND x.grantee = 0}), '', '... for nobody at first');
is(sql(q{SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p WHERE pronamespace::regnamespace::text ~ '^pgq_|^public$' AND proname !~ '^plproxy' AND obj_description(p.oid) IS NULL}), '', '... with comments');
my $columns = q{SELECT c.relname, string_agg(attname || ' ' || replace(format_type(atttypid, atttypmod), 'regclass', 'text'), ', ' ORDER BY attnum)
	FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attname <> ALL ('%s')
	WHERE relnamespace = 'pgq_ext'::regnamespace AND relname = ANY ('{%s}') GROUP BY 1 ORDER BY 1};
my $views = sql(q{SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace AND relkind = 'v'});
# A shard that was updated from version 0.1 may lack the columns batch_id and parents, so the router does not ask for them.
is(sql(sprintf $columns, '{shard,shards}', $views), on(0, sprintf $columns, '{batch_id,parents}', $views), 'the same views, and a number of the shard, or how many');
is(sql("SELECT count(*) FROM (SELECT * FROM pgq_ext.$_) v") =~ /^\d+$/, 1, "the view $_ can be read") for split /,/, $views;

# ---- queues ----

is(sql(q{SELECT pgq_create_queue('q', keep_finished => '1 day', backoff_base => '0')}), 't', 'a queue is created');
is(sql(q{SELECT count(*) FROM pgq_ext.queue WHERE queue = 'q'}), '4', '... on all shards');
on(2, q{SELECT pgq_create_queue('there')});
error_ok('a queue that is on one of them', q{SELECT pgq_create_queue('there')}, '42710', qr/shard 2: queue "there" already exists/, qr/DETAIL:.*done on shards 0, 1; not on 2, 3\./, qr/HINT:.*if_not_exists/);
is(sql(q{SELECT pgq_create_queue('there', if_not_exists => true)}), 't', '... can be created on the others');
is(sql(q{SELECT pgq_drop_queue('there')}), 't', '... and dropped');
sql(q{SELECT pgq_alter_queue('q', max_attempts => 3); SELECT pgq_rename_queue('q', 'r'); SELECT pgq_rename_queue('r', 'q'); SELECT pgq_pause_queue('q')});
is(sql(q{SELECT count(*) FROM pgq_ext.queue WHERE queue = 'q' AND max_attempts = 3 AND paused}), '4', 'it is altered and paused everywhere');
sql(q{SELECT pgq_resume_queue('q')});
is(sql(q{SELECT paused, shards FROM pgq_ext.queue_status}), 'f|4', '... and resumed');

# ---- jobs: where they go ----

my @keys = map { "key $_" } 1 .. 100;
my %of = map { $_ => sql("SELECT pgq_router.shard_of('$_')") } @keys;
is(join(' ', sort keys %{ { reverse %of } }), '0 1 2 3', 'keys are on all shards');
is(join(' ', map { sql("SELECT pgq_enqueue('q', '1', group_key => '$_') % 1024") } @keys[ 0 .. 9 ]), join(' ', map { $of{$_} } @keys[ 0 .. 9 ]), 'a job is where its group is');
is(join(' ', map { sql("SELECT pgq_enqueue('q', '1', unique_key => '$_') % 1024") } @keys[ 0 .. 9 ]), join(' ', map { $of{$_} } @keys[ 0 .. 9 ]), '... or its unique key');
is(sql("SELECT pgq_enqueue('q', '1', unique_key => '$keys[0]')"), sql("SELECT job_id FROM pgq_ext.job_status WHERE unique_key = '$keys[0]'"), '... which it meets there');
my %any = map { sql(q{SELECT pgq_enqueue('q', '1') % 1024}) => 1 } 1 .. 60;
is(join(' ', sort keys %any), '0 1 2 3', 'without a key it goes anywhere');
is(sql(q{SELECT count(DISTINCT id % 1024), count(*) FROM generate_series(1, 20), pgq_enqueue('q', to_jsonb(1)) id}), '1|20', '... in one transaction to one of them');
my $many = join ', ', map { qq({"payload": $_, "group_key": "$keys[$_]"}) } 0 .. 99;
is(sql(qq{SELECT string_agg((id % 1024)::text, ' ' ORDER BY n) FROM pgq_enqueue_many('q', '[$many, {"payload": 100}]') WITH ORDINALITY m (id, n) WHERE n <= 100}), join(' ', map { $of{$_} } @keys), 'in bulk each goes to its shard');
is(sql(q{SELECT count(*) FROM pgq_enqueue_many('q', '[]')}), '0', '... none nowhere');
my %place = map { split /\|/ } split /\n/, sql(qq{SELECT id, n - 1 FROM pgq_enqueue_many('q', '[$many]') WITH ORDINALITY m (id, n)});
my %payload = map { split /\|/ } map { split /\n/, on($_, q{SELECT job_id, payload FROM pgq_ext.job}) } sort keys %node;
is(join(' ', map { $payload{$_} } sort { $place{$a} <=> $place{$b} } keys %place), join(' ', 0 .. 99), '... and the ids come in the order of the array');
error_ok('bulk that is none', q{SELECT pgq_enqueue_many('q', '{}')}, '22023', qr/jobs must be a JSON array/);
error_ok('bulk with a bad one', qq{SELECT pgq_enqueue_many('q', '[{"payload": 1, "group_key": "$keys[0]"}, {"payload": 2, "group_key": "$keys[0]", "priority": "high"}]')}, '22023', qr/shard $of{$keys[0]}: .*priority/, qr/had jobs 1, 2\. Jobs enqueued on other shards: none/);
error_ok('an unknown queue', q{SELECT pgq_enqueue('nothing', '1')}, '42704', qr/shard \d: queue "nothing" does not exist/);
sql(q{SELECT pgq_purge_queue('q')});
is(sql('SELECT count(*) FROM pgq_ext.job_status'), '0', 'all are purged');

# ---- a job's life ----

my $claim = q{SELECT job_id, lease FROM pgq_claim('q')};
my $id = sql(qq{SELECT pgq_enqueue('q', '{"n": 1}', group_key => '$keys[0]', headers => '{"h": 1}')});
my ($job, $lease) = split /\|/, sql(q{SELECT job_id, lease, payload ->> 'n', headers ->> 'h', attempt, group_key FROM pgq_claim('q', worker => 'me')});
is($job, $id, 'it is claimed, wherever it is');
is(sql("SELECT worker, shard FROM pgq_ext.lease WHERE job_id = $id AND lease = $lease"), "me|$of{$keys[0]}", '... by that worker');
is(sql("SELECT pgq_extend($id, $lease, '1 hour') > now() + '59 min'"), 't', '... its lease extended');
sql(qq{SELECT pgq_progress($id, $lease, '"half"')});
is(sql("SELECT progress FROM pgq_ext.job_status WHERE job_id = $id"), '"half"', '... its progress noted');
is(sql("SELECT pgq_fail($id, $lease, 'no luck', retry_in => '1 hour')"), 'retry', '... it fails');
is(sql("SELECT pgq_update($id, payload => '2', headers => '{}')"), 't', '... is changed');
is(sql("SELECT pgq_retry($id)"), 't', '... tried again');
(undef, $lease) = split /\|/, sql($claim);
is(sql("SELECT pgq_release($id, $lease)"), 't', '... given back');
(undef, $lease) = split /\|/, sql($claim);
sql(qq{SELECT pgq_ack($id, $lease, '{"result": 7}')});
is(sql("SELECT state, result ->> 'result' FROM pgq_result($id)"), 'acked|7', '... done');
is(sql("SELECT step FROM pgq_explain($id) LIMIT 1"), 'finished', '... and explained');
error_ok('a stale lease', "SELECT pgq_ack($id, $lease)", 'PQ001', qr/shard $of{$keys[0]}: lease $lease of job $id is not current/, qr/HINT:  Roll back/);
$id = sql(q{SELECT pgq_enqueue('q', '1')});
is(sql("SELECT pgq_cancel($id)"), 'ready', 'a job is cancelled');
is(sql("SELECT pgq_cancel($id) IS NULL"), 't', '... once');
error_ok('an id of no shard', 'SELECT pgq_cancel(1029)', '42704', qr/there is no shard 5/, qr/Shards: 0, 1, 2, 3/);
error_ok('no id', 'SELECT pgq_cancel(NULL)', '22004', qr/job_id must not be null/);

sql(qq{SELECT pgq_enqueue_many('q', '[$many]')});
is(sql(q{SET pgq_router.across_shards = on; WITH c AS MATERIALIZED (SELECT * FROM generate_series(1, 40) g, LATERAL (SELECT g AS n, * FROM pgq_claim('q', g * 0 + 10)) p)
	SELECT count(*), count(DISTINCT id % 1024) FROM pgq_ack_many((SELECT array_agg(job_id) FROM c), (SELECT array_agg(lease) FROM c)) id}), '100|4', 'all are claimed in bulk, and acknowledged on all shards at once');
is(sql('SELECT count(*) FROM pgq_ack_many(NULL, NULL)'), '0', '... none is nothing to do');
error_ok('arrays that differ', q{SELECT pgq_ack_many('{1,2}', '{1}')}, '22023', qr/same number/);
error_ok('a NULL in them', q{SELECT pgq_ack_many('{1,NULL}', '{1,1}')}, '22004');
is(sql(q{SELECT count(*) FROM pgq_ack_many('{1,2,1029}', '{1,1,1}')}), '0', '... stale ones, and ids of no shard, are left out');
sql(qq{SELECT pgq_enqueue_many('q', '[$many]')});
is(sql(q{SET pgq_router.across_shards = on; SELECT count(*), count(DISTINCT id % 1024) FROM pgq_finish(ARRAY(SELECT job_id FROM pgq_ext.job_status WHERE queue = 'q')) id}), '100|4', 'jobs are ended by their ids on all shards at once');
is(sql('SELECT count(*) FROM pgq_finish(NULL)'), '0', '... none is nothing to do');
error_ok('a NULL in the ids', q{SELECT pgq_finish('{1,NULL}')}, '22004');
is(sql(q{SELECT count(*) FROM pgq_finish('{1,2,1029}')}), '0', '... jobs that have ended, and ids of no shard, are left out');
my ($x, $y) = grep { $of{$_} != $of{ $keys[0] } } @keys;
my @both = map { sql("SELECT pgq_enqueue('q', '1', group_key => '$_')") } $keys[0], $x;
is(sql("SELECT string_agg(r.state, ' ') FROM unnest(ARRAY[$both[0], $both[1]]) j, pgq_result(j) r"), 'ready ready', 'results of jobs on two shards in one statement');
my @leases = map { on($of{$_}, q{SELECT lease FROM pgq_claim('q')}) } $keys[0], $x;
error_ok('acknowledging over shards and claiming', "SELECT pgq_ack_claim('{$both[0],$both[1]}', '{$leases[0],$leases[1]}', 'q')", '0A000', qr/HINT:.*pgq_ack_many/);
is(sql("SELECT count(*) FROM pgq_ack_claim('{$both[0]}', '{$leases[0]}', 'q')"), '0', '... on one it can be');
sql(qq{SELECT pgq_enqueue('q', '1', group_key => '$x')});
is(sql("SELECT count(*) FROM pgq_ack_claim('{$both[1]}', '{$leases[1]}', 'q')"), '1', '... it claims there');
is(sql(q{SELECT count(*) FROM pgq_ack_claim(NULL, NULL, 'q')}), '0', '... or anywhere');
is(sql(q{SELECT count(*) FROM pgq_ack_next(NULL, NULL, 'q')}), '0', 'the same for one job');

sql(qq{SELECT pgq_enqueue_many('q', '[$many]'); SET pgq_router.across_shards = on; SELECT count(pgq_fail(job_id, lease, retry => false)) FROM generate_series(1, 20) g, LATERAL pgq_claim('q', 10 + g * 0)});
is(sql(q{SELECT dead FROM pgq_ext.queue_status}), '100', 'dead letters are counted together');
is(sql(q{SELECT pgq_redrive('q', 30)}), '30', '... brought back, so many');
is(sql(q{SELECT pgq_redrive('q', died_before => '2001-01-01'), pgq_redrive('q', error_like => 'none')}), '0|0', '... none that a filter leaves out');
is(sql(q{SELECT pgq_redrive('q', died_since => '2001-01-01')}), '70', '... and all that match');
is(sql(q{SELECT sum(handed_out) > 100, sum(failed), max(shards) FROM pgq_ext.queue_stats}), 't|101|4', 'counters are summed');
is(sql(q{SELECT pgq_purge_queue('q')}), '100', '... and what was purged');

# ---- handlers ----

$_->safe_psql('postgres', 'CREATE ROLE runner LOGIN') for $one, $two, $front;
my $handle = q{CREATE FUNCTION handle(pgq_ext.claimed_job) RETURNS jsonb LANGUAGE sql AS 'SELECT to_jsonb(%s)'};
sql(sprintf $handle, 'NULL::int');
on($_, sprintf("$handle; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO runner", $_)) for sort keys %node;
sql(q{SELECT pgq_create_queue('handled', keep_finished => '1 day'); SELECT pgq_set_handler('handled', 'handle(pgq_ext.claimed_job)', 1, '1 h', run_as => 'runner')});
is(sql('SELECT shard, queue, handler, run_as, workers, timeout FROM pgq_ext.handler ORDER BY 1'), join("\n", map { "$_|handled|public.handle(pgq_ext.claimed_job)|runner|1|01:00:00" } 0 .. 3), 'a handler is set on all shards');
my @handled = split /\n/, sql(qq{SELECT id FROM pgq_enqueue_many('handled', '[$many]') id});
is(join(' ', map { sql("SELECT state, result FROM pgq_result($_, '60 s')") } @handled[ 0 .. 9 ]), join(' ', map { "acked|$of{$_}" } @keys[ 0 .. 9 ]), '... and each runs its own function');
is(sql("SELECT pgq_run_again($handled[0]) % 1024"), $of{ $keys[0] }, 'a finished job is run again on its shard');
sql(q{SELECT pgq_pause_handler('handled')});
is(sql(q{SELECT count(*) FROM pgq_ext.handler WHERE state = 'paused'}), '4', '... paused everywhere');
sql(q{SELECT pgq_resume_handler('handled')});
error_ok('a role without rights', q{CREATE ROLE other LOGIN; SELECT pgq_set_handler('handled', 'handle(pgq_ext.claimed_job)', run_as => 'other')}, '42704', qr/shard 0: role "other" does not exist/);
is(sql(q{SELECT pgq_drop_handler('handled'), pgq_drop_handler('handled')}), 't|f', '... and dropped');
error_ok('no handler', q{SELECT pgq_pause_handler('handled')}, '42704', qr/shard 0: queue "handled" has no handler/);
sql(q{SELECT pgq_drop_queue('handled', force => true); DROP FUNCTION handle});
is(sql('SELECT pgq_check()'), '', 'pgq_check() finds nothing anywhere');

# ---- topics ----

# Each shard has all bindings, so all queues of a job are on its shard.
sql(q{SELECT pgq_create_queue('mail'); SELECT pgq_bind('order.#', 'q'); SELECT pgq_bind('*.paid', 'mail', '{"when_full": "skip"}')});
is(sql(q{SELECT pattern, queue, when_full, count(DISTINCT shard) FROM pgq_ext.binding GROUP BY 1, 2, 3 ORDER BY 1}), "*.paid|mail|skip|4\norder.#|q|error|4", 'queues are bound on all shards');
is(sql(q{SELECT queue, pattern FROM pgq_route('order.paid')}), "q|order.#\nmail|*.paid", '... which know the route');
is(sql(qq{SELECT string_agg(concat_ws(' ', queue, job_id % 1024), ', ') FROM pgq_publish('order.paid', '1', group_key => '$_')}), "q $of{$_}, mail $of{$_}", '... a job is published where its group is') for @keys[ 0 .. 3 ];
is(sql(q{SELECT count(DISTINCT n) FROM generate_series(1, 20) i, LATERAL (SELECT count(DISTINCT job_id % 1024) AS n FROM pgq_publish('order.paid', to_jsonb(i))) p WHERE n = 1}), '1', '... without a key, to all queues on one shard');
is(sql(q{SELECT count(*), string_agg(DISTINCT headers ->> 'topic', ' ') FROM pgq_claim('mail', 100)}) =~ /^[1-9]\d*\|order\.paid$/, 1, '... with the topic');
is(sql(q{SELECT count(*) FROM pgq_publish('other', '1')}), '0', '... or to none');
my $published = join ', ', map { qq({"topic": "order.paid", "payload": $_, "group_key": "$keys[$_]"}) } 0 .. 99;
is(sql(qq{SELECT queue, count(*), count(DISTINCT job_id), count(DISTINCT job_id % 1024) FROM pgq_publish_many('[$published, {"topic": "order.paid", "payload": 100}, {"topic": "other", "payload": 1}]') GROUP BY 1 ORDER BY 1}),
	"mail|101|101|4\nq|101|101|4", '... in bulk, each where its group is');
is(sql(q{SELECT count(*) FROM pgq_publish_many('[]')}), '0', '... none nowhere');
error_ok('bulk that is none', q{SELECT pgq_publish_many('{}')}, '22023', qr/shard \d: /);
error_ok('bulk with a bad one', qq{SELECT pgq_publish_many('[{"topic": "order.paid", "payload": 1, "group_key": "$keys[0]"}, {"payload": 2, "group_key": "$keys[0]"}]')}, '22004', qr/shard $of{$keys[0]}: .*topic/, qr/had jobs 1, 2\. Jobs published on other shards: none/);
error_ok('bulk of a batch', q{SELECT pgq_publish_many('[{"topic": "order.paid", "payload": 1, "batch": 7}]')}, '0A000', qr/pgq_publish_many with a batch cannot/);
error_ok('a topic without queues', q{SELECT pgq_publish('other', '1', must_route => true)}, 'PQ003', qr/shard \d: no queue gets jobs of the topic "other"/);
error_ok('a bad pattern', q{SELECT pgq_bind('log*', 'q')}, '22023', qr/shard 0: pattern has a wildcard/, qr/Nothing was done on other shards/);
on(3, q{SELECT pgq_create_queue('alone'); SELECT pgq_bind('alone', 'alone')});
error_ok('binding a queue that is on one shard', q{SELECT pgq_bind('alone', 'alone')}, '42704', qr/shard 0: queue "alone" does not exist/);
on(3, q{SELECT pgq_drop_queue('alone')});
error_ok('publishing to a batch', q{SELECT pgq_publish('order.paid', '1', batch => 1)}, '0A000', qr/pgq_publish with a batch cannot/);
error_ok('publishing after a parent', q{SELECT pgq_publish('order.paid', '1', after => '{1}')}, '0A000', qr/pgq_publish with after cannot/);
$_->safe_psql('postgres', 'CREATE ROLE teller LOGIN') for $one, $two, $front;
sql('GRANT EXECUTE ON FUNCTION pgq_publish TO teller');
on($_, 'GRANT EXECUTE ON FUNCTION pgq_publish TO teller') for sort keys %node;
my $as_teller = q{SET SESSION AUTHORIZATION teller; SELECT count(*) FROM pgq_publish('order.paid', '1')};
is(says($as_teller), '', 'a topic is open');
sql(q{SELECT pgq_grant_topic('order.*', 'teller', '{subscribe}')});
error_ok('... until a right is granted, on all shards', $as_teller, '42501', qr/shard \d: permission denied for topic/);
sql(q{SELECT pgq_grant_topic('order.*', 'teller', '{publish}')});
is(says($as_teller), '', '... then for who has it');
sql(q{SELECT pgq_revoke_topic('order.*', 'teller', '{publish}')});
is((says($as_teller))[0], '42501', '... and not after a revoke');
is(sql(q{SELECT pgq_unbind('order.#', 'q'), pgq_unbind('order.#', 'q')}), 't|f', 'a binding is removed everywhere');
sql(q{SELECT pgq_drop_queue('mail', force => true); SELECT pgq_purge_queue('q')});
is(sql('SELECT count(*) FROM pgq_ext.binding'), '0', '... also with its queue');

# ---- names, schedules ----

my $token = sql(q{SELECT pgq_lock('leader', '1 min')});
is(sql(q{SELECT pgq_lock('leader') IS NULL}), 't', 'a lock is held');
is(sql('SELECT shard, name FROM pgq_ext.lock'), sql(q{SELECT pgq_router.shard_of('leader')}) . '|leader', '... on the shard of its name');
is(sql("SELECT pgq_extend_lock('leader', $token, '2 min') > now() + '1 min'"), 't', '... extended');
is(sql("SELECT pgq_unlock('leader', $token)"), 't', '... and given back');
$token = sql(q{SELECT pgq_run_once('report', '1 day')});
sql(qq{SELECT pgq_run_done('report', $token, '"done"')});
is(sql(q{SELECT pgq_run_once('report', '1 day') IS NULL}), 't', 'a run is done once');
is(sql(q{SELECT pgq_create_rate('calls', 100, '1 s'); SELECT pgq_take('calls', wait => '30 s'); SELECT pgq_drop_rate('calls')}), "t\nt\nt", 'a rate is kept');
sql(qq{SELECT pgq_schedule('nightly', '0 3 * * *', 'q', options => '{"group_key": "$keys[0]"}')});
is(sql('SELECT schedule, shard FROM pgq_ext.schedule'), "nightly|$of{$keys[0]}", 'a schedule is where its group is');
sql(qq{SELECT pgq_schedule('nightly', '0 4 * * *', 'q', options => '{"group_key": "$x"}')});
is(sql('SELECT schedule, cron, shard FROM pgq_ext.schedule'), "nightly|0 4 * * *|$of{$x}", '... and moves with it');
sql(q{SELECT pgq_pause_schedule('nightly')});
is(sql('SELECT paused FROM pgq_ext.schedule'), 't', '... is paused');
sql(q{SELECT pgq_resume_schedule('nightly')});
is(sql(q{SELECT pgq_unschedule('nightly'); SELECT pgq_unschedule('nightly')}), "t\nf", '... and dropped');
error_ok('an unknown schedule', q{SELECT pgq_pause_schedule('nightly')}, '42704', qr/schedule "nightly" does not exist/);
is(sql(q{SELECT count(*) FROM pgq_schedule_preview('@daily', n => 3)}), '3', 'a preview');
is(sql(join '; ', 'BEGIN', map({ "SELECT count(*) FROM pgq_schedule_preview('\@daily', n => 1)" } 1 .. 5), "SELECT pgq_unlock('lock', 1)", 'COMMIT'),
	join("\n", (1) x 5, 'f'), '... binds the transaction to no shard');

# ---- what cannot be meant ----

error_ok('a claim that waits', q{SELECT pgq_claim('q', wait => '1 s')}, '0A000', qr/HINT:.*pgq_router\.shard/);
error_ok('of several queues',  q{SELECT pgq_claim_any('{q}', wait => '1 s')}, '0A000');
is(sql(q{SELECT count(*) FROM pgq_claim_any('{q}')}), '0', '... without a wait it can be');
error_ok('a lease of the session', q{SELECT pgq_claim('q', session_bound => true)}, '0A000', qr/HINT:  Claim at a shard/);
error_ok('a lock of the session', q{SELECT pgq_lock('l', session_bound => true)}, '0A000', qr/HINT:  Connect to shard \d/);
error_ok('an assertion', 'SELECT pgq_assert_lease(1, 1)', '0A000', qr/HINT:  Connect to the shard/);
error_ok('an assertion of a lock', q{SELECT pgq_assert_lock('l', 1)}, '0A000');
error_ok('watching a table', q{SELECT pgq_watch_table('pgq_router.slot', 'q')}, '0A000', qr/pgq_watch_table cannot go through a router/, qr/DETAIL:  A watched table enqueues its jobs on the shard where it is/, qr/HINT:  Connect to each shard that has the table/);
error_ok('... and no longer', q{SELECT pgq_unwatch_table('pgq_router.slot', 'q')}, '0A000');
on(0, q{CREATE TABLE watched (n int PRIMARY KEY); SELECT pgq_watch_table('watched', 'q')});
is(sql(q{SELECT "table", target, shard FROM pgq_ext.watch}), 'watched|queue:q|0', 'what a shard watches is seen');
on(0, 'DROP TABLE watched');
error_ok('a new batch', 'SELECT pgq_create_batch()', '0A000', qr/pgq_create_batch cannot go through a router/, qr/DETAIL:  A batch is on one shard/, qr/HINT:  Connect to the shard of the batch.*pgq_router\.shard/);
error_ok('closing a batch', 'SELECT pgq_close_batch(1)', '0A000', qr/pgq_close_batch cannot/);
error_ok('a job of a batch', q{SELECT pgq_enqueue('q', '1', batch => 1)}, '0A000', qr/pgq_enqueue with a batch cannot/);
error_ok('... in bulk', q{SELECT pgq_enqueue_many('q', '[{"payload": 1, "batch": null}, {"payload": 2, "batch": 7}]')}, '0A000', qr/pgq_enqueue_many with a batch cannot/);
error_ok('a job with a parent', q{SELECT pgq_enqueue('q', '1', after => '{1}')}, '0A000', qr/pgq_enqueue with after cannot/, qr/DETAIL:  A job is on the shard of its parents/);
error_ok('... in bulk', q{SELECT pgq_enqueue_many('q', '[{"payload": 1, "ref": "a"}, {"payload": 2, "after": ["a"]}]')}, '0A000', qr/pgq_enqueue_many with after cannot/);
is(sql(q{SELECT count(*) FROM pgq_enqueue_many('q', '[{"payload": 1, "batch": null, "after": null, "ref": "a"}]')}), '1', '... but not of none');
sql(q{SELECT pgq_purge_queue('q')});
error_ok('one transaction over two shards', "BEGIN; SELECT pgq_enqueue('q', '1', group_key => '$keys[0]'); SELECT pgq_enqueue('q', '1', group_key => '$x')", '0A000', qr/for shard $of{$x}, and this transaction has changed something on shard $of{$keys[0]}/, qr/HINT:  Make each call a transaction of its own/);
is(sql("SELECT count(*) FROM pgq_ext.job_status WHERE group_key = '$keys[0]'"), '1', '... and what the first has done stays, as it says');
is(says("BEGIN; SELECT pgq_enqueue('q', '1', group_key => '$keys[0]'); SELECT pgq_enqueue('q', '1', unique_key => '$keys[0]'); COMMIT; SELECT pgq_enqueue('q', '1', group_key => '$x')"), '', '... on one it can be, and in the next one on another');
is(says("SET pgq_router.across_shards = on; BEGIN; SELECT pgq_enqueue('q', '1', group_key => '$keys[0]'); SELECT pgq_enqueue('q', '1', group_key => '$x'); COMMIT"), '', '... or when it is said to be meant');
$id = sql("SELECT pgq_enqueue('q', '1', group_key => '$keys[0]')");
error_ok('a new group on another shard', "SELECT pgq_update($id, group_key => '$x')", '0A000', qr/HINT:  Cancel it/);
sql(q{SELECT pgq_purge_queue('q')});

# ---- rights ----

# As himself at the front and at the shards: what each allows.
$_->safe_psql('postgres', 'CREATE ROLE app LOGIN; CREATE ROLE stranger LOGIN') for $one, $two, $front;
on($_, 'GRANT EXECUTE ON FUNCTION pgq_enqueue TO app') for sort keys %node;
sql('GRANT EXECUTE ON FUNCTION pgq_enqueue, pgq_cancel TO app');
my $as = sub { "SET SESSION AUTHORIZATION $_[0]; $_[1]" };
is(says($as->('app', q{SELECT pgq_enqueue('q', '1')})), '', 'who may enqueue here and there does');
error_ok('who may not here', $as->('stranger', q{SELECT pgq_enqueue('q', '1')}), '42501', qr/permission denied for function pgq_enqueue/);
error_ok('... nor by what is behind', $as->('stranger', q{SELECT pgq_router.enqueue_at(0, 'q', '1', 0, NULL, NULL, NULL, NULL, 'finished', NULL, 'keep', NULL, NULL, NULL, NULL, NULL, NULL)}), '42501', qr/permission denied for function pgq_enqueue/);
error_ok('who may not there', $as->('app', 'SELECT pgq_cancel(1024)'), '42501', qr/shard 0: permission denied/);
error_ok('who may not read', $as->('app', q{SELECT pgq_router.queue_status_rows_at(0)}), '42501', qr/permission denied/);
error_ok('who may not look', $as->('app', q{SELECT pgq_router.keys_at(0, '{1}')}), '42501');
error_ok('who may not move', $as->('app', q{SELECT pgq_router_assign_slots('{1}', 0)}), '42501');
sql(q{SELECT pgq_grant('q', 'app', '{enqueue}')});
is(says($as->('app', q{SELECT pgq_enqueue('q', '1')})), '', 'a queue is opened on all shards to a role');
sql(q{SELECT pgq_revoke('q', 'app', '{enqueue}')});
error_ok('... and closed', $as->('app', q{SELECT pgq_enqueue('q', '1')}), '42501', qr/shard \d: /);
sql(q{SELECT pgq_purge_queue('q')});

# ---- slots ----

my $slot = sql("SELECT pgq_router.slot_of('$keys[0]')");
my ($from, $to) = ($of{ $keys[0] }, ($of{ $keys[0] } + 1) % 4);
$id = sql("SELECT pgq_enqueue('q', '1', group_key => '$keys[0]')");
error_ok('keys that have jobs', "SELECT pgq_router_assign_slots('{$slot}', $to)", '55006', qr/shard $from has 1 jobs, keys or names of slots $slot/, qr/HINT:  Close the slots first/);
sql("SELECT pgq_router_assign_slots('{$slot}', NULL)");
error_ok('... when their slot is closed', "SELECT pgq_enqueue('q', '1', group_key => '$keys[0]')", '55000', qr/slot $slot, of key "$keys[0]", is closed/);
is(sql("SELECT pgq_cancel($id)"), 'ready', '... have an end');
sql("SELECT pgq_router_assign_slots('{$slot}', $to)");
is(sql("SELECT pgq_enqueue('q', '1', group_key => '$keys[0]') % 1024"), $to, '... and are elsewhere');
sql(q{SELECT pgq_purge_queue('q')});
sql("SELECT pgq_router_assign_slots('{$slot}', $from)");
{
	# It has read where the key is, and may go there still.
	my ($sender, $mover) = map { session($front, 'front') } 1 .. 2;
	ask($sender, "BEGIN; SELECT pgq_enqueue('q', '1', group_key => '$keys[0]')");
	send_sql($mover, "SELECT pgq_router_assign_slots('{$slot}', NULL)");
	wait_for($front, q{count(*) = 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted});
	ask($sender, 'COMMIT');
	is(reply($mover), '', 'who closes a slot waits for who has read it');
	sql("SELECT pgq_router_assign_slots('{$slot}', $from)");
	ask($mover, "BEGIN; SELECT pgq_router_assign_slots('{$slot}', NULL)");
	send_sql($sender, "SELECT pgq_enqueue('q', '1', group_key => '$keys[0]')");
	wait_for($front, q{count(*) = 1 FROM pg_locks WHERE mode = 'AccessShareLock' AND NOT granted});
	ask($mover, 'COMMIT');
	like((reply($sender))[1], qr/slot $slot, of key "$keys[0]", is closed/, '... and who reads it meanwhile sees it closed');
	end_session($_) for $sender, $mover;
	sql(q{SELECT pgq_purge_queue('q')});
	sql("SELECT pgq_router_assign_slots('{$slot}', $from)");
}
sql(q{CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil'; END $$; CREATE TRIGGER evil BEFORE UPDATE ON pgq_router.slot FOR EACH STATEMENT EXECUTE FUNCTION evil()});
error_ok('a trigger of somebody', "SELECT pgq_router_assign_slots('{$slot}', $from)", '55000', qr/there is a trigger "evil"/);
sql('DROP FUNCTION evil() CASCADE');
error_ok('a shard that has slots', 'SELECT pgq_router_remove_shard(3)', '55006', qr/HINT:  Give them to another one/);
error_ok('a slot that is none', "SELECT pgq_router_assign_slots('{64}', 1)", '22023');
error_ok('a shard that is none', "SELECT pgq_router_assign_slots('{1}', 9)", '42704');

# ---- a shard that does not answer ----

my ($up)   = grep { $of{$_} == 0 } @keys;
my ($down) = grep { $of{$_} == 2 } @keys;
my @there = split /\|/, on(0, q{SELECT pgq_enqueue('q', '1'); SELECT job_id, lease FROM pgq_claim('q')}) =~ s/^.*\n//r;
my @gone  = split /\|/, on(2, q{SELECT pgq_enqueue('q', '1'); SELECT job_id, lease FROM pgq_claim('q')}) =~ s/^.*\n//r;
$two->stop;
error_ok('its keys', "SELECT pgq_enqueue('q', '1', group_key => '$down')", '08001', qr/shard 2 cannot be reached/, qr/DETAIL:  Shard 2 is at ".*dbname=s2".*\n?.*connection to server/, qr/HINT:  Nothing was done there\. Other shards are served/);
is(says("SELECT pgq_enqueue('q', '1', group_key => '$up')"), '', '... those of others are served');
error_ok('its jobs', "SELECT pgq_ack($gone[0], $gone[1])", '08001');
is(join(' ', map { (says(q{SELECT pgq_enqueue('q', '1')}))[0] } 1 .. 10), ' ' x 9, 'jobs without a key go elsewhere');
is(sql('SELECT sum(ready) FROM pgq_ext.queue_status'), '11', '... all of them');
like((says(q{SELECT * FROM pgq_ext.queue_status}))[1], qr/WARNING.*shard 2 is left out.*WARNING.*shard 3 is left out/s, 'a view says who is missing');
error_ok('bulk of which some would be there', qq{SELECT pgq_enqueue_many('q', '[{"payload": 1}, {"payload": 2, "group_key": "$up"}, {"payload": 3, "group_key": "$down"}]')}, '08001', qr/No job was enqueued/);
is(sql(qq{SELECT count(*) FROM pgq_enqueue_many('q', '[{"payload": 1}, {"payload": 2, "group_key": "$up"}]')}), '2', '... of which none would, is enqueued');
is(sql("SELECT * FROM pgq_ack_many('{$gone[0],$there[0]}', '{$gone[1],$there[1]}')"), $there[0], 'what can be acknowledged is');
error_ok('a queue on all of them', q{SELECT pgq_create_queue('new')}, '08001', qr/Nothing was done on any shard/);
is($one->safe_psql('s0', q{SELECT count(*) FROM pgq_ext.queue WHERE queue = 'new'}), '0', '... is on none');
is(sql(q{SET pgq_router.across_shards = on; SELECT count(*) FROM generate_series(1, 20) g, LATERAL pgq_claim('q', 10 + g * 0)}), '13', 'claims find the jobs of others');
like(sql('SELECT shard, reachable, error FROM pgq_router.shard_status WHERE shard IN (0, 2)'), qr/^0\|t\|\n2\|f\|.*connection to server/, 'it is told who answers');
error_ok('removing it', 'SELECT pgq_router_assign_slots(array(SELECT slot FROM pgq_router.slot WHERE shard = 3), NULL); SELECT pgq_router_remove_shard(3)', '08001', qr/Whether it has jobs is not known/);
$two->start;
sql('SELECT pgq_router_assign_slots(array(SELECT slot FROM pgq_router.slot WHERE shard IS NULL), 3)');
is(says("SELECT pgq_enqueue('q', '1', group_key => '$down')"), '', 'when it is back it is served');

# One that takes the connection, and says nothing.
my $mute = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die "no socket: $!";
sql("SET client_min_messages = error; SET statement_timeout = '1 s'; DO \$\$ BEGIN PERFORM pgq_router_add_shard(900, 'host=127.0.0.1 port=${\$mute->sockport} dbname=mute', accepts => false); EXCEPTION WHEN query_canceled THEN NULL; END \$\$;
	SET statement_timeout = 0; INSERT INTO pgq_router.shard VALUES (900, 'host=127.0.0.1 port=${\$mute->sockport} dbname=mute', false) ON CONFLICT DO NOTHING");
my $session = session($front, 'front');
ask($session, q{SET statement_timeout = '1 s'});
like((ask($session, 'SELECT pgq_cancel(900)'))[1], qr/canceling statement due to statement timeout/, 'one that is mute is not waited for longer than statement_timeout');
ask($session, 'RESET statement_timeout');
is((ask($session, "SELECT pgq_enqueue('q', '1', group_key => '$up') % 1024"))[0], '0', '... and the session goes on with others');
is(sql('SELECT pgq_router_remove_shard(900, force => true)'), 't', '... it can be forgotten');
end_session($session);

# Killed in the middle of a call.
$id = sql("SELECT pgq_enqueue('q', '1', group_key => '$up')");
$session = session($front, 'front');
ask($session, "SELECT pgq_enqueue('q', '1', group_key => '$up')");
send_sql($session, "SELECT * FROM pgq_result($id, wait => '60 s')");
wait_for($one, q{count(*) = 1 FROM pg_stat_activity WHERE datname = 's0' AND application_name = 'pgq_router' AND query LIKE '%pgq_result%' AND state = 'active'});
kill KILL => $one->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE datname = 's0' AND application_name = 'pgq_router' AND query LIKE '%pgq_result%'});
like((reply($session))[1], qr/ERROR:  the connection to shard 0 was lost\n.*HINT:  It is not known whether/s, 'a connection that is lost');
wait_until_up($one);
is((ask($session, "SELECT state FROM pgq_result($id)"))[0], 'ready', '... the next call has another one');
end_session($session);

# ---- the front database ----

$front->command_ok([ 'pg_dump', '-f', $front->basedir . '/front.sql', $front->connstr('front') ], 'pg_dump of a router');
$front->safe_psql('postgres', 'CREATE DATABASE second TEMPLATE template0');
$front->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $front->basedir . '/front.sql', $front->connstr('second') ], '... restored');
is($front->safe_psql('second', 'SELECT count(*), sum(slot * shard) FROM pgq_router.slot'), sql('SELECT count(*), sum(slot * shard) FROM pgq_router.slot'), '... knows what is where');
is($front->safe_psql('second', "SELECT pgq_enqueue('q', '1', group_key => '$up') % 1024"), '0', '... and routes');
is(sqlstate($front, 'CREATE EXTENSION pgq_ext', 'front'), '42P06', 'a database is a router or a shard, not both');
is(says('DROP EXTENSION pgq_router'), '', 'DROP EXTENSION');
is(sql(q{SELECT to_regnamespace('pgq_ext'), to_regnamespace('pgq_router')}), '|', '... takes everything with it');

# ---- what the way costs ----

# One enqueue after the other, in a session each; told, and compared with nothing.
my %took;
my $calls = 500;
for my $way ([ 'at the shard', $one, 's0' ], [ 'through the router', $front, 'second' ])
{
	my ($name, $node, $db) = @$way;
	my $begin = time;
	$node->safe_psql($db, "SELECT pgq_enqueue('q', '1', group_key => '$up');\n" x $calls);
	$took{$name} = (time - $begin) / $calls;
}
diag(sprintf 'one enqueue %s: %.2f ms, %s: %.2f ms', map { $_, 1000 * $took{$_} } 'at the shard', 'through the router');
is(on(0, "SELECT count(*) >= 2 * $calls FROM pgq_ext.job WHERE group_key = '$up'"), 't', 'both ways lead there');

$_->stop for $front, $one, $two;
done_testing();
