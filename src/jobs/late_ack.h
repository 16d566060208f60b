/*
 * An ack with a lease from before this start of the server (protocol: late-ack-proves-itself).
 *
 * Memory knows nothing of that lease. But if it proves itself by its check bits, nobody has the
 * job now, and no lease that came later has been written to the row as its fence, then the work
 * was done and nobody has begun it again: so the ack is honoured. It takes the job's lease
 * first, as anyone who ends a waiting job must, then looks at the row again.
 */
#pragma once

#include "rows/record.h"
#include "rows/segment_set.h"

namespace pgq {

/* True: the row ends when this transaction commits. Waits for whoever is at the job. Of the attempt, which nobody knows any more, no record is written. Error 53400: no lease is left. */
bool ack_late(SegmentSet &segments, Records &records, int64 job_id, int64 token,
			  const Datum *result);

} // namespace pgq
