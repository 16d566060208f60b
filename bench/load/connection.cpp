#include <algorithm>
#include <sys/epoll.h>
#include "connection.h"

static constexpr Oid jsonb_array = 3807, bigint_array = 1016;

int
Verb::parameters() const
{
	int most = 0;
	for (auto &statement : statements)
		most = std::max(most, statement.parameters);
	return most;
}

Verb
describe(const Side &side, const std::string &name)
{
	std::unique_ptr<PGconn, void (*)(PGconn *)> connection(PQconnectdb(""), PQfinish);
	Verb verb;
	for (auto &sql : side.statements(name))
	{
		PQclear(PQprepare(connection.get(), "", sql.c_str(), 0, nullptr));
		PGresult *described = PQdescribePrepared(connection.get(), "");
		if (PQresultStatus(described) != PGRES_COMMAND_OK)
			fail(sql + PQerrorMessage(connection.get()));
		Statement statement{name + std::to_string(verb.statements.size()), sql,
							PQnparams(described)};
		if (statement.parameters > 0)
		{
			Oid type = PQparamtype(described, 0);
			verb.takes_array = type == jsonb_array || type == bigint_array;
		}
		PQclear(described);
		verb.statements.push_back(statement);
	}
	return verb;
}

Connection::Connection(const std::vector<const Verb *> &verbs) : connection(PQconnectdb(""))
{
	auto check = [&](PGresult *r) {
		if (PQresultStatus(r) != PGRES_COMMAND_OK)
			fail(PQerrorMessage(connection.get()));
		PQclear(r);
	};
	if (PQstatus(connection.get()) != CONNECTION_OK)
		fail(PQerrorMessage(connection.get()));
	for (auto *verb : verbs)
		for (auto &[name, sql, _] : verb->statements)
			check(PQprepare(connection.get(), name.c_str(), sql.c_str(), 0, nullptr));
	if (!verbs.empty())
		PQenterPipelineMode(connection.get());
}

void
Connection::start(const Verb &verb, const std::vector<std::string> &parameters)
{
	const char *values[8];
	for (size_t i = 0; i < std::min<size_t>(parameters.size(), 8); i++)
		values[i] = parameters[i].c_str();
	for (auto &statement : verb.statements)
		if (!PQsendQueryPrepared(connection.get(), statement.name.c_str(), statement.parameters,
								 values, nullptr, nullptr, 0))
			fail(PQerrorMessage(connection.get()));
	if (!PQpipelineSync(connection.get()))
		fail(PQerrorMessage(connection.get()));
	result.reset();
}

bool
Connection::finished()
{
	if (!PQconsumeInput(connection.get()))
		fail(PQerrorMessage(connection.get()));
	while (!PQisBusy(connection.get()))
	{
		std::unique_ptr<PGresult, Free> next(PQgetResult(connection.get()));
		if (!next)
			continue; // of this statement; the sync comes last
		switch (PQresultStatus(next.get()))
		{
			case PGRES_TUPLES_OK:
				result = std::move(next);
				break;
			case PGRES_COMMAND_OK:
				break;
			case PGRES_PIPELINE_SYNC:
				return true;
			default:
				fail(PQresultErrorMessage(next.get()));
		}
	}
	return false;
}

std::string
Connection::execute(const std::string &sql)
{
	std::unique_ptr<PGresult, Free> r(PQexec(connection.get(), sql.c_str()));
	auto status = PQresultStatus(r.get());
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		fail(sql + PQerrorMessage(connection.get()));
	return PQntuples(r.get()) > 0 ? PQgetvalue(r.get(), 0, 0) : "";
}

int
Connection::notifications()
{
	if (!PQconsumeInput(connection.get()))
		fail(PQerrorMessage(connection.get()));
	int n = 0;
	while (PGnotify *notification = PQnotifies(connection.get()))
	{
		PQfreemem(notification);
		n++;
	}
	return n;
}

void
Connection::cancel()
{
	char error[256];
	PGcancel *request = PQgetCancel(connection.get());
	PQcancel(request, error, sizeof error);
	PQfreeCancel(request);
}

Poll::Poll() : epoll(epoll_create1(0)), events(512)
{
	if (epoll < 0)
		fail("no epoll");
}

void
Poll::add(const Connection &connection, size_t number)
{
	epoll_event event{.events = EPOLLIN, .data = {.u64 = number}};
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection.socket(), &event) < 0)
		fail("cannot watch a connection");
}

const std::vector<size_t> &
Poll::wait(Time until)
{
	auto left = std::max(until - Clock::now(), Clock::duration::zero());
	auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
	timespec timeout{whole.count(), (left - whole).count()};
	int n = epoll_pwait2(epoll, events.data(), events.size(), &timeout, nullptr);
	ready.clear();
	for (int i = 0; i < n; i++)
		ready.push_back(events[i].data.u64);
	return ready;
}
