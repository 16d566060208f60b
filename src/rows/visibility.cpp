#include "rows/visibility.h"

namespace pgq {

/*
 * Return whether a running transaction has locked this live version. The lock may be a member of a
 * multixact of which another member is an UPDATE that was rolled back.
 */
static bool
has_running_locker(HeapTupleHeader header)
{
	if (header->t_infomask & HEAP_XMAX_INVALID)
		return false;
	TransactionId xmax = HeapTupleHeaderGetRawXmax(header);
	bool only_locked = HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask);
	if (header->t_infomask & HEAP_XMAX_IS_MULTI)
		return !HEAP_LOCKED_UPGRADED(header->t_infomask) && MultiXactIdIsRunning(xmax, only_locked);
	return only_locked && TransactionIdIsInProgress(xmax);
}

Visibility
visibility_of(HeapTuple tuple, Buffer buffer)
{
	TransactionId dead_after;
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			return has_running_locker(tuple->t_data) ? Visibility::kBusy : Visibility::kLive;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			return Visibility::kBusy;
		case HEAPTUPLE_DEAD:
		case HEAPTUPLE_RECENTLY_DEAD:
			break;
	}
	return Visibility::kDead;
}

bool
is_writable(HeapTuple tuple, Buffer buffer, TransactionId *inserter)
{
	TransactionId dead_after;
	TransactionId xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			return true;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			return !TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(tuple->t_data));
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			if (TransactionIdIsCurrentTransactionId(xmin))
				return true;
			*inserter = xmin;
			return false;
		default:
			return false;
	}
}

bool
is_locked_by_us(HeapTupleHeader header)
{
	if (header->t_infomask & HEAP_XMAX_INVALID)
		return false;
	TransactionId xmax = HeapTupleHeaderGetRawXmax(header);
	bool only_locked = HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask);
	if (!(header->t_infomask & HEAP_XMAX_IS_MULTI))
		return only_locked && TransactionIdIsCurrentTransactionId(xmax);
	MultiXactMember *members;
	int n = HEAP_LOCKED_UPGRADED(header->t_infomask)
				? 0
				: GetMultiXactIdMembers(xmax, &members, false, only_locked);
	bool ours = false;
	for (int i = 0; i < n; i++)
		ours |= TransactionIdIsCurrentTransactionId(members[i].xid);
	if (n > 0)
		pfree(members);
	return ours;
}

/*
 * is_writable(), which the caller has called before, has set HEAP_XMAX_INVALID if the transaction
 * in xmax was rolled back, or if that transaction has ended and had only locked the row.
 */
bool
is_touched(HeapTupleHeader header)
{
	return (header->t_infomask & HEAP_XMAX_INVALID) == 0;
}

bool
is_ours(HeapTupleHeader header)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(header)) ||
		   is_locked_by_us(header);
}

uint64
trace_of(HeapTuple tuple)
{
	if (ItemPointerEquals(&tuple->t_data->t_ctid, &tuple->t_self))
		return 0;
	return HeapTupleHeaderGetUpdateXid(tuple->t_data);
}

} // namespace pgq
