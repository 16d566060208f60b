// A connection that runs one verb at a time without blocking, so that a thread can serve many
// connections.
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

// A prepared piece of a side. Its statements are sent together, in one round trip.
struct Verb
{
	std::vector<Statement> statements;
	bool takes_array = false; // its first parameter is an array

	int parameters() const;
};

// Ask a server which parameters a piece has.
Verb describe(const Side &, const std::string &name);

class Connection
{
public:
	explicit Connection(const std::vector<const Verb *> &verbs = {});

	// Start a verb. Each of its statements takes its parameters from the front of the list.
	void start(const Verb &, const std::vector<std::string> &parameters);
	// Read the data that has arrived. Returns true when the verb has ended.
	bool finished();
	int rows() const { return result ? result.size() : 0; }
	std::string value(int row, int column) const { return result.text(row, column); }

	// Run statements by the simple query protocol, and wait for the end.
	std::string execute(const std::string &sql);
	// Take a snapshot, and hold it until the connection ends.
	void hold();
	int notifications();
	void cancel() { link.cancel(); }
	int socket() const { return link.socket(); }

private:
	pq::Link link;
	pq::Result result;
};

// Waits until connections can be read. A connection is identified by the number that was given to
// add().
class Poll
{
public:
	Poll();
	void add(const Connection &, size_t number);
	// Return the connections that can be read; return at the time `until` at the latest.
	const std::vector<size_t> &wait(Time until);

private:
	int epoll;
	std::vector<epoll_event> events;
	std::vector<size_t> ready;
};
