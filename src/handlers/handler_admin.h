/* Setting, dropping, pausing and resuming the handler of a queue. */
#pragma once

#include "catalog/handler_row.h"

namespace pgq {

/*
 * Set the handler of the queue. given: the fields function, workers, timeout, batch, idle and
 * run_as of the new handler; timeout and idle: the same values as SQL intervals. Errors: 42704 the
 * queue or the role does not exist; 42883 the function does not exist; 42P13 the function cannot be
 * a handler; 42501 the caller, or the role run_as, lacks a right; 55000 the role may not log in, or
 * the SQL objects are of version 0.1.
 */
void set_handler(const char *queue, const HandlerRow &given, Datum timeout, Datum idle);

/* Returns false if the queue has no handler. */
bool drop_handler(const char *queue);

/* Raise 42704 if the queue has no handler. */
void pause_handler(const char *queue);
void resume_handler(const char *queue);

} // namespace pgq
