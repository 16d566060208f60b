#include "connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

namespace torture {

void
Connection::notice(void *connection, const PGresult *result)
{
	if (pq::text_of(result).find("synchronous replication") != std::string::npos)
		static_cast<Connection *>(connection)->doubt = true;
}

bool
Connection::take_doubt()
{
	return std::exchange(doubt, false);
}

void
Connection::close()
{
	std::lock_guard lock(mutex);
	link.close();
	socket = -1;
	pid = 0;
}

bool
Connection::try_open(const std::string &conninfo, int server)
{
	close();
	pq::Link fresh;
	if (!fresh.open(conninfo))
		return false;
	fresh.on_notice(notice, this);
	{
		std::lock_guard lock(mutex);
		link = std::move(fresh);
		socket = link.socket();
		pid = link.backend();
	}
	doubt = false;
	try
	{
		/*
		 * The start time of the checkpointer identifies the shared memory: both are made anew
		 * together.
		 */
		Rows rows = run("SELECT (extract(epoch FROM backend_start) * 1e6)::bigint FROM "
						"pg_stat_activity WHERE backend_type = 'checkpointer'");
		if (rows.size() == 1)
		{
			memory = {server, rows.number(0, 0)};
			return true;
		}
	}
	catch (const Broken &)
	{}
	catch (const SqlError &)
	{}
	close();
	return false;
}

void
Connection::cut()
{
	std::lock_guard lock(mutex);
	if (socket >= 0)
		shutdown(socket, SHUT_RDWR);
}

int
Connection::backend()
{
	std::lock_guard lock(mutex);
	return pid;
}

void
Connection::lose()
{
	close();
	throw Broken{};
}

/* Return the next result of the statements; an empty one at the end. */
Rows
Connection::answer()
{
	Time end = now() + kPatience;
	while (link.is_busy())
	{
		pollfd wanted = {link.socket(), POLLIN, 0};
		Time left = end - now();
		if (left <= 0)
			throw Hung{sent};
		if (poll(&wanted, 1, static_cast<int>(left / kMillisecond + 1)) > 0 && !link.read())
			lose();
	}
	return link.next();
}

void
Connection::send(const std::string &sql, const std::vector<Parameter> &parameters)
{
	if (!link.is_open())
		throw Broken{};
	std::vector<const char *> values;
	for (const Parameter &parameter : parameters)
		values.push_back(parameter ? parameter->c_str() : nullptr);
	if (!link.send(sql, values))
		lose();
	sent = sql;
}

Rows
Connection::receive()
{
	Rows rows;
	std::optional<SqlError> error;
	bool fatal = false;
	while (Rows next = answer())
	{
		rows = std::move(next);
		if (rows.is_good())
			continue;
		std::string state = rows.error(PG_DIAG_SQLSTATE);
		fatal |= state.empty() || rows.error(PG_DIAG_SEVERITY_NONLOCALIZED) != "ERROR";
		error = {state, rows.error(), sent};
	}
	if (!rows || fatal)
		lose();
	if (error)
		throw *error;
	return rows;
}

Rows
Connection::run(const std::string &sql, const std::vector<Parameter> &parameters)
{
	send(sql, parameters);
	return receive();
}

} // namespace torture
