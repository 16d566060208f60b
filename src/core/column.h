/*
 * Columns that the library expects in a table of the extension, with their types.
 */
#pragma once

#include <cstdint>

namespace pgq {

/* OIDs of the server's types; catalog/column.cpp asserts that they equal the server's. */
enum SqlType : uint32_t
{
	kBool = 16,
	kInt8 = 20,
	kInt2 = 21,
	kInt4 = 23,
	kText = 25,
	kOid = 26,
	kTimestamptz = 1184,
	kJsonb = 3802,
};

/* Whether a column may contain NULL. Code that reads a kNone column does not test for NULL. */
enum class Nulls : uint8_t
{
	kNone,
	kAllowed,
};

/* A column of a table. Columns are read by position, so the order in a list of columns matters. */
struct Column
{
	const char *name;
	uint32_t type;
	Nulls nulls = Nulls::kNone;
};
inline constexpr Nulls kOrNull = Nulls::kAllowed;

} // namespace pgq
