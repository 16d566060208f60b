# The statements of docs/clients.md about drivers, about claims that are dropped, and about clients that die.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }
create_queue($node, $_) for 'mail', 'other';

# ---- which values of Python are taken for which parameters ----

my $program = <<'EOP';
import asyncio, datetime, json
import asyncpg, psycopg, psycopg2, psycopg2.extras
from psycopg.types.json import Json, Jsonb

three = datetime.timedelta(seconds=3)
payload = "SELECT pgq_enqueue('mail', {})"
delay = "SELECT pgq_enqueue('mail', '1', delay => {})"
priority = "SELECT pgq_enqueue('mail', '1', priority => {})"
many = "SELECT pgq_enqueue_many('mail', {})"
any_of = "SELECT job_id FROM pgq_claim_any({}, wait => '1 ms')"
ack = "SELECT pgq_ack(1, {})"
ack_many = "SELECT pgq_ack_many({}, '{{1}}')"

def tell(*words):
    print(*words, flush=True)

def try_all(driver, execute, error, code, values):
    for name, statement, value in values:
        try:
            execute(statement.format("%s"), (value,))
            tell(driver, name, "ok")
        except error as e:
            tell(driver, name, code(e) or "refused")

common = [("a string as payload", payload, '{"a": 1}'), ("a dict as payload", payload, {"a": 1}), ("a timedelta", delay, three),
          ("a string as interval", delay, "3 s"), ("a number as interval", delay, 3), ("an int as priority", priority, 3),
          ("a list of names", any_of, ["mail", "other"]), ("a list of ids", ack_many, [1]), ("a stale lease", ack, 2)]

three_db = psycopg.connect(autocommit=True)
try_all("psycopg", three_db.execute, psycopg.Error, lambda e: e.sqlstate,
        common + [("Jsonb", payload, Jsonb({"a": 1})), ("Json", payload, Json({"a": 1})), ("Jsonb of jobs", many, Jsonb([{"payload": 1}]))])

two_db = psycopg2.connect("")
two_db.autocommit = True
try_all("psycopg2", two_db.cursor().execute, psycopg2.Error, lambda e: e.pgcode,
        common + [("Json", payload, psycopg2.extras.Json({"a": 1})), ("Json of jobs", many, psycopg2.extras.Json([{"payload": 1}]))])

async def try_asyncpg():
    db = await asyncpg.connect()
    async def attempt(name, statement, value):
        try:
            await db.fetch(statement.format("$1"), value)
            tell("asyncpg", name, "ok")
        except asyncpg.DataError:
            tell("asyncpg", name, "refused")
        except asyncpg.PostgresError as e:
            tell("asyncpg", name, e.sqlstate)
    for one in common:
        await attempt(*one)
    await db.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    await attempt("a dict as payload with the codec", payload, {"a": 1})

asyncio.run(try_asyncpg())
EOP

my $file = "${PostgreSQL::Test::Utils::tmp_check}/drivers.py";
append_to_file($file, $program);
my ($out, $err);
{
	local @ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ($node->host, $node->port, 'postgres', sql('SELECT current_user'));
	IPC::Run::run([ '/usr/bin/python3', $file ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
}
is($err, '', 'the drivers are there');
is($out, <<'EOT', 'what each takes');
psycopg a string as payload ok
psycopg a dict as payload refused
psycopg a timedelta ok
psycopg a string as interval ok
psycopg a number as interval 42883
psycopg an int as priority ok
psycopg a list of names ok
psycopg a list of ids ok
psycopg a stale lease PQ001
psycopg Jsonb ok
psycopg Json 42883
psycopg Jsonb of jobs ok
psycopg2 a string as payload ok
psycopg2 a dict as payload refused
psycopg2 a timedelta ok
psycopg2 a string as interval ok
psycopg2 a number as interval 42883
psycopg2 an int as priority ok
psycopg2 a list of names ok
psycopg2 a list of ids ok
psycopg2 a stale lease PQ001
psycopg2 Json ok
psycopg2 Json of jobs ok
asyncpg a string as payload ok
asyncpg a dict as payload refused
asyncpg a timedelta ok
asyncpg a string as interval refused
asyncpg a number as interval refused
asyncpg an int as priority ok
asyncpg a list of names ok
asyncpg a list of ids ok
asyncpg a stale lease PQ001
asyncpg a dict as payload with the codec ok
EOT

# As JDBC and others do, which declare the types of their parameters.
is(sqlstate($node, q{PREPARE p (varchar, varchar) AS SELECT pgq_enqueue($1, $2)}),                              '42883', 'declared strings are refused');
is(sqlstate($node, q{PREPARE p (varchar, varchar, varchar) AS SELECT pgq_enqueue($1, $2::jsonb, delay => $3::interval)}), '',      '... unless they are cast');
is(sqlstate($node, q{PREPARE p (bigint) AS SELECT pgq_enqueue('mail', '1', priority => $1)}),                   '42883', 'a long as priority is refused');
is(sqlstate($node, q{PREPARE p (bigint) AS SELECT * FROM pgq_claim('mail', $1)}),                               '42883', '... and as max_jobs');
is(sqlstate($node, q{PREPARE p (int, int) AS SELECT pgq_ack($1, $2)}),                                          '',      'ids may be declared smaller');

# ---- hand-outs that nobody looks at ----

create_queue($node, 'five', q{lease_time => '1 hour'});
sql(q{SELECT count(pgq_enqueue('five', '1')) FROM generate_series(1, 5)});
is(sql(q{SELECT payload FROM pgq_claim('five', 5) LIMIT 1}), '1', 'LIMIT 1');
is(sql(q{SELECT count(*) FROM pgq_ext.lease WHERE queue = 'five'}), '5', '... leases all that were asked for');

# ---- a client that dies while it waits ----

$node->append_conf('postgresql.conf', "client_connection_check_interval = '100ms'");
$node->reload;
create_queue($node, 'quiet');
my $began  = sql('SELECT clock_timestamp()');
my $client = session($node);
my $pid    = pid_of($client);
send_sql($client, q{SELECT * FROM pgq_claim('quiet', wait => '60 s')});
wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'quiet'});
kill_client($client);
wait_until_down($pid);
is(sql("SELECT clock_timestamp() < '$began'::timestamptz + '60 s'"), 't', 'the session of a client that died ends before its wait');

$node->stop;
done_testing();
