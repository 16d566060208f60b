#include "sync/lock_load.h"

#include "catalog/column.h"
#include "engine/named_lock.h"
#include "load/attach.h"
#include "sync/lock_row.h"

namespace pgq {

namespace {

/* A version of a row, and what is uncertain about it. */
struct FoundLock
{
	LockKey key;
	int32 slot;
	Grant grant;
	bool is_new;	   /* inserted by a transaction that has not ended, */
	TransactionId xid; /* or deleted; invalid: neither */
};

struct FoundLocks
{
	FoundLock *items;
	int n;
	int room;
};

} // namespace

/* The wall clock of this start may be ahead of that of the one before by so much. */
static constexpr int64 kClockSlack = USECS_PER_MINUTE;

/* With the clock as it may be: rather too late than too early. */
static int64
deadline_of(int64 ttl, TimestampTz expires_at)
{
	int64 left = Max(0, expires_at - wall_now()) + kClockSlack;
	return monotonic_now() + Min(ttl, left);
}

static Datum
value_of(HeapTuple tuple, TupleDesc desc, LockColumn column)
{
	bool is_null;
	return heap_getattr(tuple, static_cast<int>(column), desc, &is_null);
}

/* Empty if it is NULL: NOT NULL may be younger than the row. */
static void
copy_text(HeapTuple tuple, TupleDesc desc, LockColumn column, char *buffer, size_t size)
{
	Datum value = value_of(tuple, desc, column);
	buffer[0] = '\0';
	if (DatumGetPointer(value) != nullptr)
		text_to_cstring_buffer(DatumGetTextPP(value), buffer, size);
}

static FoundLock
read_row(HeapTuple tuple, TupleDesc desc, const Database *db)
{
	using enum LockColumn;
	auto number = [&](LockColumn column) { return DatumGetInt64(value_of(tuple, desc, column)); };
	FoundLock found{};
	found.key = {.database = db->oid,
				 .incarnation = db->incarnation,
				 .period = number(kPeriod),
				 .bucket = number(kBucket)};
	copy_text(tuple, desc, kName, found.key.name, sizeof(found.key.name));
	/* 0: written by hand, and of no slot. */
	found.slot = slot_of_column(number(kSlot));
	Grant &grant = found.grant;
	grant.state = GrantState::kHeld;
	grant.slots = static_cast<int32>(number(kSlots));
	grant.token = number(kToken);
	grant.ttl = number(kTtl);
	grant.deadline = deadline_of(grant.ttl, number(kExpiresAt));
	grant.acquired_at = number(kAcquiredAt);
	grant.procno = kNobody;
	copy_text(tuple, desc, kOwner, grant.owner, sizeof(grant.owner));
	return found;
}

/*
 * Is the version of interest? Who has deleted one that he has inserted himself has superseded it; there is no other sign
 * of that as long as he has not ended.
 */
static bool
judge(HeapTuple tuple, Buffer buffer, bool *is_new, TransactionId *xid)
{
	TransactionId dead_after;
	TransactionId deleter;
	*is_new = false;
	*xid = InvalidTransactionId;
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			return true;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			*xid = HeapTupleHeaderGetUpdateXid(tuple->t_data);
			return true;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			*is_new = true;
			*xid = HeapTupleHeaderGetXmin(tuple->t_data);
			if (tuple->t_data->t_infomask & HEAP_XMAX_INVALID ||
				HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_data->t_infomask))
				return true;
			deleter = HeapTupleHeaderGetUpdateXid(tuple->t_data);
			return !TransactionIdIsValid(deleter) || !TransactionIdIsInProgress(deleter);
		default:
			return false;
	}
}

static void
keep(FoundLocks *locks, const FoundLock &found)
{
	if (locks->n == locks->room)
	{
		locks->room *= 2;
		locks->items = static_cast<FoundLock *>(
			repalloc_huge(locks->items, mul_size(locks->room, sizeof(FoundLock))));
	}
	locks->items[locks->n++] = found;
}

/* Every version, judged as a vacuum would: a snapshot does not see what a prepared transaction has done. */
static FoundLocks
find_rows(const Tables &t)
{
	static constexpr int kFew = 64;
	FoundLocks locks = {static_cast<FoundLock *>(palloc(kFew * sizeof(FoundLock))), 0, kFew};
	Relation rel = table_open(t.held_lock, AccessShareLock);
	check_columns(rel, lock_columns, lengthof(lock_columns));
	TableScanDesc scan = begin_table_scan(rel, SnapshotAny, 0, nullptr);
	while (HeapTuple tuple = heap_getnext(scan, ForwardScanDirection))
	{
		/* Judged under the buffer's lock; the pin is the scan's. */
		bool is_new;
		TransactionId xid;
		Buffer buffer = reinterpret_cast<HeapScanDesc>(scan)->rs_cbuf;
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		bool wanted = judge(tuple, buffer, &is_new, &xid);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		if (!wanted)
			continue;
		FoundLock found = read_row(tuple, RelationGetDescr(rel), t.database);
		if (found.slot == 0)
			continue;
		found.is_new = is_new;
		found.xid = TransactionIdIsValid(xid) ? SubTransGetTopmostTransaction(xid) : xid;
		keep(&locks, found);
		CHECK_FOR_INTERRUPTS();
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return locks;
}

/*
 * File a row that is certain, or was before a transaction deleted it. What memory has of the slot stays, unless its time is
 * over and the row is another one, which was then brought by hand. What this transaction itself has deleted replaces
 * nothing: of two rows of one slot the one that is left counts. False: there is no room.
 */
static bool
file_old(Database *db, LockHold &hold, const FoundLock &found)
{
	int number = hold.find(found.key, found.slot);
	if (number >= 0 &&
		(!hold[number].is_over(hold.monotonic()) || hold[number].now.token == found.grant.token ||
		 TransactionIdIsCurrentTransactionId(found.xid)))
		return true;
	if (number < 0)
		number = hold.add(db, found.key, found.slot);
	if (number < 0)
		return false;
	NamedLock &lock = hold[number];
	lock.now = found.grant;
	if (!TransactionIdIsValid(found.xid))
		return true;
	hold.leave_to(number, found.xid, found.grant);
	lock.now.state = GrantState::kUnlocking;
	return true;
}

/* What an open transaction has made of that. */
static bool
file_new(Database *db, LockHold &hold, const FoundLock &found)
{
	int number = hold.find(found.key, found.slot);
	Grant before{};
	if (number >= 0 && hold[number].xid != found.xid)
		return true;
	if (number >= 0)
		before = hold[number].before;
	else
		number = hold.add(db, found.key, found.slot);
	if (number < 0)
		return false;
	hold[number].now = found.grant;
	hold.leave_to(number, found.xid, before);
	return true;
}

template <typename Visit>
static void
for_each_found(const FoundLocks &locks, bool is_new, Visit visit)
{
	for (int next = 0; next < locks.n;)
		with_locks([&](LockHold &hold) {
			for (int n = 0; n < kHoldMax && next < locks.n; n++, next++)
				if (locks.items[next].is_new == is_new)
					visit(hold, locks.items[next]);
		});
}

/* Memory has the others already. */
static int
count_unknown(const FoundLocks &locks)
{
	int n = 0;
	for (bool is_new : {false, true})
		for_each_found(locks, is_new, [&](LockHold &hold, const FoundLock &found) {
			n += hold.find(found.key, found.slot) < 0;
		});
	return n;
}

/* Returns whether there was room for all. */
static bool
file_all(Database *db, const FoundLocks &locks)
{
	bool room = true;
	for_each_found(locks, false, [&](LockHold &hold, const FoundLock &found) {
		room = file_old(db, hold, found) && room;
	});
	for_each_found(locks, true, [&](LockHold &hold, const FoundLock &found) {
		room = file_new(db, hold, found) && room;
	});
	return room;
}

/* All of them, or none, but others may take the room meanwhile. */
static void
load(const Tables &t)
{
	FoundLocks locks = find_rows(t);
	if (count_unknown(locks) > room_for_locks(t.database) || !file_all(t.database, locks))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there are more named locks than there is room for in memory"),
				 errhint("Raise pgq_ext.max_locks (now %d) and restart the server.", max_locks)));
	pfree(locks.items);
}

bool
knows_all_locks(const Database *db)
{
	return value_of(db->locks_loaded) == value_of(db->locks_doubted);
}

/*
 * The first time nobody else is at them but prepared transactions. Later an entry may go with its row between the look at
 * the row and the filing: so whoever is at one is waited for.
 */
static const Tables *
load_rows(const Tables *t, bool wait)
{
	Oid table = t->held_lock;
	LOCKMODE mode =
		value_of(t->database->locks_loaded) == 0 ? ShareUpdateExclusiveLock : ShareRowExclusiveLock;
	if (wait)
		LockRelationOid(table, mode);
	else if (!ConditionalLockRelationOid(table, mode))
		return t;
	t = &tables();
	uint32 doubted = value_of(t->database->locks_doubted);
	bool same = mode == ShareRowExclusiveLock || value_of(t->database->locks_loaded) == 0;
	if (t->held_lock == table && same && !knows_all_locks(t->database))
	{
		load(*t);
		pg_atomic_write_u32(&t->database->locks_loaded, doubted);
	}
	UnlockRelationOid(table, mode);
	return t;
}

const Tables &
tables_with_locks()
{
	const Tables *t = &tables();
	while (!knows_all_locks(t->database))
		t = load_rows(t, true);
	return *t;
}

const Tables &
tables_with_known_locks()
{
	const Tables *t = &tables();
	while (value_of(t->database->locks_loaded) == 0 && !knows_all_locks(t->database))
		t = load_rows(t, true);
	return knows_all_locks(t->database) ? *t : *load_rows(t, false);
}

/* The lock is the loader's own already if it is the first time. */
bool
try_to_load_locks()
{
	const Tables &t = tables();
	if (!ConditionalLockRelationOid(t.held_lock, RowExclusiveLock))
		return false;
	if (knows_all_locks(t.database))
		return true;
	if (value_of(t.database->locks_loaded) != 0 ||
		!ConditionalLockRelationOid(t.held_lock, ShareUpdateExclusiveLock))
		return false;
	(void) tables_with_locks();
	return true;
}

void
doubt_locks(Database *db)
{
	pg_atomic_fetch_add_u32(&db->locks_doubted, 1);
}

} // namespace pgq
