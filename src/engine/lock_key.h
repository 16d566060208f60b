/*
 * What a lock is known by (named_lock.h).
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

inline constexpr int kLockNameMax = 59;
inline constexpr int64 kNoPeriod = -1;

/* A lock, or a run: what is held at most `slots` times. */
struct LockKey
{
	Oid database;
	Oid incarnation;	/* as of the slot of the database */
	int64 period;		/* of runs: microseconds, 0: one for ever. kNoPeriod: it is a lock */
	TimestampTz bucket; /* of runs: when their period began */
	char name[kLockNameMax + 1];

	bool is_run() const { return period != kNoPeriod; }
	bool operator==(const LockKey &other) const
	{
		return database == other.database && incarnation == other.incarnation &&
			   period == other.period && bucket == other.bucket && strcmp(name, other.name) == 0;
	}
};

LockKey lock_key_of(const Database *db, const char *name, int64 period, TimestampTz bucket);

/* Of a database and a name: locks and runs of one name are found together. */
inline uint32
hash_of_name(Oid database, const char *name)
{
	return hash_bytes_extended(reinterpret_cast<const unsigned char *>(name),
							   static_cast<int>(strlen(name)), database) >>
		   32;
}

} // namespace pgq
