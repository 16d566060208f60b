/* Taking a named lock in memory. */
#pragma once

#include "engine/named/named_lock.h"

namespace pgq {

struct LockRequest
{
	Database *database;
	uint32 generation; /* generation of the database's slot at the time when the key was made */
	LockKey key;
	int32 slots;
	bool session_bound;
	int64 ttl;
	const char *owner;
	/* Token of a grant on which no transaction relies: the caller holds its tag. 0: none. */
	int64 unused;
};

enum class TakeAnswer : uint8
{
	kTaken,
	kBusy,
	kOurs, /* this process holds all slots */
	/*
	 * The time of the grant is over. The caller must find out whether a transaction still relies on
	 * the grant.
	 */
	kOver,
	kFull,		/* the database may have no more entries */
	kGone,		/* the slot of the database has another generation by now */
	kAboveMark, /* the new token would be above the durable mark: advance the mark, and try again */
};

struct LockTaken
{
	TakeAnswer answer;
	int number;
	int32 slot;
	int64 token; /* kTaken: token of the new grant; kOver: token of the grant whose time is over */
	Grant before;
	bool was_open;
	int64 swept;	  /* kBusy: token of a grant that the scheduler is about to end; 0: none */
	int64 look_again; /* kBusy: when to look again (monotonic); INT64_MAX: only when woken */
};

/* Take a slot, if more slots are free than waiters are in line before this process. */
LockTaken take_lock(LockHold &hold, Database *db, const LockRequest &request);

} // namespace pgq
