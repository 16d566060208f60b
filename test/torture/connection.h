/*
 * A client connection that may break at any moment, also by another thread's hand.
 */
#pragma once

#include "../pq/pq.h"
#include "clock.h"
#include "ledger.h"

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace torture {

/* The server said ERROR; the connection is still good. */
struct SqlError
{
	std::string state;
	std::string message;
	std::string statement;
};

/* The connection is gone: nobody knows what became of the statement. */
struct Broken
{};

/* No answer in a time in which everything must have one. */
struct Hung
{
	std::string statement;
};

using Rows = pq::Result;
using Parameter = std::optional<std::string>;

class Connection
{
public:
	Connection() = default;
	Connection(const Connection &) = delete;
	~Connection() { close(); }

	/* False: no server there, or it does not accept us yet. */
	bool try_open(const std::string &conninfo, int server);
	void close();
	bool is_open() const { return link.is_open(); }

	Rows run(const std::string &sql, const std::vector<Parameter> &parameters = {});
	/* The same in two steps: something else can be done meanwhile. */
	void send(const std::string &sql, const std::vector<Parameter> &parameters = {});
	Rows receive();

	Epoch epoch() const { return memory; }

	/*
	 * Since the last call: did a statement end without the standby's consent? Then
	 * what it committed may yet be lost.
	 */
	bool take_doubt();

	/* By any thread: cut the line, without a word to the server. */
	void cut();
	/* By any thread: the server process, 0 if there is none. */
	int backend();

private:
	pq::Link link;
	std::string sent; /* the last statement */
	Epoch memory;
	bool doubt = false;
	std::mutex mutex; /* protects what other threads may look at */
	int socket = -1;
	int pid = 0;

	static void notice(void *connection, const PGresult *result);
	void lose();
	Rows answer();
};

} // namespace torture
