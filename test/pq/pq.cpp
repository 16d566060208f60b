#include "pq.h"

namespace pq {

std::vector<Oid>
Result::parameters() const
{
	std::vector<Oid> types(PQnparams(result.get()));
	for (size_t i = 0; i < types.size(); i++)
		types[i] = PQparamtype(result.get(), static_cast<int>(i));
	return types;
}

std::string
Result::error(int field) const
{
	const char *text = PQresultErrorField(result.get(), field);
	return text != nullptr ? text : "";
}

std::string
text_of(const PGresult *notice)
{
	const char *text = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
	return text != nullptr ? text : "";
}

bool
Link::open(const std::string &conninfo)
{
	conn.reset(PQconnectdb(conninfo.c_str()));
	return PQstatus(conn.get()) == CONNECTION_OK;
}

void
Link::on_notice(PQnoticeReceiver receiver, void *with)
{
	PQsetNoticeReceiver(conn.get(), receiver, with);
}

Result
Link::prepare(const std::string &name, const std::string &sql)
{
	return Result(PQprepare(conn.get(), name.c_str(), sql.c_str(), 0, nullptr));
}

Result
Link::describe(const std::string &name)
{
	return Result(PQdescribePrepared(conn.get(), name.c_str()));
}

bool
Link::send(const std::string &sql, const std::vector<const char *> &values)
{
	return PQsendQueryParams(conn.get(), sql.c_str(), static_cast<int>(values.size()), nullptr,
							 values.data(), nullptr, nullptr, 0) != 0;
}

bool
Link::send_prepared(const std::string &name, int n, const char *const *values)
{
	return PQsendQueryPrepared(conn.get(), name.c_str(), n, values, nullptr, nullptr, 0) != 0;
}

int
Link::take_notifications()
{
	int n = 0;
	while (PGnotify *notification = PQnotifies(conn.get()))
	{
		PQfreemem(notification);
		n++;
	}
	return n;
}

void
Link::cancel()
{
	char error[256];
	PGcancel *request = PQgetCancel(conn.get());
	PQcancel(request, error, sizeof(error));
	PQfreeCancel(request);
}

} // namespace pq
