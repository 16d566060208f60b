/* Writes a JSON document (RFC 8259). Text that is not UTF-8 has U+FFFD in place of the bad bytes. */
#pragma once

#include "format.h"

#include <string>
#include <string_view>

namespace top {

std::string json_text(std::string_view text);

/* Begin, members or elements, end; commas and indents come by themselves. */
class Json
{
public:
	void begin_object() { begin('{'); }
	void end_object() { end('}'); }
	void begin_array() { begin('['); }
	void end_array() { end(']'); }
	/* Of a member; its value is to follow. */
	Json &name(std::string_view name);

	void text(std::optional<std::string> value);
	void number(Count value);
	void number(std::optional<double> value);
	void flag(std::optional<bool> value);

	const std::string &document() const { return out; }

private:
	std::string out;
	int depth = 0;
	bool is_first = true;
	bool is_named = false;

	void begin(char bracket);
	void end(char bracket);
	void put(std::string_view value);
	void next();
};

} // namespace top
