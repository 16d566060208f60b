/*
 * An ack with a lease from before this start of the server (protocol: late-ack-proves-itself).
 *
 * Memory does not know that lease. The ack is honoured if the token proves itself by its check
 * bits, no worker has the job now, and the row has no fence of a later lease: then the work was
 * done, and not begun again. The ack takes the job's lease first, as every end of a waiting job
 * does, and looks at the row again.
 */
#pragma once

#include "rows/record.h"
#include "rows/segment_set.h"

namespace pgq {

/*
 * Ack the job by such a lease. Returns true if the row ends when this transaction commits. Waits
 * for other transactions at the job. Writes no record of the attempt, which is not known any more.
 * Raises 53400 if no lease is left.
 */
bool ack_late(SegmentSet &segments, Records &records, int64 job_id, int64 token,
			  const Datum *result);

} // namespace pgq
