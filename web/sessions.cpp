#include "sessions.h"

namespace web {

/* Count the attempt as failed, and keep room for the session. */
void
Sessions::reserve(const std::string &from)
{
	std::lock_guard lock(mutex);
	if (sessions.size() + under_way >= kMost)
		throw Failure{503, "busy", "too many roles have logged in", "",
					  "Log out elsewhere, or try again later."};
	if (int seconds = limiter.wait_for(from, steady_now()))
		throw Failure{429,	  "limit", "too many failed logins", "", "Try again in a minute.",
					  seconds};
	under_way++;
}

/* Open a connection as the role. Only a connection for which the server wants a password proves who it is. */
static std::unique_ptr<Connection>
connection_of(const Address &server, const std::string &role, const std::string &password)
{
	Address address = server;
	address.user = role;
	address.password = password;
	try
	{
		auto connection = Connection::open(address);
		if (!connection->used_password())
			throw Failure{
				403, "login",
				"the database does not ask this role for a password, so the role cannot log in "
				"here",
				"",
				"Let pg_hba.conf require a password (scram-sha-256) for connections of pgq-web."};
		return connection;
	}
	catch (const Failure &failure)
	{
		if (failure.status != 401)
			throw;
		throw Failure{
			401, "login",
			"the role or its password is wrong, or the role may not connect to this database"};
	}
}

std::shared_ptr<Session>
Sessions::log_in(const Address &server, const std::string &role, const std::string &password,
				 const std::string &from)
{
	expire();
	/* libpq would take an empty role or password from the environment of the program. */
	if (role.empty() || password.empty())
		throw Failure{400, "argument", "a role and its password are needed"};
	reserve(from);
	std::shared_ptr<Session> session;
	try
	{
		session = std::make_shared<Session>(connection_of(server, role, password));
	}
	catch (const Failure &failure)
	{
		std::lock_guard lock(mutex);
		under_way--;
		/* Only a wrong password is an attempt to guess one. */
		if (failure.status != 401)
			limiter.forgive(from);
		throw;
	}
	session->token = random_token();
	session->csrf = random_token();
	session->role = role;
	session->made_at = session->used_at = steady_now();
	std::lock_guard lock(mutex);
	under_way--;
	limiter.forgive(from);
	sessions[session->token] = session;
	return session;
}

std::shared_ptr<Session>
Sessions::find(const std::string &token)
{
	expire();
	std::lock_guard lock(mutex);
	auto found = sessions.find(token);
	if (token.empty() || found == sessions.end())
		return nullptr;
	found->second->used_at = steady_now();
	return found->second;
}

void
Sessions::end(const std::string &token)
{
	std::shared_ptr<Session> ended;
	std::lock_guard lock(mutex);
	auto found = sessions.find(token);
	if (found == sessions.end())
		return;
	ended = std::move(found->second);
	sessions.erase(found);
}

void
Sessions::expire()
{
	std::lock_guard lock(mutex);
	double now = steady_now();
	std::erase_if(sessions, [now](const auto &one) {
		const Session &session = *one.second;
		return now - session.made_at > kLongest || now - session.used_at > kIdle;
	});
}

} // namespace web
