/*
 * What a transaction will do to shared memory when it ends.
 *
 * A verb registers an effect *before* the change it undoes or completes, in
 * memory reserved at that moment, so that the callbacks at commit and abort
 * cannot fail (an error there is a PANIC).  Every effect is tagged with its
 * subtransaction, so that rollback to a savepoint undoes exactly the right ones.
 * See README.md in this folder.
 */
#pragma once

#include "engine/concurrency.h"
#include "engine/lease.h"
#include "engine/registry.h"
#include "engine/watch.h"

namespace pgq {

class QueueHold;

void effects_init();

/* ---- leases ---- */

/*
 * Around a call that claims: until it ends, an error gives the jobs of the call back uncounted, also those that have
 * been handed out. None of them has reached the client.
 */
void begin_claim_call();
void end_claim_call();

/* A reserved place for an effect; fill it under the queue's lock, which cannot fail. */
void reserve_lease_effects(int n);

/* This transaction claimed the lease: undone, it is filed back (not returned yet) or lost. */
void add_claim_effect(const QueueRef &ref, Lease *lease);

/* The newest n lease effects are settled otherwise (parked, dropped, filed back). */
void forget_lease_effects(int n);

/*
 * The row of this claimed lease is being looked at, and returned (NULL: none is). Should
 * that raise, the job is set aside for a while instead of being filed back at the
 * front, where every claim would meet the error again (protocol: failed-look-is-put-aside).
 */
void note_verifying(const Lease *lease);

/* ... and it has raised because of what is in the row: that costs the job an attempt. */
void note_unreturnable();

/* This transaction ends the lease when it commits; until then nobody else does. A place was reserved. */
void end_at_commit(const QueueRef &ref, Lease *lease, LeaseEnd how);

/* This transaction relies on the lease: until it ends nobody else ends it. A place was reserved. */
void use_to_the_end(const QueueRef &ref, Lease *lease);

/* This transaction cancels the leased job, if it commits; pgq_extend is in vain from now on. A place was reserved. */
void revoke_until_end(const QueueRef &ref, Lease *lease);

/*
 * This transaction holds the waiting job to its end (held.h): it has just taken the lease, which becomes HELD, or is
 * one holder more; false: there is no room for one. A place was reserved. undo_hold: it, and its use if it was used, are
 * the newest effects, in vain.
 */
bool hold_to_the_end(const QueueRef &ref, Lease *lease);
void undo_hold(const QueueRef &ref, Lease *lease, bool used);

/*
 * Take the lease of a waiting job, for this transaction to end that way when it commits;
 * undone, the job is filed back. kHeld: somebody has it, or nobody may have it just now; if
 * that is because its row is being moved, *mover is who does that, to be waited for.
 */
TakeResult take_lease_to_end(const QueueRef &ref, const Hint &hint, LeaseEnd how, Lease **lease,
							 VirtualTransactionId *mover);

/*
 * The same to cancel or change the job, also of a PARKED one. *fleeting: there are too many leases that are taken so.
 * The caller gives it back by let_go_early() when the row has been written, or locked.
 */
TakeResult take_lease_to_change(const QueueRef &ref, const Hint &hint, LeaseEnd how, Lease **lease,
								bool *fleeting);

/*
 * A fleeting lease goes, with its claim and its end, or its hold and its use: these are forgotten. The row says from here
 * on that this transaction is at the job. end: what becomes of it at the commit, if that is its end. Nothing is done, and
 * the lease is this transaction's to the end, if the transaction has done other things with leases since.
 */
void let_go_early(const QueueRef &ref, Lease *lease, JobEnd end);

/* The same of a job that this transaction has changed or ended without a lease, since another one has it and waits at the row. */
void note_early(const QueueRef &ref, int64 job_id, int64 group, JobEnd end);

/* The scheduler rewrites the row: undone, the lease is lost again. */
void add_reap_effect(const QueueRef &ref, Lease *lease);

/*
 * What has become of the job, for who waits for that, where the lease ends for another reason: this
 * transaction has taken it before, or it was lost. A place was reserved.
 */
void tell_at_commit(const QueueRef &ref, Lease *lease, LeaseEnd how, bool dead);

/* What somebody does by hand to the row of a job, seen from a queue. */
enum class RowMove : uint8
{
	kInserted,
	kEntered, /* it comes from another queue, or may have been there */
	kLeft,
	kDeleted,
};

/*
 * From the commit on the lease of the job, if it has one, lacks its row in that queue, or has it again. If no row is left
 * in any queue the lease ends.
 */
void note_row_of_lease(const Database *db, int32 queue_id, int64 job_id, RowMove move);
void note_all_rows_gone(const Database *db);

/*
 * End the lease of a job whose row is gone; a lease that a claim has in hand ends when that claim does. Under the lock
 * of its queue.
 */
void end_rowless(Lease *lease, int64 monotonic, QueueHold &hold);

/* Leases of the queue that this transaction ends, but for cancelled ones, at most `most`, the newest. Returns how many. */
int own_ends(const QueueRef &ref, int most, Lender *lenders);

/* Say of the newest effect that ends the lease how it ends, or that the job died of it. */
void set_end(const Lease *lease, LeaseEnd how);
void set_dead(const Lease *lease);

/* ---- jobs ---- */

/* Room for n more hints of that queue. Its slot must be current, or have been in this transaction. */
void reserve_hints(const QueueRef &ref, Oid incarnation, int n);

/* At commit the job is filed. is_new: it is counted as enqueued, a retry is not. */
void add_hint(const QueueRef &ref, const Hint &hint, bool is_new);

/*
 * A job has come that could not be filed, because no slot is its queue's now: at commit
 * there may be one that has been read without it, so every queue is read again.
 */
void note_unfiled_job();
bool has_unfiled_jobs();

/* An enqueue is answered with a job that was there: counted at commit. */
void note_duplicate(const QueueRef &ref);

/* Jobs have been deleted by hand: in queues with fifo others may be first in their groups at commit. */
void note_deleted_jobs();

/* Rows have come or gone that nobody has counted: at commit each queue's count begins anew. */
void note_uncounted_rows();

/* Schedules have been made or changed: the scheduler looks at commit when the next one is due. */
void note_changed_schedules();

/* ---- how many jobs there are (engine/count.h) ---- */

/* This transaction has added so many rows to the queue, or taken them out; note_due(): that wait for that time. */
void note_rows(const QueueRef &ref, Oid incarnation, int64 rows);
void note_due(const QueueRef &ref, Oid incarnation, TimestampTz run_at, int64 rows);

/* The same of dead letters. */
void note_dead_letters(const QueueRef &ref, Oid incarnation, int64 rows);

enum class Room : uint8
{
	kTaken,
	kFull,
	kUncounted, /* nobody knows: count_jobs() */
};

struct Fullness
{
	int64 depth;
	int64 max_depth;
};

/*
 * Room for so many new jobs of this transaction, to its end, and they are noted: all or none. What it
 * has ended itself is room for it, and for nobody else, before it commits.
 */
Room take_room(const QueueRef &ref, Oid incarnation, int64 jobs, Fullness *fullness);

/* ---- queues ---- */

/* The queue's row was inserted by this transaction: undone, the slot is freed. */
void reserve_created_effect();
void add_created_effect(const QueueRef &ref);

/* Nothing is popped from the queue before this transaction ends. Takes hold at once. */
void hold_queue(const QueueRef &ref);

/* As hold_queue; the queue takes no new jobs either, and the slot is freed at commit. */
void drop_queue_at_commit(const QueueRef &ref);

/*
 * Its row has new options: the slot has them when the commit has returned, where the scheduler would see to
 * that within a second; so it does if the transaction is prepared. The row is locked to the end.
 */
void set_options_at_commit(const QueueRef &ref, const QueueOptions &options);

/* Give the slot the new name of the queue's row at the commit. The transaction cannot be prepared. */
void rename_queue_at_commit(const QueueRef &ref, const char *name);

/* The extension was created: the launcher looks at commit. */
void announce_at_commit();

/* A row of pgq_ext.queue has come: the same, but lost if the transaction is prepared. The launcher finds it later then. */
void announce_queue_at_commit();

/* ---- prepared transactions ---- */

/* A job that this transaction has claimed or asserted, and has not ended, or that it holds. Not each once. */
struct OpenClaim
{
	int64 job_id;
	Place place;
	bool held;
};

/* Returns how many there are; *claims is allocated. */
int open_claims(OpenClaim **claims);

/*
 * Apply what prepared transactions, of any database, have left, if they have ended
 * by now. Whoever needs it may call it, with no lock held; the scheduler does ten
 * times a second while any is watched.
 */
void resolve_prepared();

} // namespace pgq
