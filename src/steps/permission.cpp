#include "steps/permission.h"

#include "rows/look_up.h"

namespace pgq {

/*
 * queue_of_job() may miss the row while another transaction moves it, and this function then
 * returns true. That does no harm: the caller checks the right again when it has found the row.
 */
bool
may_at_busy(SegmentSet &segments, int64 job_id, Permission permission)
{
	int32 queue_id;
	return !queue_of_job(segments, job_id, &queue_id) || may(permission, queue_id);
}

bool
locate_permitted(SegmentSet &segments, const Place &place, int64 job_id, Permission permission,
				 JobRow *row)
{
	WriteResult located = locate_job(segments, place, job_id, false, row);
	if (located == WriteResult::kBusy && may_at_busy(segments, job_id, permission))
		located = locate_job(segments, place, job_id, true, row);
	return located == WriteResult::kDone && may(permission, row->queue_id());
}

} // namespace pgq
