#include "sync/lock_row.h"

#include "catalog/column.h"
#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "catalog/version.h"
#include "pg/clock.h"

namespace pgq {

static SpiArgument
number(int64 value)
{
	return {INT8OID, Int64GetDatum(value), false};
}

static SpiArgument
words(const char *value)
{
	return {TEXTOID, CStringGetTextDatum(value), false};
}

static SpiArgument
moment(TimestampTz value)
{
	return {TIMESTAMPTZOID, TimestampTzGetDatum(value), false};
}

/* ---- the column "slot" ---- */

static constexpr int kTokenBits = 53;
static constexpr int64 kTokenMask = (INT64CONST(1) << kTokenBits) - 1;

/* No token is smaller: it is of January 2020. */
static constexpr int64 kLeastToken = INT64CONST(1) << 40;

int64
slot_column(int32 slot, int64 token)
{
	return (int64{slot} - 1) << kTokenBits | (token & kTokenMask);
}

int32
slot_of_column(int64 column)
{
	int64 token = column & kTokenMask;
	if (column >= 1 && column <= kSlotsMax)
		return static_cast<int32>(column);
	if (column < 0 || token < kLeastToken || token == kTokenMask)
		return 0;
	return static_cast<int32>(column >> kTokenBits) + 1;
}

/* A row that is written by hand may name a token that is not the one in its column. */
bool
is_slot_of(int64 column, int64 token)
{
	int32 slot = slot_of_column(column);
	return slot != 0 && (column <= kSlotsMax || column == slot_column(slot, token));
}

/* As long as the SQL objects are those of version 0.1, its library may be put back, which knows the plain slot only. */
static int64
column_to_write(int32 slot, int64 token)
{
	return version_is_before() ? int64{slot} : slot_column(slot, token);
}

/* ---- rows ---- */

/* By an index, whatever the statistics say of a table that has few rows and many dead ones. */
template <int n>
static bool
write(const char *sql, const SpiArgument (&arguments)[n])
{
	bool written = false;
	as_owner([&] {
		find_by_index();
		written = spi_execute(sql, arguments) > 0;
	});
	/* For what follows in the same statement. */
	CommandCounterIncrement();
	ForceSyncCommit();
	return written;
}

/* Is there a row of the lock with a column "slot" from there on, and below there? */
static bool
has_row_between(const LockKey &key, int64 from, int64 end)
{
	Relation rel = table_open(look_at_tables().held_lock, RowExclusiveLock);
	check_columns(rel, lock_columns, lengthof(lock_columns));
	ScanKeyData keys[5];
	auto equals = [](ScanKey entry, LockColumn column, RegProcedure procedure, Datum value) {
		ScanKeyInit(entry, static_cast<AttrNumber>(column), BTEqualStrategyNumber, procedure,
					value);
	};
	constexpr auto slot = static_cast<AttrNumber>(LockColumn::kSlot);
	equals(&keys[0], LockColumn::kName, F_TEXTEQ, CStringGetTextDatum(key.name));
	equals(&keys[1], LockColumn::kPeriod, F_INT8EQ, Int64GetDatum(key.period));
	equals(&keys[2], LockColumn::kBucket, F_INT8EQ, Int64GetDatum(key.bucket));
	ScanKeyInit(&keys[3], slot, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from));
	ScanKeyInit(&keys[4], slot, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(end));
	/* Not MVCC: nothing is registered for serializable transactions, for which others who take locks would be in the way. */
	Oid index = primary_key_of(rel);
	SysScanDesc scan =
		systable_beginscan(rel, index, OidIsValid(index), SnapshotSelf, lengthof(keys), keys);
	bool found = false;
	for (HeapTuple row; !found && HeapTupleIsValid(row = systable_getnext(scan));)
	{
		auto value = [&](LockColumn column) {
			bool is_null;
			return DatumGetInt64(heap_getattr(row, static_cast<AttrNumber>(column),
											  RelationGetDescr(rel), &is_null));
		};
		found = is_slot_of(value(LockColumn::kSlot), value(LockColumn::kToken));
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
	return found;
}

bool
write_lock_row(const LockKey &key, int32 slot, const Grant &grant, int64 before, int64 floor)
{
	static constexpr char kWrite[] =
		"INSERT INTO pgq_ext.held_lock (name, period, bucket, slot, slots, token, owner, ttl, "
		"acquired_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) "
		"ON CONFLICT DO NOTHING";
	const SpiArgument arguments[] = {
		words(key.name),		   number(key.period),
		number(key.bucket),		   number(column_to_write(slot, grant.token)),
		number(grant.slots),	   number(grant.token),
		words(grant.owner),		   number(grant.ttl),
		moment(grant.acquired_at), moment(wall_now() + grant.ttl)};
	if (before != 0)
		(void) delete_lock_row(key, slot, before);
	if (has_row_between(key, slot, slot + 1) ||
		has_row_between(key, slot_column(slot, Max(floor, kLeastToken)),
						slot_column(slot, kTokenMask)))
		return false;
	return write(kWrite, arguments);
}

#define THE_ROW                                                                  \
	"WHERE name OPERATOR(pg_catalog.=) $1 AND period OPERATOR(pg_catalog.=) $2 " \
	"AND bucket OPERATOR(pg_catalog.=) $3 AND slot OPERATOR(pg_catalog.=) $4 "   \
	"AND token OPERATOR(pg_catalog.=) $5"

/* After a start it is held for at most ttl: so that is never less than what is left, should that be more than it is extended by. */
bool
extend_lock_row(const LockKey &key, int32 slot, int64 token, int64 ttl)
{
	static constexpr char kExtend[] =
		"UPDATE pgq_ext.held_lock SET ttl = $6 OPERATOR(pg_catalog.+) GREATEST(0, "
		"(EXTRACT(epoch FROM expires_at OPERATOR(pg_catalog.-) $7) "
		"OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8), "
		"expires_at = GREATEST(expires_at, $7) " THE_ROW;
	/* Version 0.1 wrote the slot alone. */
	for (int64 column : {slot_column(slot, token), int64{slot}})
	{
		const SpiArgument arguments[] = {
			words(key.name), number(key.period), number(key.bucket),	  number(column),
			number(token),	 number(ttl),		 moment(wall_now() + ttl)};
		if (write(kExtend, arguments))
			return true;
	}
	return false;
}

bool
delete_lock_row(const LockKey &key, int32 slot, int64 token)
{
	for (int64 column : {slot_column(slot, token), int64{slot}})
	{
		const SpiArgument arguments[] = {words(key.name), number(key.period), number(key.bucket),
										 number(column), number(token)};
		if (write("DELETE FROM pgq_ext.held_lock " THE_ROW, arguments))
			return true;
	}
	return false;
}

} // namespace pgq
