/*
 * Leases that survive a planned restart (protocol: saved-with-the-mark).
 *
 * At a clean shutdown the scheduler writes all leases to the table pgq_ext.saved_lease, each with
 * the durable token mark of that moment (worker/shutdown_save.*). After the start, the process that
 * first attaches the database restores the leases whose mark is still the durable mark. Between
 * save and restore no worker can have been given a job: after leases were saved or restored, a
 * claim has to advance the mark before it draws a token. So the mark is greater after a crash,
 * after a failover to a standby, and on a copy of a server that ran on after the copy was made. In
 * these cases the saved leases are ignored. Saved leases are restored after a switchover that
 * follows a clean stop, and after pg_upgrade. The table is not dumped.
 *
 * Rows with job_id 0 are not leases. A row of *starts* records how many jobs of a queue or group
 * were handed out (engine/starts_copy.h), and a row of a *rate* records how many permits of a named
 * rate were taken (engine/named/named_rate.h). An advanced mark makes these rows void, too: each
 * start of a job draws a token, and the first take of permits after a load advances the mark. A
 * promotion also makes these rows void: the former primary may have advanced the mark, and started
 * more jobs or given more permits, in WAL that this server has never received.
 *
 * A lease is restored only if the row of its job exists and shows no end of that lease or of a
 * later lease. A session that ended after the leases were saved, or a prepared transaction, may
 * have ended the lease in the row.
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
 * Read the saved leases that can be restored, for a process that is attaching the database.
 * prepared: the n prepared transactions of the database, listed before this call. Needs no slot and
 * changes nothing.
 */
SavedLeases read_saved_leases(const Tables &t, int64 mark, const TransactionId *prepared, int n);

/*
 * Restore the saved leases, starts and rates into a slot in state LOADING, and attach their queues.
 * Skips entries for which memory has no room. Cannot fail.
 */
void restore_leases(Database *db, const SavedLeases *saved);
void free_saved_leases(SavedLeases *saved);

/*
 * Replace the saved rows of this database by its present leases, starts and rates. The caller holds
 * the lock of the token mark, has closed the mark, and has read the mark after closing it. alone:
 * no other process can start a job with a token drawn earlier, or take permits; otherwise starts
 * and rates are not saved. Returns the number of leases saved.
 */
int save_leases(const Database *db, int64 mark, bool alone);

/*
 * Return whether the database has leases, starts or rates to save now, or may have some when open
 * transactions have ended.
 */
bool has_what_is_saved(const Database *db);

/*
 * Delete saved rows that cannot be restored any more, since their mark is not `mark`. Returns false
 * if rows are left in the table.
 */
bool delete_void_leases(int64 mark);

} // namespace pgq
