#include "engine/named/named_lock.h"

#include "engine/database.h"

namespace pgq {

static constexpr int kNone = -1;

namespace {

/*
 * The row floor of a slot of a lock: memory knows all rows of the slot whose token is smaller than
 * the floor. The floor is valid for a limited time. It is only an optimization, which bounds how
 * many dead index entries are read (sync/lock_row.h). Protected by the locks lock.
 */
struct RowFloor
{
	uint64 lock; /* hash of lock and slot */
	int64 token;
	int64 until; /* the floor is valid until this time (monotonic) */
};

} // namespace
/* The table of named locks. Protected by the locks lock, except where a field says otherwise. */
struct LockTable
{
	int unused; /* number of the first free entry; the free entries are linked through `next` */
	int fresh;	/* number of the first entry that was never used */
	Quota common;
	/* number of entries whose xid is valid; also read without the lock */
	pg_atomic_uint32 in_doubt;
	/* Number of buckets, a power of two; set at the start of the server. */
	int buckets;
	NamedLock entries[FLEXIBLE_ARRAY_MEMBER];
};

static int
bucket_count()
{
	return static_cast<int>(pg_nextpower2_32(static_cast<uint32>(max_locks)));
}

Size
named_locks_size()
{
	return add_size(offsetof(LockTable, entries),
					add_size(mul_size(quota_entries(max_locks), sizeof(NamedLock)),
							 mul_size(bucket_count(), sizeof(int) + sizeof(RowFloor))));
}

int64
lock_bytes()
{
	/*
	 * Raising the setting by one lock adds more than one entry, since the own parts of all
	 * databases grow, too (quota.h).
	 */
	return sizeof(NamedLock) * static_cast<int64>(quota_entries(max_locks)) / max_locks +
		   sizeof(int) + sizeof(RowFloor);
}

static int *
buckets()
{
	return reinterpret_cast<int *>(shared->named_locks->entries + quota_entries(max_locks));
}

/* Return the array of row floors, one for each bucket. */
static RowFloor *
floors()
{
	return reinterpret_cast<RowFloor *>(buckets() + shared->named_locks->buckets);
}

void
place_named_locks(void *memory)
{
	memset(memory, 0, named_locks_size());
	LockTable *table = shared->named_locks = static_cast<LockTable *>(memory);
	table->unused = kNone;
	pg_atomic_init_u32(&table->in_doubt, 0);
	table->buckets = bucket_count();
	for (int i = 0; i < table->buckets; i++)
		buckets()[i] = kNone;
}

static int *
bucket_of(Oid database, const char *name)
{
	return &buckets()[hash_of_name(database, name) & (shared->named_locks->buckets - 1)];
}

LockKey
lock_key_of(const Database *db, const char *name, int64 period, TimestampTz bucket)
{
	LockKey key = {
		.database = db->oid, .incarnation = db->incarnation, .period = period, .bucket = bucket};
	strlcpy(key.name, name, sizeof(key.name));
	return key;
}

/* ---- entries ---- */

NamedLock &
LockHold::operator[](int number) const
{
	return shared->named_locks->entries[number];
}

int
LockHold::end() const
{
	return shared->named_locks->fresh;
}

/* Visit the entries of the lock. */
template <typename Visit>
static void
for_each_slot(const LockKey &key, Visit visit)
{
	NamedLock *entries = shared->named_locks->entries;
	for (int i = *bucket_of(key.database, key.name); i != kNone; i = entries[i].next)
		if (entries[i].key == key)
			visit(i, entries[i]);
}

int
LockHold::find(const LockKey &key, int32 slot) const
{
	int found = kNone;
	for_each_slot(key, [&](int i, const NamedLock &lock) {
		if (lock.slot == slot)
			found = i;
	});
	return found;
}

int
LockHold::find(const Database *db, const char *name, int64 token, bool relied_on) const
{
	const NamedLock *entries = shared->named_locks->entries;
	for (int i = *bucket_of(db->oid, name); i != kNone; i = entries[i].next)
	{
		const NamedLock &lock = entries[i];
		if (lock.now.token == token && is_of(lock.key, db) && strcmp(lock.key.name, name) == 0)
			return lock.is_over(monotonic_) && !relied_on ? kNone : i;
	}
	return kNone;
}

/*
 * Return the first entry of that name in the list of its bucket, from `number` on; kNone if there
 * is none.
 */
static int
find_of(const Database *db, const char *name, int number)
{
	const NamedLock *entries = shared->named_locks->entries;
	while (number != kNone &&
		   !(is_of(entries[number].key, db) && strcmp(entries[number].key.name, name) == 0))
		number = entries[number].next;
	return number;
}

int
LockHold::first_of(const Database *db, const char *name) const
{
	return find_of(db, name, *bucket_of(db->oid, name));
}

int
LockHold::next_of(const Database *db, const char *name, int number) const
{
	return find_of(db, name, (*this)[number].next);
}

int
LockHold::add(Database *db, const LockKey &key, int32 slot)
{
	LockTable *table = shared->named_locks;
	if (!charge(&db->locks, &table->common, max_locks))
		return kNone;
	int number = table->unused;
	if (number != kNone)
		table->unused = table->entries[number].next;
	else
		number = table->fresh++;
	Assert(number < quota_entries(max_locks));
	int *bucket = bucket_of(key.database, key.name);
	table->entries[number] = {.key = key,
							  .slot = slot,
							  .home = static_cast<int>(db - shared->databases),
							  .next = *bucket,
							  .changer = kNobody};
	*bucket = number;
	return number;
}

void
LockHold::free(int number)
{
	LockTable *table = shared->named_locks;
	NamedLock &lock = table->entries[number];
	int *link = bucket_of(lock.key.database, lock.key.name);
	while (*link != number)
		link = &table->entries[*link].next;
	*link = lock.next;
	wake_first(lock.key);
	lock.slot = 0;
	lock.now.token = 0;
	lock.now.state = GrantState::kNone;
	lock.changer = kNobody;
	clear_xid(number);
	lock.next = table->unused;
	table->unused = number;
	discharge(&shared->databases[lock.home].locks, &table->common, max_locks);
}

/* ---- rows of locks ---- */

static uint64
hash_of(const LockKey &key, int32 slot)
{
	uint64 words[] = {hash_bytes_extended(reinterpret_cast<const unsigned char *>(key.name),
										  static_cast<int>(strlen(key.name)), key.database),
					  key.incarnation, static_cast<uint64>(key.period),
					  static_cast<uint64>(key.bucket), static_cast<uint64>(slot)};
	return hash_bytes_extended(reinterpret_cast<unsigned char *>(words), sizeof(words), 0);
}

static RowFloor *
floor_of(uint64 hash)
{
	return &floors()[hash & (shared->named_locks->buckets - 1)];
}

int64
LockHold::row_floor(const LockKey &key, int32 slot) const
{
	uint64 hash = hash_of(key, slot);
	const RowFloor *floor = floor_of(hash);
	return floor->lock == hash && floor->until > monotonic_ ? floor->token : 0;
}

void
LockHold::raise_row_floor(const LockKey &key, int32 slot, int64 token, int64 cost)
{
	static constexpr int kShare = 100;
	uint64 hash = hash_of(key, slot);
	RowFloor *floor = floor_of(hash);
	if (cost > 0)
		*floor = {hash, token, monotonic_ + kShare * cost};
	else if (floor->lock == hash)
		floor->token = Max(floor->token, token);
}

void
LockHold::leave_to(int number, TransactionId xid, const Grant &before)
{
	NamedLock &lock = (*this)[number];
	clear_xid(number);
	lock.changer = kNobody;
	lock.xid = xid;
	lock.before = before;
	lock.now.pid = 0;
	pg_atomic_fetch_add_u32(&shared->named_locks->in_doubt, 1);
}

void
LockHold::clear_xid(int number)
{
	NamedLock &lock = (*this)[number];
	if (TransactionIdIsValid(lock.xid))
		pg_atomic_fetch_sub_u32(&shared->named_locks->in_doubt, 1);
	lock.xid = InvalidTransactionId;
}

void
LockHold::confirm(int number, int64 token)
{
	NamedLock &lock = (*this)[number];
	if (lock.now.token != token)
		return;
	lock.changer = kNobody;
	if (lock.now.state == GrantState::kUnlocking)
		free(number);
}

void
LockHold::put_back(int number, int64 token, const Grant &before, bool was_open)
{
	NamedLock &lock = (*this)[number];
	if (lock.now.token != token)
		return;
	if (before.state == GrantState::kNone)
		return free(number);
	lock.now = before;
	if (!was_open)
		lock.changer = kNobody;
	/*
	 * End the restored grant if the session to which it is bound has ended while another session
	 * was changing the lock.
	 */
	if (before.session_bound && before.procno != kNobody &&
		before.session != session_of(before.procno))
		lock.now.end_with_session(monotonic_);
	if (lock.is_over(monotonic_))
		wake_first(lock.key);
}

/* ---- queries ---- */

int
lock_blockers(int procno, int *procnos, int most)
{
	int n = kNone;
	with_locks([&](LockHold &hold) {
		const LockKey *key = awaited_by(procno);
		if (key == nullptr)
			return;
		n = 0;
		bool ends = false;
		for_each_slot(*key, [&](int, const NamedLock &lock) {
			bool bound = lock.now.session_bound && lock.now.procno != kNobody;
			int who = lock.changer != kNobody ? lock.changer : lock.now.procno;
			ends |= (lock.changer == kNobody && !bound) || n == most;
			if (!ends)
				procnos[n++] = who;
		});
		if (ends || n == 0)
			n = kNone;
	});
	return n;
}

bool
any_lock_in_doubt()
{
	return pg_atomic_read_u32(&shared->named_locks->in_doubt) > 0;
}

int
room_for_locks(const Database *db)
{
	return left_of_quota(db->locks, shared->named_locks->common, max_locks);
}

Quota
common_locks()
{
	return shared->named_locks->common;
}

} // namespace pgq
