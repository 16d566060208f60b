#include "catalog/handler_row.h"

#include "catalog/owner_sql.h"
#include "catalog/token_key.h"
#include "catalog/values.h"
#include "pg/survive.h"

namespace pgq {

int64
stamp()
{
	const TokenKey key = read_token_key(look_at_tables().token_key());
	uint64 hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(&key), sizeof(key),
									  MyDatabaseId);
	return static_cast<int64>(hash >> 1);
}

/* Columns of the query in the order of HandlerRow, without set_at. */
#define PGQ_HANDLER_COLUMNS                                                         \
	"queue_id, function, schema_name, function_name, function_owner, takes_array, " \
	"workers, timeout, batch, idle, run_as, run_as_name, superuser, paused, stamp, server"

static void
copy_name(NameData *name, int row, int column)
{
	namestrcpy(name, TextDatumGetCString(spi_value(row, column, TEXTOID)));
}

/*
 * Raise an error if a number is not what pgq_set_handler accepts. The table has constraints for
 * that, but they may have been dropped.
 */
static void
check_numbers(const HandlerRow &row)
{
	static constexpr int64 kDay = 24 * 60 * USECS_PER_MINUTE;
	bool valid = row.workers >= 1 && row.workers <= 1000 && row.batch >= 1 && row.batch <= 10000 &&
				 row.timeout >= USECS_PER_SEC && row.timeout <= 7 * kDay && row.idle <= kDay;
	if (!valid)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("workers, timeout, batch or idle is out of range")));
}

static HandlerRow
read_handler(int i)
{
	HandlerRow row{};
	row.queue_id = DatumGetInt32(spi_value(i, 1, INT4OID));
	row.function = DatumGetObjectId(spi_value(i, 2, OIDOID));
	copy_name(&row.schema_name, i, 3);
	copy_name(&row.function_name, i, 4);
	row.function_owner = DatumGetObjectId(spi_value(i, 5, OIDOID));
	row.takes_array = DatumGetBool(spi_value(i, 6, BOOLOID));
	row.workers = DatumGetInt32(spi_value(i, 7, INT4OID));
	row.timeout = duration(spi_value(i, 8, INTERVALOID), "timeout");
	row.batch = DatumGetInt32(spi_value(i, 9, INT4OID));
	row.idle = duration(spi_value(i, 10, INTERVALOID), "idle");
	row.run_as = DatumGetObjectId(spi_value(i, 11, OIDOID));
	copy_name(&row.run_as_name, i, 12);
	row.superuser = DatumGetBool(spi_value(i, 13, BOOLOID));
	row.paused = DatumGetBool(spi_value(i, 14, BOOLOID));
	row.stamp = DatumGetInt64(spi_value(i, 15, INT8OID));
	row.server = DatumGetInt32(spi_value(i, 16, INT4OID));
	row.set_at = DatumGetTimestampTz(spi_value(i, 17, TIMESTAMPTZOID));
	check_numbers(row);
	return row;
}

/*
 * Return whether the error that was caught may be the fault of a row. Otherwise another row would
 * fail in the same way: the server lacks something, or another transaction has a lock.
 */
static bool
is_fault_of_handler_row()
{
	int category = ERRCODE_TO_CATEGORY(geterrcode());
	return geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE &&
		   category != ERRCODE_TO_CATEGORY(ERRCODE_T_R_SERIALIZATION_FAILURE) &&
		   category != ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) &&
		   category != ERRCODE_TO_CATEGORY(ERRCODE_QUERY_CANCELED) &&
		   category != ERRCODE_TO_CATEGORY(ERRCODE_SYSTEM_ERROR);
}

/*
 * Run body, which reads rows. Returns NULL, or the message of the error if a row may be the reason.
 * Other errors are raised.
 */
template <typename Body>
static const char *
fault_of_reading(Body body)
{
	const char *volatile fault = nullptr;
	(void) survives_alone([&] { as_owner(body); },
						  [&] {
							  if (!is_fault_of_handler_row())
								  PG_RE_THROW();
							  ErrorData *error = CopyErrorData();
							  fault = error->message != nullptr ? error->message : "";
						  });
	return fault;
}

/* Read the handlers of these queues one by one. A row that cannot be read is returned as broken. */
static void
read_each_handler(HandlerRow *rows, int n)
{
	for (int i = 0; i < n; i++)
	{
		const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(rows[i].queue_id), false}};
		HandlerRow row{};
		const char *fault = fault_of_reading([&] {
			if (spi_execute("SELECT " PGQ_HANDLER_COLUMNS ", set_at FROM pgq_ext.queue_handler "
							"WHERE queue_id = $1",
							arguments) > 0)
				row = read_handler(0);
		});
		row.queue_id = rows[i].queue_id;
		row.broken = fault;
		rows[i] = row;
	}
}

HandlerRow *
read_handlers(Oid role, int *n)
{
	MemoryContext context = CurrentMemoryContext;
	HandlerRow *rows = nullptr;
	const SpiArgument arguments[] = {{OIDOID, ObjectIdGetDatum(role), false}};
	*n = 0;
	if (!OidIsValid(look_at_tables().queue_handler()))
		return nullptr;
	auto read = [&](const char *sql, auto read_row) {
		auto found = static_cast<int>(spi_execute(sql, arguments));
		rows = static_cast<HandlerRow *>(
			MemoryContextAlloc(context, (found + 1) * sizeof(HandlerRow)));
		for (int i = 0; i < found; i++)
			rows[i] = read_row(i);
		*n = found;
	};
	/*
	 * Read all rows with one statement. If a row cannot be read, read the rows one by one to find
	 * it.
	 */
	const char *fault = fault_of_reading([&] {
		read("SELECT " PGQ_HANDLER_COLUMNS ", set_at FROM pgq_ext.queue_handler "
			 "WHERE $1 IN (0, run_as) ORDER BY queue_id",
			 read_handler);
	});
	if (fault == nullptr)
		return rows;
	as_owner([&] {
		read("SELECT queue_id FROM pgq_ext.queue_handler WHERE $1 IN (0, run_as) ORDER BY queue_id",
			 [](int i) {
				 HandlerRow row{};
				 row.queue_id = DatumGetInt32(spi_value(i, 1, INT4OID));
				 return row;
			 });
	});
	read_each_handler(rows, *n);
	return rows;
}

bool
lock_handler(int32 queue_id, HandlerRow *row)
{
	bool found = false;
	const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(queue_id), false}};
	as_owner([&] {
		found = spi_execute("SELECT FROM pgq_ext.queue_handler WHERE queue_id = $1 FOR UPDATE",
							arguments) > 0;
	});
	if (!found)
		return false;
	*row = {};
	row->queue_id = queue_id;
	read_each_handler(row, 1);
	return true;
}

static SpiArgument
name_argument(const NameData &name)
{
	return {TEXTOID, CStringGetTextDatum(NameStr(name)), false};
}

bool
write_handler(const HandlerRow &row, Datum timeout, Datum idle, bool known)
{
	/*
	 * The arguments have the order of PGQ_HANDLER_COLUMNS. The last argument is not stored in a
	 * column.
	 */
	const SpiArgument arguments[] = {
		{INT4OID, Int32GetDatum(row.queue_id), false},
		{OIDOID, ObjectIdGetDatum(row.function), false},
		name_argument(row.schema_name),
		name_argument(row.function_name),
		{OIDOID, ObjectIdGetDatum(row.function_owner), false},
		{BOOLOID, BoolGetDatum(row.takes_array), false},
		{INT4OID, Int32GetDatum(row.workers), false},
		{INTERVALOID, timeout, false},
		{INT4OID, Int32GetDatum(row.batch), false},
		{INTERVALOID, idle, false},
		{OIDOID, ObjectIdGetDatum(row.run_as), false},
		name_argument(row.run_as_name),
		{BOOLOID, BoolGetDatum(row.superuser), false},
		{BOOLOID, BoolGetDatum(row.paused), false},
		{INT8OID, Int64GetDatum(row.stamp), false},
		{INT4OID, Int32GetDatum(row.server), false},
		{BOOLOID, BoolGetDatum(known), false},
	};
	bool written = false;
	as_owner([&] {
		written =
			spi_execute(
				"INSERT INTO pgq_ext.queue_handler (" PGQ_HANDLER_COLUMNS ", set_at) "
				"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, "
				"now()) ON CONFLICT (queue_id) DO UPDATE SET function = EXCLUDED.function, "
				"schema_name = EXCLUDED.schema_name, function_name = EXCLUDED.function_name, "
				"function_owner = EXCLUDED.function_owner, takes_array = EXCLUDED.takes_array, "
				"workers = EXCLUDED.workers, timeout = EXCLUDED.timeout, batch = EXCLUDED.batch, "
				"idle = EXCLUDED.idle, run_as = EXCLUDED.run_as, run_as_name = "
				"EXCLUDED.run_as_name, "
				"superuser = EXCLUDED.superuser, paused = EXCLUDED.paused, stamp = EXCLUDED.stamp, "
				"server = EXCLUDED.server, set_at = EXCLUDED.set_at WHERE $17",
				arguments) > 0;
	});
	return written;
}

void
rewrite_function(const HandlerRow &row)
{
	const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(row.queue_id), false},
									 {OIDOID, ObjectIdGetDatum(row.function), false},
									 {INT4OID, Int32GetDatum(row.server), false}};
	as_owner([&] {
		(void) spi_execute("UPDATE pgq_ext.queue_handler SET function = $2, server = $3 "
						   "WHERE queue_id = $1",
						   arguments);
	});
}

void
rewrite_handler(const HandlerRow &row)
{
	const SpiArgument arguments[] = {
		{INT4OID, Int32GetDatum(row.queue_id), false},
		{OIDOID, ObjectIdGetDatum(row.function), false},
		{OIDOID, ObjectIdGetDatum(row.function_owner), false},
		{OIDOID, ObjectIdGetDatum(row.run_as), false},
		name_argument(row.run_as_name),
		{BOOLOID, BoolGetDatum(row.superuser), false},
		{INT8OID, Int64GetDatum(row.stamp), false},
		{INT4OID, Int32GetDatum(row.server), false},
	};
	as_owner([&] {
		(void) spi_execute("UPDATE pgq_ext.queue_handler SET function = $2, function_owner = $3, "
						   "run_as = $4, run_as_name = $5, superuser = $6, paused = false, "
						   "stamp = $7, server = $8, set_at = now() WHERE queue_id = $1",
						   arguments);
	});
}

bool
delete_handler(int32 queue_id)
{
	bool deleted = false;
	if (!OidIsValid(look_at_tables().queue_handler()))
		return false;
	const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(queue_id), false}};
	as_owner([&] {
		deleted =
			spi_execute("DELETE FROM pgq_ext.queue_handler WHERE queue_id = $1", arguments) > 0;
	});
	return deleted;
}

void
pause_handler(int32 queue_id, bool paused)
{
	const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(queue_id), false},
									 {BOOLOID, BoolGetDatum(paused), false}};
	as_owner([&] {
		(void) spi_execute("UPDATE pgq_ext.queue_handler SET paused = $2 "
						   "WHERE queue_id = $1 AND paused <> $2",
						   arguments);
	});
}

} // namespace pgq
