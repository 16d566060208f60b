// A connection that does one thing at a time, while the thread looks after others.
#pragma once

#include "../../test/pq/pq.h"
#include "side.h"
#include <sys/epoll.h>

struct Statement
{
	std::string name;
	std::string sql;
	int parameters = 0;
};

// A piece of a side, prepared: its statements go out together, in one round trip.
struct Verb
{
	std::vector<Statement> statements;
	bool takes_array = false; // its first parameter

	int parameters() const;
};

// Asks a server what the parameters of a piece are.
Verb describe(const Side &, const std::string &name);

class Connection
{
public:
	explicit Connection(const std::vector<const Verb *> &verbs = {});

	// Parameters are taken from the front of the list by each statement.
	void start(const Verb &, const std::vector<std::string> &parameters);
	// Reads what has come; true when the verb has ended.
	bool finished();
	int rows() const { return result ? result.size() : 0; }
	std::string value(int row, int column) const { return result.text(row, column); }

	// At once, as simple queries.
	std::string execute(const std::string &sql);
	int notifications();
	void cancel() { link.cancel(); }
	int socket() const { return link.socket(); }

private:
	pq::Link link;
	pq::Result result;
};

// Says which connections have something to read. The number that came with add() names them.
class Poll
{
public:
	Poll();
	void add(const Connection &, size_t number);
	// Returns at `until` at the latest.
	const std::vector<size_t> &wait(Time until);

private:
	int epoll;
	std::vector<epoll_event> events;
	std::vector<size_t> ready;
};
