#include "ring/records.h"

#include "catalog/lock_order.h"
#include "catalog/owner_sql.h"
#include "catalog/queue_lock.h"
#include "pg/stop_point.h"
#include "ring/segment.h"
#include "rows/deleted_member.h"

namespace pgq {

/* Return an SQL condition for rows that their queue still keeps at the time $3. */
static const char *
still_kept(const RingSpec &ring)
{
	return psprintf("AND NOT EXISTS (SELECT FROM pgq_ext.queue q "
					"WHERE q.queue_id = r.queue_id AND r.%s <= $3 - q.%s)",
					ring.columns[ring.born - 1].name, ring.keep);
}

/*
 * Lock the rows from *next on, at most `most`, skipping rows that are locked already. *places: set
 * to an array of the rows' ctids. *next advances behind the last row. Returns the number of rows.
 */
static int
lock_rows(const Segment &segment, TimestampTz clock, Position *next, int most, Datum *places)
{
	RingName ring = ring_of(segment.number);
	bool by_time = is_truncated_by_time(ring) && clock != 0;
	ItemPointerData from;
	ItemPointerSet(&from, next->block, next->offset);
	const SpiArgument arguments[] = {{TIDOID, PointerGetDatum(&from), false},
									 {INT4OID, Int32GetDatum(most), false},
									 {TIMESTAMPTZOID, TimestampTzGetDatum(clock), false}};
	spi_execute(psprintf("SELECT count(*)::int4, array_agg(ctid), max(ctid) "
						 "FROM (SELECT ctid FROM ONLY pgq_ext.%s r WHERE ctid >= $1 %s LIMIT $2 "
						 "FOR UPDATE SKIP LOCKED) locked",
						 quote_identifier(get_rel_name(segment.heap)),
						 by_time ? still_kept(rings[ring]) : ""),
				arguments);
	int n = DatumGetInt32(spi_value(0, 1, INT4OID));
	if (n == 0)
		return 0;
	*places = spi_value(0, 2, TIDARRAYOID);
	auto *last = reinterpret_cast<ItemPointer>(DatumGetPointer(spi_value(0, 3, TIDOID)));
	*next = {ItemPointerGetBlockNumber(last), OffsetNumberNext(ItemPointerGetOffsetNumber(last))};
	return n;
}

/*
 * Lock the next rows, and move the locked rows by an UPDATE that names their ctids. The caller has
 * locked the extension's tables.
 */
bool
move_records(const Segment &from, const Segment &to, TimestampTz clock, Position *next, int most,
			 int *moved)
{
	const Tables &t = look_at_tables();
	RingName ring = ring_of(from.number);
	*moved = 0;
	if (!ConditionalLockRelationOid(t.ring[ring], RowExclusiveLock) ||
		!lock_with_indexes(t.queue, AccessShareLock) ||
		!lock_queue(0, QueueLock::kMoves, ExclusiveLock, false))
		return true;
	bool at_end = false;
	/*
	 * The update changes the column `segment`, so the server moves the rows to the other partition.
	 */
	read_few_rows();
	as_owner([&] {
		Datum places;
		int n = lock_rows(from, clock, next, most, &places);
		at_end = n < most;
		if (n == 0)
			return;
		const SpiArgument arguments[] = {
			{INT2OID, Int16GetDatum(static_cast<int16>(from.number)), false},
			{INT2OID, Int16GetDatum(static_cast<int16>(to.number)), false},
			{TIDARRAYOID, places, false}};
		const char *sql = psprintf("UPDATE pgq_ext.%s SET segment = $2 "
								   "WHERE segment = $1 AND ctid = ANY ($3)",
								   rings[ring].table);
		with_deed(Deed::kRecords, [&] { *moved = static_cast<int>(spi_execute(sql, arguments)); });
	});
	stop_point("rotation-dead-moved");
	return at_end;
}

/*
 * Of the rows of the segment, delete at most `most` that are past the time for which their queue
 * keeps them, in one statement.
 */
static int
delete_expired(const RingSpec &ring, const Segment &segment, TimestampTz now, int most)
{
	const SpiArgument arguments[] = {{TIMESTAMPTZOID, TimestampTzGetDatum(now), false},
									 {INT4OID, Int32GetDatum(most), false}};
	const char *name = quote_identifier(get_rel_name(segment.heap));
	const char *born = ring.columns[ring.born - 1].name;
	const char *sql = psprintf("DELETE FROM ONLY pgq_ext.%s WHERE ctid = ANY (ARRAY("
							   "SELECT e.ctid FROM pgq_ext.queue q CROSS JOIN LATERAL ("
							   "SELECT d.ctid FROM ONLY pgq_ext.%s d WHERE d.queue_id = q.queue_id "
							   "AND d.%s <= $1 - q.%s ORDER BY d.%s LIMIT $2 "
							   "FOR UPDATE SKIP LOCKED) e "
							   "LIMIT $2))",
							   name, name, born, ring.keep, born);
	int expired = 0;
	as_owner([&] {
		with_deed(Deed::kRecords, [&] { expired = static_cast<int>(spi_execute(sql, arguments)); });
	});
	return expired;
}

int
expire_records(const Segment &segment, TimestampTz now, int most)
{
	const RingSpec &ring = rings[ring_of(segment.number)];
	const Tables &t = look_at_tables();
	if (ring.keep == nullptr || is_truncated_by_time(ring_of(segment.number)) || is_bare(segment) ||
		!lock_with_indexes(t.queue, AccessShareLock) || !lock_notes(t) ||
		!lock_for_writing(segment))
		return 0;
	read_few_rows();
	return delete_expired(ring, segment, now, most);
}

} // namespace pgq
