#include "files.h"

#include <cstdint>
#include <cstdio>

namespace web {

namespace {

constexpr std::string_view kTypes[][2] = {
	{".html", "text/html; charset=utf-8"},
	{".js", "text/javascript; charset=utf-8"},
	{".css", "text/css; charset=utf-8"},
	{".svg", "image/svg+xml"},
	{".png", "image/png"},
	{".ico", "image/x-icon"},
	{".json", "application/json"},
	{".woff2", "font/woff2"},
	{".txt", "text/plain; charset=utf-8"},
};

constexpr std::string_view kViews[] = {"/queues/",	"/jobs/",	"/dead",  "/schedules",
									   "/handlers", "/batches", "/locks", "/rates"};

std::string
type_of(std::string_view path)
{
	for (auto &[end, type] : kTypes)
		if (path.ends_with(end))
			return std::string(type);
	return "application/octet-stream";
}

const PageFile *
find(std::string_view path)
{
	for (unsigned i = 0; i < kPageFileCount; i++)
		if (kPageFiles[i].path == path)
			return &kPageFiles[i];
	return nullptr;
}

/* Whether the path is that of a view of the page. The name of a queue may have dots. */
bool
is_view(std::string_view path)
{
	for (std::string_view view : kViews)
		if (path.starts_with(view))
			return true;
	return path.substr(path.rfind('/') + 1).find('.') == path.npos;
}

void
replace_all(std::string &text, std::string_view from, const std::string &to)
{
	for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
		text.replace(at, from.size(), to);
}

/* Return a hash of the content (FNV-1a). */
std::string
etag_of(std::string_view content)
{
	uint64_t hash = 14695981039346656037u;
	for (char c : content)
		hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
	char text[32];
	snprintf(text, sizeof(text), "\"%016llx\"", static_cast<unsigned long long>(hash));
	return text;
}

} // namespace

std::optional<FileAnswer>
file_at(std::string_view path, const std::string &prefix)
{
	const PageFile *file = find(path);
	if (file == nullptr && is_view(path))
	{
		path = "/index.html";
		file = find(path);
	}
	if (file == nullptr)
		return {};
	std::string content(reinterpret_cast<const char *>(file->bytes), file->size);
	if (path == "/index.html")
		replace_all(content, "@PREFIX@", prefix);
	std::string etag = etag_of(content);
	return FileAnswer{std::move(content), type_of(path), std::move(etag)};
}

} // namespace web
