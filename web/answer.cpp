#include "answer.h"

#include "connection.h"

namespace web {

void
answer(Response &response, const std::string &json)
{
	response.set_header("Cache-Control", "no-store");
	response.set_content(json, "application/json; charset=utf-8");
}

void
answer(Response &response, const Failure &failure)
{
	Json json;
	json.begin_object().name("error").begin_object();
	json.name("code").text(std::string_view(failure.code));
	json.name("message").text(std::string_view(failure.message));
	json.name("detail").text(std::string_view(failure.detail));
	json.name("hint").text(std::string_view(failure.hint));
	json.end_object().end_object();
	response.status = failure.status;
	if (failure.retry_after > 0)
		response.set_header("Retry-After", std::to_string(failure.retry_after));
	answer(response, json.document());
}

void
guarded(Response &response, const std::function<void()> &work)
{
	try
	{
		work();
	}
	catch (const Failure &failure)
	{
		answer(response, failure);
	}
	catch (const std::exception &error)
	{
		fprintf(stderr, "pgq-web: %s\n", one_line(error.what()).c_str());
		answer(response, Failure{500, "busy", "the request failed"});
	}
}

Flat
body_of(const Request &request, const httplib::ContentReader &reader)
{
	std::string type = request.get_header_value("Content-Type"), body;
	if (!(type == "application/json" || type.starts_with("application/json;")) ||
		request.has_header("Content-Encoding"))
		throw Failure{415, "argument", "the body must be application/json, and not be compressed"};
	bool is_read = reader([&](const char *bytes, size_t size) {
		if (body.size() + size > kLargestBody)
			return false;
		body.append(bytes, size);
		return true;
	});
	if (!is_read)
		throw Failure{413, "argument", "the body is too large, or was cut off"};
	std::optional<Flat> parsed = parsed_object(body);
	if (!parsed)
		throw Failure{400, "argument", "the body is not a JSON object of texts and numbers"};
	return std::move(*parsed);
}

} // namespace web
