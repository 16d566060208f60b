/* Writes a JSON document (RFC 8259). In text that is not UTF-8, U+FFFD replaces each bad byte. */
#pragma once

#include "format.h"

#include <string>
#include <string_view>

namespace top {

std::string json_text(std::string_view text);

/* Call begin, then members or elements, then end. Commas and indents are added. */
class Json
{
public:
	void begin_object() { begin('{'); }
	void end_object() { end('}'); }
	void begin_array() { begin('['); }
	void end_array() { end(']'); }
	/* Write the name of a member; its value must follow. */
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
