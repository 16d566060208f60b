/*
 * Drawing the tokens of leases (defined in core/token.h) and of named locks.
 *
 * Tokens of a job grow and never repeat. Tokens that are drawn one after the other may share their
 * prefix, so most claims only read the last prefix. When a job that was handed out is given back,
 * end_lease() raises the prefix before the job can be handed out again. No token that is handed out
 * is above the durable mark: see catalog/token_mark.h.
 *
 * No function here waits, fails or takes a lock.
 */
#pragma once

#include "core/token.h"
#include "engine/shared.h"

namespace pgq {

/* Origin of the prefixes, as a TimestampTz: the beginning of 2020. */
inline constexpr int64 kYear2020 = INT64CONST(7305) * USECS_PER_DAY;

/*
 * prefix_of_clock() returns the prefix of the present time, time_of_prefix() the time at the end of
 * a prefix's millisecond.
 */
int64 prefix_of_clock();
constexpr TimestampTz
time_of_prefix(int64 prefix)
{
	return kYear2020 + (prefix + 1) * 1000;
}

/*
 * Return the mark in its closed form: a negative number, below every token, so that a claim must
 * advance the mark first. A closed mark stays the same.
 */
constexpr int64
closed_mark(int64 mark)
{
	return Min(mark, ~mark);
}

/*
 * Return whether a token is above the durable mark, even if the mark is closed. A token can be
 * above the mark, because attaching another database raises the next tokens of all databases.
 */
bool is_above_mark(const Database *db, int64 token);

/* Draw a token for a lease of the job. Called under the lock of a queue of the database. */
int64 draw_token(Database *db, int64 job_id);

/*
 * Draw a token for a named lock, greater than all earlier tokens of named locks in any database. A
 * token of a named lock is never checked without memory or a row, so it has a counter in place of
 * check bits.
 */
int64 draw_lock_token(const Database *db);

/* Let all later tokens have a greater prefix than `prefix`. */
void pass_prefix(int64 prefix);

/*
 * Return the fence for a row. The tokens below that prefix that were handed out are at most the
 * fence. All tokens from that prefix on are greater than the fence, and so are the tokens of later
 * starts: these are above the durable mark, and the fence is not.
 */
int64 fence_below(const Database *db, int64 prefix);

/*
 * Let all later tokens be greater than all tokens drawn so far. Return the fence between the
 * earlier and the later tokens.
 */
int64 cut_tokens(const Database *db);

/*
 * Begin a load. Return its first prefix: all tokens that the database has drawn before have a
 * smaller prefix.
 */
int64 begin_prefixes(int64 token_mark);

/* Return the last prefix of which tokens may exist. */
int64 last_prefix_drawn();

} // namespace pgq
