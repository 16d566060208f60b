/*
 * Lines to the database: a connection with its catalog, which one request at a time uses. Requests
 * without a login share some lines of the role with which the program was started.
 */
#pragma once

#include "catalog.h"
#include "shared/clock.h"

#include <array>
#include <atomic>
#include <mutex>

namespace web {

using shared::steady_now;

class Line
{
public:
	Line() = default;
	explicit Line(std::unique_ptr<Connection> opened) : connection(std::move(opened)) {}

	/* The use of a line by one request. */
	struct Use
	{
		std::unique_lock<std::timed_mutex> lock;
		Connection &connection;
		const Catalog &catalog;
	};
	/*
	 * Wait until no other request uses the line, connect if that is necessary, and read the catalog
	 * if it is older than a minute. address: where to connect; nullptr: the line has a connection.
	 */
	Use use(const Address *address);
	/* As use(), but return nothing if another request uses the line. */
	std::optional<Use> try_use(const Address *address);

private:
	std::timed_mutex mutex;
	std::unique_ptr<Connection> connection;
	std::optional<Catalog> catalog;
	double catalog_at = 0;

	Use ready(std::unique_lock<std::timed_mutex> lock, const Address *address);
};

/* The lines of the role with which the program was started. */
class Pool
{
public:
	explicit Pool(Address started_with) : server(std::move(started_with)) {}

	Line::Use use();
	const Address &address() const { return server; }

private:
	static constexpr size_t kLines = 4;
	Address server;
	std::array<Line, kLines> lines;
	std::atomic<size_t> next = 0;
};

} // namespace web
