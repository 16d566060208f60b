/*
 * What memory knows about batches that may get a callback: a table with a fixed number of entries,
 * by database and batch (core/batch_table.h). An entry proves nothing; the scheduler looks at the
 * tables. See batches.md.
 */
#pragma once

#include "core/batch_table.h"
#include "engine/shared.h"

namespace pgq {

/*
 * ---- For the callbacks at the end of a transaction. These functions allocate nothing, and cannot
 * fail ----
 */

/*
 * Note that something has happened to the batch. Wakes the scheduler of the database if the
 * scheduler has to look at the batch.
 */
void tell_batch(Oid database, const BatchTold &told);
/* Note that something may have happened to any batch of the database. */
void tell_all_batches(Oid database);

/*
 * ---- For the scheduler of the database. In another process these functions do nothing ----
 */

/*
 * Begin to watch the batches of the database. Called by a new scheduler: memory forgets the entries
 * of the last scheduler, and notes that all batches are to be looked at. Before the first call for
 * a database, tell_batch() and tell_all_batches() do nothing for that database.
 */
void begin_watching_batches(Oid database);

/*
 * Return the batch that has been TOLD for longest, which becomes LOOKING. Returns false if there is
 * none. The caller then takes its snapshot, looks, and calls one of the functions below.
 */
bool next_told_batch(Oid database, int64 *batch_id);

/*
 * Begin a look at a batch that a sweep has found. If memory has, or can get, an entry for the
 * batch, the entry becomes LOOKING. If there is no entry, the end of any member makes the scheduler
 * look again.
 */
void begin_look(Oid database, int64 batch_id);

/*
 * End the look. If something has happened to the batch since the look began, each of these
 * functions makes the batch TOLD instead.
 */
void await_witness(Oid database, int64 batch_id, int64 job_id); /* this member lives */
/* The batch is open: look again only after a change, such as a close. */
void await_change(Oid database, int64 batch_id);
void forget_batch(Oid database, int64 batch_id); /* nothing is awaited */
/* Look again later: a lock was not free, or the look has failed. The batch is TOLD again. */
void put_back_batch(Oid database, int64 batch_id);

/* Return whether all batches are to be looked at, and clear this mark: a sweep begins. */
bool take_all_told(Oid database);
/* Return whether a batch is TOLD, or all batches are to be looked at. Takes no lock. */
bool has_told_batches(Oid database);
/*
 * Return how many batches are TOLD. A pass begins this many looks. Batches that are put back during
 * the pass go to the end of the line, so the pass meets no batch twice. Takes no lock.
 */
int count_told_batches(Oid database);

/* ---- For the reconciler, a duty of the scheduler ---- */

/*
 * Find the first entry of the database from *position on that WAITS for a witness, and move *position
 * behind it. A round begins at position 0. Returns false at the end of the round.
 */
bool next_awaited(Oid database, int *position, int64 *batch_id, int64 *witness);
/*
 * Make the batch TOLD, because its witness is gone. Returns false, and does nothing, if the entry
 * does not wait for this witness any more. The end of a witness becomes visible a moment before
 * memory notes it. So call this only if the entry still waits for the witness a round or a second
 * after the caller has found the witness gone.
 */
bool repair_batch(Oid database, int64 batch_id, int64 witness);

/* ---- For the registry and for views ---- */

/* Forget all batches of the slot, which is DYING. */
void forget_batches(const Database *slot);

/*
 * The number of entries of the database that has the most, and the number of entries that all
 * databases together have beyond their own parts.
 */
struct WatchedBatches
{
	int used, peak;
	int common_used, common_peak;
};
WatchedBatches read_watched_batches();
/* Return the bytes that it costs to raise pgq_ext.max_watched_batches by one. */
int64 watched_batch_bytes();

Size batch_watch_size();
void place_batch_watch(void *memory);

} // namespace pgq
