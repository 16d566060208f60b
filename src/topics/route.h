/*
 * Which queues get the jobs of a topic. Each backend remembers all bindings, and the answers for its
 * last topics, until the server reports that the bindings may have changed.
 */
#pragma once

#include "catalog/binding_row.h"

namespace pgq {

/* The bindings whose patterns match a topic, sorted by the id of the queue, then by pattern_less(). */
struct Route
{
	const Binding *bindings;
	int n;
};

/*
 * Return the route of the topic, by the bindings that are committed by now and those of this
 * transaction. The route is valid until the next call.
 */
Route route_topic(std::string_view topic);

/* Like route_topic(), for a role that publishes. Raises 42501 if it has no right to. */
Route route_to_publish(std::string_view topic);

} // namespace pgq
