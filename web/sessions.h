/*
 * Sessions: a role that has logged in, with a connection of this role. The password stays inside
 * the connection.
 */
#pragma once

#include "board.h"
#include "safety.h"

namespace web {

/* An answer that is kept for a while, since it costs much. */
struct Kept
{
	std::mutex mutex;
	std::string json;
	/* seconds, steady_now() */
	double until = 0;
};

struct Session
{
	explicit Session(std::unique_ptr<Connection> opened) : line(std::move(opened)) {}

	std::string token, csrf, role;
	Line line;
	double made_at = 0;
	std::atomic<double> used_at = 0;
	Kept health;
	Board board;
};

class Sessions
{
public:
	static constexpr size_t kMost = 32;
	static constexpr double kLongest = 8 * 3600, kIdle = 1800;

	/*
	 * Log in. Throws a Failure: a wrong password (401), a server that has not asked for one (403),
	 * too many attempts of the address (429), too many sessions (503).
	 */
	std::shared_ptr<Session> log_in(const Address &server, const std::string &role,
									const std::string &password, const std::string &from);
	/* Return the session of a token, and note that it was used; nullptr: there is none. */
	std::shared_ptr<Session> find(const std::string &token);
	void end(const std::string &token);
	/* End the sessions whose time is over. */
	void expire();

	/* The CSRF token of callers that have not logged in. */
	const std::string &common_csrf() const { return csrf; }

private:
	std::mutex mutex;
	std::map<std::string, std::shared_ptr<Session>> sessions;
	Limiter limiter;
	size_t under_way = 0;
	const std::string csrf = random_token();

	void reserve(const std::string &from);
};

} // namespace web
