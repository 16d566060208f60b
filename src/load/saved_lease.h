/*
 * Leases that survive a planned restart (protocol: saved-with-the-mark).
 *
 * At a clean shutdown the scheduler writes all leases to the table pgq_ext.saved_lease, each with
 * the durable token mark of that moment (worker/farewell.*). The process that attaches the database
 * first after the start restores those whose mark is still the durable one. Then no worker can have
 * been given a job in between: before a claim draws a token, after leases were saved or restored,
 * it has to advance the mark. So after a crash, after a failover to a standby, or on a copy of a
 * server that ran on, the mark is greater and the saved leases are ignored. After a switchover
 * following a clean stop, and after pg_upgrade, they are restored. The table is not dumped.
 *
 * Rows with job_id 0 are not leases. Some record how many jobs of a queue or group have started
 * (engine/starts_copy.h), others how much was taken of a named rate (engine/named_rate.h). They are
 * void with the mark, since each start draws a token, and the first take after a load advances the
 * mark. They are also void after a promotion: the former primary may have advanced the mark, and
 * started or granted more, in WAL that was never received here.
 *
 * A lease is restored only if its row exists and shows no end of that lease or of a later one. A
 * session that outlived the shutdown save, or a prepared transaction, may have written such an end.
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
 * Read what can be restored, for a process that is attaching the database. prepared: the prepared
 * transactions, listed before. Needs no slot and changes nothing.
 */
SavedLeases read_saved_leases(const Tables &t, int64 mark, const TransactionId *prepared, int n);

/*
 * Restore into a slot in state LOADING, and attach the queues concerned. Entries for which there is
 * no room are left out. Cannot fail.
 */
void restore_leases(Database *db, const SavedLeases *saved);
void free_saved_leases(SavedLeases *saved);

/*
 * Write the leases of this database in place of those saved before. The caller holds the lock of
 * the token mark, has closed the mark, and has read it after that. alone: no other process can
 * start a job with a token drawn earlier, or take permits; otherwise starts and rates are not
 * saved. Returns the number of leases.
 */
int save_leases(const Database *db, int64 mark, bool alone);

/* Return whether there is anything to save now, or may be when open transactions have ended. */
bool has_what_is_saved(const Database *db);

/* Delete rows that cannot be restored any more. Returns false if rows are left. */
bool delete_void_leases(int64 mark);

} // namespace pgq
