/*
 * Key periods: with the option unique_for, a unique key stays taken for a time after its job has
 * ended. Each key period is a row of pgq_ext.unique_key.
 *
 * The transaction that inserts the job also inserts the row of the key period, in the same
 * subtransaction. So the job and the row are committed or rolled back together. The row never
 * changes.
 *
 * A session looks for jobs with the key before it looks for a key period, and has the lock of the
 * key all the time. If another open transaction has inserted a job with the key, the session waits
 * for that transaction, and begins again. So when the session looks for a key period, each other
 * transaction that has inserted one for this key has ended. A row that is still busy is being
 * deleted, or was written by a user's SQL (KeyPeriod::xid).
 *
 * Rows are deleted when their time is over, but not in the minute after the clock was set. A key
 * has at most one row for each period, so the table needs no segments: VACUUM is enough to reclaim
 * its space.
 */
#pragma once

#include "rows/unique_key.h"

namespace pgq {

struct KeyPeriod
{
	bool taken;
	int64 job_id;
	/*
	 * true: the transaction's snapshot does not see the period's row, which is possible only with
	 * REPEATABLE READ or SERIALIZABLE
	 */
	bool unseen;
	/*
	 * open transaction that is deleting the period's row, or has inserted the row by SQL; its end
	 * decides whether the period exists
	 */
	TransactionId xid;
};

/*
 * Return the period of the key at the time `now`. If the key has several periods at that time,
 * return the period of the youngest job.
 */
KeyPeriod find_key_period(const UniqueKey &key, TimestampTz now);

/* Return whether one of the keys has, or may have, a period at the time `now`. */
bool have_key_periods(const UniqueKey *keys, int n, TimestampTz now);

void begin_key_period(const UniqueKey &key, int64 job_id, TimestampTz until);

/*
 * Delete at most `most` periods that are over, skipping locked rows. Returns the number of deleted
 * periods; 0 if another transaction has locked the table.
 */
int end_key_periods(TimestampTz now, int most);

/* Raise error 55000 if the index that finds the periods of a key is missing or was altered. */
void require_period_index();

} // namespace pgq
