/*
 * Which version of the extension is installed in this database.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Called by _PG_init. */
void version_init();

/* Is the extension installed in this database? Never an error. */
bool extension_installed();

/*
 * Does this library serve that version of the SQL objects: its own, and the one before? What an
 * update adds is then not there yet, and nothing else differs; see docs/operations.md. A function
 * that needs what an update brings must say so (55000) by report_versions.
 */
bool is_served(const char *version);

/* Is the extension installed in this database, in a version that is served? Never an error. */
bool version_served();

/* Installed is the version before that of the library. */
bool version_is_before();

/* Report that they differ: an error, or a line in the log. */
void report_versions(int level);

} // namespace pgq
