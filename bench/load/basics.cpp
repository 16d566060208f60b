#include "basics.h"
#include <cstdio>
#include <cstdlib>

void
fail(const std::string &message)
{
	fprintf(stderr, "load: %s\n", message.c_str());
	exit(1);
}

std::string
Arguments::text(const char *name, const char *otherwise) const
{
	auto value = values.find(name);
	if (value != values.end())
		return value->second;
	if (!otherwise)
		fail(std::string("needs ") + name + "=");
	return otherwise;
}

double
Arguments::number(const char *name, double otherwise) const
{
	auto value = values.find(name);
	return value == values.end() ? otherwise : atof(value->second.c_str());
}

Arguments
read_arguments(int n, char **words)
{
	Arguments arguments;
	for (int i = 0; i < n; i++)
	{
		std::string argument = words[i];
		size_t sign = argument.find('=');
		if (sign == std::string::npos)
			fail(argument + ": not NAME=VALUE");
		arguments.values[argument.substr(0, sign)] = argument.substr(sign + 1);
	}
	return arguments;
}
