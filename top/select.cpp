#include "select.h"

namespace top {

void
note(Sight &sight, const std::string &text)
{
	sight.snapshot.notes.push_back(text);
}

static std::string
joined(const std::vector<std::string> &words)
{
	std::string text;
	for (const std::string &word : words)
		text += (text.empty() ? "" : ", ") + word;
	return text;
}

namespace {

struct Columns
{
	/* the SELECT list */
	std::string list;
	std::vector<std::string> missing, forbidden;
	bool lack_needed = false;
};

} // namespace

static Columns
columns_of(const std::map<std::string, bool> &readable, const std::vector<Wanted> &wanted)
{
	Columns columns;
	for (const Wanted &one : wanted)
	{
		auto column = readable.find(one.column);
		bool is_there = column != readable.end();
		if (is_there && column->second)
		{
			columns.list += columns.list.empty() ? "" : ", ";
			columns.list += one.expression + " AS " + one.column;
			continue;
		}
		(is_there ? columns.forbidden : columns.missing).push_back(one.column);
		columns.lack_needed = columns.lack_needed || one.is_needed;
	}
	return columns;
}

static void
note_what_lacks(Sight &sight, const std::string &view, const Columns &columns)
{
	const Server &server = sight.snapshot.server;
	if (!columns.missing.empty())
		note(sight, "version " + server.extension + " has no " + joined(columns.missing) +
						" in pgq_ext." + view);
	if (columns.forbidden.empty())
		return;
	note(sight, "role " + server.role + " may not read " +
					(columns.lack_needed ? "" : joined(columns.forbidden) + " of ") + "pgq_ext." +
					view);
}

std::string
select_from(Sight &sight, const std::string &view, const std::vector<Wanted> &wanted,
			const std::string &rest)
{
	auto readable = sight.relations.find(view);
	if (readable == sight.relations.end())
	{
		sight.snapshot.is_incomplete = true;
		note(sight, "version " + sight.snapshot.server.extension +
						" of the extension has no view pgq_ext." + view);
		return "";
	}
	Columns columns = columns_of(readable->second, wanted);
	note_what_lacks(sight, view, columns);
	if (columns.lack_needed)
	{
		sight.snapshot.is_incomplete = true;
		return "";
	}
	return "SELECT " + columns.list + " FROM pgq_ext." + view + " v " + rest;
}

} // namespace top
