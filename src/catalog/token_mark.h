/*
 * The durable mark of lease tokens, a sequence. No token above the mark is ever handed out. So a
 * server that starts with empty memory, or with a clock that is behind, starts above every earlier
 * token (protocol: tokens-stay-below-the-mark). A sequence is written at once, even if the
 * transaction does not commit; it is replicated to standbys, and dumped.
 *
 * A process that writes the mark, or needs it unchanged (attaching the database, saving leases),
 * holds ShareUpdateExclusiveLock on the sequence.
 *
 * The scheduler keeps the mark far ahead of the clock. If it does not (it has just started, or
 * cannot run), a claim advances the mark before it takes a lease.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

int64 read_token_mark(Oid sequence);

/*
 * Return whether the mark is at least `lead` microseconds ahead of the clock and of the last token.
 */
bool token_mark_is_ahead(const Database *db, int64 lead);

/* The lead that a claim needs: more than it can use up before it checks again. */
inline constexpr int64 kTokenLead = 10 * USECS_PER_SEC;

/*
 * Advance the mark, unless it has that lead already. The mark is durable before it is used: on
 * disk, and on a synchronous standby if commits of that level (synchronous_commit) wait for one.
 * Without wait: do nothing if another process is advancing the mark, and do not wait for the
 * standby; the next call publishes the mark when the standby has it.
 */
void advance_token_mark(int64 lead, bool wait, int commit_level);

/*
 * Stop the drawing of lease tokens until the mark is advanced again. The caller's lock on the
 * sequence keeps others from advancing it.
 */
void close_token_mark(Database *db);

} // namespace pgq
