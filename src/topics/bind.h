/* Binding queues to patterns. */
#pragma once

#include "pg/pg.h"

#include <string_view>

namespace pgq {

/* The options of a binding. */
struct BindOptions
{
	bool skip_if_full;
};

/* Read the options. Raises 22023. */
BindOptions bind_options(const Jsonb *options);

/* Return the pattern as bytes. Raises 22023 for a bad pattern. */
std::string_view checked_pattern(const text *text);

/*
 * Bind the queue to the pattern, or change the options of the binding. The queue is locked until
 * the transaction ends. Raises 42704, 42501, and 22023 for a bad pattern.
 */
void bind_queue(const text *pattern, const char *queue, const BindOptions &options);

/* Remove the binding. Returns false if there is none. Raises 42704, 42501. */
bool unbind_queue(const text *pattern, const char *queue);

} // namespace pgq
