#include "connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

namespace torture {

void
Connection::notice(void *connection, const PGresult *result)
{
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	if (text != nullptr && std::string(text).find("synchronous replication") != std::string::npos)
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
	if (conn != nullptr)
		PQfinish(conn);
	conn = nullptr;
	socket = -1;
	pid = 0;
}

bool
Connection::try_open(const std::string &conninfo, int server)
{
	close();
	PGconn *fresh = PQconnectdb(conninfo.c_str());
	if (PQstatus(fresh) != CONNECTION_OK)
	{
		PQfinish(fresh);
		return false;
	}
	PQsetNoticeReceiver(fresh, notice, this);
	{
		std::lock_guard lock(mutex);
		conn = fresh;
		socket = PQsocket(fresh);
		pid = PQbackendPID(fresh);
	}
	doubt = false;
	try
	{
		/* The checkpointer is started anew, once, with each shared memory. */
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

/* The next result, or NULL at the end. */
PGresult *
Connection::answer()
{
	Time end = now() + kPatience;
	while (PQisBusy(conn))
	{
		pollfd wanted = {PQsocket(conn), POLLIN, 0};
		Time left = end - now();
		if (left <= 0)
			throw Hung{sent};
		if (poll(&wanted, 1, static_cast<int>(left / kMillisecond + 1)) > 0 &&
			!PQconsumeInput(conn))
			lose();
	}
	return PQgetResult(conn);
}

void
Connection::send(const std::string &sql, const std::vector<Parameter> &parameters)
{
	if (conn == nullptr)
		throw Broken{};
	std::vector<const char *> values;
	for (const Parameter &parameter : parameters)
		values.push_back(parameter ? parameter->c_str() : nullptr);
	if (!PQsendQueryParams(conn, sql.c_str(), static_cast<int>(values.size()), nullptr,
						   values.data(), nullptr, nullptr, 0))
		lose();
	sent = sql;
}

Rows
Connection::receive()
{
	std::optional<Rows> rows;
	std::optional<SqlError> error;
	bool fatal = false;
	while (PGresult *result = answer())
	{
		rows.emplace(result);
		ExecStatusType status = PQresultStatus(result);
		if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
			continue;
		const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
		const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
		fatal |= state == nullptr || severity == nullptr || std::string(severity) != "ERROR";
		error = {state != nullptr ? state : "", PQresultErrorMessage(result), sent};
	}
	if (!rows || fatal)
		lose();
	if (error)
		throw *error;
	return *rows;
}

Rows
Connection::run(const std::string &sql, const std::vector<Parameter> &parameters)
{
	send(sql, parameters);
	return receive();
}

} // namespace torture
