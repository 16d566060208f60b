/*
 * Rights on single queues. A queue is open, and EXECUTE decides, or it is closed: then there is a view of
 * constants, pgq_ext.rights_ID, whose privileges are the rights (protocol: rights-are-privileges). So the
 * server follows roles that are renamed, refuses to drop one that has some, and dumps them.
 *
 * What was found is remembered by each backend until the server says that one of these has changed: the
 * view, a membership, a role. Asking costs some nanoseconds then.
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
	const char *sql; /* that privilege */
};
inline constexpr RightSpec right_specs[] = {
	{"enqueue", ACL_INSERT, "INSERT"},
	{"claim", ACL_UPDATE, "UPDATE"},
	{"inspect", ACL_SELECT, "SELECT"},
	{"admin", ACL_DELETE, "DELETE"}, /* comes with inspect */
};

/* What is done with a queue and its jobs, and the right that it takes. By functions: docs/reference.md, "Rights". */
enum class Deed : uint8
{
	kEnqueue,	 /* add jobs, also by schedules and from other queues */
	kClaim,		 /* take jobs */
	kAnswer,	 /* by job id and lease: ack, fail, extend ... */
	kAskResult,	 /* by job id: pgq_result */
	kChange,	 /* by job id: cancel, retry, update */
	kAdminister, /* the queue, and its dead letters */
	kGrant,		 /* its rights */
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

/* May the current role do that by now? What other sessions have committed counts. Not under a lock of a queue. */
bool may(Deed deed, int32 queue_id);

/* Error 42501 naming the queue. */
void require_right(Deed deed, int32 queue_id, const char *queue);

/* The same of another role, whose name that is. */
void require_right_of(Oid role, const char *role_name, Deed deed, int32 queue_id,
					  const char *queue);

/* May the current role see the queue's jobs in the views? Members of pg_monitor see all. */
bool may_see(int32 queue_id);

/* Of a database's queues, those: whoever may call a function behind a view can call it without the view. */
template <typename Visit>
inline void
for_each_visible_queue(const Database *db, Visit visit)
{
	for_each_queue(db, [&](const QueueRef &ref) {
		if (may_see(ref.queue_id))
			visit(ref);
	});
}

/* Not if the extension was dropped, and this process has heard of it. */
bool has_schema();

/* Has it any right there, or needs none? */
bool may_know(int32 queue_id);

/* Is the current role a superuser or the owner of the tables, who may do everything? */
bool is_owner();

enum class Openness : uint8
{
	kOpen,
	kClosed,
	kForeign, /* the view is not the owner's, so that nobody but he and superusers has any right */
};
Openness openness_of(int32 queue_id);

/* The name of the view, of at most NAMEDATALEN bytes. */
void name_of_rights(int32 queue_id, char *name);

} // namespace pgq
