/*
 * Named rates: how much may be taken, and when (core/gcra.h). What a rate is stands in pgq_ext.rate_limit; here is what has
 * been taken of those that are in use. That outlives a clean stop, as leases do (load/saved_lease.h).
 *
 * Only a rate that is full gives up its place to another one, since earlier takes do not matter any more then. So a rate
 * that is not in memory was full when it left, or has not been taken from since Database::rates_known_since: when memory of
 * the database began, or a rate was last made or dropped there. Such a rate counts as empty at that time, so it never gives
 * more than it may.
 */
#pragma once

#include "core/gcra.h"
#include "engine/lock_key.h"
#include "engine/quota.h"

namespace pgq {

struct RateKey
{
	Oid database;
	Oid incarnation; /* as of the slot of the database */
	char name[kLockNameMax + 1];

	bool operator==(const RateKey &other) const
	{
		return database == other.database && incarnation == other.incarnation &&
			   strcmp(name, other.name) == 0;
	}
};

struct RateSpec
{
	int64 permits;
	int64 period;
	int64 burst;
};

enum class RateAnswer : uint8
{
	kUnknown, /* it is not in memory, or what it is has not been read since it was restored */
	kLater,	  /* not before the end of the wait; nothing is taken */
	kTooMany, /* there are never so many at once */
	kTaken,	  /* to be used at a time */
};

struct RateTaken
{
	RateAnswer answer;
	int64 at;	 /* monotonic */
	int64 taken; /* for give_back_permits() */
	int64 burst;
	int64 life; /* for is_same_rate() */
};

/* Take them if they can be had within that time. */
RateTaken take_permits(const RateKey &key, int64 permits, int64 wait);

/* Has it been in memory since then? What was reserved of it is nothing otherwise: others have begun to count anew. */
bool is_same_rate(const RateKey &key, int64 life);

/* They are not used. Cannot fail. */
void give_back_permits(const RateKey &key, int64 permits, int64 taken);

/*
 * Bring the rate to memory, if it is not there. One that was restored and is another one now is empty. False: there is no
 * place for that database, and no rate is full.
 */
bool add_rate(Database *db, const RateKey &key, const RateSpec &spec);

/* Forget the rate; all rates of the database that are not in memory count as empty from now on. Cannot fail. */
void forget_rate(const RateKey &key);
void free_rates(Oid database, Oid incarnation);

/* What could be taken now, and when the next one. Of a database; at most `most`. Returns how many. */
struct RateCopy
{
	RateKey key;
	int64 available;
	int64 next_at; /* monotonic */
};
int copy_rates(Oid database, Oid incarnation, RateCopy *copies, int most);

/*
 * A rate as it is saved at a clean stop, and restored after the start. The time for which the server is down does not count:
 * no clock tells how long that was. Without a name: since when rates that are not in memory have been known.
 */
struct SavedRate
{
	char name[kLockNameMax + 1];
	int64 interval; /* microseconds, in which one permit is refilled */
	int32 burst;
	int64 remaining; /* microseconds until it is full; not positive without a name */
};

/* How many save_rates() may write; 0: no rate of the database is in memory. */
int room_for_rates(const Database *db);

/* At most `most`. Returns how many; 0 if that is too few. */
int save_rates(const Database *db, SavedRate *saved, int most);

/* Into a slot that is LOADING. All rates count as empty if one of them finds no place. Cannot fail. */
void restore_rates(Database *db, const SavedRate *saved, int n);

/* Might rates that were restored be restored once more after a crash? Not once the durable mark was advanced since the load. */
bool may_be_restored_again(const Database *db);

/* What all databases use beyond their own parts. */
Quota common_rates();

int64 rate_bytes();
Size named_rates_size();
void place_named_rates(void *memory);

} // namespace pgq
