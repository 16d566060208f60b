#include "side.h"
#include <fstream>
#include <sstream>
#include <utility>

std::string
payload()
{
	return R"({"to": "somebody@example.com", "template": 17})";
}

static void
replace_all(std::string &text, const std::string &from, const std::string &to)
{
	for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
		text.replace(at, from.size(), to);
}

// Return the name of the piece that begins with this line: a line "-- name", with a single word,
// begins a piece.
static std::string
heading(const std::string &line)
{
	if (line.rfind("-- ", 0) != 0 || line.find(' ', 3) != std::string::npos)
		return "";
	return line.substr(3);
}

Side::Side(const std::string &file, const Arguments &arguments)
{
	std::ifstream in(file);
	if (!in)
		fail("cannot read " + file);
	std::string line, name;
	while (std::getline(in, line))
	{
		if (auto next = heading(line); !next.empty())
			pieces[name = next];
		else if (!line.empty())
			pieces[name] += line + "\n";
	}
	put(":queue", arguments.text("queue"));
	put(":batch", arguments.text("batch", "1"));
	put(":jobs", arguments.text("jobs", "0"));
	put(":payload", payload());
}

void
Side::put(const std::string &name, const std::string &value)
{
	for (auto &[_, sql] : pieces)
		replace_all(sql, name, value);
}

const std::string &
Side::sql(const std::string &name) const
{
	auto piece = pieces.find(name);
	if (piece == pieces.end())
		fail("this side cannot " + name);
	return piece->second;
}

std::vector<std::string>
Side::statements(const std::string &name) const
{
	std::vector<std::string> found;
	std::istringstream in(sql(name));
	std::string line, statement;
	while (std::getline(in, line))
	{
		statement += line + "\n";
		if (line.back() == ';')
			found.push_back(std::exchange(statement, ""));
	}
	return found;
}
