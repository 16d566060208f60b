/*
 * How many leases a database may have.
 *
 * One database can have pgq_ext.max_leases of them, but no database can keep another one from
 * its own share, a quarter of max_leases divided by max_databases. What is beyond the own
 * shares comes from a common part, so that the table has own_share() entries for each
 * database there can be, and common_bound() that are anybody's. Always
 *
 *     common = sum over databases of max(0, used - own_share()) + aside <= common_bound() + kReserve
 *
 * so a database with used < own_share() always gets a lease, whatever the others do.
 *
 * Leases that are set aside (PARKED: somebody has locked the row) are charged to the
 * common part, in `aside`, or, when that is used up, stay in `used`; of an own share at
 * most half goes that way, so that it is not used up by those either.
 *
 * All are atomics: the queues of a database have a lock each. Nothing is added without
 * having been found free in the same step (compare and exchange), so nobody fails because
 * somebody else has tried and failed.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

/* Of one database. Written and read without a lock. */
struct LeaseShare
{
	pg_atomic_uint32 used;		/* but those in aside */
	pg_atomic_uint32 aside;		/* PARKED, charged to the common part */
	pg_atomic_uint32 aside_own; /* PARKED, in used */
	/* Since the server's start; they may lag behind: */
	pg_atomic_uint32 peak; /* of all */
	pg_atomic_uint32 aside_peak;
};
static_assert(std::is_trivially_copyable_v<LeaseShare> && std::is_standard_layout_v<LeaseShare>);

void init_share(LeaseShare *share);

/* A late ack, and a row that is moved, need a lease for a moment: for these there are some more. */
inline constexpr int kReserve = 64;

/* Each from the settings alone. */
int own_share();
int common_bound();
int lease_entries();

/* All that follow cannot fail and take no lock. to_end: the lease is taken to end it. */
bool charge_lease(LeaseShare *share, bool to_end);
void discharge_lease(LeaseShare *share);

/* A charged lease is set aside. Returns whether it is the common part's, for discharge_aside(). */
bool charge_aside(LeaseShare *share);
void discharge_aside(LeaseShare *share, bool common);

/* So many jobs of a database may be set aside. */
int max_aside();

/* No more of them, please. */
bool too_many_aside(const LeaseShare &share);

/* Leases of the database, those that are set aside included. */
int leases_of(const LeaseShare &share);

} // namespace pgq
