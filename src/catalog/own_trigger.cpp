#include "catalog/own_trigger.h"

#include "catalog/own_object.h"

namespace pgq {

namespace {
/*
 * A trigger that a script in src/schema creates. Each segment has the row triggers of its
 * partitioned table, with the same names.
 */
struct OwnTrigger
{
	const char *table;
	const char *name;
	const char *function;
	int16 type;
	bool always;
};

} // namespace

static constexpr int16 kBefore = TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_ROW;
static constexpr int16 kAfter = TRIGGER_TYPE_ROW;
static constexpr int16 kWrite = TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE;

static constexpr OwnTrigger kTriggers[] = {
	{"job", "job_changed", "job_changed", kAfter | kWrite | TRIGGER_TYPE_DELETE, true},
	{"job", "job_truncated", "job_changed", TRIGGER_TYPE_TRUNCATE, true},
	{"job", "job_fence", "job_fence", kBefore | kWrite, true},
	{"dead_job", "dead_job_changed", "dead_job_changed", kAfter | kWrite | TRIGGER_TYPE_DELETE,
	 true},
	{"dead_job", "dead_job_truncated", "dead_job_changed", TRIGGER_TYPE_TRUNCATE, true},
	{"queue", "queue_appeared", "queue_appeared", kAfter | TRIGGER_TYPE_INSERT, true},
	{"queue", "queue_paused", "queue_paused", kBefore | kWrite, true},
	{"queue", "queue_changed", "queue_changed", kBefore | kWrite | TRIGGER_TYPE_DELETE, false},
	{"queue", "queue_truncated", "queue_changed", TRIGGER_TYPE_TRUNCATE, false},
	{"timetable", "timetable_changed", "timetable_changed", kBefore | kWrite, true},
	{"queue_handler", "queue_handler_changed", "queue_handler_changed",
	 kBefore | kWrite | TRIGGER_TYPE_DELETE, true},
	{"queue_handler", "queue_handler_truncated", "queue_handler_changed", TRIGGER_TYPE_TRUNCATE,
	 true},
	{"job_dependency", "dependency_came", "dependency_came", kBefore | TRIGGER_TYPE_INSERT, true},
	{"job_dependency", "dependency_changed", "dependency_changed",
	 kBefore | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE, false},
	{"job_dependency", "dependency_truncated", "dependency_changed", TRIGGER_TYPE_TRUNCATE, false},
	{"job_outcome", "outcome_came", "dependency_came", kBefore | TRIGGER_TYPE_INSERT, true},
	{"job_batch", "job_batch_changed", "job_batch_changed", kBefore | kWrite, true},
	{"job_batch", "job_batch_kept", "job_batch_kept", kBefore | TRIGGER_TYPE_DELETE, false},
	{"job_batch", "job_batch_not_truncated", "job_batch_kept",
	 TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_TRUNCATE, false},
	{"topic_binding", "topic_binding_changed", "topic_changed",
	 kAfter | kWrite | TRIGGER_TYPE_DELETE, true},
	{"topic_binding", "topic_binding_truncated", "topic_changed", TRIGGER_TYPE_TRUNCATE, true},
	{"topic_pattern", "topic_pattern_changed", "topic_changed",
	 kAfter | kWrite | TRIGGER_TYPE_DELETE, true},
	{"topic_pattern", "topic_pattern_truncated", "topic_changed", TRIGGER_TYPE_TRUNCATE, true},
	{"held_lock", "held_lock_changed", "held_lock_changed", TRIGGER_TYPE_INSERT, false},
};

static const OwnTrigger *
find_by_name(const char *name)
{
	for (const OwnTrigger &own : kTriggers)
		if (strcmp(own.name, name) == 0)
			return &own;
	return nullptr;
}

/*
 * Return whether the trigger is as the extension has created it. False for a trigger with a WHEN
 * condition, since the condition could run code of a user whenever the trigger fires.
 */
static bool
is_as_made(Relation rel, const Trigger &trigger, const OwnTrigger &own)
{
	return trigger.tgtype == own.type && trigger.tgqual == nullptr &&
		   !OidIsValid(trigger.tgconstraint) && trigger.tgfoid == own_function(own.function) &&
		   is_own_table(rel, own.table);
}

bool
is_own_trigger(Relation rel, const Trigger &trigger)
{
	const OwnTrigger *own = find_by_name(trigger.tgname);
	return own != nullptr && is_as_made(rel, trigger, *own);
}

/*
 * Visit the extension's triggers of the table that should be ENABLE ALWAYS but are not. If the
 * table has no such trigger, the catalog is not read.
 *
 * Visits a copy of the list: another session may change triggers at any time, and each read of the
 * catalog may then replace the list of the relation cache and free the old one.
 */
template <typename Visit>
static void
for_each_muted_trigger(Relation rel, Visit visit)
{
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc);
	for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
	{
		const Trigger &trigger = triggers->triggers[i];
		const OwnTrigger *own = find_by_name(trigger.tgname);
		if (own != nullptr && own->always && trigger.tgenabled != TRIGGER_FIRES_ALWAYS &&
			is_as_made(rel, trigger, *own))
			visit(trigger);
	}
	FreeTriggerDesc(triggers);
}

bool
has_muted_trigger(Relation segment)
{
	bool muted = false;
	for_each_muted_trigger(segment, [&](const Trigger &) { muted = true; });
	return muted;
}

bool
has_all_triggers(Relation rel, const char *name)
{
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc);
	int missing = 0;
	for (const OwnTrigger &own : kTriggers)
		missing += own.always && strcmp(own.table, name) == 0;
	for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
	{
		const Trigger &trigger = triggers->triggers[i];
		const OwnTrigger *own = find_by_name(trigger.tgname);
		if (own != nullptr && own->always && trigger.tgenabled == TRIGGER_FIRES_ALWAYS &&
			is_as_made(rel, trigger, *own))
			missing--;
	}
	FreeTriggerDesc(triggers);
	return missing == 0;
}

bool
restore_triggers(Oid table)
{
	if (!ConditionalLockRelationOid(table, ShareRowExclusiveLock))
		return false;
	Relation rel = try_table_open(table, NoLock);
	if (rel == nullptr)
		return false;
	const char *muted[lengthof(kTriggers)];
	int n = 0;
	for_each_muted_trigger(rel,
						   [&](const Trigger &trigger) { muted[n++] = pstrdup(trigger.tgname); });
	for (int i = 0; i < n; i++)
		set_trigger(rel, muted[i], TRIGGER_FIRES_ALWAYS, ShareRowExclusiveLock);
	CommandCounterIncrement();
	table_close(rel, NoLock);
	return true;
}

bool
has_half_muted_trigger(Oid table)
{
	if (!ConditionalLockRelationOid(table, AccessShareLock))
		return false;
	Relation rel = try_table_open(table, NoLock);
	if (rel == nullptr)
		return false;
	bool has = false;
	for_each_muted_trigger(
		rel, [&](const Trigger &trigger) { has |= trigger.tgenabled == TRIGGER_FIRES_ON_ORIGIN; });
	table_close(rel, AccessShareLock);
	return has;
}

} // namespace pgq
