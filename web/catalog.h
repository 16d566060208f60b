/*
 * What a role can read: the columns of the relations of schema pgq_ext that exist and that the role
 * may read, and where the functions of the extension are. Builds queries of these columns only.
 */
#pragma once

#include "connection.h"
#include "json.h"

#include <map>
#include <set>

namespace web {

struct Column
{
	std::string name, type;
	bool is_readable;
};

class Catalog
{
public:
	/* Read the catalog over that connection. Throws a Failure if the extension cannot be used. */
	static Catalog of(Connection &connection);

	/* Whether the relation exists and the role may read these columns of it. */
	bool can_read(const std::string &relation, const std::vector<std::string> &columns) const;
	/*
	 * Return the SELECT list of the columns of a relation with that alias, each in the form in which
	 * JSON shows it. only: these columns (empty: all); without: not these ones. Adds notes about
	 * columns that the role may not read. Empty: no column can be read.
	 */
	std::string list(const std::string &relation, const std::string &alias, Notes &notes,
					 const std::vector<std::string> &only = {},
					 const std::set<std::string> &without = {}) const;
	bool has_function(const std::string &name) const { return functions.contains(name); }
	/* Whether the role may call the function. */
	bool can_call(const std::string &name) const;
	/* Return the name of a function of the extension with its schema. Throws if there is none. */
	std::string function(const std::string &name) const;

	std::string role, database, server_version, extension_version;

private:
	std::map<std::string, std::vector<Column>> relations;
	struct Function
	{
		std::string called;
		bool is_callable;
	};
	std::map<std::string, Function> functions;
};

/* Return the expression that shows a column of that type: times, intervals, arrays, long texts. */
std::string shown_as(const std::string &expression, const std::string &type);

/* Return a LIMIT of one row more than is shown, to know whether there are more rows. */
std::string limit_of(int most);

/* Write the columns of a row as members: those from number `first` on, up to `last`. */
void write_members(Json &json, const Rows &rows, int row, int first = 0, int last = 1000);
/* Write rows as an array of objects, at most `most` of them. */
void write_rows(Json &json, const Rows &rows, int most);

} // namespace web
