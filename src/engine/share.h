/*
 * How many leases a database may have.
 *
 * One database can have pgq_ext.max_leases of them, but no database can keep another one from
 * its own share, a quarter of max_leases divided by max_databases. What is beyond the own
 * shares comes from a common part, so that the table has own_share() entries for each
 * database there can be, and common_bound() that are anybody's. Always
 *
 *     common = sum over databases of max(0, used - own_share()) + parked.common + held.common
 *            <= common_bound()
 *
 * so a database with used < own_share() always gets a lease, whatever the others do.
 *
 * Leases by which nobody works are set aside: PARKED ones (somebody has locked the row), and those
 * that a transaction has taken to hold or change a job that waits. They are charged to the common
 * part, in `common` of their kind, or, when that is used up, stay in `used`; of an own share at most
 * half goes to the first kind that way, and a quarter to the second, so that it is not used up by
 * those either. Each kind has at most a quarter of max_leases. Beyond that no jobs are parked, and
 * the lease of a job that is held or changed is given back as soon as the row itself says that a
 * transaction is at it (jobs/README.md, "Fleeting leases").
 *
 * A lease that is taken only to end it (a row that is moved to another segment, an expired job, a late ack) is charged to a
 * reserve of kReserve leases, which all databases share, and to its database only if the reserve is used up. So a rotation
 * that moves many rows at once leaves claims as many leases as they had.
 *
 * All are atomics: the queues of a database have a lock each. Nothing is added without
 * having been found free in the same step (compare and exchange), so nobody fails because
 * somebody else has tried and failed.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

/* Leases of one kind that are set aside. */
struct AsideShare
{
	pg_atomic_uint32 common; /* charged to the common part */
	pg_atomic_uint32 own;	 /* in used */
	pg_atomic_uint32 peak;	 /* since the server's start; it may lag behind */
};

/* Of one database. Written and read without a lock. */
struct LeaseShare
{
	pg_atomic_uint32 used; /* but those aside that are charged to the common part */
	AsideShare parked;
	AsideShare held;
	pg_atomic_uint32 peak; /* of all, likewise */
};
static_assert(std::is_trivially_copyable_v<LeaseShare> && std::is_standard_layout_v<LeaseShare>);

void init_share(LeaseShare *share);

/* Leases, beyond max_leases, for those that are taken only to end them. */
inline constexpr int kReserve = 64;

/* Each from the settings alone. */
int own_share();
int common_bound();
int lease_entries();

/* All that follow cannot fail and take no lock. */
bool charge_lease(LeaseShare *share);
void discharge_lease(LeaseShare *share);
bool charge_reserve();
void discharge_reserve();

/* A charged lease is set aside, as one of that kind. Returns whether it is the common part's, for discharge_aside(). */
bool charge_aside(LeaseShare *share, AsideShare *kind);
void discharge_aside(LeaseShare *share, AsideShare *kind, bool common);

/* So many of a kind a database may set aside. */
int max_aside();

/* No more of them, please. */
bool too_many_parked(const LeaseShare &share);
bool too_many_held(const LeaseShare &share);

/* Leases of the database, those that are set aside included. */
int leases_of(const LeaseShare &share);

} // namespace pgq
