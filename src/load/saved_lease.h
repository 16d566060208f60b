/*
 * Leases that survive a planned restart (protocol: saved-with-the-mark).
 *
 * At a clean shutdown the scheduler writes all leases to the table pgq_ext.saved_lease, each with
 * the durable token mark of that moment (worker/farewell.*). After the start, the process that
 * first attaches the database restores those whose mark is still the durable one. No worker can
 * have been given a job in between: before a claim draws a token after leases were saved or
 * restored, it has to advance the mark. So the mark is greater after a crash, after a failover to a
 * standby, or on a copy of a server that ran on; there the saved leases are ignored. They are
 * restored after a switchover that follows a clean stop, and after pg_upgrade. The table is not
 * dumped.
 *
 * Rows with job_id 0 are not leases. Some record how many jobs of a queue or group have started
 * (engine/starts_copy.h), others how much was taken of a named rate (engine/named/named_rate.h). An
 * advanced mark makes them void too: each start draws a token, and the first take after a load
 * advances the mark. They are also void after a promotion: the former primary may have advanced the
 * mark, and started or granted more, in WAL that was never received here.
 *
 * A lease is restored only if its row exists and shows no end of that lease or of a later one. A
 * session that ended after the leases were saved, or a prepared transaction, may have written such
 * an end.
 */
#pragma once

#include "engine/named/named_rate.h"
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
 * Read the leases that can be restored, for a process that is attaching the database. prepared: the
 * prepared transactions, listed before. Needs no slot and changes nothing.
 */
SavedLeases read_saved_leases(const Tables &t, int64 mark, const TransactionId *prepared, int n);

/*
 * Restore the leases into a slot in state LOADING, and attach their queues. Entries for which
 * memory has no room are left out. Cannot fail.
 */
void restore_leases(Database *db, const SavedLeases *saved);
void free_saved_leases(SavedLeases *saved);

/*
 * Replace the saved rows of this database by its present leases. The caller holds the lock of the
 * token mark, has closed the mark, and has read it after that. alone: no other process can start a
 * job with a token drawn earlier, or take permits; if false, starts and rates are not saved.
 * Returns the number of leases.
 */
int save_leases(const Database *db, int64 mark, bool alone);

/* Return whether there is anything to save now, or may be when open transactions have ended. */
bool has_what_is_saved(const Database *db);

/* Delete rows that cannot be restored any more. Returns false if rows are left. */
bool delete_void_leases(int64 mark);

} // namespace pgq
