#include "engine/ring_status.h"

namespace pgq {

void
init_rings(RingStatus *notes)
{
	for (SegmentRing &ring : notes->rings)
	{
		pg_atomic_init_u32(&ring.current, 0);
		pg_atomic_init_u32(&ring.survivors, kNoSegment);
	}
	for (SegmentStatus &segment : notes->segments)
	{
		pg_atomic_init_u64(&segment.empty_since, 0);
		pg_atomic_init_u64(&segment.truncations, 0);
		pg_atomic_init_u64(&segment.moved_in, 0);
		pg_atomic_init_u64(&segment.moved_out, 0);
	}
}

void
reset_rings(RingStatus *notes)
{
	for (RingName ring : all_rings)
	{
		pg_atomic_write_u32(&notes->rings[ring].current, first_in(ring));
		pg_atomic_write_u32(&notes->rings[ring].survivors, kNoSegment);
	}
	for (SegmentStatus &segment : notes->segments)
	{
		pg_atomic_write_u64(&segment.empty_since, 0);
		pg_atomic_write_u64(&segment.truncations, 0);
		pg_atomic_write_u64(&segment.moved_in, 0);
		pg_atomic_write_u64(&segment.moved_out, 0);
		segment.error[0] = '\0';
	}
}

} // namespace pgq
