#include "handlers/handler_admin.h"

#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "handlers/check.h"
#include "load/attach.h"

namespace pgq {

/* Raise an error while the SQL objects are of version 0.1, which has no handlers. */
static void
require_table()
{
	if (!OidIsValid(look_at_tables().queue_handler()))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("relation \"pgq_ext.queue_handler\" is missing"),
						errhint("Run ALTER EXTENSION pgq_ext UPDATE.")));
}

/*
 * Return the queue. Keep it from being dropped before this transaction ends: a drop deletes the row
 * of the handler, too.
 */
static QueueRef
keep_queue(const char *name, Permission permission)
{
	QueueRef ref = resolve_queue(tables(), name, permission);
	(void) lock_queue(ref.queue_id, QueueLock::kWriters, RowExclusiveLock, true);
	return resolve_queue(tables(), name, permission);
}

/*
 * Raise 42501 unless the caller may change the present handler of the queue: it administers the
 * queue, or could SET ROLE to the role of the handler.
 */
static void
require_changer(const HandlerRow &row, const char *queue)
{
	if (may(Permission::kAdminister, row.queue_id))
		return;
	/* In a row from a dump, the OID may be that of another role. */
	Oid role = row.broken != nullptr ? InvalidOid : get_role_oid(NameStr(row.run_as_name), true);
	if (row.broken == nullptr && row.stamp == stamp() &&
		SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(row.run_as)))
		role = row.run_as;
	if (OidIsValid(role) && may_set_role(GetUserId(), role))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for the handler of queue \"%s\"", queue),
			 errhint("A role with the right \"admin\" on the queue may change its handler, or a "
					 "role that can SET ROLE to the role of the handler.")));
}

static void
raise_if_any(const Fault &fault)
{
	if (fault.any())
		raise_fault(fault);
}

/* Raise what keeps the handler from running, or the caller from setting it. */
static void
check_handler(HandlerRow *row, const char *queue)
{
	bool changed;
	raise_if_any(describe_function(row));
	raise_if_any(fault_of_setter(*row, queue));
	row->superuser = superuser() && superuser_arg(row->run_as);
	row->stamp = stamp();
	row->server = kServerVersion;
	raise_if_any(fault_of(row, queue, row->stamp, &changed));
	namestrcpy(&row->run_as_name, GetUserNameFromId(row->run_as, false));
}

void
set_handler(const char *queue, const HandlerRow &given, Datum timeout, Datum idle)
{
	HandlerRow before;
	HandlerRow row = given;
	require_table();
	row.queue_id = keep_queue(queue, Permission::kClaim).queue_id;
	/*
	 * Lock the row before the checks. If another session sets the first handler of the queue at the
	 * same time, its row appears only after the checks; then check whether it may be changed.
	 */
	for (bool written = false; !written;)
	{
		bool known = lock_handler(row.queue_id, &before);
		if (known)
			require_changer(before, queue);
		row.paused = known && before.paused;
		check_handler(&row, queue);
		written = write_handler(row, timeout, idle, known);
	}
}

bool
drop_handler(const char *queue)
{
	HandlerRow row;
	require_table();
	QueueRef ref;
	if (!find_queue(tables(), queue, &ref))
		ref = resolve_queue_to_empty(tables(), queue, nullptr);
	if (!lock_handler(ref.queue_id, &row))
		return false;
	require_changer(row, queue);
	return delete_handler(ref.queue_id);
}

/* Lock the handler of the queue, which the caller may change. Raises 42704 if there is none. */
static HandlerRow
take_handler(const char *queue)
{
	HandlerRow row{};
	QueueRef ref;
	require_table();
	if (!find_queue(tables(), queue, &ref))
		ref = resolve_queue_to_empty(tables(), queue, nullptr);
	if (!lock_handler(ref.queue_id, &row))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("queue \"%s\" has no handler", queue),
				 errhint("Set one with pgq_set_handler.")));
	require_changer(row, queue);
	if (row.broken != nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("the handler of queue \"%s\" has an invalid row in "
							   "pgq_ext.queue_handler: %s",
							   queue, row.broken),
						errhint("Set the handler anew with pgq_set_handler, or drop it with "
								"pgq_drop_handler.")));
	return row;
}

void
pause_handler(const char *queue)
{
	pause_handler(take_handler(queue).queue_id, true);
}

/*
 * Repeat all checks, as if the caller set the handler, and write the row with the present function
 * of that name.
 */
void
resume_handler(const char *queue)
{
	HandlerRow row = take_handler(queue);
	Oid function = function_of_row(row);
	Oid role = get_role_oid(NameStr(row.run_as_name), true);
	if (!OidIsValid(role))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("role \"%s\" does not exist", NameStr(row.run_as_name)),
						errhint("Call pgq_set_handler with another role.")));
	if (!OidIsValid(function))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
						errmsg("function %s.%s(pgq_ext.claimed_job%s) does not exist",
							   NameStr(row.schema_name), NameStr(row.function_name),
							   row.takes_array ? "[]" : ""),
						errhint("Create the function, or call pgq_set_handler.")));
	row.function = function;
	row.run_as = role;
	check_handler(&row, queue);
	row.paused = false;
	rewrite_handler(row);
}

} // namespace pgq
