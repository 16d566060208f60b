/*
 * The durable mark of lease tokens, a sequence: no token above it is ever handed out, so a server
 * that starts with empty memory, or with a clock behind, starts above every token there was
 * (protocol: tokens-stay-below-the-mark). Sequences are written at once, whatever becomes of the
 * transaction, go to standbys, and are dumped.
 *
 * Who writes it, or relies on its not being written (attaching the database, saving leases),
 * holds ShareUpdateExclusiveLock on the sequence meanwhile.
 *
 * The scheduler keeps the mark far ahead of the clock. Where it does not (just started,
 * or none can run), a claim advances the mark before it takes a lease.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

int64 read_token_mark(Oid sequence);

/* Is the mark so far ahead, in microseconds, of the clock and of the last token? */
bool token_mark_is_ahead(const Database *db, int64 lead);

/* What a claim needs: more than it can use up before it asks again. */
inline constexpr int64 kTokenLead = 10 * USECS_PER_SEC;

/*
 * Advance the mark unless it is so far ahead by now. Durable when it is used, on a
 * synchronous standby too if commits of that level (synchronous_commit) wait for one. If
 * not wait: do nothing where others are at it, and leave a mark that the standby has not
 * got yet for the next call.
 */
void advance_token_mark(int64 lead, bool wait, int commit_level);

/* From here on nobody draws a token for a claim before the mark was advanced again, which the caller keeps them from. */
void close_token_mark(Database *db);

} // namespace pgq
