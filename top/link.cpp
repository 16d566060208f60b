#include "link.h"

#include <libpq-fe.h>

#include <charconv>
#include <chrono>
#include <poll.h>

namespace top {

namespace {

/*
 * Return a message of libpq in one line. Such a message can have several lines, and ends with a
 * newline.
 */
std::string
one_line(std::string_view text)
{
	std::string line;
	for (char c : text)
	{
		if (c == '\n' || c == '\t')
			c = ' ';
		if (c != ' ' || (!line.empty() && line.back() != ' '))
			line += c;
	}
	if (!line.empty() && line.back() == ' ')
		line.pop_back();
	return line;
}

/* Return user@host:port/database; a socket is [local], as in psql's prompt. */
std::string
name_of(const PGconn *conn)
{
	auto part = [](const char *text) { return std::string(text != nullptr ? text : ""); };
	std::string host = part(PQhost(conn));
	if (host.empty() || host[0] == '/' || host[0] == '@')
		host = "[local]";
	return part(PQuser(conn)) + "@" + host + ":" + part(PQport(conn)) + "/" + part(PQdb(conn));
}

std::string
field(const PGresult *result, int code)
{
	const char *text = PQresultErrorField(result, code);
	return text != nullptr ? text : "";
}

} // namespace

/* ---- answers ---- */

void
Answer::Clear::operator()(pg_result *result) const
{
	PQclear(result);
}

/* Take a result. If the statement has several results, keep the last rows and the first error. */
void
Answer::take(pg_result *result)
{
	if (PQresultStatus(result) == PGRES_TUPLES_OK)
	{
		rows.reset(result);
		return;
	}
	if (PQresultStatus(result) != PGRES_COMMAND_OK && state.empty())
	{
		state = field(result, PG_DIAG_SQLSTATE);
		state = state.empty() ? "?" : state;
		message = one_line(PQresultErrorMessage(result));
	}
	PQclear(result);
}

int
Answer::size() const
{
	return rows ? PQntuples(rows.get()) : 0;
}

std::optional<std::string>
Answer::text(int row, const char *column) const
{
	int n = PQfnumber(rows.get(), column);
	if (n < 0 || PQgetisnull(rows.get(), row, n))
		return {};
	return std::string(PQgetvalue(rows.get(), row, n),
					   static_cast<size_t>(PQgetlength(rows.get(), row, n)));
}

std::string
Answer::text_or_nothing(int row, const char *column) const
{
	return text(row, column).value_or("");
}

template <typename Number>
static std::optional<Number>
parsed(const std::optional<std::string> &text)
{
	Number value;
	if (!text)
		return {};
	auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
	return error == std::errc() ? std::optional<Number>(value) : std::nullopt;
}

Count
Answer::number(int row, const char *column) const
{
	return parsed<int64_t>(text(row, column));
}

std::optional<double>
Answer::real(int row, const char *column) const
{
	return parsed<double>(text(row, column));
}

std::optional<bool>
Answer::flag(int row, const char *column) const
{
	std::optional<std::string> value = text(row, column);
	return value ? std::optional<bool>(*value == "t") : std::nullopt;
}

/* ---- connecting ---- */

void
Link::Finish::operator()(pg_conn *connection) const
{
	PQfinish(connection);
}

/*
 * Connect with the parameters that the user has given. For the other parameters libpq uses the
 * environment, as in psql. The database may be given as a connection string, which libpq expands.
 */
void
Link::start()
{
	std::vector<const char *> names, values;
	auto give = [&](const char *name, const std::string &value) {
		if (value.empty())
			return;
		names.push_back(name);
		values.push_back(value.c_str());
	};
	const std::string encoding = "UTF8", program = "pgq-top";
	give("host", address.host);
	give("port", address.port);
	give("user", address.user);
	give("password", address.password);
	give("dbname", address.database);
	give("client_encoding", encoding);
	give("fallback_application_name", program);
	names.push_back(nullptr);
	values.push_back(nullptr);

	asked_for_password = false;
	is_rolling_back = false;
	conn.reset(PQconnectStartParams(names.data(), values.data(), 1));
	current = State::connecting;
	is_writing = true;
	if (PQstatus(conn.get()) == CONNECTION_BAD)
		return fail();
	/* Drop notices, which libpq would print on the screen. */
	PQsetNoticeProcessor(
		conn.get(), [](void *, const char *) {}, nullptr);
}

void
Link::fail()
{
	reason = conn ? one_line(PQerrorMessage(conn.get())) : "out of memory";
	asked_for_password = conn && PQconnectionNeedsPassword(conn.get()) != 0;
	close();
}

void
Link::give_up(const std::string &why)
{
	close();
	reason = why;
	asked_for_password = false;
}

void
Link::go_on_connecting()
{
	switch (PQconnectPoll(conn.get()))
	{
		case PGRES_POLLING_FAILED:
			return fail();
		case PGRES_POLLING_OK:
			PQsetnonblocking(conn.get(), 1);
			server_name = name_of(conn.get());
			current = State::idle;
			break;
		case PGRES_POLLING_WRITING:
			is_writing = true;
			break;
		default:
			is_writing = false;
	}
}

/* ---- asking ---- */

void
Link::ask(const std::string &sql)
{
	answer = Answer();
	current = State::busy;
	if (!PQsendQuery(conn.get(), sql.c_str()))
		fail();
}

void
Link::go_on_reading()
{
	if (PQflush(conn.get()) < 0 || !PQconsumeInput(conn.get()) ||
		PQstatus(conn.get()) == CONNECTION_BAD)
		return fail();
	while (current == State::busy && !PQisBusy(conn.get()))
	{
		PGresult *result = PQgetResult(conn.get());
		if (result == nullptr)
			finish_answer();
		else if (is_rolling_back)
			PQclear(result);
		else
			answer.take(result);
	}
	if (PQstatus(conn.get()) == CONNECTION_BAD)
		fail();
}

/* End the transaction that an error leaves open, before the answer is returned. */
void
Link::finish_answer()
{
	if (PQstatus(conn.get()) != CONNECTION_OK)
		return;
	if (PQtransactionStatus(conn.get()) == PQTRANS_INERROR && !is_rolling_back)
	{
		is_rolling_back = true;
		if (!PQsendQuery(conn.get(), "ROLLBACK"))
			fail();
		return;
	}
	is_rolling_back = false;
	current = State::idle;
}

void
Link::step()
{
	switch (current)
	{
		case State::down:
			break;
		case State::connecting:
			go_on_connecting();
			break;
		case State::idle:
			/* The server sends nothing on an idle connection, unless it closes the connection. */
			if (!PQconsumeInput(conn.get()) || PQstatus(conn.get()) == CONNECTION_BAD)
				fail();
			break;
		case State::busy:
			go_on_reading();
	}
}

void
Link::wait(double seconds)
{
	using namespace std::chrono;
	auto until =
		steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(seconds));
	for (State before = current; current == before && current != State::down;)
	{
		auto left = duration_cast<milliseconds>(until - steady_clock::now()).count();
		if (left <= 0)
			return;
		pollfd wanted = {socket(), events(), 0};
		if (poll(&wanted, 1, static_cast<int>(left)) > 0)
			step();
	}
}

int
Link::socket() const
{
	return conn ? PQsocket(conn.get()) : -1;
}

short
Link::events() const
{
	if (current == State::connecting)
		return is_writing ? POLLOUT : POLLIN;
	bool has_more_to_send = current == State::busy && PQflush(conn.get()) > 0;
	return static_cast<short>(has_more_to_send ? POLLIN | POLLOUT : POLLIN);
}

} // namespace top
