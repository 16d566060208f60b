#include "server.h"

#include "actions.h"
#include "answer.h"
#include "api.h"
#include "files.h"

#include <cmath>

namespace web {

namespace {

constexpr size_t kLongestPath = 2000, kThreads = 64;
constexpr double kHeartbeat = 15;

constexpr const char *kPolicy =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
	" connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/* The server, and all that its requests share. */
class Site
{
public:
	explicit Site(const Options &given)
		: options(given), pool(given.address), sampler(pool.address(), sessions, history, board)
	{}

	int run(const std::function<void(int, std::function<void()>)> &on_start);

private:
	const Options &options;
	Pool pool;
	Sessions sessions;
	History history;
	/* the numbers that callers without a login see */
	Board board;
	Sampler sampler;
	Hosts hosts;
	httplib::Server server;
	std::string cookie_name;
	/* the health that callers without a login see */
	Kept health;

	void set_up();
	bool is_refused(const Request &request, Response &response);
	void get(const Request &request, Response &response);
	void post(const Request &request, Response &response, const httplib::ContentReader &reader);
	std::string data(const Request &request, const std::string &name);
	void stream(Response &response);
	void show_file(const Request &request, Response &response, const std::string &path);

	std::optional<std::string> path_of(const Request &request) const;
	std::shared_ptr<Session> session_of(const Request &request);
	Line::Use line_of(const std::shared_ptr<Session> &session);
	std::string caller_of(const Request &request) const;
	std::string session_page(const std::shared_ptr<Session> &session);
	std::string log_in(const Request &request, Response &response, const Flat &body);
	std::string log_out(const Request &request, Response &response);
	void set_cookie(const Request &request, Response &response, const std::string &token);
	void require_login(const std::shared_ptr<Session> &session) const;
	void check_origin(const Request &request, const std::shared_ptr<Session> &session);
};

/* ---- what is checked before a request is answered ---- */

/*
 * Check what holds for all requests. True: the answer is written.
 *
 * Parts of a document and compression are not offered: the first would let a small request fetch the
 * same bytes many times, the second costs seconds for a large answer.
 */
bool
Site::is_refused(const Request &request, Response &response)
{
	auto &changeable = const_cast<Request &>(request);
	changeable.ranges.clear();
	changeable.headers.erase("Accept-Encoding");
	if (request.path.size() > kLongestPath)
		answer(response, Failure{414, "argument", "the path is too long"});
	else if (!hosts.allows(request.get_header_value("Host")))
		answer(response, Failure{421, "host", "this server is not known by that host name", "",
								 "Start pgq-web with --host=NAME to allow a name."});
	else if (request.method != "GET" && request.method != "HEAD" && request.method != "POST")
		answer(response, Failure{405, "no such path", "only GET and POST are answered"});
	else
		return false;
	return true;
}

/* Return the path without the prefix; nothing: the path is outside of the prefix. */
std::optional<std::string>
Site::path_of(const Request &request) const
{
	const std::string &path = request.path;
	if (!path.starts_with(options.prefix) || path.size() == options.prefix.size() ||
		path[options.prefix.size()] != '/')
		return {};
	return path.substr(options.prefix.size());
}

/* A page of another site can send requests, but neither this Origin nor the token. */
void
Site::check_origin(const Request &request, const std::shared_ptr<Session> &session)
{
	std::string origin = request.get_header_value("Origin");
	if (!origin.empty() && !Hosts::is_same_origin(origin, request.get_header_value("Host")))
		throw Failure{403, "origin", "the request comes from another site"};
	const std::string &wanted = session ? session->csrf : sessions.common_csrf();
	if (!is_same_secret(request.get_header_value("X-PGQ-CSRF"), wanted))
		throw Failure{403, "csrf", "the request lacks the token of this session", "",
					  "Load the page again."};
}

/* Return the session of the cookie. A cookie without a session is an error: data of another role would be shown. */
std::shared_ptr<Session>
Site::session_of(const Request &request)
{
	std::string token = cookie_of(request.get_header_value("Cookie"), cookie_name);
	if (token.empty())
		return nullptr;
	std::shared_ptr<Session> session = sessions.find(token);
	if (!session)
		throw Failure{401, "login", "the session has ended", "",
					  "Log in again, or log out to go on without a login."};
	return session;
}

/* Return the address of the caller, for the log and for the number of failed logins. */
std::string
Site::caller_of(const Request &request) const
{
	/*
	 * Ignore several headers of this name: the library does not keep their order, so the caller could
	 * have sent any of them. Then the address is that of the proxy.
	 */
	std::string forwarded;
	if (request.get_header_value_count("X-Forwarded-For") == 1)
		forwarded = request.get_header_value("X-Forwarded-For");
	return web::caller_of(request.remote_addr, forwarded, options.proxies);
}

Line::Use
Site::line_of(const std::shared_ptr<Session> &session)
{
	return session ? session->line.use(nullptr) : pool.use();
}

/* ---- sessions ---- */

/* With --require-login, refuse callers that have not logged in. */
void
Site::require_login(const std::shared_ptr<Session> &session) const
{
	if (options.requires_login && !session)
		throw Failure{401, "login", "this server shows nothing without a login"};
}

void
Site::set_cookie(const Request &request, Response &response, const std::string &token)
{
	bool is_https = request.get_header_value("X-Forwarded-Proto") == "https";
	response.set_header("Set-Cookie",
						cookie_name + "=" + token +
							"; Path=" + (options.prefix.empty() ? "/" : options.prefix) +
							"; HttpOnly; SameSite=Strict" + (is_https ? "; Secure" : "") +
							(token.empty() ? "; Max-Age=0" : ""));
}

std::string
Site::session_page(const std::shared_ptr<Session> &session)
{
	return session_answer(options, session ? Value(session->role) : Value(),
						  session ? session->csrf : sessions.common_csrf(),
						  [&] { return line_of(session); });
}

std::string
Site::log_in(const Request &request, Response &response, const Flat &body)
{
	if (options.is_readonly)
		throw Failure{403, "readonly", "pgq-web was started with --read-only"};
	auto text = [&](const char *name) {
		auto found = body.find(name);
		return found == body.end() ? "" : found->second.value_or("");
	};
	/* Log each attempt, also the failed ones. */
	std::string role = text("role"), from = caller_of(request);
	std::shared_ptr<Session> session;
	try
	{
		session = sessions.log_in(pool.address(), role, text("password"), from);
	}
	catch (const Failure &failure)
	{
		fprintf(stderr, "pgq-web: login role=%s from=%s: failed, %s\n",
				json_text(one_line(role, 200)).c_str(), one_line(from).c_str(),
				one_line(failure.code).c_str());
		throw;
	}
	fprintf(stderr, "pgq-web: login role=%s from=%s: done\n",
			json_text(one_line(role, 200)).c_str(), one_line(from).c_str());
	sessions.end(cookie_of(request.get_header_value("Cookie"), cookie_name));
	set_cookie(request, response, session->token);
	return session_page(session);
}

std::string
Site::log_out(const Request &request, Response &response)
{
	sessions.end(cookie_of(request.get_header_value("Cookie"), cookie_name));
	set_cookie(request, response, "");
	return session_page(nullptr);
}

/* ---- reading ---- */

std::string
Site::data(const Request &request, const std::string &name)
{
	if (name == "session")
	{
		std::string token = cookie_of(request.get_header_value("Cookie"), cookie_name);
		return session_page(sessions.find(token));
	}
	Endpoint found = endpoint(name);
	if (found == nullptr)
		throw Failure{404, "no such path", "there is no such path"};
	std::map<std::string, std::string> parameters;
	for (auto &[parameter, value] : request.params)
		if (!parameters.emplace(parameter, value).second || value.find('\0') != value.npos)
			throw Failure{400, "argument",
						  "parameter " + one_line(parameter, 100) +
							  " occurs twice, or has a zero character"};
	std::shared_ptr<Session> session = session_of(request);
	require_login(session);
	auto answer_by = [&](Line::Use use) {
		return found(Call{parameters, use, options, history, session ? session->board : board,
						  sampler.last_change(), session != nullptr});
	};
	if (name != "health")
		return answer_by(line_of(session));
	/* With thousands of queues the checks cost much: keep the answer 400 times as long as it took. */
	Kept &kept = session ? session->health : health;
	std::lock_guard lock(kept.mutex);
	if (steady_now() < kept.until)
		return kept.json;
	Line::Use use = line_of(session);
	double start = steady_now();
	kept.json = answer_by(std::move(use));
	kept.until = steady_now() + 400 * (steady_now() - start);
	return kept.json;
}

/* Tell the page of changes, for as long as it listens. */
void
Site::stream(Response &response)
{
	if (!sampler.open_stream())
		throw Failure{503, "busy", "too many pages are open"};
	response.set_header("Cache-Control", "no-store");
	response.set_header("X-Accel-Buffering", "no");
	auto seen = std::make_shared<uint64_t>(0);
	auto spoke_at = std::make_shared<double>(0);
	response.set_chunked_content_provider(
		"text/event-stream",
		[this, seen, spoke_at](size_t, httplib::DataSink &sink) {
			uint64_t now = sampler.wait_for_change(*seen, 1);
			std::string text =
				now != *seen ? "event: tick\ndata: " + std::to_string(now) + "\n\n" : "";
			if (text.empty() && steady_now() - *spoke_at > kHeartbeat)
				text = ": still here\n\n";
			*seen = now;
			if (!text.empty())
				*spoke_at = steady_now();
			if (sampler.is_stopping() || !sink.is_writable())
				return false;
			return text.empty() || sink.write(text.data(), text.size());
		},
		[this](bool) { sampler.close_stream(); });
}

void
Site::show_file(const Request &request, Response &response, const std::string &path)
{
	std::optional<FileAnswer> file = file_at(path, options.prefix);
	if (!file)
		throw Failure{404, "no such path", "there is no such path"};
	response.set_header("ETag", file->etag);
	response.set_header("Cache-Control", "no-cache");
	if (request.get_header_value("If-None-Match") == file->etag)
		response.status = 304;
	else
		response.set_content(file->content, file->type.c_str());
}

void
Site::get(const Request &request, Response &response)
{
	guarded(response, [&] {
		std::optional<std::string> path = path_of(request);
		if (!path && request.path + "/" == options.prefix + "/")
			return response.set_redirect((options.prefix + "/").c_str());
		if (!path)
			throw Failure{404, "no such path", "there is no such path"};
		if (path == "/api/live")
		{
			require_login(session_of(request));
			stream(response);
		}
		else if (path->starts_with("/api/"))
			answer(response, data(request, path->substr(5)));
		else
			show_file(request, response, *path);
	});
}

/* ---- writing ---- */

void
Site::post(const Request &request, Response &response, const httplib::ContentReader &reader)
{
	guarded(response, [&] {
		Flat body = body_of(request, reader);
		std::optional<std::string> path = path_of(request);
		bool is_login = path == "/api/login", is_logout = path == "/api/logout";
		if (!is_login && !is_logout && path != "/api/action")
			throw Failure{404, "no such path", "there is no such path"};
		/* A session that has ended keeps nobody from logging in again. */
		std::shared_ptr<Session> session =
			is_login || is_logout
				? sessions.find(cookie_of(request.get_header_value("Cookie"), cookie_name))
				: session_of(request);
		check_origin(request, session);
		if (is_login)
			return answer(response, log_in(request, response, body));
		if (is_logout)
			return answer(response, log_out(request, response));
		if (options.is_readonly)
			throw Failure{403, "readonly", "pgq-web was started with --read-only"};
		if (!session)
			throw Failure{401, "login", "an action needs a login"};
		Line::Use use = session->line.use(nullptr);
		std::string done = run_action(body, use, session->role, caller_of(request));
		session->board.forget();
		board.forget();
		answer(response, done);
	});
}

/* ---- the server ---- */

void
Site::set_up()
{
	server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
	/* One request for each connection: the rest of a refused body is never taken for a request. */
	server.set_keep_alive_max_count(1);
	server.set_read_timeout(10);
	server.set_write_timeout(10);
	server.set_payload_max_length(kLargestBody);
	server.set_default_headers({{"Content-Security-Policy", kPolicy},
								{"X-Content-Type-Options", "nosniff"},
								{"X-Frame-Options", "DENY"},
								{"Referrer-Policy", "no-referrer"},
								{"Cross-Origin-Opener-Policy", "same-origin"},
								{"Cross-Origin-Resource-Policy", "same-origin"}});
	server.set_pre_routing_handler([this](const Request &request, Response &response) {
		return is_refused(request, response) ? httplib::Server::HandlerResponse::Handled
											 : httplib::Server::HandlerResponse::Unhandled;
	});
	server.Get(".*",
			   [this](const Request &request, Response &response) { get(request, response); });
	server.Post(".*",
				[this](const Request &request, Response &response,
					   const httplib::ContentReader &reader) { post(request, response, reader); });
}

int
Site::run(const std::function<void(int, std::function<void()>)> &on_start)
{
	set_up();
	int port = options.listen_port;
	bool is_bound = true;
	if (port == 0)
		port = server.bind_to_any_port(options.listen_host.c_str());
	else
		is_bound = server.bind_to_port(options.listen_host.c_str(), port);
	if (!is_bound || port < 0)
	{
		fprintf(stderr, "pgq-web: cannot listen on %s port %d\n", options.listen_host.c_str(),
				options.listen_port);
		return 1;
	}
	hosts.add_listener(options.listen_host, port);
	for (const std::string &name : options.hosts)
		hosts.add(name);
	cookie_name = "pgq_session_" + std::to_string(port);
	sampler.start();
	on_start(port, [this] { server.stop(); });
	server.listen_after_bind();
	sampler.stop();
	return 0;
}

} // namespace

int
serve(const Options &options, const std::function<void(int, std::function<void()>)> &on_start)
{
	Site site(options);
	return site.run(on_start);
}

} // namespace web
