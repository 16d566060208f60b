/*
 * The checks of requests that need neither HTTP nor a database: secrets, the Host and Origin
 * headers, cookies, and the number of failed logins.
 */
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace web {

/* Return 256 random bits as 64 hexadecimal digits. Ends the program if the system has none. */
std::string random_token();

/* Compare two texts; the time does not depend on where they differ. */
bool is_same_secret(std::string_view a, std::string_view b);

/* Return the value of a cookie in a Cookie header; empty: there is no such cookie. */
std::string cookie_of(std::string_view header, std::string_view name);

/*
 * Return the address of the caller. from: the address of the connection; forwarded: the header
 * X-Forwarded-For, to which each proxy adds the address that it has seen. Only what a trusted proxy
 * has added counts: the last address that is not one of a trusted proxy.
 */
std::string caller_of(const std::string &from, std::string_view forwarded,
					  const std::set<std::string> &proxies);

/* The hosts by which the program may be called: protects against DNS rebinding. */
class Hosts
{
public:
	/* Allow the address on which the program listens; for a loopback address, all names of it. */
	void add_listener(const std::string &host, int port);
	/* Allow a name; with a port only that port, otherwise any. */
	void add(const std::string &name);

	/* Whether the value of a Host header is allowed. */
	bool allows(std::string_view host) const;
	/* Whether the value of an Origin header is a page of that host. */
	static bool is_same_origin(std::string_view origin, std::string_view host);

private:
	std::vector<std::string> names;
};

/*
 * Counts failed logins of an address: after kMost in a minute, more are refused. Not thread safe.
 */
class Limiter
{
public:
	static constexpr size_t kMost = 5, kMostAddresses = 10000;
	static constexpr double kSeconds = 60;

	/* Return the seconds to wait; 0: the login may be tried, and counts as failed until forgive(). */
	int wait_for(const std::string &address, double now);
	/* Forget the last attempt of the address: it has succeeded. */
	void forgive(const std::string &address);

private:
	std::map<std::string, std::deque<double>> attempts;
};

} // namespace web
