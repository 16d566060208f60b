/*
 * Notifications of inserts into queues of pgmq. The table pgmq.notify_insert_throttle has the queues for
 * which pgmq.enable_notify_insert() was called.
 */
#include "api/message_args.h"
#include "catalog/column.h"
#include "catalog/owner_sql.h"
#include "pg/clock.h"
#include "pg/scope.h"

namespace pgq {

namespace {
/* Columns of pgmq.notify_insert_throttle. */
enum ThrottleColumn : AttrNumber
{
	kThrottleQueue = 1,
	kThrottleInterval, /* milliseconds */
	kThrottleLast,
	kThrottleColumns = kThrottleLast,
};

} // namespace
static constexpr Column throttle_columns[kThrottleColumns] = {
	{"queue_name", VARCHAROID, kOrNull},
	{"throttle_interval_ms", INT4OID, kOrNull},
	{"last_notified_at", TIMESTAMPTZOID, kOrNull},
};

/* Return whether a row is about the queue with that view, and the time of its next notification has come. */
static bool
asks_for_notification(HeapTuple tuple, TupleDesc desc, const char *view)
{
	bool is_null[kThrottleColumns];
	Datum queue = heap_getattr(tuple, kThrottleQueue, desc, &is_null[0]);
	Datum interval = heap_getattr(tuple, kThrottleInterval, desc, &is_null[1]);
	Datum last = heap_getattr(tuple, kThrottleLast, desc, &is_null[2]);
	if (is_null[0] || is_null[1] || is_null[2])
		return false;
	char *name = TextDatumGetCString(queue);
	return strcmp(str_tolower(name, strlen(name), DEFAULT_COLLATION_OID), view + strlen("q_")) ==
			   0 &&
		   DatumGetTimestampTz(last) + DatumGetInt32(interval) * INT64CONST(1000) <= wall_now();
}

static bool
is_notification_due(Relation rel, const char *view)
{
	bool due = false;
	HeapTuple tuple;
	check_columns(rel, throttle_columns, kThrottleColumns);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, nullptr);
	while (!due && HeapTupleIsValid(tuple = systable_getnext(scan)))
		due = asks_for_notification(tuple, RelationGetDescr(rel), view);
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	return due;
}

/*
 * In most databases the table of throttles is empty; the size of its file shows this without a scan. Most
 * inserts need no notification, so look before as_owner(), which lets the server forget all plans of the
 * session. pgmq._notify() looks again, with the row locked.
 */
void
notify_of_insert(FunctionCallInfo fcinfo, const MessageQueue &queue)
{
	Oid schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	Oid table = get_relname_relid("notify_insert_throttle", schema);
	char *name = get_rel_name(queue.view);
	if (!OidIsValid(table) || name == nullptr)
		return;
	Relation rel = table_open(table, AccessShareLock);
	bool due = RelationGetNumberOfBlocks(rel) > 0 && is_notification_due(rel, name);
	table_close(rel, NoLock);
	if (!due)
		return;
	const SpiArgument view[] = {{OIDOID, ObjectIdGetDatum(queue.view), false}};
	char *call = psprintf("SELECT %s._notify($1)", quote_identifier(get_namespace_name(schema)));
	as_owner([&] { (void) spi_execute(call, view); });
}

} // namespace pgq
