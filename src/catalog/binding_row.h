/* The rows of pgq_ext.topic_binding: which queues get the jobs of which topics. */
#pragma once

#include "pg/pg.h"

#include <string_view>

namespace pgq {

struct Binding
{
	int32 queue_id;
	bool skip_if_full; /* a publish leaves the queue out if it is full, instead of raising PQ002 */
	std::string_view pattern;
};

/*
 * Read all bindings, as committed by now and with the changes of this transaction, whatever its
 * isolation level. They are sorted by pattern_less(), and within a pattern by the id of the queue.
 * Rows with a pattern that pgq_bind refuses are left out. *lasting: whether the bindings may be
 * kept in memory, see lock_topic_table(), whose errors are raised.
 */
Binding *read_bindings(int *n, bool *lasting);

/* Insert the binding, or change its `skip_if_full`. The caller has locked the queue. */
void write_binding(const Binding &binding);

/* Delete the binding. Returns false if there is none. */
bool delete_binding(int32 queue_id, std::string_view pattern);

/* Delete all bindings of a queue that is being dropped. */
void delete_bindings_of(int32 queue_id);

} // namespace pgq
