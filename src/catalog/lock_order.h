/* Table locks of background workers, which never wait for other sessions. */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Lock all tables that look_at_tables() reads, for the rest of this transaction: segments and their
 * indexes in `mode`, other tables in AccessShareLock. Never waits. Returns false if another session
 * has a conflicting lock, the extension is gone, or the worker does not run with the rights of the
 * tables' owner. While these locks are held, looking at the tables again and attaching the database
 * do not wait either.
 */
bool lock_tables(LOCKMODE mode);

/*
 * Like lock_tables(), for workers that hand out or change jobs. Returns false also if the jobs must
 * not be touched: the SQL objects are of an unsupported version, segments are missing, or a
 * subscription brings the jobs (protocol: publisher-owns-its-jobs).
 */
bool lock_and_serve(LOCKMODE mode);

} // namespace pgq
