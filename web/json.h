/*
 * Writes compact JSON, and reads the flat JSON objects that the page sends. Numbers of SQL keep all
 * of their digits: a bigint is a JSON string.
 */
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace web {

/* Return a JSON string. U+FFFD replaces each byte that is not UTF-8. */
std::string json_text(std::string_view text);

/* Call begin, then members or elements, then end. Commas are added. */
class Json
{
public:
	Json &begin_object() { return open('{'); }
	Json &end_object() { return close('}'); }
	Json &begin_array() { return open('['); }
	Json &end_array() { return close(']'); }
	/* Write the name of a member; its value must follow. */
	Json &name(std::string_view name);

	Json &text(std::string_view value) { return raw(json_text(value)); }
	Json &text_or_null(const std::optional<std::string> &value);
	Json &number(double value);
	Json &flag(bool value) { return raw(value ? "true" : "false"); }
	Json &null() { return raw("null"); }
	/* Write a value that is JSON already. */
	Json &raw(std::string_view json);

	const std::string &document() const { return out; }
	std::string take() { return std::move(out); }

private:
	std::string out;
	bool needs_comma = false;

	Json &open(char bracket);
	Json &close(char bracket);
};

/* Notes for the reader of an answer: what is missing in it, and why. */
using Notes = std::set<std::string>;
void write_notes(Json &json, const Notes &notes);

/*
 * A JSON object whose values are texts, numbers, true, false or null. The value of a number or of
 * true and false is its text.
 */
using Flat = std::map<std::string, std::optional<std::string>>;

/*
 * Read a flat object. Returns nothing if the text is not one: a syntax error, a nested value, a
 * name that occurs twice, or a zero character (which no text of PostgreSQL can have).
 */
std::optional<Flat> parsed_object(std::string_view json);

} // namespace web
