/* A client connection that may break at any moment. Another thread may also cut it. */
#pragma once

#include "../pq/pq.h"
#include "clock.h"
#include "ledger.h"

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace torture {

/* The server has answered with an ERROR. The connection can still be used. */
struct SqlError
{
	std::string state;
	std::string message;
	std::string statement;
};

/* The connection is lost: it is not known whether the statement was executed. */
struct Broken
{};

/* There was no answer in kPatience, in which every call must be answered. */
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

	/* Connect. Returns false if there is no server, or if it does not accept connections yet. */
	bool try_open(const std::string &conninfo, int server);
	void close();
	bool is_open() const { return link.is_open(); }

	Rows run(const std::string &sql, const std::vector<Parameter> &parameters = {});
	/* Run a statement in two steps, with other work in between. */
	void send(const std::string &sql, const std::vector<Parameter> &parameters = {});
	Rows receive();

	Epoch epoch() const { return memory; }

	/*
	 * Return whether, since the last call, a statement ended without the confirmation of the
	 * standby. If so, the statement's commit may still be lost.
	 */
	bool take_doubt();

	/* Cut the connection without telling the server. May be called by any thread. */
	void cut();
	/* Return the pid of the server process; 0 if there is none. May be called by any thread. */
	int backend();

private:
	pq::Link link;
	std::string sent; /* the last statement */
	Epoch memory;
	bool doubt = false;
	std::mutex mutex; /* protects fields that other threads read */
	int socket = -1;
	int pid = 0;

	static void notice(void *connection, const PGresult *result);
	void lose();
	Rows answer();
};

} // namespace torture
