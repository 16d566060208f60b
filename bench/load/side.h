// A side of the race: named pieces of SQL, read from a file in bench/sides.
#pragma once

#include "basics.h"
#include <vector>

class Side
{
public:
	Side(const std::string &file, const Arguments &arguments);

	bool has(const std::string &name) const { return pieces.count(name) > 0; }
	const std::string &sql(const std::string &name) const;
	std::vector<std::string> statements(const std::string &name) const;
	// Put a value in place of a name, in all pieces.
	void put(const std::string &name, const std::string &value);

private:
	std::map<std::string, std::string> pieces;
};

std::string payload();
