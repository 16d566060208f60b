#include "jobs/permitted.h"

#include "rows/look_up.h"

namespace pgq {

/*
 * The row may be missed while it moves. That does no harm: the caller checks the right again at the
 * row that it finds.
 */
bool
may_at_busy(SegmentSet &segments, int64 job_id, Deed deed)
{
	int32 queue_id;
	return !queue_of_job(segments, job_id, &queue_id) || may(deed, queue_id);
}

bool
locate_permitted(SegmentSet &segments, const Place &place, int64 job_id, Deed deed, JobRow *row)
{
	WriteResult located = locate_job(segments, place, job_id, false, row);
	if (located == WriteResult::kBusy && may_at_busy(segments, job_id, deed))
		located = locate_job(segments, place, job_id, true, row);
	return located == WriteResult::kDone && may(deed, row->queue_id());
}

} // namespace pgq
