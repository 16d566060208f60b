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

/* Lower bound of all tokens. Tokens are clock times; this bound is a time in January 2020. */
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

/*
 * Return the value of the column "slot" to write. While the SQL objects are those of version 0.1,
 * write the form of that version: the library of version 0.1, which knows only the plain slot, may
 * be installed again.
 */
static int64
column_to_write(int32 slot, int64 token)
{
	return look_at_version() == Served::kBefore ? int64{slot} : slot_column(slot, token);
}

/* ---- rows ---- */

/*
 * Execute a statement that writes a row. Returns whether a row was written. The statement finds the
 * row by the index, even if the statistics favour a sequential scan: the table has few live rows,
 * but may have many dead rows.
 */
template <int n>
static bool
write(const char *sql, const SpiArgument (&arguments)[n])
{
	bool written = false;
	as_owner([&] {
		find_by_index();
		written = spi_execute(sql, arguments) > 0;
	});
	/* Make the change visible to later commands of this statement, and make the commit durable. */
	CommandCounterIncrement();
	ForceSyncCommit();
	return written;
}

/* Return whether the lock has a row with from <= "slot" < end. */
static bool
has_row_between(const LockKey &key, int64 from, int64 end)
{
	Relation rel = table_open(look_at_tables().held_lock(), RowExclusiveLock);
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
	/*
	 * Use SnapshotSelf, which takes no predicate locks. So sessions that take different locks cause
	 * each other no serialization failures.
	 */
	Oid index = primary_key_of(rel);
	SysScanDesc scan =
		systable_beginscan(rel, index, OidIsValid(index), SnapshotSelf, lengthof(keys), keys);
	bool found = HeapTupleIsValid(systable_getnext(scan));
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
	"AND bucket OPERATOR(pg_catalog.=) $3 AND slot OPERATOR(pg_catalog.>=) $4 "  \
	"AND slot OPERATOR(pg_catalog.<=) $5 AND token OPERATOR(pg_catalog.=) $6"

/*
 * Call `attempt` with each range of values that the column "slot" of the row may have, until the
 * row is found. First try the form that is written now, then the form of version 0.1, then any
 * token: a user's SQL may have written the row.
 */
template <typename Attempt>
static bool
try_columns(int32 slot, int64 token, Attempt attempt)
{
	int64 exact = slot_column(slot, token);
	return attempt(exact, exact) || attempt(slot, slot) ||
		   attempt(slot_column(slot, kLeastToken), slot_column(slot, kTokenMask - 1));
}

/*
 * Store the new end of the lock. After a restart the lock is held for at most the ttl in the row.
 * So the stored ttl must cover the whole time that is left, which may be longer than the new ttl.
 */
bool
extend_lock_row(const LockKey &key, int32 slot, int64 token, int64 ttl)
{
	static constexpr char kExtend[] =
		"UPDATE pgq_ext.held_lock SET ttl = $7 OPERATOR(pg_catalog.+) GREATEST(0, "
		"(EXTRACT(epoch FROM expires_at OPERATOR(pg_catalog.-) $8) "
		"OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8), "
		"expires_at = GREATEST(expires_at, $8) " THE_ROW;
	return try_columns(slot, token, [&](int64 from, int64 to) {
		const SpiArgument arguments[] = {
			words(key.name), number(key.period), number(key.bucket), number(from),
			number(to),		 number(token),		 number(ttl),		 moment(wall_now() + ttl)};
		return write(kExtend, arguments);
	});
}

bool
delete_lock_row(const LockKey &key, int32 slot, int64 token)
{
	return try_columns(slot, token, [&](int64 from, int64 to) {
		const SpiArgument arguments[] = {words(key.name), number(key.period), number(key.bucket),
										 number(from),	  number(to),		  number(token)};
		return write("DELETE FROM pgq_ext.held_lock " THE_ROW, arguments);
	});
}

} // namespace pgq
