#include "row_changes/watch_list.h"

#include "row_changes/watch.h"

#include <algorithm>

namespace pgq {

static constexpr int kEvents = 3;

namespace {

/* The triggers of one relation for one target. */
struct TriggerGroup
{
	const WatchTrigger *trigger[kEvents]; /* for INSERT, UPDATE, DELETE; NULL: it is missing */
	const WatchTrigger *first;
};

} // namespace

static int
place_of_event(const WatchTrigger &trigger)
{
	int16 event = event_of(trigger);
	return event == TRIGGER_TYPE_INSERT ? 0 : event == TRIGGER_TYPE_UPDATE ? 1 : 2;
}

static const char *
argument_of(const WatchTrigger &trigger, int i)
{
	return trigger.n_arguments > i ? trigger.arguments[i] : "";
}

static int
compare_triggers(const WatchTrigger &a, const WatchTrigger &b)
{
	if (a.relation != b.relation)
		return a.relation < b.relation ? -1 : 1;
	return compare_targets(a, b);
}

/* ---- problems ---- */

/*
 * Return the first partition of the watched table without a trigger for the target; InvalidOid:
 * none.
 */
static Oid
unwatched_partition(const WatchTrigger &like, const WatchTrigger *all, int n)
{
	ListCell *cell;
	if (get_rel_relkind(like.relation) != RELKIND_PARTITIONED_TABLE)
		return InvalidOid;
	foreach (cell, find_all_inheritors(like.relation, NoLock, nullptr))
	{
		WatchTrigger wanted = like;
		wanted.relation = lfirst_oid(cell);
		if (std::none_of(all, all + n, [&](const WatchTrigger &trigger) {
				return compare_triggers(trigger, wanted) == 0;
			}))
			return wanted.relation;
	}
	return InvalidOid;
}

/* Return why changes are missed, although writes succeed; NULL: none are. */
static const char *
gap_of(const TriggerGroup &group, const WatchTrigger *all, int n)
{
	static constexpr const char *events[kEvents] = {"INSERT", "UPDATE", "DELETE"};
	for (int i = 0; i < kEvents; i++)
	{
		const WatchTrigger *trigger = group.trigger[i];
		if (trigger == nullptr)
			return psprintf("there is no trigger for %s", events[i]);
		if (!trigger->enabled)
			return psprintf("trigger \"%s\" is disabled", trigger->name);
		if (trigger->has_condition)
			return psprintf("trigger \"%s\" has a condition", trigger->name);
		for (int j = kColumnList; j < kWatchArguments; j++)
			if (strcmp(argument_of(*trigger, j), argument_of(*group.first, j)) != 0)
				return psprintf(
					"trigger \"%s\" has other columns or another key than trigger \"%s\"",
					trigger->name, group.first->name);
	}
	if (Oid partition = unwatched_partition(*group.first, all, n); OidIsValid(partition))
		return psprintf("partition %s has no trigger", qualified_name(partition));
	return nullptr;
}

/* ---- rows ---- */

static List *
names_of_key(const WatchedColumns &columns)
{
	List *names = NIL;
	for (int i = 0; i < columns.n; i++)
		if (columns.list[i].in_key)
			names = lappend(names, pstrdup(NameStr(columns.list[i].name)));
	return names;
}

/* Describe the group. What its arguments say is shown even if columns are missing. */
static ListedWatch
listed_watch(const TriggerGroup &group, const WatchTrigger *all, int n)
{
	ListedWatch listed{};
	Watch watch;
	bool bad;
	const WatchTrigger &first = *group.first;
	WatchFault fault = read_watch(first, &watch);
	const char *columns = argument_of(first, kColumnList);
	const char *key = argument_of(first, kKeyList);
	/* The names, as far as they could be looked up. */
	listed.relation = first.relation;
	listed.part_of = watch.named != first.relation ? watch.named : InvalidOid;
	listed.target = argument_of(first, kTargetName);
	if (fault.message == nullptr)
		listed.target = name_argument(watch.target);
	listed.coalescing = first.n_arguments > kColumnList && columns[0] == '\0';
	if (strcmp(columns, kAllColumns) != 0)
		listed.columns = names_of_argument(columns, &bad);
	if (fault.message == nullptr)
		listed.key = names_of_key(watch.columns);
	else if (strcmp(key, kPrimaryKey) != 0)
		listed.key = names_of_argument(key, &bad);
	/* The triggers, and the first problem. */
	for (const WatchTrigger *trigger : group.trigger)
		listed.triggers =
			lappend(listed.triggers, trigger == nullptr ? nullptr : pstrdup(trigger->name));
	listed.fails = fault.message != nullptr;
	listed.problem = listed.fails ? fault.message : gap_of(group, all, n);
	return listed;
}

void
list_watches(void (*put)(void *context, const ListedWatch &watch), void *context)
{
	int n;
	WatchTrigger *triggers = read_watch_triggers(InvalidOid, &n);
	std::sort(triggers, triggers + n, [](const WatchTrigger &a, const WatchTrigger &b) {
		return compare_triggers(a, b) < 0;
	});
	for (int i = 0; i < n;)
	{
		TriggerGroup group{};
		group.first = &triggers[i];
		for (; i < n && compare_triggers(triggers[i], *group.first) == 0; i++)
			group.trigger[place_of_event(triggers[i])] = &triggers[i];
		put(context, listed_watch(group, triggers, n));
	}
}

/*
 * Return the text of the error for a queue with a watched table. It names the table only if the calling role
 * has a privilege on it, also if a function calls this one with the rights of another role.
 */
static const char *
text_of_watched(Oid table, const char *queue)
{
	for (Oid role : {GetUserId(), GetOuterUserId()})
		if (pg_class_aclmask(table, role, ACL_ALL_RIGHTS_RELATION, ACLMASK_ANY) == 0)
			return psprintf("a table of another role is watched for queue \"%s\"", queue);
	return psprintf("table %s is watched for queue \"%s\"", qualified_name(table), queue);
}

/* Raise an error; with force only a notice. */
static void
complain_of_watch(Oid table, const char *queue, bool force)
{
	ereport(force ? NOTICE : ERROR,
			(force ? 0 : errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg_internal("%s", text_of_watched(table, queue)),
			 errdetail("After the drop each write to the table fails."),
			 errhint("Call pgq_unwatch_table%s.",
					 force ? "" : ", or pass force => true to drop the queue all the same")));
}

void
refuse_watched_queue(int32 queue_id, const char *name, bool force)
{
	int n;
	WatchTrigger *triggers = read_watch_triggers(InvalidOid, &n);
	for (int i = 0; i < n; i++)
	{
		WatchTarget target;
		char *present_name;
		if (!target_of_trigger(argument_of(triggers[i], kTargetName),
							   argument_of(triggers[i], kTargetIdentity), &target) ||
			target.is_topic || target.queue_id != queue_id ||
			!find_target_queue(target, &present_name))
			continue;
		complain_of_watch(triggers[i].relation, name, force);
		return;
	}
}

} // namespace pgq
