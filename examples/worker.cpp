// Works off the queue "mail"; PGHOST, PGDATABASE and so on say where. SIGTERM: the job in hand is finished, what has not begun
// is given back. If a job is not ours any more (it took too long, or was cancelled) pgq_ack fails, which undoes its work. Where
// there is a standby, PGHOST=one,two and PGTARGETSESSIONATTRS=read-write, and it goes on after a failover.
// g++ -std=c++20 -I"$(pg_config --includedir)" worker.cpp -lpq -o worker
#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

using Connection = std::unique_ptr<PGconn, void (*)(PGconn *)>;
using Result = std::shared_ptr<PGresult>;

volatile std::sig_atomic_t stopping = 0;
std::atomic<Result> held; // the jobs claimed last: job_id, lease, payload; those before begun have ended
std::atomic<int> begun;

Result query(PGconn *db, const char *sql, const std::vector<const char *> &values = {})
{
	if (PQstatus(db) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(db));
	Result result(PQexecParams(db, sql, values.size(), nullptr, values.data(), nullptr, nullptr, 0), PQclear);
	if (auto status = PQresultStatus(result.get()); status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		throw std::runtime_error(PQerrorMessage(db));
	return result;
}

void handle(PGconn *db, const char *id, const char *payload) // the work: committed with the ack, or not at all
{
	query(db, "INSERT INTO sent (job_id, address) VALUES ($1, $2::jsonb ->> 'to')", {id, payload});
}

void work(PGconn *db, const char *id, const char *lease, const char *payload)
{
	try {
		query(db, "BEGIN");
		handle(db, id, payload);
		query(db, "SELECT pgq_ack($1, $2)", {id, lease});
		query(db, "COMMIT");
	} catch (const std::exception &error) { // tried again after the queue's backoff
		query(db, "ROLLBACK");
		query(db, "SELECT pgq_fail($1, $2, error => $3)", {id, lease, error.what()});
	}
}

Connection connect() { return {PQconnectdb(""), PQfinish}; }

void connected(void (*use)(PGconn *)) // whoever is the primary: what was in hand comes again
{
	auto db = connect();
	while (!stopping) {
		try {
			use(db.get());
		} catch (const std::exception &error) {
			std::cerr << error.what();
			std::this_thread::sleep_for(std::chrono::seconds(1));
			PQreset(db.get());
		}
	}
}

void heartbeat(PGconn *db)
{
	for (;;) {
		std::this_thread::sleep_for(std::chrono::seconds(3)); // well within the queue's lease_time
		auto jobs = held.load();
		for (int i = begun; i < PQntuples(jobs.get()); i++)
			query(db, "SELECT pgq_extend($1, $2)", {PQgetvalue(jobs.get(), i, 0), PQgetvalue(jobs.get(), i, 1)});
	}
}

void work_all(PGconn *db)
{
	struct Leaving { ~Leaving() { held = Result(); } } leaving; // the connection is gone: somebody else gets them
	while (!stopping) {
		auto jobs = query(db, "SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')");
		held = jobs;
		for (int i = 0; i < PQntuples(jobs.get()); i++) {
			begun = i;
			auto column = [&](int c) { return PQgetvalue(jobs.get(), i, c); };
			if (stopping) query(db, "SELECT pgq_release($1, $2)", {column(0), column(1)});
			else work(db, column(0), column(1), column(2));
		}
		held = Result();
	}
}

int main()
{
	std::signal(SIGTERM, [](int) { stopping = 1; });
	query(connect().get(), "SELECT"); // what is wrong from the start is an error
	std::thread(connected, heartbeat).detach();
	connected(work_all);
	std::quick_exit(0);
}
