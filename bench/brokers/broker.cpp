#include "broker.h"
#include <cstdio>
#include <cstdlib>

static constexpr std::string_view head = R"({"to": ")";

std::string
payload_with(long number)
{
	char text[64];
	snprintf(text, sizeof text, R"({"to": "%08ld@example.com", "template": 17})", number);
	return text;
}

long
number_in(std::string_view payload)
{
	if (payload.size() <= head.size() || payload.substr(0, head.size()) != head)
		fail("not one of our payloads");
	return strtol(payload.data() + head.size(), nullptr, 10);
}
