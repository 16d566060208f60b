/*
 * Entry point to the tables: every SQL function and every background worker gets them from
 * tables(). If the database has no slot in shared memory yet, it gets one, with its saved leases.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Return the tables, after making sure that this database has a slot. Raises the errors of
 * look_at_tables(), and 53400 if no slot is free. Cheap if nothing has changed.
 */
const Tables &tables();

} // namespace pgq
