/* Writing the options of a queue to its row. Called within as_owner(). */
#pragma once

#include "engine/queue_options.h"

namespace pgq {

/*
 * Insert the queue's row. Options that are not arguments get the default of their column. Raises
 * 55000 if the table lacks the column of an option that is set; so does update_queue_row().
 */
void insert_queue_row(const char *name, const Datum *options);

/* Update the queue's row, which also locks the row. Returns whether the row exists. */
bool update_queue_row(const char *name, const Datum *options, const bool *given);

} // namespace pgq
