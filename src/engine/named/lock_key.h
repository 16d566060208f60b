/*
 * The key of a named lock or run (named_lock.h).
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

inline constexpr int kLockNameMax = 59;
inline constexpr int64 kNoPeriod = -1;

/* Identity of a named lock or run. A lock has up to `slots` grants at a time. */
struct LockKey
{
	Oid database;
	Oid incarnation; /* incarnation of the extension, as in the database's slot */
	/*
	 * For runs: length of the period in microseconds, 0 if the run is done only once; kNoPeriod: a
	 * lock.
	 */
	int64 period;
	TimestampTz bucket; /* for runs: the beginning of the period */
	char name[kLockNameMax + 1];

	bool is_run() const { return period != kNoPeriod; }
	bool operator==(const LockKey &other) const
	{
		return database == other.database && incarnation == other.incarnation &&
			   period == other.period && bucket == other.bucket && strcmp(name, other.name) == 0;
	}
};

LockKey lock_key_of(const Database *db, const char *name, int64 period, TimestampTz bucket);

/*
 * Return a hash of database and name. Locks and runs with the same name have the same hash, so that
 * all of them can be found by the name.
 */
inline uint32
hash_of_name(Oid database, const char *name)
{
	return hash_bytes_extended(reinterpret_cast<const unsigned char *>(name),
							   static_cast<int>(strlen(name)), database) >>
		   32;
}

} // namespace pgq
