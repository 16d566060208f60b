#include "catalog/tables.h"

#include "catalog/own_index.h"
#include "catalog/relations.h"
#include "catalog/version.h"

namespace pgq {

static constexpr Tables kNothing = {};

/* The tables as last looked up, and the memory context of that copy. */
static constinit const Tables *known = &kNothing;
static constinit MemoryContext memory_of_known = nullptr;
static constinit bool valid = false;
static constinit bool looking = false; /* while true, each invalidation clears `valid` */
static constinit bool callbacks_registered = false;
static constinit uint64 reads = 0; /* how often the catalog was read */

namespace {

/*
 * A table that was looked up. schema: where it was looked up; invalid: it has to be looked up again.
 * `oid` stays then, so that an invalidation of a table that a caller still uses is noticed.
 */
struct FoundTable
{
	Oid schema;
	Oid oid;
};

} // namespace

static constinit FoundTable rare_tables[static_cast<int>(RareTable::kEnd)] = {};
static constinit uint32 invalidations = 0; /* of the relation cache, so far */

/* ---- invalidation ---- */

static bool
is_known(Oid relid)
{
	if (relid == InvalidOid || relid == known->queue || relid == known->token_mark)
		return true;
	for (const FoundTable &table : rare_tables)
		if (relid == table.oid)
			return true;
	for (Oid table : known->ring)
		if (relid == table)
			return true;
	for (const Segment &segment : known->all_segments())
		if (relid == segment.heap)
			return true;
	return false;
}

static void
at_relcache_invalidation(Datum, Oid relid)
{
	invalidations++;
	if (!looking && !is_known(relid))
		return;
	valid = false;
	for (FoundTable &table : rare_tables)
		table.schema = InvalidOid;
}

static void
at_subscription_change(Datum, CacheId, uint32)
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
	/* Changes of these catalogs may change the owner of a subscription, or the owner's rights. */
	CacheRegisterSyscacheCallback(SUBSCRIPTIONOID, at_subscription_change, 0);
	CacheRegisterSyscacheCallback(AUTHOID, at_subscription_change, 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, at_subscription_change, 0);
	callbacks_registered = true;
}

/* ---- the tables ---- */

[[noreturn]] static void
complain_missing(const char *name)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("relation \"pgq_ext.%s\" is missing", name),
					errhint("The SQL objects do not match the library. Run ALTER EXTENSION pgq_ext "
							"UPDATE, or drop and create the extension, which deletes all jobs.")));
}

static Oid
need(const NamedRelation &found, char kind)
{
	if (!OidIsValid(found.oid) || found.kind != kind)
		complain_missing(found.name);
	return found.oid;
}

Oid
index_of(Relation table, const IndexSpec &spec, bool unique)
{
	Oid index =
		find_index(spec.name, RelationGetNamespace(table), RelationGetRelid(table), spec, unique);
	if (!OidIsValid(index))
		complain_missing(spec.name);
	return index;
}

Oid
owner_of(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

static const char *
name_of_rare(RareTable table)
{
	static constexpr const char *names[] = {
		"job_id_seq", "unique_key", "token_key",	  "saved_lease",   "held_lock",
		"run",		  "rate_limit", "timetable",	  "queue_handler", "job_checkpoint",
		"job_batch",  "batch_note", "job_dependency", "job_outcome"};
	static_assert(lengthof(names) == lengthof(rare_tables));
	return names[static_cast<int>(table)];
}

static Oid
look_up_rare(RareTable table, const Tables &t)
{
	if (table < RareTable::kQueueHandler)
		return need(find_relation(t.schema, name_of_rare(table)),
					table == RareTable::kJobIdSeq ? RELKIND_SEQUENCE : RELKIND_RELATION);
	/*
	 * The version before has no such tables, so a table of that name may belong to a user. While the
	 * extension is being updated, the tables may not exist yet.
	 */
	return t.of_own_version ? get_relname_relid(name_of_rare(table), t.schema) : InvalidOid;
}

/* Look up the table. The next call looks again if an invalidation arrives during this look. */
Oid
Tables::find(RareTable table) const
{
	FoundTable &found = rare_tables[static_cast<int>(table)];
	if (likely(found.schema == schema))
		return found.oid;
	uint32 before = invalidations;
	Oid oid = look_up_rare(table, *this);
	found = {invalidations == before ? schema : InvalidOid, oid};
	return oid;
}

void
Tables::require_all() const
{
	for (int i = 0; i < static_cast<int>(RareTable::kEnd); i++)
		if (auto table = static_cast<RareTable>(i); !OidIsValid(find(table)) && of_own_version)
			complain_missing(name_of_rare(table));
}

static void
find_tables(Tables *t, Oid schema, Served version)
{
	/* At first the segments, by number; then these: */
	static constexpr int kQueueTable = kAllSegments;
	static constexpr int kTokenMark = kQueueTable + 1;
	static constexpr int kFirstRing = kTokenMark + 1;
	static constexpr int kEnd = kFirstRing + kRings;
	NamedRelation found[kEnd];
	char names[kAllSegments][NAMEDATALEN];
	found[kQueueTable].name = "queue";
	found[kTokenMark].name = "token_mark";
	for (RingName ring : all_rings)
	{
		found[kFirstRing + ring].name = rings[ring].table;
		for (int number = first_in(ring); number < first_in(ring + 1); number++)
		{
			snprintf(names[number], NAMEDATALEN, "%s_%d", rings[ring].table, number);
			found[number].name = names[number];
		}
	}
	find_relations(schema, found, kEnd);

	t->schema = schema;
	t->of_own_version = version == Served::kOwn;
	t->queue = need(found[kQueueTable], RELKIND_RELATION);
	t->owner = found[kQueueTable].owner;
	t->token_mark = need(found[kTokenMark], RELKIND_SEQUENCE);
	for (RingName ring : all_rings)
		t->ring[ring] = need(found[kFirstRing + ring], RELKIND_PARTITIONED_TABLE);
	t->has_batches = get_attnum(t->ring[kJobRing], "batch_id") == kJobBatch;
	find_segments(t, schema, found);
	t->subscription = find_subscription(*t);
}

/* ---- lookup ---- */

/* Remember t. Keep the old Tables until the transaction ends, as tables.h promises. */
static void
remember(const Tables &t)
{
	if (t == *known)
		return;
	MemoryContext memory =
		AllocSetContextCreate(TopMemoryContext, "pgq_ext tables", ALLOCSET_SMALL_SIZES);
	auto *copy = static_cast<Tables *>(MemoryContextAlloc(memory, sizeof(Tables)));
	*copy = t;
	if (memory_of_known != nullptr)
		MemoryContextSetParent(memory_of_known, TopTransactionContext);
	memory_of_known = memory;
	known = copy;
}

namespace {

enum class Installed : uint8
{
	kNo,
	kOtherVersion,
	kYes,
};

} // namespace

/*
 * Read the catalog until no invalidation arrives during the read; the read itself can process
 * invalidations. An error leaves `looking` set; then the next call reads the catalog once more.
 */
static Installed
look_again()
{
	for (int tries = 0; (!valid || looking) && tries < 10; tries++)
	{
		Tables t{};
		reads++;
		valid = looking = true;
		Oid schema = get_namespace_oid("pgq_ext", true);
		if (!OidIsValid(schema))
			return Installed::kNo;
		Served version = look_at_version();
		if (version == Served::kNo)
			return extension_installed() ? Installed::kOtherVersion : Installed::kNo;
		find_tables(&t, schema, version);
		looking = false;
		if (t.queue == known->queue)
		{
			t.database = known->database;
			t.database_generation = known->database_generation;
		}
		remember(t);
		/* While segments are missing, read at every call: completing them may send no invalidation. */
		if (known->incomplete)
		{
			valid = false;
			break;
		}
	}
	return Installed::kYes;
}

/* Return whether look_at_tables() and find_slot() would change nothing. */
static bool
is_up_to_date()
{
	return valid && !looking && is_attached(*known);
}

bool
is_attached(const Tables &t)
{
	return t.database != nullptr && t.database->state == SlotState::kUsed &&
		   pg_atomic_read_u32(&t.database->generation) == t.database_generation;
}

static bool
find_slot()
{
	if (is_attached(*known))
		return true;
	Tables t = *known;
	t.database = find_database(MyDatabaseId, t.queue);
	if (t.database == nullptr)
		return false;
	t.database_generation = pg_atomic_read_u32(&t.database->generation);
	remember(t);
	return true;
}

const Tables &
look_at_tables()
{
	if (likely(is_up_to_date()))
		return *known;
	require_preloaded();
	register_callbacks();
	/* If the slot is gone, the tables may be gone too. So process invalidations, to notice that. */
	if (!is_attached(*known))
		AcceptInvalidationMessages();
	Installed installed = look_again();
	if (installed == Installed::kNo)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("extension \"pgq_ext\" is not installed in this database"),
						errhint("Run CREATE EXTENSION pgq_ext.")));
	if (installed == Installed::kOtherVersion)
		report_versions(ERROR);
	(void) find_slot();
	return *known;
}

uint64
count_catalog_reads()
{
	(void) look_at_tables();
	return reads;
}

bool
tables_may_differ()
{
	return !valid || looking;
}

const Tables *
tables_if_attached()
{
	if (likely(is_up_to_date()))
		return known;
	if (shared == nullptr)
		return nullptr;
	register_callbacks();
	return look_again() == Installed::kYes && find_slot() ? known : nullptr;
}

void
complain_incomplete()
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("partitions of the tables of pgq_ext, or their indexes, are missing"),
			 errhint("If a restore is running, wait until it has ended. Otherwise create the "
					 "missing objects.")));
}

void
require_complete_segments(const Tables &t)
{
	if (t.incomplete)
		complain_incomplete();
}

const Segment &
Tables::get(int number) const
{
	const Segment *found = find(number);
	if (found == nullptr)
		complain_incomplete();
	return *found;
}

const Segment &
Tables::current(RingName ring) const
{
	if (!has_segments)
		complain_incomplete();
	/*
	 * Return any segment of the ring if the database has no slot in shared memory, or if no segment
	 * has the number that the slot calls current.
	 */
	const Segment *current = nullptr;
	if (database != nullptr)
		current = find(static_cast<int>(pg_atomic_read_u32(&database->rings[ring].current)));
	return current != nullptr ? *current : *segments(ring).begin();
}

} // namespace pgq
