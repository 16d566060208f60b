#include "store/token_mark.h"

#include "pg/scope.h"
#include "store/spi.h"

namespace pgq {

int64
read_token_mark(Oid sequence)
{
	Relation rel = relation_open(sequence, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, nullptr);
	HeapTuple tuple = systable_getnext(scan);
	int64 mark = reinterpret_cast<Form_pg_sequence_data>(GETSTRUCT(tuple))->last_value;
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	relation_close(rel, AccessShareLock);
	return mark;
}

/* After a restart tokens are ahead of the clock for a while, and grow by one each. */
static int64
next_token_at_most()
{
	int64 clock = GetCurrentTimestamp() - kYear2020;
	return Max(clock, static_cast<int64>(pg_atomic_read_u64(&shared->last_token)));
}

bool
token_mark_is_ahead(const Database *db, int64 lead)
{
	auto *mark = const_cast<pg_atomic_uint64 *>(&db->marked_token);
	return static_cast<int64>(pg_atomic_read_u64(mark)) >= next_token_at_most() + lead;
}

static void
wait_until_durable()
{
	XLogFlush(XactLastRecEnd);
	with_interrupts_held([] { SyncRepWaitForLSN(XactLastRecEnd, false); });
}

void
advance_token_mark(int64 lead, bool wait)
{
	static constexpr int64 kAhead = 60 * USECS_PER_SEC;
	const Tables &t = tables();
	Oid sequence = t.token_mark;
	Database *db = t.database;
	/* One at a time, or the mark could go back; not to the end of the transaction. */
	if (wait)
		LockRelationOid(sequence, ShareUpdateExclusiveLock);
	else if (!ConditionalLockRelationOid(sequence, ShareUpdateExclusiveLock))
		return;
	if (!token_mark_is_ahead(db, lead))
	{
		int64 next = next_token_at_most() + kAhead;
		const SpiArgument mark[] = {{INT8OID, Int64GetDatum(next), false}};
		as_owner([&] { spi_execute("SELECT pg_catalog.setval('pgq_ext.token_mark', $1)", mark); });
		wait_until_durable();
		pg_atomic_write_u64(&db->marked_token, next);
	}
	UnlockRelationOid(sequence, ShareUpdateExclusiveLock);
}

} // namespace pgq
