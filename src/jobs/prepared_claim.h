/*
 * A job that a prepared transaction has claimed stays its job through a crash
 * (protocol: prepared-claims-are-locked).
 *
 * While the server runs the lease holds it. After a crash there is no lease, and to the heap a
 * claim is nothing: the job would go out again, and both effects stand when the transaction is
 * committed. So PREPARE TRANSACTION locks the rows of the jobs that were claimed and not ended
 * FOR SHARE: as long as the transaction is there they are BUSY. Rows that were acked
 * or failed are changed, which is as good.
 */
#pragma once

namespace pgq {

/* Called by _PG_init. */
void prepared_claims_init();

} // namespace pgq
