/*
 * libpq, for the programs of test/ and bench/: owned, and in the types of C++. What an
 * error means is for the program to say, so nothing here raises.
 */
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pq {

/* An answer of the server. */
class Result
{
public:
	explicit Result(PGresult *answer = nullptr) : result(answer) {}
	/* False: there was no (further) answer. */
	explicit operator bool() const { return result != nullptr; }

	bool is_good() const { return has_rows() || status() == PGRES_COMMAND_OK; }
	bool has_rows() const { return status() == PGRES_TUPLES_OK; }
	bool is_sync() const { return status() == PGRES_PIPELINE_SYNC; }

	int size() const { return PQntuples(result.get()); }
	bool is_null(int row, int column) const { return PQgetisnull(result.get(), row, column) != 0; }
	std::string text(int row, int column) const { return PQgetvalue(result.get(), row, column); }
	int64_t number(int row, int column) const { return std::stoll(text(row, column)); }
	std::string tag() const { return PQcmdStatus(result.get()); }

	/* Of a statement that was described. */
	std::vector<Oid> parameters() const;

	/* Of an error: all of it, or PG_DIAG_...; empty if that was not said. */
	std::string error() const { return PQresultErrorMessage(result.get()); }
	std::string error(int field) const;

private:
	struct Clear
	{
		void operator()(PGresult *r) const { PQclear(r); }
	};
	std::unique_ptr<PGresult, Clear> result;

	ExecStatusType status() const { return PQresultStatus(result.get()); }
};

/* What a notice says, for who receives them. */
std::string text_of(const PGresult *notice);

/* A connection. Where a function returns a bool, false means that error() says more. */
class Link
{
public:
	bool open(const std::string &conninfo);
	void close() { conn.reset(); }
	bool is_open() const { return conn != nullptr; }
	std::string error() const { return PQerrorMessage(conn.get()); }
	int socket() const { return PQsocket(conn.get()); }
	int backend() const { return PQbackendPID(conn.get()); }
	void on_notice(PQnoticeReceiver receiver, void *with);

	/* At once. */
	Result run(const std::string &sql) { return Result(PQexec(conn.get(), sql.c_str())); }
	Result prepare(const std::string &name, const std::string &sql);
	Result describe(const std::string &name);

	/* Without waiting for answers. A null pointer is NULL. */
	bool send(const std::string &sql, const std::vector<const char *> &values);
	bool send_prepared(const std::string &name, int n, const char *const *values);
	bool enter_pipeline() { return PQenterPipelineMode(conn.get()) != 0; }
	bool sync() { return PQpipelineSync(conn.get()) != 0; }

	/* Answers, when the socket has something to read: none of them waits if it is not busy. */
	bool read() { return PQconsumeInput(conn.get()) != 0; }
	bool is_busy() { return PQisBusy(conn.get()) != 0; }
	Result next() { return Result(PQgetResult(conn.get())); }
	/* How many have come since the last call. */
	int take_notifications();

	void cancel();

private:
	struct Finish
	{
		void operator()(PGconn *c) const { PQfinish(c); }
	};
	std::unique_ptr<PGconn, Finish> conn;
};

} // namespace pq
