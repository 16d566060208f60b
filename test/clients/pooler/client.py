# psycopg 3, psycopg 2, asyncpg: the first argument says which
import asyncio
import sys
import asyncpg
import psycopg
import psycopg2

driver, setting, word, url = sys.argv[1:]
loop = asyncio.new_event_loop()
error_class = (psycopg.Error, psycopg2.Error, asyncpg.PostgresError)
options = {("psycopg", "set"): {"prepare_threshold": None}, ("asyncpg", "set"): {"statement_cache_size": 0}}.get((driver, setting), {})


async def fetch():
    if setting == "plain":
        return await db.fetch(sql, "mail")
    async with db.transaction():
        return await db.fetch(sql, "mail")


def execute():
    if driver == "asyncpg":
        return loop.run_until_complete(fetch())[0][0]
    cursor = db.cursor()
    cursor.execute(sql, ("mail",))
    return cursor.fetchone()[0]


sql = f"SELECT '{word} ' || count(*) FROM pgq_claim({'$1' if driver == 'asyncpg' else '%s'}, 1)"
if driver == "asyncpg":
    db = loop.run_until_complete(asyncpg.connect(url, **options))
else:
    db = {"psycopg": psycopg, "psycopg2": psycopg2}[driver].connect(url, **options)
    db.autocommit = True
for line in sys.stdin:
    try:
        answers = {execute() for _ in range(10)}
        print(*sorted(answers), flush=True)
    except error_class as error:
        print(getattr(error, "sqlstate", None) or error.pgcode, str(error).splitlines()[0], flush=True)
