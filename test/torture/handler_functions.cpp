/* The SQL of the handlers, and their queues. */
#include "dispatcher.h"

namespace torture {

/* The styles: what a handler does with a job, by its key. See also handled.cpp. */
static const char *const kFunctions[] = {
	"CREATE OR REPLACE FUNCTION torture.style_of(key bigint) RETURNS integer LANGUAGE sql "
	"IMMUTABLE AS $$ SELECT ((CASE WHEN -key < 1000000000 THEN -key ELSE -key / 20 END) % 20)::int "
	"$$",

	"CREATE OR REPLACE FUNCTION torture.is_bad_time(key bigint) RETURNS boolean LANGUAGE sql "
	"IMMUTABLE AS $$ SELECT -key / 200 % 3 = 0 $$",

	R"(
CREATE OR REPLACE FUNCTION torture.handle_one(job pgq_ext.claimed_job, handler text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
	own bigint := (job.payload #>> '{}')::bigint;
	other_queue text := CASE job.queue WHEN 'handled' THEN 'handled_many' ELSE 'handled' END;
	style int := torture.style_of(own);
	bad boolean := torture.is_bad_time(own);
BEGIN
	-- The handler answers for the job, which is not done.
	IF style = 5 AND job.attempt <= 2 THEN
		PERFORM pgq_fail(job.job_id, job.lease, 'not yet', retry_in => '100 ms');
		RETURN NULL;
	ELSIF style = 6 AND random() < 0.5 THEN
		PERFORM pgq_release(job.job_id, job.lease, delay => '100 ms');
		RETURN NULL;
	ELSIF style = 7 AND random() < 0.5 THEN
		PERFORM pgq_fail(job.job_id, job.lease, 'never', retry => false);
		RETURN NULL;
	END IF;

	INSERT INTO torture.effect (key, queue, attempt, handler)
	VALUES (own, job.queue, job.attempt, handle_one.handler);

	-- The call fails after its effect was written. The codes differ, so that handlers rarely slow down.
	IF style <= 1 AND bad AND job.attempt <= 1 + -own % 3 THEN
		RAISE 'no luck' USING ERRCODE = 'TT00' || -own % 5;
	ELSIF style = 2 THEN
		PERFORM pg_sleep(0.05 * (-own % 7));
	ELSIF style = 3 AND job.attempt <= 3 THEN
		PERFORM pg_sleep(0.7);
	ELSIF style = 4 THEN
		PERFORM pgq_ack(job.job_id, job.lease, job.payload);
	ELSIF style IN (8, 9) AND -own < 1000000000 THEN
		PERFORM pgq_enqueue(other_queue, to_jsonb(own - 1000000000), max_attempts => 10000);
	ELSIF style = 11 THEN
		BEGIN
			INSERT INTO torture.effect (key, queue, attempt, handler)
			VALUES (own, job.queue, job.attempt, handle_one.handler);
			PERFORM pgq_enqueue(other_queue, to_jsonb(own - 1000000000));
			RAISE 'undo this';
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	ELSIF style = 12 THEN
		PERFORM pgq_assert_lease(job.job_id, job.lease);
		PERFORM pgq_progress(job.job_id, job.lease, job.payload);
		PERFORM pg_sleep(0.1);
	ELSIF style = 13 THEN
		PERFORM pgq_extend(job.job_id, job.lease, '1 min');
	ELSIF style = 14 AND bad AND job.attempt = 1 THEN
		PERFORM pg_sleep(2.5);
	ELSIF style = 15 THEN
		PERFORM pgq_cancel(job.job_id);
	ELSIF style = 16 THEN
		BEGIN
			PERFORM pg_sleep(0.3);
		EXCEPTION WHEN query_canceled THEN
			NULL;
		END;
	ELSIF style = 17 THEN
		-- If the session kept the lock after the call, later calls of other workers would hang.
		PERFORM pg_advisory_lock(17);
		CREATE TEMPORARY TABLE IF NOT EXISTS left_behind (n int);
		PERFORM set_config('search_path', 'pg_catalog, public', false);
	END IF;
	RETURN job.payload;
END $$)",

	"CREATE OR REPLACE FUNCTION torture.handle(job pgq_ext.claimed_job) RETURNS jsonb LANGUAGE sql "
	"AS $$ SELECT torture.handle_one(job, 'handle') $$",

	R"(
CREATE OR REPLACE FUNCTION torture.handle_many(jobs pgq_ext.claimed_job[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	job pgq_ext.claimed_job;
BEGIN
	FOREACH job IN ARRAY jobs LOOP
		PERFORM torture.handle_one(job, 'handle_many');
	END LOOP;
END $$)",

	/* The commit of the first attempt fails. */
	R"(
CREATE OR REPLACE FUNCTION torture.refuse_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF torture.style_of(NEW.key) = 10 AND torture.is_bad_time(NEW.key) AND NEW.attempt = 1 THEN
		RAISE 'refused at commit';
	END IF;
	RETURN NULL;
END $$)",
	"DROP TRIGGER IF EXISTS refuse_effect ON torture.effect",
	"CREATE CONSTRAINT TRIGGER refuse_effect AFTER INSERT ON torture.effect DEFERRABLE INITIALLY "
	"DEFERRED FOR EACH ROW EXECUTE FUNCTION torture.refuse_effect()",
};

static const char kCreateRole[] = R"(DO $$
BEGIN
	IF to_regrole('torture_handler') IS NULL THEN
		CREATE ROLE torture_handler LOGIN;
	END IF;
END $$)";

static const char kGrantFunctions[] =
	"GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack, pgq_fail, pgq_release, pgq_enqueue, pgq_extend, "
	"pgq_assert_lease, pgq_progress, pgq_cancel TO torture_handler";

void
prepare_handlers(Session &session)
{
	Connection &connection = session.connection;
	if (session.world.handlers ||
		connection.run("SELECT FROM pg_proc WHERE proname = 'pgq_set_handler'").size() == 0)
		return;
	(void) connection.run(kCreateRole);
	(void) connection.run("CREATE TABLE IF NOT EXISTS torture.effect (key bigint NOT NULL, queue "
						  "text NOT NULL, attempt integer NOT NULL, handler text NOT NULL)");
	for (const char *function : kFunctions)
		(void) connection.run(function);
	for (const char *function :
		 {"handle(pgq_ext.claimed_job)", "handle_many(pgq_ext.claimed_job[])",
		  "handle_one(pgq_ext.claimed_job, text)"})
		(void) connection.run(std::string("ALTER FUNCTION torture.") + function + " OWNER TO " +
							  kHandlerRole);
	(void) connection.run("GRANT USAGE ON SCHEMA torture, pgq_ext TO " + kHandlerRole);
	(void) connection.run("GRANT INSERT ON torture.effect TO " + kHandlerRole);
	(void) connection.run(kGrantFunctions);
	for (const std::string &queue : kHandledQueues)
	{
		(void) connection.run(
			"SELECT pgq_create_queue($1, backoff_base => '100 ms', backoff_max => '1 s', "
			"max_attempts => 10000, if_not_exists => true)",
			{queue});
		(void) connection.run(setting_of(queue, {.batch = queue == kManyQueue ? 50 : 1}));
	}
	session.world.handlers = true;
}

HandlerSpec
some_handler(Random &random, const std::string &queue)
{
	HandlerSpec spec;
	spec.workers = random.between(1, 4);
	spec.timeout = random.between(1000, random.chance(50) ? 3000 : 20000) * kMillisecond;
	spec.idle = random.between(0, 2000) * kMillisecond;
	if (queue == kManyQueue)
		spec.batch = random.chance(50) ? 50 : random.between(1, 10);
	else if (random.chance(40))
		spec.batch = random.between(2, 8);
	return spec;
}

std::string
setting_of(const std::string &queue, const HandlerSpec &spec)
{
	std::string function = queue == kManyQueue ? "torture.handle_many(pgq_ext.claimed_job[])"
											   : "torture.handle(pgq_ext.claimed_job)";
	return "SELECT pgq_set_handler('" + queue + "', '" + function + "', workers => " +
		   number(spec.workers) + ", timeout => '" + milliseconds(spec.timeout) + "', batch => " +
		   number(spec.batch) + ", idle => '" + milliseconds(spec.idle) + "', run_as => '" +
		   kHandlerRole + "')";
}

} // namespace torture
