/*
 * The door: every call of a function, and every worker, comes to the tables through it. Where the database has no
 * slot in shared memory yet, it gets one, with the leases that were saved.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * The tables, and the slot of this database. Errors as look_at_tables(), and 53400 if there is no
 * slot left. Costs nothing if nothing has changed.
 */
const Tables &tables();

} // namespace pgq
