/*
 * Times for which a unique key is nobody else's, whatever becomes of its job (unique_for): rows of pgq_ext.unique_key.
 *
 * One is inserted by the transaction that inserts the job, in the same subtransaction, and never changed. Whoever asks
 * has the lock of the key and has found no job with it, in progress or not; so he has waited for whoever may have
 * inserted such a row. It is deleted when its time is over, by a clock that has stood its ground: a plain table does,
 * since there is one row a key and period, and nobody looks at those of other keys.
 */
#pragma once

#include "rows/unique_key.h"

namespace pgq {

struct KeyPeriod
{
	bool taken;
	int64 job_id;
	bool unseen;	   /* by the snapshot of this transaction, of which there is one */
	TransactionId xid; /* valid: that transaction decides */
};

/* At that time. The youngest of them, should there be several. */
KeyPeriod find_key_period(const UniqueKey &key, TimestampTz now);

/* Is one of these keys taken, or may be? */
bool have_key_periods(const UniqueKey *keys, int n, TimestampTz now);

void begin_key_period(const UniqueKey &key, int64 job_id, TimestampTz until);

/* Those that are over are deleted, at most so many, but not what somebody has locked. Returns how many. */
int end_key_periods(TimestampTz now, int most);

} // namespace pgq
