#include "row_changes/watch.h"

#include "catalog/tables.h"

namespace pgq {

/* ---- partitions ---- */

/* Return whether the relation is watched for the same target. */
static bool
has_same_target(Oid relation, const WatchTrigger &like)
{
	int n;
	WatchTrigger *triggers = read_watch_triggers(relation, &n);
	for (int i = 0; i < n; i++)
		if (triggers[i].n_arguments == kWatchArguments && compare_targets(triggers[i], like) == 0)
			return true;
	return false;
}

/*
 * Return the table that the jobs name: of the relation and the partitioned tables above it, the
 * highest that is watched for the same target. So a job has the same name and key whether a
 * statement has named the partition or the partitioned table.
 */
static Oid
named_table(const WatchTrigger &trigger)
{
	Oid named = trigger.relation;
	if (!get_rel_relispartition(trigger.relation))
		return named;
	ListCell *cell;
	foreach (cell, get_partition_ancestors(trigger.relation))
		if (has_same_target(lfirst_oid(cell), trigger))
			named = lfirst_oid(cell);
	return named;
}

/* ---- the watch ---- */

WatchFault
read_watch(const WatchTrigger &trigger, Watch *watch)
{
	*watch = {};
	if (event_of(trigger) == 0 || trigger.n_arguments != kWatchArguments ||
		!target_of_trigger(trigger.arguments[kTargetName], trigger.arguments[kTargetIdentity],
						   &watch->target))
		return fault_of_form(trigger);
	watch->relation = trigger.relation;
	strlcpy(watch->trigger, trigger.name, sizeof(watch->trigger));
	watch->owner = owner_of(trigger.relation);
	watch->named = named_table(trigger);
	watch->table = qualified_name(watch->named);
	WatchFault fault = read_watched_columns(trigger, &watch->columns);
	if (fault.message != nullptr || watch->target.is_topic)
		return fault;
	char *name;
	if (!find_target_queue(watch->target, &name))
		return {ERRCODE_UNDEFINED_OBJECT,
				psprintf("queue \"%s\" of the watch does not exist", watch->target.name)};
	strlcpy(watch->target.name, name, sizeof(watch->target.name));
	return {};
}

/* ---- memory ---- */

namespace {

/* A watch that this backend has read. */
struct KnownWatch
{
	Oid trigger; /* key of the hash table */
	bool valid;
	MemoryContext memory;
	Watch watch;
};

} // namespace

static constinit HTAB *known_watches = nullptr;
static constinit uint64 invalidations = 0;

/* Each time that many watches are remembered, those that are not valid are removed. */
static constexpr long kWatchesToRemove = 100;

static void
forget_watches_of(Datum, Oid relation)
{
	HASH_SEQ_STATUS status;
	invalidations++;
	hash_seq_init(&status, known_watches);
	while (auto *known = static_cast<KnownWatch *>(hash_seq_search(&status)))
		if (!OidIsValid(relation) || relation == known->watch.relation ||
			relation == known->watch.named)
			known->valid = false;
}

/* A schema was renamed, or the extension was changed. */
static void
forget_all_watches(Datum, CacheId, uint32)
{
	forget_watches_of(0, InvalidOid);
}

static void
begin_to_remember()
{
	HASHCTL control{};
	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(KnownWatch);
	known_watches = hash_create("pgq_ext watches", 16, &control, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(forget_watches_of, 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, forget_all_watches, 0);
}

[[noreturn]] static void
raise_watch_fault(const WatchFault &fault, const char *trigger, Oid relation)
{
	ereport(ERROR,
			(errcode(fault.code), errmsg_internal("%s", fault.message),
			 errdetail("Trigger \"%s\" of table %s enqueues a job for each changed row.", trigger,
					   qualified_name(relation)),
			 errhint("Call pgq_watch_table for the table and target again, or stop the watch with "
					 "pgq_unwatch_table.")));
}

void
require_transition_tables(Relation rel, const Trigger &trigger)
{
	WatchTrigger fired = watch_trigger_of(rel, trigger);
	if (event_of(fired) == 0)
		raise_watch_fault(fault_of_form(fired), fired.name, fired.relation);
}

/*
 * Read the watch into memory that lives as long as the session. If an invalidation arrives during
 * the reading, the next call reads the watch again.
 */
static void
remember_watch(KnownWatch *known, const WatchTrigger &trigger)
{
	Watch read;
	uint64 before = invalidations;
	MemoryContext memory =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_ext watch", ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(memory);
	WatchFault fault = read_watch(trigger, &read);
	MemoryContextSwitchTo(caller);
	if (fault.message != nullptr)
		raise_watch_fault(fault, trigger.name, trigger.relation);
	if (known->memory != nullptr)
		MemoryContextDelete(known->memory);
	MemoryContextSetParent(memory, TopMemoryContext);
	known->memory = memory;
	known->watch = read;
	known->valid = invalidations == before;
}

/* Remove watches that are not valid, for example of tables that were dropped. */
static void
remove_forgotten()
{
	HASH_SEQ_STATUS status;
	hash_seq_init(&status, known_watches);
	while (auto *known = static_cast<KnownWatch *>(hash_seq_search(&status)))
		if (!known->valid)
		{
			if (known->memory != nullptr)
				MemoryContextDelete(known->memory);
			(void) hash_search(known_watches, &known->trigger, HASH_REMOVE, nullptr);
		}
}

/*
 * Copy the watch: code of the owner of the table that runs while the watch is used may change the
 * table, and the remembered watch is then read again.
 */
static Watch
copy_of_watch(const Watch &watch)
{
	Watch copy = watch;
	copy.table = pstrdup(watch.table);
	Size size = watch.columns.n * sizeof(WatchedColumn);
	copy.columns.list = static_cast<WatchedColumn *>(palloc(size + 1));
	memcpy(copy.columns.list, watch.columns.list, size);
	return copy;
}

Watch
watch_that_fires(Relation rel, const Trigger &trigger)
{
	bool found;
	if (known_watches == nullptr)
		begin_to_remember();
	if (hash_get_num_entries(known_watches) % kWatchesToRemove == kWatchesToRemove - 1)
		remove_forgotten();
	auto *known =
		static_cast<KnownWatch *>(hash_search(known_watches, &trigger.tgoid, HASH_ENTER, &found));
	if (!found)
	{
		known->valid = false;
		known->memory = nullptr;
		known->watch = {};
	}
	if (!known->valid)
		remember_watch(known, watch_trigger_of(rel, trigger));
	return copy_of_watch(known->watch);
}

} // namespace pgq
