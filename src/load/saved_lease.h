/*
 * Leases that outlive a planned restart (protocol: saved-with-the-mark).
 *
 * At a clean shutdown the scheduler writes all leases to the table pgq_ext.saved_lease, each with
 * the durable token mark of that moment (worker/farewell.*). Whoever attaches the database first
 * after the start restores those whose mark is still the durable one. Then nobody can have been given a
 * job since: before a claim draws a token, after the leases were saved or after they were
 * restored, it has to advance the mark. So a crash, a failover to a standby that has followed on, or
 * a copy of a server that ran on finds the mark beyond, and ignores them; a switchover after a
 * clean stop, and pg_upgrade, find them as they were. The table is not dumped.
 *
 * Rows whose job_id is 0 are no leases, but say how many jobs of a queue or a group have started (engine/starts_copy.h).
 * Others say how much was taken of a rate by name (engine/named_rate.h). They are void with the mark, since each start draws a
 * token, and the first take after a load raises the mark. After a promotion they are void too: the server before may
 * have raised the mark, and started or given more, in WAL that never came here.
 *
 * A lease is restored only if its row is there and no end of that lease, or of a later
 * one, was written to it: a session that outlived the saving may have done that, or a prepared transaction.
 */
#pragma once

#include "engine/named_rate.h"
#include "engine/registry.h"
#include "engine/starts_copy.h"

namespace pgq {

struct Tables;

struct SavedLeases
{
	SavedLease *leases;
	int n;
	SavedStarts *starts;
	int n_starts;
	SavedRate *rates;
	int n_rates;
	QueueRow *queues;
	int n_queues;
};

/*
 * What can be restored, read by a process that is attaching the database. prepared: the
 * transactions that are prepared, listed before. Needs no slot, and changes nothing.
 */
SavedLeases read_saved_leases(const Tables &t, int64 mark, const TransactionId *prepared, int n);

/* Into the slot, which is LOADING, attaching the queues concerned. What finds no room is left out. Cannot fail. */
void restore_leases(Database *db, const SavedLeases *saved);
void free_saved_leases(SavedLeases *saved);

/*
 * Write the leases of this database, instead of what was saved before. The caller holds the lock
 * of the token mark, has closed it, and read it after that. alone: no other process can start a job with a token that
 * it has drawn before, or take permits; otherwise no starts and rates are saved. Returns how many leases.
 */
int save_leases(const Database *db, int64 mark, bool alone);

/* Is there anything that would be saved, or will be when a transaction has ended? */
bool has_what_is_saved(const Database *db);

/* Delete what cannot be restored any more. False: something is left. */
bool delete_void_leases(int64 mark);

} // namespace pgq
