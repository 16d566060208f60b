/*
 * Lease quota: how many leases a database may have.
 *
 * A database can have up to pgq_ext.max_leases leases. A quarter of max_leases, divided by
 * max_databases, is the own share of each database, which no other database can use. Leases beyond
 * the own shares come from a common part. So the lease table has reserved_leases() entries for each
 * possible database, and shared_leases() entries for all databases together. The following is
 * always true:
 *
 *     common = sum over databases of max(0, used - reserved_leases()) + parked.common + held.common
 *            <= shared_leases()
 *
 * So a database with used < reserved_leases() always gets a lease, even if other databases use up the
 * common part.
 *
 * A set-aside lease is a lease by which no worker works. There are two kinds: PARKED leases
 * (another transaction has locked the row), and held leases, which a transaction has taken to hold
 * or change a waiting job. A set-aside lease is charged to the common part, in `common` of its
 * kind. When the common part is used up, the lease stays charged to `used`. PARKED leases may use
 * up at most half of an own share in that way, and held leases a quarter, so a quarter is left for
 * workers. In a database, each kind may have at most a quarter of max_leases. If the PARKED leases
 * have reached a bound, no more jobs are parked. If the held leases have reached a bound, the lease
 * of a job that is held or changed is given back as soon as the row itself shows that a transaction
 * is changing it (steps/README.md, "Fleeting leases").
 *
 * Some leases are taken only to end them (for a row that is moved to another segment, an expired
 * job, a late ack). These leases are charged to a reserve of kReserve leases, which all databases
 * share, and to their database only if the reserve is used up. So a rotation that moves many rows
 * at once does not take leases from claims.
 *
 * All numbers are atomics, since each queue of a database has its own lock. A number is compared
 * with its bound and raised in one step (compare and exchange). If the number were raised first
 * and taken back when above the bound, another process could be refused wrongly in between.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

/* Number of set-aside leases of one kind. Atomics, no lock. */
struct AsideQuota
{
	pg_atomic_uint32 common; /* leases charged to the common part */
	pg_atomic_uint32 own;	 /* leases charged to the own share, and counted in `used` */
	pg_atomic_uint32 peak;	 /* highest number since the server's start; may be a little outdated */
};

/* Numbers of leases of one database. Atomics, no lock. */
struct LeaseQuota
{
	/* number of leases, without set-aside leases that are charged to the common part */
	pg_atomic_uint32 used;
	AsideQuota parked;
	AsideQuota held;
	/* highest number of all leases since the server's start; may be a little outdated */
	pg_atomic_uint32 peak;
};
static_assert(std::is_trivially_copyable_v<LeaseQuota> && std::is_standard_layout_v<LeaseQuota>);

void init_lease_quota(LeaseQuota *share);

/*
 * Number of leases in addition to max_leases. They are kept for leases that are taken only for a
 * moment: to move a row, to end an expired job, and for a late ack.
 */
inline constexpr int kReserve = 64;

/* Sizes, computed from the settings alone. */
int reserved_leases();
int shared_leases();
int lease_entries();

/*
 * charge_lease() and charge_reserve() return false if no lease is left. All functions from here on
 * cannot fail and take no lock.
 */
bool charge_lease(LeaseQuota *share);
void discharge_lease(LeaseQuota *share);
bool charge_reserve();
void discharge_reserve();

/*
 * Change the charge of a lease to that of a set-aside lease of the kind. Return whether the lease
 * is now charged to the common part; the caller passes the result to discharge_aside().
 */
bool charge_aside(LeaseQuota *share, AsideQuota *kind);
void discharge_aside(LeaseQuota *share, AsideQuota *kind, bool common);

/* Return how many leases of each kind a database may set aside. */
int max_aside();

/*
 * Return whether the database should set aside no more leases of the kind, because it has set aside
 * so many already.
 */
bool too_many_parked(const LeaseQuota &share);
bool too_many_held(const LeaseQuota &share);

/* Return the number of the database's leases, including set-aside leases. */
int leases_of(const LeaseQuota &share);

} // namespace pgq
