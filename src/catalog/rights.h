/*
 * Rights on single queues. A queue is open or closed. EXECUTE on the functions decides for an open
 * queue. A closed queue has a view of constants, pgq_ext.rights_ID, whose privileges are the rights
 * (protocol: rights-are-privileges). So the server renames roles in them, refuses to drop a role
 * that has some, and dumps them.
 *
 * Each backend remembers what it has found until an invalidation says that a view, a membership or
 * a role has changed. A check then costs some nanoseconds.
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
 * Uses of a queue, each of which needs one right. For the functions of each see docs/reference.md,
 * "Rights".
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
 * Return whether the current role may do that, as of the latest committed rights. Must not be
 * called under the lock of a queue.
 */
bool may(Deed deed, int32 queue_id);

/* Raise error 42501, naming the queue, unless the current role may do that. */
void require_right(Deed deed, int32 queue_id, const char *queue);

/* Like require_right(), for another role and its name. */
void require_right_of(Oid role, const char *role_name, Deed deed, int32 queue_id,
					  const char *queue);

/*
 * Return whether the views show the current role the jobs of the queue. Members of pg_monitor see
 * all.
 */
bool may_see(int32 queue_id);

/*
 * Visit the queues that the current role may see. The functions behind the views check this
 * themselves, since they can be called without the view.
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

/* Return whether the schema exists, as far as this process has heard. */
bool has_schema();

/* Return whether the current role may know of the queue: it is open, or the role has some right. */
bool may_know(int32 queue_id);

/*
 * Return whether the current role is a superuser or the owner of the tables, who have all rights.
 */
bool is_owner();

enum class Openness : uint8
{
	kOpen,
	kClosed,
	kForeign, /* another role owns the view: only superusers and the tables' owner have rights */
};
Openness openness_of(int32 queue_id);

/* Write the name of the view, of at most NAMEDATALEN bytes. */
void name_of_rights(int32 queue_id, char *name);

} // namespace pgq
