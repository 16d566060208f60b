/*
 * Incarnations of the extension in this database: each CREATE EXTENSION makes one, known by the OID of its table
 * pgq_ext.queue. The slot of an incarnation is freed when that table is known to be gone for good; README.md of the folder
 * engine, "The end of an incarnation".
 */
#pragma once

namespace pgq {

/*
 * Free the slots of this database whose incarnation is gone. Returns how many. Needs a transaction; waits for no lock, so an
 * incarnation that a transaction is making or dropping stays.
 */
int free_gone_incarnations();

} // namespace pgq
