/*
 * Rings of segments. Segments are numbered through: those of pgq_ext.job first, then those of
 * pgq_ext.dead_job.
 */
#pragma once

#include <cstdint>

namespace pgq {

inline constexpr int kMaxSegments = 8;
inline constexpr int kDeadSegments = 4;
inline constexpr int kAllSegments = kMaxSegments + kDeadSegments;
inline constexpr uint32_t kNoSegment = UINT32_MAX;

enum RingName : uint8_t
{
	kJobRing,
	kDeadRing,
};
inline constexpr RingName all_rings[] = {kJobRing, kDeadRing};
inline constexpr int kRings = 2;

constexpr RingName
ring_of(int segment)
{
	return segment < kMaxSegments ? kJobRing : kDeadRing;
}

constexpr int
first_in(RingName ring)
{
	return ring == kJobRing ? 0 : kMaxSegments;
}

constexpr int
segments_in(RingName ring)
{
	return ring == kJobRing ? kMaxSegments : kDeadSegments;
}

} // namespace pgq
