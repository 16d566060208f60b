#include "row_changes/watch_trigger.h"

#include "catalog/own_object.h"

#include <initializer_list>

namespace pgq {

Oid
watch_function()
{
	return own_function("row_changed");
}

char *
qualified_name(Oid relation)
{
	const char *name = get_rel_name(relation);
	if (name == nullptr)
		return psprintf("%u", relation);
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)), name);
}

/* ---- triggers ---- */

WatchTrigger
watch_trigger_of(Relation rel, const Trigger &trigger)
{
	WatchTrigger found{};
	found.oid = trigger.tgoid;
	found.relation = RelationGetRelid(rel);
	found.name = trigger.tgname;
	found.type = trigger.tgtype;
	found.enabled = true;
	found.has_old = trigger.tgoldtable != nullptr;
	found.has_new = trigger.tgnewtable != nullptr;
	found.has_condition = trigger.tgqual != nullptr;
	found.n_arguments = trigger.tgnargs;
	found.arguments = trigger.tgargs;
	return found;
}

/* Return the arguments of a row of pg_trigger: strings that each end with a zero byte. */
static const char *const *
arguments_of(HeapTuple tuple, TupleDesc desc, int n)
{
	bool is_null;
	Datum value = heap_getattr(tuple, Anum_pg_trigger_tgargs, desc, &is_null);
	auto *arguments = static_cast<const char **>(palloc0((n + 1) * sizeof(char *)));
	if (is_null)
		return arguments;
	bytea *bytes = DatumGetByteaPCopy(value);
	const char *at = VARDATA(bytes);
	for (int i = 0; i < n; i++, at += strlen(at) + 1)
		arguments[i] = at;
	return arguments;
}

static WatchTrigger
trigger_of_row(HeapTuple tuple, TupleDesc desc)
{
	auto *form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple));
	WatchTrigger found{};
	bool is_null;
	found.oid = form->oid;
	found.relation = form->tgrelid;
	found.name = pstrdup(NameStr(form->tgname));
	found.type = form->tgtype;
	found.enabled =
		form->tgenabled == TRIGGER_FIRES_ON_ORIGIN || form->tgenabled == TRIGGER_FIRES_ALWAYS;
	(void) heap_getattr(tuple, Anum_pg_trigger_tgoldtable, desc, &is_null);
	found.has_old = !is_null;
	(void) heap_getattr(tuple, Anum_pg_trigger_tgnewtable, desc, &is_null);
	found.has_new = !is_null;
	(void) heap_getattr(tuple, Anum_pg_trigger_tgqual, desc, &is_null);
	found.has_condition = !is_null;
	found.n_arguments = form->tgnargs;
	found.arguments = arguments_of(tuple, desc, form->tgnargs);
	return found;
}

WatchTrigger *
read_watch_triggers(Oid relation, int *n)
{
	ScanKeyData key;
	int room = 8;
	auto *found = static_cast<WatchTrigger *>(palloc(room * sizeof(WatchTrigger)));
	Oid function = watch_function();
	*n = 0;
	if (!OidIsValid(function))
		return found;
	/* Scan the triggers of the relation by an index, or all triggers. */
	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relation));
	Relation triggers = table_open(TriggerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(triggers, TriggerRelidNameIndexId, OidIsValid(relation),
										  nullptr, OidIsValid(relation) ? 1 : 0, &key);
	while (HeapTuple tuple = systable_getnext(scan))
	{
		if (reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple))->tgfoid != function)
			continue;
		if (*n == room)
		{
			room *= 2;
			found = static_cast<WatchTrigger *>(repalloc(found, room * sizeof(WatchTrigger)));
		}
		found[(*n)++] = trigger_of_row(tuple, RelationGetDescr(triggers));
	}
	systable_endscan(scan);
	table_close(triggers, AccessShareLock);
	return found;
}

static const char *
target_argument(const WatchTrigger &trigger, WatchArgument argument)
{
	return trigger.n_arguments > argument ? trigger.arguments[argument] : "";
}

int
compare_targets(const WatchTrigger &a, const WatchTrigger &b)
{
	const char *identity = target_argument(a, kTargetIdentity);
	int order = strcmp(identity, target_argument(b, kTargetIdentity));
	if (order != 0 || *identity != '\0')
		return order;
	return strcmp(target_argument(a, kTargetName), target_argument(b, kTargetName));
}

int16
event_of(const WatchTrigger &trigger)
{
	for (int16 event : {TRIGGER_TYPE_INSERT, TRIGGER_TYPE_UPDATE, TRIGGER_TYPE_DELETE})
		if (trigger.type == event && trigger.has_new == (event != TRIGGER_TYPE_DELETE) &&
			trigger.has_old == (event != TRIGGER_TYPE_INSERT))
			return event;
	return 0;
}

WatchFault
fault_of_form(const WatchTrigger &trigger)
{
	return {ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
			psprintf("trigger \"%s\" is not as pgq_watch_table makes it", trigger.name)};
}

List *
names_of_argument(const char *argument, bool *bad)
{
	List *names = NIL;
	*bad = !SplitIdentifierString(pstrdup(argument), ',', &names);
	return *bad ? NIL : names;
}

} // namespace pgq
