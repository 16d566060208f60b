/*
 * Checks of SQL statements that write pgq_ext.queue, or the queue_id of jobs, directly: such
 * statements must follow the same rules as the functions. Rows of logical replication are not
 * checked: with session_replication_role = replica, these triggers do not fire. Rows of a restore
 * are not checked either, since a restore loads jobs before their queues. A restore is recognized
 * by check_function_bodies = off, which every output of pg_dump sets.
 */
#include "api/by_hand.h"

#include "admin/privileges.h"
#include "admin/queue_admin.h"
#include "api/trigger_data.h"
#include "catalog/option_value.h"
#include "catalog/owner_sql.h"
#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "catalog/tables.h"
#include "catalog/topic_table.h"
#include "catalog/values.h"
#include "catalog/version.h"
#include "load/attach.h"
#include "pg/scope.h"
#include "pg/virtual_xid.h"
#include "steps/end_row.h"
#include "txn/effects.h"

namespace pgq {

bool
is_believed()
{
	return !check_function_bodies || SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

/* ---- options ---- */

static void
check_options(const TriggerData *data, HeapTuple row)
{
	Datum value;
	QueueOptions together{};
	if (value_of(data, row, "queue", TEXTOID, &value))
		(void) queue_name(value);
	for (const QueueOption &option : queue_options)
		if (value_of(data, row, option.name, type_of(option.kind), &value))
		{
			check_option(option, value);
			set_option(&together, option, value);
		}
	check_together(together);
}

static void
refuse_new_id(const TriggerData *data)
{
	Datum before;
	Datum after;
	if (value_of(data, data->tg_trigtuple, "queue_id", INT4OID, &before) &&
		value_of(data, data->tg_newtuple, "queue_id", INT4OID, &after) &&
		DatumGetInt32(before) != DatumGetInt32(after))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("queue_id cannot be changed"),
				 errdetail("The rows of the queue's jobs refer to the queue by its queue_id.")));
}

/* ---- deleted and renamed queues ---- */

/*
 * Return whether shared memory exists, and this library supports the installed version of the SQL
 * objects. Only then does a change of a queue's row also have to change the slot of the queue.
 */
static bool
is_usable()
{
	return shared != nullptr && version_served();
}

/*
 * Do what pgq_rename_queue() does, but leave the row of the queue to the statement that has fired
 * the trigger.
 */
static void
rename_by_hand(const TriggerData *data)
{
	Datum id;
	Datum before;
	Datum after;
	if (!is_usable() || !value_of(data, data->tg_trigtuple, "queue_id", INT4OID, &id) ||
		!value_of(data, data->tg_trigtuple, "queue", TEXTOID, &before) ||
		!value_of(data, data->tg_newtuple, "queue", TEXTOID, &after))
		return;
	char *old_name = TextDatumGetCString(before);
	char *name = TextDatumGetCString(after);
	if (strcmp(old_name, name) != 0)
		note_new_name(DatumGetInt32(id), old_name, name);
}

static bool
is_dropped_by_us(const QueueRef &ref)
{
	return is_me(dropper_of(ref));
}

/*
 * Return the number of the column queue_id; InvalidAttrNumber if the table has no such column of
 * type integer.
 */
static AttrNumber
number_of_queue_id(Oid relid)
{
	AttrNumber number = get_attnum(relid, "queue_id");
	return number > 0 && get_atttype(relid, number) == INT4OID ? number : InvalidAttrNumber;
}

/*
 * Return whether the table has a row of that queue. If queue_id is nullptr, or the table has no
 * column queue_id, return whether the table has any row.
 */
static bool
has_row(Oid relid, const int32 *queue_id)
{
	ScanKeyData key;
	AttrNumber column = number_of_queue_id(relid);
	bool by_id = queue_id != nullptr && column != InvalidAttrNumber;
	if (by_id)
		ScanKeyInit(&key, column, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(*queue_id));
	Relation rel = table_open(relid, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = begin_table_scan(rel, snapshot, by_id ? 1 : 0, &key);
	bool found = heap_getnext(scan, ForwardScanDirection) != nullptr;
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return found;
}

static void
refuse_to_strand_jobs(const int32 *queue_id, const char *hint)
{
	Oid schema = get_namespace_oid("pgq_ext", true);
	for (const RingSpec &ring : rings)
	{
		Oid relid = get_relname_relid(ring.table, schema);
		List *segments =
			OidIsValid(relid) ? find_inheritance_children(relid, AccessShareLock) : NIL;
		ListCell *cell;
		foreach (cell, segments)
			if (has_row(lfirst_oid(cell), queue_id))
				ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
								errmsg("cannot remove a queue that has jobs or records of jobs"),
								errhint("%s", hint)));
	}
}

/*
 * Do what pgq_drop_queue() without force does, but leave the row of the queue to the statement that
 * has fired the trigger.
 */
static void
drop_by_hand(const TriggerData *data)
{
	static constexpr char kHint[] = "Use pgq_drop_queue with force => true.";
	Datum id;
	Datum name;
	QueueRef ref;
	if (!value_of(data, data->tg_trigtuple, "queue_id", INT4OID, &id) ||
		!value_of(data, data->tg_trigtuple, "queue", TEXTOID, &name))
		return;
	int32 queue_id = DatumGetInt32(id);
	if (is_usable() && find_attached_queue(tables().database, queue_id, &ref) &&
		is_dropped_by_us(ref))
		return;
	char *queue = text_to_cstring(DatumGetTextPP(name));
	if (is_usable() && find_queue(tables(), queue, &ref) && ref.queue_id == queue_id)
	{
		close_empty_queue(ref, queue, kHint);
		as_owner([&] { end_all_rows(queue_id); });
		drop_settings(queue_id);
	}
	else
		refuse_to_strand_jobs(&queue_id, kHint);
}

/*
 * Drop the settings of all queues, also of queues without a slot in shared memory. After TRUNCATE
 * with RESTART IDENTITY, a new queue may get the id of an earlier one.
 */
static void
drop_all_settings()
{
	if (!OidIsValid(look_at_tables().queue_handler()) ||
		!OidIsValid(find_topic_table(TopicTable::kBinding)))
		return;
	List *ids = NIL;
	MemoryContext context = CurrentMemoryContext;
	as_owner([&] {
		uint64 n = spi_execute("SELECT queue_id FROM pgq_ext.queue_handler "
							   "UNION SELECT queue_id FROM pgq_ext.topic_binding "
							   "UNION SELECT pg_catalog.substr(relname, 8)::int4 "
							   "FROM pg_catalog.pg_class "
							   "WHERE relnamespace = 'pgq_ext'::regnamespace AND relkind = 'v' "
							   "AND relname ~ '^rights_[0-9]{1,9}$'",
							   nullptr, 0);
		MemoryContext own = MemoryContextSwitchTo(context);
		for (uint64 i = 0; i < n; i++)
			ids = lappend_int(ids, DatumGetInt32(spi_value(static_cast<int>(i), 1, INT4OID)));
		MemoryContextSwitchTo(own);
	});
	ListCell *cell;
	foreach (cell, ids)
		drop_settings(lfirst_int(cell));
}

static void
drop_all_by_hand()
{
	if (is_usable())
		for_each_queue(tables().database, close_queue);
	refuse_to_strand_jobs(nullptr, "TRUNCATE pgq_ext.job, pgq_ext.dead_job, pgq_ext.attempt and "
								   "pgq_ext.finished_job with it, or use pgq_drop_queue.");
	if (is_usable())
		drop_all_settings();
}

/* ---- queue of a job ---- */

/*
 * Return whether pgq_ext.queue has a row with that queue_id. Also returns true if the table or its
 * column queue_id is missing. Works without shared memory, and with any version of the SQL objects.
 */
static bool
has_queue_row(int32 queue_id)
{
	Oid relid = get_relname_relid("queue", get_namespace_oid("pgq_ext", true));
	AttrNumber column = OidIsValid(relid) ? number_of_queue_id(relid) : InvalidAttrNumber;
	if (column == InvalidAttrNumber)
		return true;
	Relation rel = table_open(relid, AccessShareLock);
	Oid key = primary_key_of(rel);
	ScanKeyData wanted;
	ScanKeyInit(&wanted, column, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, key, OidIsValid(key), snapshot, 1, &wanted);
	bool found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * Return whether the queue has a slot and a row, and this transaction has not dropped the queue. A
 * new slot may belong to a queue whose drop has just been committed, so look for the row once for
 * each slot (protocol: attach-then-look). After that look, a slot in use proves that the queue
 * exists: only a drop frees the slot, and a drop needs the lock that the caller has.
 */
static bool
is_served(int32 queue_id)
{
	static constinit QueueRef seen = {};
	QueueRef ref;
	const Tables *t = tables_if_attached();
	if (t == nullptr || !find_attached_queue(t->database, queue_id, &ref) || is_dropped_by_us(ref))
		return false;
	bool is_seen = seen.queue == ref.queue && seen.generation == ref.generation;
	if (!is_seen && !has_queue_row(queue_id))
		return false;
	seen = ref;
	return true;
}

void
check_queue_of_job(Relation segment, int32 queue_id)
{
	/*
	 * A session that has locked the segment exclusively skips is_served(), which may lock the other
	 * segments: pgq_job_changed() in trigger.cpp says why such a session must not do that. The lock
	 * of the segment keeps the queue from being dropped, so a row of the queue proves that the
	 * queue exists.
	 */
	bool alone = CheckRelationLockedByMe(segment, AccessExclusiveLock, true);
	if (is_believed() || (!alone && is_served(queue_id)) || has_queue_row(queue_id))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
			 errmsg("queue with queue_id %d does not exist", queue_id),
			 errhint("See pgq_ext.queue for the existing queues. Use pgq_enqueue for new jobs.")));
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_queue_changed);

/*
 * Trigger of pgq_ext.queue. Fires before each INSERT, UPDATE and DELETE of a row, and after
 * TRUNCATE.
 */
PGDLLEXPORT Datum
pgq_queue_changed(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "queue_changed");
	TriggerEvent event = data->tg_event;
	HeapTuple row = row_of(data);
	if (!is_believed() && TRIGGER_FIRED_BY_TRUNCATE(event))
		drop_all_by_hand();
	else if (!is_believed() && TRIGGER_FIRED_FOR_ROW(event) && TRIGGER_FIRED_BY_DELETE(event))
		drop_by_hand(data);
	else if (!is_believed() && TRIGGER_FIRED_FOR_ROW(event))
	{
		Datum name;
		check_options(data, row);
		/*
		 * Lock the name as pgq_create_queue() does. A call of that function then waits for this
		 * transaction.
		 */
		if (!TRIGGER_FIRED_BY_UPDATE(event) && is_usable() &&
			value_of(data, row, "queue", TEXTOID, &name))
			lock_name(TextDatumGetCString(name));
		if (TRIGGER_FIRED_BY_UPDATE(event))
		{
			refuse_new_id(data);
			rename_by_hand(data);
		}
	}
	return PointerGetDatum(row);
}
}
