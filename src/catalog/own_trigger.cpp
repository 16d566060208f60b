#include "catalog/own_trigger.h"

namespace pgq {

static constexpr const char *kTriggers[] = {"job_changed",	  "job_fence",	  "dead_job_changed",
											"queue_appeared", "queue_paused", "timetable_changed"};

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
				visit(triggers->triggers[i]);
}

bool
has_muted_trigger(Relation segment)
{
	bool muted = false;
	for_each_muted_trigger(segment, [&](const Trigger &) { muted = true; });
	return muted;
}

bool
restore_triggers(Oid table)
{
	if (!ConditionalLockRelationOid(table, ShareRowExclusiveLock))
		return false;
	Relation rel = try_table_open(table, NoLock);
	if (rel == nullptr)
		return false;
	/* Changing one makes the list anew. */
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
