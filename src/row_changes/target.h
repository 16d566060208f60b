/*
 * The target of a watch: a queue or a topic.
 *
 * An argument names the target: 'NAME' and 'queue:NAME' are a queue, 'topic:NAME' is a topic. A
 * trigger stores a queue by its id and the time of its creation, so that the watch follows a rename
 * of the queue, and never enqueues to another queue: neither to a later one of the same name, nor,
 * if only the table was restored in another database, to one that has the same id there.
 */
#pragma once

#include "core/topic_match.h"
#include "engine/queue.h"

namespace pgq {

struct WatchTarget
{
	bool is_topic;
	char name[kMaxTopicLength + 1]; /* of a queue: the name when the watch was made */
	int32 queue_id;					/* 0 for a topic */
	TimestampTz created_at;			/* of the queue */
};

/* Read an argument of pgq_watch_table. Does not look the queue up. Raises 22023. */
WatchTarget target_of_argument(Datum argument);

/*
 * Set the id and the time of the target, a queue. The current role needs the right to enqueue.
 * Raises 42704, 42501.
 */
void identify_queue(WatchTarget *target);

/*
 * Raise 42501 unless the current role may enqueue into the queue of that id, or publish to the
 * topic.
 */
void require_right_on_target(const WatchTarget &target);

/* Return the arguments of the trigger that store the target. */
const char *name_argument(const WatchTarget &target);
const char *identity_argument(const WatchTarget &target);

/* Read the arguments of a trigger. Returns false if they are not such arguments. */
bool target_of_trigger(const char *name, const char *identity, WatchTarget *target);

/*
 * Look the queue of the target up. Returns false if it does not exist. *name: receives its present
 * name, palloc'd.
 */
bool find_target_queue(const WatchTarget &target, char **name);

/*
 * Return whether the target of a trigger is the one that an argument names: the same topic, or the
 * queue that has the name now. If the queue of the trigger does not exist, its former name counts.
 */
bool is_same_target(const WatchTarget &of_trigger, const WatchTarget &of_argument);

} // namespace pgq
