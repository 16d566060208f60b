/*
 * Key periods: times for which a unique key stays taken after its job has ended (unique_for). Rows
 * of pgq_ext.unique_key.
 *
 * The transaction that inserts the job also inserts the row, in the same subtransaction. The row
 * never changes. A session that looks for a row holds the lock of the key and has found no job with
 * the key, live or in progress. So it has waited for any transaction that may have inserted a row.
 * Rows are deleted when their time is over, unless the clock was set lately. There is only one row
 * for each key and period, so an ordinary table with VACUUM is enough.
 */
#pragma once

#include "rows/unique_key.h"

namespace pgq {

struct KeyPeriod
{
	bool taken;
	int64 job_id;
	/*
	 * the transaction's snapshot does not see the period's row; only possible with REPEATABLE READ
	 * or SERIALIZABLE
	 */
	bool unseen;
	TransactionId xid; /* valid: whether the period exists depends on this open transaction */
};

/*
 * Return the period of the key at that time. If there are several, return the job_id of the
 * youngest job.
 */
KeyPeriod find_key_period(const UniqueKey &key, TimestampTz now);

/* Return whether one of the keys is taken, or may be. */
bool have_key_periods(const UniqueKey *keys, int n, TimestampTz now);

void begin_key_period(const UniqueKey &key, int64 job_id, TimestampTz until);

/*
 * Delete at most `most` periods that are over, skipping locked rows. Returns their number; 0 if the
 * table is locked.
 */
int end_key_periods(TimestampTz now, int most);

} // namespace pgq
