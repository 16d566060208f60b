#include "engine/named/lock_take.h"

#include "engine/database.h"
#include "engine/token.h"

namespace pgq {

static constexpr int kNoEntry = -1;

namespace {

/* State of a lock, as seen by a process that wants a slot of it. */
struct LockSurvey
{
	int held = 0;
	bool others = false; /* other processes hold some of the slots */
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

} // namespace
/*
 * Interval in microseconds at which a waiter looks at a lock that a prepared transaction has
 * changed: COMMIT PREPARED wakes no waiter.
 */
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

/* Visit the entries of the lock. */
template <typename Visit>
static void
for_each_slot_of(const LockHold &hold, const Database *db, const LockKey &key, Visit visit)
{
	for (int i = hold.first_of(db, key.name); i >= 0; i = hold.next_of(db, key.name, i))
		if (hold[i].key == key)
			visit(hold[i]);
}

static LockSurvey
survey(const LockHold &hold, const Database *db, const LockKey &key, int64 unused)
{
	LockSurvey survey;
	int me = my_procno();
	int64 monotonic = hold.monotonic();
	for_each_slot_of(hold, db, key, [&](const NamedLock &lock) {
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
grant(NamedLock *lock, int64 token, const LockRequest &request, int64 monotonic)
{
	Grant &now = lock->now;
	now = {.state = GrantState::kHeld,
		   .session_bound = request.session_bound,
		   .slots = request.slots,
		   .token = token,
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
 * Take a slot for the request. Count the holders and the waiters that come first. If a slot is
 * left, take the lowest free slot: a slot that is not held, that this transaction is giving back,
 * or whose time is over while no transaction relies on it.
 */
LockTaken
take_lock(LockHold &hold, Database *db, const LockRequest &request)
{
	int64 monotonic = hold.monotonic();
	LockSurvey found = survey(hold, db, request.key, request.unused);
	int before = waiting_before(request.key, monotonic);
	LockTaken taken{.answer = TakeAnswer::kBusy, .number = kNoEntry, .token = 0};
	taken.swept = found.swept;
	taken.look_again = found.look_again;
	if (found.held + before >= request.slots)
	{
		if (before == 0 && !found.others)
			taken.answer = TakeAnswer::kOurs;
		/*
		 * Wake the first waiter that can take a slot, for two reasons. When the time of a lock is
		 * over, no other code wakes a waiter. And if this process was woken, but has given a
		 * smaller number of slots than another waiter, it must pass the wake-up on.
		 */
		hold.wake_able(request.key, found.held);
		return taken;
	}

	/*
	 * Take over the entry of the slot. If the time of its grant is over, the caller must first find
	 * out whether a transaction relies on the grant.
	 */
	taken.slot = found.lowest_free();
	taken.number = hold.find(request.key, taken.slot);
	if (taken.number != kNoEntry)
	{
		const NamedLock &lock = hold[taken.number];
		taken.token = lock.now.token;
		taken.answer = TakeAnswer::kOver;
		if (lock.is_over(monotonic) && lock.now.token != request.unused)
			return taken;
	}
	int64 token = draw_lock_token(db);
	taken.answer = TakeAnswer::kAboveMark;
	if (is_above_mark(db, token))
		return taken;
	if (taken.number == kNoEntry)
		taken.number = hold.add(db, request.key, taken.slot);
	taken.answer = taken.number == kNoEntry ? TakeAnswer::kFull : TakeAnswer::kTaken;
	if (taken.answer == TakeAnswer::kFull)
		return taken;
	NamedLock &lock = hold[taken.number];
	taken.before = lock.now;
	taken.was_open = lock.is_open();
	grant(&lock, token, request, monotonic);
	taken.token = token;
	return taken;
}

} // namespace pgq
