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

/* The version of the SQL objects in this database, as the library sees it. */
enum class Served : uint8
{
	kNo,	 /* the extension is not installed, or in a version that the library does not support */
	kBefore, /* the version before the library's own */
	kOwn,
};

/* Read the version from the catalog. Never raises an error. */
Served look_at_version();

inline bool
version_served()
{
	return look_at_version() != Served::kNo;
}

/*
 * Report that the versions of library and SQL objects differ, as an error (level ERROR) or in the
 * log.
 */
void report_versions(int level);

} // namespace pgq
