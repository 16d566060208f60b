#pragma once
#include "pg/pg.h"
namespace pgq {
inline bool
is_replicated()
{
	return false;
}
inline bool
is_moved(HeapTuple row)
{
	return HeapTupleHeaderIndicatesMovedPartitions(row->t_data);
}
} // namespace pgq
