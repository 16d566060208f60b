/*
 * The rows of pgq_ext.saved_lease: leases, starts of queues with a rate, and named rates. See
 * saved_lease.h.
 */
#pragma once

#include "catalog/tables.h"
#include "engine/lease_copy.h"
#include "engine/named/named_rate.h"
#include "engine/starts_copy.h"

namespace pgq {

Relation open_saved(const Tables &t, LOCKMODE mode);

/*
 * Read a row as a lease. Returns false, without setting *mark, if a column is NULL that
 * form_lease() never writes as NULL.
 */
bool read_lease(HeapTuple tuple, TupleDesc desc, SavedLease *lease, int64 *mark);
HeapTuple form_lease(TupleDesc desc, const SavedLease &lease, int64 mark);

/*
 * The kind of a row. kVoid: starts or a rate that were saved before a promotion. After saving, the
 * former primary may have started more jobs or given more permits.
 */
enum class SavedKind : uint8
{
	kLease,
	kStarts,
	kRate,
	kVoid,
};
SavedKind kind_of(const SavedLease &row);

/* Convert starts or a rate to a row in the form of a lease, and such a row back. */
SavedLease row_of(const SavedStarts &starts);
SavedLease row_of(const SavedRate &rate);
SavedStarts starts_of(const SavedLease &row);
SavedRate rate_of(const SavedLease &row);

/*
 * Visit the rows that are committed at this moment. If read_lease() returns false for a row,
 * visit() gets NULL as the lease, and an undefined mark.
 */
template <typename Visit>
void
for_each_saved(Relation rel, Visit visit)
{
	if (RelationGetNumberOfBlocks(rel) == 0)
		return;
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, nullptr);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SavedLease lease;
		int64 mark;
		bool readable = read_lease(tuple, RelationGetDescr(rel), &lease, &mark);
		visit(tuple, readable ? &lease : nullptr, mark);
		CHECK_FOR_INTERRUPTS();
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
}

} // namespace pgq
