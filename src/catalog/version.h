/*
 * Which version of the extension is installed in this database.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Called by _PG_init. */
void version_init();

/* Is the extension installed in this database, in the version of this library? Never an error. */
bool extension_installed();
bool versions_agree();

/* Report that they do not: an error, or a line in the log. */
void report_versions(int level);

} // namespace pgq
