#include "sync/lock_load.h"

#include "catalog/column.h"
#include "engine/named/named_lock.h"
#include "load/attach.h"
#include "sync/lock_row.h"

namespace pgq {

namespace {

/* A version of a row, and whether an open transaction has inserted or deleted the version. */
struct FoundLock
{
	LockKey key;
	int32 slot;
	Grant grant;
	bool is_new;  /* inserted by a transaction that has not ended */
	bool is_gone; /* only if is_new: the same transaction has deleted or replaced the version */
	/* the open transaction that inserted (is_new) or deletes the version; invalid: none */
	TransactionId xid;
};

struct FoundLocks
{
	FoundLock *items;
	int n;
	int room;
};

} // namespace
/*
 * Upper bound of the time by which the wall clock is assumed to have been set forward since a row
 * was written (microseconds).
 */
static constexpr int64 kClockSlack = USECS_PER_MINUTE;

/*
 * Return the monotonic time at which the lock ends. The wall clock may have been set, so the
 * returned time may be too late, but must not be too early.
 */
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

/*
 * Copy a text column. NULL is copied as an empty string: the row may be older than the constraint
 * NOT NULL.
 */
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
	/* The slot is 0 if a user's SQL has written a value that names no slot. */
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
 * Return whether memory needs to know this version of a row. A transaction that deletes a version
 * that it has inserted itself (is_gone) has replaced the version, or has given the lock back. In
 * both cases no other transaction may take the lock before that transaction ends, and this version
 * may be the only sign of that transaction.
 */
static bool
judge(HeapTuple tuple, Buffer buffer, bool *is_new, bool *is_gone, TransactionId *xid)
{
	TransactionId dead_after;
	TransactionId deleter;
	*is_new = *is_gone = false;
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
			*is_gone = TransactionIdIsValid(deleter) && TransactionIdIsInProgress(deleter);
			return true;
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

/*
 * Collect every version that memory needs to know. Judge versions as VACUUM does, because a
 * snapshot does not see the changes of a prepared transaction.
 */
static FoundLocks
find_rows(const Tables &t)
{
	static constexpr int kFew = 64;
	FoundLocks locks = {static_cast<FoundLock *>(palloc(kFew * sizeof(FoundLock))), 0, kFew};
	Relation rel = table_open(t.held_lock(), AccessShareLock);
	check_columns(rel, lock_columns, lengthof(lock_columns));
	TableScanDesc scan = begin_table_scan(rel, SnapshotAny, 0, nullptr);
	while (HeapTuple tuple = heap_getnext(scan, ForwardScanDirection))
	{
		/*
		 * The scan holds the pin of the buffer. Judge the version under the buffer's content lock.
		 */
		bool is_new;
		bool is_gone;
		TransactionId xid;
		Buffer buffer = reinterpret_cast<HeapScanDesc>(scan)->rs_cbuf;
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		bool wanted = judge(tuple, buffer, &is_new, &is_gone, &xid);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		if (!wanted)
			continue;
		FoundLock found = read_row(tuple, RelationGetDescr(rel), t.database);
		if (found.slot == 0)
			continue;
		found.is_new = is_new;
		found.is_gone = is_gone;
		found.xid = TransactionIdIsValid(xid) ? SubTransGetTopmostTransaction(xid) : xid;
		keep(&locks, found);
		CHECK_FOR_INTERRUPTS();
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return locks;
}

/*
 * File a row whose insertion is committed, even if an open transaction is deleting the row. If
 * memory has an entry of the slot, keep the entry, unless its time is over and the row has another
 * token: then a user's SQL has inserted the row. A row that this transaction itself has deleted
 * never replaces an entry: if a slot has two rows, the row that was not deleted counts. Returns
 * false if no entry is left.
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

/*
 * File a row that an open transaction has inserted. If that transaction is rolled back, the grant
 * that the slot had before is restored. Returns false if no entry is left.
 */
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

/*
 * File a row that an open transaction has inserted and deleted. If the slot has an entry, do
 * nothing: the entry is that of the row which has replaced this row, or memory knew the lock before
 * the load. A new entry is freed when the transaction ends. Returns false if no entry is left.
 */
static bool
file_gone(Database *db, LockHold &hold, const FoundLock &found)
{
	if (hold.find(found.key, found.slot) >= 0)
		return true;
	int number = hold.add(db, found.key, found.slot);
	if (number < 0)
		return false;
	hold[number].now = found.grant;
	hold.leave_to(number, found.xid, Grant{});
	hold[number].now.state = GrantState::kUnlocking;
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

/*
 * Count the rows that need a new entry in memory. Rows that an open transaction has inserted and
 * deleted (is_gone) do not count: a slot can have many such rows, which need at most one entry
 * together. So the result can be too small; then file_all() returns false.
 */
static int
count_unknown(const FoundLocks &locks)
{
	int n = 0;
	for (bool is_new : {false, true})
		for_each_found(locks, is_new, [&](LockHold &hold, const FoundLock &found) {
			n += !found.is_gone && hold.find(found.key, found.slot) < 0;
		});
	return n;
}

/* File all found rows. Returns false if there were not enough entries. */
static bool
file_all(Database *db, const FoundLocks &locks)
{
	bool room = true;
	for_each_found(locks, false, [&](LockHold &hold, const FoundLock &found) {
		room = file_old(db, hold, found) && room;
	});
	for_each_found(locks, true, [&](LockHold &hold, const FoundLock &found) {
		room = (found.is_gone || file_new(db, hold, found)) && room;
	});
	for_each_found(locks, true, [&](LockHold &hold, const FoundLock &found) {
		room = (!found.is_gone || file_gone(db, hold, found)) && room;
	});
	return room;
}

/*
 * Load all rows, or raise 53400 if there are not enough entries. The error leaves memory unchanged,
 * unless other sessions take entries during the load: then some rows are loaded.
 */
static void
load(const Tables &t)
{
	FoundLocks locks = find_rows(t);
	if (count_unknown(locks) > room_for_locks(t.database) || !file_all(t.database, locks))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there are more named locks of pgq_ext than there is room for in memory"),
				 errhint("Raise pgq_ext.max_locks (now %d) and restart the server.", max_locks)));
	pfree(locks.items);
}

bool
knows_all_locks(const Database *db)
{
	return value_of(db->locks_loaded) == value_of(db->locks_doubted);
}

/*
 * Load the rows if memory does not have them. At the first load only prepared transactions can have
 * changed locks. At a later load, an open transaction could delete a row and its entry between the
 * scan and the filing. So later loads take a stronger lock mode, which waits for such transactions.
 */
static const Tables *
load_rows(const Tables *t, bool wait)
{
	Oid table = t->held_lock();
	LOCKMODE mode =
		value_of(t->database->locks_loaded) == 0 ? ShareUpdateExclusiveLock : ShareRowExclusiveLock;
	if (wait)
		LockRelationOid(table, mode);
	else if (!ConditionalLockRelationOid(table, mode))
		return t;
	t = &tables();
	uint32 doubted = value_of(t->database->locks_doubted);
	bool same = mode == ShareRowExclusiveLock || value_of(t->database->locks_loaded) == 0;
	if (t->held_lock() == table && same && !knows_all_locks(t->database))
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

/*
 * Load the locks if that needs no wait. For the first load, take the lock mode that load_rows()
 * will use, so that load_rows() gets its lock without waiting.
 */
bool
try_to_load_locks()
{
	const Tables &t = tables();
	if (!ConditionalLockRelationOid(t.held_lock(), RowExclusiveLock))
		return false;
	if (knows_all_locks(t.database))
		return true;
	if (value_of(t.database->locks_loaded) != 0 ||
		!ConditionalLockRelationOid(t.held_lock(), ShareUpdateExclusiveLock))
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
