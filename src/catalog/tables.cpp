#include "catalog/tables.h"

#include "pg/scope.h"
#include "load/saved_lease.h"
#include "catalog/owner_sql.h"
#include "catalog/token_key.h"
#include "catalog/token_mark.h"
#include "catalog/version.h"
#include "txn/effects.h"

namespace pgq {

static constexpr const char *kTriggers[] = {"job_changed", "job_fence"};

static constinit Tables known = {};
static constinit bool valid = false;
static constinit bool looking = false; /* any change may matter */
static constinit bool callbacks_registered = false;

/* ---- what makes us look again ---- */

static bool
is_known(Oid relid)
{
	if (relid == InvalidOid || relid == known.queue || relid == known.job ||
		relid == known.dead_job || relid == known.token_mark || relid == known.token_key ||
		relid == known.saved_lease)
		return true;
	for (int i = 0; i < known.all_segments; i++)
		if (relid == known.segment[i].heap)
			return true;
	return false;
}

static void
at_relcache_invalidation(Datum, Oid relid)
{
	if (looking || is_known(relid))
		valid = false;
}

static void
at_subscription_change(Datum, int, uint32)
{
	valid = false;
}

static void
register_callbacks()
{
	if (callbacks_registered)
		return;
	CacheRegisterRelcacheCallback(at_relcache_invalidation, 0);
	CacheRegisterSyscacheCallback(SUBSCRIPTIONRELMAP, at_subscription_change, 0);
	callbacks_registered = true;
}

/* ---- the tables ---- */

/* A field of its row in pg_class; invalid if there is none. */
static Oid
class_field(Oid relid, Oid FormData_pg_class::*field)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	Oid value = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->*field;
	ReleaseSysCache(tuple);
	return value;
}

static Oid
owner_of(Oid relid)
{
	return class_field(relid, &FormData_pg_class::relowner);
}

[[noreturn]] static void
complain_missing(const char *name)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("relation \"pgq_ext.%s\" is missing", name),
					errhint("The SQL objects do not belong to this version of the library. "
							"Run ALTER EXTENSION pgq_ext UPDATE, or create the extension again.")));
}

static Oid
need(const char *name, Oid schema, char kind)
{
	Oid oid = get_relname_relid(name, schema);
	if (!OidIsValid(oid) || get_rel_relkind(oid) != kind)
		complain_missing(name);
	return oid;
}

static constexpr AttrNumber queue_by_name[] = {2, 0}; /* kQueueName */

/* The index of that name, if it is one of ours: a btree on these columns of the table. */
static Oid
find_index(const char *name, Oid schema, Oid heap, const AttrNumber *columns)
{
	Oid oid = get_relname_relid(name, schema);
	HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(oid));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	auto *index = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
	bool ours =
		index->indrelid == heap && class_field(oid, &FormData_pg_class::relam) == BTREE_AM_OID;
	int n = 0;
	for (; columns[n] != 0; n++)
		ours = ours && n < index->indnkeyatts && index->indkey.values[n] == columns[n];
	ours = ours && n == index->indnkeyatts;
	ReleaseSysCache(tuple);
	return ours ? oid : InvalidOid;
}

/* Visit those of ours that are there and do not fire always. */
template <typename Visit>
static void
for_each_muted_trigger(Relation rel, Visit visit)
{
	const TriggerDesc *triggers = rel->trigdesc;
	for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
		for (const char *name : kTriggers)
			if (strcmp(triggers->triggers[i].tgname, name) == 0 &&
				triggers->triggers[i].tgenabled != TRIGGER_FIRES_ALWAYS)
				visit(name);
}

/* False: its indexes are not there (yet: a restore makes them after the data). */
static bool
find_segment(Oid heap, Oid schema, RingName ring, Segment *segment)
{
	const RingLayout &layout = ring_layouts[ring];
	*segment = {};
	Relation rel = table_open(heap, AccessShareLock);
	const char *name = RelationGetRelationName(rel);
	if (sscanf(name, layout.name, &segment->number) != 1 || segment->number < first_in(ring) ||
		segment->number >= first_in(ring) + segments_in(ring) ||
		strcmp(name, psprintf(layout.name, segment->number)) != 0 ||
		RelationGetNamespace(rel) != schema)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partition \"%s\" of the tables of pgq_ext is not one of their segments",
						name)));
	check_columns(rel, layout.columns, layout.n_columns);
	segment->heap = heap;
	segment->by_id = find_index(psprintf("%s_by_id", name), schema, heap, layout.by_id);
	segment->by_order = find_index(psprintf("%s_by_order", name), schema, heap, layout.by_order);
	if (layout.delayed[0] != 0)
		segment->delayed = find_index(psprintf("%s_delayed", name), schema, heap, layout.delayed);
	for_each_muted_trigger(rel, [&](const char *) { segment->muted = true; });

	List *indexes = RelationGetIndexList(rel);
	ListCell *cell;
	foreach (cell, indexes)
	{
		Oid oid = lfirst_oid(cell);
		if (oid != segment->by_id && oid != segment->by_order && oid != segment->delayed)
			segment->has_others = true;
	}
	list_free(indexes);
	table_close(rel, AccessShareLock);
	return OidIsValid(segment->by_id) && OidIsValid(segment->by_order) &&
		   (layout.delayed[0] == 0 || OidIsValid(segment->delayed));
}

/* Add those of one table, in the order of their numbers. False: one is not complete. */
static bool
add_segments(Tables *t, Oid parent, Oid schema, RingName ring)
{
	List *children = find_inheritance_children(parent, AccessShareLock);
	if (list_length(children) > segments_in(ring))
		elog(ERROR, "pgq_ext.%s has more than %d segments", get_rel_name(parent),
			 segments_in(ring));
	ListCell *cell;
	bool complete = true;
	foreach (cell, children)
	{
		Segment segment;
		complete &= find_segment(lfirst_oid(cell), schema, ring, &segment);
		int at = t->all_segments++;
		for (; at > 0 && t->segment[at - 1].number > segment.number; at--)
			t->segment[at] = t->segment[at - 1];
		t->segment[at] = segment;
		UnlockRelationOid(lfirst_oid(cell), AccessShareLock);
	}
	list_free(children);
	return complete;
}

/* All of them or none: a scan that misses a segment loses its jobs. */
static void
find_segments(Tables *t, Oid schema)
{
	bool complete = add_segments(t, t->job, schema, kJobRing);
	t->segments = t->all_segments;
	complete &= add_segments(t, t->dead_job, schema, kDeadRing);
	complete &= (t->segments > 0) == (t->all_segments > t->segments);
	t->incomplete = !complete;
	if (!complete)
		t->segments = t->all_segments = 0;
}

static Oid
subscription_to(Oid relid)
{
	Oid subscription = InvalidOid;
	Relation rel = table_open(SubscriptionRelRelationId, AccessShareLock);
	ScanKeyData key;
	ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	SysScanDesc scan =
		systable_beginscan(rel, SubscriptionRelSrrelidSrsubidIndexId, true, nullptr, 1, &key);
	HeapTuple tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		subscription = reinterpret_cast<Form_pg_subscription_rel>(GETSTRUCT(tuple))->srsubid;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return subscription;
}

/* A publication can name the partitions or the table they belong to. */
static Oid
find_subscription(const Tables &t)
{
	Oid subscription = subscription_to(t.job);
	if (!OidIsValid(subscription))
		subscription = subscription_to(t.dead_job);
	for (int i = 0; i < t.all_segments && !OidIsValid(subscription); i++)
		subscription = subscription_to(t.segment[i].heap);
	return subscription;
}

static void
find_tables(Tables *t, Oid schema)
{
	t->queue = need("queue", schema, RELKIND_RELATION);
	t->queue_by_name = find_index("queue_name_key", schema, t->queue, queue_by_name);
	if (!OidIsValid(t->queue_by_name))
		complain_missing("queue_name_key");
	t->job = need("job", schema, RELKIND_PARTITIONED_TABLE);
	t->job_id_seq = need("job_id_seq", schema, RELKIND_SEQUENCE);
	t->dead_job = need("dead_job", schema, RELKIND_PARTITIONED_TABLE);
	t->token_mark = need("token_mark", schema, RELKIND_SEQUENCE);
	t->token_key = need("token_key", schema, RELKIND_RELATION);
	t->saved_lease = need("saved_lease", schema, RELKIND_RELATION);
	find_segments(t, schema);
	Relation queue = table_open(t->queue, AccessShareLock);
	t->owner = queue->rd_rel->relowner;
	table_close(queue, AccessShareLock);
	t->subscription = find_subscription(*t);
}

/*
 * Look until nothing has changed meanwhile: looking can itself bring invalidations
 * in. An error while looking leaves looking set, which only means one look more.
 */
enum class Installed : uint8
{
	kNo,
	kOtherVersion,
	kYes,
};

static Installed
look_again()
{
	for (int tries = 0; (!valid || looking) && tries < 10; tries++)
	{
		Tables t{};
		valid = looking = true;
		Oid schema = get_namespace_oid("pgq_ext", true);
		if (!OidIsValid(schema) || !extension_installed())
			return Installed::kNo;
		if (!versions_agree())
			return Installed::kOtherVersion;
		find_tables(&t, schema);
		looking = false;
		known = t;
		/* Not made yet, or not complete: do not rely on an invalidation to tell when. */
		if (known.segments == 0)
		{
			valid = false;
			break;
		}
	}
	return Installed::kYes;
}

Oid
common_owner()
{
	const Tables &t = tables();
	auto check = [&](Oid relid) {
		Oid owner = owner_of(relid);
		/* After a restore by another superuser the segments are not his. */
		if (owner == t.owner || (superuser_arg(owner) && superuser_arg(t.owner)))
			return;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the tables of pgq_ext have different owners"),
				 errdetail("Table \"pgq_ext.queue\" belongs to \"%s\", \"pgq_ext.%s\" to \"%s\".",
						   GetUserNameFromId(t.owner, true), get_rel_name(relid),
						   GetUserNameFromId(owner, true)),
				 errhint("Look for triggers, rules and indexes that you do not know, then give all "
						 "to one owner with ALTER TABLE ... OWNER TO.")));
	};
	check(t.job);
	check(t.dead_job);
	for (int i = 0; i < t.all_segments; i++)
		check(t.segment[i].heap);
	return t.owner;
}

Oid
owner_of_tables()
{
	Oid schema = get_namespace_oid("pgq_ext", true);
	return OidIsValid(schema) ? owner_of(get_relname_relid("queue", schema)) : InvalidOid;
}

bool
lock_tables(LOCKMODE mode)
{
	static constexpr const char *names[] = {"queue",	   "token_mark", "token_key",
											"saved_lease", "job",		 "dead_job"};
	Oid schema = get_namespace_oid("pgq_ext", true);
	if (!OidIsValid(schema))
		return false;
	for (const char *name : names)
	{
		Oid oid = get_relname_relid(name, schema);
		if (!OidIsValid(oid) || !ConditionalLockRelationOid(oid, AccessShareLock))
			return false;
		List *segments = find_inheritance_children(oid, NoLock);
		ListCell *cell;
		foreach (cell, segments)
			if (!ConditionalLockRelationOid(lfirst_oid(cell), mode))
				return false;
	}
	/* REINDEX keeps readers out of an index, not of its table. */
	const Tables *t = tables_if_attached();
	for (int i = 0; t != nullptr && i < t->all_segments; i++)
	{
		const Segment &segment = t->segment[i];
		const Oid indexes[] = {segment.by_id, segment.by_order, segment.delayed};
		for (Oid index : indexes)
			if (OidIsValid(index) && !ConditionalLockRelationOid(index, mode))
				return false;
	}
	/* Nor wait for who is attaching the database just now. */
	if (t == nullptr && !ConditionalLockRelationOid(get_relname_relid("token_mark", schema),
													ShareUpdateExclusiveLock))
		return false;
	return InSecurityRestrictedOperation() && GetUserId() == owner_of_tables();
}

bool
lock_and_serve(LOCKMODE mode)
{
	if (!lock_tables(mode))
		return false;
	const Tables *t = tables_if_attached();
	return t != nullptr && t->segments > 0 && !OidIsValid(t->subscription);
}

/* The transactions prepared in this database, listed before anything is read from its queues (A8). */
static int
prepared_transactions(TransactionId *xids)
{
	if (max_prepared_xacts == 0)
		return 0;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	const SpiArgument here[] = {{OIDOID, ObjectIdGetDatum(MyDatabaseId), false}};
	int n = static_cast<int>(spi_execute("SELECT transaction FROM pg_catalog.pg_prepared_xact() "
										 "WHERE dbid OPERATOR(pg_catalog.=) $1",
										 here));
	for (int i = 0; i < n; i++)
	{
		bool is_null;
		xids[i] = DatumGetTransactionId(spi_value(i, 1, &is_null));
	}
	SPI_finish();
	return n;
}

static bool
is_attached_here()
{
	return known.database != nullptr && known.database->state == SlotState::kUsed &&
		   pg_atomic_read_u32(&known.database->generation) == known.database_generation;
}

static bool
find_slot()
{
	if (is_attached_here())
		return true;
	known.database = find_database(MyDatabaseId, known.queue);
	if (known.database == nullptr)
		return false;
	known.database_generation = pg_atomic_read_u32(&known.database->generation);
	return true;
}

/*
 * The slot, with the leases that were saved, before anybody finds it. First all that can fail is
 * done, and leaves nothing behind; what changes memory cannot fail, so nobody meets
 * half of it. The lock keeps others from doing the same, and from advancing the mark meanwhile.
 */
static void
attach_locked()
{
	auto *xids =
		static_cast<TransactionId *>(palloc((max_prepared_xacts + 1) * sizeof(TransactionId)));
	if (any_prepared())
		resolve_prepared(); /* makes room for those that are listed now */
	int n = prepared_transactions(xids);
	TokenKey key = read_token_key(known.token_key);
	int64 mark = read_token_mark(known.token_mark);
	SavedLeases saved = read_saved_leases(known, mark, xids, n);
	Database *db = attach_database(MyDatabaseId, known.queue, {mark, key}, xids, n);
	with_interrupts_held([&] {
		restore_leases(db, &saved);
		known.database = db;
		known.database_generation = pg_atomic_read_u32(&db->generation);
		publish_database(db);
	});
	free_saved_leases(&saved);
	pfree(xids);
}

/* The tables, whether the database is attached or not. */
static const Tables &
look_at_tables()
{
	require_preloaded();
	register_callbacks();
	/* If the slot has gone, perhaps so have the tables. */
	if (!is_attached_here())
		AcceptInvalidationMessages();
	Installed installed = look_again();
	if (installed == Installed::kNo)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("extension \"pgq_ext\" is not installed in this database"),
						errhint("Run CREATE EXTENSION pgq_ext.")));
	if (installed == Installed::kOtherVersion)
		report_versions(ERROR);
	return known;
}

const Tables &
tables()
{
	(void) look_at_tables();
	while (!find_slot())
	{
		Oid sequence = known.token_mark;
		LockRelationOid(sequence, ShareUpdateExclusiveLock);
		if (look_at_tables().token_mark == sequence && !find_slot())
			attach_locked();
		UnlockRelationOid(sequence, ShareUpdateExclusiveLock);
	}
	return known;
}

bool
tables_may_differ()
{
	return !valid || looking;
}

JobSegments
job_segments()
{
	const Tables &t = look_at_tables();
	JobSegments list;
	list.n = t.segments;
	memcpy(list.segment, t.segment, list.n * sizeof(Segment));
	return list;
}

const Tables *
tables_if_attached()
{
	if (shared == nullptr)
		return nullptr;
	register_callbacks();
	return look_again() == Installed::kYes && find_slot() ? &known : nullptr;
}

[[noreturn]] static void
complain_subscribed(Oid subscription, const char *what, const char *tables)
{
	const char *name = get_subscription_name(subscription, true);
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("the %s of this database belong to the publisher of subscription \"%s\"",
						   what, name ? name : "?"),
					errdetail("The subscription brings rows of %s.", tables),
					errhint("Do it on the publisher; or drop the subscription, if this database "
							"shall take over.")));
}

void
refuse_if_subscribed()
{
	const Tables *t = tables_if_attached();
	if (t != nullptr && OidIsValid(t->subscription))
		complain_subscribed(t->subscription, "jobs", "pgq_ext.job or pgq_ext.dead_job");
}

void
refuse_if_queues_subscribed()
{
	Oid subscription = subscription_to(tables().queue);
	if (OidIsValid(subscription))
		complain_subscribed(subscription, "queues", "pgq_ext.queue");
}

/*
 * pg_restore --disable-triggers leaves the trigger so that it is silent for
 * logical replication. Whoever has written rows meanwhile has ended when we have
 * the lock, so the caller can read them from the heap.
 */
bool
restore_triggers()
{
	const Tables &t = tables();
	bool restored = false;
	for (int i = 0; i < t.segments; i++)
	{
		const Segment &segment = t.segment[i];
		if (!segment.muted || !ConditionalLockRelationOid(segment.heap, ShareRowExclusiveLock))
			continue;
		Relation rel = try_table_open(segment.heap, NoLock);
		if (rel == nullptr)
			continue;
		const char *muted[lengthof(kTriggers)];
		int n = 0;
		for_each_muted_trigger(rel, [&](const char *name) { muted[n++] = name; });
		for (int k = 0; k < n; k++)
			EnableDisableTrigger(rel, muted[k], TRIGGER_FIRES_ALWAYS, false, ShareRowExclusiveLock);
		table_close(rel, NoLock);
		restored = true;
	}
	return restored;
}

const Segment *
segment_by_number(int number)
{
	for (int i = 0; i < known.all_segments; i++)
		if (known.segment[i].number == number)
			return &known.segment[i];
	return nullptr;
}

[[noreturn]] static void
complain_incomplete()
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("the segments of pgq_ext.job and pgq_ext.dead_job are not complete"),
					errhint("Wait for the end of the restore, or create their indexes.")));
}

void
require_complete_segments()
{
	if (look_at_tables().incomplete)
		complain_incomplete();
}

const Segment &
current_segment(RingName ring)
{
	if (known.segments == 0)
		complain_incomplete();
	const Segment *current = segment_by_number(
		static_cast<int>(pg_atomic_read_u32(&known.database->rings[ring].current)));
	return current != nullptr ? *current : known.segment[ring == kJobRing ? 0 : known.segments];
}

} // namespace pgq
