#include "safety.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sys/random.h>

namespace web {

std::string
random_token()
{
	unsigned char bytes[32];
	if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes)))
	{
		perror("pgq-web: getrandom");
		abort();
	}
	std::string token;
	for (unsigned char byte : bytes)
	{
		token += "0123456789abcdef"[byte >> 4];
		token += "0123456789abcdef"[byte & 15];
	}
	return token;
}

bool
is_same_secret(std::string_view a, std::string_view b)
{
	unsigned char difference = a.size() != b.size();
	for (size_t i = 0; i < std::min(a.size(), b.size()); i++)
		difference |= static_cast<unsigned char>(a[i] ^ b[i]);
	return difference == 0;
}

std::string
cookie_of(std::string_view header, std::string_view name)
{
	while (!header.empty())
	{
		std::string_view one = header.substr(0, header.find(';'));
		header.remove_prefix(std::min(header.size(), one.size() + 1));
		one.remove_prefix(std::min(one.size(), one.find_first_not_of(' ')));
		if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=')
			return std::string(one.substr(name.size() + 1));
	}
	return "";
}

std::string
caller_of(const std::string &from, std::string_view forwarded, const std::set<std::string> &proxies)
{
	std::string caller = from;
	while (proxies.contains(caller) && !forwarded.empty())
	{
		/* Take the last address of the list. */
		size_t comma = forwarded.rfind(',');
		std::string_view last = forwarded.substr(comma == forwarded.npos ? 0 : comma + 1);
		forwarded = forwarded.substr(0, comma == forwarded.npos ? 0 : comma);
		while (!last.empty() && last.front() == ' ')
			last.remove_prefix(1);
		while (!last.empty() && last.back() == ' ')
			last.remove_suffix(1);
		bool is_address = !last.empty() && last.size() < 50 &&
						  last.find_first_not_of("0123456789abcdefABCDEF.:[]") == last.npos;
		if (!is_address)
			break;
		caller = last;
	}
	return caller;
}

/* ---- hosts ---- */

static std::string
lower_case(std::string_view text)
{
	std::string lower(text);
	for (char &c : lower)
		if (c >= 'A' && c <= 'Z')
			c = static_cast<char>(c - 'A' + 'a');
	return lower;
}

/* Return the host without its port; an IPv6 address keeps its brackets. */
static std::string_view
without_port(std::string_view host)
{
	size_t colon = host.rfind(':');
	bool is_inside = colon != host.npos && host.find(']', colon) != host.npos;
	return colon == host.npos || is_inside ? host : host.substr(0, colon);
}

void
Hosts::add_listener(const std::string &host, int port)
{
	std::string end = ":" + std::to_string(port);
	bool is_loopback = host.starts_with("127.") || host == "::1" || host == "localhost";
	add((host.find(':') != host.npos ? "[" + host + "]" : host) + end);
	if (!is_loopback && host != "0.0.0.0" && host != "::")
		return;
	for (const char *name : {"localhost", "127.0.0.1", "[::1]"})
		add(name + end);
}

void
Hosts::add(const std::string &name)
{
	names.push_back(lower_case(name));
}

bool
Hosts::allows(std::string_view host) const
{
	std::string wanted = lower_case(host);
	return !wanted.empty() && std::any_of(names.begin(), names.end(), [&](const std::string &name) {
		bool has_port = without_port(name) != name;
		return name == (has_port ? std::string_view(wanted) : without_port(wanted));
	});
}

bool
Hosts::is_same_origin(std::string_view origin, std::string_view host)
{
	for (std::string_view scheme : {"http://", "https://"})
		if (origin.starts_with(scheme))
			return lower_case(origin.substr(scheme.size())) == lower_case(host);
	return false;
}

/* ---- logins ---- */

int
Limiter::wait_for(const std::string &address, double now)
{
	for (auto one = attempts.begin(); one != attempts.end();)
	{
		std::deque<double> &times = one->second;
		while (!times.empty() && times.front() <= now - kSeconds)
			times.pop_front();
		one = times.empty() ? attempts.erase(one) : std::next(one);
	}
	if (attempts.size() >= kMostAddresses && !attempts.contains(address))
		return static_cast<int>(kSeconds);
	std::deque<double> &times = attempts[address];
	if (times.size() >= kMost)
		return static_cast<int>(std::ceil(times.front() + kSeconds - now));
	times.push_back(now);
	return 0;
}

void
Limiter::forgive(const std::string &address)
{
	auto found = attempts.find(address);
	if (found != attempts.end() && !found->second.empty())
		found->second.pop_back();
}

} // namespace web
