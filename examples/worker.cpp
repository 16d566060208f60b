// A worker for the queue "mail". PGHOST, PGDATABASE and so on name the database. With a standby, set PGHOST=one,two and
// PGTARGETSESSIONATTRS=read-write: then the worker goes on after a failover. On SIGTERM the worker finishes the job that it is
// working on. If it has lost a job (the job took too long, or was cancelled), pgq_ack fails, which rolls the work back. Create
// the queue by SELECT pgq_create_queue('mail', lease_time => '1 min', max_runtime => '10 min'). The heartbeat extends the
// lease until max_runtime is over; then a job that hangs goes to another worker.
// g++ -std=c++20 -I"$(pg_config --includedir)" worker.cpp -lpq -o worker
#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using Connection = std::unique_ptr<PGconn, void (*)(PGconn *)>;
using Result = std::shared_ptr<PGresult>;

volatile std::sig_atomic_t stopping = 0;
std::atomic<Result> held; // the claimed job: job_id, lease, payload

Result query(PGconn *db, const char *sql, const std::vector<const char *> &values = {})
{
	if (PQstatus(db) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(db));
	Result result(PQexecParams(db, sql, values.size(), nullptr, values.data(), nullptr, nullptr, 0), PQclear);
	if (auto status = PQresultStatus(result.get()); status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		throw std::runtime_error(PQerrorMessage(db));
	return result;
}

std::string storable(std::string text) // PostgreSQL stores only valid UTF-8
{
	auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
	for (size_t i = 0, length; i < text.size(); i += length) {
		auto first = byte(i), second = byte(i + 1);
		length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
		bool valid = first < 0x80 || (first >= 0xc2 && first <= 0xf4 && !(first == 0xe0 && second < 0xa0) &&
		             !(first == 0xed && second > 0x9f) && !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second > 0x8f));
		for (size_t k = 1; k < length; k++) valid = valid && (byte(i + k) & 0xc0) == 0x80;
		if (!valid) text[i] = '?', length = 1;
	}
	return text;
}

void handle(PGconn *db, const char *id, const char *payload) // the work, committed together with the ack
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
	} catch (const std::exception &error) { // the job is tried again after the queue's backoff
		query(db, "ROLLBACK");
		query(db, "SELECT pgq_fail($1, $2, error => $3)", {id, lease, storable(error.what()).c_str()});
	}
}

Connection connect() { return {PQconnectdb(""), PQfinish}; }

void connected(void (*use)(PGconn *)) // reconnects to the primary after an error; a claimed job is then claimed again
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
		if (auto job = held.load())
			query(db, "SELECT pgq_extend($1, $2)", {PQgetvalue(job.get(), 0, 0), PQgetvalue(job.get(), 0, 1)});
	}
}

void work_all(PGconn *db)
{
	struct Leaving { ~Leaving() { held = Result(); } } leaving; // if the connection is lost, another worker gets the job
	while (!stopping) {
		auto job = query(db, "SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')");
		if (PQntuples(job.get()) == 0) continue;
		held = job;
		auto column = [&](int c) { return PQgetvalue(job.get(), 0, c); };
		if (stopping) query(db, "SELECT pgq_release($1, $2)", {column(0), column(1)}); // the job has not begun: give it back
		else work(db, column(0), column(1), column(2));
		held = Result();
	}
}

int main()
{
	std::signal(SIGTERM, [](int) { stopping = 1; });
	query(connect().get(), "SELECT"); // fail now if the connection is impossible from the start
	std::thread(connected, heartbeat).detach();
	connected(work_all);
	std::quick_exit(0);
}
