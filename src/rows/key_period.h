/*
 * Key periods: times for which a unique key stays taken after its job has ended (unique_for). Rows
 * of pgq_ext.unique_key.
 *
 * A row is inserted by the transaction that inserts the job, in the same subtransaction, and never
 * changed. A session that looks for one holds the lock of the key and has found no job with the
 * key, live or in progress, so it has waited for any transaction that may have inserted a row. Rows
 * are deleted when their time is over, by a clock that was not set lately. There is one row for
 * each key and period, so an ordinary table with VACUUM is enough.
 */
#pragma once

#include "rows/unique_key.h"

namespace pgq {

struct KeyPeriod
{
	bool taken;
	int64 job_id;
	/*
	 * this transaction's snapshot does not see it; only with a transaction snapshot (REPEATABLE
	 * READ or higher)
	 */
	bool unseen;
	TransactionId xid; /* valid: the outcome of this transaction decides */
};

/*
 * Return the period of the key at that time. If there are several, job_id is that of the youngest
 * job.
 */
KeyPeriod find_key_period(const UniqueKey &key, TimestampTz now);

/* Return whether one of the keys is, or may be, taken. */
bool have_key_periods(const UniqueKey *keys, int n, TimestampTz now);

void begin_key_period(const UniqueKey &key, int64 job_id, TimestampTz until);

/*
 * Delete at most `most` periods that are over; skip locked rows. Returns their number, 0 if the
 * table is locked.
 */
int end_key_periods(TimestampTz now, int most);

} // namespace pgq
