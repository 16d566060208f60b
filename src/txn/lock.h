/*
 * Named locks and rates in a transaction. Locks that the transaction takes or gives back change for
 * other sessions at its commit; a rollback, also to a savepoint, undoes the change.
 */
#pragma once

#include "engine/named/lock_take.h"
#include "engine/named/named_rate.h"

namespace pgq {

/* Reserve a place for one more lock effect; may raise an error. */
void reserve_lock_effect();

/* Take a lock; a rollback of this transaction gives it back. The caller has reserved a place. */
LockTaken take_lock_for_transaction(Database *db, const LockRequest &request);

/*
 * Give the lock back if this transaction commits. swept: the caller is the scheduler, in a short
 * transaction, and gives the lock back because its time is over. Returns false if the entry has
 * another grant by now, if another transaction has changed the entry, or (swept) if the lock was
 * extended. The caller has reserved a place.
 */
bool unlock_at_commit(int number, int64 token, bool swept);

/* Undo the newest lock effect now. */
void undo_newest_lock_effect();

/*
 * Settle locks that depend on the outcome of a transaction which has ended: make the change final
 * after a commit, undo it after a rollback. The transaction was prepared, or was open when its rows
 * were loaded. The first function settles the locks and runs of one name, the second function all.
 * Raises an error only if the server cannot read the outcome of a transaction. The caller holds no
 * lock.
 */
void settle_prepared_locks(const Database *db, const char *name);
void settle_prepared_locks();

/*
 * Leave the line of sessions that wait for a named lock, and end the wait for a claim in progress.
 * Called when a waiting call ends, also by an error.
 */
void abandon_lock_wait();

/*
 * reserve_permits() notes permits that a waiting call has taken in advance. use_reservation() keeps
 * these permits; abandon_reservation(), called at every abort, gives them back.
 */
void reserve_permits(const RateKey &key, int64 permits, int64 taken);
void use_reservation();
void abandon_reservation();

/* Forget the rate's state in memory when this transaction ends, by commit or by abort. */
void forget_rate_at_end(const RateKey &key);

/* Return whether this transaction has created or dropped the rate. */
bool changes_rate(const RateKey &key);

} // namespace pgq
