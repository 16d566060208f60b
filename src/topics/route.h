/*
 * Which queues get the jobs of a topic. Each backend remembers all bindings, and the answers for
 * its last topics, until the server reports that the bindings may have changed.
 */
#pragma once

#include "catalog/binding_row.h"

namespace pgq {

/* A route is a copy in the memory of the caller. */
struct Route
{
	const Binding *bindings; /* sorted by the id of the queue */
	int n;
	Jsonb *header; /* the JSON object {"topic": topic}; only of route_to_publish(), else NULL */
};

/*
 * Return all bindings whose patterns match the topic, by the bindings that are committed by now and
 * those of this transaction. The bindings of a queue are sorted by `skip_if_full`, then by
 * pattern_less().
 */
Route route_topic(std::string_view topic);

/*
 * Return the route for a role that publishes: one binding for each queue, which says what happens
 * if the queue is full. The queue is skipped only if all its bindings say so. Raises 42501 if the
 * role has no right to publish to the topic.
 */
Route route_to_publish(std::string_view topic);

/* Free the memory of the route. */
void free_route(const Route &route);

} // namespace pgq
