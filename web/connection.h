/*
 * A connection to the server. Only connection.cpp uses libpq. Each call waits until its time is
 * over, even if the network is down; a connection belongs to one thread at a time.
 */
#pragma once

#include "failure.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

struct pg_conn;
struct pg_result;

namespace web {

/* Connection parameters, as psql has them. libpq finds the value of an empty one. */
struct Address
{
	std::string host, port, user, password;
	/* a database name, or a connection string */
	std::string database;
};

using Value = std::optional<std::string>;
using Values = std::vector<Value>;

/* The kind of a column of a result: decides how JSON shows the column. */
enum class Kind
{
	text,
	number,
	exact,
	flag,
	json,
};

/* The rows of a statement. */
class Rows
{
public:
	explicit Rows(pg_result *taken) : result(taken) {}

	int size() const;
	int columns() const;
	std::string column(int n) const;
	Kind kind(int n) const;
	Value value(int row, int n) const;
	/* Return the value of a column by its name; nothing if the result does not have the column. */
	Value value(int row, const char *column) const;
	/* Return the number in a column; nothing if the value is NULL. */
	std::optional<double> number(int row, const char *column) const;

private:
	struct Clear
	{
		void operator()(pg_result *result) const;
	};
	std::unique_ptr<pg_result, Clear> result;
};

/* Seconds to wait for the server. Longer than the statement timeouts of the session. */
constexpr double kReadPatience = 10, kActionPatience = 70, kConnectPatience = 10;

class Connection
{
public:
	/*
	 * Connect as that role with that password. Throws a Failure: status 401 if the server has asked
	 * for a password and did not take it, 503 if it could not be reached.
	 */
	static std::unique_ptr<Connection> open(const Address &address);

	/* Run one statement with parameters $1 ... in a read-only transaction of its own. */
	Rows read(const std::string &sql, const Values &values = {});
	/* Run one statement in a transaction that may write, with a longer time limit. */
	Rows act(const std::string &sql, const Values &values);

	/* Whether the server has asked for a password. */
	bool used_password() const;
	std::string server_host() const;
	/* A lost connection is made again by the next call. */
	bool is_lost() const;

private:
	struct Finish
	{
		void operator()(pg_conn *connection) const;
	};
	std::unique_ptr<pg_conn, Finish> conn;

	void finish_connecting(bool is_reset);
	void require_own_session();
	void revive();
	Rows run(const std::string &sql, const Values &values, double patience);
	bool wait(short events, double until);
	[[noreturn]] void fail_by(pg_result *result);
	[[noreturn]] void lose(const std::string &why);
};

/* Return the text in one line without control characters, at most `most` bytes long. */
std::string one_line(std::string_view text, size_t most = 1000);

} // namespace web
