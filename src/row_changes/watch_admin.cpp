#include "row_changes/watch_admin.h"

#include "catalog/queue_lock.h"
#include "catalog/tables.h"
#include "pg/scope.h"
#include "row_changes/watch.h"

namespace pgq {

static constexpr int16 kWatchEvents[] = {TRIGGER_TYPE_INSERT, TRIGGER_TYPE_UPDATE,
										 TRIGGER_TYPE_DELETE};

static const char *
name_of_event(int16 event)
{
	return event == TRIGGER_TYPE_INSERT	  ? "insert"
		   : event == TRIGGER_TYPE_UPDATE ? "update"
										  : "delete";
}

/* ---- which tables can be watched ---- */

[[noreturn]] static void
refuse_table(Oid table, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("relation %s cannot be watched", qualified_name(table)), errdetail("%s", why),
			 errhint("Ordinary and partitioned tables of users can be watched.")));
}

/* Raise an error if the relation cannot have the triggers. part: it is a partition of the table. */
static void
check_relation(Oid relation, bool part)
{
	HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	if (!HeapTupleIsValid(row))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", relation)));
	FormData_pg_class form = *reinterpret_cast<Form_pg_class>(GETSTRUCT(row));
	ReleaseSysCache(row);
	if (part && form.relkind == RELKIND_FOREIGN_TABLE)
		refuse_table(relation,
					 "It is a foreign table, and a partition of the table. The server does "
					 "not record the changed rows of foreign tables.");
	if (form.relkind != RELKIND_RELATION && form.relkind != RELKIND_PARTITIONED_TABLE)
		refuse_table(relation, "It is not a table, or it is a foreign table.");
	if (form.relpersistence == RELPERSISTENCE_TEMP)
		refuse_table(relation, "It is a temporary table.");
	if (IsCatalogRelationOid(relation) || IsToastNamespace(form.relnamespace) ||
		form.relnamespace == get_namespace_oid("information_schema", true))
		refuse_table(relation, "It is a system table.");
	if (form.relnamespace == get_namespace_oid("pgq_ext", true))
		refuse_table(relation, "It is a table of pgq_ext.");
}

/* Check what CREATE TRIGGER will check, before the table is locked, and with a hint. */
static void
require_trigger_function()
{
	Oid function = watch_function();
	if (OidIsValid(function) && has_execute(function, GetUserId()))
		return;
	const char *role = GetUserNameFromId(GetUserId(), false);
	ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					errmsg("permission denied for function pgq_ext.row_changed"),
					errdetail("A role that makes triggers needs EXECUTE on their function."),
					errhint("Run GRANT EXECUTE ON FUNCTION pgq_ext.row_changed TO %s.",
							quote_identifier(role))));
}

static void
require_trigger_right(Oid relation)
{
	if (get_rel_name(relation) == nullptr)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", relation)));
	AclResult result = pg_class_aclcheck(relation, GetUserId(), ACL_TRIGGER);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLE, get_rel_name(relation));
}

/* ---- arguments ---- */

/* Return the names as one argument of a trigger. */
static char *
list_of_names(List *names)
{
	StringInfoData list;
	ListCell *cell;
	initStringInfo(&list);
	foreach (cell, names)
		appendStringInfo(&list, "%s%s", list.len == 0 ? "" : ", ",
						 quote_identifier(static_cast<const char *>(lfirst(cell))));
	return list.data;
}

static List *
arguments_of_watch(const WatchTarget &target, const WatchedNames &names)
{
	const char *key = names.key == NIL ? kPrimaryKey : list_of_names(names.key);
	const char *columns = names.all_columns ? kAllColumns : list_of_names(names.columns);
	List *arguments = NIL;
	for (const char *argument : {name_argument(target), identity_argument(target), columns, key})
		arguments = lappend(arguments, makeString(pstrdup(argument)));
	return arguments;
}

/*
 * Raise an error unless the columns exist. They are looked up as for a trigger with these
 * arguments, which does not exist yet.
 */
static void
check_columns(Oid relation, const WatchedNames &names)
{
	const char *key = names.key == NIL ? kPrimaryKey : list_of_names(names.key);
	const char *columns = names.all_columns ? kAllColumns : list_of_names(names.columns);
	const char *arguments[kWatchArguments] = {"", "", columns, key};
	WatchTrigger trigger{};
	WatchedColumns read{};
	trigger.relation = relation;
	trigger.name = "";
	trigger.arguments = arguments;
	WatchFault fault = read_watched_columns(trigger, &read);
	if (fault.message != nullptr)
		ereport(ERROR, (errcode(fault.code), errmsg_internal("%s", fault.message),
						errhint("A generated column that is not stored cannot be watched.")));
}

/* ---- triggers ---- */

/* Return the trigger of the relation for the event and target; NULL: there is none. */
static const WatchTrigger *
find_trigger(const WatchTrigger *triggers, int n, int16 event, const WatchTarget &target)
{
	for (int i = 0; i < n; i++)
	{
		WatchTarget other;
		if (event_of(triggers[i]) == event && triggers[i].n_arguments == kWatchArguments &&
			target_of_trigger(triggers[i].arguments[kTargetName],
							  triggers[i].arguments[kTargetIdentity], &other) &&
			is_same_target(other, target))
			return &triggers[i];
	}
	return nullptr;
}

/* Return whether the trigger is as a call with these arguments would make it. */
static bool
is_up_to_date(const WatchTrigger &trigger, List *arguments)
{
	for (int i = 0; i < kWatchArguments; i++)
		if (strcmp(trigger.arguments[i], strVal(list_nth(arguments, i))) != 0)
			return false;
	return trigger.enabled && !trigger.has_condition;
}

/*
 * Return a name that no trigger of the relation has: pgq_watch_TARGET_EVENT, cut, and with a number
 * if needed.
 */
static char *
free_trigger_name(Oid relation, const WatchTarget &target, int16 event)
{
	const char *label = name_of_event(event);
	for (int i = 1;; i++)
	{
		char *name =
			makeObjectName("pgq_watch", target.name, i == 1 ? label : psprintf("%s%d", label, i));
		if (!OidIsValid(get_trigger_oid(relation, name, true)))
			return name;
	}
}

static Node *
transition_table(const char *name, bool is_new)
{
	TriggerTransition *table = makeNode(TriggerTransition);
	table->name = pstrdup(name);
	table->isNew = is_new;
	table->isTable = true;
	return reinterpret_cast<Node *>(table);
}

/*
 * Create or replace the trigger. The server checks the caller's rights on the relation and the
 * function.
 */
static void
make_trigger(Oid relation, char *name, int16 event, List *arguments)
{
	CreateTrigStmt *statement = makeNode(CreateTrigStmt);
	statement->replace = true;
	statement->trigname = name;
	statement->relation =
		makeRangeVar(get_namespace_name(get_rel_namespace(relation)), get_rel_name(relation), -1);
	statement->funcname =
		list_make2(makeString(pstrdup("pgq_ext")), makeString(pstrdup("row_changed")));
	statement->args = arguments;
	statement->timing = TRIGGER_TYPE_AFTER;
	statement->events = event;
	if (event != TRIGGER_TYPE_DELETE)
		statement->transitionRels = lappend(NIL, transition_table("new_rows", true));
	if (event != TRIGGER_TYPE_INSERT)
		statement->transitionRels =
			lappend(statement->transitionRels, transition_table("old_rows", false));
	(void) CreateTrigger(statement, nullptr, relation, InvalidOid, InvalidOid, InvalidOid,
						 watch_function(), InvalidOid, nullptr, false, false);
	CommandCounterIncrement();
}

static void
watch_relation(Oid relation, const WatchTarget &target, List *arguments)
{
	int n;
	WatchTrigger *triggers = read_watch_triggers(relation, &n);
	for (int16 event : kWatchEvents)
	{
		const WatchTrigger *old = find_trigger(triggers, n, event, target);
		if (old != nullptr && is_up_to_date(*old, arguments))
			continue;
		char *name =
			old != nullptr ? pstrdup(old->name) : free_trigger_name(relation, target, event);
		make_trigger(relation, name, event, arguments);
	}
}

/* ---- the functions ---- */

/*
 * Lock the table and its partitions, in the order in which the server locks them. Check the right
 * of the caller before the locks, and again with them. Let all sessions read the watches of these
 * relations again: those of a partition depend on the triggers of the table.
 */
static List *
lock_watched(Oid table, LOCKMODE mode, void (*check)(Oid relation))
{
	ListCell *cell;
	List *relations = list_make1_oid(table);
	check(table);
	if (get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE)
	{
		foreach (cell, find_all_inheritors(table, NoLock, nullptr))
			check(lfirst_oid(cell));
		LockRelationOid(table, mode);
		relations = find_all_inheritors(table, mode, nullptr);
	}
	else
		LockRelationOid(table, mode);
	foreach (cell, relations)
	{
		check(lfirst_oid(cell));
		CacheInvalidateRelcacheByRelid(lfirst_oid(cell));
	}
	return relations;
}

/* Check that the owner of the relation may enqueue, so that writers do not get the error. */
static void
check_owner_right(Oid relation, WatchTarget *target)
{
	with_rights_of(owner_of(relation), [&] {
		if (!target->is_topic && target->queue_id == 0)
			identify_queue(target);
		require_right_on_target(*target);
	});
}

/*
 * Keep the queue of the watch from being dropped before this transaction ends. Otherwise a drop would not
 * see the watch, and each write to the table would fail later. Raises 42704 if the queue was dropped while
 * this call waited. The table is locked before the queue, as in a write to a watched table.
 */
static void
keep_watched_queue(const WatchTarget &target)
{
	char *name;
	(void) lock_queue(target.queue_id, QueueLock::kWriters, RowExclusiveLock, true);
	if (!find_target_queue(target, &name))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("queue \"%s\" does not exist", target.name)));
}

void
watch_table(Oid table, WatchTarget target, const WatchedNames &names)
{
	ListCell *cell;
	check_relation(table, false);
	require_trigger_function();
	List *relations = lock_watched(table, ShareRowExclusiveLock, require_trigger_right);
	foreach (cell, relations)
	{
		check_relation(lfirst_oid(cell), lfirst_oid(cell) != table);
		check_columns(lfirst_oid(cell), names);
		check_owner_right(lfirst_oid(cell), &target);
	}
	if (!target.is_topic)
		keep_watched_queue(target);
	List *arguments = arguments_of_watch(target, names);
	foreach (cell, relations)
		watch_relation(lfirst_oid(cell), target, arguments);
}

static void
require_owner(Oid relation)
{
	if (get_rel_name(relation) == nullptr)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", relation)));
	if (!owns_relation(relation, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relation));
}

static bool
unwatch_relation(Oid relation, const WatchTarget &target)
{
	int n;
	bool dropped = false;
	WatchTrigger *triggers = read_watch_triggers(relation, &n);
	for (int16 event : kWatchEvents)
		while (const WatchTrigger *trigger = find_trigger(triggers, n, event, target))
		{
			ObjectAddress address;
			ObjectAddressSet(address, TriggerRelationId, trigger->oid);
			performDeletion(&address, DROP_RESTRICT, 0);
			dropped = true;
			triggers = read_watch_triggers(relation, &n);
		}
	return dropped;
}

bool
unwatch_table(Oid table, const WatchTarget &target)
{
	ListCell *cell;
	bool dropped = false;
	List *relations = lock_watched(table, AccessExclusiveLock, require_owner);
	foreach (cell, relations)
		dropped |= unwatch_relation(lfirst_oid(cell), target);
	return dropped;
}

} // namespace pgq
