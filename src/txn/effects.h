/*
 * Effects: the changes of shared memory that a transaction makes when it ends.
 *
 * A verb registers an effect *before* the change that the effect undoes or completes. Memory for
 * the effect is reserved at that moment, so the callbacks at commit and abort cannot fail (an error
 * there would be a PANIC). Every effect is tagged with its subtransaction, so that ROLLBACK TO
 * SAVEPOINT undoes exactly the effects made since. See README.md in this folder.
 */
#pragma once

#include "engine/batch_watch.h"
#include "engine/concurrency.h"
#include "engine/lease.h"
#include "engine/prepared_entry.h"
#include "engine/registry.h"

namespace pgq {

class QueueHold;

void effects_init();

/* ---- leases ---- */

/*
 * Mark the begin and the end of a call that claims. An error before end_claim_call() gives all jobs
 * of the call back uncounted, even jobs that are handed out: no job of the call has reached the
 * client.
 */
void begin_claim_call();
void end_claim_call();

/*
 * Reserve places for n lease effects; may raise an error. The add functions below use these places
 * under the queue's lock, and cannot fail.
 */
void reserve_lease_effects(int n);

/*
 * Note that this transaction has claimed the lease. On abort, if the claim call has not returned,
 * the job is filed again; if the call has returned, the lease is lost.
 */
void add_claim_effect(const QueueRef &ref, Lease *lease);

/*
 * Give a job back without counting the attempt. This process has claimed the job in a transaction
 * that has ended, and has not begun to work on it. If an open transaction cancels the job, the job
 * goes back only if that transaction is rolled back. No effect if the lease has ended. Needs no
 * transaction; cannot fail.
 */
void give_back_unbegun(const QueueRef &ref, Lease *lease, uint64 serial);

/*
 * Note that this process begins to work on a job that it has claimed in a transaction that has
 * ended: from now on the attempt counts. Returns false, and does not note it, if the lease has
 * ended, the row is gone, or an open transaction cancels the job; then the caller gives the job
 * back. call: the number of the call. with_others: the call has more jobs.
 *
 * stop_work() takes the note back, since the work was undone for a reason that has nothing to do
 * with this job. Returns false as begin_work() does. Both need no transaction, and cannot fail.
 */
bool begin_work(const QueueRef &ref, Lease *lease, uint64 serial, uint64 call, bool with_others);
bool stop_work(const QueueRef &ref, Lease *lease, uint64 serial);

/*
 * Return whether an open transaction cancels the job. Then the worker has been told, and leaves the
 * lease to that transaction: if it is rolled back, the lease is lost. Needs no transaction; cannot
 * fail.
 */
bool leave_to_cancel(const QueueRef &ref, Lease *lease, uint64 serial);

/*
 * Remove the newest n lease effects. The caller has already parked, dropped or given back their
 * leases.
 */
void forget_lease_effects(int n);

/*
 * Note that the claim is about to read the row of this lease; with NULL, note that it has read the
 * row. If the read raises an error, the job is set aside for a while. Otherwise the job would be
 * filed at the front, where every claim would meet the error again (protocol:
 * failed-look-is-put-aside).
 */
void note_verifying(const Lease *lease);

/*
 * Note that the error comes from the contents of the row that the claim is reading
 * (note_verifying()). At abort the lease is then lost, and the attempt counts as failed.
 */
void note_unreturnable();

/*
 * End the lease, as `how` says, when this transaction commits. Until then no other transaction can
 * end the lease. The caller has reserved a place and holds the queue's lock.
 */
void end_at_commit(const QueueRef &ref, Lease *lease, LeaseEnd how);

/*
 * Use the lease until this transaction ends: no other transaction can end the lease before. The
 * caller has reserved a place and holds the queue's lock.
 */
void use_to_the_end(const QueueRef &ref, Lease *lease);

/*
 * Revoke the lease because this transaction cancels its job: pgq_extend() fails from now on. A
 * rollback undoes the revocation. The caller has reserved a place and holds the queue's lock.
 */
void revoke_until_end(const QueueRef &ref, Lease *lease);

/*
 * Hold the waiting job until this transaction ends (engine/held.h). The lease is either HELD and
 * gets one more holder, or CLAIMING, just taken by this transaction, and becomes HELD. Returns
 * false if the lease has kHoldersMax holders already. The caller has reserved a place and holds the
 * queue's lock. undo_hold() ends the hold again; the effects of the hold must be the newest of the
 * transaction. used: this transaction also uses the lease.
 */
bool hold_to_the_end(const QueueRef &ref, Lease *lease);
void undo_hold(const QueueRef &ref, Lease *lease, bool used);

/*
 * Take the lease of a waiting job. At commit the lease ends as `how` says; on abort the job is
 * given back. Returns kHeld if the job has a lease already, or if the queue is being purged or
 * dropped while `how` is kMoved. If the lease exists because another transaction moves the row,
 * *mover is set to that transaction, for which the caller waits.
 */
TakeResult take_lease_to_end(const QueueRef &ref, const Hint &hint, LeaseEnd how, Lease **lease,
							 VirtualTransactionId *mover);

/*
 * Like take_lease_to_end(), but to cancel or change the job; a PARKED lease is taken over.
 * *fleeting: set to true if the database has as many leases of this kind as it may have, or has no
 * other free lease (steps/README.md, "Fleeting leases"). The caller then gives the lease back with
 * let_go_early() as soon as it has written or locked the row.
 */
TakeResult take_lease_to_change(const QueueRef &ref, const Hint &hint, LeaseEnd how, Lease **lease,
								bool *fleeting);

/*
 * Give a fleeting lease back now, and forget its two effects (claim and end, or hold and use). From
 * here on the row itself shows that this transaction is changing the job. end: how the job ends at
 * commit, or kUnknown if it does not end. If the two effects are not the newest of the transaction,
 * do nothing: the lease stays until the transaction ends.
 */
void let_go_early(const QueueRef &ref, Lease *lease, JobEnd end);

/*
 * Register the same effect as let_go_early(), for a job that this transaction has changed or ended
 * without its lease. (Another transaction has the lease, and waits for the row.)
 */
void note_early(const QueueRef &ref, int64 job_id, int64 group, JobEnd end);

/* Note that the scheduler rewrites the row of a lost lease. On abort the lease is LOST again. */
void add_reap_effect(const QueueRef &ref, Lease *lease);

/*
 * At commit, tell sessions that wait in pgq_result how the job has ended. This call is needed if
 * the effect that ends the lease does not say so: this transaction had taken the lease before for
 * another change, or the lease was lost. The caller has reserved a place and holds the queue's
 * lock.
 */
void tell_at_commit(const QueueRef &ref, Lease *lease, LeaseEnd how, bool dead);

/* A change that an SQL statement makes to the row of a job, from the point of view of one queue. */
enum class RowMove : uint8
{
	kInserted,
	kEntered, /* moved, or possibly moved, from another queue to this one */
	kLeft,	  /* moved from this queue to another queue */
	kDeleted,
};

/*
 * Note what an SQL statement has done to the row of a job. At commit, Lease::rows_gone of the job's
 * lease is adjusted: how often SQL has deleted or moved the row, minus how often SQL has inserted
 * the row again. If no queue has a row of the job any more, the lease ends. note_all_rows_gone()
 * does this for all jobs of the database, after a TRUNCATE.
 */
void note_row_of_lease(const Database *db, int32 queue_id, int64 job_id, RowMove move);
void note_all_rows_gone(const Database *db);

/*
 * End the lease of a job whose row is gone. If a claim is still working with the lease, the lease
 * ends when that claim ends. Caller holds the queue's lock.
 */
void end_rowless(Lease *lease, int64 monotonic, QueueHold &hold);

/*
 * List leases of the queue that this transaction ends, except leases of cancelled jobs: the newest
 * first, at most `most`. Returns their number.
 */
int own_ends(const QueueRef &ref, int most, Lender *lenders);

/*
 * Return how this transaction has ended the job; kUnknown if it has not, or has done so by a
 * statement that ends the rows of many jobs.
 */
JobEnd own_end_of(int64 job_id);

/*
 * Keep the result of a job that this transaction has acknowledged, for children that the transaction
 * enqueues later. A rollback to a savepoint forgets the result. result: jsonb, or NULL. The results
 * have work_mem of memory; if a result has no room, all earlier ones are forgotten.
 */
void keep_own_result(int64 job_id, const Datum *result);

/* Return the result that was kept for the job, or NULL. */
const Jsonb *own_result_of(int64 job_id);

/* Return whether SQL statements of this transaction have deleted the row of the leased job. */
bool deletes_row_of(const Lease *lease, uint64 serial);

/*
 * Change the newest effect that ends the lease. set_end() sets how the lease ends; set_dead() says
 * that the job has become a dead letter.
 */
void set_end(const Lease *lease, LeaseEnd how);
void set_dead(const Lease *lease);

/* ---- jobs ---- */

/*
 * Reserve places for n more hints of the queue. ref: a reference that was current at some moment of
 * this transaction.
 */
void reserve_hints(const QueueRef &ref, Oid incarnation, int n);

/* File the hint of the job at commit. is_new: count the job as enqueued; a retry does not count. */
void add_hint(const QueueRef &ref, const Hint &hint, bool is_new);

/* Return whether this transaction will file hints of the queue at commit. */
bool has_new_hints(const QueueRef &ref);

/*
 * Note that a row was written whose job cannot be filed, because its queue has no slot. At commit
 * the queue may have a slot, with memory that was read without this row. So all queues of the
 * database are read again.
 */
void note_unfiled_job();
bool has_unfiled_jobs();

/* Note that an enqueue was answered with an existing job. The counter changes at commit. */
void note_duplicate(const QueueRef &ref);

/*
 * Note that an SQL statement has deleted rows of jobs. After the commit, groups of queues with fifo
 * may have another head.
 */
void note_deleted_jobs();

/*
 * Note that rows were inserted or deleted without a count effect. At commit the counts of all
 * queues are forgotten and begun anew.
 */
void note_uncounted_rows();

/*
 * Note that schedules or handlers were created or changed. At commit the scheduler reads them again.
 */
void note_changed_definitions();

/* ---- how many jobs there are (engine/count.h) ---- */

/*
 * note_rows() adds `rows` jobs (negative: ended jobs) to the count of the queue at commit.
 * note_due() adds `rows` to the number of these jobs that become due at run_at.
 */
void note_rows(const QueueRef &ref, Oid incarnation, int64 rows);
void note_due(const QueueRef &ref, Oid incarnation, TimestampTz run_at, int64 rows);

/* Like note_rows(), for dead letters. */
void note_dead_letters(const QueueRef &ref, Oid incarnation, int64 rows);

enum class DepthAnswer : uint8
{
	kTaken,
	kFull,
	kUncounted, /* the count is not known: call count_jobs() and try again */
};

struct Fullness
{
	int64 depth;
	int64 max_depth;
	int64 room; /* how many jobs would have fit */
};

/*
 * Take room for `jobs` new jobs until this transaction ends, and count these jobs as note_rows()
 * does. If there is too little room for all of them, take none. Jobs that this transaction has
 * ended make room for its own new jobs at once, and for other transactions at commit.
 */
DepthAnswer take_room(const QueueRef &ref, Oid incarnation, int64 jobs, Fullness *fullness);

/* ---- queues ---- */

/*
 * add_created_effect() notes that this transaction has inserted the queue's row: on abort the slot
 * is freed. reserve_created_effect() reserves a place for this effect.
 */
void reserve_created_effect();
void add_created_effect(const QueueRef &ref);

/* Let no claim take a job from the queue until this transaction ends. */
void hold_queue(const QueueRef &ref);

/* Like hold_queue(). In addition, the queue takes no new jobs, and its slot is freed at commit. */
void drop_queue_at_commit(const QueueRef &ref);

/*
 * Set the options of the slot at commit. The options come from the queue's row, which this
 * transaction has locked. Without this effect, as in a prepared transaction, the scheduler sets the
 * options within a second.
 */
void set_options_at_commit(const QueueRef &ref, const QueueOptions &options);

/* Give the slot the new name of the queue at commit. Such a transaction cannot be prepared. */
void rename_queue_at_commit(const QueueRef &ref, const char *name);

/* Note that the extension was created: wake the launcher at commit. */
void announce_at_commit();

/*
 * Note that a row was added to pgq_ext.queue: wake the launcher at commit. If the transaction is
 * prepared the effect is dropped, and the launcher finds the queue later by itself.
 */
void announce_queue_at_commit();

/* ---- prepared transactions ---- */

/*
 * A job that this transaction has claimed, asserted or holds, and has not ended. A job may be
 * listed twice.
 */
struct OpenClaim
{
	int64 job_id;
	Place place;
	bool held;
};

/* Allocate and fill *claims. Returns the number of entries. */
int open_claims(OpenClaim **claims);

/*
 * Apply the effects of all prepared transactions, of any database, that have ended by now. Any
 * process may call this with no lock held; the scheduler does so ten times a second while any entry
 * for a prepared transaction is ACTIVE.
 */
void resolve_prepared();

/* ---- batches ---- */

/*
 * Note that this transaction has asserted, claimed, acknowledged or failed a member of the batch, so
 * that it may add members after the close of the batch. A rollback to a savepoint undoes the note.
 * batch_id: 0 if the job is no member; then nothing happens. has_member_in_hand() returns whether
 * there is such a note.
 */
void note_member_in_hand(int64 batch_id);
bool has_member_in_hand(int64 batch_id);

/*
 * Let the commit of this transaction tell the scheduler of the batch. job_id: for BatchNews::kEnd,
 * the member that has ended. A prepared transaction only keeps that it has to tell of some batch.
 */
void tell_batch_at_commit(int64 batch_id, BatchNews news, int64 job_id);
/*
 * Let a rollback of this transaction, or of the current subtransaction, tell the scheduler of the
 * batch.
 */
void tell_batch_at_abort(int64 batch_id);
/* Let the commit of this transaction tell the scheduler of all batches of the database. */
void tell_all_batches_at_commit();

/* ---- dependencies ---- */

/*
 * Let the commit of this transaction tell the scheduler of a blocked child that this transaction
 * has enqueued, or of a parent with children whose state this transaction has changed. A prepared
 * transaction only keeps that it has to tell of some child.
 */
void tell_child_at_commit(int64 child_id);
void tell_parent_at_commit(int64 parent_id);
/* Let the commit of this transaction tell the scheduler of all blocked children of the database. */
void tell_all_children_at_commit();

} // namespace pgq
