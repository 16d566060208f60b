/*
 * The tables of topics, pgq_ext.topic_binding and pgq_ext.topic_pattern. Backends keep their rows
 * in memory, until an invalidation of the relation cache says that the table has changed. The
 * triggers of the tables send that invalidation, whichever statement makes the change.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

enum class TopicTable : uint8
{
	kBinding,
	kPattern,
};

/*
 * Return the table; InvalidOid if there is no such table that belongs to the extension: the SQL
 * objects are of a version without topics, or the table was renamed. The tables are no part of
 * `Tables`, since each bind would make all sessions read the catalog again.
 */
Oid find_topic_table(TopicTable table);

/*
 * Lock the table until the transaction ends, and check its columns. Returns whether each change of
 * the table sends an invalidation, so that rows may be kept in memory: false if a trigger of the
 * table was dropped or is not ENABLE ALWAYS, for example after pg_restore --disable-triggers.
 * Raises 55000 if the table is missing, was altered, or is unlogged: then a crash of the server
 * would remove its rows.
 */
bool lock_topic_table(TopicTable table, LOCKMODE mode);

/* Send the invalidation of the table, as its triggers do. */
void invalidate_topic_table(TopicTable table);

} // namespace pgq
