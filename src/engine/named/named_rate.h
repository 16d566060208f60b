/*
 * Named rates: how many permits may be taken, and when (core/gcra.h). A row of pgq_ext.rate_limit
 * defines a rate. For the rates in use, memory knows how many permits were taken. This knowledge
 * survives a clean stop, as leases do (load/saved_lease.h).
 *
 * A rate is full if all of its permits (the burst) are available, and empty if none is available.
 * An empty rate gets one permit after the other, until it is full again.
 *
 * Only a full rate gives up its entry in memory: memory need not know which permits were taken
 * earlier. So a rate that is not in memory was full when it left memory, or no permits were taken
 * from it since Database::rates_known_since. That is the time at which memory of the database
 * began, or at which a rate was last created or dropped there. When a rate comes to memory, it is
 * assumed to have been empty at that time. So it never gives more permits than it may.
 */
#pragma once

#include "core/gcra.h"
#include "engine/named/lock_key.h"
#include "engine/quota.h"

namespace pgq {

struct RateKey
{
	Oid database;
	Oid incarnation; /* incarnation of the extension, as in the database's slot */
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
	kUnknown, /* not in memory, or restored and not yet compared with its row: call add_rate() */
	kLater,	  /* permits are not available before the end of the wait; nothing was taken */
	kTooMany, /* the caller wants more permits than the rate can ever give at once */
	kTaken,	  /* permits were taken, and may be used from the time `at` on */
};

struct RateTaken
{
	RateAnswer answer;
	int64 at;	 /* when the permits may be used (monotonic) */
	int64 taken; /* to be passed to give_back_permits() */
	int64 burst;
	int64 life; /* to be passed to is_same_rate() */
};

/* Take permits, if they become available within `wait` microseconds. */
RateTaken take_permits(const RateKey &key, int64 permits, int64 wait);

/*
 * Return whether the rate has stayed in memory since the take that returned `life`. If not, the
 * rate has begun anew, and permits that were reserved before do not count.
 */
bool is_same_rate(const RateKey &key, int64 life);

/* Give back permits that were not used. Cannot fail. */
void give_back_permits(const RateKey &key, int64 permits, int64 taken);

/*
 * Bring the rate to memory, unless it is there. A restored rate whose row has changed begins empty.
 * Return false if no entry is left for the rate: the database may have no more rates, and no rate
 * is full.
 */
bool add_rate(Database *db, const RateKey &key, const RateSpec &spec);

/*
 * Forget the rate. From now on, each rate of the database that is not in memory is assumed to have
 * been empty at this moment. Cannot fail.
 */
void forget_rate(const RateKey &key);
void free_rates(Oid database, Oid incarnation);

/*
 * A copy of a rate: how many permits can be taken now, and when the next permit can be taken.
 * copy_rates() copies at most `most` rates of a database, and returns their number.
 */
struct RateCopy
{
	RateKey key;
	int64 available;
	int64 next_at; /* when the next permit can be taken (monotonic) */
};
int copy_rates(Oid database, Oid incarnation, RateCopy *copies, int most);

/*
 * A rate as it is saved at a clean stop and restored after the start. The time for which the server
 * is down does not count, since no clock shows how long that was. An entry without a name saves
 * rates_known_since.
 */
struct SavedRate
{
	char name[kLockNameMax + 1];
	int64 interval; /* microseconds in which one permit is refilled */
	int32 burst;
	/* Microseconds until the rate is full; 0 or negative in the entry without a name. */
	int64 remaining;
};

/* Return how many entries save_rates() may write; 0: memory has no rate of the database. */
int room_for_rates(const Database *db);

/*
 * Save the rates of the database. Return the number of entries; 0 if there would be more than
 * `most`.
 */
int save_rates(const Database *db, SavedRate *saved, int most);

/*
 * Restore saved rates into a slot that is LOADING. If there is no entry for one of the saved rates,
 * each rate of the database that is not in memory is assumed to be empty at this moment. Cannot
 * fail.
 */
void restore_rates(Database *db, const SavedRate *saved, int n);

/*
 * Return whether a crash now would restore the same saved rates once more. If the durable mark was
 * advanced since the load, a crash restores none.
 */
bool may_be_restored_again(const Database *db);

/* Return the number of entries that all databases together use beyond their own parts. */
Quota common_rates();

int64 rate_bytes();
Size named_rates_size();
void place_named_rates(void *memory);

} // namespace pgq
