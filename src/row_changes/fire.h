/* What the triggers of a watch do. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Enqueue the jobs for the rows that the statement has changed. Raises 42501 if the owner of the
 * table may not enqueue, 42703 and 42704 if a column or the queue of the watch is gone, PQ002 if
 * the queue is full, 54000 if a row is too long for JSON.
 */
void enqueue_row_changes(const TriggerData *data);

} // namespace pgq
