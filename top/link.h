/*
 * The connection to the server. Only this file uses libpq. No function blocks, except wait(), and
 * start() while it resolves host names. One statement is under way at a time.
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

/*
 * Connection parameters, as psql has them. libpq itself finds the value of an empty parameter
 * (environment, service file, default).
 */
struct Address
{
	std::string host, port, user, password;
	/* a database name, or a connection string */
	std::string database;
};

/* The result of a statement: rows, or an error. */
class Answer
{
public:
	int size() const;
	bool is_good() const { return state.empty(); }
	/* the error in one line: ERROR: ... HINT: ... */
	const std::string &error() const { return message; }
	const std::string &sqlstate() const { return state; }

	/* Return the value of a column. A column that the result does not have counts as NULL. */
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

	/* Begin to connect, dropping an earlier connection. */
	void start();
	/* Send one statement, or several statements separated by semicolons. The link must be idle. */
	void ask(const std::string &sql);
	/*
	 * Go on connecting, sending or receiving, as far as possible without waiting. To be called when
	 * the socket is ready.
	 */
	void step();
	/* Close the connection; why: the reason that trouble() returns. */
	void give_up(const std::string &why);

	/* Call step() until the state has changed, or that many seconds have passed. */
	void wait(double seconds);

	State state() const { return current; }
	/*
	 * Return the result of the last statement. To be called once, after the state has changed from
	 * busy to idle.
	 */
	Answer take_answer() { return std::move(answer); }
	/* Return why the link is down. */
	const std::string &trouble() const { return reason; }
	bool needs_password() const { return asked_for_password; }
	void set_password(std::string password) { address.password = std::move(password); }

	/* socket() returns the file descriptor to poll (-1: none), events() the events to poll for. */
	int socket() const;
	short events() const;

	/* Return user@host:port/database of the last connection. */
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
