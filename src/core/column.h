/*
 * The columns that the library expects of a table.
 */
#pragma once

#include <cstdint>

namespace pgq {

/* Types of the server, by its numbers (checked in catalog/column.cpp). */
enum SqlType : uint32_t
{
	kInt8 = 20,
	kInt2 = 21,
	kInt4 = 23,
	kText = 25,
	kTimestamptz = 1184,
	kJsonb = 3802,
};

/* May a column be NULL? If not, its readers need not look whether it is. */
enum class Nulls : uint8_t
{
	kNone,
	kAllowed,
};

/* Columns are read by their position. */
struct Column
{
	const char *name;
	uint32_t type;
	Nulls nulls = Nulls::kNone;
};
inline constexpr Nulls kOrNull = Nulls::kAllowed;

} // namespace pgq
