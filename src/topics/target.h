/* The queues that get the jobs of a publish. */
#pragma once

#include "steps/depth.h"
#include "topics/route.h"

namespace pgq {

/* Bindings, one for each queue, in the order of the ids of the queues. */
struct Targets
{
	Binding *bindings;
	int n;
};

/*
 * Copy the bindings of a route of route_to_publish(), with their patterns. like: earlier targets in
 * the same memory, whose copies of the same patterns are used again.
 */
Targets copy_targets(const Route &route, const Targets &like = {});

/* A queue that gets jobs. The transaction has locked it for writing. */
struct Target
{
	QueueRef ref;
	Binding binding;
};

inline Room
room_by(const Binding &binding)
{
	return binding.skip_if_full ? Room::kTakeOrSkip : Room::kTake;
}

/* Return the name of the queue. */
text *name_of_target(const QueueRef &ref);

/*
 * Error context callback: name the pattern by which the queue is bound. binding: a pointer to the
 * Binding.
 */
void say_pattern(void *binding);

/* Call body() with an error context that names the pattern. */
template <typename Body>
void
for_binding(const Binding &binding, Body body)
{
	ErrorContextCallback context = {error_context_stack, say_pattern,
									const_cast<Binding *>(&binding)};
	error_context_stack = &context;
	body();
	error_context_stack = context.previous;
}

/*
 * Raise PQ003: no queue has got a job of the topic. skipped: there are queues, but all were
 * skipped.
 */
[[noreturn]] void complain_unroutable(std::string_view topic, bool skipped);

} // namespace pgq
