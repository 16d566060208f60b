// Makes calls in a backend that runs under callgrind, which counts the instructions of each kind of call (counter.cpp). Prints
// how many jobs each count is for. The environment variables of libpq say which server to use.
//
//   calls [TEXT]        the calls whose name begins with this text, or all
#include "../../test/pq/pq.h"
#include "../load/basics.h"
#include <cstdio>
#include <functional>
#include <unistd.h>

static const char *const payload = R"({"a": 1, "b": "hello world", "c": [1, 2, 3, 4]})";
static constexpr int batch = 500;
static constexpr int few = 10;
// Jobs of the queues that are claimed from, several times as many as memory has room for.
static constexpr int backlog = 15000;

static pq::Link server;

static pq::Result
checked(pq::Result result)
{
	if (!result.is_good())
		fail(result.error());
	return result;
}

static void
run(const std::string &sql)
{
	checked(server.run(sql));
}

static int sessions = 0;

// Begins a new session.
static void
connect()
{
	if (!server.open(""))
		fail(server.error());
	sessions++;
}

// A statement that is prepared at its first run in a session, as drivers do.
struct Prepared
{
	std::string sql;
	int session = 0;

	pq::Result operator()(const std::vector<const char *> &values = {})
	{
		const std::string name = std::to_string(reinterpret_cast<uintptr_t>(this));
		if (session != sessions)
			checked(server.prepare(name, sql));
		session = sessions;
		if (!server.send_prepared(name, static_cast<int>(values.size()), values.data()))
			fail(server.error());
		pq::Result result = checked(server.next());
		while (server.next())
			;
		return result;
	}
};

// The jobs, or rows, that the last statement gave, as two arrays.
struct Claimed
{
	std::string ids;
	std::string leases;

	explicit Claimed(const pq::Result &result = pq::Result(), int expected = 0)
	{
		if (result && result.size() != expected)
			fail(std::to_string(expected) + " jobs expected");
		std::string between = "{";
		for (int i = 0; i < expected; i++, between = ",")
		{
			ids += between + result.text(i, 0);
			leases += between + result.text(i, 1);
		}
		ids += "}";
		leases += "}";
	}
};

static std::string
repeated(const std::string &begin, const std::string &part, const std::string &end, int n = batch)
{
	std::string all = begin;
	for (int i = 0; i < n; i++)
		all += (i ? "," : "") + part;
	return all + end;
}

static std::string
quoted(std::string text)
{
	for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2)
		text.insert(at, "\\");
	return '"' + text + '"';
}

static Prepared claim{"SELECT job_id, lease, payload FROM pgq_claim($1)"};
// A worker of one queue has its name in the statement.
static Prepared
claim_of(const std::string &queue)
{
	return {"SELECT job_id, lease, payload FROM pgq_claim('" + queue + "')"};
}
static Prepared ack{"SELECT pgq_ack($1, $2)"};
static Prepared claim_many{"SELECT job_id, lease, payload FROM pgq_claim($1, 500)"};
static Prepared ack_many{"SELECT count(*) FROM pgq_ack_many($1, $2)"};

/* Until the scheduler has found that no job has a parent, each end of a job looks for children. */
static void
wait_for_scheduler()
{
	for (int tries = 0; tries < 1200; tries++, usleep(100 * 1000))
		if (checked(
				server.run("SELECT FROM pgq_ext.duty WHERE duty = 'children' AND last_run_at IS "
						   "NOT NULL"))
				.size() > 0)
			return;
	fail("the scheduler does not look for children");
}

static void
create_queue(const std::string &name, const std::string &options, const std::string &group,
			 const std::string &batch = "NULL")
{
	run("SELECT pgq_create_queue('" + name + "'" + options + ")");
	run("SELECT count(pgq_enqueue('" + name + "', '" + payload + "', group_key => " + group +
		", batch => " + batch + ")) FROM generate_series(1, " + std::to_string(backlog) + ") i");
	wait_for_scheduler();
}

static std::string
new_batch()
{
	return checked(server.run("SELECT pgq_create_batch()")).text(0, 0);
}

static void
claim_and_ack(Prepared &claim)
{
	pq::Result job = claim();
	if (job.size() != 1)
		fail("there is no job");
	std::string id = job.text(0, 0), lease = job.text(0, 1);
	ack({id.c_str(), lease.c_str()});
}

static constexpr int handled = 1000; // jobs of a handler that are counted, after as many others

// Lets the handler of a queue run jobs. The handler itself tells its worker, at two jobs, when to count: the worker has no client.
static void
run_handler(const std::string &name)
{
	run("SELECT pgq_create_queue('handled')");
	run("CREATE FUNCTION handle(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
		"IF job.payload = '\"begin\"' THEN PERFORM count_from_now(); "
		"ELSIF job.payload = '\"end\"' THEN PERFORM write_count('" +
		name + "'); END IF; END $$");
	run("CREATE ROLE handler LOGIN; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack, pgq_fail, "
		"pgq_release TO handler");
	run("SELECT count(pgq_enqueue('handled', (CASE i WHEN " + std::to_string(handled) +
		" THEN '\"begin\"' WHEN " + std::to_string(2 * handled) + " THEN '\"end\"' ELSE '" +
		payload + "' END)::jsonb)) FROM generate_series(1, " + std::to_string(3 * handled) + ") i");
	wait_for_scheduler();
	run("SELECT pgq_set_handler('handled', 'handle(pgq_ext.claimed_job)', run_as => 'handler')");
	for (int tries = 0; tries < 3000; tries++, usleep(100 * 1000))
		if (checked(server.run("SELECT FROM pgq_ext.queue_status WHERE queue = 'handled' AND ready "
							   "+ leased = 0"))
				.size() > 0)
			return;
	fail("the handler does not run its jobs");
}

// What is counted, in a session of its own. Once: without other calls before. Of a worker: make() counts by itself.
struct Call
{
	const char *name;
	int jobs; // of one call
	std::function<void()> prepare;
	std::function<void()> make;
	bool once = false;
	bool of_worker = false;
};

static std::vector<Call>
all_calls()
{
	static Prepared select_1{"SELECT 1"};
	static Prepared select_row{"SELECT id, id + 1, payload FROM bare WHERE id = $1"};
	static Prepared delete_row{"DELETE FROM bare WHERE id = $1"};
	static Prepared delete_rows{
		"DELETE FROM bare WHERE id = ANY ($1::bigint[]) RETURNING id, id + 1, payload"};
	static Prepared insert_row{"INSERT INTO bare (payload) VALUES ($1)"};
	static Prepared insert_rows{"INSERT INTO bare (payload) SELECT unnest($1::jsonb[])"};
	static Prepared enqueue{"SELECT pgq_enqueue('put', $1)"};
	static Prepared enqueue_member{"SELECT pgq_enqueue('put', $1, batch => $2)"};
	static Prepared enqueue_many{"SELECT count(*) FROM pgq_enqueue_many('put', $1)"};
	static Prepared publish_one{"SELECT queue, job_id FROM pgq_publish('one.topic', $1)"};
	static Prepared publish_ten{"SELECT queue, job_id FROM pgq_publish('ten.topic', $1)"};
	static Prepared ack_claim{"SELECT job_id, lease, payload FROM pgq_ack_claim($1, $2, 'one')"};
	static Prepared ack_next{"SELECT job_id, lease, payload FROM pgq_ack_next($1, $2, 'next')"};
	static Prepared mq_send{"SELECT pgmq.send('sent', $1)"};
	static Prepared mq_read{"SELECT msg_id, message FROM pgmq.read('read', 30, 1)"};
	static Prepared mq_delete{"SELECT pgmq.delete('read', $1::bigint)"};
	static Prepared mq_read_many{"SELECT msg_id, message FROM pgmq.read('many_read', 30, 500)"};
	static Prepared mq_delete_many{"SELECT pgmq.delete('many_read', $1::bigint[])"};
	static Prepared mq_send_many{"SELECT pgmq.send_batch('sent', $1::jsonb[])"};
	static Prepared mq_read_none{"SELECT msg_id, message FROM pgmq.read('no_message', 30, 1)"};
	static Prepared ack_claim_many{
		"SELECT job_id, lease, payload FROM pgq_ack_claim($1, $2, 'many', 500)"};
	static const std::string many_jobs =
		repeated("[", std::string("{\"payload\": ") + payload + "}", "]");
	static const std::string ten_jobs =
		repeated("[", std::string("{\"payload\": ") + payload + "}", "]", few);
	static const std::string many_rows = repeated("{", quoted(payload), "}");
	static long row = 0;
	static Claimed held;
	static std::string a_batch;

	const auto nothing = [] {};
	const auto fill_rows = [] {
		run("TRUNCATE bare RESTART IDENTITY");
		run("INSERT INTO bare (payload) SELECT '" + std::string(payload) +
			"' FROM generate_series(1, 15000)");
		run("VACUUM bare");
		row = 0;
	};
	const auto next_row = [] { return std::to_string(++row); };
	const auto queue = [](const char *name, const char *options, const char *group) {
		return [=] { create_queue(name, options, group); };
	};
	const auto queue_to_fill = [] { run("SELECT pgq_create_queue('put', if_not_exists => true)"); };
	const auto batch_to_fill = [=] {
		queue_to_fill();
		a_batch = new_batch();
	};
	/* Queues that are bound to topics, and `others` bindings of one more queue to other topics. */
	const auto bound_queues = [](int others) {
		return [=] {
			run("SELECT pgq_create_queue('bound_' || i, if_not_exists => true) FROM "
				"generate_series(0, " +
				std::to_string(few) + ") i");
			run("SELECT pgq_bind('ten.*', 'bound_' || i) FROM generate_series(1, " +
				std::to_string(few) + ") i");
			run("SELECT pgq_bind('one.#', 'bound_1')");
			run("INSERT INTO pgq_ext.topic_binding (queue_id, pattern) SELECT queue_id, 'other.' "
				"|| i || '.#' "
				"FROM pgq_ext.queue, generate_series(1, " +
				std::to_string(others) + ") i WHERE queue = 'bound_0'");
		};
	};
	const auto message_queue = [](const char *name, int messages) {
		return [=] {
			run("CREATE EXTENSION IF NOT EXISTS pgmq");
			run(std::string("SELECT pgmq.create('") + name + "')");
			if (messages > 0)
				run(std::string("SELECT count(*) FROM pgmq.send_batch('") + name +
					"', array_fill('" + payload + "'::jsonb, ARRAY[" + std::to_string(messages) +
					"]))");
			wait_for_scheduler();
		};
	};
	const auto pair = [](const char *name) {
		return [claim = claim_of(name)]() mutable { claim_and_ack(claim); };
	};
	const char *tens = "'g' || i % 1500";
	const char *busy = "CASE WHEN i <= 10000 THEN 'busy' ELSE 'g' || i % 500 END";

	return {
		{"SELECT 1", 1, nothing, [] { select_1(); }},
		{"SELECT 1 + DELETE of a row", 1, fill_rows,
		 [=] {
			 std::string id = next_row();
			 select_1();
			 delete_row({id.c_str()});
		 }},
		{"SELECT + DELETE of a row", 1, fill_rows,
		 [=] {
			 std::string id = next_row();
			 select_row({id.c_str()});
			 delete_row({id.c_str()});
		 }},
		{"claim + ack", 1, queue("pair", "", "NULL"), pair("pair")},
		{"ack_claim", 1,
		 [] {
			 create_queue("one", "", "NULL");
			 held = Claimed(claim({"one"}), 1);
		 },
		 [] {
			 held = Claimed(ack_claim({held.ids.c_str(), held.leases.c_str()}), 1);
		 }},
		{"ack_next", 1,
		 [] {
			 create_queue("next", "", "NULL");
			 held = Claimed(claim({"next"}), 1);
		 },
		 [] {
			 std::string id = held.ids.substr(1, held.ids.size() - 2);
			 std::string lease = held.leases.substr(1, held.leases.size() - 2);
			 held = Claimed(ack_next({id.c_str(), lease.c_str()}), 1);
		 }},
		{"DELETE ... RETURNING of 500 rows", batch, fill_rows,
		 [=] {
			 std::string ids;
			 for (int i = 0; i < batch; i++)
				 ids += (i ? "," : "{") + next_row();
			 delete_rows({(ids + "}").c_str()});
		 }},
		{"claim + ack_many of 500", batch,
		 [] {
			 for (const char *name : {"batch_1", "batch_2"})
				 create_queue(name, "", "NULL");
		 },
		 [] {
			 static int calls = 0;
			 const Claimed jobs(claim_many({++calls % 2 ? "batch_1" : "batch_2"}), batch);
			 ack_many({jobs.ids.c_str(), jobs.leases.c_str()});
		 }},
		{"ack_claim of 500", batch,
		 [] {
			 create_queue("many", "", "NULL");
			 held = Claimed(claim_many({"many"}), batch);
		 },
		 [] {
			 held = Claimed(ack_claim_many({held.ids.c_str(), held.leases.c_str()}), batch);
		 }},
		{"INSERT of a row", 1, nothing, [] { insert_row({payload}); }},
		{"enqueue", 1, queue_to_fill, [] { enqueue({payload}); }},
		{"enqueue, a member", 1, batch_to_fill,
		 [] {
			 enqueue_member({payload, a_batch.c_str()});
		 }},
		{"claim + ack, a member", 1, [] { create_queue("members", "", "NULL", new_batch()); },
		 pair("members")},
		{"INSERT of 500 rows", batch, nothing, [] { insert_rows({many_rows.c_str()}); }},
		{"enqueue_many of 500", batch, queue_to_fill, [] { enqueue_many({many_jobs.c_str()}); }},
		{"enqueue_many of 10", few, queue_to_fill, [] { enqueue_many({ten_jobs.c_str()}); }},
		{"publish to one queue", 1, bound_queues(0), [] { publish_one({payload}); }},
		{"publish to 10 queues", few, bound_queues(0), [] { publish_ten({payload}); }},
		{"publish to one queue, 10,000 bindings", 1, bound_queues(10000),
		 [] { publish_one({payload}); }},
		{"claim + ack, group_concurrency", 1,
		 queue("concurrency", ", group_concurrency => 1", tens), pair("concurrency")},
		{"claim + ack, group_concurrency, a group waits", 1,
		 [=] {
			 create_queue("concurrency_busy", ", group_concurrency => 1", busy);
			 claim({"concurrency_busy"});
		 },
		 pair("concurrency_busy")},
		{"claim + ack, group_rate_limit", 1, queue("rate", ", group_rate_limit => 1000000", tens),
		 pair("rate")},
		{"claim + ack, fifo", 1, queue("fifo", ", fifo => true", tens), pair("fifo")},
		{"claim + ack, fifo, a group waits", 1,
		 [=] {
			 create_queue("fifo_busy", ", fifo => true", busy);
			 claim({"fifo_busy"});
		 },
		 pair("fifo_busy")},
		{"claim + ack, fair", 1, queue("fair", ", fair => true", tens), pair("fair")},
		{"claim + ack, fair, a large group", 1, queue("fair_busy", ", fair => true", busy),
		 pair("fair_busy")},
		{"claim + ack, fair, fifo", 1, queue("fair_fifo", ", fair => true, fifo => true", tens),
		 pair("fair_fifo")},
		{"first claim + ack of a session", 1, [] { create_queue("first", "", "NULL"); },
		 pair("first"), true},
		{"pgmq.send", 1, message_queue("sent", 0), [] { mq_send({payload}); }},
		{"pgmq.send_batch of 500", batch, message_queue("sent", 0),
		 [] { mq_send_many({many_rows.c_str()}); }},
		{"pgmq.read + delete", 1, message_queue("read", backlog),
		 [] {
			 const pq::Result message = mq_read();
			 if (message.size() != 1)
				 fail("there is no message");
			 const std::string id = message.text(0, 0);
			 mq_delete({id.c_str()});
		 }},
		{"pgmq.read + delete of 500", batch, message_queue("many_read", backlog),
		 [] {
			 const Claimed messages(mq_read_many(), batch);
			 mq_delete_many({messages.ids.c_str()});
		 }},
		{"pgmq.read of an empty queue", 1, message_queue("no_message", 0), [] { mq_read_none(); }},
		{"job of a handler", handled, nothing, [] { run_handler("job of a handler"); }, false,
		 true},
	};
}

static void
count(const Call &call)
{
	// The first calls fill caches.
	const int before = call.once ? 0 : call.jobs == batch ? 4 : 1000;
	const int counted = call.once ? 1 : call.jobs == batch ? 20 : 1000;

	if (call.of_worker)
	{
		call.make();
		printf("%s\t%d\n", call.name, call.jobs);
		fflush(stdout);
		return;
	}
	call.prepare();
	// A session that has created a queue needs more for each commit: the server's list of its locks has grown.
	connect();
	for (int i = 0; i < before; i++)
		call.make();
	run("SELECT count_from_now()");
	for (int i = 0; i < counted; i++)
		call.make();
	run(std::string("SELECT write_count('") + call.name + "')");
	printf("%s\t%d\n", call.name, counted * call.jobs);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	connect();
	run("CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb)");
	for (const Call &call : all_calls())
		if (argc < 2 || std::string(call.name).find(argv[1]) == 0)
			count(call);
}
