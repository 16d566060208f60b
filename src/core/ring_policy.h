/*
 * What is done with a ring of segments, and when.
 */
#pragma once

#include <cstdint>

namespace pgq {

/* A pass over the pages, a piece at a time. */
struct SegmentPass
{
	uint32_t next;
	uint32_t first_live; /* where the first row was found; InvalidBlockNumber: none yet */
	int64_t live_bytes;	 /* of rows that live or may live, what is toasted included */
	bool many;			 /* more than is worth copying: the pass has stopped */
	bool at_end;
};

/* A place among the versions of a segment, in their physical order. */
struct Position
{
	uint32_t block;
	uint16_t offset;

	constexpr bool operator==(const Position &) const = default;
};

} // namespace pgq
