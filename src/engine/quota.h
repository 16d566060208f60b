/*
 * Quota: how many entries one database may use in a table that all databases share. The limit is
 * the setting of the table. The own part of each database, which no other database can use, is a
 * quarter of the setting, divided by max_databases. The rest of the setting is the common part: the
 * number of entries that all databases together may use beyond their own parts. So the table has
 * entries for max_databases own parts and for one common part.
 *
 * The table of batches does so, too (core/batch_table.h). lease_quota.h does the same for leases, with atomics. The numbers in this file are protected by
 * the lock of the table.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

/* Number of entries that one database uses, or that all databases use beyond their own parts. */
struct Quota
{
	int used;
	int peak; /* highest value since the server's start */
};
static_assert(std::is_trivially_copyable_v<Quota>);

inline int
own_part(int bound)
{
	static constexpr int kPart = 4;
	return bound / kPart / max_databases;
}

inline int
common_part(int bound)
{
	return bound - own_part(bound);
}

inline int
quota_entries(int bound)
{
	return common_part(bound) + max_databases * own_part(bound);
}

/* Return how many more entries the database may have. */
inline int
left_of_quota(const Quota &own, const Quota &common, int bound)
{
	return Max(0, own_part(bound) - own.used) + Max(0, common_part(bound) - common.used);
}

inline void
raise_quota(Quota *quota)
{
	quota->peak = Max(quota->peak, ++quota->used);
}

/* Charge one more entry to the database. Return false if the database may have no more. */
inline bool
charge(Quota *own, Quota *common, int bound)
{
	if (left_of_quota(*own, *common, bound) == 0)
		return false;
	if (own->used >= own_part(bound))
		raise_quota(common);
	raise_quota(own);
	return true;
}

inline void
discharge(Quota *own, Quota *common, int bound)
{
	if (own->used-- > own_part(bound))
		common->used--;
}

} // namespace pgq
