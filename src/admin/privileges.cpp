#include "admin/privileges.h"

#include "admin/view_rights.h"
#include "catalog/binding_row.h"
#include "catalog/handler_row.h"
#include "catalog/owner_sql.h"
#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "load/attach.h"

namespace pgq {

Right
right_of_name(const char *name)
{
	for (int i = 0; i < static_cast<int>(lengthof(right_specs)); i++)
		if (strcmp(name, right_specs[i].name) == 0)
			return static_cast<Right>(i);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("right \"%s\" does not exist", name),
			 errhint("Available rights: enqueue, claim, inspect, admin.")));
}

/* ---- names ---- */

static const char *
privileges_of(const RightSet &rights)
{
	StringInfoData list;
	initStringInfo(&list);
	for (int i = 0; i < static_cast<int>(lengthof(right_specs)); i++)
		if (rights.has[i])
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", right_specs[i].sql);
	return list.data;
}

/* ---- the queue ---- */

/*
 * Lock the queue and its rights until the transaction ends, so that no other session drops the
 * queue or changes its rights.
 */
static int32
lock_rights_of(const char *queue, Permission permission)
{
	for (;;)
	{
		QueueRef ref = resolve_queue(tables(), queue, permission);
		(void) lock_queue(ref.queue_id, QueueLock::kWriters, RowExclusiveLock, true);
		(void) lock_queue(ref.queue_id, QueueLock::kRights, ExclusiveLock, true);
		AcceptInvalidationMessages();
		QueueRef now = resolve_queue(tables(), queue, permission);
		if (now.queue_id == ref.queue_id && is_alive(ref))
			return ref.queue_id;
		CHECK_FOR_INTERRUPTS();
	}
}

static void
refuse_foreign_view(int32 queue_id)
{
	if (openness_of(queue_id) != Openness::kForeign)
		return;
	char name[NAMEDATALEN];
	name_of_rights(queue_id, name);
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("relation \"pgq_ext.%s\" is not the view that pgq_grant creates for the "
						   "rights on a queue",
						   name),
					errdetail("The relation is not a view, or does not belong to the owner of the "
							  "tables of pgq_ext."),
					errhint("Find out which role has made the relation. Then drop the relation, "
							"and grant all rights on the queue again with pgq_grant.")));
}

/*
 * Create the view whose privileges are the rights on the queue. The view selects constants: a
 * simple view of a table would let grantees change rows of that table.
 */
static void
close_queue_to_others(int32 queue_id, const char *queue, const char *view)
{
	as_owner([&] {
		spi_run("CREATE VIEW pgq_ext.%s AS SELECT %d AS queue_id", view, queue_id);
		revoke_default_privileges(view);
	});
	ereport(NOTICE, (errmsg("queue \"%s\" is now closed to roles without rights on it", queue)));
}

/* ---- verbs ---- */

void
grant_rights(const char *queue, const char *role, const RightSet &rights)
{
	char view[NAMEDATALEN];
	int32 queue_id = lock_rights_of(queue, Permission::kGrant);
	Grantee grantee = grantee_of(role);
	name_of_rights(queue_id, view);
	refuse_foreign_view(queue_id);
	if (openness_of(queue_id) == Openness::kOpen)
	{
		if (!is_owner())
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
							errmsg("permission denied to close queue \"%s\"", queue),
							errdetail("All roles that may call the functions of pgq_ext can use "
									  "the queue until a first right on it is granted. After that "
									  "only roles with rights on the queue can use it."),
							errhint("Let a superuser or the owner of the tables of pgq_ext grant "
									"the first right.")));
		close_queue_to_others(queue_id, queue, view);
	}
	as_owner(
		[&] { spi_run("GRANT %s ON pgq_ext.%s TO %s", privileges_of(rights), view, grantee.sql); });
}

void
revoke_rights(const char *queue, const char *role, const RightSet &rights)
{
	char view[NAMEDATALEN];
	int32 queue_id = lock_rights_of(queue, Permission::kGrant);
	Grantee grantee = grantee_of(role);
	name_of_rights(queue_id, view);
	refuse_foreign_view(queue_id);
	if (openness_of(queue_id) == Openness::kOpen)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("queue \"%s\" has no rights that could be revoked", queue),
			 errdetail("No right on the queue has been granted, so all roles that may call the "
					   "functions of pgq_ext can use it."),
			 errhint("To close the queue to other roles, call pgq_grant for the roles that may use "
					 "it. To keep a role from all queues, use REVOKE EXECUTE ON FUNCTION.")));
	as_owner([&] {
		spi_run("REVOKE %s ON pgq_ext.%s FROM %s CASCADE", privileges_of(rights), view,
				grantee.sql);
		refuse_if_still_granted(view, role, grantee, privileges_of(rights));
	});
}

static void
drop_rights(int32 queue_id)
{
	char view[NAMEDATALEN];
	if (openness_of(queue_id) == Openness::kOpen)
		return;
	name_of_rights(queue_id, view);
	/* Use CASCADE: a role with the right inspect may have created a view on this view. */
	as_owner([&] { spi_run("DROP VIEW pgq_ext.%s CASCADE", view); });
}

void
drop_settings(int32 queue_id)
{
	(void) delete_handler(queue_id);
	delete_bindings_of(queue_id);
	drop_rights(queue_id);
}

} // namespace pgq
