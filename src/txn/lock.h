/*
 * Named locks and rates in a transaction: what it has taken or given back is so for others when it commits, and
 * is undone with it or with its subtransaction.
 */
#pragma once

#include "engine/named_lock.h"
#include "engine/named_rate.h"

namespace pgq {

/* Room for one more of each. */
void reserve_lock_effect();

/* Take a lock, to be kept if this transaction commits. A place was reserved. */
LockTaken take_lock_for_transaction(Database *db, const LockRequest &request);

/*
 * This transaction gives it back if it commits. A place was reserved. False: it has another grant by now. swept: its time is
 * over, and this transaction is short.
 */
bool unlock_at_commit(int number, int64 token, bool swept);

/* The newest of them is undone now. */
void undo_newest_lock_effect();

/*
 * Apply the end of prepared transactions that have changed locks, and of transactions whose rows were found open at the
 * load: to the locks and runs of that name, or, for what nobody asks for, to all. Cannot fail; no lock held.
 */
void settle_prepared_locks(const Database *db, const char *name);
void settle_prepared_locks();

/* What the waiting call of this process has taken a place in line for; at errors too. */
void abandon_lock_wait();

/* Permits that this process waits for the time of; given back if it does not come to that. */
void reserve_permits(const RateKey &key, int64 permits, int64 taken);
void use_reservation();
void abandon_reservation();

/* Whatever becomes of this transaction, memory forgets that rate at its end. */
void forget_rate_at_end(const RateKey &key);

/* Has this transaction created or dropped it? */
bool changes_rate(const RateKey &key);

} // namespace pgq
