# psycopg 3, psycopg 2, asyncpg: the argument says which
import asyncio
import datetime
import json
import sys
import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
from psycopg.types.json import Jsonb

driver = sys.argv[1]
loop = asyncio.new_event_loop()
if driver == "asyncpg":
    db = loop.run_until_complete(asyncpg.connect())
else:
    db = {"psycopg": psycopg, "psycopg2": psycopg2}[driver].connect("")
    db.autocommit = True
to_json = {"psycopg": Jsonb, "psycopg2": psycopg2.extras.Json, "asyncpg": json.dumps}[driver]


def rows(sql, values):
    if driver == "asyncpg":
        parts = sql.split("?")
        numbered = "".join(f"{part}${i + 1}" for i, part in enumerate(parts[:-1])) + parts[-1]
        return loop.run_until_complete(db.fetch(numbered, *values))
    cursor = db.cursor()
    cursor.execute(sql.replace("?", "%s"), values)
    return cursor.fetchall()


def tell(what, sql, *values):
    try:
        answer = rows(sql, values)[0][0]
    except (psycopg.Error, asyncpg.PostgresError) as error:
        answer = error.sqlstate
    except psycopg2.Error as error:
        answer = error.pgcode
    print(f"{what}: {answer}")


tell("id", "SELECT pgq_enqueue(?, ?)", "mail", to_json({"to": "ada"}))
tell("NULL for all that may be", "SELECT (pgq_enqueue(?, ?, delay => ?, headers => ?, max_attempts => ?) > 0)::text", "mail", to_json([]), None, None, None)
tell("NULL as JSON", "SELECT (pgq_enqueue(?, ?) > 0)::text", "mail", to_json(None))
tell("NULL payload", "SELECT pgq_enqueue(?, ?)", "mail", None)
tell("interval", "SELECT (pgq_enqueue('mail', '1', delay => ?) > 0)::text", datetime.timedelta(hours=1))
tell("NULL arrays", "SELECT count(*) FROM pgq_ack_many(?, ?)", None, None)
tell("one NULL array", "SELECT count(*) FROM pgq_ack_many(?, ?)", [], None)
tell("empty arrays", "SELECT count(*) FROM pgq_ack_many(?, ?)", [], [])
[(job_id, lease, payload)] = rows("SELECT job_id, lease, payload FROM pgq_ack_claim(?, ?, ?)", ([], [], "mail"))
print(f"payload: {type(payload).__name__}")
tell("arrays", "SELECT payload::text FROM pgq_ack_claim(?, ?, 'mail')", [job_id], [lease])
tell("no queues", "SELECT count(*) FROM pgq_claim_any(?, wait => '1 ms')", [])
[(job_id, lease)] = rows("SELECT job_id, lease FROM pgq_claim_any(?)", (["other", "mail"],))
tell("why NULL", "SELECT pgq_fail(?, ?, error => ?, retry_in => ?)", job_id, lease, None, None)
rows("SELECT pgq_enqueue(?, ?)", ("other", to_json(1)))
[(job_id, lease)] = rows("SELECT job_id, lease FROM pgq_claim('other')", ())
tell("false", "SELECT pgq_fail(?, ?, retry => ?)", job_id, lease, False)
