/*
 * Filters of pgq_redrive and pgq_retry: what a job must be like to be brought back. A filter that is
 * not given holds for every job.
 */
#pragma once

#include "catalog/owner_sql.h"
#include "rows/job.h"

namespace pgq {

/* The members are arguments of statements with PGQ_MATCHES. A member that is NULL is not given. */
struct JobFilter
{
	SpiArgument error_like; /* LIKE pattern for last_error */
	SpiArgument since;		/* the dead letter's died_at is this or later ... */
	SpiArgument before;		/* ... and earlier than this */
	SpiArgument group_key;
};

/*
 * SQL condition that the dead letter d matches a filter. Each argument is the parameter for a member
 * of JobFilter. The error is cut, so that a long text written by SQL cannot keep a match running:
 * matches() of a text cannot be interrupted. Its length is kErrorMax, which pgq_fail() stores at
 * most.
 */
#define PGQ_MATCHES(error_like, since, before, group_key)                       \
	"AND (" error_like " IS NULL OR (pg_catalog.substr(d.last_error, 1, 8192) " \
	"COLLATE pg_catalog.\"C\") OPERATOR(pg_catalog.~~) " error_like ") "        \
	"AND (" since " IS NULL OR d.died_at OPERATOR(pg_catalog.>=) " since ") "   \
	"AND (" before " IS NULL OR d.died_at OPERATOR(pg_catalog.<) " before ") "  \
	"AND (" group_key " IS NULL OR d.group_key OPERATOR(pg_catalog.=) " group_key ") "

/* Longest LIKE pattern, in bytes. A match compares at most this many times kErrorMax characters. */
inline constexpr int kPatternMax = 1000;

/*
 * Check the pattern. Raises 22023 if its length is not 1 to kPatternMax bytes, and 22025 if it ends
 * with the escape character.
 */
Datum checked_pattern(Datum pattern, const char *name);

/* Return whether the waiting job matches. A waiting job has not died, so no time range matches. */
bool matches(const JobFilter &filter, const JobRow &row);

} // namespace pgq
