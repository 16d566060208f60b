/* The version of the extension that is installed in this database. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Install the hook that notices ALTER EXTENSION UPDATE. Called by _PG_init. */
void version_init();

/* Return whether the extension is installed in this database. Never raises an error. */
bool extension_installed();

/*
 * Return whether this library supports that version of the SQL objects. The library supports its
 * own version and the previous version. The previous version lacks the objects that the update to
 * the library's version adds, and does not differ otherwise (docs/operations.md). A function that
 * needs such an object and does not find it calls report_versions(ERROR).
 */
bool is_served(const char *version);

/*
 * Return whether the extension is installed in this database, in a version that this library
 * supports. Never raises an error.
 */
bool version_served();

/*
 * Return whether the SQL objects in this database have the version before the library's own
 * version. The comment of is_served() says how these two versions differ.
 */
bool version_is_before();

/*
 * Report that the versions of library and SQL objects differ, as an error (level ERROR) or in the
 * log.
 */
void report_versions(int level);

} // namespace pgq
