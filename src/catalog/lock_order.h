/*
 * Table locks of background workers. The workers never wait for these locks.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Lock a table and all of its indexes, as the planner does for a query on the table, but without
 * waiting. Returns false if some lock is not available.
 */
bool lock_with_indexes(Oid relid, LOCKMODE mode);

/*
 * Lock the tables that the end of a job reads and writes for batches and for children, without
 * waiting: the notes of batches and the outcomes for writing, the dependencies for reading. Returns
 * false if another session has a conflicting lock; true if the database has no such tables.
 */
bool lock_notes(const Tables &t);

/*
 * Lock all tables that look_at_tables() reads, for the rest of this transaction: segments and their
 * indexes in `mode`, other tables in AccessShareLock. Never waits. Returns false if another session
 * has a conflicting lock, the extension is gone, or the worker does not run with the rights of the
 * tables' owner. While these locks are held, look_at_tables() and attaching the database do not
 * wait either.
 */
bool lock_tables(LOCKMODE mode);

/*
 * Like lock_tables(), for workers that hand out or change jobs. With RowExclusiveLock, also lock the
 * table of notes (lock_notes()). Also returns false if a worker must
 * not hand out or change jobs: this library does not support the installed version of the SQL
 * objects, segments are missing, or a subscription brings the jobs
 * (protocol: publisher-owns-its-jobs).
 */
bool lock_and_serve(LOCKMODE mode);

} // namespace pgq
