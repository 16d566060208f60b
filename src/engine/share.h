/*
 * Lease quota: how many leases a database may have.
 *
 * A database can have pgq_ext.max_leases leases, but no database can take away the own share of
 * another: a quarter of max_leases divided by max_databases. Leases beyond the own shares come from
 * a common part. So the lease table has own_share() entries for each possible database, and
 * common_bound() entries for all. Always
 *
 *     common = sum over databases of max(0, used - own_share()) + parked.common + held.common
 *            <= common_bound()
 *
 * so a database with used < own_share() always gets a lease, whatever other databases do.
 *
 * Leases by which no worker works are set aside. There are two kinds: PARKED ones (the row is
 * locked by another transaction), and those that a transaction has taken to hold or change a
 * waiting job. They are charged to the common part, in `common` of their kind. When that is used up
 * they stay in `used`. At most half of an own share goes to the first kind in that way, and a
 * quarter to the second, so they cannot use up an own share either. Each kind has at most a quarter
 * of max_leases. Beyond that no jobs are parked, and the lease of a job that is held or changed is
 * given back as soon as the row itself shows that a transaction is changing it (jobs/README.md,
 * "Fleeting leases").
 *
 * A lease that is taken only to end it (a row that is moved to another segment, an expired job, a
 * late ack) is charged to a reserve of kReserve leases, which all databases share, and to its
 * database only if the reserve is used up. So a rotation that moves many rows at once leaves claims
 * as many leases as they had.
 *
 * All counters are atomics, since each queue of a database has its own lock. A counter is compared
 * with its bound and raised in one step (compare and exchange). So no process is refused because
 * another one has raised the counter and taken that back.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

/* Leases of one kind that are set aside. Atomics, no lock. */
struct AsideShare
{
	pg_atomic_uint32 common; /* charged to the common part */
	pg_atomic_uint32 own;	 /* charged to the own share, and counted in `used` */
	pg_atomic_uint32 peak;	 /* highest number since the server's start; may lag behind */
};

/* The leases of one database. Atomics, no lock. */
struct LeaseShare
{
	pg_atomic_uint32 used; /* leases, without those set aside that are charged to the common part */
	AsideShare parked;
	AsideShare held;
	pg_atomic_uint32 peak; /* highest number of all leases; may lag behind */
};
static_assert(std::is_trivially_copyable_v<LeaseShare> && std::is_standard_layout_v<LeaseShare>);

void init_share(LeaseShare *share);

/* Number of leases, beyond max_leases, for those that are taken only to end them. */
inline constexpr int kReserve = 64;

/* Sizes, computed from the settings alone. */
int own_share();
int common_bound();
int lease_entries();

/*
 * charge_lease() and charge_reserve() return false if no lease is left. These and all following
 * functions cannot fail and take no lock.
 */
bool charge_lease(LeaseShare *share);
void discharge_lease(LeaseShare *share);
bool charge_reserve();
void discharge_reserve();

/*
 * Set a charged lease aside, as one of that kind. Return whether it is now charged to the common
 * part; discharge_aside() needs that.
 */
bool charge_aside(LeaseShare *share, AsideShare *kind);
void discharge_aside(LeaseShare *share, AsideShare *kind, bool common);

/* Return how many leases of each kind a database may set aside. */
int max_aside();

/*
 * Return whether the database has set aside so many leases of the kind that no more should be
 * added.
 */
bool too_many_parked(const LeaseShare &share);
bool too_many_held(const LeaseShare &share);

/* Return the number of the database's leases, with those that are set aside. */
int leases_of(const LeaseShare &share);

} // namespace pgq
