/* Setting, dropping, pausing and resuming the handler of a queue. */
#pragma once

#include "catalog/handler_row.h"

namespace pgq {

/*
 * Set the handler of the queue. given: function, workers, timeout, batch, idle, run_as; timeout and
 * idle also as intervals. Raises 42704 (no such queue), 42P13, 42883, 42501, 55000.
 */
void set_handler(const char *queue, const HandlerRow &given, Datum timeout, Datum idle);

/* Returns false if the queue has no handler. */
bool drop_handler(const char *queue);

/* Raise 42704 if the queue has no handler. */
void pause_handler(const char *queue);
void resume_handler(const char *queue);

} // namespace pgq
