/*
 * The connection. All of libpq is in here: nothing of it waits but start(), for names of hosts.
 * One statement is under way at a time.
 */
#pragma once

#include "format.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pg_conn;
struct pg_result;

namespace top {

/* As psql has them; an empty one is libpq's to find (environment, service, default). */
struct Address
{
	std::string host, port, user, password;
	/* A database, or a connection string with more than that. */
	std::string database;
};

/* Rows, or an error. */
class Answer
{
public:
	int size() const;
	bool is_good() const { return state.empty(); }
	/* ERROR: ... HINT: ..., in one line */
	const std::string &error() const { return message; }
	const std::string &sqlstate() const { return state; }

	/* A column that the answer has not got is NULL. */
	std::optional<std::string> text(int row, const char *column) const;
	std::string text_or_nothing(int row, const char *column) const;
	Count number(int row, const char *column) const;
	std::optional<double> real(int row, const char *column) const;
	std::optional<bool> flag(int row, const char *column) const;

private:
	friend class Link;
	struct Clear
	{
		void operator()(pg_result *result) const;
	};
	std::unique_ptr<pg_result, Clear> rows;
	std::string state, message;

	void take(pg_result *result);
};

class Link
{
public:
	enum class State
	{
		down,
		connecting,
		idle,
		busy,
	};

	explicit Link(Address server) : address(std::move(server)) {}

	/* Begins to connect; what was before is gone. */
	void start();
	/* Begins a statement, or several that are one, on an idle connection. */
	void ask(const std::string &sql);
	/* Goes on with what has come. To be called when the socket is ready. */
	void step();
	/* Closes what nobody waits for any more. */
	void give_up(const std::string &why);

	/* steps until the state has changed from what it is, or so many seconds have passed */
	void wait(double seconds);

	State state() const { return current; }
	/* After busy: what came. */
	Answer take_answer() { return std::move(answer); }
	/* Why it is down. */
	const std::string &trouble() const { return reason; }
	bool needs_password() const { return asked_for_password; }
	void set_password(std::string password) { address.password = std::move(password); }

	/* What to wait for; -1: nothing */
	int socket() const;
	short events() const;

	/* user@host:port/database, of the last connection */
	const std::string &name() const { return server_name; }

private:
	struct Finish
	{
		void operator()(pg_conn *connection) const;
	};
	Address address;
	std::unique_ptr<pg_conn, Finish> conn;
	State current = State::down;
	Answer answer;
	std::string reason;
	std::string server_name;
	bool asked_for_password = false;
	bool is_writing = false;
	bool is_rolling_back = false;

	void close() { conn.reset(), current = State::down; }
	void fail();
	void go_on_connecting();
	void go_on_reading();
	void finish_answer();
};

} // namespace top
