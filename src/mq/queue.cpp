#include "mq/queue.h"

#include "catalog/column.h"
#include "catalog/queue_row.h"
#include "load/attach.h"
#include "pg/scope.h"

#include <algorithm>

namespace pgq {

namespace {
/* Columns of pgmq.queue_slot. */
enum SlotColumn : AttrNumber
{
	kSlotView = 1,
	kSlotSlot,
	kSlotQueueId,
	kSlotSequence,
	kSlotColumns = kSlotSequence,
};

/* A queue that this session has found before. The slot of a view never changes. */
struct KnownQueue
{
	Oid view; /* key of the hash table */
	int32 slot;
	int32 queue_id;
	Oid sequence;
};

} // namespace
static constexpr Column slot_columns[kSlotColumns] = {
	{"view", REGCLASSOID, kOrNull},
	{"slot", INT4OID, kOrNull},
	{"queue_id", INT4OID, kOrNull},
	{"sequence", REGCLASSOID, kOrNull},
};

static constinit HTAB *known_queues = nullptr;
/* The view of each slot that this session has read. A view may have been dropped since then. */
static constinit Oid view_of_slot[kMessageSlots + 1] = {};

static HTAB *
queues_of_session()
{
	if (known_queues == nullptr)
	{
		HASHCTL info{};
		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(KnownQueue);
		known_queues = hash_create("pgmq queues", 32, &info, HASH_ELEM | HASH_BLOBS);
	}
	return known_queues;
}

/* Read all rows of the table, and remember them. */
static void
read_slots(Oid schema)
{
	Oid table = get_relname_relid("queue_slot", schema);
	if (!OidIsValid(table))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("table \"queue_slot\" of extension \"pgmq\" does not exist")));
	/* Lock the table and check its columns; then read its rows, also rows of this transaction. */
	Relation rel = table_open(table, AccessShareLock);
	check_columns(rel, slot_columns, kSlotColumns);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, nullptr);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool is_null[kSlotColumns];
		auto value = [&](SlotColumn column) {
			return heap_getattr(tuple, column, RelationGetDescr(rel), &is_null[column - 1]);
		};
		Oid view = DatumGetObjectId(value(kSlotView));
		int32 slot = DatumGetInt32(value(kSlotSlot));
		int32 queue_id = DatumGetInt32(value(kSlotQueueId));
		Oid sequence = DatumGetObjectId(value(kSlotSequence));
		if (is_null[0] || is_null[1] || is_null[2] || is_null[3] || slot < 1 ||
			slot > kMessageSlots)
			continue;
		bool found;
		auto *known =
			static_cast<KnownQueue *>(hash_search(queues_of_session(), &view, HASH_ENTER, &found));
		known->slot = slot;
		known->queue_id = queue_id;
		known->sequence = sequence;
		view_of_slot[slot] = view;
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
}

static const KnownQueue *
known_queue(Oid view)
{
	return static_cast<KnownQueue *>(hash_search(queues_of_session(), &view, HASH_FIND, nullptr));
}

/* Return whether the text is of ASCII characters that every locale has in lower case. */
static bool
is_lower(const char *text)
{
	return std::all_of(text, text + strlen(text),
					   [](char c) { return (c & 0x80) == 0 && (c < 'A' || c > 'Z'); });
}

/*
 * Return the name of the view in lower case, cut as the parser cuts identifiers. Raises P0001 for the
 * names that pgmq.format_table_name() refuses.
 */
static char *
view_name(const text *name)
{
	char *joined = psprintf("q_%s", text_to_cstring(name));
	if (strpbrk(joined, "$;'") != nullptr || strstr(joined, "--") != nullptr)
		ereport(ERROR, (errcode(ERRCODE_RAISE_EXCEPTION),
						errmsg("queue name contains invalid characters: $, ;, --, or \\'")));
	char *lower =
		is_lower(joined) ? joined : str_tolower(joined, strlen(joined), DEFAULT_COLLATION_OID);
	truncate_identifier(lower, static_cast<int>(strlen(lower)), false);
	return lower;
}

MessageQueue
message_queue_of(Oid schema, Oid view)
{
	MessageQueue queue{};
	const KnownQueue *known = known_queue(view);
	if (known == nullptr)
	{
		read_slots(schema);
		known = known_queue(view);
	}
	queue.view = view;
	if (known == nullptr)
	{
		char *name = get_rel_name(view);
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("relation \"%s\" is not a queue", name != nullptr ? name : "?"),
						errhint("A table that the original pgmq has left becomes a queue by "
								"pgmq.adopt().")));
	}
	queue.slot = known->slot;
	queue.queue_id = known->queue_id;
	queue.sequence = known->sequence;
	return queue;
}

/* Return the view of the queue with that name. */
static Oid
view_named(Oid schema, const char *name)
{
	Oid view = get_relname_relid(name, schema);
	if (!OidIsValid(view))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s.%s\" does not exist", get_namespace_name(schema), name),
				 errhint("Create the queue with pgmq.create().")));
	return view;
}

MessageQueue
find_message_queue(Oid schema, const text *name, AclMode needed)
{
	char *view_of_name = view_name(name);
	Oid view = view_named(schema, view_of_name);
	/* Every bit is needed. */
	if ((pg_class_aclmask(view, GetUserId(), needed, ACLMASK_ALL) & needed) != needed)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_VIEW, view_of_name);
	return message_queue_of(schema, view);
}

MessageQueue
find_readable_queue(Oid schema, const text *name)
{
	char *view_of_name = view_name(name);
	Oid view = view_named(schema, view_of_name);
	if (!may_read_column(view, nullptr))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_VIEW, view_of_name);
	return message_queue_of(schema, view);
}

QueueRef
jobs_of(const MessageQueue &queue)
{
	QueueRef ref;
	if (!attach_queue_by_id(tables(), queue.queue_id, &ref))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the queue of pgq_ext behind \"%s\" was dropped", get_rel_name(queue.view)),
				 errhint("Drop the queue with pgmq.drop_queue(), and create it again.")));
	return ref;
}

Oid
view_of_message(Oid schema, int64 job_id)
{
	int64 slot = job_id / kMessageIds;
	if (slot < 1 || slot > kMessageSlots)
		return InvalidOid;
	Oid *view = &view_of_slot[slot];
	if (!OidIsValid(*view) || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(*view)))
		read_slots(schema);
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(*view)) ? *view : InvalidOid;
}

bool
may_read_column(Oid view, const char *column)
{
	if (pg_class_aclcheck(view, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
		return true;
	if (column == nullptr)
		return pg_attribute_aclcheck_all(view, GetUserId(), ACL_SELECT, ACLMASK_ANY) == ACLCHECK_OK;
	AttrNumber number = get_attnum(view, column);
	return number > 0 &&
		   pg_attribute_aclcheck(view, number, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

} // namespace pgq
