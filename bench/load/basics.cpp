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
