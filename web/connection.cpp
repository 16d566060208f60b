#include "connection.h"

#include "shared/clock.h"
#include "shared/text.h"

#include <libpq-fe.h>

#include <charconv>
#include <poll.h>

namespace web {

using shared::steady_now;

namespace {

/* Types of PostgreSQL by their OIDs, which never change (pg_type.dat). */
constexpr Oid kBool = 16, kInt8 = 20, kInt2 = 21, kInt4 = 23, kOid = 26, kJson = 114, kFloat4 = 700,
			  kFloat8 = 701;

/*
 * The settings of every session. They are part of the request to connect, so they hold from the first
 * statement on, and win over settings of the role (ALTER ROLE). No statement may find functions or
 * operators of other users.
 */
constexpr const char *kSettings =
	" -c search_path=pg_catalog,pg_temp -c default_transaction_read_only=on"
	" -c default_transaction_isolation=read\\ committed -c statement_timeout=5s"
	" -c lock_timeout=5s -c idle_in_transaction_session_timeout=60s"
	" -c DateStyle=ISO -c IntervalStyle=postgres -c TimeZone=UTC"
	" -c extra_float_digits=1 -c bytea_output=hex -c jit=off -c enable_mergejoin=off";

std::string
field(const PGresult *result, int code)
{
	const char *text = PQresultErrorField(result, code);
	return text != nullptr ? text : "";
}

/* Return a message of libpq with a space in place of the ends of its lines, and none at its end. */
std::string
in_one_line(std::string text)
{
	for (char &c : text)
		c = c == '\n' || c == '\t' || c == '\r' ? ' ' : c;
	while (!text.empty() && text.back() == ' ')
		text.pop_back();
	return text;
}

int
status_of(const std::string &sqlstate)
{
	if (sqlstate == "42501")
		return 403;
	if (sqlstate == "57014" || sqlstate == "55P03")
		return 504;
	if (sqlstate.starts_with("08") || sqlstate.starts_with("57P") || sqlstate.starts_with("53"))
		return 503;
	return 422;
}

} // namespace

std::string
one_line(std::string_view text, size_t most)
{
	return shared::shown(text.substr(0, most), shared::Charset::ascii);
}

/* ---- rows ---- */

void
Rows::Clear::operator()(pg_result *result) const
{
	PQclear(result);
}

int
Rows::size() const
{
	return PQntuples(result.get());
}

int
Rows::columns() const
{
	return PQnfields(result.get());
}

std::string
Rows::column(int n) const
{
	return PQfname(result.get(), n);
}

Kind
Rows::kind(int n) const
{
	switch (PQftype(result.get(), n))
	{
		case kBool:
			return Kind::flag;
		case kInt2:
		case kInt4:
		case kOid:
		case kFloat4:
		case kFloat8:
			return Kind::number;
		case kInt8:
			return Kind::exact;
		case kJson:
			return Kind::json;
		default:
			return Kind::text;
	}
}

Value
Rows::value(int row, int n) const
{
	if (PQgetisnull(result.get(), row, n))
		return {};
	return std::string(PQgetvalue(result.get(), row, n),
					   static_cast<size_t>(PQgetlength(result.get(), row, n)));
}

Value
Rows::value(int row, const char *column) const
{
	int n = PQfnumber(result.get(), column);
	return n < 0 || row >= size() ? Value() : value(row, n);
}

std::optional<double>
Rows::number(int row, const char *column) const
{
	Value text = value(row, column);
	double number;
	if (!text)
		return {};
	auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
	return error == std::errc() ? std::optional<double>(number) : std::nullopt;
}

/* ---- connecting ---- */

void
Connection::Finish::operator()(pg_conn *connection) const
{
	PQfinish(connection);
}

/*
 * The database comes first: it may be a connection string, and the later parameters win over what
 * it says.
 */
std::unique_ptr<Connection>
Connection::open(const Address &address)
{
	std::vector<const char *> names, values;
	auto give = [&](const char *name, const std::string &value) {
		if (value.empty())
			return;
		names.push_back(name);
		values.push_back(value.c_str());
	};
	const std::string encoding = "UTF8", program = "pgq-web", seconds = "10",
					  milliseconds = "15000";
	const char *given_options = getenv("PGOPTIONS");
	const std::string settings =
		(given_options != nullptr ? given_options : "") + std::string(kSettings);
	give("dbname", address.database);
	give("host", address.host);
	give("port", address.port);
	give("user", address.user);
	give("password", address.password);
	give("options", settings);
	give("client_encoding", encoding);
	give("fallback_application_name", program);
	give("connect_timeout", seconds);
	give("tcp_user_timeout", milliseconds);
	names.push_back(nullptr);
	values.push_back(nullptr);

	/* Connect. */
	auto made = std::make_unique<Connection>();
	made->conn.reset(PQconnectStartParams(names.data(), values.data(), 1));
	made->finish_connecting(false);
	return made;
}

void
Connection::finish_connecting(bool is_reset)
{
	double until = steady_now() + kConnectPatience;
	PostgresPollingStatusType state = PGRES_POLLING_WRITING;
	while (conn && PQstatus(conn.get()) != CONNECTION_BAD && state != PGRES_POLLING_OK)
	{
		if (!wait(state == PGRES_POLLING_WRITING ? POLLOUT : POLLIN, until))
			break;
		state = is_reset ? PQresetPoll(conn.get()) : PQconnectPoll(conn.get());
		if (state == PGRES_POLLING_FAILED)
			break;
	}
	if (state != PGRES_POLLING_OK)
	{
		std::string why = in_one_line(conn ? PQerrorMessage(conn.get()) : "out of memory");
		if (conn && PQconnectionUsedPassword(conn.get()) && !is_reset)
			throw Failure{401, "login", one_line(why)};
		throw Failure{503, "database", "there is no connection to the database", one_line(why)};
	}
	PQsetnonblocking(conn.get(), 1);
	/* Drop notices, which libpq would print. */
	PQsetNoticeProcessor(
		conn.get(), [](void *, const char *) {}, nullptr);
	require_own_session();
}

/*
 * Refuse a pooler, such as pgbouncer: it may send each transaction to another session, where the
 * settings of this one do not hold. A pooler does not know the process that will serve the
 * connection, so it has told another process id.
 */
void
Connection::require_own_session()
{
	Rows process = run("SELECT pg_catalog.pg_backend_pid() AS pid", {}, kConnectPatience);
	if (process.value(0, "pid") != std::to_string(PQbackendPID(conn.get())))
		throw Failure{
			503, "database", "there is a connection pooler before the database", "",
			"Let pgq-web connect to the server itself: its settings must stay in its session."};
}

/* Connect again after a loss. libpq keeps the password inside the connection. */
void
Connection::revive()
{
	if (!is_lost())
	{
		/* The server may have closed an idle connection. */
		if (PQconsumeInput(conn.get()) && PQstatus(conn.get()) == CONNECTION_OK)
			return;
	}
	if (!PQresetStart(conn.get()))
		lose(PQerrorMessage(conn.get()));
	finish_connecting(true);
}

bool
Connection::is_lost() const
{
	return !conn || PQstatus(conn.get()) != CONNECTION_OK;
}

bool
Connection::used_password() const
{
	return PQconnectionUsedPassword(conn.get()) != 0;
}

std::string
Connection::server_host() const
{
	const char *host = PQhost(conn.get());
	return host == nullptr || host[0] == '/' || host[0] == '@' || host[0] == '\0' ? "[local]"
																				  : host;
}

/* ---- statements ---- */

bool
Connection::wait(short events, double until)
{
	double left = until - steady_now();
	if (left <= 0)
		return false;
	pollfd wanted = {PQsocket(conn.get()), events, 0};
	return poll(&wanted, 1, static_cast<int>(left * 1000) + 1) > 0;
}

/* Make the connection unusable: its state is not known. The next call connects again. */
void
Connection::lose(const std::string &why)
{
	std::string reason = one_line(in_one_line(why));
	if (conn && PQstatus(conn.get()) == CONNECTION_OK)
	{
		/* PQreset is the only way to close a connection and keep its parameters. */
		PQresetStart(conn.get());
	}
	throw Failure{503, "database", "the connection to the database was lost", reason};
}

void
Connection::fail_by(pg_result *result)
{
	std::string sqlstate = field(result, PG_DIAG_SQLSTATE);
	Failure failure{status_of(sqlstate), sqlstate.empty() ? "database" : sqlstate,
					field(result, PG_DIAG_MESSAGE_PRIMARY), field(result, PG_DIAG_MESSAGE_DETAIL),
					field(result, PG_DIAG_MESSAGE_HINT)};
	if (failure.message.empty())
		failure.message = one_line(in_one_line(PQresultErrorMessage(result)));
	if (failure.code == "database")
		failure.status = 503;
	throw failure;
}

/* Send one statement, and wait for its rows. Every result is read, so that the next one can be sent. */
Rows
Connection::run(const std::string &sql, const Values &values, double patience)
{
	/* Send the statement. */
	std::vector<const char *> parameters;
	for (const Value &value : values)
		parameters.push_back(value ? value->c_str() : nullptr);
	double until = steady_now() + patience;
	if (!PQsendQueryParams(conn.get(), sql.c_str(), static_cast<int>(parameters.size()), nullptr,
						   parameters.data(), nullptr, nullptr, 0))
		lose(PQerrorMessage(conn.get()));
	for (int left = 1; left != 0;)
	{
		left = PQflush(conn.get());
		bool is_ready = left >= 0 && (left == 0 || wait(POLLIN | POLLOUT, until));
		if (!is_ready || !PQconsumeInput(conn.get()))
			lose(left >= 0 && !is_ready ? "no answer" : PQerrorMessage(conn.get()));
	}
	/* Read its results; the first error, or the last rows, count. */
	std::unique_ptr<PGresult, void (*)(PGresult *)> last(nullptr, PQclear);
	for (;;)
	{
		while (PQisBusy(conn.get()))
			if (!wait(POLLIN, until) || !PQconsumeInput(conn.get()))
				lose(PQstatus(conn.get()) == CONNECTION_OK ? "no answer"
														   : PQerrorMessage(conn.get()));
		PGresult *result = PQgetResult(conn.get());
		if (result == nullptr)
			break;
		if (!last || PQresultStatus(last.get()) != PGRES_FATAL_ERROR)
			last.reset(result);
		else
			PQclear(result);
	}
	if (!last)
		lose(PQerrorMessage(conn.get()));
	if (PQresultStatus(last.get()) != PGRES_TUPLES_OK &&
		PQresultStatus(last.get()) != PGRES_COMMAND_OK)
		fail_by(last.get());
	return Rows(last.release());
}

/* Run a statement that changes nothing. An old connection may turn out to be lost: try once more. */
Rows
Connection::read(const std::string &sql, const Values &values)
{
	revive();
	try
	{
		return run(sql, values, kReadPatience);
	}
	catch (const Failure &failure)
	{
		if (!is_lost() && !failure.code.starts_with("57P"))
			throw;
	}
	revive();
	return run(sql, values, kReadPatience);
}

Rows
Connection::act(const std::string &sql, const Values &values)
{
	read("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
	try
	{
		run("SET LOCAL statement_timeout = '60s'", {}, kReadPatience);
		Rows rows = run(sql, values, kActionPatience);
		run("COMMIT", {}, kActionPatience);
		return rows;
	}
	catch (const Failure &)
	{
		if (PQstatus(conn.get()) == CONNECTION_OK &&
			PQtransactionStatus(conn.get()) != PQTRANS_IDLE)
			run("ROLLBACK", {}, kReadPatience);
		throw;
	}
}

} // namespace web
