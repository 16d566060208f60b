#include "engine/named_lock.h"

#include "engine/database.h"
#include "engine/token.h"

namespace pgq {

static constexpr int kNone = -1;

/* Under the locks lock, but for the address of the table and what is said otherwise. */
struct LockTable
{
	int unused; /* entries, linked by next */
	int fresh;	/* from this one on they were never used */
	int used;	/* read racily: how full it is */
	int peak;
	pg_atomic_uint32 in_doubt; /* entries with an xid; read without the lock */
	int buckets;			   /* a power of two; set when it is made */
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
	return add_size(offsetof(LockTable, entries), add_size(mul_size(max_locks, sizeof(NamedLock)),
														   mul_size(bucket_count(), sizeof(int))));
}

int64
lock_bytes()
{
	return sizeof(NamedLock) + sizeof(int);
}

static int *
buckets()
{
	return reinterpret_cast<int *>(shared->named_locks->entries + max_locks);
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

/* Visit those of that lock. */
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

int
LockHold::add(const LockKey &key, int32 slot)
{
	LockTable *table = shared->named_locks;
	int number = table->unused;
	if (number != kNone)
		table->unused = table->entries[number].next;
	else if (table->fresh < max_locks)
		number = table->fresh++;
	else
		return kNone;
	table->peak = Max(table->peak, ++table->used);
	int *bucket = bucket_of(key.database, key.name);
	table->entries[number] = {.key = key, .slot = slot, .next = *bucket, .changer = kNobody};
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
	table->used--;
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

/* Its process's number is another one's from now on. */
static void
end_with_session(Grant *grant)
{
	grant->deadline = 0;
	grant->procno = kNobody;
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
	/* The session may have ended while another one was at it. */
	if (before.session_bound && before.procno != kNobody &&
		before.session != session_of(before.procno))
		end_with_session(&lock.now);
	if (lock.is_over(monotonic_))
		wake_first(lock.key);
}

/* ---- taking ---- */

/* How it is with a lock, for who wants a slot of it. */
struct LockSurvey
{
	int held = 0;
	bool others = false; /* hold some of these */
	int64 look_again = INT64_MAX;
	int64 swept = 0;
	uint64 taken[kSlotsMax / 64] = {};

	int32 lowest_free() const
	{
		int word = 0;
		while (taken[word] == ~UINT64_C(0))
			word++;
		return word * 64 + pg_rightmost_one_pos64(~taken[word]) + 1;
	}
};

/* What time will not end is looked at by itself now and then. */
static constexpr int64 kPolled = 100 * 1000;

static int64
next_look(const NamedLock &lock, int64 monotonic)
{
	if (lock.is_over(monotonic))
		return lock.in_use_until;
	if (TransactionIdIsValid(lock.xid))
		return monotonic + kPolled;
	return lock.is_open() ? INT64_MAX : lock.now.deadline;
}

static LockSurvey
survey(const LockKey &key, int64 unused, int64 monotonic)
{
	LockSurvey survey;
	int me = my_procno();
	for_each_slot(key, [&](int, const NamedLock &lock) {
		bool ours_to_relock = lock.now.state == GrantState::kUnlocking && lock.changer == me;
		bool may_be_free = lock.in_use_until <= monotonic || lock.now.token == unused;
		if (ours_to_relock || (lock.is_over(monotonic) && may_be_free))
			return;
		survey.held++;
		survey.taken[(lock.slot - 1) / 64] |= UINT64_C(1) << (lock.slot - 1) % 64;
		survey.others |= lock.changer != me && !(lock.now.session_bound && lock.now.procno == me);
		survey.look_again = Min(survey.look_again, next_look(lock, monotonic));
		if (lock.now.swept)
			survey.swept = lock.now.token;
	});
	return survey;
}

static void
grant(NamedLock *lock, Database *db, const LockRequest &request, int64 monotonic)
{
	Grant &now = lock->now;
	now = {.state = GrantState::kHeld,
		   .session_bound = request.session_bound,
		   .slots = request.slots,
		   .token = draw_lock_token(db),
		   .ttl = request.ttl,
		   .deadline = monotonic + request.ttl,
		   .acquired_at = wall_now(),
		   .pid = MyProcPid,
		   .procno = my_procno()};
	now.session = session_of(now.procno);
	strlcpy(now.owner, request.owner, sizeof(now.owner));
	lock->changer = my_procno();
	lock->in_use_until = 0;
}

/*
 * Count who holds it, and who was in line before. If there is a slot left, the lowest that is free: one that nobody
 * has, one that this transaction is giving back, or one whose time is over, if nobody relies on it.
 */
LockTaken
take_lock(LockHold &hold, Database *db, const LockRequest &request)
{
	int64 monotonic = hold.monotonic();
	/* Who is there, and who was there first. */
	LockSurvey found = survey(request.key, request.unused, monotonic);
	int before = waiting_before(request.key, monotonic);
	LockTaken taken{.answer = TakeAnswer::kBusy, .number = kNone, .token = 0};
	taken.swept = found.swept;
	taken.look_again = found.look_again;
	if (found.held + before >= request.slots)
	{
		if (before == 0 && !found.others)
			taken.answer = TakeAnswer::kOurs;
		/* One whose time is over ends without a word: whoever is first in line is told, or he would keep others from it. */
		if (found.held < request.slots)
			hold.wake_first(request.key);
		return taken;
	}

	/* An entry that is there is taken over, unless its time is over and nobody knows yet whether it is used. */
	taken.slot = found.lowest_free();
	taken.number = hold.find(request.key, taken.slot);
	if (taken.number != kNone)
	{
		const NamedLock &lock = hold[taken.number];
		taken.token = lock.now.token;
		taken.answer = TakeAnswer::kOver;
		if (lock.is_over(monotonic) && lock.now.token != request.unused)
			return taken;
	}
	else
		taken.number = hold.add(request.key, taken.slot);
	taken.answer = taken.number == kNone ? TakeAnswer::kFull : TakeAnswer::kTaken;
	if (taken.answer == TakeAnswer::kFull)
		return taken;
	NamedLock &lock = hold[taken.number];
	taken.before = lock.now;
	taken.was_open = lock.is_open();
	grant(&lock, db, request, monotonic);
	taken.token = lock.now.token;
	return taken;
}

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

/* ---- ends that no transaction decides ---- */

/* One that another session relies on, or is just giving back, is over for its sake only when that has ended. */
void
end_session_locks()
{
	with_locks([](LockHold &) { end_session_of(my_procno()); });
	for_each_lock([](LockHold &hold, int number) {
		NamedLock &lock = hold[number];
		if (!lock.now.session_bound || lock.now.procno != my_procno())
			return;
		end_with_session(&lock.now);
		if (!lock.is_open())
			hold.wake_first(lock.key);
	});
}

void
free_locks(Oid database, Oid incarnation)
{
	for_each_lock([=](LockHold &hold, int number) {
		const LockKey &key = hold[number].key;
		if (key.database == database && key.incarnation == incarnation)
			hold.free(number);
	});
}

bool
has_locks(Oid database)
{
	bool any = false;
	if (shared->named_locks->used > 0)
		for_each_lock([&](const LockHold &hold, int number) {
			any |= hold[number].key.database == database;
		});
	return any;
}

int
copy_locks(const Database *db, LockCopy *copies, int most)
{
	int n = 0;
	for_each_lock([&](const LockHold &hold, int number) {
		const NamedLock &lock = hold[number];
		if (n < most && is_of(lock.key, db) && !lock.key.is_run())
			copies[n++] = {lock.key, lock.slot, lock.is_open(), waiting_for(lock.key), lock.now};
	});
	return n;
}

bool
any_lock_in_doubt()
{
	return pg_atomic_read_u32(&shared->named_locks->in_doubt) > 0;
}

int
room_for_locks()
{
	return max_locks - shared->named_locks->used;
}

LockUse
use_of_locks()
{
	return {shared->named_locks->used, shared->named_locks->peak};
}

} // namespace pgq
