#include "connection.h"
#include <algorithm>
#include <sys/epoll.h>

static constexpr Oid jsonb_array = 3807, bigint_array = 1016, uuid_array = 2951;

int
Verb::parameters() const
{
	int most = 0;
	for (auto &statement : statements)
		most = std::max(most, statement.parameters);
	return most;
}

static pq::Link
connect()
{
	pq::Link link;
	if (!link.open(""))
		fail(link.error());
	return link;
}

Verb
describe(const Side &side, const std::string &name)
{
	pq::Link link = connect();
	Verb verb;
	for (auto &sql : side.statements(name))
	{
		link.prepare("", sql);
		auto described = link.describe("");
		if (!described.is_good())
			fail(sql + link.error());
		auto types = described.parameters();
		if (!types.empty())
			verb.takes_array =
				types[0] == jsonb_array || types[0] == bigint_array || types[0] == uuid_array;
		verb.statements.push_back(
			{name + std::to_string(verb.statements.size()), sql, static_cast<int>(types.size())});
	}
	return verb;
}

Connection::Connection(const std::vector<const Verb *> &verbs) : link(connect())
{
	for (auto *verb : verbs)
		for (auto &[name, sql, _] : verb->statements)
			if (!link.prepare(name, sql).is_good())
				fail(link.error());
	if (!verbs.empty())
		link.enter_pipeline();
}

void
Connection::start(const Verb &verb, const std::vector<std::string> &parameters)
{
	const char *values[8];
	for (size_t i = 0; i < std::min<size_t>(parameters.size(), 8); i++)
		values[i] = parameters[i].c_str();
	for (auto &statement : verb.statements)
		if (!link.send_prepared(statement.name, statement.parameters, values))
			fail(link.error());
	if (!link.sync())
		fail(link.error());
	result = pq::Result();
}

bool
Connection::finished()
{
	if (!link.read())
		fail(link.error());
	while (!link.is_busy())
	{
		auto next = link.next();
		if (!next)
			continue; // the result of one statement; the answer to the sync comes last
		if (next.is_sync())
			return true;
		if (!next.is_good())
			fail(next.error());
		if (next.has_rows())
			result = std::move(next);
	}
	return false;
}

std::string
Connection::execute(const std::string &sql)
{
	auto answer = link.run(sql);
	if (!answer.is_good())
		fail(sql + link.error());
	return answer.size() > 0 ? answer.text(0, 0) : "";
}

void
Connection::hold()
{
	execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
	execute("SELECT count(*) FROM pg_class");
}

int
Connection::notifications()
{
	if (!link.read())
		fail(link.error());
	return link.take_notifications();
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
