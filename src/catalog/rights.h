/*
 * Rights on single queues. A queue is open or closed. An open queue may be used by each role that
 * has EXECUTE on the functions. A closed queue has a view that selects only constants,
 * pgq_ext.rights_ID. The privileges on this view are the rights on the queue
 * (protocol: rights-are-privileges). So the server keeps the rights when a role is renamed, refuses
 * to drop a role that has rights, and dumps the rights.
 *
 * Each backend caches the rights that it has looked up, until an invalidation says that a view, a
 * membership or a role has changed. A check of cached rights takes a few nanoseconds.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

enum class Right : uint8
{
	kEnqueue,
	kClaim,
	kInspect,
	kAdmin,
};
struct RightSpec
{
	const char *name;
	AclMode privilege;
	const char *sql; /* SQL name of the privilege */
};
inline constexpr RightSpec right_specs[] = {
	{"enqueue", ACL_INSERT, "INSERT"},
	{"claim", ACL_UPDATE, "UPDATE"},
	{"inspect", ACL_SELECT, "SELECT"},
	{"admin", ACL_DELETE, "DELETE"}, /* implies inspect */
};

/*
 * What a caller wants to do with a queue. Each Permission needs one Right (right_for()).
 * docs/reference.md, "Rights", lists the functions that ask for each Permission.
 */
enum class Permission : uint8
{
	kEnqueue,	 /* add jobs, also by schedules or from other queues */
	kClaim,		 /* claim jobs */
	kAnswer,	 /* ack, fail, extend ... by job id and lease */
	kAskResult,	 /* pgq_result, by job id */
	kChange,	 /* cancel, retry, update, by job id */
	kAdminister, /* change or drop the queue, and use its dead letters */
	kGrant,		 /* change the rights on the queue */
};
constexpr Right
right_for(Permission permission)
{
	switch (permission)
	{
		case Permission::kEnqueue:
			return Right::kEnqueue;
		case Permission::kClaim:
		case Permission::kAnswer:
			return Right::kClaim;
		case Permission::kAskResult:
			return Right::kInspect;
		case Permission::kChange:
		case Permission::kAdminister:
		case Permission::kGrant:
			break;
	}
	return Right::kAdmin;
}

/*
 * Return whether the current role has the right that `permission` needs, by the latest committed
 * rights. The caller must not hold the lock of a queue in shared memory.
 */
bool may(Permission permission, int32 queue_id);

/* Like may(), for another role. */
bool may_of(Oid role, Permission permission, int32 queue_id);

/* Raise error 42501, naming the queue, unless may() is true. */
void require_right(Permission permission, int32 queue_id, const char *queue);

/* Like require_right(), for another role, whose name the error shows. */
void require_right_of(Oid role, const char *role_name, Permission permission, int32 queue_id,
					  const char *queue);

/*
 * Return whether the views show the jobs of the queue to the current role. Members of pg_monitor
 * see the jobs of all queues.
 */
bool may_see(int32 queue_id);

/*
 * Visit the queues whose jobs the current role may see. Functions that return the rows of a view
 * visit only these queues, since a role can call such a function without the view.
 */
template <typename Visit>
inline void
for_each_visible_queue(const Database *db, Visit visit)
{
	for_each_queue(db, [&](const QueueRef &ref) {
		if (may_see(ref.queue_id))
			visit(ref);
	});
}

/* Return whether the schema pgq_ext exists, as far as this process has received invalidations. */
bool has_schema();

/*
 * Return whether the current role may know that the queue exists: the queue is open, or the role
 * has at least one right on the queue.
 */
bool may_know(int32 queue_id);

/*
 * Return whether the current role is a superuser or the owner of the tables, and so has all rights.
 */
bool is_owner();

enum class Openness : uint8
{
	kOpen,
	kClosed,
	kForeign, /* a role other than the tables' owner owns the view: only superusers and the tables' owner have rights */
};
Openness openness_of(int32 queue_id);

/* Return what the view of rights with this name says: kOpen if there is no such relation. */
Openness openness_by_view(const char *name);

/*
 * Return whether the current role has the privilege on this view of rights in the schema pgq_ext. False if
 * the view is missing, or does not belong to the owner of the tables.
 */
bool has_privilege_on_view(const char *name, AclMode privilege);

/*
 * Write the name of the queue's view of rights to `name`, which must have room for NAMEDATALEN
 * bytes.
 */
void name_of_rights(int32 queue_id, char *name);

} // namespace pgq
