#include "txn/lock.h"

#include "txn/pending.h"

namespace pgq {

void
reserve_lock_effect()
{
	pending.effects.locks.reserve(1);
}

static void
add_lock_effect(int number, int64 token, bool was_open, const Grant &before)
{
	Tag tag = {GetCurrentSubTransactionId(), InvalidSubTransactionId};
	pending.effects.locks.push({tag, number, token, was_open, before});
}

LockTaken
take_lock_for_transaction(Database *db, const LockRequest &request)
{
	LockTaken taken;
	with_locks([&](LockHold &hold) {
		/*
		 * Give up if the slot of the database has been freed since the request was made: its
		 * generation has changed. A process that frees a slot raises the generation first, and then
		 * frees the locks. So a lock that is taken for a slot with a new generation might never be
		 * freed.
		 */
		taken.answer = TakeAnswer::kGone;
		if (generation_of(db) != request.generation)
			return;
		taken = take_lock(hold, db, request);
		if (taken.answer == TakeAnswer::kTaken)
			add_lock_effect(taken.number, taken.token, taken.was_open, taken.before);
	});
	return taken;
}

bool
unlock_at_commit(int number, int64 token, bool swept)
{
	bool current = false;
	with_locks([&](LockHold &hold) {
		NamedLock &lock = hold[number];
		bool ours = !lock.is_open() || lock.changer == my_procno();
		/*
		 * If the scheduler ends the lock because its time was over, check the time again: the
		 * holder may have extended the lock in between.
		 */
		current = lock.now.token == token && lock.now.state == GrantState::kHeld && ours &&
				  (!swept || lock.is_over(hold.monotonic()));
		if (!current)
			return;
		add_lock_effect(number, token, lock.is_open(), lock.now);
		lock.now.state = GrantState::kUnlocking;
		lock.now.swept = swept;
		lock.changer = my_procno();
	});
	return current;
}

void
undo_newest_lock_effect()
{
	const LockEffect effect = pending.effects.locks.items[--pending.effects.locks.size];
	settle_locks(&effect, &effect + 1, false);
}

/* ---- the end of a transaction ---- */

/*
 * Apply or undo lock effects, newest first. So an entry that the transaction has changed several
 * times ends in the state before the first change (undo), or after the last change (apply).
 */
void
settle_locks(const LockEffect *first, const LockEffect *last, bool commit)
{
	while (last > first)
		with_locks([&](LockHold &hold) {
			for (int n = 0; n < kHoldMax && last > first; n++)
			{
				const LockEffect &effect = *--last;
				if (commit)
					hold.confirm(effect.number, effect.token);
				else
					hold.put_back(effect.number, effect.token, effect.before, effect.was_open);
			}
		});
}

void
abandon_lock_wait()
{
	await_claimer(kNobody);
	if (in_lock_line())
		with_locks([](LockHold &hold) { hold.leave_line(); });
}

/* ---- prepared transactions ---- */

void
check_locks_for_prepare(const Effects &effects)
{
	bool bound = false;
	with_locks([&](LockHold &hold) {
		for (const LockEffect &effect : effects.locks)
		{
			const Grant &now = hold[effect.number].now;
			bound |= (now.token == effect.token && now.session_bound) ||
					 (effect.before.session_bound && effect.before.deadline > hold.monotonic());
		}
	});
	if (bound)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot PREPARE a transaction that has taken or given back a "
							   "session-bound lock")));
	/*
	 * Refuse to prepare a change of a rate: COMMIT PREPARED runs no callback that could change the
	 * rate in memory.
	 */
	if (effects.rates.size > 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot PREPARE a transaction that has created or dropped a rate")));
}

/*
 * Leave the changed entries to the prepared transaction. Go through the effects from the oldest on:
 * the oldest effect on an entry has the state that the entry had before the transaction.
 */
void
hand_over_locks(const Effects &effects, TransactionId xid)
{
	for (const LockEffect *next = effects.locks.begin(); next < effects.locks.end();)
		with_locks([&](LockHold &hold) {
			for (int n = 0; n < kHoldMax && next < effects.locks.end(); n++, next++)
			{
				if (hold[next->number].changer == my_procno())
					hold.leave_to(next->number, xid, next->before);
			}
		});
}

namespace {

/*
 * The smallest xids above `after` on which entries of named locks depend, at most kMost. All
 * entries that depend on these xids are settled (docs/glossary.md) together.
 */
struct Doubts
{
	static constexpr int kMost = 32;
	TransactionId after;
	int n;
	TransactionId xids[kMost];

	void add(TransactionId xid)
	{
		if (!TransactionIdIsValid(xid) || xid <= after)
			return;
		int place = 0;
		while (place < n && xids[place] < xid)
			place++;
		if (place == kMost || (place < n && xids[place] == xid))
			return;
		n = Min(n + 1, kMost);
		memmove(&xids[place + 1], &xids[place], (n - 1 - place) * sizeof(TransactionId));
		xids[place] = xid;
	}

	bool has(TransactionId xid) const { return std::find(xids, xids + n, xid) != xids + n; }
};

} // namespace

/*
 * Return the xids whose transactions have ended and have committed (or, if `committed` is false,
 * have not). Ask first whether a transaction has ended, and only then whether it has committed
 * (protocol: ended-then-committed).
 */
static Doubts
ended_of(const Doubts &doubts, bool committed)
{
	Doubts ended{};
	for (int i = 0; i < doubts.n; i++)
		if (!TransactionIdIsInProgress(doubts.xids[i]) &&
			TransactionIdDidCommit(doubts.xids[i]) == committed)
			ended.add(doubts.xids[i]);
	return ended;
}

static void
settle_entry(LockHold &hold, int number, bool commit)
{
	NamedLock &lock = hold[number];
	hold.clear_xid(number);
	if (commit)
		hold.confirm(number, lock.now.token);
	else
		hold.put_back(number, lock.now.token, lock.before, false);
	hold.wake_first(lock.key);
}

/*
 * Settle all entries whose prepared transactions have ended: a commit makes the change of the entry
 * final, a rollback restores the grant from before. for_each(visit) calls visit(hold, number) for
 * entries, in as many holds as needed; visit may free the entry.
 */
template <typename ForEach>
static void
settle_ended(ForEach for_each)
{
	Doubts doubts{};
	do
	{
		doubts.n = 0;
		for_each([&](LockHold &hold, int number) { doubts.add(hold[number].xid); });
		Doubts committed = ended_of(doubts, true);
		Doubts undone = ended_of(doubts, false);
		if (committed.n + undone.n > 0)
			for_each([&](LockHold &hold, int number) {
				TransactionId xid = hold[number].xid;
				if (committed.has(xid) || undone.has(xid))
					settle_entry(hold, number, committed.has(xid));
			});
		doubts.after = doubts.n > 0 ? doubts.xids[doubts.n - 1] : MaxTransactionId;
	} while (doubts.n == Doubts::kMost);
}

void
settle_prepared_locks(const Database *db, const char *name)
{
	if (any_lock_in_doubt())
		settle_ended([&](auto visit) {
			with_locks([&](LockHold &hold) {
				for (int next, number = hold.first_of(db, name); number >= 0; number = next)
				{
					next = hold.next_of(db, name, number);
					visit(hold, number);
				}
			});
		});
}

void
settle_prepared_locks()
{
	if (any_lock_in_doubt())
		settle_ended([](auto visit) { for_each_lock(visit); });
}

/* ---- rates ---- */

namespace {

struct Reservation
{
	RateKey key;
	int64 permits; /* permits that a waiting call has taken in advance; 0: none */
	int64 taken;
};

} // namespace

static constinit Reservation reservation = {};

void
reserve_permits(const RateKey &key, int64 permits, int64 taken)
{
	reservation = {key, permits, taken};
}

void
use_reservation()
{
	reservation.permits = 0;
}

void
abandon_reservation()
{
	if (reservation.permits > 0)
		give_back_permits(reservation.key, reservation.permits, reservation.taken);
	reservation.permits = 0;
}

void
forget_rate_at_end(const RateKey &key)
{
	Tag tag = {GetCurrentSubTransactionId(), InvalidSubTransactionId};
	pending.effects.rates.reserve(1);
	pending.effects.rates.push({tag, key});
}

bool
changes_rate(const RateKey &key)
{
	for (const RateEffect &effect : pending.effects.rates)
		if (effect.key == key)
			return true;
	return false;
}

void
forget_rates(const RateEffect *first, const RateEffect *last)
{
	for (const RateEffect *effect = first; effect < last; effect++)
		forget_rate(effect->key);
}

} // namespace pgq
