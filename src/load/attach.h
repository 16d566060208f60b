/*
 * Entry point to the tables of the extension: SQL functions and background workers call tables().
 * If the database has no slot in shared memory yet, tables() attaches a slot and restores the saved
 * leases of the database.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Return the tables, after making sure that this database has a slot in shared memory. Raises the
 * errors of look_at_tables(), and 53400 if no slot is free. Cheap if the tables have not changed
 * since the last call.
 */
const Tables &tables();

} // namespace pgq
