// Parts that the whole load generator uses: time, arguments, and the end of the program after an
// error.
#pragma once

#include <chrono>
#include <map>
#include <string>

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Seconds = std::chrono::duration<double>;

[[noreturn]] void fail(const std::string &message);

// The arguments of the command line, in the form NAME=VALUE.
struct Arguments
{
	std::map<std::string, std::string> values;

	std::string text(const char *name, const char *otherwise = nullptr) const;
	double number(const char *name, double otherwise) const;
};

Arguments read_arguments(int n, char **words);
