/* Claiming from several queues, and waiting for a job. */
#pragma once

#include "claim/claim.h"

namespace pgq {

/*
 * Check that the current role may claim from these queues. Called again after a wait, since a right
 * may have been revoked during the wait (protocol: revoked-is-seen). Raises 42501, and 42704 if the
 * extension was dropped.
 */
void require_rights(const QueueRef *refs, char *const *names, int n);

/*
 * Claim from the queues in the given order. If no queue has a job, wait for a job for at most
 * options->wait. If the claim has got no job, raises 42704 (a queue was dropped), 53400 (no lease
 * or entry is left) or 55P03 (too many jobs are locked).
 */
void claim_jobs(const QueueRef *refs, char *const *names, int n, Claim *claim);

/* At the end of a claim, count an empty claim for each queue that had no job for the claim. */
void note_empty(const QueueRef *refs, const Claim &claim);

} // namespace pgq
