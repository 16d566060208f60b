/*
 * An ack with a lease from before this start of the server (protocol: late-ack-proves-itself).
 *
 * Shared memory has no entry for this lease. The ack is accepted if the check bits in the token
 * (core/token.h) prove that the lease was given for this job, no worker has the job now, and the
 * row has no fence of a later lease. Then the work was done, and no later attempt has begun. The
 * late ack takes a new lease of the job first, as every end of a waiting job does, and reads the
 * row again.
 */
#pragma once

#include "rows/record.h"
#include "rows/segment_set.h"

namespace pgq {

/*
 * Ack the job with a lease from before this start. Returns true if the row ends when this
 * transaction commits. Waits for other transactions that have locked the row or use the job's
 * lease. Writes no record of the attempt, since its data is lost. Raises 53400 if the database has
 * no free lease.
 */
bool ack_late(SegmentSet &segments, Records &records, int64 job_id, int64 token,
			  const Datum *result);

} // namespace pgq
