/* Claiming from several queues, and waiting for a job. */
#pragma once

#include "claim/claim.h"

namespace pgq {

/* Error 42501: it may have waited, and a right been revoked meanwhile (protocol: revoked-is-seen). */
void require_rights(const QueueRef *refs, char *const *names, int n);

/*
 * Claim from the queues in their order, waiting for the first job as long as the
 * options say. Errors: 42704 dropped, 53400 no lease left and nothing claimed.
 */
void claim_jobs(const QueueRef *refs, char *const *names, int n, Claim *claim);

/* When it is known what it gets: which of the queues had nothing for it. */
void note_empty(const QueueRef *refs, const Claim &claim);

} // namespace pgq
