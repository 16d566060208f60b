/* Writes a JSON document (RFC 8259). */
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shared {

/* Return a JSON string. U+FFFD replaces each byte that is not UTF-8. */
std::string json_text(std::string_view text);

enum class Layout
{
	compact,
	/* each member and element in a line of its own */
	lines,
};

/*
 * Call begin, then members or elements, then end. Commas and indents are added. An unknown value is
 * null.
 */
class Json
{
public:
	explicit Json(Layout chosen = Layout::compact) : layout(chosen) {}

	Json &begin_object() { return begin('{'); }
	Json &end_object() { return end('}'); }
	Json &begin_array() { return begin('['); }
	Json &end_array() { return end(']'); }
	/* Write the name of a member; its value must follow. */
	Json &name(std::string_view member);

	Json &text(std::string_view value) { return raw(json_text(value)); }
	Json &text_or_null(std::optional<std::string_view> value);
	Json &number(double value);
	Json &number(std::optional<double> value) { return value ? number(*value) : null(); }
	Json &number(std::optional<int64_t> value);
	Json &flag(std::optional<bool> value);
	Json &null() { return raw("null"); }
	/* Write a value that is JSON already. */
	Json &raw(std::string_view json);

	const std::string &document() const { return out; }
	std::string take() { return std::move(out); }

private:
	std::string out;
	Layout layout;
	int depth = 0;
	/* A value precedes in this object or array. */
	bool has_value = false;
	bool is_named = false;

	Json &begin(char bracket);
	Json &end(char bracket);
	void next();
	void new_line();
};

} // namespace shared
