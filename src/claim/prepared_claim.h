/*
 * Keeping the claims of a prepared transaction through a crash
 * (protocol: prepared-claims-are-locked).
 *
 * While the server runs, the lease keeps the job from other workers. A crash loses the lease, and a
 * claim leaves no trace in the table. So the job would be handed out again, and if the prepared
 * transaction is committed later, the work would be done twice. Therefore PREPARE TRANSACTION locks
 * the rows of jobs that were claimed and not ended FOR SHARE. These rows are BUSY until the
 * prepared transaction ends. Rows of jobs that were acked or failed are BUSY anyway, since they are
 * changed.
 */
#pragma once

namespace pgq {

/* Register the transaction callback. Called by _PG_init. */
void prepared_claims_init();

} // namespace pgq
