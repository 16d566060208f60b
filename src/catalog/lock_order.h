/*
 * The locks with which a worker looks at the tables, had without waiting for anybody.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Lock what look_at_tables() looks at for this transaction, segments and their tables in that mode,
 * without waiting. False: somebody is in the way, or the extension is gone, or a worker has not the
 * rights of their owner (any more). With these locks
 * held nobody is waited for either if the tables have to be looked at again, or the database to be attached.
 */
bool lock_tables(LOCKMODE mode);

/*
 * The same for workers that hand jobs out or change them. False also if these are not ours: with
 * another version, without all segments, or while a subscription brings them
 * (protocol: publisher-owns-its-jobs).
 */
bool lock_and_serve(LOCKMODE mode);

} // namespace pgq
