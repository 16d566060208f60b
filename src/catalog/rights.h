/*
 * Rights on single queues. A queue is open or closed. For an open queue, EXECUTE on the functions
 * decides. A closed queue has a view of constants, pgq_ext.rights_ID, whose privileges are the
 * rights (protocol: rights-are-privileges). So the server renames roles in these privileges,
 * refuses to drop a role that has some, and dumps them.
 *
 * Each backend caches the rights it has looked up, until an invalidation says that a view, a
 * membership or a role has changed. A check of cached rights takes some nanoseconds.
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
 * Uses of a queue, each of which needs one right. docs/reference.md, "Rights", lists the functions
 * of each use.
 */
enum class Deed : uint8
{
	kEnqueue,	 /* add jobs, also by schedules or from other queues */
	kClaim,		 /* claim jobs */
	kAnswer,	 /* ack, fail, extend ... by job id and lease */
	kAskResult,	 /* pgq_result, by job id */
	kChange,	 /* cancel, retry, update, by job id */
	kAdminister, /* change or drop the queue, and use its dead letters */
	kGrant,		 /* change its rights */
};
constexpr Right
right_for(Deed deed)
{
	switch (deed)
	{
		case Deed::kEnqueue:
			return Right::kEnqueue;
		case Deed::kClaim:
		case Deed::kAnswer:
			return Right::kClaim;
		case Deed::kAskResult:
			return Right::kInspect;
		case Deed::kChange:
		case Deed::kAdminister:
		case Deed::kGrant:
			break;
	}
	return Right::kAdmin;
}

/*
 * Return whether the current role has the right for this use, by the latest committed rights. Must
 * not be called under the lock of a queue.
 */
bool may(Deed deed, int32 queue_id);

/* Raise error 42501, naming the queue, unless may() is true. */
void require_right(Deed deed, int32 queue_id, const char *queue);

/* Like require_right(), for another role, whose name the error shows. */
void require_right_of(Oid role, const char *role_name, Deed deed, int32 queue_id,
					  const char *queue);

/*
 * Return whether the views show the jobs of the queue to the current role. Members of pg_monitor
 * see the jobs of all queues.
 */
bool may_see(int32 queue_id);

/*
 * Visit the queues that the current role may see. The functions behind the views use this, since
 * they can be called without the view.
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

/* Return whether the schema exists, by the invalidations that this process has received. */
bool has_schema();

/*
 * Return whether the current role may know that the queue exists: the queue is open, or the role
 * has some right on it.
 */
bool may_know(int32 queue_id);

/* Return whether the current role has all rights: a superuser, or the owner of the tables. */
bool is_owner();

enum class Openness : uint8
{
	kOpen,
	kClosed,
	kForeign, /* another role owns the view: only superusers and the tables' owner have rights */
};
Openness openness_of(int32 queue_id);

/* Write the name of the queue's view of rights, of at most NAMEDATALEN bytes. */
void name_of_rights(int32 queue_id, char *name);

} // namespace pgq
