#include "engine/lease_quota.h"

namespace pgq {

static void
init_aside(AsideQuota *kind)
{
	pg_atomic_init_u32(&kind->common, 0);
	pg_atomic_init_u32(&kind->own, 0);
	pg_atomic_init_u32(&kind->peak, 0);
}

void
init_lease_quota(LeaseQuota *share)
{
	pg_atomic_init_u32(&share->used, 0);
	pg_atomic_init_u32(&share->peak, 0);
	init_aside(&share->parked);
	init_aside(&share->held);
}

int
reserved_leases()
{
	static constexpr int kPart = 4;
	return max_leases / kPart / max_databases;
}

int
shared_leases()
{
	return max_leases - reserved_leases();
}

int
lease_entries()
{
	return shared_leases() + max_databases * reserved_leases() + kReserve;
}

int
max_aside()
{
	return Max(8, max_leases / 4);
}

/* Raise a number by one, unless it has reached its bound. Return whether it was raised. */
static bool
raise_below(pg_atomic_uint32 *counter, int bound)
{
	uint32 value = pg_atomic_read_u32(counter);
	while (value < static_cast<uint32>(bound))
		if (pg_atomic_compare_exchange_u32(counter, &value, value + 1))
			return true;
	return false;
}

static bool
charge_common()
{
	if (!raise_below(&shared->common, shared_leases()))
		return false;
	uint32 common = value_of(shared->common);
	if (common > value_of(shared->common_peak))
		pg_atomic_write_u32(&shared->common_peak, common);
	return true;
}

static void
discharge_common()
{
	pg_atomic_fetch_sub_u32(&shared->common, 1);
}

static void
note_peak(LeaseQuota *share)
{
	uint32 leases = static_cast<uint32>(leases_of(*share));
	if (leases > value_of(share->peak))
		pg_atomic_write_u32(&share->peak, leases);
}

bool
charge_reserve()
{
	return raise_below(&shared->reserve, kReserve);
}

void
discharge_reserve()
{
	pg_atomic_fetch_sub_u32(&shared->reserve, 1);
}

bool
charge_lease(LeaseQuota *share)
{
	uint32 own = static_cast<uint32>(reserved_leases());
	uint32 used = value_of(share->used);
	for (;;)
	{
		bool from_common = used >= own;
		if (from_common && !charge_common())
		{
			/* Another process may have freed a lease of the own share since `used` was read. */
			used = value_of(share->used);
			if (used >= own)
				return false;
			continue;
		}
		if (pg_atomic_compare_exchange_u32(&share->used, &used, used + 1))
			break;
		if (from_common)
			discharge_common();
	}
	note_peak(share);
	return true;
}

void
discharge_lease(LeaseQuota *share)
{
	if (pg_atomic_fetch_sub_u32(&share->used, 1) > static_cast<uint32>(reserved_leases()))
		discharge_common();
}

/*
 * Charge a lease to the common part, because it is being set aside. Return false if the common part
 * is used up; the lease then stays charged to the own share.
 */
static bool
move_aside(LeaseQuota *share)
{
	uint32 own = static_cast<uint32>(reserved_leases());
	uint32 used = value_of(share->used);
	/*
	 * If the database uses more than its own share, the lease is already charged to the common
	 * part.
	 */
	while (used > own)
		if (pg_atomic_compare_exchange_u32(&share->used, &used, used - 1))
			return true;
	if (!charge_common())
		return false;
	discharge_lease(share);
	return true;
}

bool
charge_aside(LeaseQuota *share, AsideQuota *kind)
{
	bool common = move_aside(share);
	pg_atomic_fetch_add_u32(common ? &kind->common : &kind->own, 1);
	uint32 aside = value_of(kind->common) + value_of(kind->own);
	if (aside > value_of(kind->peak))
		pg_atomic_write_u32(&kind->peak, aside);
	return common;
}

void
discharge_aside(LeaseQuota *share, AsideQuota *kind, bool common)
{
	pg_atomic_fetch_sub_u32(common ? &kind->common : &kind->own, 1);
	if (common)
		discharge_common();
	else
		discharge_lease(share);
}

static bool
too_many(const AsideQuota &kind, int of_own_share)
{
	uint32 own = value_of(kind.own);
	return own >= static_cast<uint32>(Max(1, of_own_share)) ||
		   value_of(kind.common) + own >= static_cast<uint32>(max_aside());
}

bool
too_many_parked(const LeaseQuota &share)
{
	return too_many(share.parked, reserved_leases() / 2);
}

bool
too_many_held(const LeaseQuota &share)
{
	return too_many(share.held, reserved_leases() / 4);
}

int
leases_of(const LeaseQuota &share)
{
	return static_cast<int>(value_of(share.used) + value_of(share.parked.common) +
							value_of(share.held.common));
}

} // namespace pgq
