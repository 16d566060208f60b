/*
 * Writes compact JSON, and reads the flat JSON objects that the page sends. Numbers of SQL keep all
 * of their digits: a bigint is a JSON string.
 */
#pragma once

#include "shared/json.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace web {

using shared::Json;
using shared::json_text;

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
