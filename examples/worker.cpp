// Works off the queue "mail". SIGTERM: the job in hand is finished, what has not begun is given back.
// g++ -std=c++20 -I"$(pg_config --includedir)" worker.cpp -lpq -o worker
#include <libpq-fe.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;
struct Job { std::string id, lease, payload; };

volatile std::sig_atomic_t stopping = 0;
std::mutex held_mutex;
std::vector<Job> held; // the jobs claimed last

Result query(PGconn *db, const char *sql, const std::vector<const char *> &values = {})
{
	Result result(PQexecParams(db, sql, values.size(), nullptr, values.data(), nullptr, nullptr, 0), PQclear);
	if (auto status = PQresultStatus(result.get()); status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		throw std::runtime_error(PQerrorMessage(db));
	return result;
}

void handle(PGconn *db, const Job &job) // the work: committed with the ack, or not at all
{
	query(db, "INSERT INTO sent (job_id, address) VALUES ($1, $2::jsonb ->> 'to')", {job.id.c_str(), job.payload.c_str()});
}

void work(PGconn *db, const Job &job)
{
	try {
		query(db, "BEGIN");
		handle(db, job);
		query(db, "SELECT pgq_ack($1, $2)", {job.id.c_str(), job.lease.c_str()});
		query(db, "COMMIT");
	} catch (const std::exception &error) {
		query(db, "ROLLBACK");
		query(db, "SELECT pgq_fail($1, $2, error => $3)", {job.id.c_str(), job.lease.c_str(), error.what()});
	}
}

void heartbeat()
{
	auto *db = PQconnectdb("");
	for (;;) {
		std::this_thread::sleep_for(std::chrono::seconds(3)); // well within the queue's lease_time
		std::unique_lock lock(held_mutex);
		auto jobs = held;
		lock.unlock();
		for (const auto &job : jobs) query(db, "SELECT pgq_extend($1, $2)", {job.id.c_str(), job.lease.c_str()});
	}
}

int main()
{
	std::signal(SIGTERM, [](int) { stopping = 1; });
	std::thread(heartbeat).detach();
	auto *db = PQconnectdb("");
	while (!stopping) {
		auto rows = query(db, "SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')");
		std::vector<Job> jobs;
		for (int i = 0; i < PQntuples(rows.get()); i++)
			jobs.push_back({PQgetvalue(rows.get(), i, 0), PQgetvalue(rows.get(), i, 1), PQgetvalue(rows.get(), i, 2)});
		{ std::lock_guard lock(held_mutex); held = jobs; }
		for (const auto &job : jobs) {
			if (stopping) query(db, "SELECT pgq_release($1, $2)", {job.id.c_str(), job.lease.c_str()});
			else work(db, job);
		}
	}
	std::quick_exit(0);
}
