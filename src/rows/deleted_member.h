#pragma once
#include "pg/pg.h"
namespace pgq {
enum class Deed : uint8
{
	kNone,
	kPurge,
	kDrop,
	kRevive,
	kRecords,
	kBatch
};
inline Deed
present_deed()
{
	return Deed::kNone;
}
} // namespace pgq
