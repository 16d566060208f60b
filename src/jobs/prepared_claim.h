/*
 * Keeping the claims of a prepared transaction through a crash (protocol:
 * prepared-claims-are-locked).
 *
 * While the server runs the lease keeps the job. After a crash there is no lease, and a claim
 * leaves no trace in the table: the job would be handed out again, and both effects would stand
 * when the transaction is committed. So PREPARE TRANSACTION locks the rows of jobs that were
 * claimed and not ended FOR SHARE. They are BUSY until the transaction ends. Rows that were acked
 * or failed are BUSY anyway, as they are changed.
 */
#pragma once

namespace pgq {

/* Register the callback. Called by _PG_init. */
void prepared_claims_init();

} // namespace pgq
