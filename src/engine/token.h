/*
 * Drawing lease tokens (core/token.h says what they are).
 *
 * Tokens of one job grow and never repeat. Those that are drawn one after the other may share
 * their prefix, so most claims only read the last one; but who brings a job back that was
 * handed out raises it (end_lease), before anybody can have the job again. No token that is
 * handed out is above the durable mark: see catalog/token_mark.h.
 *
 * Nothing here waits, fails or takes a lock.
 */
#pragma once

#include "core/token.h"
#include "engine/shared.h"

namespace pgq {

/* As a TimestampTz: where the clock of lease tokens begins. */
inline constexpr int64 kYear2020 = INT64CONST(7305) * USECS_PER_DAY;

/* The clock as a prefix, and the time that a prefix stands for: the end of its millisecond. */
int64 prefix_of_clock();
constexpr TimestampTz
time_of_prefix(int64 prefix)
{
	return kYear2020 + (prefix + 1) * 1000;
}

/* The same mark, closed: below the clock, so that nobody draws a token for a claim until it was advanced. Closed again: the same. */
constexpr int64
closed_mark(int64 mark)
{
	return Min(mark, ~mark);
}

/*
 * Return whether a token that was drawn is above the mark, closed or not. Another database, when it is attached, raises the next
 * tokens of all.
 */
bool is_above_mark(const Database *db, int64 token);

/* A token for a lease of that job, under the lock of a queue of the database. */
int64 draw_token(Database *db, int64 job_id);

/*
 * A token for a named lock: greater than all of these before, of any database. There is no late proof of it, so where others
 * have check bits it has a count.
 */
int64 draw_lock_token(const Database *db);

/* No token to come has that prefix, or a smaller one. */
void pass_prefix(int64 prefix);

/*
 * For the fence of a row: all tokens below that prefix that were handed out are at most the fence, and all from that prefix on
 * are greater, those of later starts too. So the fence is not above the durable mark.
 */
int64 fence_below(const Database *db, int64 prefix);

/* Let tokens to come be greater than all that were drawn before, and return the fence between both. */
int64 cut_tokens(const Database *db);

/* A load begins: no token of the database drawn before has the prefix that is returned, or a greater one. */
int64 begin_prefixes(int64 token_mark);

/* The last prefix of which there may be tokens. */
int64 last_prefix_drawn();

} // namespace pgq
