/*
 * The token mark: a sequence, so the mark is durable. No lease token above the mark is ever given
 * out. So a server that starts with empty memory, or with a clock that is behind, starts above
 * every earlier token (protocol: tokens-stay-below-the-mark). A sequence is written at once, even
 * if the transaction does not commit; it is replicated to standbys, and dumped.
 *
 * A process that writes the mark, or needs the mark unchanged (to attach the database or to save
 * leases), holds ShareUpdateExclusiveLock on the sequence.
 *
 * The scheduler keeps the mark far ahead of the clock. If the mark is not ahead, because the
 * scheduler has just started or cannot run, a claim advances the mark before it takes a lease.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

int64 read_token_mark(Oid sequence);

/*
 * Return whether the mark is at least `lead` microseconds ahead of the clock and of the last drawn
 * token.
 */
bool token_mark_is_ahead(const Database *db, int64 lead);

/*
 * The lead that a claim needs, in microseconds. The tokens that the claim draws before it checks
 * the mark again advance by less than that.
 */
inline constexpr int64 kTokenLead = 10 * USECS_PER_SEC;

/*
 * Advance the mark, unless the mark is already `lead` microseconds ahead. The new mark is durable
 * before claims use it: on disk, and on a synchronous standby if commits of this commit_level
 * (synchronous_commit) wait for a standby. Without wait: do nothing if another process is advancing
 * the mark, and do not wait for the standby; a later call lets claims use the mark when the standby
 * has it.
 */
void advance_token_mark(int64 lead, bool wait, int commit_level);

/*
 * Stop the drawing of lease tokens until the mark is advanced again. The caller's lock on the
 * sequence keeps other processes from advancing the mark.
 */
void close_token_mark(Database *db);

} // namespace pgq
