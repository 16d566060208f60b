// What every part of the load generator uses: time, arguments, and the way out.
#pragma once

#include <chrono>
#include <map>
#include <string>

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

Arguments read_arguments(int n, char **words);
