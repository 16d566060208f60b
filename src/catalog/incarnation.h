/*
 * Incarnations of the extension in this database. Each CREATE EXTENSION makes an incarnation, which
 * is identified by the OID of its table pgq_ext.queue. The slot of an incarnation is freed when
 * that table is certain to be dropped; see src/engine/incarnations.md.
 */
#pragma once

namespace pgq {

/*
 * Free the slots of this database whose incarnation is gone, and return their number. The caller
 * must be in a transaction. Never waits for a lock: while a transaction is creating or dropping the
 * incarnation, the slot stays.
 */
int free_gone_incarnations();

} // namespace pgq
