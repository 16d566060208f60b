// What the parts of the load generator share: one thread, many connections, one side of the race.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Seconds = std::chrono::duration<double>;

[[noreturn]] void fail(const std::string &message);

// Arguments of the command line, NAME=VALUE.
struct Arguments
{
	std::map<std::string, std::string> values;

	std::string text(const char *name, const char *otherwise = nullptr) const;
	double number(const char *name, double otherwise) const;
};

// One side of the race: pieces of SQL by name, out of a file in bench/sides.
class Side
{
public:
	Side(const std::string &file, const Arguments &arguments);

	bool has(const std::string &name) const { return pieces.count(name) > 0; }
	const std::string &sql(const std::string &name) const;
	std::vector<std::string> statements(const std::string &name) const;

private:
	std::map<std::string, std::string> pieces;
};

std::string payload();

// Each says on standard output what it measured, a line each: metric, tab, value.
void run_once(const Side &, const std::string &name);
void run_cycle(const Side &, const Arguments &);
void run_waiting(const Side &, const Arguments &);
