/*
 * The triggers of watches: rows of pg_trigger whose function is pgq_ext.row_changed(). Their names
 * prove nothing.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* A trigger of a watch. */
struct WatchTrigger
{
	Oid oid;
	Oid relation;
	const char *name;
	int16 type;
	bool enabled; /* it fires in ordinary sessions */
	bool has_old; /* it has transition tables */
	bool has_new;
	bool has_condition;
	int n_arguments;
	const char *const *arguments;
};

/* The arguments of a trigger. */
enum WatchArgument
{
	kTargetName,
	kTargetIdentity,
	kColumnList, /* a list of names, empty for a coalescing watch, or kAllColumns */
	kKeyList,	 /* a list of names, or kPrimaryKey */
	kWatchArguments,
};
inline constexpr char kAllColumns[] = "*";
inline constexpr char kPrimaryKey[] = "PRIMARY KEY";

/* What keeps a watch from working; message is NULL if nothing does. */
struct WatchFault
{
	int code;
	const char *message;
};

/* Return the function of the triggers, or InvalidOid. */
Oid watch_function();

/* Return the trigger that has fired. */
WatchTrigger watch_trigger_of(Relation rel, const Trigger &trigger);

/* Return the triggers of watches in the catalog: those of a relation, or with InvalidOid all. */
WatchTrigger *read_watch_triggers(Oid relation, int *n);

/*
 * Return the event of the trigger: TRIGGER_TYPE_INSERT, UPDATE or DELETE; 0: it has another form.
 */
int16 event_of(const WatchTrigger &trigger);

/* Return the fault of a trigger that pgq_watch_table has not made. */
WatchFault fault_of_form(const WatchTrigger &trigger);

/*
 * Compare the targets of two triggers, as strcmp() does. A queue is compared by its identity: its name
 * in the arguments is that of the moment when the trigger was made.
 */
int compare_targets(const WatchTrigger &a, const WatchTrigger &b);

/*
 * Return the names in an argument of a trigger. *bad: set to whether the argument is not a list of
 * names.
 */
List *names_of_argument(const char *argument, bool *bad);

/* Return the name with its schema, quoted as in SQL. */
char *qualified_name(Oid relation);

} // namespace pgq
