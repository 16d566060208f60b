/* The files of the page, which the build embeds (embed.sh), and which path shows which file. */
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace web {

/* A file of web/page: its path from there, which begins with a slash. */
struct PageFile
{
	const char *path;
	const unsigned char *bytes;
	size_t size;
};
extern const PageFile kPageFiles[];
extern const unsigned kPageFileCount;

struct FileAnswer
{
	std::string content, type, etag;
};

/*
 * Return the file that a path shows, without the prefix; nothing: there is none. The address of a
 * view shows index.html, in which the prefix replaces each @PREFIX@.
 */
std::optional<FileAnswer> file_at(std::string_view path, const std::string &prefix);

} // namespace web
