/*
 * Effects: the changes of shared memory that a transaction makes when it ends.
 *
 * A verb registers an effect *before* the change that the effect undoes or completes, in memory
 * reserved at that moment. So the callbacks at commit and abort cannot fail (an error there is a
 * PANIC). Every effect is tagged with its subtransaction, so that ROLLBACK TO SAVEPOINT undoes
 * exactly the effects made since. See README.md in this folder.
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
 * Bracket a call that claims. An error before end_claim_call() gives all jobs of the call back
 * uncounted, also those that were handed out already: none of them has reached the client.
 */
void begin_claim_call();
void end_claim_call();

/*
 * Reserve places for n lease effects; may fail. The add functions below fill them under the queue's
 * lock and cannot fail.
 */
void reserve_lease_effects(int n);

/*
 * This transaction has claimed the lease. On abort the job is filed back if the claim has not
 * returned; otherwise the lease is lost.
 */
void add_claim_effect(const QueueRef &ref, Lease *lease);

/*
 * Remove the newest n lease effects; the caller has settled their leases otherwise (parked, dropped
 * or given back).
 */
void forget_lease_effects(int n);

/*
 * The claim is looking at the row of this lease; NULL when it is done. If the look raises an error,
 * the job is parked for a while instead of being filed back at the front, where every claim would
 * meet the error again (protocol: failed-look-is-put-aside).
 */
void note_verifying(const Lease *lease);

/*
 * The error of the look comes from the row's contents. The abort callback then loses the lease,
 * which costs the job an attempt.
 */
void note_unreturnable();

/*
 * End the lease in this way when this transaction commits; until then no other transaction can end
 * it. The caller has reserved a place and holds the queue's lock.
 */
void end_at_commit(const QueueRef &ref, Lease *lease, LeaseEnd how);

/*
 * Rely on the lease: no other transaction ends it before this one has ended. The caller has
 * reserved a place and holds the queue's lock.
 */
void use_to_the_end(const QueueRef &ref, Lease *lease);

/*
 * Revoke the lease, since this transaction cancels its job: pgq_extend() fails from now on. Undone
 * if the transaction rolls back. The caller has reserved a place and holds the queue's lock.
 */
void revoke_until_end(const QueueRef &ref, Lease *lease);

/*
 * Hold the waiting job until this transaction ends (engine/held.h). The lease is either CLAIMING,
 * just taken by this transaction, and becomes HELD, or is HELD already, and gets one more holder.
 * Returns false if it has kHoldersMax holders. The caller has reserved a place and holds the
 * queue's lock.
 */
bool hold_to_the_end(const QueueRef &ref, Lease *lease);
void undo_hold(const QueueRef &ref, Lease *lease, bool used);

/*
 * Take the lease of a waiting job, and end it in the given way when this transaction commits; on
 * abort the job is given back. Returns kHeld if the job has a lease, or if the queue is being
 * purged or dropped while `how` is kMoved. If the lease exists because another transaction moves
 * the row, *mover is set to that transaction, for which the caller waits.
 */
TakeResult take_lease_to_end(const QueueRef &ref, const Hint &hint, LeaseEnd how, Lease **lease,
							 VirtualTransactionId *mover);

/*
 * As take_lease_to_end(), to cancel or change the job; a PARKED lease is taken over. *fleeting: the
 * bound on such leases is reached (jobs/README.md, "Fleeting leases"). The caller then gives the
 * lease back with let_go_early() as soon as it has written or locked the row.
 */
TakeResult take_lease_to_change(const QueueRef &ref, const Hint &hint, LeaseEnd how, Lease **lease,
								bool *fleeting);

/*
 * Give a fleeting lease back now, and forget its two effects (claim and end, or hold and use). From
 * here on the row itself shows that this transaction is at the job. end: how the job ends at
 * commit, or kUnknown if it does not. If the two effects are not the newest of the transaction
 * nothing is done, and the lease stays until the transaction ends.
 */
void let_go_early(const QueueRef &ref, Lease *lease, JobEnd end);

/*
 * Register what let_go_early() registers, for a job that this transaction has changed or ended
 * without a lease, because the lease belongs to a transaction that waits at the row.
 */
void note_early(const QueueRef &ref, int64 job_id, int64 group, JobEnd end);

/* The scheduler rewrites the row of a lost lease. On abort the lease is lost again. */
void add_reap_effect(const QueueRef &ref, Lease *lease);

/*
 * At commit, tell sessions that wait for the end of the job (pgq_result) how it has ended. For a
 * lease that ends for another reason: this transaction had taken it before, or it was lost. The
 * caller has reserved a place and holds the queue's lock.
 */
void tell_at_commit(const QueueRef &ref, Lease *lease, LeaseEnd how, bool dead);

/* A change that SQL makes to the row of a job, as one queue sees it. */
enum class RowMove : uint8
{
	kInserted,
	kEntered, /* moved here from another queue, or possibly so */
	kLeft,
	kDeleted,
};

/*
 * At commit, adjust the number of times the row of the lease is missing from that queue
 * (Lease::rows_gone). If no queue has a row of the job any more, the lease ends.
 * note_all_rows_gone(): all rows of all jobs are gone.
 */
void note_row_of_lease(const Database *db, int32 queue_id, int64 job_id, RowMove move);
void note_all_rows_gone(const Database *db);

/*
 * End the lease of a job whose row is gone. A lease that a claim is still working with ends with
 * that claim. Caller holds the queue's lock.
 */
void end_rowless(Lease *lease, int64 monotonic, QueueHold &hold);

/*
 * List the newest leases of the queue, at most `most`, that this transaction ends, except those of
 * cancelled jobs. Returns the number.
 */
int own_ends(const QueueRef &ref, int most, Lender *lenders);

/*
 * Change the newest effect that ends the lease: set_end() sets how the lease ends, set_dead() that
 * the job died.
 */
void set_end(const Lease *lease, LeaseEnd how);
void set_dead(const Lease *lease);

/* ---- jobs ---- */

/*
 * Reserve places for n more hints of the queue. Its slot is current, or was so earlier in this
 * transaction.
 */
void reserve_hints(const QueueRef &ref, Oid incarnation, int n);

/* File the job at commit. is_new: count it as enqueued; a retry is not counted. */
void add_hint(const QueueRef &ref, const Hint &hint, bool is_new);

/*
 * A job was written that cannot be filed, because its queue has no slot. At commit the queue may
 * have got one whose memory was read without this row, so all queues of the database are read
 * again.
 */
void note_unfiled_job();
bool has_unfiled_jobs();

/* An enqueue was answered with an existing job; count that at commit. */
void note_duplicate(const QueueRef &ref);

/* SQL has deleted jobs: at commit, groups of queues with fifo may have another head. */
void note_deleted_jobs();

/*
 * Rows have come or gone that no count effect describes: at commit the counts of all queues are
 * forgotten and begun anew.
 */
void note_uncounted_rows();

/* Schedules were created or changed: at commit the scheduler looks again for the next tick. */
void note_changed_schedules();

/* ---- how many jobs there are (engine/count.h) ---- */

/*
 * Count `rows` jobs added to the queue (negative: ended) at commit; note_due(): of them, jobs that
 * wait until run_at.
 */
void note_rows(const QueueRef &ref, Oid incarnation, int64 rows);
void note_due(const QueueRef &ref, Oid incarnation, TimestampTz run_at, int64 rows);

/* As note_rows(), for dead letters. */
void note_dead_letters(const QueueRef &ref, Oid incarnation, int64 rows);

enum class Room : uint8
{
	kTaken,
	kFull,
	kUncounted, /* the count is not known: call count_jobs() and try again */
};

struct Fullness
{
	int64 depth;
	int64 max_depth;
};

/*
 * Take room for `jobs` new jobs until this transaction ends, and count them as note_rows() does:
 * all or none. Jobs that this transaction has ended make room for its own new jobs at once, for
 * others at commit.
 */
Room take_room(const QueueRef &ref, Oid incarnation, int64 jobs, Fullness *fullness);

/* ---- queues ---- */

/* This transaction has inserted the queue's row: on abort its slot is freed. */
void reserve_created_effect();
void add_created_effect(const QueueRef &ref);

/* From now on until this transaction ends, no job is popped from the queue. */
void hold_queue(const QueueRef &ref);

/* As hold_queue(). In addition the queue takes no new jobs, and the slot is freed at commit. */
void drop_queue_at_commit(const QueueRef &ref);

/*
 * Set the options of the slot at commit, from the queue's row, which this transaction has locked to
 * its end. Without this effect, as in a prepared transaction, the scheduler does so within a
 * second.
 */
void set_options_at_commit(const QueueRef &ref, const QueueOptions &options);

/* Give the slot the new name of the queue's row at the commit. The transaction cannot be prepared. */
void rename_queue_at_commit(const QueueRef &ref, const char *name);

/* The extension was created: wake the launcher at commit. */
void announce_at_commit();

/*
 * A row was added to pgq_ext.queue: as announce_at_commit(), but dropped if the transaction is
 * prepared. The launcher then finds the queue later by itself.
 */
void announce_queue_at_commit();

/* ---- prepared transactions ---- */

/*
 * A job that this transaction has claimed or asserted and has not ended, or that it holds. A job
 * may be listed twice.
 */
struct OpenClaim
{
	int64 job_id;
	Place place;
	bool held;
};

/* Allocate and fill *claims. Returns their number. */
int open_claims(OpenClaim **claims);

/*
 * Apply the effects of all prepared transactions, of any database, that have ended by now. Any
 * process may call this with no lock held; the scheduler does so ten times a second while a
 * prepared transaction is watched.
 */
void resolve_prepared();

} // namespace pgq
