/*
 * Incarnations of the extension in this database: each CREATE EXTENSION makes one, known by the OID
 * of its table pgq_ext.queue. The slot of an incarnation is freed when that table is certain to be
 * gone; see src/engine/README.md, "The end of an incarnation".
 */
#pragma once

namespace pgq {

/*
 * Free the slots of this database whose incarnation is gone, and return how many. Must be called in
 * a transaction. Never waits for a lock: the slot stays if a transaction is creating or dropping
 * the incarnation.
 */
int free_gone_incarnations();

} // namespace pgq
